"""What is wrong with what users wrote about their work and its groups: reported once for every object (cost.md 2,
workloads.md 1.5 and 2).
"""

from __future__ import annotations

from collections.abc import Callable

from reprieve.api.group_sources import GroupSources, group_problems
from reprieve.api.meta import KubernetesObject
from reprieve.api.work_annotations import annotation_problems


class AnnotationRemarks:
    """`report(object, problem)` is called when a problem appears; again only after it was gone or another one.

    Kept: the problems of objects that have some.
    """

    def __init__(self, report: Callable[[KubernetesObject, str], None], sources: GroupSources) -> None:
        self._report = report
        self._sources = sources
        self._reported: dict[tuple[str, str], list[str]] = {}

    def inspect(self, item: KubernetesObject) -> None:
        """An object appeared or changed."""
        key = (item.KIND, item.key)
        problems = [*annotation_problems(item), *group_problems(item, self._sources)]
        before = self._reported.get(key, [])
        if problems == before:
            return
        self._reported.pop(key, None)
        if problems:
            self._reported[key] = problems
        for problem in problems:
            if problem not in before:
                self._report(item, problem)

    def forget(self, item: KubernetesObject) -> None:
        """An object is gone."""
        self._reported.pop((item.KIND, item.key), None)
