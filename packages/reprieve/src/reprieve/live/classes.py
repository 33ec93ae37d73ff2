"""Resolve the priority of groups as victims, from the PriorityClass that an annotation names.

The API has no field for it yet, so the API server does not resolve the name when a group is written (preemption.md 4,
"Options"; the first text of KEP-5710). This module looks it up among the PriorityClasses of the cluster. Rules: a class
that appears later counts from then on, and so does a new value of a class. The deletion of a class does not change the
groups that had it (preemption.md 8) while this process runs. A value below the group's own priority is refused: groups
could evict each other in turn. A group counts with its own priority if its class is refused or unknown, and `refused`
is called once for every reason. The same holds for a number without a class, because any author of a group could write
one.

Invariant: a resolved group has the value of its class as its `preemption-priority` annotation; a group without the
annotation is returned unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from kube_rules.admission import DEFAULT_PRIORITY, PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS, PriorityAdmission
from kube_rules.errors import FieldError
from kube_rules.objects import CompositePodGroup, PodGroup, PriorityClass

_NO_CLASS: Final = f"it is the value of the class that {PREEMPTION_PRIORITY_CLASS} names, and none is named"


class _LastClass(NamedTuple):
    """The class and value that a group got last."""

    uid: str
    name: str
    value: str


GroupT = TypeVar("GroupT", PodGroup, CompositePodGroup)


class VictimClasses(Generic[GroupT]):
    """The victim classes of groups of one kind. `refused(group, reason)` reports an annotation that does not count."""

    def __init__(self, refused: Callable[[GroupT, str], None]) -> None:
        self._refused: Callable[[GroupT, str], None] = refused
        self._classes: dict[str, PriorityClass] = {}
        self._admission = PriorityAdmission()
        self._naming: dict[str, str] = {}
        """The class that each group with the annotation names, by group key."""
        self._had: dict[str, _LastClass] = {}
        self._reported: dict[str, str] = {}
        """The last reason why a group was refused, by key."""

    def set_class(self, priority_class: PriorityClass) -> list[str]:
        """Set a new or changed class; return the keys of the groups to set again."""
        before = self._classes.get(priority_class.name)
        self._classes[priority_class.name] = priority_class
        self._admission = PriorityAdmission(self._classes.values())
        if before is not None and before.value == priority_class.value:
            return []
        return [key for key, name in self._naming.items() if name == priority_class.name]

    def remove_class(self, name: str) -> None:
        """Remove a class; groups that had it keep its value."""
        if self._classes.pop(name, None) is not None:
            self._admission = PriorityAdmission(self._classes.values())

    def forget(self, key: str) -> None:
        """Forget a deleted group (`namespace/name`)."""
        self._naming.pop(key, None)
        self._had.pop(key, None)
        self._reported.pop(key, None)

    def resolved(self, group: GroupT) -> GroupT:
        """Return the group with the preemption priority that its annotation currently resolves to."""
        annotations = group.metadata.annotations
        name = annotations.get(PREEMPTION_PRIORITY_CLASS, "")
        key, uid = group.key, group.metadata.uid
        if not name:
            if PREEMPTION_PRIORITY not in annotations:
                self.forget(key)
                return group
            self._naming.pop(key, None)
            self._had.pop(key, None)
            self._refuse(group, f"metadata.annotations[{PREEMPTION_PRIORITY}]: Forbidden: {_NO_CLASS}")
            annotations = self._admission.as_victim(annotations, DEFAULT_PRIORITY, stored=True)
            return replace(group, metadata=replace(group.metadata, annotations=annotations))
        self._naming[key] = name
        had = self._had.get(key)
        if had is not None and (had.uid, had.name) == (uid, name):
            annotations = {**annotations, PREEMPTION_PRIORITY: had.value}
        priority = group.spec.priority if group.spec.priority is not None else DEFAULT_PRIORITY
        try:
            annotations = self._admission.as_victim(annotations, priority, stored=True)
        except FieldError as error:
            self._had.pop(key, None)
            self._refuse(group, str(error))
            own_annotations = {name: text for name, text in annotations.items() if name != PREEMPTION_PRIORITY}
            return replace(group, metadata=replace(group.metadata, annotations=own_annotations))
        self._reported.pop(key, None)
        self._had[key] = _LastClass(uid, name, annotations[PREEMPTION_PRIORITY])
        return replace(group, metadata=replace(group.metadata, annotations=annotations))

    def _refuse(self, group: GroupT, why: str) -> None:
        if self._reported.get(group.key) != why:
            self._reported[group.key] = why
            self._refused(group, why)
