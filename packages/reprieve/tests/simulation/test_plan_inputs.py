"""The input of a plan: when it begins, what is refused, what is left aside and reported (interfaces.md)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.errors import InputError, Origin
from kube_rules.manifests import LoadedObject, Manifests
from kube_rules.meta import ObjectMeta, OwnerReference
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.plan_inputs import input_remarks, left_aside, not_before, starts_at
from tests.building import START, annotated, group, node, pod, priority_class, profile_with
from tests.manifests import pod as pod_document
from tests.preemption.test_waiting import configured
from tests.questions.test_capacity import manifests
from tests.questions.test_suggestions import loaded
from tests.questions.test_suggestions import node as node_document


def dated(item: Any, created: float) -> LoadedObject[Any]:
    return LoadedObject(item, Origin("test"), 0, created)


STARTED = pod("p", node="n1", start=100)


# -- when ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "start"),
    [
        ([], 1.0),
        ([dated(node("n1"), 50.0)], 51.0),
        ([dated(node("n1"), 50.0), dated(pod("p"), 70.0), dated(node("n2"), 60.0)], 71.0),
        ([dated(STARTED, 50.0)], START + 101.0),
        ([dated(STARTED, START + 200)], START + 201.0),
    ],
)
def test_plan_begins_a_second_after_all_there_was_made_and_started(
    there: list[LoadedObject[Any]], start: float
) -> None:
    assert starts_at(there) == start


@pytest.mark.parametrize(("now", "refused"), [(START + 99, True), (START + 100, False), (START + 101, False)])
def test_time_to_plan_for_is_not_before_anything_there(now: float, refused: bool) -> None:
    there = [dated(node("n1"), START + 5), dated(STARTED, START + 7)]
    if not refused:
        assert not_before(now, there) == now
        return
    with pytest.raises(InputError) as error:
        not_before(now, there)
    late, early = (datetime.fromtimestamp(START + each, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for each in (100, 99))
    assert error.value.message == f"created or started at {late}, after the planned time {early}"
    assert error.value.subject == 'Pod "default/p"'


def test_running_time_is_counted_to_the_time_of_the_plan() -> None:
    cluster = manifests(node("n1", cpu=1), pod("low", cpu=1, node="n1", start=0), pod("high", cpu=1, priority=9))
    for now in (START + 3600, START + 7200):
        [made] = plan(cluster, PlanOptions(now=now)).plan.preemptions
        assert made.cost is not None
        assert made.cost.lost_cpu_hours == (now - START) / 3600


# -- what is left aside --------------------------------------------------------------------------------------------


def test_kinds_that_do_not_matter_are_counted_by_kind() -> None:
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("m1", "m2")]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}
    given = loaded(node_document("n1"), role, *maps)
    expected = ["1 × rbac.authorization.k8s.io/v1/Role: not read", "2 × v1/ConfigMap: not read"]
    assert left_aside(given) == expected
    assert [one for one in plan(given).account.warnings if "not read" in one] == expected
    assert plan(given, PlanOptions(account=False)).account.warnings == ()


@pytest.mark.parametrize(("wrong", "listed", "more"), [(19, 19, []), (20, 20, []), (21, 20, [1]), (25, 20, [5])])
def test_annotations_that_cannot_be_read_are_reported_the_first_twenty_one_by_one(
    wrong: int, listed: int, more: list[int]
) -> None:
    """cost.md 2."""
    given = manifests(
        node("n1"), *(pod(f"p{i:02}", annotations=annotated(minimum_runtime="soon")) for i in range(wrong))
    )
    found = input_remarks(given)
    assert [one.partition(":")[0] for one in found[:listed]] == [f"Pod default/p{i:02}" for i in range(listed)]
    assert found[listed:] == [f"and {count} more like this" for count in more]


def test_grant_that_is_exceeded_is_a_remark_once_for_each_controller() -> None:
    """cost.md 7.6: with the object, the value and the bound."""
    owner = ObjectMeta(name="x", owner_references=(OwnerReference(kind="Job", name="train", controller=True),))
    long = annotated(minimum_runtime="9h")

    def made(name: str) -> objects.Pod:
        found = pod(name, annotations=long, priority_class="batch")
        return replace(found, metadata=replace(found.metadata, owner_references=owner.owner_references))

    batch = priority_class("batch", 0, annotated(max_minimum_runtime="2h"))
    found = input_remarks(manifests(batch, node("n1"), made("t-0"), made("t-1"), pod("alone", annotations=long)))
    said = 'metadata.annotations[scheduling.reprieve.dev/minimum-runtime]: Forbidden: "9h" exceeds the granted'
    assert [one.partition(";")[0] for one in found] == [
        f"Pod default/t-0 and 1 more of Job default/train: {said} 2h",
        f"Pod default/alone: {said} 1h",
    ]


@pytest.mark.parametrize(("wrong", "listed", "more"), [(20, 20, []), (21, 20, [1])])
def test_remarks_on_groups_are_reported_the_first_twenty_one_by_one(wrong: int, listed: int, more: list[int]) -> None:
    """workloads.md 2: several sizes of one group."""
    pods = []
    for number in range(wrong):
        for turn in range(2):
            one = pod_document(f"g{number:02}-{turn}", 0)
            one["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": f"g{number:02}"}
            one["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(turn + 1)}
            pods.append(one)
    found = input_remarks(loaded(node_document("n1"), *pods))
    assert found[0] == "group default/g00: its pods state different sizes; 2 is used, not 1"
    assert found[listed:] == [f"and {count} more like this" for count in more]


# -- what a plan makes of its input --------------------------------------------------------------------------------


def test_plan_without_anything_is_an_empty_answer() -> None:
    answer = plan(Manifests())
    assert (answer.plan.pods, answer.plan.stats.attempts, answer.plan.stats.virtual_seconds) == ((), 0, 0.0)
    assert (answer.account.nodes, answer.account.running_before, answer.account.running_after) == (0, 0, 0)
    assert answer.plan.all_placed
    assert answer.plan.stats.seconds >= 0
    assert answer.plan.stats.seconds < 60


def test_running_pods_are_counted_before_and_after() -> None:
    low = [pod(f"low-{i}", cpu=1, node="n1", grace=4) for i in range(3)]
    cluster = manifests(node("n1", cpu=3), node("n2", cpu=1), *low, pod("high", cpu=3, priority=9), pod("big", cpu=9))
    found = plan(cluster)
    assert (found.account.nodes, found.account.running_before, found.account.running_after) == (2, 3, 1)
    assert (found.account.terminating, found.plan.stats.virtual_seconds) == ((), 4.0)
    first = plan(cluster, PlanOptions(first_decision=True))
    assert (first.account.running_after, first.plan.stats.virtual_seconds) == (3, 0.0)
    assert [one.name for one in found.plan.pods] == ["big", "high"]


def test_every_object_is_shown_before_anything_is_decided() -> None:
    shown: list[str] = []
    given = manifests(node("n1"), pod("b"), pod("a"))
    plan(given, PlanOptions(on_object=lambda item: shown.append(item.name)))
    assert shown == ["n1", "b", "a"]


def test_pods_of_other_schedulers_are_tried_where_no_profile_is_named() -> None:
    given = manifests(node("n1"), pod("p", scheduler="other"))
    assert plan(given).plan.all_placed

    profiles = (profile_with(),)
    assert not plan(given, PlanOptions(profiles=profiles)).plan.all_placed
    assert plan(given, PlanOptions(profiles=profiles, any_scheduler=True)).plan.all_placed


def test_groups_are_sorted_by_namespace_and_name() -> None:
    spaces = (("b", "g1"), ("a", "g2"), ("b", "g0"), ("a", "g10"))
    groups = [group(name, min_count=1, namespace=space) for space, name in spaces]
    found = plan(manifests(node("n1"), *groups)).plan.pod_groups
    assert [(one.namespace, one.name) for one in found] == [("a", "g10"), ("a", "g2"), ("b", "g0"), ("b", "g1")]


@pytest.mark.parametrize("deadline", [600, None])
def test_deadline_of_a_job_counts_for_its_pods(deadline: int | None) -> None:
    """cost.md 6.4: waiting for completions is waiting for the end of the Job, with the grace period of its pod."""
    spec: dict[str, Any] = {"template": {"spec": {"containers": [{"name": "c"}]}}, "activeDeadlineSeconds": deadline}
    meta = {"name": "train", "namespace": "default", "uid": "u"}
    began = "2026-01-01T00:00:00Z"
    status = {"startTime": began, "active": 1}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": status}
    worker = pod_document("train-aaaaa", 8, node="n1", terminationGracePeriodSeconds=5)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    worker["metadata"]["ownerReferences"] = [owner]
    worker["status"] = {"phase": "Running", "startTime": began}
    given = loaded(node_document("n1", 8), job, worker, pod_document("urgent", 8, priority=9))
    profiles = tuple(configured(wait_for_completions=1800).values())
    now = datetime.fromisoformat(began).timestamp() + 60
    found = plan(given, PlanOptions(profiles=profiles, any_scheduler=True, now=now)).plan
    assert [one.reason for one in found.put_off] == (["Completions"] if deadline else [])
    assert all(one.until == pytest.approx(545, abs=1) for one in found.put_off)
    assert bool(found.preemptions) is (deadline is None)
