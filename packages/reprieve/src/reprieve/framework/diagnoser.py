"""The diagnosis of a pod that fits no node: every filter, in order, on every live row.

Like the views of `reprieve.framework.evaluation`, results are kept by signature and priority, and only rows in the
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
"""Up to this number of rows all filters count as ones that may reject the pod."""


def nominated_pods(cluster: ClusterState, priority: int, rows: Rows) -> list[tuple[int, list[PodRecord]]]:
    """Return rows with unplaced nominated pods of equal or higher priority, and these pods (scheduling.md 2)."""
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
        by_uid = nominated.get(row)
        if by_uid:
            pods = [pod for pod in by_uid.values() if pod.row < 0 and pod.priority >= priority]
            if pods:
                result.append((row, pods))
    return result


@dataclass(frozen=True, slots=True)
class NominatedRows:
    """Rows where nominated pods count, int64[rows] ascending, and the requests of those: int64[columns, rows]."""

    priority: int
    rows: npt.NDArray[np.int64]
    amounts: npt.NDArray[np.int64]

    def only(self, chosen: Mask | slice) -> "NominatedRows":
        """Return a part of the rows: a mask or slice of them."""
        return NominatedRows(self.priority, self.rows[chosen], self.amounts[:, chosen])


def nominated_rows(cluster: ClusterState, priority: int, rows: Rows) -> NominatedRows:
    """Return `nominated_pods` as amounts."""
    nodes = cluster.nodes
    if not nodes.nominated:
        return NominatedRows(priority, _NO_ROWS, np.zeros((len(nodes.used), 0), dtype=np.int64))
    if not isinstance(rows, slice) and len(rows) <= _FEW:
        pods_on = nominated_pods(cluster, priority, np.sort(rows))
        amounts = np.zeros((len(pods_on), len(nodes.used)), dtype=np.int64)
        for sums, (_, pods) in zip(amounts, pods_on, strict=True):
            for pod in pods:
                sums += pod.signature.delta
        return NominatedRows(priority, np.array([row for row, _ in pods_on], dtype=np.int64), amounts.T)
    every = NominatedRows(priority, *nodes.nominated_amounts.held(priority, len(nodes.used)))
    if isinstance(rows, slice) or not len(every.rows):
        return every
    wanted = np.zeros(len(nodes), dtype=np.bool_)
    wanted[rows] = True
    chosen = wanted[every.rows]
    return every if chosen.all() else every.only(chosen)


class RowReasons:
    """The reasons for the rejections of a pod. `codes`: int8[rows]; `texts` and `plugins`: name -> bool[rows]."""

    __slots__ = ("codes", "message", "plugins", "texts")

    def __init__(self, rows: int) -> None:
        self.codes = np.zeros(rows, dtype=np.int8)
        self.texts: dict[str, Mask] = {}
        self.plugins: dict[str, Mask] = {}
        self.message = ""
        """The text of a PreFilter that rejected the pod before any node."""

    def forget(self, rows: npt.NDArray[np.int64]) -> None:
        """Reset these rows."""
        self.codes[rows] = FITS
        for mask in (*self.texts.values(), *self.plugins.values()):
            mask[rows] = False

    def mark(self, table: dict[str, Mask], name: str, rows: npt.NDArray[np.int64]) -> None:
        """Record a text or a plugin for some rows."""
        mask = table.get(name)
        if mask is None:
            mask = table[name] = np.zeros(len(self.codes), dtype=np.bool_)
        mask[rows] = True

    def summary(self, nodes: int) -> Diagnosis:
        """Return the counts per reason, as the message needs them."""
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
    """Runs the filters of one profile for their reasons. `share=False` keeps no results."""

    def __init__(self, cluster: ClusterState, profile: Profile, *, share: bool) -> None:
        self._cluster = cluster
        self._profile = profile
        self._share = share
        self._narrowing = [p for p in profile.filters if type(p).narrowed is not FilterPlugin.narrowed]
        self._kept: dict[tuple[object, ...], tuple[RowReasons, ChangeReader]] = {}

    def diagnose(self, state: CycleState, identity: tuple[object, ...] | None) -> Diagnosis:
        """Return the outcome on all live rows.

        `identity`: equal for pods that get the same result on each row until the row changes; None: share nothing.
        """
        nodes = self._cluster.nodes
        alive = np.flatnonzero(nodes.alive[: len(nodes)])
        if not len(alive):
            # No plugin rejected the pod, so all filters decide whether a new node helps.
            names = {plugin.name for plugin in self._profile.filters}
            return Diagnosis(nodes=0, codes=np.zeros(len(nodes), dtype=np.int8), plugins=names)
        if identity is None or not self._share:
            row_reasons = RowReasons(len(nodes))
            self._inspect(state, alive, row_reasons, apart=self.ruled(state))
            self._ask_extenders(state, alive, row_reasons)
            return row_reasons.summary(len(alive))
        shared, changes = self._kept.pop(identity, (None, self._cluster.changes()))
        recent = changes.take()
        if shared is None or recent is None:
            shared = RowReasons(len(nodes))
            self._inspect(state, alive, shared, apart=False)
        elif recent:
            touched = np.array(sorted(set(recent)), dtype=np.int64)
            shared.forget(touched)
            self._inspect(state, touched[nodes.alive[touched]], shared, apart=False)
        if len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[identity] = (shared, changes)
        return shared.summary(len(alive))

    def diagnose_rows(self, state: CycleState, rows: npt.NDArray[np.int64]) -> Diagnosis:
        """Return the outcome on these live rows alone, as if there were no others; keep nothing."""
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
        self, state: CycleState, rows: npt.NDArray[np.int64], reasons: RowReasons, *, apart: bool, rules: bool = True
    ) -> None:
        """Fill in the rows. A row with nominated pods is filtered first as if they ran there, then without them.

        As upstream (RunFilterPluginsWithNominatedPods), the first pass that fails decides. `apart`: each row is
        filtered with its own nominated pods and no others, which matters only to plugins that look at other rows.
        """
        if rules and self._refused_outright(state, rows, reasons):
            return
        rows = self._narrowed(state, rows, reasons)
        filters = [p for p in self._profile.filters if not p.outside and (rules or p.scope is not Scope.CLUSTER)]
        with_nominated = nominated_rows(self._cluster, state.pod.priority, rows)
        if len(with_nominated.rows):
            self._inspect_nominated(filters, state, with_nominated, reasons, apart=apart)
            rows = rows[reasons.codes[rows] == FITS]
        self._ask_all(filters, state, rows, reasons)

    def _inspect_nominated(
        self,
        filters: Sequence[FilterPlugin],
        state: CycleState,
        with_nominated: NominatedRows,
        reasons: RowReasons,
        *,
        apart: bool,
    ) -> None:
        """Filter rows as if their nominated pods ran there; filters that look at one row get all rows at once."""
        left = with_nominated.rows
        elsewhere = (at for at, plugin in enumerate(filters) if plugin.scope is Scope.CLUSTER)
        first = next(elsewhere, len(filters)) if apart else len(filters)
        filters_asked = filters[:first]
        if len(left) > _FEW:
            filters_asked = [plugin for plugin in filters_asked if _may_reject(plugin, state)]
        with nominated_assumed(self._cluster, with_nominated, filters_asked):
            left = self._ask_all(filters[:first], state, left, reasons)
        for row in left if first < len(filters) else ():
            with nominated_assumed(self._cluster, with_nominated.only(with_nominated.rows == row), filters[first:]):
                self._ask_all(filters[first:], state, np.array([row], dtype=np.int64), reasons)

    def _narrowed(self, state: CycleState, rows: npt.NDArray[np.int64], reasons: RowReasons) -> npt.NDArray[np.int64]:
        """Return the rows that every `FilterPlugin.narrowed` keeps; record the plugins that exclude the others."""
        masks = {}
        for plugin in self._narrowing:
            mask = call_plugin(plugin.name, "PreFilter", plugin.narrowed, state)
            if mask is not None:
                masks[plugin.name] = mask
        if not masks:
            return rows
        out = rows[~np.logical_and.reduce(list(masks.values()))[rows]]
        if len(out):
            reasons.mark(reasons.texts, f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(masks))}]", out)
            for name in masks:
                reasons.mark(reasons.plugins, name, out)
            reasons.codes[out] = UNRESOLVABLE
        left: npt.NDArray[np.int64] = rows[reasons.codes[rows] == FITS]
        return left

    def _refused_outright(self, state: CycleState, rows: npt.NDArray[np.int64], reasons: RowReasons) -> bool:
        """Return whether a PreFilter rejects the pod before any node is filtered: then that is the whole diagnosis."""
        for plugin in self._profile.filters:
            if plugin.outside:
                continue
            status = call_plugin(plugin.name, "PreFilter", plugin.pre_filter, state)
            if not status.ok and status.code is not Code.SKIP:
                reasons.message = status.reason
                reasons.mark(reasons.plugins, plugin.name, rows)
                reasons.codes[rows] = int(status.code)
                return True
        return False

    def _ask_extenders(self, state: CycleState, rows: npt.NDArray[np.int64], reasons: RowReasons) -> None:
        """Filter with the plugins that call outside; they come last, for rows where everything else fits."""
        self._ask_all(self._profile.outside_filters, state, rows[reasons.codes[rows] == FITS], reasons)

    def _ask_all(
        self, plugins: Sequence[FilterPlugin], state: CycleState, left: npt.NDArray[np.int64], reasons: RowReasons
    ) -> npt.NDArray[np.int64]:
        """Run the plugins in order; return the rows that pass them all."""
        for plugin in plugins:
            if not len(left):
                break
            left = self._ask(plugin, state, left, reasons)
        return left

    @staticmethod
    def _ask(
        plugin: FilterPlugin, state: CycleState, left: npt.NDArray[np.int64], reasons: RowReasons
    ) -> npt.NDArray[np.int64]:
        """Run one plugin on the rows that passed so far; return those that still pass."""
        status = call_plugin(plugin.name, "Filter", plugin.pre_filter, state)
        if status.code is Code.SKIP:
            return left
        if not status.ok:
            reasons.message = status.reason
            reasons.mark(reasons.plugins, plugin.name, left)
            reasons.codes[left] = int(status.code)
            return left[:0]
        codes = call_plugin(plugin.name, "Filter", plugin.filter, state, left)
        rejected = codes != FITS
        if not rejected.any():
            return left
        bad = left[rejected]
        for text, mask in call_plugin(plugin.name, "Filter", plugin.reasons, state, bad):
            if mask.any():
                reasons.mark(reasons.texts, text, bad[mask])
        reasons.mark(reasons.plugins, plugin.name, bad)
        reasons.codes[bad] = codes[rejected]
        passed: npt.NDArray[np.int64] = left[~rejected]
        return passed

    def ruled(self, state: CycleState) -> bool:
        """Return whether CLUSTER or outside filters may concern the pod."""
        profile = self._profile
        return any_concerned(profile.cluster_filters, state) or any_concerned(profile.outside_filters, state)

    def likeness(self, state: CycleState) -> tuple[Hashable, ...] | None:
        """Return a key of pods that CLUSTER filters treat alike on rows that do not change; None: share nothing."""
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
    """Return whether any of the filters concerns the pod (`FilterPlugin.concerns`)."""
    for plugin in plugins:  # noqa: SIM110 - runs for every pod of a group: a generator costs as much as the calls
        if call_plugin(plugin.name, "PreFilter", plugin.concerns, state):
            return True
    return False


def _may_reject(plugin: FilterPlugin, state: CycleState) -> bool:
    """Return whether the filter may reject the pod anywhere, according to the pod itself and `concerns`."""
    if plugin.scope is Scope.CLUSTER:
        return call_plugin(plugin.name, "PreFilter", plugin.concerns, state)
    return call_plugin(plugin.name, "PreFilter", plugin.pre_filter, state).code is not Code.SKIP


def nominated_assumed(
    cluster: ClusterState, with_nominated: NominatedRows, filters: Sequence[FilterPlugin]
) -> AbstractContextManager[None]:
    """Return a context in which nominated pods run on their rows; these filters may look only at those rows."""
    if all(plugin.by_amounts or plugin.scope is Scope.STATIC for plugin in filters):
        return cluster.assume_amounts(with_nominated.rows, with_nominated.amounts)
    pods_on = nominated_pods(cluster, with_nominated.priority, with_nominated.rows)
    return cluster.assume_silently([(pod, row) for row, pods in pods_on for pod in pods])
