"""What users say about their work: the annotations of cost.md 2 and what is wrong with them."""

import pytest

from reprieve.api.objects import Node, ObjectMeta, Pod, PodGroup, PriorityClass
from reprieve.api.work_annotations import (
    DOMAIN,
    NOTHING_SAID,
    ClassTerms,
    WorkTerms,
    annotation_problems,
    class_terms,
    work_terms,
)


def _said(**values: str) -> dict[str, str]:
    return {DOMAIN + name.replace("_", "-"): text for name, text in values.items()}


@pytest.mark.parametrize(
    ("annotations", "terms"),
    [
        ({}, NOTHING_SAID),
        ({"example.com/minimum-runtime": "1h"}, NOTHING_SAID),
        (_said(last_checkpoint="1970-01-01T00:01:00Z"), WorkTerms(last_checkpoint=60.0)),
        (_said(last_checkpoint="1970-01-01T01:01:00+01:00"), WorkTerms(last_checkpoint=60.0)),
        (_said(checkpoint_interval="1h30m"), WorkTerms(checkpoint_interval=5400.0)),
        (_said(minimum_runtime="0"), WorkTerms(minimum_runtime=0.0)),
        (_said(preemption_delay="5m", restart_cost="90s"), WorkTerms(preemption_delay=300.0, restart_cost=90.0)),
        (_said(below_minimum="Whole"), WorkTerms(below_minimum_whole=True)),
        # What cannot be read counts as not there, and hides nothing else.
        (_said(minimum_runtime="soon", restart_cost="1m"), WorkTerms(restart_cost=60.0)),
    ],
)
def test_what_is_said_is_read(annotations: dict[str, str], terms: WorkTerms) -> None:
    """cost.md 2.1."""
    assert work_terms(annotations) == terms


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (_said(last_checkpoint="yesterday"), 'last-checkpoint]: Invalid value: "yesterday": want a time as RFC 3339'),
        (_said(last_checkpoint="2026-01-31T12:00:00"), "want a time as RFC 3339"),
        (_said(last_checkpoint=""), 'Invalid value: "": want a time'),
        (_said(checkpoint_interval="0s"), "an interval must be longer than 0"),
        (_said(minimum_runtime="-5m"), 'minimum-runtime]: Invalid value: "-5m": a duration must not be negative'),
        (_said(minimum_runtime="10"), 'Invalid value: "10": want a duration such as 90s or 1h30m'),
        (_said(minimum_runtime="9" * 30 + "h"), "at most ten years"),
        (_said(restart_cost="1" * 5000), "at most ten years"),
        (_said(below_minimum="whole"), 'below-minimum]: Invalid value: "whole": want Whole'),
        (_said(minimun_runtime="5m"), 'not known, did you mean "scheduling.reprieve.dev/minimum-runtime"?'),
        (_said(pdb_policy="Respect"), "pdb-policy]: counts on a PriorityClass only"),
    ],
)
def test_a_wrong_value_is_told_with_its_field_and_ignored(values: dict[str, str], why: str) -> None:
    """cost.md 2.2."""
    for kind in (Pod, PodGroup):
        (problem,) = annotation_problems(kind(metadata=ObjectMeta(name="a", annotations=values)))
        assert why in problem
        assert problem.startswith("metadata.annotations[scheduling.reprieve.dev/")
        assert len(problem) < 400
    assert work_terms(values) == NOTHING_SAID


def test_annotations_that_are_right_or_not_ours_are_no_problem() -> None:
    """cost.md 2.2: also those of the domain that are read elsewhere."""
    fine = {**_said(minimum_runtime="5m", preemption_priority_class="high"), "example.com/x": "?"}
    assert not annotation_problems(PodGroup(metadata=ObjectMeta(name="a", annotations=fine)))
    assert not annotation_problems(Node(metadata=ObjectMeta(name="a", annotations=_said(minimum_runtime="?"))))


def test_a_class_says_defaults_and_what_its_preemptors_may() -> None:
    """cost.md 2.3."""
    annotations = _said(minimum_runtime="1h", pdb_policy="Respect", may_break_minimum_runtime="true")
    assert class_terms(annotations) == ClassTerms(WorkTerms(minimum_runtime=3600.0), True, True)
    assert class_terms(_said(pdb_policy="BestEffort", may_break_minimum_runtime="false")) == ClassTerms()
    wrong = PriorityClass(metadata=ObjectMeta(name="a", annotations=_said(pdb_policy="respect")))
    assert annotation_problems(wrong) == [
        'metadata.annotations[scheduling.reprieve.dev/pdb-policy]: Invalid value: "respect": want BestEffort or Respect'
    ]
    assert class_terms(wrong.metadata.annotations) == ClassTerms()


def test_the_nearest_counts_each_by_itself() -> None:
    """cost.md 2.1: the pod's before its group's before its class's."""
    own, group = WorkTerms(minimum_runtime=0.0), WorkTerms(minimum_runtime=60.0, restart_cost=5.0)
    assert own.over(group) == WorkTerms(minimum_runtime=0.0, restart_cost=5.0)
    assert NOTHING_SAID.over(group) is group
    assert group.over(NOTHING_SAID) is group
