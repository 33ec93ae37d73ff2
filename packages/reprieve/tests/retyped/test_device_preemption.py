"""Pods that preempt for devices: the cases of kube-scheduler's proposed tests and of KEP-5690, written again.

Source: kubernetes/kubernetes pull request 139266, dynamicresources_preemption_test.go; KEP-5690, "Claim nomination" and
"Integration tests".  What differs on purpose is in docs/devices.md, "Differences from kube-scheduler".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kube_rules import objects
from tests.building import Item, World, gang, group, node, pod
from tests.plugins.devices import (
    DRIVER,
    Json,
    allocated,
    claim,
    device,
    device_class,
    devices,
    got,
    request,
    slice_of,
    template,
    user,
)

LOW, HIGH, HIGHER = 0, 10, 20


def held(name: str, device_name: str, *by: str) -> objects.ResourceClaim:
    """A claim with a device of n1, reserved for pods; those that own it by default are called as the claim."""
    return claim(name, status=allocated((DRIVER, "n1", device_name), to=[f"uid-{pod}" for pod in by or (name,)]))


def runs(name: str, *claims: str, priority: int = LOW, **fields: Any) -> objects.Pod:
    """A pod on n1 that uses these claims; by default the one of its name."""
    return user(name, *(claims or (name,)), priority=priority, node="n1", grace=0, **fields)


def full(**priorities: int) -> list[Item]:
    """Three devices: those of `one` and `two`, and one that `a` and `b` share. Pods without a priority have HIGH."""
    pods = [
        runs(name, "shared" if name in "ab" else name, priority=priorities.get(name, HIGH))
        for name in ("one", "two", "a", "b")
    ]
    taken = [held("one", "gpu-0"), held("shared", "gpu-1", "a", "b"), held("two", "gpu-2")]
    return [node("n1", cpu=8), device_class(), slice_of("n1", devices(3)), *taken, *pods]


def preemptor(count: int = 1, **fields: Any) -> list[Item]:
    """The pod `high` with so many claims of a device each."""
    names = [f"wants-{number}" for number in range(count)]
    return [*(claim(name) for name in names), user("high", *names, **{"priority": HIGH, **fields})]


FULL: dict[str, tuple[dict[str, int], int, list[str]]] = {
    "all holders have its priority": ({}, 1, []),
    "one holder is lower": ({"one": LOW}, 1, ["one"]),
    "one of two that share a claim is lower": ({"a": LOW}, 1, []),
    "both that share a claim are lower": ({"a": LOW, "b": LOW}, 1, ["a", "b"]),
    "two claims, two holders are lower": ({"one": LOW, "two": LOW}, 2, ["one", "two"]),
    "two claims, one holder is lower": ({"one": LOW}, 2, []),
    "the more important holder comes back": ({"one": LOW, "two": LOW + 1}, 1, ["one"]),
    "one device alone costs less than a shared one": ({"one": LOW, "a": LOW, "b": LOW}, 1, ["one"]),
    "three claims take all": ({"one": LOW, "two": LOW, "a": LOW, "b": LOW}, 3, ["a", "b", "one", "two"]),
}


@pytest.mark.parametrize(("priorities", "count", "evicted"), FULL.values(), ids=FULL)
def test_holders_of_devices_are_evicted(priorities: dict[str, int], count: int, evicted: list[str]) -> None:
    """preemption.md 3.2, 3.4."""
    world = World(*full(**priorities), *preemptor(count)).settle()
    assert (world.evicted, "high" in world.where) == (evicted, bool(evicted))


def test_victim_with_two_claims_frees_both() -> None:
    """preemption.md 3.2: also a pod that names one of its claims twice."""
    items = [
        node("n1", cpu=8),
        device_class(),
        slice_of("n1", devices(2)),
        held("x", "gpu-0", "v"),
        held("y", "gpu-1", "v"),
    ]
    world = World(*items, runs("v", "x", "y", "x"), *preemptor(2)).settle()
    assert (world.evicted, world.where) == (["v"], {"high": "n1"})


RESERVED: dict[str, tuple[Iterable[Json], bool]] = {
    "for the pod": ([{"resource": "pods", "name": "v", "uid": "uid-v"}], True),
    "not yet": ([], True),
    "for another pod": ([{"resource": "pods", "name": "w", "uid": "uid-w"}], False),
    "for another pod as well": (
        [{"resource": "pods", "name": "v", "uid": "uid-v"}, {"resource": "pods", "name": "w", "uid": "uid-w"}],
        False,
    ),
    "for a pod group": (
        [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}],
        False,
    ),
}


@pytest.mark.parametrize(("consumers", "freed"), RESERVED.values(), ids=RESERVED)
def test_claim_is_free_when_all_its_consumers_would_be_gone(consumers: Iterable[Json], freed: bool) -> None:
    """preemption.md 3.2, 9.2: otherwise no pods are evicted."""
    status = {**allocated((DRIVER, "n1", "gpu-0")), "reservedFor": list(consumers)}
    items = [node("n1", cpu=8), device_class(), slice_of("n1", devices(1)), claim("c", status=status)]
    world = World(*items, runs("v", "c"), *preemptor()).settle()
    assert world.evicted == (["v"] if freed else [])


@pytest.mark.parametrize("uses", [{"claims": ["gone"]}, {"templates": ["gone"]}], ids=["a claim", "a template"])
def test_victim_with_a_claim_that_is_not_there_is_a_victim_like_others(uses: dict[str, list[str]]) -> None:
    """preemption.md 3.1: here for its cpu."""
    made = user("v", *uses.get("claims", ()), templates=uses.get("templates", ()), node="n1", grace=0)
    world = World(node("n1", cpu=1), device_class(), slice_of("n1", devices(1)))
    world.add(made, *preemptor()).settle()
    assert (world.evicted, world.where) == (["v"], {"high": "n1"})


def shared(name: str, amount: str, share: str) -> objects.ResourceClaim:
    """A claim with a part of the device `nic` of n1."""
    more: Json = {"shareID": share, "consumedCapacity": {"bw": amount}}
    return claim(name, request(), status=allocated((DRIVER, "n1", "nic"), to=[f"uid-{name}"], **more))


def bandwidth(name: str, amount: str) -> objects.ResourceClaim:
    return claim(name, request(capacity={"requests": {"bw": amount}}))


@pytest.mark.parametrize(("wants", "evicted"), [("2", []), ("3", ["a"]), ("6", ["b"]), ("8", ["a", "b"]), ("11", [])])
def test_parts_of_a_device_that_several_share(wants: str, evicted: list[str]) -> None:
    """preemption.md 3.4: of 10 there are 3 and 5 in use; what stays is counted with what it has."""
    nic = device("nic", allowMultipleAllocations=True, capacity={"bw": {"value": "10"}})
    world = World(
        node("n1", cpu=8),
        device_class(),
        slice_of("n1", [nic]),
        shared("a", "3", "00000000-0000-0000-0000-00000000000a"),
        shared("b", "5", "00000000-0000-0000-0000-00000000000b"),
        runs("a", priority=LOW),
        runs("b", priority=LOW + 1),
        bandwidth("w", wants),
        user("high", "w", priority=HIGH),
    ).settle()
    assert (world.evicted, "high" in world.where) == (evicted, wants != "11")


def card(*parts: tuple[str, str]) -> list[Item]:
    """A card of 40Gi that is cut into these partitions."""
    cut = [
        device(
            name,
            {"whole": name == "whole"},
            consumesCounters=[{"counterSet": "card", "counters": {"mem": {"value": size}}}],
        )
        for name, size in parts
    ]
    counters = [{"name": "card", "counters": {"mem": {"value": "40Gi"}}}]
    return [
        slice_of("n1", name="counters", sharedCounters=counters, count=2),
        slice_of("n1", cut, name="parts", count=2),
    ]


def test_partitions_of_several_pods_make_room_for_the_whole_device() -> None:
    """preemption.md 3.2: a pod with another partition is evicted only if that is needed."""
    whole = f'device.attributes["{DRIVER}"].whole'
    items = [node("n1", cpu=8), device_class(), *card(("half-0", "20Gi"), ("half-1", "20Gi"), ("whole", "40Gi"))]
    halves = [held("x", "half-0"), held("y", "half-1"), runs("x"), runs("y", priority=LOW + 1)]
    wants = [claim("w", request("r", "gpu", whole)), user("high", "w", priority=HIGH)]
    assert World(*items, *halves, *wants).settle().evicted == ["x", "y"]
    part = [claim("w", request("r", "gpu", f"!{whole}")), user("high", "w", priority=HIGH)]
    assert World(*items, *halves, *part).settle().evicted == ["x"]


@pytest.mark.parametrize("where", [{"allNodes": True}, {"nodeSelector": "n1"}], ids=["all nodes", "selected nodes"])
def test_devices_that_several_nodes_reach_are_freed(where: dict[str, Any]) -> None:
    """devices.md: KEP-5690 frees those of one node alone."""
    if "nodeSelector" in where:
        field = {"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}
        where = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    taken = claim("v", status=allocated((DRIVER, "net", "gpu-0"), node=None, to=["uid-v"]))
    items = [node("n1", cpu=8), node("n2", cpu=8), device_class(), slice_of(None, devices(1), **where)]
    world = World(*items, taken, runs("v"), *preemptor()).settle()
    assert world.evicted == ["v"]
    assert "high" in world.where


@pytest.mark.parametrize("whole", [False, True])
def test_pods_of_groups_evict_and_are_evicted_for_devices(whole: bool) -> None:
    """preemption.md 4.3: KEP-5690 leaves out pods of a group, as preemptors and as victims."""
    items = [node("n1", cpu=8), device_class(), slice_of("n1", devices(2)), template()]
    low = [group("low", min_count=2, whole=whole)]
    low_pods = [user(f"low-{i}", templates=["t"], group="low", priority=LOW) for i in range(2)]
    world = World(*items, *low, *low_pods).settle()
    spec, *_ = gang("high", 1, priority=HIGH)
    world.add(spec, user("high-0", templates=["t"], group="high", priority=HIGH)).settle()
    assert "high-0" in world.where
    assert len(world.evicted) == (2 if whole else 1)


class Reclaiming:
    """One node, where devices are given back only when a test says so: the time between t0 and t4 of the KEP."""

    def __init__(self, *items: Item) -> None:
        self.world = World(node("n1", cpu=8), device_class(), *items)
        self.engine, self.now = self.world.engine, self.world.now

    def step(self) -> Any:
        """The next decision, some time later."""
        self.now += 20
        return self.engine.step(self.now).decision

    def all(self) -> list[Any]:
        """All decisions until nothing is left to try; what is bound is confirmed at once."""
        found = []
        while (decision := self.step()) is not None:
            for binding in decision.bindings:
                self.engine.confirm_binding(binding.pod.uid)
            found.append(decision)
        return found

    def evicts(self, name: str) -> list[str]:
        """The next that evicts is this pod; its victims leave, and keep their devices for now (t1)."""
        while (decision := self.step()) is not None and decision.preemption is None:
            assert not decision.bindings
        assert decision is not None, f"{name} evicts no pods"
        assert [p.name for p, _ in decision.preemption.nominations] == [name]
        victims = [victim for verdict in decision.preemption.victims for victim in verdict.unit.pods]
        for victim in victims:
            self.engine.mark_terminating(victim.uid, self.now, preempted=True)
        self.engine.finish_preemption(decision.ref, self.now)
        for victim in victims:
            self.engine.remove(objects.ObjectRef("Pod", uid=victim.uid), self.now)
        return sorted(victim.name for victim in victims)

    def given_back(self, *claims: str) -> None:
        """The devices of these claims are free (t3)."""
        for name in claims:
            self.engine.set(claim(name), self.now)

    @property
    def where(self) -> dict[str, str]:
        """Where pods are, bound or about to be."""
        names = self.engine.cluster.nodes.names
        return {record.name: names[record.row] for record in self.engine.cluster.pods.values() if record.row >= 0}


def two_devices() -> list[Item]:
    """Two devices, both in use."""
    taken = [held("x", "gpu-0"), held("y", "gpu-1"), runs("x"), runs("y", priority=LOW + 1)]
    return [slice_of("n1", devices(2)), *taken]


def test_no_second_victims_while_devices_are_not_given_back() -> None:
    """preemption.md 2.7."""
    found = Reclaiming(*two_devices(), *preemptor())
    assert found.evicts("high") == ["x"]
    assert all(decision.preemption is None for decision in found.all())
    found.given_back("x")
    found.all()
    assert found.where == {"high": "n1", "y": "n1"}


@pytest.mark.parametrize("priority", [LOW, HIGH])
def test_freed_devices_are_held_for_the_preemptor(priority: int) -> None:
    """preemption.md 3.4: another pod, not of higher priority, does not get them between t3 and t4."""
    found = Reclaiming(*two_devices(), *preemptor())
    assert found.evicts("high") == ["x"]
    found.world.add(claim("late"), user("late", "late", priority=priority, never=True))
    assert all(not decision.bindings for decision in found.all())
    found.given_back("x")
    found.all()
    assert found.where == {"high": "n1", "y": "n1"}


def test_higher_priority_takes_them_and_the_preemptor_evicts_again() -> None:
    """preemption.md 2.7, 3.4."""
    found = Reclaiming(*two_devices(), *preemptor())
    assert found.evicts("high") == ["x"]
    found.all()
    found.world.add(claim("top"), user("top", "top", priority=HIGHER, never=True))
    found.given_back("x")
    decision = found.step()
    assert [binding.pod.name for binding in decision.bindings] == ["top"]
    found.engine.confirm_binding("uid-top")
    assert found.evicts("high") == ["y"]
    found.given_back("y")
    found.all()
    assert found.where == {"high": "n1", "top": "n1"}


def test_what_is_held_is_free_when_the_preemptor_is_deleted() -> None:
    """preemption.md 7.3: the next pod gets it."""
    found = Reclaiming(*two_devices(), *preemptor())
    assert found.evicts("high") == ["x"]
    found.world.add(claim("late"), user("late", "late", priority=LOW))
    found.given_back("x")
    found.engine.remove(objects.ObjectRef("Pod", uid="uid-high"), found.now)
    found.all()
    assert found.where == {"late": "n1", "y": "n1"}


def test_two_preemptors_share_a_victim_with_two_devices() -> None:
    """preemption.md 3.4: the second gets what the first does not need, and evicts no others."""
    both = claim(
        "v", request(count=2), status=allocated((DRIVER, "n1", "gpu-0"), (DRIVER, "n1", "gpu-1"), to=["uid-v"])
    )
    found = Reclaiming(slice_of("n1", devices(2)), both, runs("v"), *preemptor())
    assert found.evicts("high") == ["v"]
    found.world.add(claim("w"), user("second", "w", priority=HIGH))
    assert all(decision.preemption is None for decision in found.all())
    found.given_back("v")
    found.all()
    assert found.where == {"high": "n1", "second": "n1"}


def test_second_preemptor_evicts_for_its_own_part_when_the_first_has_got_its() -> None:
    """preemption.md 2.7: KEP-5690 lets it evict at once; here the part counts twice until it is given back."""
    nic = device("nic", allowMultipleAllocations=True, capacity={"bw": {"value": "80"}})
    found = Reclaiming(
        slice_of("n1", [nic]),
        shared("v1", "40", "00000000-0000-0000-0000-00000000000a"),
        shared("v2", "40", "00000000-0000-0000-0000-00000000000b"),
        runs("v1"),
        runs("v2", priority=LOW + 1),
        bandwidth("w1", "40"),
        user("high", "w1", priority=HIGH),
    )
    assert found.evicts("high") == ["v1"]
    found.world.add(bandwidth("w2", "40"), user("second", "w2", priority=HIGH))
    assert all(decision.preemption is None for decision in found.all())
    found.given_back("v1")
    assert [binding.pod.name for binding in found.step().bindings] == ["high"]
    found.engine.confirm_binding("uid-high")
    assert found.evicts("second") == ["v2"]
    found.given_back("v2")
    found.all()
    assert found.where == {"high": "n1", "second": "n1"}
    assert got(found.world, "w1") == got(found.world, "w2") == ["n1/nic"]


def test_without_devices_to_free_no_pods_are_evicted() -> None:
    """preemption.md 9.2: the pod that holds none."""
    items = [
        node("n1", cpu=8),
        device_class(),
        slice_of("n1", devices(1)),
        held("x", "gpu-0"),
        runs("x", priority=HIGH),
    ]
    world = World(*items, pod("plain", node="n1", grace=0), *preemptor()).settle()
    assert world.evicted == []
