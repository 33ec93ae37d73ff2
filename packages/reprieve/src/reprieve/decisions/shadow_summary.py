"""A shadow report in words, for the text and the page: conclusion, figures side by side, differences."""

from typing import Final

from kube_rules.errors import names_text
from reprieve.decisions.phrases import count, seconds_text, to_the_second
from reprieve.decisions.shadow import (
    FEWER_EVICTED,
    HALF_PLACED,
    MORE_EVICTED,
    STARVED,
    SecondsSpread,
    ShadowDifference,
    ShadowReport,
)

TITLES: Final = {
    HALF_PLACED: "Half placed",
    STARVED: "Pending, although the shadow places it",
    MORE_EVICTED: "More evicted than by the shadow",
    FEWER_EVICTED: "Fewer evicted than by the shadow",
}
MEANINGS: Final = {
    HALF_PLACED: "Some pods of the gang are bound, but fewer than its minimum: they hold capacity and cannot start.",
    STARVED: "The shadow places it, or frees capacity for it; the acting scheduler has not done so in time.",
    MORE_EVICTED: "The acting scheduler evicts more pods for it, or as many with more unsaved GPU work.",
    FEWER_EVICTED: "The shadow would evict more pods for it, or as many with more unsaved GPU work.",
}
"""Title and meaning of each kind of differences."""
ACTING, SHADOW = "acting scheduler", "shadow"


def conclusion(report: ShadowReport) -> str:
    """Return the conclusion in one sentence."""
    period = f"{to_the_second(report.since)} to {to_the_second(report.until)}"
    if not any(report.counts.values()):
        if not report.compared:
            return f"Nothing could be compared yet, {period}."
        return f"No differences: {_compared(report)}, {period}."
    parts = [
        f"{report.counts[kind]} {words}"
        for kind, words in (
            (HALF_PLACED, "half placed"),
            (STARVED, "pending although the shadow places them"),
            (MORE_EVICTED, "with more evictions than by the shadow"),
            (FEWER_EVICTED, "with fewer evictions than by the shadow"),
        )
        if report.counts[kind]
    ]
    total = count(sum(report.counts.values()), "difference")
    return f"{total}, {_compared(report)}, {period}: {', '.join(parts)}."


def evictions_compared(report: ShadowReport) -> str:
    """Return the cost of the evictions of both schedulers in one sentence."""
    acting, shadow = report.acting, report.shadow
    return (
        f"The acting scheduler evicts {count(acting.evicted_pods, 'pod')} and loses {acting.lost_gpu_hours:g} "
        f"GPU-hours, the shadow {count(shadow.evicted_pods, 'pod')} and {shadow.lost_gpu_hours:g}."
    )


def _compared(report: ShadowReport) -> str:
    return "1 pod or gang compared" if report.compared == 1 else f"{report.compared} pods and gangs compared"


def figures(report: ShadowReport) -> list[tuple[str, str, str]]:
    """Return the figures side by side: name, acting scheduler, shadow."""
    acting, shadow = report.acting, report.shadow
    rows = [
        ("pods evicted", str(acting.evicted_pods), str(shadow.evicted_pods)),
        ("GPU-hours lost by evictions", f"{acting.lost_gpu_hours:g}", f"{shadow.lost_gpu_hours:g}"),
        ("GPU-hours held by half-placed gangs", f"{report.held_gpu_hours:g}", "0"),
    ]
    for name, acting_wait, shadow_wait in (
        ("gangs", acting.gang_wait, shadow.gang_wait),
        ("pods", acting.pod_wait, shadow.pod_wait),
    ):
        if acting_wait.count:
            rows.append((f"wait of {name}: median", seconds_text(acting_wait.p50), seconds_text(shadow_wait.p50)))
            rows.append((f"wait of {name}: 90 %", seconds_text(acting_wait.p90), seconds_text(shadow_wait.p90)))
            rows.append((f"wait of {name}: longest", seconds_text(acting_wait.max), seconds_text(shadow_wait.max)))
    return rows


def remarks(report: ShadowReport) -> list[str]:
    """Return remarks needed to interpret the figures."""
    lines = [
        f"Schedulers: {', '.join(report.schedulers)}. A difference counts after {seconds_text(report.hold_seconds)}.",
        f"Placed pods on the shadow's node: {report.same_node}, on another: {report.other_node} (no difference).",
    ]
    if report.other_victims:
        lines.append(f"Other pods evicted at the same cost: {report.other_victims}.")
    missed = report.not_compared
    if any(missed.values()):
        lines.append(
            f"Not compared: {missed.get('ActingFirst', 0)} placed before the shadow had decided, "
            f"{missed.get('Gone', 0)} deleted before both had."
        )
    if report.unassigned_evictions:
        lines.append(f"Evicted for a preemptor that is not known (yet): {count(report.unassigned_evictions, 'pod')}.")
    lines.append(decided(report.decisions))
    return lines


def decided(spread: SecondsSpread) -> str:
    """Return how long the shadow's decisions took."""
    if not spread.count:
        return "The shadow has decided nothing yet."
    took = f"median {spread.p50:.4f} s, 99 % {spread.p99:.4f} s, longest {spread.max:.4f} s"
    return f"The shadow decided {count(spread.count, 'time')}: {took}."


COLUMNS: Final = ("since", "pod or gang", "priority", "for")


def cells_of(difference: ShadowDifference) -> tuple[str, str, str, str]:
    """Return a difference as cells of `COLUMNS`."""
    lasts = seconds_text(difference.seconds) + (" so far" if difference.until is None else "")
    return (to_the_second(difference.since), difference.entity, str(difference.priority), lasts)


def details_of(difference: ShadowDifference) -> list[str]:
    """Return sentences on a difference."""
    lines = [difference.message]
    for scheduler, side in ((ACTING, difference.acting), (SHADOW, difference.shadow)):
        if side.evicted:
            names = names_text(side.evicted, len(side.evicted), side.evicted_pods)
            lines.append(f"{scheduler} evicts {names}: {side.lost_gpu_hours:g} GPU-hours lost")
    if difference.held_gpu_hours:
        lines.append(f"{difference.held_gpu_hours:g} GPU-hours held meanwhile")
    return lines
