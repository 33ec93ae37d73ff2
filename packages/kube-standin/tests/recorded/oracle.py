"""The recorded answers of a real API server (shared/reference/apiserver-1.36) as an oracle for pure
functions.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, NamedTuple

from tests.outside import BESIDE, needs

DIRECTORY = BESIDE / "reference" / "apiserver-1.36"
Json = dict[str, Any]

needs_transcripts = needs(DIRECTORY)


class Transcript(NamedTuple):
    """One request with its answer; placeholders for times and uids are replaced by fixed values."""

    name: str
    method: str
    path: str
    content_type: str
    body: Any
    status: int
    answer: Any

    @property
    def causes(self) -> list[tuple[str, str | None, str]]:
        """Causes of a refusal as (reason, field, message)."""
        details = self.answer.get("details", {})
        return [(c["reason"], c.get("field"), c["message"]) for c in details.get("causes", ())]


def _plain(text: str) -> str:
    text = re.sub(r'"<time[^"]*>"', '"2026-01-01T00:00:00Z"', text)
    text = re.sub(r'"<microtime>"', '"2026-01-01T00:00:00.000000Z"', text)
    text = re.sub(r"<uid:(\d+)>", lambda m: f"00000000-0000-4000-8000-{int(m[1]):012}", text)
    return re.sub(r"<rv:(\d+)>", r"\1", text)


@cache
def _all() -> dict[str, Transcript]:
    found: dict[str, Transcript] = {}
    for file in sorted(DIRECTORY.glob("*.json")):
        raw = json.loads(_plain(file.read_text()))
        request, response = raw["request"], raw["response"]
        found[file.stem] = Transcript(
            file.stem,
            request["method"],
            request["path"],
            request["headers"].get("Content-Type", ""),
            request.get("body"),
            response["status"],
            response.get("body"),
        )
    return found


def every() -> list[Transcript]:
    """All transcripts, in order; none where they are not at hand."""
    return list(_all().values())


def transcript(number: int) -> Transcript:
    """The transcript with this number."""
    return next(one for name, one in _all().items() if name.startswith(f"{number:03}-"))
