"""Allocation of devices to claims on one node: the first solution in a fixed order, by bounded backtracking.

Rules (k8s.io/dynamic-resource-allocation/structured, 1.36): claims are allocated in order, and so are the requests of a
claim. Of a prioritized list the first feasible option is used. Devices are tried in the order of
`reprieve.cluster.device_pools`. The devices of one request are taken in ascending order, so the search tries sets, not
permutations. A device is feasible under these conditions: no claim uses it (admin access ignores other claims and
consumes nothing); the selectors of class and request match; its taints are tolerated; its pool's counters suffice; the
capacities of a shared device suffice; and the claim's constraints hold.

`MOST_STEPS` replaces a timeout, so the same input gives the same answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kube_rules.devices import DeviceClass, DeviceSelectorError
from reprieve.cluster.device_pools import Capacity, CapacityPolicy, Device, DeviceId, DeviceMatcher, Pool, PoolId, Slice
from reprieve.cluster.device_requests import (
    MOST_RESULTS,
    Allocation,
    ChosenDevice,
    ClaimShape,
    Constraint,
    Option,
    expressions,
)

MOST_STEPS = 20_000
"""The number of devices examined for one pod on one node before the search gives up."""
FEWER_STEPS = 500
"""The lower limit once the search gave up on `MOST_GIVEN_UP` nodes, to bound the total effort."""
MOST_GIVEN_UP = 8
_COUNT_AFTER = 1000
"""The step after which the search checks whether the requests have enough devices at all."""
BLOCKING = ("NoSchedule", "NoExecute")
"""Taint effects that keep claims from devices; other effects are informational."""


class DeviceError(ValueError):
    """A claim or a class is invalid: no node can help, and the attempt ends with SchedulerError."""


class NodeError(ValueError):
    """The claims cannot be allocated on this node for a specific reason."""


class GaveUpError(NodeError):
    """The search exceeded its step limit."""


@dataclass(slots=True)
class DevicesInUse:
    """The devices that allocations use: whole devices with a use count, shared devices with capacity and shares."""

    whole: dict[DeviceId, int] = field(default_factory=dict)
    shares: dict[DeviceId, int] = field(default_factory=dict)
    consumed: dict[DeviceId, dict[str, int]] = field(default_factory=dict)

    def any(self, device: DeviceId) -> bool:
        """Return whether a claim has the device or a share of it."""
        return device in self.whole or device in self.shares

    def count(self, allocation: Allocation, by: int) -> None:
        """Add (`by=1`) or remove (`by=-1`) the devices of an allocation; admin access uses none."""
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
    """A claim to allocate. `key`: namespace/name."""

    key: str
    shape: ClaimShape


@dataclass(slots=True)
class _Slot:
    """A device of the node, at its position in the search order."""

    pool: Pool
    origin: Slice
    device: Device


class _TooManyError(Exception):
    """The claim needs more devices than its status can hold; another option may need fewer."""


def allocate(
    pending: Sequence[PendingClaim],
    node: str,
    labels: Mapping[str, str],
    pools: Sequence[Pool],
    in_use: DevicesInUse,
    classes: Mapping[str, DeviceClass],
    matcher: DeviceMatcher,
    steps: int = MOST_STEPS,
) -> list[list[ChosenDevice]] | None:
    """Return the devices for each claim, in order; None without a solution. Raises DeviceError or NodeError."""
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
    """A request needs more devices than exist for it."""


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
        self.chosen: list[list[ChosenDevice]] = [[] for _ in pending]
        self._taking: dict[DeviceId, set[int]] = {}
        """The devices taken in this search -> the numbers of the claims."""
        self._sharing: dict[DeviceId, list[Mapping[str, int]]] = {}
        self._counters_left: dict[PoolId, dict[str, dict[str, int]]] = {}
        self._values: list[list[dict[str, int]]] = [[{} for _ in claim.shape.constraints] for claim in pending]
        """Per claim and constraint: attribute value -> number of chosen devices with it; "" -> number of devices."""
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
        """Return how many devices an option needs. Raises DeviceError for an invalid option."""
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
        """Allocate this claim and all later ones; return whether there is a solution."""
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

    def _option(self, number: int, index: int, option: Option, taken_count: int, start: int) -> bool:
        """Take devices for an option from slot `start` on; `taken_count` of them are already taken."""
        all_slots = self._all.get((number, option.name)) if option.mode == "All" else None
        needed = option.count if all_slots is None else len(all_slots)
        if not needed:
            return False
        if taken_count == needed:
            return self._request(number, index + 1)
        if len(self.chosen[number]) + needed - taken_count > MOST_RESULTS:
            raise _TooManyError
        if all_slots is not None:
            undo = self._take(number, option, all_slots[taken_count], must=True)
            if undo is None:
                return False
            try:
                done = self._option(number, index, option, taken_count + 1, 0)
            except _TooManyError:
                undo()
                raise
            if not done:
                undo()
            return done
        slots = self._slots
        for position in range(start, len(slots) - (needed - taken_count) + 1):
            slot = slots[position]
            undo = self._take(number, option, slot) if self._suits(number, option, slot, free=True) else None
            if undo is None:
                continue
            try:
                done = self._option(number, index, option, taken_count + 1, position + 1)
            except _TooManyError:
                undo()
                raise
            if done:
                return True
            undo()
        return False

    def _suits(self, number: int, option: Option, slot: _Slot, *, free: bool = False) -> bool:
        """Return whether the device matches class and request; with `free` also whether it is available."""
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
        """Return whether class and request select the device and the node can reach it."""
        device = slot.device
        key = (number, option.name, device.id)
        result = self._selectable.get(key)
        if result is None:
            result = self._selectable[key] = self._selected(number, option, device) and (
                not slot.origin.per_device or device.reach.includes(self._node, self._labels)
            )
        return result

    def _hopeless(self) -> bool:
        """Return whether a request has too few devices regardless of other requests; ignore invalid options."""
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
        available = 0
        for slot in self._slots:
            free = option.admin or slot.device.id not in self._in_use.whole
            available += free and self._fitting(number, option, slot)
        return available >= option.count

    def _busy(self, number: int, option: Option, device: Device) -> bool:
        """Return whether the device is taken, by any claim or, with admin access, by this claim."""
        if option.admin:
            return number in self._taking.get(device.id, ())
        return device.id in self._in_use.whole or bool(self._taking.get(device.id))

    def _selected(self, number: int, option: Option, device: Device) -> bool:
        device_class = self._classes[option.class_name]
        for where, texts in (
            (f"class {option.class_name}", expressions(device_class.spec.selectors)),
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
        """Take the device if possible and return a function that gives it back; None if not possible."""
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
        counted_values = self._keep_constraints(number, option, device)
        if counted_values is None:
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
        self.chosen[number].append(ChosenDevice(option, device, slot.origin, consumed if device.shared else {}))

        def undo() -> None:
            self.chosen[number].pop()
            if device.shared:
                self._sharing[device.id].pop()
            else:
                self._taking[device.id].discard(number)
            _forget(counted_values)
            if counted:
                self._counters(slot.pool, device, 1)

        return undo

    def _keep_constraints(self, number: int, option: Option, device: Device) -> list[tuple[dict[str, int], str]] | None:
        """Count the device for the claim's constraints; return None, with nothing counted, if it violates one.

        With `matchAttribute` all devices have a common value, with `distinctAttribute` no two devices do (KEP-5491).
        """
        counted_values: list[tuple[dict[str, int], str]] = []
        for constraint, values in zip(self._pending[number].shape.constraints, self._values[number], strict=True):
            if not constraint.concerns(option):
                continue
            own = _values_of(device, constraint)
            chosen_count = values.get(_DEVICES, 0)
            if constraint.distinct:
                broken = any(value in values for value in own)
            else:
                broken = chosen_count > 0 and not any(values.get(value) == chosen_count for value in own)
            if broken or not own:
                _forget(counted_values)
                return None
            for value in (_DEVICES, *own):
                values[value] = values.get(value, 0) + 1
                counted_values.append((values, value))
        return counted_values

    def _counters(self, pool: Pool, device: Device, sign: int) -> bool:
        """Take (-1) or give back (1) the counters that the device consumes; return False if they do not suffice."""
        left = self._counters_left.get(pool.id)
        if left is None:
            left = {name: dict(amounts) for name, amounts in pool.counters.items()}
            for item in (*pool.slices, *pool.elsewhere):
                for pool_device in item.devices:
                    if pool_device.consumes and self._in_use.any(pool_device.id):
                        _subtract(left, pool_device.consumes, 1)
            self._counters_left[pool.id] = left
        _subtract(left, device.consumes, -sign)
        if sign < 0 and any(left[name][counter] < 0 for name, used in device.consumes.items() for counter in used):
            _subtract(left, device.consumes, -1)
            return False
        return True

    def _capacity_left(self, option: Option, device: Device) -> Mapping[str, int] | None:
        """Return the device's capacities that the option consumes, by published name; None if they do not suffice."""
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
        counter_values = left[name]
        for counter, amount in used.items():
            counter_values[counter] -= sign * amount


_DEVICES = ""
"""The key of the number of devices; not an attribute value."""


def _forget(counted_values: Sequence[tuple[dict[str, int], str]]) -> None:
    for values, value in counted_values:
        values[value] -= 1
        if not values[value]:
            del values[value]


def _values_of(device: Device, constraint: Constraint) -> Sequence[str]:
    """Return the distinct values of an attribute, prefixed with their type; a scalar has one.

    Empty if the device does not have the attribute.
    """
    attribute = device.attribute(constraint.attribute)
    if attribute is not None:
        for kind in ("string", "int", "bool", "version"):
            if attribute.get(kind) is not None:
                return (f"{kind}:{attribute[kind]}",)
            if (several := attribute.get(f"{kind}s")) is not None:
                return tuple(dict.fromkeys(f"{kind}:{value}" for value in several))
    return ()


def rounded(wanted: int | None, capacity: Capacity) -> int | None:
    """Return the amount of a capacity that a request consumes by its policy; None if the policy forbids it.

    Without a request it is the policy's default, else the whole capacity. Amounts are in units of 10^-9.
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
