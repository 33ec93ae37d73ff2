"""CSV cells that no spreadsheet takes for a formula (interfaces.md 1.13; OWASP, "CSV Injection")."""

from __future__ import annotations

import re
from typing import Final

_FORMULA: Final = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def guarded(text: str) -> str:
    """Return the text, after a `'` if a spreadsheet would take it for a formula; numbers are unchanged."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unguarded(text: str) -> str:
    """Return the original text of `guarded`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
