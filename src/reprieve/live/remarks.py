"""What is wrong with what users wrote about their work and its groups: said once for every object (cost.md 2,
workloads.md 1.5 and 2).
"""

from __future__ import annotations

from collections.abc import Callable

from reprieve.api.group_sources import GroupSources, group_problems
from reprieve.api.meta import KubernetesObject
from reprieve.api.work_annotations import annotation_problems


class AnnotationRemarks:
    """`tell(object, problem)` is called when a problem appears; again only after it was gone or said otherwise.

    Kept: the problems of objects that have some.
    """

    def __init__(self, tell: Callable[[KubernetesObject, str], None], sources: GroupSources) -> None:
        self._tell = tell
        self._sources = sources
        self._said: dict[tuple[str, str], list[str]] = {}

    def inspect(self, item: KubernetesObject) -> None:
        """An object appeared or changed."""
        key = (item.KIND, item.key)
        problems = [*annotation_problems(item), *group_problems(item, self._sources)]
        said = self._said.get(key, [])
        if problems == said:
            return
        self._said.pop(key, None)
        if problems:
            self._said[key] = problems
        for problem in problems:
            if problem not in said:
                self._tell(item, problem)

    def forget(self, item: KubernetesObject) -> None:
        """An object is gone."""
        self._said.pop((item.KIND, item.key), None)
