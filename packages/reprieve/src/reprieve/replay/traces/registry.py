"""The formats that are registered: those that come with reprieve, and those of other packages (replay.md 2.6)."""

from importlib import import_module
from typing import Final

from reprieve.replay.traces.importer import Importer

ENTRY_POINTS: Final = "reprieve.importers"
BUILT_IN: Final = {
    "openb": "openb",
    "philly": "philly",
    "philly-log": "philly_log",
    "spot-gpu": "spot_gpu",
    "helios": "helios",
    "acme": "acme",
    "gavel": "gavel",
}
"""Format -> its module here."""


class UnknownFormatError(ValueError):
    """No such format, or one that cannot be loaded; `str()` says which there are."""


def importer_of(name: str) -> Importer:
    """Return the importer of a format. Raises UnknownFormatError."""
    module = BUILT_IN.get(name)
    if module is not None:
        result = import_module(f"reprieve.replay.traces.{module}").IMPORTER
        assert isinstance(result, Importer)
        return result
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in points:
        raise UnknownFormatError(f'"{name}" is no known format; known: {", ".join((*BUILT_IN, *sorted(points)))}')
    try:
        result = points[name].load()
    except Exception as error:
        raise UnknownFormatError(f'"{name}" of {points[name].value} cannot be loaded: {error}') from None
    if not isinstance(result, Importer):
        raise UnknownFormatError(f'"{name}" of {points[name].value} is no Importer')
    return result
