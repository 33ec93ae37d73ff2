"""The compatibility matrix of docs/compatibility.md: a scheduler on API servers of every release from 1.29 to 1.38."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
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
from tests import manifests
from tests.live.test_app import NAME, NODES, PODS, Cluster, Json, cluster, condition
from tests.live.test_devices import devices, held
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
    read: str = ""
    """The version that the scheduler reads them in, if it is not the one they are written in."""
    gate: bool = True
    """GenericWorkload."""

    def __str__(self) -> str:
        return f"1.{self.minor}-{self.version.rpartition('/')[2]}{'' if self.gate else '-off'}"

    @property
    def own(self) -> bool:
        """Whether groups are custom resources."""
        return self.version.startswith(OWN)

    @property
    def features(self) -> Features:
        return Features(minor=self.minor, generic_workload=self.gate)

    def path(self, name: str = "", plural: str = "podgroups") -> str:
        return f"/apis/{self.version}/namespaces/default/{plural}{'/' if name else ''}{name}"

    async def group(self, world: Cluster, name: str, least: int, **spec: Any) -> None:
        body = manifests.gang(name, least, version=self.version, **{"disruptionMode": self.together, **spec})
        await world.client.request("POST", self.path(), body=body)

    async def pod(self, world: Cluster, name: str, group: str, cpu: int, **spec: Any) -> None:
        labels = {f"{OWN}/pod-group": group} if self.own else None
        spec = {"schedulerName": NAME, "terminationGracePeriodSeconds": 0, **spec}
        body = manifests.pod(name, cpu, group="" if self.own else group, labels=labels, **spec)
        await world.client.request("POST", PODS, body=body)


def custom(minor: int, *, gate: bool = True) -> Release:
    return Release(minor, f"{OWN}/v1beta1", together={"all": {}}, gate=gate)


CUSTOM = custom(29)
ALPHA = Release(36, "scheduling.k8s.io/v1alpha2", "PodGroupScheduled", "PodGroup")
BETA = Release(37, "scheduling.k8s.io/v1beta1", together={"all": {}})
STABLE = Release(38, "scheduling.k8s.io/v1", together={"all": {}})
BEFORE = [custom(minor) for minor in (29, 32, 33, 34, 35)]
OFF = [custom(minor, gate=False) for minor in (36, 38)]
"""The gate is off."""
SECOND = [
    Release(37, "scheduling.k8s.io/v1alpha3", together={"all": {}}, read=BETA.version),
    Release(38, "scheduling.k8s.io/v1beta1", together={"all": {}}, read=STABLE.version),
]
"""Written in a version that is served beside the one that is read."""


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


def every(names: Iterable[str], pods: dict[str, Json]) -> bool:
    """Whether all of them are bound."""
    return all(pods.get(name, {}).get("spec", {}).get("nodeName") for name in names)


def bound(pods: dict[str, Json], *names: str) -> bool:
    return every(names, pods)


@pytest.mark.parametrize("release", [*BEFORE, ALPHA, BETA, STABLE, *SECOND, *OFF], ids=str)
def test_gangs_are_scheduled_and_preempted_on_every_release(release: Release) -> None:
    """docs/compatibility.md, api.md 2.9, 3.1: each on an API server that serves just what that release serves."""

    async def run() -> None:
        async with cluster(features=release.features) as world:
            if release.own:
                await definitions(world)
            await world.priority("high", 1000)
            for name in ("n0", "n1"):
                await world.node(name)
            async with world.scheduling() as found:
                assert found.served.version_of("PodGroup") == (release.read or release.version)
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


@dataclass(frozen=True)
class Trees:
    """How trees are written to the API server of a release."""

    features: Features
    version: str
    leaves: Release

    def __str__(self) -> str:
        gates = {"groups": self.features.generic_workload, "composites": self.features.composite_pod_group}
        return "-".join(
            [f"1.{self.features.minor}", self.version, *(f"no-{name}" for name in gates if not gates[name])]
        )

    def path(self, name: str) -> str:
        return f"/apis/{self.version}/namespaces/default/compositepodgroups/{name}"

    async def composite(self, world: Cluster, name: str, least: int) -> None:
        body = {
            "apiVersion": self.version,
            "kind": "CompositePodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "workloadRef": {"workloadName": "w", "templateName": "t"},
                "schedulingPolicy": {"gang": {"minGroupCount": least}},
                "disruptionMode": {"all": {}},
            },
        }
        await world.client.request("POST", self.path(name).rpartition("/")[0], body=body)


TREES = [
    *(Trees(Features(minor=minor), CUSTOM.version, custom(minor)) for minor in (29, 35, 36)),
    Trees(Features(minor=37), "scheduling.k8s.io/v1alpha3", SECOND[0]),
    Trees(Features(minor=38), "scheduling.k8s.io/v1alpha3", STABLE),
    Trees(Features(minor=38), "scheduling.k8s.io/v1beta1", STABLE),
    Trees(Features(composite_pod_group=False), CUSTOM.version, custom(38)),
    Trees(Features(generic_workload=False), CUSTOM.version, custom(38)),
]


@pytest.mark.parametrize("row", TREES, ids=str)
def test_trees_are_scheduled_and_preempted_on_every_release(row: Trees) -> None:
    """docs/compatibility.md, the column of trees; composite.md 1. Custom resources are read beside native groups."""

    async def run() -> None:
        async with cluster(features=row.features) as world:
            if row.leaves.own:
                await definitions(world)
            await world.priority("high", 1000)
            for name in ("n0", "n1"):
                await world.node(name)
            async with world.scheduling():
                reference = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
                await row.composite(world, "top", 2)
                for name in ("a", "b"):
                    await row.leaves.group(world, name, 1, parentCompositePodGroupName="top", **reference)
                await row.leaves.pod(world, "a-0", "a", 4)
                waits = 'waiting for composite pod group "top" tree to meet quorum'
                await world.until(lambda pods: condition(pods["a-0"]).get("message") == waits)
                await row.leaves.pod(world, "b-0", "b", 4)
                await world.until(lambda pods: bound(pods, "a-0", "b-0"))
                await world.pod("urgent", 4, priority="high", terminationGracePeriodSeconds=0)
                pods = await world.until(lambda pods: bound(pods, "urgent") and pods)
                assert not {"a-0", "b-0"} & set(pods), "the tree is evicted as a whole"
            said = (await world.client.get(row.path("top"))).read(dict)["status"]["conditions"]
            assert {one["type"]: one["status"] for one in said}["CompositePodGroupInitiallyScheduled"] == "True"

    asyncio.run(run())


@pytest.mark.parametrize("release", [CUSTOM, ALPHA, BETA, STABLE, OFF[-1]], ids=str)
def test_topology_constraints_hold_on_every_release(release: Release) -> None:
    """docs/compatibility.md, the row of topology constraints: two pods in one rack, of which one has room."""

    async def run() -> None:
        async with cluster(features=release.features) as world:
            if release.own:
                await definitions(world)
            for name, rack in (("n0", "a"), ("n1", "b"), ("n2", "b"), ("n3", "c")):
                amounts = {"cpu": "4", "memory": "64Gi", "pods": "110"}
                status = {"allocatable": amounts, "capacity": amounts}
                body = {"metadata": {"name": name, "labels": {"rack": rack}}, "status": status}
                await world.client.request("POST", NODES, body=body)
            async with world.scheduling():
                await release.group(world, "crew", 2, schedulingConstraints={"topology": [{"key": "rack"}]})
                for name in ("crew-0", "crew-1"):
                    await release.pod(world, name, "crew", 4)
                await world.until(lambda pods: bound(pods, "crew-0", "crew-1"))
                where = await world.where()
                assert {where["crew-0"], where["crew-1"]} == {"n1", "n2"}

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
    return list(found.engine.reservations.by_ref)


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
                [held] = found.engine.reservations.by_ref.values()
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
                [still] = found.engine.reservations.by_ref.values()
                assert (still.ref, still.created_at) == (held.ref, held.created_at)
                await world.delete(f"{PODS}/long-1")
                await world.until(lambda pods: bound(pods, "train-0", "train-1"))
                kept = {f"default/{name.rpartition('-')[0]}" for name in load} | {"default/train"}
                known = found.engine.cluster.groups.items()
                assert {key for key, state in known if state.spec is not None} == kept
            said = (await world.client.get(ALPHA.path("train"))).read(dict)["status"]["conditions"]
            assert {one["type"]: one["status"] for one in said}["PodGroupScheduled"] == "True"

    asyncio.run(run())


@pytest.mark.parametrize("minor", [29, 32])
def test_device_claims_are_not_read_before_1_33(minor: int) -> None:
    """docs/compatibility.md, the column of device claims."""

    async def run() -> None:
        async with cluster(features=Features(minor=minor)) as world, world.scheduling() as found:
            assert found.served.version_of("ResourceClaim") is None

    asyncio.run(run())


CLAIMS = [
    (custom(33), "resource.k8s.io/v1beta2"),
    *((release, "resource.k8s.io/v1") for release in (custom(34), custom(35), ALPHA, BETA, STABLE)),
]


@pytest.mark.parametrize(("release", "version"), CLAIMS, ids=str)
def test_gangs_get_their_devices_on_every_release(release: Release, version: str) -> None:
    """docs/compatibility.md, the column of device claims: each pod has one, and since 1.36 one for the group counts."""

    async def run() -> None:
        async with cluster(features=release.features) as world:
            if release.own:
                await definitions(world)
            await devices(world, 3, version)
            async with world.scheduling() as found:
                assert found.served.version_of("ResourceClaim") == version
                wanted = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
                container = {"name": "c", "image": "i:1", "resources": {"claims": [{"name": "gpu"}]}}
                gangs: dict[str, Json] = {"each": {}}
                if not release.own:
                    gangs["one"] = {"resourceClaims": wanted}
                for group, more in gangs.items():
                    await release.group(world, group, 2, **more)
                    names = [f"{group}-0", f"{group}-1"]
                    for name in names:
                        await release.pod(world, name, group, 0, resourceClaims=wanted, containers=[container])
                    await world.until(partial(every, names))
            users = sorted((await held(world, version)).values())
            assert users == [["each-0"], ["each-1"], *([] if release.own else [["one"]])]

    asyncio.run(run())
