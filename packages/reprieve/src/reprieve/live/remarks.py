"""What is wrong with what users wrote about their work and its groups, and what of it exceeds a grant (cost.md 2 and 7,
workloads.md 1.5 and 2). It is reported once for every object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kube_rules.grants import RAISING, standing_problems
from kube_rules.group_sources import GroupSources, group_problems
from kube_rules.meta import KubernetesObject
from kube_rules.work_annotations import ClassTerms, annotation_problems


class AnnotationRemarks:
    """`report(object, problem)` is called when a problem appears; again only after it was gone or another one.

    It keeps the problems of objects that have some, and the objects with annotations that need a grant. `classes`: the
    terms of PriorityClasses by name, as they are at each moment.
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
        """An object appeared or changed."""
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
        """A PriorityClass grants more or less than before."""
        for item in list(self._raising.values()):
            self.inspect(item)

    def forget(self, item: KubernetesObject) -> None:
        """An object was deleted."""
        self._raising.pop((item.KIND, item.key), None)
        self._reported.pop((item.KIND, item.key), None)
