"""What the groups of a tree say of their scheduling, and that they make room (composite.md 4, 5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules import objects as o
from reprieve.client.discovery import Resource
from reprieve.scheduling.decision import (
    UNSCHEDULABLE,
    GroupCondition,
)
from tests.live.faults import group
from tests.live.scene import Scene, run

Json = dict[str, Any]

_COMPOSITES = Resource("scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup", True)


def composite(scene: Scene, name: str, *, parent: str = "", mode: str = "single", status: Json | None = None) -> None:
    """A CompositePodGroup of one group or more, as the informer has it and as the engine has it."""
    item = msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1},
            "spec": {
                "workloadRef": {"workloadName": "w", "templateName": "t"},
                "parentCompositePodGroupName": parent,
                "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                "disruptionMode": {mode: {}},
            },
            "status": status or {},
        },
        o.CompositePodGroup,
    )
    scene.conditions.seen_group(item, _COMPOSITES)
    scene.engine.set(item, scene.now)


def leaf(scene: Scene, name: str, parent: str, count: int = 1) -> None:
    body = group(name, count=count)
    body["metadata"] |= {"uid": f"uid-{name}", "generation": 1}
    body["spec"] |= {"parentCompositePodGroupName": parent}
    item = msgspec.convert(body, o.PodGroup)
    scene.conditions.seen_group(item, Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", True))
    scene.engine.set(item, scene.now)


def written(scene: Scene) -> list[tuple[str, str, str, str]]:
    """(uid, type, status, reason) of every condition that was written to a group, in order; and nothing after that."""
    found = [(uid, said["type"], said["status"], said["reason"]) for uid, said, _ in scene.writes.groups]
    scene.writes.groups.clear()
    return found


SCHEDULED_TREE = "CompositePodGroupInitiallyScheduled"


def test_every_group_of_a_scheduled_tree_has_its_condition() -> None:
    async def test(scene: Scene) -> None:
        composite(scene, "root")
        composite(scene, "mid", parent="root")
        leaf(scene, "low", "mid")
        scene.pod("a", group="low", cpu="1")
        decision = scene.engine.step(scene.now).decision
        assert decision is not None
        scene.conditions.decided(decision)
        await scene.conditions.drain()
        resources = {uid: str(resource) for uid, _, resource in scene.writes.groups}
        assert sorted(written(scene)) == [
            ("uid-low", "PodGroupInitiallyScheduled", "True", "Scheduled"),
            ("uid-mid", SCHEDULED_TREE, "True", "Scheduled"),
            ("uid-root", SCHEDULED_TREE, "True", "Scheduled"),
        ]
        assert resources["uid-root"] == "compositepodgroups.v1alpha3.scheduling.k8s.io"
        # Final: whatever comes later.
        scene.conditions.group(GroupCondition("default/root", False, UNSCHEDULABLE, "m", composite=True))
        await scene.conditions.drain()
        assert written(scene) == []

    run(test)


def test_composite_is_no_group_of_its_name() -> None:
    async def test(scene: Scene) -> None:
        scene.group()
        composite(scene, "g")
        scene.conditions.group(GroupCondition("default/g", True, "Scheduled", "", composite=True))
        await scene.conditions.drain()
        assert [one[:2] for one in written(scene)] == [("uid-g", SCHEDULED_TREE)]
        assert scene.conditions.was_scheduled("composite/default/g")
        assert not scene.conditions.was_scheduled("group/default/g")

    run(test)


def test_tree_that_waits_for_its_quorum_is_reported_on_every_group() -> None:
    async def test(scene: Scene) -> None:
        composite(scene, "root")
        leaf(scene, "low", "root", count=2)
        scene.pod("a", group="low", cpu="1")
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        messages = {said["message"] for _, said, _ in scene.writes.groups}
        assert sorted(one[0] for one in written(scene)) == ["uid-low", "uid-root"]
        assert messages == {'waiting for composite pod group "root" tree to meet quorum'}

    run(test)


@pytest.mark.parametrize(
    ("parents", "reasons"),
    [
        ({"a": "gone"}, {"uid-a": "Unschedulable"}),
        ({"a": "b", "b": "a"}, {"uid-a": "Invalid", "uid-b": "Invalid"}),
        ({"a": "a"}, {"uid-a": "Invalid"}),
        ({"a": "", "b": "a", "c": "b", "d": "c"}, {"uid-d": "Invalid"}),
        (
            {"a": "", "b": "a", "c": "b", "d": "c", "leaf:e": "d", "leaf:f": "a"},
            {**{f"uid-{name}": "Invalid" for name in "abcd"}, "uid-f": "SchedulerError"},
        ),
    ],
    ids=["missing", "cycle", "itself", "deep", "a leaf that is too deep"],
)
def test_composites_without_a_root_say_why(parents: dict[str, str], reasons: dict[str, str]) -> None:
    """Also without any pods: a layout that cannot be scheduled is reported to its author, once."""

    async def test(scene: Scene) -> None:
        for name, parent in parents.items():
            if name.startswith("leaf:"):
                leaf(scene, name.removeprefix("leaf:"), parent)
            else:
                composite(scene, name, parent=parent)
        for _ in range(3):
            scene.conditions.waiting(scene.engine, scene.now)
            await scene.conditions.drain()
        assert {uid: reason for uid, _, _, reason in written(scene)} == reasons

    run(test)


def test_unit_that_makes_room_is_reported_on_each_of_its_groups() -> None:
    """composite.md 4.4: DisruptionTarget on every group of an `all` tree, and taken back from all where it stays."""

    async def test(scene: Scene) -> None:
        composite(scene, "root", mode="all")
        composite(scene, "mid", parent="root")
        leaf(scene, "low", "mid")
        scene.pod("a", group="low", cpu="1")
        assert scene.engine.step(scene.now).decision is not None
        unit = scene.engine.cluster.groups["default/low"].unit
        assert unit is not None
        preemptor = scene.pod("urgent", cpu="1")
        await scene.conditions.group_disrupted(unit, preemptor, by="compositepodgroup")
        messages = {said["message"] for _, said, _ in scene.writes.groups}
        told = written(scene)
        assert sorted(one[0] for one in told) == ["uid-low", "uid-mid", "uid-root"]
        assert {one[1:] for one in told} == {("DisruptionTarget", "True", "PreemptionByScheduler")}
        assert messages == {"default-scheduler: preempting to accommodate a higher priority compositepodgroup"}
        assert scene.conditions.is_disrupted("composite/default/mid")
        assert len(scene.conditions.group_spared(unit)) == 3
        assert {one[1:] for one in written(scene)} == {("DisruptionTarget", "False", "PreemptionFailed")}

    run(test)
