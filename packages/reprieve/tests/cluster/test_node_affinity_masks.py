"""Node affinity as masks over the rows: requirements, fields, terms, what is required together."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import objects
from reprieve.cluster.node_affinity_masks import affinity_mask, field_mask, required_mask, requirement_mask, term_mask
from reprieve.cluster.resources import ResourceTable
from reprieve.cluster.signature import SignatureTable
from reprieve.cluster.state import ClusterState
from tests.building import node, pod

NODES = {"a": {"zone": "x", "size": "3"}, "b": {"zone": "y", "size": "12"}, "c": {"zone": "z", "size": "big"}, "d": {}}


def _nodes() -> ClusterState:
    state = ClusterState()
    for name, labels in NODES.items():
        state.set_node(node(name, labels=labels))
    return state


def _requirement(key: str, operator: str, *values: str) -> objects.NodeSelectorRequirement:
    return objects.NodeSelectorRequirement(key=key, operator=operator, values=values)


REQUIREMENTS: list[tuple[str, str, tuple[str, ...], str]] = [
    ("zone", "In", ("x", "z", "w"), "ac"),
    ("zone", "In", ("w",), ""),
    ("zone", "NotIn", ("x", "w"), "bcd"),
    ("zone", "NotIn", (), "abcd"),
    ("zone", "Exists", (), "abc"),
    ("zone", "DoesNotExist", (), "d"),
    ("rack", "Exists", (), ""),
    ("rack", "NotIn", ("x",), "abcd"),
    ("size", "Gt", ("3",), "b"),
    ("size", "Gt", ("2",), "ab"),
    ("size", "Lt", ("12",), "a"),
    ("size", "Lt", ("13",), "ab"),
    ("size", "Gt", ("no",), ""),
    ("size", "Gt", ("1", "2"), ""),
    ("size", "Gt", (), ""),
    ("zone", "Odd", ("x",), ""),
]


@pytest.mark.parametrize(("key", "operator", "values", "names"), REQUIREMENTS)
def test_nodes_that_satisfy_a_requirement(key: str, operator: str, values: tuple[str, ...], names: str) -> None:
    """NodeAffinity: NotIn and DoesNotExist hold where the key is absent; Gt and Lt compare whole numbers."""
    mask = requirement_mask(_nodes().nodes, _requirement(key, operator, *values))
    assert "".join(name for name, there in zip(NODES, mask, strict=True) if there) == names


@pytest.mark.parametrize(
    ("key", "operator", "values", "names"),
    [
        ("metadata.name", "In", ("b", "nobody"), "b"),
        ("metadata.name", "NotIn", ("b", "nobody"), "acd"),
        ("metadata.name", "Exists", (), ""),
        ("metadata.uid", "In", ("b",), ""),
        ("metadata.uid", "NotIn", ("b",), ""),
    ],
)
def test_nodes_by_field(key: str, operator: str, values: tuple[str, ...], names: str) -> None:
    """matchFields knows metadata.name with In and NotIn."""
    mask = field_mask(_nodes().nodes, _requirement(key, operator, *values))
    assert "".join(name for name, there in zip(NODES, mask, strict=True) if there) == names


def test_terms_and_selectors_of_nodes() -> None:
    """Requirements of a term hold together, terms are alternatives; a term without any means no node."""
    nodes = _nodes().nodes
    sized = _requirement("size", "Gt", "2")
    here = objects.NodeSelectorTerm(
        match_expressions=(sized,), match_fields=(_requirement("metadata.name", "NotIn", "a"),)
    )
    there = objects.NodeSelectorTerm(match_expressions=(_requirement("zone", "In", "z"),))
    nothing = objects.NodeSelectorTerm()

    def names(mask: Any) -> str:
        return "".join(name for name, found in zip(NODES, mask, strict=True) if found)

    assert (names(term_mask(nodes, here)), names(term_mask(nodes, there)), names(term_mask(nodes, nothing))) == (
        "b",
        "c",
        "",
    )

    def required(*terms: objects.NodeSelectorTerm) -> objects.NodeAffinity:
        wanted = objects.NodeSelector(node_selector_terms=terms)
        return objects.NodeAffinity(required_during_scheduling_ignored_during_execution=wanted)

    assert names(affinity_mask(nodes, None)) == names(affinity_mask(nodes, objects.NodeAffinity())) == "abcd"
    assert names(affinity_mask(nodes, required(here, there, nothing))) == "bc"
    assert names(affinity_mask(nodes, required())) == ""
    signatures = SignatureTable(ResourceTable())
    both = objects.Affinity(node_affinity=required(here, there))
    assert names(required_mask(nodes, signatures.intern(pod("p", affinity=both, selector={"zone": "z"})))) == "c"
    assert names(required_mask(nodes, signatures.intern(pod("p", affinity=both, selector={"zone": "w"})))) == ""
    assert names(required_mask(nodes, signatures.intern(pod("p", selector={"zone": "y", "size": "12"})))) == "b"
    assert names(required_mask(nodes, signatures.intern(pod("p", selector={"zone": "y", "size": "3"})))) == ""
    assert names(required_mask(nodes, signatures.intern(pod("p")))) == "abcd"
