"""Plugins that misbehave on purpose, or do one simple thing."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind, Hints
from reprieve.framework.plugin import (
    Codes,
    CycleState,
    FilterPlugin,
    Mask,
    PerNodeFilter,
    PerNodeScore,
    Rows,
    Scope,
    row_count,
)
from reprieve.framework.profile import Profile
from reprieve.framework.status import UNSCHEDULABLE
from tests.building import profile_with


class Fragile(FilterPlugin):
    """Raises the first `failures` times, then lets everything through."""

    name = "Fragile"
    scope: ClassVar[Scope] = Scope.CLUSTER

    def __init__(self, failures: int) -> None:
        self.left = failures

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        if self.left:
            self.left -= 1
            raise ZeroDivisionError("by design")
        return np.zeros(row_count(state.cluster, rows), dtype=np.int8)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        return []

    def profile(self) -> Profile:
        return profile_with(self)


class BadHint(FilterPlugin):
    """Rejects everything, and raises when asked whether an event may help."""

    name = "BadHint"
    scope: ClassVar[Scope] = Scope.STATIC

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        return np.full(row_count(state.cluster, rows), UNSCHEDULABLE, dtype=np.int8)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        return [("node(s) were not liked", np.ones(row_count(state.cluster, rows), dtype=np.bool_))]

    def events(self) -> Hints:
        def raises(_cluster: ClusterState, _pod: PodRecord, _event: ClusterEvent) -> bool:
            raise ValueError("by design")

        return {EventKind.NODE_ADDED: raises}

    def profile(self) -> Profile:
        return profile_with(self)


class OnlyNamed(PerNodeFilter):
    """Lets only some nodes through; `resolvable` says whether evictions could help."""

    name = "OnlyNamed"

    def __init__(self, *names: str, resolvable: bool = False) -> None:
        self.names, self.resolvable = names, resolvable

    def filter_node(self, state: CycleState, row: int) -> tuple[str, bool] | None:
        name = state.cluster.nodes.names[row]
        return None if name in self.names else (f"node(s) are not in {','.join(self.names)}", self.resolvable)


class Prefers(PerNodeScore):
    """Scores nodes by a table; 0 for the others."""

    name = "Prefers"

    def __init__(self, **scores: int) -> None:
        self.scores = scores

    def score_node(self, state: CycleState, row: int) -> int:
        return self.scores.get(state.cluster.nodes.names[row], 0)
