"""Preemptions as text, in `plan`, `explain` and the demo: victims and reasons, spared workloads, cost.

Invariant: nothing here reads a clock; the same decision gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from kube_rules.errors import names_text
from reprieve.cli.sections import BUDGET_OVERRULED, Row, Section, Tone
from reprieve.cli.units import UnitSummary, unit_table
from reprieve.decisions.phrases import count, seconds_text
from reprieve.decisions.records import MOST_NAMES, DecisionRecord, PreemptionRecord, UnitRecord
from reprieve.decisions.wording import order_sentence, time_text
from reprieve.preemption.cost import BY_NAME
from reprieve.preemption.outcome import CLUSTER_DOMAIN
from reprieve.simulation.report import PlannedPreemption

MOST_ROWS: Final = 20
"""Rows of one table; the rest is counted. `-o json` lists everything."""
MOST_UNITS: Final = 15
MOST_SPARED: Final = 5
_STATES: Final = {
    "UnderWay": "the victims are being evicted",
    "Done": "every victim was evicted",
}

# -- plan --------------------------------------------------------------------------------------------------------------


def planned_sections(planned: PlannedPreemption) -> list[Section]:
    """Return the section of a preemption in a plan: victims and spared workloads."""
    outcome, record = planned.outcome, planned.record
    amounts: tuple[str, ...] = ()
    for resource, needed in outcome.needed.items():
        before = f" and {planned.free_before} free before" if planned.free_before else ""
        amounts = (f"{outcome.freed[resource]} {resource} freed{before}, {needed} needed.",)
        break
    title = f"Evicted for {outcome.preemptor} (priority {outcome.preemptor.priority}) after {seconds_text(planned.at)}"
    columns, rows = unit_table(unit_summary(unit, planned.evicted_before) for unit in record.evicted)
    shown, more = first_rows(rows)
    notes = (*_domain(planned), *amounts, *_saved(planned), *record.cost_notes, *more)
    return [Section(title, columns, shown, notes, tone=Tone.BAD), _planned_spared(planned)]


def _planned_spared(planned: PlannedPreemption) -> Section:
    record = planned.record
    if not record.reprieved_total:
        return Section("No lower-priority pods could be kept.")
    total = record.reprieved_total
    notes = (f"{planned.protected} of them spared first because a PodDisruptionBudget protects them.",)
    title = f"Spared: {count(total, 'workload')} of lower priority, the most important first"
    return _spared(record, title, notes if planned.protected else ())


def _saved(planned: PlannedPreemption) -> tuple[str, ...]:
    """Return a sentence on how much the search for the cheapest eviction saved."""
    by_score = planned.outcome.by_score
    if by_score is None or not by_score.pods:
        return ()
    units = planned.record.evicted
    evicted, highest = sum(unit.pods for unit in units), max((unit.priority for unit in units), default=None)
    if (evicted, highest or 0) == (by_score.pods, by_score.highest_priority or 0):
        return ()
    freed = next((f" ({amount} {resource})" for resource, amount in planned.outcome.freed.items()), "")
    verb = "is" if evicted == 1 else "are"
    higher = f", of priority up to {by_score.highest_priority}" if by_score.highest_priority != highest else ""
    return (f"{count(evicted, 'pod')}{freed} {verb} evicted; placing by score would evict {by_score.pods}{higher}.",)


def _domain(planned: PlannedPreemption) -> tuple[str, ...]:
    """Return the domain of a group with a topology constraint."""
    outcome = planned.outcome
    if outcome.preemptor.kind != "PodGroup" or outcome.domain == CLUSTER_DOMAIN:
        return ()
    candidates = planned.record.comparison.candidates
    compared_text = f", the cheapest of {candidates} domains" if candidates > 1 else ""
    return (f"The group is placed in {outcome.domain}{compared_text}.",)


def first_rows(rows: Sequence[Row]) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Return the first rows, and a note that counts the others."""
    more = len(rows) - MOST_ROWS
    return tuple(rows[:MOST_ROWS]), (f"... and {more} more (-o json lists them all)",) if more > 0 else ()


# -- the demo ----------------------------------------------------------------------------------------------------------


def decision_sections(preemptor: str, priority: int, preemption: PreemptionRecord) -> list[Section]:
    """Return victims and spared workloads without times: pods of one node and priority together, sorted by name.

    The same decision gives the same text at any time and with any UIDs.
    """
    sections = []
    for title, units, tone in (
        (f"Evicted for {preemptor} (priority {priority})", preemption.evicted, Tone.BAD),
        ("Spared workloads of lower priority", preemption.reprieved, Tone.GOOD),
    ):
        ordered = sorted(units, key=lambda unit: (-unit.priority, unit.kind == "Pod", unit.nodes, natural(unit.unit)))
        columns, rows = unit_table(map(unit_summary, ordered), ages=False)
        shown, notes = first_rows(rows)
        sections.append(Section(title, columns, shown, notes, tone=tone))
    return sections


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts batch-4 before batch-12."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


# -- explain -----------------------------------------------------------------------------------------------------------


def recorded_sections(record: DecisionRecord, *, would: bool, reserved: bool = True) -> list[Section]:
    """Return the victims and spared workloads of a record.

    `would`: it was computed, and nothing is evicted. `reserved`: its preemptor is pending and may need its capacity.
    """
    preemption = record.preemption
    if preemption is None:
        return []
    if preemption.state == "Failed":
        return [_failed(record, preemption)]
    cost = preemption.cost
    verb = "would be evicted" if would else "evicted"
    notes = []
    if not would:
        notes.append(f"Decided {time_text(record.time)}; {_STATES.get(preemption.state, preemption.state)}.")
    if cost.pdb_violations:
        notes.append(f"{count(cost.pdb_violations, 'workload')} evicted although a PodDisruptionBudget forbids it.")
    if cost.running_seconds_lost >= 1:
        notes.append(f"{seconds_text(cost.running_seconds_lost)} of running time is lost, over all pods.")
    notes += comparison_sentences(preemption)
    runner_up = preemption.comparison.runner_up
    over = f"over {runner_up.domain if runner_up is not None else ''}:"
    notes += [text for text in preemption.cost_notes if over not in text]
    notes += _held(preemption, reserved=reserved) if not would else []
    if record.order is not None:
        notes.append(order_sentence(record.order))
    title = f"Preemption: {count(cost.units, 'workload')} ({count(cost.pods, 'pod')}) {verb}"
    sections = [_victims(title, preemption, (), notes)]
    if preemption.reprieved_total:
        spared = count(preemption.reprieved_total, "workload")
        title = f"Spared: {spared} of lower priority; everything still fits with them"
        sections.append(_spared(preemption, title, ()))
    return sections


def _failed(record: DecisionRecord, preemption: PreemptionRecord) -> Section:
    """Return a preemption with failed calls to evict: nothing is reserved, and only evicted pods lost work."""
    cost = preemption.cost
    notes = [f"Decided {time_text(record.time)}; the calls to evict its victims failed: {preemption.error}"]
    if cost.pods:
        notes.append(f"Before that {count(cost.pods, 'pod')} of {count(cost.units, 'workload')} had been evicted.")
        if cost.running_seconds_lost >= 1:
            notes.append(f"{seconds_text(cost.running_seconds_lost)} of running time is lost.")
    else:
        notes.append("No pods were evicted.")
    notes.append("No capacity is reserved for it. It is tried again.")
    title = f"Preemption failed: {count(len(preemption.evicted), 'workload')} to be evicted"
    return _victims(title, preemption, notes, ())


def _victims(title: str, preemption: PreemptionRecord, before: Sequence[str], after: Sequence[str]) -> Section:
    """Return the table of victims; notes `before` and `after` the one that counts the victims that are not shown."""
    columns, rows = unit_table(map(unit_summary, preemption.evicted))
    more = len(rows) - MOST_UNITS
    notes = (*before, *([f"... and {more} more (-o json lists them all)"] if more > 0 else []), *after)
    return Section(title, columns if rows else (), tuple(rows[:MOST_UNITS]), notes, tone=Tone.BAD)


def _held(preemption: PreemptionRecord, *, reserved: bool) -> list[str]:
    """Return for how long capacity is reserved, or how it was released."""
    if not preemption.released and preemption.held_until:
        if not reserved:
            return []
        return [f"Capacity is reserved for it until {time_text(preemption.held_until)[3:]} at the latest."]
    return release_sentences(preemption)


def release_sentences(preemption: PreemptionRecord | None) -> list[str]:
    """Return a sentence for each time that capacity of a preemption was released."""
    return [
        f"The capacity reserved on {names_text(item.nodes, MOST_NAMES, item.nodes_total)} was released "
        f"{time_text(item.time)}: {item.message}."
        for item in (preemption.released if preemption is not None else ())
    ]


def comparison_sentences(preemption: PreemptionRecord) -> list[str]:
    """Return how the domain was chosen, if there was a choice."""
    comparison = preemption.comparison
    if comparison.candidates < 2:
        return []
    text = f"{comparison.candidates} domains would have worked; {comparison.chosen.domain} was chosen"
    runner_up = comparison.runner_up
    if runner_up is None:
        return [f"{text}."]
    if comparison.decided_by in ("", BY_NAME):
        return [f"{text}: as good as {runner_up.domain}, and first by name."]
    values = f" ({comparison.values[0]} against {comparison.values[1]})" if len(comparison.values) == 2 else ""
    return [f"{text} over {runner_up.domain}: {comparison.decided_by}{values}."]


# -- units -------------------------------------------------------------------------------------------------------------


def _spared(preemption: PreemptionRecord, title: str, notes: Sequence[str]) -> Section:
    """Return the first spared units and the number of the others."""
    columns, rows = unit_table(map(unit_summary, preemption.reprieved[:MOST_SPARED]), together=False)
    more = preemption.reprieved_total - len(rows)
    counted = (f"... and {more} more",) if more > 0 else ()
    return Section(title, columns, tuple(Row(row.cells) for row in rows), (*counted, *notes), tone=Tone.GOOD)


def unit_summary(unit: UnitRecord, evicted_before: Iterable[str] = ()) -> UnitSummary:
    """Return the row of a unit, with lines on why it is evicted or spared first."""
    below = []
    if unit.outcome == "Reprieved":
        below += ["spared first because a PodDisruptionBudget protects them"] if unit.violates_pdb else []
    elif unit.reason:
        below += [f"why: {unit.reason}"] + [BUDGET_OVERRULED] * unit.violates_pdb
        below += ["already being evicted for an earlier preemptor; this one takes its capacity"] * (
            unit.unit in evicted_before
        )
    kind = {"PodGroup": "group", "CompositePodGroup": "tree"}.get(unit.kind, "pod")
    total = unit.nodes_total or len(unit.nodes)
    ran = unit.running_seconds
    return UnitSummary(kind, unit.unit, unit.pods, unit.nodes, total, unit.priority, ran, tuple(below))
