"""InterPodAffinity: place pods by the pods that run in the same topology domain.

Both directions count: the pod's terms about running pods, and their terms about it. All counts are by *domain*, the
value of a topology label: a filter looks up the node's values in arrays by domain.

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/interpodaffinity):
- Required affinity: only pods that match *all* terms count. The node must have every topology label, and for every
  term its domain must have such a pod. A pod that matches its own terms passes if no pod matches anywhere, as the
  first of a series.
- Required anti-affinity: the node's domain of a term must have no matching pod. The same applies to the required
  anti-affinity terms of running pods that match this pod.
- Evicting pods cannot satisfy failing affinity, but can satisfy failing anti-affinity.
- Score: the sum of the weights of matching preferred terms of both sides, with anti-affinity negative. The required
  affinity terms of running pods count with `hardPodAffinityWeight`. The lowest sum scales to 0, the highest to 100.

Arrays by domain are `int64[highest domain + 1]`; entry 0 stands for nodes without the label and stays 0.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from reprieve.cluster.affinity_terms import TermKind, TermSpec
from reprieve.cluster.label_classes import ExistingTerm
from reprieve.cluster.pod_affinity_index import PodAffinityIndex
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind, Hints, always
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
from reprieve.framework.status import SKIP, SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Status

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

Counts = npt.NDArray[np.int64]
_AFFINITY, _ANTI, _EXISTING = range(3)
_REQUIRED = (TermKind.REQUIRED_AFFINITY, TermKind.REQUIRED_ANTI_AFFINITY)
_PREFERRED = {TermKind.PREFERRED_AFFINITY: 1, TermKind.PREFERRED_ANTI_AFFINITY: -1}
_FEW_TERMS = 64
"""The maximum number of terms of a pod that are counted one by one."""


@dataclass(slots=True)
class _TermCounts:
    """The counts for one pod's rules. Keys of the dicts are topology labels, values arrays by domain.

    `affinity` counts pods that match all required affinity terms, `anti` pods that match a required anti-affinity term
    (once for each term), `existing` pods with a required anti-affinity term that matches this pod. `of_series`: the pod
    matches its own affinity terms.
    """

    affinity_terms: tuple[TermSpec, ...]
    anti_terms: tuple[TermSpec, ...]
    of_series: bool
    affinity: dict[str, Counts]
    anti: dict[str, Counts]
    existing: dict[str, Counts]

    @property
    def tables(self) -> tuple[dict[str, Counts], dict[str, Counts], dict[str, Counts]]:
        """Return the tables in the order of `_AFFINITY`, `_ANTI`, `_EXISTING`."""
        return self.affinity, self.anti, self.existing

    @property
    def empty(self) -> bool:
        """Return whether no running pod in a domain matches all affinity terms."""
        return not any(counts.any() for counts in self.affinity.values())


class InterPodAffinity(FilterPlugin, ScorePlugin):
    """Inter-pod affinity and anti-affinity. Default weight 2.

    `hard_weight` is `hardPodAffinityWeight`. With `ignore_preferred` the preferred terms of running pods are ignored
    for pods without their own (`ignorePreferredTermsOfExistingPods`).
    """

    name = "InterPodAffinity"
    scope: ClassVar[Scope] = Scope.CLUSTER
    incremental: ClassVar[bool] = True
    normalizes: ClassVar[bool] = True

    def __init__(self, *, hard_weight: int = 1, ignore_preferred: bool = False) -> None:
        self._hard_weight = hard_weight
        self._ignore_preferred = ignore_preferred

    # -- filter ------------------------------------------------------------------------------------

    def concerns(self, state: CycleState) -> bool:
        """Return whether the pod has required terms, or known pods have required anti-affinity against it."""
        index = state.cluster.pod_affinity
        if not index.active:
            return False
        if any(spec.kind in _REQUIRED for spec in index.terms(state.pod).specs):
            return True
        return index.has_anti_affinity_terms(state.pod)

    def pre_filter(self, state: CycleState) -> Status:
        """Count the pods for the pod's rules by domain, in the current view."""
        if not self.concerns(state):
            return SKIP
        index, pod = state.cluster.pod_affinity, state.pod
        terms = index.terms(pod)
        wanted, shunned = terms.of(TermKind.REQUIRED_AFFINITY), terms.of(TermKind.REQUIRED_ANTI_AFFINITY)
        matchers = tuple(spec.matcher for spec in wanted)
        counted = _TermCounts(wanted, shunned, index.accepted(matchers, pod), {}, {}, {})
        if wanted:
            by_row = index.counts(matchers)  # once: there may be as many matchers and topology labels as terms
            for key in {spec.topology_key: None for spec in wanted}:
                counted.affinity[key] = index.by_domain(key, by_row)
        many = len(shunned) > _FEW_TERMS
        if many:
            for key, by_row in index.by_row(pod, TermKind.REQUIRED_ANTI_AFFINITY).items():
                counted.anti[key] = index.by_domain(key, by_row)
        for spec in shunned if not many else ():
            _sum_into(counted.anti, spec, index.by_domain(spec.topology_key, index.counts((spec.matcher,))))
        counted.existing.update(_existing_by_domain(index, index.anti_affinity_terms(pod)))
        state.data[self.name] = counted
        return SUCCESS

    def add_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        return self._count(state, pod, row, 1)

    def remove_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        return self._count(state, pod, row, -1)

    def incremental_filter(self, states: Sequence[CycleState], rows: Sequence[int]) -> IncrementalFilter:
        return _IncrementalAffinity(self.name, states, rows)

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        unwanted, shunned, repelled = self._broken(state, rows)
        codes = (shunned | repelled).astype(np.int8) * np.int8(UNSCHEDULABLE)
        codes[unwanted] = UNRESOLVABLE
        return codes

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """Return the first rule that fails: affinity, anti-affinity, anti-affinity of running pods."""
        unwanted, shunned, repelled = self._broken(state, rows)
        return [
            (AFFINITY, unwanted),
            (ANTI_AFFINITY, shunned & ~unwanted),
            (EXISTING_ANTI_AFFINITY, repelled & ~shunned & ~unwanted),
        ]

    def _count(self, state: CycleState, pod: PodRecord, row: int, by: int) -> bool:
        counted = state.data[self.name]
        assert isinstance(counted, _TermCounts)
        index = state.cluster.pod_affinity
        effects = _effects(state, counted, pod)
        for table, key in effects:
            by_value = counted.tables[table].setdefault(key, _nothing(index, key))
            _at(index, key, row, by_value, by)
        return bool(effects)

    def _broken(self, state: CycleState, rows: Rows) -> tuple[Mask, Mask, Mask]:
        """Return `bool[len(rows)]` for failures of affinity, anti-affinity and existing pods' anti-affinity."""
        counted = state.data[self.name]
        assert isinstance(counted, _TermCounts)
        index = state.cluster.pod_affinity
        count = row_count(state.cluster, rows)
        labelled, present = np.ones(count, dtype=np.bool_), np.ones(count, dtype=np.bool_)
        for key, by_value in counted.affinity.items():
            node_domains = index.domains(key)[0][rows]
            labelled &= node_domains > 0
            present &= by_value[node_domains] > 0
        if not present.all() and counted.of_series and counted.empty:
            present[:] = True
        shunned, repelled = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
        for key, by_value in counted.anti.items():
            shunned |= by_value[index.domains(key)[0][rows]] > 0
        for key, by_value in counted.existing.items():
            repelled |= by_value[index.domains(key)[0][rows]] > 0
        return ~(labelled & present), shunned, repelled

    # -- score -------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState) -> bool:
        """Return whether either side has preferred terms."""
        index, pod = state.cluster.pod_affinity, state.pod
        if not index.active:
            return False
        if any(spec.kind not in _REQUIRED for spec in index.terms(pod).specs):
            return True
        return not self._ignore_preferred and any(self._weight(existing.spec) for existing in index.scoring_terms(pod))

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return the sum of the matching weights for each node, before normalizing; may be negative."""
        index, pod = state.cluster.pod_affinity, state.pod
        weights: dict[str, Counts] = {}
        terms = index.terms(pod)
        many = len(terms.specs) > _FEW_TERMS
        for kind, sign in _PREFERRED.items() if many else ():
            for key, counts in index.by_row(pod, kind).items():
                matched = np.flatnonzero(counts)
                if len(matched):
                    _add_by_domain(index, weights, key, matched, sign * counts[matched])
        for spec in terms.specs if not many else ():
            if spec.kind not in _REQUIRED:
                counts = index.counts((spec.matcher,))
                matched = np.flatnonzero(counts)
                if len(matched):
                    _add_by_domain(index, weights, spec.topology_key, matched, self._weight(spec) * counts[matched])
        stated: dict[str, tuple[list[int], list[int]]] = {}
        for existing in index.scoring_terms(pod):
            weight = self._weight(existing.spec)
            if weight:
                places, parts = stated.setdefault(existing.spec.topology_key, ([], []))
                for row, number in existing.rows.items():
                    places.append(row)
                    parts.append(weight * number)
        for key, (places, parts) in stated.items():
            _add_by_domain(index, weights, key, np.array(places, dtype=np.int64), np.array(parts, dtype=np.int64))
        total = np.zeros(row_count(state.cluster, rows), dtype=np.int64)
        for key, by_domain in weights.items():
            by_domain[0] = 0
            total += by_domain[index.domains(key)[0][rows]]
        return total

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Scale the lowest score to 0 and the highest to 100, truncated as upstream; all 0 if equal."""
        low, high = int(scores.min(initial=_HIGH)), int(scores.max(initial=-_HIGH))
        if high <= low:
            return np.zeros_like(scores)
        share: npt.NDArray[np.float64] = (scores - low).astype(np.float64) / float(high - low)
        normalized: Scores = (float(MAX_NODE_SCORE) * share).astype(np.int64)
        return normalized

    def _weight(self, spec: TermSpec) -> int:
        if spec.kind is TermKind.REQUIRED_AFFINITY:
            return self._hard_weight
        return -spec.weight if spec.kind is TermKind.PREFERRED_ANTI_AFFINITY else spec.weight

    # -- events ------------------------------------------------------------------------------------

    def events(self) -> Hints:
        """Return the events of matching pods, of nodes with the topology labels, and of namespaces."""
        return {
            EventKind.POD_PLACED: lambda cluster, pod, event: event.pod is None or _wants(cluster, pod, event.pod),
            EventKind.POD_GONE: _unwanted_left,
            EventKind.POD_CHANGED: _may_matter,
            EventKind.POD_RELABELED: _may_matter,
            EventKind.NODE_ADDED: _has_the_labels,
            EventKind.NODE_CHANGED: _has_the_labels,
            EventKind.NODE_REMOVED: always,
            EventKind.NAMESPACE_CHANGED: always,
        }


_HIGH = 1 << 62


def _add_by_domain(
    index: PodAffinityIndex, totals: dict[str, Counts], key: str, rows: npt.NDArray[np.int64], amounts: Counts
) -> None:
    """Add amounts by row to the totals by domain of a topology label; ignore entry 0, of nodes without it."""
    domains, highest = index.domains(key)
    total = totals.get(key)
    if total is None:
        total = totals[key] = np.zeros(highest + 1, dtype=np.int64)
    np.add.at(total, domains[rows], amounts)


def _existing_by_domain(index: PodAffinityIndex, terms: Iterable[ExistingTerm]) -> dict[str, Counts]:
    """Return by topology label the number of pods with a term by domain, with one array per label."""
    by_key: dict[str, Counter[int]] = {}
    result: dict[str, Counts] = {}
    for existing in terms:
        key, counted = existing.spec.topology_key, index.stated(existing)
        if counted is None:
            by_key.setdefault(key, Counter()).update(existing.rows)
        else:
            sums = index.by_domain(key, counted)
            result[key] = result[key] + sums if key in result else sums
    for key, rows in by_key.items():
        domains, highest = index.domains(key)
        row_numbers = np.fromiter(rows, dtype=np.int64, count=len(rows))
        pods = np.fromiter(rows.values(), dtype=np.int64, count=len(rows))
        counts: Counts = np.bincount(domains[row_numbers], weights=pods, minlength=highest + 1).astype(np.int64)
        counts[0] = 0
        result[key] = result[key] + counts if key in result else counts
    return result


def _nothing(index: PodAffinityIndex, key: str) -> Counts:
    return np.zeros(index.domains(key)[1] + 1, dtype=np.int64)


def _effects(state: CycleState, counted: _TermCounts, pod: PodRecord) -> list[tuple[int, str]]:
    """Return (table, topology label) for everything that counts the pod, with repetitions."""
    index = state.cluster.pod_affinity
    result: list[tuple[int, str]] = []
    matchers = tuple(spec.matcher for spec in counted.affinity_terms)
    if matchers and index.accepted(matchers, pod):
        result += [(_AFFINITY, key) for key in counted.affinity]
    for spec in counted.anti_terms:
        if index.accepted((spec.matcher,), pod):
            result.append((_ANTI, spec.topology_key))
    for spec in index.terms(pod).of(TermKind.REQUIRED_ANTI_AFFINITY):
        if index.accepted((spec.matcher,), state.pod):
            result.append((_EXISTING, spec.topology_key))
    return result


class _IncrementalAffinity(IncrementalFilter):
    """The initial counts of each pod of a kind, and the later changes, which are equal for all of them."""

    def __init__(self, name: str, states: Sequence[CycleState], rows: Sequence[int]) -> None:
        self._name = name
        self._states = states
        self._rows = np.array(rows, dtype=np.int64)
        self._pod_affinity = states[0].cluster.pod_affinity
        self._first: list[_TermCounts] = []
        for state in states:
            counted = state.data[name]
            assert isinstance(counted, _TermCounts)
            self._first.append(counted)
        self._since: dict[tuple[int, str], Counts] = {}
        """By table and topology label: int64[highest domain + 1]."""
        self._own: dict[tuple[int, str], Counts] = {}
        """By table and topology label: int64[pods], each pod's initial count in its own domain."""
        self._effects: dict[tuple[int, int], list[tuple[int, str]]] = {}
        """By label class and signature of a placed or removed pod."""
        self._touched: dict[tuple[int, str], set[int]] = {}

    def count(self, pod: PodRecord, row: int, by: int) -> bool:
        index = self._pod_affinity
        kind = (index.label_class(pod).id, pod.signature.constraints.id)
        effects = self._effects.get(kind)
        if effects is None:
            effects = self._effects[kind] = _effects(self._states[0], self._first[0], pod)
        for effect in effects:
            since = self._since.get(effect)
            if since is None:
                since = self._since[effect] = _nothing(index, effect[1])
            domain = int(index.domains(effect[1])[0][row])
            if domain:
                since[domain] += by
                self._touched.setdefault(effect, set()).add(domain)
        return bool(effects)

    def suspects(self) -> Collection[int]:
        """Return the pods that now share a domain with excluded pods, or lack required pods in their domain."""
        result: set[int] = set()
        for effect, touched in self._touched.items():
            pod_domains = self._pod_affinity.domains(effect[1])[0][self._rows]
            matching_pods = self._first_counts(effect, pod_domains) + self._since[effect][pod_domains]
            lacking = effect[0] == _AFFINITY
            failing = matching_pods <= 0 if lacking else (matching_pods > 0) & np.isin(pod_domains, list(touched))
            result.update(np.flatnonzero(failing).tolist())
        self._touched = {}
        return result

    def update_state(self, position: int) -> None:
        first = self._first[position]
        counted = replace(first, affinity={}, anti={}, existing={})
        for table, (before, after) in enumerate(zip(first.tables, counted.tables, strict=True)):
            for key, by_value in before.items():
                since = self._since.get((table, key))
                after[key] = by_value.copy() if since is None else by_value + since
        for (table, key), since in self._since.items():
            counted.tables[table].setdefault(key, since.copy())
        self._states[position].data[self._name] = counted

    def _first_counts(self, effect: tuple[int, str], pod_domains: Counts) -> Counts:
        result = self._own.get(effect)
        if result is None:
            table, key = effect
            counts = [counted.tables[table].get(key) for counted in self._first]
            own = [0 if c is None else int(c[domain]) for c, domain in zip(counts, pod_domains.tolist(), strict=True)]
            result = self._own[effect] = np.array(own, dtype=np.int64)
        return result


def _sum_into(table: dict[str, Counts], spec: TermSpec, counts: Counts) -> None:
    previous = table.get(spec.topology_key)
    table[spec.topology_key] = counts if previous is None else previous + counts


def _at(index: PodAffinityIndex, key: str, row: int, by_value: Counts, by: int) -> None:
    domain = int(index.domains(key)[0][row])
    if domain:
        by_value[domain] += by


def _own(cluster: ClusterState, pod: PodRecord, kind: TermKind) -> tuple[TermSpec, ...]:
    return cluster.pod_affinity.terms(pod).of(kind)


def _wants(cluster: ClusterState, pod: PodRecord, placed_pod: PodRecord) -> bool:
    matchers = tuple(spec.matcher for spec in _own(cluster, pod, TermKind.REQUIRED_AFFINITY))
    return bool(matchers) and cluster.pod_affinity.accepted(matchers, placed_pod)


def _excludes(cluster: ClusterState, terms: Iterable[TermSpec], placed_pod: PodRecord) -> bool:
    return any(cluster.pod_affinity.accepted((spec.matcher,), placed_pod) for spec in terms)


def _unwanted_left(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether anti-affinity on either side no longer applies, or the last pod of a series left."""
    departed_pod = event.pod
    if departed_pod is None:
        return True
    return (
        _excludes(cluster, _own(cluster, pod, TermKind.REQUIRED_ANTI_AFFINITY), departed_pod)
        or _excludes(cluster, _own(cluster, departed_pod, TermKind.REQUIRED_ANTI_AFFINITY), pod)
        or (_wants(cluster, pod, departed_pod) and _wants(cluster, pod, pod))
    )


def _may_matter(cluster: ClusterState, pod: PodRecord, _event: ClusterEvent) -> bool:
    index = cluster.pod_affinity
    return any(spec.kind in _REQUIRED for spec in index.terms(pod).specs) or index.active


def _has_the_labels(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether the node has a topology label of the affinity terms, if there are any."""
    wanted = _own(cluster, pod, TermKind.REQUIRED_AFFINITY)
    return not wanted or any(spec.topology_key in cluster.nodes.labels[event.row] for spec in wanted)
