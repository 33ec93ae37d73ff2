"""Which objects have annotations about work that decide which pods may be evicted (cost.md 2), so that none is cheap.

Invariant: an object is known as long as it exists and says so.
"""

from kube_rules.work_annotations import NO_WORK_TERMS, PROTECT, WorkTerms


class WorkRules:
    """See the module docstring."""

    def __init__(self) -> None:
        self._ruling: set[str] = set()
        self._protecting: set[str] = set()

    def note(self, key: str, terms: WorkTerms = NO_WORK_TERMS, *, respects_budgets: bool = False) -> None:
        """Learn what an object says; `respects_budgets`: a PriorityClass with preemptors that violate none."""
        decides, protects = terms.decides or respects_budgets, terms.below_minimum == PROTECT
        for known, rules in ((self._ruling, decides), (self._protecting, protects)):
            if rules:
                known.add(key)
            else:
                known.discard(key)

    def __bool__(self) -> bool:
        """Return whether any object has such annotations."""
        return bool(self._ruling)

    @property
    def protects_minimums(self) -> bool:
        """Return whether a gang may be protected from falling below its minimum (cost.md 2.9)."""
        return bool(self._protecting)
