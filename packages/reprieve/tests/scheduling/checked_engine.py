"""An engine without a simulated cluster around it, for objects as a watch delivers them: one node, and placed pods."""

from __future__ import annotations

from typing import Self

from kube_rules.decoding import decode_object
from kube_rules.meta import KubernetesObject, ObjectRef
from kube_rules.objects import Node, PodGroup
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import check_queue


class CheckedEngine:
    """An engine that checks itself after every step. `created`: when its groups were made; None: as they come."""

    def __init__(self, cpu: int, options: EngineOptions, *, created: float | None = None) -> None:
        self.engine = Engine(options)
        self.now = 0.0
        self.created = created
        status = {"allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "100"}}
        node = decode_object({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status})
        assert isinstance(node, Node)
        self.engine.set(node, 0.0)

    def add(self, *items: KubernetesObject) -> Self:
        """Objects come, one each second."""
        for item in items:
            self.now += 1.0
            created = self.now if self.created is None else self.created
            self.engine.set(item, self.now, created=created if isinstance(item, PodGroup) else None)
            check_queue(self.engine)
        return self

    def gone(self, name: str) -> Self:
        """A pod vanishes."""
        self.now += 1.0
        self.engine.remove(ObjectRef("Pod", uid=f"default/{name}"), self.now)
        check_queue(self.engine)
        return self

    def run(self) -> Self:
        """All that can be placed is."""
        for _ in range(50):
            self.now += 20.0
            self.engine.tick(self.now)
            while (decision := self.engine.step(self.now).decision) is not None:
                for binding in decision.bindings:
                    self.engine.confirm_binding(binding.pod.uid)
        return self

    @property
    def placed(self) -> set[str]:
        """The names of pods that have a node."""
        return {one.name for one in self.engine.cluster.pods.values() if one.row >= 0}
