"""Upgrade and rollback of the scheduling API under a scheduler that runs (api.md 2.9, docs/compatibility.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_standin.features import Features
from kube_standin.server.control_plane import ControlPlane, ServeOptions, serving
from reprieve.client.discovery import discover
from reprieve.client.errors import ApiError
from reprieve.client.informer import ChangeKind
from reprieve.client.kubeconfig import connect
from reprieve.client.transport import Limits
from reprieve.client.write_queue import WriterPool
from reprieve.live.writes import Writes
from tests.live.feed_stage import Limited, Stage

Json = dict[str, Any]
NEVER = 1e9
"""Seconds: it is a 404 that makes the feed ask again, not the time."""


def groups(version: str, name: str = "") -> str:
    return f"/apis/scheduling.k8s.io/{version}/namespaces/default/podgroups{'/' if name else ''}{name}"


def play(act: Callable[[Stage, ControlPlane], Awaitable[None]], minor: int, rediscover: float = NEVER) -> None:
    async def run() -> None:
        async with (
            serving(ServeOptions(tls=False, controllers="*", features=Features(minor=minor))) as server,
            Limited(connect(server.kubeconfig), limits=Limits(qps=0.0)) as client,
        ):
            assert isinstance(client, Limited)
            await act(Stage(client, rediscover=rediscover), server.control_plane)

    asyncio.run(run())


async def group(stage: Stage, version: str, name: str, least: int) -> None:
    await stage.create(groups(version), name, spec={"schedulingPolicy": {"gang": {"minCount": least}}})


def read_as(stage: Stage) -> tuple[str, str]:
    """The UID of the group that is kept, and the version it was read in."""
    found = stage.feed._namesakes.counting("default/kept")
    assert found is not None
    return found[0].metadata.uid, found[1].version


def source(stage: Stage) -> str:
    """The version in which PodGroups are read, once all of them are there in it."""
    return next((version for group, version, plural in stage.feed.revisions() if plural == "podgroups"), "")


@pytest.mark.parametrize(
    ("path", "rediscover"),
    [
        (((36, "v1alpha2"), (38, "v1")), NEVER),
        (((38, "v1"), (36, "v1alpha2")), NEVER),
        (((37, "v1beta1"), (36, "v1alpha2"), (37, "v1beta1")), NEVER),
        # 1.38 still serves v1beta1: no request fails, and v1 is found by asking now and then.
        (((36, "v1alpha2"), (37, "v1beta1"), (38, "v1"), (37, "v1beta1"), (36, "v1alpha2")), 0.05),
    ],
    ids=["1.36-1.38", "1.38-1.36", "1.37-1.36-1.37", "1.36-1.37-1.38-1.37-1.36"],
)
def test_groups_are_kept_from_version_to_version(path: tuple[tuple[int, str], ...], rediscover: float) -> None:
    """api.md 2.9: known groups stay, deleted ones go, and new ones come in the new version."""

    async def step(stage: Stage, plane: ControlPlane, minor: int, version: str) -> None:
        stage.received.clear()
        plane.emulate(minor)
        await stage.client.request("DELETE", groups(version, "gone"))
        await group(stage, version, "gone", minor)
        await stage.until(lambda: source(stage) == version)
        await stage.until(lambda: stage.minimum == {"default/kept": 2, "default/gone": minor})
        assert (ChangeKind.DELETED, "PodGroup", "kept") not in stage.received

    async def act(stage: Stage, plane: ControlPlane) -> None:
        first = path[0][1]
        for name in ("kept", "gone"):
            await group(stage, first, name, 2)
        async with stage.running():
            await stage.until(lambda: stage.minimum == {"default/kept": 2, "default/gone": 2})
            uid, _ = read_as(stage)
            for minor, version in path[1:]:
                await step(stage, plane, minor, version)
                assert read_as(stage) == (uid, version)
            await stage.client.request("DELETE", groups(path[-1][1], "gone"))
            await stage.until(lambda: stage.minimum == {"default/kept": 2})

    play(act, path[0][0], rediscover)


def test_group_deleted_while_two_versions_pass_is_gone() -> None:
    """api.md 2.9: also if the version in between was never read."""

    async def act(stage: Stage, plane: ControlPlane) -> None:
        for name in ("kept", "gone"):
            await group(stage, "v1alpha2", name, 2)
        async with stage.running():
            await stage.until(lambda: set(stage.minimum) == {"default/kept", "default/gone"})
            stage.client.unanswered = ("podgroups",)  # the version in between is discovered and never answers
            plane.emulate(37)
            stage.feed._not_found.set()
            await stage.until(
                lambda: (
                    ("PodGroup", "scheduling.k8s.io") in stage.feed._sources
                    and stage.feed._sources["PodGroup", "scheduling.k8s.io"].resource.version == "v1beta1"
                )
            )
            assert set(stage.minimum) == {"default/kept", "default/gone"}
            plane.emulate(38)
            stage.client.unanswered = ()
            await stage.client.request("DELETE", groups("v1", "gone"))
            stage.feed._not_found.set()
            await stage.until(lambda: source(stage) == "v1")
            await stage.until(lambda: stage.minimum == {"default/kept": 2})

    play(act, 36)


def test_groups_that_are_served_no_more_are_gone_whatever_was_inherited() -> None:
    """api.md 2.9: a rollback below 1.36 in the middle of a change of versions."""

    async def act(stage: Stage, plane: ControlPlane) -> None:
        await group(stage, "v1alpha2", "gone", 2)
        async with stage.running():
            await stage.until(lambda: set(stage.minimum) == {"default/gone"})
            stage.client.unanswered = ("podgroups",)
            plane.emulate(37)
            stage.feed._not_found.set()
            await stage.until(
                lambda: stage.feed._sources["PodGroup", "scheduling.k8s.io"].resource.version == "v1beta1"
            )
            plane.emulate(35)
            stage.feed._not_found.set()
            await stage.until(lambda: stage.minimum == {})

    play(act, 36)


CONDITION: Json = {
    "type": "PodGroupInitiallyScheduled",
    "status": "True",
    "reason": "Scheduled",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(("before", "after"), [((36, "v1alpha2"), (38, "v1")), ((38, "v1"), (36, "v1alpha2"))])
def test_status_that_is_late_is_written_in_the_version_that_is_served(
    before: tuple[int, str], after: tuple[int, str]
) -> None:
    """api.md 2.9: in the words of that version; 404 for a group that is gone stays 404."""

    async def act(stage: Stage, plane: ControlPlane) -> None:
        await group(stage, before[1], "g", 2)
        served = await discover(stage.client)
        [where] = served.readable("PodGroup")
        meta = (await stage.client.get(groups(before[1], "g"))).read(dict)["metadata"]
        pool = WriterPool(stage.client)
        writes = Writes(stage.client, served, pool)
        plane.emulate(after[0])
        await writes.patch_group_status("default", "g", meta["uid"], [CONDITION], resource=where)
        written = (await stage.client.get(groups(after[1], "g"))).read(dict)["status"]["conditions"]
        word = "PodGroupScheduled" if after[1] == "v1alpha2" else "PodGroupInitiallyScheduled"
        assert [(one["type"], one["status"]) for one in written] == [(word, "True")]
        with pytest.raises(ApiError) as refused:
            await writes.patch_group_status("default", "other", meta["uid"], [CONDITION], resource=where)
        assert refused.value.code == 404
        await pool.aclose()

    play(act, before[0])
