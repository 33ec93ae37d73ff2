"""How many copies are tried (whatif.md 8.5): none that resources rule out, and none too few."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from reprieve.api.errors import InputError, Origin
from reprieve.api.manifests import Loaded, Manifests
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.whatif import capacity as module
from reprieve.simulation.whatif.capacity import Capacity, capacity
from tests.building import gang, node, pod

NONE_BY_CLAIM: frozenset[str] = frozenset()


def manifests(*items: Any) -> Manifests:
    found: dict[Any, list[Any]] = {}
    for order, item in enumerate(items):
        found.setdefault(type(item), []).append(Loaded(item, Origin("test"), order, float(order)))
    return Manifests(objects=found)


def asked(cluster: Manifests, shape: Manifests) -> Capacity:
    return capacity(cluster, shape, PlanOptions())


@pytest.mark.parametrize("seed", range(25))
def test_the_bound_leaves_out_no_copy_that_fits(seed: int) -> None:
    """The same answer as when a fixed number is tried, on nodes of unlike sizes with some of them overfull."""
    chance = random.Random(seed)
    there: list[Any] = [node(f"n{i}", cpu=chance.randint(1, 8), gpu=chance.randint(0, 4)) for i in range(4)]
    for i in range(6):
        lots = chance.randint(0, 3)
        there.append(pod(f"p{i}", cpu=lots, priority=chance.choice((0, 9)), node=f"n{chance.randrange(4)}"))
    if chance.random() < 0.5:
        shape: list[Any] = list(gang("new", chance.randint(1, 3), cpu=chance.randint(1, 2), priority=5))
    else:
        shape = [pod("new", cpu=1, gpu=chance.randint(0, 2), priority=5)]
    found = asked(manifests(*there), manifests(*shape))
    with mock.patch.object(module, "_most", return_value=40):
        assert asked(manifests(*there), manifests(*shape)) == found


def test_what_no_node_can_hold_is_not_tried() -> None:
    """In all there are enough cores, on no node are there."""
    there = manifests(*(node(f"n{i}", cpu=4) for i in range(10)))
    with mock.patch.object(module, "plan") as tried:
        found = asked(there, manifests(*gang("new", 2, cpu=5)))
    assert not tried.called
    assert (found.now, found.with_preemption, found.largest_gang) == (0, 0, 0)


def test_devices_that_drivers_offer_do_not_rule_a_copy_out() -> None:
    """Nodes do not list them (devices.md, extended resources): the class that serves them says that there are some."""
    one = pod("new", cpu=1, more={"example.com/gpu": 1})
    amounts = [{"cpu": 4000, "pods": 10}]
    assert module._most(amounts, [one], 20, NONE_BY_CLAIM) == 0
    assert module._most(amounts, [one], 20, {"example.com/gpu"}) == 4


def test_copies_of_a_single_pod_are_the_single_pods_that_are_tried() -> None:
    there = manifests(node("n1", cpu=4), pod("low", cpu=1, priority=0, node="n1"))
    with mock.patch.object(module, "_planned", side_effect=module._planned) as planned:
        found = asked(there, manifests(pod("new", cpu=1, priority=5)))
    assert (found.now, found.largest_gang, found.with_preemption, found.victims) == (3, 3, 4, 1)
    assert planned.call_count == 2


def test_parts_of_a_copy_that_is_not_placed_whole_evict_nobody_of_those_told() -> None:
    """whatif.md 8.1: the second copy finds room for one of its pods, by preemption, and for the other there is none."""
    there = [node("n1", cpu=4, labels={"side": "left"}), node("n2", cpu=1, labels={"side": "right"})]
    low = [pod(f"low-{i}", cpu=1, priority=0, node="n1") for i in range(3)]
    copy = [pod(side, cpu=1, priority=5, selector={"side": side}) for side in ("left", "right")]
    found = asked(manifests(*there, *low), manifests(*copy))
    assert (found.now, found.with_preemption, found.victims) == (1, 1, 0)


def test_room_of_who_cannot_be_evicted_is_no_room() -> None:
    there = [node(f"n{i}", cpu=4) for i in range(4)]
    running = [pod(f"p{i}", cpu=4, priority=5, node=f"n{i}") for i in range(3)]
    low = [pod("low", cpu=4, priority=0, node="n3")]
    with mock.patch.object(module, "_planned", side_effect=module._planned) as planned:
        found = asked(manifests(*there, *running, *low), manifests(*gang("new", 2, cpu=2, priority=5)))
    assert (found.now, found.with_preemption, found.victims) == (0, 1, 1)
    _, items, _ = planned.call_args_list[0].args
    assert sum(item.KIND == "Pod" for item in items) == 2


def crowded(chance: random.Random) -> tuple[list[Any], list[Any]]:
    """Nodes of one size with single pods of lower and of higher priority, and a gang."""
    there: list[Any] = [node(f"n{i}", cpu=6) for i in range(6)]
    there += [pod(f"p{i}", cpu=2, priority=chance.choice((0, 0, 9)), node=f"n{i % 6}") for i in range(12)]
    return there, list(gang("new", chance.randint(1, 4), cpu=2, priority=5))


@pytest.mark.parametrize("seed", range(12))
def test_gangs_that_come_at_once_are_as_many_as_one_after_the_other(seed: int) -> None:
    """whatif.md 8.6: and no more pods go for them."""
    there, shape = crowded(random.Random(seed))
    found = asked(manifests(*there), manifests(*shape))
    with mock.patch.object(module, "MOST_SEARCHED", 0):
        together = asked(manifests(*there), manifests(*shape))
    assert (together.now, together.with_preemption) == (found.now, found.with_preemption)
    assert together.victims <= found.victims
    assert together.at_least == ()


def test_gangs_of_unlike_pods_that_come_at_once_are_no_fewer_than_is_told() -> None:
    """whatif.md 8.6: evicting one after the other, one copy more finds its places than in the emptied cluster."""
    there = [node("n1", cpu=6), node("n2", cpu=2), node("n3", cpu=1), pod("low", cpu=3, priority=0, node="n1")]
    group, first, _ = gang("new", 2, cpu=1, priority=5)
    shape = [group, first, pod("new-1", cpu=2, group="new", priority=5)]
    found = asked(manifests(*there), manifests(*shape))
    assert (found.now, found.with_preemption, found.victims, found.at_least) == (1, 3, 1, ())
    with mock.patch.object(module, "MOST_SEARCHED", 0):
        found = asked(manifests(*there), manifests(*shape))
    assert (found.now, found.with_preemption, found.at_least) == (1, 2, ("withPreemption",))


def test_gangs_that_cannot_be_decided_on_at_once_are_told_as_far_as_they_were_tried() -> None:
    """whatif.md 8.6: each of these has to be within one zone of its own."""
    there = [node(f"n{i}", cpu=2, labels={"zone": f"z{i}"}) for i in range(5)]
    low = [pod(f"low-{i}", cpu=2, priority=0, node=f"n{i}") for i in range(5)]
    shape = gang("new", 2, cpu=1, priority=5, topology="zone")
    found = asked(manifests(*there, *low), manifests(*shape))
    assert (found.now, found.with_preemption, found.victims, found.at_least) == (0, 5, 5, ())
    with mock.patch.object(module, "MOST_SEARCHED", 20):
        found = asked(manifests(*there, *low), manifests(*shape))
    assert (found.now, found.with_preemption, found.victims) == (0, 2, 2)
    assert found.at_least == ("withPreemption",)


def test_copies_of_many_pods_are_tried_as_far_as_pods_are() -> None:
    with mock.patch.object(module, "MOST_TRIED", 5):
        found = asked(manifests(node("n1", cpu=9)), manifests(*gang("new", 2, cpu=1)))
        assert (found.now, found.at_least) == (2, ("now", "withPreemption"))
        found = asked(manifests(node("n1", cpu=9)), manifests(*gang("new", 7, cpu=1)))
        assert (found.now, found.at_least) == (1, ("now", "withPreemption"))


@pytest.mark.parametrize("seed", range(25))
def test_gangs_of_like_pods_are_as_many_as_their_pods_have_places_for(seed: int) -> None:
    """What the single pods have told is not tried again."""
    chance = random.Random(seed)
    there: list[Any] = [node(f"n{i}", cpu=chance.randint(1, 9), gpu=chance.randint(0, 4)) for i in range(5)]
    there += [pod(f"p{i}", cpu=1, priority=9, node=f"n{chance.randrange(5)}") for i in range(4)]
    shape = gang("new", chance.randint(1, 4), cpu=chance.randint(1, 3), gpu=chance.randint(0, 1), priority=5)
    found = asked(manifests(*there), manifests(*shape))
    with mock.patch.object(module, "_only_amounts_count", return_value=False):
        assert asked(manifests(*there), manifests(*shape)) == found


@pytest.mark.parametrize(
    ("pods", "called"),
    [
        (2, "pod default/p0, pod default/p1"),
        (3, "pod default/p0, pod default/p1, pod default/p2"),
        (5, "pod default/p0, pod default/p1, pod default/p2 and 2 more"),
    ],
)
def test_a_shape_of_many_pods_says_how_many_are_not_named(pods: int, called: str) -> None:
    """whatif.md 8.1: all of them are one copy."""
    shape = [pod(f"p{number}", cpu=1) for number in range(pods)]
    assert asked(manifests(node("n1", cpu=8)), manifests(*shape)).shape == called


def test_what_of_a_pool_is_stranded_and_by_whom() -> None:
    """whatif.md 8.3: free, and not enough for one more pod; whoever has most of the rest there, the first three."""
    there = [
        node("a1", cpu=8, labels={"pool": "a"}),
        node("a2", cpu=8, labels={"pool": "a"}),
        node("b1", cpu=4, labels={"pool": "b"}),
        node("c1", cpu=4),
        node("c2", cpu=4),
    ]
    running = [("w", 1, "a1"), ("x", 1, "a1"), ("y", 3, "a1"), ("z", 2, "a1"), ("even", 4, "a2"), ("half", 1, "b1")]
    pods = [pod(name, cpu=cpu, node=on) for name, cpu, on in running]
    ended = pod("ended", cpu=4, node="c1")
    pods.append(replace(ended, status=replace(ended.status, phase="Succeeded")))
    shape = manifests(pod("new", cpu=2))
    found = capacity(manifests(*there, *pods), shape, PlanOptions(), pool="pool")
    assert [(one.name, one.nodes, one.pods, one.free, one.stranded, one.by) for one in found.pools] == [
        ("(none)", 2, 4, "8", "0", ()),
        ("a", 2, 2, "5", "1", ("default/pod/y", "default/pod/z", "default/pod/w")),
        ("b", 1, 1, "3", "1", ("default/pod/half",)),
    ]
    assert (found.resource, found.largest_gang, found.at_least) == ("cpu", 7, ())
    by_size = asked(manifests(*there, *pods), shape).pools
    assert [(one.nodes, one.pods) for one in by_size] == [(3, 5), (2, 2)]
    assert by_size[0].name.startswith("4 cpu")


def test_a_pool_of_which_more_may_fit_than_was_tried_does_not_say_what_is_stranded() -> None:
    """whatif.md 8.5."""
    there = manifests(node("n1", cpu=9), pod("x", cpu=2, node="n1"))
    for most, told in ((3, None), (4, "1")):
        with mock.patch.object(module, "MOST_SINGLES", most):
            [found] = asked(there, manifests(pod("new", cpu=2))).pools
        assert (found.pods, found.free, found.stranded) == (3, "7", told)
        assert found.by == (("default/pod/x",) if told else ())


def test_what_fits_in_each_domain_the_roomiest_first() -> None:
    """whatif.md 8.2: of nodes with the label; by default the shape's own constraint."""
    zones = {"n1": "c", "n2": "b", "n3": "b", "n4": "a"}
    there = [node(name, cpu=2, labels={"zone": zone}) for name, zone in zones.items()]
    there += [node("n5", cpu=9, labels={"rack": "r"})]
    found = capacity(manifests(*there), manifests(pod("new", cpu=1)), PlanOptions(), topology="zone")
    told = [("b", 2, 4), ("a", 1, 2), ("c", 1, 2)]
    assert [(one.name, one.nodes, one.pods) for one in found.domains] == told
    own = asked(manifests(*there), manifests(*gang("new", 2, cpu=1, topology="zone")))
    assert (own.topology_key, [(one.name, one.nodes, one.pods) for one in own.domains]) == ("zone", told)
    assert asked(manifests(*there), manifests(pod("new", cpu=1))).domains == ()


@pytest.mark.parametrize(
    ("option", "label", "message"),
    [
        ("topology", "zone", ""),
        ("topology", "zon", 'no node has the label "zon", did you mean "zone"?'),
        ("pool", "quite-another", 'no node has the label "quite-another"'),
    ],
)
def test_a_label_that_no_node_has(option: str, label: str, message: str) -> None:
    there, shape = manifests(node("n1", cpu=1, labels={"zone": "a"})), manifests(pod("new", cpu=1))
    given = {option: label}
    if not message:
        assert capacity(there, shape, PlanOptions(), **given).domains
        return
    with pytest.raises(InputError, match=f"--{option}") as caught:
        capacity(there, shape, PlanOptions(), **given)
    assert caught.value.message == message


def test_a_copy_has_pods_that_wait_and_no_more_than_are_tried() -> None:
    there = manifests(node("n1", cpu=4))
    with pytest.raises(InputError, match="no pod in it that waits"):
        asked(there, manifests(pod("new", cpu=1, node="n1")))
    with mock.patch.object(module, "MOST_PODS", 2):
        assert asked(there, manifests(pod("a", cpu=1), pod("b", cpu=1))).now == 2
        with pytest.raises(InputError, match="a copy has 3 pods: at most 2 can be tried"):
            asked(there, manifests(*(pod(name, cpu=1) for name in "abc")))


def test_what_a_copy_asks_for_is_told_in_all() -> None:
    found = asked(manifests(node("n1", cpu=4)), manifests(pod("a", cpu=1), pod("b", cpu=2)))
    assert (found.requests, found.pods_per_copy, found.now) == ({"cpu": "3"}, 2, 1)
