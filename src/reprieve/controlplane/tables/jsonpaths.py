"""The JSONPath of printer columns of custom resources: fields, indices, `[*]`, filters like
`[?(@.type=="Ready")]`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z0-9_$-]+|\*)"""
    r"""|\[(?P<index>-?[0-9]+)\]"""
    r"""|\[(?P<all>\*)\]"""
    r"""|\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]"""
    r"""|\[\?\(@(?P<left>[^=!<>]*?)\s*(?P<sign>==|!=)\s*(?P<right>"[^"]*"|'[^']*'|[^)]*)\)\]""",
    re.ASCII,
)
_DOTTED = re.compile(r"\.([A-Za-z0-9_$\0/-]*\0[A-Za-z0-9_$\0/-]*)", re.ASCII)


class Step(NamedTuple):
    """One step: a key, an index, everything, or a filter (path, sign, literal)."""

    kind: str
    value: Any


@lru_cache(maxsize=512)
def compiled(path: str) -> tuple[Step, ...] | None:
    """The steps of a path; None if it is not understood."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$").replace("\\.", "\0")
    steps: list[Step] = []
    at = 0
    if text and text[0] not in ".[":
        text = "." + text
    while at < len(text):
        # A key may hold escaped dots; they are \0 here.
        dotted = _DOTTED.match(text, at)
        if dotted is not None:
            steps.append(Step("key", dotted[1].replace("\0", ".")))
            at = dotted.end()
            continue
        match = _STEP.match(text, at)
        if match is None:
            return None
        at = match.end()
        steps.append(_step(match))
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["name"] == "*" or match["all"]:
        return Step("all", None)
    if match["name"] is not None:
        return Step("key", match["name"])
    if match["index"] is not None:
        return Step("index", int(match["index"]))
    if match["quoted"] is not None:
        return Step("key", match["quoted"])
    right = match["right"].strip()
    literal: Any = right.strip("\"'")
    if right in ("true", "false"):
        literal = right == "true"
    elif re.fullmatch(r"-?[0-9]+", right):
        literal = int(right)
    return Step("filter", (match["left"], match["sign"], literal))


def find(path: str, obj: Any) -> list[Any]:
    """All values a path leads to, in document order; none if it leads nowhere or is not understood."""
    steps = compiled(path)
    if steps is None:
        return []
    values = [obj]
    for step in steps:
        values = [found for value in values for found in _advance(step, value)]
    return values


def _advance(step: Step, value: Any) -> list[Any]:
    if step.kind == "key":
        return [value[step.value]] if isinstance(value, dict) and step.value in value else []
    if step.kind == "all":
        if isinstance(value, dict):
            return list(value.values())
        return list(value) if isinstance(value, list) else []
    if not isinstance(value, list):
        return []
    if step.kind == "index":
        return [value[step.value]] if -len(value) <= step.value < len(value) else []
    left, sign, literal = step.value
    return [item for item in value if (literal in find(left, item)) == (sign == "==")]
