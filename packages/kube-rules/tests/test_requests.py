"""Requests of a pod: api.md "Quantities and requests", component-helpers resource.PodRequests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules.objects import Pod
from kube_rules.requests import (
    amounts_of,
    host_ports,
    is_extended_resource,
    is_pod_level_resource,
    pod_requests,
    resource_list,
)

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
        ({"containers": [container(cpu="0")]}, (0, 200 * MIB)),
        ({"containers": [container(memory="0")]}, (100, 0)),
        ({"containers": [container(cpu="1", memory="1Mi")]}, (1000, MIB)),
        ({"containers": [container(cpu="0.1m", memory="1500m")]}, (1, 2)),
        ({"containers": [container()], "overhead": {"cpu": "1"}}, (1100, 200 * MIB)),
        ({"containers": [container()], "resources": {"requests": {"memory": "1Mi"}}}, (100, MIB)),
        ({"containers": [container()], "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}, (1000, MIB)),
        ({"containers": [container()], "resources": {"limits": {"cpu": "1"}}}, (100, 200 * MIB)),
    ],
)
def test_requests_scoring_assumes(spec: dict[str, Any], expected: tuple[int, int]) -> None:
    """schedutil.GetNonzeroRequests: 100m and 200Mi."""
    assert amounts_of(pod(spec))[1] == expected


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


def status(*, init: bool = False, allocated: dict[str, str] | None = None, actual: dict[str, str] | None = None) -> Any:
    one: dict[str, Any] = {"name": "c"}
    if allocated is not None:
        one["allocatedResources"] = allocated
    if actual is not None:
        one["resources"] = {"requests": actual}
    return {"initContainerStatuses" if init else "containerStatuses": [one]}


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "reason": "Deferred"}]}
OTHER = {"conditions": [{"type": "PodReadyToStart", "reason": "Infeasible"}]}


@pytest.mark.parametrize(
    ("reported", "cpu"),
    [
        ({}, 2000),
        (status(allocated={"cpu": "1"}), 2000),  # asked for more than it has
        (status(allocated={"cpu": "3"}), 3000),  # and for less
        (status(actual={"cpu": "3"}), 3000),
        (status(allocated={"cpu": "3"}, actual={"cpu": "4"}), 4000),
        (status(allocated={"cpu": "4"}, actual={"cpu": "3"}), 4000),
        (status(actual={}), 2000),
        ({**status(allocated={"cpu": "1"}), **INFEASIBLE}, 1000),
        ({**status(allocated={"cpu": "1"}), **DEFERRED}, 2000),
        ({**status(allocated={"cpu": "1"}), **OTHER}, 2000),
        ({**status(allocated={"cpu": "1"}, actual={"cpu": "3"}), **INFEASIBLE}, 3000),
        ({**status(actual={}), **INFEASIBLE}, 0),
        ({"containerStatuses": [{"name": "other", "allocatedResources": {"cpu": "9"}}]}, 2000),
    ],
)
def test_container_takes_the_most_of_what_it_asks_for_has_and_was_given(reported: Any, cpu: int) -> None:
    """KEP-1287: an infeasible resize asks for nothing."""
    found = pod_requests(pod({"containers": [container(cpu="2")]}, reported))
    assert found == ({"cpu": cpu} if cpu else {})


@pytest.mark.parametrize("restart", ["", "Always"])
def test_init_containers_report_too(restart: str) -> None:
    spec = {"containers": [container("d", cpu="1")], "initContainers": [container("c", restart, cpu="2")]}
    found = pod_requests(pod(spec, status(init=True, allocated={"cpu": "3"})))
    assert found == {"cpu": 4000 if restart else 3000}


@pytest.mark.parametrize(
    ("level", "reported", "overhead", "cpu"),
    [
        ({"cpu": "3"}, {}, None, 3000),
        ({"cpu": "3"}, {}, "1", 4000),
        ({"cpu": "3"}, {"allocatedResources": {"cpu": "5"}}, None, 5000),
        ({"cpu": "3"}, {"resources": {"requests": {"cpu": "5"}}}, None, 5000),
        ({"cpu": "3"}, {"resources": {"requests": {"cpu": "5"}}}, "1", 5000),  # what is reported includes it
        ({"cpu": "3"}, {"allocatedResources": {"cpu": "2"}}, None, 3000),
        ({"cpu": "3"}, {"allocatedResources": {"cpu": "2"}, **INFEASIBLE}, None, 2000),
        ({"cpu": "3"}, {"resources": {}, **INFEASIBLE}, None, 1000),
        ({}, {"allocatedResources": {"cpu": "2"}}, None, 2000),
    ],
)
def test_pod_level_requests_are_raised_to_what_is_reported(
    level: dict[str, str], reported: dict[str, Any], overhead: str | None, cpu: int
) -> None:
    spec = {"containers": [container(cpu="1")], "resources": {"requests": level}}
    if overhead is not None:
        spec["overhead"] = {"cpu": overhead}
    assert pod_requests(pod(spec, reported)) == {"cpu": cpu}


@pytest.mark.parametrize(
    ("inits", "cpu"),
    [
        ([("a", "", "3"), ("b", "", "2")], 3000),  # one after the other
        ([("a", "Always", "1"), ("b", "", "3")], 4000),  # beside what keeps running
        ([("a", "", "3"), ("b", "Always", "1")], 3000),
        ([("a", "Always", "1"), ("b", "Always", "1")], 3000),  # with the container
        ([("a", "Always", "1"), ("b", "", "1"), ("c", "Always", "1")], 3000),
        ([("a", "OnFailure", "3")], 3000),
        ([("a", "", "1")], 1000),
    ],
)
def test_init_containers_that_keep_running_add_up(inits: list[tuple[str, str, str]], cpu: int) -> None:
    spec = {
        "containers": [container(cpu="1")],
        "initContainers": [container(name, restart, cpu=amount) for name, restart, amount in inits],
    }
    assert pod_requests(pod(spec)) == {"cpu": cpu}


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("nvidia.com/gpu", True),
        ("a.b/c", True),
        ("cpu", False),
        ("gpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/x", False),
        ("node.kubernetes.io/x", False),
        ("notkubernetes.io/x", False),
        ("requests.a.b/c", False),
    ],
)
def test_extended_resources(name: str, extended: bool) -> None:
    """v1helper.IsExtendedResourceName: fully qualified, none of Kubernetes' own, none of a quota."""
    assert is_extended_resource(name) is extended


@pytest.mark.parametrize(
    ("name", "level"),
    [("cpu", True), ("memory", True), ("hugepages-1Gi", True), ("ephemeral-storage", False), ("a.b/c", False)],
)
def test_resources_that_a_pod_can_request_as_a_whole(name: str, level: bool) -> None:
    assert is_pod_level_resource(name) is level


def test_amounts_of_nodes_are_rounded_up_and_bounded() -> None:
    offered = resource_list({"cpu": "0.1m", "memory": "100m", "nvidia.com/gpu": "20E", "pods": 5})
    assert offered == {"cpu": 1, "memory": 1, "nvidia.com/gpu": 2**63 - 1, "pods": 5}


@pytest.mark.parametrize(
    ("port", "found"),
    [
        ({"hostPort": 1}, (("TCP", "0.0.0.0", 1),)),
        ({"hostPort": 0}, ()),
        ({"hostPort": 1, "protocol": ""}, (("TCP", "0.0.0.0", 1),)),
        ({"hostPort": 1, "hostIP": "::1", "protocol": "SCTP"}, (("SCTP", "::1", 1),)),
    ],
)
def test_host_ports(port: dict[str, Any], found: tuple[tuple[str, str, int], ...]) -> None:
    one = {"name": "c", "ports": [{"containerPort": 80, **port}]}
    assert host_ports(pod({"containers": [one]})) == found
