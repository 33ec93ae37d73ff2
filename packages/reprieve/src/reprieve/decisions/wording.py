"""Sentences about a decision for `explain` and `plan`, one function each.

Invariant: every sentence follows from the decision record (preemption.md 2, scheduling.md 3.9).
"""

from __future__ import annotations

from typing import Final

from reprieve.decisions.phrases import count
from reprieve.decisions.records import FailedPreemption, MemberCounts, OrderRecord
from reprieve.plugins.gang_scheduling import RETRY
from reprieve.preemption.outcome import UnhelpfulReason

MOST_REASONS: Final = 12

_NOT_TRIED: Final = {
    UnhelpfulReason.POLICY_NEVER.value: "preemptionPolicy Never: it does not preempt other pods.",
    UnhelpfulReason.UNDER_WAY.value: "Its earlier victims are still terminating.",
    UnhelpfulReason.BUDGETS.value: (
        "Every eviction that would help violates a PodDisruptionBudget, and its class respects them."
    ),
    UnhelpfulReason.PROTECTED.value: "All running workloads of lower priority are protected from eviction now.",
    UnhelpfulReason.ERROR.value: "A plugin failed during the search for victims.",
}


def tried_together(members: MemberCounts) -> str:
    """Return how many pods of a group fit in an attempt."""
    return f"{members.placed} of {count(members.tried, 'pod')} fit when tried together."


def without_success(failed: FailedPreemption, priority: int) -> list[str]:
    """Return why preemption does not help a group of this priority: the potential victims, and why they do not help."""
    if failed.reason in _NOT_TRIED:
        return [_NOT_TRIED[failed.reason]]
    if failed.reason == UnhelpfulReason.NO_LOWER_PRIORITY.value:
        if failed.lowest_priority is None:
            return ["No running pods could be evicted."]
        return [f"No running pods have a priority below {priority}: the lowest is {failed.lowest_priority}."]
    potential = f"{count(failed.potential_victims, 'workload')}, {count(failed.pods, 'pod')}"
    evicted = f"Even with everything of lower priority evicted ({potential}),"
    if failed.reason == UnhelpfulReason.NOTHING_GAINED.value:
        sentences = [f"{evicted} no more of its pods would fit than now."]
    else:
        sentences = [f"{evicted} only {failed.placed} of its pods would fit; it needs {failed.needed}."]
    if failed.pod and failed.reasons:
        reasons = ", ".join(f"{reason.nodes} {reason.reason}" for reason in failed.reasons[:MOST_REASONS])
        sentences.append(f"Even then, {failed.pod} would fit on 0 of {count(failed.nodes, 'node')}: {reasons}.")
    return sentences


def order_sentence(order: OrderRecord) -> str:
    """Return why a gang may fit if its pods are tried in another order (scheduling.md 3.9)."""
    text = (
        "A placement may exist: pods are tried one after another, and an earlier pod may have taken the node of a "
        "later one"
    )
    if order.search == RETRY:
        return f"{text}. A few other orders were tried as well, without success."
    retry = "GangScheduling with treeSearch: Retry tries other orders"
    if order.placed:
        return f"{text}. In another order {count(order.placed, 'pod')} would fit: {retry}."
    return f"{text}. {retry}."


def time_text(stamp: str) -> str:
    """Return a text like `at 2026-07-01 12:00:00 UTC` for an RFC 3339 time; empty for an empty one."""
    return f"at {stamp[:10]} {stamp[11:19]} UTC" if stamp else ""
