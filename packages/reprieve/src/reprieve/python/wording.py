"""Numbers and times in words, the same wherever something is reported."""


def count(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def seconds_text(seconds: float) -> str:
    """`0 s`, `31 s`, `2 h 5 min`, `3 d 4 h`: the two largest units."""
    if seconds < 60:
        return f"{seconds:.3f}".rstrip("0").rstrip(".") + " s"
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for size, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if left >= size or parts:
            parts.append((left // size, name))
            left %= size
    return " ".join(f"{number} {name}" for number, name in parts[:2] if number)
