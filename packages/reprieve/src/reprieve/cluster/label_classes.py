"""What `reprieve.cluster.pod_affinity_index` keeps: label classes, match counts, existing terms (its terms there).

There is a label class for each pod that differs from all others in its labels, and a term for each that states one of
its own: tables that mostly hold one entry are no dicts until they hold more.
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
"""Pods on fewer than this part of the rows are recorded row by row."""
_MOST_TERMS: Final = 64
"""Pods with the same labels and so many different affinities: more are compiled again."""


class MatchCounts:
    """`counts`: int64[at least rows], placed pods that every matcher accepts."""

    __slots__ = ("counts", "label_classes", "matchers")

    def __init__(self, matchers: Matchers, rows: int) -> None:
        self.matchers = matchers
        self.counts: Counts = np.zeros(rows, dtype=np.int64)
        self.label_classes: Few[LabelClass] = None
        """Those with counted pods."""

    def add(self, row: int, by: int) -> None:
        """A pod came to a row (1) or left it (-1)."""
        if row >= len(self.counts):
            more = np.zeros(max(row + 1, 2 * len(self.counts)), dtype=np.int64)
            more[: len(self.counts)] = self.counts
            self.counts = more
        self.counts[row] += by


class _Placed:
    """How many of some pods run where."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, int] | int | None = None
        """None: nowhere; a row: one pod there and no other."""

    @property
    def rows(self) -> Mapping[int, int]:
        """Return pods by row, without zeros. Not to be written to nor kept."""
        there = self._rows
        if isinstance(there, int):
            return {there: 1}
        return there if there is not None else {}

    @property
    def anywhere(self) -> bool:
        """Return whether any of them runs."""
        return self._rows is not None

    def move(self, row: int, by: int) -> None:
        """A pod came to a row (1) or left it (-1)."""
        there = self._rows
        if there is None and by == 1:
            self._rows = int(row)
            return
        if isinstance(there, int):
            if there == row and by == -1:
                self._rows = None
                return
            there = self._rows = {there: 1}
        elif there is None:
            there = self._rows = {}
        number = there.get(row, 0) + by
        if number:
            there[row] = number
        else:
            del there[row]
            if not there:
                self._rows = None

    def nowhere(self) -> None:
        """Start again without any."""
        self._rows = None


class ExistingTerm(_Placed):
    """A term some pods state; `rows` has how many of them run where, `known` how many there are at all."""

    __slots__ = ("_counts", "known", "label_classes", "spec")

    def __init__(self, spec: TermSpec) -> None:
        super().__init__()
        self._counts: Counts | None = None
        self.spec = spec
        self.known = 0
        self.label_classes: Few[LabelClass] = None
        """Those it matches."""

    def counts(self, rows: int) -> Counts | None:
        """`rows` as `int64[rows]`, not to be written to, if the pods are on enough of them; else None.

        From then on it follows every move, until they are on too few again.
        """
        placed = len(self.rows)
        if placed * (_SPARSE if self._counts is None else 2 * _SPARSE) < rows:
            self._counts = None
            return None
        if self._counts is None:
            there = self.rows
            self._counts = np.zeros(rows, dtype=np.int64)
            self._counts[np.fromiter(there, dtype=np.int64, count=placed)] = np.fromiter(
                there.values(), dtype=np.int64, count=placed
            )
        elif len(self._counts) < rows:
            self._counts = np.append(self._counts, np.zeros(rows - len(self._counts), dtype=np.int64))
        return self._counts[:rows]

    def move(self, row: int, by: int) -> None:
        """A pod that states it came to a row (1) or left it (-1)."""
        super().move(row, by)
        if self._counts is not None:
            if row < len(self._counts):
                self._counts[row] += by
            else:
                self._counts = None


class LabelClass(_Placed):
    """Pods no selector can tell apart; see the module docstring. `rows` are kept while the index is active."""

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
        """Never given again to another one."""
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.known = 0
        """Pods that have it."""
        self.counted_by: Few[MatchCounts] = None
        self.matched = False
        """Whether the existing terms that match it are listed: they are from the first question about its pods on."""
        self.anti_affinity_terms: Few[ExistingTerm] = None
        """Required anti-affinity terms that match it."""
        self.scoring_terms: Few[ExistingTerm] = None
        """Every other term that matches it: they count in scores."""
        self._terms: dict[int, AffinityTerms] | tuple[int, AffinityTerms] | None = None
        self._memo: dict[object, object] | None = None

    @property
    def memo(self) -> dict[object, object]:
        """Return where plugins keep what they compiled for these pods."""
        if self._memo is None:
            self._memo = {}
        return self._memo

    def terms(self, constraints: int) -> AffinityTerms | None:
        """Return what was kept of its pods' own terms for the id of their constraints."""
        kept = self._terms
        if isinstance(kept, tuple):
            return kept[1] if kept[0] == constraints else None
        return kept.get(constraints) if kept is not None else None

    def keep_terms(self, constraints: int, terms: AffinityTerms) -> None:
        """Keep the own terms of pods with these constraints."""
        kept = self._terms
        if kept is None:
            self._terms = (constraints, terms)
            return
        if isinstance(kept, tuple):
            kept = self._terms = dict((kept,))
        if len(kept) >= _MOST_TERMS:
            kept.clear()
        kept[constraints] = terms
