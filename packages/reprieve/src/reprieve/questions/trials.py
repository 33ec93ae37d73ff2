"""Trials of changes: the same input planned again with changes; does a pod or gang run then? (whatif.md 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import Final

from kube_rules import objects
from kube_rules.errors import InputError
from kube_rules.manifests import Loaded, Manifests
from reprieve.questions.changes import InputChange, changed
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.plan_inputs import starts_at
from reprieve.simulation.report import Plan
from reprieve.simulation.workloads.expansion import expand
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

MOST_WORK: Final = 25_000
"""Objects that the trials of one answer may plan in all; many rules of one pod, and attempts, count as objects do."""
FREE_WORK: Final = 15_000
SHARE: Final = 2
"""Without being given more, all trials together may take `FREE_WORK`, and so many times the work of the plan."""
NODES_AN_OBJECT: Final = 10
"""An attempt of the scheduler counts as one object for so many nodes."""
MOVES_AN_OBJECT: Final = 8
"""So many pods that are put on a node or taken off one, in attempts, count as one object."""
FEW_RULES: Final = 8
"""Affinity terms and spread constraints of a pod that count with it."""
LEAST_WORK: Final = 200
"""A trial counts as so many objects at least."""

Waiting = tuple[str, str, str]
"""(Pod or PodGroup, namespace, name)."""


@dataclass(slots=True)
class Trials:
    """Plans an input again and again. `base`: before its workloads were expanded, to which flags apply."""

    manifests: Manifests
    options: PlanOptions
    base: Manifests | None = None
    rows: Rows = TABLE
    run: Sequence[str] = ()
    left: int | None = None
    """Work that they may still do; None: as much as goes with the work of one plan."""
    spent: bool = False
    """Something was not tried because there had been trials enough."""
    attempts: int = 0
    """Of the scheduler in the plan itself."""
    moves: int = 0
    """Of pods in the plan itself, see `Answer.moves`."""
    made: int = 0
    _known: dict[tuple[Waiting, tuple[str, ...]], bool] = field(default_factory=dict)

    def runs(self, pending: Waiting, changes: Sequence[InputChange]) -> bool:
        """Return whether it runs after these changes, which may be impossible here.

        Raises SpentError when there have been trials enough.
        """
        key = (pending, tuple(map(str, changes)))
        if key not in self._known:
            try:
                self._known[key] = self.runs_in(pending, self.after(changes))
            except InputError:
                self._known[key] = False
        return self._known[key]

    def after(self, changes: Sequence[InputChange]) -> Manifests:
        """Return the input after these changes, expanded as it was before. Raises InputError."""
        base = self.base
        if base is not None and base.pod_makers:
            try:
                return expand(changed(base, changes, rows=self.rows).manifests, rows=self.rows, run=self.run).manifests
            except InputError:
                pass
        return changed(self.manifests, changes, rows=self.rows).manifests

    def runs_in(self, pending: Waiting, manifests: Manifests) -> bool:
        """Return whether it runs in another input."""
        left = self.allowed()
        if self._cost(manifests, self.attempts, self.moves) > left:
            self.spent = True
            raise SpentError
        now = self.options.now  # what a change adds may be newer
        now = max(now, starts_at(manifests.all())) if now is not None else None
        options = with_fields(self.options, first_decision=False, observer=None, on_object=None, now=now, account=False)
        self.made += 1
        attempts, moves, runs = self.attempts, self.moves, False
        try:
            answer = plan(manifests, options)
            attempts, moves, runs = answer.plan.stats.attempts, answer.moves, _runs(answer.plan, pending)
        except InputError:
            pass
        self.left = max(0, left - self._cost(manifests, attempts, moves))
        return runs

    def allowed(self) -> int:
        """Return how much work there is left for trials."""
        if self.left is None:
            self.left = min(MOST_WORK, FREE_WORK + SHARE * self._cost(self.manifests, self.attempts, self.moves))
        return self.left

    @staticmethod
    def _cost(manifests: Manifests, attempts: int, moves: int) -> int:
        objects_planned = sum(map(len, manifests.objects.values())) + sum(map(_rules, manifests.pods))
        tried = attempts * len(manifests.nodes) // NODES_AN_OBJECT + moves // MOVES_AN_OBJECT
        return max(LEAST_WORK, objects_planned + tried)


def _rules(loaded: Loaded[objects.Pod]) -> int:
    """Return how many rules about other pods a pod has beyond a few: each takes about as long as an object."""
    spec = loaded.object.spec
    affinity, count = spec.affinity, len(spec.topology_spread_constraints)
    for kind in () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity):
        if kind is not None:
            count += len(kind.required_during_scheduling_ignored_during_execution)
            count += len(kind.preferred_during_scheduling_ignored_during_execution)
    return max(0, count - FEW_RULES)


class SpentError(Exception):
    """There have been trials enough."""


def _runs(document: Plan, pending: Waiting) -> bool:
    kind, namespace, name = pending
    if kind == "Pod":
        return any((pod.namespace, pod.name, pod.outcome) == (namespace, name, "Scheduled") for pod in document.pods)
    return any(
        (group.namespace, group.name, group.outcome) == (namespace, name, "Scheduled") for group in document.pod_groups
    )
