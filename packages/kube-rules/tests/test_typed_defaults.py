"""Both forms of the defaults of a pod agree: a plan's typed objects, and the plain data of an API server."""

from __future__ import annotations

import copy
import random
from types import SimpleNamespace
from typing import Any

import pytest

from kube_rules import objects as o
from kube_rules.decoding import finish, from_data
from kube_rules.defaults import apply_defaults
from kube_rules.errors import Origin
from kube_rules.requests import amounts_of, host_ports
from kube_rules.typed_defaults import apply_defaults as apply_typed_defaults

Json = dict[str, Any]
POD = SimpleNamespace(group="", kind="Pod", namespaced=True)
AMOUNTS = {
    "cpu": ("0", "1", "1500m"),
    "memory": ("0", "1Gi", "2Gi"),
    "hugepages-2Mi": ("1Gi", "2Gi"),
    "nvidia.com/gpu": ("1", "2"),
}


def resources(draw: random.Random, *, pod_level: bool = False) -> Json:
    """Limits, requests, both or neither."""
    result = {}
    for key in ("limits", "requests"):
        names = [name for name in AMOUNTS if not (pod_level and "/" in name)]
        chosen = {name: draw.choice(AMOUNTS[name]) for name in names if draw.random() < 0.4}
        if chosen:
            result[key] = chosen
    return result


def container(draw: random.Random, name: str, **more: Any) -> Json:
    port = {"containerPort": draw.randint(1, 9), **({"hostPort": 99} if draw.random() < 0.3 else {})}
    return {"name": name, "image": "i", "resources": resources(draw), "ports": [port][: draw.randint(0, 1)], **more}


def pod(draw: random.Random) -> Json:
    spec: Json = {"containers": [container(draw, f"c{number}") for number in range(draw.randint(1, 3))]}
    if draw.random() < 0.4:
        spec["initContainers"] = [container(draw, "i", **draw.choice(({}, {"restartPolicy": "Always"})))]
    if draw.random() < 0.4:
        spec["hostNetwork"] = True
    if draw.random() < 0.5:
        spec["resources"] = resources(draw, pod_level=True)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": spec}


def typed(manifest: Json) -> o.Pod:
    return finish(from_data(o.Pod, manifest, Origin("x")), Origin("x"), stored=True)


def counted(found: o.Pod) -> tuple[Any, ...]:
    return *amounts_of(found), host_ports(found), found.spec.scheduler_name


@pytest.mark.parametrize("seed", range(4))
def test_pods_count_the_same_with_the_defaults_of_either_form(seed: int) -> None:
    """Requests, those that scores assume, host ports; defaulting twice changes nothing."""
    draw = random.Random(seed)
    for _ in range(250):
        manifest = pod(draw)
        stored = copy.deepcopy(manifest)
        apply_defaults(POD, stored)
        found = typed(manifest)
        assert counted(found) == counted(typed(stored)), manifest
        assert apply_typed_defaults(found) is found


def test_pod_level_requests_come_from_containers_and_then_from_limits() -> None:
    """api.md 4.4: cpu and memory are what the containers request, hugepages the limit of the pod."""
    requests = {"requests": {"cpu": "1", "hugepages-2Mi": "1Gi"}, "limits": {"hugepages-2Mi": "1Gi"}}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "resources": requests}, {"name": "d"}],
            "resources": {"limits": {"cpu": "4", "memory": "2Gi", "hugepages-2Mi": "2Gi"}},
        },
    }
    found = typed(manifest)
    assert found.spec.resources is not None
    assert found.spec.resources.requests == {"cpu": "1", "memory": "2Gi", "hugepages-2Mi": "2Gi"}
    assert amounts_of(found)[1] == (1000, 2 << 30), "no default for the container without requests"
