"""What is refused of `spec.scheduling` of a Job (KEP-5547), and what of it may change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.validation import validate_create, validate_update
from tests.recorded.shapes import shape, stored

Json = dict[str, Any]
JOB = shape("batch/v1", "Job")
GANG: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}}


def job(scheduling: Json | None, **spec: Any) -> Json:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    whole = {"parallelism": 2, "completions": 2, "template": {"spec": pod}, **spec}
    if scheduling is not None:
        whole["scheduling"] = scheduling
    return stored({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": whole})


REFUSED: dict[str, tuple[Json, str]] = {
    "no policy in the policy": ({"schedulingPolicy": {}}, "spec.scheduling.schedulingPolicy"),
    "two policies": ({"schedulingPolicy": {"basic": {}, "gang": {}}}, "spec.scheduling.schedulingPolicy"),
    "a minimum of none": (
        {"schedulingPolicy": {"gang": {"minCount": 0}}},
        "spec.scheduling.schedulingPolicy.gang.minCount",
    ),
    "a minimum below none": (
        {"schedulingPolicy": {"gang": {"minCount": -1}}},
        "spec.scheduling.schedulingPolicy.gang.minCount",
    ),
    "two constraints": (
        {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        "spec.scheduling.schedulingConstraints.topology",
    ),
    "a constraint without a key": (
        {"schedulingConstraints": {"topology": [{}]}},
        "spec.scheduling.schedulingConstraints.topology[0].key",
    ),
    "two modes": (
        {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}, "single": {}}},
        "spec.scheduling.disruptionMode",
    ),
    "all together, one by one": (
        {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}},
        "spec.scheduling.disruptionMode",
    ),
    "all together, by default one by one": ({"disruptionMode": {"all": {}}}, "spec.scheduling.disruptionMode"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_manifest_that_cannot_become_a_group_is_refused_with_its_field(case: str) -> None:
    scheduling, path = REFUSED[case]
    assert path in {found.path for found in validate_create(JOB, job(scheduling))}


@pytest.mark.parametrize(
    "scheduling", [{}, {"schedulingPolicy": {"gang": {}}}, {"schedulingPolicy": {"basic": {}}}, GANG]
)
def test_scheduling_that_is_valid_is_accepted(scheduling: Json) -> None:
    assert [found for found in validate_create(JOB, job(scheduling)) if found.path.startswith("spec.scheduling")] == []


CHANGES: dict[str, tuple[Json | None, Json | None, bool]] = {
    "the minimum": (GANG, {**GANG, "schedulingPolicy": {"gang": {"minCount": 5}}}, True),
    "the minimum to the default": (GANG, {**GANG, "schedulingPolicy": {"gang": {}}}, True),
    "the policy": (GANG, {"schedulingPolicy": {"basic": {}}}, False),
    "the mode": (GANG, {**GANG, "disruptionMode": {"single": {}}}, False),
    "added": (None, GANG, False),
    "taken away": (GANG, None, False),
}


@pytest.mark.parametrize("case", CHANGES)
def test_only_the_minimum_may_change(case: str) -> None:
    before, after, allowed = CHANGES[case]
    new, old = job(after), copy.deepcopy(job(before))
    found = [one for one in validate_update(JOB, new, old, None) if "scheduling" in one.path]
    assert (found == []) == allowed, found
