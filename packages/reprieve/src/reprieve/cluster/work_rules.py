"""The objects with annotations about work that restrict evictions (cost.md 2), to skip the checks without any.

Invariant: an object is listed as long as it exists and has such annotations.
"""

from kube_rules.work_annotations import NO_WORK_TERMS, PROTECT, WorkTerms


class WorkRules:
    """See the module docstring."""

    def __init__(self) -> None:
        self._ruling: set[str] = set()
        self._protecting: set[str] = set()

    def note(self, key: str, terms: WorkTerms = NO_WORK_TERMS, *, respects_budgets: bool = False) -> None:
        """Record an object's terms; `respects_budgets`: a PriorityClass with preemptors that violate no budget."""
        decides, protects = terms.decides or respects_budgets, terms.below_minimum == PROTECT
        for keys, applies in ((self._ruling, decides), (self._protecting, protects)):
            if applies:
                keys.add(key)
            else:
                keys.discard(key)

    def __bool__(self) -> bool:
        """Return whether any object has such annotations."""
        return bool(self._ruling)

    @property
    def protects_minimums(self) -> bool:
        """Return whether a gang may be protected from falling below its minimum (cost.md 2.9)."""
        return bool(self._protecting)
