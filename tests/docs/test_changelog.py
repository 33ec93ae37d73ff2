"""Fragments of the changelog: named and written so that a release can put them together (docs/release.md)."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "changelog.d"
OTHERS = {"README.md", "template.md.jinja"}
TYPES = ("added", "changed", "deprecated", "removed", "fixed", "security")


def fragments() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path.name not in OTHERS)


def problem(name: str, text: str) -> str | None:
    """None, or what is wrong with a fragment."""
    if not re.fullmatch(rf"[a-z0-9]+(-[a-z0-9]+)*\.({'|'.join(TYPES)})\.md", name):
        return f"is not called SLUG.TYPE.md, with one of {', '.join(TYPES)}"
    words = text.strip()
    if not words.endswith((".", ")", "`")) or len(words) > 700:
        return "is not one to three sentences"
    if re.search(r"^(#|- |\* )", words, re.MULTILINE):
        return "has a heading or a list"
    if re.search(r"(?<!\w)#\d", words) or "../" in words:
        return "speaks of an issue or of a place outside of the product"
    return None


def test_every_fragment_can_be_put_into_the_changelog() -> None:
    told = [f"{path.name} {why}" for path in fragments() if (why := problem(path.name, path.read_text()))]
    assert not told, "\n".join(told)


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("drain-order.fixed.md", "Nodes are drained by name.\n", False),
        ("Drain.fixed.md", "Nodes are drained by name.", True),
        ("drain.mended.md", "Nodes are drained by name.", True),
        ("drain.fixed.txt", "Nodes are drained by name.", True),
        ("drain.fixed.md", "\n", True),
        ("drain.fixed.md", "- Nodes are drained by name.", True),
        ("drain.fixed.md", "Nodes are drained by name (#12).", True),
    ],
)
def test_fragments_that_are_allowed(name: str, text: str, wrong: bool) -> None:
    assert (problem(name, text) is not None) == wrong


def test_towncrier_takes_all_of_them() -> None:
    drafted = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9", "--date", "2030-01-01"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "## 9.9.9 (2030-01-01)\n" in drafted
    said = re.sub(r"\s+", " ", drafted)
    for path in fragments():
        assert re.sub(r"\s+", " ", path.read_text()).strip() in said, path.name


def test_fragment_types_are_those_of_the_configuration() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    assert tuple(kind["directory"] for kind in configured["type"]) == TYPES
    assert configured["start_string"] in (ROOT / "CHANGELOG.md").read_text()
