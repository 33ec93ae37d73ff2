"""Trials of changes: plans of the changed input that test whether a pod or gang runs (whatif.md 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import Final

from kube_rules import objects
from kube_rules.errors import InputError
from kube_rules.manifests import LoadedObject, Manifests
from reprieve.questions.changes import InputChange, changed
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.plan_inputs import starts_at
from reprieve.simulation.report import Plan
from reprieve.simulation.workloads.expansion import expand
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

MOST_WORK: Final = 25_000
"""The maximum number of objects that the trials of one answer may plan; rules and attempts count as objects."""
FREE_WORK: Final = 15_000
SHARE: Final = 2
"""The default limit of all trials is `FREE_WORK` plus this multiple of the work of the plan."""
NODES_AN_OBJECT: Final = 10
"""The number of nodes for which a scheduling attempt counts as one object."""
MOVES_AN_OBJECT: Final = 8
"""The number of pod placements and removals in attempts that count as one object."""
FEW_RULES: Final = 8
"""The number of affinity terms and spread constraints of a pod that do not count separately."""
LEAST_WORK: Final = 200
"""The minimum work of a trial, in objects."""

PendingKey = tuple[str, str, str]
"""(Pod or PodGroup, namespace, name)."""


@dataclass(slots=True)
class Trials:
    """Plans an input repeatedly. `base`: the input before expansion, to which flags apply."""

    manifests: Manifests
    options: PlanOptions
    base: Manifests | None = None
    rows: Rows = TABLE
    run: Sequence[str] = ()
    left: int | None = None
    """The remaining work; None: the default limit."""
    spent: bool = False
    """Whether a trial was skipped because the limit was reached."""
    attempts: int = 0
    """Scheduling attempts of the plan itself."""
    moves: int = 0
    """Moves of pods in the plan itself, see `Answer.moves`."""
    runs_done: int = 0
    _results: dict[tuple[PendingKey, tuple[str, ...]], bool] = field(default_factory=dict)

    def runs(self, pending: PendingKey, changes: Sequence[InputChange]) -> bool:
        """Return whether a pod or group runs after these changes, which may be impossible.

        Raises SpentError if the limit is reached.
        """
        key = (pending, tuple(map(str, changes)))
        if key not in self._results:
            try:
                self._results[key] = self.runs_in(pending, self.after(changes))
            except InputError:
                self._results[key] = False
        return self._results[key]

    def after(self, changes: Sequence[InputChange]) -> Manifests:
        """Return the input after these changes, expanded as before. Raises InputError."""
        base = self.base
        if base is not None and base.pod_makers:
            try:
                return expand(changed(base, changes, rows=self.rows).manifests, rows=self.rows, run=self.run).manifests
            except InputError:
                pass
        return changed(self.manifests, changes, rows=self.rows).manifests

    def runs_in(self, pending: PendingKey, manifests: Manifests) -> bool:
        """Return whether a pod or group runs in another input. Raises SpentError if the limit is reached."""
        left = self.allowed()
        if self._cost(manifests, self.attempts, self.moves) > left:
            self.spent = True
            raise SpentError
        now = self.options.now  # added objects may be newer
        now = max(now, starts_at(manifests.all())) if now is not None else None
        options = with_fields(self.options, first_decision=False, observer=None, on_object=None, now=now, account=False)
        self.runs_done += 1
        attempts, moves, runs = self.attempts, self.moves, False
        try:
            answer = plan(manifests, options)
            attempts, moves, runs = answer.plan.stats.attempts, answer.moves, _runs(answer.plan, pending)
        except InputError:
            pass
        self.left = max(0, left - self._cost(manifests, attempts, moves))
        return runs

    def allowed(self) -> int:
        """Return the remaining work for trials."""
        if self.left is None:
            self.left = min(MOST_WORK, FREE_WORK + SHARE * self._cost(self.manifests, self.attempts, self.moves))
        return self.left

    @staticmethod
    def _cost(manifests: Manifests, attempts: int, moves: int) -> int:
        objects_planned = sum(map(len, manifests.objects.values())) + sum(map(_rules, manifests.pods))
        tried = attempts * len(manifests.nodes) // NODES_AN_OBJECT + moves // MOVES_AN_OBJECT
        return max(LEAST_WORK, objects_planned + tried)


def _rules(loaded: LoadedObject[objects.Pod]) -> int:
    """Return the number of a pod's rules about other pods beyond `FEW_RULES`; each costs about as much as an object."""
    spec = loaded.object.spec
    affinity, count = spec.affinity, len(spec.topology_spread_constraints)
    for kind in () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity):
        if kind is not None:
            count += len(kind.required_during_scheduling_ignored_during_execution)
            count += len(kind.preferred_during_scheduling_ignored_during_execution)
    return max(0, count - FEW_RULES)


class SpentError(Exception):
    """The limit of the trials is reached."""


def _runs(document: Plan, pending: PendingKey) -> bool:
    kind, namespace, name = pending
    if kind == "Pod":
        return any((pod.namespace, pod.name, pod.outcome) == (namespace, name, "Scheduled") for pod in document.pods)
    return any(
        (group.namespace, group.name, group.outcome) == (namespace, name, "Scheduled") for group in document.pod_groups
    )
