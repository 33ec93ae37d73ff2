"""Log lines on stderr, as text or JSON: one per decision (observability.md).

Verbosity is kube-scheduler's `-v`: 0 for errors and the lifecycle of the process, 2 for every decision, 4 for details
of each, 5 for debugging the scheduler itself. Only names, UIDs and priorities of objects are logged, with the
scheduler's own messages, so logs contain no secrets.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from kube_rules.printable import printable

DECISIONS: Final = 2
DETAILS: Final = 4
_SPECIAL: Final = re.compile(r'[ "=\\]')


class Log:
    """Writes lines with a level up to `verbosity`. `form`: `text` or `json`."""

    def __init__(self, verbosity: int = DECISIONS, *, form: str = "text", stream: TextIO | None = None) -> None:
        if form not in ("text", "json"):
            raise ValueError(f"log format {form!r} is neither text nor json")
        self.verbosity = verbosity
        last: Processor = structlog.processors.JSONRenderer() if form == "json" else _text
        # UTC with microseconds, so that lines of several machines can be sorted.
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts")
        to = stream if stream is not None else sys.stderr
        self._logger: Any = structlog.wrap_logger(structlog.PrintLogger(to), processors=[stamp, last]).bind()

    def at(self, level: int) -> bool:
        """Return whether lines of that level are written. Check it before computing expensive details."""
        return level <= self.verbosity

    def info(self, event: str, /, *, v: int = 0, **details: Any) -> None:
        """Write a line of level `v`."""
        if v <= self.verbosity:
            self._logger.info(event, level="info", **details)

    def warning(self, event: str, /, **details: Any) -> None:
        """Write a warning about something that is allowed but probably not intended. Omitted only below verbosity 0."""
        if self.verbosity >= 0:
            self._logger.warning(event, level="warning", **details)

    def error(self, event: str, /, **details: Any) -> None:
        """Write a line at any verbosity."""
        self._logger.error(event, level="error", **details)


def _text(_logger: WrappedLogger, _method: str, line: EventDict) -> str:
    """Return a line like `2026-07-01T12:00:00.000000Z info Decided pod=default/a`; values with spaces are quoted."""
    stamp, level, event = line.pop("ts"), line.pop("level"), line.pop("event")
    rest = "".join(f" {key}={_value(value)}" for key, value in line.items())
    return f"{stamp} {level} {printable(str(event), keep='')}{rest}"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    plain = text and text.isprintable() and _SPECIAL.search(text) is None
    if plain:
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(quoted, keep="")}"'  # no name or error text of an object can start a new line
