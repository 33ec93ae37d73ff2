"""The resource usage of nodes and pods (metrics.k8s.io), as simulated containers use resources (`pod_usage`).

`kubectl top` reads it. The objects are computed for each request and never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from kube_rules.admission.amounts import Amounts, added, printed
from kube_rules.json import Json
from kube_standin import errors
from kube_standin.clock import stamp
from kube_standin.kinds import ServedKind
from kube_standin.pod_usage import used_by
from kube_standin.registry import ObjectRegistry
from kube_standin.selectors import select
from kube_standin.server.lists import selected
from kube_standin.server.query import list_options
from kube_standin.server.target import Target
from kube_standin.storage import StoredObject
from kube_standin.worker_thread import Turn

_WINDOW = "10s"
_MEASURED = ("cpu", "memory")
_NOTHING = {"cpu": "0", "memory": "0"}


class Usage:
    """The usage metrics of one registry."""

    def __init__(self, registry: ObjectRegistry) -> None:
        self._registry = registry

    async def one(self, kind: ServedKind, target: Target) -> Json:
        """Return the metrics of one node or pod; raises 404 if it does not exist or does not run."""
        state = self._registry.store.get(kind.plural, target.namespace if kind.namespaced else "", target.name)
        metrics = None if state is None else await self._of(kind, [state])
        if not metrics:
            raise errors.not_found(kind.plural, kind.group, target.name)
        return {"kind": kind.kind, "apiVersion": kind.api_version, **metrics[0]}

    async def many(self, kind: ServedKind, target: Target) -> list[Json]:
        """Return the metrics of the selected nodes or running pods."""
        names = ("labelSelector", "fieldSelector")
        listing = list_options({name: value for name, value in target.query.items() if name in names})
        selection = select(kind, listing.labels, listing.fields)
        namespace = target.namespace if kind.namespaced and target.namespace else None
        page = self._registry.store.page(kind.plural, namespace)
        return await self._of(kind, await selected(kind, page.states, selection))

    async def _of(self, kind: ServedKind, states: Sequence[StoredObject]) -> list[Json]:
        if kind.plural == "pods":
            return await self._of_pods(states)
        totals: dict[str, Amounts] = {}
        turn = Turn()
        for state in self._registry.store.page("pods").states:
            node, containers = _running(state)
            for container in containers:
                totals[node] = added(totals.get(node, {}), container[1])
            await turn.over()
        return [{**self._head(state), "usage": _shown(totals.get(state.name, {}))} for state in states]

    async def _of_pods(self, states: Sequence[StoredObject]) -> list[Json]:
        metrics: list[Json] = []
        turn = Turn()
        for state in states:
            containers = _running(state)[1]
            if containers:
                used = [{"name": name, "usage": _shown(amounts)} for name, amounts in containers]
                metrics.append({**self._head(state), "containers": used})
            await turn.over()
        return metrics

    def _head(self, state: StoredObject) -> Json:
        now = self._registry.clock.now()
        metadata: Json = {"name": state.name}
        if state.namespace:
            metadata["namespace"] = state.namespace
        metadata["creationTimestamp"] = stamp(now)
        if state.labels:
            metadata["labels"] = dict(state.labels)
        return {"metadata": metadata, "timestamp": stamp(now - timedelta(seconds=1)), "window": _WINDOW}


def _shown(amounts: Amounts) -> Json:
    return {**_NOTHING, **printed({name: amounts[name] for name in _MEASURED if name in amounts})}


def _running(state: StoredObject) -> tuple[str, list[tuple[str, Amounts]]]:
    """Return the node of a running pod and the usage of its containers; empty for other pods."""
    if b'"Running"' not in state.raw:
        return "", []
    pod = state.decode()
    return (pod.get("spec") or {}).get("nodeName", ""), used_by(pod)
