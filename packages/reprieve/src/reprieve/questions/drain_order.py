"""In which order to drain nodes, and what each drain does after those before it (whatif.md 7).

Each drain is of the cluster that the one before has left: a pod that found another place runs there, so that a budget
which allows one eviction at a time is no obstacle to one drain after the other.  Pods that are preempted to make room
for displaced ones come back like these, and may preempt others in turn.

What a drain does at least is known before it is planned: which pods it displaces, and which gangs and budgets are in
the way. Only which pods wait for a place at the end takes a plan, so that a step is planned when no other can be the
next but for that; and where no pod comes back and none waits, nothing would be decided and there is nothing to plan.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from msgspec.structs import replace as with_fields

from kube_rules.errors import InputError, Origin
from kube_rules.manifests import Loaded, Manifests
from kube_rules.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ResourceClaim,
    ResourceClaimTemplate,
)
from kube_rules.versions import DOCUMENT_VERSION
from reprieve.decisions.outcomes import Document
from reprieve.questions.changes import InputChange, changed
from reprieve.questions.drain_steps import steps_of
from reprieve.questions.order_search import least_harm, width_for
from reprieve.questions.reinstatement import Rounds
from reprieve.simulation.controllers.disruption import allowances, allowed_now, covers, followed, is_healthy
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.plan_inputs import refuse_unplannable
from reprieve.simulation.report import BrokenGang, ChangeMade, DisplacedPod, EvictedPod
from reprieve.simulation.workloads.expansion import expand
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

MOST_NODES: Final = 64
"""That one drain plan may name."""
MOST_TRIED: Final = 8
"""Of so many steps the order is tried; of more it is by what each drain alone would break."""
MOST_SEARCHED: Final = 20_000
"""Objects that a search for a better order may plan in all."""
LEAST_SEARCHED: Final = 50
"""A drain counts as so many at least."""

Nodes = tuple[str, ...]
"""Names of nodes that are drained together."""


class BudgetUse(Document, frozen=True, kw_only=True):
    """A budget of pods that a step evicts: evictions it allowed before, that are made, and that it allows after it.

    After the step pods that found another place count as healthy again. `stops`: it does not allow the drain one of
    them; `overruled`: pods are preempted against it.
    """

    budget: str
    allowed: int
    evicted: int
    allowed_after: int
    stops: bool
    overruled: bool


class DrainedNode(Document, frozen=True, kw_only=True):
    """The drain of one node: which pods it displaces and which budgets stop it.

    `step`: nodes of one step are drained together. What a step does as a whole - the pods it preempts, the gangs it
    breaks, its use of budgets - is listed at the first node of the step.
    """

    name: str
    step: int = 1
    displaced: tuple[DisplacedPod, ...] = ()
    evicted: tuple[EvictedPod, ...] = ()
    broken_gangs: tuple[BrokenGang, ...] = ()
    budgets: tuple[str, ...] = ()
    budget_use: tuple[BudgetUse, ...] = ()
    kubectl_needs: tuple[str, ...] = ()
    """The flags without which `kubectl drain` refuses it."""
    waiting: int = 0
    lost: int = 0

    @property
    def overruled(self) -> tuple[str, ...]:
        """Budgets against which pods are preempted."""
        return _budgets(self.evicted)


class GangCount(Document, frozen=True, kw_only=True):
    """How often a drain plan breaks a gang, and in which steps."""

    namespace: str
    name: str
    times: int
    steps: tuple[int, ...]


class DrainPlan(Document, frozen=True, kw_only=True):
    """The document: the nodes in the order in which to drain them."""

    api_version: str = DOCUMENT_VERSION
    kind: str = "DrainPlan"
    changes: tuple[ChangeMade, ...] = ()
    nodes: tuple[DrainedNode, ...] = ()
    gangs: tuple[GangCount, ...] = ()

    @property
    def clean(self) -> bool:
        """Return whether every pod finds a place, and no budget stops a drain or is overruled."""
        return not any(node.budgets or node.waiting or node.lost or node.overruled for node in self.nodes)

    @property
    def evicts(self) -> bool:
        """Return whether a pod is preempted to make room for another one."""
        return any(node.evicted for node in self.nodes)


@dataclass(frozen=True, slots=True)
class _Step:
    """What the drain of some nodes, together, does. `needs`: by node, the flags that `kubectl drain` wants."""

    nodes: Nodes
    displaced: tuple[DisplacedPod, ...]
    broken: tuple[BrokenGang, ...]
    needs: tuple[tuple[str, ...], ...]
    evicted: tuple[EvictedPod, ...] = ()

    @property
    def pods(self) -> tuple[DisplacedPod | EvictedPod, ...]:
        """Return all that leave their nodes."""
        return (*self.displaced, *self.evicted)

    @property
    def harm(self) -> _Harm:
        """Return what it does, the worst first."""
        outcomes = Counter(pod.outcome for pod in self.pods)
        return len(self.broken), len(_budgets(self.pods)), outcomes["Lost"], outcomes["Waiting"], len(self.pods)

    def documents(self, number: int, use: Sequence[BudgetUse]) -> Iterator[DrainedNode]:
        """Its nodes in the document."""
        for turn, name in enumerate(self.nodes):
            displaced = tuple(item for item in self.displaced if item.node_name == name)
            evicted = () if turn else self.evicted
            of_node: tuple[DisplacedPod | EvictedPod, ...] = (*displaced, *evicted)
            outcomes = Counter(item.outcome for item in of_node)
            yield DrainedNode(
                name=name,
                step=number,
                displaced=displaced,
                evicted=evicted,
                broken_gangs=() if turn else self.broken,
                budgets=_budgets(displaced),
                budget_use=() if turn else tuple(use),
                kubectl_needs=self.needs[turn],
                waiting=outcomes["Waiting"],
                lost=outcomes["Lost"],
            )


_Harm = tuple[int, ...]


def _budgets(pods: Sequence[DisplacedPod | EvictedPod]) -> tuple[str, ...]:
    """Return those in the way of these pods."""
    return tuple(sorted({budget for pod in pods for budget in pod.budgets}))


@dataclass(slots=True)
class _Drained:
    """A drain that was planned, and the input as it leaves it."""

    step: _Step
    after: Manifests


def drain_plan(
    manifests: Manifests, nodes: Sequence[str], options: PlanOptions, *, rows: Rows = TABLE, run: Sequence[str] = ()
) -> DrainPlan:
    """Return the order and what happens in it; `manifests` before its workloads are expanded. Raises InputError."""
    names = sorted(dict.fromkeys(nodes))
    closed = changed(
        manifests, [InputChange("cordon", name) for name in names], rows=rows
    )  # no pod goes where the next is
    there = expand(closed.manifests, rows=rows, run=run).manifests
    for loaded in there.all():
        refuse_unplannable(loaded.object, loaded, options.gates, options.sources)
    options = replace(options, first_decision=False, rows=rows)
    order = _best_order(there, names, options)
    result: list[DrainedNode] = []
    broken: dict[tuple[str, str], list[int]] = {}
    for number, (step, before, after) in enumerate(order, 1):
        result += step.documents(number, _use_of_budgets(step, before, after))
        for gang in step.broken:
            broken.setdefault((gang.namespace, gang.name), []).append(number)
    gangs = (
        GangCount(namespace=space, name=name, times=len(steps), steps=tuple(steps))
        for (space, name), steps in sorted(broken.items())
    )
    return DrainPlan(nodes=tuple(result), gangs=tuple(gangs))


class _Taken(NamedTuple):
    """A step of an order, and the input before and after it."""

    step: _Step
    before: Manifests
    after: Manifests


def _best_order(there: Manifests, names: Sequence[str], options: PlanOptions) -> list[_Taken]:
    """Return the order that breaks least: the one that takes the least harm next, or a better one that a search finds.

    Nodes are drained one by one as well where they may be drained together.
    """
    together = steps_of(there, names)
    order = _least_next(there, together, options)
    harm = _total(order)
    if not any(harm[:-1]):
        return order  # no order does less than evicting all of these pods
    objects_planned = sum(map(len, there.objects.values()))
    most = MOST_SEARCHED // max(LEAST_SEARCHED, objects_planned)

    def then(before: Manifests, step: Nodes) -> tuple[_Harm, _Taken, Manifests]:
        drained = _planned(_Drain(before, step), options)
        after = _after(before, drained)
        return drained.step.harm, _Taken(drained.step, before, after), after

    one_by_one = [(name,) for name in names]
    for steps in (together, one_by_one) if together != one_by_one else (together,):
        width = width_for(len(steps), most)
        if width and len(steps) > 1:
            found, taken = least_harm(there, steps, then, width)
            if found < harm:
                harm, order = found, taken
    return order


def _total(order: Sequence[_Taken]) -> _Harm:
    gangs, budgets, lost, waiting, pods = (sum(part) for part in zip(*(item.step.harm for item in order), strict=True))
    return gangs, budgets, lost, waiting, pods


def _least_next(there: Manifests, steps: Sequence[Nodes], options: PlanOptions) -> list[_Taken]:
    """Return the order in which the step with the least harm comes next; of many steps with the least harm alone."""
    left, order = list(steps), []
    alone = _by_harm(there, left, options) if len(left) > MOST_TRIED else []
    while left:
        next_alone = _Drain(there, alone.pop(0)) if alone else None
        best = next(_least_first(there, left, options)) if next_alone is None else _planned(next_alone, options)
        left.remove(best.step.nodes)
        after = _after(there, best)
        order.append(_Taken(best.step, there, after))
        there = after
    return order


def _by_harm(there: Manifests, steps: Sequence[Nodes], options: PlanOptions) -> list[Nodes]:
    """The steps by what each alone would do, the least harm first."""
    return [drained.step.nodes for drained in _least_first(there, steps, options)]


def _least_first(there: Manifests, steps: Sequence[Nodes], options: PlanOptions) -> Iterator[_Drained]:
    """Drains of one cluster, each alone, the least harm first; each is planned no sooner than it may be the next."""
    waiting: list[tuple[_Harm, Nodes, bool, _Drain | _Drained]] = []
    for names in steps:
        drain = _Drain(there, names)
        heapq.heappush(waiting, (drain.step.harm, names, False, drain))
    while waiting:
        _, names, _, found = heapq.heappop(waiting)
        if isinstance(found, _Drained):
            yield found
        else:
            made = _planned(found, options)
            heapq.heappush(waiting, (made.step.harm, names, True, made))


class _Drain:
    """The drain of some nodes of an expanded input. `step`: as if every pod that comes back found a place."""

    def __init__(self, there: Manifests, names: Nodes) -> None:
        self.there, self.names = there, names
        self.made = changed(there, [InputChange("drain", name) for name in names])
        moved = [item if item.successor is None else with_fields(item, outcome="Moved") for item in self.made.displaced]
        self.step = self.step_with(moved, self.made.broken)

    def step_with(
        self, displaced: Sequence[DisplacedPod], broken: Sequence[BrokenGang], evicted: Sequence[EvictedPod] = ()
    ) -> _Step:
        """Return the step with what happened to its pods."""
        return _Step(
            nodes=self.names,
            displaced=tuple(sorted(self._in_turn(displaced), key=lambda one: (one.namespace, one.name))),
            broken=tuple(broken),
            needs=tuple(made.kubectl_needs for made in self.made.made),
            evicted=tuple(evicted),
        )

    def _in_turn(self, displaced: Sequence[DisplacedPod]) -> Sequence[DisplacedPod]:
        """Return the pods with the budgets that stop each, node after node: what found a place counts again."""
        if len(self.names) == 1 or not any(item.budgets for item in displaced):
            return displaced
        pods = {pod.object.key: pod.object for pod in self.there.pods}
        budgets = [loaded.object for loaded in self.there.of(PodDisruptionBudget)]
        result = []
        for name in self.names:
            over = allowed_now(budgets, list(pods.values()))
            gone, back = [], []
            for item in (item for item in displaced if item.node_name == name):
                pod = pods.pop(f"{item.namespace}/{item.name}")
                result.append(with_fields(item, budgets=over(pod)))
                gone.append(pod)
                if item.outcome == "Moved" and item.successor is not None:
                    back.append(with_fields(pod, metadata=with_fields(pod.metadata, name=item.successor)))
            pods.update((pod.key, pod) for pod in back)
            budgets = followed(budgets, filter(is_healthy, gone), filter(is_healthy, back))
        return result

    @property
    def decides_nothing(self) -> bool:
        """Return whether no pod is without a node after it, so that its plan leaves the cluster as it is."""
        made, manifests = self.made, self.made.manifests
        if made.broken or manifests.scenarios or any(manifests.of(kind) for kind in _WITH_CONTROLLERS):
            return False
        names = {loaded.object.name for loaded in manifests.nodes}
        return all(_stays_there(loaded.object, names) for loaded in manifests.pods)


_WITH_CONTROLLERS: Final = (ResourceClaim, ResourceClaimTemplate, PersistentVolume, PersistentVolumeClaim)
"""Kinds that controllers may write to while nothing is decided."""


def _stays_there(pod: Pod, nodes: Set[str]) -> bool:
    """Return whether nothing happens to a pod in a plan in which nothing is decided, nor to anything of it."""
    if pod.status.phase in ("Succeeded", "Failed"):
        return True
    moving = pod.metadata.deletion_timestamp is not None or pod.spec.resource_claims
    of_volumes = any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    return pod.spec.node_name in nodes and not moving and not of_volumes


def _planned(drain: _Drain, options: PlanOptions) -> _Drained:
    """The drain with what happens to the pods that come back, and to those preempted for them."""
    if drain.decides_nothing:
        return _Drained(drain.step, drain.made.manifests)
    rounds = Rounds(drain.made, options)
    displaced, evicted = rounds.outcomes()
    return _Drained(drain.step_with(displaced, rounds.broken, evicted), rounds.manifests)


def _after(there: Manifests, drained: _Drained) -> Manifests:
    """Return the input as a drain leaves it, with its budgets as they are then: what found a place counts again."""
    made = drained.after
    before, after = _healthy(there), _healthy(made)
    gone = [pod for key, pod in before.items() if key not in after]
    come = [pod for key, pod in after.items() if key not in before]
    budgets = there.of(PodDisruptionBudget)
    counted = followed((loaded.object for loaded in budgets), gone, come)
    made.objects[PodDisruptionBudget] = [
        Loaded(budget, loaded.origin, loaded.order, loaded.created)
        for loaded, budget in zip(budgets, counted, strict=True)
    ]
    return made


def _healthy(manifests: Manifests) -> dict[str, Pod]:
    """Return pods that count for budgets, by `namespace/name`."""
    pods = (loaded.object for loaded in manifests.pods)
    return {pod.key: pod for pod in pods if is_healthy(pod)}


def _use_of_budgets(step: _Step, there: Manifests, after: Manifests) -> list[BudgetUse]:
    """Return the budgets of the pods that a step evicts, sorted by name."""
    budgets = [loaded.object for loaded in there.of(PodDisruptionBudget)]
    if not budgets or not step.pods:
        return []
    pods = {pod.object.key: pod.object for pod in there.pods}
    evicted = Counter(
        number
        for one in step.pods
        if (pod := pods.get(f"{one.namespace}/{one.name}")) is not None and is_healthy(pod)
        for number, covered in enumerate(map(covers, budgets))
        if covered(pod)
    )
    stopping, overruled = _budgets(step.displaced), _budgets(step.evicted)
    before = allowances(budgets, list(pods.values()))
    left = allowances([one.object for one in after.of(PodDisruptionBudget)], [one.object for one in after.pods])
    names = [budget.full_key for budget in budgets]
    used = [
        BudgetUse(
            budget=name,
            allowed=before[number],
            evicted=evicted[number],
            allowed_after=left[number],
            stops=name in stopping,
            overruled=name in overruled,
        )
        for number, name in enumerate(names)
        if evicted[number] or name in stopping or name in overruled
    ]
    return sorted(used, key=lambda one: one.budget)


def nodes_named(manifests: Manifests, given: Sequence[str]) -> list[str]:
    """The nodes of names and selectors. Raises InputError for one that meets nothing, and for too many."""
    there = {loaded.object.name for loaded in manifests.nodes}
    result: dict[str, None] = {}
    for text in given:
        try:
            names = (text,) if text in there else changed(manifests, [InputChange("drain", text)]).made[0].nodes
        except InputError as error:
            raise InputError(Origin("drain-plan"), error.message) from None
        result.update(dict.fromkeys(names))
    if len(result) > MOST_NODES:
        raise InputError(Origin("drain-plan"), f"{len(result)} nodes: at most {MOST_NODES} can be planned at once")
    return list(result)
