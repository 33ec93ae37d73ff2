"""What the demo reads of a cluster: running, evicted and pending pods with reasons; and how long it waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_standin.features import Features
from kube_standin.server.control_plane import ServeOptions, serving
from reprieve.client.kubeconfig import connect
from reprieve.client.transport import MERGE_PATCH, ApiClient, Limits
from reprieve.live.demo_cluster import DemoCluster, LateError, demo_cluster
from tests import manifests
from tests.waiting import DEADLINE

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
API = "scheduling.k8s.io/v1beta1"
GROUPS = f"/apis/{API}/namespaces/default/podgroups"
TREE_API = "scheduling.k8s.io/v1alpha3"
TREES = f"/apis/{TREE_API}/namespaces/default/compositepodgroups"
REFERENCE = {"workloadName": "w", "templateName": "t"}
WAITING = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
GROUP_WAITING = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
TREE_SCHEDULED = {
    "type": "CompositePodGroupInitiallyScheduled",
    "status": "True",
    "reason": "Scheduled",
    "message": "m",
}
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


class Stage:
    """A control plane without controllers, and the demo's view of it."""

    def __init__(self, client: ApiClient, demo: DemoCluster) -> None:
        self.client = client
        self.demo = demo

    async def pod(self, name: str, *, group: str = "") -> None:
        await self.demo.create([manifests.pod(name, group=group, meta={"namespace": "default"})])

    async def group(self, name: str, *, everything: bool = False) -> None:
        spec: Json = {"disruptionMode": {"all": {}}} if everything else {}
        await self.demo.create([manifests.gang(name, 1, version=API, meta={"namespace": "default"}, **spec)])

    async def status(self, path: str, **status: Any) -> None:
        for number, condition in enumerate(status.get("conditions", ())):
            status["conditions"][number] = {"lastTransitionTime": "2026-01-01T00:00:00Z", **condition}
        await self.client.request("PATCH", f"{path}/status", body={"status": status}, content_type=MERGE_PATCH)

    async def until(self, check: Callable[[], bool]) -> None:
        await self.demo.until(check, "it", seconds=DEADLINE)


def play(act: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            serving(ServeOptions(tls=False)) as server,
            ApiClient(connect(server.kubeconfig), limits=Limits(qps=0.0)) as client,
            demo_cluster(client) as demo,
        ):
            await act(Stage(client, demo))

    asyncio.run(run())


def names(pods: list[Any]) -> list[str]:
    return [pod.name for pod in pods]


def test_which_pods_run_and_which_are_evicted() -> None:
    """A unit is named after its group only where the group is evicted as a whole."""

    async def act(stage: Stage) -> None:
        demo = stage.demo
        await stage.group("whole", everything=True)
        await stage.group("loose")
        for name, group in (("a", "whole"), ("b", "loose"), ("c", ""), ("d", ""), ("e", "whole")):
            await stage.pod(name, group=group)
        await stage.until(lambda: len(demo.pods()) == 5)
        assert demo.running() == []
        assert demo.latest_start() is None
        for name, second in (("a", 3), ("b", 5), ("c", 4), ("d", 1)):
            await stage.status(f"{PODS}/{name}", phase="Running", startTime=f"2026-01-01T00:00:0{second}Z")
        await demo.all_running(4)
        assert names(demo.running()) == ["a", "b", "c", "d"]
        assert names(demo.running("default/whole")) == ["a"]
        assert names(demo.pods("default/whole", "default/loose")) == ["a", "b", "e"]
        started = demo.latest_start()
        assert started is not None
        assert started.second == 5
        # Another condition, another reason, and one that is over are not preemptions.
        await stage.status(f"{PODS}/d", conditions=[{**PREEMPTED, "reason": "TerminationByKubelet"}])
        await stage.status(f"{PODS}/c", conditions=[{**PREEMPTED, "status": "False"}])
        for name in ("a", "b"):
            await stage.status(f"{PODS}/{name}", conditions=[PREEMPTED])
        await stage.until(lambda: len(demo.preempted) == 2)
        assert names(demo.running()) == ["c", "d"]
        # Groups have a watch of their own.
        await stage.until(lambda: demo.units() == {"default/whole", "default/b"})
        # Nothing else wakes a task that waits for it already.
        gone = asyncio.create_task(stage.until(lambda: names(demo.pods()) == ["b", "c", "d", "e"]))
        await asyncio.sleep(0)
        await stage.client.request("DELETE", f"{PODS}/a", body={"gracePeriodSeconds": 0})
        await gone
        assert demo.units() == {"default/whole", "default/b"}

    play(act)


def test_group_waits_once_it_and_all_its_pods_say_so() -> None:
    async def act(stage: Stage) -> None:
        demo = stage.demo
        for group, pods in (("g", "ab"), ("other", "c")):
            await stage.group(group)
            for name in pods:
                await stage.pod(name, group=group)
        await stage.until(lambda: len(demo.pods("default/g", "default/other")) == 3)
        for name, group in (("a", "g"), ("c", "other")):
            await stage.status(f"{PODS}/{name}", conditions=[WAITING])
            await stage.status(f"{GROUPS}/{group}", conditions=[GROUP_WAITING])
        # What was written before on the same watches is known, too: all but one pod of the first group say so.
        await stage.until(lambda: demo.waits("default/other") == "0/1 nodes")
        assert demo.waits("default/g") is None
        await stage.status(f"{PODS}/b", conditions=[WAITING])
        await stage.until(lambda: demo.waits("default/g") == "0/1 nodes")
        assert demo.waits("default/missing") is None
        # One is scheduled after all.
        await stage.status(f"{PODS}/b", conditions=[{"type": "PodScheduled", "status": "True"}])
        await stage.until(lambda: demo.waits("default/g") is None)

    play(act)


def test_tree_is_scheduled_once_the_condition_of_its_root_is_true() -> None:
    async def act(stage: Stage) -> None:
        demo = stage.demo
        spec = {"workloadRef": REFERENCE, "schedulingPolicy": {"gang": {"minGroupCount": 1}}}
        for name in ("short", "top"):
            meta = {"name": name, "namespace": "default"}
            await demo.create([{"apiVersion": TREE_API, "kind": "CompositePodGroup", "metadata": meta, "spec": spec}])
            assert not demo.tree_is_scheduled(f"default/{name}")
        await stage.status(f"{TREES}/short", conditions=[{**TREE_SCHEDULED, "status": "False"}])
        await stage.status(f"{TREES}/top", conditions=[TREE_SCHEDULED])
        await stage.until(lambda: demo.tree_is_scheduled("default/top"))
        assert not demo.tree_is_scheduled("default/short")

    play(act)


def test_resource_that_does_not_come_is_named() -> None:
    async def act(stage: Stage) -> None:
        with pytest.raises(LateError, match=r"a miracle: not within 0\.01 s"):
            await stage.demo.until(lambda: False, "a miracle", seconds=0.01)

    play(act)


def test_cluster_without_the_kinds_of_the_demo_is_refused() -> None:
    async def run() -> None:
        options = ServeOptions(tls=False, features=Features(generic_workload=False))
        async with serving(options) as server, ApiClient(connect(server.kubeconfig)) as client:
            with pytest.raises(LateError, match="PodGroup is not served"):
                async with demo_cluster(client):
                    pass

    asyncio.run(run())
