"""Untrusted text, made safe to print on a terminal.

Names, messages and annotations come from objects that any client may write. A terminal obeys control characters in
them: colours, titles, cursor moves, text that runs backwards. This module replaces them with visible escapes.
"""

from __future__ import annotations

from typing import Final

_BREAKS: Final = str.maketrans(dict.fromkeys("\t\n\v\f\r", " "))


def printable(text: str, *, keep: str = "\n") -> str:
    r"""Return the text with unprintable characters, except those in `keep`, replaced by their escapes (`\x1b`).

    Unprintable are control characters (C0, DEL, C1), marks that change the direction of text or do not show, line and
    paragraph separators, spaces other than the plain one, and lone surrogates.
    """
    if all(map(str.isprintable, text.split(keep) if len(keep) == 1 else (text,))):
        return text
    return "".join(item if item.isprintable() or item in keep else escaped(item) for item in text)


def printable_line(text: str) -> str:
    """Return the text as one line: line breaks and tabs become spaces, other characters as in `printable`."""
    return printable(text.translate(_BREAKS), keep="")


def escaped(character: str) -> str:
    r"""Return the escape of a character in Python and YAML: `\x1b`, `\u202e`, `\U000e0001`."""
    return character.encode("unicode_escape").decode()
