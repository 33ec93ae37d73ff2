"""The live scheduler, whole, on an embedded control plane over HTTP: what a user of a cluster sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kube_standin.server.control_plane import ListeningServer, ServeOptions, serving
from reprieve.client.errors import ApiError
from reprieve.client.kubeconfig import connect
from reprieve.client.leader_election import LeadershipLostError, LeaseOptions
from reprieve.client.transport import MERGE_PATCH, ApiClient, Limits
from reprieve.cluster.pods import PodRecord
from reprieve.framework.gates import FeatureGates
from reprieve.live.app import Scheduler, scheduler
from reprieve.live.event_handlers import ClusterFeedOptions
from reprieve.live.http_endpoint import Health
from reprieve.live.loop import Pace
from reprieve.live.settings import Settings
from reprieve.queueing.timers import Timing
from reprieve.scheduling.profiles import default_profile
from tests import manifests
from tests.live.faults import node
from tests.waiting import DEADLINE

NAME = "reprieve-scheduler"
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
Json = dict[str, Any]


@dataclass
class Cluster:
    """A control plane with a client, and what tests do with it."""

    server: ListeningServer
    client: ApiClient

    async def node(self, name: str, cpu: int = 4) -> None:
        body = node(name, str(cpu))
        body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        await self.client.request("POST", NODES, body=body)

    async def pod(
        self, name: str, cpu: int = 1, *, group: str = "", by: str = NAME, priority: str = "", **spec: Any
    ) -> None:
        if priority:
            spec["priorityClassName"] = priority
        body = manifests.pod(name, cpu, group=group, **{"schedulerName": by, **spec})
        await self.client.request("POST", PODS, body=body)

    async def group(self, name: str, least: int) -> None:
        await self.client.request("POST", GROUPS, body=manifests.gang(name, least))

    async def priority(self, name: str, value: int) -> None:
        body = manifests.priority_class(name, value)
        await self.client.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=body)

    async def pods(self) -> dict[str, Json]:
        found = (await self.client.get(PODS)).read(dict)["items"]
        return {item["metadata"]["name"]: item for item in found}

    async def where(self) -> dict[str, str]:
        return {name: item["spec"].get("nodeName", "") for name, item in (await self.pods()).items()}

    async def delete(self, path: str) -> None:
        await self.client.request("DELETE", path, body={"gracePeriodSeconds": 0})

    async def until(self, condition: Callable[[dict[str, Json]], object], seconds: float = DEADLINE) -> dict[str, Json]:
        """The pods, as soon as the condition holds of them."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while True:
            pods = await self.pods()
            if condition(pods):
                return pods
            assert loop.time() < ends, {name: (p["spec"].get("nodeName"), p["status"]) for name, p in pods.items()}
            await asyncio.sleep(0.01)

    @asynccontextmanager
    async def scheduling(self, **changes: Any) -> AsyncIterator[Scheduler]:
        """A scheduler that runs meanwhile."""
        stop = asyncio.Event()
        async with scheduler(replace(self.settings(), **changes)) as found:
            task = asyncio.create_task(found.run(stop))
            try:
                yield found
                stop.set()
                await task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def settings(self) -> Settings:
        gates = FeatureGates()
        return Settings(
            profiles={NAME: default_profile(gates, NAME)},
            gates=gates,
            timing=Timing(initial_backoff=0.05, max_backoff=0.2),
            kubeconfig=str(self.server.kubeconfig),
            verbosity=0,
            feed=ClusterFeedOptions(rediscover=0.2),
            pace=Pace(tick=0.05),
            environment={},
        )


@asynccontextmanager
async def cluster(**options: Any) -> AsyncIterator[Cluster]:
    async with (
        serving(ServeOptions(tls=False, controllers="*", **options)) as server,
        ApiClient(connect(server.kubeconfig), limits=Limits(qps=0.0)) as client,
    ):
        yield Cluster(server, client)


def condition(pod: Json, kind: str = "PodScheduled") -> Json:
    return next((c for c in pod["status"].get("conditions", []) if c["type"] == kind), {})


def test_pods_and_gangs_are_bound_and_others_left_alone() -> None:
    """scheduling.md 1-3: a gang below minCount waits; pods of another schedulerName are counted and not touched."""

    async def run() -> None:
        async with cluster() as world:
            for number in range(3):
                await world.node(f"n{number}")
            await world.pod("theirs", 4, by="somebody-else")
            await world.client.request(
                "POST",
                f"{PODS}/theirs/binding",
                body={
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": "theirs"},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": "n0"},
                },
            )
            await world.pod("unclaimed", by="somebody-else")
            await world.pod("before", 2)
            async with world.scheduling() as found:
                await world.group("gang", 3)
                await world.pod("g0", 2, group="gang")
                await world.pod("g1", 2, group="gang")
                pods = await world.until(lambda p: p["before"]["spec"].get("nodeName"))
                assert pods["before"]["spec"]["nodeName"] in ("n1", "n2"), "another scheduler's pod fills n0"
                assert not any(pods[name]["spec"].get("nodeName") for name in ("g0", "g1"))
                await world.pod("g2", 2, group="gang")
                pods = await world.until(lambda p: all(p[f"g{n}"]["spec"].get("nodeName") for n in range(3)))
                assert {pods[f"g{n}"]["spec"]["nodeName"] for n in range(3)} == {"n1", "n2"}
                assert not pods["unclaimed"]["spec"].get("nodeName")
                assert not condition(pods["unclaimed"])
                # What did not fit says so, and is bound when there is room.
                await world.pod("late", 2)
                pods = await world.until(lambda p: condition(p["late"]).get("reason") == "Unschedulable")
                assert condition(pods["late"])["message"].startswith("0/3 nodes are available: 3 Insufficient cpu.")
                await world.node("n3")
                pods = await world.until(lambda p: p["late"]["spec"].get("nodeName"))
                assert pods["late"]["spec"]["nodeName"] == "n3"
                assert found.engine.cluster.pods[pods["late"]["metadata"]["uid"]].row >= 0
            group = (await world.client.get(f"{GROUPS}/gang")).read(dict)
            said = {c["type"]: (c["status"], c["reason"]) for c in group["status"]["conditions"]}
            assert said["PodGroupInitiallyScheduled"] == ("True", "Scheduled")

    asyncio.run(run())


def test_node_that_goes_takes_no_pods_any_more() -> None:
    async def run() -> None:
        async with cluster() as world:
            await world.node("n0")
            await world.node("n1")
            async with world.scheduling() as found:
                await world.until(lambda _: found.feed.fed)
                await world.delete(f"{NODES}/n0")
                # Nodes and pods come by two watches, in any order.
                await world.until(lambda _: "n0" not in found.engine.cluster.nodes.row_of)
                for number in range(4):
                    await world.pod(f"p{number}")
                await world.pod("too-many")
                pods = await world.until(lambda p: condition(p["too-many"]).get("reason") == "Unschedulable")
                assert condition(pods["too-many"])["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
                assert {pods[f"p{number}"]["spec"]["nodeName"] for number in range(4)} == {"n1"}

    asyncio.run(run())


def test_restart_goes_on_where_the_last_one_stopped() -> None:
    """Nothing is bound twice or over room: amounts of bound pods are known, the rest is scheduled."""

    async def run() -> None:
        async with cluster() as world:
            for number in range(4):
                await world.node(f"n{number}", cpu=8)
            for number in range(32):
                await world.pod(f"p{number:02}")
            async with world.scheduling(pace=Pace(bindings=4)):
                await world.until(lambda p: sum(bool(x["spec"].get("nodeName")) for x in p.values()) >= 8)
            before = {name: node for name, node in (await world.where()).items() if node}
            async with world.scheduling():
                await world.until(lambda p: all(x["spec"].get("nodeName") for x in p.values()))
            after = await world.where()
            assert {name: after[name] for name in before} == before
            assert sorted(list(after.values()).count(f"n{number}") for number in range(4)) == [8, 8, 8, 8]

    asyncio.run(run())


@pytest.mark.parametrize("gates", ["", "SchedulerAsyncPreemption=false"])
def test_preemption_to_the_end(gates: str) -> None:
    """preemption.md 7: nominated, victim marked and deleted with its grace, preemptor bound; alike inside the cycle."""

    async def run() -> None:
        async with cluster() as world:
            await world.priority("high", 1000)
            await world.node("n0")
            chosen = FeatureGates.parse(gates)
            async with world.scheduling(gates=chosen, profiles={NAME: default_profile(chosen, NAME)}):
                await world.pod("victim", 4, terminationGracePeriodSeconds=0)
                await world.until(lambda p: p["victim"]["spec"].get("nodeName"))
                await world.pod("urgent", 4, priority="high")
                pods = await world.until(lambda p: p["urgent"]["spec"].get("nodeName") == "n0")
                assert "victim" not in pods

    asyncio.run(run())


def test_preemption_is_not_begun_twice_after_a_restart() -> None:
    """preemption.md 2.3: a nominated pod waits for leaving victims, whichever scheduler preempted them."""

    async def run() -> None:
        async with cluster() as world:
            await world.priority("high", 1000)
            for number in range(2):
                await world.node(f"n{number}")
            async with world.scheduling():
                for number in range(2):
                    await world.pod(f"low{number}", 4, terminationGracePeriodSeconds=600)
                await world.until(lambda p: all(x["spec"].get("nodeName") for x in p.values()))
                await world.pod("urgent", 4, priority="high")
                await world.until(
                    lambda p: (
                        any("deletionTimestamp" in x["metadata"] for x in p.values())
                        and p["urgent"]["status"].get("nominatedNodeName")
                    )
                )
            async with world.scheduling() as second:
                await world.until(lambda _: second.loop.cycles >= 1)
                pods = await world.pods()
                leaving = [name for name, x in pods.items() if "deletionTimestamp" in x["metadata"]]
                assert len(leaving) == 1
                assert pods["urgent"]["status"]["nominatedNodeName"] == pods[leaving[0]]["spec"]["nodeName"]
                await world.delete(f"{PODS}/{leaving[0]}")
                pods = await world.until(lambda p: p["urgent"]["spec"].get("nodeName"))
                assert [name for name, x in pods.items() if "deletionTimestamp" in x["metadata"]] == []

    asyncio.run(run())


def test_only_the_leader_acts_and_the_next_one_takes_over() -> None:
    """Two schedulers, one lease: the one that stands by knows everything and acts at once when the first stops."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=8)

            def lease(holder: str) -> LeaseOptions:
                # So long that no pause of the machine ends it: a leader loses it here only to another that takes it.
                return LeaseOptions("kube-system", NAME, holder, duration=3600.0, renew_deadline=3000.0, retry=0.1)

            async with scheduler(replace(world.settings(), election=lease("a"))) as first:
                leads = asyncio.create_task(first.run(asyncio.Event()))
                await world.until(lambda _: first.feed.fed and first.may_act)
                async with world.scheduling(election=lease("b")) as second:
                    await world.until(lambda _: second.feed.fed)
                    health = {found: Health() for found in (first, second)}
                    for found, of_one in health.items():
                        found.checks(of_one)

                    def unwell() -> list[str | None]:
                        return [of_one.live["leaderElection"]() for of_one in health.values()]

                    assert unwell() == [None, None], "a standby is healthy, too"
                    await world.pod("one")
                    await world.until(lambda p: p["one"]["spec"].get("nodeName"))
                    assert (first.loop.cycles, second.loop.cycles) == (1, 0)
                    # A leader that has not seen the binding tries the pod once more.
                    await world.until(lambda _: any(pod.bound for pod in second.engine.cluster.pods.values()))
                    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{NAME}"
                    taken = {"spec": {"holderIdentity": "b"}}  # as after a network in two halves
                    await world.client.request("PATCH", path, body=taken, content_type=MERGE_PATCH)
                    with pytest.raises(LeadershipLostError):
                        await asyncio.wait_for(leads, DEADLINE)
                    assert isinstance(first.writes.delete_pod("default", "one", "x").exception(), LeadershipLostError)
                    assert unwell() == ["the lease has expired", None]
                    await world.pod("two")
                    await world.until(lambda p: p["two"]["spec"].get("nodeName"))
                    assert (first.loop.cycles, second.loop.cycles) == (1, 1)

    asyncio.run(run())


def test_lease_is_taken_once_the_cluster_is_known() -> None:
    """Reading a large cluster takes longer than a lease may go without renewal (scheduling.md 6.1)."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=8)
            lease = LeaseOptions("kube-system", NAME, "a", duration=3600.0, renew_deadline=3000.0, retry=0.1)
            async with scheduler(replace(world.settings(), election=lease)) as found:
                assert found.election is not None
                known: list[bool] = []
                stand = found.election.run

                async def stands() -> None:
                    known.append(found.feed.fed)
                    await stand()

                found.election.run = stands  # type: ignore[method-assign]
                runs = asyncio.create_task(found.run(asyncio.Event()))
                await world.until(lambda _: found.feed.fed and found.may_act)
                runs.cancel()
                await asyncio.wait([runs])
            assert known == [True]

    asyncio.run(run())


def test_groups_of_a_definition_installed_later() -> None:
    """api.md: the CRD of the coscheduling plugin, installed while the scheduler runs, and its label on pods."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=8)
            group = "scheduling.x-k8s.io"
            async with world.scheduling() as found:
                for number in range(2):
                    await world.client.request(
                        "POST",
                        PODS,
                        body={
                            "apiVersion": "v1",
                            "kind": "Pod",
                            "metadata": {
                                "name": f"p{number}",
                                "namespace": "default",
                                "labels": {f"{group}/pod-group": "theirs"},
                            },
                            "spec": {"schedulerName": NAME, "containers": [{"name": "c", "image": "i"}]},
                        },
                    )
                await world.until(lambda _: len(found.engine.cluster.pods) == 2)
                assert found.loop.cycles == 0, "the group does not exist yet"
                schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                definition = {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {
                        "name": f"podgroups.{group}",
                        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs"},
                    },
                    "spec": {
                        "group": group,
                        "scope": "Namespaced",
                        "names": {
                            "plural": "podgroups",
                            "singular": "podgroup",
                            "kind": "PodGroup",
                            "listKind": "PodGroupList",
                        },
                        "versions": [
                            {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                        ],
                    },
                }
                await world.client.request(
                    "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=definition
                )
                body = {
                    "apiVersion": f"{group}/v1alpha1",
                    "kind": "PodGroup",
                    "metadata": {"name": "theirs", "namespace": "default"},
                    "spec": {"minMember": 2},
                }
                loop = asyncio.get_running_loop()
                ends = loop.time() + DEADLINE
                while True:
                    try:
                        path = f"/apis/{group}/v1alpha1/namespaces/default/podgroups"
                        await world.client.request("POST", path, body=body)
                        break
                    except ApiError as error:
                        if error.code != 404 or loop.time() > ends:
                            raise
                        await asyncio.sleep(0.01)
                await world.until(lambda p: all(x["spec"].get("nodeName") for x in p.values()))

    asyncio.run(run())


def test_nomination_by_another_scheduler_is_taken_over() -> None:
    """kube-scheduler's nominator.UpdatePod: an autoscaler or another controller may nominate."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=1)
            await world.node("n1", cpu=2)
            async with world.scheduling() as found:
                await world.pod("big", 8)
                pods = await world.until(lambda p: condition(p["big"]).get("reason") == "Unschedulable")
                patch = {"status": {"nominatedNodeName": "n1"}}
                await world.client.request("PATCH", f"{PODS}/big/status", body=patch, content_type=MERGE_PATCH)
                uid = pods["big"]["metadata"]["uid"]
                row = found.engine.cluster.nodes.row_of["n1"]
                await world.until(lambda _: found.engine.cluster.pods[uid].nominated == row)

    asyncio.run(run())


def test_member_that_cannot_be_bound_is_reported_and_the_gang_is_completed_later() -> None:
    """scheduling.md 3.6: all or nothing also at the end; the members that are bound count for the next attempt."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=8)
            async with world.scheduling(timing=Timing(initial_backoff=1.0, max_backoff=2.0)) as found:
                real, refused, seen = found.writes.bind, ["g1"], asyncio.Event()

                async def later(pod: PodRecord, node: str) -> None:
                    await seen.wait()
                    await real(pod, node)

                def refusing(
                    pod: PodRecord, node: str, annotations: Mapping[str, str] | None = None
                ) -> asyncio.Future[None]:
                    """The first time by an error; the next is held up until the first's condition has been seen."""
                    if pod.name != "g1":
                        return real(pod, node, annotations)
                    if not refused:
                        return asyncio.ensure_future(later(pod, node))
                    refused.remove(pod.name)
                    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    answer.set_exception(ApiError(403, "Forbidden", "a webhook says no"))
                    return answer

                found.writes.bind = refusing  # type: ignore[method-assign]
                patch = found.writes.patch_group_status
                written: list[dict[str, Any]] = []

                def listening(*object_: Any, **more: Any) -> asyncio.Future[None]:
                    written.extend(said for said in object_[3] if said["type"] == "PodGroupInitiallyScheduled")
                    return patch(*object_, **more)

                found.writes.patch_group_status = listening  # type: ignore[method-assign]
                await world.group("gang", 3)
                for number in range(3):
                    await world.pod(f"g{number}", group="gang")
                pods = await world.until(lambda p: condition(p["g1"]).get("reason") == "SchedulerError")
                assert "a webhook says no" in condition(pods["g1"])["message"]
                seen.set()
                await world.until(lambda p: all(p[f"g{number}"]["spec"].get("nodeName") for number in range(3)))
                assert found.loop.cycles == 2
                await found.executor.conditions.drain()
                # The group as well: it was reported scheduled, it is not, and then it is; before, its members may
                # have come one by one, and it is short of them.
                early = [said for said in written if said["reason"] == "Unschedulable"]
                rest = written[len(early) :]
                assert [said["status"] for said in rest] in (["True", "False", "True"], ["False", "True"])
                [short] = [said for said in rest if said["status"] == "False"]
                assert (short["type"], short["reason"]) == ("PodGroupInitiallyScheduled", "SchedulerError")
                assert "binding of pod default/g1 failed" in short["message"]
                assert short["message"].endswith("a webhook says no (403 Forbidden); 2 of the 3 have a node")
                now = (await world.client.get(f"{GROUPS}/gang")).read(dict)["status"]["conditions"]
                assert {said["type"]: said["status"] for said in now} == {
                    "PodGroupInitiallyScheduled": "True",
                    "PodGroupSatisfied": "True",
                }
                # Nothing is kept of first bindings once they have ended.
                assert found.executor._first_bindings == {}
            events = (await world.client.get("/apis/events.k8s.io/v1/namespaces/default/events")).read(dict)["items"]
            said = {(e["regarding"]["name"], e["reason"]) for e in events}
            assert ("g1", "FailedScheduling") in said
            assert {(f"g{number}", "Scheduled") for number in range(3)} <= said

    asyncio.run(run())


def test_pods_of_one_second_are_tried_in_the_order_in_which_they_came() -> None:
    """Creation times have seconds; within one the earlier pod gets the capacity first."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=2)
            await world.pod("blocker", 2, nodeName="n0")
            async with world.scheduling() as found:
                await world.pod("first")
                await world.until(lambda p: "Insufficient cpu" in condition(p["first"]).get("message", ""))
                await world.delete(f"{PODS}/first")
                for name in "dbca":
                    await world.pod(name)
                await world.until(lambda p: all(condition(p[name]).get("message") for name in "abcd"))
                await world.delete(f"{PODS}/blocker")
                pods = await world.until(lambda p: sum(bool(x["spec"].get("nodeName")) for x in p.values()) == 2)
                assert sorted(name for name, x in pods.items() if x["spec"].get("nodeName")) == ["b", "d"]
                arrived = sorted(found.engine.cluster.pods.values(), key=lambda record: record.created)
                assert [record.name for record in arrived] == ["d", "b", "c", "a"]

    asyncio.run(run())
