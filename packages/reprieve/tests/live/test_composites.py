"""CompositePodGroups on their way to the engine: versions that are served or not, and what custom resources lack."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from kube_standin.features import Features
from kube_standin.kinds import BUILTIN, ServedKind
from kube_standin.server.control_plane import ServeOptions, serving
from reprieve.client.discovery import discover
from reprieve.client.kubeconfig import connect
from reprieve.client.transport import MERGE_PATCH, Limits
from tests.client.clock import until
from tests.live.feed_stage import CRD, DEFINITIONS, GROUPS, Limited, Stage, definition, play
from tests.waiting import DEADLINE

Json = dict[str, Any]
ALPHA3 = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default"
COMPOSITES = f"{ALPHA3}/compositepodgroups"
OURS = f"/apis/{CRD}/v1beta1/namespaces/default"
REFERENCE = {"workloadName": "w", "templateName": "t"}


def composite(least: int = 1, **spec: Any) -> Json:
    return {"workloadRef": REFERENCE, "schedulingPolicy": {"gang": {"minGroupCount": least}}, **spec}


def leaf(parent: str, **spec: Any) -> Json:
    policy = {"gang": {"minCount": 1}}
    return {"workloadRef": REFERENCE, "schedulingPolicy": policy, "parentCompositePodGroupName": parent, **spec}


def counts(stage: Stage) -> dict[str, int]:
    """What the engine knows: composites and how many groups they need."""
    return {key: one.min_count for key, one in stage.engine.cluster.trees.composites.items()}


def roots(stage: Stage) -> dict[str, str | None]:
    """Groups with a known object, and the root of their tree."""
    groups = stage.engine.cluster.groups.items()
    return {
        key: None if one.root is None or one.root is one else one.root.key
        for key, one in groups
        if one.spec is not None
    }


async def served(stage: Stage, kind: str, times: int) -> None:
    """Return when a kind is served by so many API groups."""
    ends = asyncio.get_running_loop().time() + DEADLINE
    while len((await discover(stage.client)).readable(kind)) != times:
        assert asyncio.get_running_loop().time() < ends, kind


def test_native_composite_counts_of_two_of_one_name() -> None:
    """composite.md 1: custom resources are read beside native ones; whichever comes first, goes or changes."""

    async def act(stage: Stage) -> None:
        async with stage.running():
            await stage.create(
                DEFINITIONS, f"compositepodgroups.{CRD}", **definition(CRD, "v1beta1", "CompositePodGroup")
            )
            await served(stage, "CompositePodGroup", 2)
            ours: Json = {"kind": "CompositePodGroup", "apiVersion": f"{CRD}/v1beta1"}
            for name in ("both", "theirs"):
                await stage.create(f"{OURS}/compositepodgroups", name, spec=composite(5), **ours)
            await stage.until(lambda: counts(stage) == {"default/both": 5, "default/theirs": 5})
            await stage.create(COMPOSITES, "both", spec=composite(2))
            await stage.until(lambda: counts(stage) == {"default/both": 2, "default/theirs": 5})
            patch = {"spec": composite(7)}
            for name in ("both", "theirs"):
                path = f"{OURS}/compositepodgroups/{name}"
                await stage.client.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
            await stage.until(lambda: counts(stage) == {"default/both": 2, "default/theirs": 7})
            await stage.client.request("DELETE", f"{COMPOSITES}/both")
            await stage.until(lambda: counts(stage) == {"default/both": 7, "default/theirs": 7})
            # Its definition goes, and all objects with it: what was below waits for a parent again.
            await stage.create(GROUPS, "low", spec=leaf("theirs"))
            await stage.until(lambda: roots(stage) == {"default/low": "default/theirs"})
            await stage.client.request("DELETE", f"{DEFINITIONS}/compositepodgroups.{CRD}")
            await stage.until(lambda: counts(stage) == {})
            assert stage.engine.cluster.groups["default/low"].fault is not None
        told = "CompositePodGroup default/both exists as compositepodgroups.v1beta1.scheduling.k8s.io, which is used"
        assert any(told in text for text in stage.troubles), stage.troubles

    play(act, controllers="*")


def test_composites_that_begin_to_be_served_are_read() -> None:
    """A cluster without them is a normal state; what comes with a definition is noticed, and what goes with it."""

    async def act(stage: Stage) -> None:
        async with stage.running():
            await stage.until(lambda: any("CompositePodGroup" in note for note in stage.notes))
            for kind in ("CompositePodGroup", "PodGroup"):
                made = definition(CRD, "v1beta1", kind)
                await stage.create(DEFINITIONS, f"{kind.lower()}s.{CRD}", **made)
            await until(lambda: any("now served by this API server" in note for note in stage.notes))
            for kind in ("CompositePodGroup", "PodGroup"):
                await served(stage, kind, 1)
            version = {"apiVersion": f"{CRD}/v1beta1"}
            await stage.create(f"{OURS}/podgroups", "low", kind="PodGroup", spec=leaf("top"), **version)
            await stage.create(
                f"{OURS}/compositepodgroups", "top", kind="CompositePodGroup", spec=composite(), **version
            )
            await stage.until(lambda: roots(stage) == {"default/low": "default/top"})
        assert stage.troubles == []

    play(act, features=Features(generic_workload=False))


def test_composite_without_a_priority_has_the_highest_of_what_is_in_it() -> None:
    """The class of a custom resource is not resolved; native ones always are. Groups have theirs from their pods."""

    def priorities(stage: Stage) -> dict[str, int | None]:
        composites = stage.engine.cluster.trees.composites.items()
        return {
            key: one.spec.priority if one.spec is not None and one.spec.has_priority else None
            for key, one in composites
        }

    async def act(stage: Stage) -> None:
        for kind in ("CompositePodGroup", "PodGroup"):
            await stage.create(DEFINITIONS, f"{kind.lower()}s.{CRD}", **definition(CRD, "v1beta1", kind))
        await served(stage, "CompositePodGroup", 1)
        await served(stage, "PodGroup", 1)
        await stage.create("/apis/scheduling.k8s.io/v1/priorityclasses", "high", value=50)
        version = {"apiVersion": f"{CRD}/v1beta1"}
        async with stage.running():
            for name, spec in (("top", composite()), ("mid", composite(parentCompositePodGroupName="top"))):
                path = f"{OURS}/compositepodgroups"
                await stage.create(path, name, kind="CompositePodGroup", spec=spec, **version)
            await stage.until(lambda: priorities(stage) == {"default/top": None, "default/mid": None})
            await stage.create(f"{OURS}/podgroups", "low", kind="PodGroup", spec=leaf("mid"), **version)
            pods = "/api/v1/namespaces/default/pods"
            for name, more in (("plain", {}), ("dear", {"priorityClassName": "high"})):
                spec = {"containers": [{"name": "c", "image": "i"}], **more}
                await stage.create(pods, name, spec=spec, metadata={"labels": {f"{CRD}/pod-group": "low"}})
                wanted = dict.fromkeys(("default/top", "default/mid"), 50 if more else 0)
                await stage.until(partial(lambda wanted: priorities(stage) == wanted, wanted))
            given = composite(parentCompositePodGroupName="top", priority=70)
            await stage.create(f"{OURS}/compositepodgroups", "dearer", kind="CompositePodGroup", spec=given, **version)
            await stage.until(lambda: priorities(stage)["default/top"] == 70)
            await stage.client.request("DELETE", f"{OURS}/compositepodgroups/dearer")
            await stage.until(lambda: priorities(stage) == {"default/top": 50, "default/mid": 50})
            await stage.create(
                f"{OURS}/podgroups", "dearest", kind="PodGroup", spec=leaf("mid", priority=90), **version
            )
            await stage.until(lambda: priorities(stage) == {"default/top": 90, "default/mid": 90})
            await stage.client.request("DELETE", f"{OURS}/podgroups/dearest")
            await stage.until(lambda: priorities(stage) == {"default/top": 50, "default/mid": 50})
        assert stage.troubles == []

    play(act, features=Features(generic_workload=False))


def rows(*versions: str) -> list[ServedKind]:
    """The groups of these versions, and the composites where they are among them."""
    kinds = ("PodGroup", "CompositePodGroup", "Workload")
    return [one for one in BUILTIN if one.kind in kinds and one.version in versions]


def with_server(act: Callable[[Stage, Any], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            serving(ServeOptions(tls=False)) as server,
            Limited(connect(server.kubeconfig), limits=Limits(qps=0.0)) as client,
        ):
            assert isinstance(client, Limited)
            await act(Stage(client), server.control_plane.registry.kinds)

    asyncio.run(run())


@pytest.mark.parametrize("left", ["v1", "v1beta1", "v1alpha3"])
def test_leaves_of_one_version_and_composites_of_another(left: str) -> None:
    """Leaves are read in v1, v1beta1 or v1alpha3, composites in v1beta1; a version that goes loses no objects."""

    async def act(stage: Stage, kinds: Any) -> None:
        gone = [row for row in rows("v1", "v1beta1", "v1alpha3", "v1alpha2") if row.version != left]
        gone = [row for row in gone if row.kind == "PodGroup"]
        for row in gone:
            kinds.remove(row)
        leaves = f"/apis/scheduling.k8s.io/{left}/namespaces/default/podgroups"
        await stage.create(COMPOSITES, "top", spec=composite())
        await stage.create(leaves, "low", spec=leaf("top"))
        async with stage.running():
            await stage.until(lambda: roots(stage) == {"default/low": "default/top"})
            for row in gone:
                kinds.add(row)
            await stage.create(leaves, "more", spec=leaf("top"))
            await stage.until(lambda: roots(stage) == dict.fromkeys(("default/low", "default/more"), "default/top"))
            [there] = [row for row in rows(left) if row.kind == "PodGroup"]
            kinds.remove(there)
            other = next(row for row in gone if row.version != "v1alpha2")
            await stage.create(
                f"/apis/scheduling.k8s.io/{other.version}/namespaces/default/podgroups", "third", spec=leaf("top")
            )
            await stage.until(lambda: roots(stage).get("default/third") == "default/top")
            assert set(roots(stage).values()) == {"default/top"}

    with_server(act)


def test_composites_that_are_served_no_more_are_gone_and_come_back() -> None:
    """As after a rollback of the gate on the API server: leaves wait for their parent; nothing hangs."""

    async def act(stage: Stage, kinds: Any) -> None:
        served = [one for one in rows("v1beta1", "v1alpha3") if one.kind == "CompositePodGroup"]
        await stage.create(COMPOSITES, "top", spec=composite())
        await stage.create(GROUPS, "low", spec=leaf("top"))
        async with stage.running():
            await stage.until(lambda: roots(stage) == {"default/low": "default/top"})
            for row in served:
                kinds.remove(row)
            await stage.until(lambda: counts(stage) == {})
            fault = stage.engine.cluster.groups["default/low"].fault
            assert fault is not None
            assert fault.missing == "top"
            kinds.add(served[-1])
            await stage.until(lambda: roots(stage) == {"default/low": "default/top"})

    with_server(act)


def test_annotation_of_a_composite_that_cannot_be_read_is_reported() -> None:
    """cost.md 2: annotations of a tree as those of a group."""

    async def act(stage: Stage) -> None:
        async with stage.running():
            await stage.create(
                COMPOSITES, "top", spec=composite(), metadata={"annotations": {f"{CRD}/minimum-runtime": "soon"}}
            )
            await stage.until(lambda: stage.ignored)
        [(kind, name, why)] = stage.ignored
        assert (kind, name) == ("CompositePodGroup", "top")
        assert "minimum-runtime" in why

    play(act)
