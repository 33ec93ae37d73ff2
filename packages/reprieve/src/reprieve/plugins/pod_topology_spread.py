"""PodTopologySpread: spread similar pods evenly over zones, racks and nodes.

Terms: a *constraint* counts the pods of its selector in the pod's namespace by *domain*, the value of its topology key.
A node is *eligible* for a constraint if it has the topology keys of all constraints and satisfies its inclusion
policies. The *skew* of a node is the count of its domain with the pod, minus the minimum over eligible domains.

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/podtopologyspread):
- DoNotSchedule filters: the skew is at most `maxSkew`. With fewer eligible domains than `minDomains` the minimum is 0.
  Evicting pods cannot help a node without the topology key, but can reduce the skew.
- ScheduleAnyway scores: for each constraint pods in the domain * ln(domains among the candidates + 2) + maxSkew - 1,
  summed and rounded, then reversed over 0..100. For the hostname key each candidate is its own domain.
- Terminating pods do not count. An empty selector counts no pods (but the pod itself matches it).
- Pods without constraints get the default constraints of the configuration, with the selectors of their Services and
  controllers. The built-in defaults also rank nodes without one of their keys.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kube_rules import objects
from kube_rules.selectors import NOTHING, Selector, compile_label_selector
from kube_rules.topology_terms import HOSTNAME, ZONE
from reprieve.cluster.affinity_terms import Matcher, merged_with_keys
from reprieve.cluster.node_affinity_masks import required_mask
from reprieve.cluster.nodes import NodeColumns
from reprieve.cluster.pod_affinity_index import PodAffinityIndex
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.state import ClusterState
from reprieve.cluster.taints import untolerated
from reprieve.framework.events import ClusterEvent, EventKind, Hint, Hints, always
from reprieve.framework.plugin import (
    MAX_NODE_SCORE,
    Codes,
    CycleState,
    FilterPlugin,
    IncrementalFilter,
    Mask,
    Rows,
    Scope,
    ScorePlugin,
    Scores,
    row_count,
)
from reprieve.framework.spread_domains import SpreadDomains
from reprieve.framework.status import SKIP, SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Code, Status

NOT_SPREAD = "node(s) didn't match pod topology spread constraints"
NO_LABEL = NOT_SPREAD + " (missing required label)"
DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"

SYSTEM_DEFAULTS = (
    objects.TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY),
    objects.TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY),
)

Counts = npt.NDArray[np.int64]
_HIGHEST = np.iinfo(np.int64).max
_IGNORED = -1
"""The raw score of a candidate without a topology key."""


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One constraint of a pod. `own`: 1 if the pod itself matches the selector."""

    max_skew: int
    topology_key: str
    matcher: Matcher
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    own: int


class _SpreadDomains:
    """The counts of one constraint. `counts`: by domain, over eligible nodes; `present`: domains with such nodes."""

    __slots__ = ("counts", "eligible", "number", "present")

    def __init__(self, counts: Counts, present: Mask, eligible: Mask) -> None:
        self.counts = counts
        self.present = present
        self.eligible = eligible
        self.number = int(np.count_nonzero(present))

    def least(self, min_domains: int) -> int | None:
        """Return the global minimum; None if no node is eligible."""
        if self.number < min_domains:
            return 0
        return int(self.counts[self.present].min()) if self.number else None


class PodTopologySpread(FilterPlugin, ScorePlugin):
    """Filter and score nodes by topology spread constraints. Default weight 2.

    `defaults` apply to pods without their own; `system` states that they are the built-in ones.
    """

    name = "PodTopologySpread"
    scope: ClassVar[Scope] = Scope.CLUSTER
    incremental: ClassVar[bool] = True
    normalizes: ClassVar[bool] = True

    def __init__(
        self, defaults: Sequence[objects.TopologySpreadConstraint] = SYSTEM_DEFAULTS, *, system: bool = True
    ) -> None:
        self._defaults = tuple(defaults)
        self._system = system
        self._filtering_defaults = any(c.when_unsatisfiable == DO_NOT_SCHEDULE for c in self._defaults)

    # -- filter ------------------------------------------------------------------------------------

    def concerns(self, state: CycleState) -> bool:
        """Return whether the pod has constraints that filter."""
        if not state.signature.spread and not (self._filtering_defaults and state.cluster.default_selectors):
            return False
        return bool(self._constraints(state.cluster, state.pod, DO_NOT_SCHEDULE))

    def pre_filter(self, state: CycleState) -> Status:
        """Count by domain, in the current view."""
        if not self.concerns(state):
            return SKIP
        constraints = self._constraints(state.cluster, state.pod, DO_NOT_SCHEDULE)
        labelled = _labelled(state.cluster, constraints)
        state.data[self.name] = [_domains(state, constraint, labelled) for constraint in constraints]
        return SUCCESS

    def add_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        return self._count(state, pod, row, 1)

    def remove_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        return self._count(state, pod, row, -1)

    def incremental_filter(self, states: Sequence[CycleState], rows: Sequence[int]) -> IncrementalFilter:
        return _IncrementalSpread(self.name, states, rows, [constraint for constraint, _ in self._counted(states[0])])

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`. The first failing constraint decides whether evictions may help."""
        codes = np.zeros(row_count(state.cluster, rows), dtype=np.int8)
        for constraint, counted in self._counted(state):
            node_domains = state.cluster.pod_affinity.domains(constraint.topology_key)[0][rows]
            open_ = codes == 0
            codes[open_ & (node_domains == 0)] = UNRESOLVABLE
            least = counted.least(constraint.min_domains)
            if least is not None:
                skewed = counted.counts[node_domains] + constraint.own - least > constraint.max_skew
                codes[open_ & (node_domains > 0) & skewed] = UNSCHEDULABLE
        return codes

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        codes = self.filter(state, rows)
        return [(NO_LABEL, codes == UNRESOLVABLE), (NOT_SPREAD, codes == UNSCHEDULABLE)]

    def _counted(self, state: CycleState) -> list[tuple[SpreadConstraint, _SpreadDomains]]:
        counted = state.data[self.name]
        assert isinstance(counted, list)
        constraints = self._constraints(state.cluster, state.pod, DO_NOT_SCHEDULE)
        return list(zip(constraints, counted, strict=True))

    def _count(self, state: CycleState, pod: PodRecord, row: int, by: int) -> bool:
        index = state.cluster.pod_affinity
        counts = False
        for constraint, counted in self._counted(state):
            if counted.eligible[row] and index.accepted((constraint.matcher,), pod):
                counted.counts[index.domains(constraint.topology_key)[0][row]] += by
                counts = True
        return counts

    # -- score -------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState) -> bool:
        """Return whether the pod has constraints that score."""
        if not state.signature.spread and not (self._defaults and state.cluster.default_selectors):
            return False
        return bool(self._constraints(state.cluster, state.pod, SCHEDULE_ANYWAY))

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return the weighted counts of each node's domains, before normalizing; `rows` are all candidates."""
        cluster, index = state.cluster, state.cluster.pod_affinity
        constraints = self._constraints(cluster, state.pod, SCHEDULE_ANYWAY)
        all_keys = bool(state.signature.spread) or not self._system
        labelled = _labelled(cluster, constraints) if all_keys else cluster.nodes.alive[: len(cluster.nodes)]
        if not isinstance(rows, slice) and len(rows) == len(labelled):
            rows = slice(0, len(labelled))  # all rows: a slice avoids copies
        candidates = labelled[rows]
        count = int(np.count_nonzero(candidates))
        everywhere = count == len(candidates)
        total = np.zeros(len(candidates), dtype=np.float64)
        for constraint in constraints:
            labels, highest = index.domains(constraint.topology_key)
            domains = _or_empty(cluster, constraint.topology_key, labels)
            pods = index.counts((constraint.matcher,))
            if constraint.topology_key == HOSTNAME:
                part = pods[rows] * math.log(count + 2) + (constraint.max_skew - 1)
            else:
                full = np.flatnonzero(pods)
                full = full[(labelled & _eligible(cluster.nodes, state.signature, constraint))[full]]
                sums = np.bincount(domains[full], weights=pods[full], minlength=highest + 1)
                row_domains = domains[rows]
                candidate_domains = np.zeros(len(sums), dtype=np.bool_)
                candidate_domains[row_domains if everywhere else row_domains[candidates]] = True
                size = int(np.count_nonzero(candidate_domains))
                part = (sums * math.log(size + 2) + (constraint.max_skew - 1))[row_domains]
            if not (everywhere and all_keys):  # else every candidate has the label
                without = labels[rows] == 0
                if without.any():
                    part[without] = 0.0
            total += part
        floor = np.floor(total)
        rounded: Scores = (floor + (total - floor >= 0.5)).astype(np.int64)
        if not everywhere:
            rounded[~candidates] = _IGNORED
        return rounded

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Scale the scores so that the emptiest node gets 100; candidates without the labels get 0."""
        low, high = int(scores.min(initial=_HIGHEST)), int(scores.max(initial=_IGNORED))
        if high == _IGNORED:
            return np.zeros_like(scores)
        ranked = None
        if low == _IGNORED:
            ranked = scores != _IGNORED
            low = int(scores[ranked].min())
        if high == 0:
            high = low = 1
            scores = np.ones_like(scores)
        normalized: Scores = MAX_NODE_SCORE * (high + low - scores) // high
        return normalized if ranked is None else np.where(ranked, normalized, 0)

    # -- constraints -------------------------------------------------------------------------------

    def filtering(self, cluster: ClusterState, pod: PodRecord) -> tuple[SpreadConstraint, ...]:
        """Return the pod's own constraints that filter."""
        return self._constraints(cluster, pod, DO_NOT_SCHEDULE) if pod.signature.spread else ()

    def _constraints(self, cluster: ClusterState, pod: PodRecord, action: str) -> tuple[SpreadConstraint, ...]:
        """Return the pod's constraints of one kind, compiled once per label class, signature and owner."""
        label_class = cluster.pod_affinity.label_class(pod)
        stated = pod.signature.spread
        version = -1 if stated else cluster.default_selectors.version
        key = (self.name, pod.signature.constraints.id if stated else id(self), action, None if stated else pod.owner)
        cached = label_class.memo.get(key)
        if cached is not None and isinstance(cached, tuple) and cached[0] == version:
            result: tuple[SpreadConstraint, ...] = cached[1]
            return result
        if stated:
            result = tuple(_compiled(c, pod, None) for c in stated if c.when_unsatisfiable == action)
        else:
            result = ()
            wanted = [c for c in self._defaults if c.when_unsatisfiable == action]
            selector = (
                cluster.default_selectors.default_selector(pod.namespace, pod.labels, pod.owner) if wanted else None
            )
            if selector is not None:
                result = tuple(_compiled(c, pod, selector) for c in wanted)
        label_class.memo[key] = (version, result)
        return result

    def domains_of_all(self, state: CycleState, pods: Sequence[PodRecord]) -> SpreadDomains | None:
        """See `SpreadCounter.domains_of_all`."""
        if self.pre_filter(state).code is Code.SKIP:
            return None
        counted, index = self._counted(state), state.cluster.pod_affinity
        constraint, domains = counted[0]
        if len(counted) > 1 or not all(index.accepted((constraint.matcher,), pod) for pod in pods):
            return None
        domain_of = index.domains(constraint.topology_key)[0][: len(domains.eligible)]
        return SpreadDomains(
            constraint.max_skew, constraint.min_domains, domains.counts, domains.present, domains.eligible, domain_of
        )

    # -- events ------------------------------------------------------------------------------------

    def events(self) -> Hints:
        """Return the events of pods that the selectors match, and of nodes with the topology labels."""
        counted = self._is_counted
        return {
            EventKind.POD_PLACED: counted,
            EventKind.POD_GONE: counted,
            EventKind.POD_TERMINATING: counted,
            EventKind.POD_RELABELED: _same_namespace,
            EventKind.NODE_ADDED: self._has_the_labels(),
            EventKind.NODE_CHANGED: always,
            EventKind.NODE_REMOVED: always,
            EventKind.SELECTOR_CHANGED: always,
        }

    def _is_counted(self, cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
        changed_pod = event.pod
        if changed_pod is None:
            return True
        return changed_pod.namespace == pod.namespace and any(
            constraint.matcher.selector.matches(changed_pod.labels)
            for constraint in self._constraints(cluster, pod, DO_NOT_SCHEDULE)
        )

    def _has_the_labels(self) -> Hint:
        def hint(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
            labels = cluster.nodes.labels[event.row]
            return all(c.topology_key in labels for c in self._constraints(cluster, pod, DO_NOT_SCHEDULE))

        return hint


class _IncrementalSpread(IncrementalFilter):
    """The initial counts of each pod of a kind, and the later changes, which are equal for all of them."""

    def __init__(
        self, name: str, states: Sequence[CycleState], rows: Sequence[int], constraints: Sequence[SpreadConstraint]
    ) -> None:
        self._name = name
        self._states = states
        self._pod_affinity = states[0].cluster.pod_affinity
        self._constraints = constraints
        self._rows = np.array(rows, dtype=np.int64)
        self._first: list[list[_SpreadDomains]] = []
        for state in states:
            counted = state.data[name]
            assert isinstance(counted, list)
            self._first.append(counted)
        self._counts = [np.stack([first[turn].counts for first in self._first]) for turn in range(len(constraints))]
        """For each constraint int64[pods, highest domain + 1]."""
        self._since: list[Counts] = [np.zeros(counts.shape[1], dtype=np.int64) for counts in self._counts]
        self._counting: dict[int, list[int]] = {}
        """By label class of a placed or removed pod: the indexes of the constraints that select it."""
        self._touched: list[set[int]] = [set() for _ in constraints]

    def count(self, pod: PodRecord, row: int, by: int) -> bool:
        label_class = self._pod_affinity.label_class(pod).id
        turns = self._counting.get(label_class)
        if turns is None:
            turns = [t for t, c in enumerate(self._constraints) if self._pod_affinity.accepted((c.matcher,), pod)]
            self._counting[label_class] = turns
        counts = False
        for turn in turns:
            if self._first[0][turn].eligible[row]:
                domain = int(self._pod_affinity.domains(self._constraints[turn].topology_key)[0][row])
                self._since[turn][domain] += by
                self._touched[turn].add(domain)
                counts = True
        return counts

    def suspects(self) -> Collection[int]:
        """Return the pods in a domain that gained pods and now exceeds the skew."""
        result: set[int] = set()
        for turn, (constraint, touched) in enumerate(zip(self._constraints, self._touched, strict=True)):
            if not touched:
                continue
            pod_domains = self._pod_affinity.domains(constraint.topology_key)[0][self._rows]
            positions = np.flatnonzero(np.isin(pod_domains, list(touched)))
            if len(positions):
                counted = self._first[0][turn]
                counts = self._counts[turn][positions] + self._since[turn]
                own = counts[np.arange(len(positions)), pod_domains[positions]] + constraint.own
                if counted.number < constraint.min_domains or not counted.number:
                    least: Counts | int = 0
                else:
                    least = counts[:, counted.present].min(axis=1)
                result.update(positions[own - least > constraint.max_skew].tolist())
            self._touched[turn] = set()
        return result

    def update_state(self, position: int) -> None:
        self._states[position].data[self._name] = [
            _SpreadDomains(counts[position] + since, first.present, first.eligible)
            for first, counts, since in zip(self._first[position], self._counts, self._since, strict=True)
        ]


def _same_namespace(_cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    return event.pod is None or event.pod.namespace == pod.namespace


def _compiled(stated: objects.TopologySpreadConstraint, pod: PodRecord, default: Selector | None) -> SpreadConstraint:
    if default is not None:
        selector = default
    else:
        selector = compile_label_selector(stated.label_selector)
        selector = merged_with_keys(selector, stated.match_label_keys or (), (), pod.labels)
    counted = NOTHING if selector.everything else selector
    return SpreadConstraint(
        max_skew=stated.max_skew,
        topology_key=stated.topology_key,
        matcher=Matcher(frozenset((pod.namespace,)), NOTHING, counted, staying=True),
        min_domains=stated.min_domains if stated.min_domains is not None else 1,
        honors_affinity=stated.node_affinity_policy != "Ignore",
        honors_taints=stated.node_taints_policy == "Honor",
        own=int(selector.matches(pod.labels)),
    )


def eligible(
    cluster: ClusterState,
    signature: PodSpecSignature,
    constraints: Sequence[SpreadConstraint],
    constraint: SpreadConstraint,
) -> Mask:
    """Return `bool[rows]`: the nodes on which a constraint of a pod with that signature counts pods."""
    return _labelled(cluster, constraints) & _eligible(cluster.nodes, signature, constraint)


def _labelled(cluster: ClusterState, constraints: Sequence[SpreadConstraint]) -> Mask:
    """Return `bool[rows]`: live nodes with the topology keys of all constraints."""
    mask = cluster.nodes.alive[: len(cluster.nodes)].copy()
    for constraint in constraints:
        mask &= cluster.pod_affinity.domains(constraint.topology_key)[0] > 0
    return mask


def _domains(state: CycleState, constraint: SpreadConstraint, labelled: Mask) -> _SpreadDomains:
    index: PodAffinityIndex = state.cluster.pod_affinity
    eligible = labelled & _eligible(state.cluster.nodes, state.signature, constraint)
    counts = index.by_domain(constraint.topology_key, np.where(eligible, index.counts((constraint.matcher,)), 0))
    present = np.zeros(len(counts), dtype=np.bool_)
    present[index.domains(constraint.topology_key)[0][eligible]] = True
    return _SpreadDomains(counts, present, eligible)


def _eligible(nodes: NodeColumns, signature: PodSpecSignature, constraint: SpreadConstraint) -> Mask:
    """Return `bool[rows]`: nodes that satisfy the inclusion policies, cached until a node changes."""
    key = f"PodTopologySpread/{constraint.honors_affinity}/{constraint.honors_taints}"
    version = nodes.version
    cached = signature.constraints.nodes.memo.get(key)
    if isinstance(cached, tuple) and cached[0] == version:
        mask: Mask = cached[1]
        return mask
    mask = np.ones(len(nodes), dtype=np.bool_)
    if constraint.honors_affinity:
        mask &= required_mask(nodes, signature)
    if constraint.honors_taints:
        rejects = np.array([untolerated(signature.tolerations, taints) for taints in nodes.taint_sets], dtype=np.bool_)
        mask &= ~rejects[nodes.taint_set[: len(nodes)]]
    signature.constraints.nodes.memo[key] = (version, mask)
    return mask


def _or_empty(cluster: ClusterState, key: str, domains: Counts) -> Counts:
    """Return the domains for scoring, in which a node without the label has the empty value."""
    empty = cluster.nodes.label_column(key)[1].get("")
    return domains if empty is None else np.where(domains == 0, empty + 1, domains)
