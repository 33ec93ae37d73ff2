"""Jobs that end because pods of them are evicted (whatif.md 15)."""

from __future__ import annotations

import json
from typing import Any

import pytest

import reprieve
from kube_rules.job_failures import end_by_evictions
from tests.cli.conftest import Run

Json = dict[str, Any]
EVICTED = [{"type": "DisruptionTarget", "status": "True"}]


def policy(action: str, *before: Json) -> Json:
    return {"podFailurePolicy": {"rules": [*before, {"action": action, "onPodConditions": EVICTED}]}}


EXIT_CODES = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
PER_INDEX = {"completionMode": "Indexed", "completions": 9, "backoffLimitPerIndex": 1}
PLAIN: dict[int | None, int] = {None: 2}


@pytest.mark.parametrize(
    ("spec", "status", "evicted", "end"),
    [
        ({}, {}, {None: 6}, ""),
        ({}, {}, {None: 7}, "7 evicted pods, more than its backoffLimit of 6"),
        ({}, {"failed": 6}, {None: 1}, "1 evicted pod and 6 failed before, more than its backoffLimit of 6"),
        ({}, {"failed": 5, "uncountedTerminatedPods": {"failed": ["u"]}}, {None: 1}, "6 failed before"),
        ({"backoffLimit": 0}, {}, {None: 1}, "backoffLimit of 0"),
        ({"backoffLimit": 1}, {}, PLAIN, "backoffLimit of 1"),
        ({"backoffLimit": 2}, {}, PLAIN, ""),
        ({"backoffLimit": 0, **policy("Ignore")}, {}, PLAIN, ""),
        ({"backoffLimit": 0, **policy("Ignore", EXIT_CODES)}, {}, PLAIN, ""),
        ({"backoffLimit": 0, **policy("Count")}, {}, PLAIN, "backoffLimit of 0"),
        ({"backoffLimit": 9, **policy("FailJob")}, {}, {None: 1}, "FailJob"),
        ({"backoffLimit": 0, "podFailurePolicy": {"rules": [EXIT_CODES]}}, {}, PLAIN, "backoffLimit of 0"),
        (PER_INDEX, {}, {3: 1}, ""),
        (PER_INDEX, {}, {3: 2}, "index 3 fails for good (backoffLimitPerIndex 1)"),
        (PER_INDEX, {"failed": 50}, {3: 1}, ""),
        ({**PER_INDEX, "backoffLimit": 1}, {}, {3: 1, 4: 1}, "backoffLimit of 1"),
        ({**PER_INDEX, "maxFailedIndexes": 1}, {"failedIndexes": "0"}, {3: 2}, "maxFailedIndexes of 1"),
        ({**PER_INDEX, "maxFailedIndexes": 2}, {"failedIndexes": "0"}, {3: 2}, "index 3 fails for good"),
        ({**PER_INDEX, **policy("FailIndex")}, {}, {3: 1, 5: 1}, "indexes 3, 5 fail for good"),
        ({"backoffLimit": "x", "podFailurePolicy": 7}, {"failed": "x"}, {None: 1}, ""),
    ],
)
def test_which_jobs_do_not_survive_evictions(
    spec: Json, status: Json, evicted: dict[int | None, int], end: str
) -> None:
    """whatif.md 15.1 to 15.3."""
    found = end_by_evictions({"spec": spec, "status": status}, evicted, {})
    assert (end in found, bool(found)) == (True, bool(end))


def test_failures_of_an_index_before_count() -> None:
    """whatif.md 15.3."""
    job = {"spec": PER_INDEX}
    assert end_by_evictions(job, {3: 1}, {}) == ""
    assert "index 3 fails" in end_by_evictions(job, {3: 1}, {3: 1})


def cluster(limit: int | None, *, drained: bool = False) -> list[Json]:
    """A Job of two pods on a node, and a pod that wants it all."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "parallelism": 2,
        "completions": 2,
        "template": template,
        **({} if limit is None else {"backoffLimit": limit}),
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    meta = {"name": "train", "namespace": "default", "uid": "u"}
    documents: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": 4, "pods": 9}},
        },
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": {"active": 2}},
    ]
    for number in range(2):
        pod = {"name": f"train-{number}", "namespace": "default", "uid": f"u{number}", "ownerReferences": [owner]}
        documents.append(
            {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": {"nodeName": "n1", "containers": [container]}}
            | {"status": {"phase": "Running"}}
        )
    if not drained:
        large = {**container, "resources": {"requests": {"cpu": "4"}}}
        urgent = {"priority": 100, "containers": [large]}
        documents.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"}, "spec": urgent})
    return documents


@pytest.mark.parametrize(("limit", "ends"), [(None, False), (2, False), (1, True), (0, True)])
def test_plan_warns_of_jobs_that_its_evictions_end(limit: int | None, ends: bool, run: Run) -> None:
    """whatif.md 15.1: on stderr of the command and in the warnings of a result, of preemptions and of drains."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster(limit)})
    shown = run("plan", "-f", "-", stdin=text)
    assert (shown.code, 'Job "default/train": it fails (BackoffLimitExceeded)' in shown.err) == (0, ends)
    for result in (
        reprieve.load(*cluster(limit)).plan(suggest=False),
        reprieve.load(*cluster(limit, drained=True)).drain("n1").plan(suggest=False),
    ):
        assert any("BackoffLimitExceeded" in each for each in result.warnings) is ends
