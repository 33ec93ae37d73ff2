"""The day of docs/up.md, copied line by line into a shell."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster import environment
from tests.waiting import DEADLINE

PAGE = Path(__file__).parents[2] / "docs" / "up.md"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_day_with_it_can_be_copied(tmp_path: Path) -> None:
    """Each line succeeds, and the gang has its room. The port is another one: a test has not the machine to itself."""
    section = PAGE.read_text().split("## Example: a gang in a full cluster\n")[1]
    for name, text in re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", section, re.DOTALL):
        (tmp_path / name).write_text(text)
    for example in (PAGE.parents[1] / "examples" / "up").glob("*.yaml"):
        (tmp_path / example.name).write_text(example.read_text())
    [block] = re.findall(r"```text\n(\$ reprieve up .*?)```", section, re.DOTALL)
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    assert lines[0].startswith("reprieve up -f nodes.yaml")
    lines[0] = lines[0].replace("reprieve up", "reprieve up --port 0")
    told = {**environment(tmp_path), "PATH": f"{Path(sys.executable).parent}:{environment(tmp_path)['PATH']}"}
    # Where a line fails nothing is left running.
    script = "\n".join(["set -e", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT", *lines])
    command, late = ["bash", "-c", script], 6 * DEADLINE
    done = subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, text=True, check=False, timeout=late)
    log = (tmp_path / "up.log").read_text()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{log}"
    assert "pod/train-1 condition met" in done.stdout
    assert "podgroup default/train" in done.stdout
    assert not (tmp_path / ".local/share/reprieve/up/state.db").exists()
