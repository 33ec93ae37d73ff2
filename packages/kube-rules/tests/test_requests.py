"""Requests of a pod: api.md "Quantities and requests", component-helpers resource.PodRequests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules.objects import Pod
from kube_rules.requests import host_ports, pod_nonzero_requests, pod_requests, resource_list

MIB = 1024 * 1024


def pod(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Pod:
    return msgspec.convert({"spec": spec, "status": status or {}}, Pod)


def container(name: str = "c", restart: str = "", **requests: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
    return {**found, "restartPolicy": restart} if restart else found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container(cpu="1500m", memory="1Mi")]}, {"cpu": 1500, "memory": MIB}),
        ({"containers": [container(cpu="1"), container("d", cpu="2")]}, {"cpu": 3000}),
        ({"containers": [container(cpu="0")]}, {}),  # a zero request never decides
        ({"containers": [container(cpu="0.5m"), container("d", cpu="0.5m")]}, {"cpu": 1}),  # summed, then rounded
        ({"containers": [container(cpu="0.1m")]}, {"cpu": 1}),  # sub-milli rounds up
        ({"containers": [container(memory="1500m")]}, {"memory": 2}),
        # the init-container peak wins where it is larger
        ({"containers": [container(cpu="1")], "initContainers": [container("i", cpu="3")]}, {"cpu": 3000}),
        ({"containers": [container(cpu="4")], "initContainers": [container("i", cpu="3")]}, {"cpu": 4000}),
        # restartable init containers add to the containers and to the later init containers
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("s", "Always", cpu="1"), container("i", cpu="3")],
            },
            {"cpu": 4000},
        ),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("i", cpu="3"), container("s", "Always", cpu="1")],
            },
            {"cpu": 3000},
        ),
        (
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "1Mi"}},
            {"cpu": 1250, "memory": MIB},
        ),
        # pod-level resources replace what they set, the rest stays, overhead comes on top
        (
            {
                "containers": [container(cpu="1", memory="1Mi")],
                "resources": {"requests": {"cpu": "2"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": 3000, "memory": MIB},
        ),
        (
            {"containers": [container()], "resources": {"requests": {"hugepages-2Mi": "4Mi"}}},
            {"hugepages-2Mi": 4 * MIB},
        ),
        ({"containers": [container(**{"nvidia.com/gpu": "2"})]}, {"nvidia.com/gpu": 2}),
        ({"containers": [container(storage="1Gi", **{"requests.x.com/y": "1"})]}, {}),  # not scheduled by
    ],
)
def test_pod_requests(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert pod_requests(pod(spec)) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}, 3000),  # shrinking
        ({"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}, 2000),  # growing
        (  # an infeasible resize does not count
            {
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
                "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
            1000,
        ),
    ],
)
def test_pod_resized_in_place(status: dict[str, Any], expected: int) -> None:
    assert pod_requests(pod({"containers": [container(cpu="2")]}, status)) == {"cpu": expected}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container()]}, (100, 200 * MIB)),
        ({"containers": [container(), container("d", cpu="1")]}, (1100, 400 * MIB)),
        ({"containers": [container(cpu="0", memory="0")]}, (0, 0)),  # an explicit zero stays
        ({"containers": [container(cpu="1")], "initContainers": [container("i")]}, (1000, 200 * MIB)),
        # with pod-level requests only unset resources have assumed requests
        ({"containers": [container()], "resources": {"requests": {"cpu": "2"}}}, (2000, 200 * MIB)),
        (
            {"containers": [container(memory="1Mi"), container("d")], "resources": {"requests": {"cpu": "2"}}},
            (2000, MIB),
        ),
    ],
)
def test_requests_scoring_assumes(spec: dict[str, Any], expected: tuple[int, int]) -> None:
    assert pod_nonzero_requests(pod(spec)) == expected


def test_node_offers_integers() -> None:
    offered = resource_list({"cpu": "3920m", "memory": "1Ki", "pods": 110, "nvidia.com/gpu": "0"})
    assert offered == {"cpu": 3920, "memory": 1024, "pods": 110, "nvidia.com/gpu": 0}


def test_host_ports_of_what_keeps_running() -> None:
    ports = {"ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]}
    udp = {"ports": [{"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]}
    found = pod(
        {
            "containers": [{"name": "c", **ports}],
            "initContainers": [{"name": "s", "restartPolicy": "Always", **udp}, {"name": "i", **ports}],
        }
    )
    assert host_ports(found) == (("UDP", "10.0.0.1", 53), ("TCP", "0.0.0.0", 8080))
