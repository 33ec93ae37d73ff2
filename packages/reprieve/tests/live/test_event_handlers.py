"""From informers to the engine: the order of the first feed, and what comes and goes later."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kube_standin.admission import admission_steps
from reprieve.client.informer import ChangeKind
from reprieve.client.transport import MERGE_PATCH
from reprieve.live.event_handlers import ClusterFeed, ClusterFeedOptions
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.testing import profile_with
from tests.client.clock import until
from tests.live.feed_stage import CRD, GROUPS, NODES, PODS, Json, Stage, play, served_as_well


def test_revision_of_each_watch_is_reported() -> None:
    """observability.md 3.5: each by itself; what has been heard waits to be applied, before all that is heard later."""

    async def act(stage: Stage) -> None:
        assert stage.feed.revisions() == {}
        async with stage.running():
            before = stage.feed.revisions()
            assert {("", "v1", "nodes"), ("", "v1", "pods"), ("scheduling.k8s.io", "v1", "podgroups")} <= set(before)
            await stage.until(lambda: True)
            await stage.node("n1")
            made = (await stage.client.get(f"{NODES}/n1")).read(dict)["metadata"]["resourceVersion"]
            assert int(made) > int(before["", "v1", "nodes"])
            await until(lambda: int(stage.feed.revisions()["", "v1", "nodes"]) >= int(made))
            assert stage.feed.pending
            await stage.until(lambda: stage.engine.cluster.nodes.alive.any())

    play(act)


def test_first_feed_comes_in_order_and_all_at_once() -> None:
    """arrival_order.in_order: nodes, budgets, groups, the rest, bound pods, pending pods; nothing before that."""

    async def act(stage: Stage) -> None:
        await stage.pod("pending", group="g")
        await stage.node("n1")
        await stage.pod("bound", node="n1")
        await stage.group("g", 1)
        budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        await stage.create(budget, "b", spec={"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1})
        assert not stage.feed.apply(1000.0)
        async with stage.running():
            assert stage.received == []
            stage.feed.apply(1000.0)
        assert stage.feed.fed
        kinds = [kind for _, kind, _ in stage.received if kind in ("Node", "PodDisruptionBudget", "PodGroup", "Pod")]
        assert kinds == ["Node", "PodDisruptionBudget", "PodGroup", "Pod", "Pod"]
        assert [name for _, kind, name in stage.received if kind == "Pod"] == ["bound", "pending"]
        assert stage.engine.queue.has_active

    play(act)


def test_pods_that_end_or_go_free_their_room() -> None:
    async def act(stage: Stage) -> None:
        await stage.node("n1")
        await stage.pod("ends", node="n1")
        await stage.pod("goes", node="n1")
        async with stage.running():
            await stage.until(lambda: len(stage.engine.cluster.pods) == 2)
            patch = {"status": {"phase": "Succeeded"}}
            await stage.client.request("PATCH", f"{PODS}/ends/status", body=patch, content_type=MERGE_PATCH)
            await stage.until(lambda: len(stage.engine.cluster.pods) == 1)
            await stage.client.request("DELETE", f"{PODS}/goes", body={"gracePeriodSeconds": 0})
            await stage.until(lambda: not stage.engine.cluster.pods)
            await stage.client.request("DELETE", f"{NODES}/n1")
            await stage.until(lambda: not stage.engine.cluster.nodes.alive.any())

    play(act)


def test_members_that_succeed_or_succeeded_before_are_not_lost() -> None:
    """repair.md 1.3: a failed one is."""

    async def act(stage: Stage) -> None:
        def satisfied() -> bool:
            stage.engine.repair.review(1000.0)
            return "default/train" not in stage.engine.repair.health.degraded

        async def ends(name: str, phase: str) -> None:
            patch = {"status": {"phase": phase}}
            await stage.client.request("PATCH", f"{PODS}/{name}/status", body=patch, content_type=MERGE_PATCH)

        await stage.node("n1")
        await stage.group("train", 4)
        for index in range(4):
            await stage.pod(f"train-{index}", node="n1", group="train")
        await ends("train-0", "Succeeded")
        scheduled = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": ""}
        patch = {"status": {"conditions": [{**scheduled, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
        await stage.client.request("PATCH", f"{GROUPS}/train/status", body=patch, content_type=MERGE_PATCH)
        async with stage.running():
            await stage.until(lambda: len(stage.engine.cluster.pods) == 3)
            assert satisfied()
            await ends("train-1", "Succeeded")
            await stage.until(lambda: len(stage.engine.cluster.pods) == 2)
            assert satisfied()
            await ends("train-2", "Failed")
            await stage.until(lambda: len(stage.engine.cluster.pods) == 1)
            assert not satisfied()

    play(act)


def test_pod_of_the_same_name_is_another_pod() -> None:
    async def act(stage: Stage) -> None:
        await stage.pod("p")
        async with stage.running():
            await stage.until(lambda: stage.engine.cluster.pods)
            [first] = stage.engine.cluster.pods
            await stage.client.request("DELETE", f"{PODS}/p", body={"gracePeriodSeconds": 0})
            await stage.pod("p")
            await stage.until(lambda: stage.engine.cluster.pods and first not in stage.engine.cluster.pods)
            assert len(stage.engine.cluster.pods) == 1
            assert len(stage.engine.queue) == 1

    play(act)


def test_object_that_cannot_be_taken_in_is_reported_and_left_out() -> None:
    async def act(stage: Stage) -> None:
        await stage.node("n1")
        await stage.pod("good")
        await stage.pod("bad")
        real = stage.engine.set

        def fragile(item: Any, now: float, **more: Any) -> Any:
            if item.name == "bad":
                raise ZeroDivisionError("by design")
            return real(item, now, **more)

        stage.engine.set = fragile  # type: ignore[method-assign]
        said = "Pod default/bad not taken in: ZeroDivisionError: by design"
        async with stage.running():
            stage.feed.apply(1000.0)
            assert [record.name for record in stage.engine.cluster.pods.values()] == ["good"]
            assert said in stage.troubles
            # When it is deleted there is nothing to take away; components that kept anything of it are notified.
            await stage.client.request("DELETE", f"{PODS}/bad", body={"gracePeriodSeconds": 0})
            await stage.until(lambda: (ChangeKind.DELETED, "Pod", "bad") in stage.received)
            assert {text for text in stage.troubles if "not taken in" in text} == {said}

    play(act)


def test_warnings_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each warning once, until there are so many that none of them is remembered."""
    monkeypatch.setattr("reprieve.live.event_handlers._MOST_WARNINGS", 2)

    async def act(stage: Stage) -> None:
        for text in ("a", "b", "a", "b", "c", "c", "a"):
            stage.feed._warn_once(text)
            assert len(stage.feed._warned) <= 2
        assert stage.troubles == ["a", "b", "c", "a"]

    play(act)


def test_long_queue_is_taken_in_piece_by_piece() -> None:
    """So that the event loop gets its turns."""

    async def act(stage: Stage) -> None:
        async with stage.running():
            stage.feed.apply(1000.0)
            for number in range(40):
                await stage.pod(f"p{number}")
            await until(lambda: stage.feed.pending >= 40)
            pieces = 0
            while not stage.feed.apply(1000.0, seconds=0.0, clock=stage.client.clock):
                pieces += 1
            assert pieces >= 2
            assert len(stage.engine.cluster.pods) == 40
            for number in range(40):
                await stage.pod(f"q{number}")
            await until(lambda: stage.feed.pending >= 40)
            assert stage.feed.apply(1000.0, seconds=60.0, clock=stage.client.clock), "a minute is enough for all"

    play(act)


CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ANNOTATION = "scheduling.reprieve.dev/preemption-priority-class"


def test_group_counts_as_a_victim() -> None:
    """preemption.md 4, "Options": the class of the annotation, as it appears, is replaced and vanishes (8)."""

    async def act(stage: Stage) -> None:
        refused: list[str] = []
        stage.feed = ClusterFeed(
            stage.client,
            stage.engine,
            trouble=lambda where, text: stage.troubles.append(text),
            refused=lambda group, why: refused.append(f"{group.name}: {why}"),
            options=ClusterFeedOptions(rediscover=0.05),
        )

        async def guarded(name: str, by: str, **spec: Any) -> None:
            spec = {"schedulingPolicy": {"basic": {}}, **spec}
            await stage.create(GROUPS, name, metadata={"annotations": {ANNOTATION: by}}, spec=spec)

        def counts(name: str) -> int | None:
            state = stage.engine.cluster.groups.get(f"default/{name}")
            return state.victim_priority if state is not None else None

        async def put_class(name: str, value: int) -> None:
            await stage.create(CLASSES, name, value=value)

        for name, value in (("own", 10), ("none", 0)):
            grant = {"annotations": {"scheduling.reprieve.dev/max-preemption-priority": "70"}}
            await stage.create(CLASSES, name, metadata=grant, value=value)
        await put_class("low", 5)
        await put_class("high", 70)
        await guarded("known", "high", priorityClassName="none")
        await guarded("later", "soon", priorityClassName="own")
        await guarded("lower", "low", priorityClassName="own")
        number = {"annotations": {ANNOTATION.removesuffix("-class"): "2000"}}
        spec = {"schedulingPolicy": {"basic": {}}, "priorityClassName": "own"}
        await stage.create(GROUPS, "number", metadata=number, spec=spec)
        async with stage.running():
            await stage.until(lambda: counts("known") == 70)
            await stage.until(lambda: counts("number") is not None)
            assert counts("later") == counts("lower") == counts("number") == 10
            assert sorted(refused) == [
                f'later: metadata.annotations[{ANNOTATION}]: Invalid value: "soon": '
                "no PriorityClass with name soon was found",
                f'lower: metadata.annotations[{ANNOTATION}]: Invalid value: "low": '
                "its value 5 is lower than the priority 10",
                f"number: metadata.annotations[{ANNOTATION.removesuffix('-class')}]: Forbidden: "
                f"it is the value of the class that {ANNOTATION} names, and none is named",
            ]
            assert sum("preemption-priority-class" in text for text in stage.troubles) == 3
            await put_class("soon", 30)
            await stage.until(lambda: counts("later") == 30)
            # The class goes: nothing that exists changes, even when the group is written again; a new group has none.
            await stage.client.request("DELETE", f"{CLASSES}/soon")
            await guarded("marker", "gone")
            await stage.until(lambda: counts("marker") is not None)
            patch: Json = {"metadata": {"labels": {"a": "b"}}}
            await stage.client.request("PATCH", f"{GROUPS}/later", body=patch, content_type=MERGE_PATCH)
            await guarded("after", "soon", priorityClassName="none")
            await stage.until(lambda: counts("after") is not None)
            assert (counts("later"), counts("after")) == (30, 0)
            # It comes back with another value, and then too low a one: never below the priority of its own.
            await put_class("soon", 20)
            await stage.until(lambda: counts("later") == counts("after") == 20)
            patch = {"metadata": {"annotations": {ANNOTATION: "low"}}}
            await stage.client.request("PATCH", f"{GROUPS}/later", body=patch, content_type=MERGE_PATCH)
            await stage.until(lambda: counts("later") == 10)
            patch = {"metadata": {"annotations": {ANNOTATION: None}}}
            await stage.client.request("PATCH", f"{GROUPS}/known", body=patch, content_type=MERGE_PATCH)
            await stage.until(lambda: counts("known") == 0)
            # Nothing is reported about deleted groups.
            await stage.client.request("DELETE", f"{GROUPS}/after")
            await stage.until(lambda: counts("after") is None)
            assert stage.feed._victims._naming == {
                "default/later": "low",
                "default/lower": "low",
                "default/marker": "gone",
            }

    # Controllers release unused groups; the API server does not know the annotation, as others do not.
    play(act, controllers="*", steps=partial(admission_steps, off=("PreemptionPriority", "Standing")))


def test_pods_of_one_second_keep_the_order_of_their_arrival() -> None:
    """scheduling.md 3.1 asks for creation before name; the API tells creation to the second only."""

    async def act(stage: Stage) -> None:
        async with stage.running():
            stage.feed.apply(1000.0)  # what is there before is sorted; this comes after
            for name in ("z", "a", "m"):
                await stage.pod(name)
            await stage.until(lambda: len(stage.engine.cluster.pods) == 3)
            pods = sorted(stage.engine.cluster.pods.values(), key=lambda pod: pod.created)
            assert [pod.name for pod in pods] == ["z", "a", "m"]
            assert all(0 < pod.created % 1 < 0.001 for pod in pods), "no pod is made a second older or younger"

    play(act)


def test_pods_of_one_second_that_are_there_first_keep_the_order_in_which_they_were_written() -> None:
    """interfaces.md 1.11: by resource version, where a list has them by name."""

    async def act(stage: Stage) -> None:
        for name in ("z", "a", "m"):
            await stage.pod(name)
        async with stage.running():
            stage.feed.apply(1000.0)
            pods = sorted(stage.engine.cluster.pods.values(), key=lambda pod: pod.created)
            assert [pod.name for pod in pods] == ["z", "a", "m"]

    play(act)


def test_order_of_arrival_begins_anew_before_a_second_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pods come: what tells them apart within a second never makes one a second younger."""
    monkeypatch.setattr("reprieve.live.event_handlers._ARRIVALS", 3)

    async def act(stage: Stage) -> None:
        async with stage.running():
            stage.feed.apply(1000.0)
            for number in range(4):
                await stage.pod(f"p{number}")
            await stage.until(lambda: len(stage.engine.cluster.pods) == 4)
            created = {pod.name: pod.created % 1 for pod in stage.engine.cluster.pods.values()}
            assert created == {"p0": 0.25, "p1": 0.5, "p2": 0.0, "p3": 0.25}

    play(act)


def test_work_annotations_reach_the_engine_and_wrong_values_are_reported_on_their_objects() -> None:
    """cost.md 2.2, 2.4: from classes, groups and pods, told once, and read again when it changes."""

    def said(**terms: str) -> Json:
        return {"annotations": {f"{CRD}/{name.replace('_', '-')}": text for name, text in terms.items()}}

    async def act(stage: Stage) -> None:
        cluster = stage.engine.cluster
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await stage.create(classes, "long", value=7, metadata=said(minimum_runtime="1h", pdb_policy="respect"))
        await stage.node("n1")
        spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        await stage.create(GROUPS, "g", spec=spec, metadata=said(last_checkpoint="today"))
        await stage.pod("p", node="n1", group="g", **said(restart_cost="1m"))
        async with stage.running():
            stage.feed.apply(1000.0)
            (record,) = cluster.pods.values()
            assert cluster.terms_of(record).restart_cost == 60.0
            assert cluster.classes["long"].work.minimum_runtime == 3600.0
            assert [(kind, name) for kind, name, _ in stage.ignored] == [("PriorityClass", "long"), ("PodGroup", "g")]
            assert 'last-checkpoint]: Invalid value: "today"' in stage.ignored[1][2]
            later = {"metadata": said(last_checkpoint="1970-01-01T00:10:00Z")}
            await stage.client.request("PATCH", f"{GROUPS}/g", body=later, content_type=MERGE_PATCH)
            await stage.until(lambda: cluster.terms_of(record).last_checkpoint == 600.0)
            await stage.client.request("DELETE", f"{classes}/long")
            await stage.until(lambda: not cluster.classes)
            assert len(stage.ignored) == 2

    play(act)


def test_grant_that_is_exceeded_bounds_the_value() -> None:
    """cost.md 7.4, 7.6: on pods and groups, as the grant of the class is; a number by hand is no way around it."""

    async def act(stage: Stage) -> None:
        cluster = stage.engine.cluster
        most = "scheduling.reprieve.dev/max-minimum-runtime"
        await stage.create(CLASSES, "batch", value=3, metadata={"annotations": {most: "2h"}})
        await stage.create(CLASSES, "gold", value=900)
        await stage.node("n1")
        long = {f"{CRD}/minimum-runtime": "87600h"}
        by_hand = {**long, ANNOTATION: "no-such-class", ANNOTATION.removesuffix("-class"): "2000000000"}
        spec = {"schedulingPolicy": {"basic": {}}, "priorityClassName": "batch"}
        await stage.create(GROUPS, "g", spec=spec, metadata={"annotations": by_hand})
        await stage.create(GROUPS, "h", spec=spec, metadata={"annotations": {ANNOTATION: "gold"}})
        await stage.pod("p", node="n1", annotations=long)
        async with stage.running():
            stage.feed.apply(1000.0)
            (record,) = cluster.pods.values()
            assert cluster.terms_of(record).minimum_runtime == 3600.0
            assert [cluster.groups[f"default/{name}"].victim_priority for name in "gh"] == [3, 3]
            assert sorted((kind, name, why.rpartition("; ")[2]) for kind, name, why in stage.ignored) == [
                ("Pod", "p", "1h counts"),
                ("PodGroup", "g", "2h counts"),
                ("PodGroup", "g", "priority 3 counts"),
                ("PodGroup", "h", "priority 3 counts"),
            ]
            grant = {"metadata": {"annotations": {"scheduling.reprieve.dev/max-preemption-priority": "500"}}}
            await stage.client.request("PATCH", f"{CLASSES}/batch", body=grant, content_type=MERGE_PATCH)
            await stage.until(lambda: cluster.groups["default/h"].victim_priority == 500)
            assert stage.ignored[-1][2].endswith("priority 500 counts")

    play(act, steps=partial(admission_steps, off=("PreemptionPriority", "Standing")))


@pytest.mark.parametrize("waits", [True, False])
def test_jobs_are_watched_for_their_end_if_the_configuration_waits_for_it(waits: bool) -> None:
    """cost.md 6.4: their pods end by the Job's own deadline; they are no gangs by that."""

    async def act(first: Stage) -> None:
        profile = profile_with(DefaultPreemption(PreemptionOptions(wait_for_completions=600.0 if waits else 0.0)))
        stage = Stage(first.client, Engine(EngineOptions({profile.name: profile}, validate=True)))
        cluster = stage.engine.cluster
        await stage.node("n1")
        container = {"name": "c", "image": "i:1"}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        jobs = "/apis/batch/v1/namespaces/default/jobs"
        await stage.create(jobs, "train", spec={"activeDeadlineSeconds": 500, "template": template})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
        await stage.pod("worker", node="n1", ownerReferences=[owner])
        async with stage.running():
            assert (("Job", "batch") in stage.feed._sources) is waits
            if waits:
                await stage.until(lambda: cluster.pods)
                (record,) = cluster.pods.values()
                assert record.group is None
                status = {"status": {"startTime": "1970-01-01T00:05:00Z"}}
                path = f"{jobs}/train/status"
                await stage.client.request("PATCH", path, body=status, content_type=MERGE_PATCH)
                await stage.until(lambda: cluster.job_deadlines.of(record) == 800.0)
                # left to itself a Job would wait for a garbage collector that lets go of its pods
                await stage.client.request("DELETE", f"{jobs}/train", body={"propagationPolicy": "Background"})
                await stage.until(lambda: cluster.job_deadlines.of(record) is None)

    play(act)


@pytest.mark.parametrize(
    ("group", "version", "spec", "label"),
    [
        ("scheduling.x-k8s.io", "v1alpha1", {"minMember": 1}, "scheduling.x-k8s.io/pod-group"),
        (CRD, "v1beta1", {"schedulingPolicy": {"gang": {"minCount": 1}}}, f"{CRD}/pod-group"),
    ],
    ids=["coscheduling", "ours"],
)
def test_group_without_a_class_has_the_priority_of_the_pods_that_are_there(
    group: str, version: str, spec: Json, label: str
) -> None:
    """workloads.md 2.6: it rises with a pod that comes and falls with one that goes."""

    async def act(stage: Stage) -> None:
        for name, value in (("low", 3), ("high", 9)):
            await stage.create("/apis/scheduling.k8s.io/v1/priorityclasses", name, value=value)
        path = await served_as_well(stage, group, version)
        await stage.create(path, "g", kind="PodGroup", apiVersion=f"{group}/{version}", spec=spec)

        async def member(name: str, priority: str) -> None:
            pod = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": priority}
            await stage.create(PODS, name, spec=pod, metadata={"labels": {label: "g"}})

        def priority() -> int | None:
            state = stage.engine.cluster.groups.get("default/g")
            return state.spec.priority if state is not None and state.spec is not None else None

        async with stage.running():
            await member("a", "low")
            await stage.until(lambda: priority() == 3)
            await member("b", "high")
            await stage.until(lambda: priority() == 9)
            await stage.client.request("DELETE", f"{PODS}/b")
            await stage.until(lambda: priority() == 3)
            await stage.client.request("DELETE", f"{PODS}/a")
            await stage.until(lambda: not stage.engine.cluster.pods)
            assert priority() in (None, 0)
            await member("c", "high")
            await stage.until(lambda: priority() == 9)

    play(act, controllers="*")
