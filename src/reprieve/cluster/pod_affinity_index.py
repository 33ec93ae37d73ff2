"""Pods as other pods' selectors see them, counted by row and kept up to date step by step.

Terms of this module:
- A *label class* is all pods of one namespace with the same labels (and all on their way out, or none): no selector can
  tell them apart.
- *Match counts* are, row by row, the placed pods that a set of matchers accepts: what a pod's own terms and constraints
  ask for.  They are filled when first asked for and then follow every placement.
- An *existing term* is an inter-pod term that some known pod has, with the rows on which such pods run: what others'
  terms say about a pod that comes.

While no pod states a term and nobody asks for match counts, nothing is kept and a placement costs one comparison.

Invariants: `matched.counts[row]` and `existing.rows[row]` equal a recount of the placed pods, inside trials too (undo
takes the same steps backwards); `existing.known` counts known pods, placed or not, so it does not change in a trial.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from reprieve.api.selectors import IN, Selector
from reprieve.cluster.affinity_terms import AffinityTerms, Matcher, TermKind, TermSpec, affinity_terms
from reprieve.cluster.nodes import ABSENT, NodeColumns
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.signature import PodSpecSignature

if TYPE_CHECKING:
    from reprieve.cluster.state import ClusterState

Matchers = tuple[Matcher, ...]
Counts = npt.NDArray[np.int64]
T = TypeVar("T")

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label every namespace has, with its name (the API server sees to it)."""

_MOST_MATCH_COUNTS = 1024
_SLACK = 4096


class MatchCounts:
    """`counts`: int64[at least rows], placed pods that every matcher accepts."""

    __slots__ = ("counts", "matchers")

    def __init__(self, matchers: Matchers, rows: int) -> None:
        self.matchers = matchers
        self.counts: Counts = np.zeros(rows, dtype=np.int64)

    def add(self, row: int, by: int) -> None:
        """A pod came to a row (1) or left it (-1)."""
        if row >= len(self.counts):
            more = np.zeros(max(row + 1, 2 * len(self.counts)), dtype=np.int64)
            more[: len(self.counts)] = self.counts
            self.counts = more
        self.counts[row] += by


class ExistingTerm:
    """A term some pods state; `rows` has how many of them run where, `known` how many there are at all."""

    __slots__ = ("known", "rows", "spec")

    def __init__(self, spec: TermSpec) -> None:
        self.spec = spec
        self.known = 0
        self.rows: dict[int, int] = {}

    def add(self, row: int, by: int) -> None:
        """A pod that states it came to a row (1) or left it (-1)."""
        left = self.rows.get(row, 0) + by
        if left:
            self.rows[row] = left
        else:
            del self.rows[row]


class LabelClass:
    """Pods no selector can tell apart; see the module docstring."""

    __slots__ = (
        "anti_affinity_terms",
        "counted_by",
        "id",
        "labels",
        "memo",
        "namespace",
        "scoring_terms",
        "terminating",
        "terms",
    )

    def __init__(self, number: int, namespace: str, labels: Mapping[str, str], *, terminating: bool) -> None:
        self.id = number
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.counted_by: list[MatchCounts] = []
        """Those that count it."""
        self.anti_affinity_terms: list[ExistingTerm] = []
        """Required anti-affinity terms that match it."""
        self.scoring_terms: list[ExistingTerm] = []
        """Every other term that matches it: they count in scores."""
        self.terms: dict[int, AffinityTerms] = {}
        """Its pods' own terms, by signature."""
        self.memo: dict[object, object] = {}
        """Where plugins keep what they compiled for these pods."""


class PodAffinityIndex:
    """See the module docstring. One per cluster; changed only by `ClusterState`."""

    def __init__(self, cluster: "ClusterState") -> None:
        self._cluster = cluster
        self.active = False
        """Whether placements have to be reported at all."""
        self._label_classes: dict[object, LabelClass] = {}
        self._label_class_index: _Index[LabelClass] = _Index()
        self._match_counts: dict[Matchers, MatchCounts] = {}
        self._match_counts_index: _Index[MatchCounts] = _Index()
        self._existing: dict[TermSpec, ExistingTerm] = {}
        self._existing_index: _Index[ExistingTerm] = _Index()
        self._domains: dict[str, tuple[npt.NDArray[np.int64], int]] = {}
        self._domains_version: tuple[int, int] = (-1, 0)
        self._next = 0

    # -- asking ------------------------------------------------------------------------------------

    def label_class(self, pod: PodRecord) -> LabelClass:
        """The label_class of a pod."""
        found = pod.label_class
        if found is None:
            found = pod.label_class = self._intern(pod)
        return found

    def terms(self, pod: PodRecord) -> AffinityTerms:
        """The pod's own inter-pod terms."""
        if not pod.signature.selects:
            return _NO_TERMS
        return self._terms(self.label_class(pod), pod.signature)

    def counts(self, matchers: Matchers) -> Counts:
        """`int64[rows]`: placed pods that every matcher accepts, by row. Not to be written to."""
        rows = len(self._cluster.nodes)
        matched = self._match_counts.get(matchers)
        if matched is None:
            matched = self._fill(matchers, rows)
        if len(matched.counts) < rows:
            matched.add(rows - 1, 0)
        return matched.counts[:rows]

    def accepted(self, matchers: Matchers, pod: PodRecord) -> bool:
        """Whether every matcher accepts the pod."""
        return self._accepts(matchers, self.label_class(pod))

    def anti_affinity_terms(self, pod: PodRecord) -> list[ExistingTerm]:
        """Required anti-affinity terms that known pods state and that match this pod."""
        return (
            [term for term in self.label_class(pod).anti_affinity_terms if term.known or term.rows]
            if self._existing
            else []
        )

    def has_anti_affinity_terms(self, pod: PodRecord) -> bool:
        """Whether there are any; the same before, in and after a trial."""
        return bool(self._existing) and any(
            term.known or term.rows for term in self.label_class(pod).anti_affinity_terms
        )

    def scoring_terms(self, pod: PodRecord) -> list[ExistingTerm]:
        """All other terms that placed pods state and that match this pod."""
        return [term for term in self.label_class(pod).scoring_terms if term.rows] if self._existing else []

    def domains(self, key: str) -> tuple[npt.NDArray[np.int64], int]:
        """`int64[rows]`: 1 + the number of the value each live node has for a label, 0 for none; and the highest."""
        nodes = self._cluster.nodes
        version = (nodes.static_version, len(nodes))
        if version != self._domains_version:
            self._domains = {}
            self._domains_version = version
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = _domains(nodes, key)
        return found

    # -- keeping up to date ------------------------------------------------------------------------

    def moved(self, pod: PodRecord, row: int, by: int) -> None:
        """A pod came to a row (1) or left it (-1)."""
        label_class = pod.label_class
        if label_class is None:
            label_class = pod.label_class = self._intern(pod)
        for matched in label_class.counted_by:
            matched.add(row, by)
        if pod.signature.selects:
            for spec in self._terms(label_class, pod.signature).specs:
                self._existing_term(spec).add(row, by)

    def join(self, pod: PodRecord) -> None:
        """A pod without a row became known, or what selectors and terms see of it has changed."""
        if pod.signature.selects:
            self.active = True
            for spec in self.terms(pod).specs:
                self._existing_term(spec).known += 1

    def leave(self, pod: PodRecord) -> None:
        """A pod without a row is forgotten, or is about to change; `join` it again then."""
        if pod.signature.selects:
            for spec in self.terms(pod).specs:
                self._existing_term(spec).known -= 1
        pod.label_class = None
        self._trim()

    def reset(self) -> None:
        """Start over: what namespaces look like has changed, or too much of what was kept is not needed any more."""
        self.active = False
        self._label_classes, self._label_class_index = {}, _Index()
        self._match_counts, self._match_counts_index = {}, _Index()
        self._existing, self._existing_index = {}, _Index()
        pods = self._cluster.pods.values()
        for pod in pods:
            pod.label_class = None
        for pod in pods:
            self.join(pod)
        if self.active:
            for pod in pods:
                if pod.row >= 0 and pod.signature.selects:
                    self.moved(pod, pod.row, 1)

    def check(self) -> None:
        """Recount everything; raises AssertionError on a difference (tests turn this on after every step)."""
        placed = [(self.label_class(pod), pod) for pod in self._cluster.pods.values() if pod.row >= 0]
        for matchers, matched in self._match_counts.items():
            counts = np.zeros_like(matched.counts)
            for label_class, pod in placed:
                counts[pod.row] += self._accepts(matchers, label_class)
            assert np.array_equal(counts, matched.counts), f"the match counts of {matchers} are off"
        rows: dict[TermSpec, dict[int, int]] = {spec: {} for spec in self._existing}
        known = dict.fromkeys(self._existing, 0)
        for pod in self._cluster.pods.values():
            for spec in self.terms(pod).specs:
                known[spec] += 1
                if pod.row >= 0:
                    rows[spec][pod.row] = rows[spec].get(pod.row, 0) + 1
        for spec, existing in self._existing.items():
            assert existing.rows == rows[spec], f"rows of {spec} are off"
            assert existing.known == known[spec], f"{existing.known} pods state {spec}, really {known[spec]}"

    # -- inside ------------------------------------------------------------------------------------

    def _intern(self, pod: PodRecord) -> LabelClass:
        key = (pod.namespace, pod.terminating, frozenset(pod.labels.items()))
        found = self._label_classes.get(key)
        if found is None:
            found = LabelClass(self._next, pod.namespace, pod.labels, terminating=pod.terminating)
            self._next += 1
            self._label_classes[key] = found
            self._label_class_index.add_labelled(found, found.labels)
            for matched in self._match_counts_index.for_labels(found.labels):
                if self._accepts(matched.matchers, found):
                    found.counted_by.append(matched)
            for existing in self._existing_index.for_labels(found.labels):
                self._match(found, existing)
        return found

    def _terms(self, label_class: LabelClass, signature: PodSpecSignature) -> AffinityTerms:
        found = label_class.terms.get(signature.id)
        if found is None:
            found = label_class.terms[signature.id] = affinity_terms(
                signature.affinity, label_class.namespace, label_class.labels
            )
        return found

    def _existing_term(self, spec: TermSpec) -> ExistingTerm:
        found = self._existing.get(spec)
        if found is None:
            found = self._existing[spec] = ExistingTerm(spec)
            self._existing_index.add_selecting(found, spec.matcher.selector)
            for label_class in self._label_class_index.for_selector(spec.matcher.selector):
                self._match(label_class, found)
        return found

    def _match(self, label_class: LabelClass, existing: ExistingTerm) -> None:
        if self._accepts((existing.spec.matcher,), label_class):
            required = existing.spec.kind is TermKind.REQUIRED_ANTI_AFFINITY
            (label_class.anti_affinity_terms if required else label_class.scoring_terms).append(existing)

    def _accepts(self, matchers: Matchers, pods: LabelClass) -> bool:
        labels = self._cluster.namespace_labels(pods.namespace)
        return bool(matchers) and all(
            matcher.accepts(pods.namespace, labels, pods.labels, terminating=pods.terminating) for matcher in matchers
        )

    def _fill(self, matchers: Matchers, rows: int) -> MatchCounts:
        if len(self._match_counts) >= _MOST_MATCH_COUNTS:
            self._match_counts = {}
            self._match_counts_index = _Index()
            for label_class in self._label_classes.values():
                label_class.counted_by = []
        matched = self._match_counts[matchers] = MatchCounts(matchers, rows)
        for row in range(rows):
            for pod in self._cluster.nodes.pods[row].values():
                if self._accepts_known(matchers, pod):
                    matched.add(row, 1)
        # A label_class that has no pod with a row now may get one.
        selector = matchers[0].selector if matchers else Selector(nothing=True)
        self._match_counts_index.add_selecting(matched, selector)
        for label_class in self._label_class_index.for_selector(selector):
            if self._accepts(matchers, label_class):
                label_class.counted_by.append(matched)
        self.active = True
        return matched

    def _accepts_known(self, matchers: Matchers, pod: PodRecord) -> bool:
        if not matchers or (matchers[0].namespace_selector.nothing and pod.namespace not in matchers[0].namespaces):
            return False
        return self._accepts(matchers, self.label_class(pod))

    def _trim(self) -> None:
        """Forget what no pod has any more, once it is much."""
        pods = len(self._cluster.pods)
        if len(self._label_classes) > 2 * pods + _SLACK or len(self._existing) > 2 * pods + _SLACK:
            self.reset()


_NO_TERMS = AffinityTerms()


def _domains(nodes: NodeColumns, key: str) -> tuple[npt.NDArray[np.int64], int]:
    column, numbers = nodes.label_column(key)
    alive = nodes.alive[: len(nodes)]
    found: npt.NDArray[np.int64] = np.where(alive, column, ABSENT).astype(np.int64) + 1
    return found, len(numbers)


class _Index(Generic[T]):
    """Finds the selectors that may match labels, or the labels a selector may match, without trying all.

    A selector is filed under the values of its first `In` requirement; those without one are always tried.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[T]] = {}
        self._others: list[T] = []
        self._all: list[T] = []

    def add_selecting(self, item: T, selector: Selector) -> None:
        """File something that selects."""
        pairs = _pairs(selector)
        if selector.nothing:
            return
        if pairs is None:
            self._others.append(item)
        else:
            for pair in pairs:
                self._by_label.setdefault(pair, []).append(item)

    def for_labels(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Everything filed with `add_selecting` that may match the labels."""
        yield from self._others
        for pair in labels.items():
            yield from self._by_label.get(pair, ())

    def add_labelled(self, item: T, labels: Mapping[str, str]) -> None:
        """File something that has labels."""
        self._all.append(item)
        for pair in labels.items():
            self._by_label.setdefault(pair, []).append(item)

    def for_selector(self, selector: Selector) -> Iterable[T]:
        """Everything filed with `add_labelled` that the selector may match."""
        if selector.nothing:
            return ()
        pairs = _pairs(selector)
        if pairs is None:
            return self._all
        return [item for pair in pairs for item in self._by_label.get(pair, ())]


def _pairs(selector: Selector) -> Sequence[tuple[str, str]] | None:
    for requirement in selector.requirements:
        if requirement.operator == IN:
            return [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
    return None
