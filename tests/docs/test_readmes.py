"""The examples of the packages' READMEs, run as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import Block, blocks

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    pytest.param(block, id=f"{path.parent.name}:{block.line}")
    for path in sorted(ROOT.glob("packages/*/README.md"))
    for block in blocks(path)
    if block.language in {"python", "sh"}
]


def test_each_package_has_an_example() -> None:
    assert len({str(example.id).partition(":")[0] for example in EXAMPLES}) == 3


@pytest.mark.parametrize("package", ["kube-rules", "kube-standin", "reprieve"])
def test_readme_of_a_package_leads_nowhere_that_an_index_does_not_have(package: str) -> None:
    """A package index shows it alone: links to other files of the repository, and pictures, would be dead there."""
    text = (ROOT / "packages" / package / "README.md").read_text()
    assert not re.findall(r"\]\((?!https://|#)[^)]*\)", text)


@pytest.mark.parametrize("block", EXAMPLES)
def test_example_works(block: Block, tmp_path: Path) -> None:
    """A block that begins with `# test_NAME.py` is a file for pytest, another one a script."""
    programs = Path(sys.executable).parent
    if block.language == "sh":
        command = ["sh", "-ec", block.text]
    else:
        name = block.text.partition("\n")[0].removeprefix("# ")
        file = tmp_path / (name if name.startswith("test_") else "example.py")
        file.write_text(block.text)
        command = [sys.executable, str(file)]
        if file.name == name:
            without = ["-p", "no:cacheprovider", "-p", "no:schemathesis"]
            command[1:1] = ["-m", "pytest", "-q", *without, "--rootdir", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=ROOT if block.language == "sh" else tmp_path,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
