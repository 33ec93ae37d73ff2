"""How much is missing for a pod that fits nowhere: the numbers that a decision record has beside its reasons.

observability.md 4.1 ("by how much") and 4.4: what is not certain is not stated.
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.meta import ObjectRef
from reprieve.decisions.records import Shortfall
from tests.building import START, Item, gang, group, node, pod
from tests.observability.test_recording import Recorded

GPU = "nvidia.com/gpu"
TAINTED = [("k", "v", "NoSchedule")]


def lack_of(*items: Any, name: str = "a", kind: str = "Pod") -> Shortfall | None:
    return Recorded(*items).settle().one(name, kind).lack


Found = tuple[dict[str, str], int, list[str]]


def closest(lack: Shortfall | None) -> Found | None:
    assert lack is not None
    return (lack.closest.missing, lack.closest.nodes, list(lack.closest.names)) if lack.closest is not None else None


def too_big(lack: Shortfall | None) -> list[tuple[str, str, str]]:
    assert lack is not None
    return [(one.resource, one.asked, one.largest) for one in lack.too_big]


def having(name: str, cpu: float, memory: int = 8, gpu: int = 8, **more: Any) -> list[Item]:
    """A node of 8 CPUs, 8Gi and 8 GPUs where so much is left beside a pod that is not evicted."""
    taken: dict[str, Any] = {"cpu": f"{round((8 - cpu) * 1000)}m", "memory": f"{8 - memory}Gi"}
    return [
        node(name, cpu=8, memory="8Gi", gpu=8, **more),
        pod(f"on-{name}", node=name, priority=99, gpu=8 - gpu, **taken),
    ]


CLOSEST: dict[str, tuple[list[list[Item]], Item, Found | None]] = {
    "by-the-share-of-what-is-asked-for-not-by-amounts": (
        [having("n1", cpu=8, memory=1), having("n2", cpu=4)],
        pod("a", cpu=8, memory="2Gi"),
        ({"memory": "1Gi"}, 1, ["n1"]),
    ),
    "shares-add-up": (
        [having("n1", cpu=6, memory=6), having("n2", cpu=5)],
        pod("a", cpu=8, memory="8Gi"),
        ({"cpu": "3"}, 1, ["n2"]),
    ),
    "all-that-is-missing-the-scarcest-first": (
        [having("n1", cpu=3, memory=1, gpu=2)],
        pod("a", cpu=4, memory="4Gi", gpu=4),
        ({"memory": "3Gi", GPU: "2", "cpu": "1"}, 1, ["n1"]),
    ),
    "the-first-three-are-named-in-order": (
        [having(f"n{i}", cpu=3) for i in (2, 5, 3, 1, 4)],
        pod("a", cpu=4),
        ({"cpu": "1"}, 5, ["n1", "n2", "n3"]),
    ),
    "exactly-that-much": (
        [having("n1", cpu=3), having("n2", cpu=2.999), having("n3", cpu=3)],
        pod("a", cpu=4),
        ({"cpu": "1"}, 2, ["n1", "n3"]),
    ),
    "nodes-that-fail-for-something-else-lack-nothing": (
        [having("n1", cpu=1), having("n2", cpu=8, taints=TAINTED), having("n3", cpu=3, taints=TAINTED)],
        pod("a", cpu=4),
        ({"cpu": "3"}, 1, ["n1"]),
    ),
    "nodes-whose-ports-are-taken-lack-no-amounts": (
        [having("n1", cpu=1), having("n2", cpu=8), [pod("b", node="n2", priority=99, ports=[80])]],
        pod("a", cpu=4, ports=[80]),
        ({"cpu": "3"}, 1, ["n1"]),
    ),
    "ports-alone": (
        [having("n2", cpu=8), [pod("b", node="n2", priority=99, ports=[80])]],
        pod("a", cpu=4, ports=[80]),
        None,
    ),
    "where-no-node-fails-for-amounts": ([having("n1", cpu=3, taints=TAINTED)], pod("a", cpu=4), None),
    "no-nodes": ([], pod("a", cpu=4), None),
}


@pytest.mark.parametrize("case", CLOSEST)
def test_closest_nodes_are_those_that_lack_least(case: str) -> None:
    nodes, item, wanted = CLOSEST[case]
    assert closest(lack_of(*nodes, item)) == wanted


def test_running_pods_are_missing_amounts() -> None:
    running = [pod("x1", cpu="1500m", node="n1"), pod("x2", cpu=3, node="n2")]
    lack = lack_of(node("n1", cpu=4), node("n2", cpu=4), *running, pod("a", cpu=4))
    assert closest(lack) == ({"cpu": "1500m"}, 1, ["n1"])
    assert too_big(lack) == []


@pytest.mark.parametrize(
    ("held", "missing"),
    [
        ({"priority": 5}, "3"),
        ({"priority": 4}, "3"),
        ({"priority": 3}, "1"),
    ],
    ids=["higher", "equal", "lower"],
)
def test_room_that_is_held_for_pods_of_at_least_its_priority_is_taken(held: dict[str, Any], missing: str) -> None:
    """As the filters count it (preemption.md 2.5)."""
    lack = lack_of(
        node("n1", cpu=4),
        pod("there", cpu=1, node="n1", priority=9),
        pod("held", cpu=2, nominated="n1", gates=["wait"], **held),
        pod("a", cpu=4, priority=4),
    )
    assert closest(lack) == ({"cpu": missing}, 1, ["n1"])


def test_pod_that_has_the_room_it_was_nominated_to_takes_it_once() -> None:
    """It waits for its binding: its amounts are in use already, and are not held beside that."""
    seen = Recorded(node("n1", cpu=4), pod("first", cpu=2, priority=9, nominated="n1"))
    seen.world.engine.after_step = lambda _: None
    decision = seen.world.step()
    assert [binding.node for binding in decision.bindings] == ["n1"]
    seen.world.add(pod("a", cpu=4))
    seen.observer.decided(seen.world.step(), seconds=0.1, now=START)
    assert closest(seen.one("a").lack) == ({"cpu": "2"}, 1, ["n1"])


def test_room_that_is_held_for_the_pod_itself_is_not_missing() -> None:
    lack = lack_of(
        node("n1", cpu=4), pod("there", cpu=3, node="n1", priority=9), pod("a", cpu=2, priority=4, nominated="n1")
    )
    assert closest(lack) == ({"cpu": "1"}, 1, ["n1"])


def test_room_that_is_held_for_a_stranger_is_missing_for_a_gang() -> None:
    lack = lack_of(
        *(node("n1", cpu=5), pod("held", cpu=2, priority=9, nominated="n1", gates=["wait"])),
        *gang("a", 2, cpu=2, priority=4),
        kind="PodGroup",
    )
    assert closest(lack) == ({"cpu": "1"}, 1, ["n1"])
    assert lack is not None
    assert lack.more == 1, "one of the two has a place beside it"


def test_room_that_is_held_for_a_fellow_member_is_not_missing() -> None:
    """Four members of 2 CPUs, two places: the room held for one of them is one of the two."""
    crew = [pod(f"a-{i}", cpu=2, group="a", priority=4, nominated="n1" if i == 3 else "") for i in range(4)]
    lack = lack_of(*having("n1", cpu=5), group("a", min_count=4, priority=4), *crew, name="a", kind="PodGroup")
    assert closest(lack) == ({"cpu": "1"}, 1, ["n1"])
    assert lack is not None
    assert lack.more == 2


TOO_BIG: dict[str, tuple[list[Item], Item, list[tuple[str, str, str]]]] = {
    "above-the-largest": (
        [node("n1", cpu=4), node("n2", cpu=8)],
        pod("a", cpu="8001m"),
        [("cpu", "8001m", "8")],
    ),
    "as-large-as-the-largest": ([node("n1", cpu=4), node("n2", cpu=8)], pod("a", cpu=8), []),
    "each-of-several": (
        [node("n1", cpu=4, memory="8Gi")],
        pod("a", cpu=5, memory="9Gi", gpu=1),
        [("cpu", "5", "4"), ("memory", "9Gi", "8Gi"), (GPU, "1", "0")],
    ),
    "those-above-alone": (
        [node("n1", cpu=4, memory="8Gi")],
        pod("a", cpu=5, memory="8Gi"),
        [("cpu", "5", "4")],
    ),
    "one-node-has-the-one-and-another-the-other": (
        [node("n1", cpu=8, memory="1Gi"), node("n2", cpu=1, memory="8Gi")],
        pod("a", cpu=8, memory="8Gi"),
        [],
    ),
    "no-nodes": ([], pod("a", cpu=5), []),
}


@pytest.mark.parametrize("case", TOO_BIG)
def test_amounts_that_no_node_has(case: str) -> None:
    nodes, item, wanted = TOO_BIG[case]
    full = [pod(f"x{i}", cpu="1m", node=each.metadata.name) for i, each in enumerate(nodes)]  # type: ignore[union-attr]
    assert too_big(lack_of(*nodes, *full, item)) == wanted


def test_node_that_is_gone_is_not_the_largest() -> None:
    seen = Recorded(node("n1", cpu=4), node("n2", cpu=64), node("n3", cpu=8), pod("x", cpu=60, node="n2", priority=99))
    seen.settle()
    seen.world.gone("x")
    seen.world.engine.remove(ObjectRef("Node", "n2"), seen.world.now)
    seen.world.add(pod("a", cpu=10))
    seen.settle()
    assert too_big(seen.one("a").lack) == [("cpu", "10", "8")]


def test_pod_that_asks_for_no_amounts_lacks_none() -> None:
    lack = lack_of(node("n1", taints=TAINTED), pod("a"))
    assert (closest(lack), too_big(lack)) == (None, [])


GANGS: dict[str, tuple[list[Any], int, Found | None]] = {
    "after-those-that-fit": (
        [*having("n1", cpu=5), *having("n2", cpu=3), *gang("a", 4, cpu=2)],
        1,
        ({"cpu": "1"}, 2, ["n1", "n2"]),
    ),
    "several-more": ([*having("n1", cpu=5), *gang("a", 4, cpu=2)], 2, ({"cpu": "1"}, 1, ["n1"])),
    "nodes-that-are-too-small-for-one-more": ([node("n1", cpu=5), node("n2", cpu=4), *gang("a", 5, cpu=2)], 1, None),
    "and-one-that-is-not": (
        [node("n1", cpu=5), *having("n2", cpu=2), *gang("a", 4, cpu=2)],
        1,
        ({"cpu": "2"}, 1, ["n2"]),
    ),
    "none-fits": ([*having("n1", cpu=1), *gang("a", 2, cpu=2)], 2, ({"cpu": "1"}, 1, ["n1"])),
    "those-who-run-count": (
        [
            *having("n1", cpu=5),
            group("a", min_count=3),
            pod("a-0", cpu=2, node="n1", group="a"),
            *[pod(f"a-{i}", cpu=2, group="a") for i in (1, 2)],
        ],
        1,
        ({"cpu": "1"}, 1, ["n1"]),
    ),
    "and-leave-too-little-for-another": (
        [
            node("n1", cpu=5),
            group("a", min_count=3),
            pod("a-0", cpu=2, node="n1", group="a"),
            *[pod(f"a-{i}", cpu=2, group="a") for i in (1, 2)],
        ],
        1,
        None,
    ),
    "something-else-than-amounts-keeps-them-off": (
        [
            node("n1", cpu=9),
            group("a", min_count=3),
            *[pod(f"a-{i}", cpu=2, group="a", ports=[80]) for i in range(3)],
        ],
        2,
        None,
    ),
}


@pytest.mark.parametrize("case", GANGS)
def test_next_member_of_a_gang_lacks(case: str) -> None:
    """Identical members: what is missing once those that fit have their places, for each of `more`."""
    items, more, wanted = GANGS[case]
    lack = lack_of(*items, kind="PodGroup")
    assert closest(lack) == wanted
    assert lack is not None
    assert lack.more == more


def test_gang_of_unlike_members_has_no_shortage() -> None:
    assert (
        lack_of(
            *(node("n1", cpu=4), group("a", min_count=2), pod("a-0", cpu=3, group="a"), pod("a-1", cpu=2, group="a")),
            kind="PodGroup",
        )
        is None
    )


def test_numbers_are_as_of_every_attempt() -> None:
    """Equal pods share them as long as nothing changes, and no longer."""
    seen = Recorded(node("n1", cpu=4), pod("x", cpu=2, node="n1", priority=9))
    seen.world.add(pod("a", cpu=4), pod("b", cpu=4))
    seen.settle()
    assert [closest(seen.one(name).lack) for name in "ab"] == [({"cpu": "2"}, 1, ["n1"])] * 2
    seen.world.add(pod("y", cpu=1, node="n1", priority=9), pod("c", cpu=4))
    seen.settle()
    assert closest(seen.one("c").lack) == ({"cpu": "3"}, 1, ["n1"])
    seen.world.add(pod("d", cpu=3), pod("e", cpu=4, priority=1))
    seen.settle()
    assert closest(seen.one("d").lack) == ({"cpu": "2"}, 1, ["n1"])
    assert closest(seen.one("e").lack) == ({"cpu": "3"}, 1, ["n1"])


def test_equal_pods_of_another_priority_see_other_room_held() -> None:
    seen = Recorded(
        node("n1", cpu=4),
        pod("x", cpu=2, node="n1", priority=9),
        pod("held", cpu=1, nominated="n1", gates=["wait"], priority=5),
        pod("a", cpu=4, priority=5),
        pod("b", cpu=4, priority=6),
        pod("c", cpu=4, priority=5),
    ).settle()
    assert {name: closest(seen.one(name).lack) for name in "abc"} == {
        "a": ({"cpu": "3"}, 1, ["n1"]),
        "b": ({"cpu": "2"}, 1, ["n1"]),
        "c": ({"cpu": "3"}, 1, ["n1"]),
    }


def test_pod_that_could_be_placed_has_no_shortage() -> None:
    """Rejected by a plugin's trouble, or waiting for its preemption: no amounts are missing."""
    seen = Recorded(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("a", cpu=4, priority=9)).settle()
    assert [record.lack for record in seen.about("a") if record.preemption is not None] == [None]
    assert seen.world.now >= START
