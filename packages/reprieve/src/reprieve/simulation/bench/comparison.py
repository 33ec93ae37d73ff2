"""A comparison of two sets of figures: the output of `reprieve bench -o json` before and after a change.

Scenarios are matched by name, in the order of the first file. Of several figures with one name the fastest counts,
because the others were delayed. The output of `--growth` is read as its runs.
"""

from pathlib import Path

import msgspec

from reprieve.simulation.bench.scenario_run import BenchMeasurement
from reprieve.simulation.bench.series import Growth

_MOST_BYTES = 64 << 20
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of msgspec for invalid JSON, text that is not UTF-8, and too deeply nested values."""


class FiguresError(Exception):
    """A file without valid figures; the message states the file and the reason."""


class BenchComparison(msgspec.Struct, frozen=True, rename="camel"):
    """One scenario of both files. `ratio`: seconds after / seconds before; None if one is missing."""

    scenario: str
    before: BenchMeasurement | None
    after: BenchMeasurement | None
    ratio: float | None


def compare(before: Path, after: Path) -> list[BenchComparison]:
    """Return both files' figures by scenario. Raises FiguresError."""
    first, second = _fastest(before), _fastest(after)
    result = []
    for name in dict.fromkeys((*first, *second)):
        old, new = first.get(name), second.get(name)
        comparable = old is not None and new is not None and old.seconds > 0
        ratio = round(new.seconds / old.seconds, 3) if comparable and old is not None and new is not None else None
        result.append(BenchComparison(name, old, new, ratio))
    return result


def _fastest(path: Path) -> dict[str, BenchMeasurement]:
    fastest: dict[str, BenchMeasurement] = {}
    for figure in _read(path):
        fastest_run = fastest.get(figure.scenario)
        if fastest_run is None or figure.seconds < fastest_run.seconds:
            fastest[figure.scenario] = figure
    return fastest


def _read(path: Path) -> list[BenchMeasurement]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise FiguresError(f"{path}: more than {_MOST_BYTES >> 20} MiB, these are no figures of reprieve bench")
        content = path.read_bytes()
    except OSError as error:
        raise FiguresError(f"{path}: {error.strerror or error}") from None
    try:
        grown = msgspec.json.decode(content, type=list[Growth])
        return [run for family in grown for run in family.runs]
    except _UNREADABLE:
        pass
    try:
        return msgspec.json.decode(content, type=list[BenchMeasurement])
    except _UNREADABLE as error:
        raise FiguresError(f"{path}: not what reprieve bench -o json writes: {error}") from None
