"""Clusters with their preemptors and victims: for the tests of failures and races."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reprieve.client.transport import ApiClient
from tests.live.faults import Json, create, group, node, pod, priority_class

HIGH = 1000
MIDDLE = 500


@dataclass(frozen=True)
class World:
    """Existing objects, new ones, the victims, and pods that must not be touched."""

    name: str
    there: Sequence[Json]
    comes: Sequence[Json]
    victims: frozenset[str]
    bystanders: frozenset[str]
    classes: Sequence[Json] = field(
        default_factory=lambda: (priority_class("high", HIGH), priority_class("middle", MIDDLE))
    )

    @property
    def preemptors(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.comes if item["kind"] == "Pod"]

    async def build(self, client: ApiClient) -> None:
        await create(client, *self.classes, *self.there)

    async def begin(self, client: ApiClient) -> None:
        """Create the preemptor: the group before its pods, as their owner would make them."""
        await create(client, *self.comes)


def high(name: str, cpu: str, **spec: Any) -> Json:
    return pod(name, cpu=cpu, priorityClassName="high", **spec)


SINGLE = World(
    "a pod and three victims on the cheapest node",
    (
        node("n1", "3"),
        node("n2", "3"),
        *(pod(f"low{number}", node="n1", cpu="1") for number in (1, 2, 3)),
        *(pod(f"middle{number}", node="n2", cpu="1", priorityClassName="middle") for number in (1, 2, 3)),
    ),
    (high("hi", "3"),),
    frozenset({"low1", "low2", "low3"}),
    frozenset({"middle1", "middle2", "middle3"}),
)

GANG = World(
    "a gang and victims on two nodes",
    (
        node("n1", "2"),
        node("n2", "2"),
        node("n3", "2"),
        *(pod(f"low{number}", node=f"n{(number + 1) // 2}", cpu="1") for number in (1, 2, 3, 4)),
        *(pod(f"middle{number}", node="n3", cpu="1", priorityClassName="middle") for number in (1, 2)),
    ),
    (
        group("gang", count=2, priority="high"),
        high("g1", "2", group="gang"),
        high("g2", "2", group="gang"),
    ),
    frozenset({"low1", "low2", "low3", "low4"}),
    frozenset({"middle1", "middle2"}),
)

UNIT = World(
    "a pod and a unit that is evicted as a whole",
    (
        node("n1", "2"),
        node("n2", "2"),
        node("n3", "2"),
        group("crew", count=3, everything=True),
        *(pod(f"crew{number}", node=f"n{number}", cpu="1", group="crew") for number in (1, 2, 3)),
        *(pod(f"middle{number}", node=f"n{number}", cpu="1", priorityClassName="middle") for number in (2, 3)),
    ),
    (high("hi", "2"),),
    frozenset({"crew1", "crew2", "crew3"}),
    frozenset({"middle2", "middle3"}),
)

WORLDS = (SINGLE, GANG, UNIT)
