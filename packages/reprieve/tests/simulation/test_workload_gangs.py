"""Gangs that a workload asks for, and what their groups are like (whatif.md 1.9, 2.9, 2.10).

Beside `test_workload_rules.py`, of pods that are in none.
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.errors import InputError
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Manifests
from reprieve.simulation.workloads.expansion import expand
from reprieve.simulation.workloads.rows import read_rows
from reprieve.simulation.workloads.table import TABLE
from tests.simulation.test_workloads import FILE, TEMPLATE, loaded, made, pod

Json = dict[str, Any]
GANG = {"scheduling.reprieve.dev/gang": "true"}
GROUP = {"reprieve.dev/pod-group": "true"}


def job(annotations: Json, there: int = 0, **spec: Any) -> tuple[Json, ...]:
    """A Job of four, of which some are there."""
    owner = ("batch/v1", "Job", "x")
    whole = made("batch/v1", "Job", {"parallelism": 4, "completions": 4, "template": TEMPLATE, **spec})
    whole["metadata"]["annotations"] = annotations
    return whole, *(pod(f"there-{turn}", owner) for turn in range(there))


@pytest.mark.parametrize(
    ("documents", "minimum"),
    [
        (job({}), None),
        (job({"scheduling.reprieve.dev/gang": "false"}), None),
        (job(GANG), 4),
        (job(GANG, 1), 3),
        (job(GANG, 4), None),
        (job(GANG, parallelism=0), None),
        (job(GROUP), 4),
        (job(GROUP, 1), 3),
        (job(GROUP, 4), None),
        (job(GROUP, parallelism=0), None),
        (job({"reprieve.dev/pod-group": "yes"}), None),
        (job({}, scheduling={}), 0),
        (job({}, 1, scheduling={}), 0),
        (job({}, parallelism=6, scheduling={"schedulingPolicy": {"gang": {}}}), 6),
        (job({}, scheduling={"schedulingPolicy": {"gang": {}}}), 4),
        (job({}, scheduling={"schedulingPolicy": {"gang": {"minCount": 3}}}), 3),
        (job({}, 1, scheduling={"schedulingPolicy": {"gang": {"minCount": 3}}}), 2),
        (job({}, 3, scheduling={"schedulingPolicy": {"gang": {"minCount": 3}}}), None),
        (job({}, scheduling={"schedulingPolicy": {"basic": {}}}), 0),
        (job({}, 4, scheduling={"schedulingPolicy": {"basic": {}}}), 0),
        (job(GROUP, scheduling={"schedulingPolicy": {"gang": {"minCount": 2}}}), 2),
    ],
)
def test_how_many_of_a_job_must_run_together(documents: tuple[Json, ...], minimum: int | None) -> None:
    """whatif.md 2.10: its parallelism, or what it says itself, less those that are there. 0: a group without a gang."""
    found = expand(loaded(*documents)).manifests
    groups = [one.object for one in found.pod_groups]
    assert [one.min_count or 0 for one in groups] == ([] if minimum is None else [minimum])
    assert [one.name for one in groups] == ["x"] * len(groups)
    of = {
        one.object.spec.scheduling_group and one.object.spec.scheduling_group.pod_group_name
        for one in found.pods[len(documents) - 1 :]
    }
    assert of <= ({None} if minimum is None else {"x"})


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, [("x", 6)]),
        ({"status": {"startTime": "2026-01-01T00:00:00Z"}}, [("x", 4)]),
        ({"owner": ("batch/v1", "CronJob", "above")}, []),
        ({"uid": "u"}, [("x-0bfe935e70-x-pgt-0-66d96c6ef1", 6)]),
    ],
    ids=["new", "has started", "another controller's", "as the Job controller calls it"],
)
def test_groups_of_a_job_are_those_of_the_job_controller(more: Json, expected: list[tuple[str, int]]) -> None:
    """whatif.md 2.10, KEP-5547: the minimum is the parallelism, though fewer pods are to complete."""
    scheduling = {"schedulingPolicy": {"gang": {}}, "resourceClaims": [{"name": "c", "resourceClaimName": "shared"}]}
    spec = {"parallelism": 6, "completions": 4, "template": TEMPLATE, "scheduling": scheduling}
    groups = [each.object for each in expand(loaded(made("batch/v1", "Job", spec, **more))).manifests.pod_groups]
    assert [(group.name, group.min_count) for group in groups] == expected
    assert all([claim.resource_claim_name for claim in group.spec.resource_claims] == ["shared"] for group in groups)


@pytest.mark.parametrize(
    ("annotations", "mode", "topology"),
    [
        ({}, "", ""),
        ({"reprieve.dev/disruption-mode": "all"}, "all", ""),
        ({"reprieve.dev/disruption-mode": "single"}, "single", ""),
        ({"reprieve.dev/disruption-mode": "some"}, "", ""),
        ({"reprieve.dev/topology-key": "rack"}, "", "rack"),
        ({"reprieve.dev/disruption-mode": "all", "reprieve.dev/topology-key": "rack"}, "all", "rack"),
    ],
)
def test_job_annotations_ask_of_its_group(annotations: Json, mode: str, topology: str) -> None:
    [group] = [one.object for one in expand(loaded(*job({**GROUP, **annotations}))).manifests.pod_groups]
    mode_of = group.spec.disruption_mode
    assert mode_of is not None
    assert (mode_of.all is not None) == (mode == "all"), "as by default a single one"
    constraints = group.spec.scheduling_constraints
    assert ([each.key for each in constraints.topology] if constraints is not None else []) == topology.split()


@pytest.mark.parametrize(
    ("own", "priority", "policy"),
    [
        ({}, 0, None),
        ({"priorityClassName": "high"}, 1000, "PreemptLowerPriority"),
        ({"priorityClassName": "meek"}, 500, "Never"),
        ({"priority": 7}, 7, None),
    ],
)
def test_gang_has_the_priority_of_its_pods(own: Json, priority: int, policy: str | None) -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, **more}
        for name, more in (
            ("high", {"value": 1000}),
            ("meek", {"value": 500, "preemptionPolicy": "Never"}),
        )
    ]
    template = {"spec": {"containers": [{"name": "c"}], **own}}
    found = expand(loaded(*classes, *job(GANG, template=template))).manifests
    [group] = [one.object for one in found.pod_groups]
    assert (group.spec.priority or 0) == priority
    assert group.spec.priority_class_name == own.get("priorityClassName", "")
    assert {one.object.spec.priority for one in found.pods} == {priority}
    if policy is not None:
        assert {group.spec.preemption_policy} | {one.object.spec.preemption_policy for one in found.pods} == {policy}


def test_group_of_that_name_in_the_input_counts_instead() -> None:
    given = made("scheduling.k8s.io/v1beta1", "PodGroup", {"schedulingPolicy": {"gang": {"minCount": 2}}})
    found = expand(loaded(given, *job(GANG))).manifests
    assert [one.object.min_count for one in found.pod_groups] == [2]
    assert {
        one.object.spec.scheduling_group and one.object.spec.scheduling_group.pod_group_name for one in found.pods
    } == {"x"}
    other = {**given, "metadata": {"name": "x", "namespace": "team"}}
    found = expand(loaded(other, *job(GANG))).manifests
    assert [(one.object.namespace, one.object.min_count) for one in found.pod_groups] == [("team", 2), ("default", 4)]


@pytest.mark.parametrize(
    ("documents", "path", "message"),
    [
        (
            job({}, scheduling={"disruptionMode": {"all": {}, "single": {}}}),
            "spec.scheduling.disruptionMode",
            "",
        ),
        (
            job({}, scheduling={"schedulingConstraints": {"topology": 5}}),
            "spec.scheduling.schedulingConstraints.topology",
            "",
        ),
        (
            job({}, scheduling={"schedulingPolicy": {"gang": {"minCount": -1}}}),
            "spec.scheduling.schedulingPolicy.gang.minCount",
            "greater than",
        ),
        (
            job(GANG, template={"spec": {"priorityClassName": "gold", "containers": [{"name": "c"}]}}),
            "spec.template.spec.priorityClassName",
            "no PriorityClass with name gold",
        ),
        (job({**GROUP, "reprieve.dev/topology-key": "no key"}), "metadata.annotations", ""),
    ],
    ids=["two modes", "no list", "below none", "no such class", "no label"],
)
def test_group_that_cannot_be_made_is_an_error_of_its_object(
    documents: tuple[Json, ...], path: str, message: str
) -> None:
    """whatif.md 1.9: at the field of the object that the input has."""
    with pytest.raises(InputError) as caught:
        expand(loaded(*documents))
    assert caught.value.subject == 'Job "default/x"'
    assert caught.value.path == path
    assert message in caught.value.message


def with_gang(document: Json) -> Json:
    return {**document, "metadata": {**document["metadata"], "annotations": GANG}}


def groups_named(found: Manifests) -> list[str]:
    """What each pod says its group is; empty: none."""
    groups = [one.object.spec.scheduling_group for one in found.pods]
    return [(group.pod_group_name or "") if group is not None else "" for group in groups]


@pytest.mark.parametrize(
    ("kind", "there", "minimum"),
    [
        ("Deployment", 0, 3),
        ("Deployment", 1, 2),
        ("Deployment", 3, None),
        ("ReplicaSet", 1, 2),
        ("StatefulSet", 0, 3),
        ("StatefulSet", 1, 2),
        ("StatefulSet", 3, None),
    ],
)
def test_gang_of_a_set_is_all_that_is_missing(kind: str, there: int, minimum: int | None) -> None:
    """whatif.md 2.10: everything that is made; those that run are in no group that is made now."""
    pods = [pod(f"x-{turn}", ("apps/v1", kind, "x")) for turn in range(there)]
    whole = with_gang(made("apps/v1", kind, {"replicas": 3, "template": TEMPLATE}))
    if kind == "Deployment":
        pods = [
            pod(f"x-{turn}", ("apps/v1", "ReplicaSet", "x-5d4"), labels={"pod-template-hash": "5d4"})
            for turn in range(there)
        ]
    found = expand(loaded(whole, *pods)).manifests
    assert len(found.pods) == 3
    assert [one.object.min_count for one in found.pod_groups] == ([] if minimum is None else [minimum])


def test_each_replica_of_a_row_that_says_so_is_a_gang() -> None:
    """whatif.md 2.10, as of a LeaderWorkerSet; and one replica's pods are numbered from where its index starts."""
    text = FILE + "- {group: e.com, kind: X, gang: replica, sets: [{each: spec, replicas: 2, size: 2, start: first}]}"
    rows = TABLE.with_more(read_rows("f", text))
    for first in (None, 4):
        plain = made("e.com/v1", "X", {"template": TEMPLATE, **({} if first is None else {"first": first})})
        names = [f"x--{(first or 0) + turn}" for turn in range(4)]
        found = expand(loaded(plain), rows=rows).manifests
        assert ([one.object.name for one in found.pods], found.pod_groups) == (names, [])
        found = expand(loaded(with_gang(plain)), rows=rows).manifests
        groups = [f"x-{(first or 0) + turn}" for turn in range(2)]
        assert [one.object.name for one in found.pods] == names
        assert groups_named(found) == [each for each in groups for _ in range(2)]
        assert [(one.object.name, one.object.min_count) for one in found.pod_groups] == [(each, 2) for each in groups]


@pytest.mark.parametrize(
    ("minima", "in_parts"),
    [((None, None), False), ((1, None), True), ((None, 2), True), ((1, 2), True)],
)
def test_minima_of_tasks_are_asked_for_where_a_task_has_one(minima: tuple[int | None, ...], in_parts: bool) -> None:
    """whatif.md 2.9: else the PodGroup is a plain gang; the pods name it by Volcano's annotation."""
    tasks = [
        {"name": f"t{turn}", "replicas": turn + 1, "template": TEMPLATE}
        | ({} if least is None else {"minAvailable": least})
        for turn, least in enumerate(minima)
    ]
    found = expand(loaded(made("batch.volcano.sh/v1alpha1", "Job", {"minAvailable": 3, "tasks": tasks}))).manifests
    [group] = [one.object for one in found.pod_groups]
    assert group.foreign is not None
    assert (group.min_count, bool(group.foreign.min_task_member)) == (3, in_parts)
    assert set(groups_named(found)) == {""}
    assert {pod_group_name(one.object) for one in found.pods} == {"x"}
