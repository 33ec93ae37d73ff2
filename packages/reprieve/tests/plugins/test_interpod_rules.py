"""InterPodAffinity rule by rule (kubernetes/kubernetes pkg/scheduler/framework/plugins/interpodaffinity)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import objects
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.plugin import CycleState
from reprieve.plugins.inter_pod_affinity import InterPodAffinity
from tests.building import World, node, pod
from tests.plugins.asking import FITS, UNRESOLVABLE, UNSCHEDULABLE, scores, verdicts
from tests.plugins.neighbours import HOST, ZONE, namespace, rules, selector, term, weighted

NODES = [
    node("n1", labels={HOST: "n1", ZONE: "a"}),
    node("n2", labels={HOST: "n2", ZONE: "a"}),
    node("n3", labels={HOST: "n3", ZONE: "b"}),
    node("n4", labels={HOST: "n4"}),
]
WEB = {"app": "web"}


def _world(own: objects.Affinity | None, *running: objects.Pod, **more: Any) -> World:
    world = World(NODES, list(running))
    world.engine.cluster.set_namespace(namespace("other", {"team": "a"}))
    return world.add(pod("p", affinity=own, **more))


def _codes(world: World) -> list[int]:
    return list(verdicts(world, InterPodAffinity()).values())


ON_N1 = pod("r", labels=WEB, node="n1")
ELSEWHERE = pod("r", labels=WEB, node="n1", namespace="other")
U, X = UNSCHEDULABLE, UNRESOLVABLE


@pytest.mark.parametrize(
    ("own", "running", "expected"),
    [
        pytest.param(rules(), [ON_N1], [], id="no terms anywhere: nothing to say"),
        pytest.param(rules(near=[term(ZONE, WEB)]), [ON_N1], [0, 0, X, X], id="near: the domain, not only the node"),
        pytest.param(rules(near=[term(HOST, WEB)]), [ON_N1], [0, X, X, X], id="near: by hostname"),
        pytest.param(rules(near=[term(ZONE, WEB)]), [], [X, X, X, X], id="near: no pods there, and not of the series"),
        pytest.param(rules(near=[term(ZONE, None)]), [ON_N1], [X, X, X, X], id="an absent selector matches no pods"),
        pytest.param(rules(near=[term(ZONE, {})]), [ON_N1], [0, 0, X, X], id="an empty selector matches all pods"),
        pytest.param(
            rules(apart=[term(ZONE, WEB)]), [ON_N1], [U, U, 0, 0], id="apart: a node without the label is free"
        ),
        pytest.param(rules(apart=[term(HOST, WEB)]), [ON_N1], [U, 0, 0, 0], id="apart: by hostname"),
        pytest.param(rules(near=[term(ZONE, WEB)]), [ELSEWHERE], [X, X, X, X], id="its own namespace by default"),
        pytest.param(
            rules(near=[term(ZONE, WEB, namespaces=["other"])]), [ELSEWHERE], [0, 0, X, X], id="a namespace by name"
        ),
        pytest.param(
            rules(near=[term(ZONE, WEB, namespace_labels={"team": "a"})]), [ELSEWHERE], [0, 0, X, X], id="by its labels"
        ),
        pytest.param(
            rules(near=[term(ZONE, WEB, namespace_labels={"team": "b"})]), [ELSEWHERE], [X, X, X, X], id="other labels"
        ),
        pytest.param(
            rules(near=[term(ZONE, WEB, namespace_labels={})]), [ELSEWHERE], [0, 0, X, X], id="every namespace"
        ),
        pytest.param(
            rules(near=[term(ZONE, WEB), term(ZONE, {"tier": "1"})]),
            [ON_N1, pod("s", labels={"tier": "1"}, node="n1")],
            [X, X, X, X],
            id="one pod must match all affinity terms",
        ),
        pytest.param(
            rules(apart=[term(ZONE, WEB), term(HOST, {"tier": "1"})]),
            [ON_N1, pod("s", labels={"tier": "1"}, node="n3")],
            [U, U, U, 0],
            id="any anti-affinity term is enough",
        ),
        pytest.param(
            rules(near=[term(ZONE, selector(None, ("app", "NotIn", ("web",))))]),
            [ON_N1],
            [FITS, FITS, FITS, X],
            id="expressions; it is of its own series",
        ),
        pytest.param(
            rules(near=[term(ZONE, WEB)]), [pod("r", labels=WEB, node="n4")], [X, X, X, X], id="a pod in no domain"
        ),
    ],
)
def test_own_terms(own: objects.Affinity, running: list[objects.Pod], expected: list[int]) -> None:
    """Required terms of the pod that comes; a pod without labels."""
    assert _codes(_world(own, *running)) == expected


@pytest.mark.parametrize(
    ("keys", "mismatch", "expected"),
    [
        (["version"], [], [FITS, FITS, X, X]),
        ([], ["version"], [X, X, FITS, X]),
        (["absent"], [], [FITS, FITS, FITS, X]),
    ],
)
def test_label_keys(keys: list[str], mismatch: list[str], expected: list[int]) -> None:
    """KEP-3633: matchLabelKeys asks for the pod's own value, mismatchLabelKeys for any but that."""
    own = rules(near=[term(ZONE, WEB, match=keys, mismatch=mismatch)])
    old = pod("old", labels={**WEB, "version": "1"}, node="n3")
    new = pod("new", labels={**WEB, "version": "2"}, node="n1")
    assert _codes(_world(own, old, new, labels={"version": "2"})) == expected


def test_first_of_a_series() -> None:
    """A pod that matches its own affinity passes where no pod does yet, if the node has the labels."""
    own = rules(near=[term(ZONE, WEB)])
    assert _codes(_world(own, labels=WEB)) == [FITS, FITS, FITS, X]
    assert _codes(_world(own, pod("r", labels=WEB, node="n3"), labels=WEB)) == [X, X, FITS, X]
    assert _codes(_world(own, pod("r", labels=WEB, node="n4"), labels=WEB)) == [FITS, FITS, FITS, X]


@pytest.mark.parametrize(("labels", "expected"), [(WEB, [U, U, FITS, FITS]), ({"app": "db"}, [])])
def test_running_pods_forbid(labels: dict[str, str], expected: list[int]) -> None:
    """Required anti-affinity of pods that run keeps pods away that match it; others are not asked at all."""
    hermit = pod("hermit", affinity=rules(apart=[term(ZONE, WEB)]), node="n2")
    assert _codes(_world(None, hermit, labels=labels)) == expected


@pytest.mark.parametrize(
    ("own", "running", "hard", "expected"),
    [
        pytest.param(rules(rather_near=[weighted(5, term(ZONE, WEB))]), [ON_N1], 1, [100, 100, 0, 0], id="rather near"),
        pytest.param(
            rules(rather_apart=[weighted(5, term(HOST, WEB))]), [ON_N1], 1, [0, 100, 100, 100], id="rather apart"
        ),
        pytest.param(
            rules(rather_near=[weighted(2, term(ZONE, WEB)), weighted(1, term(HOST, WEB))]),
            [ON_N1],
            1,
            [100, 66, 0, 0],
            id="weights add up, the share is truncated",
        ),
        pytest.param(
            None,
            [pod("r", affinity=rules(rather_near=[weighted(7, term(ZONE, {}))]), node="n3")],
            1,
            [0, 0, 100, 0],
            id="preferences of pods that run",
        ),
        pytest.param(
            None, [pod("r", affinity=rules(near=[term(ZONE, {})]), node="n1")], 1, [100, 100, 0, 0], id="hard weight"
        ),
        pytest.param(None, [pod("r", affinity=rules(near=[term(ZONE, {})]), node="n1")], 0, [], id="no hard weight"),
        pytest.param(None, [ON_N1], 1, [], id="no pod prefers anything"),
        pytest.param(rules(rather_near=[weighted(5, term("none", WEB))]), [ON_N1], 1, [0, 0, 0, 0], id="all alike"),
    ],
)
def test_scores(own: objects.Affinity | None, running: list[objects.Pod], hard: int, expected: list[int]) -> None:
    """Normalized: lowest 0, highest 100."""
    assert list(scores(_world(own, *running), InterPodAffinity(hard_weight=hard)).values()) == expected


@pytest.mark.parametrize(
    ("running", "ignore", "hard", "scored"),
    [
        (rules(rather_near=[weighted(7, term(ZONE, {}))]), False, 1, True),
        (rules(rather_near=[weighted(7, term(ZONE, {}))]), True, 1, False),
        (rules(near=[term(ZONE, {})]), False, 1, True),
        (rules(near=[term(ZONE, {})]), False, 0, False),
        (rules(near=[term(ZONE, {})]), True, 1, False),
    ],
)
def test_whether_there_is_anything_to_score(running: objects.Affinity, ignore: bool, hard: int, scored: bool) -> None:
    """PreScore of 1.36: a pod without terms is scored only for terms of others that weigh something and count."""
    world = _world(None, pod("r", affinity=running, node="n3"))
    plugin = InterPodAffinity(hard_weight=hard, ignore_preferred=ignore)
    assert plugin.pre_score(CycleState(world.engine.cluster, world.record("p"))) is scored


def test_preferences_of_running_pods_can_be_ignored() -> None:
    """ignorePreferredTermsOfExistingPods counts for pods without preferences of their own only."""
    fond = pod("r", affinity=rules(rather_near=[weighted(7, term(ZONE, {}))]), node="n3")
    plugin = InterPodAffinity(ignore_preferred=True)
    assert scores(_world(None, fond), plugin) == {}
    own = rules(rather_near=[weighted(1, term(ZONE, WEB))])
    assert list(scores(_world(own, fond), plugin).values()) == [0, 0, 100, 0]


@pytest.mark.parametrize(
    ("own", "other", "kind", "expected"),
    [
        (rules(near=[term(ZONE, WEB)]), pod("e", labels=WEB), EventKind.POD_PLACED, True),
        (rules(near=[term(ZONE, WEB)]), pod("e", labels={"app": "db"}), EventKind.POD_PLACED, False),
        (rules(apart=[term(ZONE, WEB)]), pod("e", labels=WEB), EventKind.POD_GONE, True),
        (rules(apart=[term(ZONE, WEB)]), pod("e", labels={"app": "db"}), EventKind.POD_GONE, False),
        (None, pod("e", affinity=rules(apart=[term(ZONE, {})])), EventKind.POD_GONE, True),
        (rules(near=[term(ZONE, WEB)]), pod("e", labels=WEB), EventKind.POD_GONE, False),
    ],
)
def test_hints(own: objects.Affinity | None, other: objects.Pod, kind: EventKind, expected: bool) -> None:
    """scheduling.md 1: which event may help a pod this plugin rejected."""
    world = _world(own).add(other)
    event = ClusterEvent(kind, row=0, pod=world.record("e"))
    assert InterPodAffinity().events()[kind](world.engine.cluster, world.record("p"), event) is expected


def test_labels_that_change_are_seen() -> None:
    """A running pod that is relabelled, and a namespace that is, count as what they are now."""
    world = _world(rules(near=[term(ZONE, WEB, namespace_labels={"team": "b"})]), ELSEWHERE)
    cluster = world.engine.cluster
    assert _codes(world) == [X, X, X, X]
    cluster.set_namespace(namespace("other", {"team": "b"}))
    assert _codes(world) == [FITS, FITS, X, X]
    running = world.record("r")
    cluster.change_pod(running, signature=running.signature, labels={"app": "db"}, start=None)
    assert _codes(world) == [X, X, X, X]
    cluster.check()
