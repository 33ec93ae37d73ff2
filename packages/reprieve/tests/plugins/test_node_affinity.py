"""NodeAffinity: node selectors, required and preferred terms (scheduling.md 5)."""

from __future__ import annotations

import pytest

from kube_rules import objects
from reprieve.plugins.node_affinity import NodeAffinityPlugin
from tests.building import World, node, pod
from tests.plugins.asking import FITS, UNRESOLVABLE, scores, verdicts

NODES = {
    "a1": {"zone": "a", "cores": "8"},
    "a2": {"zone": "a", "cores": "16", "ssd": ""},
    "b1": {"zone": "b", "cores": "many"},
    "bare": {},
}
MISMATCH = "node(s) didn't match Pod's node affinity/selector"
Requirement = tuple[str, str] | tuple[str, str, list[str]]


def term(*expressions: Requirement, fields: list[Requirement] | None = None) -> objects.NodeSelectorTerm:
    return objects.NodeSelectorTerm(
        match_expressions=tuple(_requirement(e) for e in expressions),
        match_fields=tuple(_requirement(e) for e in fields or []),
    )


def _requirement(given: Requirement) -> objects.NodeSelectorRequirement:
    key, operator, values = (*given, [])[:3]
    return objects.NodeSelectorRequirement(key=str(key), operator=str(operator), values=tuple(values))


def affinity(
    *terms: objects.NodeSelectorTerm, preferred: list[tuple[int, objects.NodeSelectorTerm]] | None = None
) -> objects.Affinity:
    required = objects.NodeSelector(node_selector_terms=terms) if terms else None
    soft = tuple(objects.PreferredSchedulingTerm(weight=w, preference=t) for w, t in preferred or [])
    return objects.Affinity(
        node_affinity=objects.NodeAffinity(
            required_during_scheduling_ignored_during_execution=required,
            preferred_during_scheduling_ignored_during_execution=soft,
        )
    )


def where(world: World) -> set[str]:
    """Nodes the filter lets through; the others must be unresolvable."""
    codes = verdicts(world, NodeAffinityPlugin())
    assert set(codes.values()) <= {FITS, UNRESOLVABLE}
    return {name for name, code in codes.items() if code == FITS}


def world_of(**spec: object) -> World:
    return World(*[node(name, labels=labels) for name, labels in NODES.items()], pod("p", **spec))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (("zone", "In", ["a"]), {"a1", "a2"}),
        (("zone", "In", ["a", "b"]), {"a1", "a2", "b1"}),
        (("zone", "In", ["c"]), set()),
        (("zone", "In", []), set()),
        (("zone", "NotIn", ["a"]), {"b1", "bare"}),
        (("zone", "NotIn", ["c"]), {"a1", "a2", "b1", "bare"}),
        (("ssd", "Exists"), {"a2"}),
        (("ssd", "DoesNotExist"), {"a1", "b1", "bare"}),
        (("cores", "Gt", ["8"]), {"a2"}),
        (("cores", "Lt", ["16"]), {"a1"}),
        (("cores", "Gt", ["-1"]), {"a1", "a2"}),
        (("cores", "Gt", ["few"]), set()),
        (("cores", "Lt", ["9", "10"]), set()),
        (("zone", "Like", ["a"]), set()),
        (("nowhere", "Exists"), set()),
        (("nowhere", "NotIn", ["x"]), {"a1", "a2", "b1", "bare"}),
    ],
)
def test_each_operator(expression: Requirement, expected: set[str]) -> None:
    """NodeSelectorRequirement: NotIn and DoesNotExist hold without the label; Gt and Lt compare integers."""
    assert where(world_of(affinity=affinity(term(expression)))) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("metadata.name", "In", ["a1"])], {"a1"}),
        ([("metadata.name", "NotIn", ["a1"])], {"a2", "b1", "bare"}),
        ([("metadata.name", "In", ["gone"])], set()),
        ([("metadata.uid", "In", ["a1"])], set()),
        ([("metadata.name", "In", ["a1"]), ("metadata.name", "In", ["a2"])], set()),
    ],
)
def test_match_fields(fields: list[Requirement], expected: set[str]) -> None:
    """matchFields knows metadata.name with In and NotIn."""
    assert where(world_of(affinity=affinity(term(fields=fields)))) == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([term(("zone", "In", ["b"])), term(("ssd", "Exists"))], {"a2", "b1"}),
        ([term(("zone", "In", ["a"]), ("ssd", "Exists"))], {"a2"}),
        ([term()], set()),
        ([term(), term(("zone", "In", ["b"]))], {"b1"}),
        ([term(("zone", "In", ["a"]), fields=[("metadata.name", "In", ["a2", "b1"])])], {"a2"}),
    ],
)
def test_terms_are_ored_and_requirements_anded(terms: list[objects.NodeSelectorTerm], expected: set[str]) -> None:
    """A term without requirements matches nothing."""
    assert where(world_of(affinity=affinity(*terms))) == expected


def test_selector_without_terms_matches_nothing() -> None:
    """A required selector that is there but has no terms lets nothing through."""
    nothing = objects.Affinity(
        node_affinity=objects.NodeAffinity(
            required_during_scheduling_ignored_during_execution=objects.NodeSelector(node_selector_terms=())
        )
    )
    assert where(world_of(affinity=nothing)) == set()


@pytest.mark.parametrize(
    ("selector", "terms", "expected"),
    [
        ({"zone": "a"}, [], {"a1", "a2"}),
        ({"zone": "a", "cores": "16"}, [], {"a2"}),
        ({"ssd": ""}, [], {"a2"}),
        ({"zone": "c"}, [], set()),
        ({"nowhere": ""}, [], set()),
        ({"zone": "a"}, [term(("cores", "Lt", ["16"]))], {"a1"}),
        ({"zone": "b"}, [term(("zone", "In", ["a"]))], set()),
        ({}, [], {"a1", "a2", "b1", "bare"}),
    ],
)
def test_node_selector_and_affinity_must_both_hold(
    selector: dict[str, str], terms: list[objects.NodeSelectorTerm], expected: set[str]
) -> None:
    """spec.nodeSelector and required node affinity are ANDed."""
    assert where(world_of(selector=selector, affinity=affinity(*terms) if terms else None)) == expected


BEFOREHAND = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


@pytest.mark.parametrize(
    ("terms", "counts"),
    [
        ([term(fields=[("metadata.name", "In", ["full", "gone"])])], {"Insufficient cpu": 1, BEFOREHAND: 2}),
        (
            [term(fields=[("metadata.name", "In", ["full"])]), term(fields=[("metadata.name", "In", ["tainted"])])],
            {"Insufficient cpu": 1, BEFOREHAND: 1, "node(s) had untolerated taint(s)": 1},
        ),
        (
            [term(("zone", "In", ["b"]), fields=[("metadata.name", "In", ["full", "cordoned"])])],
            {MISMATCH: 1, BEFOREHAND: 1, "node(s) were unschedulable": 1},
        ),
        (
            [term(fields=[("metadata.name", "In", ["full"])]), term(("zone", "In", ["b"]))],
            {"Insufficient cpu": 1, "node(s) had untolerated taint(s)": 1, "node(s) were unschedulable": 1},
        ),
        ([term(fields=[("metadata.name", "NotIn", ["cordoned", "tainted"])])], None),
    ],
)
def test_nodes_that_are_not_named_are_left_out_before_any_filter(
    terms: list[objects.NodeSelectorTerm], counts: dict[str, int] | None
) -> None:
    """Upstream's PreFilterResult: where every term names its nodes the others are reported as filtered out beforehand.

    That is so for pods of a DaemonSet, whatever else would keep them off the other nodes.
    """
    world = World(
        node("full", cpu=1),
        node("cordoned", unschedulable=True),
        node("tainted", taints=[("k", "v", "NoSchedule")]),
        pod("running", cpu=1, node="full"),
        pod("p", cpu=1, affinity=affinity(*terms)),
    )
    full = world.row("full")
    found = world.engine.running["default-scheduler"].evaluator.diagnose(world.state("p"))
    if counts is None:
        counts = {"Insufficient cpu": 1, "node(s) were unschedulable": 1, "node(s) had untolerated taint(s)": 1}
    assert found.reasons == counts
    assert found.resolvable_rows().tolist() == ([full] if "Insufficient cpu" in counts else [])


def test_names_that_contradict_each_other_match_nowhere() -> None:
    """NodeAffinity's PreFilter: there is one reason for the pod, none for nodes."""
    world = World(
        node("a"),
        node("b"),
        pod("p", affinity=affinity(term(fields=[("metadata.name", "In", ["a"]), ("metadata.name", "In", ["b"])]))),
    )
    found = world.engine.running["default-scheduler"].evaluator.diagnose(world.state("p"))
    assert found.message() == "0/2 nodes are available: pod affinity terms conflict."
    assert not len(found.resolvable_rows())


@pytest.mark.parametrize(
    ("label", "matches"), [("10", True), ("1_0", False), ("9223372036854775808", False), (" 10", False)]
)
def test_integers_are_read_as_go_reads_them(label: str, matches: bool) -> None:
    """Gt and Lt: a label value with an underscore, or beyond int64, is no integer."""
    world = World(node("n", labels={"cores": label}), pod("p", affinity=affinity(term(("cores", "Gt", ["5"])))))
    assert where(world) == ({"n"} if matches else set())


@pytest.mark.parametrize(
    ("preferred", "raw", "normalized"),
    [
        ([(10, term(("zone", "In", ["a"])))], [10, 10, 0, 0], [100, 100, 0, 0]),
        ([(10, term(("zone", "In", ["a"]))), (5, term(("ssd", "Exists")))], [10, 15, 0, 0], [66, 100, 0, 0]),
        ([(1, term(("zone", "Exists"))), (2, term(("zone", "In", ["b"])))], [1, 1, 3, 0], [33, 33, 100, 0]),
        ([(7, term())], [0, 0, 0, 0], [0, 0, 0, 0]),
        ([(0, term(("zone", "In", ["a"])))], [0, 0, 0, 0], [0, 0, 0, 0]),
        ([(4, term(fields=[("metadata.name", "In", ["bare"])]))], [0, 0, 0, 4], [0, 0, 0, 100]),
    ],
)
def test_preferred_weights_add_up(
    preferred: list[tuple[int, objects.NodeSelectorTerm]], raw: list[int], normalized: list[int]
) -> None:
    """NodeAffinity's score: the sum of matching weights, the best node 100, integers rounded down."""
    world = world_of(affinity=affinity(preferred=preferred))
    assert list(scores(world, NodeAffinityPlugin(), normalized=False).values()) == raw
    assert list(scores(world, NodeAffinityPlugin()).values()) == normalized


def test_without_preferred_terms_it_does_not_score() -> None:
    """PreScore skips the plugin."""
    assert scores(world_of(affinity=affinity(term(("zone", "Exists")))), NodeAffinityPlugin()) == {}
    assert scores(world_of(), NodeAffinityPlugin()) == {}


def test_normalisation_is_over_the_feasible_nodes_alone() -> None:
    """The heaviest match among nodes that pass the filters is 100, not the heaviest of the cluster."""
    soft = [(100, term(("zone", "In", ["full"]))), (10, term(("zone", "In", ["good"])))]
    world = World(
        node("n-full", cpu=1, labels={"zone": "full"}),
        node("n-good", cpu=2, labels={"zone": "good"}),
        node("n-plain", cpu=20),
        pod("p", cpu=2, affinity=affinity(preferred=soft)),
    )
    # 10 of 100 would be 10 points times 2 and lose against the emptier node; normalised it is 100 times 2.
    assert world.settle().where == {"p": "n-good"}
