"""Why a group still waits although victims were looked for, in sentences: of `explain` and of `plan`.

Invariant: every sentence follows from the decision record (preemption.md 2, scheduling.md 3.9).
"""

from __future__ import annotations

from typing import Final

from reprieve.decisions.phrases import count
from reprieve.decisions.records import FailedPreemption, OrderRecord
from reprieve.plugins.gang_scheduling import RETRY
from reprieve.preemption.outcome import NoRoom

MOST_REASONS: Final = 12

_OUT_OF_THE_QUESTION: Final = {
    NoRoom.POLICY_NEVER.value: "preemptionPolicy Never: it does not push out anybody.",
    NoRoom.UNDER_WAY.value: "Room is being made for it already: its victims are still leaving.",
    NoRoom.BUDGETS.value: "Every eviction that would help violates a PodDisruptionBudget, and its class respects them.",
    NoRoom.ERROR.value: "A plugin failed while victims were looked for.",
}


def in_vain_sentences(found: FailedPreemption, priority: int) -> list[str]:
    """Why no room was made for a group of that priority: the potential victims, and why they did not help."""
    if found.reason in _OUT_OF_THE_QUESTION:
        return [_OUT_OF_THE_QUESTION[found.reason]]
    if found.reason == NoRoom.NO_LOWER_PRIORITY.value:
        if found.lowest_priority is None:
            return ["Nothing runs that could make room."]
        return [f"Nothing that runs has a priority below {priority}: the lowest is {found.lowest_priority}."]
    potential = f"{count(found.potential_victims, 'workload')} ({count(found.pods, 'pod')})"
    gone = f"With all of lower priority gone, {potential},"
    if found.reason == NoRoom.NOTHING_GAINED.value:
        sentences = [f"{gone} no more of its pods would find a place than do without."]
    else:
        sentences = [f"{gone} {found.placed} of its pods would find a place, and {found.needed} must."]
    if found.pod and found.reasons:
        reasons = ", ".join(f"{reason.nodes} {reason.reason}" for reason in found.reasons[:MOST_REASONS])
        sentences.append(f"{found.pod} would find none of {count(found.nodes, 'node')} even then: {reasons}.")
    return sentences


def order_sentence(order: OrderRecord) -> str:
    """Of a gang that nothing but the order of its pods is known to keep from being placed (scheduling.md 3.9)."""
    text = "A placement may exist: pods are tried one after another, and an early one may have taken a later one's room"
    if order.search == RETRY:
        return f"{text}. A few other orders were tried as well, in vain."
    retry = "GangScheduling with treeSearch: Retry tries other orders"
    if order.placed:
        return f"{text}. In another order {count(order.placed, 'pod')} would find a place: {retry}."
    return f"{text}. {retry}."


def time_text(stamp: str) -> str:
    """Return `at 2026-07-01 12:00:00 UTC` of a time in RFC 3339; empty stays empty."""
    return f"at {stamp[:10]} {stamp[11:19]} UTC" if stamp else ""
