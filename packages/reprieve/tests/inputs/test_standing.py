"""How far annotations may raise the standing of a victim (cost.md 7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.admission import PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS
from kube_rules.grants import as_granted, bounded, bounded_priority, standing_problems
from kube_rules.meta import KubernetesObject
from kube_rules.work_annotations import (
    DEFAULT_GRANT,
    NO_CLASS_TERMS,
    Grant,
    WorkTerms,
    annotation_problems,
    class_terms,
)
from tests.building import annotated, group, pod, priority_class

HOUR = 3600.0


@pytest.mark.parametrize(
    ("said", "grant", "elsewhere"),
    [
        ({}, DEFAULT_GRANT, DEFAULT_GRANT),
        ({"max_minimum_runtime": "8h"}, Grant(minimum_runtime=8 * HOUR), DEFAULT_GRANT),
        ({"max_minimum_runtime": "5m"}, Grant(minimum_runtime=300.0), DEFAULT_GRANT),
        ({"max_minimum_runtime": "0"}, Grant(minimum_runtime=0.0), DEFAULT_GRANT),
        ({"max_minimum_runtime": "long"}, DEFAULT_GRANT, DEFAULT_GRANT),
        ({"max_restart_cost": "2h"}, Grant(restart_cost=2 * HOUR), DEFAULT_GRANT),
        ({"max_preemption_priority": "-5"}, Grant(preemption_priority=-5), DEFAULT_GRANT),
        ({"max_preemption_priority": "99999999999"}, DEFAULT_GRANT, DEFAULT_GRANT),
        ({"max_preemption_priority": "٣"}, DEFAULT_GRANT, DEFAULT_GRANT),
        ({"allow_below_minimum": "false"}, Grant(below_minimum=False), DEFAULT_GRANT),
        ({"max_protected_priority": "7"}, Grant(protected_priority=7), DEFAULT_GRANT),
        ({"max_protected_priority": "all"}, DEFAULT_GRANT, DEFAULT_GRANT),
        ({"minimum_runtime": "9h"}, Grant(minimum_runtime=9 * HOUR), Grant(minimum_runtime=9 * HOUR)),
        ({"minimum_runtime": "9h", "max_minimum_runtime": "2h"}, Grant(minimum_runtime=9 * HOUR),
         Grant(minimum_runtime=9 * HOUR)),
        ({"restart_cost": "9h"}, Grant(restart_cost=9 * HOUR), Grant(restart_cost=9 * HOUR)),
    ],
)  # fmt: skip
def test_class_grants(said: dict[str, str], grant: Grant, elsewhere: Grant) -> None:
    """cost.md 7.1, 7.2: what it states, else the default; and as much as it gives to all that say nothing."""
    everywhere = class_terms(annotated(**said))
    assert everywhere.grant_in("any") == grant
    some = class_terms(annotated(**said, grant_namespaces="team-a, team-b"))
    assert [some.grant_in(name) for name in ("team-a", "team-b", "team-c")] == [grant, grant, elsewhere]
    none = class_terms(annotated(**said, grant_namespaces="team-a,,Team B"))
    assert none.grant_in("team-a") == elsewhere


def test_wrong_grant_is_reported() -> None:
    """cost.md 2.2: by its field; and on anything but a class none of them counts."""
    names = ("max-preemption-priority", "max-minimum-runtime", "max-restart-cost", "allow-below-minimum",
             "max-protected-priority", "grant-namespaces")  # fmt: skip
    wrong = {f"scheduling.reprieve.dev/{name}": "?" for name in names}
    assert len(annotation_problems(priority_class("c", 1, wrong))) == len(names)
    problems = annotation_problems(pod("p", annotations={next(iter(wrong)): "7"}))
    assert problems == [
        "metadata.annotations[scheduling.reprieve.dev/max-preemption-priority]: counts on a PriorityClass only"
    ]


_SECONDS = st.none() | st.floats(0, 4e8)


@given(
    _SECONDS,
    _SECONDS,
    st.none() | st.sampled_from(["Whole", "Protect"]),
    st.floats(0, 4e8),
    st.floats(0, 4e8),
    st.booleans(),
)
def test_nothing_counts_beyond_the_grant(
    runtime: float | None, restart: float | None, whole: str | None, longest: float, dearest: float, allowed: bool
) -> None:
    """cost.md 7.4: what is within it is as it was, and nothing is made up."""
    terms = WorkTerms(minimum_runtime=runtime, restart_cost=restart, below_minimum=whole, expected_end=7.0)
    grant = Grant(minimum_runtime=longest, restart_cost=dearest, below_minimum=allowed)
    found = bounded(terms, grant)
    assert (found.minimum_runtime is None) == (runtime is None)
    assert runtime is None or found.minimum_runtime == min(runtime, longest)
    assert restart is None or found.restart_cost == min(restart, dearest)
    assert found.below_minimum == (whole if allowed else None)
    assert found.expected_end == 7.0
    assert bounded(found, grant) is found


@given(st.integers(-9, 9), st.integers(-9, 9), st.none() | st.integers(-9, 9))
def test_priority_counts_between_its_own_and_the_granted(value: int, own: int, most: int | None) -> None:
    """cost.md 7.4: never below its own; without a grant it is its own."""
    found = bounded_priority(value, own, Grant(preemption_priority=most))
    assert found == max(own, min(value, own if most is None else most))
    assert own <= found <= max(own, most if most is not None else own)


CLASSES = {"batch": class_terms(annotated(max_minimum_runtime="2h", max_preemption_priority="50")),
           "strict": class_terms(annotated(allow_below_minimum="false"))}  # fmt: skip
VICTIM = {PREEMPTION_PRIORITY_CLASS: "gold", PREEMPTION_PRIORITY: "1000"}
_AT = "metadata.annotations[scheduling.reprieve.dev/"


@pytest.mark.parametrize(
    ("item", "problems"),
    [
        (pod("p", annotations=annotated(minimum_runtime="1h")), []),
        (pod("p", annotations=annotated(minimum_runtime="61m")),
         [f'{_AT}minimum-runtime]: Forbidden: "61m" exceeds the granted 1h; a PriorityClass that it names can grant'
          " more by scheduling.reprieve.dev/max-minimum-runtime; 1h counts"]),
        (pod("p", priority_class="batch", annotations=annotated(minimum_runtime="2h")), []),
        (pod("p", priority_class="batch", annotations=annotated(minimum_runtime="87600h")),
         [f'{_AT}minimum-runtime]: Forbidden: "87600h" exceeds the granted 2h; PriorityClass "batch" can grant more by '
          "scheduling.reprieve.dev/max-minimum-runtime; 2h counts"]),
        (pod("p", annotations=annotated(restart_cost="2h")),
         [f'{_AT}restart-cost]: Forbidden: "2h" exceeds the granted 1h; a PriorityClass that it names can grant more '
          "by scheduling.reprieve.dev/max-restart-cost; 1h counts"]),
        (group("g", priority_class="strict", annotations=annotated(below_minimum="Whole")),
         [f'{_AT}below-minimum]: Forbidden: "Whole" is not granted; PriorityClass "strict" has '
          "scheduling.reprieve.dev/allow-below-minimum: false; none counts"]),
        (group("g", priority=7, annotations=VICTIM),
         [f'{_AT}preemption-priority-class]: Forbidden: "gold" (priority 1000) exceeds the granted 7; a PriorityClass '
          "that it names can grant more by scheduling.reprieve.dev/max-preemption-priority; priority 7 counts"]),
        (group("g", priority=7, priority_class="batch", annotations=VICTIM),
         [f'{_AT}preemption-priority-class]: Forbidden: "gold" (priority 1000) exceeds the granted 50; PriorityClass '
          '"batch" can grant more by scheduling.reprieve.dev/max-preemption-priority; priority 50 counts']),
        (group("g", priority=7, priority_class="batch", annotations={**VICTIM, PREEMPTION_PRIORITY: "50"}), []),
        (group("g", priority=7), []),
        (pod("p", annotations=VICTIM), []),
    ],
)  # fmt: skip
def test_grant_that_is_exceeded_is_reported(item: KubernetesObject, problems: list[str]) -> None:
    """cost.md 7.6: with the field, the value and the bound; what counts is in the snapshot, and no problem."""
    assert standing_problems(item, CLASSES) == problems
    assert standing_problems(as_granted(item, CLASSES), CLASSES) == []
    if not problems:
        assert as_granted(item, CLASSES) is item


def test_no_class_grants_the_default() -> None:
    """cost.md 7.1: the object's own priority and one hour."""
    assert NO_CLASS_TERMS.grant_in("default") == DEFAULT_GRANT == Grant(None, HOUR, HOUR, True)
