"""PodGroups of other schedulers on a live cluster: scheduled as gangs, told so in their own terms (workloads.md)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kube_rules.group_sources import GroupSources
from reprieve.client.discovery import Resource
from reprieve.client.transport import MERGE_PATCH
from reprieve.framework.gates import FeatureGates
from reprieve.scheduling.profiles import default_profile
from tests import manifests
from tests.live.faults import create_custom
from tests.live.test_app import NAME, PODS, Cluster, Json, cluster
from tests.waiting import DEADLINE

VOLCANO = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True)
COSCHEDULING = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True)
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
MEMBER: dict[Resource, Json] = {
    VOLCANO: {"annotations": {"scheduling.k8s.io/group-name": "g"}},
    COSCHEDULING: {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
}
THEIRS = {VOLCANO: "volcano", COSCHEDULING: "scheduler-plugins-scheduler"}


async def member(world: Cluster, name: str, meta: Json, *, by: str = NAME, **spec: Any) -> None:
    await world.client.request("POST", PODS, body=manifests.pod(name, 1, meta=meta, schedulerName=by, **spec))


def group(resource: Resource, least: int, **status: Any) -> Json:
    fields = {"spec": {"minMember": least}, **({"status": status} if status else {})}
    return manifests.manifest(resource.api_version, "PodGroup", "g", **fields)


async def said(world: Cluster, resource: Resource, phase: str, reason: str = "") -> Json:
    """The status of the group as soon as it has that phase, and a condition that is True for that reason."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + DEADLINE
    while True:
        status: Json = (await world.client.get(resource.path("default", "g"))).read(dict).get("status") or {}
        reasons = {one["reason"] for one in status.get("conditions", ()) if one["status"] == "True"}
        if status.get("phase") == phase and (not reason or reasons == {reason}):
            return status
        assert loop.time() < ends, status
        await asyncio.sleep(0.01)


async def events(world: Cluster, resource: Resource, reason: str) -> list[str]:
    """Notes of the events of that reason on the group, as soon as there are some."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + DEADLINE
    while True:
        found = (await world.client.get(EVENTS)).read(dict)["items"]
        about = {"apiVersion": resource.api_version, "kind": "PodGroup", "name": "g"}
        notes = [
            one["note"]
            for one in found
            if one["reason"] == reason and about.items() <= one["regarding"].items() and one["regarding"]["uid"]
        ]
        if notes:
            return notes
        assert loop.time() < ends, [(one["reason"], one["regarding"]) for one in found]
        await asyncio.sleep(0.01)


def names(world: Cluster, *others: str) -> dict[str, Any]:
    """Settings of a scheduler that answers to these names as well."""
    profile = replace(default_profile(FeatureGates(), NAME), also_known_as=others)
    return {"profiles": {NAME: profile}}


@pytest.mark.parametrize("subresource", [True, False], ids=["with-subresource", "without"])
def test_group_of_volcano_from_nothing_to_running(subresource: bool) -> None:
    """workloads.md 4.1, 4.3, 4.5: accepted before it has pods, then too few, no room, and placed."""

    async def run() -> None:
        async with cluster() as world:
            await create_custom(world.client, VOLCANO, group(VOLCANO, 2), subresource=subresource)
            async with world.scheduling(**names(world, "volcano")) as found:
                assert "conditions" not in await said(world, VOLCANO, "Inqueue")
                async with asyncio.timeout(DEADLINE):  # that it was accepted is written, and waited for no more
                    await found.executor.conditions.drain()
                await member(world, "p0", MEMBER[VOLCANO], by="volcano")
                await said(world, VOLCANO, "Inqueue", "NotEnoughTasks")
                await member(world, "p1", MEMBER[VOLCANO], by="volcano")
                status = await said(world, VOLCANO, "Inqueue", "NotEnoughResources")
                message = next(one["message"] for one in status["conditions"] if one["status"] == "True")
                assert "placements are available" in message
                assert message in await events(world, VOLCANO, "FailedScheduling")
                await world.node("n0", cpu=2)
                await world.until(lambda p: all(one["spec"].get("nodeName") for one in p.values()))
                status = await said(world, VOLCANO, "Running", "tasks in gang are ready to be scheduled")
                assert {one["type"]: one["status"] for one in status["conditions"]} == {
                    "Scheduled": "True",
                    "Unschedulable": "False",
                }
                assert await events(world, VOLCANO, "Scheduled") == ["2 pods have a node"]

    asyncio.run(run())


def test_outcome_of_a_tree_is_written_to_the_group_it_was_made_for() -> None:
    """workloads.md 4.7: the root and the leaves are not objects."""

    async def run() -> None:
        async with cluster() as world:
            body = group(VOLCANO, 2)
            body["spec"]["minTaskMember"] = {"ps": 1, "worker": 1}
            await create_custom(world.client, VOLCANO, body, subresource=False)
            async with world.scheduling() as found:
                for task in ("ps", "worker"):
                    meta = {"annotations": {**MEMBER[VOLCANO]["annotations"], "volcano.sh/task-spec": task}}
                    await member(world, task, meta)
                status = await said(world, VOLCANO, "Inqueue", "NotEnoughResources")
                assert next(one["message"] for one in status["conditions"] if one["status"] == "True")
                assert await events(world, VOLCANO, "FailedScheduling")
                assert list(found.engine.cluster.trees.composites) == ["default/g:"]
                await world.node("n0", cpu=2)
                await world.until(lambda p: all(one["spec"].get("nodeName") for one in p.values()))
                await said(world, VOLCANO, "Running", "tasks in gang are ready to be scheduled")
                assert await events(world, VOLCANO, "Scheduled") == ["2 pods have a node"]

    asyncio.run(run())


def test_group_of_coscheduling_from_nothing_to_scheduled() -> None:
    """workloads.md 4.1, 4.3, 4.5."""

    async def run() -> None:
        async with cluster() as world:
            await create_custom(world.client, COSCHEDULING, group(COSCHEDULING, 2))
            async with world.scheduling(**names(world, "scheduler-plugins-scheduler")):
                await said(world, COSCHEDULING, "Pending")
                for number in range(2):
                    await member(world, f"p{number}", MEMBER[COSCHEDULING], by="scheduler-plugins-scheduler")
                assert await said(world, COSCHEDULING, "Scheduling") == {"phase": "Scheduling"}
                assert await events(world, COSCHEDULING, "FailedScheduling")
                await world.node("n0", cpu=2)
                await world.until(lambda p: all(one["spec"].get("nodeName") for one in p.values()))
                await said(world, COSCHEDULING, "Scheduled")

    asyncio.run(run())


@pytest.mark.parametrize("resource", [VOLCANO, COSCHEDULING], ids=["volcano", "coscheduling"])
def test_groups_of_others_are_left_alone(resource: Resource) -> None:
    """workloads.md 4.4: no profile here has the scheduler name of its pods."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=8)
            made = await create_custom(world.client, resource, group(resource, 1))
            await member(world, "theirs", MEMBER[resource], by=THEIRS[resource])
            async with world.scheduling() as found:
                await member(world, "ours", {})
                await world.until(lambda p: p["ours"]["spec"].get("nodeName"))
                await world.until(lambda _: found.loop.cycles >= 1)
                for _ in range(3):
                    found.executor.tick(found.loop.time())
                await found.executor.conditions_written(DEADLINE)
            now = (await world.client.get(resource.path("default", "g"))).read(dict)
            assert now["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    asyncio.run(run())


def test_status_that_another_controller_writes_to_a_placed_group_stays() -> None:
    """workloads.md 4.2: the controller of scheduler-plugins goes on to Running."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=8)
            await create_custom(world.client, COSCHEDULING, group(COSCHEDULING, 1))
            async with world.scheduling():
                await member(world, "p0", MEMBER[COSCHEDULING])
                await said(world, COSCHEDULING, "Scheduled")
                path = COSCHEDULING.path("default", "g", "status")
                body = {"status": {"phase": "Running", "running": 1}}
                await world.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
                await member(world, "p1", MEMBER[COSCHEDULING])
                await world.until(lambda p: p["p1"]["spec"].get("nodeName"))
                assert await said(world, COSCHEDULING, "Running") == {"phase": "Running", "running": 1}

    asyncio.run(run())


def test_source_that_is_off_is_not_watched() -> None:
    """workloads.md 1.3: its pods are scheduled one by one, and nothing is reported of its groups."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=1)
            made = await create_custom(world.client, VOLCANO, group(VOLCANO, 2))
            async with world.scheduling(sources=GroupSources.switched({"volcano": False})) as found:
                for number in range(2):
                    await member(world, f"p{number}", MEMBER[VOLCANO])
                await world.until(lambda p: any(one["spec"].get("nodeName") for one in p.values()))
                assert not [one for one in found.feed._sources if one[1] == VOLCANO.group]
            now = (await world.client.get(VOLCANO.path("default", "g"))).read(dict)
            assert now["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    asyncio.run(run())


def test_plain_pods_of_kueue(monkeypatch: pytest.MonkeyPatch) -> None:
    """workloads.md 2.4, 2.5: all or none of them, when their gates are gone; a count that is no number is reported."""
    monkeypatch.setattr("reprieve.live.conditions.KEPT_BACK", 0.1)

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=2)
            total = "kueue.x-k8s.io/pod-group-total-count"
            labels = {"kueue.x-k8s.io/pod-group-name": "g"}
            gate = [{"name": "kueue.x-k8s.io/admission"}]
            async with world.scheduling() as found:
                for number in range(2):
                    meta = {"labels": labels, "annotations": {total: "2"}}
                    await member(world, f"p{number}", meta, schedulingGates=gate)
                await world.until(lambda _: len(found.engine.cluster.pods) == 2)
                assert found.engine.cluster.groups["default/g"].min_count == 2
                for number in range(2):
                    body = [{"op": "remove", "path": "/spec/schedulingGates"}]
                    form = "application/json-patch+json"
                    await world.client.request("PATCH", f"{PODS}/p{number}", body=body, content_type=form)
                await world.until(lambda p: all(one["spec"].get("nodeName") for one in p.values()))
                await world.delete(f"{PODS}/p0")
                await world.delete(f"{PODS}/p1")
                await world.until(lambda p: not p)
                await world.until(lambda _: "default/g" not in found.engine.cluster.groups)
                await member(world, "odd", {"labels": labels, "annotations": {total: "two"}})
                pods = await world.until(lambda p: p["odd"]["status"].get("conditions"))
                assert not pods["odd"]["spec"].get("nodeName")
                path = EVENTS
                loop = asyncio.get_running_loop()
                ends = loop.time() + DEADLINE
                while not (
                    notes := [
                        one["note"]
                        for one in (await world.client.get(path)).read(dict)["items"]
                        if one["reason"] == "InvalidAnnotation"
                    ]
                ):
                    assert loop.time() < ends
                    await asyncio.sleep(0.01)
                assert notes[0].startswith(f'metadata.annotations[{total}]: Invalid value: "two"')

    asyncio.run(run())


def test_jobs_that_ask_are_gangs_without_a_group() -> None:
    """workloads.md 2.10: the source is on, and the Job has the annotation; a kind may begin to be served later."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", cpu=2)
            container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}
            pod = {"schedulerName": NAME, "restartPolicy": "Never", "containers": [container]}

            async def job(name: str, parallelism: int, *, asks: bool) -> None:
                annotations = {"scheduling.reprieve.dev/gang": "true"} if asks else {}
                spec = {"parallelism": parallelism, "completions": parallelism, "template": {"spec": pod}}
                body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
                await world.client.request("POST", "/apis/batch/v1/namespaces/default/jobs", body=body)

            def bound(pods: dict[str, Json], name: str) -> int:
                mine = [one for one in pods.values() if one["metadata"]["labels"].get("job-name") == name]
                return sum(bool(one["spec"].get("nodeName")) for one in mine)

            async with world.scheduling(sources=GroupSources.switched({"owners": True})) as found:
                await job("gang", 3, asks=True)
                await world.until(lambda p: len(p) == 3 and all(one["status"].get("conditions") for one in p.values()))
                assert bound(await world.pods(), "gang") == 0
                assert set(found.engine.cluster.groups) == {"default/job:gang"}
                await world.node("n1", cpu=1)
                await world.until(lambda p: bound(p, "gang") == 3)
                await world.node("n2", cpu=1)
                await job("plain", 2, asks=False)
                await world.until(lambda p: bound(p, "plain") == 1)
                jobsets = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", True)
                spec = {"replicatedJobs": [{"name": "w", "template": {"spec": {"parallelism": 2, "completions": 2}}}]}
                annotations = {"scheduling.reprieve.dev/gang": "true"}
                meta = {"name": "set", "namespace": "default", "annotations": annotations}
                body = {"apiVersion": jobsets.api_version, "kind": "JobSet", "metadata": meta, "spec": spec}
                await create_custom(world.client, jobsets, body)
                await world.until(lambda _: ("JobSet", "jobset.x-k8s.io") in found.feed._sources)
                labels = {"jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
                await world.until(lambda _: found.feed._sources["JobSet", "jobset.x-k8s.io"].ready)
                await member(world, "w0", {"labels": {**labels, "job-name": "set-w-0"}})
                await world.until(lambda _: "default/jobset:set:w" in found.engine.cluster.groups)

    asyncio.run(run())
