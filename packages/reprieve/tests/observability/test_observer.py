"""What an observer makes of decisions: the strings of observability.md, and log lines."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules.decoding import decode_object
from kube_rules.group_sources import DEFAULT_SOURCES
from kube_rules.meta import KubernetesObject
from reprieve.live.remarks import AnnotationRemarks
from reprieve.observability.logs import Log
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from tests.building import START, annotated, gang, group, node, pod, priority_class, profile_with
from tests.observability.watching import Observed


def test_scheduled() -> None:
    seen = Observed(node("n1"), pod("a", cpu=1)).settle()
    assert seen.events("Scheduled") == [("Normal", "a", "Successfully assigned default/a to n1")]
    assert seen.sent[0]["action"] == "Binding"
    assert seen.sent[0]["reportingController"] == "default-scheduler"


def test_failed_scheduling_carries_the_message_of_the_condition() -> None:
    seen = Observed(node("n1", cpu=1), pod("a", cpu=2)).settle()
    assert seen.events("FailedScheduling") == [("Warning", "a", seen.world.message("a"))]
    assert seen.sent[0]["action"] == "Scheduling"


def test_preempted_by_a_pod() -> None:
    seen = Observed(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=9)).settle()
    assert seen.events("Preempted") == [("Normal", "low", "Preempted by pod uid-high on node n1")]
    event = next(body for body in seen.sent if body["reason"] == "Preempted")
    assert event["action"] == "Preempting"
    assert event["related"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "high",
        "uid": "uid-high",
    }


def ago(seconds: int) -> str:
    """An RFC 3339 time that is so long before the world begins."""
    return f"{datetime.fromtimestamp(START - seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


LOST: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "it is not counted": ({"start": -7200.0, "gpu": 4}, (), ""),
    "a checkpoint": (
        {"start": -7200.0, "gpu": 4, "annotations": annotated(last_checkpoint=ago(1800))},
        (),
        "; 2 GPU-hours of its work are lost",
    ),
    "a checkpoint and a restart": (
        {"start": -7200.0, "gpu": 4, "annotations": annotated(last_checkpoint=ago(1800), restart_cost="30m")},
        (),
        "; 4 GPU-hours of its work are lost",
    ),
    "a pod without GPUs": (
        {"start": -7200.0, "annotations": annotated(last_checkpoint=ago(3600))},
        (),
        "; 4 CPU-hours of its work are lost",
    ),
    "a criterion": ({"start": -7200.0, "gpu": 4}, ("lostWork",), "; 8 GPU-hours of its work are lost"),
    "all of it is saved": (
        {"start": -7200.0, "gpu": 4, "annotations": annotated(last_checkpoint=ago(-600))},
        (),
        "; no work of it is lost",
    ),
}


@pytest.mark.parametrize("case", LOST)
@pytest.mark.parametrize("by", ["pod", "podgroup"])
def test_preempted_names_the_lost_work_where_it_is_counted(case: str, by: str) -> None:
    """observability.md 2.2: elsewhere the note is kube-scheduler's, to the letter."""
    more, cost, lost = LOST[case]
    profile = profile_with(DefaultPreemption(PreemptionOptions(cost=cost) if cost else None))
    new = [pod("high", cpu=4, priority=9)] if by == "pod" else gang("high", 1, cpu=4, priority=9)
    seen = Observed(
        node("n1", cpu=4, gpu=4), pod("low", cpu=4, node="n1", **more), new, profiles={profile.name: profile}
    ).settle()
    preemptor = "pod uid-high on node n1" if by == "pod" else "podgroup uid-group-high on node cluster"
    assert seen.events("Preempted") == [("Normal", "low", f"Preempted by {preemptor}{lost}")]


def test_preempted_names_the_lost_work_only_of_pods_with_annotations_about_it() -> None:
    saved = annotated(last_checkpoint=ago(3600))
    low = [pod("a", cpu=2, node="n1", start=-7200.0, annotations=saved), pod("b", cpu=2, node="n1", start=-7200.0)]
    seen = Observed(node("n1", cpu=4), low, pod("high", cpu=4, priority=9)).settle()
    note = "Preempted by pod uid-high on node n1"
    assert sorted(text for _, _, text in seen.events("Preempted")) == [
        note,
        f"{note}; 2 CPU-hours of its work are lost",
    ]


def test_tree_that_a_podgroup_of_volcano_stands_for_is_that_podgroup_in_events() -> None:
    """observability.md 2.6: an event about an object that is not there would be refused, its name has a colon."""
    spec = {"minMember": 2, "minTaskMember": {"a": 1, "b": 1}}
    meta = {"name": "g", "namespace": "default", "uid": "uid-g"}
    made: Any = decode_object(
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}
    )
    tasks = [
        replace(one, metadata=replace(one.metadata, annotations={**OF_G, "volcano.sh/task-spec": task}))
        for task in ("a", "b")
        for one in [pod(f"g-{task}", cpu=2, priority=9)]
    ]
    seen = Observed(node("n1", cpu=4), *gang("old", 2, cpu=2, node="n1", whole=True), made, *tasks).settle()
    preempted = [body for body in seen.sent if body["reason"] == "Preempted"]
    assert {body["regarding"]["name"] for body in preempted} == {"old-0", "old-1", "old"}
    expected = ("scheduling.volcano.sh/v1beta1", "PodGroup", "g", "uid-g")
    for body in preempted:
        related = body["related"]
        assert (related["apiVersion"], related["kind"], related["name"], related["uid"]) == expected
    assert ("Normal", "old", "Preempted by podgroup default/g") in seen.events("Preempted")


OF_G = {"scheduling.k8s.io/group-name": "g"}


def test_preempted_by_a_group_names_every_pod_of_a_unit() -> None:
    """observability.md 2.1, 2.7: the pods by the preemptor's UID as kube-scheduler does, the group by its name."""
    seen = Observed(
        node("n1", cpu=4), *gang("old", 2, cpu=2, node="n1", whole=True), *gang("new", 1, cpu=4, priority=9)
    ).settle()
    note = "Preempted by podgroup uid-group-new on node cluster"
    whole = ("Normal", "old", "Preempted by podgroup default/new")
    assert seen.events("Preempted") == [("Normal", "old-0", note), ("Normal", "old-1", note), whole]
    event = next(body for body in seen.sent if body["reason"] == "Preempted")
    assert event["related"] == {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "namespace": "default",
        "name": "new",
        "uid": "uid-group-new",
    }


@pytest.mark.parametrize(
    ("item", "kind", "version"),
    [
        (pod("x", annotations=annotated(restart_cost="soon")), "Pod", "v1"),
        (group("x", annotations=annotated(restart_cost="soon")), "PodGroup", "scheduling.k8s.io/v1beta1"),
        (priority_class("x", 1, annotated(restart_cost="soon")), "PriorityClass", "scheduling.k8s.io/v1"),
    ],
    ids=["pod", "group", "class"],
)
def test_annotation_that_cannot_be_read_is_a_warning_on_its_object(
    item: KubernetesObject, kind: str, version: str
) -> None:
    """observability.md 2.4, cost.md 2.2."""
    seen = Observed()
    remarks = AnnotationRemarks(lambda found, why: seen.observer.ignored(found, why, now=START), DEFAULT_SOURCES, {})
    remarks.inspect(item)
    remarks.inspect(item)
    [(severity, name, note)] = seen.events("InvalidAnnotation")
    assert (severity, name) == ("Warning", "x")
    assert note.startswith('metadata.annotations[scheduling.reprieve.dev/restart-cost]: Invalid value: "soon": ')
    [event] = seen.sent
    about = event["regarding"]
    assert (event["action"], about["kind"], about["apiVersion"]) == ("Scheduling", kind, version)


def test_class_that_does_not_count_is_a_warning_on_the_group() -> None:
    """observability.md 2.5."""
    seen = Observed()
    seen.observer.refused(group("x"), "metadata.annotations[a]: why", now=START)
    assert seen.events("InvalidPreemptionPriority") == [("Warning", "x", "metadata.annotations[a]: why")]


def test_repeated_failures_become_a_series() -> None:
    seen = Observed(node("n1", cpu=1), pod("a", cpu=2)).settle()
    first = [body for body in seen.sent if body["reason"] == "FailedScheduling"]
    assert len(first) == 1
    decision = seen.world.engine.decisions[-1]
    for _ in range(3):
        seen.observer.decided(decision, seconds=0.001, now=seen.world.now + 1)
    assert [body.get("series", {}).get("count") for body in seen.sent] == [None, 2]
    seen.observer.close(seen.world.now + 2)
    assert [body.get("series", {}).get("count") for body in seen.sent] == [None, 2, 4]


def test_one_line_per_decision() -> None:
    seen = Observed(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=9)).settle()
    decided = [line for line in seen.logged.getvalue().splitlines() if " Decided " in line]
    assert len(decided) == len(seen.world.engine.decisions)
    assert "pod=default/high result=waiting" in decided[0]
    assert " victims=1 victim_pods=1 reprieved=0 domain=n1 " in decided[0]
    assert "seconds=0.003" in decided[0]


def test_levels_leave_out_what_is_finer() -> None:
    stream = io.StringIO()
    log = Log(0, stream=stream)
    log.info("course of the process")
    log.info("a decision", v=2)
    log.error("trouble")
    assert [line.split(" ", 2)[1:] for line in stream.getvalue().splitlines()] == [
        ["info", "course of the process"],
        ["error", "trouble"],
    ]
    assert not log.at(2)


def test_json_lines_can_be_read_back() -> None:
    stream = io.StringIO()
    Log(2, form="json", stream=stream).info("Decided", v=2, pod="default/a", seconds=0.25)
    line = json.loads(stream.getvalue())
    assert line.pop("ts").endswith("Z")
    assert line == {"event": "Decided", "level": "info", "pod": "default/a", "seconds": 0.25}


@pytest.mark.parametrize("form", ["text", "json"])
def test_nobodys_text_begins_a_line_of_its_own(form: str) -> None:
    stream = io.StringIO()
    Log(form=form, stream=stream).error("trouble", error='boom\n2026 info forged "line"\x1b[31m')
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="neither text nor json"):
        Log(form="xml")


def test_trouble_is_counted_and_logged() -> None:
    seen = Observed(node("n1"))
    seen.observer.trouble("events", "could not be sent")
    assert seen.value("scheduler_trouble_total", where="events") == 1
    assert "could not be sent where=events" in seen.logged.getvalue()
