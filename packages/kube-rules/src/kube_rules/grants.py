"""Limits of annotations that protect a victim, as granted by an administrator (cost.md 7).

The engine limits the annotations that it reads, from any source; the embedded API server refuses values beyond the
grant; plans and the live scheduler report them. All of them use this module.

Rule: a grant is on the PriorityClass of the object. A value beyond the grant counts as the maximum granted.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import msgspec

from kube_rules.admission import DEFAULT_PRIORITY, PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS
from kube_rules.durations import readable_duration
from kube_rules.meta import KubernetesObject
from kube_rules.objects import CompositePodGroup, Pod, PodGroup
from kube_rules.work_annotations import (
    ALLOW_BELOW_MINIMUM,
    BELOW_MINIMUM,
    MAX_MINIMUM_RUNTIME,
    MAX_PREEMPTION_PRIORITY,
    MAX_RESTART_COST,
    MINIMUM_RUNTIME,
    NO_CLASS_TERMS,
    RESTART_COST,
    ClassTerms,
    Grant,
    WorkTerms,
    work_terms,
)

ItemT = TypeVar("ItemT", bound=KubernetesObject)
RAISING: Final = (PREEMPTION_PRIORITY_CLASS, MINIMUM_RUNTIME, RESTART_COST, BELOW_MINIMUM)
"""The annotations that need a grant."""
_SHOWN: Final = 64
_NUMBER: Final = re.compile(r"-?[0-9]{1,10}")


def bounded(terms: WorkTerms, grant: Grant) -> WorkTerms:
    """Return the terms, limited to the grant."""
    runtime, restart, minimum = terms.minimum_runtime, terms.restart_cost, terms.below_minimum
    if (
        (runtime is None or runtime <= grant.minimum_runtime)
        and (restart is None or restart <= grant.restart_cost)
        and (minimum is None or grant.below_minimum)
    ):
        return terms
    return replace(
        terms,
        minimum_runtime=None if runtime is None else min(runtime, grant.minimum_runtime),
        restart_cost=None if restart is None else min(restart, grant.restart_cost),
        below_minimum=minimum if grant.below_minimum else None,
    )


def bounded_priority(value: int, own: int, grant: Grant) -> int:
    """Return the priority as a victim of a group that requests `value` and has the priority `own`."""
    granted = grant.preemption_priority
    return max(own, min(value, own if granted is None else granted))


class Excess(NamedTuple):
    """An annotation that requests more than its grant."""

    name: str
    why: str
    counts: str
    """The value that counts instead."""

    def problem(self, annotations: Mapping[str, str]) -> str:
        """Return the field, its value and the problem."""
        text = annotations[self.name]
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        return f'metadata.annotations[{self.name}]: Forbidden: "{shown}" {self.why}'


def excesses(annotations: Mapping[str, str], priority: int | None, class_name: str, grant: Grant) -> Iterator[Excess]:
    """Yield the annotations that exceed the grant of the object's class.

    `priority` is the object's own; if it is None (not known yet), the priority as a victim is not checked.
    """
    terms = work_terms(annotations)
    granter = f'PriorityClass "{class_name}"' if class_name else "a PriorityClass that it names"
    for name, requested, most, by in (
        (MINIMUM_RUNTIME, terms.minimum_runtime, grant.minimum_runtime, MAX_MINIMUM_RUNTIME),
        (RESTART_COST, terms.restart_cost, grant.restart_cost, MAX_RESTART_COST),
    ):
        if requested is not None and requested > most:
            counts = readable_duration(math.floor(most))
            yield Excess(name, f"exceeds the granted {counts}; {granter} can grant more by {by}", counts)
    if terms.below_minimum is not None and not grant.below_minimum:
        yield Excess(BELOW_MINIMUM, f"is not granted; {granter} has {ALLOW_BELOW_MINIMUM}: false", "none")
    value = preemption_priority(annotations)
    if priority is None or value is None or PREEMPTION_PRIORITY_CLASS not in annotations:
        return
    most_priority = bounded_priority(value, priority, grant)
    if value > most_priority:
        why = f"(priority {value}) exceeds the granted {most_priority}; {granter} can grant more by"
        yield Excess(PREEMPTION_PRIORITY_CLASS, f"{why} {MAX_PREEMPTION_PRIORITY}", f"priority {most_priority}")


def standing_problems(item: KubernetesObject, classes: Mapping[str, ClassTerms]) -> list[str]:
    """Return the annotations of an object that exceed its grant and do not count, a sentence for each.

    `classes`: the terms of PriorityClasses by name.
    """
    if not isinstance(item, Pod | PodGroup | CompositePodGroup) or not item.metadata.annotations:
        return []
    annotations = item.metadata.annotations
    return [f"{excess.problem(annotations)}; {excess.counts} counts" for excess in _excesses_of(item, classes)]


def _excesses_of(item: Pod | PodGroup | CompositePodGroup, classes: Mapping[str, ClassTerms]) -> Iterator[Excess]:
    class_name = item.spec.priority_class_name or ""
    grant = classes.get(class_name, NO_CLASS_TERMS).grant_in(item.metadata.namespace or "default")
    own = None if isinstance(item, Pod) else item.spec.priority or DEFAULT_PRIORITY
    return excesses(item.metadata.annotations, own, class_name, grant)


def as_granted(item: ItemT, classes: Mapping[str, ClassTerms]) -> ItemT:
    """Return the object with the annotations that count, for another reader.

    A duration beyond the grant becomes the maximum granted; a victim class beyond the grant is removed, because there
    may be no class with the granted value.
    """
    if not isinstance(item, Pod | PodGroup | CompositePodGroup) or not item.metadata.annotations:
        return item
    annotations = dict(item.metadata.annotations)
    for excess in _excesses_of(item, classes):
        if excess.name in (MINIMUM_RUNTIME, RESTART_COST):
            annotations[excess.name] = excess.counts
        else:
            del annotations[excess.name]
            if excess.name == PREEMPTION_PRIORITY_CLASS:
                annotations.pop(PREEMPTION_PRIORITY, None)
    if annotations == item.metadata.annotations:
        return item
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations=annotations))


def preemption_priority(annotations: Mapping[str, str]) -> int | None:
    """Return the priority as a victim that admission resolved (preemption.md 4, "Options"); None without a number."""
    text = annotations.get(PREEMPTION_PRIORITY, "")
    return int(text) if _NUMBER.fullmatch(text) else None
