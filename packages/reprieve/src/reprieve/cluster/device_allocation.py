"""Finding devices for claims on one node: the first solution in a fixed order, with backtracking and a bound.

Rules (k8s.io/dynamic-resource-allocation/structured, 1.36): claims one after another, their requests in order, of a
prioritized list the first option that works out; devices in the order of `reprieve.cluster.device_pools`.  Devices of
one request are taken in ascending order, so sets are tried and not their permutations.  A device is taken if no claim
has it (admin access does not ask, and takes nothing away), the selectors of class and request hold, its taints are
tolerated, its pool's counters and - for a device that several claims share - its capacities last, and the claim's
constraints hold.

Instead of a time-out there is `MOST_STEPS`: the same input gives the same answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kube_rules.devices import DeviceClass, DeviceSelectorError
from reprieve.cluster.device_pools import Capacity, CapacityPolicy, Device, DeviceId, DeviceMatcher, Pool, PoolId, Slice
from reprieve.cluster.device_requests import (
    MOST_RESULTS,
    Allocation,
    Chosen,
    ClaimShape,
    Constraint,
    Option,
    expressions,
)

MOST_STEPS = 20_000
"""Devices examined for one pod on one node before the search gives up."""
FEWER_STEPS = 500
"""The same once that happened on `MOST_GIVEN_UP` nodes: what cannot be found there is not searched for everywhere."""
MOST_GIVEN_UP = 8
_COUNT_AFTER = 1000
"""After so many steps it is worth asking whether the requests have enough devices at all."""
BLOCKING = ("NoSchedule", "NoExecute")
"""Effects of taints that keep claims from devices; any other is for information."""


class DeviceError(ValueError):
    """Something is wrong with a claim or a class: no node can help, the attempt ends with SchedulerError."""


class NodeError(ValueError):
    """Why no solution can be found on this node, where it is more than that there is none."""


class GaveUpError(NodeError):
    """The search was too long."""


@dataclass(slots=True)
class DevicesInUse:
    """What allocations take: whole devices (how often), and of shared ones the capacity and how many shares."""

    whole: dict[DeviceId, int] = field(default_factory=dict)
    shares: dict[DeviceId, int] = field(default_factory=dict)
    consumed: dict[DeviceId, dict[str, int]] = field(default_factory=dict)

    def any(self, device: DeviceId) -> bool:
        """Return whether a claim has the device or a share of it."""
        return device in self.whole or device in self.shares

    def count(self, allocation: Allocation, by: int) -> None:
        """Add (1) or take away (-1) what an allocation takes; admin access takes nothing."""
        for grant in allocation.grants:
            if grant.admin:
                continue
            table = self.shares if grant.share else self.whole
            left = table.get(grant.device, 0) + by
            if left:
                table[grant.device] = left
            else:
                del table[grant.device]
            if not grant.share:
                continue
            used = self.consumed.setdefault(grant.device, {})
            for name, amount in grant.consumed.items():
                used[name] = used.get(name, 0) + by * amount
            if not left:
                del self.consumed[grant.device]


@dataclass(slots=True)
class PendingClaim:
    """One claim to be allocated. `key`: namespace/name."""

    key: str
    shape: ClaimShape


@dataclass(slots=True)
class _Slot:
    """One device of the node in the order of the search."""

    pool: Pool
    origin: Slice
    device: Device


class _TooManyError(Exception):
    """More devices than a claim's status can hold: another option may need fewer."""


def allocate(
    pending: Sequence[PendingClaim],
    node: str,
    labels: Mapping[str, str],
    pools: Sequence[Pool],
    in_use: DevicesInUse,
    classes: Mapping[str, DeviceClass],
    matcher: DeviceMatcher,
    steps: int = MOST_STEPS,
) -> list[list[Chosen]] | None:
    """Devices for each claim, in order; None if there is no solution. Raises DeviceError or NodeError."""
    search = _Search(pending, node, labels, pools, in_use, classes, matcher, steps)
    try:
        if search.claim(0):
            return search.chosen
    except (_TooManyError, _HopelessError):
        return None
    except RecursionError:
        raise NodeError("the claims ask for too many devices at once") from None
    if any(pool.invalid for pool in pools):
        raise NodeError("invalid resource pools were encountered")
    return None


class _HopelessError(Exception):
    """Some request has fewer devices to choose from than it needs."""


class _Search:
    """One search; `chosen` has a list for each claim."""

    def __init__(
        self,
        pending: Sequence[PendingClaim],
        node: str,
        labels: Mapping[str, str],
        pools: Sequence[Pool],
        in_use: DevicesInUse,
        classes: Mapping[str, DeviceClass],
        matcher: DeviceMatcher,
        steps: int,
    ) -> None:
        self._pending = pending
        self._node = node
        self._labels = labels
        self._pools = pools
        self._in_use = in_use
        self._classes = classes
        self._matcher = matcher
        self._slots = [
            _Slot(pool, device_slice, device)
            for pool in pools
            if pool.usable
            for device_slice in pool.slices
            for device in device_slice.devices
        ]
        self.chosen: list[list[Chosen]] = [[] for _ in pending]
        self._taking: dict[DeviceId, set[int]] = {}
        """Devices taken in this search, and by which claims (by number)."""
        self._sharing: dict[DeviceId, list[Mapping[str, int]]] = {}
        self._counters_left: dict[PoolId, dict[str, dict[str, int]]] = {}
        self._values: list[list[dict[str, int]]] = [[{} for _ in claim.shape.constraints] for claim in pending]
        """Per claim and constraint: attribute value -> how many chosen devices have it; under "" how many there are."""
        self._selectable: dict[tuple[int, str, DeviceId], bool] = {}
        self._steps = 0
        self._most_steps = steps
        self._all: dict[tuple[int, str], list[_Slot]] = {}
        for number, claim in enumerate(pending):
            self._check(number, claim)

    # -- before the search --------------------------------------------------------------------------------------------

    def _check(self, number: int, claim: PendingClaim) -> None:
        least = 0
        for request in claim.shape.requests:
            if not request.options:
                raise DeviceError(f"resource claim {claim.key}, request {request.name}: unknown request type")
            least += min(self._demand(number, claim, option) for option in request.options)
        if least > MOST_RESULTS:
            raise DeviceError(
                f"claim {claim.key}: number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
            )
        for index, constraint in enumerate(claim.shape.constraints):
            if not constraint.attribute:
                raise DeviceError(
                    f"claim {claim.key}, constraint #{index}: empty constraint (unsupported constraint type?)"
                )

    def _demand(self, number: int, claim: PendingClaim, option: Option) -> int:
        """Return how many devices an option needs."""
        where = f"claim {claim.key}, request {option.name}"
        for index, text in enumerate(option.selectors):
            if text is None:
                raise DeviceError(f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)")
        if not option.class_name:
            raise DeviceError(f"{where}: missing device class name (unsupported request type?)")
        if option.class_name not in self._classes:
            raise DeviceError(
                f"{where}: could not retrieve device class {option.class_name}: "
                f'deviceclass.resource.k8s.io "{option.class_name}" not found'
            )
        if option.mode == "ExactCount":
            return option.count
        if option.mode != "All":
            raise DeviceError(f"{where}: unsupported count mode {option.mode}")
        for pool in self._pools:
            if not pool.usable:
                state = "being updated" if pool.incomplete else "invalid"
                raise DeviceError(
                    f"{where}: asks for all devices, but resource pool {pool.id[0]}/{pool.id[1]} is currently {state}"
                )
        wanted = [
            slot
            for slot in self._slots
            if self._suits(number, option, slot) and self._capacity_left(option, slot.device) is not None
        ]
        self._all[number, option.name] = wanted
        return len(wanted)

    # -- the search ---------------------------------------------------------------------------------------------------

    def claim(self, number: int) -> bool:
        """Allocate this claim and all after it."""
        if number == len(self._pending):
            return True
        return self._request(number, 0)

    def _request(self, number: int, index: int) -> bool:
        requests = self._pending[number].shape.requests
        if index == len(requests):
            try:
                return self.claim(number + 1)
            except _TooManyError:
                return False
        request = requests[index]
        too_many = 0
        for option in request.options:
            try:
                if self._option(number, index, option, 0, 0):
                    return True
            except _TooManyError:
                too_many += 1
        if too_many == len(request.options):
            raise _TooManyError
        return False

    def _option(self, number: int, index: int, option: Option, taken: int, start: int) -> bool:
        """Take the devices of an option from slot `start` on, `taken` of them being there already."""
        all_of_them = self._all.get((number, option.name)) if option.mode == "All" else None
        needed = option.count if all_of_them is None else len(all_of_them)
        if not needed:
            return False
        if taken == needed:
            return self._request(number, index + 1)
        if len(self.chosen[number]) + needed - taken > MOST_RESULTS:
            raise _TooManyError
        if all_of_them is not None:
            undo = self._take(number, option, all_of_them[taken], must=True)
            if undo is None:
                return False
            try:
                done = self._option(number, index, option, taken + 1, 0)
            except _TooManyError:
                undo()
                raise
            if not done:
                undo()
            return done
        slots = self._slots
        for position in range(start, len(slots) - (needed - taken) + 1):
            slot = slots[position]
            undo = self._take(number, option, slot) if self._suits(number, option, slot, free=True) else None
            if undo is None:
                continue
            try:
                done = self._option(number, index, option, taken + 1, position + 1)
            except _TooManyError:
                undo()
                raise
            if done:
                return True
            undo()
        return False

    def _suits(self, number: int, option: Option, slot: _Slot, *, free: bool = False) -> bool:
        """Return whether class and request would have the device; with `free` also whether it is there to be had."""
        self._steps += 1
        if self._steps == _COUNT_AFTER and self._hopeless():
            raise _HopelessError
        if self._steps > self._most_steps:
            raise GaveUpError(f"gave up trying to allocate devices after {self._most_steps} steps")
        device = slot.device
        if free and self._busy(number, option, device):
            return False
        return self._fitting(number, option, slot)

    def _fitting(self, number: int, option: Option, slot: _Slot) -> bool:
        """Return whether class and request select the device, and it is for this node."""
        device = slot.device
        key = (number, option.name, device.id)
        result = self._selectable.get(key)
        if result is None:
            result = self._selectable[key] = self._selected(number, option, device) and (
                not slot.origin.per_device or device.reach.includes(self._node, self._labels)
            )
        return result

    def _hopeless(self) -> bool:
        """Return whether a request has too few devices whatever the others take. A fault is left for the search to
        find.
        """
        try:
            for number, claim in enumerate(self._pending):
                for request in claim.shape.requests:
                    if not any(self._enough(number, option) for option in request.options):
                        return True
        except DeviceError:
            pass
        return False

    def _enough(self, number: int, option: Option) -> bool:
        if option.mode == "All":
            return True
        there = 0
        for slot in self._slots:
            free = option.admin or slot.device.id not in self._in_use.whole
            there += free and self._fitting(number, option, slot)
        return there >= option.count

    def _busy(self, number: int, option: Option, device: Device) -> bool:
        """Taken, by another claim or in this search; with admin access only this claim's own choice counts."""
        if option.admin:
            return number in self._taking.get(device.id, ())
        return device.id in self._in_use.whole or bool(self._taking.get(device.id))

    def _selected(self, number: int, option: Option, device: Device) -> bool:
        held = self._classes[option.class_name]
        for where, texts in (
            (f"class {option.class_name}", expressions(held.spec.selectors)),
            (f"claim {self._pending[number].key}", option.selectors),
        ):
            for index, text in enumerate(texts):
                if text is None:
                    raise DeviceError(f"{where}: selector #{index}: CEL expression empty (unsupported selector type?)")
                try:
                    if not self._matcher.matches(device, text):
                        return False
                except DeviceSelectorError as fault:
                    name = "/".join(device.id)
                    kind = str(fault) if str(fault).startswith("compilation") else f"CEL runtime error: {fault}"
                    at = "" if kind == str(fault) else f" on device {name}"
                    message = kind.replace("compilation failed:", "CEL compile error: compilation failed:", 1)
                    raise DeviceError(f"{where}: selector #{index}{at}: {message}") from None
        return True

    def _take(self, number: int, option: Option, slot: _Slot, *, must: bool = False) -> Callable[[], None] | None:
        """Take the device if it may be taken; returns what gives it back."""
        device = slot.device
        if self._busy(number, option, device):
            return None
        if any(taint.effect in BLOCKING and not option.tolerates(taint) for taint in device.taints):
            return None
        consumed = self._capacity_left(option, device)
        if consumed is None:
            return None
        counted = bool(device.consumes) and not (
            device.shared and (device.id in self._in_use.shares or bool(self._sharing.get(device.id)))
        )
        if counted and not self._counters(slot.pool, device, -1):
            return None
        kept = self._keep_constraints(number, option, device)
        if kept is None:
            if counted:
                self._counters(slot.pool, device, 1)
            if must:
                raise DeviceError(
                    f"claim {self._pending[number].key}, request {option.name}: cannot add device "
                    f"{'/'.join(device.id)} because a claim constraint would not be satisfied"
                )
            return None
        if device.shared:
            self._sharing.setdefault(device.id, []).append(consumed)
        else:
            self._taking.setdefault(device.id, set()).add(number)
        self.chosen[number].append(Chosen(option, device, slot.origin, consumed if device.shared else {}))

        def undo() -> None:
            self.chosen[number].pop()
            if device.shared:
                self._sharing[device.id].pop()
            else:
                self._taking[device.id].discard(number)
            _forget(kept)
            if counted:
                self._counters(slot.pool, device, 1)

        return undo

    def _keep_constraints(self, number: int, option: Option, device: Device) -> list[tuple[dict[str, int], str]] | None:
        """Count the device for the claim's constraints; None, and nothing counted, if one would be broken.

        All devices have a value in common for `matchAttribute`, and no two have one for `distinctAttribute` (KEP-5491).
        """
        kept: list[tuple[dict[str, int], str]] = []
        for constraint, values in zip(self._pending[number].shape.constraints, self._values[number], strict=True):
            if not constraint.concerns(option):
                continue
            own = _values_of(device, constraint)
            others = values.get(_DEVICES, 0)
            if constraint.distinct:
                broken = any(value in values for value in own)
            else:
                broken = others > 0 and not any(values.get(value) == others for value in own)
            if broken or not own:
                _forget(kept)
                return None
            for value in (_DEVICES, *own):
                values[value] = values.get(value, 0) + 1
                kept.append((values, value))
        return kept

    def _counters(self, pool: Pool, device: Device, sign: int) -> bool:
        """Take (-1) or give back (1) what the device consumes of its pool's counters; False if they do not last."""
        left = self._counters_left.get(pool.id)
        if left is None:
            left = {name: dict(amounts) for name, amounts in pool.counters.items()}
            for item in (*pool.slices, *pool.elsewhere):
                for other in item.devices:
                    if other.consumes and self._in_use.any(other.id):
                        _subtract(left, other.consumes, 1)
            self._counters_left[pool.id] = left
        _subtract(left, device.consumes, -sign)
        if sign < 0 and any(left[name][counter] < 0 for name, used in device.consumes.items() for counter in used):
            _subtract(left, device.consumes, -1)
            return False
        return True

    def _capacity_left(self, option: Option, device: Device) -> Mapping[str, int] | None:
        """Return what the option would consume of the device's capacities, by published name; None if they do not
        last.
        """
        wanted: dict[str, int] = {}
        for name, amount in option.capacity.items():
            published = device.capacity_name(name)
            if published is None:
                return None
            wanted[published] = amount
        consumed: dict[str, int] = {}
        used = self._in_use.consumed.get(device.id, {})
        taking = self._sharing.get(device.id, ())
        for name, capacity in device.capacity.items():
            takes = rounded(wanted.get(name), capacity)
            if takes is None:
                return None
            if used.get(name, 0) + sum(item.get(name, 0) for item in taking) + takes > capacity.value:
                return None
            consumed[name] = takes
        return consumed


def _subtract(left: dict[str, dict[str, int]], consumes: Mapping[str, Mapping[str, int]], sign: int) -> None:
    for name, used in consumes.items():
        there = left[name]
        for counter, amount in used.items():
            there[counter] -= sign * amount


_DEVICES = ""
"""No value of an attribute: the number of devices."""


def _forget(kept: Sequence[tuple[dict[str, int], str]]) -> None:
    for values, value in kept:
        values[value] -= 1
        if not values[value]:
            del values[value]


def _values_of(device: Device, constraint: Constraint) -> Sequence[str]:
    """Return the attribute's values, each once and distinguished by their type; of a scalar the one.

    Empty if the device does not have the attribute.
    """
    found = device.attribute(constraint.attribute)
    if found is not None:
        for kind in ("string", "int", "bool", "version"):
            if found.get(kind) is not None:
                return (f"{kind}:{found[kind]}",)
            if (several := found.get(f"{kind}s")) is not None:
                return tuple(dict.fromkeys(f"{kind}:{value}" for value in several))
    return ()


def rounded(wanted: int | None, capacity: Capacity) -> int | None:
    """Return what a request for a capacity consumes by its policy; None if the policy does not allow it.

    Without a request the policy's default, else all of it.  Amounts in units of 10^-9.
    """
    policy = capacity.policy
    if policy is None:
        return capacity.value if wanted is None else wanted
    default = policy.default
    unasked = default if default is not None else capacity.value
    amount = _rounded_up(wanted, policy) if wanted is not None else unasked
    if amount == default:
        return amount
    if policy.least is not None or policy.most is not None or policy.step is not None:
        if policy.most is not None and amount > policy.most:
            return None
        if policy.step and (amount - (policy.least or 0)) % policy.step:
            return None
        return amount
    if policy.values and amount not in policy.values:
        return None
    return amount


def _rounded_up(wanted: int, policy: CapacityPolicy) -> int:
    if policy.least is not None:
        if wanted < policy.least:
            return policy.least
        if policy.step:
            return policy.least + -(-(wanted - policy.least) // policy.step) * policy.step
        return wanted
    for value in policy.values:
        if wanted <= value:
            return value
    return wanted
