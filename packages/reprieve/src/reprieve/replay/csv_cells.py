"""Cells of CSV that no spreadsheet takes for a formula (interfaces.md 1.13; OWASP, "CSV Injection")."""

from __future__ import annotations

import re
from typing import Final

_FORMULA: Final = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def guarded(text: str) -> str:
    """Return the text with a `'` before it if a spreadsheet would take it for a formula; numbers are as they were."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unguarded(text: str) -> str:
    """Return the text that `guarded` was given."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
