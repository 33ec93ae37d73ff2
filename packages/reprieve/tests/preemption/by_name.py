"""Units of a `World` by their names within the default namespace, and its cluster at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reprieve.cluster.state import ClusterState
from reprieve.preemption.units import PreemptionUnit, scheduled_pods, units_below
from tests.building import START, World


def cluster_at(world: World, now: float = START) -> ClusterState:
    """The world's cluster, told that it is `now` (seconds)."""
    cluster = world.engine.cluster
    cluster.now = now
    return cluster


def units_of(world: World, priority: int = 100, **more: Any) -> dict[str, PreemptionUnit]:
    """What may go for a preemptor of that priority, by name."""
    cluster = world.engine.cluster
    found = units_below(cluster, priority, scheduled_pods(cluster), **more)
    return {unit.name.removeprefix("default/"): unit for unit in found}


def names_of(units: Sequence[PreemptionUnit]) -> list[str]:
    """Their names, in that order."""
    return [unit.name.removeprefix("default/") for unit in units]
