"""Random objects of every kind: whatever the decoder lets through, nothing behind it may stumble over."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kube_standin.kinds import ServedKind
from kube_standin.schema import SchemaNode, SchemaType, schema_for

Json = dict[str, Any]
_TEXTS = st.sampled_from(
    ["", "a", "A b", "x.example.com/y", "10%", "1", "-1", "Always", "Never", "In", "Exists", "NoExecute", "a" * 300]
)
_LEAVES: dict[SchemaType, st.SearchStrategy[Any]] = {
    SchemaType.STRING: _TEXTS,
    SchemaType.INTEGER: st.sampled_from([0, 1, -1, 5, 2**31 - 1]),
    SchemaType.NUMBER: st.sampled_from([0, 1.5]),
    SchemaType.BOOLEAN: st.booleans(),
    SchemaType.BYTES: st.sampled_from(["", "Yg=="]),
    SchemaType.QUANTITY: st.sampled_from(["0", "1", "-1", "500m", "1Gi", "1e3"]),
    SchemaType.INT_OR_STRING: st.sampled_from([0, -1, 70000, "30%", "x", ""]),
    SchemaType.TIME: st.just("2026-01-01T00:00:00Z"),
    SchemaType.MICRO_TIME: st.just("2026-01-01T00:00:00.000000Z"),
    SchemaType.ANY: st.sampled_from([None, 1, "x", {}, []]),
    SchemaType.ANY_OBJECT: st.just({}),
}


@st.composite
def values(draw: st.DrawFn, node: SchemaNode, depth: int) -> Any:
    """A value of a node; null now and then, and nothing too deep."""
    if draw(st.integers(0, 30)) == 0:
        return None
    if node.type is SchemaType.STRUCT:
        if depth <= 0 or not node.fields:
            return {}
        names = draw(st.lists(st.sampled_from(sorted(node.fields)), max_size=5, unique=True))
        return {name: draw(values(node.fields[name], depth - 1)) for name in names}
    if node.type in (SchemaType.MAP, SchemaType.LIST):
        assert node.element is not None
        if depth <= 0:
            return {} if node.type is SchemaType.MAP else []
        if node.type is SchemaType.LIST:
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
