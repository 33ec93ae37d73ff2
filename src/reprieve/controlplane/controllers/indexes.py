"""Completed indexes of a Job as its status writes them: ``0-2,5``."""

from __future__ import annotations

from collections.abc import Iterable


def read_indexes(text: str) -> set[int]:
    """Return the indexes; parts that are no numbers are left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            found.update(range(int(first), int(last or first) + 1))
    return found


def write_indexes(indexes: Iterable[int]) -> str:
    """Return the text; two or more in a row become a range."""
    parts: list[str] = []
    run: list[int] = []
    for index in (*sorted(indexes), None):
        if run and index is not None and index == run[-1] + 1:
            run.append(index)
            continue
        if run:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
        run = [index] if index is not None else []
    return ",".join(parts)
