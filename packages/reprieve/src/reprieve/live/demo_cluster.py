"""The cluster of the demo: creates and watches objects only through the Kubernetes API, as any user would.

Invariants: reports on the cluster were read from the API; every wait has a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from kube_rules import objects as o
from kube_rules.group_sources import pod_group_name
from kube_rules.json import Json
from kube_rules.meta import INITIALLY_SCHEDULED
from reprieve.client.discovery import Resource, ServedResources, discover
from reprieve.client.informer import Change, ChangeKind, Informer
from reprieve.client.transport import ApiClient
from reprieve.cluster.pods import was_preempted
from reprieve.scheduling.decision import UNSCHEDULABLE

RUNNING: Final = "Running"
_DEADLINE: Final = 60.0


class LateError(Exception):
    """Raised if something did not happen in time; the text states what."""


class DemoCluster:
    """Pods and groups of the API, kept up to date."""

    def __init__(self, client: ApiClient, served: ServedResources) -> None:
        self._client = client
        self._served = served
        self._changed = asyncio.Event()
        self.preempted: dict[str, o.Pod] = {}
        """Every pod that is marked for eviction, by `namespace/name`, as last observed."""
        self._pods = Informer(client, self._resource("Pod"), o.Pod, self._pod_changed)
        self._groups = Informer(client, self._resource("PodGroup"), o.PodGroup, lambda _: self._changed.set())
        self._trees = Informer(
            client, self._resource("CompositePodGroup"), o.CompositePodGroup, lambda _: self._changed.set()
        )

    def _resource(self, kind: str) -> Resource:
        resources = self._served.readable(kind)
        if not resources:
            raise LateError(f"{kind} is not served")
        return resources[0]

    # -- reading ---------------------------------------------------------------------------------------

    def pods(self, *groups: str) -> list[o.Pod]:
        """Return all pods, or those of some groups (`namespace/name`), by name."""
        stored_pods = self._pods.objects.values()
        chosen = [pod for pod in stored_pods if not groups or f"{pod.namespace}/{pod_group_name(pod)}" in groups]
        return sorted(chosen, key=lambda pod: pod.key)

    def running(self, *groups: str) -> list[o.Pod]:
        """Return the pods that run and are not being deleted, of all or of some groups."""
        return [
            pod
            for pod in self.pods(*groups)
            if pod.status.phase == RUNNING and not pod.terminating and not was_preempted(pod)
        ]

    def waits(self, group: str) -> str | None:
        """Return the message why a group and all its pods are unschedulable, from its first pod; None otherwise."""
        stored_group = self._groups.objects.get(group)
        conditions = stored_group.status.conditions if stored_group is not None else ()
        rejected = any(
            (condition.type, condition.status, condition.reason)
            == (INITIALLY_SCHEDULED["PodGroup"], "False", UNSCHEDULABLE)
            for condition in conditions
        )
        messages = [_unschedulable(pod) for pod in self.pods(group)]
        return messages[0] if rejected and messages and all(messages) else None

    def tree_is_scheduled(self, root: str) -> bool:
        """Return whether the condition of a CompositePodGroup reports that its tree was scheduled."""
        stored_root = self._trees.objects.get(root)
        return stored_root is not None and any(
            (condition.type, condition.status) == (INITIALLY_SCHEDULED["CompositePodGroup"], "True")
            for condition in stored_root.status.conditions
        )

    def units(self) -> set[str]:
        """Return the names of the evicted units: the group if it is evicted as a whole, else the pod."""
        result = set()
        for pod in self.preempted.values():
            key = f"{pod.namespace}/{pod_group_name(pod)}"
            group = self._groups.objects.get(key)
            result.add(key if group is not None and group.disrupts_all else pod.key)
        return result

    def latest_start(self) -> datetime | None:
        """Return the latest start time of a running pod."""
        return max((pod.status.start_time for pod in self.running() if pod.status.start_time), default=None)

    # -- acting ----------------------------------------------------------------------------------------

    async def create(self, items: Iterable[Json]) -> None:
        """Create objects one after the other. Raises ClientError."""
        for item in items:
            resource = self._served.find(item["kind"], [item["apiVersion"]])
            assert resource is not None, item["kind"]
            namespace = item["metadata"].get("namespace")
            await self._client.request("POST", resource.path(namespace), body=item)

    async def until(self, check: Callable[[], bool], subject: str, *, seconds: float = _DEADLINE) -> None:
        """Wait until `check` returns true; raises LateError with the `subject`."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._changed.clear()
                    if check():
                        return
                    await self._changed.wait()
        except TimeoutError:
            raise LateError(f"{subject}: not within {seconds:g} s") from None

    async def all_running(self, number: int) -> None:
        """Wait until the given number of pods run. Raises LateError."""
        await self.until(lambda: len(self.running()) == number, f"{number} pods running")

    async def tick_over(self) -> None:
        """Wait until a new pod would start in a later second than all running pods: start times have whole seconds."""
        latest = self.latest_start()
        if latest is not None:
            ends = latest.timestamp() + 1.0
            await asyncio.sleep(max(0.0, ends - self._client.clock.now().timestamp()))

    def _pod_changed(self, change: Change[o.Pod]) -> None:
        pod = change.object
        if was_preempted(pod):
            self.preempted[pod.key] = pod
        if change.kind is ChangeKind.DELETED or change.old is None or change.old.status != pod.status:
            self._changed.set()

    async def watch(self) -> None:
        """Keep the objects up to date until cancelled."""
        await asyncio.gather(self._pods.run(), self._groups.run(), self._trees.run())

    async def synced(self) -> None:
        """Wait until all initial objects are known."""
        await asyncio.gather(*(item.wait_synced() for item in (self._pods, self._groups, self._trees)))


def _unschedulable(pod: o.Pod) -> str | None:
    for condition in pod.status.conditions:
        if (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", UNSCHEDULABLE):
            return condition.message
    return None


@asynccontextmanager
async def demo_cluster(client: ApiClient) -> AsyncIterator[DemoCluster]:
    """Yield a cluster that is kept up to date until the context exits."""
    cluster = DemoCluster(client, await discover(client))
    watching = asyncio.create_task(cluster.watch())
    try:
        await cluster.synced()
        yield cluster
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
