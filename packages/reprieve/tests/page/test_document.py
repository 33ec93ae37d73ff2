"""The document of the page (page.md 1, 2, 3.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from reprieve.cli.plan_page import planned_page
from reprieve.cluster.resources import CPU
from reprieve.decisions.records import DecisionRecord
from reprieve.observability.recorder import RecordKeeper
from reprieve.page import cluster_tables, queue_view
from reprieve.page.builder import document_of
from reprieve.page.documents import PageDocument
from reprieve.page.rights import visible
from reprieve.python.inputs import InputSource, gather
from reprieve.simulation.plan import PlanOptions
from tests.building import World, gang, group, node, pod
from tests.plugins.devices import DRIVER, allocated, claim, devices, slice_of, user


class Records:
    """A store in memory, newest last."""

    def __init__(self) -> None:
        self.kept: dict[int, DecisionRecord] = {}

    def next_id(self) -> int:
        return len(self.kept) + 1

    def put(self, record: DecisionRecord, involved: object) -> None:
        self.kept[record.id] = record

    async def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        raise NotImplementedError

    def close(self) -> None:
        pass


def document(*items: Any) -> PageDocument:
    """The document after everything was decided, and before any victim has left."""
    world, store = World(*items), Records()
    keeper = RecordKeeper(store)
    keeper.attach(world.engine)
    while (decision := world.engine.step(world.now).decision) is not None:
        keeper.decided(decision, seconds=0.0, now=world.now)
    preemptions = [record for record in store.kept.values() if record.preemption is not None]
    return document_of(world.engine, world.now, keeper.latest, preemptions)


def full() -> list[Any]:
    """Two full nodes; a gang of another namespace is evicted for one that comes."""
    return [
        node("n1", gpu=8, labels={"topology.kubernetes.io/rack": "r1", "only": "1"}),
        node("n2", gpu=8, labels={"topology.kubernetes.io/rack": "r1", "only": "2"}),
        group("old", min_count=2, whole=True, namespace="b"),
        *[pod(f"old-{at}", gpu=8, group="old", node=f"n{at + 1}", namespace="b") for at in range(2)],
        *gang("new", 2, gpu=8, priority=100),
    ]


def test_columns_have_an_entry_each_and_point_into_each_other() -> None:
    """page.md 1.1, 1.2, 1.3: nodes by name, pods by workload, references are places."""
    tables = document(*full()).cluster
    assert tables is not None
    assert tables.block == "nvidia.com/gpu"
    assert tables.nodes.names == ("n1", "n2")
    assert tables.nodes.blocks == (8, 8)
    workloads = list(zip(tables.workloads.kinds, tables.workloads.namespaces, tables.workloads.names, strict=True))
    assert workloads == [("PodGroup", "b", "old"), ("PodGroup", "default", "new")]
    assert tables.workloads.min_counts == (2, 2)
    pods = {
        name: (tables.workloads.names[workload], tables.nodes.names[at] if at >= 0 else "", blocks)
        for name, workload, at, blocks in zip(
            tables.pods.names, tables.pods.workloads, tables.pods.nodes, tables.pods.blocks, strict=True
        )
    }
    assert pods == {
        "old-0": ("old", "n1", 8),
        "old-1": ("old", "n2", 8),
        "new-0": ("new", "", 8),
        "new-1": ("new", "", 8),
    }
    assert {len(column) for column in msgspec.structs.astuple(tables.pods)[:-1]} == {4}
    assert list(tables.nodes.labels) == ["topology.kubernetes.io/rack"]  # the other has a value for each node


def test_flags_say_what_is_seen_at_a_glance() -> None:
    """page.md 1.5, 1.6."""
    cordoned = node("n3", unschedulable=True, taints=[("node.kubernetes.io/unschedulable", "", "NoSchedule")])
    tables = document(*full(), cordoned, node("n4", taints=[("gpu", "yes", "NoSchedule")])).cluster
    assert tables is not None
    assert dict(zip(tables.nodes.names, tables.nodes.flags, strict=True)) == {"n1": 4, "n2": 4, "n3": 1, "n4": 2}
    assert tables.nodes.taint_sets[tables.nodes.taints[3]] == ("gpu=yes:NoSchedule",)
    flags = dict(zip(tables.pods.names, tables.pods.flags, strict=True))
    assert flags == {"old-0": 4, "old-1": 4, "new-0": 0, "new-1": 0}


def test_resource_that_no_pod_asks_for_is_drawn_too() -> None:
    """page.md 1.4: what nodes have counts; a GPU before any other; nothing of which a node has more than 64."""
    assert cluster_tables.block_resource(World(node("n", gpu=8)).engine) == "nvidia.com/gpu"
    more = node("n", more={"a.example/nic": 4, "b.example/gpu": 2, "c.example/port": 65})
    assert cluster_tables.block_resource(World(more).engine) == "b.example/gpu"
    assert cluster_tables.block_resource(World(node("n")).engine) == ""


def test_queue_is_in_the_order_of_attempts_with_reasons() -> None:
    """page.md 2.1, 2.2."""
    found = document(*full(), pod("small", gpu=1, priority=-1), pod("held", gates=["wait"], priority=1000))
    assert [(item.name, item.why) for item in found.queue] == [
        ("new", "Preempting"),
        ("small", "Resources"),
        ("held", "Gated"),
    ]
    assert found.queue[0].evicts == ("b/old",)
    assert found.queue[0].pods == 2
    assert document(node("n")).sentences["queue"] == "No pending workloads."


def test_help_of_a_running_scheduler_was_not_tried_and_that_of_a_plan_was(tmp_path: Path) -> None:
    """page.md 2.3: without its taint the node would still be too small, so a plan does not list that change."""
    found = document(node("n1", cpu=4, taints=[("gpu", "yes", "NoSchedule")]), pod("waits", cpu=8))
    assert [change.kind for change in found.queue[0].help] == ["Node", "Toleration"]
    (tmp_path / "in.yaml").write_text(TAINTED)
    prepared = gather(InputSource(files=(str(tmp_path / "in.yaml"),)), lambda _: None)
    _, planned = planned_page(prepared, PlanOptions(), suggest=True)
    assert [item.name for item in planned.queue] == ["waits"]
    assert "Toleration" not in {change.kind for change in planned.queue[0].help}
    assert all(change.flags for change in planned.queue[0].help)


TAINTED = """
apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {taints: [{key: gpu, value: "yes", effect: NoSchedule}]}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
{apiVersion: v1, kind: Pod, metadata: {name: waits}, spec: {containers: [{name: c, resources: {requests: {cpu: 8}}}]}}
"""


def test_each_view_begins_with_what_matters() -> None:
    """page.md 3.1."""
    found = document(*full())
    assert found.sentences == {
        "cluster": "2 pods on 2 nodes, 16 of 16 GPUs in use.",
        "queue": "1 pending workload: 1 Preempting.",
        "decisions": "old was evicted for new.",
        "whatif": "Try a change; the cluster is not touched. The plan includes 1 pending workload.",
    }
    assert document(node("n", cpu="4"), pod("p", cpu="2", node="n")).sentences["cluster"] == (
        "1 pod on 1 node, 2 of 4 CPUs requested."
    )


def test_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """page.md 1.7."""
    monkeypatch.setattr(cluster_tables, "MOST_PODS", 3)
    monkeypatch.setattr(queue_view, "MOST_ITEMS", 1)
    found = document(*full(), pod("small", gpu=1))
    assert found.cluster is not None
    assert (len(found.cluster.pods.names), found.cluster.pods_total) == (3, 5)
    assert (len(found.queue), found.queue_total) == (1, 2)


def test_reader_of_one_namespace_sees_kind_and_priority_of_the_rest() -> None:
    """page.md 4.1, 4.2: nothing in the document names what may not be seen."""
    whole = document(*full(), pod("secret-pod", gpu=1, namespace="b", labels={"secret": "label"}))
    mine, theirs = visible(whole, {"default"}), visible(whole, {"b"})
    text = json.dumps(msgspec.to_builtins(mine))
    assert "old" not in text
    assert "secret" not in text
    assert "new" in text
    assert "default" not in json.dumps(msgspec.to_builtins(theirs))
    assert not mine.complete
    assert mine.cluster is not None
    hidden = mine.cluster.workloads.namespaces.index("")
    assert mine.cluster.workloads.priorities[hidden] == 0
    assert mine.sentences["decisions"] == "1 workload was evicted for new."
    assert theirs.sentences["decisions"] == "old was evicted for a PodGroup of priority 100."
    (record,) = [record for record in mine.records if record.preemption is not None]
    assert record.preemption is not None
    assert [(unit.unit, unit.kind, unit.priority) for unit in record.preemption.evicted] == [("", "PodGroup", 0)]


def test_reader_of_some_namespaces_sees_no_plan_and_no_report() -> None:
    """page.md 4.3."""
    whole = document(*full())
    more: dict[str, Any] = {"before": whole.cluster, "plan": {"pods": []}, "text": "a plan", "warnings": ("b/x",)}
    shown = visible(replace(whole, **more, replay={"policies": []}, shadow={"differences": []}), {"default"})
    assert (shown.before, shown.plan, shown.text, shown.warnings) == (None, None, "", ())
    assert (shown.replay, shown.shadow) == (None, None)
    assert not {"plan", "replay", "shadow"} & shown.sentences.keys()


def test_cpu_is_milli_units() -> None:
    """page.md 1.2: as the cluster cache has it."""
    tables = document(node("n", cpu="4"), pod("p", cpu="1500m", node="n")).cluster
    assert tables is not None
    assert CPU == 2
    assert (tables.nodes.cpu, tables.pods.cpu) == ((4000,), (1500,))


def test_devices_are_blocks_where_nothing_else_is() -> None:
    """page.md 1.4: devices of single nodes, and the claims of pods; a shared claim counts once."""
    world = World(
        *(node(name) for name in ("n1", "n2", "plain")),
        *(slice_of(name, devices(4)) for name in ("n1", "n2")),
        slice_of(None, devices(9), pool="net", driver="net.example.com", allNodes=True),
        claim("one", status=allocated((DRIVER, "n1", "gpu-0"), to=["uid-a", "uid-b"])),
        claim("two", status=allocated((DRIVER, "n1", "gpu-1"), (DRIVER, "n1", "gpu-2"), to=["uid-b"])),
        user("a", "one", node="n1"),
        user("b", "one", "two", node="n1"),
    )
    tables = cluster_tables.tables_of(world.engine)
    assert (tables.block, tables.nodes.names, tables.nodes.blocks) == (DRIVER, ("n1", "n2", "plain"), (4, 4, 0))
    assert dict(zip(tables.pods.names, tables.pods.blocks, strict=True)) == {"a": 1, "b": 2}
