"""What `reprieve.cluster.pod_affinity_index` keeps: label classes, match counts, existing terms (its terms there)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from reprieve.cluster.affinity_terms import AffinityTerms, Matcher, TermSpec

Matchers = tuple[Matcher, ...]
Counts = npt.NDArray[np.int64]


class MatchCounts:
    """`counts`: int64[at least rows], placed pods that every matcher accepts."""

    __slots__ = ("counts", "label_classes", "matchers")

    def __init__(self, matchers: Matchers, rows: int) -> None:
        self.matchers = matchers
        self.counts: Counts = np.zeros(rows, dtype=np.int64)
        self.label_classes: dict[LabelClass, None] = {}
        """Those whose pods are counted."""

    def add(self, row: int, by: int) -> None:
        """A pod came to a row (1) or left it (-1)."""
        if row >= len(self.counts):
            more = np.zeros(max(row + 1, 2 * len(self.counts)), dtype=np.int64)
            more[: len(self.counts)] = self.counts
            self.counts = more
        self.counts[row] += by


class ExistingTerm:
    """A term some pods state; `rows` has how many of them run where, `known` how many there are at all."""

    __slots__ = ("known", "label_classes", "rows", "spec")

    def __init__(self, spec: TermSpec) -> None:
        self.spec = spec
        self.known = 0
        self.rows: dict[int, int] = {}
        self.label_classes: dict[LabelClass, None] = {}
        """Those it matches."""


class LabelClass:
    """Pods no selector can tell apart; see the module docstring."""

    __slots__ = (
        "anti_affinity_terms",
        "counted_by",
        "id",
        "known",
        "labels",
        "memo",
        "namespace",
        "rows",
        "scoring_terms",
        "terminating",
        "terms",
    )

    def __init__(self, number: int, namespace: str, labels: Mapping[str, str], *, terminating: bool) -> None:
        self.id = number
        """Never given again to another one."""
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.known = 0
        """Pods that have it."""
        self.rows: dict[int, int] = {}
        """How many of its pods run where; kept while the index is active."""
        self.counted_by: dict[MatchCounts, None] = {}
        self.anti_affinity_terms: dict[ExistingTerm, None] = {}
        """Required anti-affinity terms that match it."""
        self.scoring_terms: dict[ExistingTerm, None] = {}
        """Every other term that matches it: they count in scores."""
        self.terms: dict[int, AffinityTerms] = {}
        """Its pods' own terms, by the id of their constraints."""
        self.memo: dict[object, object] = {}
        """Where plugins keep what they compiled for these pods."""
