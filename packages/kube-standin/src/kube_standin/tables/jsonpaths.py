"""The JSONPath of printer columns of custom resources: fields, indices, `[*]`, filters (`[?(@.type=="Ready")]`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z0-9_$-]+|\*)"""
    r"""|\[(?P<index>-?[0-9]+)\]"""
    r"""|\[(?P<all>\*)\]"""
    r"""|\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]"""
    r"""|\[\?\(@(?P<left>[^=!<>]*?)\s*(?P<sign>==|!=)\s*(?P<right>"[^"]*"|'[^']*'|[^)]*)\)\]""",
    re.ASCII,
)
_LONGEST = 1024
"""Maximum length of a path in characters: reading takes quadratic time, and results are cached."""
_DOTTED = re.compile(r"\.([A-Za-z0-9_$\0/-]*\0[A-Za-z0-9_$\0/-]*)", re.ASCII)


class PathStep(NamedTuple):
    """One step: a key, an index, everything, or a filter (path, sign, literal)."""

    kind: str
    value: Any


def compiled(path: str) -> tuple[PathStep, ...] | None:
    """Return the steps of a path; None if it is not supported or longer than `_LONGEST`."""
    return _compiled(path) if len(path) <= _LONGEST else None


@lru_cache(maxsize=512)
def _compiled(path: str) -> tuple[PathStep, ...] | None:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$").replace("\\.", "\0")
    steps: list[PathStep] = []
    at = 0
    if text and text[0] not in ".[":
        text = "." + text
    while at < len(text):
        # A key may contain escaped dots; they are \0 here.
        dotted = _DOTTED.match(text, at)
        if dotted is not None:
            steps.append(PathStep("key", dotted[1].replace("\0", ".")))
            at = dotted.end()
            continue
        match = _STEP.match(text, at)
        if match is None:
            return None
        at = match.end()
        steps.append(_step(match))
    return tuple(steps)


def _step(match: re.Match[str]) -> PathStep:
    if match["name"] == "*" or match["all"]:
        return PathStep("all", None)
    if match["name"] is not None:
        return PathStep("key", match["name"])
    if match["index"] is not None:
        return PathStep("index", int(match["index"]))
    if match["quoted"] is not None:
        return PathStep("key", match["quoted"])
    right = match["right"].strip()
    literal: Any = right.strip("\"'")
    if right in ("true", "false"):
        literal = right == "true"
    elif re.fullmatch(r"-?[0-9]+", right):
        literal = int(right)
    return PathStep("filter", (match["left"], match["sign"], literal))


def find(path: str, obj: Any, most: int = 100) -> list[Any]:
    """Return the first values of a path, in document order; none for a missing value or an unsupported path."""
    steps = compiled(path)
    return [] if steps is None else list(islice(_walk(steps, obj), most))


def _walk(steps: tuple[PathStep, ...], value: Any) -> Iterator[Any]:
    """Walk depth first and lazily: only requested values are searched."""
    pending: list[tuple[int, Iterator[Any]]] = [(0, iter((value,)))]
    while pending:
        at, values = pending[-1]
        for child in values:
            if at == len(steps):
                yield child
            else:
                pending.append((at + 1, iter(_advance(steps[at], child))))
                break
        else:
            pending.pop()


def _advance(step: PathStep, value: Any) -> list[Any]:
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
