"""The types of docs/types.md: every term leads to a type that exists, where the link says."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "types.md"
_LINK = r"\[`(\w+)`\]\(\.\./packages/[\w-]+/src/([\w/]+)\.py\)"
ROWS = re.findall(rf"^\| ([^|]+) \| ([^|]+) \| {_LINK} \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("term", "meaning", "name", "path"), ROWS, ids=[row[0] for row in ROWS])
def test_term_is_a_type(term: str, meaning: str, name: str, path: str) -> None:
    module = importlib.import_module(path.replace("/", "."))
    found = getattr(module, name, None)
    assert isinstance(found, type), f"{term}: {path}.py has no type {name}"
    assert found.__module__ == module.__name__, f"{term}: {name} is defined in {found.__module__}"
    assert found.__doc__, f"{name} does not say what it is"
    assert meaning


def test_every_row_is_read_and_there_are_thirty() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "| meaning |" not in line]
    assert len(rows) == len(ROWS) >= 30
    assert len({row[2] for row in ROWS}) == len(ROWS)
