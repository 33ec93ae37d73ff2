"""How many pods of a StatefulSet an update may make unavailable (interfaces.md 7.19)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.plane import refused
from tests.controllers.test_set_rules import images, ready, replaced, stateful, states
from tests.controllers.world import Json, World, template

NAMES = tuple(f"a-{number}" for number in range(6))


def updated(most: int | str | None, policy: str = "Parallel", *, unready: tuple[str, ...] = (), **more: Any) -> World:
    """Six pods of a template that has changed since; some are not ready."""
    world = World(("statefulset",))
    rolling: Json = {} if most is None else {"maxUnavailable": most}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {**rolling, **more}}
    world.create(stateful(replicas=6, podManagementPolicy=policy, updateStrategy=strategy))
    for name in NAMES:
        ready(world.settle(), name)
    for name in unready:
        world.set_ready(name, False)
    changed = template()
    changed["spec"]["containers"][0]["image"] = "new"
    world.patch("apps/v1", "StatefulSet", "a", {"spec": {"template": changed}})
    return world.settle()


def ended(world: World) -> list[str]:
    return [name for name, terminating in states(world).items() if terminating]


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (None, ["a-5"]),
        (2, ["a-4", "a-5"]),
        (9, list(NAMES)),
        ("50%", ["a-3", "a-4", "a-5"]),
        ("49%", ["a-4", "a-5"]),  # rounded down
        ("1%", ["a-5"]),  # but at least one
    ],
)
@pytest.mark.parametrize("policy", ["Parallel", "OrderedReady"])
def test_pods_replaced_at_a_time_are_bounded(most: int | str | None, expected: list[str], policy: str) -> None:
    assert ended(updated(most, policy)) == expected


def test_next_pod_follows_as_soon_as_one_is_available() -> None:
    world = updated(2)
    replaced(world, "a-4")
    assert ended(world) == ["a-5"], "the new one is not ready"
    ready(world, "a-4")
    assert ended(world) == ["a-3", "a-5"]
    assert images(world)["a-4"] == "new"


def test_pods_that_make_way_for_a_smaller_set_hold_up_no_update() -> None:
    world = World(("statefulset",))
    world.create(stateful(replicas=6, podManagementPolicy="Parallel"))
    for name in NAMES:
        ready(world.settle(), name)
    changed = template()
    changed["spec"]["containers"][0]["image"] = "new"
    world.patch("apps/v1", "StatefulSet", "a", {"spec": {"template": changed, "replicas": 4}})
    assert ended(world.settle()) == ["a-3", "a-4", "a-5"]


def test_partition_limits_the_pods_and_not_what_counts() -> None:
    assert ended(updated(3, partition=4)) == ["a-4", "a-5"]
    assert ended(updated(2, partition=5, unready=("a-0", "a-1"))) == []


def test_parallel_pods_that_are_not_available_are_replaced_in_any_case() -> None:
    """An old revision that never becomes available does not block its update (kubernetes#137409)."""
    assert ended(updated(1, unready=("a-0", "a-2"))) == ["a-0", "a-2"]
    assert ended(updated(3, unready=("a-0", "a-2"))) == ["a-0", "a-2", "a-5"]


def test_ordered_pods_that_are_not_available_hold_up_the_update() -> None:
    assert ended(updated(3, "OrderedReady", unready=("a-2",))) == []


@pytest.mark.parametrize("most", [0, "0%", -1, "101%", "many"])
def test_refused_amounts(most: int | str) -> None:
    world = World(("statefulset",))
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most}}
    error = refused(world, stateful(updateStrategy=strategy))
    assert error.code == 422
    assert "spec.updateStrategy.rollingUpdate.maxUnavailable" in error.message
