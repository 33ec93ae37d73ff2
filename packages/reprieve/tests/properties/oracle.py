"""A second opinion: preemption.md 3-6 once more, slowly, over plain dicts.

It shares nothing with the code under test but the record of where every pod is: amounts, taints, selectors, ports,
priorities, budgets are read from the objects a test built.  Resources, taints, cordons, node selectors and host ports
are all it knows, which is what `tests.building` makes random clusters of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kube_rules import objects
from tests.building import World
from tests.random_clusters import RandomCluster

Amounts = dict[str, int]
_NO_START = float("inf")


def amount(value: object) -> int:
    """Whole cores, whole GiB or a count."""
    text = str(value)
    return int(text[:-2]) if text.endswith("Gi") else int(text)


@dataclass(frozen=True)
class PlainNode:
    """A node as a reader of its manifest sees it."""

    name: str
    has: Amounts
    labels: dict[str, str]
    taints: tuple[tuple[str, str, str], ...]
    cordoned: bool


@dataclass(frozen=True)
class PlainPod:
    """A pod as a reader of its manifest sees it."""

    uid: str
    name: str
    namespace: str
    needs: Amounts
    ports: tuple[tuple[str, str, int], ...]
    selector: dict[str, str]
    tolerations: tuple[objects.Toleration, ...]
    labels: dict[str, str]
    priority: int
    group: str | None
    start: float
    terminating: bool = False


@dataclass(frozen=True)
class PlainUnit:
    """What is evicted as one."""

    name: str
    pods: tuple[PlainPod, ...]
    priority: int
    grouped: bool

    @property
    def rank(self) -> tuple[object, ...]:
        """preemption.md 5, most important first."""
        return (*self.standing, min(p.start for p in self.pods), min(p.uid for p in self.pods))

    @property
    def standing(self) -> tuple[int, int, int]:
        """The same without the start."""
        return (-self.priority, 0 if self.grouped else 1, -len(self.pods))


def plain_node(item: objects.Node) -> PlainNode:
    """Read a node."""
    return PlainNode(
        item.metadata.name,
        {key: amount(value) for key, value in item.status.allocatable.items()},
        dict(item.metadata.labels),
        tuple((t.key, t.value, t.effect) for t in item.spec.taints),
        item.spec.unschedulable,
    )


def plain_pod(item: objects.Pod, start: float | None, *, terminating: bool = False) -> PlainPod:
    """Read a pod."""
    needs = {"pods": 1}
    ports = []
    for container in item.spec.containers:
        for key, value in container.resources.requests.items():
            needs[key] = needs.get(key, 0) + amount(value)
        ports += [(p.protocol, p.host_ip or "0.0.0.0", p.host_port) for p in container.ports if p.host_port]
    named = item.spec.scheduling_group.pod_group_name if item.spec.scheduling_group is not None else None
    return PlainPod(
        uid=item.metadata.uid,
        name=item.metadata.name,
        namespace=item.metadata.namespace,
        needs={key: value for key, value in needs.items() if value},
        ports=tuple(ports),
        selector=dict(item.spec.node_selector),
        tolerations=item.spec.tolerations,
        labels=dict(item.metadata.labels),
        priority=item.spec.priority or 0,
        group=f"{item.metadata.namespace}/{named}" if named else None,
        start=_NO_START if start is None else start,
        terminating=terminating,
    )


def _covers(toleration: objects.Toleration, taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    same_effect = toleration.effect in ("", effect)
    if toleration.operator == "Exists":
        return same_effect and toleration.key in ("", key)
    return same_effect and toleration.key == key and toleration.value == value


def allowed(pod: PlainPod, node: PlainNode) -> bool:
    """What no eviction can change: cordon, taints, node selector."""
    taints = [t for t in node.taints if t[2] in ("NoSchedule", "NoExecute")]
    if node.cordoned:
        taints.append(("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    if any(not any(_covers(t, taint) for t in pod.tolerations) for taint in taints):
        return False
    return all(node.labels.get(key) == value for key, value in pod.selector.items())


def clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    """Two host ports that exclude each other."""
    same = one[0] == other[0] and one[2] == other[2]
    return same and (one[1] == other[1] or "0.0.0.0" in (one[1], other[1]))


def has_amounts(pod: PlainPod, node: PlainNode, present: Iterable[PlainPod]) -> bool:
    """Whether amounts suffice beside those present."""
    others = list(present)
    for key, wanted in pod.needs.items():
        if sum(p.needs.get(key, 0) for p in others) + wanted > node.has.get(key, 0):
            return False
    return True


def has_room(pod: PlainPod, node: PlainNode, present: Iterable[PlainPod]) -> bool:
    """Whether amounts and ports suffice beside those present."""
    others = list(present)
    return has_amounts(pod, node, others) and not any(
        clash(mine, theirs) for mine in pod.ports for p in others for theirs in p.ports
    )


class Picture:
    """Everything at one moment: what the objects say and where the engine has the pods."""

    def __init__(self, cluster: RandomCluster, world: World) -> None:
        state = world.engine.cluster
        self.nodes = {n.name: n for n in (plain_node(i) for i, _ in cluster.nodes if isinstance(i, objects.Node))}
        self.pods: dict[str, PlainPod] = {}
        self.where: dict[str, str] = {}
        self.nominated: dict[str, str] = {}
        for uid, record in state.pods.items():
            self.pods[uid] = plain_pod(world.objects[uid], record.start, terminating=record.terminating)
            if record.row >= 0:
                self.where[uid] = state.nodes.names[record.row]
            elif record.nominated >= 0:
                self.nominated[uid] = state.nodes.names[record.nominated]
        self.groups = {
            f"{g.metadata.namespace}/{g.metadata.name}": (g.spec.priority or 0, g.disrupts_all)
            for g, _ in cluster.groups
            if isinstance(g, objects.PodGroup)
        }
        self.budgets = [b for b, _ in cluster.budgets if isinstance(b, objects.PodDisruptionBudget)]

    def on(self, node: str) -> list[PlainPod]:
        """Pods that run on a node."""
        return [self.pods[uid] for uid, name in self.where.items() if name == node]

    def unit_of(self, pod: PlainPod) -> PlainUnit:
        """The unit a running pod belongs to (preemption.md 1)."""
        known = self.groups.get(pod.group) if pod.group is not None else None
        if known is None:
            return PlainUnit(f"{pod.namespace}/{pod.name}", (pod,), pod.priority, False)
        priority, whole = known
        if not whole:
            return PlainUnit(f"{pod.namespace}/{pod.name}", (pod,), priority, True)
        members = sorted((self.pods[uid] for uid in self.where if self.pods[uid].group == pod.group), key=_uid)
        return PlainUnit(str(pod.group), tuple(members), priority, True)

    def units_below(self, priority: int, node: str | None = None) -> list[PlainUnit]:
        """Potential victims, most important first; on one node or anywhere."""
        found = {}
        for uid, name in self.where.items():
            if node is None or name == node:
                unit = self.unit_of(self.pods[uid])
                if unit.priority < priority:
                    found[unit.name] = unit
        return sorted(found.values(), key=lambda unit: unit.rank)

    def violating(self, units: Sequence[PlainUnit]) -> set[str]:
        """Names of the units that drive a budget below zero, walking in importance order (preemption.md 6)."""
        left = [b.status.disruptions_allowed if b.status is not None else 0 for b in self.budgets]
        names = set()
        for unit in units:
            for pod in unit.pods:
                for index, budget in enumerate(self.budgets):
                    selector, status = budget.spec.selector, budget.status
                    if selector is None or budget.metadata.namespace != pod.namespace:
                        continue
                    if status is not None and pod.name in status.disrupted_pods:
                        continue
                    if all(pod.labels.get(key) == value for key, value in selector.match_labels.items()):
                        left[index] -= 1
                        if left[index] < 0:
                            names.add(unit.name)
        return names

    def restartless(self, unit: PlainUnit) -> int:
        """How many of its pods could not restart on another node at once (cost.md 1.9)."""
        return sum(
            not pod.terminating
            and not any(
                name != self.where[pod.uid]
                and allowed(pod, node)
                and has_amounts(
                    pod, node, [*self.on(name), *(self.pods[u] for u, at in self.nominated.items() if at == name)]
                )
                for name, node in self.nodes.items()
            )
            for pod in unit.pods
        )

    def holds(
        self, assigned: Sequence[tuple[PlainPod, str]], gone: Iterable[str], priority: int, ignore: set[str]
    ) -> bool:
        """Whether every assigned pod, in order, fits on its node once the units' pods (UIDs) in `gone` have left.

        Nominated pods of equal or higher priority count as running; it must fit with and without them.  `ignore`:
        UIDs with nominations of their own that do not count.
        """
        away = set(gone)
        held: dict[str, list[PlainPod]] = {}
        for pod, name in assigned:
            node = self.nodes[name]
            present = [p for p in self.on(name) if p.uid not in away] + held.get(name, [])
            guests = [
                self.pods[uid]
                for uid, where in self.nominated.items()
                if where == name and self.pods[uid].priority >= priority and uid not in ignore
            ]
            if not allowed(pod, node) or not has_room(pod, node, present) or not has_room(pod, node, present + guests):
                return False
            held.setdefault(name, []).append(pod)
        return True

    def victims(
        self, units: Sequence[PlainUnit], assigned: Sequence[tuple[PlainPod, str]], priority: int, ignore: set[str]
    ) -> list[PlainUnit]:
        """The victims, most important first: the reprieve of preemption.md 3.3-3.5 and 4.3, cost.md 1.2."""
        over = self.violating(units)
        gone = {pod.uid for unit in units for pod in unit.pods}
        out = {unit.name for unit in units}
        for unit in sorted(units, key=lambda u: (u.name not in over, *u.standing, -self.restartless(u))):
            back = {pod.uid for pod in unit.pods}
            if self.holds(assigned, gone - back, priority, ignore):
                gone -= back
                out.discard(unit.name)
        return [unit for unit in units if unit.name in out]

    def preempt_for_pod(self, pod: PlainPod) -> tuple[str, list[PlainUnit]] | None:
        """Node and victims for a single pod that fits nowhere, or None (preemption.md 3)."""
        best: tuple[tuple[float, ...], str, list[PlainUnit]] | None = None
        for name in sorted(self.nodes):
            node = self.nodes[name]
            too_much = any(want > node.has.get(key, 0) for key, want in pod.needs.items() if key != "pods")
            if too_much or not allowed(pod, node):
                continue
            units = self.units_below(pod.priority, name)
            everyone = {p.uid for unit in units for p in unit.pods}
            if not units or not self.holds([(pod, name)], everyone, pod.priority, {pod.uid}):
                continue
            victims = self.victims(units, [(pod, name)], pod.priority, {pod.uid})
            if not victims:
                continue
            top = max(unit.priority for unit in victims)
            over = self.violating(units)
            cost = (
                sum(1 for unit in victims if unit.name in over),
                top,
                sum((unit.priority + 2**31) * len(unit.pods) for unit in victims),
                sum(len(unit.pods) for unit in victims),
                sum(self.restartless(unit) for unit in victims),
                -min(p.start for unit in victims if unit.priority == top for p in unit.pods),
            )
            if best is None or cost < best[0]:
                best = (cost, name, victims)
        return None if best is None else best[1:]


def _uid(pod: PlainPod) -> str:
    return pod.uid
