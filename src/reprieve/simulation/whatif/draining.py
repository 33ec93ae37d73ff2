"""In which order to drain nodes, and what each drain does after those before it (whatif.md 7).

Each drain is of the cluster that the one before has left: whoever found another place runs there, so that a budget
which allows one pod at a time to go is no obstacle to one drain after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from reprieve.api.errors import InputError, Origin
from reprieve.api.loading import Loaded, Manifests
from reprieve.api.objects import Pod, PodDisruptionBudget
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.engine import Engine
from reprieve.simulation.afterwards import afterwards
from reprieve.simulation.controllers.disruption import followed, is_healthy
from reprieve.simulation.plan import PlanOptions, plan, starts_at
from reprieve.simulation.report import BrokenGang, ChangeMade, DisplacedPod, Document
from reprieve.simulation.whatif.changes import Change, changed, with_changes
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
    """A drain that was tried: the input with it, and the engine that planned that."""

    step: DrainedNode
    manifests: Manifests
    start: float
    """When its virtual time began, in seconds since the epoch."""
    seconds: float
    engine: Engine | None = None


def drain_plan(
    manifests: Manifests, nodes: Sequence[str], options: PlanOptions, *, rows: Rows = TABLE, run: Sequence[str] = ()
) -> DrainPlan:
    """The order and what happens in it; `manifests` before its workloads are expanded. Raises InputError."""
    left = sorted(dict.fromkeys(nodes))
    closed = changed(manifests, [Change("cordon", name) for name in left], rows=rows)  # nobody goes where the next is
    there = expand(closed.manifests, rows=rows, run=run).manifests
    options = replace(options, first_decision=False)
    steps: list[DrainedNode] = []
    alone = {name: _drained(there, name, options).step for name in left} if len(left) > MOST_TRIED else {}
    while left:
        if alone:
            best = _drained(there, min(left, key=lambda name: (*_harm(alone[name]), name)), options)
        else:
            best = min(
                (_drained(there, name, options) for name in left), key=lambda one: (*_harm(one.step), one.step.name)
            )
        left.remove(best.step.name)
        steps.append(best.step)
        if left:
            there = _after(there, best)
    return DrainPlan(nodes=tuple(steps))


def _drained(there: Manifests, name: str, options: PlanOptions) -> _Drained:
    """Drain one node of an expanded input."""
    made = changed(there, [Change("drain", name)])
    everything = made.manifests.all()
    start = starts_at(everything) if options.now is None else max(options.now, starts_at(everything))
    witness = _Witness()
    answer = plan(made.manifests, replace(options, now=start, observer=witness))
    document = with_changes(answer, made).plan
    step = DrainedNode(
        name=name,
        displaced=document.displaced,
        broken_gangs=document.broken_gangs,
        budgets=tuple(sorted({budget for one in document.displaced for budget in one.budgets})),
        kubectl_needs=made.made[0].kubectl_needs,
        waiting=sum(one.outcome == "Waiting" for one in document.displaced),
        lost=sum(one.outcome == "Lost" for one in document.displaced),
    )
    return _Drained(step, made.manifests, start, document.stats.virtual_seconds, witness.engine)


class _Witness:
    """Keeps the engine of a plan, for the cluster that it leaves."""

    engine: Engine | None = None

    def attach(self, engine: Engine) -> None:
        """Whose decisions these are."""
        self.engine = engine

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """What was decided is in the answer."""


def _after(there: Manifests, drained: _Drained) -> Manifests:
    """The input as a drain leaves it: who found a place runs there, and counts again for its budgets."""
    assert drained.engine is not None
    made = afterwards(drained.manifests, drained.engine, drained.start + drained.seconds)
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


def _harm(step: DrainedNode) -> tuple[int, int, int, int, int]:
    """What a drain does, the worst first."""
    return len(step.broken_gangs), len(step.budgets), step.lost, step.waiting, len(step.displaced)


def nodes_named(manifests: Manifests, given: Sequence[str]) -> list[str]:
    """The nodes of names and selectors. Raises InputError for one that meets nothing, and for too many."""
    named = [name for text in given for name in changed(manifests, [Change("drain", text)]).made[0].nodes]
    found = list(dict.fromkeys(named))
    if len(found) > MOST_NODES:
        raise InputError(Origin("drain-plan"), f"{len(found)} nodes: at most {MOST_NODES} can be planned at once")
    return found
