"""A cluster built in Python, object by object.

    cluster = reprieve.ClusterBuilder()
    cluster.add_node("n1", {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": 8})
    cluster.add_pod("low", node="n1", priority=10, requests={"nvidia.com/gpu": 8})
    cluster.add_group("train", min_count=1, priority=100)
    cluster.add_pod("train-0", group="train", priority=100, requests={"nvidia.com/gpu": 8})
    answer = cluster.plan()
    answer.preemptions[0].victims

All objects become manifests, which are read, defaulted and validated as files are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kube_rules.versions import NEWEST_VERSION
from reprieve.inputs.loader import read
from reprieve.python.cluster import Cluster
from reprieve.python.plans import PlanResult, plan
from reprieve.simulation.plan import PlanOptions

_GROUP_VERSION = NEWEST_VERSION
_CORE = "v1"
Amount = str | int | float


class ClusterBuilder:
    """Manifests in the order they were added. `build` and `plan` read and check them."""

    def __init__(self) -> None:
        self._documents: list[tuple[str, str | bytes | Mapping[str, Any]]] = []

    def add(self, *documents: str | bytes | Mapping[str, Any]) -> "ClusterBuilder":
        """Add YAML or JSON text, or objects as plain data (apiVersion, kind, ...). Return the builder."""
        for document in documents:
            self._documents.append((f"<object {len(self._documents) + 1}>", document))
        return self

    def add_node(
        self,
        name: str,
        allocatable: Mapping[str, Amount],
        *,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        unschedulable: bool = False,
    ) -> "ClusterBuilder":
        """Add a node; `allocatable` holds Kubernetes quantities and defaults to 110 pods."""
        return self.add(
            {
                "apiVersion": _CORE,
                "kind": "Node",
                "metadata": {"name": name, "labels": dict(labels or {})},
                "spec": {"unschedulable": unschedulable, "taints": list(taints)},
                "status": {"allocatable": {"pods": 110, **allocatable}},
            }
        )

    def add_pod(
        self,
        name: str,
        *,
        namespace: str = "default",
        requests: Mapping[str, Amount] | None = None,
        priority: int | None = None,
        group: str | None = None,
        node: str | None = None,
        labels: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> "ClusterBuilder":
        """Add a pod with one container. With `node` the pod runs there; `spec` adds or overrides fields of the spec."""
        fields: dict[str, Any] = {
            "containers": [{"name": "main", "image": "image", "resources": {"requests": dict(requests or {})}}]
        }
        if priority is not None:
            fields["priority"] = priority
        if group is not None:
            fields["schedulingGroup"] = {"podGroupName": group}
        if node is not None:
            fields["nodeName"] = node
        return self.add(
            {
                "apiVersion": _CORE,
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
                "spec": {**fields, **(spec or {})},
                "status": {"phase": "Running" if node is not None else "Pending"},
            }
        )

    def add_group(
        self,
        name: str,
        *,
        namespace: str = "default",
        min_count: int | None = None,
        priority: int | None = None,
        disrupt_all: bool = False,
    ) -> "ClusterBuilder":
        """Add a PodGroup: a gang with `min_count`, else basic; with `disrupt_all` it is evicted as a whole."""
        policy: dict[str, Any] = {"gang": {"minCount": min_count}} if min_count is not None else {"basic": {}}
        spec: dict[str, Any] = {"schedulingPolicy": policy}
        if priority is not None:
            spec["priority"] = priority
        if disrupt_all:
            spec["disruptionMode"] = {"all": {}}
        return self.add(
            {
                "apiVersion": _GROUP_VERSION,
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": namespace},
                "spec": spec,
            }
        )

    def build(self) -> Cluster:
        """Return the cluster. Raises `reprieve.InputError` for an invalid manifest."""
        return Cluster(read(self._documents))

    def plan(self, options: PlanOptions | None = None, **how: Any) -> PlanResult:
        """Plan the cluster as `reprieve.plan` does. Raises the errors of `build`."""
        return plan(self.build(), options, **how)
