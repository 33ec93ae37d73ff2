"""Try a pending pod, group or tree with another priority: the decision of a cycle that is not carried out.

Invariant: the cluster, the groups and the queue are not changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from reprieve.cluster.groups import Group
from reprieve.scheduling.decision import Decision

if TYPE_CHECKING:
    from reprieve.queueing.entity import Entity


@contextmanager
def with_priority(entity: Entity, priority: int) -> Iterator[None]:
    """Raise a queued entity, all groups of its tree and all their members to a priority within the context."""
    groups: list[Group] = [] if entity.group is None else [entity.group, *entity.group.below()]
    members = {uid: pod for group in groups for leaf in group.leaves() for uid, pod in leaf.members.items()}
    pods = list({**members, **entity.ready}.values())
    specs = [(group, group.spec, group.victim_priority) for group in groups]
    before = [(pod, pod.priority) for pod in pods]
    try:
        for group, spec, _ in specs:
            if spec is not None:
                group.spec = replace(spec, priority=priority, victim_priority=priority)
                group.victim_priority = priority
        for pod, _ in before:
            pod.priority = priority
        yield
    finally:
        for group, spec, as_victim in specs:
            group.spec, group.victim_priority = spec, as_victim
        for pod, own in before:
            pod.priority = own


def gets_a_place(decision: Decision) -> bool:
    """Return whether the entity of the decision is placed, or preempts to free capacity for itself."""
    return bool(decision.bindings or decision.waiting) or decision.preemption is not None
