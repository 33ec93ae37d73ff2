"""Regular expressions from untrusted input: every search takes time linear in the text.

Kubernetes reads the patterns of schemas and the argument of CEL's `matches` with Go's regexp, which has the syntax of
RE2; this module uses RE2 itself. Python's `re` backtracks: `^(a+)+$` over forty characters practically never ends.
Linear time is still (size of the program) x (bytes of the text). `Pattern.cost` bounds the cost of a search, so that a
caller with a budget can refuse a search before it starts. Syntax that `re` accepts and RE2 does not (look-around,
back-references, `\\Z`) is refused, as upstream refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

MAX_LENGTH = 16 * 1024
"""Maximum length of a pattern in characters."""
MAX_NESTING = 1000
"""Maximum nesting of parentheses (regexp/syntax.maxHeight)."""
_MEMORY = 512 * 1024
"""Maximum size of a compiled pattern and its states during a search, in bytes."""
_KEPT = 128
_SHOWN = 64
_CALL = 16
"""Overhead of a search beyond its steps, in bytes of text."""


class PatternError(ValueError):
    """An invalid pattern; `str()` is the reason in Go's words, in one line."""


class Pattern:
    """A compiled pattern; a search changes nothing and is safe in every thread."""

    __slots__ = ("_all", "_search", "size")

    def __init__(self, program: Any) -> None:
        self._search = program.search
        self._all = program.finditer
        self.size: int = program.programsize
        """Number of instructions of the program."""

    def found_in(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in the text."""
        try:
            return self._search(text) is not None
        except UnicodeEncodeError:  # a lone surrogate is not a character: nothing matches it
            return self._search(text.encode("utf-8", "replace").decode()) is not None

    def all_in(self, text: str) -> Iterator[tuple[str, int]]:
        """Yield the matches in the text from left to right, each with the number of characters after it.
        Together these searches are not linear: each may scan the rest of the text.
        """
        text = text.encode("utf-8", "replace").decode()
        for match in self._all(text):
            yield match.group(), len(text) - match.end()

    def cost(self, text: str) -> int:
        """Return the maximum number of steps of a search; a step takes some nanoseconds."""
        return self.size * (len(text) + _CALL)


def pattern(text: str) -> Pattern:
    """Return the compiled pattern. Raises PatternError."""
    if len(text) > MAX_LENGTH:
        raise PatternError(f"error parsing regexp: expression is longer than {MAX_LENGTH} characters")
    result = _compiled(text)
    if isinstance(result, str):
        raise PatternError(result)
    return result


@lru_cache(maxsize=_KEPT)
def _compiled(text: str) -> Pattern | str:
    import re2

    if _nesting(text) > MAX_NESTING:
        return f"error parsing regexp: expression nests too deeply: `{text[:_SHOWN]}...`"
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        return Pattern(re2.compile(text, options))
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        return f"error parsing regexp: {' '.join(reason.split())[: 4 * _SHOWN]}"
    except UnicodeEncodeError:
        return "error parsing regexp: invalid UTF-8"


def _nesting(text: str) -> int:
    """Return the maximum depth of the parentheses of a pattern, without escaped ones and those in classes."""
    if text.count("(") <= MAX_NESTING:
        return 0
    depth = deepest = at = 0
    inside = False
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif inside:
            inside = sign != "]"
        elif sign == "[":
            inside = True
            at += text[at + 1 : at + 2] == "^"
            at += text[at + 1 : at + 2] == "]"  # the first character of a class belongs to it
        elif sign == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif sign == ")":
            depth -= 1
        at += 1
    return deepest
