"""Random clusters for properties: nodes, running pods, and pending ones.

The hypothesis strategy `random_clusters` is the shared vocabulary; amounts are whole cores and whole GiB so that
reference implementations can read them without a quantity parser.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from kube_rules import objects
from reprieve.preemption.outcome import MINIMIZE_VICTIMS
from tests.building import START, Port, Timed, World, group, node, pdb, pod, toleration
from tests.drawing import drew

_NODE_TAINTS = (("dedicated", "a", "NoSchedule"), ("dedicated", "b", "NoExecute"), ("flaky", "", "PreferNoSchedule"))
_TOLERATIONS = (
    toleration("dedicated", "Equal", "a"),
    toleration("dedicated", "Exists"),
    toleration("", "Exists"),
    toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),
)
ON_CLUSTERS = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""Of properties that decide on whole clusters."""
_PORTS: tuple[Port, ...] = (8080, (8080, "UDP"), (8080, "TCP", "10.0.0.1"), 9090)


@dataclass(repr=False)
class RandomCluster:
    """What a strategy made; every list holds (object, created) pairs, with distinct creation times."""

    nodes: list[Timed] = field(default_factory=list)
    groups: list[Timed] = field(default_factory=list)
    budgets: list[Timed] = field(default_factory=list)
    running: list[Timed] = field(default_factory=list)
    pending: list[Timed] = field(default_factory=list)

    def __repr__(self) -> str:
        return "\n".join(f"{item.KIND} {_brief(item)}" for item, _ in self.everything)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def everything(self) -> list[Timed]:
        """All objects, in the order a scheduler that starts would learn of them."""
        return [*self.nodes, *self.groups, *self.budgets, *self.running, *self.pending]

    def world(
        self, *, order: Sequence[int] | None = None, plain: bool = False, placement: str = MINIMIZE_VICTIMS
    ) -> World:
        """All of it in a world, by default in the natural order; nothing has run yet."""
        items = self.everything
        return World(*(items if order is None else [items[i] for i in order]), plain=plain, placement=placement)


def _brief(item: objects.KubernetesObject) -> str:
    """An object on one line, without what it leaves out."""
    return msgspec.json.encode((item.metadata, getattr(item, "spec", None), getattr(item, "status", None))).decode()


@dataclass
class _Free:
    cpu: int
    memory: int
    gpu: int
    pods: int
    ports: set[Port] = field(default_factory=set)

    def take(self, cpu: int, memory: int, gpu: int, ports: Sequence[Port]) -> bool:
        clash = bool(ports) and bool(self.ports)  # a node's first port user keeps all ports: simple and never wrong
        if cpu > self.cpu or memory > self.memory or gpu > self.gpu or self.pods < 1 or clash:
            return False
        self.cpu, self.memory, self.gpu, self.pods = self.cpu - cpu, self.memory - memory, self.gpu - gpu, self.pods - 1
        self.ports |= set(ports)
        return True


_PRIORITIES = (-5, 0, 1, 2, 3)


class _Maker:
    """Makes the parts of a cluster from a seed.

    Amounts come from a plain seeded generator, sizes from hypothesis: uniform amounts fill nodes as real ones are,
    where a strategy per field would mostly draw empty clusters; shrinking still makes clusters smaller.
    """

    def __init__(self, seed: int, *, static: bool, ports: bool, terminating: bool) -> None:
        self.chance = random.Random(seed)
        self.static, self.ports, self.terminating = static, ports, terminating
        self.cluster = RandomCluster()
        self.free: list[_Free] = []
        self.groups: dict[str, tuple[int, bool]] = {}
        self._clock = 0

    def one_in(self, count: int) -> bool:
        return self.chance.randrange(count) == 0

    def timed(self, item: objects.KubernetesObject) -> Timed:
        self._clock += 1
        return item, START - 20_000 + self._clock

    def shape(self, *, static: bool) -> dict[str, Any]:
        chance = self.chance
        shape: dict[str, Any] = {"cpu": chance.randint(0, 3), "memory": f"{chance.randint(0, 2)}Gi"}
        shape["gpu"] = chance.choice([0, 0, 0, 1, 2])
        if static and self.one_in(4):
            shape["tolerations"] = [chance.choice(_TOLERATIONS)]
        if static and self.one_in(5):
            shape["selector"] = {"zone": chance.choice("ab")}
        return shape

    def wanted_ports(self, count: int) -> list[Port]:
        return [self.chance.choice(_PORTS)] if self.ports and self.one_in(count) else []

    def add_node(self) -> None:
        chance, index = self.chance, len(self.free)
        has = _Free(chance.randint(2, 6), chance.randint(2, 6), chance.choice([0, 2, 4]), chance.choice([2, 4, 6]))
        made = node(
            f"n{index}",
            cpu=has.cpu,
            memory=f"{has.memory}Gi",
            gpu=has.gpu,
            pods=has.pods,
            labels={"zone": chance.choice("ab")} if self.static else {},
            taints=[t for t in _NODE_TAINTS if self.static and self.one_in(7)],
            unschedulable=self.static and self.one_in(10),
        )
        self.cluster.nodes.append(self.timed(made))
        self.free.append(has)

    def add_group(self) -> None:
        chance, name = self.chance, f"g{len(self.groups)}"
        priority = chance.choice(_PRIORITIES)
        self.groups[name] = priority, self.one_in(8)
        if self.one_in(7):
            return  # the object is missing
        gang_of = chance.choice([None, 1, 2, 3])
        whole = gang_of is not None and self.one_in(2)
        policy = chance.choice([None, None, None, "Never", "PreemptLowerPriority"])
        made = group(name, min_count=gang_of, priority=priority, whole=whole, policy=policy)
        self.cluster.groups.append(self.timed(made))

    def add_running(self, index: int) -> None:
        chance = self.chance
        shape, ports = self.shape(static=False), self.wanted_ports(5)
        rows = list(range(len(self.free)))
        chance.shuffle(rows)
        amounts = (shape["cpu"], int(shape["memory"][:-2]), shape["gpu"], ports)
        where = next((row for row in rows if self.free[row].take(*amounts)), None)
        if where is None:
            return
        belongs = chance.choice([None, None, *self.groups])
        priority = chance.choice(_PRIORITIES)
        if belongs is not None and self.one_in(2):
            priority = self.groups[belongs][0]
        ends = self.terminating and self.one_in(12)
        made = pod(
            f"r{index}",
            node=f"n{where}",
            priority=priority,
            group=belongs,
            start=chance.choice([None, 1.0, 2.0, 3.0]),
            labels={"app": chance.choice("xy")},
            ports=ports,
            terminating=ends,
            preempted=ends and self.one_in(2),
            grace=chance.choice([0, 30]),
            uid=f"uid-{chance.randrange(1000):03}-r{index}",
            **shape,
        )
        self.cluster.running.append(self.timed(made))

    def add_budget(self, index: int) -> None:
        chance = self.chance
        selector = chance.choice([{}, {"app": "x"}, {"app": "y"}])
        disrupted = [f"r{chance.randrange(6)}"] if self.one_in(4) else []
        made = pdb(f"b{index}", selector, allowed=chance.randint(0, 2), disrupted=disrupted)
        self.cluster.budgets.append(self.timed(made))

    def add_pending(self) -> None:
        chance = self.chance
        belongs = chance.choice([None, *self.groups])
        priority, never = self.groups[belongs] if belongs is not None else (chance.choice(_PRIORITIES), self.one_in(8))
        shape = self.shape(static=self.static)
        for _ in range(chance.randint(1, 3) if belongs is not None else 1):
            if self.one_in(3):
                shape = self.shape(static=self.static)
            name = f"p{len(self.cluster.pending)}"
            made = pod(name, priority=priority, group=belongs, ports=self.wanted_ports(6), never=never, **shape)
            self.cluster.pending.append(self.timed(made))

    def add_preemptor(self, *, of_group: bool) -> None:
        """One entity called `high`, of higher priority than most of what runs."""
        chance = self.chance
        priority = chance.choice([4, 4, 2, 1])
        size = chance.randint(1, 4) if of_group else 1
        if of_group:
            minimum = chance.choice([None, size, size, chance.randint(1, size)])
            self.cluster.groups.append(self.timed(group("high", min_count=minimum, priority=priority)))
        shape = self.shape(static=self.static)
        for index in range(size):
            if index and self.one_in(3):
                shape = self.shape(static=self.static)
            shape["cpu"] = max(1, shape["cpu"])
            name, belongs = (f"high-{index}", "high") if of_group else ("high", None)
            made = pod(name, priority=priority, group=belongs, ports=self.wanted_ports(6), **shape)
            self.cluster.pending.append(self.timed(made))


@st.composite
def random_clusters(
    draw: st.DrawFn,
    *,
    max_nodes: int = 4,
    max_running: int = 14,
    max_pending: int = 4,
    ports: bool = True,
    terminating: bool = True,
    static: bool = True,
    preemptor: str = "",
) -> RandomCluster:
    """A cluster: nodes, running pods that fit, and single pods and groups that want in.

    `static`: labels, taints, cordons and what pods say to them.  `preemptor` ("pod" or "group"): instead of a mix of
    pending entities a single one, of high priority.
    """
    maker = _Maker(draw(st.integers(0, 2**32 - 1)), static=static, ports=ports, terminating=terminating)
    for _ in range(draw(st.integers(1, max_nodes))):
        maker.add_node()
    for _ in range(draw(st.integers(0, 3))):
        maker.add_group()
    for index in range(draw(st.integers(max_running // 4, max_running))):
        maker.add_running(index)
    for index in range(draw(st.integers(0, 2))):
        maker.add_budget(index)
    if preemptor:
        maker.add_preemptor(of_group=preemptor == "group")
    else:
        for _ in range(draw(st.integers(1, max_pending))):
            maker.add_pending()
    drew(maker.cluster.everything)
    return maker.cluster
