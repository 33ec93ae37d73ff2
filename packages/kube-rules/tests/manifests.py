"""Manifests for the tests of all packages: small objects as plain data, as a client sends them.

Arguments are called as in `reprieve.testing`; what has no name there goes into the spec, by the name of its field.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
SCHEDULING = "scheduling.k8s.io/v1beta1"


def manifest(api_version: str, kind: str, name: str, meta: Json | None = None, **fields: Any) -> Json:
    """Return an object; `meta` is further metadata, `fields` are those beside it."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **(meta or {})}, **fields}


def amounts(cpu: str | int | None, memory: str | None, gpu: str | int, more: Json | None = None) -> Json:
    """Return a list of resources without those that are not given."""
    named = {"cpu": cpu, "memory": memory, GPU: gpu or None, **(more or {})}
    return {resource: str(amount) for resource, amount in named.items() if amount is not None}


def pod(
    name: str = "p",
    cpu: str | int | None = None,
    gpu: str | int = 0,
    *,
    memory: str | None = None,
    more: Json | None = None,
    node: str = "",
    group: str = "",
    phase: str = "",
    labels: Json | None = None,
    meta: Json | None = None,
    **spec: Any,
) -> Json:
    """Return a pod of one container that requests these amounts, `more` among them."""
    container: Json = {"name": "c", "image": "i"}
    if requests := amounts(cpu, memory, gpu, more):
        container["resources"] = {"requests": requests}
        if limits := {resource: amount for resource, amount in requests.items() if "/" in resource}:
            container["resources"]["limits"] = limits
    bound = {"nodeName": node} if node else {}
    member = {"schedulingGroup": {"podGroupName": group}} if group else {}
    meta = {**({"labels": labels} if labels else {}), **(meta or {})}
    status = {"status": {"phase": phase}} if phase else {}
    return manifest("v1", "Pod", name, meta, spec={"containers": [container], **bound, **member, **spec}, **status)


def node(
    name: str,
    cpu: str | int = 4,
    gpu: str | int = 0,
    *,
    memory: str = "64Gi",
    pods: str | int = 110,
    more: Json | None = None,
    labels: Json | None = None,
    **spec: Any,
) -> Json:
    """Return a node of these amounts, `more` among them."""
    allocatable = amounts(cpu, memory, gpu, {"pods": pods, **(more or {})})
    return manifest("v1", "Node", name, {"labels": labels or {}}, spec=spec, status={"allocatable": allocatable})


def gang(
    name: str = "g", minimum: int = 2, *, version: str = SCHEDULING, meta: Json | None = None, **spec: Any
) -> Json:
    """Return a PodGroup that is a gang of so many pods at least."""
    return manifest(version, "PodGroup", name, meta, spec={"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec})


def priority_class(name: str, value: int, **fields: Any) -> Json:
    """Return a PriorityClass."""
    return manifest("scheduling.k8s.io/v1", "PriorityClass", name, value=value, **fields)
