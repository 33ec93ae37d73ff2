"""The number of additional nodes that the pending work needs: `capacity --like NODE` (whatif.md 8.8).

The input is planned again with increasing numbers of copies of the node. One copy for each pending pod is the maximum:
pods that still wait need something other than such nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Set
from dataclasses import replace
from typing import Final

from kube_rules import objects
from kube_rules.errors import InputError, Origin
from kube_rules.manifests import Manifests
from kube_rules.requests import resource_list
from kube_rules.versions import DOCUMENT_VERSION
from reprieve.cluster.resources import readable
from reprieve.decisions.outcomes import Document
from reprieve.questions.changes import InputChange, changed
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.plan_inputs import starts_at
from reprieve.simulation.report import ChangeMade, Plan
from reprieve.simulation.report_refusals import REFUSED
from reprieve.simulation.workloads.rows import Rows

MOST_NODES: Final = 1_000
"""The maximum number of copies to try."""
MOST_NAMED: Final = 20

Pod = tuple[str, str]
"""(namespace, name)."""


class NodesNeeded(Document, frozen=True, kw_only=True):
    """The document. `nodes`: the fewest copies of `like` with which `placed` of the pending `pods` are placed.

    No pods are evicted with that number. `node`: the amounts of such a node. `waiting`: the first pods that stay
    pending with any number, as `namespace/name`; `waiting_total`: how many there are.
    """

    api_version: str = DOCUMENT_VERSION
    kind: str = "NodesNeeded"
    changes: tuple[ChangeMade, ...] = ()
    like: str
    nodes: int
    node: dict[str, str]
    pods: int
    placed: int
    waiting: tuple[str, ...] = ()
    waiting_total: int = 0


def nodes_needed(manifests: Manifests, like: str, options: PlanOptions, rows: Rows) -> NodesNeeded:
    """Return how many nodes like this one the pending pods of an expanded input need.

    Raises InputError as a plan does, and for an unknown node.
    """
    model = next((loaded.object for loaded in manifests.nodes if loaded.object.name == like), None)
    if model is None:
        raise InputError(Origin("--like"), f'no node "{like}"')

    def planned(number: int) -> Plan:
        after = manifests
        if number:
            after = changed(manifests, [InputChange("add-nodes", str(number), like)], rows=rows).manifests
        now = max(options.now, starts_at(after.all())) if options.now is not None else None
        return plan(after, replace(options, now=now, first_decision=False, account=False)).plan

    pending = [loaded.object for loaded in manifests.pods if not loaded.object.spec.node_name]
    first = planned(0)
    most = min(MOST_NODES, len(pending))
    least = _waiting(planned(most)) if most else _waiting(first)

    def does(document: Plan) -> bool:
        return len(_waiting(document)) <= len(least) and not document.preemptions

    number = 0
    if not does(first):
        number = min(most, 1 + bisect_left(range(1, most), True, key=lambda copies: does(planned(copies))))
    counted = sum(pod.outcome != REFUSED for pod in first.pods)
    return NodesNeeded(
        like=like,
        nodes=number,
        node=_amounts(model),
        pods=counted,
        placed=counted - len(least),
        waiting=tuple(sorted(f"{namespace}/{name}" for namespace, name in least)[:MOST_NAMED]),
        waiting_total=len(least),
    )


def _waiting(document: Plan) -> Set[Pod]:
    return {(pod.namespace, pod.name) for pod in document.pods if pod.outcome not in ("Scheduled", REFUSED)}


def _amounts(node: objects.Node) -> dict[str, str]:
    amounts = resource_list(node.status.allocatable or {})
    return {name: readable(name, amount) for name, amount in amounts.items() if amount and name != "pods"}
