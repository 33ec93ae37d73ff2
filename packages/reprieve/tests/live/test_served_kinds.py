"""Kinds that a server lacks, or that may not be read: what the feed does without them, and when they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kube_rules.group_owners import OWNER_KINDS
from kube_rules.meta import ObjectMeta
from kube_standin.features import Features
from reprieve.client.discovery import ServedResources, discover
from reprieve.client.errors import ApiError
from reprieve.client.transport import MERGE_PATCH
from reprieve.live.event_handlers import KINDS_READ, ClusterFeedOptions
from tests.client.clock import until
from tests.live.feed_stage import CRD, DEFINITIONS, GROUPS, Json, Stage, definition, play, served_as_well
from tests.waiting import DEADLINE


@pytest.mark.parametrize("kind", ["poddisruptionbudgets", "podgroups"])
def test_optional_kinds_that_may_not_be_read_are_left_out_until_they_may(kind: str) -> None:
    """api.md 1.1: A warning, once; when the right is granted they are read."""

    async def act(stage: Stage) -> None:
        await stage.group("g", 2)
        stage.client.refused = (kind,)
        async with stage.running():
            stage.feed.apply(1000.0)
            assert stage.feed.fed
            assert stage.minimum == ({} if kind == "podgroups" else {"default/g": 2})
            assert sum("may not be read" in text for text in stage.troubles) == 1
            stage.client.refused = ()
            await stage.until(lambda: stage.minimum == {"default/g": 2})

    play(act)


@pytest.mark.parametrize("kind", ["pods", "nodes"])
def test_pods_and_nodes_are_required(kind: str) -> None:
    async def act(stage: Stage) -> None:
        stage.client.refused = (kind,)
        with pytest.raises(ApiError, match="may not be read"):
            async with stage.running():
                pass
        with pytest.raises(ApiError, match="serves no Pod"):
            await Stage(stage.client).feed.run(ServedResources([]))

    play(act)


@pytest.mark.parametrize(
    ("group", "version", "spec"),
    [
        ("scheduling.x-k8s.io", "v1alpha1", lambda least: {"minMember": least}),
        (CRD, "v1beta1", lambda least: {"schedulingPolicy": {"gang": {"minCount": least}}}),
    ],
    ids=["coscheduling", "ours"],
)
def test_native_group_counts_of_two_of_one_name(group: str, version: str, spec: Callable[[int], Json]) -> None:
    """api.md: custom PodGroups are read beside native ones; whichever comes first, goes or changes."""

    async def act(stage: Stage) -> None:
        async with stage.running():
            plural = await served_as_well(stage, group, version)
            for name in ("both", "theirs"):
                await stage.create(plural, name, kind="PodGroup", apiVersion=f"{group}/{version}", spec=spec(5))
            await stage.until(lambda: stage.minimum == {"default/both": 5, "default/theirs": 5})
            await stage.group("both", 2)
            await stage.until(lambda: stage.minimum == {"default/both": 2, "default/theirs": 5})
            patch = {"spec": spec(7)}
            await stage.client.request("PATCH", f"{plural}/both", body=patch, content_type=MERGE_PATCH)
            await stage.client.request("PATCH", f"{plural}/theirs", body=patch, content_type=MERGE_PATCH)
            await stage.until(lambda: stage.minimum == {"default/both": 2, "default/theirs": 7})
            await stage.client.request("DELETE", f"{GROUPS}/both")
            await stage.until(lambda: stage.minimum == {"default/both": 7, "default/theirs": 7})
            # Its definition goes, and all objects with it.
            await stage.group("theirs", 3)
            await stage.client.request("DELETE", f"{DEFINITIONS}/podgroups.{group}")
            await stage.until(lambda: stage.minimum == {"default/theirs": 3})
        assert any("both exists as podgroups.v1.scheduling.k8s.io, which is used" in x for x in stage.troubles)
        assert stage.notes == []

    play(act, controllers="*")


def test_kind_that_is_not_served_is_a_normal_state() -> None:
    """A cluster before 1.36 has no PodGroup: said once, as no error, and again when that changes."""

    async def act(stage: Stage) -> None:
        async with stage.running():
            [note] = stage.notes
            assert note.startswith("not served by this API server: ")
            assert "PodGroup" in note
            await stage.create(DEFINITIONS, f"podgroups.{CRD}", **definition(CRD, "v1beta1"))
            await until(lambda: "now served by this API server: PodGroup" in stage.notes)
            body: Json = {"apiVersion": f"{CRD}/v1beta1", "kind": "PodGroup"}
            path = f"/apis/{CRD}/v1beta1/namespaces/default/podgroups"
            await stage.create(path, "gang", spec={"schedulingPolicy": {"gang": {"minCount": 2}}}, **body)
            await stage.until(lambda: stage.minimum == {"default/gang": 2})
        assert stage.troubles == []

    play(act, features=Features(generic_workload=False))


def test_outage_that_begins_with_discovery_is_one_outage_and_ends() -> None:
    """What is watched goes on; asking again what is served fails, is counted, and goes well again."""

    async def act(stage: Stage) -> None:
        async with stage.running():
            stage.feed.apply(1000.0)
            stage.client.unanswered = ("apis",)
            await until(lambda: stage.repeated > 2)
            assert "/apis: no answer" in stage.troubles[0]
            assert set(stage.outages.failing) == {"discovery"}
            await stage.node("n1")
            await stage.until(lambda: stage.engine.cluster.nodes.alive.any())
            await stage.create(DEFINITIONS, f"podgroups.{CRD}", **definition(CRD, "v1beta1"))
            stage.client.unanswered = ()
            await until(lambda: "now served by this API server: PodGroup" in stage.notes)
            await until(lambda: not stage.outages.failing)

    play(act, features=Features(generic_workload=False))


def test_resources_no_longer_served_are_not_waited_for() -> None:
    """A watch that gets no answer keeps the first feed waiting, and says so, until its definition is gone."""

    async def act(stage: Stage) -> None:
        await stage.create(DEFINITIONS, f"podgroups.{CRD}", **definition(CRD, "v1beta1"))
        loop = asyncio.get_running_loop()
        ends = loop.time() + DEADLINE
        while not (served := await discover(stage.client)).readable("PodGroup"):
            assert loop.time() < ends
        stage.client.unanswered = ("podgroups",)
        feed = asyncio.create_task(stage.feed.run(served))
        try:
            await until(lambda: f"still waiting for podgroups.v1beta1.{CRD}" in stage.troubles)
            assert not stage.feed.apply(1000.0)
            await stage.client.request("DELETE", f"{DEFINITIONS}/podgroups.{CRD}")
            await until(lambda: stage.feed.synced)
            assert stage.feed.apply(1000.0)
        finally:
            feed.cancel()
            await asyncio.gather(feed, return_exceptions=True)

    play(act, features=Features(generic_workload=False))


def test_newly_served_kinds_are_discovered_often_enough() -> None:
    """api.md 3.3: docs/install.md: ten seconds, of which the API server may need some itself."""
    assert ClusterFeedOptions().rediscover <= 5.0


def test_object_that_cannot_be_read_has_an_event() -> None:
    """observability.md 2.6: there at the start, or written later; the object is under its own API."""
    group, version = "scheduling.x-k8s.io", "v1alpha1"
    head = {"kind": "PodGroup", "apiVersion": f"{group}/{version}"}
    wrong = 'spec.minMember: Invalid value: "two": must be a number of pods'

    async def act(stage: Stage) -> None:
        path = await served_as_well(stage, group, version)
        await stage.create(path, "first", **head, spec={"minMember": "two"})
        await stage.create(path, "fine", **head, spec={"minMember": 2})
        async with stage.running():
            await stage.until(lambda: stage.minimum == {"default/fine": 2})
            assert stage.ignored == [("PodGroup", "first", wrong)]
            await stage.create(path, "later", **head, spec={"minMember": "two"})
            for name, least in (("fine", "two"), ("first", 3)):
                patch = {"spec": {"minMember": least}}
                await stage.client.request("PATCH", f"{path}/{name}", body=patch, content_type=MERGE_PATCH)
            await stage.until(lambda: stage.minimum == {"default/fine": 2, "default/first": 3})
            assert stage.ignored[1:] == [("PodGroup", "later", wrong), ("PodGroup", "fine", wrong)]

    play(act)


def test_every_kind_that_is_read_can_have_events() -> None:
    """The author of an unreadable object is notified by its metadata alone."""
    for kind in (*KINDS_READ, *OWNER_KINDS):
        assert kind.named(ObjectMeta(name="n")).name == "n"
