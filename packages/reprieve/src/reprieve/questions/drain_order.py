"""The order in which to drain nodes, and the effects of each drain (whatif.md 7).

Each drain starts from the cluster after the previous one. A pod that found another node runs there, so a budget that
allows one eviction at a time does not block a series of drains. Pods preempted for displaced pods also come back, and
may preempt others in turn.

The minimum effects of a drain are known before its plan: the displaced pods, and the affected gangs and budgets. Only
the pods that stay pending require a plan. A step is therefore planned only when its minimum effects are the smallest.
If no pod comes back and none is pending, the plan would decide nothing and is skipped.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from msgspec.structs import replace as with_fields

from kube_rules.errors import InputError, Origin
from kube_rules.manifests import LoadedObject, Manifests
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
"""The maximum number of nodes in one drain plan."""
MOST_TRIED: Final = 8
"""The maximum number of steps for a search of their order; beyond, the harm of each single drain decides."""
MOST_SEARCHED: Final = 20_000
"""The maximum number of objects to plan in a search for a better order."""
LEAST_SEARCHED: Final = 50
"""The minimum number of objects that a drain counts as."""

Nodes = tuple[str, ...]
"""The names of nodes that are drained together."""


class BudgetUse(Document, frozen=True, kw_only=True):
    """The use of a budget in a step: evictions allowed before, evictions made, and evictions allowed after it.

    After the step, pods that found another node count as healthy again. `stops`: the budget does not allow some
    eviction of the drain. `overruled`: preemption violates the budget.
    """

    budget: str
    allowed: int
    evicted: int
    allowed_after: int
    stops: bool
    overruled: bool


class DrainedNode(Document, frozen=True, kw_only=True):
    """The drain of one node: the displaced pods and the budgets that stop it.

    `step`: nodes of one step are drained together. The first node of a step lists the effects of the whole step:
    preempted pods, broken gangs, use of budgets.
    """

    name: str
    step: int = 1
    displaced: tuple[DisplacedPod, ...] = ()
    evicted: tuple[EvictedPod, ...] = ()
    broken_gangs: tuple[BrokenGang, ...] = ()
    budgets: tuple[str, ...] = ()
    budget_use: tuple[BudgetUse, ...] = ()
    kubectl_needs: tuple[str, ...] = ()
    """The flags that `kubectl drain` requires."""
    waiting: int = 0
    lost: int = 0

    @property
    def overruled(self) -> tuple[str, ...]:
        """Return the budgets that preemption violates."""
        return _budgets(self.evicted)


class GangCount(Document, frozen=True, kw_only=True):
    """How often a drain plan breaks a gang, and in which steps."""

    namespace: str
    name: str
    times: int
    steps: tuple[int, ...]


class DrainPlan(Document, frozen=True, kw_only=True):
    """The document: the nodes in drain order."""

    api_version: str = DOCUMENT_VERSION
    kind: str = "DrainPlan"
    changes: tuple[ChangeMade, ...] = ()
    nodes: tuple[DrainedNode, ...] = ()
    gangs: tuple[GangCount, ...] = ()

    @property
    def clean(self) -> bool:
        """Return whether every pod is placed, and no budget stops a drain or is overruled."""
        return not any(node.budgets or node.waiting or node.lost or node.overruled for node in self.nodes)

    @property
    def evicts(self) -> bool:
        """Return whether a pod is preempted for another pod."""
        return any(node.evicted for node in self.nodes)


@dataclass(frozen=True, slots=True)
class _Step:
    """The effects of draining some nodes together. `needs`: by node, the flags that `kubectl drain` requires."""

    nodes: Nodes
    displaced: tuple[DisplacedPod, ...]
    broken: tuple[BrokenGang, ...]
    needs: tuple[tuple[str, ...], ...]
    evicted: tuple[EvictedPod, ...] = ()

    @property
    def pods(self) -> tuple[DisplacedPod | EvictedPod, ...]:
        """Return all pods that leave their nodes."""
        return (*self.displaced, *self.evicted)

    @property
    def harm(self) -> _Harm:
        """Return the numbers of harmful effects, the most severe first."""
        outcomes = Counter(pod.outcome for pod in self.pods)
        return len(self.broken), len(_budgets(self.pods)), outcomes["Lost"], outcomes["Waiting"], len(self.pods)

    def documents(self, number: int, use: Sequence[BudgetUse]) -> Iterator[DrainedNode]:
        """Yield its nodes as documents."""
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
    """Return the budgets that the evictions of these pods violate."""
    return tuple(sorted({budget for pod in pods for budget in pod.budgets}))


@dataclass(slots=True)
class _PlannedDrain:
    """A planned drain, and the input after it."""

    step: _Step
    after: Manifests


def drain_plan(
    manifests: Manifests, nodes: Sequence[str], options: PlanOptions, *, rows: Rows = TABLE, run: Sequence[str] = ()
) -> DrainPlan:
    """Return the drain order and its effects; `manifests` are not expanded yet. Raises InputError."""
    names = sorted(dict.fromkeys(nodes))
    closed = changed(
        manifests, [InputChange("cordon", name) for name in names], rows=rows
    )  # displaced pods must not go to a node that is drained later
    expanded = expand(closed.manifests, rows=rows, run=run).manifests
    for loaded in expanded.all():
        refuse_unplannable(loaded.object, loaded, options.gates, options.sources)
    options = replace(options, first_decision=False, rows=rows)
    order = _best_order(expanded, names, options)
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


class _OrderStep(NamedTuple):
    """A step of an order, and the input before and after it."""

    step: _Step
    before: Manifests
    after: Manifests


def _best_order(manifests: Manifests, names: Sequence[str], options: PlanOptions) -> list[_OrderStep]:
    """Return the least harmful order: greedy by harm, or a better one from a search.

    The search also tries single drains of nodes that may be drained together.
    """
    together = steps_of(manifests, names)
    order = _least_next(manifests, together, options)
    harm = _total(order)
    if not any(harm[:-1]):
        return order  # every order evicts all of these pods
    objects_planned = sum(map(len, manifests.objects.values()))
    most = MOST_SEARCHED // max(LEAST_SEARCHED, objects_planned)

    def then(before: Manifests, step: Nodes) -> tuple[_Harm, _OrderStep, Manifests]:
        drained = _planned(_Drain(before, step), options)
        after = _after(before, drained)
        return drained.step.harm, _OrderStep(drained.step, before, after), after

    one_by_one = [(name,) for name in names]
    for steps in (together, one_by_one) if together != one_by_one else (together,):
        width = width_for(len(steps), most)
        if width and len(steps) > 1:
            found_harm, found_order = least_harm(manifests, steps, then, width)
            if found_harm < harm:
                harm, order = found_harm, found_order
    return order


def _total(order: Sequence[_OrderStep]) -> _Harm:
    gangs, budgets, lost, waiting, pods = (sum(part) for part in zip(*(item.step.harm for item in order), strict=True))
    return gangs, budgets, lost, waiting, pods


def _least_next(manifests: Manifests, steps: Sequence[Nodes], options: PlanOptions) -> list[_OrderStep]:
    """Return the order with the least harmful step next; with many steps, by the harm of each single step."""
    left, order = list(steps), []
    alone = _by_harm(manifests, left, options) if len(left) > MOST_TRIED else []
    while left:
        next_alone = _Drain(manifests, alone.pop(0)) if alone else None
        best = next(_least_first(manifests, left, options)) if next_alone is None else _planned(next_alone, options)
        left.remove(best.step.nodes)
        after = _after(manifests, best)
        order.append(_OrderStep(best.step, manifests, after))
        manifests = after
    return order


def _by_harm(manifests: Manifests, steps: Sequence[Nodes], options: PlanOptions) -> list[Nodes]:
    """Return the steps by their individual harm, the least harmful first."""
    return [drained.step.nodes for drained in _least_first(manifests, steps, options)]


def _least_first(manifests: Manifests, steps: Sequence[Nodes], options: PlanOptions) -> Iterator[_PlannedDrain]:
    """Yield individual drains of one cluster, the least harmful first; plan each only when it may be next."""
    waiting: list[tuple[_Harm, Nodes, bool, _Drain | _PlannedDrain]] = []
    for names in steps:
        drain = _Drain(manifests, names)
        heapq.heappush(waiting, (drain.step.harm, names, False, drain))
    while waiting:
        _, names, _, candidate = heapq.heappop(waiting)
        if isinstance(candidate, _PlannedDrain):
            yield candidate
        else:
            drained = _planned(candidate, options)
            heapq.heappush(waiting, (drained.step.harm, names, True, drained))


class _Drain:
    """The drain of some nodes of an expanded input. `step`: its effects if every pod that comes back is placed."""

    def __init__(self, manifests: Manifests, names: Nodes) -> None:
        self.manifests, self.names = manifests, names
        self.changed = changed(manifests, [InputChange("drain", name) for name in names])
        moved = [
            item if item.successor is None else with_fields(item, outcome="Moved") for item in self.changed.displaced
        ]
        self.step = self.step_with(moved, self.changed.broken)

    def step_with(
        self, displaced: Sequence[DisplacedPod], broken: Sequence[BrokenGang], evicted: Sequence[EvictedPod] = ()
    ) -> _Step:
        """Return the step with the outcomes of its pods."""
        return _Step(
            nodes=self.names,
            displaced=tuple(sorted(self._in_turn(displaced), key=lambda pod: (pod.namespace, pod.name))),
            broken=tuple(broken),
            needs=tuple(change.kubectl_needs for change in self.changed.applied),
            evicted=tuple(evicted),
        )

    def _in_turn(self, displaced: Sequence[DisplacedPod]) -> Sequence[DisplacedPod]:
        """Return the pods with the budgets that stop them, node by node: placed pods count again."""
        if len(self.names) == 1 or not any(item.budgets for item in displaced):
            return displaced
        pods = {pod.object.key: pod.object for pod in self.manifests.pods}
        budgets = [loaded.object for loaded in self.manifests.of(PodDisruptionBudget)]
        result = []
        for name in self.names:
            over = allowed_now(budgets, list(pods.values()))
            evicted, back = [], []
            for item in (item for item in displaced if item.node_name == name):
                pod = pods.pop(f"{item.namespace}/{item.name}")
                result.append(with_fields(item, budgets=over(pod)))
                evicted.append(pod)
                if item.outcome == "Moved" and item.successor is not None:
                    back.append(with_fields(pod, metadata=with_fields(pod.metadata, name=item.successor)))
            pods.update((pod.key, pod) for pod in back)
            budgets = followed(budgets, filter(is_healthy, evicted), filter(is_healthy, back))
        return result

    @property
    def decides_nothing(self) -> bool:
        """Return whether no pod is without a node afterwards, so that a plan changes nothing."""
        changed_input, manifests = self.changed, self.changed.manifests
        if changed_input.broken or manifests.scenarios or any(manifests.of(kind) for kind in _WITH_CONTROLLERS):
            return False
        names = {loaded.object.name for loaded in manifests.nodes}
        return all(_stays_there(loaded.object, names) for loaded in manifests.pods)


_WITH_CONTROLLERS: Final = (ResourceClaim, ResourceClaimTemplate, PersistentVolume, PersistentVolumeClaim)
"""Kinds that controllers may update even if nothing is decided."""


def _stays_there(pod: Pod, nodes: Set[str]) -> bool:
    """Return whether a plan without decisions leaves a pod and its objects unchanged."""
    if pod.finished:
        return True
    moving = pod.terminating or pod.spec.resource_claims
    of_volumes = any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    return pod.spec.node_name in nodes and not moving and not of_volumes


def _planned(drain: _Drain, options: PlanOptions) -> _PlannedDrain:
    """Return the drain with the outcomes of displaced pods and of pods preempted for them."""
    if drain.decides_nothing:
        return _PlannedDrain(drain.step, drain.changed.manifests)
    rounds = Rounds(drain.changed, options)
    displaced, evicted = rounds.outcomes()
    return _PlannedDrain(drain.step_with(displaced, rounds.broken, evicted), rounds.manifests)


def _after(manifests: Manifests, drained: _PlannedDrain) -> Manifests:
    """Return the input after a drain with updated budgets, in which placed pods count again."""
    result = drained.after
    before, after = _healthy(manifests), _healthy(result)
    removed = [pod for key, pod in before.items() if key not in after]
    come = [pod for key, pod in after.items() if key not in before]
    budgets = manifests.of(PodDisruptionBudget)
    counted = followed((loaded.object for loaded in budgets), removed, come)
    result.objects[PodDisruptionBudget] = [
        LoadedObject(budget, loaded.origin, loaded.order, loaded.created)
        for loaded, budget in zip(budgets, counted, strict=True)
    ]
    return result


def _healthy(manifests: Manifests) -> dict[str, Pod]:
    """Return the pods that count for budgets, by `namespace/name`."""
    pods = (loaded.object for loaded in manifests.pods)
    return {pod.key: pod for pod in pods if is_healthy(pod)}


def _use_of_budgets(step: _Step, before_drain: Manifests, after: Manifests) -> list[BudgetUse]:
    """Return the budgets of the pods that a step evicts, sorted by name."""
    budgets = [loaded.object for loaded in before_drain.of(PodDisruptionBudget)]
    if not budgets or not step.pods:
        return []
    pods = {pod.object.key: pod.object for pod in before_drain.pods}
    evicted = Counter(
        number
        for moved in step.pods
        if (pod := pods.get(f"{moved.namespace}/{moved.name}")) is not None and is_healthy(pod)
        for number, covered in enumerate(map(covers, budgets))
        if covered(pod)
    )
    stopping, overruled = _budgets(step.displaced), _budgets(step.evicted)
    before = allowances(budgets, list(pods.values()))
    left = allowances([item.object for item in after.of(PodDisruptionBudget)], [item.object for item in after.pods])
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
    return sorted(used, key=lambda use: use.budget)


def nodes_named(manifests: Manifests, texts: Sequence[str]) -> list[str]:
    """Return the nodes for names and selectors. Raises InputError for no match, and for too many nodes."""
    node_names = {loaded.object.name for loaded in manifests.nodes}
    result: dict[str, None] = {}
    for text in texts:
        try:
            names = (text,) if text in node_names else changed(manifests, [InputChange("drain", text)]).applied[0].nodes
        except InputError as error:
            raise InputError(Origin("drain-plan"), error.message) from None
        result.update(dict.fromkeys(names))
    if len(result) > MOST_NODES:
        raise InputError(Origin("drain-plan"), f"{len(result)} nodes: at most {MOST_NODES} can be planned at once")
    return list(result)
