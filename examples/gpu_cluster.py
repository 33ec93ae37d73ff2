"""A cluster of 200 GPU nodes as manifests, for trying questions on: `python examples/gpu_cluster.py > cluster.json`.

Racks of 20 nodes with 8 GPUs each; gangs that train, a serving Deployment with a budget, notebooks, a daemon on every
node.  The same every time.
"""

import json
from typing import Any

RACKS, NODES_PER_RACK, GPUS = 10, 20, 8
GPU = "nvidia.com/gpu"

Manifest = dict[str, Any]


def meta(name: str, labels: dict[str, str] | None = None, owner: tuple[str, str, str] | None = None) -> Manifest:
    """Metadata in the namespace default; owner: apiVersion, kind and name."""
    made: Manifest = {"name": name, "namespace": "default", "labels": labels or {}}
    if owner is not None:
        version, kind, of = owner
        reference = {"apiVersion": version, "kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}
        made["ownerReferences"] = [reference]
    return made


def pod(metadata: Manifest, node: str, priority: int, gpus: int, cpu: str = "4", group: str = "") -> Manifest:
    """A running pod."""
    limits = {"cpu": cpu, **({GPU: str(gpus)} if gpus else {})}
    spec: Manifest = {
        "nodeName": node,
        "priority": priority,
        "containers": [{"name": "c", "resources": {"limits": limits}}],
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def cluster() -> list[Manifest]:
    """Everything, nodes first."""
    items: list[Manifest] = []
    nodes = []
    for number in range(RACKS * NODES_PER_RACK):
        name, rack = f"gpu-{number:03d}", f"rack-{number // NODES_PER_RACK}"
        nodes.append(name)
        labels = {"kubernetes.io/hostname": name, "topology.example.com/rack": rack}
        room = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(GPUS)}
        items.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": room},
            }
        )
    for name, value in (("research", 100), ("production", 1000)):
        items.append(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        )
    budget = {"minAvailable": 18, "selector": {"matchLabels": {"app": "serving"}}}
    items.append(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta("serving"), "spec": budget}
    )
    for number, node in enumerate(nodes):
        items.append(pod(meta(f"agent-{number:05d}", owner=("apps/v1", "DaemonSet", "agent")), node, 0, 0, cpu="500m"))
    for gang in range(10):  # 16 whole nodes each, the first 160
        name = f"train-{gang}"
        policy = {"schedulingPolicy": {"gang": {"minCount": 16}}, "disruptionMode": {"all": {}}, "priority": 100 + gang}
        items.append({"apiVersion": "scheduling.k8s.io/v1", "kind": "PodGroup", "metadata": meta(name), "spec": policy})
        for index in range(16):
            worker = meta(f"{name}-{index}-{index:05d}", owner=("batch/v1", "Job", name))
            items.append(pod(worker, nodes[gang * 16 + index], 100 + gang, GPUS, cpu="32", group=name))
    labels = {"app": "serving", "pod-template-hash": "6c8f"}
    for index in range(20):
        server = meta(f"serving-6c8f-{index:05d}", labels, ("apps/v1", "ReplicaSet", "serving-6c8f"))
        items.append(pod(server, nodes[160 + index], 1000, 4))
    items += [pod(meta(f"notebook-{index}"), nodes[165 + index], 100, 2) for index in range(30)]
    return items


if __name__ == "__main__":
    print(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster()}))
