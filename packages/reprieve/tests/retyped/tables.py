"""Cases of kube-scheduler's own integration tests, written again: what is there, what arrives, what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from kube_rules import objects
from reprieve.framework.plugin import MAX_NODE_SCORE, CycleState, Rows, Scope, ScorePlugin, Scores
from reprieve.preemption.outcome import MINIMIZE_VICTIMS
from tests.building import World, pod


def row(names: str, node: str = "", **fields: Any) -> list[objects.KubernetesObject]:
    """Return pods with these names and one CPU each, that end at once; `fields` are those of `pod`."""
    kept = {"cpu": 1, "grace": 0, **fields}
    return [pod(name, node=node, **kept) for name in names.split()]


class Preset(ScorePlugin):
    """Scores by the name of the node."""

    name = "Preset"
    scope: ClassVar[Scope] = Scope.NODE

    def __init__(self, scores: Mapping[str, int]) -> None:
        self._scores = scores

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """See `ScorePlugin.score`."""
        nodes = state.cluster.nodes
        found = np.array([self._scores.get(name, 0) for name in nodes.names], dtype=np.int64)
        return np.minimum(found[rows], MAX_NODE_SCORE)


@dataclass(frozen=True)
class Case:
    """One case; names are separated by spaces.

    `evicted` is exactly what preemption takes; `of` instead: `count` of these.  `placed`: at the end, at least.
    """

    name: str
    there: Sequence[Any]
    arrives: Sequence[Any]
    placed: str = ""
    evicted: str = ""
    waits: str = ""
    nominated: str = ""
    of: str = ""
    count: int = 0
    scores: Mapping[str, int] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    plugins: Sequence[Any] = ()

    def world(self, placement: str = MINIMIZE_VICTIMS) -> World:
        """Return the cluster after everything has happened."""
        plugins = [*self.plugins, *([Preset(self.scores)] if self.scores else [])]
        how: dict[str, Any] = {"plugins": plugins} if plugins else {"placement": placement}
        return World(*self.there, *self.arrives, gates=dict(self.gates), **how).settle()

    def check(self, world: World) -> None:
        """Compare the outcome. Raises AssertionError."""
        assert set(self.placed.split()) <= world.where.keys()
        assert set(self.waits.split()) <= set(world.pending)
        if self.of:
            assert len(world.evicted) == self.count
            assert set(world.evicted) <= set(self.of.split())
        else:
            assert world.evicted == sorted(self.evicted.split())
        found = {p.name for d in world.engine.decisions if d.preemption for p, _ in d.preemption.nominations}
        assert set(self.nominated.split()) <= found


def table(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """Return the decorator of a test that takes each `case`."""
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases])
