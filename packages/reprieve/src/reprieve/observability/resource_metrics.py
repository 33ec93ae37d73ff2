"""`/metrics/resources`: resource requests of pods, in the series of kube-scheduler (observability.md, "Metrics").

Only `kube_pod_resource_request` is exposed, as the scheduler does not know limits. As in upstream, it has its own
endpoint because there is a series for each pod and resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reprieve.cluster.resources import CPU, EPHEMERAL_STORAGE, FIRST_RESOURCE, MEMORY, PODS
from reprieve.scheduling.engine import Engine

_HEAD: Final = (
    "# HELP kube_pod_resource_request Resources requested by workloads on the cluster, broken down by pod. This shows "
    "the resource usage the scheduler and kubelet expect per pod for resources along with the unit for the resource "
    "if any.\n# TYPE kube_pod_resource_request gauge\n"
)
_BYTES: Final = frozenset((MEMORY, EPHEMERAL_STORAGE))
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class PodResources:
    """Exposed data of one pod. `node` is empty if it has none. `requests`: (column, amount) pairs."""

    namespace: str
    name: str
    node: str
    scheduler: str
    priority: int
    requests: tuple[tuple[int, int], ...]


def pod_resources(engine: Engine) -> tuple[list[PodResources], list[str]]:
    """Return the requests of all pods and the names of the columns. Call it only while no cycle runs."""
    cluster = engine.cluster
    names = cluster.nodes.names
    result = [
        PodResources(
            pod.namespace,
            pod.name,
            names[pod.row] if pod.row >= 0 else "",
            pod.scheduler_name,
            pod.priority,
            pod.signature.requests,
        )
        for pod in cluster.pods.values()
    ]
    return result, list(cluster.resources.names)


def rendered(pods: list[PodResources], columns: list[str]) -> bytes:
    """Return the series in the Prometheus text format.

    Names of objects need no escaping, but the scheduler name is an arbitrary text from the pod.
    """
    lines = [_HEAD]
    for pod in pods:
        of_pod = f'namespace="{pod.namespace}",pod="{pod.name}",node="{pod.node}"'
        of_pod += f',scheduler="{pod.scheduler.translate(_ESCAPES)}",priority="{pod.priority}"'
        for column, amount in pod.requests:
            if column >= FIRST_RESOURCE and column != PODS and amount:
                name = columns[column]
                unit = _unit(column, name)
                value = f"{amount / 1000:.15g}" if column == CPU else str(amount)
                labels = f'{of_pod},resource="{name}",unit="{unit}"'
                lines.append(f"kube_pod_resource_request{{{labels}}} {value}\n")
    return "".join(lines).encode()


def _unit(column: int, name: str) -> str:
    if column == CPU:
        return "cores"
    return "bytes" if column in _BYTES or name.startswith("hugepages-") else "integer"
