"""A control plane without a socket for tests: storage in memory, all admission steps, a clock that can be set."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kube_standin.admission import admission_steps
from kube_standin.admission_chain import AdmissionRequest, Chain, Operation, User
from kube_standin.bootstrap import base_steps, ensure_base
from kube_standin.clock import ServerClock
from kube_standin.deletion import DeleteOptions
from kube_standin.errors import StatusError
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry, WriteOptions
from kube_standin.storage import Store
from tests import manifests
from tests.manifests import priority_class as priority_class
from tests.recorded.shapes import shape

Json = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)


class SetClock(ServerClock):
    """A clock that stands still until it is set forward."""

    def __init__(self) -> None:
        self.moment = START

    def now(self) -> datetime:
        """Return the set moment."""
        return self.moment

    def monotonic(self) -> float:
        """What is done while the clock stands still took no time, however slow the machine is."""
        return self.moment.timestamp()

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.moment += timedelta(seconds=seconds)


class Plane:
    """Objects in, objects out: manifests are decoded, defaulted, admitted and validated as over HTTP."""

    def __init__(
        self, *, off: Iterable[str] = (), store: Store | None = None, clock: ServerClock | None = None
    ) -> None:
        self.clock = clock if clock is not None else SetClock()
        self.store = store if store is not None else Store()
        chain = Chain(base_steps())
        self.registry = ObjectRegistry(self.store, chain=chain, clock=self.clock)
        for step in admission_steps(self.registry, off=off):
            chain.add(step)
        ensure_base(self.registry)
        self.store.flush()

    def kind(self, api_version: str, kind: str) -> ServedKind:
        """Return a row of the table of kinds."""
        return self.registry.kind(api_version, kind)

    def create(self, obj: Json, *, dry_run: bool = False) -> Json:
        """Create from a manifest; the namespace is ``default`` unless it says otherwise."""
        kind = self.kind(obj["apiVersion"], obj["kind"])
        namespace = obj["metadata"].get("namespace", "default") if kind.namespaced else ""
        decoded = self.registry.decoder.decode(kind, {**obj}, "Ignore", [])
        out = self.registry.create_now(kind, namespace, decoded, WriteOptions(dry_run=dry_run)).object
        self.store.flush()
        return out

    def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Json:
        """Return an object; raises KeyError if it is not there."""
        found = self.registry.find(self.kind(api_version, kind), namespace, name)
        if found is None:
            raise KeyError(f"{kind} {namespace}/{name}")
        return found

    def has(self, api_version: str, kind: str, name: str, namespace: str = "default") -> bool:
        """Whether an object is there."""
        return self.registry.head(self.kind(api_version, kind), namespace, name) is not None

    def all(self, api_version: str, kind: str, namespace: str | None = None) -> list[Json]:
        """Return every object of a kind in key order."""
        row = self.kind(api_version, kind)
        return [self.registry.view(row, state) for state in self.store.heads(row.storage_key, namespace)]

    def patch(
        self, api_version: str, kind: str, name: str, patch: Json, subresource: str = "", ns: str = "default"
    ) -> Json:
        """Merge-patch an object."""
        row = self.kind(api_version, kind)
        out = self.registry.patch_now(row, ns, name, "merge", patch, WriteOptions(), subresource).object
        self.store.flush()
        return out

    def delete(self, api_version: str, kind: str, name: str, ns: str = "default", **options: Any) -> None:
        """Delete an object."""
        self.registry.deletion.delete(self.kind(api_version, kind), ns, name, DeleteOptions(**options))
        self.store.flush()


def write(
    plane: Plane, kind: str, new: Json | None, operation: Operation = "CREATE", *, name: str = "n", sub: str = "",
    namespace: str = "default", old: Json | None = None,
) -> AdmissionRequest:  # fmt: skip
    """What admission sees of a write; `kind` is `VERSION/KIND`."""
    version, _, word = kind.rpartition("/")
    row = shape(version, word)
    return AdmissionRequest(operation, row, namespace, name, sub, new, old, User("u"), False, plane.registry)


def pod(name: str = "p", *, cpu: str | None = "100m", labels: Json | None = None, **spec: Any) -> Json:
    """Return a pod that requests some processor time."""
    return manifests.pod(name, cpu, labels=labels, **spec)


def pod_group(name: str, *, version: str = "v1beta1", minimum: int = 2, **spec: Any) -> Json:
    """Return a gang's PodGroup manifest."""
    return manifests.gang(name, minimum, version=f"scheduling.k8s.io/{version}", **spec)


def composite_pod_group(name: str, *, minimum: int = 1, **spec: Any) -> Json:
    """Return the manifest of a CompositePodGroup, a root unless `spec` names its parent."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "schedulingPolicy": {"gang": {"minGroupCount": minimum}},
            **spec,
        },
    }


def refused(plane: Plane, obj: Json) -> StatusError:
    """The error with which an object is not created."""
    with pytest.raises(StatusError) as caught:
        plane.create(obj)
    return caught.value
