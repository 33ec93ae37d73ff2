"""TaintToleration and NodeUnschedulable (scheduling.md 5)."""

from __future__ import annotations

import pytest

from reprieve.cluster.taints import tolerates
from reprieve.plugins.node_unschedulable import NodeUnschedulable
from reprieve.plugins.taint_toleration import TaintToleration
from tests.building import World, node, pod, toleration
from tests.plugins.asking import FITS, UNRESOLVABLE, reasons, scores, verdicts

HARD = ("k", "v", "NoSchedule")


@pytest.mark.parametrize(
    ("mine", "taint", "expected"),
    [
        (("k", "Equal", "v", "NoSchedule"), HARD, True),
        (("k", "Equal", "w", "NoSchedule"), HARD, False),
        (("k", "Equal", "v", "NoExecute"), HARD, False),
        (("k", "Equal", "v", ""), HARD, True),
        (("k", "Equal", "v", ""), ("k", "v", "NoExecute"), True),
        (("k", "Equal", "", ""), ("k", "", "NoSchedule"), True),
        (("k", "", "v", ""), HARD, True),
        (("j", "Equal", "v", ""), HARD, False),
        (("k", "Exists", "", ""), HARD, True),
        (("k", "Exists", "", "PreferNoSchedule"), HARD, False),
        (("j", "Exists", "", ""), HARD, False),
        (("", "Exists", "", ""), HARD, True),
        (("", "Exists", "", "NoExecute"), HARD, False),
        (("k", "Lt", "10", ""), ("k", "9", "NoSchedule"), True),
        (("k", "Lt", "10", ""), ("k", "10", "NoSchedule"), False),
        (("k", "Gt", "10", ""), ("k", "11", "NoSchedule"), True),
        (("k", "Gt", "10", ""), ("k", "10", "NoSchedule"), False),
        (("k", "Gt", "10", ""), ("k", "many", "NoSchedule"), False),
        (("k", "Gt", "ten", ""), ("k", "11", "NoSchedule"), False),
        (("k", "Gt", "10", ""), ("k", "1_1", "NoSchedule"), False),
        (("k", "Lt", "10", ""), ("k", "-9223372036854775809", "NoSchedule"), False),
        (("k", "Near", "v", ""), HARD, False),
    ],
)
def test_one_toleration_against_one_taint(
    mine: tuple[str, str, str, str], taint: tuple[str, str, str], expected: bool
) -> None:
    """core/v1 Toleration: empty operator is Equal, empty effect all effects, empty key with Exists everything."""
    assert tolerates(toleration(*mine), taint) is expected


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        ([], [], FITS),
        ([HARD], [], UNRESOLVABLE),
        ([("k", "v", "NoExecute")], [], UNRESOLVABLE),
        ([("k", "v", "PreferNoSchedule")], [], FITS),
        ([HARD], [("k", "Equal", "v")], FITS),
        ([HARD, ("j", "", "NoExecute")], [("k", "Equal", "v")], UNRESOLVABLE),
        ([HARD, ("j", "", "NoExecute")], [("k", "Exists"), ("j", "Exists")], FITS),
        ([HARD, ("j", "", "PreferNoSchedule")], [("k", "Exists")], FITS),
    ],
)
def test_every_hard_taint_must_be_tolerated(
    taints: list[tuple[str, str, str]], tolerations: list[tuple[str, ...]], expected: int
) -> None:
    """TaintToleration's filter: NoSchedule and NoExecute reject, for good; PreferNoSchedule never does."""
    world = World(node("n", taints=taints), pod("p", tolerations=[toleration(*t) for t in tolerations]))
    plugin = TaintToleration()
    assert verdicts(world, plugin) == {"n": expected}
    texts = {"n": ["node(s) had untolerated taint(s)"]} if expected else {}
    assert reasons(world, plugin) == texts


@pytest.mark.parametrize(
    ("tolerations", "raw", "normalized"),
    [
        ([], {"none": 0, "one": 1, "two": 2, "hard": 0}, {"none": 100, "one": 50, "two": 0, "hard": 100}),
        (
            [("a", "Exists")],
            {"none": 0, "one": 0, "two": 1, "hard": 0},
            {"none": 100, "one": 100, "two": 0, "hard": 100},
        ),
        (
            [("", "Exists")],
            dict.fromkeys(("none", "one", "two", "hard"), 0),
            dict.fromkeys(("none", "one", "two", "hard"), 100),
        ),
        # A toleration of a hard effect does not count for soft taints.
        (
            [("a", "Exists", "", "NoSchedule")],
            {"none": 0, "one": 1, "two": 2, "hard": 0},
            {"none": 100, "one": 50, "two": 0, "hard": 100},
        ),
    ],
)
def test_fewer_soft_taints_score_higher(
    tolerations: list[tuple[str, ...]], raw: dict[str, int], normalized: dict[str, int]
) -> None:
    """TaintToleration's score: intolerable PreferNoSchedule taints, reversed by DefaultNormalizeScore."""
    soft = [("a", "", "PreferNoSchedule"), ("b", "", "PreferNoSchedule")]
    world = World(
        node("none"),
        node("one", taints=soft[:1]),
        node("two", taints=soft),
        node("hard", taints=[HARD]),
        pod("p", tolerations=[toleration(*t) for t in tolerations]),
    )
    assert scores(world, TaintToleration(), normalized=False) == raw
    assert scores(world, TaintToleration()) == normalized


def test_soft_taints_decide_over_emptier_nodes() -> None:
    """The default weight of TaintToleration is 3: a soft taint outweighs all of LeastAllocated."""
    world = World(node("n1", cpu=100, taints=[("a", "", "PreferNoSchedule")]), node("n2", cpu=4), pod("p", cpu=3))
    assert world.settle().where == {"p": "n2"}


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], UNRESOLVABLE),
        ([("", "Exists")], FITS),
        ([("node.kubernetes.io/unschedulable", "Exists")], FITS),
        ([("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule")], FITS),
        ([("node.kubernetes.io/unschedulable", "Equal", "")], FITS),
        ([("node.kubernetes.io/unschedulable", "Exists", "", "NoExecute")], UNRESOLVABLE),
        ([("other", "Exists")], UNRESOLVABLE),
    ],
)
def test_cordoned_node_needs_the_toleration(tolerations: list[tuple[str, ...]], expected: int) -> None:
    """NodeUnschedulable: as if the node had the taint node.kubernetes.io/unschedulable:NoSchedule."""
    world = World(
        node("up"), node("cordoned", unschedulable=True), pod("p", tolerations=[toleration(*t) for t in tolerations])
    )
    assert verdicts(world, NodeUnschedulable()) == {"up": FITS, "cordoned": expected}
    texts = {"cordoned": ["node(s) were unschedulable"]} if expected else {}
    assert reasons(world, NodeUnschedulable()) == texts
