"""Plans of one question side by side: placed, evicted and pending workloads of each, and the cost (whatif.md 10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kube_rules.versions import DOCUMENT_VERSION
from reprieve.decisions.attempts import EVICTED
from reprieve.decisions.outcomes import Document
from reprieve.simulation.report import ChangeMade, Plan, PodOutcome

RUNS = "Runs"


class Variant(Document, frozen=True, kw_only=True):
    """The figures of one plan: pods placed, waiting and evicted, work lost, units evicted in violation of a budget."""

    name: str
    placed: int
    waiting: int
    evicted: int
    lost_gpu_hours: float
    lost_cpu_hours: float
    pdb_violations: int


class ComparisonRow(Document, frozen=True, kw_only=True):
    """A pod, a gang or a running unit, and its outcomes in the order of the variants."""

    kind: str
    namespace: str
    name: str
    outcomes: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Return whether the outcomes differ."""
        return len(set(self.outcomes)) > 1


class PlanComparison(Document, frozen=True, kw_only=True):
    """The document."""

    api_version: str = DOCUMENT_VERSION
    kind: str = "PlanComparison"
    changes: tuple[ChangeMade, ...] = ()
    variants: tuple[Variant, ...] = ()
    rows: tuple[ComparisonRow, ...] = ()


def compared(plans: Sequence[tuple[str, Plan]], *, only_different: bool = False) -> PlanComparison:
    """Return the plans side by side; with `only_different` only the rows that differ."""
    of_plans = [_outcomes(document) for _, document in plans]
    keys = sorted({key for outcomes in of_plans for key in outcomes})
    rows = []
    for key in keys:
        ran = any(outcomes.get(key) == EVICTED for outcomes in of_plans)
        unit_outcomes = tuple(outcomes.get(key, RUNS if ran else "") for outcomes in of_plans)
        rows.append(ComparisonRow(kind=key[0], namespace=key[1], name=key[2], outcomes=unit_outcomes))
    shown_rows = tuple(row for row in rows if row.differs or not only_different)
    changes = plans[0][1].changes if plans else ()
    return PlanComparison(changes=changes, variants=tuple(_variant(*plan) for plan in plans), rows=shown_rows)


def _variant(name: str, document: Plan) -> Variant:
    outcomes = Counter(pod.outcome for pod in document.asked_pods)
    victims = {(victim.namespace, victim.name) for p in document.asked_preemptions for victim in p.victims}
    costs = [p.cost for p in document.asked_preemptions if p.cost is not None]
    return Variant(
        name=name,
        placed=outcomes["Scheduled"],
        waiting=len(document.asked_pods) - outcomes["Scheduled"],
        evicted=len(victims),
        lost_gpu_hours=round(sum(cost.lost_gpu_hours for cost in costs), 3),
        lost_cpu_hours=round(sum(cost.lost_cpu_hours for cost in costs), 3),
        pdb_violations=sum(p.pdb_violations for p in document.asked_preemptions),
    )


def _outcomes(document: Plan) -> dict[tuple[str, str, str], str]:
    """Return the outcomes of pending pods and gangs, and of evicted units."""
    members: dict[tuple[str, str], list[PodOutcome]] = {}
    result: dict[tuple[str, str, str], str] = {}
    for pod in document.asked_pods:
        if pod.pod_group is None:
            result["Pod", pod.namespace, pod.name] = f"{pod.outcome} {pod.node_name or ''}".strip()
        else:
            members.setdefault((pod.namespace, pod.pod_group), []).append(pod)
    for (namespace, name), pods in members.items():
        nodes = Counter(pod.node_name for pod in pods if pod.node_name is not None)
        placed = sum(nodes.values())
        where = f" on {', '.join(sorted(nodes)[:3])}{' ...' if len(nodes) > 3 else ''}" if placed else ""
        outcome = "Scheduled" if placed == len(pods) else next(pod.outcome for pod in pods if pod.node_name is None)
        result["PodGroup", namespace, name] = f"{outcome} {placed}/{len(pods)}{where}"
    for preemption in document.asked_preemptions:
        for victim in preemption.victims:
            namespace, _, name = victim.unit.partition("/")
            kind = "Pod" if name == victim.name and victim.pod_group != name else "PodGroup"
            result.setdefault((kind, namespace, name), EVICTED)
    return result
