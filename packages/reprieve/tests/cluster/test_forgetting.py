"""What is kept for pods goes with the last pod that needs it: a cluster that runs for months does not grow."""

from __future__ import annotations

import gc
import random

import msgspec
import pytest

from kube_rules import objects
from kube_rules.meta import ObjectMeta, ObjectRef, OwnerReference
from kube_rules.owners import ReplicaSet
from kube_rules.selectors import NOTHING, compile_label_selector
from reprieve.cluster.affinity_terms import Matcher
from reprieve.cluster.pod_affinity_index import MOST_MATCH_COUNTS
from reprieve.cluster.pods import record_of
from reprieve.cluster.signature import SignatureTable
from reprieve.cluster.small_sets import count
from reprieve.cluster.state import ClusterState
from tests.building import World, annotated, node, pdb, pod, priority_class


def _apart(app: str) -> objects.Affinity:
    term = objects.PodAffinityTerm(
        topology_key="kubernetes.io/hostname", label_selector=objects.LabelSelector(match_labels={"app": app})
    )
    return objects.Affinity(
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )


def _sizes(state: ClusterState) -> dict[str, int]:
    gc.collect()
    return {**state.signatures.sizes(), **state.pod_affinity.sizes()}


def _unlike(number: int) -> objects.Pod:
    made = pod(f"p{number}", node=f"n{number % 3}", cpu=f"{number + 1}m", labels={"app": f"a{number}"})
    spec = msgspec.structs.replace(_with_image(made, number).spec, affinity=_apart(f"a{number}"))
    return msgspec.structs.replace(made, spec=spec)


def _with_image(made: objects.Pod, number: int) -> objects.Pod:
    container = msgspec.structs.replace(made.spec.containers[0], image=f"image:{number}")
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, containers=(container,)))


def test_unlike_pods_leave_nothing_behind() -> None:
    """Signatures, constraints, label classes and terms are forgotten one by one, not all at once or never."""
    state = ClusterState()
    for number in range(3):
        state.set_node(node(f"n{number}"))
    uids = []
    for number in range(40):
        made = _unlike(number)
        record = record_of(made, state.signatures, created=0.0)
        state.add_pod(record, made.spec.node_name)
        uids.append(record.uid)
    assert _sizes(state)["label_classes"] == _sizes(state)["affinity_terms"] == 0, "of a namespace that is asleep"
    assert len(state.pod_affinity.anti_affinity_terms(record)) == 1
    del record
    assert _sizes(state) == {
        "signatures": 40,
        "pod_constraints": 40,
        "node_constraints": 1,
        "label_classes": 40,
        "match_counts": 0,
        "affinity_terms": 40,
    }
    for uid in uids[:30]:
        state.remove_pod(state.pods[uid])
        state.check()
    assert {name: size for name, size in _sizes(state).items() if size != 10} == {
        "match_counts": 0,
        "node_constraints": 1,
    }
    for uid in uids[30:]:
        state.remove_pod(state.pods[uid])
    assert set(_sizes(state).values()) == {0}


def test_signatures_of_pods_that_are_gone_make_way_for_others() -> None:
    """Those of pods that are there stay; of others there are never more than 1,024, or a quarter of the former."""
    signatures = ClusterState().signatures
    kept = [signatures.intern(_unlike(number)) for number in range(100)]
    for number in range(100, 3000):
        signatures.intern(_unlike(number))
        assert len(signatures) <= 1024
    assert all(signatures.intern(_unlike(number)) is known for number, known in enumerate(kept))
    assert signatures.sizes() == {"signatures": 100, "pod_constraints": 100, "node_constraints": 1}


def test_signatures_that_are_all_in_use_are_searched_when_they_are_twice_as_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To load a cluster of unlike pods takes no search after each quarter more; once some go, searches are frequent."""
    searched = []

    def forget(table: SignatureTable) -> None:
        searched.append(len(table))
        _forget(table)

    _forget = SignatureTable._forget
    monkeypatch.setattr(SignatureTable, "_forget", forget)
    signatures = ClusterState().signatures
    kept = [signatures.intern(_unlike(number)) for number in range(4100)]
    assert searched == [1024, 2048, 4096]
    del kept[:100]
    for number in range(4100, 20_000):
        signatures.intern(_unlike(number))
    assert searched[3:5] == [8192, 5000], "4,000 are in use"


def test_amounts_and_images_are_no_part_of_the_constraints() -> None:
    """Pods that differ in requests and images share what is compiled from selectors and tolerations."""
    pods = [_with_image(pod(f"p{i}", node="n0", cpu=f"{i + 1}m", selector={"disk": "fast"}), i) for i in range(5)]
    world = World(node("n0"), *pods)
    records = [world.record(f"p{i}") for i in range(5)]
    assert len({record.signature.id for record in records}) == 5
    assert len({record.signature.constraints.id for record in records}) == 1


def test_match_counts_are_bounded_and_the_oldest_go_first() -> None:
    """A repeated question gets the same counts as before."""
    world = World(node("n0"), *(pod(f"p{i}", node="n0", labels={"app": f"a{i}"}) for i in range(3)))
    index = world.engine.cluster.pod_affinity

    def matchers(app: str) -> tuple[Matcher, ...]:
        term = _apart(app).pod_anti_affinity
        assert term is not None
        record = world.record("p0")
        selector = term.required_during_scheduling_ignored_during_execution[0].label_selector
        assert selector is not None

        return (Matcher(frozenset({record.namespace}), NOTHING, compile_label_selector(selector)),)

    kept = index.counts(matchers("a1")).copy()
    assert kept[0] == 1
    for number in range(MOST_MATCH_COUNTS + 5):
        index.counts(matchers(f"other-{number}"))
        index.counts(matchers("a0"))
    assert index.sizes()["match_counts"] == MOST_MATCH_COUNTS
    assert index.counts(matchers("a1")).tolist() == kept.tolist()
    world.engine.cluster.check()
    assert count(index.label_class(world.record("p0")).counted_by) == 1


def test_query_about_a_pod_that_has_left_keeps_nothing() -> None:
    """Queueing hints look at pods that are gone; that must not bring their labels back."""
    world = World(node("n0"), _unlike(0), _unlike(3))
    state, gone = world.engine.cluster, world.record("p0")
    state.remove_pod(gone)
    assert state.pod_affinity.label_class(gone).labels == {"app": "a0"}
    assert gone.label_class is None
    assert _sizes(state)["label_classes"] == 1
    state.check()


def test_terms_stated_on_many_nodes_are_counted_as_on_few() -> None:
    """Row by row or as one array, through moves, a trial and a node that comes late: `check` compares the two."""
    state = ClusterState()
    for number in range(40):
        state.set_node(node(f"n{number}"))
    apart = _apart("web")
    for number in range(40):
        made = pod(f"p{number}", node=f"n{number}", labels={"app": "web"})
        made = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, affinity=apart))
        state.add_pod(record_of(made, state.signatures, created=0.0), made.spec.node_name)
    index = state.pod_affinity
    (term,) = index.anti_affinity_terms(next(iter(state.pods.values())))
    assert index.stated(term) is not None
    pods = list(state.pods.values())
    with state.trial():
        state.displace_all(pods[:20])
        stated = index.stated(term)
        assert stated is not None
        assert stated.tolist()[:21] == [0] * 20 + [1]
        state.check()
    state.check()
    state.set_node(node("late"))
    state.displace(pods[0])
    state.place(pods[0], 40)
    state.check()
    for gone in pods[1:]:
        state.remove_pod(gone)
        state.check()
    assert index.stated(term) is None
    assert term.rows == {40: 1}


def test_pods_that_are_gone_are_counted_until_their_budget_knows() -> None:
    """cost.md 2.8: for 30 seconds, or until its status is written; older ones are not kept, written or not."""
    budget = pdb("x", {"app": "x"}, allowed=9)
    respects = priority_class("respects", 9, annotated(pdb_policy="Respect"))
    world = World(respects, node("n"), budget, *(pod(f"p{i}", node="n", labels={"app": "x"}) for i in range(50)))
    state = world.engine.cluster
    counted = []
    for number in range(50):
        state.now = 10.0 * number
        state.remove_pod(world.record(f"p{number}"))
        counted.append(state.unsettled_disruptions("default/x"))
    assert counted == [1, 2, *[3] * 48]
    assert len(state._unsettled["default/x"]) == 3
    state.set_budget(budget)
    assert state.unsettled_disruptions("default/x") == 0


def test_budget_counts_pods_by_label_after_any_change() -> None:
    """preemption.md 6, policy/v1: as asking every budget, over budgets that come, select otherwise, and go."""
    chance = random.Random(1)
    values = [{key: chance.choice("xyz") for key in "ab" if chance.random() < 0.7} for _ in range(20)]
    world = World(node("n"), *(pod(f"p{i}", node="n", labels=labels) for i, labels in enumerate(values)))
    state = world.engine.cluster
    for turn in range(60):
        name = f"b{chance.randrange(12)}"
        if chance.random() < 0.3:
            state.remove_budget(f"default/{name}")
        else:
            labels = {key: chance.choice("xyz") for key in "ab" if chance.random() < 0.5}
            state.set_budget(pdb(name, labels, allowed=turn))
        for each in state.pods.values():
            counting = [key for key, budget in state.budgets.items() if budget.counts(each)]
            assert sorted(state.budgets_counting(each)) == sorted(counting)
            (charged,) = state.budget_index.charges([[each]])
            same = {(b.selector, b.disrupted) for key, b in state.budgets.items() if key in counting}
            assert len(charged) == len(same)


def test_controller_of_a_controller_is_forgotten_with_it() -> None:
    """preemption.md 6: pods belong together by the highest controller that is known, and only as long as it is."""
    above = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="u", controller=True)
    replica_set = ReplicaSet(metadata=ObjectMeta(name="web-1", namespace="default", owner_references=(above,)))
    world = World(node("n")).add(replica_set)
    controllers, owner = world.engine.cluster.controllers, ("apps/v1", "ReplicaSet", "web-1")
    assert controllers.highest("default", owner) == ("apps/v1", "Deployment", "web")
    assert controllers.highest("other", owner) == owner
    assert world.engine.remove(ObjectRef("ReplicaSet", "default/web-1"), world.now).known
    assert controllers.highest("default", owner) == owner
    assert not world.engine.remove(ObjectRef("ReplicaSet", "default/web-1"), world.now).known
