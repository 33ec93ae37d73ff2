"""The outcomes of pods that changes displace, and of pods preempted for them (whatif.md 7.3).

The changed input is planned. Preempted pods with a controller come back as pending pods, and the result is planned
again until no pod is preempted, at most `MOST_ROUNDS` times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec.structs import replace as with_fields

from kube_rules.manifests import LoadedObject
from kube_rules.objects import Pod, PodDisruptionBudget
from reprieve.decisions.outcomes import PreemptionOutcome, Victim
from reprieve.questions.changed_objects import gang_sizes, waiting_like
from reprieve.questions.changes import ChangedInput, why_waits
from reprieve.simulation.controllers.disruption import covers
from reprieve.simulation.final_state import afterwards
from reprieve.simulation.plan import EngineKeeper, PlanOptions, plan
from reprieve.simulation.plan_inputs import starts_at
from reprieve.simulation.report import BrokenGang, DisplacedPod, EvictedPod, Plan
from reprieve.simulation.workloads.owners import reference_of

MOST_ROUNDS: Final = 10
"""Each round preempts pods of lower priority than the previous one; the victims of the last round stay pending."""

Name = tuple[str, str]
"""(namespace, name)."""


@dataclass(slots=True)
class _Fate:
    """The current name of a pod that was removed from its node; None: it is lost."""

    pod: DisplacedPod | EvictedPod
    now: Name | None


class Rounds:
    """Plans of a changed input, until no pod that comes back preempts another.

    `manifests`: the cluster afterwards.
    """

    def __init__(self, changed_input: ChangedInput, options: PlanOptions) -> None:
        self.manifests = changed_input.manifests
        self._sizes = gang_sizes(changed_input.manifests)
        self._names = {(loaded.object.namespace, loaded.object.name) for loaded in changed_input.manifests.pods}
        self._tried: dict[Name, int] = {}
        self._fates = [
            _Fate(item, (item.namespace, item.successor) if item.successor is not None else None)
            for item in changed_input.displaced
        ]
        self._broken = {(item.namespace, item.name): item for item in changed_input.broken}
        self._at, self._order = 0.0, 0
        self._document = Plan()
        for _ in range(MOST_ROUNDS):
            if not self._plan_once(options):
                break

    def _plan_once(self, options: PlanOptions) -> bool:
        """Plan the current input; return whether preempted pods come back."""
        start = max(starts_at(self.manifests.all()), self._at, options.now or 0.0)
        witness = EngineKeeper()
        self._document = plan(self.manifests, replace(options, now=start, observer=witness, account=False)).plan
        self._at = start + self._document.stats.virtual_seconds
        before = {(loaded.object.namespace, loaded.object.name): loaded for loaded in self.manifests.pods}
        budgets = [loaded.object for loaded in self.manifests.of(PodDisruptionBudget)]
        if witness.engine is not None:
            self.manifests = afterwards(self.manifests, witness.engine, self._at, rows=options.rows)
        self._order = 1 + max((loaded.order for loaded in self.manifests.all()), default=0)
        evicted: set[Name] = set()
        back: dict[Name, int] = {}
        for preemption in self._document.preemptions:
            for victim in preemption.victims:
                key = (victim.namespace, victim.name)
                if key not in evicted:  # otherwise it was already terminating
                    evicted.add(key)
                    self._evict(preemption, victim, before[key], budgets)
                    group = (victim.namespace, victim.pod_group or "")
                    back[group] = back.get(group, 0) + (reference_of(before[key].object) is not None)
        self._note_broken(back)
        return any(back.values())

    def _evict(
        self,
        preemption: PreemptionOutcome,
        victim: Victim,
        loaded: LoadedObject[Pod],
        budgets: Sequence[PodDisruptionBudget],
    ) -> None:
        """Record an eviction; the pod's controller creates a replacement."""
        key, successor = (victim.namespace, victim.name), None
        if reference_of(loaded.object) is not None:
            self._names.discard(key)
            pod = waiting_like(loaded.object, self._names, self._tried)
            self._names.add((pod.namespace, pod.name))
            pods = self.manifests.objects.setdefault(Pod, [])
            pods.append(LoadedObject(pod, loaded.origin, self._order, self._at, dated=False))
            self._order += 1
            successor = pod.name
        now = (victim.namespace, successor) if successor is not None else None
        for fate in self._fates:
            if fate.now == key:
                fate.now = now
        evicted = EvictedPod(
            namespace=victim.namespace,
            name=victim.name,
            pod_group=victim.pod_group,
            priority=victim.priority,
            node_name=victim.node_name,
            preemptor=preemption.preemptor,
            why=victim.why,
            successor=successor,
            budgets=tuple(sorted(budget.full_key for budget in budgets if covers(budget)(loaded.object)))
            if victim.violates_pdb
            else (),
        )
        self._fates.append(_Fate(evicted, now))

    def _note_broken(self, back: dict[Name, int]) -> None:
        """Record the gangs that fell below their minimum through preemption."""
        for group in self._document.pod_groups:
            key = (group.namespace, group.name)
            if group.below_minimum and group.evicted and key not in self._broken and group.min_count is not None:
                self._broken[key] = BrokenGang(
                    namespace=group.namespace,
                    name=group.name,
                    min_count=group.min_count,
                    before=max(self._sizes.get(key, (0, 0))[1], group.scheduled + group.evicted),
                    left=group.scheduled,
                    coming_back=back.get(key, 0),
                )

    @property
    def broken(self) -> list[BrokenGang]:
        """Return the gangs that fell below their minimum, with the number of placed pods at the end."""
        sizes = gang_sizes(self.manifests)
        return [with_fields(gang, after=sizes.get(key, (0, 0))[1]) for key, gang in self._broken.items()]

    def outcomes(self) -> tuple[list[DisplacedPod], list[EvictedPod]]:
        """Return the displaced and the preempted pods with their outcomes."""
        pods = {(loaded.object.namespace, loaded.object.name): loaded.object for loaded in self.manifests.pods}
        because = why_waits(self._document)
        messages = {(pod.namespace, pod.name): because(pod) for pod in self._document.pods}
        displaced, evicted = [], []
        for fate in self._fates:
            pod = pods.get(fate.now) if fate.now is not None else None
            if pod is None or fate.now is None:
                outcome, to, message = "Lost", None, None
            elif pod.spec.node_name:
                outcome, to, message = "Moved", pod.spec.node_name, None
            else:
                outcome, to, message = "Waiting", None, messages.get(fate.now)
            successor = fate.now[1] if fate.now is not None else None
            if isinstance(fate.pod, EvictedPod):
                evicted.append(with_fields(fate.pod, outcome=outcome, to=to, message=message, successor=successor))
            else:
                displaced.append(with_fields(fate.pod, outcome=outcome, to=to, message=message, successor=successor))
        return displaced, evicted
