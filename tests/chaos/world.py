"""People, programs and accidents: a seeded stream of changes to the objects of a cluster.

Every action is one that any user may take; those that meet an object that is gone are forgotten. Everything is written
past the faulty proxy, so that the world itself stays sound.
"""

from __future__ import annotations

import random
from typing import Any

from reprieve.client.errors import ApiError
from reprieve.client.transport import MERGE_PATCH, ApiClient
from tests import manifests

Json = dict[str, Any]
PRIORITIES = {"low": 10, "mid": 100, "high": 1000}
_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
_PODS = "/api/v1/namespaces/default/pods"
_NODES = "/api/v1/nodes"
MOST_PODS = 140


class World:
    """Acts on a cluster of `nodes` nodes with 16 CPUs each. `act` does one random thing."""

    def __init__(self, client: ApiClient, chance: random.Random, nodes: int) -> None:
        self.client = client
        self.chance = chance
        self.done: dict[str, int] = {}
        self._number = 0
        self._pods: list[str] = []
        self._groups: dict[str, int] = {}
        self._lost: list[str] = []
        self._names = [f"node-{number}" for number in range(1, nodes + 1)]

    async def begin(self) -> None:
        """Priority classes; nodes of a size that fills up."""
        for name, value in PRIORITIES.items():
            body = manifests.priority_class(name, value)
            await self.client.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=body)
        for name in list(self._names):
            await self._delete(f"{_NODES}/{name}")
            await self._make_node(name)

    async def act(self) -> None:
        """One thing that happens."""
        actions = (
            (30, self.single_pod),
            (14, self.gang),
            (10, self.delete_pod),
            (3, self.delete_group),
            (3, self.change_quorum),
            (3, self.cordon),
            (3, self.lose_node),
            (4, self.return_node),
        )
        action = self.chance.choices([a for _, a in actions], [w for w, _ in actions])[0]
        if action in (self.single_pod, self.gang) and len(self._pods) >= MOST_PODS:
            action = self.delete_pod
        await action()
        self.done[action.__name__] = self.done.get(action.__name__, 0) + 1

    async def end(self) -> None:
        """All nodes are there and take pods."""
        while self._lost:
            await self.return_node()
        for name in self._names:
            await self._patch(f"{_NODES}/{name}", {"spec": {"unschedulable": None}})

    # -- actions

    async def single_pod(self) -> None:
        """A pod of some size; half of them end by themselves."""
        await self._make_pod(f"pod-{self._next()}", priority=self.chance.choice(list(PRIORITIES)), group=None)

    async def gang(self) -> None:
        """A gang with all its pods, in any order; some come short and wait."""
        name = f"gang-{self._next()}"
        size = self.chance.randint(2, 6)
        quorum = self.chance.randint(2, size)
        priority = self.chance.choice(list(PRIORITIES))
        mode: Json = self.chance.choice([{"all": {}}, {"single": {}}])
        group = manifests.gang(name, quorum, disruptionMode=mode, priorityClassName=priority)
        group_first = self.chance.random() < 0.6
        if group_first:
            await self._create(_GROUPS, group)
        present = size if self.chance.random() < 0.9 else quorum - 1
        for number in range(present):
            await self._make_pod(f"{name}-{number}", priority=priority, group=name)
        if not group_first:
            await self._create(_GROUPS, group)
        self._groups[name] = size

    async def delete_pod(self) -> None:
        """Delete a pod, as a user would."""
        if self._pods:
            name = self._pods.pop(self.chance.randrange(len(self._pods)))
            await self._delete(f"{_PODS}/{name}", {"gracePeriodSeconds": self.chance.choice([0, 1])})

    async def delete_group(self) -> None:
        """Delete a PodGroup, as a user would; sometimes its pods, too."""
        if self._groups:
            name = self.chance.choice(list(self._groups))
            size = self._groups.pop(name)
            await self._delete(f"{_GROUPS}/{name}")
            if self.chance.random() < 0.7:
                for number in range(size):
                    await self._delete(f"{_PODS}/{name}-{number}", {"gracePeriodSeconds": 0})

    async def change_quorum(self) -> None:
        """minCount is mutable."""
        if self._groups:
            name = self.chance.choice(list(self._groups))
            quorum = self.chance.randint(1, self._groups[name])
            await self._patch(f"{_GROUPS}/{name}", {"spec": {"schedulingPolicy": {"gang": {"minCount": quorum}}}})

    async def cordon(self) -> None:
        """A node takes no more pods, or takes them again."""
        name = self.chance.choice(self._names)
        change = {"spec": {"unschedulable": True if self.chance.random() < 0.5 else None}}
        await self._patch(f"{_NODES}/{name}", change)

    async def lose_node(self) -> None:
        """A node is gone, and its pods with it."""
        present = [name for name in self._names if name not in self._lost]
        if len(present) > len(self._names) // 2:
            name = self.chance.choice(present)
            self._lost.append(name)
            await self._delete(f"{_NODES}/{name}")
            listed = await self.client.get(_PODS, {"fieldSelector": f"spec.nodeName={name}"})
            for pod in listed.read(dict)["items"]:
                await self._delete(f"{_PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})

    async def return_node(self) -> None:
        """A node that was lost is back."""
        if self._lost:
            await self._make_node(self._lost.pop(0))

    # -- writing

    async def _make_node(self, name: str) -> None:
        await self._create(_NODES, manifests.node(name, 16, pods=30, labels={"kubernetes.io/hostname": name}))

    async def _make_pod(self, name: str, *, priority: str, group: str | None) -> None:
        annotations = {}
        if self.chance.random() < 0.5:
            annotations["reprieve.dev/run-seconds"] = str(self.chance.randint(3, 25))
        cpu = self.chance.choice([1, 2, 3, 5, 8])
        spec: Json = {"priorityClassName": priority, "restartPolicy": "Never"}
        spec["terminationGracePeriodSeconds"] = self.chance.choice([0, 1, 2])
        meta = {"annotations": annotations}
        await self._create(_PODS, manifests.pod(name, cpu, memory="1Gi", group=group or "", meta=meta, **spec))
        self._pods.append(name)

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _create(self, path: str, body: Json) -> None:
        await self._tolerant("POST", path, body)

    async def _patch(self, path: str, change: Json) -> None:
        await self._tolerant("PATCH", path, change, MERGE_PATCH)

    async def _delete(self, path: str, options: Json | None = None) -> None:
        await self._tolerant("DELETE", path, options or {})

    async def _tolerant(self, method: str, path: str, body: Json, content_type: str = "application/json") -> None:
        try:
            await self.client.request(method, path, body=body, content_type=content_type)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
