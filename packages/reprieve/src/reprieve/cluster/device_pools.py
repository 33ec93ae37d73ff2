"""Devices as drivers publish them: parsed slices, and the pools that a node can reach.

Rules (k8s.io/dynamic-resource-allocation/structured, 1.36):
- A slice is for one node, for selected nodes, for all nodes, or each of its devices states its nodes.
- Only the newest generation of a pool counts. A pool with missing slices (`resourceSliceCount`) is *incomplete*. A
  pool with duplicate device names or nonexistent counters is *invalid*. Neither provides devices.
- Pools are tried in the order of driver and name, those with binding conditions last; slices by name; devices in
  their listed order.
- Slices with shared counters belong to the pool regardless of their node. Devices of the pool on other nodes also
  consume its counters.

Amounts are in units of 10^-9.  Invariant: these objects are immutable.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from kube_rules.devices import DeviceSelectorError, DeviceTaintRule, ResourceSlice, split_name
from kube_rules.meta import NodeSelector
from kube_rules.quantity import parse
from kube_rules.selectors import CompiledNodeSelector, compile_node_selector

DeviceId = tuple[str, str, str]
"""(driver, pool, device)."""
PoolId = tuple[str, str]
"""(driver, pool)."""


class EffectiveTaint(NamedTuple):
    """A taint of a device; effect NoSchedule, NoExecute or None."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class CapacityPolicy:
    """The requestPolicy of a capacity; None: not stated."""

    default: int | None = None
    values: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None
    step: int | None = None


class Capacity(NamedTuple):
    """A capacity of a device and how requests for it are rounded."""

    value: int
    policy: CapacityPolicy | None


class Reach(NamedTuple):
    """The nodes of a slice or device."""

    node: str
    everywhere: bool
    selector: CompiledNodeSelector | None
    stated: NodeSelector | None
    """The selector as written, for the allocation."""

    def includes(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node is included."""
        if self.node:
            return self.node == name
        return self.everywhere or (self.selector is not None and self.selector.matches(labels, name))

    @property
    def known(self) -> bool:
        """Return whether any nodes are stated."""
        return bool(self.node) or self.everywhere or self.selector is not None


@dataclass(eq=False, slots=True)
class Device:
    """One device. `capacity` by published name; `consumes`: counter set -> counter -> amount."""

    id: DeviceId
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Capacity]
    taints: tuple[EffectiveTaint, ...]
    consumes: Mapping[str, Mapping[str, int]]
    shared: bool
    """`allowMultipleAllocations`: claims share the device while its capacities suffice."""
    reach: Reach
    binds_to_node: bool
    binding_conditions: tuple[str, ...]
    failure_conditions: tuple[str, ...]
    value: Any = None
    """The CEL value of the device, created on first use."""
    answers: dict[str, bool | str] = field(default_factory=dict)
    """Evaluated selectors -> result, or the error of the evaluation."""

    def attribute(self, name: str) -> Mapping[str, Any] | None:
        """Return an attribute by its fully qualified name; the default domain is the driver."""
        result = self.attributes.get(name)
        if result is None:
            domain, identifier = split_name(name, "")
            if domain == self.id[0]:
                result = self.attributes.get(identifier)
        return result

    def capacity_name(self, wanted: str) -> str | None:
        """Return the published name of a requested capacity, with or without the driver as its domain."""
        if wanted in self.capacity:
            return wanted
        driver = self.id[0]
        alternative = wanted.removeprefix(f"{driver}/") if "/" in wanted else f"{driver}/{wanted}"
        return alternative if alternative in self.capacity else None


@dataclass(eq=False, slots=True)
class Slice:
    """One parsed slice. `counters`: counter set -> counter -> amount."""

    name: str
    pool: PoolId
    generation: int
    count: int
    """The number of slices in the pool."""
    reach: Reach
    per_device: bool
    devices: tuple[Device, ...]
    counters: tuple[tuple[str, Mapping[str, int]], ...]

    def relevant(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the slice matters on a node."""
        if self.counters:
            return True
        if self.reach.known:
            return self.reach.includes(name, labels)
        return self.per_device and any(device.reach.includes(name, labels) for device in self.devices)


@dataclass(eq=False, slots=True)
class Pool:
    """A pool as one node sees it. `elsewhere`: slices of the pool that this node cannot reach."""

    id: PoolId
    slices: tuple[Slice, ...] = ()
    elsewhere: tuple[Slice, ...] = ()
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    incomplete: bool = False
    invalid: str = ""

    @property
    def usable(self) -> bool:
        """Return whether devices of the pool may be allocated."""
        return not self.incomplete and not self.invalid

    @property
    def waits_for_devices(self) -> bool:
        """Return whether some device has binding conditions; such pools come last."""
        return any(device.binding_conditions for device_slice in self.slices for device in device_slice.devices)


def read_slice(item: ResourceSlice, rules: Iterable[DeviceTaintRule] = ()) -> Slice:
    """Parse a slice; rules add taints to the devices they select (devices.md 3.1).

    Raises QuantityError or SelectorError for an invalid value.
    """
    spec = item.spec
    pool = (spec.driver, spec.pool.name)
    rules = [rule for rule in rules if rule.spec.selects(*pool)]
    return Slice(
        name=item.metadata.name,
        pool=pool,
        generation=spec.pool.generation,
        count=spec.pool.resource_slice_count,
        reach=_reach(spec.node_name or "", spec.all_nodes, spec.node_selector),
        per_device=spec.per_device_node_selection,
        devices=tuple(_device(pool, device, rules) for device in spec.devices),
        counters=tuple((str(c.get("name", "")), _amounts(c.get("counters"))) for c in spec.shared_counters),
    )


def taint_of(rule: DeviceTaintRule) -> EffectiveTaint:
    """Return the taint that a rule adds to devices."""
    return EffectiveTaint(rule.spec.taint.key, rule.spec.taint.value, rule.spec.taint.effect)


def stated_taints(device: Mapping[str, Any]) -> tuple[EffectiveTaint, ...]:
    """Return the taints that the driver set on a device."""
    return tuple(
        EffectiveTaint(str(t.get("key", "")), str(t.get("value", "")), str(t.get("effect", "")))
        for t in device.get("taints") or ()
    )


def _device(pool: PoolId, device: Mapping[str, Any], rules: Sequence[DeviceTaintRule]) -> Device:
    selector, name = device.get("nodeSelector"), str(device.get("name", ""))
    return Device(
        id=(*pool, name),
        attributes=device.get("attributes") or {},
        capacity={name: _capacity(capacity) for name, capacity in (device.get("capacity") or {}).items()},
        taints=stated_taints(device) + tuple(taint_of(rule) for rule in rules if rule.spec.selects(*pool, name)),
        consumes={
            str(c.get("counterSet", "")): _amounts(c.get("counters")) for c in device.get("consumesCounters") or ()
        },
        shared=bool(device.get("allowMultipleAllocations")),
        reach=_reach(
            str(device.get("nodeName") or ""),
            bool(device.get("allNodes")),
            msgspec.convert(selector, NodeSelector) if selector is not None else None,
        ),
        binds_to_node=bool(device.get("bindsToNode")),
        binding_conditions=tuple(device.get("bindingConditions") or ()),
        failure_conditions=tuple(device.get("bindingFailureConditions") or ()),
    )


def _reach(node: str, everywhere: bool, selector: NodeSelector | None) -> Reach:
    return Reach(node, everywhere, compile_node_selector(selector) if selector is not None else None, selector)


def _amounts(counters: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: parse(counter.get("value", 0)).nano for name, counter in (counters or {}).items()}


def _capacity(capacity: Mapping[str, Any]) -> Capacity:
    policy = capacity.get("requestPolicy")
    read = None
    if policy is not None:
        span = policy.get("validRange") or {}
        read = CapacityPolicy(
            default=_maybe(policy.get("default")),
            values=tuple(parse(text).nano for text in policy.get("validValues") or ()),
            least=_maybe(span.get("min")),
            most=_maybe(span.get("max")),
            step=_maybe(span.get("step")),
        )
    return Capacity(parse(capacity.get("value", 0)).nano, read)


def _maybe(text: Any) -> int | None:
    return None if text is None else parse(text).nano


# -- pools of a node --------------------------------------------------------------------------------------------------


class SliceIndex:
    """An index of all slices; the pools of a node are computed on request."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        self._of_node: dict[str, list[Slice]] = {}
        self._of_pool: dict[PoolId, list[Slice]] = {}
        self._anywhere: list[Slice] = []
        self._counting: dict[PoolId, list[Slice]] = {}
        """Slices of one node with the counters of their pool; they matter on every node of the pool's devices."""
        for device_slice in slices:
            self._of_pool.setdefault(device_slice.pool, []).append(device_slice)
            if device_slice.counters and device_slice.reach.node:
                self._counting.setdefault(device_slice.pool, []).append(device_slice)
            if device_slice.reach.node:
                self._of_node.setdefault(device_slice.reach.node, []).append(device_slice)
            else:
                self._anywhere.append(device_slice)
        self._home: dict[PoolId, str | None] = {}
        for pool, pool_slices in self._of_pool.items():
            names = {item.reach.node for item in pool_slices}
            self._home[pool] = names.pop() if len(names) == 1 and "" not in names else None

    @property
    def local(self) -> bool:
        """Return whether every device belongs to one node."""
        return not any(item.devices for item in self._anywhere)

    def home(self, pool: PoolId) -> str | None:
        """Return the only node that can reach a pool; None if there may be several."""
        return self._home.get(pool)

    def pools(self, name: str, labels: Mapping[str, str]) -> tuple[Pool, ...]:
        """Return the pools of one node in the order they are tried."""
        newest: dict[PoolId, list[Slice]] = {}
        relevant = [item for item in (*self._of_node.get(name, ()), *self._anywhere) if item.relevant(name, labels)]
        pools = dict.fromkeys(item.pool for item in relevant) if self._counting else ()
        relevant += [item for pool in pools for item in self._counting.get(pool, ()) if item.reach.node != name]
        for item in relevant:
            newest_slices = newest.get(item.pool)
            if newest_slices is None or item.generation > newest_slices[0].generation:
                newest[item.pool] = [item]
            elif item.generation == newest_slices[0].generation:
                newest_slices.append(item)
        result = [pool for key, newest_slices in newest.items() if (pool := self._pool(key, newest_slices)) is not None]
        return tuple(sorted(result, key=lambda pool: (pool.waits_for_devices, pool.id)))

    def _pool(self, key: PoolId, reachable: list[Slice]) -> Pool | None:
        everything = reachable
        if len(reachable) != reachable[0].count:
            generation = reachable[0].generation
            if any(device_slice.generation > generation for device_slice in self._of_pool[key]):
                return None  # the driver is replacing the pool, and no new slice is for this node
            everything = [device_slice for device_slice in self._of_pool[key] if device_slice.generation == generation]
            if len(everything) != reachable[0].count:
                return Pool(key, incomplete=True)
        ordered = sorted(reachable, key=lambda device_slice: device_slice.name)
        slices = tuple(device_slice for device_slice in ordered if not device_slice.counters)
        elsewhere = tuple(device_slice for device_slice in everything if device_slice not in reachable)
        try:
            _refuse_twins(slices)
            counters = _counter_sets(ordered)
            _refuse_unknown_counters(counters, (*slices, *elsewhere))
        except ValueError as error:
            return Pool(key, invalid=str(error))
        return Pool(key, slices, elsewhere, counters)


def _refuse_twins(slices: Sequence[Slice]) -> None:
    names: set[str] = set()
    for device_slice in slices:
        for device in device_slice.devices:
            if device.id[2] in names:
                raise ValueError(f"duplicate device name {device.id[2]}")
            names.add(device.id[2])


def _counter_sets(slices: Sequence[Slice]) -> dict[str, Mapping[str, int]]:
    result: dict[str, Mapping[str, int]] = {}
    for device_slice in slices:
        for name, amounts in device_slice.counters:
            if name in result:
                raise ValueError(f"duplicate counter set name {name}")
            result[name] = amounts
    return result


def _refuse_unknown_counters(counters: Mapping[str, Mapping[str, int]], slices: Sequence[Slice]) -> None:
    for device_slice in slices:
        for device in device_slice.devices:
            for name, amounts in device.consumes.items():
                if name not in counters:
                    raise ValueError(f"counter set {name} not found")
                for counter in amounts:
                    if counter not in counters[name]:
                        raise ValueError(f"counter {counter} not found in counter set {name}")


# -- selectors --------------------------------------------------------------------------------------------------------

_KEPT = 65536
_KEPT_OF_DEVICE = 64


class DeviceMatcher:
    """Cached results of selectors, by the values that an expression reads, so that similar devices share them."""

    def __init__(self) -> None:
        self._answers: dict[tuple[object, ...], bool | str] = {}

    def matches(self, device: Device, expression: str) -> bool:
        """Return whether the device matches the expression. Raises DeviceSelectorError, also from the cache."""
        result = device.answers.get(expression)
        if result is None:
            from reprieve.cluster.device_selectors import compiled  # rarely needed, and importing CEL takes 15 ms

            selector = compiled(expression)
            key = (expression, *_values_read(device, selector.reads))
            result = self._answers.get(key)
            if result is None:
                if len(self._answers) >= _KEPT:
                    self._answers.clear()
                result = self._answers[key] = _answer(device, selector.matches)
            if len(device.answers) < _KEPT_OF_DEVICE:
                device.answers[expression] = result
        if isinstance(result, str):
            raise DeviceSelectorError(result)
        return result


def _answer(device: Device, ask: Callable[[Any], bool]) -> bool | str:
    from reprieve.cluster.device_selectors import device_value

    try:
        if device.value is None:
            amounts = {name: capacity.value for name, capacity in device.capacity.items()}
            device.value = device_value(device.id[0], device.shared, device.attributes, amounts)
        return ask(device.value)
    except DeviceSelectorError as fault:
        return str(fault)


def _comparable(value: Any) -> Any:
    """Return an attribute value in a hashable form."""
    return tuple(map(str, value)) if isinstance(value, list) else str(value) if isinstance(value, dict) else value


def _values_read(device: Device, reads: frozenset[str] | None) -> tuple[object, ...]:
    driver = device.id[0]
    domains = (
        frozenset(split_name(name, driver)[0] for name in device.attributes),
        frozenset(split_name(name, driver)[0] for name in device.capacity),
    )
    attributes = tuple(
        (name, tuple(sorted((kind, _comparable(value)) for kind, value in attribute.items())))
        for name, attribute in device.attributes.items()
        if reads is None or split_name(name, driver)[1] in reads
    )
    amounts = tuple(
        (name, capacity.value)
        for name, capacity in device.capacity.items()
        if reads is None or split_name(name, driver)[1] in reads
    )
    return driver, device.shared, domains, attributes, amounts
