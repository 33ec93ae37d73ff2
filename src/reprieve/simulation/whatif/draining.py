"""In which order to drain nodes, and what each drain does after those before it (whatif.md 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from reprieve.api.errors import InputError, Origin
from reprieve.api.loading import Manifests
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import BrokenGang, ChangeMade, DisplacedPod, Document, Plan
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


def drain_plan(
    manifests: Manifests, nodes: Sequence[str], options: PlanOptions, *, rows: Rows = TABLE, run: Sequence[str] = ()
) -> DrainPlan:
    """The order and what happens in it; `manifests` before its workloads are expanded. Raises InputError."""

    def after(order: Sequence[str]) -> Plan:
        closed = [Change("cordon", name) for name in nodes]  # nobody goes where the next drain is
        made = changed(manifests, [*closed, *(Change("drain", name) for name in order)], rows=rows)
        answer = plan(expand(made.manifests, rows=rows, run=run).manifests, replace(options, first_decision=False))
        return with_changes(answer, made).plan

    left = sorted(dict.fromkeys(nodes))
    order: list[str] = []
    steps: list[DrainedNode] = []
    alone = {name: _step(name, after([name])) for name in left} if len(left) > MOST_TRIED else {}
    while left:
        tried = alone or {name: _step(name, after([*order, name])) for name in left}
        best = min(left, key=lambda name: (*_harm(tried[name]), name))
        left.remove(best)
        order.append(best)
        steps.append(tried[best] if not alone else _step(best, after(order)))
    return DrainPlan(nodes=tuple(steps))


def _step(name: str, document: Plan) -> DrainedNode:
    change = f"--drain {name}"
    displaced = tuple(one for one in document.displaced if one.change == change)
    groups = {(one.namespace, one.pod_group) for one in displaced}
    return DrainedNode(
        name=name,
        displaced=displaced,
        broken_gangs=tuple(one for one in document.broken_gangs if (one.namespace, one.name) in groups),
        budgets=tuple(sorted({budget for one in displaced for budget in one.budgets})),
        waiting=sum(one.outcome == "Waiting" for one in displaced),
        lost=sum(one.outcome == "Lost" for one in displaced),
    )


def _harm(step: DrainedNode) -> tuple[int, int, int, int, int]:
    """What a drain does, the worst first."""
    return len(step.broken_gangs), len(step.budgets), step.lost, step.waiting, len(step.displaced)


def nodes_named(manifests: Manifests, given: Sequence[str]) -> list[str]:
    """The nodes of names and selectors. Raises InputError for one that meets nothing, and for too many."""
    found = [name for text in given for name in changed(manifests, [Change("drain", text)]).made[0].nodes]
    if len(found) > MOST_NODES:
        raise InputError(Origin("drain-plan"), f"{len(found)} nodes: at most {MOST_NODES} can be planned at once")
    return found
