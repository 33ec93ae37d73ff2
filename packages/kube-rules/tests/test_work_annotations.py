"""What users say about their work: the annotations of cost.md 2 and what is wrong with them."""

import pytest

from kube_rules.objects import CompositePodGroup, Node, ObjectMeta, Pod, PodGroup, PodSpec, PriorityClass
from kube_rules.work_annotations import (
    DOMAIN,
    NO_WORK_TERMS,
    ClassTerms,
    WorkTerms,
    annotation_problems,
    class_terms,
    moment,
    restarts_when_degraded,
    work_terms,
    work_terms_of,
)


def _said(**values: str) -> dict[str, str]:
    return {DOMAIN + name.replace("_", "-"): text for name, text in values.items()}


@pytest.mark.parametrize(
    ("annotations", "terms"),
    [
        ({}, NO_WORK_TERMS),
        ({"example.com/minimum-runtime": "1h"}, NO_WORK_TERMS),
        (_said(last_checkpoint="1970-01-01T00:01:00Z"), WorkTerms(last_checkpoint=60.0)),
        (_said(last_checkpoint="1970-01-01T01:01:00+01:00"), WorkTerms(last_checkpoint=60.0)),
        (_said(checkpoint_interval="1h30m"), WorkTerms(checkpoint_interval=5400.0)),
        (_said(minimum_runtime="0"), WorkTerms(minimum_runtime=0.0)),
        (_said(preemption_delay="5m", restart_cost="90s"), WorkTerms(preemption_delay=300.0, restart_cost=90.0)),
        (_said(below_minimum="Whole"), WorkTerms(below_minimum="Whole")),
        (_said(below_minimum="Protect"), WorkTerms(below_minimum="Protect")),
        # What cannot be read counts as not there, and hides nothing else.
        (_said(minimum_runtime="soon", restart_cost="1m"), WorkTerms(restart_cost=60.0)),
    ],
)
def test_work_annotations_are_read(annotations: dict[str, str], terms: WorkTerms) -> None:
    """cost.md 2.1."""
    assert work_terms(annotations) == terms


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            _said(last_checkpoint="yesterday"),
            'last-checkpoint]: Invalid value: "yesterday": expected an RFC 3339 time',
        ),
        (_said(last_checkpoint="2026-01-31T12:00:00"), "expected an RFC 3339 time"),
        (_said(last_checkpoint=""), 'Invalid value: "": expected an RFC'),
        (_said(checkpoint_interval="0s"), "an interval must be longer than 0"),
        (_said(minimum_runtime="-5m"), 'minimum-runtime]: Invalid value: "-5m": a duration must not be negative'),
        (_said(minimum_runtime="10"), 'Invalid value: "10": expected a duration such as 90s or 1h30m'),
        (_said(minimum_runtime="9" * 30 + "h"), "at most ten years"),
        (_said(restart_cost="1" * 5000), "at most ten years"),
        (_said(below_minimum="whole"), 'below-minimum]: Invalid value: "whole": expected Whole or Protect'),
        (_said(minimun_runtime="5m"), 'not known, did you mean "scheduling.reprieve.dev/minimum-runtime"?'),
        (_said(pdb_policy="Respect"), "pdb-policy]: counts on a PriorityClass only"),
    ],
)
def test_wrong_value_is_told_with_its_field_and_ignored(values: dict[str, str], why: str) -> None:
    """cost.md 2.2."""
    for kind in (Pod, PodGroup):
        (problem,) = annotation_problems(kind(metadata=ObjectMeta(name="a", annotations=values)))
        assert why in problem
        assert problem.startswith("metadata.annotations[scheduling.reprieve.dev/")
        assert len(problem) < 400
    assert work_terms(values) == NO_WORK_TERMS


def test_annotations_that_are_right_or_not_ours_are_no_problem() -> None:
    """cost.md 2.2: also those of the domain that are read elsewhere."""
    fine = {**_said(minimum_runtime="5m", preemption_priority_class="high"), "example.com/x": "?"}
    assert not annotation_problems(PodGroup(metadata=ObjectMeta(name="a", annotations=fine)))
    assert not annotation_problems(Node(metadata=ObjectMeta(name="a", annotations=_said(minimum_runtime="?"))))


def test_class_says_defaults_and_what_its_preemptors_may() -> None:
    """cost.md 2.3."""
    annotations = _said(minimum_runtime="1h", pdb_policy="Respect", may_break_minimum_runtime="true")
    assert class_terms(annotations) == ClassTerms(WorkTerms(minimum_runtime=3600.0), True, True)
    assert class_terms(_said(pdb_policy="BestEffort", may_break_minimum_runtime="false")) == ClassTerms()
    wrong = PriorityClass(value=1, metadata=ObjectMeta(name="a", annotations=_said(pdb_policy="respect")))
    assert annotation_problems(wrong) == [
        'metadata.annotations[scheduling.reprieve.dev/pdb-policy]: Invalid value: "respect": '
        "expected BestEffort or Respect"
    ]
    assert class_terms(wrong.metadata.annotations) == ClassTerms()


def test_nearest_counts_each_by_itself() -> None:
    """cost.md 2.1: the pod's before its group's before its class's."""
    own, group = WorkTerms(minimum_runtime=0.0), WorkTerms(minimum_runtime=60.0, restart_cost=5.0)
    assert own.over(group) == WorkTerms(minimum_runtime=0.0, restart_cost=5.0)
    assert NO_WORK_TERMS.over(group) is group
    assert group.over(NO_WORK_TERMS) is group


TEN_YEARS = 10 * 366 * 24 * 3600


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (_said(minimum_runtime=f"{TEN_YEARS}s"), None),
        (_said(minimum_runtime=f"{TEN_YEARS + 1}s"), "a duration is at most ten years"),
        (_said(minimum_runtime="0s"), None),
        (_said(minimum_runtime="-1ns"), "a duration must not be negative"),
        (_said(checkpoint_interval="1ns"), None),
        (_said(checkpoint_interval="0"), "an interval must be longer than 0"),
        (_said(restart_cost="0" * 63 + "s"), None),
        (_said(restart_cost="0" * 64 + "s"), "a duration is at most ten years"),
        (_said(expected_end="9999-12-31T23:59:59Z"), None),
        (_said(expected_end="2026-01-31"), "expected an RFC 3339 time"),
    ],
)
def test_both_sides_of_what_may_be_said(values: dict[str, str], why: str | None) -> None:
    """cost.md 2.2."""
    problems = annotation_problems(Pod(metadata=ObjectMeta(name="a", annotations=values)))
    assert len(problems) == (why is not None)
    assert all(why is not None and why in problem for problem in problems)
    assert (work_terms(values) is NO_WORK_TERMS) is (why is not None)


def test_problems_quote_excerpts() -> None:
    for length, shown in ((128, "x" * 128), (129, "x" * 128 + "...")):
        [problem] = annotation_problems(
            Pod(metadata=ObjectMeta(name="a", annotations=_said(restart_cost="x" * length)))
        )
        assert f'Invalid value: "{shown}": ' in problem


@pytest.mark.parametrize("kind", [Pod, PodGroup, CompositePodGroup])
def test_annotation_that_counts_on_a_class_only(kind: type[Pod | PodGroup | CompositePodGroup]) -> None:
    values = _said(pdb_policy="Respect", may_break_minimum_runtime="true", qqqqqqqq="x")
    pdb, may, other = annotation_problems(kind(metadata=ObjectMeta(name="a", annotations=values)))
    assert pdb.endswith("pdb-policy]: counts on a PriorityClass only")
    assert may.endswith("may-break-minimum-runtime]: counts on a PriorityClass only")
    assert other.endswith("qqqqqqqq]: not known")
    of_class = annotation_problems(PriorityClass(value=1, metadata=ObjectMeta(name="a", annotations=values)))
    assert of_class == [other]


@pytest.mark.parametrize(
    ("text", "restarts", "problem"),
    [("Restart", True, ""), ("Keep", False, ""), ("restart", None, "expected Keep or Restart")],
)
def test_recovery_policy_counts_on_groups_only(text: str, restarts: bool | None, problem: str) -> None:
    """repair.md 4.1"""
    values = _said(recovery_policy=text)
    assert restarts_when_degraded(values) is restarts
    for kind in (PodGroup, CompositePodGroup):
        problems = annotation_problems(kind(metadata=ObjectMeta(name="a", annotations=values)))
        assert bool(problems) == bool(problem)
        assert all(each.endswith(problem) for each in problems)
    [elsewhere] = annotation_problems(Pod(metadata=ObjectMeta(name="a", annotations=values)))
    assert elsewhere.endswith("recovery-policy]: counts on a PodGroup only")


@pytest.mark.parametrize(("seconds", "deadline"), [(None, None), (0, 0.0), (60, 60.0)])
def test_pod_says_for_how_long_it_may_run(seconds: int | None, deadline: float | None) -> None:
    meta = ObjectMeta(name="a", annotations=_said(restart_cost="1m"))
    found = work_terms_of(Pod(metadata=meta, spec=PodSpec(active_deadline_seconds=seconds)))
    assert found == WorkTerms(restart_cost=60.0, active_deadline=deadline)


@pytest.mark.parametrize(
    ("terms", "decides"),
    [
        (NO_WORK_TERMS, False),
        (WorkTerms(minimum_runtime=1.0), True),
        (WorkTerms(minimum_runtime=0.0), False),
        (WorkTerms(below_minimum="Whole"), True),
        (WorkTerms(below_minimum="Protect"), True),
        (WorkTerms(restart_cost=1.0, preemption_delay=1.0, expected_end=1.0), False),
    ],
)
def test_terms_that_decide_about_eviction(terms: WorkTerms, decides: bool) -> None:
    assert terms.decides is decides


def test_annotations_that_let_others_be_evicted_at_another_time() -> None:
    """And not only at another cost."""
    for terms in (
        WorkTerms(minimum_runtime=1.0),
        WorkTerms(preemption_delay=1.0),
        WorkTerms(below_minimum="Whole"),
        WorkTerms(expected_end=1.0),
        WorkTerms(active_deadline=1.0),
    ):
        assert terms.decisive != NO_WORK_TERMS.decisive
    for terms in (WorkTerms(restart_cost=1.0), WorkTerms(last_checkpoint=1.0), WorkTerms(checkpoint_interval=1.0)):
        assert terms.decisive == NO_WORK_TERMS.decisive


def test_moments_are_seconds_since_the_epoch() -> None:
    assert moment("1970-01-01T00:00:01.5Z") == 1.5
    with pytest.raises(ValueError, match="expected an RFC 3339 time such as 2026-01-31T12:00:00Z"):
        moment("1970-01-01T00:00:01")


@pytest.mark.parametrize(
    ("values", "terms"),
    [
        ({}, ClassTerms()),
        (_said(pdb_policy="Respect"), ClassTerms(respects_budgets=True)),
        (_said(pdb_policy="BestEffort"), ClassTerms()),
        (_said(may_break_minimum_runtime="true"), ClassTerms(may_break_minimum_runtime=True)),
        (_said(may_break_minimum_runtime="True"), ClassTerms()),
        (_said(restart_cost="1s"), ClassTerms(WorkTerms(restart_cost=1.0))),
    ],
)
def test_class_priority_and_policy(values: dict[str, str], terms: ClassTerms) -> None:
    """cost.md 2.3."""
    assert class_terms(values) == terms
