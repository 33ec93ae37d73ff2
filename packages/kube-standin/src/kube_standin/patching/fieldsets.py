"""Sets of field paths, in the stored form of `metadata.managedFields[].fieldsV1`.

A set is a trie of path elements: `f:NAME` a field or map key, `k:{"name":"c"}` an item of a keyed list, `v:"x"` an item
of a set. A node is *in* the set if it has no children or has the child "."; so `{}` at a path means only that path. The
empty set at the top is also `{}`: only paths below the top are members.

All functions return new tries and share parts with their arguments; a trie never changes after its creation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Trie = dict[str, Any]
DOT = "."
LEAF: Trie = {}


def is_member(node: Trie) -> bool:
    """Return whether the path of this node itself is in the set."""
    return not node or DOT in node


def _made(member: bool, children: Trie) -> Trie | None:
    """Return a node from its parts; None if it is empty."""
    if member:
        return {DOT: LEAF, **children} if children else LEAF
    return children or None


def union(left: Trie, right: Trie) -> Trie:
    """Return the paths in either set; both arguments are tops."""
    return _union_children(left, right)


def _union_children(left: Trie, right: Trie) -> Trie:
    if not left:
        return right
    if not right:
        return left
    out = dict(left)
    for element, theirs in right.items():
        if element == DOT:
            continue
        mine = left.get(element)
        if mine is None or mine is theirs:
            out[element] = theirs
            continue
        children = _union_children(_children(mine), _children(theirs))
        out[element] = _made(is_member(mine) or is_member(theirs), children) or LEAF
    return out


def _children(node: Trie) -> Trie:
    if DOT in node:
        return {element: below for element, below in node.items() if element != DOT}
    return node


def difference(left: Trie, right: Trie) -> Trie:
    """Return the paths of `left` that are not in `right`; both arguments are tops."""
    if not right:
        return left
    out: Trie = {}
    for element, mine in left.items():
        theirs = right.get(element)
        if theirs is None:
            out[element] = mine
            continue
        children = difference(_children(mine), theirs)
        rest = _made(is_member(mine) and not is_member(theirs), children)
        if rest is not None:
            out[element] = rest
    return out


def intersection(left: Trie, right: Trie) -> Trie:
    """Return the paths in both sets; both arguments are tops."""
    out: Trie = {}
    for element, mine in left.items():
        theirs = right.get(element)
        if theirs is None:
            continue
        children = intersection(_children(mine), theirs)
        common = _made(is_member(mine) and is_member(theirs), children)
        if common is not None:
            out[element] = common
    return out


def without(top: Trie, path: tuple[str, ...]) -> Trie:
    """Return the set without a path and everything below it."""
    element, rest = path[0], path[1:]
    below = top.get(element)
    if below is None:
        return top
    out = dict(top)
    if not rest:
        del out[element]
        return out
    children = without(_children(below), rest)
    left = _made(is_member(below), children)
    if left is None:
        del out[element]
    else:
        out[element] = left
    return out


def places(top: Trie, before: str = "") -> Iterator[str]:
    """Yield members in readable form, e.g. `.spec.containers[name="c"].image`."""
    for element in sorted(top):
        if element == DOT:
            continue
        node = top[element]
        place = before + readable(element)
        if is_member(node):
            yield place
        yield from places(_children(node), place)


def readable(element: str) -> str:
    """Return one path element in the form of conflict messages."""
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = json.loads(text)
        return "[" + ",".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in sorted(keys.items())) + "]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


def ordered(top: Trie) -> Trie:
    """Return the set in upstream's order, independent of the order of the object.

    "." comes first, then fields by name, keyed items by their keys, items of sets by value, items by index.
    """
    if not top:
        return top
    elements = sorted(top, key=_rank) if len(top) > 1 else top
    return {element: ordered(top[element]) for element in elements}


def _rank(element: str) -> tuple[Any, ...]:
    if element == DOT:
        return (0,)
    kind, _, text = element.partition(":")
    if kind == "f":
        return (1, text)
    if kind == "i":
        return (4, len(text.lstrip("0")), text)
    value = json.loads(text)
    if kind == "v":
        return (3, _value_rank(value), text)
    return (2, tuple((name, _value_rank(value[name])) for name in sorted(value)), text)


def _value_rank(value: Any) -> tuple[Any, ...]:
    """Return a sort key for scalars in upstream's order: by type, then by value."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    return (1, value) if isinstance(value, str) else (3,)


def decoded(value: Any) -> Trie | None:
    """Return a stored `fieldsV1`, or None if it is invalid (managedFields written by a client)."""
    return value if _is_trie(value, 200) else None


def _is_trie(value: Any, depth: int) -> bool:
    if not isinstance(value, dict) or depth == 0:
        return False
    return all(
        (element == DOT or _is_element(element)) and _is_trie(below, depth - 1) for element, below in value.items()
    )


def _is_element(element: str) -> bool:
    kind, colon, text = element.partition(":")
    if not colon:
        return False
    if kind == "f":
        return True
    if kind == "i":
        return text.isascii() and text.isdigit()
    if kind not in ("k", "v"):
        return False
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return kind == "v" or isinstance(parsed, dict)
