"""Controllers that may ask for gangs of their pods: which one made a pod, and how many pods each of its gangs needs
(workloads.md 2.10).
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules.group_owners import (
    ANY,
    OWNER_KINDS,
    GroupOwner,
    Job,
    JobSet,
    LeaderWorkerSet,
    OwnerOf,
    RayCluster,
    owner_kinds,
    owner_of,
)
from kube_rules.meta import ObjectMeta


def owner(kind: type[GroupOwner], spec: Any, **more: Any) -> GroupOwner:
    return msgspec.convert({"metadata": {"name": "o"}, "spec": spec, **more}, kind)


def jobs(*each: Any) -> dict[str, Any]:
    return {"replicatedJobs": list(each)}


def template(**spec: Any) -> dict[str, Any]:
    return {"template": {"spec": spec}}


SIZES: list[tuple[type[GroupOwner], dict[str, Any], dict[str, int]]] = [
    (Job, {}, {"": 1}),
    (Job, {"parallelism": 4}, {"": 4}),
    (Job, {"parallelism": 4, "completions": 3}, {"": 3}),
    (Job, {"parallelism": 4, "completions": 9}, {"": 4}),
    (Job, {"completions": 9}, {"": 1}),
    (Job, {"parallelism": 0}, {}),
    (Job, {"parallelism": -1}, {"": 1}),  # what is no number of pods is as if it were not there
    (Job, {"parallelism": "4"}, {"": 1}),
    (Job, {"parallelism": True}, {"": 1}),
    (Job, {"parallelism": 2**31 - 1}, {"": 2**31 - 1}),
    (Job, {"parallelism": 2**31}, {"": 1}),
    (JobSet, {}, {}),
    (JobSet, jobs({"name": "a"}), {"a": 1}),
    (JobSet, jobs({"name": "a", "replicas": 3, **template(parallelism=2)}, {"name": "b"}), {"a": 6, "b": 1}),
    (JobSet, jobs({"name": "a", "replicas": 0}, {"name": "b", **template(parallelism=5, completions=2)}), {"b": 2}),
    (JobSet, jobs({}, 7, {"name": "c", "template": 7}), {"": 1, "c": 1}),
    (JobSet, {"replicatedJobs": 7}, {}),
    (LeaderWorkerSet, {}, {ANY: 1}),
    (LeaderWorkerSet, {"leaderWorkerTemplate": {"size": 4}}, {ANY: 4}),
    (LeaderWorkerSet, {"leaderWorkerTemplate": {"size": 4}, "startupPolicy": "LeaderReady"}, {ANY: 1}),
    (LeaderWorkerSet, {"leaderWorkerTemplate": {"size": 4}, "startupPolicy": "LeaderCreated"}, {ANY: 4}),
    (RayCluster, {}, {"": 1}),
    (RayCluster, {"workerGroupSpecs": [{"replicas": 2}, {"replicas": 3, "numOfHosts": 4}]}, {"": 15}),
    (RayCluster, {"workerGroupSpecs": [{"replicas": 2, "minReplicas": 1}]}, {"": 3}),
    (RayCluster, {"workerGroupSpecs": [{"minReplicas": 1}]}, {"": 2}),
    (RayCluster, {"workerGroupSpecs": [{}]}, {"": 1}),
    (RayCluster, {"workerGroupSpecs": [{"replicas": 2, "suspend": True}, {"replicas": 1, "suspend": "yes"}]}, {"": 2}),
    (
        RayCluster,
        {"enableInTreeAutoscaling": True, "workerGroupSpecs": [{"replicas": 5, "minReplicas": 1}, {"replicas": 5}]},
        {"": 2},
    ),
    (RayCluster, {"enableInTreeAutoscaling": "yes", "workerGroupSpecs": [{"replicas": 5, "minReplicas": 1}]}, {"": 6}),
]


@pytest.mark.parametrize(("kind", "spec", "sizes"), SIZES, ids=[f"{row[0].KIND} {row[1]}" for row in SIZES])
def test_how_many_pods_each_gang_needs(kind: type[GroupOwner], spec: dict[str, Any], sizes: dict[str, int]) -> None:
    assert owner(kind, spec).sizes() == sizes


@pytest.mark.parametrize(("text", "asks"), [("true", True), ("True", False), ("false", False), (None, False)])
def test_controller_asks_by_an_annotation(text: str | None, asks: bool) -> None:
    annotations = {} if text is None else {"scheduling.reprieve.dev/gang": text}
    assert msgspec.convert({"metadata": {"name": "o", "annotations": annotations}}, Job).asks is asks


CONTROLLER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
LWS = {"leaderworkerset.sigs.k8s.io/name": "l", "leaderworkerset.sigs.k8s.io/group-index": "3"}
JOB_SET = {"jobset.sigs.k8s.io/jobset-name": "s", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}


@pytest.mark.parametrize(
    ("labels", "references", "expected", "group"),
    [
        ({}, [], None, ""),
        ({"app": "x"}, [], None, ""),
        (LWS, [], OwnerOf("LeaderWorkerSet", "l", "3"), "leaderworkerset:l:3"),
        ({"leaderworkerset.sigs.k8s.io/name": "l"}, [], OwnerOf("LeaderWorkerSet", "l", ""), "leaderworkerset:l"),
        (JOB_SET, [CONTROLLER], OwnerOf("JobSet", "s", "workers"), "jobset:s:workers"),
        ({**JOB_SET, **LWS}, [], OwnerOf("LeaderWorkerSet", "l", "3"), "leaderworkerset:l:3"),
        ({"ray.io/cluster": "r", "": "no"}, [], OwnerOf("RayCluster", "r", ""), "raycluster:r"),
        ({"ray.io/cluster": ""}, [CONTROLLER], OwnerOf("Job", "j", ""), "job:j"),
        ({}, [CONTROLLER], OwnerOf("Job", "j", ""), "job:j"),
        ({}, [{**CONTROLLER, "controller": False}], None, ""),
        ({}, [{**CONTROLLER, "kind": "Jobs"}], None, ""),
        ({}, [{**CONTROLLER, "apiVersion": "batch.volcano.sh/v1alpha1"}], None, ""),
        ({}, [{**CONTROLLER, "kind": "X"}, {**CONTROLLER, "name": "k"}], OwnerOf("Job", "k", ""), "job:k"),
    ],
)
def test_which_controller_made_a_pod(
    labels: dict[str, str], references: list[dict[str, Any]], expected: OwnerOf | None, group: str
) -> None:
    """By labels before owner references; a name with a colon is that of no object."""
    meta = msgspec.convert({"name": "p", "labels": labels, "ownerReferences": references}, ObjectMeta)
    found = owner_of(meta)
    assert found == expected
    assert (found.group if found is not None else "") == group


@pytest.mark.parametrize(
    ("spec", "deadline"),
    [
        ({}, None),
        ({"activeDeadlineSeconds": 60}, 60.0),
        ({"activeDeadlineSeconds": 1}, 1.0),
        ({"activeDeadlineSeconds": 0}, None),
        ({"activeDeadlineSeconds": True}, None),
        ({"activeDeadlineSeconds": "60"}, None),
        ({"activeDeadlineSeconds": 10 * 366 * 24 * 3600}, 10 * 366 * 24 * 3600.0),
        ({"activeDeadlineSeconds": 10 * 366 * 24 * 3600 + 1}, None),
        ({"activeDeadlineSeconds": 60, "suspend": True}, None),
        ({"activeDeadlineSeconds": 60, "suspend": False}, 60.0),
    ],
)
def test_job_may_run_so_long(spec: dict[str, Any], deadline: float | None) -> None:
    found = owner(Job, spec)
    assert isinstance(found, Job)
    assert found.active_deadline == deadline


@pytest.mark.parametrize(
    ("status", "started"),
    [
        ({}, None),
        ({"startTime": "1970-01-01T00:01:00Z"}, 60.0),
        ({"startTime": "soon"}, None),
        ({"startTime": 7}, None),
    ],
)
def test_since_when_a_job_runs(status: dict[str, Any], started: float | None) -> None:
    found = owner(Job, {}, status=status)
    assert isinstance(found, Job)
    assert found.started == started


def test_only_what_is_needed_is_read() -> None:
    assert owner_kinds(gangs=True, ends=False) == owner_kinds(gangs=True, ends=True) == OWNER_KINDS
    assert owner_kinds(gangs=False, ends=True) == (Job,)
    assert owner_kinds(gangs=False, ends=False) == ()
    assert all(kind.NAMESPACED for kind in OWNER_KINDS)
