"""Random objects of every kind: whatever the decoder lets through, nothing behind it may stumble over."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kube_standin.kinds import ServedKind
from kube_standin.schema import Node, Type, schema_for

Json = dict[str, Any]
_TEXTS = st.sampled_from(
    ["", "a", "A b", "x.example.com/y", "10%", "1", "-1", "Always", "Never", "In", "Exists", "NoExecute", "a" * 300]
)
_LEAVES: dict[Type, st.SearchStrategy[Any]] = {
    Type.STRING: _TEXTS,
    Type.INTEGER: st.sampled_from([0, 1, -1, 5, 2**31 - 1]),
    Type.NUMBER: st.sampled_from([0, 1.5]),
    Type.BOOLEAN: st.booleans(),
    Type.BYTES: st.sampled_from(["", "Yg=="]),
    Type.QUANTITY: st.sampled_from(["0", "1", "-1", "500m", "1Gi", "1e3"]),
    Type.INT_OR_STRING: st.sampled_from([0, -1, 70000, "30%", "x", ""]),
    Type.TIME: st.just("2026-01-01T00:00:00Z"),
    Type.MICRO_TIME: st.just("2026-01-01T00:00:00.000000Z"),
    Type.ANY: st.sampled_from([None, 1, "x", {}, []]),
    Type.ANY_OBJECT: st.just({}),
}


@st.composite
def values(draw: st.DrawFn, node: Node, depth: int) -> Any:
    """A value of a node; null now and then, and nothing too deep."""
    if draw(st.integers(0, 30)) == 0:
        return None
    if node.type is Type.STRUCT:
        if depth <= 0 or not node.fields:
            return {}
        names = draw(st.lists(st.sampled_from(sorted(node.fields)), max_size=5, unique=True))
        return {name: draw(values(node.fields[name], depth - 1)) for name in names}
    if node.type in (Type.MAP, Type.LIST):
        assert node.element is not None
        if depth <= 0:
            return {} if node.type is Type.MAP else []
        if node.type is Type.LIST:
            return [draw(values(node.element, depth - 1)) for _ in range(draw(st.integers(0, 2)))]
        keys = draw(
            st.lists(st.sampled_from(["cpu", "a", "pods", "nvidia.com/gpu", "Bad key"]), max_size=2, unique=True)
        )
        return {key: draw(values(node.element, depth - 1)) for key in keys}
    return draw(_LEAVES[node.type])


@st.composite
def objects(draw: st.DrawFn, kind: ServedKind) -> Json:
    """A body a client might send for a kind."""
    root = schema_for(kind.api_version, kind.kind).root
    body: Json = {"apiVersion": kind.api_version, "kind": kind.kind}
    for name, node in root.fields.items():
        if name not in body and draw(st.integers(0, 4)):
            body[name] = draw(values(node, 7))
    return body
