"""Problems in annotations of users on workloads and groups, and values that exceed a grant (cost.md 2 and 7,
workloads.md 1.5 and 2). Each is reported once per object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kube_rules.grants import RAISING, standing_problems
from kube_rules.group_sources import GroupSources, group_problems
from kube_rules.meta import KubernetesObject
from kube_rules.work_annotations import ClassTerms, annotation_problems


class AnnotationRemarks:
    """Reports problems: `report(object, problem)` is called when a problem appears, again only after it changed.

    It stores the problems of objects that have some, and the objects with annotations that need a grant. `classes`: the
    current terms of PriorityClasses by name.
    """

    def __init__(
        self,
        report: Callable[[KubernetesObject, str], None],
        sources: GroupSources,
        classes: Mapping[str, ClassTerms],
    ) -> None:
        self._report = report
        self._sources = sources
        self._classes = classes
        self._raising: dict[tuple[str, str], KubernetesObject] = {}
        self._reported: dict[tuple[str, str], list[str]] = {}

    def inspect(self, item: KubernetesObject) -> None:
        """Report the problems of a new or changed object."""
        key = (item.KIND, item.key)
        if any(name in item.metadata.annotations for name in RAISING):
            self._raising[key] = item
        else:
            self._raising.pop(key, None)
        problems = [
            *annotation_problems(item),
            *group_problems(item, self._sources),
            *standing_problems(item, self._classes),
        ]
        before = self._reported.get(key, [])
        if problems == before:
            return
        self._reported.pop(key, None)
        if problems:
            self._reported[key] = problems
        for problem in problems:
            if problem not in before:
                self._report(item, problem)

    def classes_changed(self) -> None:
        """Report problems again after a PriorityClass changed its grant."""
        for item in list(self._raising.values()):
            self.inspect(item)

    def forget(self, item: KubernetesObject) -> None:
        """Forget a deleted object."""
        self._raising.pop((item.KIND, item.key), None)
        self._reported.pop((item.KIND, item.key), None)
