"""Upgrade, downgrade, upgrade: the sequences of KEP-5710, "Were upgrade and rollback tested?", on one data directory.

A cluster is restarted with the gate GenericWorkload off (the API server drops `schedulingGroup` and serves no
PodGroups, the scheduler knows pods alone) and on. Part P: a pod group is the preemptor. Part V: a pod group is the
victim. On every node there is room for one pod. At last PodGroupPreemptionPolicy alone is off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.cluster import (
    CLASSES,
    GROUPS,
    PODS,
    Json,
    Up,
    condition,
    eventually,
    is_running,
    nodes_file,
    pod,
    pod_group,
    priority_class,
    up,
)

DEFAULT_PODS = PODS.format(namespace="default")
DEFAULT_GROUPS = GROUPS.format(namespace="default")
P_NODES = [f"p{index}" for index in range(1, 7)]
V_NODES = [f"v{index}" for index in range(1, 9)]
W_NODES = ["w1", "w2"]
PARTS = {name: {"part": name[0]} for name in (*P_NODES, *V_NODES, *W_NODES)}
OFF, ON = "GenericWorkload=false", "GenericWorkload=true"
POD_ATTEMPTS, GROUP_ATTEMPTS = "scheduler_preemption_attempts_total", "scheduler_podgroup_preemption_attempts_total"


class Cluster:
    """One data directory, started and stopped."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._nodes = nodes_file(directory, *PARTS, cpu="1", labels=PARTS)

    @contextmanager
    def started(self, gates: str) -> Iterator[Up]:
        """Run it with these gates."""
        arguments = (f"--nodes-file={self._nodes}", f"--feature-gates={gates}")
        with up(self._directory, *arguments, data_dir=str(self._directory / "data")) as running:
            yield running


def create(cluster: Up, *pods: Json) -> None:
    for manifest in pods:
        cluster.api.create(DEFAULT_PODS, manifest)


def member(name: str, group: str, **fields: object) -> Json:
    """A pod of part P, at high priority."""
    return pod(name, priority="high", group=group, selector={"part": "p"}, **fields)  # type: ignore[arg-type]


def groups(cluster: Up, *wanted: Json) -> None:
    for manifest in wanted:
        cluster.api.create(DEFAULT_GROUPS, manifest)


def reference(cluster: Up, name: str) -> Json | None:
    """The group a pod names, as it is stored."""
    found = cluster.api.pod(name)
    assert found is not None
    named: Json | None = found["spec"].get("schedulingGroup")
    return named


def idle(cluster: Up, count: int) -> None:
    """Wait until so many of the low pods that fill part P are there."""
    eventually(lambda: sum(name.startswith("idle-") for name in cluster.api.pods()) == count, f"{count} idle pods")


def runs(cluster: Up, *names: str) -> None:
    eventually(lambda: cluster.api.runs(*names), f"{', '.join(names)} running")


def waits_gated(cluster: Up, name: str) -> None:
    """The pod waits for its gang, and the metric of the KEP counts the gang."""
    eventually(lambda: cluster.metric("scheduler_pending_entities", type="podgroup", queue="gated") == 1)
    found = cluster.api.pod(name)
    assert found is not None
    assert "nodeName" not in found["spec"]


def evict_by(cluster: Up, name: str, node: str, *, gone: tuple[str, ...], kept: tuple[str, ...] = ()) -> None:
    """A high pod wants a node of part V: exactly `gone` must be evicted."""
    create(cluster, pod(name, priority="high", node=node))
    runs(cluster, name)
    eventually(lambda: cluster.api.gone(*gone), f"{gone} gone")
    assert cluster.api.runs(*kept)


def low_pair(cluster: Up, names: tuple[str, str], nodes: tuple[str, str], group: str | None = None) -> None:
    """Two low pods of a group, each on a node of its own."""
    create(
        cluster, *(pod(name, priority="low", group=group, node=node) for name, node in zip(names, nodes, strict=True))
    )
    runs(cluster, *names)


def first_off(cluster: Up) -> None:
    """Steps 1 to 4 of part P, 1 to 4 of part V: the field is dropped, pods are pods."""
    for name, value in (("high", 1000), ("low", 10), ("idle", 1)):
        cluster.api.create(CLASSES, priority_class(name, value))
    create(cluster, *(pod(f"idle-{node}", priority="idle", node=node) for node in P_NODES))
    runs(cluster, *(f"idle-{node}" for node in P_NODES))
    create(cluster, member("test-pod-0", "gang-test-a"))
    assert reference(cluster, "test-pod-0") is None
    runs(cluster, "test-pod-0")
    idle(cluster, 5)

    low_pair(cluster, ("v-0a", "v-0b"), ("v1", "v2"), "gang-test-c")
    assert reference(cluster, "v-0a") is None
    evict_by(cluster, "urgent-0", "v1", gone=("v-0a",), kept=("v-0b",))
    assert cluster.api.get(DEFAULT_GROUPS)["code"] == 404


def then_on(cluster: Up) -> None:
    """Steps 5 to 9 of part P, 5 to 8 of part V: gangs make room, and go, as a whole."""
    groups(
        cluster,
        *(pod_group(f"gang-test-{name}", 2, priority="high") for name in "ab"),
        *(pod_group(f"gang-test-{name}", 2, priority="low", mode="all") for name in "cd"),
    )
    create(cluster, member("test-pod-1", "gang-test-a"))
    assert reference(cluster, "test-pod-1") == {"podGroupName": "gang-test-a"}
    waits_gated(cluster, "test-pod-1")
    before = cluster.metric(GROUP_ATTEMPTS)
    create(cluster, member("test-pod-2", "gang-test-a"))
    runs(cluster, "test-pod-1", "test-pod-2")
    assert cluster.metric(GROUP_ATTEMPTS) > before
    idle(cluster, 3)

    low_pair(cluster, ("v-1", "v-2"), ("v3", "v4"), "gang-test-c")
    evict_by(cluster, "urgent-1", "v3", gone=("v-1", "v-2"))


def off_again(cluster: Up) -> None:
    """Downgrade: step 10 of part P, 9 and 10 of part V; what runs goes on running."""
    assert cluster.api.runs("test-pod-0", "test-pod-1", "test-pod-2", "urgent-0", "urgent-1", "v-0b")
    create(cluster, member("test-pod-3", "gang-test-b"))
    assert reference(cluster, "test-pod-3") is None
    runs(cluster, "test-pod-3")
    assert cluster.metric(POD_ATTEMPTS) >= 1
    assert cluster.metric(GROUP_ATTEMPTS) == 0
    idle(cluster, 2)

    low_pair(cluster, ("v-3", "v-4"), ("v5", "v6"), "gang-test-d")
    evict_by(cluster, "urgent-2", "v5", gone=("v-3",), kept=("v-4",))


def on_again(cluster: Up) -> None:
    """Upgrade: steps 11 and 12 of either part; then a group that differs from its members, for the last restart."""
    create(cluster, member("test-pod-4", "gang-test-b"))
    waits_gated(cluster, "test-pod-4")
    pods_before, groups_before = cluster.metric(POD_ATTEMPTS), cluster.metric(GROUP_ATTEMPTS)
    create(cluster, member("test-pod-5", "gang-test-b"))
    runs(cluster, "test-pod-4", "test-pod-5")
    assert cluster.metric(GROUP_ATTEMPTS) > groups_before
    assert cluster.metric(POD_ATTEMPTS) == pods_before
    idle(cluster, 0)

    low_pair(cluster, ("v-5", "v-6"), ("v7", "v8"), "gang-test-d")
    evict_by(cluster, "urgent-3", "v7", gone=("v-5", "v-6"))

    low_pair(cluster, ("w-1", "w-2"), ("w1", "w2"))
    cluster.api.create(CLASSES, priority_class("meek", 1000, preemptionPolicy="Never"))
    groups(cluster, pod_group("patient", 2, priority="meek"))
    create(cluster, *(pod(f"patient-{i}", priority="high", group="patient", selector={"part": "w"}) for i in range(2)))

    def refused() -> bool:
        group = cluster.api.group("patient")
        assert group is not None
        assert group["spec"]["preemptionPolicy"] == "Never"
        said = condition(group, "PodGroupInitiallyScheduled")
        return said.get("reason") == "SchedulerError" and "the same preemption policy" in said["message"]

    eventually(refused, "the group that may not preempt with members that may (preemption.md 8.4)")
    assert cluster.api.runs("w-1", "w-2")


def without_policies_of_groups(cluster: Up) -> None:
    """PodGroupPreemptionPolicy off: a group has its members' policy, whatever is stored in it (preemption.md 2.2)."""
    runs(cluster, "patient-0", "patient-1")
    assert cluster.api.gone("w-1", "w-2")


def test_gates_go_off_and_on_and_off_again(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    for gates, steps in ((OFF, first_off), (ON, then_on), (OFF, off_again), (ON, on_again)):
        with cluster.started(gates) as running:
            steps(running)
    with cluster.started("PodGroupPreemptionPolicy=false") as running:
        without_policies_of_groups(running)
        assert all(map(is_running, running.api.pods().values()))
    assert "Traceback" not in (tmp_path / "up.log").read_text()
