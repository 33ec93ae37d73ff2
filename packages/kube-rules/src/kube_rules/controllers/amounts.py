"""Amounts for controllers: shares of a number of pods."""

from __future__ import annotations


def share_of(value: int | str, total: int, *, up: bool) -> int:
    """Resolve an int-or-percentage against ``total``: ``"25%"`` of 10 is 3 rounded up, 2 rounded down.

    Raises ValueError for a text that is not a percentage.
    """
    if not isinstance(value, str):
        return int(value)
    if not value.endswith("%"):
        raise ValueError(f"{value!r} is neither a number nor a percentage")
    share = int(value[:-1]) * total
    return -(-share // 100) if up else share // 100
