"""docs/architecture.md, "Where to find it": every file that the table names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (ROOT, ROOT / "packages/reprieve/src/reprieve", *(ROOT / "packages").glob("kube-*/src"))


def rows() -> list[tuple[str, list[str]]]:
    """Each question of the table with the paths of its answer; a path without a room is beside the one before."""
    table = (ROOT / "docs/architecture.md").read_text().partition("## Where to find it")[2].partition("\n## ")[0]
    cells = [line.strip("|").split(" | ", 1) for line in table.splitlines() if line.startswith("| ")]
    path = re.compile(r"`([\w./*-]+(?:\.py|\.yaml|\.toml|/))`")
    return [(asked.strip(), path.findall(answer)) for asked, answer in cells if asked.strip()]


def found(path: str, beside: list[Path]) -> list[Path]:
    pattern = path.removesuffix("/").replace("NAME", "*")
    return [match for room in (*beside, *ROOMS) for match in room.glob(pattern)]


@pytest.mark.parametrize(("asked", "paths"), rows(), ids=lambda item: item if isinstance(item, str) else "")
def test_files_that_answer_a_question_exist(asked: str, paths: list[str]) -> None:
    assert paths, asked
    beside: list[Path] = []
    for path in paths:
        matches = found(path, beside)
        assert matches, f"{asked}: {path}"
        beside = [matches[0] if matches[0].is_dir() else matches[0].parent]
