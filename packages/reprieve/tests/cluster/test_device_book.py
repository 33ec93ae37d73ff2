"""Devices of claims: what they have in a trial and outside, where devices can be had, and what is kept of that."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.cluster import devices as device_book
from reprieve.cluster.claim_states import ClaimState
from reprieve.cluster.device_allocation import (
    MOST_GIVEN_UP,
    DeviceError,
    DevicesInUse,
    NodeError,
    PendingClaim,
    allocate,
)
from reprieve.cluster.device_pools import DeviceMatcher
from reprieve.cluster.devices import DeviceBook
from reprieve.cluster.state import ClusterState
from tests.building import World, group, node, pod
from tests.plugins.devices import (
    DRIVER,
    Json,
    allocated,
    claim,
    device,
    device_class,
    devices,
    first_of,
    got_of,
    option,
    request,
    slice_of,
    taint_rule,
    user,
)

replace = msgspec.structs.replace


def _had(state: ClusterState, name: str = "c") -> list[str]:
    return got_of(state.devices.claims[f"default/{name}"])


def _consumers(*others: tuple[str, str]) -> list[Json]:
    return [{"resource": resource, "name": uid, "uid": uid} for resource, uid in others]


def _stated(*consumers: tuple[str, str], name: str = "gpu-0") -> Json:
    return {**allocated((DRIVER, "n", name)), "reservedFor": _consumers(*consumers)}


# -- what a claim has -------------------------------------------------------------------------------------------------

A, B = ("pods", "uid-a"), ("pods", "uid-b")
GIVEN_UP: list[tuple[str, list[tuple[str, str]], str, bool]] = [
    ("by its only pod", [A], "a", True),
    ("by one of two pods", [A, B], "a", False),
    ("by both pods", [A, B], "ab", True),
    ("beside a group", [A, ("podgroups", "uid-g")], "ab", False),
    ("beside an object that is no pod", [A, ("jobs", "uid-j")], "ab", False),
    ("beside a pod that is not known", [A, ("pods", "uid-x")], "ab", False),
    ("by a pod that is no consumer", [A], "b", False),
    ("without consumers", [], "a", True),
]


@pytest.mark.parametrize(("consumers", "away", "given_up"), [g[1:] for g in GIVEN_UP], ids=[g[0] for g in GIVEN_UP])
def test_allocation_is_given_up_in_a_trial_with_the_last_consumer(
    consumers: list[tuple[str, str]], away: str, given_up: bool
) -> None:
    """KEP-5690: as the claim controller would; outside of a trial it ends when the API says so."""
    holders = {uid for kind, uid in consumers if kind == "pods"} & {"uid-a", "uid-b"} or {"uid-a"}
    users = [user(name, "c", node="n") for name in "ab" if f"uid-{name}" in holders or name in away]
    state = World(
        node("n"), device_class(), slice_of("n", devices(2)), claim("c", status=_stated(*consumers)), users
    ).engine.cluster
    pods = [state.pods[f"uid-{name}"] for name in away]
    assert _had(state) == ["n/gpu-0"]
    for together in (True, False):
        with state.trial():
            if together:
                state.displace_all(pods)
            else:
                for one in pods:
                    state.displace(one)
            left = {each for each in ("uid-a", "uid-b") if each in state.pods and state.pods[each].row >= 0}
            assert _had(state) == ([] if given_up and not left else ["n/gpu-0"])
            assert len(state.devices.in_use.whole) == len(_had(state))
            for one in pods:
                state.place(one, 0)
            assert _had(state) == ["n/gpu-0"]
        assert _had(state) == ["n/gpu-0"]
        state.check()
    for one in pods:
        state.displace(one)
    assert _had(state) == ["n/gpu-0"]


def test_assumed_devices_are_free_without_a_holder_and_the_same_when_put_back() -> None:
    """Of two alike devices a pod that is put back in a trial has its own again, unless another took it."""
    world = World(
        node("n"),
        device_class(),
        slice_of("n", devices(2)),
        *(claim(name) for name in "cde"),
        *(user(name, claimed) for name, claimed in (("p", "c"), ("q", "d"), ("r", "e"))),
    )
    state = world.engine.cluster
    p, q, r = (world.record(name) for name in "pqr")
    state.place(p, 0)
    state.place(q, 0)
    assert (_had(state, "c"), _had(state, "d")) == (["n/gpu-0"], ["n/gpu-1"])
    with state.trial():
        state.displace(p)
        state.displace(q)
        assert (_had(state, "c"), _had(state, "d"), state.devices.in_use.whole) == ([], [], {})
        state.place(q, 0)
        assert _had(state, "d") == ["n/gpu-1"], "not the first that is free"
        state.displace(q)
        state.place(r, 0)
        assert _had(state, "e") == ["n/gpu-0"]
        state.place(p, 0)
        assert _had(state, "c") == ["n/gpu-1"], "its own is taken: what is left"
        state.place(q, 0)
        assert _had(state, "d") == [], "nothing is left"
    assert (_had(state, "c"), _had(state, "d"), _had(state, "e")) == (["n/gpu-0"], ["n/gpu-1"], [])
    state.displace(p)
    assert _had(state, "c") == []
    state.place(r, 0)
    state.place(p, 0)
    assert (_had(state, "e"), _had(state, "c")) == (["n/gpu-0"], [])
    state.check()


def test_pod_that_is_bound_in_the_api_is_given_nothing() -> None:
    """What it has is stated, or it has nothing."""
    world = World(node("n"), device_class(), slice_of("n", devices(1)), claim("c"), user("p", "c", node="n"))
    state = world.engine.cluster
    assert _had(state) == []
    assert state.devices.claims["default/c"].assumptions.holders == {"uid-p"}


def test_allocation_in_the_api_replaces_the_assumed_one() -> None:
    """Also where it says something else; a claim made again under the same name has nothing of the old."""
    world = World(node("n"), device_class(), slice_of("n", devices(3)), claim("c"), user("p", "c"))
    state = world.engine.cluster
    state.place(world.record("p"), 0)
    assert _had(state) == ["n/gpu-0"]
    world.add(claim("c", config=[{"requests": ["r"]}]))
    assert _had(state) == ["n/gpu-0"], "its object changed otherwise"
    world.add(claim("c", status=_stated(A, name="gpu-2")))
    assert (_had(state), list(state.devices.in_use.whole)) == (["n/gpu-2"], [(DRIVER, "n", "gpu-2")])
    world.add(claim("c", uid="another"))
    assert (_had(state), state.devices.in_use.whole) == ([], {})
    state.devices.remove("ResourceClaim", "", "c")
    assert state.devices.claims["default/c"].object is None
    state.check()


def test_faults_of_a_claim_are_reported() -> None:
    """A spec or an allocation that cannot be read: it has nothing and can get nothing, until it is right."""
    bad = claim("c", request("r", capacity={"requests": {"bw": "lots"}}))
    world = World(node("n"), device_class(), slice_of("n", devices(1)), bad, user("p", "c"))
    state = world.engine.cluster
    found = state.devices.claims["default/c"]
    assert found.fault.startswith("resource claim default/c: ")
    assert (found.shape, found.stated, DeviceBook.lacking([found])) == (None, None, [])
    state.place(world.record("p"), 0)
    assert _had(state) == []
    state.displace(world.record("p"))
    world.add(claim("c"))
    assert (found.fault, DeviceBook.lacking([found])) == ("", [found])
    assert DeviceBook.lacking([ClaimState("default/x")]) == []
    state.place(world.record("p"), 0)
    assert DeviceBook.lacking([found]) == []


# -- what the API says ------------------------------------------------------------------------------------------------


def test_object_before_a_change_is_returned() -> None:
    """Set and removed, each kind; nothing where nothing was."""
    state = ClusterState()
    book = state.devices
    pairs: list[tuple[Any, Any]] = [
        (claim("c"), claim("c", request(count=2))),
        (device_class("k"), device_class("k", "true")),
        (slice_of("n", devices(1), name="s"), slice_of("n", devices(2), name="s")),
        (taint_rule("NoSchedule", name="r"), taint_rule("NoExecute", name="r")),
    ]
    for first, second in pairs:
        kind, meta = type(first).__name__, first.metadata
        assert book.remove(kind, meta.namespace, meta.name) is None
        assert book.set(first) is None
        assert book.set(second) == first
        assert book.set(second) == second
        assert book.remove(kind, meta.namespace, meta.name) == second
        assert book.remove(kind, meta.namespace, meta.name) is None
    assert not any((book.claims, book.classes, book.slices, book.rules))
    book.set(claim("c", metadata={"namespace": ""}))
    book.set(claim("c", metadata={"namespace": "other"}))
    assert list(book.claims) == ["default/c", "other/c"], "without a namespace it is the default one"


def test_users_of_a_claim_and_listed_pods() -> None:
    """By name of the pod; listed are consumers of what is allocated."""
    world = World(
        node("n"),
        claim("c", status=_stated(A)),
        claim("d", status={"reservedFor": _consumers(A)}),
        user("b", "c"),
        user("a", "c", "d"),
        user("z", "nowhere"),
    )
    book = world.engine.cluster.devices
    a, b = world.record("a"), world.record("b")
    assert [one.name for one in book.users("default/c")] == ["a", "b"]
    assert book.users("default/other") == []
    assert [one.key for one in book.of(a)] == ["default/c", "default/d"]
    assert (book.lists("default/c", "uid-a"), book.lists("default/c", "uid-b")) == (True, False)
    assert (book.lists("default/d", "uid-a"), book.lists("default/no", "uid-a")) == (False, False)
    assert (book.lingering(a), book.lingering(b)) == (["default/c"], [])
    assert "default/nowhere" in book.claims, "a pod names it"
    with pytest.raises(AssertionError):
        _ = book.claims["default/nowhere"].claim
    assert book.claims["default/c"].claim.metadata.name == "c"
    world.gone("z").gone("a").gone("b")
    assert list(book.claims) == ["default/c", "default/d"]
    assert book.users("default/c") == []


@pytest.mark.parametrize(
    ("resources", "consumers", "groups", "pods_only", "strangers"),
    [
        ([], 0, 0, True, False),
        (["pods"], 1, 0, True, False),
        (["podgroups"], 0, 1, False, False),
        (["pods", "podgroups"], 1, 1, False, False),
        (["jobs"], 0, 0, False, True),
        (["pods", "jobs"], 1, 0, False, True),
    ],
)
def test_pods_in_reserved_for(
    resources: list[str], consumers: int, groups: int, pods_only: bool, strangers: bool
) -> None:
    """status.reservedFor: pods, PodGroups (KEP-5729), and other objects."""
    state = ClusterState()
    state.devices.set(claim("c", status={"reservedFor": _consumers(*((one, f"uid-{one}") for one in resources))}))
    found = state.devices.claims["default/c"]
    assert (len(found.consumers), len(found.groups)) == (consumers, groups)
    assert (found.pods_only, found.strangers) == (pods_only, strangers)
    one = user("p", "c")
    world = World(one)
    state.add_pod(world.record("p"))
    state.devices.remove("ResourceClaim", "default", "c")
    assert (found.consumers, found.groups, found.pods_only, found.strangers) == (frozenset(), frozenset(), True, False)


def test_claim_of_the_group_is_reserved_for_it() -> None:
    """KEP-5729: where the pod's entry is equal to the group's in all fields."""
    entry = objects.PodGroupResourceClaim(name="c", resource_claim_name="c")
    made = group("g", min_count=1)
    made = replace(made, spec=replace(made.spec, resource_claims=(entry,)))
    world = World(
        node("n"),
        made,
        claim("c"),
        claim("d"),
        user("p", "c", "d", group="g"),
        user("q", "c"),
        user("r", "c", group="h"),
    )
    state = world.engine.cluster
    book = state.devices
    c, d = book.claims["default/c"], book.claims["default/d"]
    p, q, r = (world.record(name) for name in "pqr")
    of_c, of_d = p.claims
    ours = state.groups["default/g"]
    assert (book.sharing(p, of_c), book.sharing(p, of_d), book.sharing(q, of_c), book.sharing(r, of_c)) == (
        ours,
        None,
        None,
        None,
    )
    assert [book.reserver(one, c) for one in (p, q, r)] == [ours, None, None]
    assert book.reserver(p, d) is None
    world.engine.remove(ObjectRef("PodGroup", "default/g"), world.now)
    assert book.reserver(p, c) is None


# -- where devices can be had -----------------------------------------------------------------------------------------


def _codes(state: ClusterState, claims: list[ClaimState]) -> list[int]:
    """0: they can be had now, 1: with every device free, 2: never; each row by itself, without anything kept."""
    book, nodes = state.devices, state.nodes
    found = []
    for row in range(len(nodes)):
        pools = book.index.pools(nodes.names[row], nodes.labels[row])
        pending = [PendingClaim(one.key, one.shape) for one in claims if one.shape is not None]

        def has(in_use: DevicesInUse, pending: Any = pending, pools: Any = pools, row: int = row) -> bool:
            try:
                return (
                    allocate(pending, nodes.names[row], nodes.labels[row], pools, in_use, book.classes, DeviceMatcher())
                    is not None
                )
            except NodeError:
                return False

        found.append(0 if has(book.in_use) else 1 if has(DevicesInUse()) else 2)
    return found


def _kept(state: ClusterState, claims: list[ClaimState]) -> list[int]:
    rows = np.arange(len(state.nodes), dtype=np.int64)
    return list(map(int, state.devices.verdicts(claims, rows).codes[rows]))


@pytest.mark.parametrize("seed", range(6))
def test_where_devices_can_be_had_is_known_after_any_change(seed: int) -> None:
    """Nodes, slices, classes, rules, claims and pods come and go: kept answers are those that are found again."""
    chance = Random(seed)
    world = World(
        *(node(f"n{i}", labels={"zone": "ab"[i % 2]}) for i in range(3)), device_class(), device_class("k", "true")
    )
    state, engine = world.engine.cluster, world.engine
    nodes = 3
    world.add(
        *(claim(f"c{i}", request("r", chance.choice(["gpu", "k"]), count=chance.randint(1, 2))) for i in range(4))
    )
    world.add(
        claim("net", request("r", "gpu", f'device.attributes["{DRIVER}"].far')),
        claim("all", request(allocationMode="All")),
    )
    probes = ["c0", "c1", "net"]
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    for turn in range(60):
        what, where = chance.randrange(11), f"n{chance.randrange(nodes)}"
        placed = [one for one in state.pods.values() if one.row >= 0]
        if what == 0:
            listed = [device(f"d{i}", {"far": False}) for i in range(chance.randrange(4))]
            world.add(slice_of(where, listed, name=f"s-{where}", generation=turn))
        elif what == 1:
            engine.remove(ObjectRef("ResourceSlice", f"s-{where}"), world.now)
        elif what == 2:
            reach: Json = chance.choice([{"allNodes": True}, {"nodeSelector": zone}])
            world.add(slice_of(None, [device("x", {"far": True})], name="s-net", generation=turn, **reach))
        elif what == 3:
            world.add(device_class("k", *chance.choice([(), ("false",)])))
        elif what == 4:
            world.add(taint_rule(chance.choice(["NoSchedule", "None"]), name=f"rule{chance.randrange(2)}", device="d0"))
        elif what == 5:
            engine.remove(ObjectRef("DeviceTaintRule", f"rule{chance.randrange(2)}"), world.now)
        elif what in (6, 7):
            world.add(user(f"p{turn}", f"c{chance.randrange(4)}", cpu=0))
            state.place(world.record(f"p{turn}"), state.nodes.row_of[where])
        elif what == 8 and placed:
            state.remove_pod(chance.choice(placed))
        elif what == 9 and placed:
            with state.trial():
                state.displace(chance.choice(placed))
                claims = [state.devices.claims[f"default/{name}"] for name in probes]
                free = [each for each in claims if each.allocation is None]
                assert [_kept(state, [each]) for each in free] == [_codes(state, [each]) for each in free]
        elif what == 10:
            world.add(node(f"n{nodes}" if nodes < 5 else where, labels={"zone": chance.choice("ab")}))
            nodes = min(5, nodes + 1)
        state.check()
        claims = [one for name in probes if (one := state.devices.claims[f"default/{name}"]).allocation is None]
        for each in claims:
            assert _kept(state, [each]) == _codes(state, [each]), what
        if len(claims) > 1:
            assert _kept(state, claims[:2]) == _codes(state, claims[:2])


def test_first_choice_scores_most() -> None:
    """upstream's computeScore: eight for the first option of a request, one fewer for each after it."""
    world = World(
        node("a"),
        node("b"),
        node("c"),
        device_class(),
        device_class("k", f'device.attributes["{DRIVER}"].kind == "k"'),
        slice_of("a", [device("1", {"kind": "k"}), device("2", {"kind": "k"})]),
        slice_of("b", [device("1", {"kind": "k"}), device("2", {"kind": "x"})]),
        slice_of("c", [device("1", {"kind": "x"})]),
        claim(
            "both",
            first_of("r", option("x", "k", count=2), option("y", "k"), option("z")),
            request("s", "gpu", "true", count=1),
        ),
        claim("one", first_of("r", option("x", "k", count=2), option("y", "k"), option("z"))),
        user("p", "one", "both"),
    )
    book = world.engine.cluster.devices
    rows = np.arange(3, dtype=np.int64)
    view = book.verdicts([book.claims["default/one"]], rows)
    assert (view.codes.tolist(), view.scores.tolist()) == ([0, 0, 0], [8, 7, 6])
    view = book.verdicts([book.claims["default/both"]], rows)
    assert (view.codes.tolist(), view.scores.tolist()) == ([0, 0, 2], [7, 7, 0])
    assert view.faults == {}


def test_why_a_node_is_none_is_kept_for_it() -> None:
    """A pool that is invalid is a reason of that node alone; it goes with the pool."""
    world = World(
        node("a"), node("b"), device_class(), slice_of("b", [device("x"), device("x")]), claim("c"), user("p", "c")
    )
    book = world.engine.cluster.devices
    rows, claims = np.arange(2, dtype=np.int64), [book.claims["default/c"]]
    view = book.verdicts(claims, rows)
    assert (view.codes.tolist(), view.faults) == ([2, 2], {1: "invalid resource pools were encountered"})
    world.add(slice_of("b", [device("x")]))
    view = book.verdicts(claims, rows)
    assert (view.codes.tolist(), view.faults) == ([2, 0], {})


def test_searches_that_are_too_long_are_shorter_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """devices.md: what is not found on eight nodes is not looked for as long on all others."""
    monkeypatch.setattr(device_book, "MOST_STEPS", 200)
    monkeypatch.setattr(device_book, "FEWER_STEPS", 50)
    names = [f"n{i:02}" for i in range(MOST_GIVEN_UP + 2)]
    clash = [device(f"d-{i}", {"x": i % 3}) for i in range(60)]
    apart = [{"requests": [f"r{i}"], "distinctAttribute": f"{DRIVER}/x"} for i in range(6)]
    wanted = claim("c", *(request(f"r{i}", count=4) for i in range(6)), constraints=apart)
    world = World(*map(node, names), device_class(), *(slice_of(name, clash) for name in names), wanted, user("p", "c"))
    book = world.engine.cluster.devices
    view = book.verdicts([book.claims["default/c"]], np.arange(len(names), dtype=np.int64))
    long, short = (f"gave up trying to allocate devices after {steps} steps" for steps in (200, 50))
    assert [view.faults[row] for row in range(len(names))] == [long] * MOST_GIVEN_UP + [short] * 2
    assert set(view.codes.tolist()) == {2}
    assert view.given_up == len(names)


def test_which_rows_can_use_devices_together() -> None:
    """The sets of rows for claims allocated on one node; each once, nodes that are gone in none."""
    zones = {"a": "x", "b": "y", "c": "y", "d": "x"}
    world = World(
        *(node(name, labels={"zone": zone}) for name, zone in zones.items()), device_class(), claim("c"), user("p", "c")
    )
    state = world.engine.cluster
    book, claims = state.devices, [state.devices.claims["default/c"]]
    assert book.reaches(claims) == []
    world.add(slice_of("b", devices(1)), slice_of("d", devices(2)))
    assert book.reaches(claims) == [(1,), (3,)]
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]}]
    world.add(slice_of(None, devices(1), driver="a.example.com", pool="y", nodeSelector={"nodeSelectorTerms": terms}))
    assert book.reaches(claims) == [(1, 2), (3,)]
    world.engine.remove(ObjectRef("Node", "c"), world.now)
    assert book.reaches(claims) == [(1,), (3,)]
    world.add(slice_of(None, devices(1), driver="0.example.com", pool="all", allNodes=True))
    assert book.reaches(claims) == [(0, 1, 3)]


def test_views_and_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many unlike claims there are."""
    monkeypatch.setattr(device_book, "_VIEWS", 3)
    monkeypatch.setattr(device_book, "_MOST_SHAPES", 3)
    monkeypatch.setattr(device_book, "_LOG", 5)
    world = World(
        node("n"), device_class(), slice_of("n", devices(9)), *(claim(f"c{i}", request(count=i + 1)) for i in range(8))
    )
    book = world.engine.cluster.devices
    rows = np.arange(1, dtype=np.int64)
    for number in range(8):
        book.verdicts([book.claims[f"default/c{number}"]], rows)
        assert len(book._verdicts) <= 3
    assert book.verdicts([book.claims["default/c0"]], rows).codes.tolist() == [0]
    served = {f"example.com/r{i}": "gpu" for i in range(8)}
    world.add(*(device_class(f"k{i}", extendedResourceName=name) for i, name in enumerate(served)))
    for number in range(8):
        world.add(pod(f"p{number}", more={f"example.com/r{number}": 1}))
        assert book.special_shape(world.record(f"p{number}"), 0) is not None
        assert len(book._special_shapes) <= 3
    world.add(user("q", "c0"))
    for _ in range(4):
        world.engine.cluster.place(world.record("q"), 0)
        world.engine.cluster.displace(world.record("q"))
        book.trim()
        assert len(book._touched.entries) <= 5


def test_no_device_is_allocated_twice_unless_the_api_has_it_so() -> None:
    """Two claims that the API has allocated one device are its own fault; admin access takes nothing."""
    world = World(
        node("n"),
        device_class(),
        slice_of("n", devices(2)),
        claim("c", status=_stated(A)),
        claim("d", status=_stated(B)),
    )
    book = world.engine.cluster.devices
    book.check()
    assert book.in_use.whole == {(DRIVER, "n", "gpu-0"): 2}
    watching = allocated((DRIVER, "n", "gpu-0"), adminAccess=True)
    world.add(claim("w", status=watching))
    assert book.in_use.whole == {(DRIVER, "n", "gpu-0"): 2}
    book.remove("ResourceClaim", "default", "d")
    assert book.in_use.whole == {(DRIVER, "n", "gpu-0"): 1}
    allocation = book.claims["default/c"].allocation
    assert allocation is not None
    book.in_use.count(allocation, 1)
    with pytest.raises(AssertionError):
        book.check()


def test_shares_of_a_device_add_up() -> None:
    """Capacity that is consumed, by device and name; gone with the last share."""
    state = ClusterState()
    book, nic = state.devices, (DRIVER, "n", "nic")

    def share(name: str, amount: str) -> objects.ResourceClaim:
        return claim(name, status=allocated(nic, shareID=f"share-{name}", consumedCapacity={"bw": amount}))

    for name, amount in (("c", "2"), ("d", "3")):
        book.set(share(name, amount))
    assert (book.in_use.whole, book.in_use.shares) == ({}, {nic: 2})
    assert book.in_use.consumed == {nic: {"bw": 5 * 10**9}}
    assert book.in_use.any(nic)
    book.set(share("d", "1"))
    assert book.in_use.consumed == {nic: {"bw": 3 * 10**9}}
    book.remove("ResourceClaim", "default", "c")
    assert (book.in_use.shares, book.in_use.consumed) == ({nic: 1}, {nic: {"bw": 10**9}})
    book.remove("ResourceClaim", "default", "d")
    assert (book.in_use.shares, book.in_use.consumed, book.in_use.any(nic)) == ({}, {}, False)


def test_errors_of_claims_and_classes_are_raised() -> None:
    """Another node would not help."""
    world = World(node("n"), slice_of("n", devices(1)), claim("c"), user("p", "c"))
    state = world.engine.cluster
    with pytest.raises(DeviceError, match="could not retrieve device class gpu"):
        state.devices.verdicts([state.devices.claims["default/c"]], np.arange(1, dtype=np.int64))
    state.place(world.record("p"), 0)
    assert _had(state) == [], "placing reads nothing"
