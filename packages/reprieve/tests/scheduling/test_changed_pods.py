"""New versions of pods: what they change in the cluster cache, and which pods they wake (scheduling.md 1)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.queueing.entity import QueueState
from tests.building import START, World, bound_to, gang, group, node, pod, toleration
from tests.plugins.devices import claim, device_class, user
from tests.plugins.neighbours import HOST, rules, term

OWNED = {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}]}
Change = Callable[[objects.Pod], objects.Pod]


def relabel(item: objects.Pod) -> objects.Pod:
    return replace(item, metadata=replace(item.metadata, labels={"app": "other"}))


def tolerate(item: objects.Pod) -> objects.Pod:
    return replace(item, spec=replace(item.spec, tolerations=(toleration("a", "Exists"),)))


def annotate(item: objects.Pod) -> objects.Pod:
    return replace(item, metadata=replace(item.metadata, annotations={"note": "x"}))


def apart_from(app: str, where: str) -> objects.Pod:
    """A running pod that keeps pods with a label away from its node."""
    return pod("apart", cpu=1, node=where, affinity=rules(apart=[term(HOST, {"app": app})]))


@pytest.mark.parametrize(
    ("change", "neighbour", "woken"),
    [(relabel, True, True), (relabel, False, False), (tolerate, False, True), (annotate, True, False)],
    ids=["labels that a rule reads", "labels that no rule reads", "tolerations", "annotations"],
)
def test_pending_pod_is_tried_again_after_a_change_that_filters_read(
    change: Change, neighbour: bool, woken: bool
) -> None:
    """scheduling.md 1.4"""
    more = [apart_from("web", "n1")] if neighbour else []
    world = World(node("n1", labels={HOST: "n1"}), *more, pod("p", cpu=9, labels={"app": "web"})).drain()
    assert world.place("p") is QueueState.UNSCHEDULABLE
    world.change_pod("p", change)
    world.engine.tick(START + 60)
    assert (world.place("p") is QueueState.ACTIVE) is woken


def test_pod_with_a_new_claim_of_its_template_is_tried_again() -> None:
    """scheduling.md 1.4: the name of the claim is in the status."""
    world = World(node("n1"), device_class(), user("p", templates=["t"]), claim("p-claim", metadata=OWNED)).drain()
    assert world.place("p") is not QueueState.ACTIVE
    before = world.record("p").claims
    (asked,) = world.objects[world.record("p").uid].spec.resource_claims
    status = objects.PodResourceClaimStatus(name=asked.name, resource_claim_name="p-claim")
    attempts = world.engine.attempts
    world.change_pod("p", lambda item: replace(item, status=replace(item.status, resource_claim_statuses=(status,))))
    assert world.record("p").claims != before
    world.engine.tick(START + 60)
    world.engine.step(START + 60)
    assert world.engine.attempts == attempts + 1


def leaving(item: objects.Pod, seconds: float) -> objects.Pod:
    when = datetime.fromtimestamp(START + seconds, UTC)
    return replace(item, metadata=replace(item.metadata, deletion_timestamp=when))


def test_shorter_grace_period_of_a_terminating_pod_is_read() -> None:
    """cost.md 5.1: reservations count from the end of the victims."""
    world = World(node("n1"), pod("p", cpu=1, node="n1"))
    for seconds in (30.0, 5.0):
        world.change_pod("p", lambda item, seconds=seconds: leaving(item, seconds))  # type: ignore[misc]
        assert world.engine.cluster.departures[world.record("p").uid] == START + seconds


@pytest.mark.parametrize("where", ["n1", "n2"])
def test_api_decides_where_an_assumed_pod_runs(where: str) -> None:
    """scheduling.md 7: a pod that another scheduler bound elsewhere uses capacity there alone."""
    world = World(node("n1", cpu=4), node("n2", cpu=4), pod("p", cpu=4))
    assert [binding.node for binding in world.step().bindings] == ["n1"]
    world.engine.set(bound_to(world.objects[world.record("p").uid], where), START)
    assert world.where == {"p": where}
    world.add(pod("q", cpu=4)).drain()
    assert world.where["q"] == ("n2" if where == "n1" else "n1")


@pytest.mark.parametrize(
    ("member", "woken"), [("large-1", True), ("other-0", False)], ids=["of the group", "of another"]
)
def test_new_member_wakes_its_group(member: str, woken: bool) -> None:
    """scheduling.md 1.4"""
    world = World(node("n1"), gang("large", 1, cpu=9), group("other", min_count=5)).drain()
    assert world.place("large") is QueueState.UNSCHEDULABLE
    world.add(pod(member, cpu=1, group=member[:5]))
    world.engine.tick(START + 60)
    assert (world.place("large") is QueueState.ACTIVE) is woken


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_frees_its_capacity_and_is_unknown_afterwards(phase: str) -> None:
    """scheduling.md 1.4"""
    world = World(node("n1", cpu=4), pod("p", cpu=4, node="n1"), pod("q", cpu=4)).drain()
    ended = world.objects[world.record("p").uid]
    world.engine.set(replace(ended, status=replace(ended.status, phase=phase)), START)
    assert not world.engine.remove(ObjectRef("Pod", uid=ended.metadata.uid), START).known
    world.engine.tick(START + 60)
    assert world.place("q") is QueueState.ACTIVE


def gated(item: objects.Pod, *gates: str) -> objects.Pod:
    names = tuple(objects.PodSchedulingGate(name=name) for name in gates)
    return replace(item, spec=replace(item.spec, scheduling_gates=names))


def test_gate_on_a_preemptor_ends_its_nomination() -> None:
    """cost.md 5.3: the capacity is released for that reason; without the gate nothing is released."""
    world = World(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("p", cpu=4, priority=1))
    world.step()
    for gates, reasons in (((), []), (("g", "h"), ["gated by g, h"]), ((), [])):
        world.change_pod("p", lambda item, gates=gates: gated(item, *gates))  # type: ignore[misc]
        assert [released.message for released in world.released()] == reasons
        assert (world.place("p") is QueueState.GATED) is bool(gates) or not reasons
    assert world.nominated == {}
