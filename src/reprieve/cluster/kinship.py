"""Pods as other pods' selectors see them, counted by row and kept up to date step by step.

Terms of this module:
- A *kin* is all pods of one namespace with the same labels (and all on their way out, or none): no selector can tell
  them apart.
- A *tally* counts, row by row, the placed pods that a set of matchers accepts: what a pod's own terms and constraints
  ask for.  It is filled when first asked for and then follows every placement.
- A *stated term* is an inter-pod term that some known pod has, with the rows on which such pods run: what others'
  terms say about a pod that comes.

While no pod states a term and nobody asks for a tally, nothing is kept and a placement costs one comparison.

Invariants: `tally.counts[row]` and `stated.rows[row]` equal a recount of the placed pods, inside trials too (undo takes
the same steps backwards); `stated.known` counts known pods, placed or not, so it does not change in a trial.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from reprieve.api.selectors import IN, Selector
from reprieve.cluster.nodes import ABSENT, NodeColumns
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.relations import AffinityTerms, Matcher, TermKind, TermSpec, affinity_terms
from reprieve.cluster.signature import PodSpecSignature

if TYPE_CHECKING:
    from reprieve.cluster.state import ClusterState

Matchers = tuple[Matcher, ...]
Counts = npt.NDArray[np.int64]
T = TypeVar("T")

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label every namespace has, with its name (the API server sees to it)."""

_TALLIES = 1024
_SLACK = 4096


class Tally:
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


class StatedTerm:
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


class Kin:
    """Pods no selector can tell apart; see the module docstring."""

    __slots__ = ("id", "labels", "memo", "namespace", "repelled_by", "tallies", "terminating", "terms", "weighed_by")

    def __init__(self, number: int, namespace: str, labels: Mapping[str, str], *, terminating: bool) -> None:
        self.id = number
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.tallies: list[Tally] = []
        """Those that count it."""
        self.repelled_by: list[StatedTerm] = []
        """Required anti-affinity terms that match it."""
        self.weighed_by: list[StatedTerm] = []
        """Every other term that matches it: they count in scores."""
        self.terms: dict[int, AffinityTerms] = {}
        """Its pods' own terms, by signature."""
        self.memo: dict[object, object] = {}
        """Where plugins keep what they compiled for these pods."""


class Kinship:
    """See the module docstring. One per cluster; changed only by `ClusterState`."""

    def __init__(self, cluster: "ClusterState") -> None:
        self._cluster = cluster
        self.active = False
        """Whether placements have to be reported at all."""
        self._kins: dict[object, Kin] = {}
        self._kin_index: _Index[Kin] = _Index()
        self._tallies: dict[Matchers, Tally] = {}
        self._tally_index: _Index[Tally] = _Index()
        self._stated: dict[TermSpec, StatedTerm] = {}
        self._stated_index: _Index[StatedTerm] = _Index()
        self._domains: dict[str, tuple[npt.NDArray[np.int64], int]] = {}
        self._domains_version: tuple[int, int] = (-1, 0)
        self._next = 0

    # -- asking ------------------------------------------------------------------------------------

    def kin(self, pod: PodRecord) -> Kin:
        """The kin of a pod."""
        found = pod.kin
        if found is None:
            found = pod.kin = self._intern(pod)
        return found

    def terms(self, pod: PodRecord) -> AffinityTerms:
        """The pod's own inter-pod terms."""
        if not pod.signature.selects:
            return _NO_TERMS
        return self._terms(self.kin(pod), pod.signature)

    def counts(self, matchers: Matchers) -> Counts:
        """`int64[rows]`: placed pods that every matcher accepts, by row. Not to be written to."""
        rows = len(self._cluster.nodes)
        tally = self._tallies.get(matchers)
        if tally is None:
            tally = self._fill(matchers, rows)
        if len(tally.counts) < rows:
            tally.add(rows - 1, 0)
        return tally.counts[:rows]

    def accepted(self, matchers: Matchers, pod: PodRecord) -> bool:
        """Whether every matcher accepts the pod."""
        return self._accepts(matchers, self.kin(pod))

    def repelling(self, pod: PodRecord) -> list[StatedTerm]:
        """Required anti-affinity terms that known pods state and that match this pod."""
        return [term for term in self.kin(pod).repelled_by if term.known or term.rows] if self._stated else []

    def repelled(self, pod: PodRecord) -> bool:
        """Whether there are any; the same before, in and after a trial."""
        return bool(self._stated) and any(term.known or term.rows for term in self.kin(pod).repelled_by)

    def weighing(self, pod: PodRecord) -> list[StatedTerm]:
        """All other terms that placed pods state and that match this pod."""
        return [term for term in self.kin(pod).weighed_by if term.rows] if self._stated else []

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
        kin = pod.kin
        if kin is None:
            kin = pod.kin = self._intern(pod)
        for tally in kin.tallies:
            tally.add(row, by)
        if pod.signature.selects:
            for spec in self._terms(kin, pod.signature).specs:
                self._state(spec).add(row, by)

    def join(self, pod: PodRecord) -> None:
        """A pod without a row became known, or what selectors and terms see of it has changed."""
        if pod.signature.selects:
            self.active = True
            for spec in self.terms(pod).specs:
                self._state(spec).known += 1

    def leave(self, pod: PodRecord) -> None:
        """A pod without a row is forgotten, or is about to change; `join` it again then."""
        if pod.signature.selects:
            for spec in self.terms(pod).specs:
                self._state(spec).known -= 1
        pod.kin = None
        self._trim()

    def reset(self) -> None:
        """Start over: what namespaces look like has changed, or too much of what was kept is not needed any more."""
        self.active = False
        self._kins, self._kin_index = {}, _Index()
        self._tallies, self._tally_index = {}, _Index()
        self._stated, self._stated_index = {}, _Index()
        pods = self._cluster.pods.values()
        for pod in pods:
            pod.kin = None
        for pod in pods:
            self.join(pod)
        if self.active:
            for pod in pods:
                if pod.row >= 0 and pod.signature.selects:
                    self.moved(pod, pod.row, 1)

    def check(self) -> None:
        """Recount everything; raises AssertionError on a difference (tests turn this on after every step)."""
        placed = [(self.kin(pod), pod) for pod in self._cluster.pods.values() if pod.row >= 0]
        for matchers, tally in self._tallies.items():
            counts = np.zeros_like(tally.counts)
            for kin, pod in placed:
                counts[pod.row] += self._accepts(matchers, kin)
            assert np.array_equal(counts, tally.counts), f"the tally of {matchers} is off"
        rows: dict[TermSpec, dict[int, int]] = {spec: {} for spec in self._stated}
        known = dict.fromkeys(self._stated, 0)
        for pod in self._cluster.pods.values():
            for spec in self.terms(pod).specs:
                known[spec] += 1
                if pod.row >= 0:
                    rows[spec][pod.row] = rows[spec].get(pod.row, 0) + 1
        for spec, stated in self._stated.items():
            assert stated.rows == rows[spec], f"rows of {spec} are off"
            assert stated.known == known[spec], f"{stated.known} pods state {spec}, really {known[spec]}"

    # -- inside ------------------------------------------------------------------------------------

    def _intern(self, pod: PodRecord) -> Kin:
        key = (pod.namespace, pod.terminating, frozenset(pod.labels.items()))
        found = self._kins.get(key)
        if found is None:
            found = Kin(self._next, pod.namespace, pod.labels, terminating=pod.terminating)
            self._next += 1
            self._kins[key] = found
            self._kin_index.add_labelled(found, found.labels)
            for tally in self._tally_index.for_labels(found.labels):
                if self._accepts(tally.matchers, found):
                    found.tallies.append(tally)
            for stated in self._stated_index.for_labels(found.labels):
                self._face(found, stated)
        return found

    def _terms(self, kin: Kin, signature: PodSpecSignature) -> AffinityTerms:
        found = kin.terms.get(signature.id)
        if found is None:
            found = kin.terms[signature.id] = affinity_terms(signature.affinity, kin.namespace, kin.labels)
        return found

    def _state(self, spec: TermSpec) -> StatedTerm:
        found = self._stated.get(spec)
        if found is None:
            found = self._stated[spec] = StatedTerm(spec)
            self._stated_index.add_selecting(found, spec.matcher.selector)
            for kin in self._kin_index.for_selector(spec.matcher.selector):
                self._face(kin, found)
        return found

    def _face(self, kin: Kin, stated: StatedTerm) -> None:
        if self._accepts((stated.spec.matcher,), kin):
            required = stated.spec.kind is TermKind.REQUIRED_ANTI_AFFINITY
            (kin.repelled_by if required else kin.weighed_by).append(stated)

    def _accepts(self, matchers: Matchers, kin: Kin) -> bool:
        labels = self._cluster.namespace_labels(kin.namespace)
        return bool(matchers) and all(
            matcher.accepts(kin.namespace, labels, kin.labels, terminating=kin.terminating) for matcher in matchers
        )

    def _fill(self, matchers: Matchers, rows: int) -> Tally:
        if len(self._tallies) >= _TALLIES:
            self._tallies = {}
            self._tally_index = _Index()
            for kin in self._kins.values():
                kin.tallies = []
        tally = self._tallies[matchers] = Tally(matchers, rows)
        for row in range(rows):
            for pod in self._cluster.nodes.pods[row].values():
                if self._accepts_known(matchers, pod):
                    tally.add(row, 1)
        # A kin that has no pod with a row now may get one.
        selector = matchers[0].selector if matchers else Selector(nothing=True)
        self._tally_index.add_selecting(tally, selector)
        for kin in self._kin_index.for_selector(selector):
            if self._accepts(matchers, kin):
                kin.tallies.append(tally)
        self.active = True
        return tally

    def _accepts_known(self, matchers: Matchers, pod: PodRecord) -> bool:
        if not matchers or (matchers[0].namespace_selector.nothing and pod.namespace not in matchers[0].namespaces):
            return False
        return self._accepts(matchers, self.kin(pod))

    def _trim(self) -> None:
        """Forget what no pod has any more, once it is much."""
        pods = len(self._cluster.pods)
        if len(self._kins) > 2 * pods + _SLACK or len(self._stated) > 2 * pods + _SLACK:
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
