"""Pods as the selectors of other pods see them, counted by row and updated incrementally.

Terms of this module:
- A *label class* contains all pods of one namespace with the same labels and the same terminating state. No selector
  can distinguish them.
- *Match counts* are the numbers of placed pods by row that a set of matchers accepts, for a pod's own terms and
  constraints. They are computed at the first query and then follow every placement.
- An *existing term* is an inter-pod term of a known pod, with the rows of such pods, for the effect of other pods'
  terms on a new pod. A label class lists the matching ones from the first query about its pods on.
- A namespace is *asleep* until the first query about its pods, or until one of its pods has a term that can match
  pods of other namespaces. The index stores nothing about its pods, which cannot affect other namespaces.

While no pod has a term and no caller queries match counts, a placement costs one comparison.

Unused data is dropped: a label class with its last pod, a term with its last pod, and the least recently queried match
counts beyond `MOST_MATCH_COUNTS`.

Invariants, for namespaces that are awake: `matched.counts[row]` and `existing.rows[row]` equal a recount of the placed
pods, also in trials (undo reverses the same steps). `existing.known` counts known pods, placed or not, so a trial does
not change it. `label_class.rows` is correct while the index is active.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from reprieve.cluster.affinity_terms import AffinityTerms, Matcher, TermKind, TermSpec, affinity_terms
from reprieve.cluster.label_classes import Counts, ExistingTerm, LabelClass, MatchCounts, Matchers
from reprieve.cluster.label_index import LabelIndex, SelectorIndex
from reprieve.cluster.nodes import ABSENT, NodeColumns
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.small_sets import each, joined, left

"""The label with the name of a namespace, which the API server sets on every namespace."""

MOST_MATCH_COUNTS: Final = 1024
"""The maximum number of sets of matchers that are counted at once."""


class PodAffinityIndex:
    """See the module docstring. A cluster has one index; only `ClusterState` changes it."""

    def __init__(
        self,
        nodes: NodeColumns,
        pods: Mapping[str, PodRecord],
        namespace_labels: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._nodes = nodes
        self._pods = pods
        self._namespace_labels = namespace_labels
        self.active = False
        """Whether placements must be reported."""
        self._awake: set[str] = set()
        """Namespaces with indexed pods, which have label classes and terms."""
        self._all_awake = False
        """Whether all namespaces are awake, including unknown ones."""
        self._sleepers: dict[str, dict[PodRecord, None]] | None = None
        """Pods of sleeping namespaces, by namespace; listed when the first namespace wakes."""
        self._label_classes: dict[object, LabelClass] = {}
        self._class_index: LabelIndex[LabelClass] = LabelIndex()
        self._match_counts: dict[Matchers, MatchCounts] = {}
        """The least recently queried entry comes first."""
        self._counting_index: SelectorIndex[MatchCounts] = SelectorIndex()
        self._existing: dict[TermSpec, ExistingTerm] = {}
        self._existing_index: SelectorIndex[ExistingTerm] = SelectorIndex()
        self._domains: dict[str, tuple[npt.NDArray[np.int64], int]] = {}
        self._domains_version: tuple[int, int] = (-1, 0)
        self._next = 0
        self._classes_version = 0
        """Increases when a label class is added, removed or recreated."""
        self._matched_classes: dict[tuple[int, int, TermKind], tuple[int, dict[str, Counter[LabelClass]]]] = {}
        """By label class, constraints and kind of term: the matching label classes by topology label."""

    # -- queries -----------------------------------------------------------------------------------

    def label_class(self, pod: PodRecord) -> LabelClass:
        """Return the label class of a pod."""
        label_class = pod.label_class
        if label_class is None:
            self._wake((pod.namespace,))
            label_class = pod.label_class
        return label_class if label_class is not None else self._intern(pod)

    def terms(self, pod: PodRecord) -> AffinityTerms:
        """Return the pod's own inter-pod terms."""
        if not pod.signature.constraints.selects:
            return _NO_TERMS
        return self._terms(self.label_class(pod), pod.signature)

    def counts(self, matchers: Matchers) -> Counts:
        """Return `int64[rows]`: the placed pods that every matcher accepts. Read only."""
        rows = len(self._nodes)
        matched = self._match_counts.pop(matchers, None)
        if matched is None:
            matched = self._count(matchers, rows)
        self._match_counts[matchers] = matched
        if len(matched.counts) < rows:
            matched.add(rows - 1, 0)
        return matched.counts[:rows]

    def by_row(self, pod: PodRecord, kind: TermKind) -> dict[str, Counts]:
        """Return `int64[rows]` by topology label: the placed pods that match the pod's terms of a kind, per term.

        Preferred terms count with their weight. For pods with many terms: the label classes that match a term are
        computed once for all pods of a kind, and again after a change of label classes.
        """
        if not self.active:
            self._activate()
        key = (self.label_class(pod).id, pod.signature.constraints.id, kind)
        cached = self._matched_classes.get(key)
        if cached is None or cached[0] != self._classes_version:
            while len(self._matched_classes) >= MOST_MATCH_COUNTS:
                del self._matched_classes[next(iter(self._matched_classes))]
            matched: dict[str, Counter[LabelClass]] = {}
            for spec in self.terms(pod).of(kind):
                matcher, times = spec.matcher, matched.setdefault(spec.topology_key, Counter())
                namespaces = _namespaces(matcher)
                self._wake(namespaces)
                for label_class in self._class_index.may_match(matcher.selector, namespaces):
                    if self._accepts((matcher,), label_class):
                        times[label_class] += spec.weight or 1
            cached = self._matched_classes[key] = (self._classes_version, matched)
        result: dict[str, Counts] = {}
        nowhere = np.zeros(len(self._nodes), dtype=np.int64)
        for topology, classes in cached[1].items():
            if not self.domains(topology)[1]:  # a pod may name thousands of unknown labels
                result[topology] = nowhere
                continue
            counts = result[topology] = np.zeros(len(self._nodes), dtype=np.int64)
            for label_class, number in classes.items():
                for row, pods in label_class.rows.items():
                    counts[row] += number * pods
        return result

    def stated(self, term: ExistingTerm) -> Counts | None:
        """Return `int64[rows]`: the placed pods with a term; None if `term.rows` is faster."""
        return term.counts(len(self._nodes))

    def accepted(self, matchers: Matchers, pod: PodRecord) -> bool:
        """Return whether every matcher accepts the pod."""
        return self._accepts(matchers, pod)

    def anti_affinity_terms(self, pod: PodRecord) -> list[ExistingTerm]:
        """Return the required anti-affinity terms of known pods that match this pod."""
        return list(each(self._matched(pod).anti_affinity_terms)) if self._some_exist(pod) else []

    def has_anti_affinity_terms(self, pod: PodRecord) -> bool:
        """Return whether there are any such terms; a trial does not change the result."""
        return self._some_exist(pod) and self._matched(pod).anti_affinity_terms is not None

    def scoring_terms(self, pod: PodRecord) -> list[ExistingTerm]:
        """Return all other terms of placed pods that match this pod."""
        if not self._some_exist(pod):
            return []
        return [term for term in each(self._matched(pod).scoring_terms) if term.anywhere]

    def domains(self, key: str) -> tuple[npt.NDArray[np.int64], int]:
        """Return `int64[rows]`: 1 + the number of each live node's label value, 0 without; and the highest."""
        nodes = self._nodes
        version = nodes.version
        if version != self._domains_version:
            self._domains = {}
            self._domains_version = version
        result = self._domains.get(key)
        if result is None:
            result = _domains(nodes, key)
            if not result[1]:  # pods may name any number of unknown labels
                key = ""
            result = self._domains.setdefault(key, result)
        return result

    def by_domain(self, key: str, by_row: Counts) -> Counts:
        """Return the sums of counts by domain of a topology label: `int64[highest domain + 1]`; entry 0 is 0."""
        domains, highest = self.domains(key)
        rows = np.flatnonzero(by_row)
        counts: Counts = np.bincount(domains[rows], weights=by_row[rows], minlength=highest + 1).astype(np.int64)
        counts[0] = 0
        return counts

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the tables, for the gauges."""
        return {
            "label_classes": len(self._label_classes),
            "match_counts": len(self._match_counts),
            "affinity_terms": len(self._existing),
        }

    # -- updates -----------------------------------------------------------------------------------

    def moved(self, pod: PodRecord, row: int, by: int) -> None:
        """Update the counts for a pod that was placed on a row (1) or removed (-1)."""
        if not self._all_awake and pod.namespace not in self._awake:
            return
        label_class = pod.label_class
        if label_class is None:
            label_class = self._intern(pod)
        label_class.move(row, by)
        for matched in each(label_class.counted_by):
            matched.add(row, by)
        if pod.signature.constraints.selects:
            for spec in self._terms(label_class, pod.signature).specs:
                self._existing_term(spec).move(row, by)

    def join(self, pod: PodRecord) -> None:
        """Add a pod without a row that is new or has changed labels or terms."""
        if pod.signature.constraints.selects and not self.active:
            self._activate()
        if self._is_awake(pod.namespace):
            self._learn(pod)
            return
        if self._sleepers is not None:
            self._sleepers.setdefault(pod.namespace, {})[pod] = None
        if pod.signature.constraints.reaches:
            self._wake((pod.namespace,))

    def leave(self, pod: PodRecord) -> None:
        """Remove a pod without a row that is deleted or about to change; `join` it again after a change."""
        if not self._is_awake(pod.namespace):
            if self._sleepers is not None:
                sleepers = self._sleepers[pod.namespace]
                del sleepers[pod]
                if not sleepers:
                    del self._sleepers[pod.namespace]
            return
        if pod.signature.constraints.selects:
            for spec in self.terms(pod).specs:
                existing = self._existing[spec]
                existing.known -= 1
                if not existing.known:
                    self._forget_term(existing)
        label_class = pod.label_class
        if label_class is not None:
            pod.label_class = None
            label_class.known -= 1
            if not label_class.known:
                self._forget_class(label_class)

    def namespace_changed(self) -> None:
        """Update the index after a change of namespace labels, which namespace selectors may match."""
        by_labels = (matcher.namespace_selector for matchers in self._match_counts for matcher in matchers)
        if any(not selector.nothing for selector in by_labels) or any(
            not spec.matcher.namespace_selector.nothing for spec in self._existing
        ):
            self._start_over()

    def check(self) -> None:
        """Recount everything. Raises AssertionError on a difference; tests call it after every step."""
        asleep = [pod for pod in self._pods.values() if not self._is_awake(pod.namespace)]
        if self._sleepers is not None:
            listed = {pod.uid for sleepers in self._sleepers.values() for pod in sleepers}
            assert listed == {pod.uid for pod in asleep}, "pods of namespaces that are asleep are not listed"
        assert not any(pod.label_class for pod in asleep), "a pod of a namespace that is asleep has a label class"
        assert not any(pod.signature.constraints.reaches for pod in asleep), "a term means pods of other namespaces"
        pods = [pod for pod in self._pods.values() if self._is_awake(pod.namespace)]
        classes = dict.fromkeys(self._label_classes.values(), 0)
        for pod in pods:
            if pod.label_class is not None:
                classes[pod.label_class] += 1
        for label_class, number in classes.items():
            assert label_class.known == number, f"{label_class.known} pods have {label_class.labels}, really {number}"
        if self.active:
            placed: dict[LabelClass, Counter[int]] = {}
            for pod in pods:
                if pod.row >= 0:
                    placed.setdefault(self.label_class(pod), Counter())[pod.row] += 1
            for label_class in self._label_classes.values():
                assert label_class.rows == dict(placed.get(label_class, {})), f"rows of {label_class.labels} are off"
        for matchers, matched in self._match_counts.items():
            # The array grows when a counted pod is placed on a new row, or at the next query.
            counts = np.zeros(max(len(matched.counts), len(self._nodes)), dtype=np.int64)
            cached_counts = np.zeros_like(counts)
            cached_counts[: len(matched.counts)] = matched.counts
            for pod in pods:
                if pod.row >= 0:
                    counts[pod.row] += self._accepts(matchers, self.label_class(pod))
            assert np.array_equal(counts, cached_counts), f"the match counts of {matchers} are off"
        rows: dict[TermSpec, Counter[int]] = {spec: Counter() for spec in self._existing}
        stating = dict.fromkeys(self._existing, 0)
        for pod in pods:
            for spec in self.terms(pod).specs:
                stating[spec] += 1
                if pod.row >= 0:
                    rows[spec][pod.row] += 1
        for spec, existing in self._existing.items():
            assert existing.rows == dict(rows[spec]), f"rows of {spec} are off"
            stated = self.stated(existing)
            if stated is not None:
                rows_with_pods = {int(row): int(stated[row]) for row in np.flatnonzero(stated)}
                assert rows_with_pods == existing.rows, f"counts of {spec} are off"
            assert existing.known == stating[spec], f"{existing.known} pods state {spec}, really {stating[spec]}"

    # -- inside ------------------------------------------------------------------------------------

    def _activate(self) -> None:
        """Start to follow placements; count the pods that are already placed."""
        self.active = True
        for label_class in self._label_classes.values():
            label_class.nowhere()
        for pod in self._pods.values():
            if pod.row >= 0 and self._is_awake(pod.namespace):
                self.label_class(pod).move(pod.row, 1)

    def _is_awake(self, namespace: str) -> bool:
        return self._all_awake or namespace in self._awake

    def _wake(self, namespaces: Sequence[str] | None) -> None:
        """Start to index the pods of these namespaces; None: of all."""
        if self._all_awake:
            return
        names = [name for name in namespaces or () if name not in self._awake]
        if namespaces is not None and not names:
            return
        if self._sleepers is None:
            self._sleepers = {}
            for pod in self._pods.values():
                self._sleepers.setdefault(pod.namespace, {})[pod] = None
        if namespaces is None:
            names, self._all_awake = list(self._sleepers), True
        self._awake.update(names)
        for name in names:
            for pod in self._sleepers.pop(name, ()):
                self._learn(pod)
                if self.active and pod.row >= 0:
                    self.moved(pod, pod.row, 1)

    def _learn(self, pod: PodRecord) -> None:
        """Count a pod for each of its terms."""
        if pod.signature.constraints.selects:
            for spec in self.terms(pod).specs:
                self._existing_term(spec).known += 1

    def _some_exist(self, pod: PodRecord) -> bool:
        """Return whether any existing term may match the pod."""
        self._wake((pod.namespace,))
        return bool(self._existing)

    def _start_over(self) -> None:
        self.active = False
        self._awake, self._all_awake, self._sleepers = set(), False, None
        self._classes_version += 1
        self._label_classes, self._class_index = {}, LabelIndex()
        self._match_counts, self._counting_index = {}, SelectorIndex()
        self._existing, self._existing_index = {}, SelectorIndex()
        pods = self._pods.values()
        for pod in pods:
            pod.label_class = None
        for pod in pods:
            if pod.signature.constraints.selects and not self.active:
                self._activate()
            if pod.signature.constraints.reaches:
                self._wake((pod.namespace,))

    def _intern(self, pod: PodRecord) -> LabelClass:
        key = _key(pod.namespace, pod.labels, terminating=pod.terminating)
        result = self._label_classes.get(key)
        is_known = self._pods.get(pod.uid) is pod
        if result is None:
            result = LabelClass(self._next, pod.namespace, pod.labels, terminating=pod.terminating)
            self._next += 1
            for matched in self._counting_index.may_match(result.namespace, result.labels):
                if self._accepts(matched.matchers, result):
                    result.counted_by = joined(result.counted_by, matched)
                    if is_known:
                        matched.label_classes = joined(matched.label_classes, result)
            if is_known:
                self._label_classes[key] = result
                self._classes_version += 1
                self._class_index.add(result, result.namespace, result.labels)
        if is_known:  # queueing hints query pods that have left: store nothing for them
            pod.label_class = result
            result.known += 1
        return result

    def _matched(self, pod: PodRecord) -> LabelClass:
        """Return the label class of a pod, with the existing terms that match it."""
        result = self.label_class(pod)
        if not result.matched:
            result.matched = True
            for existing in self._existing_index.may_match(result.namespace, result.labels):
                self._match(result, existing)
        return result

    def _forget_class(self, label_class: LabelClass) -> None:
        self._classes_version += 1
        del self._label_classes[_key(label_class.namespace, label_class.labels, terminating=label_class.terminating)]
        self._class_index.remove(label_class, label_class.namespace, label_class.labels)
        for matched in each(label_class.counted_by):
            matched.label_classes = left(matched.label_classes, label_class)
        for existing in (*each(label_class.anti_affinity_terms), *each(label_class.scoring_terms)):
            existing.label_classes = left(existing.label_classes, label_class)

    def _terms(self, label_class: LabelClass, signature: PodSpecSignature) -> AffinityTerms:
        result = label_class.terms(signature.constraints.id)
        if result is None:
            result = affinity_terms(signature.affinity, label_class.namespace, label_class.labels)
            label_class.keep_terms(signature.constraints.id, result)
        return result

    def _existing_term(self, spec: TermSpec) -> ExistingTerm:
        result = self._existing.get(spec)
        if result is None:
            result = self._existing[spec] = ExistingTerm(spec)
            namespaces = _namespaces(spec.matcher)
            self._existing_index.add(result, spec.matcher.selector, namespaces)
            for label_class in self._class_index.may_match(spec.matcher.selector, namespaces):
                if label_class.matched:
                    self._match(label_class, result)
        return result

    def _match(self, label_class: LabelClass, existing: ExistingTerm) -> None:
        if self._accepts((existing.spec.matcher,), label_class):
            if existing.spec.kind is TermKind.REQUIRED_ANTI_AFFINITY:
                label_class.anti_affinity_terms = joined(label_class.anti_affinity_terms, existing)
            else:
                label_class.scoring_terms = joined(label_class.scoring_terms, existing)
            if label_class.known:
                existing.label_classes = joined(existing.label_classes, label_class)

    def _forget_term(self, existing: ExistingTerm) -> None:
        del self._existing[existing.spec]
        self._existing_index.remove(existing)
        for label_class in each(existing.label_classes):
            label_class.anti_affinity_terms = left(label_class.anti_affinity_terms, existing)
            label_class.scoring_terms = left(label_class.scoring_terms, existing)

    def _accepts(self, matchers: Matchers, pods: LabelClass | PodRecord) -> bool:
        labels = self._namespace_labels(pods.namespace)
        return bool(matchers) and all(
            matcher.accepts(pods.namespace, labels, pods.labels, terminating=pods.terminating) for matcher in matchers
        )

    def _count(self, matchers: Matchers, rows: int) -> MatchCounts:
        if not self.active:
            self._activate()
        while len(self._match_counts) >= MOST_MATCH_COUNTS:
            self._forget_counts(next(iter(self._match_counts)))
        matched = MatchCounts(matchers, rows)
        if matchers:
            first = matchers[0]
            namespaces = _namespaces(first)
            self._wake(namespaces)
            self._counting_index.add(matched, first.selector, namespaces)
            for label_class in self._class_index.may_match(first.selector, namespaces):
                if self._accepts(matchers, label_class):
                    label_class.counted_by = joined(label_class.counted_by, matched)
                    matched.label_classes = joined(matched.label_classes, label_class)
                    for row, number in label_class.rows.items():
                        matched.add(row, number)
        return matched

    def _forget_counts(self, matchers: Matchers) -> None:
        matched = self._match_counts.pop(matchers)
        self._counting_index.remove(matched)
        for label_class in each(matched.label_classes):
            label_class.counted_by = left(label_class.counted_by, matched)


_NO_TERMS = AffinityTerms()


def _namespaces(matcher: Matcher) -> Sequence[str] | None:
    """Return the namespaces that a matcher names; None: it also selects namespaces by labels."""
    return tuple(sorted(matcher.namespaces)) if matcher.namespace_selector.nothing else None


def _key(namespace: str, labels: Mapping[str, str], *, terminating: bool) -> tuple[str | bool, ...]:
    """Return the key of a label class; it has as many keys as values, so distinct label sets never collide."""
    keys = sorted(labels)
    return (namespace, terminating, *keys, *map(labels.__getitem__, keys))


def _domains(nodes: NodeColumns, key: str) -> tuple[npt.NDArray[np.int64], int]:
    column, numbers = nodes.label_column(key)
    alive = nodes.alive[: len(nodes)]
    numbered: npt.NDArray[np.int64] = np.where(alive, column, ABSENT).astype(np.int64) + 1
    return numbered, len(numbers)
