"""The walks of CONTRIBUTING.md, done on a copy of the repository: the files made, the lines changed, the commands run.

A block with the first line `# PATH` is a new file, or, as `diff`, a change of one: its lines without `+` stand in the
file exactly once, one after another, and give way to those without `-`.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import Block, blocks
from tests.docs.test_citations import files

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
_PATH = re.compile(r"# (\S+/\S+\.\w+)\n")


def walks() -> dict[str, list[Block]]:
    """Blocks by the heading they stand under."""
    found: dict[str, list[Block]] = {}
    lines = PAGE.read_text().splitlines()
    for block in blocks(PAGE):
        heading = next(line for line in reversed(lines[: block.line]) if line.startswith("## "))
        if heading.startswith("## Walk"):
            found.setdefault(heading.removeprefix("## "), []).append(block)
    return found


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository as it would be committed, with a command and a test runner that use the copy."""
    for path in files({".txt", ".json", ".gz", ".xz"}):
        there = tmp_path / path.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, there)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    runs = {"pytest": "-m pytest -p no:cacheprovider", "ruff": "-m ruff", "reprieve": "-m reprieve"}
    sources = ":".join(str(tmp_path / "packages" / name / "src") for name in ("kube-rules", "kube-standin", "reprieve"))
    for tool, run in runs.items():
        (tools / tool).write_text(f'#!/bin/sh\nPYTHONPATH={sources} exec {sys.executable} {run} "$@"\n')
        (tools / tool).chmod(0o755)
    return tmp_path


def change(path: Path, diff: str) -> None:
    """Make the change in the file; the test fails where its lines are not there once."""
    lines = diff.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    text = path.read_text()
    if (times := text.count(before)) != 1:
        pytest.fail(f"CONTRIBUTING.md is not true any more: {path.name} has these lines {times} times:\n{before}")
    path.write_text(text.replace(before, after))


@pytest.mark.parametrize("name", walks())
def test_walk_leads_where_it_says(name: str, copy: Path) -> None:
    for block in walks()[name]:
        named = _PATH.match(block.text)
        if block.language == "diff":
            assert named is not None, f"CONTRIBUTING.md:{block.line}"
            change(copy / named[1], block.text[named.end() :])
        elif named is not None:
            path = copy / named[1]
            assert not path.exists(), f"CONTRIBUTING.md:{block.line}: {named[1]} exists"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text[named.end() :])
        elif block.language == "sh":
            ended = subprocess.run(
                ["sh", "-ec", block.text], cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                check=False, timeout=1800,
            )  # fmt: skip
            assert ended.returncode == 0, f"CONTRIBUTING.md:{block.line}\n{ended.stdout}"


def test_walks_with_commands_exist() -> None:
    assert len(walks()) == 3
    assert all(any(block.language == "sh" for block in walk) for walk in walks().values())


@pytest.mark.parametrize("target", re.findall(r"^(make [a-z-]+)", PAGE.read_text(), re.MULTILINE))
def test_targets_that_are_named_exist(target: str) -> None:
    subprocess.run(["make", "-n", "-C", str(ROOT), *target.split()[1:]], check=True, capture_output=True)
