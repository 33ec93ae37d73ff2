"""Reprieve: spare every potential victim that can stay (preemption.md 3.3-3.5, 4.3).

Called inside a trial in which all potential victims are displaced and the preemptor's pods are *not* placed.  Units are
put back one by one - those that violate a budget first, each class from the most important down - and kept if every
assigned pod still passes every filter on its row, in scheduling order, each with the assigned pods before it and none
after. A unit comes back as a whole or not at all.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import insufficient
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import any_concerned, nominated_rows
from reprieve.framework.plugin import CycleState, FilterPlugin
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import call_plugin
from reprieve.preemption.free_resources import RESOURCES_PLUGIN, FreeResources, only_resources
from reprieve.preemption.incremental_filters import IncrementalFilters
from reprieve.preemption.order import RankedUnits, Ranking
from reprieve.preemption.outcome import MissingAmount, Reason, Verdict, scarcest_first
from reprieve.preemption.units import PreemptionUnit


def reasons_to_go(
    running: RunningProfile,
    ranking: Ranking,
    assigned: Sequence[tuple[PodRecord, int]],
    priority: int,
    *,
    plain: bool = False,
) -> dict[int, Reason]:
    """Decide every unit of a ranking; return index -> reason of the evicted ones.

    `plain` forces the path that calls the filters, which is also used if more than resources matters. Afterwards the
    spared units are placed in the trial only on the plain path; callers leave the trial anyway.
    """
    cluster, order = running.cluster, ranking.order
    seats = [(CycleState(cluster, pod), row) for pod, row in assigned]
    if not plain and only_resources(running.profile, [state for state, _ in seats]):
        # A unit without pods on assigned rows takes no capacity from them.
        room = FreeResources.after(cluster, assigned, priority=priority)
        order = ranking.on(room.left)
        reasons = _by_numbers(cluster, ranking.ordered, order, assigned, room)
    else:
        rules = None if plain else IncrementalFilters.counted(running, seats)
        if rules is not None:
            reasons = _by_rules(running, ranking, seats, rules)
        else:
            filters = running.profile.cluster_filters
            everywhere = bool(filters) if plain else any(_reaches_far(filters, state) for state, _ in seats)
            reasons = _by_filters(running, ranking, seats, everywhere=everywhere)
        _count_what_is_missing(running, ranking, assigned, priority, reasons)
    return {index: reason for index in order if (reason := reasons[index]) is not None}


def _reaches_far(filters: Sequence[FilterPlugin], state: CycleState) -> bool:
    """Return whether pods on one row may matter to a pod on another."""
    far = (p for p in filters if any_concerned([p], state))
    return any(not call_plugin(plugin.name, "PreFilter", plugin.local, state) for plugin in far)


def verdicts_of(ranking: Ranking, reasons: Mapping[int, Reason]) -> tuple[Verdict, ...]:
    """Return the verdict on every unit, in importance order."""
    return tuple(
        Verdict(unit, violates, reasons.get(index))
        for index, (unit, violates) in enumerate(zip(ranking.ordered, ranking.violations, strict=True))
    )


def judge(
    running: RunningProfile,
    ranking: Ranking,
    assigned: Sequence[tuple[PodRecord, int]],
    priority: int,
    *,
    plain: bool = False,
) -> tuple[Verdict, ...]:
    """Decide every unit; return the verdicts in importance order. See `reasons_to_go`."""
    return verdicts_of(ranking, reasons_to_go(running, ranking, assigned, priority, plain=plain))


def judge_by_numbers(
    cluster: ClusterState, ordered: RankedUnits, assigned: Sequence[tuple[PodRecord, int]], room: FreeResources
) -> tuple[Verdict, ...]:
    """Judge units if only resources matter; `room`: free capacity without all units and with all assigned pods."""
    units, violations, order = ordered
    return _verdicts(units, violations, _by_numbers(cluster, units, order, assigned, room))


def _verdicts(
    units: Sequence[PreemptionUnit], violations: Sequence[bool], reasons: Sequence[Reason | None]
) -> tuple[Verdict, ...]:
    return tuple(Verdict(*item) for item in zip(units, violations, reasons, strict=True))


def _by_numbers(
    cluster: ClusterState,
    units: Sequence[PreemptionUnit],
    order: Sequence[int],
    assigned: Sequence[tuple[PodRecord, int]],
    room: FreeResources,
) -> list[Reason | None]:
    judged = [(index, room.shortage(units[index].pods, units[index].rows)) for index in order]
    last_asking, requested_on = _last_asking(assigned), _asked(assigned)
    reasons: list[Reason | None] = [None] * len(units)
    texts: dict[tuple[tuple[int, int, int], ...], tuple[str, tuple[MissingAmount, ...]]] = {}
    for index, short in judged:
        if short is not None:
            row = short[0]
            # Counted beside all units that stay, also those judged later.
            lacking = room.shortage_on(row, units[index].pods, units[index].rows)
            requested = requested_on[row]
            key = tuple([(column, amount, max(1, requested[column])) for column, amount in lacking])
            if key not in texts:  # identical pods lack the same amounts on many rows
                texts[key] = _shortage_text(cluster, key)
            text, missing = texts[key]
            pod = last_asking[row, cluster.resources.column(missing[0].resource)]
            reasons[index] = Reason(pod, row, RESOURCES_PLUGIN, text, missing)
    return reasons


def _count_what_is_missing(
    running: RunningProfile,
    ranking: Ranking,
    assigned: Sequence[tuple[PodRecord, int]],
    priority: int,
    reasons: list[Reason | None],
) -> None:
    """Count the shortages of evicted units beside all units that stay: earlier judgements counted fewer of them.

    Called in the view after the filters: units that stay are placed, assigned pods are not.
    """
    lacking = [index for index, reason in enumerate(reasons) if reason is not None and reason.missing]
    fit = next((plugin for plugin in running.profile.node_filters if plugin.name == RESOURCES_PLUGIN), None)
    if not lacking or fit is None or not fit.checks_everything:
        return
    room = FreeResources.after(running.cluster, assigned, priority=priority)
    requested = _asked(assigned)
    for index in lacking:
        reason, unit = reasons[index], ranking.ordered[index]
        short = room.shortage_on(reason.row, unit.pods, unit.rows) if reason is not None else ()
        if reason is not None and short:
            key = [(column, amount, max(1, requested[reason.row][column])) for column, amount in short]
            reasons[index] = replace(reason, missing=_shortage_text(running.cluster, key)[1])


def _shortage_text(
    cluster: ClusterState, lacking: Sequence[tuple[int, int, int]]
) -> tuple[str, tuple[MissingAmount, ...]]:
    """Return the message for missing amounts, given (column, amount, request) of each, and the same as data."""
    names = cluster.resources.names
    missing = scarcest_first(MissingAmount(names[column], amount, request) for column, amount, request in lacking)
    return ", ".join(insufficient(item.resource) for item in missing), missing


def _asked(assigned: Sequence[tuple[PodRecord, int]]) -> dict[int, Counter[int]]:
    """Return the requests of assigned pods by row and column."""
    requested: dict[int, Counter[int]] = {}
    for pod, row in assigned:
        on_row = requested.setdefault(row, Counter())
        for column, amount in pod.signature.requests:
            on_row[column] += amount
    return requested


def _missing(cluster: ClusterState, plugin: str, pod: PodRecord, row: int) -> tuple[MissingAmount, ...]:
    """Return the amounts that one pod lacks on a row in the present view beside nominated pods."""
    if plugin != RESOURCES_PLUGIN:
        return ()
    nodes, names = cluster.nodes, cluster.resources.names
    nominated = nominated_rows(cluster, pod.priority, np.array([row], dtype=np.int64)).amounts.sum(axis=1)
    free = {
        column: int(nodes.allocatable[column, row] - nodes.used[column, row] - nominated[column])
        for column, _ in pod.signature.requests
    }
    return scarcest_first(
        MissingAmount(names[column], amount - free[column], amount)
        for column, amount in pod.signature.requests
        if amount > free[column]
    )


def _last_asking(assigned: Sequence[tuple[PodRecord, int]]) -> dict[tuple[int, int], PodRecord]:
    """Return for each row and column the last assigned pod that requests the resource: the one that would not fit."""
    last = {}
    for pod, row in assigned:
        for column, _ in pod.signature.requests:
            last[row, column] = pod
    return last


_Seat = tuple[CycleState, int]
"""An assigned pod, and the row it is assigned to."""


def _by_rules(
    running: RunningProfile, ranking: Ranking, assigned: Sequence[_Seat], rules: IncrementalFilters
) -> list[Reason | None]:
    """Check only the unit's rows, and the pods with rules that it may break."""
    cluster = running.cluster
    reasons: list[Reason | None] = [None] * len(ranking.ordered)
    by_row: dict[int, list[int]] = {}
    for index, (_, row) in enumerate(assigned):
        by_row.setdefault(row, []).append(index)
    for index in ranking.order:
        unit = ranking.ordered[index]
        for pod, row in zip(unit.pods, unit.rows, strict=True):
            cluster.place(pod, row)
        suspects = rules.add(unit)
        affected = {i for row in set(unit.rows) for i in by_row.get(row, ())}
        with cluster.trial():
            for i in sorted(suspects | affected):
                active = rules.of(i) if i in suspects else ()
                state, row = assigned[i]
                reason = _misfit(running, (state, row), active, on_row=i in affected)
                if reason is not None:
                    reasons[index] = reason
                    break
                if i in affected:
                    cluster.place(state.pod, row)
        if reasons[index] is not None:
            rules.remove(unit)
            for pod in reversed(unit.pods):
                cluster.displace(pod)
    return reasons


def _misfit(running: RunningProfile, seat: _Seat, active: Sequence[FilterPlugin], *, on_row: bool) -> Reason | None:
    """Return why one assigned pod no longer passes; `active`: its rules, as counted; `on_row`: its row changed."""
    evaluator = running.evaluator
    state, row = seat
    pod = state.pod
    if on_row and not evaluator.fits_node(state, row):
        plugin, texts = evaluator.broken_by_node(state, row)
        return Reason(pod, row, plugin, ", ".join(texts), _missing(running.cluster, plugin, pod, row))
    broken = evaluator.broken_rule(state, row, active) if active else None
    return None if broken is None else Reason(pod, row, broken[0], ", ".join(broken[1]))


def _by_filters(
    running: RunningProfile, ranking: Ranking, assigned: Sequence[_Seat], *, everywhere: bool
) -> list[Reason | None]:
    """Judge units by the reference path: call every filter of every assigned pod again for every unit."""
    cluster = running.cluster
    reasons: list[Reason | None] = [None] * len(ranking.ordered)
    for index in ranking.order:
        unit = ranking.ordered[index]
        for pod, row in zip(unit.pods, unit.rows, strict=True):
            cluster.place(pod, row)
        affected = None if everywhere else set(unit.rows)
        reason = _first_misfit(running, assigned, affected)
        if reason is not None:
            reasons[index] = reason
            for pod in reversed(unit.pods):
                cluster.displace(pod)
    return reasons


def _first_misfit(running: RunningProfile, assigned: Sequence[_Seat], affected: set[int] | None) -> Reason | None:
    """Return the first assigned pod, in scheduling order, that no longer passes; only rows in `affected` if given."""
    cluster, evaluator = running.cluster, running.evaluator
    checked = [seat for seat in assigned if affected is None or seat[1] in affected]
    with cluster.trial() if len(checked) > 1 else nullcontext():
        for turn, (state, row) in enumerate(checked, 1):
            pod = state.pod
            if not evaluator.fits_row(state, row):
                plugin, texts = evaluator.why_not(state, row)
                return Reason(pod, row, plugin, ", ".join(texts), _missing(cluster, plugin, pod, row))
            if turn < len(checked):
                cluster.place(pod, row)
    return None
