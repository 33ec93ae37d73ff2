"""Filtering and scoring of all nodes for a pod; identical pods share the work.

For each signature (and priority, which decides which nominations count) a *view* keeps one sortable number per row: -1
where the pod does not fit, else score and name rank folded together so that the best node is one argmax.  After a
change, the touch log lists the rows to evaluate again; a placement therefore costs one row, not a pass over all nodes
(scheduling.md 4).  The result is the same as evaluating everything afresh (property tests compare with
`Evaluator(share=False)`).

CLUSTER-scope plugins, and static scores that differ between nodes and must be normalised over the feasible ones, are
applied when a node is selected.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import Diagnoser, nominated_assumed, nominated_pods, nominated_rows
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.plugin import CycleState, FilterPlugin, Mask, Rows, Scope, Scores, SignPlugin, TieBreaker
from reprieve.framework.profile import Profile, WeightedScore
from reprieve.framework.restart_places import RestartPlaces
from reprieve.framework.status import Code, Status, call_plugin

RANKS = 1 << 22
"""An upper bound of the number of nodes: score * RANKS + reversed name rank orders by score, then name."""
_INFEASIBLE = -1
_FEW = 16
"""Up to this number of rows are looked up one by one."""
_AMOUNTS = 1024
"""The number of kinds of row that are kept for a signature."""


class SignatureView:
    """The results of one signature on every row; see the module docstring."""

    __slots__ = (
        "changes",
        "filters",
        "keys",
        "known",
        "priority",
        "scores",
        "state",
        "static_mask",
        "static_scores",
        "static_total",
    )

    def __init__(self, state: CycleState, priority: int) -> None:
        self.state = state
        self.priority = priority
        self.keys: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.static_mask: Mask = np.empty(0, dtype=np.bool_)
        self.static_scores: list[tuple[WeightedScore, Scores]] = []
        self.static_total: Scores | None = None
        """The sum of static scores that need no normalizing, by row."""
        self.filters: list[FilterPlugin] = []
        self.scores: list[WeightedScore] = []
        self.known: dict[tuple[bytes, bytes], int] | None = None
        """(used, allocatable) of a row -> the score there, or _INFEASIBLE; None if a row has more inputs than these."""
        self.changes = state.cluster.changes()


class NodeConstraintsView:
    """Results of the STATIC plugins that read only a pod's node constraints, on every row, while nodes do not change.

    `mask`: bool[rows], `scores`: int64[rows] by plugin, raw, where they differ between rows.
    """

    __slots__ = ("changes", "key", "mask", "scores")

    def __init__(self, cluster: ClusterState, key: int) -> None:
        self.key = key
        self.changes = cluster.changes()
        self.changes.take()
        self.mask: Mask = np.empty(0, dtype=np.bool_)
        self.scores: dict[str, Scores] = {}


class RuleView:
    """Results of CLUSTER filters for pods that they treat alike. `mask` is valid where `known`: bool[rows]."""

    __slots__ = ("changes", "known", "mask")

    def __init__(self, cluster: ClusterState) -> None:
        self.changes = cluster.changes()
        self.known: Mask = np.empty(0, dtype=np.bool_)
        self.mask: Mask = np.empty(0, dtype=np.bool_)

    def catch_up(self, rows: int) -> None:
        """Forget rows that changed; `rows`: the present number of rows."""
        touched = self.changes.take()
        if touched is None:
            self.known, self.mask = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
        elif touched:
            self.known[touched] = False


class Evaluator:
    """Runs the filters and scores of one profile. `share=False` evaluates everything afresh every time."""

    _VIEWS = 512

    def __init__(self, cluster: ClusterState, profile: Profile, *, share: bool = True, seed: int | None = None) -> None:
        self._cluster = cluster
        self._profile = profile
        self._share = share
        self._seed = seed
        self._views: dict[tuple[object, ...], SignatureView] = {}
        """By identity, least recently used first."""
        self._rule_views: dict[tuple[object, ...], RuleView] = {}
        """By priority and the filters' likeness, least recently used first."""
        self._by_node_constraints: dict[int, NodeConstraintsView] = {}
        """By the node constraints' id, least recently used first."""
        self._signers = profile.at(SignPlugin)
        self._by_pod = [plugin for plugin in profile.static_filters if not plugin.by_node_constraints]
        self._diagnoser = Diagnoser(cluster, profile, share=share)
        self.restarts = RestartPlaces(cluster, self.allowed_nodes)
        self.passes = 0
        """The number of full evaluations of all rows; the bench reports it."""

    @property
    def shares(self) -> bool:
        """Whether results are shared; off only for comparisons (the results are the same)."""
        return self._share

    # -- one attempt -------------------------------------------------------------------------------

    def best_row(
        self,
        state: CycleState,
        ties: TieBreaker | None = None,
        within: npt.NDArray[np.int64] | None = None,
        *,
        ruled: bool = True,
    ) -> int:
        """Return the row for the pod, or NO_ROW; `within`: the only rows allowed (`int64[k]`, ascending).

        Not `ruled`: the caller knows that no CLUSTER filter concerns the pod. The nominated node is tried first;
        otherwise the highest score wins, ties go to the first node by name, or with a seed to a seeded choice
        (scheduling.md 2).  The pod's own nomination must have been lifted by the caller and is passed as
        `state.nominated`.
        """
        view = self.view(state)
        keys = view.keys
        active = self.rules(state) if ruled else []
        outside = self._prepared(self._profile.outside_filters, state) if ruled else []
        nominated = state.nominated
        inside = nominated >= 0 and (within is None or bool((within == nominated).any()))
        if inside and keys[nominated] != _INFEASIBLE:
            rows = self._keeping(state, active, np.array([nominated], dtype=np.int64))
            if len(self._let_through(outside, state, rows)):
                return nominated
        cluster_scores = self._active_cluster_scores(state)
        if not active and not outside and not cluster_scores and not view.static_scores and ties is None:
            if not len(keys):
                return NO_ROW
            row = int(keys.argmax()) if within is None else int(within[keys[within].argmax()])
            if keys[row] == _INFEASIBLE:
                return NO_ROW
            if self._seed is None:
                return row
        feasible = np.flatnonzero(keys != _INFEASIBLE) if within is None else within[keys[within] != _INFEASIBLE]
        feasible = self._let_through(outside, state, self._keeping(state, active, feasible))
        if not len(feasible):
            return NO_ROW
        total = self._totals(state, view, cluster_scores, feasible)
        if ties is not None:
            best = ties.narrow(feasible[total == total.max()])
            return int(best[self._cluster.nodes.rank[best].argmin()])
        if self._seed is not None:
            return self._seeded(self._seed, feasible[total == total.max()], state.pod)
        ranked = total * RANKS - self._cluster.nodes.rank[feasible]
        return int(feasible[ranked.argmax()])

    def _totals(
        self,
        state: CycleState,
        view: SignatureView,
        cluster_scores: Sequence[WeightedScore],
        feasible: npt.NDArray[np.int64],
    ) -> Scores:
        """Return the scores of the feasible rows, normalized among them: `int64[feasible]`."""
        total: Scores = view.keys[feasible] // RANKS
        for weighted, raw in view.static_scores:
            total = total + weighted.weight * self._normalized(weighted, state, raw[feasible])
        for weighted in cluster_scores:
            total = total + weighted.weight * self._normalized(weighted, state, self._score(weighted, state, feasible))
        return total

    def score_at(self, state: CycleState, row: int) -> int:
        """Return the score of a row among the rows that the pod may use in the present view; 0 where it may not run."""
        view = self.view(state)
        feasible = self._keeping(state, self.rules(state), np.flatnonzero(view.keys != _INFEASIBLE))
        at = np.flatnonzero(feasible == row)
        if not len(at):
            return 0
        total = self._totals(state, view, self._active_cluster_scores(state), feasible)
        return int(total[at[0]])

    def fits_row(self, state: CycleState, row: int) -> bool:
        """Return whether the pod passes every filter on one row, both with and without nominated pods."""
        return self.fits_node(state, row) and self.keeps_rules(state, row, self.rules(state))

    def fits_node(self, state: CycleState, row: int) -> bool:
        """Return `fits_row` without the CLUSTER filters: the node and the pods on it alone."""
        return bool(self.view(state).keys[row] != _INFEASIBLE)

    def rules(self, state: CycleState) -> list[FilterPlugin]:
        """Return the CLUSTER filters that concern the pod, prepared for the present view."""
        return self._prepared(self._profile.cluster_filters, state)

    def _prepared(self, plugins: Sequence[FilterPlugin], state: CycleState) -> list[FilterPlugin]:
        active = []
        for plugin in plugins:
            status: Status = call_plugin(plugin.name, "PreFilter", plugin.pre_filter, state)
            if status.code is not Code.SKIP:
                active.append(plugin)
        return active

    def ruled(self, state: CycleState) -> bool:
        """Return whether CLUSTER filters may concern the pod: then only node views are shared."""
        return self._diagnoser.ruled(state)

    def keeps_rules(self, state: CycleState, row: int, active: Sequence[FilterPlugin]) -> bool:
        """Return whether the pod passes these CLUSTER filters, from `rules`, on one row, nominated pods counted."""
        return len(self._keeping(state, active, np.array([row], dtype=np.int64))) > 0

    def broken_rule(
        self, state: CycleState, row: int, active: Sequence[FilterPlugin]
    ) -> tuple[str, tuple[str, ...]] | None:
        """Return the CLUSTER filter that rejects the pod on one row, and its reasons; None if `keeps_rules`."""
        rows = np.array([row], dtype=np.int64)
        for plugin in active:
            if not self._fits(plugin, state, rows)[0]:
                return plugin.name, _texts(plugin, state, rows)
        for _, pods in nominated_pods(self._cluster, state.pod.priority, rows):
            with self._counted(state, active, row, pods):
                for plugin in active:
                    if not self._fits(plugin, state, rows)[0]:
                        return plugin.name, _texts(plugin, state, rows)
        return None

    def broken_by_node(self, state: CycleState, row: int) -> tuple[str, tuple[str, ...]]:
        """Return `why_not` without CLUSTER filters, for a row where `fits_node` is False."""
        return self._diagnoser.why_not(state, row, rules=False)

    def why_not(self, state: CycleState, row: int) -> tuple[str, tuple[str, ...]]:
        """Return the plugin that rejects the pod on one row, and its reasons; ("", ()) if none does."""
        return self._diagnoser.why_not(state, row)

    def diagnose(self, state: CycleState, within: npt.NDArray[np.int64] | None = None) -> Diagnosis:
        """Run every filter in order on every live row, or only on rows `within`; return the reasons."""
        if within is not None:
            return self._diagnoser.diagnose_rows(state, within)
        return self._diagnoser.diagnose(state, self.identity_on_rows(state))

    def identity(self, pod: PodRecord) -> tuple[object, ...] | None:
        """Return a key of pods that all but the CLUSTER-scope plugins treat alike; None: share nothing."""
        if not self._signers:
            return (pod.signature.id, pod.priority)
        fragments = [call_plugin(plugin.name, "Sign", plugin.sign, pod) for plugin in self._signers]
        return None if None in fragments else (pod.signature.id, pod.priority, *fragments)

    def identity_on_rows(self, state: CycleState) -> tuple[object, ...] | None:
        """Return a key of pods that every filter treats alike on each row until it changes; None: share nothing."""
        identity = self.identity(state.pod)
        if identity is None:
            return None
        rules = self._diagnoser.likeness(state)
        return None if rules is None else (*identity, *rules)

    def identity_with_room(self, state: CycleState) -> tuple[object, ...] | None:
        """Return the same for rows with enough free for their requests: the amounts do not count."""
        rules = self._diagnoser.likeness(state) if not self._signers else None
        if rules is None:
            return None
        signature = state.signature
        return (signature.constraints.id, state.pod.priority, signature.extended, *rules)

    def by_rows_alone(self, state: CycleState) -> bool:
        """Return whether the choice among some rows depends on them alone, and is the same for similar pods."""
        if not self._share or self._seed is not None or self.ruled(state) or self.identity(state.pod) is None:
            return False
        return not self._active_cluster_scores(state)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the caches, for the gauges."""
        return {
            "views": len(self._views),
            "rule_masks": len(self._rule_views),
            "node_constraint_masks": len(self._by_node_constraints),
        }

    def allowed_nodes(self, pod: PodRecord) -> Mask:
        """Return `bool[rows]`: live nodes that the pod's node constraints allow, whatever it requests."""
        return self._node_constraints_view(CycleState(self._cluster, pod)).mask

    def usable_nodes(self, state: CycleState) -> Mask:
        """Return `bool[rows]`: live nodes that pass the STATIC filters, whatever runs there; read-only."""
        return self._narrow(self._node_constraints_view(state).mask, self._by_pod, state)

    # -- views -------------------------------------------------------------------------------------

    def view(self, state: CycleState) -> SignatureView:
        """Return the up-to-date view for this pod's signature and priority."""
        key = self.identity(state.pod) if self._share else None
        view = self._views.pop(key, None) if key is not None else None
        if view is None:
            view = SignatureView(CycleState(self._cluster, state.pod), state.pod.priority)
        if key is not None:
            if len(self._views) >= self._VIEWS:
                del self._views[next(iter(self._views))]
            self._views[key] = view
        self._refresh(view)
        return view

    def _refresh(self, view: SignatureView) -> None:
        nodes = self._cluster.nodes
        touched = view.changes.take()
        if touched is None:
            self._rebuild(view)
        elif touched:
            if len(touched) > max(len(nodes) // 4, _FEW):
                self.passes += 1
                self._evaluate(view, slice(0, len(nodes)))
            else:
                few = list(set(touched))
                if len(few) <= _FEW and view.known is not None:
                    self._evaluate_few(view, few, view.known)
                else:
                    self._evaluate(view, np.array(few, dtype=np.int64))

    def _rebuild(self, view: SignatureView) -> None:
        nodes = self._cluster.nodes
        n = len(nodes)
        state, profile = view.state, self._profile
        view.filters = [p for p in profile.node_filters if self._wanted(p, state)]
        view.scores = []
        view.static_scores, view.static_total = [], None
        mask = np.zeros(0, dtype=np.bool_)
        if n:
            shared = self._node_constraints_view(state)
            mask = self._narrow(shared.mask, self._by_pod, state)
            for weighted in profile.scores:
                if weighted.plugin.scope is Scope.NODE:
                    if self._scores(weighted, state):
                        view.scores.append(weighted)
                elif weighted.plugin.scope is Scope.STATIC:
                    raw = shared.scores.get(weighted.plugin.name)
                    if not weighted.plugin.by_node_constraints:
                        raw = self._uneven(weighted, state)
                    if raw is None:
                        continue
                    if weighted.plugin.normalizes:
                        view.static_scores.append((weighted, raw))
                    else:
                        part = weighted.weight * raw
                        view.static_total = part if view.static_total is None else view.static_total + part
        alike = all(p.by_amounts for p in view.filters) and all(w.plugin.by_amounts for w in view.scores)
        view.known = {} if alike and self._share else None
        view.static_mask = mask
        view.keys = np.full(n, _INFEASIBLE, dtype=np.int64)
        if n:
            self._evaluate(view, slice(0, n))
        self.passes += 1

    def _node_constraints_view(self, state: CycleState) -> NodeConstraintsView:
        """Return the results of STATIC plugins that read only a pod's node constraints, shared by such pods."""
        key = state.signature.constraints.nodes.id
        view = self._by_node_constraints.pop(key, None) if self._share else None
        if view is None or view.changes.take() is None:
            view = NodeConstraintsView(self._cluster, key)
            alive = self._cluster.nodes.alive[: len(self._cluster.nodes)].copy()
            view.mask = self._narrow(alive, [p for p in self._profile.static_filters if p.by_node_constraints], state)
            for weighted in self._profile.scores:
                if weighted.plugin.scope is Scope.STATIC and weighted.plugin.by_node_constraints:
                    raw = self._uneven(weighted, state)
                    if raw is not None:
                        view.scores[weighted.plugin.name] = raw
            if len(self._by_node_constraints) >= self._VIEWS:
                del self._by_node_constraints[next(iter(self._by_node_constraints))]
        if self._share:
            self._by_node_constraints[key] = view
        return view

    def _narrow(self, mask: Mask, plugins: Sequence[FilterPlugin], state: CycleState) -> Mask:
        everything = slice(0, len(mask))
        for plugin in plugins:
            if self._wanted(plugin, state):
                mask = mask & self._fits(plugin, state, everything)
        return mask

    def _uneven(self, weighted: WeightedScore, state: CycleState) -> Scores | None:
        """Return the raw scores of all rows; None where all are equal, which cannot decide between nodes."""
        if not len(self._cluster.nodes) or not self._scores(weighted, state):
            return None
        raw = self._score(weighted, state, slice(0, len(self._cluster.nodes)))
        return None if raw.min() == raw.max() else raw

    def _evaluate_few(self, view: SignatureView, rows: Sequence[int], score_of: dict[tuple[bytes, bytes], int]) -> None:
        """Evaluate a few rows: nodes of the same size and usage are computed once."""
        nodes = self._cluster.nodes
        rank = nodes.rank
        missed: list[tuple[int, tuple[bytes, bytes]]] = []
        apart: list[int] = []
        for row in rows:
            if row in nodes.nominated:
                apart.append(row)
            elif view.static_mask[row]:
                amounts = (nodes.used[:, row].tobytes(), nodes.allocatable[:, row].tobytes())
                score = score_of.get(amounts)
                if score is None:
                    missed.append((row, amounts))
                elif score == _INFEASIBLE:
                    view.keys[row] = _INFEASIBLE
                else:
                    extra = 0 if view.static_total is None else int(view.static_total[row])
                    view.keys[row] = (score + extra) * RANKS + RANKS - 1 - int(rank[row])
        if not missed and not apart:
            return
        self._evaluate(view, np.array([*apart, *(row for row, _ in missed)], dtype=np.int64))
        if len(score_of) > _AMOUNTS:
            score_of.clear()
        for row, amounts in missed:
            key = int(view.keys[row])
            extra = 0 if view.static_total is None else int(view.static_total[row])
            score_of[amounts] = key if key == _INFEASIBLE else key // RANKS - extra

    def _evaluate(self, view: SignatureView, rows: Rows) -> None:
        nodes, state = self._cluster.nodes, view.state
        mask = view.static_mask[rows]
        for plugin in view.filters:
            mask = mask & self._fits(plugin, state, rows)
        if len(mask) > _FEW and not mask.all():
            view.keys[rows] = _INFEASIBLE
            rows = np.flatnonzero(mask) if isinstance(rows, slice) else rows[mask]
            if not len(rows):
                return
            mask = mask[mask]
        total: Scores | int = 0 if view.static_total is None else view.static_total[rows]
        for weighted in view.scores:
            total = total + weighted.weight * self._score(weighted, state, rows)
        view.keys[rows] = np.where(mask, total * RANKS + (RANKS - 1 - nodes.rank[rows]), _INFEASIBLE)
        if not view.filters or not nodes.nominated:
            return
        with_nominated = nominated_rows(self._cluster, view.priority, rows)
        with_nominated = with_nominated.only(view.keys[with_nominated.rows] != _INFEASIBLE)
        nominated_on = with_nominated.rows
        if len(nominated_on):
            with nominated_assumed(self._cluster, with_nominated, view.filters):
                mask = np.ones(len(nominated_on), dtype=np.bool_)
                for plugin in view.filters:
                    mask &= self._fits(plugin, state, nominated_on)
            view.keys[nominated_on[~mask]] = _INFEASIBLE

    # -- plugins, with their errors named ----------------------------------------------------------

    def _wanted(self, plugin: FilterPlugin, state: CycleState) -> bool:
        return call_plugin(plugin.name, "PreFilter", plugin.pre_filter, state).code is not Code.SKIP

    def _fits(self, plugin: FilterPlugin, state: CycleState, rows: Rows) -> Mask:
        return call_plugin(plugin.name, "Filter", plugin.fits, state, rows)

    def _scores(self, weighted: WeightedScore, state: CycleState) -> bool:
        return call_plugin(weighted.plugin.name, "PreScore", weighted.plugin.pre_score, state)

    def _score(self, weighted: WeightedScore, state: CycleState, rows: Rows) -> Scores:
        return call_plugin(weighted.plugin.name, "Score", weighted.plugin.score, state, rows)

    def _normalized(self, weighted: WeightedScore, state: CycleState, scores: Scores) -> Scores:
        if not weighted.plugin.normalizes:
            return scores
        return call_plugin(weighted.plugin.name, "NormalizeScore", weighted.plugin.normalize, state, scores)

    def _active_cluster_scores(self, state: CycleState) -> list[WeightedScore]:
        return [weighted for weighted in self._profile.cluster_scores if self._scores(weighted, state)]

    def _let_through(
        self, outside: Sequence[FilterPlugin], state: CycleState, rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the rows that pass the plugins which call outside; each gets the rows that those before it passed."""
        for plugin in outside:
            if len(rows):
                rows = rows[self._fits(plugin, state, rows)]
        return rows

    def _keeping(
        self, state: CycleState, active: Sequence[FilterPlugin], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the rows on which the pod passes these CLUSTER filters, nominated pods counted."""
        return rows[self._cluster_mask(state, active, rows)] if active and len(rows) else rows

    def _cluster_mask(self, state: CycleState, active: Sequence[FilterPlugin], rows: npt.NDArray[np.int64]) -> Mask:
        view = self._rule_view(state, active)
        if view is None:
            return self._judged_by_rules(state, active, rows)
        unknown = rows[~view.known[rows]]
        if len(unknown):
            view.mask[unknown] = self._judged_by_rules(state, active, unknown)
            view.known[unknown] = True
        result: Mask = view.mask[rows]
        return result

    def _rule_view(self, state: CycleState, active: Sequence[FilterPlugin]) -> RuleView | None:
        """Return the view of pods that these filters treat like this one; None if nothing may be shared.

        None also where no pods are nominated: then the filters evaluate all rows at once.
        """
        if not self._share or self._cluster.overlaid or not self._cluster.nodes.nominated:
            return None
        key: tuple[object, ...] = (state.pod.priority,)
        for plugin in active:
            like = call_plugin(plugin.name, "PreFilter", plugin.likeness, state)
            if like is None:
                return None
            key = (*key, plugin.name, like)
        view = self._rule_views.pop(key, None) or RuleView(self._cluster)
        if len(self._rule_views) >= self._VIEWS:
            del self._rule_views[next(iter(self._rule_views))]
        self._rule_views[key] = view
        view.catch_up(len(self._cluster.nodes))
        return view

    def _judged_by_rules(self, state: CycleState, active: Sequence[FilterPlugin], rows: npt.NDArray[np.int64]) -> Mask:
        mask = np.ones(len(rows), dtype=np.bool_)
        for plugin in active:
            mask &= self._fits(plugin, state, rows)
        for row, pods in nominated_pods(self._cluster, state.pod.priority, rows[mask]):
            with self._counted(state, active, row, pods):
                only = np.array([row], dtype=np.int64)
                if not all(bool(self._fits(plugin, state, only)[0]) for plugin in active):
                    mask[rows == row] = False
        return mask

    @contextmanager
    def _counted(
        self, state: CycleState, active: Sequence[FilterPlugin], row: int, pods: Sequence[PodRecord]
    ) -> Iterator[None]:
        """Add nominated pods to the row: in the cluster's view, and in plugins that count added and removed pods."""
        with self._cluster.assume_silently([(pod, row) for pod in pods]):
            for plugin in active:
                for pod in pods:
                    plugin.add_pod(state, pod, row)
            try:
                yield
            finally:
                for plugin in active:
                    for pod in reversed(pods):
                        plugin.remove_pod(state, pod, row)

    def _seeded(self, seed: int, best: npt.NDArray[np.int64], pod: PodRecord) -> int:
        """Return a choice among the best rows that depends on the seed and the pod alone."""
        ordered = best[np.argsort(self._cluster.nodes.rank[best])]
        return int(ordered[_drawn(seed, pod.key) % len(ordered)])


def _texts(plugin: FilterPlugin, state: CycleState, rows: npt.NDArray[np.int64]) -> tuple[str, ...]:
    return call_plugin(
        plugin.name, "Filter", lambda: tuple(sorted(text for text, mask in plugin.reasons(state, rows) if mask[0]))
    )


def _drawn(seed: int, text: str) -> int:
    """Return a number below 2**64 that depends only on the arguments, not on the machine or Python's version."""
    return int.from_bytes(blake2b(f"{seed} {text}".encode(), digest_size=8).digest())
