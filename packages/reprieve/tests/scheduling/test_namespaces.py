"""Every object is of its namespace, and one that names none of `default`, as the API server has it."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from kube_rules.decoding import decode_object
from kube_rules.group_owners import Job
from kube_rules.group_sources import GroupSources
from kube_rules.meta import ObjectRef
from kube_rules.objects import KubernetesObject, Pod, PodGroup
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import World, composite, group, node, pdb, pod
from tests.plugins import storage
from tests.plugins.devices import claim as device_claim
from tests.plugins.devices import device_class, devices, slice_of, user

NAMESPACES = pytest.mark.parametrize("namespace", ["", "default", "team"])
Made = TypeVar("Made", bound=KubernetesObject)


def moved(item: Made, namespace: str) -> Made:
    """The same object in another namespace."""
    return replace(item, metadata=replace(item.metadata, namespace=namespace))


@NAMESPACES
def test_groups_and_their_pods(namespace: str) -> None:
    """composite.md 1.1, 1.4: a pod is in the group of its own namespace, a group below the composite of its own."""
    world = World(node("n", cpu=2), composite("t", min_groups=1, namespace=namespace))
    world.add(group("g", min_count=2, parent="t", namespace=namespace))
    world.add(*(pod(name, cpu=1, group="g", namespace=namespace) for name in "ab"))
    cluster, key = world.engine.cluster, namespace or "default"
    assert set(cluster.groups) == {f"{key}/g"}
    assert set(cluster.trees.composites) == {f"{key}/t"}
    decision = world.step()
    assert decision.ref == f"composite/{key}/t"
    assert [binding.pod.key for binding in decision.bindings] == [f"{key}/a", f"{key}/b"]
    world.engine.remove(ObjectRef("CompositePodGroup", f"{key}/t"), world.now)
    world.engine.remove(ObjectRef("PodGroup", f"{key}/g"), world.now)
    assert not cluster.trees.composites
    assert cluster.groups[f"{key}/g"].spec is None


@NAMESPACES
def test_same_name_elsewhere_is_another_group(namespace: str) -> None:
    """Two are asked for, and there is one in each."""
    world = World(node("n"), *(group("g", min_count=2, namespace=each) for each in (namespace, "other")))
    world.add(pod("a", group="g", namespace=namespace), pod("b", group="g", namespace="other")).settle()
    assert world.where == {}


@NAMESPACES
def test_groups_of_other_apis(namespace: str) -> None:
    """workloads.md 2.7: by the annotation of pods of their namespace, in the leaf of their task."""
    meta = {"name": "g", "namespace": namespace}
    spec = {"minMember": 2, "minTaskMember": {"a": 2}}
    found = decode_object(
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}
    )
    assert isinstance(found, PodGroup)
    marks = {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "a"}
    members = [pod(name, cpu=1, namespace=namespace, annotations=marks) for name in "pq"]
    for items in ([found, *members], [*members, found]):
        engine = Engine(EngineOptions(validate=True))
        engine.set(node("n", cpu=2), 0.0)
        for item in items:
            if isinstance(item, Pod):
                engine.set(item, 1.0)
            elif isinstance(item, PodGroup):
                engine.set(item, 1.0, created=1.0)
        decision = engine.step(2.0).decision
        assert decision is not None
        assert {binding.pod.group for binding in decision.bindings} == {f"{namespace or 'default'}/g:a"}


@NAMESPACES
def test_controllers_that_stand_for_gangs(namespace: str) -> None:
    """workloads.md 2.10: the controller of the pod's namespace."""
    meta = {"name": "j", "namespace": namespace, "annotations": {"scheduling.reprieve.dev/gang": "true"}}
    job = msgspec.convert({"metadata": meta, "spec": {"parallelism": 2, "completions": 2}}, Job)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    engine = Engine(EngineOptions(sources=GroupSources.switched({"owners": True}), validate=True))
    engine.set(node("n", cpu=2), 0.0)
    engine.watch_owners(frozenset({"Job"}), 0.0)
    engine.set(job, 1.0)
    for name in "pq":
        made = {"name": name, "namespace": namespace, "ownerReferences": [owner]}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        member = decode_object({"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec})
        assert isinstance(member, Pod)
        assert engine.step(1.5).decision is None
        engine.set(member, 1.0)
    decision = engine.step(2.0).decision
    assert decision is not None
    assert [binding.pod.key for binding in decision.bindings] == [f"{namespace or 'default'}/{name}" for name in "pq"]


@NAMESPACES
def test_budgets(namespace: str) -> None:
    """preemption.md 3.3: a budget is about pods of its own namespace; a pod that no budget counts is evicted first."""
    world = World(node("n", cpu=2), pdb("b", namespace=namespace))
    world.add(pod("mine", cpu=1, node="n", namespace=namespace), pod("theirs", cpu=1, node="n", namespace="other"))
    world.add(pod("p", cpu=1, priority=5)).settle()
    assert world.evicted == ["theirs"]


@NAMESPACES
def test_claims_of_devices_and_volumes(namespace: str) -> None:
    """A pod names claims of its own namespace."""
    world = World(node("n", cpu=4), device_class(), slice_of("n", devices(1)), storage.storage_class("wait"))
    needs = moved(user("p", "c"), namespace)
    world.add(needs, moved(storage.pod("q", "v"), namespace)).settle()
    assert world.where == {}
    world.add(moved(device_claim("c"), namespace))
    assert world.settle().where == {"p": "n"}
    world.engine.remove(ObjectRef("ResourceClaim", f"{namespace}/{'c'}"), world.now)
    world.add(moved(user("r", "c"), namespace)).settle()
    assert "r" not in world.where
