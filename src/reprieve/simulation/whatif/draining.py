"""In which order to drain nodes, and what each drain does after those before it (whatif.md 7).

Each drain is of the cluster that the one before has left: whoever found another place runs there, so that a budget
which allows one pod at a time to go is no obstacle to one drain after the other.

What a drain does at least is known before it is planned: whom it displaces, and which gangs and budgets are in the way.
Only who waits for a place at the end takes a plan, so that a node is planned when no other can be the next but for
that; and where nobody comes back and nobody waits, nothing would be decided and there is nothing to plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from msgspec.structs import replace as with_fields

from reprieve.api.errors import InputError, Origin
from reprieve.api.manifests import Loaded, Manifests
from reprieve.api.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ResourceClaim,
    ResourceClaimTemplate,
)
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.engine import Engine
from reprieve.simulation.afterwards import afterwards
from reprieve.simulation.controllers.disruption import followed, is_healthy
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.plan_inputs import refuse_unsized, refuse_unsupported, starts_at
from reprieve.simulation.report import BrokenGang, ChangeMade, DisplacedPod, Document
from reprieve.simulation.whatif.changes import Change, Changed, changed, with_changes
from reprieve.simulation.workloads.expanding import expand
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

MOST_NODES: Final = 64
"""That one drain plan may name."""
MOST_TRIED: Final = 8
"""Of so many nodes the order is tried; of more it is by what each drain alone would break."""


class DrainedNode(Document, frozen=True, kw_only=True):
    """One step: whom the drain of the node displaces, which gangs it breaks, which budgets stop it."""

    name: str
    displaced: tuple[DisplacedPod, ...] = ()
    broken_gangs: tuple[BrokenGang, ...] = ()
    budgets: tuple[str, ...] = ()
    kubectl_needs: tuple[str, ...] = ()
    """The flags without which `kubectl drain` refuses it."""
    waiting: int = 0
    lost: int = 0


class DrainPlan(Document, frozen=True, kw_only=True):
    """The document: the nodes in the order in which to drain them."""

    api_version: str = "reprieve.dev/v1alpha1"
    kind: str = "DrainPlan"
    changes: tuple[ChangeMade, ...] = ()
    nodes: tuple[DrainedNode, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether everybody finds another place and no budget stops it."""
        return not any(node.budgets or node.waiting or node.lost for node in self.nodes)


@dataclass(slots=True)
class _Drained:
    """A drain that was planned: the input with it, and the engine that decided, `at` seconds since the epoch at last.

    Without an engine nothing was decided.
    """

    step: DrainedNode
    manifests: Manifests
    at: float = 0.0
    engine: Engine | None = None


def drain_plan(
    manifests: Manifests, nodes: Sequence[str], options: PlanOptions, *, rows: Rows = TABLE, run: Sequence[str] = ()
) -> DrainPlan:
    """The order and what happens in it; `manifests` before its workloads are expanded. Raises InputError."""
    left = sorted(dict.fromkeys(nodes))
    closed = changed(manifests, [Change("cordon", name) for name in left], rows=rows)  # nobody goes where the next is
    there = expand(closed.manifests, rows=rows, run=run).manifests
    for loaded in there.all():
        refuse_unsupported(loaded.object, loaded.origin, options.gates)
        refuse_unsized(loaded.object, loaded.origin, options.sources)
    options = replace(options, first_decision=False, rows=rows)
    steps: list[DrainedNode] = []
    alone = _by_harm(there, left, options) if len(left) > MOST_TRIED else []
    while left:
        next_alone = _Drain(there, alone.pop(0)) if alone else None
        best = next(_least_first(there, left, options)) if next_alone is None else _planned(next_alone, options)
        left.remove(best.step.name)
        steps.append(best.step)
        if left:
            there = _after(there, best, rows)
    return DrainPlan(nodes=tuple(steps))


def _by_harm(there: Manifests, names: Sequence[str], options: PlanOptions) -> list[str]:
    """The nodes by what each drain alone would do, the least harm first."""
    return [drained.step.name for drained in _least_first(there, names, options)]


def _least_first(there: Manifests, names: Sequence[str], options: PlanOptions) -> Iterator[_Drained]:
    """Drains of one cluster, each alone, the least harm first; each is planned no sooner than it may be the next."""
    waiting: list[tuple[_Harm, str, bool, _Drain | _Drained]] = []
    for name in names:
        drain = _Drain(there, name)
        heapq.heappush(waiting, (_harm(drain.step), name, False, drain))
    while waiting:
        _, name, _, found = heapq.heappop(waiting)
        if isinstance(found, _Drained):
            yield found
        else:
            made = _planned(found, options)
            heapq.heappush(waiting, (_harm(made.step), name, True, made))


class _Drain:
    """The drain of one node of an expanded input. `step`: as if everybody who comes back found a place."""

    def __init__(self, there: Manifests, name: str) -> None:
        self.made = changed(there, [Change("drain", name)])
        moved = [one if one.successor is None else with_fields(one, outcome="Moved") for one in self.made.displaced]
        self.step = _step(name, self.made, moved, self.made.broken)

    @property
    def decides_nothing(self) -> bool:
        """Whether nobody is without a node after it, so that its plan leaves the cluster as it is."""
        made, manifests = self.made, self.made.manifests
        if made.broken or manifests.scenarios or any(manifests.of(kind) for kind in _WITH_CONTROLLERS):
            return False
        names = {loaded.object.name for loaded in manifests.nodes}
        return all(_stays_there(loaded.object, names) for loaded in manifests.pods)


_WITH_CONTROLLERS: Final = (ResourceClaim, ResourceClaimTemplate, PersistentVolume, PersistentVolumeClaim)
"""Kinds that controllers may write to while nothing is decided."""


def _stays_there(pod: Pod, nodes: Set[str]) -> bool:
    """Whether nothing happens to a pod in a plan in which nothing is decided, nor to anything of it."""
    if pod.status.phase in ("Succeeded", "Failed"):
        return True
    moving = pod.metadata.deletion_timestamp is not None or pod.spec.resource_claims
    of_volumes = any(each.persistent_volume_claim or each.ephemeral for each in pod.spec.volumes)
    return pod.spec.node_name in nodes and not moving and not of_volumes


def _planned(drain: _Drain, options: PlanOptions) -> _Drained:
    """The drain with what becomes of those who come back."""
    made = drain.made
    if drain.decides_nothing:
        return _Drained(drain.step, made.manifests)
    start = starts_at(made.manifests.all())
    if options.now is not None:
        start = max(options.now, start)
    witness = _EngineKeeper()
    answer = plan(made.manifests, replace(options, now=start, observer=witness, account=False))
    document = with_changes(answer, made).plan
    step = _step(drain.step.name, made, document.displaced, document.broken_gangs)
    return _Drained(step, made.manifests, start + document.stats.virtual_seconds, witness.engine)


def _step(name: str, made: Changed, displaced: Sequence[DisplacedPod], broken: Sequence[BrokenGang]) -> DrainedNode:
    """`made`: the drain as a change; `displaced`, `broken`: what became of those it displaced, and of their gangs."""
    return DrainedNode(
        name=name,
        displaced=tuple(sorted(displaced, key=lambda one: (one.namespace, one.name))),
        broken_gangs=tuple(broken),
        budgets=tuple(sorted({budget for one in displaced for budget in one.budgets})),
        kubectl_needs=made.made[0].kubectl_needs,
        waiting=sum(one.outcome == "Waiting" for one in displaced),
        lost=sum(one.outcome == "Lost" for one in displaced),
    )


class _EngineKeeper:
    """Keeps the engine of a plan, for the cluster that it leaves."""

    engine: Engine | None = None

    def attach(self, engine: Engine) -> None:
        """Whose decisions these are."""
        self.engine = engine

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """What was decided is in the answer."""


def _after(there: Manifests, drained: _Drained, rows: Rows) -> Manifests:
    """The input as a drain leaves it: who found a place runs there, and counts again for its budgets."""
    made = drained.manifests
    if drained.engine is not None:
        made = afterwards(made, drained.engine, drained.at, rows=rows)
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
    """Pods that count for budgets, by `namespace/name`."""
    pods = (loaded.object for loaded in manifests.pods)
    return {pod.key: pod for pod in pods if is_healthy(pod)}


_Harm = tuple[int, int, int, int, int]


def _harm(step: DrainedNode) -> _Harm:
    """What a drain does, the worst first."""
    return len(step.broken_gangs), len(step.budgets), step.lost, step.waiting, len(step.displaced)


def nodes_named(manifests: Manifests, given: Sequence[str]) -> list[str]:
    """The nodes of names and selectors. Raises InputError for one that meets nothing, and for too many."""
    there = {loaded.object.name for loaded in manifests.nodes}
    found: dict[str, None] = {}
    for text in given:
        try:
            names = (text,) if text in there else changed(manifests, [Change("drain", text)]).made[0].nodes
        except InputError as error:
            raise InputError(Origin("drain-plan"), error.message) from None
        found.update(dict.fromkeys(names))
    if len(found) > MOST_NODES:
        raise InputError(Origin("drain-plan"), f"{len(found)} nodes: at most {MOST_NODES} can be planned at once")
    return list(found)
