"""Random clusters in which a gang has a rule beside amounts: what victims are measured on where rules interact.

The clusters are those of `instances.py`, smaller; each family adds one rule to the gang, to the objects and to the
plain numbers of the exact solver.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from kube_rules import objects
from tests.building import GPU, Item, annotated, composite, group, pod, priority_class
from tests.plugins import devices as dra
from tests.plugins import storage
from tests.preemption.exact import Kind, Problem, Row
from tests.preemption.instances import PREEMPTOR, Instance, instance

HOST, RACK, BLOCK, ZONE = "kubernetes.io/hostname", "rack", "block", "topology.kubernetes.io/zone"
NODES = (4, 10)
"""How many nodes a cluster has, at least and at most, unless a measurement says otherwise."""
Size = tuple[int, int]


@dataclass(frozen=True)
class Ruled:
    """One cluster: its objects, and the same for the solver."""

    items: Sequence[Item]
    problem: Problem
    keeps_budgets: bool = False
    """No budget may be broken: clusters in which one must be have no answer."""


class Family(Protocol):
    """The cluster of a seed."""

    def __call__(self, seed: int, *, nodes: Size = ...) -> Ruled:
        """`nodes`: how many it has, at least and at most."""


def _domain(key: str, number: int) -> str:
    return {HOST: f"n{number:02}", RACK: f"r{number // 2}", BLOCK: f"b{number // 4}", ZONE: f"z{number % 3}"}[key]


def _built(
    made: Instance, members: dict[str, Any], running: Callable[[str, int], dict[str, Any]], rows: Sequence[Row]
) -> Ruled:
    """`members`: fields of the gang's pods; `running`: (unit, node) -> fields of its pods there."""
    at = {f"n{number:02}": number for number in range(len(made.machines))}
    items: list[Item] = []
    for item in made.items():
        if isinstance(item, objects.Node):
            labels = {key: _domain(key, at[item.metadata.name]) for key in (HOST, RACK, BLOCK, ZONE)}
            item = replace(item, metadata=replace(item.metadata, labels=labels))
        elif isinstance(item, objects.Pod) and item.metadata.name.startswith("crew-"):
            item = _with(item, members)
        elif isinstance(item, objects.Pod):
            item = _with(item, running(item.metadata.name.partition("-")[0], at[item.spec.node_name]))
        items.append(item)
    return Ruled(items, with_fields(made.problem(), rows=tuple(rows)))


def _with(item: objects.Pod, fields: dict[str, Any]) -> objects.Pod:
    labels = {**item.metadata.labels, **fields.get("labels", {})}
    spec = item.spec
    if "ports" in fields:
        ports = tuple(objects.ContainerPort(container_port=port, host_port=port) for port in fields["ports"])
        spec = replace(spec, containers=(replace(spec.containers[0], ports=ports),))
    rest = {name: value for name, value in fields.items() if name not in ("labels", "ports")}
    return replace(item, metadata=replace(item.metadata, labels=labels), spec=replace(spec, **rest))


def _nothing(_unit: str, _node: int) -> dict[str, Any]:
    return {}


def _apart_term(key: str, label: dict[str, str]) -> objects.PodAffinityTerm:
    return objects.PodAffinityTerm(topology_key=key, label_selector=objects.LabelSelector(match_labels=label))


def _apart(key: str, label: dict[str, str]) -> dict[str, Any]:
    term = _apart_term(key, label)
    anti = objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    return {"affinity": objects.Affinity(pod_anti_affinity=anti)}


def _spread_rule(made: Instance) -> tuple[dict[str, Any], list[Row]]:
    """Fields of members that are spread over zones with a skew of one, and the same as rows."""
    numbers = range(len(made.machines))
    on: dict[str, list[int]] = {}
    for number in numbers:
        on.setdefault(_domain(ZONE, number), []).append(number)
    rows: list[Row] = []
    for one in on:
        for other in on:
            if one != other:
                parts = [(1.0, ("on", number)) for number in on[one]] + [(-1.0, ("on", number)) for number in on[other]]
                rows.append((tuple(parts), -math.inf, 1.0))
    constraint = objects.TopologySpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        when_unsatisfiable="DoNotSchedule",
        label_selector=objects.LabelSelector(match_labels={"app": "crew"}),
    )
    return {"labels": {"app": "crew"}, "topology_spread_constraints": (constraint,)}, rows


def spread(seed: int, *, nodes: Size = NODES) -> Ruled:
    """Members are spread over zones, with a skew of one."""
    made = instance(seed, nodes=nodes)
    fields, rows = _spread_rule(made)
    return _built(made, fields, _nothing, rows)


def _noisy_rule(made: Instance, chance: random.Random, key: str) -> tuple[set[str], list[Row]]:
    """Units that members keep apart from, and the same as rows."""
    noisy = {unit.name for unit in made.units if chance.random() < 0.3}
    rows: list[Row] = []
    for unit in made.units:
        if unit.name in noisy:
            for domain in {_domain(key, at) for at, _ in unit.pods}:
                inside = [number for number in range(len(made.machines)) if _domain(key, number) == domain]
                parts = [(1.0, ("on", number)) for number in inside] + [(-16.0, ("unit", f"default/{unit.name}"))]
                rows.append((tuple(parts), -math.inf, 0.0))
    return noisy, rows


def _others(key: str, *, spread_too: bool = False, claiming: bool = False) -> Family:
    """Members keep apart from some running pods; with `spread_too` in zones, with `claiming` with GPUs as devices."""

    def made_of(seed: int, *, nodes: Size = NODES) -> Ruled:
        made = instance(seed, nodes=nodes)
        noisy, rows = _noisy_rule(made, random.Random(seed + 1), key)
        fields = _apart(key, {"role": "noisy"})
        if spread_too:
            more, more_rows = _spread_rule(made)
            fields, rows = {**fields, **more}, [*rows, *more_rows]

        def running(unit: str, _node: int) -> dict[str, Any]:
            return {"labels": {"role": "noisy"}} if unit in noisy else {}

        built = _built(made, fields, running, rows)
        return with_fields(built, items=_claiming(built.items)) if claiming else built

    return made_of


def itself(seed: int, *, nodes: Size = NODES) -> Ruled:
    """No two members are on one node."""
    made = instance(seed, nodes=nodes)
    made.members = made.members[: max(1, len(made.machines) * 2 // 3)]
    rows = [(((1.0, ("on", number)),), 0.0, 1.0) for number in range(len(made.machines))]
    return _built(made, {"labels": {"app": "crew"}, **_apart(HOST, {"app": "crew"})}, _nothing, rows)


def _ports_rule(made: Instance, chance: random.Random) -> tuple[dict[int, str], list[Row]]:
    """By node: the unit with a pod there that uses the members' host port; and the same as rows."""
    user: dict[int, str] = {}
    for unit in made.units:
        places = [at for at, _ in unit.pods]
        if chance.random() < 0.3 and len(set(places)) == len(places) and not any(at in user for at in places):
            user |= dict.fromkeys(places, unit.name)
    rows: list[Row] = [(((1.0, ("on", number)),), 0.0, 1.0) for number in range(len(made.machines))]
    rows += [(((1.0, ("on", at)), (-1.0, ("unit", f"default/{name}"))), -math.inf, 0.0) for at, name in user.items()]
    return user, rows


def ports(seed: int, *, nodes: Size = NODES) -> Ruled:
    """Members and some running pods use one host port."""
    made, chance = instance(seed, nodes=nodes), random.Random(seed + 1)
    made.members = made.members[: max(1, len(made.machines) * 2 // 3)]
    user, rows = _ports_rule(made, chance)

    def running(unit: str, at: int) -> dict[str, Any]:
        return {"ports": [8080]} if user.get(at) == unit else {}

    return _built(made, {"ports": [8080]}, running, rows)


def tree(seed: int, *, apart: bool = False, nodes: Size = (6, 12)) -> Ruled:
    """Two or three gangs, each within a rack, all within one block; `apart`: members keep apart from some pods, too."""
    made, chance = instance(seed, nodes=nodes), random.Random(seed + 1)
    noisy, noisy_rows = _noisy_rule(made, random.Random(seed + 2), HOST) if apart else (set[str](), [])
    fields = _apart(HOST, {"role": "noisy"}) if apart else {}

    def running(unit: str, _node: int) -> dict[str, Any]:
        return {"labels": {"role": "noisy"}} if unit in noisy else {}

    worker, children = made.members[-1], chance.randint(2, 3)
    size = max(1, min(3, len(made.members) // children))
    made.members = [worker]
    items = [item for item in _built(made, {}, running, ()).items if not _of_crew(item)]
    items.append(composite("crew", min_groups=children, priority=PREEMPTOR, topology=BLOCK))
    for child in range(children):
        items.append(group(f"crew-{child}", min_count=size, priority=PREEMPTOR, topology=RACK, parent="crew"))
        items += [
            _with(
                pod(
                    f"crew-{child}-{turn}",
                    cpu=worker[0] or None,
                    gpu=worker[1],
                    group=f"crew-{child}",
                    priority=PREEMPTOR,
                ),
                fields,
            )
            for turn in range(size)
        ]
    count = len(made.machines)
    racks = {_domain(RACK, number): _domain(BLOCK, number) for number in range(count)}
    rows: list[Row] = [
        *noisy_rows,
        (tuple((1.0, ("choice", block)) for block in sorted(set(racks.values()))), 1.0, 1.0),
    ]
    for child in range(children):
        rows.append((tuple((1.0, ("choice", (child, rack))) for rack in racks), 1.0, 1.0))
        rows += [
            (((1.0, ("choice", (child, rack))), (-1.0, ("choice", block))), -math.inf, 0.0)
            for rack, block in racks.items()
        ]
        rows += [
            (((1.0, ("of", number, child)), (-float(size), ("choice", (child, _domain(RACK, number))))), -math.inf, 0.0)
            for number in range(count)
        ]
    everywhere = frozenset(range(count))
    kinds = tuple(Kind(worker, size, everywhere) for _ in range(children))
    return Ruled(items, with_fields(made.problem(), kinds=kinds, rows=tuple(rows)))


def deep_tree(seed: int, *, nodes: Size = (8, 12)) -> Ruled:
    """Two groups, each within a block, of one or two gangs of unlike size, each within a rack."""
    made, chance = instance(seed, nodes=nodes), random.Random(seed + 1)
    worker = made.members[-1]
    sizes = [[chance.randint(1, 3) for _ in range(chance.randint(1, 2))] for _ in range(2)]
    made.members = [worker]
    items = [item for item in _built(made, {}, _nothing, ()).items if not _of_crew(item)]
    items.append(composite("crew", min_groups=2, priority=PREEMPTOR))
    count = len(made.machines)
    racks = {_domain(RACK, number): _domain(BLOCK, number) for number in range(count)}
    rows: list[Row] = []
    kinds: list[Kind] = []
    for half, gangs in enumerate(sizes):
        items.append(
            composite(f"crew-{half}", min_groups=len(gangs), priority=PREEMPTOR, topology=BLOCK, parent="crew")
        )
        rows.append((tuple((1.0, ("choice", (half, block))) for block in sorted(set(racks.values()))), 1.0, 1.0))
        for size in gangs:
            kind, name = len(kinds), f"crew-{half}-{len(kinds)}"
            kinds.append(Kind(worker, size, frozenset(range(count))))
            items.append(group(name, min_count=size, priority=PREEMPTOR, topology=RACK, parent=f"crew-{half}"))
            items += [
                pod(f"{name}-{turn}", cpu=worker[0] or None, gpu=worker[1], group=name, priority=PREEMPTOR)
                for turn in range(size)
            ]
            rows.append((tuple((1.0, ("choice", (half, kind, rack))) for rack in racks), 1.0, 1.0))
            for rack, block in racks.items():
                inside = (1.0, ("choice", (half, kind, rack)))
                rows.append(((inside, (-1.0, ("choice", (half, block)))), -math.inf, 0.0))
                for number in range(count):
                    if _domain(RACK, number) == rack:
                        there = (1.0, ("of", number, kind))
                        rows.append(((there, (-float(size), ("choice", (half, kind, rack)))), -math.inf, 0.0))
    return Ruled(items, with_fields(made.problem(), kinds=tuple(kinds), rows=tuple(rows)))


def devices(seed: int, *, nodes: Size = NODES) -> Ruled:
    """GPUs are devices that members and running pods claim."""
    made = instance(seed, nodes=nodes)
    return Ruled(_claiming(made.items()), made.problem())


def _claiming(before: Sequence[Item]) -> list[Item]:
    """The objects with devices and claims in place of GPUs."""
    taken: dict[str, int] = {}
    items: list[Item] = [dra.device_class()]
    for item in before:
        if isinstance(item, objects.Node):
            name = item.metadata.name
            amount = int(item.status.allocatable.get(GPU, 0))
            items.append(dra.slice_of(name, dra.devices(amount)))
            left = {key: value for key, value in item.status.allocatable.items() if key != GPU}
            item = replace(item, status=replace(item.status, allocatable=left, capacity=left))
        elif isinstance(item, objects.Pod):
            container = item.spec.containers[0]
            amount = int(container.resources.requests.get(GPU, 0))
            if amount:
                at, name = item.spec.node_name, item.metadata.name
                status = None
                if at:
                    first = taken.get(at, 0)
                    taken[at] = first + amount
                    got = [(dra.DRIVER, at, f"gpu-{number}") for number in range(first, first + amount)]
                    status = dra.allocated(*got, to=[item.metadata.uid])
                items.append(dra.claim(name, dra.request("r", "gpu", count=amount), status=status))
                left = {key: value for key, value in container.resources.requests.items() if key != GPU}
                container = replace(container, resources=objects.ResourceRequirements(requests=left))
                uses = (objects.PodResourceClaim(name="c", resource_claim_name=name),)
                item = replace(item, spec=replace(item.spec, containers=(container,), resource_claims=uses))
        items.append(item)
    return items


def volumes(seed: int, *, key: str = "", nodes: Size = NODES) -> Ruled:
    """Every member has a volume that is bound already, in reach of one zone; with a `key`, members keep apart, too."""
    made, chance = instance(seed, nodes=nodes), random.Random(seed + 1)
    noisy, rows = _noisy_rule(made, chance, key) if key else (set[str](), [])

    def running(unit: str, _node: int) -> dict[str, Any]:
        return {"labels": {"role": "noisy"}} if unit in noisy else {}

    fields = _apart(key, {"role": "noisy"}) if key else {}
    return _mounting(_built(made, fields, running, rows), made, chance)


def _mounting(before: Ruled, made: Instance, chance: random.Random, *, in_turn: bool = False) -> Ruled:
    """The cluster with a bound volume for each member, in reach of one zone: a random one, or each `in_turn`."""
    zones = sorted({_domain(ZONE, number) for number in range(len(made.machines))})
    zone_of = [zones[turn % len(zones)] if in_turn else chance.choice(zones) for turn in range(len(made.members))]
    items: list[Item] = [storage.storage_class()]
    for item in before.items:
        if isinstance(item, objects.Pod) and _of_crew(item):
            name = item.metadata.name
            zone = zone_of[int(name.removeprefix("crew-"))]
            items.append(storage.volume(name, zone=zone, held=name, phase="Bound"))
            items.append(storage.claim(name, volume=name, bound=True))
            source = objects.PersistentVolumeClaimVolumeSource(claim_name=name)
            mounted = (objects.Volume(name="v", persistent_volume_claim=source),)
            item = replace(item, spec=replace(item.spec, volumes=mounted))
        items.append(item)
    wanted = Counter(zip(made.members, zone_of, strict=True))
    kinds = tuple(
        Kind(amounts, count, frozenset(n for n in range(len(made.machines)) if _domain(ZONE, n) == zone))
        for (amounts, zone), count in wanted.items()
    )
    return with_fields(before, items=items, problem=with_fields(before.problem, kinds=kinds))


def mixed(seed: int, *, rules: frozenset[str], nodes: Size = NODES) -> Ruled:
    """Several rules at once: `spread`, `host` and `rack` (apart from some pods), `itself`, `ports`, `devices`,
    `volumes`.
    """
    made, chance = instance(seed, nodes=nodes), random.Random(seed + 1)
    if rules & {"itself", "ports"}:
        made.members = made.members[: max(1, len(made.machines) * 2 // 3)]
    fields: dict[str, Any] = {"labels": {"app": "crew"}}
    rows: list[Row] = []
    terms: list[objects.PodAffinityTerm] = []
    noisy: dict[str, set[str]] = {}
    user: dict[int, str] = {}
    for key in [key for key in (HOST, RACK) if {HOST: "host", RACK: "rack"}[key] in rules]:
        noisy[key], more = _noisy_rule(made, chance, key)
        rows += more
        terms.append(_apart_term(key, {_role(key): "noisy"}))
    if "itself" in rules:
        rows += [(((1.0, ("on", number)),), 0.0, 1.0) for number in range(len(made.machines))]
        terms.append(_apart_term(HOST, {"app": "crew"}))
    if "ports" in rules:
        user, more = _ports_rule(made, chance)
        rows += more
        fields["ports"] = [8080]
    if "spread" in rules:
        spread_fields, more = _spread_rule(made)
        rows += more
        fields |= spread_fields
    if terms:
        anti = objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=tuple(terms))
        fields["affinity"] = objects.Affinity(pod_anti_affinity=anti)

    def running(unit: str, at: int) -> dict[str, Any]:
        found: dict[str, Any] = {"labels": {_role(key): "noisy" for key, units in noisy.items() if unit in units}}
        return {**found, "ports": [8080]} if user.get(at) == unit else found

    built = _built(made, fields, running, rows)
    if "devices" in rules:
        built = with_fields(built, items=_claiming(built.items))
    return _mounting(built, made, chance, in_turn="spread" in rules) if "volumes" in rules else built


def _role(key: str) -> str:
    return "role-" + key.rpartition("/")[2]


def respectful(seed: int, *, nodes: Size = NODES) -> Ruled:
    """A pod in no group, of a class that respects budgets; clusters where it has to break one are left out."""
    made = instance(seed, nodes=nodes)
    made.members = made.members[-1:]
    items: list[Item] = [priority_class("respectful", PREEMPTOR, annotated(pdb_policy="Respect"))]
    for item in made.items():
        if isinstance(item, objects.PodGroup) and _of_crew(item):
            continue
        if isinstance(item, objects.Pod) and _of_crew(item):
            item = replace(item, spec=replace(item.spec, scheduling_group=None, priority_class_name="respectful"))
        items.append(item)
    return Ruled(items, made.problem(), keeps_budgets=True)


def _of_crew(item: Any) -> bool:
    return bool(item.metadata.name.startswith("crew"))


FAMILIES: dict[str, Family] = {
    "gang with topology spread": spread,
    "anti-affinity to others, host": _others(HOST),
    "anti-affinity to others, rack": _others(RACK),
    "anti-affinity to itself": itself,
    "host ports": ports,
    "DRA gang": devices,
    "bound volumes": volumes,
    "lone pod, budgets under Respect": respectful,
    "tree, racks inside one block": tree,
    "tree, racks inside blocks": deep_tree,
    "tree, apart from others": partial(tree, apart=True),
    "spread, apart from others, host": _others(HOST, spread_too=True),
    "spread, apart from others, rack": _others(RACK, spread_too=True),
    "DRA gang, apart from others, rack": _others(RACK, claiming=True),
    "bound volumes, apart from others": partial(volumes, key=RACK),
}
MIXED: dict[str, Family] = {
    names: partial(mixed, rules=frozenset(names.split(", ")))
    for names in (
        "spread, ports",
        "spread, itself",
        "spread, host, rack",
        "spread, devices",
        "spread, volumes",
        "ports, rack",
        "ports, devices",
        "itself, rack",
        "itself, volumes",
        "host, rack",
        "volumes, ports",
        "volumes, devices",
    )
}
"""Several rules at once, by their names (`mixed`)."""
FAMILIES |= MIXED
