"""`kube-standin serve` as a user starts it: a real process over TLS, its kubeconfig, and how it ends."""

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_standin.command import main
from tests.waiting import DEADLINE

COMMAND = [sys.executable, "-m", "kube_standin", "serve"]
_COPIES_NOTHING_BACK = """
from kube_standin.command import main
from kube_standin.storage import store

store.CHECKPOINT_SECONDS = 3600
main()
"""


@contextmanager
def serving(*arguments: str, command: Sequence[str] = COMMAND) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A running server and the kubeconfig it printed."""
    process = subprocess.Popen(
        [*command, "--port", "0", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith("export KUBECONFIG="), process.communicate(timeout=DEADLINE)
        yield process, Path(line.partition("=")[2])
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def call(kubeconfig: Path, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """One request with what the kubeconfig says."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    request = urllib.request.Request(
        cluster["server"] + path,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, context=ssl.create_default_context(cadata=ca), timeout=DEADLINE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def nodes_of(kubeconfig: Path) -> list[str]:
    """Names of the nodes the server knows."""
    return sorted(item["metadata"]["name"] for item in call(kubeconfig, "/api/v1/nodes")[1]["items"])


def test_serve_keeps_its_state_and_stops_cleanly(tmp_path: Path) -> None:
    state = tmp_path / "state"
    reader = tmp_path / "reader"
    new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}
    with serving("--data-dir", str(state), "--nodes", "2", "--read-only-kubeconfig", str(reader)) as (server, config):
        assert config.is_absolute()
        assert config.stat().st_mode & 0o777 == 0o600
        assert reader.stat().st_mode & 0o777 == 0o600
        end = time.monotonic() + DEADLINE
        while nodes_of(config) != ["node-1", "node-2"]:
            assert time.monotonic() < end, nodes_of(config)
        assert call(config, "/api/v1/namespaces/default/configmaps", new)[0] == 201
        assert call(reader, "/api/v1/namespaces/default/configmaps/kept")[0] == 200
        assert call(reader, "/api/v1/namespaces/default/configmaps", new)[0] == 403
        server.send_signal(signal.SIGTERM)
        assert server.wait(DEADLINE) == 0
    with serving("--data-dir", str(state), "--controllers", "none", "--no-kubelets") as (_, config):
        assert call(config, "/api/v1/namespaces/default/configmaps/kept")[0] == 200


def test_nodes_come_from_manifests(tmp_path: Path) -> None:
    manifest = tmp_path / "nodes.yaml"
    manifest.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: gpu-1, labels: {pool: gpu}}, "
        "status: {allocatable: {cpu: '8', memory: 8Gi, pods: '10', nvidia.com/gpu: '8'}}}"
    )
    with serving("--data-dir", ":memory:", "-f", str(manifest)) as (_, config):
        end = time.monotonic() + DEADLINE
        while nodes_of(config) != ["gpu-1"]:
            assert time.monotonic() < end
        node = call(config, "/api/v1/nodes/gpu-1")[1]
        assert node["metadata"]["labels"]["pool"] == "gpu"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--controllers", "nonsense"], "unknown controller nonsense"),
        (["--max-input-bytes", "5x"], '--max-input-bytes: "5x": quantities must match'),
        (["--max-input-bytes", "0", "-f", "."], "--max-input-bytes: expected a size above 0"),
        (["-f", "missing.yaml"], "missing.yaml: No such file or directory"),
        (["--webhook-hosts", "https://x"], "--webhook-hosts: expected a host name"),
        (["--webhook-service", "a=b"], "--webhook-service: expected NAMESPACE/NAME=HOST:PORT"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
    ],
)
def test_start_that_fails_prints_one_line(arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [*COMMAND, "--data-dir", ":memory:", "--port", "0", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_damaged_file_is_named_and_left_alone(tmp_path: Path) -> None:
    damaged = tmp_path / "state.db"
    damaged.write_bytes(b"not a database" * 100)
    before = damaged.read_bytes()
    done = subprocess.run(
        [*COMMAND, "--data-dir", str(tmp_path), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 2
    assert "state.db" in done.stderr
    assert damaged.read_bytes() == before


def test_lost_records_are_named_and_accepted_on_demand(tmp_path: Path) -> None:
    """interfaces.md 5.5: kill -9, then a damaged write-ahead log: refused; --accept-loss goes on with the rest."""
    state = tmp_path / "state"
    path = "/api/v1/namespaces/default/configmaps"
    # Whatever has been copied back cannot be lost any more: here nothing is, however long the writes take.
    command = [sys.executable, "-c", _COPIES_NOTHING_BACK, "serve"]
    arguments = ("--data-dir", str(state), "--controllers", "none", "--no-kubelets")
    with serving(*arguments, command=command) as (server, config):
        for number in range(20):
            new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"kept-{number}"}}
            status, made = call(config, path, new)
            assert status == 201
        server.send_signal(signal.SIGKILL)
        server.wait(DEADLINE)
    wal = state / "state.db-wal"
    data = bytearray(wal.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4096] = b"\xa5" * 4096
    wal.write_bytes(data)
    done = subprocess.run(
        [*COMMAND, "--data-dir", str(state), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert str(state / "state.db") in done.stderr
    assert "--accept-loss" in done.stderr
    with serving("--data-dir", str(state), "--accept-loss", "--controllers", "none", "--no-kubelets") as (_, config):
        status, listed = call(config, path)
        assert status == 200
        assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    assert (state / "state.db-wal.damaged-1").read_bytes() == bytes(data)
    with serving("--data-dir", str(state), "--controllers", "none", "--no-kubelets") as (_, config):
        assert call(config, path)[1]["items"] == listed["items"]


def test_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*COMMAND, "--data-dir", ":memory:", "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
            env={**os.environ, "HOME": str(tmp_path)},
        )
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--version"], 0, f"kube-standin {version('kube-standin')}"),
        (["serve", "--help"], 0, "--read-only-kubeconfig FILE"),
        (["serve", "--prot", "1"], 2, "No such option: --prot"),
        (["serve", "--port", "65536"], 2, "65536 is not in the range 0<=x<=65535"),
        (["serve", "--data-dir", ""], 2, "Invalid value for '--data-dir': the name is empty."),
        (["serve", "--kubeconfig", ""], 2, "Invalid value for '--kubeconfig': the name is empty."),
        (["serve", "-f", ""], 2, "the name is empty."),
        (["nothing"], 2, "No such command 'nothing'"),
    ],
)
def test_options_of_the_program(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kube-standin", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    captured = capsys.readouterr()
    assert (ended.value.code or 0) == code
    assert message in (captured.err if code else captured.out)


def test_unwritable_data_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [*COMMAND, "--data-dir", str(tmp_path / "file" / "state"), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert str(tmp_path / "file") in done.stderr


def test_importing_it_imports_no_scheduler() -> None:
    """Every module of the package, in an interpreter of its own."""
    code = (
        "import pkgutil, sys, kube_standin\n"
        "for module in pkgutil.walk_packages(kube_standin.__path__, 'kube_standin.'):\n"
        "    if not module.name.endswith('__main__'): __import__(module.name)\n"
        "print(*(name for name in sys.modules if name.split('.')[0] in ('reprieve', 'numpy', 'aiohttp')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_test_controls_with_a_simulated_clock() -> None:
    with serving("--data-dir", ":memory:", "--nodes", "60", "--test-controls", "--simulated-clock") as (_, config):
        assert len(nodes_of(config)) == 60
        before = call(config, "/debug/kube-standin/clock")[1]["now"]
        code, answer = call(config, "/debug/kube-standin/clock", {"advance": "90s"})
        passed = datetime.fromisoformat(answer["now"]) - datetime.fromisoformat(before)
        assert (code, passed.total_seconds()) == (200, 90.0)
    done = subprocess.run([*COMMAND, "--simulated-clock"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--simulated-clock needs --test-controls" in done.stderr
