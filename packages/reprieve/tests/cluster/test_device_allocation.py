"""Devices for claims on one node: the first solution in a fixed order, compared with trying all in that order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Any

import pytest

from kube_rules.quantity import NANO
from reprieve.cluster.device_allocation import (
    MOST_STEPS,
    DeviceError,
    DevicesInUse,
    GaveUpError,
    NodeError,
    PendingClaim,
    allocate,
    rounded,
)
from reprieve.cluster.device_pools import Device, DeviceMatcher, Pool, SliceIndex, read_slice
from reprieve.cluster.device_requests import MOST_RESULTS, Option, Shapes
from tests.plugins.devices import DRIVER, Json, device, device_class, devices, first_of, option, request, slice_of

CLASSES = {
    "gpu": device_class(),
    "a": device_class("a", f'device.attributes["{DRIVER}"].kind == "a"'),
    "bad": device_class("bad", "device.attributes.nothing == 1"),
}
LABELS = {"zone": "z1"}
Found = list[list[tuple[str, str, dict[str, int]]]]
"""For each claim what it got: option, device, capacity consumed."""


def pools_of(*slices: Any, node: str = "n", labels: Mapping[str, str] = LABELS) -> tuple[Pool, ...]:
    """The pools that a node reaches."""
    return SliceIndex([read_slice(one) for one in slices]).pools(node, labels)


def claiming(
    *requests: Json, constraints: Sequence[Json] = (), key: str = "default/c", shapes: Shapes | None = None
) -> PendingClaim:
    """A claim for these."""
    body = {"requests": list(requests), "constraints": list(constraints)}
    return PendingClaim(key, (shapes or Shapes()).of(body))


def found_by(
    pending: Sequence[PendingClaim], pools: Sequence[Pool], in_use: DevicesInUse | None = None, steps: int = MOST_STEPS
) -> Found | None:
    """What `allocate` finds, by name."""
    found = allocate(pending, "n", LABELS, pools, in_use or DevicesInUse(), CLASSES, DeviceMatcher(), steps)
    if found is None:
        return None
    return [[(one.option.name, one.device.id[2], dict(one.consumed)) for one in chosen] for chosen in found]


# -- the reference: everything is tried, in order ---------------------------------------------------------------------


class Plainly:
    """The rules of device_allocation.py one after another, over whole assignments."""

    def __init__(self, pending: Sequence[PendingClaim], pools: Sequence[Pool], in_use: DevicesInUse) -> None:
        self.pending = pending
        self.in_use = in_use
        self.slots = [(pool, one, each) for pool in pools if pool.usable for one in pool.slices for each in one.devices]
        self.matcher = DeviceMatcher()

    def first(self) -> Found | None:
        """The first assignment that holds."""
        requests = [(number, each) for number, one in enumerate(self.pending) for each in one.shape.requests]
        found = self._from(requests, 0, [])
        if found is None:
            return None
        result: Found = [[] for _ in self.pending]
        for number, opt, (_, _, dev) in found:
            result[number].append((opt.name, dev.id[2], self.consumed(opt, dev) or {} if dev.shared else {}))
        return result

    def _from(self, requests: list[Any], at: int, taken: list[Any]) -> list[Any] | None:
        if at == len(requests):
            return taken
        number, each = requests[at]
        for opt in each.options:
            for some in self.sets(opt):
                more = [*taken, *((number, opt, slot) for slot in some)]
                if self.holds(more):
                    done = self._from(requests, at + 1, more)
                    if done is not None:
                        return done
        return None

    def sets(self, opt: Option) -> Iterator[tuple[Any, ...]]:
        fitting = [slot for slot in self.slots if self.fits(opt, slot)]
        if opt.mode == "All":
            some = tuple(slot for slot in fitting if self.left(opt, slot[2], ()))
            yield from [some] if some else []
        else:
            yield from combinations(fitting, opt.count)

    def fits(self, opt: Option, slot: Any) -> bool:
        _, origin, dev = slot
        texts = [one["cel"]["expression"] for one in CLASSES[opt.class_name].spec.selectors]
        return all(self.matcher.matches(dev, text) for text in (*texts, *(t for t in opt.selectors if t))) and (
            not origin.per_device or dev.reach.includes("n", LABELS)
        )

    def consumed(self, opt: Option, dev: Device) -> dict[str, int] | None:
        if any(dev.capacity_name(name) is None for name in opt.capacity):
            return None
        wanted = {dev.capacity_name(name): amount for name, amount in opt.capacity.items()}
        takes = {name: rounded(wanted.get(name), capacity) for name, capacity in dev.capacity.items()}
        if None in takes.values():
            return None
        return {name: amount for name, amount in takes.items() if amount is not None}

    def left(self, opt: Option, dev: Device, before: Sequence[dict[str, int]]) -> bool:
        takes = self.consumed(opt, dev)
        used = [self.in_use.consumed.get(dev.id, {}), *before]
        return takes is not None and all(
            sum(one.get(name, 0) for one in used) + amount <= dev.capacity[name].value for name, amount in takes.items()
        )

    def holds(self, taken: list[Any]) -> bool:
        """Whether the choice may be made, device after device."""
        return all(self.one_more(taken[:at], *taken[at]) for at in range(len(taken))) and all(
            self.constrained(number, taken) for number in range(len(self.pending))
        )

    def one_more(self, before: list[Any], number: int, opt: Option, slot: Any) -> bool:
        pool, _, dev = slot
        same = [(n, o) for n, o, (_, _, d) in before if d is dev]
        if opt.admin:
            free = dev.shared or number not in [n for n, _ in same]
        else:
            free = dev.id not in self.in_use.whole and (dev.shared or not same)
        effects = {taint.effect for taint in dev.taints if not opt.tolerates(taint)}
        if not free or effects & {"NoSchedule", "NoExecute"}:
            return False
        if not self.left(opt, dev, [self.consumed(o, dev) or {} for _, o in same] if dev.shared else []):
            return False
        if dev.shared and (same or dev.id in self.in_use.shares):
            return True  # it is counted once, however many share it
        there = [d for one in (*pool.slices, *pool.elsewhere) for d in one.devices if self.in_use.any(d.id)]
        there += [d for _, _, (p, _, d) in [*before, (number, opt, slot)] if p is pool]
        once = {id(d): d for d in there if d.shared}
        counted = [*once.values(), *(d for d in there if not d.shared)]
        return all(
            sum(d.consumes.get(name, {}).get(counter, 0) for d in counted) <= pool.counters[name][counter]
            for name, used in dev.consumes.items()
            for counter in used
        )

    def constrained(self, number: int, taken: list[Any]) -> bool:
        for constraint in self.pending[number].shape.constraints:
            values = []
            for n, opt, (_, _, dev) in taken:
                if n != number or (constraint.requests and not {opt.request, opt.name} & constraint.requests):
                    continue
                given = dev.attributes.get(constraint.attribute.removeprefix(f"{DRIVER}/"))
                values.append(str(sorted(given.items())) if given else None)
            if None in values:
                return False
            if constraint.distinct and len(set(values)) < len(values):
                return False
            if not constraint.distinct and len(set(values)) > 1:
                return False
        return True


def _counters(**amounts: int) -> Json:
    return {name: {"value": str(amount)} for name, amount in amounts.items()}


def _some_device(chance: Random, name: str, pool: str) -> Json:
    more: Json = {}
    if chance.random() < 0.3:
        more["taints"] = [{"key": chance.choice("st"), "effect": chance.choice(["NoSchedule", "NoExecute", "None"])}]
    if chance.random() < 0.5:
        more["allowMultipleAllocations"] = chance.random() < 0.6
        policies: list[Json | None] = [
            None,
            {"default": "1"},
            {"default": "2", "validRange": {"min": "2", "step": "2"}},
        ]
        policy = chance.choice(policies)
        more["capacity"] = {"bw": {"value": "5", **({"requestPolicy": policy} if policy else {})}}
    if pool == "counted" and chance.random() < 0.8:
        used = [
            {"counterSet": one, "counters": _counters(m=chance.randint(1, 3))}
            for one in ("x", "y")
            if chance.random() < 0.6
        ]
        more["consumesCounters"] = used
    attributes: Json = {"kind": chance.choice("ab")}
    if chance.random() < 0.7:
        attributes["numa"] = chance.randrange(2)
    return device(name, attributes, **more)


def _some_option(chance: Random) -> tuple[str, list[str], Json]:
    more: Json = {"count": chance.choice([1, 1, 2, 3])} if chance.random() < 0.85 else {"allocationMode": "All"}
    if chance.random() < 0.3:
        more["tolerations"] = [{"key": "s", "operator": "Exists"}]
    if chance.random() < 0.25:
        more["capacity"] = {"requests": {chance.choice(["bw", f"{DRIVER}/bw"]): chance.choice("123")}}
    selectors = [f'device.attributes["{DRIVER}"].kind == "b"'] if chance.random() < 0.2 else []
    return chance.choice(["gpu", "gpu", "a"]), selectors, more


def _some_claim(chance: Random, key: str, shapes: Shapes) -> PendingClaim:
    requests = []
    for name in ("r", "s")[: chance.choice([1, 1, 2])]:
        if chance.random() < 0.3:
            options = []
            for each in ("first", "second"):
                class_name, selectors, more = _some_option(chance)
                options.append(option(each, class_name, *selectors, **more))
            requests.append(first_of(name, *options))
        else:
            class_name, selectors, more = _some_option(chance)
            admin = {"adminAccess": True} if chance.random() < 0.15 else {}
            requests.append(request(name, class_name, *selectors, **more, **admin))
    constraints: list[Json] = []
    for _ in range(chance.choice([0, 0, 1, 2])):
        over = chance.choice([[], ["r"], ["r", "s"], ["r/first"]])
        attribute = chance.choice([f"{DRIVER}/numa", "kind"])
        constraints.append({chance.choice(["matchAttribute", "distinctAttribute"]): attribute, "requests": over})
    return claiming(*requests, constraints=constraints, key=key, shapes=shapes)


@pytest.mark.parametrize("seed", range(12))
def test_first_of_all_solutions_is_found(seed: int) -> None:
    """k8s.io/dynamic-resource-allocation: claims, requests, options and devices in order, the first set that holds."""
    chance = Random(seed)
    found_any = 0
    for _ in range(35):
        slices = []
        for pool, count in (("plain", chance.randrange(3)), ("counted", chance.randrange(4))):
            listed = [_some_device(chance, f"{pool}-{i}", pool) for i in range(count)]
            where: Json = {}
            if pool == "plain" and chance.random() < 0.3:
                for one in listed:
                    one["nodeName"] = chance.choice(["n", "n", "m"])
                where = {"perDeviceNodeSelection": True}
            node = None if where else "n"
            slices.append(slice_of(node, listed, pool=pool, name=pool, count=2 if pool == "counted" else 1, **where))
        sets = [{"name": name, "counters": _counters(m=chance.randint(2, 5))} for name in ("x", "y")]
        slices.append(slice_of("n", pool="counted", name="sets", count=2, sharedCounters=sets))
        pools = pools_of(*slices)
        every = [each for pool in pools for one in pool.slices for each in one.devices]
        in_use = DevicesInUse()
        for each in every:
            if each.shared and chance.random() < 0.3:
                in_use.shares[each.id] = 1
                in_use.consumed[each.id] = {"bw": chance.randint(1, 4) * NANO}
            elif chance.random() < 0.2:
                in_use.whole[each.id] = 1
        shapes = Shapes()
        pending = [_some_claim(chance, f"default/c{i}", shapes) for i in range(chance.choice([1, 1, 2]))]
        wanted = Plainly(pending, pools, in_use).first()
        said = ""
        try:
            found = found_by(pending, pools, in_use)
        except DeviceError as error:
            found, said = None, str(error)
        if said:  # all are asked for and cannot be had together: an error of the claim, as upstream
            assert "because a claim constraint would not be satisfied" in said
            assert any(opt.mode == "All" for one in pending for opt in one.shape.options)
            continue
        assert found == wanted, [one.shape for one in pending]
        found_any += found is not None
    assert found_any


# -- bounds -----------------------------------------------------------------------------------------------------------


def _many(count: int, **more: Any) -> tuple[Pool, ...]:
    return pools_of(slice_of("n", devices(count, **more)))


@pytest.mark.parametrize(
    ("requests", "there", "found"),
    [
        ([request(count=32)], 40, ["r"] * 32),
        ([request("a", count=31), request("b")], 40, ["a"] * 31 + ["b"]),
        ([request(allocationMode="All")], 32, ["r"] * 32),
        ([first_of("r", option("x", count=40), option("y", count=32))], 40, ["r/y"] * 32),
        ([first_of("r", option("x", count=32), option("y", count=31)), request("s")], 40, ["r/y"] * 31 + ["s"]),
        (
            [first_of("r", option("x", count=32), option("y", count=2)), first_of("s", option("z", count=31))],
            40,
            None,
        ),
        (
            [first_of("r", option("x", count=31)), first_of("s", option("y", count=2), option("z"))],
            40,
            ["r/x"] * 31 + ["s/z"],
        ),
    ],
)
def test_claim_has_at_most_32_devices(requests: list[Json], there: int, found: list[str] | None) -> None:
    """resourceapi.AllocationResultsMaxSize; of a prioritized list an option that would be too many is passed over."""
    if found is None:  # even the fewest are 33
        with pytest.raises(DeviceError, match="number of requested devices 33"):
            found_by([claiming(*requests)], _many(there))
        return
    chosen = found_by([claiming(*requests)], _many(there))
    assert chosen is not None
    assert [name for name, _, _ in chosen[0]] == found


@pytest.mark.parametrize(
    "requests",
    [
        [request(count=MOST_RESULTS + 1)],
        [request("a", count=MOST_RESULTS), request("b")],
        [request(allocationMode="All")],
        [first_of("r", option("x", count=33), option("y", count=34))],
    ],
)
def test_more_devices_than_a_claim_can_have_are_an_error_of_the_claim(requests: list[Json]) -> None:
    """Its fewest are too many: no node can help."""
    total = {"r": 33, "a": 33}[requests[0]["name"]]
    said = rf"^claim default/c: number of requested devices {total} exceeds the claim limit of 32$"
    with pytest.raises(DeviceError, match=said):
        found_by([claiming(*requests)], _many(33))


def test_two_claims_may_have_32_devices_each() -> None:
    """The bound is each claim's."""
    shapes = Shapes()
    pending = [claiming(request(count=32), key=f"default/{name}", shapes=shapes) for name in "ab"]
    found = found_by(pending, _many(64))
    assert found is not None
    assert [len(chosen) for chosen in found] == [32, 32]
    assert found_by(pending[:1], _many(31)) is None


def test_search_ends_after_so_many_steps() -> None:
    """As many as are needed are enough, and one fewer are not: the message has the number."""
    pools = _many(4)
    needed = next(steps for steps in range(1, 50) if _gets_through([claiming(request(count=2))], pools, steps))
    assert needed == 2
    with pytest.raises(GaveUpError, match=r"^gave up trying to allocate devices after 1 steps$"):
        found_by([claiming(request(count=2))], pools, steps=1)
    assert MOST_STEPS == 20_000


def _gets_through(pending: Sequence[PendingClaim], pools: Sequence[Pool], steps: int) -> bool:
    try:
        return found_by(pending, pools, steps=steps) is not None
    except GaveUpError:
        return False


HOPELESS = [
    ("one is of the kind", request("s", "a"), 1, False),
    ("none is of the kind", request("s", "a"), 0, True),
    ("two are asked for", request("s", "a", count=2), 1, True),
    ("an option needs none of them", first_of("s", option("x", "a", count=2), option("y")), 1, False),
    ("administrators ask for what is taken", request("s", "gpu", 'device.driver == ""', adminAccess=True), 1, True),
]


@pytest.mark.parametrize(("last", "there", "hopeless"), [h[1:] for h in HOPELESS], ids=[h[0] for h in HOPELESS])
def test_impossible_requests_are_seen_before_all_is_tried(last: Json, there: int, hopeless: bool) -> None:
    """After a thousand steps a request that has too few devices, whatever others take, ends the search."""
    # Devices with a constraint that can only be kept at the end of a long search, or never.
    listed = [device(f"d-{i}", {"kind": "b", "numa": i % 3}) for i in range(60)]
    listed += [device(f"e-{i}", {"kind": "a", "numa": 7}) for i in range(there)]
    names = [f"r{i}" for i in range(5)]
    apart = [{"requests": [name], "distinctAttribute": f"{DRIVER}/numa"} for name in names]
    first = [request(name, "gpu", f'device.attributes["{DRIVER}"].kind == "b"', count=4) for name in names]
    wanted = claiming(*first, last, constraints=apart)
    pools = pools_of(slice_of("n", listed))
    if hopeless:
        assert found_by([wanted], pools) is None
    else:
        with pytest.raises(GaveUpError, match="after 20000 steps"):
            found_by([wanted], pools)


def test_devices_in_use_count_as_missing_but_not_for_administrators() -> None:
    """adminAccess: devices in use are given too."""
    pools = _many(2)
    in_use = DevicesInUse(whole={(DRIVER, "n", "gpu-0"): 1, (DRIVER, "n", "gpu-1"): 1})
    assert found_by([claiming(request())], pools, in_use) is None
    assert found_by([claiming(request(adminAccess=True, count=2))], pools, in_use) == [
        [("r", "gpu-0", {}), ("r", "gpu-1", {})]
    ]
    assert found_by([claiming(request("a", adminAccess=True, count=2), request("b", adminAccess=True))], pools) is None


# -- what is wrong ----------------------------------------------------------------------------------------------------

INCOMPLETE = slice_of("n", devices(1), count=2)
INVALID = slice_of("n", [device("x"), device("x")], pool="twins")

FAULTS: list[tuple[str, list[Json], list[Json], list[Any], str]] = [
    ("no such type", [{"name": "r"}], [], [], "resource claim default/c, request r: unknown request type"),
    (
        "no class",
        [request("r", "")],
        [],
        [],
        "claim default/c, request r: missing device class name (unsupported request type?)",
    ),
    (
        "class missing",
        [request("r", "no")],
        [],
        [],
        'claim default/c, request r: could not retrieve device class no: deviceclass.resource.k8s.io "no" not found',
    ),
    (
        "class of an option missing",
        [first_of("r", option("x"), option("y", "no"))],
        [],
        [],
        'claim default/c, request r/y: could not retrieve device class no: deviceclass.resource.k8s.io "no" not found',
    ),
    ("mode", [request(allocationMode="Some")], [], [], "claim default/c, request r: unsupported count mode Some"),
    (
        "selector type",
        [{"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "true"}}, {}]}}],
        [],
        [],
        "claim default/c, request r, selector #1: CEL expression empty (unsupported selector type?)",
    ),
    (
        "constraint type",
        [request()],
        [{"matchAttribute": "a/b"}, {}],
        [],
        "claim default/c, constraint #1: empty constraint (unsupported constraint type?)",
    ),
    (
        "all of a pool that is incomplete",
        [request(allocationMode="All")],
        [],
        [INCOMPLETE],
        f"claim default/c, request r: asks for all devices, but resource pool {DRIVER}/n is currently being updated",
    ),
    (
        "all of a pool that is invalid",
        [request(allocationMode="All")],
        [],
        [INVALID],
        f"claim default/c, request r: asks for all devices, but resource pool {DRIVER}/twins is currently invalid",
    ),
    (
        "all, and not alike",
        [request(allocationMode="All")],
        [{"matchAttribute": f"{DRIVER}/numa"}],
        [slice_of("n", [device("a", {"numa": 0}), device("b", {"numa": 1})], pool="more")],
        f"claim default/c, request r: cannot add device {DRIVER}/more/b "
        "because a claim constraint would not be satisfied",
    ),
    (
        "a class that fails",
        [request("r", "bad")],
        [],
        [slice_of("n", devices(1))],
        "class bad: selector #0: CEL compile error: compilation failed: ",
    ),
    (
        "a selector that fails on a device",
        [request("r", "gpu", "true", f'device.attributes["{DRIVER}"].no == 1')],
        [],
        [slice_of("n", devices(1))],
        f"claim default/c: selector #1 on device {DRIVER}/n/gpu-0: CEL runtime error: no such key: no",
    ),
]


@pytest.mark.parametrize(
    ("requests", "constraints", "slices", "said"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS]
)
def test_error_that_no_node_can_cure_is_reported(
    requests: list[Json], constraints: list[Json], slices: list[Any], said: str
) -> None:
    """The words are upstream's where it has any."""
    with pytest.raises(DeviceError) as error:
        found_by([claiming(*requests, constraints=constraints)], pools_of(*slices))
    assert str(error.value).startswith(said)


def test_pool_that_is_invalid_is_why_only_where_nothing_is_found() -> None:
    """One that is incomplete is no reason of its own: its driver is at work."""
    assert found_by([claiming(request())], pools_of(INVALID, slice_of("n", devices(1)))) == [[("r", "gpu-0", {})]]
    with pytest.raises(NodeError, match=r"^invalid resource pools were encountered$"):
        found_by([claiming(request())], pools_of(INVALID))
    assert found_by([claiming(request())], pools_of(INCOMPLETE)) is None


def test_no_device_is_found_for_all_of_none() -> None:
    """A request for all devices wants one at least."""
    assert found_by([claiming(request(allocationMode="All"))], ()) is None
    assert found_by(
        [claiming(first_of("r", option("x", "a", allocationMode="All"), option("y")))],
        _many(1, attributes={"kind": {"string": "b"}}),
    ) == [[("r/y", "gpu-0", {})]]


def test_constraint_count_is_taken_back_where_another_is_broken() -> None:
    """A device that is refused for its kind does not use up its value of the other attribute."""
    listed = [
        device("x", {"numa": 0, "kind": "a"}),
        device("y", {"numa": 1, "kind": "b"}),
        device("z", {"numa": 1, "kind": "a"}),
    ]
    both = [{"distinctAttribute": f"{DRIVER}/numa"}, {"matchAttribute": f"{DRIVER}/kind"}]
    for constraints in (both, both[::-1]):
        found = found_by([claiming(request(count=2), constraints=constraints)], pools_of(slice_of("n", listed)))
        assert found == [[("r", "x", {}), ("r", "z", {})]]


ROOTS: list[tuple[str, list[Json], list[str] | None]] = [
    ("matchAttribute", [{"strings": ["a", "b"]}, {"string": "b"}, {"strings": ["c", "b"]}], ["d0", "d1", "d2"]),
    ("matchAttribute", [{"strings": ["a", "b"]}, {"strings": ["b", "c"]}, {"strings": ["c", "a"]}], None),
    ("matchAttribute", [{"ints": [1, 1]}, {"int": 1}, {"strings": ["1"]}], None),
    ("distinctAttribute", [{"strings": ["a", "b"]}, {"string": "c"}, {"strings": ["d", "d"]}], ["d0", "d1", "d2"]),
    ("distinctAttribute", [{"strings": ["a", "b"]}, {"string": "c"}, {"strings": ["b", "d"]}], None),
    ("distinctAttribute", [{"strings": ["a"]}, {"string": "c"}, {}], None),
]


@pytest.mark.parametrize(("constraint", "values", "expected"), ROOTS)
def test_lists_match_by_what_they_have_in_common(
    constraint: str, values: list[Json], expected: list[str] | None
) -> None:
    """devices.md 5.2: one value in all of them, or none in two of them; a single value is a list of one."""
    devices = [
        {"name": f"d{turn}", "attributes": {"root": value} if value else {}} for turn, value in enumerate(values)
    ]
    claim = claiming(request(count=3), constraints=[{constraint: f"{DRIVER}/root"}])
    found = found_by([claim], pools_of(slice_of("n", devices)))
    assert (None if found is None else [name for _, name, _ in found[0]]) == expected


def test_counts_of_list_values_are_taken_back() -> None:
    """devices.md 5.2: a device tried and given back leaves nothing behind."""
    devices = [
        {"name": name, "attributes": {"root": {"strings": roots}}}
        for name, roots in (("x", ["a"]), ("y", ["b", "c"]), ("z", ["c"]))
    ]
    claim = claiming(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    found = found_by([claim], pools_of(slice_of("n", devices)))
    assert found == [[("r", "y", {}), ("r", "z", {})]]
