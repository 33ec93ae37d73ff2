"""Slices taken apart, the pools a node reaches, and what selectors answer of devices."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.devices import DeviceSelectorError
from kube_rules.quantity import NANO
from reprieve.cluster import device_pools
from reprieve.cluster.device_allocation import DevicesInUse, PendingClaim, allocate
from reprieve.cluster.device_pools import (
    Capacity,
    CapacityPolicy,
    Device,
    DeviceMatcher,
    EffectiveTaint,
    SliceIndex,
    read_slice,
)
from reprieve.cluster.device_requests import Shapes
from tests.plugins.devices import (
    DRIVER,
    Json,
    device,
    device_class,
    devices,
    node_selector,
    request,
    slice_of,
    taint_rule,
)

# -- slices -----------------------------------------------------------------------------------------------------------


def test_slice_is_taken_apart() -> None:
    """resource.k8s.io/v1 ResourceSlice: amounts in units of 10^-9, everything else as it is written."""
    policy = {"default": "1", "validRange": {"min": "2", "max": "6", "step": "4"}}
    listed = device(
        "x",
        {"model": "A"},
        capacity={
            "bw": {"value": "10", "requestPolicy": policy},
            "mem": {"value": "1Gi"},
            "of": {"value": "3", "requestPolicy": {"validValues": ["1", "3"]}},
        },
        taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "only"}],
        consumesCounters=[{"counterSet": "card", "counters": {"m": {"value": "2"}}}],
        allowMultipleAllocations=True,
        bindsToNode=True,
        bindingConditions=["Ready"],
        bindingFailureConditions=["Broken"],
    )
    found = read_slice(slice_of("n", [listed, device("y")], pool="p", generation=3, count=2, name="s"))
    assert (found.name, found.pool, found.generation, found.count) == ("s", (DRIVER, "p"), 3, 2)
    assert (found.reach.node, found.reach.everywhere, found.reach.selector, found.per_device) == (
        "n",
        False,
        None,
        False,
    )
    one, plain = found.devices
    assert one.id == (DRIVER, "p", "x")
    assert one.capacity == {
        "bw": Capacity(10 * NANO, CapacityPolicy(NANO, (), 2 * NANO, 6 * NANO, 4 * NANO)),
        "mem": Capacity(2**30 * NANO, None),
        "of": Capacity(3 * NANO, CapacityPolicy(values=(NANO, 3 * NANO))),
    }
    assert one.taints == (EffectiveTaint("k", "v", "NoSchedule"), EffectiveTaint("only", "", ""))
    assert one.consumes == {"card": {"m": 2 * NANO}}
    assert (one.shared, one.binds_to_node) == (True, True)
    assert (one.binding_conditions, one.failure_conditions) == (("Ready",), ("Broken",))
    assert (plain.capacity, plain.taints, plain.consumes) == ({}, (), {})
    assert (plain.shared, plain.binds_to_node, plain.binding_conditions) == (False, False, ())
    assert not plain.reach.known
    counters = read_slice(slice_of("n", sharedCounters=[{"name": "card", "counters": {"m": {"value": "4"}}}]))
    assert counters.counters == (("card", {"m": 4 * NANO}),)


REACHES: list[tuple[str, Json, dict[tuple[str, str], bool], bool]] = [
    ("one node", {"nodeName": "a"}, {("a", "z"): True, ("b", "z"): False}, True),
    ("all nodes", {"allNodes": True}, {("a", "z"): True, ("b", "y"): True}, True),
    ("selected nodes", {"nodeSelector": node_selector("zone", "z")}, {("a", "z"): True, ("a", "y"): False}, True),
    (
        "nodes by name",
        {"nodeSelector": node_selector("metadata.name", "b", field=True)},
        {("a", "z"): False, ("b", "z"): True},
        True,
    ),
    ("nothing said", {}, {("a", "z"): False}, False),
]


@pytest.mark.parametrize(("where", "nodes", "known"), [r[1:] for r in REACHES], ids=[r[0] for r in REACHES])
@pytest.mark.parametrize("of", ["the slice", "its devices"])
def test_which_nodes_a_slice_or_a_device_is_for(
    of: str, where: Json, nodes: dict[tuple[str, str], bool], known: bool
) -> None:
    """A slice says so for all its devices, or leaves it to each (perDeviceNodeSelection)."""
    if of == "the slice":
        found = read_slice(slice_of(None, devices(1), **where))
        assert found.reach.known is known
    else:
        found = read_slice(slice_of(None, [device("x", **where), device("y")], perDeviceNodeSelection=True))
        assert found.devices[0].reach.known is known
        assert not found.reach.known
    for (name, zone), there in nodes.items():
        assert found.relevant(name, {"zone": zone}) is there
    counting = slice_of("a", sharedCounters=[{"name": "c", "counters": {"m": {"value": "1"}}}])
    assert read_slice(counting).relevant("elsewhere", {}), "counters matter to all of the pool"


def test_names_with_and_without_the_driver_s_domain() -> None:
    """Attributes and capacities without a domain are the driver's."""
    more: Json = {"capacity": {"mem": {"value": "1"}, f"{DRIVER}/bw": {"value": "1"}, "other/x": {"value": "1"}}}
    one = read_slice(
        slice_of("n", [device("x", {"model": "A", f"{DRIVER}/numa": 1, "other/rack": "r"}, **more)])
    ).devices[0]
    asked = {
        "model": {"string": "A"},
        f"{DRIVER}/model": {"string": "A"},
        f"{DRIVER}/numa": {"int": 1},
        "other/rack": {"string": "r"},
        "other/model": None,
        "rack": None,
    }
    assert {name: one.attribute(name) for name in asked} == asked
    names = {
        "mem": "mem",
        f"{DRIVER}/mem": "mem",
        "bw": f"{DRIVER}/bw",
        f"{DRIVER}/bw": f"{DRIVER}/bw",
        "other/x": "other/x",
        "x": None,
        "other/mem": None,
    }
    assert {name: one.capacity_name(name) for name in names} == names


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        ({}, {"x", "y"}),
        ({"device": "x"}, {"x"}),
        ({"pool": "n", "device": "y"}, {"y"}),
        ({"pool": "m"}, set()),
        ({"driver": "other"}, set()),
    ],
)
def test_rules_add_taints_to_those_of_the_driver(selector: dict[str, str], tainted: set[str]) -> None:
    """devices.md 3.1"""
    listed = [device("x", taints=[{"key": "own", "effect": "None"}]), device("y")]
    found = read_slice(slice_of("n", listed), [taint_rule("NoExecute", **selector)])
    ruled = EffectiveTaint("sick", "", "NoExecute")
    assert {one.id[2] for one in found.devices if ruled in one.taints} == tainted
    assert found.devices[0].taints[0] == EffectiveTaint("own", "", "None")


# -- pools ------------------------------------------------------------------------------------------------------------


def _pool_texts(index: SliceIndex, node: str, labels: dict[str, str] | None = None) -> list[str]:
    found = []
    for pool in index.pools(node, labels or {}):
        names = ",".join(each.id[2] for one in pool.slices for each in one.devices)
        state = "incomplete" if pool.incomplete else pool.invalid or names
        assert pool.usable is not (pool.incomplete or bool(pool.invalid))
        found.append(f"{pool.id[0].partition('.')[0]}/{pool.id[1]}: {state}")
    return found


def _index(*slices: Any) -> SliceIndex:
    return SliceIndex([read_slice(one) for one in slices])


def _set(name: str, *counters: str) -> Json:
    return {"name": name, "counters": {each: {"value": "1"} for each in counters}}


def _uses(counter_set: str, counter: str) -> Json:
    return {"consumesCounters": [{"counterSet": counter_set, "counters": {counter: {"value": "1"}}}]}


POOLS: list[tuple[str, list[Any], list[str]]] = [
    ("none", [], []),
    ("one", [slice_of("n", devices(2))], ["gpu/n: gpu-0,gpu-1"]),
    ("of another node", [slice_of("m", devices(2))], []),
    (
        "by driver, then by name",
        [
            slice_of("n", [device("c")], pool="a", driver="z.example.com"),
            slice_of("n", [device("b")], pool="b"),
            slice_of("n", [device("a")], pool="a"),
        ],
        ["gpu/a: a", "gpu/b: b", "z/a: c"],
    ),
    (
        "those that wait for devices last",
        [
            slice_of("n", [device("a", bindingConditions=["Ready"])], pool="a"),
            slice_of("n", [device("b")], pool="b"),
            slice_of("n", [device("c"), device("d", bindingConditions=["Ready"])], pool="0"),
        ],
        ["gpu/b: b", "gpu/0: c,d", "gpu/a: a"],
    ),
    (
        "slices by name",
        [slice_of("n", [device("b")], name="2", count=2), slice_of("n", [device("a")], name="1", count=2)],
        ["gpu/n: a,b"],
    ),
    (
        "the newest generation, whichever is read first",
        [
            slice_of("n", [device("old")], generation=1, name="1"),
            slice_of("n", [device("new")], generation=3, name="3"),
            slice_of("n", [device("mid")], generation=2, name="2"),
        ],
        ["gpu/n: new"],
    ),
    ("a slice is missing", [slice_of("n", devices(1), count=2)], ["gpu/n: incomplete"]),
    (
        "the others are for another node",
        [
            slice_of("n", [device("a")], pool="p", name="1", count=2),
            slice_of("m", [device("b")], pool="p", name="2", count=2),
        ],
        ["gpu/p: a"],
    ),
    (
        "one of three is missing",
        [
            slice_of("n", [device("a")], pool="p", name="1", count=3),
            slice_of("m", [device("b")], pool="p", name="2", count=3),
        ],
        ["gpu/p: incomplete"],
    ),
    (
        "nothing of the new generation is for this node yet",
        [
            slice_of("n", [device("a")], pool="p", name="1", count=2, generation=1),
            slice_of("m", [device("b")], pool="p", name="2", count=2, generation=2),
        ],
        [],
    ),
    (
        "slices of an older generation do not complete it",
        [
            slice_of("n", [device("a")], pool="p", name="1", count=2, generation=2),
            slice_of("m", [device("b")], pool="p", name="2", count=2, generation=1),
        ],
        ["gpu/p: incomplete"],
    ),
    ("twins", [slice_of("n", [device("a"), device("a")])], ["gpu/n: duplicate device name a"]),
    (
        "twins in two slices",
        [slice_of("n", [device("a")], name="1", count=2), slice_of("n", [device("a")], name="2", count=2)],
        ["gpu/n: duplicate device name a"],
    ),
    (
        "names that two pools have",
        [slice_of("n", [device("a")], pool="p"), slice_of("n", [device("a")], pool="q")],
        ["gpu/p: a", "gpu/q: a"],
    ),
    (
        "counters",
        [
            slice_of("n", [device("a", **_uses("c", "m"))], name="1", count=2),
            slice_of("n", name="2", count=2, sharedCounters=[_set("c", "m")]),
        ],
        ["gpu/n: a"],
    ),
    (
        "two sets of a name",
        [
            slice_of("n", devices(1), name="1", count=2),
            slice_of("n", name="2", count=2, sharedCounters=[_set("c", "m"), _set("c", "m")]),
        ],
        ["gpu/n: duplicate counter set name c"],
    ),
    ("no such set", [slice_of("n", [device("a", **_uses("c", "m"))])], ["gpu/n: counter set c not found"]),
    (
        "no such counter",
        [
            slice_of("n", [device("a", **_uses("c", "other"))], name="1", count=2),
            slice_of("n", name="2", count=2, sharedCounters=[_set("c", "m")]),
        ],
        ["gpu/n: counter other not found in counter set c"],
    ),
    (
        "no such set for a device elsewhere in the pool",
        [
            slice_of("n", [device("a")], pool="p", name="1", count=2),
            slice_of("m", [device("b", **_uses("c", "m"))], pool="p", name="2", count=2),
        ],
        ["gpu/p: counter set c not found"],
    ),
]


@pytest.mark.parametrize(("slices", "pools"), [p[1:] for p in POOLS], ids=[p[0] for p in POOLS])
def test_pools_of_a_node(slices: list[Any], pools: list[str]) -> None:
    """k8s.io/dynamic-resource-allocation, GatherPools, and the order in which they are tried."""
    assert _pool_texts(_index(*slices), "n") == pools
    assert _pool_texts(_index(*reversed(slices)), "n") == pools


def test_devices_elsewhere_use_up_the_counters_of_the_pool() -> None:
    """Partitions of one card may be published for several nodes."""
    listed = [device("here", **_uses("c", "m"))]
    slices = [
        slice_of("n", listed, pool="p", name="1", count=3),
        slice_of("m", [device("there", **_uses("c", "m"))], pool="p", name="2", count=3),
        slice_of("m", pool="p", name="3", count=3, sharedCounters=[_set("c", "m")]),
    ]
    (pool,) = _index(*slices).pools("n", {})
    assert [one.name for one in pool.elsewhere] == ["2"]
    pending = [PendingClaim("default/c", Shapes().of({"requests": [request()]}))]
    taken = DevicesInUse(whole={(DRIVER, "p", "there"): 1})
    for in_use, free in ((DevicesInUse(), True), (taken, False)):
        found = allocate(pending, "n", {}, (pool,), in_use, {"gpu": device_class()}, DeviceMatcher())
        assert (found is not None) is free


@pytest.mark.parametrize(
    ("slices", "home", "local"),
    [
        ([slice_of("n", devices(1))], "n", True),
        ([slice_of("n", devices(1), name="1"), slice_of("n", devices(1), name="2")], "n", True),
        ([slice_of("n", devices(1), pool="p", name="1"), slice_of("m", devices(1), pool="p", name="2")], None, True),
        ([slice_of(None, devices(1), pool="n", allNodes=True)], None, False),
        ([slice_of("n", devices(1)), slice_of(None, pool="n", name="c", sharedCounters=[_set("c", "m")])], None, True),
        ([], None, True),
    ],
)
def test_where_a_pool_is_at_home(slices: list[Any], home: str | None, local: bool) -> None:
    """What is taken of a pool that one node alone reaches concerns no other node."""
    index = _index(*slices)
    pool = (DRIVER, "p" if slices and slices[0].spec.pool.name == "p" else "n")
    assert index.home(pool) == home
    assert index.local is local


# -- answers of selectors ---------------------------------------------------------------------------------------------


def _plain(name: str, **attributes: Any) -> Device:
    return read_slice(slice_of("n", [device(name, attributes)])).devices[0]


def test_selector_is_evaluated_once_for_alike_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the expression reads of them; others by themselves."""
    asked: list[str] = []
    answer = device_pools._answer

    def noted(one: Device, ask: Any) -> bool | str:
        asked.append(one.id[2])
        return answer(one, ask)

    monkeypatch.setattr(device_pools, "_answer", noted)
    matcher, text = DeviceMatcher(), f'device.attributes["{DRIVER}"].kind == "a"'
    fleet = [_plain("1", kind="a"), _plain("2", kind="a", serial=7), _plain("3", kind="b"), _plain("4", kind="a")]
    assert [matcher.matches(one, text) for one in fleet] == [True, True, False, True]
    assert asked == ["1", "3"]
    with pytest.raises(DeviceSelectorError, match="no such key: kind"):
        matcher.matches(_plain("5"), text)
    serial = f'device.attributes["{DRIVER}"].serial == 7'
    assert matcher.matches(fleet[1], serial)


def test_answers_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number of expressions users write: answers are right, and the cache does not grow."""
    monkeypatch.setattr(device_pools, "_KEPT", 8)
    monkeypatch.setattr(device_pools, "_KEPT_OF_DEVICE", 4)
    matcher, one = DeviceMatcher(), _plain("x", number=3)
    for number in range(30):
        for _ in range(2):
            assert matcher.matches(one, f'device.attributes["{DRIVER}"].number == {number}') is (number == 3)
        assert len(matcher._answers) <= 8
        assert len(one.answers) == min(4, number + 1)


def test_selector_is_evaluated_for_each_device_that_differs_in_what_it_may_read() -> None:
    """If it is unknown what is read, it is everything: attributes and capacities."""
    matcher = DeviceMatcher()
    large = f'device.capacity["{DRIVER}"].exists(name, device.capacity["{DRIVER}"][name].isGreaterThan(quantity("5")))'
    kind = f'device.attributes["{DRIVER}"].exists(name, device.attributes["{DRIVER}"][name] == "a")'
    fleet = [
        read_slice(slice_of("n", [device("x", {"kind": of}, capacity={"m": {"value": size}})])).devices[0]
        for of, size in (("a", "9"), ("b", "9"), ("a", "3"))
    ]
    assert [matcher.matches(one, large) for one in fleet] == [True, True, False]
    assert [matcher.matches(one, kind) for one in fleet] == [True, False, True]
