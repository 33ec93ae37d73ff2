"""A command as a process of its own: what it imports and starts, and an output that takes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLANS = Path(__file__).parent / "plans"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["plan", "--help"], ["import", "openb", "--help"]])
def test_help_and_version_start_without_numpy_and_the_engine(arguments: list[str]) -> None:
    """performance.md 2.3: start-up under half a second (performance.md): what would take longer is not imported."""
    heavy = {"numpy", "rich", "yaml", "msgspec", "pydantic", "reprieve.scheduling", "kube_rules.meta"}
    assert _imported(arguments) & (heavy | _OF_SERVERS) == set()


def test_plan_without_devices_and_third_party_plugins_starts_without_what_they_need() -> None:
    """A plan of ten nodes takes 0.35 s (performance.md), of which all but a few milliseconds are imports."""
    arguments = ["plan", "-f", str(PLANS / "eviction.yaml"), "-o", "json"]
    heavy = {"rich", "pydantic", "kube_rules.cel", "importlib.metadata", "email"}
    found = _imported(arguments)
    assert found & (heavy | _OF_SERVERS) == set()
    assert "numpy" in found


_OF_SERVERS = {"asyncio", "sqlite3", "ssl", "aiohttp", "uvicorn", "cryptography", "prometheus_client", "structlog"}


def _imported(arguments: list[str]) -> set[str]:
    """The modules there are after a command that wrote something and no error."""
    program = (
        "import sys\n"
        "from reprieve.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as ended:\n"
        "    assert not ended.code\n"
        "print('', *sys.modules, sep='\\n')\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    shown, _, modules = ended.stdout.rpartition("\nsys\n")
    assert shown
    return {"sys", *modules.split()}


def test_start_up_imports_nothing_heavy() -> None:
    """performance.md 2.3: start-up of any command that needs no cluster under 0.5 s."""
    code = (
        "import sys, reprieve.cli.commands; print([m for m in ('numpy', 'aiohttp', 'structlog') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert found.stdout == "[]\n"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_plan_starts_no_threads(tmp_path: Path) -> None:
    """Those of numpy's BLAS would only spin: a third of the processor time of a short command."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: '1', pods: '9'}}}"
    )
    text = (
        "import os, sys\n"
        "from reprieve.cli.main import main\n"
        f"sys.argv = ['reprieve', 'plan', '-f', {str(cluster)!r}]\n"
        "try: main()\n"
        "except SystemExit: print(len(os.listdir('/proc/self/task')), 'numpy' in sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines()[-1] == "1 True"


def test_reader_that_has_gone_away_ends_the_command_quietly() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write) as gone:
        command = [sys.executable, "-m", "reprieve", "plan", "-f", str(PLANS / "eviction.yaml"), "-o", "json"]
        ended = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("form", ["text", "json"])
def test_output_that_cannot_be_written_is_an_error(form: str) -> None:
    """interfaces.md: exit 1 would say that the thing asked about is not so."""
    command = [sys.executable, "-m", "reprieve", "plan", "-f", str(PLANS / "eviction.yaml"), "-o", form]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "error: the output cannot be written: No space left on device\n")
