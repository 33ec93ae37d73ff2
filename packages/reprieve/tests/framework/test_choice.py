"""Which of several nodes is taken: ties, seeds, rules, nominations (scheduling.md 2), and how much is kept of it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from kube_rules import objects
from reprieve.cluster.pods import NO_ROW
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows, Scope, TieBreaker
from reprieve.framework.status import FITS, UNSCHEDULABLE
from tests.building import Item, World, node, pod, profile_with
from tests.plugins.asking import UNRESOLVABLE
from tests.plugins.neighbours import HOST, ZONE, rules, term
from tests.plugins.storage import pod as pod_with
from tests.scheduling.plugins_for_tests import Prefers

ORDER = ("d", "b", "a", "c")
"""Rows are not in the order of names."""


def alike(*more: Item, plugins: Any = (), weights: Any = None, labels: bool = True) -> World:
    """Nodes that differ in nothing but their names, and a pod."""
    profile = profile_with(*plugins, weights=weights)
    nodes = [node(name, labels={ZONE: "z", HOST: name} if labels else {}) for name in ORDER]
    return World(*nodes, *more, profiles={profile.name: profile})


def of(world: World, **options: Any) -> Evaluator:
    """An evaluator of its own."""
    return Evaluator(world.engine.cluster, world.engine.running["default-scheduler"].profile, **options)


def named(world: World, row: int) -> str:
    return world.engine.cluster.nodes.names[row] if row >= 0 else ""


KINDS: dict[str, objects.Pod] = {
    "nothing but room": pod("p", cpu=1),
    "a rule of its own": pod("p", cpu=1, affinity=rules(apart=[term(ZONE, {"app": "none"})])),
    "a preference that all nodes meet": pod("p", cpu=1, selector={ZONE: "z"}),
}


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preferred", [{}, {"a": 5, "b": 5, "c": 5, "d": 5}])
def test_first_node_by_name_is_taken_of_the_same_score(kind: str, preferred: dict[str, int], share: bool) -> None:
    """scheduling.md 2.1, also where only some nodes may be taken."""
    world = alike(KINDS[kind], plugins=[Prefers(**preferred)], weights={"Prefers": 1})
    evaluator = of(world, share=share)
    assert named(world, evaluator.best_row(world.state("p"))) == "a"
    for allowed, taken in (("dbc", "b"), ("dc", "c"), ("d", "d"), ("", "")):
        rows = np.array(sorted(world.row(name) for name in allowed), dtype=np.int64)
        if allowed:
            assert named(world, evaluator.best_row(world.state("p"), within=rows)) == taken


def test_higher_score_goes_before_a_name() -> None:
    """By one point, with the weight of the plugin."""
    for weight, taken in ((0, "a"), (1, "d"), (9, "d")):
        world = alike(pod("p", cpu=1), plugins=[Prefers(d=1)], weights={"Prefers": weight})
        assert named(world, of(world).best_row(world.state("p"))) == taken
        assert of(world).score_at(world.state("p"), world.row("d")) - of(world).score_at(
            world.state("p"), world.row("a")
        ) == (weight)


class _Narrows(TieBreaker):
    """Wants some nodes only; notes between which it chose."""

    def __init__(self, world: World, *wanted: str) -> None:
        self.wanted = [world.row(name) for name in wanted]
        self.asked: list[list[str]] = []
        self.names = world.engine.cluster.nodes.names

    def narrow(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        self.asked.append(sorted(self.names[row] for row in rows))
        return rows[np.isin(rows, self.wanted)]


@pytest.mark.parametrize("kind", KINDS)
def test_tie_breaker_chooses_before_names(kind: str) -> None:
    """`TieBreaker`; a node of a lower score is not offered."""
    world = alike(KINDS[kind], pod("there", cpu=2, node="b"))
    ties = _Narrows(world, "d", "c", "b")
    assert named(world, of(world).best_row(world.state("p"), ties)) == "c"
    assert ties.asked == [["a", "c", "d"]]


SEEDED = {
    # the same on every machine and in every version, or what was recorded could not be replayed
    0: "daaddddc",
    1: "dabcddba",
    2: "cddddadd",
    987654321: "dddcdbbd",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDED)
def test_ties_are_settled_by_the_seed_and_the_pod(kind: str, seed: int) -> None:
    """scheduling.md 2.1: a seeded choice among the best, which depends on nothing else."""
    given = KINDS[kind]
    pods = [
        objects.Pod(metadata=objects.ObjectMeta(name=f"p{i}", namespace="default", uid=f"uid-p{i}"), spec=given.spec)
        for i in range(8)
    ]
    world = alike(*pods)
    evaluator = of(world, seed=seed)
    taken = "".join(named(world, evaluator.best_row(world.state(f"p{i}"))) for i in range(8))
    assert taken == SEEDED[seed]
    rows = np.array([world.row("a")], dtype=np.int64)
    assert named(world, evaluator.best_row(world.state("p0"), within=rows)) == "a"
    world.add(pod("full", cpu=4, node="c"))
    assert "c" not in {named(world, evaluator.best_row(world.state(f"p{i}"))) for i in range(8)}


class _Outside(FilterPlugin):
    """Asks an outside service, which accepts some nodes; notes what was asked about."""

    name = "Outside"
    scope: ClassVar[Scope] = Scope.CLUSTER
    outside: ClassVar[bool] = True

    def __init__(self, *good: str) -> None:
        self.good = good
        self.asked: list[list[str]] = []

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        names = [state.cluster.nodes.names[row] for row in np.arange(len(state.cluster.nodes))[rows]]
        self.asked.append(sorted(names))
        return np.array([FITS if name in self.good else UNSCHEDULABLE for name in names], dtype=np.int8)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        return [("said so", self.filter(state, rows) != FITS)]


_Outside.__module__ = "reprieve.tests"  # not behind a guard: what it is is seen as it is


@pytest.mark.parametrize(
    ("good", "taken", "asked"), [("bc", "b", ["a", "b"]), ("", "", ["a", "b"]), ("cd", "", ["a", "b"])]
)
def test_outside_filters_are_called_for_the_nodes_that_are_left(good: str, taken: str, asked: list[str]) -> None:
    """`FilterPlugin.outside`: after everything else, about nodes that pass it."""
    plugin = _Outside(*good)
    items = (pod("r", node="c", cpu=4), pod("x", node="d", labels={"app": "x"}))
    world = alike(*items, pod("p", cpu=1, affinity=rules(apart=[term(HOST, {"app": "x"})])), plugins=[plugin])
    assert named(world, of(world).best_row(world.state("p"))) == taken
    assert plugin.asked == [asked]
    diagnosis = of(world).diagnose(world.state("p"))
    assert diagnosis.reasons.get("said so", 0) == sum(name not in good for name in asked)
    assert of(world).ruled(world.state("p"))


def test_outside_filters_are_not_called_where_no_node_is_left() -> None:
    """Nor where it is known that no rule concerns the pod, nor about what others may take away."""
    plugin = _Outside("a")
    world = alike(pod("p", cpu=9), pod("q", cpu=1), plugins=[plugin])
    evaluator = of(world)
    assert evaluator.best_row(world.state("p")) == NO_ROW
    assert named(world, evaluator.best_row(world.state("q"), ruled=False)) == "a"
    assert evaluator.fits_row(world.state("q"), world.row("b"))
    assert plugin.asked == []
    assert named(world, evaluator.best_row(world.state("q"))) == "a"
    assert plugin.asked == [["a", "b", "c", "d"]]


@pytest.mark.parametrize(("good", "taken"), [("abcd", "d"), ("abc", "a"), ("d", "d")])
def test_nomination_counts_where_everything_lets_it_through(good: str, taken: str) -> None:
    """scheduling.md 2.3: tried first, and taken if it still fits."""
    world = alike(pod("p", cpu=1), plugins=[_Outside(*good)])
    state = CycleState(world.engine.cluster, world.record("p"), nominated=world.row("d"))
    assert named(world, of(world).best_row(state)) == taken


@pytest.mark.parametrize("name", ORDER)
def test_nomination_goes_before_scores_unless_a_rule_forbids_it(name: str) -> None:
    """Of every row, the first and the last too."""
    apart = rules(apart=[term(HOST, {"app": "x"})])
    items = (pod("x", node="b", labels={"app": "x"}), pod("p", cpu=1, affinity=apart), pod("q", cpu=1))
    world = alike(*items, plugins=[Prefers(a=100)], weights={"Prefers": 100})
    for pod_name, taken in (("p", "a" if name == "b" else name), ("q", name)):
        state = CycleState(world.engine.cluster, world.record(pod_name), nominated=world.row(name))
        assert named(world, of(world).best_row(state)) == taken
        assert named(world, of(world).best_row(state, ruled=False)) == name


def test_rules_are_left_out_where_it_is_known_that_there_are_none() -> None:
    """`ruled=False` asks no CLUSTER filter."""
    apart = rules(apart=[term(HOST, {"app": "x"})])
    world = alike(pod("x", node="a", labels={"app": "x"}), pod("p", cpu=1, affinity=apart))
    state, evaluator = world.state("p"), of(world)
    assert named(world, evaluator.best_row(state)) == "b"
    only = np.array([world.row("a")], dtype=np.int64)
    assert named(world, evaluator.best_row(state, within=only, ruled=False)) == "a"
    assert named(world, evaluator.best_row(state, within=only)) == ""


ANTI = "node(s) didn't match pod anti-affinity rules"


@pytest.mark.parametrize(("priority", "broken"), [(5, True), (7, True), (8, False)])
def test_rule_is_broken_by_running_and_by_nominated_pods(priority: int, broken: bool) -> None:
    """scheduling.md 2.2: nominated pods of equal or higher priority; `broken_rule` and `keeps_rules` agree."""
    apart = rules(apart=[term(HOST, {"app": "x"})])
    x = {"app": "x"}
    world = alike(
        pod("x", node="a", labels=x),
        pod("nominated", gates=["g"], nominated="b", priority=7, labels=x),
        pod("p", cpu=9, affinity=apart, priority=priority),
    )
    state, evaluator = world.state("p"), of(world)
    active = evaluator.rules(state)
    assert [plugin.name for plugin in active] == ["InterPodAffinity"]
    said = {name: evaluator.broken_rule(state, world.row(name), active) for name in ORDER}
    no = ("InterPodAffinity", (ANTI,))
    assert said == {"a": no, "b": no if broken else None, "c": None, "d": None}
    for name in ORDER:
        assert evaluator.keeps_rules(state, world.row(name), active) is (said[name] is None)
        assert evaluator.keeps_rules(state, world.row(name), [])
        assert evaluator.broken_by_node(state, world.row(name)) == ("NodeResourcesFit", ("Insufficient cpu",))
        assert not evaluator.fits_node(state, world.row(name))
    plain = alike(pod("p"))
    assert of(plain).rules(plain.state("p")) == []
    assert not of(plain).ruled(plain.state("p"))
    assert evaluator.ruled(state)


def test_missing_amounts_are_reported_without_the_rules() -> None:
    """`broken_by_node` asks no CLUSTER filter, not even whether it rejects the pod everywhere."""
    world = alike(pod_with("p", "gone", cpu=9))
    claims = 'persistentvolumeclaim "gone" not found'
    evaluator, row = of(world), world.row("a")
    assert evaluator.broken_by_node(world.state("p"), row) == ("NodeResourcesFit", ("Insufficient cpu",))
    assert evaluator.why_not(world.state("p"), row)[0] == "VolumeRestrictions"
    assert evaluator.diagnose(world.state("p")).pre_filter_message == claims


def test_reason_is_empty_where_a_pod_fits() -> None:
    world = alike(pod("p", cpu=1), pod("q", selector={"no": "node"}))
    assert of(world).why_not(world.state("p"), world.row("a")) == ("", ())
    why = of(world).why_not(world.state("q"), world.row("a"))
    assert why == ("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))
    assert of(world).diagnose(world.state("q")).codes.tolist() == [UNRESOLVABLE] * 4


def _naming(*names: str) -> objects.Affinity:
    field = objects.NodeSelectorRequirement(key="metadata.name", operator="In", values=names)
    terms = objects.NodeSelector(node_selector_terms=(objects.NodeSelectorTerm(match_fields=(field,)),))
    only = objects.NodeAffinity(required_during_scheduling_ignored_during_execution=terms)
    return objects.Affinity(node_affinity=only)


@pytest.mark.parametrize("plugins", [[], [_Outside("a")]], ids=["plain", "with an outside service"])
def test_pre_filter_rejection_takes_precedence_over_filters(plugins: list[FilterPlugin]) -> None:
    """PreFilter's rejection of the pod, then of nodes not worth a look; other plugins may come first in the profile."""
    world = alike(
        pod("p", cpu=9, affinity=_naming("a", "c")),
        pod("q", affinity=_naming()),
        pod("r", cpu=4, node="c"),
        plugins=plugins,
    )
    narrowed = of(world).diagnose(world.state("p"))
    assert narrowed.reasons == {"node(s) didn't satisfy plugin(s) [NodeAffinity]": 2, "Insufficient cpu": 2}
    assert narrowed.plugins == {"NodeAffinity", "NodeResourcesFit"}
    refused = of(world).diagnose(world.state("q"))
    assert (refused.pre_filter_message, refused.reasons) == ("pod affinity terms conflict", {})
    assert (refused.plugins, refused.codes.tolist()) == ({"NodeAffinity"}, [UNRESOLVABLE] * 4)
    assert refused.message() == "0/4 nodes are available: pod affinity terms conflict."
    assert of(world).why_not(world.state("p"), world.row("b"))[0] == "NodeAffinity"


def test_diagnosis_may_be_limited_to_some_rows() -> None:
    """`diagnose` within some rows: as if there were no others."""
    world = alike(pod("r", cpu=4, node="b"), pod("p", cpu=1))
    rows = np.array(sorted([world.row("b"), world.row("c")]), dtype=np.int64)
    found = of(world).diagnose(world.state("p"), rows)
    assert (found.nodes, found.reasons) == (2, {"Insufficient cpu": 1})
    assert of(world).diagnose(world.state("p")).nodes == 4


def test_cache_is_bounded_and_drops_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of pod has a view; `sizes` tells how many there are."""
    monkeypatch.setattr(Evaluator, "_VIEWS", 4)
    world = alike(*[pod(f"p{i}", cpu=f"{i + 1}00m", selector={ZONE: "z", HOST: ORDER[i % 4]}) for i in range(7)])
    evaluator = of(world)
    views = [evaluator.view(world.state(f"p{i}")) for i in range(4)]
    assert evaluator.view(world.state("p0")) is views[0]
    assert evaluator.sizes() == {"views": 4, "rule_masks": 0, "node_constraint_masks": 4}
    evaluator.view(world.state("p5"))
    assert evaluator.sizes()["views"] == 4
    assert evaluator.view(world.state("p0")) is views[0]
    assert evaluator.view(world.state("p1")) is not views[1]
    assert evaluator.sizes() == {"views": 4, "rule_masks": 0, "node_constraint_masks": 4}


def test_nothing_is_kept_where_nothing_is_shared() -> None:
    """Every view is a new one."""
    world = alike(pod("p", cpu=1))
    evaluator = of(world, share=False)
    assert not evaluator.shares
    assert evaluator.view(world.state("p")) is not evaluator.view(world.state("p"))
    assert evaluator.sizes() == {"views": 0, "rule_masks": 0, "node_constraint_masks": 0}
    assert of(world).shares


def test_pass_over_all_rows_is_counted() -> None:
    """`passes`: once for a new kind of pod, again where a quarter of the nodes changed, not where few did."""
    world = World(*[node(f"n{i:02}") for i in range(80)], pod("p", cpu=1))
    evaluator = of(world)
    counted: list[int] = []
    for many in (0, 1, 20, 21):
        for i in range(many):
            world.add(pod(f"r{len(counted)}-{i}", cpu=1, node=f"n{i:02}"))
        evaluator.view(world.state("p"))
        counted.append(evaluator.passes)
    assert counted == [1, 1, 1, 2]
