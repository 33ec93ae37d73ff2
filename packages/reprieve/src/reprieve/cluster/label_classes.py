"""The data of `reprieve.cluster.pod_affinity_index`: label classes, match counts, existing terms (defined there).

Each pod with unique labels has its own label class, and each pod with a unique term its own term. Tables that mostly
hold one entry therefore become dicts only when they hold more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from reprieve.cluster.affinity_terms import AffinityTerms, Matcher, TermSpec
from reprieve.cluster.small_sets import Few

Matchers = tuple[Matcher, ...]
Counts = npt.NDArray[np.int64]

_SPARSE: Final = 16
"""Pods on fewer than 1/_SPARSE of the rows are recorded row by row."""
_MOST_TERMS: Final = 64
"""The maximum number of stored affinities of pods with the same labels; more are compiled again."""


class MatchCounts:
    """The number of placed pods that every matcher accepts: `counts`, int64[at least rows]."""

    __slots__ = ("counts", "label_classes", "matchers")

    def __init__(self, matchers: Matchers, rows: int) -> None:
        self.matchers = matchers
        self.counts: Counts = np.zeros(rows, dtype=np.int64)
        self.label_classes: Few[LabelClass] = None
        """The label classes of counted pods."""

    def add(self, row: int, by: int) -> None:
        """Count a pod that was placed on a row (1) or removed (-1)."""
        if row >= len(self.counts):
            more = np.zeros(max(row + 1, 2 * len(self.counts)), dtype=np.int64)
            more[: len(self.counts)] = self.counts
            self.counts = more
        self.counts[row] += by


class _PlacedCounts:
    """Numbers of placed pods by row."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, int] | int | None = None
        """None: no pods; an int: one pod, on that row."""

    @property
    def rows(self) -> Mapping[int, int]:
        """Return the number of pods by row, without zeros. Read only; do not store it."""
        placed = self._rows
        if isinstance(placed, int):
            return {placed: 1}
        return placed if placed is not None else {}

    @property
    def anywhere(self) -> bool:
        """Return whether any pod is placed."""
        return self._rows is not None

    def move(self, row: int, by: int) -> None:
        """Count a pod that was placed on a row (1) or removed (-1)."""
        placed = self._rows
        if placed is None and by == 1:
            self._rows = int(row)
            return
        if isinstance(placed, int):
            if placed == row and by == -1:
                self._rows = None
                return
            placed = self._rows = {placed: 1}
        elif placed is None:
            placed = self._rows = {}
        number = placed.get(row, 0) + by
        if number:
            placed[row] = number
        else:
            del placed[row]
            if not placed:
                self._rows = None

    def nowhere(self) -> None:
        """Reset the numbers to no placed pods."""
        self._rows = None


class ExistingTerm(_PlacedCounts):
    """A term of some pods; `rows`: their placed pods by row; `known`: the number of these pods."""

    __slots__ = ("_counts", "known", "label_classes", "spec")

    def __init__(self, spec: TermSpec) -> None:
        super().__init__()
        self._counts: Counts | None = None
        self.spec = spec
        self.known = 0
        self.label_classes: Few[LabelClass] = None
        """The label classes that match the term."""

    def counts(self, rows: int) -> Counts | None:
        """Return `rows` as a read-only `int64[rows]` if the pods are on enough rows, else None.

        The array then follows every move until the pods are on too few rows.
        """
        placed = len(self.rows)
        if placed * (_SPARSE if self._counts is None else 2 * _SPARSE) < rows:
            self._counts = None
            return None
        if self._counts is None:
            pods_by_row = self.rows
            self._counts = np.zeros(rows, dtype=np.int64)
            self._counts[np.fromiter(pods_by_row, dtype=np.int64, count=placed)] = np.fromiter(
                pods_by_row.values(), dtype=np.int64, count=placed
            )
        elif len(self._counts) < rows:
            self._counts = np.append(self._counts, np.zeros(rows - len(self._counts), dtype=np.int64))
        return self._counts[:rows]

    def move(self, row: int, by: int) -> None:
        """Count a pod with the term that was placed on a row (1) or removed (-1)."""
        super().move(row, by)
        if self._counts is not None:
            if row < len(self._counts):
                self._counts[row] += by
            else:
                self._counts = None


class LabelClass(_PlacedCounts):
    """Pods that no selector can distinguish; see the module docstring. `rows` is current while the index is active."""

    __slots__ = (
        "_memo",
        "_terms",
        "anti_affinity_terms",
        "counted_by",
        "id",
        "known",
        "labels",
        "matched",
        "namespace",
        "scoring_terms",
        "terminating",
    )

    def __init__(self, number: int, namespace: str, labels: Mapping[str, str], *, terminating: bool) -> None:
        super().__init__()
        self.id = number
        """Never reused for another class."""
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.known = 0
        """The number of its pods."""
        self.counted_by: Few[MatchCounts] = None
        self.matched = False
        """Whether the matching existing terms are listed; they are from the first query about its pods."""
        self.anti_affinity_terms: Few[ExistingTerm] = None
        """Required anti-affinity terms that match its pods."""
        self.scoring_terms: Few[ExistingTerm] = None
        """All other terms that match its pods, which count in scores."""
        self._terms: dict[int, AffinityTerms] | tuple[int, AffinityTerms] | None = None
        self._memo: dict[object, object] | None = None

    @property
    def memo(self) -> dict[object, object]:
        """Return the store for plugins' compiled data about these pods."""
        if self._memo is None:
            self._memo = {}
        return self._memo

    def terms(self, constraints: int) -> AffinityTerms | None:
        """Return the stored terms of its pods for the id of their constraints."""
        stored = self._terms
        if isinstance(stored, tuple):
            return stored[1] if stored[0] == constraints else None
        return stored.get(constraints) if stored is not None else None

    def keep_terms(self, constraints: int, terms: AffinityTerms) -> None:
        """Store the terms of pods with these constraints."""
        stored = self._terms
        if stored is None:
            self._terms = (constraints, terms)
            return
        if isinstance(stored, tuple):
            stored = self._terms = dict((stored,))
        if len(stored) >= _MOST_TERMS:
            stored.clear()
        stored[constraints] = terms
