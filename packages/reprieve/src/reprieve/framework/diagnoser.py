"""Finding out why no node fits: every filter, in order, on every live row.

Like the views of `reprieve.framework.evaluation`, what is found is kept by signature and priority, and only rows in the
touch log since then are filtered again: a stream of identical pods that fit nowhere costs a full pass once.  With
CLUSTER-scope plugins in play nothing is kept.
"""

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reprieve.cluster.changes import ChangeReader
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.plugin import CycleState, FilterPlugin, Mask, Rows, Scope
from reprieve.framework.profile import Profile
from reprieve.framework.status import FITS, UNRESOLVABLE, Code, call_plugin

_NO_ROWS = np.zeros(0, dtype=np.int64)
_KEPT = 128
_FEW = 8
"""For so many rows it is not checked which filters may reject the pod."""


def nominated_pods(cluster: ClusterState, priority: int, rows: Rows) -> list[tuple[int, list[PodRecord]]]:
    """Rows with nominated pods of equal or higher priority that are not placed yet (scheduling.md 2)."""
    nominated = cluster.nodes.nominated
    if not nominated:
        return []
    if isinstance(rows, slice):
        numbers = sorted(nominated)
    elif len(rows) <= len(nominated):
        numbers = [int(row) for row in rows]
    else:
        wanted = np.zeros(len(cluster.nodes), dtype=np.bool_)
        wanted[rows] = True
        numbers = [row for row in sorted(nominated) if wanted[row]]
    result = []
    for row in numbers:
        there = nominated.get(row)
        if there:
            pods = [pod for pod in there.values() if pod.row < 0 and pod.priority >= priority]
            if pods:
                result.append((row, pods))
    return result


@dataclass(frozen=True, slots=True)
class NominatedRows:
    """Rows where nominated pods count, int64[rows] ascending, and what those ask for: int64[columns, rows]."""

    priority: int
    rows: npt.NDArray[np.int64]
    amounts: npt.NDArray[np.int64]

    def only(self, which: Mask | slice) -> "NominatedRows":
        """Some of the rows."""
        return NominatedRows(self.priority, self.rows[which], self.amounts[:, which])


def nominated_rows(cluster: ClusterState, priority: int, rows: Rows) -> NominatedRows:
    """`nominated_pods` in figures."""
    nodes = cluster.nodes
    if not nodes.nominated:
        return NominatedRows(priority, _NO_ROWS, np.zeros((len(nodes.used), 0), dtype=np.int64))
    if not isinstance(rows, slice) and len(rows) <= _FEW:
        there = nominated_pods(cluster, priority, np.sort(rows))
        amounts = np.zeros((len(there), len(nodes.used)), dtype=np.int64)
        for sums, (_, pods) in zip(amounts, there, strict=True):
            for pod in pods:
                sums += pod.signature.delta
        return NominatedRows(priority, np.array([row for row, _ in there], dtype=np.int64), amounts.T)
    every = NominatedRows(priority, *nodes.nominated_amounts.held(priority, len(nodes.used)))
    if isinstance(rows, slice) or not len(every.rows):
        return every
    wanted = np.zeros(len(nodes), dtype=np.bool_)
    wanted[rows] = True
    which = wanted[every.rows]
    return every if which.all() else every.only(which)


class RowReasons:
    """What rejected a pod on each row. `codes`: int8[rows]; `texts` and `plugins`: name -> bool[rows]."""

    __slots__ = ("codes", "message", "plugins", "texts")

    def __init__(self, rows: int) -> None:
        self.codes = np.zeros(rows, dtype=np.int8)
        self.texts: dict[str, Mask] = {}
        self.plugins: dict[str, Mask] = {}
        self.message = ""
        """Set when a PreFilter rejected the pod outright."""

    def forget(self, rows: npt.NDArray[np.int64]) -> None:
        """Nothing is known about these rows any more."""
        self.codes[rows] = FITS
        for mask in (*self.texts.values(), *self.plugins.values()):
            mask[rows] = False

    def mark(self, table: dict[str, Mask], name: str, rows: npt.NDArray[np.int64]) -> None:
        """Note a text or a plugin for some rows."""
        mask = table.get(name)
        if mask is None:
            mask = table[name] = np.zeros(len(self.codes), dtype=np.bool_)
        mask[rows] = True

    def summary(self, nodes: int) -> Diagnosis:
        """Counts per reason, as the message needs them."""
        counts = {text: int(np.count_nonzero(mask)) for text, mask in self.texts.items()}
        rejected = {name: mask.copy() for name, mask in self.plugins.items() if mask.any()}
        return Diagnosis(
            nodes=nodes,
            codes=self.codes.copy(),
            reasons={text: count for text, count in counts.items() if count},
            plugins=set(rejected),
            pre_filter_message=self.message,
            rejected=rejected,
        )


class Diagnoser:
    """Runs the filters of one profile for their reasons. `share=False` keeps nothing."""

    def __init__(self, cluster: ClusterState, profile: Profile, *, share: bool) -> None:
        self._cluster = cluster
        self._profile = profile
        self._share = share
        self._narrowing = [p for p in profile.filters if type(p).narrowed is not FilterPlugin.narrowed]
        self._kept: dict[tuple[object, ...], tuple[RowReasons, ChangeReader]] = {}

    def diagnose(self, state: CycleState, identity: tuple[object, ...] | None) -> Diagnosis:
        """Return the outcome on all live rows; `identity` is equal for pods that are treated alike on a row as long as
        it stays as it is, None: share nothing.
        """
        nodes = self._cluster.nodes
        alive = np.flatnonzero(nodes.alive[: len(nodes)])
        if not len(alive):
            # No plugin rejected the pod, so each that might decides whether a new node helps.
            names = {plugin.name for plugin in self._profile.filters}
            return Diagnosis(nodes=0, codes=np.zeros(len(nodes), dtype=np.int8), plugins=names)
        if identity is None or not self._share:
            row_reasons = RowReasons(len(nodes))
            self._inspect(state, alive, row_reasons, apart=self.ruled(state))
            self._ask_extenders(state, alive, row_reasons)
            return row_reasons.summary(len(alive))
        known, changes = self._kept.pop(identity, (None, self._cluster.changes()))
        recent = changes.take()
        if known is None or recent is None:
            known = RowReasons(len(nodes))
            self._inspect(state, alive, known, apart=False)
        elif recent:
            touched = np.array(sorted(set(recent)), dtype=np.int64)
            known.forget(touched)
            self._inspect(state, touched[nodes.alive[touched]], known, apart=False)
        if len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[identity] = (known, changes)
        return known.summary(len(alive))

    def diagnose_rows(self, state: CycleState, rows: npt.NDArray[np.int64]) -> Diagnosis:
        """Return the outcome on these live rows alone, as if there were no others; nothing is kept."""
        row_reasons = RowReasons(len(self._cluster.nodes))
        self._inspect(state, rows, row_reasons, apart=self.ruled(state))
        self._ask_extenders(state, rows, row_reasons)
        return row_reasons.summary(len(rows))

    def why_not(self, state: CycleState, row: int, *, rules: bool = True) -> tuple[str, tuple[str, ...]]:
        """Return the plugin that rejects the pod on one row, and its reasons; ("", ()) if none does.

        Without `rules` the CLUSTER-scope filters are left out.
        """
        row_reasons = RowReasons(len(self._cluster.nodes))
        self._inspect(state, np.array([row], dtype=np.int64), row_reasons, apart=False, rules=rules)
        return next(iter(row_reasons.plugins), ""), tuple(sorted(row_reasons.texts))

    def _inspect(
        self, state: CycleState, rows: npt.NDArray[np.int64], found: RowReasons, *, apart: bool, rules: bool = True
    ) -> None:
        """Fill in the rows. A row with nominated pods is judged with them running there first, then without.

        That is upstream's order (RunFilterPluginsWithNominatedPods), and the first pass that fails has the word.
        `apart`: each row is filtered with its own nominated pods and no others, which matters only to plugins that
        look at other rows.
        """
        if rules and self._refused_outright(state, rows, found):
            return
        rows = self._narrowed(state, rows, found)
        filters = [p for p in self._profile.filters if not p.outside and (rules or p.scope is not Scope.CLUSTER)]
        with_nominated = nominated_rows(self._cluster, state.pod.priority, rows)
        if len(with_nominated.rows):
            self._inspect_nominated(filters, state, with_nominated, found, apart=apart)
            rows = rows[found.codes[rows] == FITS]
        self._ask_all(filters, state, rows, found)

    def _inspect_nominated(
        self,
        filters: Sequence[FilterPlugin],
        state: CycleState,
        with_nominated: NominatedRows,
        found: RowReasons,
        *,
        apart: bool,
    ) -> None:
        """Rows with nominated pods, as if those were running there; filters that look at one row see all at once."""
        left = with_nominated.rows
        elsewhere = (at for at, plugin in enumerate(filters) if plugin.scope is Scope.CLUSTER)
        first = next(elsewhere, len(filters)) if apart else len(filters)
        asked = filters[:first]
        if len(left) > _FEW:
            asked = [plugin for plugin in asked if _may_reject(plugin, state)]
        with nominated_assumed(self._cluster, with_nominated, asked):
            left = self._ask_all(filters[:first], state, left, found)
        for row in left if first < len(filters) else ():
            with nominated_assumed(self._cluster, with_nominated.only(with_nominated.rows == row), filters[first:]):
                self._ask_all(filters[first:], state, np.array([row], dtype=np.int64), found)

    def _narrowed(self, state: CycleState, rows: npt.NDArray[np.int64], found: RowReasons) -> npt.NDArray[np.int64]:
        """Return the rows that `FilterPlugin.narrowed` leaves over; the others are rejected by all that left any
        out.
        """
        masks = {}
        for plugin in self._narrowing:
            mask = call_plugin(plugin.name, "PreFilter", plugin.narrowed, state)
            if mask is not None:
                masks[plugin.name] = mask
        if not masks:
            return rows
        out = rows[~np.logical_and.reduce(list(masks.values()))[rows]]
        if len(out):
            found.mark(found.texts, f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(masks))}]", out)
            for name in masks:
                found.mark(found.plugins, name, out)
            found.codes[out] = UNRESOLVABLE
        left: npt.NDArray[np.int64] = rows[found.codes[rows] == FITS]
        return left

    def _refused_outright(self, state: CycleState, rows: npt.NDArray[np.int64], found: RowReasons) -> bool:
        """Return whether a filter rejects the pod before any node is filtered: then that is the whole diagnosis."""
        for plugin in self._profile.filters:
            if plugin.outside:
                continue
            status = call_plugin(plugin.name, "PreFilter", plugin.pre_filter, state)
            if not status.ok and status.code is not Code.SKIP:
                found.message = status.reason
                found.mark(found.plugins, plugin.name, rows)
                found.codes[rows] = int(status.code)
                return True
        return False

    def _ask_extenders(self, state: CycleState, rows: npt.NDArray[np.int64], found: RowReasons) -> None:
        """Plugins that ask outside come last, about rows where everything else fits."""
        self._ask_all(self._profile.outside_filters, state, rows[found.codes[rows] == FITS], found)

    def _ask_all(
        self, plugins: Sequence[FilterPlugin], state: CycleState, left: npt.NDArray[np.int64], found: RowReasons
    ) -> npt.NDArray[np.int64]:
        """Ask the plugins in order; returns the rows that pass them all."""
        for plugin in plugins:
            if not len(left):
                break
            left = self._ask(plugin, state, left, found)
        return left

    @staticmethod
    def _ask(
        plugin: FilterPlugin, state: CycleState, left: npt.NDArray[np.int64], found: RowReasons
    ) -> npt.NDArray[np.int64]:
        """Ask one plugin about the rows that passed so far; returns those that still do."""
        status = call_plugin(plugin.name, "Filter", plugin.pre_filter, state)
        if status.code is Code.SKIP:
            return left
        if not status.ok:
            found.message = status.reason
            found.mark(found.plugins, plugin.name, left)
            found.codes[left] = int(status.code)
            return left[:0]
        codes = call_plugin(plugin.name, "Filter", plugin.filter, state, left)
        rejected = codes != FITS
        if not rejected.any():
            return left
        bad = left[rejected]
        for text, mask in call_plugin(plugin.name, "Filter", plugin.reasons, state, bad):
            if mask.any():
                found.mark(found.texts, text, bad[mask])
        found.mark(found.plugins, plugin.name, bad)
        found.codes[bad] = codes[rejected]
        passed: npt.NDArray[np.int64] = left[~rejected]
        return passed

    def ruled(self, state: CycleState) -> bool:
        """Return whether CLUSTER filters may have something to say about the pod."""
        profile = self._profile
        return any_concerned(profile.cluster_filters, state) or any_concerned(profile.outside_filters, state)

    def likeness(self, state: CycleState) -> tuple[Hashable, ...] | None:
        """Return what CLUSTER filters take pods to be alike by on rows that stay as they are; None: nothing."""
        profile = self._profile
        if any_concerned(profile.outside_filters, state):
            return None
        result: list[Hashable] = []
        for plugin in profile.cluster_filters:
            if call_plugin(plugin.name, "PreFilter", plugin.concerns, state):
                ready = call_plugin(plugin.name, "PreFilter", plugin.pre_filter, state).ok
                like = call_plugin(plugin.name, "PreFilter", plugin.likeness, state) if ready else None
                if like is None:
                    return None
                result.append((plugin.name, like))
        return tuple(result)


def any_concerned(plugins: Sequence[FilterPlugin], state: CycleState) -> bool:
    """Return whether any of the filters has something to say about the pod (`FilterPlugin.concerns`)."""
    for plugin in plugins:  # noqa: SIM110 - asked for every pod of a group: a generator costs as much as the answers
        if call_plugin(plugin.name, "PreFilter", plugin.concerns, state):
            return True
    return False


def _may_reject(plugin: FilterPlugin, state: CycleState) -> bool:
    """Return whether the filter may reject the pod anywhere, as far as the pod itself and `concerns` tell."""
    if plugin.scope is Scope.CLUSTER:
        return call_plugin(plugin.name, "PreFilter", plugin.concerns, state)
    return call_plugin(plugin.name, "PreFilter", plugin.pre_filter, state).code is not Code.SKIP


def nominated_assumed(
    cluster: ClusterState, with_nominated: NominatedRows, asked: Sequence[FilterPlugin]
) -> AbstractContextManager[None]:
    """Nominated pods as running on their rows, for these filters to look at exactly those rows and nothing else."""
    if all(plugin.by_amounts or plugin.scope is Scope.STATIC for plugin in asked):
        return cluster.assume_amounts(with_nominated.rows, with_nominated.amounts)
    there = nominated_pods(cluster, with_nominated.priority, with_nominated.rows)
    return cluster.assume_silently([(pod, row) for row, pods in there for pod in pods])
