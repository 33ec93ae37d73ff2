"""The evaluator, the texts of a diagnosis, and the adaptors for plugins of one's own."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from kube_rules.meta import ObjectRef
from reprieve.framework.diagnosis import NO_NODES, Diagnosis, fit_error
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows, Scope, SignPlugin, default_normalize
from reprieve.framework.status import FITS, UNRESOLVABLE, UNSCHEDULABLE, PluginError
from tests.building import World, node, pod, profile_with
from tests.plugins.neighbours import rules, term
from tests.scheduling.plugins_for_tests import Fragile, OnlyNamed, Prefers


@pytest.mark.parametrize(
    ("nodes", "reasons", "pre_filter", "post_filter", "text"),
    [
        (3, {}, "", "", "0/3 nodes are available:"),
        (3, {"Insufficient cpu": 3}, "", "", "0/3 nodes are available: 3 Insufficient cpu."),
        # sorted as strings: "10 ..." before "2 ..."
        (12, {"b": 2, "a": 10}, "", "", "0/12 nodes are available: 10 a, 2 b."),
        (2, {"b": 1, "a": 1}, "", "then this.", "0/2 nodes are available: 1 a, 1 b. then this."),
        (2, {"a": 1}, "no such claim", "", "0/2 nodes are available: no such claim."),
    ],
)
def test_fit_error(nodes: int, reasons: dict[str, int], pre_filter: str, post_filter: str, text: str) -> None:
    """observability.md: "counts per reason, sorted as strings, as upstream sorts them"."""
    assert fit_error(nodes, reasons, pre_filter, post_filter) == text


def test_diagnosis_without_nodes() -> None:
    """Upstream's text where there is no node at all; preemption has nothing to add."""
    assert Diagnosis(nodes=0, codes=np.zeros(0, dtype=np.int8)).message("preemption: 0/0") == NO_NODES


@pytest.mark.parametrize(
    ("scores", "reverse", "expected"),
    [
        ([], False, []),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([1, 3, 2], False, [33, 100, 66]),
        ([1, 3, 2], True, [67, 0, 34]),
        ([50], False, [100]),
        ([1000, 1], False, [100, 0]),
    ],
)
def test_default_normalize(scores: list[int], reverse: bool, expected: list[int]) -> None:
    """DefaultNormalizeScore: the highest becomes 100, integer division, then reversed."""
    assert default_normalize(np.array(scores, dtype=np.int64), reverse=reverse).tolist() == expected


def test_first_filter_that_rejects_a_node_speaks_for_it() -> None:
    """Filters run in order; codes and plugins are those of the first rejection (upstream's Diagnosis)."""
    world = World(
        node("both", cpu=1, unschedulable=True),
        node("full", cpu=1),
        node("small", cpu="500m"),
        pod("r", cpu=1, node="full"),
        pod("p", cpu=1),
    )
    evaluator = world.engine.running["default-scheduler"].evaluator
    found = evaluator.diagnose(world.state("p"))
    codes = {name: int(found.codes[world.row(name)]) for name in ("both", "full", "small")}
    assert codes == {"both": UNRESOLVABLE, "full": UNSCHEDULABLE, "small": UNRESOLVABLE}
    assert found.reasons == {"node(s) were unschedulable": 1, "Insufficient cpu": 2}
    assert found.plugins == {"NodeUnschedulable", "NodeResourcesFit"}
    assert found.resolvable_rows().tolist() == [world.row("full")]
    assert evaluator.why_not(world.state("p"), world.row("both")) == (
        "NodeUnschedulable",
        ("node(s) were unschedulable",),
    )
    assert evaluator.why_not(world.state("p"), world.row("full")) == ("NodeResourcesFit", ("Insufficient cpu",))


def test_only_rows_that_changed_are_filtered_again() -> None:
    """scheduling.md 4: a placement costs one row, not a pass over all nodes; a changed node costs a pass."""
    world = World(*[node(f"n{i:02}", cpu=4) for i in range(40)], *[pod(f"p{i}", cpu=1) for i in range(20)])
    evaluator = world.engine.running["default-scheduler"].evaluator
    world.drain()
    assert evaluator.passes == 1
    world.gone("p3").add(pod("q", cpu=1)).drain()
    assert evaluator.passes == 1
    world.add(node("n07", cpu=4, labels={"new": "label"}), pod("s", cpu=1)).drain()
    assert evaluator.passes == 2


def test_views_are_kept_apart_by_priority() -> None:
    """Which nominations count depends on the priority."""
    world = World(node("n", cpu=1), pod("holder", cpu=1, priority=5, gates=["g"], nominated="n"))
    for name, priority in (("low", 1), ("high", 9)):
        world.add(pod(name, cpu=1, priority=priority, never=True))
    evaluator = world.engine.running["default-scheduler"].evaluator
    assert evaluator.best_row(world.state("low")) == -1
    assert evaluator.best_row(world.state("high")) == world.row("n")
    assert not evaluator.fits_row(world.state("low"), world.row("n"))
    assert evaluator.why_not(world.state("low"), world.row("n")) == ("NodeResourcesFit", ("Insufficient cpu",))


@pytest.mark.parametrize(
    ("memory", "priority", "ports", "texts"),
    [
        ("2Gi", 0, (), {"Insufficient cpu", "Insufficient memory"}),
        ("1Gi", 0, (), {"Insufficient cpu"}),
        ("2Gi", 6, (), {"Insufficient cpu"}),
        ("2Gi", 0, (80,), {"node(s) didn't have free ports for the requested pod ports"}),
    ],
)
def test_node_is_judged_with_its_nominated_pods_first(
    memory: str, priority: int, ports: tuple[int, ...], texts: set[str]
) -> None:
    """Upstream's RunFilterPluginsWithNominatedPods: where the pass with them fails, that is the answer.

    Nominations of lower priority do not count (scheduling.md 2).  The same where a rule about other pods is in play.
    """
    for anti in (None, rules(apart=[term("zone", {"app": "web"})])):
        world = World(
            node("n", cpu=4, memory="4Gi"),
            pod("r", cpu=2, memory="1Gi", node="n"),
            pod("nominated", cpu=1, memory="2Gi", priority=5, gates=["g"], nominated="n", ports=ports),
            pod("p", cpu=3, memory=memory, priority=priority, ports=ports, affinity=anti),
        )
        found = world.engine.running["default-scheduler"].evaluator.diagnose(world.state("p"))
        assert set(found.reasons) == texts


class _ByLabel(FilterPlugin, SignPlugin):
    """A NODE plugin that reads the pod's labels, and says so by signing them."""

    name = "ByLabel"
    scope: ClassVar[Scope] = Scope.NODE

    def sign(self, pod: object) -> bytes | None:
        label = pod.labels.get("wants")  # type: ignore[attr-defined]
        return None if label == "anything" else str(label).encode()

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        nodes = state.cluster.nodes
        wants = state.pod.labels.get("wants")
        names = np.array(nodes.names)[rows]
        return np.where((names == wants) | (wants == "anything"), FITS, UNSCHEDULABLE).astype(np.int8)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        return [("node(s) have the wrong name", self.filter(state, rows) != FITS)]


def test_plugin_signature_keeps_pods_apart() -> None:
    """scheduling.md 4: "Sharing is off ... with plugins that cannot sign"; what is signed is part of the identity."""
    profile = profile_with(_ByLabel())
    nodes = [node(f"n{i}") for i in range(3)]
    pods = [pod(f"p{i}", labels={"wants": f"n{i}"}) for i in (2, 0, 1)] + [pod("any", labels={"wants": "anything"})]
    world = World(*nodes, *pods, profiles={profile.name: profile}).settle()
    assert {name: where for name, where in world.where.items() if name != "any"} == {"p0": "n0", "p1": "n1", "p2": "n2"}
    evaluator = world.engine.running["default-scheduler"].evaluator
    assert evaluator.identity(world.record("any")) is None
    assert evaluator.identity(world.record("p0")) != evaluator.identity(world.record("p1"))


def test_adaptors_for_one_node_at_a_time() -> None:
    """PerNodeFilter and PerNodeScore answer for slices and for numbers alike."""
    world = World(node("a"), node("b"), node("c"), pod("p"))
    some, state = np.array([2, 0], dtype=np.int64), world.state("p")
    hard, soft = OnlyNamed("a"), OnlyNamed("a", resolvable=True)
    assert hard.filter(state, slice(0, 3)).tolist() == [FITS, UNRESOLVABLE, UNRESOLVABLE]
    assert soft.filter(state, some).tolist() == [UNSCHEDULABLE, FITS]
    ((text, mask),) = soft.reasons(state, some)
    assert (text, mask.tolist()) == ("node(s) are not in a", [True, False])
    assert Prefers(b=7).score(state, slice(0, 3)).tolist() == [0, 7, 0]


def test_error_names_the_plugin_and_the_point() -> None:
    """scheduling.md 5: whatever a plugin raises becomes an error that names it."""
    profile = Fragile(failures=1).profile()
    world = World(node("n"), pod("p"), profiles={profile.name: profile})
    with pytest.raises(PluginError, match=r"running Filter plugin 'Fragile': ZeroDivisionError: by design") as caught:
        world.engine.running["default-scheduler"].evaluator.best_row(world.state("p"))
    assert (caught.value.plugin, caught.value.point) == ("Fragile", "Filter")
    assert not world.engine.cluster.in_trial


def test_profile_has_one_queue_sort() -> None:
    """Exactly one per profile."""
    assert profile_with().queue_sort.name == "PrioritySort"
    with pytest.raises(ValueError, match="exactly one queueSort plugin is needed, found 0"):
        _ = profile_with(drop=["PrioritySort"]).queue_sort


def test_usable_nodes_of_a_view_do_not_depend_on_running_pods() -> None:
    """Taints, cordons, selectors and node names count; what is full does not."""
    world = World(
        node("full", cpu=1, labels={"zone": "a"}),
        node("free", cpu=4, labels={"zone": "a"}),
        node("elsewhere", cpu=4, labels={"zone": "b"}),
        node("tainted", cpu=4, labels={"zone": "a"}, taints=[("dedicated", "x", "NoSchedule")]),
        node("cordoned", cpu=4, labels={"zone": "a"}, unschedulable=True),
        pod("there", cpu=1, node="full"),
        pod("p", cpu=2, selector={"zone": "a"}),
    )
    evaluator = world.engine.running["default-scheduler"].evaluator
    names = np.array(world.engine.cluster.nodes.names)
    usable = evaluator.usable_nodes(world.state("p"))
    assert names[np.flatnonzero(usable)].tolist() == ["full", "free"]
    assert np.array_equal(usable, evaluator.view(world.state("p")).static_mask)
    world.engine.remove(ObjectRef("Node", "free"), world.now)
    assert names[np.flatnonzero(evaluator.usable_nodes(world.state("p")))].tolist() == ["full"]
