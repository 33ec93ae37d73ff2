"""Pods are gangs if their controller asks for it (workloads.md 2.10)."""

from __future__ import annotations

from typing import Any, Self

import msgspec
import pytest
from msgspec.structs import replace

from kube_rules.decoding import decode_object
from kube_rules.group_owners import OWNER_KINDS, GroupOwner
from kube_rules.group_sources import GroupSources
from kube_rules.meta import KubernetesObject, ObjectRef
from kube_rules.objects import Pod
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests import manifests
from tests.scheduling.checked_engine import CheckedEngine

KINDS = {kind.KIND: kind for kind in OWNER_KINDS}
Json = dict[str, Any]


def owner(kind: str, spec: Json, *, asks: bool = True, name: str = "o") -> GroupOwner:
    annotations = {"scheduling.reprieve.dev/gang": "true"} if asks else {}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    return msgspec.convert({"metadata": meta, "spec": spec}, KINDS[kind])


def job_spec(parallelism: int, **more: Any) -> Json:
    return {"parallelism": parallelism, "completions": parallelism, **more}


SIZES: dict[str, tuple[str, Json, dict[str, int]]] = {
    "job": ("Job", {"parallelism": 4, "completions": 8}, {"": 4}),
    "job with fewer completions": ("Job", {"parallelism": 4, "completions": 2}, {"": 2}),
    "job that says nothing": ("Job", {}, {"": 1}),
    "job that is stopped": ("Job", {"parallelism": 0}, {}),
    "job set": (
        "JobSet",
        {
            "replicatedJobs": [
                {"name": "driver", "template": {"spec": job_spec(1)}},
                {"name": "workers", "replicas": 2, "template": {"spec": job_spec(3)}},
            ]
        },
        {"driver": 1, "workers": 6},
    ),
    "leader and workers": ("LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {"size": 4}}, {"*": 4}),
    "leader first": (
        "LeaderWorkerSet",
        {"leaderWorkerTemplate": {"size": 4}, "startupPolicy": "LeaderReady"},
        {"*": 1},
    ),
    "ray": (
        "RayCluster",
        {"workerGroupSpecs": [{"replicas": 2, "numOfHosts": 2}, {"minReplicas": 1}, {"replicas": 9, "suspend": True}]},
        {"": 6},
    ),
    "ray that scales itself": (
        "RayCluster",
        {"enableInTreeAutoscaling": True, "workerGroupSpecs": [{"replicas": 5, "minReplicas": 1}]},
        {"": 2},
    ),
    "numbers that are none": ("Job", {"parallelism": "many", "completions": -1}, {"": 1}),
    "shapes that are none": ("JobSet", {"replicatedJobs": {"name": "x"}}, {}),
}


@pytest.mark.parametrize("case", SIZES)
def test_how_many_pods_each_gang_needs(case: str) -> None:
    kind, spec, sizes = SIZES[case]
    assert owner(kind, spec).sizes() == sizes


def pod(name: str, labels: Json | None = None, *, job: str = "", priority: int = 0) -> Pod:
    meta: Json = {"namespace": "default", "labels": labels or {}}
    if job:
        controller = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "u", "controller": True}
        meta["ownerReferences"] = [controller]
    decoded = decode_object(manifests.pod(name, 1, meta=meta, priority=priority))
    assert isinstance(decoded, Pod)
    return decoded


LWS = {"leaderworkerset.sigs.k8s.io/name": "o", "leaderworkerset.sigs.k8s.io/group-index": "0"}
JOBSET = {"jobset.sigs.k8s.io/jobset-name": "o", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
GANGS: dict[str, tuple[GroupOwner, list[Pod], str]] = {
    "Job": (owner("Job", job_spec(2)), [pod(f"p{n}", job="o") for n in range(2)], "default/job:o"),
    "JobSet": (
        owner("JobSet", {"replicatedJobs": [{"name": "w", "template": {"spec": job_spec(2)}}]}),
        [pod(f"p{n}", JOBSET, job="o-w-0") for n in range(2)],
        "default/jobset:o:w",
    ),
    "LeaderWorkerSet": (
        owner("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 2}}),
        [pod(f"p{n}", LWS) for n in range(2)],
        "default/leaderworkerset:o:0",
    ),
    "RayCluster": (
        owner("RayCluster", {"workerGroupSpecs": [{"replicas": 1}]}),
        [pod(f"p{n}", {"ray.io/cluster": "o"}) for n in range(2)],
        "default/raycluster:o",
    ),
}


class World(CheckedEngine):
    """One node with so many CPUs; the gate is `on`, and controllers are watched (`known`)."""

    def __init__(self, cpu: int, *, on: bool = True, known: bool = True) -> None:
        super().__init__(cpu, EngineOptions(sources=GroupSources.switched({"owners": on}), validate=True))
        if known:
            self.engine.watch_owners(KINDS, 0.0)

    def add(self, *items: KubernetesObject) -> Self:
        return super().add(*items).run()

    @property
    def groups(self) -> set[str | None]:
        return {one.group for one in self.engine.cluster.pods.values()}


@pytest.mark.parametrize("first", ["owner", "pods"])
@pytest.mark.parametrize("kind", GANGS)
def test_pods_of_a_controller_that_asks_are_a_gang(kind: str, first: str) -> None:
    """Whichever is heard of first: pods wait until their controller is known."""
    controller, pods, group = GANGS[kind]
    items = [controller, *pods] if first == "owner" else [*pods, controller]
    assert not World(1).add(*items).placed
    world = World(2).add(*items)
    assert (len(world.placed), world.groups) == (2, {group})


@pytest.mark.parametrize("kind", GANGS)
def test_pods_of_a_controller_that_does_not_ask_are_by_themselves(kind: str) -> None:
    controller, pods, _ = GANGS[kind]
    plain = msgspec.structs.replace(controller, metadata=msgspec.structs.replace(controller.metadata, annotations={}))
    for items in ([plain, *pods], [*pods, plain]):
        world = World(1).add(*items)
        assert (len(world.placed), world.groups) == (1, {None})


@pytest.mark.parametrize("kind", GANGS)
def test_source_is_off_by_default(kind: str) -> None:
    """workloads.md 1.2."""
    controller, pods, _ = GANGS[kind]
    world = World(1, on=False).add(controller, *pods)
    assert (len(world.placed), world.groups) == (1, {None})


def test_pods_of_kinds_that_are_not_watched_wait_for_no_controller() -> None:
    """Their definition may not be installed, or we may not read them; once it is, they are gangs."""
    controller, pods, group = GANGS["JobSet"]
    world = World(1, known=False).add(pods[0])
    assert len(world.placed) == 1
    world.engine.watch_owners(["JobSet"], world.now)
    world.add(controller, pods[1])
    assert world.groups == {group}


def test_pod_of_a_deleted_controller_waits_until_it_exists_again() -> None:
    """workloads.md 2.10."""
    controller, pods, group = GANGS["Job"]
    world = World(2).add(controller)
    world.engine.remove(ObjectRef("Job", "default/o"), world.now)
    assert not world.add(*pods).placed
    assert (len(world.add(controller).placed), world.groups) == (2, {group})


def test_controller_asks_later_and_changes_its_size() -> None:
    controller, pods, group = GANGS["Job"]
    plain = msgspec.structs.replace(controller, metadata=msgspec.structs.replace(controller.metadata, annotations={}))
    world = World(0).add(plain, *pods)
    assert world.groups == {None}
    world.add(owner("Job", job_spec(3)))
    assert world.groups == {group}
    assert world.engine.cluster.groups[group].min_count == 3
    world.add(owner("Job", job_spec(2)))
    assert world.engine.cluster.groups[group].min_count == 2
    world.add(plain)
    assert world.groups == {None}
    for one in pods:
        world.engine.remove(ObjectRef("Pod", uid=f"default/{one.name}"), world.now)
    objects = world.engine._groups._objects
    assert world.engine.cluster.groups == {}
    assert (objects._owned_pods, objects._owner_of, len(objects._sized_groups)) == ({}, {}, 0)


def test_gang_of_a_controller_has_the_highest_priority_of_its_pods() -> None:
    """workloads.md 2.6."""
    controller, _, group = GANGS["Job"]
    for low, high in ((3, 7), (0, 1), (-1, 0)):
        pods = [pod("p0", job="o", priority=low), pod("p1", job="o", priority=high)]
        for items in ([controller, *pods], [*pods, controller], [pods[1], controller, pods[0]]):
            spec = World(0).add(*items).engine.cluster.groups[group].spec
            assert spec is not None
            assert spec.priority == high


def test_priority_of_a_gang_of_a_controller_is_the_highest_of_the_pods_that_are_left() -> None:
    """workloads.md 2.6."""
    controller, _, group = GANGS["Job"]
    world = World(0).add(controller, *(pod(f"p{n}", job="o", priority=n) for n in (3, 7, 5)))
    for gone, left in (("p3", 7), ("p7", 5)):
        world.engine.remove(ObjectRef("Pod", uid=f"default/{gone}"), world.now)
        spec = world.engine.cluster.groups[group].spec
        assert spec is not None
        assert spec.priority == left


def test_only_pods_of_kinds_that_are_reported_now_or_no_longer_change() -> None:
    """workloads.md 2.10: they wait for their controller, or not at all."""
    sources = GroupSources.switched({"owners": True})
    engine = Engine(EngineOptions(sources=sources, validate=True))
    for turn, kind in enumerate(("Job", "RayCluster")):
        member = GANGS[kind][1][0]
        engine.set(replace(member, metadata=replace(member.metadata, name=kind)), float(turn))

    def groups(*kinds: str) -> dict[str, str | None]:
        engine.watch_owners(frozenset(kinds), 9.0)
        return {one.name: one.group for one in engine.cluster.pods.values()}

    job, ray = GANGS["Job"][2], GANGS["RayCluster"][2]
    assert groups() == {"Job": None, "RayCluster": None}
    assert groups("Job") == {"Job": job, "RayCluster": None}
    assert groups("Job", "RayCluster") == {"Job": job, "RayCluster": ray}
    assert groups("RayCluster") == {"Job": None, "RayCluster": ray}
    assert groups() == {"Job": None, "RayCluster": None}
