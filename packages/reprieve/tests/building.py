"""Clusters for tests: `reprieve.testing`, and what only our own tests need.

Random clusters: `tests.random_clusters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from kube_rules import objects
from reprieve import testing
from reprieve.testing import GPU as GPU
from reprieve.testing import START as START
from reprieve.testing import Item as Item
from reprieve.testing import Port as Port
from reprieve.testing import Timed as Timed
from reprieve.testing import WatchedEngine as WatchedEngine
from reprieve.testing import check_queue as check_queue
from reprieve.testing import composite as composite
from reprieve.testing import gang as gang
from reprieve.testing import group as group
from reprieve.testing import node as node
from reprieve.testing import pdb as pdb
from reprieve.testing import pod as pod
from reprieve.testing import priority_class as priority_class
from reprieve.testing import profile_with as profile_with
from reprieve.testing import toleration as toleration


class World(testing.World):
    """One with plugins that may fail: our own tests look at how the scheduler handles that."""

    def __init__(self, *items: Item | Sequence[Item], contained: bool = True, **how: Any) -> None:
        super().__init__(*items, contained=contained, **how)


def annotated(**terms: str) -> dict[str, str]:
    """Annotations about work (cost.md 2): `annotated(minimum_runtime="1h")`."""
    return {f"scheduling.reprieve.dev/{name.replace('_', '-')}": text for name, text in terms.items()}


def history(world: World) -> list[tuple[object, ...]]:
    """Everything that was decided, in order, in terms of names."""
    return [
        (
            d.ref,
            d.result.value,
            [(b.pod.name, b.node) for b in d.bindings],
            [(r.pod.name, r.reason, r.message) for r in d.rejections],
            None if d.condition is None else (d.condition.scheduled, d.condition.reason, d.condition.message),
            None
            if d.preemption is None
            else (
                d.preemption.domain,
                [(p.name, row_name(world, row)) for p, row in d.preemption.nominations],
                [v.unit.name for v in d.preemption.victims],
                [v.unit.name for v in d.preemption.verdicts if not v.evicted],
                d.preemption.pdb_violations,
            ),
        )
        for d in world.engine.decisions
    ]


def row_name(world: World, row: int) -> str:
    """The node of a row."""
    return world.engine.cluster.nodes.names[row]


def without_gates(item: objects.Pod) -> objects.Pod:
    """Return the pod with its scheduling gates taken off."""
    return replace(item, spec=replace(item.spec, scheduling_gates=()))


def bound_to(item: objects.Pod, name: str) -> objects.Pod:
    """Return the pod as another client bound it."""
    return replace(item, spec=replace(item.spec, node_name=name), status=replace(item.status, phase="Running"))
