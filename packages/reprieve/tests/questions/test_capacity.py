"""How many copies are tried (whatif.md 8.5): none that resources rule out, and none too few."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.errors import InputError, Origin
from kube_rules.manifests import LoadedObject, Manifests
from reprieve.questions import capacity as module
from reprieve.questions.capacity import CapacityReport, capacity
from reprieve.simulation.plan import PlanOptions
from tests.building import gang, group, node, pod, priority_class

NONE_BY_CLAIM: frozenset[str] = frozenset()


def manifests(*items: Any) -> Manifests:
    found: dict[Any, list[Any]] = {}
    for order, item in enumerate(items):
        found.setdefault(type(item), []).append(LoadedObject(item, Origin("test"), order, float(order)))
    return Manifests(objects=found)


def asked(cluster: Manifests, shape: Manifests) -> CapacityReport:
    return capacity(cluster, shape, PlanOptions())


@pytest.mark.parametrize("seed", range(25))
def test_bound_leaves_out_no_copy_that_fits(seed: int) -> None:
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


def test_pods_that_no_node_can_hold_are_not_tried() -> None:
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


def test_victims_of_a_copy_that_is_not_placed_whole_are_not_counted() -> None:
    """whatif.md 8.1: the second copy finds room for one of its pods, by preemption, and for the other there is none."""
    there = [node("n1", cpu=4, labels={"side": "left"}), node("n2", cpu=1, labels={"side": "right"})]
    low = [pod(f"low-{i}", cpu=1, priority=0, node="n1") for i in range(3)]
    copy = [pod(side, cpu=1, priority=5, selector={"side": side}) for side in ("left", "right")]
    found = asked(manifests(*there, *low), manifests(*copy))
    assert (found.now, found.with_preemption, found.victims) == (1, 1, 0)


def test_capacity_of_protected_pods_is_not_free() -> None:
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


def test_gangs_of_unlike_pods_that_come_at_once_are_no_fewer_than_is_reported() -> None:
    """whatif.md 8.6: evicting one after the other, one copy more finds its places than in the emptied cluster."""
    there = [node("n1", cpu=6), node("n2", cpu=2), node("n3", cpu=1), pod("low", cpu=3, priority=0, node="n1")]
    group, first, _ = gang("new", 2, cpu=1, priority=5)
    shape = [group, first, pod("new-1", cpu=2, group="new", priority=5)]
    found = asked(manifests(*there), manifests(*shape))
    assert (found.now, found.with_preemption, found.victims, found.at_least) == (1, 3, 1, ("now",))
    with mock.patch.object(module, "MOST_SEARCHED", 0):
        found = asked(manifests(*there), manifests(*shape))
    assert (found.now, found.with_preemption, found.at_least) == (1, 2, ("now", "withPreemption"))


def test_gangs_that_cannot_be_decided_on_at_once_are_counted_as_far_as_they_were_tried() -> None:
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
def test_shape_of_many_pods_says_how_many_are_not_named(pods: int, called: str) -> None:
    """whatif.md 8.1: all of them are one copy."""
    shape = [pod(f"p{number}", cpu=1) for number in range(pods)]
    assert asked(manifests(node("n1", cpu=8)), manifests(*shape)).shape == called


def test_stranded_capacity_of_a_pool_and_its_causes() -> None:
    """whatif.md 8.3: free, and not enough for one more pod; pods with most of the rest there, the first three."""
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


def test_pool_of_which_more_may_fit_than_was_tried_does_not_say_what_is_stranded() -> None:
    """whatif.md 8.5."""
    there = manifests(node("n1", cpu=9), pod("x", cpu=2, node="n1"))
    for most, expected in ((3, None), (4, "1")):
        with mock.patch.object(module, "MOST_SINGLES", most):
            [found] = asked(there, manifests(pod("new", cpu=2))).pools
        assert (found.pods, found.free, found.stranded) == (3, "7", expected)
        assert found.by == (("default/pod/x",) if expected else ())


def test_capacity_of_domains_the_largest_first() -> None:
    """whatif.md 8.2: of nodes with the label; by default the shape's own constraint."""
    zones = {"n1": "c", "n2": "b", "n3": "b", "n4": "a"}
    there = [node(name, cpu=2, labels={"zone": zone}) for name, zone in zones.items()]
    there += [node("n5", cpu=9, labels={"rack": "r"})]
    found = capacity(manifests(*there), manifests(pod("new", cpu=1)), PlanOptions(), topology="zone")
    expected = [("b", 2, 4), ("a", 1, 2), ("c", 1, 2)]
    assert [(one.name, one.nodes, one.pods) for one in found.domains] == expected
    own = asked(manifests(*there), manifests(*gang("new", 2, cpu=1, topology="zone")))
    assert (own.topology_key, [(one.name, one.nodes, one.pods) for one in own.domains]) == ("zone", expected)
    assert asked(manifests(*there), manifests(pod("new", cpu=1))).domains == ()


@pytest.mark.parametrize(
    ("option", "label", "message"),
    [
        ("topology", "zone", ""),
        ("topology", "zon", 'no node has the label "zon", did you mean "zone"?'),
        ("pool", "quite-another", 'no node has the label "quite-another"'),
    ],
)
def test_label_that_no_node_has(option: str, label: str, message: str) -> None:
    there, shape = manifests(node("n1", cpu=1, labels={"zone": "a"})), manifests(pod("new", cpu=1))
    given = {option: label}
    if not message:
        assert capacity(there, shape, PlanOptions(), **given).domains
        return
    with pytest.raises(InputError, match=f"--{option}") as caught:
        capacity(there, shape, PlanOptions(), **given)
    assert caught.value.message == message


def test_copy_has_pending_pods_and_no_more_than_are_tried() -> None:
    there = manifests(node("n1", cpu=4))
    with pytest.raises(InputError, match="the manifests have no pending pods"):
        asked(there, manifests(pod("new", cpu=1, node="n1")))
    with mock.patch.object(module, "MOST_PODS", 2):
        assert asked(there, manifests(pod("a", cpu=1), pod("b", cpu=1))).now == 2
        with pytest.raises(InputError, match="a copy has 3 pods: at most 2 can be tried"):
            asked(there, manifests(*(pod(name, cpu=1) for name in "abc")))


def test_requests_of_a_copy_are_those_of_all_its_pods() -> None:
    found = asked(manifests(node("n1", cpu=4)), manifests(pod("a", cpu=1), pod("b", cpu=2)))
    assert (found.requests, found.pods_per_copy, found.now) == ({"cpu": "3"}, 2, 1)


# -- rule by rule --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "shape", "most", "fits"),
    [
        ([{"cpu": 4000, "pods": 10}], [pod("a", cpu=1)], 9, 4),
        ([{"cpu": 4000, "pods": 10}], [pod("a", cpu=1)], 3, 3),
        ([{"cpu": 4000, "pods": 3}], [pod("a", cpu=1)], 9, 3),
        ([{"cpu": 4000}], [pod("a", cpu=1)], 9, 4),
        ([{"cpu": 3999, "pods": 10}, {"cpu": 999, "pods": 10}], [pod("a", cpu=1)], 9, 3),
        ([{"cpu": -500, "pods": 10}, {"cpu": 1000, "pods": 10}], [pod("a", cpu=1)], 9, 1),
        ([{"cpu": 1000, "pods": -2}, {"cpu": 1000, "pods": 10}], [pod("a", cpu=1)], 9, 1),
        ([{"cpu": 4000, "pods": 10}], [pod("a", gpu=1)], 9, 0),
        ([{"pods": 7}], [pod("a")], 9, 7),
        ([{"cpu": 9000, "pods": 10}], [pod("a", cpu=1), pod("b", cpu=2)], 9, 3),  # in all
        ([{"cpu": 2000, "pods": 10}] * 2, [pod("a", cpu=1), pod("b", cpu=2)], 9, 1),  # in all
        ([{"cpu": 9000, "pods": 3}], [pod("a", cpu=1), pod("b", cpu=1)], 9, 1),  # in places
        ([{"cpu": 9000, "pods": 10}], [pod("a", cpu=1), pod("b")], 9, 5),  # what one alone asks for bounds no place
        ([], [pod("a", cpu=1)], 9, 0),
    ],
)
def test_no_more_copies_than_resources_have_room_for(
    free: list[dict[str, int]], shape: list[Any], most: int, fits: int
) -> None:
    """whatif.md 8.5: each node takes as many pods as it has room for the least of them, and all nodes what all ask."""
    assert module._most(free, shape, most, NONE_BY_CLAIM) == fits


def test_running_pods_are_subtracted_and_ended_ones_are_not() -> None:
    there = node("n1", cpu=4, memory=100, pods=10)
    ended = [pod(phase, cpu=1, node="n1", phase=phase) for phase in ("Succeeded", "Failed")]
    running = [pod("a", cpu=1, memory=30, node="n1"), pod("b", node="n1"), pod("c", cpu=9, node="n9"), *ended]
    found = manifests(there, *running)
    [free], [whole] = module._amounts(found.nodes, found.pods)
    assert (whole["cpu"], whole["memory"], whole["pods"]) == (4000, 100, 10)
    assert (free["cpu"], free["memory"], free["pods"]) == (3000, 70, 8)


SELECTOR = objects.LabelSelector(match_labels={"a": "b"})
ALIKE: dict[str, tuple[dict[str, Any], bool]] = {
    "alike": ({}, True),
    "affinity": ({"affinity": objects.Affinity()}, False),
    "spread": (
        {
            "topology_spread_constraints": (
                objects.TopologySpreadConstraint(max_skew=1, topology_key="z", when_unsatisfiable="DoNotSchedule"),
            )
        },
        False,
    ),
    "claims": ({"resource_claims": (objects.PodResourceClaim(name="c"),)}, False),
    "volumes": ({"volumes": (objects.Volume(name="v"),)}, False),
    "the network of the host": ({"host_network": True}, False),
    "gates": ({"scheduling_gates": (objects.PodSchedulingGate(name="g"),)}, False),
    "another group": ({"scheduling_group": objects.PodSchedulingGroup(pod_group_name="other")}, False),
    "no group": ({"scheduling_group": None}, False),
    "a selector": ({"node_selector": {"a": "b"}}, True),
}


@pytest.mark.parametrize("case", ALIKE)
def test_only_pods_without_placement_rules_are_counted_by_amounts(case: str) -> None:
    """whatif.md 8.6: amounts alone count for gangs of pods that are alike and indifferent to each other."""
    more, alone = ALIKE[case]
    group, *pods = gang("g", 2, cpu=1)
    changed = [replace(one, spec=replace(one.spec, **more)) for one in pods]  # type: ignore[attr-defined]
    assert module._only_amounts_count(changed, [group]) is alone  # type: ignore[arg-type, list-item]


def test_gang_is_counted_by_amounts_only_if_its_group_and_pods_allow_it() -> None:
    group, *pods = gang("g", 2, cpu=1)
    assert isinstance(group, objects.PodGroup)
    first, second = (one for one in pods if isinstance(one, objects.Pod))
    counts = module._only_amounts_count
    assert counts([first, second], [group])
    assert not counts([first, second], [])
    assert not counts([first, second], [group, group])
    assert not counts([first], [group]), "its minimum is another number"
    assert not counts([first, replace(second, spec=replace(second.spec, priority=1))], [group])
    labelled = replace(second, metadata=replace(second.metadata, labels={"a": "b"}))
    assert not counts([first, labelled], [group])
    [constrained] = [one for one in gang("g", 2, topology="z") if isinstance(one, objects.PodGroup)]
    assert not counts([first, second], [constrained])
    [child] = [one for one in gang("g", 2, parent="top") if isinstance(one, objects.PodGroup)]
    assert not counts([first, second], [child])
    claims = replace(group, spec=replace(group.spec, resource_claims=(objects.PodGroupResourceClaim(name="c"),)))
    assert not counts([first, second], [claims])
    host = [pod(f"g-{i}", cpu=1, group="g", ports=[80]) for i in range(2)]
    assert not counts(host, [group])


@pytest.mark.parametrize(
    ("running", "stays"),
    [
        ([pod("p", cpu=4, priority=5, node="n1")], True),
        ([pod("p", cpu=4, priority=9, node="n1")], True),
        ([pod("p", cpu=4, priority=4, node="n1")], False),
        ([pod("p", cpu=4, priority=None, node="n1")], False),
        ([pod("p", cpu=4, priority=9, node="n1", terminating=True)], False),
        ([group("g", min_count=1, priority=5), pod("p", cpu=4, priority=5, group="g", node="n1")], True),
        ([group("g", min_count=1, priority=4), pod("p", cpu=4, priority=9, group="g", node="n1")], False),
        ([group("g", min_count=1, priority=9), pod("p", cpu=4, priority=4, group="g", node="n1")], False),
        ([group("g", min_count=1, priority=None), pod("p", cpu=4, priority=9, group="g", node="n1")], False),
        ([pod("p", cpu=4, priority=9, group="nobody", node="n1")], False),
    ],
)
def test_pods_that_stay_take_capacity_that_is_not_tried(running: list[Any], stays: bool) -> None:
    """Of the shape's own priority or a higher one, with its group, and not on the way out."""
    with mock.patch.object(module, "_planned", side_effect=module._planned) as planned:
        asked(manifests(node("n1", cpu=4), *running), manifests(*gang("new", 2, cpu=2, priority=5)))
    tried = max((sum(one.KIND == "Pod" for one in call.args[1]) for call in planned.call_args_list), default=0)
    assert tried == (0 if stays else 2)


def test_copies_are_no_more_than_a_thousand_single_pods_two_thousand() -> None:
    """whatif.md 8.5, with smaller figures."""
    there = manifests(node("n1", cpu=9))
    with mock.patch.object(module, "MOST_COPIES", 3), mock.patch.object(module, "MOST_SINGLES", 5):
        found = asked(there, manifests(pod("new", cpu=1)))
        assert (found.now, found.with_preemption, found.largest_gang) == (3, 3, 5)
        assert found.at_least == ("now", "withPreemption", "largestGang")
    with mock.patch.object(module, "MOST_COPIES", 9), mock.patch.object(module, "MOST_SINGLES", 10):
        found = asked(there, manifests(pod("new", cpu=1)))
        assert (found.now, found.largest_gang, found.at_least) == (9, 9, ("now", "withPreemption"))
    with mock.patch.object(module, "MOST_COPIES", 10):
        assert asked(there, manifests(pod("new", cpu=1))).at_least == ()


def test_pending_pods_of_the_input_are_left_out() -> None:
    """whatif.md 8.4."""
    found = asked(manifests(node("n1", cpu=4), pod("waits", cpu=4, priority=9)), manifests(pod("new", cpu=1)))
    assert (found.now, found.with_preemption) == (4, 4)


def test_classes_of_the_shape_are_there_and_those_of_the_cluster_count_first() -> None:
    there = [node("n1", cpu=2), priority_class("c", 1), pod("low", cpu=1, node="n1")]
    found = module._settled(manifests(*there), manifests(pod("new"), priority_class("c", 2), priority_class("d", 3)))
    classes = {one.object.name: one.object.value for one in found.of(objects.PriorityClass)}
    assert classes == {"c": 1, "d": 3}
    assert [one.object.name for one in found.pods] == ["low"]


def test_scarcest_resource_is_that_of_which_one_pod_takes_the_largest_part() -> None:
    there = manifests(node("n1", cpu=8, gpu=4, memory="64Gi"), node("n2", cpu=8, memory="64Gi"))
    for shape, scarce, requests in (
        (pod("new", cpu=2, gpu=1), "nvidia.com/gpu", {"cpu": "2", "nvidia.com/gpu": "1"}),
        (pod("new", cpu=8, gpu=1), "cpu", {"cpu": "8", "nvidia.com/gpu": "1"}),
        (pod("new"), None, {}),
    ):
        found = asked(there, manifests(shape))
        assert (found.resource, found.requests, found.topology_key) == (scarce, requests, None)


def test_pools_are_called_by_the_size_of_their_nodes() -> None:
    there = [node("a", cpu=2, memory="1Gi"), node("b", cpu=2, memory="1Gi", pods=5), node("c", cpu=3, memory="1Gi")]
    found = asked(manifests(*there), manifests(pod("new", cpu=1))).pools
    assert [(one.name, one.nodes, one.pods) for one in found] == [
        ("2 cpu, 1Gi memory", 2, 4),
        ("3 cpu, 1Gi memory", 1, 3),
    ]


def test_victims_of_the_parts_of_a_last_copy_are_not_counted() -> None:
    """whatif.md 8.7: a gang with less than all of it as its minimum evicts for one of its pods, and the other waits."""
    there = [node("n1", cpu=3, labels={"side": "left"}), node("n2", cpu=1)]
    low = [pod(f"low-{i}", cpu=1, node="n1") for i in range(3)]
    shape = gang("new", 2, min_count=1, cpu=1, priority=5, selector={"side": "left"})
    found = asked(manifests(*there, *low), manifests(*shape))
    assert (found.now, found.with_preemption, found.victims) == (0, 1, 2)
