"""Shared phrases for reporting decisions: numbers, times, names."""

from collections.abc import Sequence
from typing import Final

from kube_rules.errors import names_text

_MOST_DOMAINS: Final = 4


def count(number: int, noun: str) -> str:
    """Return `1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def domains_text(level: str, domains: Sequence[str], breaks: int) -> str:
    """Return a group's use of a topology level, such as `rack: 2 domains (r1, r2), 1 rank break`."""
    names = names_text(domains, _MOST_DOMAINS)
    apart = f", {count(breaks, 'rank break')}" if breaks else ""
    return f"{level}: {count(len(domains), 'domain')} ({names}){apart}"


def seconds_text(seconds: float) -> str:
    """Return the two largest units of a duration: `0 s`, `31 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.3f}".rstrip("0").rstrip(".") + " s"
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for size, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if left >= size or parts:
            parts.append((left // size, name))
            left %= size
    return " ".join(f"{number} {name}" for number, name in parts[:2] if number)


def to_the_second(time: str) -> str:
    """Return a time (RFC 3339, UTC) without fractional seconds."""
    return f"{time.partition('.')[0].removesuffix('Z')}Z"
