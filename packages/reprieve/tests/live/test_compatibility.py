"""The compatibility matrix of docs/compatibility.md: a scheduler on API servers of 1.29, 1.36, 1.37 and 1.38."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_standin.features import Features
from reprieve.client.errors import ApiError
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.live.app import Scheduler
from reprieve.plugins.reservations import ReservationOptions, ReservationsPlugin
from reprieve.scheduling.profiles import default_profile
from tests.live.test_app import NAME, NODES, PODS, Cluster, Json, cluster, condition
from tests.waiting import DEADLINE

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRDS = Path(__file__).parents[4] / "deploy/components/crds"
OWN = "scheduling.reprieve.dev"


@dataclass(frozen=True)
class Release:
    """How groups are written to the API server of a release."""

    minor: int
    version: str
    condition: str = "PodGroupInitiallyScheduled"
    together: Any = None
    """`disruptionMode` of a group that is evicted as a whole."""

    @property
    def own(self) -> bool:
        """Whether groups are custom resources."""
        return self.version.startswith(OWN)

    def path(self, name: str = "") -> str:
        return f"/apis/{self.version}/namespaces/default/podgroups{'/' if name else ''}{name}"

    async def group(self, world: Cluster, name: str, least: int, **spec: Any) -> None:
        body = {
            "apiVersion": self.version,
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": least}}, "disruptionMode": self.together, **spec},
        }
        await world.client.request("POST", self.path(), body=body)

    async def pod(self, world: Cluster, name: str, group: str, cpu: int, **spec: Any) -> None:
        meta: Json = {"name": name, "namespace": "default"}
        body: Json = {
            "schedulerName": NAME,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": str(cpu)}}}],
            **spec,
        }
        if self.own:
            meta["labels"] = {f"{OWN}/pod-group": group}
        elif group:
            body["schedulingGroup"] = {"podGroupName": group}
        await world.client.request("POST", PODS, body={"metadata": meta, "spec": body})


CUSTOM = Release(29, f"{OWN}/v1beta1", together={"all": {}})
ALPHA = Release(36, "scheduling.k8s.io/v1alpha2", "PodGroupScheduled", "PodGroup")
BETA = Release(37, "scheduling.k8s.io/v1beta1", together={"all": {}})
STABLE = Release(38, "scheduling.k8s.io/v1", together={"all": {}})


async def definitions(world: Cluster) -> None:
    """Install the component `crds`, and wait until its kinds are served."""
    for file in ("podgroups", "workloads", "compositepodgroups"):
        await world.client.request("POST", DEFINITIONS, body=yaml.safe_load((CRDS / f"{file}.yaml").read_text()))
    loop = asyncio.get_running_loop()
    ends = loop.time() + DEADLINE
    while True:
        try:
            await world.client.get(CUSTOM.path())
            return
        except ApiError:
            assert loop.time() < ends
            await asyncio.sleep(0)


def bound(pods: dict[str, Json], *names: str) -> bool:
    return all(pods.get(name, {}).get("spec", {}).get("nodeName") for name in names)


@pytest.mark.parametrize("release", [CUSTOM, ALPHA, BETA, STABLE], ids=lambda found: f"1.{found.minor}")
def test_gangs_are_scheduled_and_preempted_on_every_release(release: Release) -> None:
    """docs/compatibility.md, api.md 2.9, 3.1: each on an API server that serves just what that release serves."""

    async def run() -> None:
        async with cluster(features=Features(minor=release.minor)) as world:
            if release.own:
                await definitions(world)
            await world.priority("high", 1000)
            for name in ("n0", "n1"):
                await world.node(name)
            async with world.scheduling() as found:
                assert found.served.version_of("PodGroup") == release.version
                await release.group(world, "low", 2)
                await release.pod(world, "low-0", "low", 4)
                await release.pod(world, "low-1", "low", 4)
                await world.until(lambda pods: bound(pods, "low-0", "low-1"))
                await release.group(world, "urgent", 2, **({} if release.own else {"priorityClassName": "high"}))
                await release.pod(world, "urgent-0", "urgent", 4, priorityClassName="high")
                pods = await world.until(lambda pods: len(found.engine.cluster.pods) == 3 and pods)
                assert bound(pods, "low-0", "low-1"), "a gang below its minimum evicts no pods"
                await release.pod(world, "urgent-1", "urgent", 4, priorityClassName="high")
                pods = await world.until(lambda pods: bound(pods, "urgent-0", "urgent-1"))
                assert not {"low-0", "low-1"} & set(pods)
            said = (await world.client.get(release.path("urgent"))).read(dict)["status"]["conditions"]
            assert {one["type"]: one["status"] for one in said}[release.condition] == "True"

    asyncio.run(run())


def with_reservations() -> Profile:
    """The default profile, with a reservation for a gang as soon as an attempt has failed."""
    found = default_profile(FeatureGates(), NAME)
    eager = ReservationsPlugin(ReservationOptions(reserve_after=0.001, max_idle_share=1.0))
    plugins = [eager if isinstance(plugin, ReservationsPlugin) else plugin for plugin in found.plugins]
    return Profile(NAME, plugins, found.score_weights)


async def parts(world: Cluster) -> None:
    """Two full nodes for the gang that waits, and one for the load."""
    for name, part, cpu in (("n0", "full", 4), ("n1", "full", 4), ("n2", "load", 64)):
        amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        body = {"metadata": {"name": name, "labels": {"part": part}}, "status": status}
        await world.client.request("POST", NODES, body=body)
    for name in ("long-0", "long-1"):
        await world.pod(name, 4, nodeSelector={"part": "full"}, terminationGracePeriodSeconds=0)
    await world.until(lambda pods: bound(pods, "long-0", "long-1"))


def holders(found: Scheduler) -> list[str]:
    return list(found.engine.reservations.held)


def test_upgrade_and_rollback_under_load_lose_no_gang_and_no_reservation() -> None:
    """api.md 2.9: 1.36 to 1.38 and back, twice, between the pods of gangs; a reservation is held all the while."""

    async def run() -> None:
        async with cluster(features=Features(minor=36)) as world:
            async with world.scheduling(profiles={NAME: with_reservations()}) as found:
                await parts(world)
                await ALPHA.group(world, "train", 2)
                for name in ("train-0", "train-1"):
                    await ALPHA.pod(world, name, "train", 4, nodeSelector={"part": "full"})
                await world.until(lambda _: holders(found))
                [held] = found.engine.reservations.held.values()
                load: list[str] = []
                now = ALPHA
                for turn, then in enumerate((STABLE, ALPHA, STABLE, ALPHA)):
                    for each in range(3):
                        await now.group(world, f"g{turn}{each}", 2)
                        await now.pod(world, f"g{turn}{each}-0", f"g{turn}{each}", 1, nodeSelector={"part": "load"})
                    world.server.control_plane.emulate(then.minor)
                    for each in range(3):
                        await then.pod(world, f"g{turn}{each}-1", f"g{turn}{each}", 1, nodeSelector={"part": "load"})
                        load += [f"g{turn}{each}-0", f"g{turn}{each}-1"]
                    now = then
                    if turn == 0:  # one of the two nodes is free: it is kept for the gang, in every version
                        await world.delete(f"{PODS}/long-0")
                        await world.pod("small", 1, nodeSelector={"part": "full"})
                await world.until(lambda pods: bound(pods, *load))
                pods = await world.until(lambda pods: condition(pods["small"]).get("reason") == "Unschedulable")
                assert not bound(pods, "small")
                assert not bound(pods, "train-0")
                [still] = found.engine.reservations.held.values()
                assert (still.ref, still.made) == (held.ref, held.made)
                await world.delete(f"{PODS}/long-1")
                await world.until(lambda pods: bound(pods, "train-0", "train-1"))
                kept = {f"default/{name.rpartition('-')[0]}" for name in load} | {"default/train"}
                known = found.engine.cluster.groups.items()
                assert {key for key, state in known if state.spec is not None} == kept
            said = (await world.client.get(ALPHA.path("train"))).read(dict)["status"]["conditions"]
            assert {one["type"]: one["status"] for one in said}["PodGroupScheduled"] == "True"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("minor", "version"),
    [(32, None), (33, "resource.k8s.io/v1beta2"), (34, "resource.k8s.io/v1"), (38, "resource.k8s.io/v1")],
)
def test_device_claims_are_read_in_the_version_of_each_release(minor: int, version: str | None) -> None:
    """docs/compatibility.md, the column of device claims: 1.32 and before have none that are read."""

    async def run() -> None:
        async with cluster(features=Features(minor=minor)) as world, world.scheduling() as found:
            assert found.served.version_of("ResourceClaim") == version

    asyncio.run(run())
