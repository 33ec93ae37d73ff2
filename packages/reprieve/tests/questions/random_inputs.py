"""Random inputs for questions: small enough that the answer can be found by trying everything."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.errors import Origin
from kube_rules.manifests import LoadedObject, Manifests
from kube_rules.meta import OwnerReference
from tests.building import gang, group, node, pdb, pod, toleration

HOST, RACK, ZONE = "kubernetes.io/hostname", "rack", "topology.kubernetes.io/zone"
SYSTEM = 2_000_000_000


def manifests_of(items: Iterable[Any]) -> Manifests:
    """Objects as an input that was read, in their order."""
    found: dict[Any, list[Any]] = {}
    for order, item in enumerate(items):
        found.setdefault(type(item), []).append(LoadedObject(item, Origin("random"), order, float(order)))
    return Manifests(objects=found)


def apart(app: str, key: str = HOST) -> objects.Affinity:
    """Required anti-affinity to the pods with a label `app`."""
    selector = objects.LabelSelector(match_labels={"app": app})
    term = objects.PodAffinityTerm(topology_key=key, label_selector=selector)
    return objects.Affinity(
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )


def nodes_of(chance: random.Random, most: int = 5) -> list[objects.Node]:
    """Nodes in racks and zones; some are tainted or cordoned."""
    return [
        node(
            f"n{number}",
            cpu=chance.choice((4, 8, 16)),
            gpu=chance.choice((0, 2, 4)),
            pods=chance.choice((3, 6, 110)),
            labels={HOST: f"n{number}", RACK: f"r{number // 2}", ZONE: f"z{number % 2}"},
            taints=[("dedicated", "a", "NoSchedule")] if chance.random() < 0.15 else (),
            unschedulable=chance.random() < 0.1,
        )
        for number in range(chance.randint(2, most))
    ]


def running_on(chance: random.Random, nodes: list[objects.Node], fullness: float) -> list[Any]:
    """Pods, gangs and budgets that fit on the nodes."""
    free = {
        one.name: [int(one.status.allocatable["cpu"]), int(one.status.allocatable.get("nvidia.com/gpu", 0))]
        for one in nodes
    }
    slots = {one.name: int(one.status.allocatable["pods"]) for one in nodes}
    found: list[Any] = []
    budgets = {f"b{number}": chance.randint(0, 2) for number in range(chance.choice((0, 0, 1, 2)))}
    found += [pdb(name, {"budget": name}, allowed=allowed) for name, allowed in budgets.items()]
    for number in range(round(len(nodes) * 4 * fullness)):
        size = chance.choice((1, 1, 1, 2, 3))
        cpu, gpu = chance.randint(1, 4), chance.choice((0, 0, 1, 2))
        places: list[str] = []
        for name in chance.sample(sorted(free), len(free)):
            while len(places) < size and free[name][0] >= cpu and free[name][1] >= gpu and slots[name]:
                free[name][0] -= cpu
                free[name][1] -= gpu
                slots[name] -= 1
                places.append(name)
        priority = chance.choice((0, 0, 5, 10, 10, SYSTEM))
        labels = {"app": chance.choice("xyz")} | ({"budget": chance.choice(sorted(budgets))} if budgets else {})
        named = f"g{number}" if size > 1 and len(places) == size else None
        if named:
            minimum = chance.randint(1, size)
            found.append(group(named, min_count=minimum, priority=priority, whole=chance.random() < 0.5))
        found += [
            pod(
                f"u{number}-{turn}", cpu=cpu, gpu=gpu, node=at, priority=priority, labels=labels, group=named, start=1.0
            )
            for turn, at in enumerate(places)
        ]
    return found


def rules(chance: random.Random) -> dict[str, Any]:
    """What a pending pod may ask for beside amounts."""
    more: dict[str, Any] = {"labels": {"app": chance.choice("xyz")}}
    if chance.random() < 0.2:
        more["tolerations"] = [toleration("dedicated", "Exists")]
    if chance.random() < 0.15:
        more["selector"] = {ZONE: chance.choice(("z0", "z1"))}
    if chance.random() < 0.15:
        more["affinity"] = apart(chance.choice("xyz"), chance.choice((HOST, RACK)))
    if chance.random() < 0.15:
        more["ports"] = [8080]
    return more


def pending(chance: random.Random, name: str, *, most: int = 4) -> list[Any]:
    """One pod or one gang, of any priority."""
    priority = chance.choice((0, 0, 5, 10))
    cpu, gpu = chance.choice((1, 2, 4, 8, 20)), chance.choice((0, 0, 1, 2, 4))
    more = rules(chance)
    if chance.random() < 0.5:
        return [pod(name, cpu=cpu, gpu=gpu, priority=priority, never=chance.random() < 0.15, **more)]
    size = chance.randint(2, most)
    return gang(
        name,
        size,
        min_count=chance.randint(1, size),
        priority=priority,
        policy=chance.choice((None, None, None, "Never")),
        topology=chance.choice((None, None, RACK, ZONE)),
        cpu=cpu,
        gpu=gpu,
        **more,
    )


def random_input(seed: int, pending_workloads: int | None = None) -> Manifests:
    """A cluster with a few pending pods and gangs, or as many as given."""
    chance = random.Random(seed)
    nodes = nodes_of(chance)
    items: list[Any] = [*nodes, *running_on(chance, nodes, chance.choice((0.5, 1.0, 1.5)))]
    for number in range(pending_workloads or chance.randint(1, 3)):
        items += pending(chance, f"w{number}")
    return manifests_of(items)


def owned(item: objects.Pod, owner: str) -> objects.Pod:
    """The pod with a controller, which creates it again."""
    reference = OwnerReference(api_version="batch/v1", kind="Job", name=owner, uid=owner, controller=True)
    return replace(item, metadata=replace(item.metadata, owner_references=(reference,)))


def random_drain(seed: int, most: int = 6) -> tuple[Manifests, list[str]]:
    """A cluster of gangs and pods that come back, and the nodes to drain."""
    chance = random.Random(seed)
    count = chance.randint(4, most + 3)
    nodes = [node(f"n{number}", cpu=chance.choice((6, 8))) for number in range(count)]
    drained = [one.name for one in nodes[: chance.randint(3, min(most, count - 1))]]
    free = {one.name: int(one.status.allocatable["cpu"]) for one in nodes}
    items: list[Any] = [*nodes]
    if chance.random() < 0.3:
        items.append(pdb("b", {"app": "x"}, allowed=chance.randint(0, 2)))
    fullness = chance.choice((0.5, 0.7, 0.85))
    for number in range(40):
        if sum(free.values()) < (1 - fullness) * 7 * count:
            break
        size, cpu = chance.choice((1, 2, 3, 4)), chance.randint(1, 3)
        places: list[str] = []
        for name in chance.sample(sorted(free), count):
            while len(places) < size and free[name] >= cpu and chance.random() < 0.7:
                free[name] -= cpu
                places.append(name)
        if len(places) < size:
            for name in places:
                free[name] += cpu
            continue
        priority, name = chance.choice((0, 5, 10)), f"g{number}"
        if size > 1:
            least = chance.randint(max(1, size - 1), size)
            items.append(group(name, min_count=least, priority=priority, whole=chance.random() < 0.3))
        items += [
            owned(
                pod(
                    f"{name}-{turn}",
                    cpu=cpu,
                    node=at,
                    priority=priority,
                    labels={"app": chance.choice("xy")},
                    group=name if size > 1 else None,
                    start=1.0,
                ),
                name,
            )
            for turn, at in enumerate(places)
        ]
    return manifests_of(items), drained


def random_shape(seed: int) -> tuple[Manifests, Manifests]:
    """A cluster without rules but amounts, and a gang of one or two sorts of pods, with or without a topology."""
    chance = random.Random(seed)
    nodes = [
        node(f"n{number}", cpu=chance.randint(2, 9), gpu=chance.randint(0, 4), labels={RACK: f"r{number // 2}"})
        for number in range(chance.randint(2, 6))
    ]
    running = [
        pod(f"p{number}", cpu=chance.randint(1, 3), priority=chance.choice((0, 9)), node=f"n{number}")
        for number in range(len(nodes))
        if chance.random() < 0.7 and int(nodes[number].status.allocatable["cpu"]) > 2
    ]
    sorts = [(chance.randint(1, 3), chance.randint(1, 3), chance.choice((0, 0, 1, 2)))]
    if chance.random() < 0.6:
        sorts.append((chance.randint(1, 2), chance.randint(1, 4), chance.choice((0, 1))))
    size = sum(count for count, _, _ in sorts)
    members = [
        pod(f"new-{sort}-{turn}", cpu=cpu, gpu=gpu, group="new", priority=5)
        for sort, (count, cpu, gpu) in enumerate(sorts)
        for turn in range(count)
    ]
    made = group("new", min_count=size, priority=5, topology=chance.choice((None, None, RACK)))
    return manifests_of([*nodes, *running]), manifests_of([made, *members])
