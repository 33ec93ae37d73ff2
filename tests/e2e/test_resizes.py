"""Deferred resizes, of pods and of gangs, and nodes requested for gangs, over the end of the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import (
    CLASSES,
    GROUPS,
    Json,
    Up,
    condition,
    eventually,
    is_leaving,
    is_preempted,
    is_running,
    nodes_file,
    pod,
    pod_group,
    priority_class,
    up,
)

REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/{}/provisioningrequests"
STATE = "scheduling.reprieve.dev/provisioning-state"
NAMES = {"plural": "provisioningrequests", "singular": "provisioningrequest", "kind": "ProvisioningRequest"}
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "provisioningrequests.autoscaling.x-k8s.io"},
    "spec": {
        "group": "autoscaling.x-k8s.io",
        "names": {**NAMES, "listKind": "ProvisioningRequestList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def _config(directory: Path) -> Path:
    """A configuration by which every gang that nothing can place gets a request at once."""
    args = {"provisioningRequests": "Always", "provisioningAfter": 0}
    profile = {"pluginConfig": [{"name": "GangScheduling", "args": args}]}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump({**kind, "profiles": [profile]}))
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("resizes")
    nodes = nodes_file(directory, "n1", "n2", "n3")
    with up(directory, f"--nodes-file={nodes}", f"--config={_config(directory)}") as running:
        running.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
        for name, value in (("low", 100), ("high", 1000)):
            running.api.create(CLASSES, priority_class(name, value))
        yield running
        assert "Traceback" not in running.log.read_text(), running.log.read_text()


def _for_a_gang(item: Json) -> bool:
    return bool(condition(item, "DisruptionTarget").get("message", "").endswith("a higher priority podgroup"))


def _resize(cluster: Up, pod: str, cpu: str) -> None:
    """Ask for another amount of cpu."""
    cluster.api.patch(
        f"{pod}/resize", {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    )


def _has(name: str, cpu: str, item: Json) -> bool:
    """Whether the kubelet has given this pod the amount."""
    statuses = item["status"].get("containerStatuses") or [{}]
    return bool(item["metadata"]["name"] == name and statuses[0].get("allocatedResources", {}).get("cpu") == cpu)


def test_killed_scheduler_evicts_no_others_for_a_resize(cluster: Up) -> None:
    """resizes.md 3.4: kill -9 while the victim leaves; then the kubelet resizes the pod, and the other pod stays."""
    path, api = cluster.workplace("resize"), cluster.api
    api.create(path, pod("web", cpu="1", priority="high", node="n1"))
    for name in ("small-1", "small-2"):
        api.create(path, pod(name, cpu="1500m", priority="low", node="n1", stop=6))
    eventually(lambda: api.runs("web", "small-1", "small-2", namespace="resize"), "all pods running")
    with api.history(path) as pods:
        _resize(cluster, f"{path}/web", "2")
        victims = pods.until(lambda: pods.seen(is_leaving), "a victim leaving")
        cluster.kill_scheduler()
        pods.until(partial(pods.seen, partial(_has, "web", "2")), "the pod resized")
        assert pods.seen(is_preempted) == victims
        assert len(victims) == 1
        assert pods.seen(lambda item: bool(item["status"].get("nominatedNodeName"))) == set()
    assert api.runs("web", namespace="resize")
    assert sum(api.runs(name, namespace="resize") for name in ("small-1", "small-2")) == 1


def test_resizes_of_a_gang_over_two_nodes_are_one_over_a_restart(cluster: Up) -> None:
    """resizes.md 1.9, 3.4, 3.5, 4.1: all or none, before and after kill -9; then both victims leave, and no others."""
    space = "team"
    path, api = cluster.workplace(space), cluster.api
    api.create(GROUPS.format(namespace=space), pod_group("team", 2, priority="high"))
    for name, node, group, cpu in (
        ("team-0", "n2", "team", "1"),
        ("team-1", "n3", "team", "1"),
        ("peer", "n3", None, "1500m"),
    ):
        api.create(path, pod(name, cpu=cpu, priority="high", group=group, node=node))
    for name, node in (("low-0", "n2"), ("spare-0", "n2"), ("low-1", "n3")):
        api.create(path, pod(name, cpu="1500m", priority="low", node=node, stop=6))
    names = ("team-0", "team-1", "peer", "low-0", "spare-0", "low-1")
    eventually(lambda: api.runs(*names, namespace=space), "all pods running")

    def rejections() -> dict[str, str]:
        """By name, what events state of `team-0`, which would find a victim on its own node."""
        found = [event for event in api.events("FailedScheduling", space) if event["regarding"]["name"] == "team-0"]
        return {event["metadata"]["name"]: event["note"] for event in found}

    def because_of_the_other() -> set[str]:
        return {
            name
            for name, note in rejections().items()
            if "no pods are evicted for a gang" in note and "team/team-1" in note
        }

    with api.history(path) as pods:
        _resize(cluster, f"{path}/team-1", "3")  # beside `peer`, which has its priority, there is too little for it
        eventually(lambda: condition(api.pods(space)["team-1"], "PodResizePending").get("reason") == "Deferred")
        eventually(lambda: cluster.metric("scheduler_pending_resize_pods") == 1, "the resize of team-1 queued")
        _resize(cluster, f"{path}/team-0", "2")
        before = eventually(because_of_the_other, "team-0 rejected because of team-1")
        cluster.kill_scheduler()
        eventually(lambda: because_of_the_other() - before, "team-0 rejected by the next scheduler for the same reason")
        assert because_of_the_other() == set(rejections())
        assert pods.seen(is_preempted) == set()

        _resize(cluster, f"{path}/team-1", "2")
        victims = pods.until(lambda: len(found := pods.seen(is_leaving)) == 2 and found, "both victims leaving")
        cluster.kill_scheduler()
        for name in ("team-0", "team-1"):
            pods.until(partial(pods.seen, partial(_has, name, "2")), f"{name} resized")
        assert pods.seen(is_preempted) == pods.seen(_for_a_gang) == victims
        assert pods.seen(lambda item: bool(item["status"].get("nominatedNodeName"))) == set()
    assert api.runs("team-0", "team-1", "peer", namespace=space)
    assert len({"low-0", "spare-0"} & set(api.pods(space))) == 1, "one of the two on n2 stays"
    assert condition(api.items(GROUPS.format(namespace=space))[0], "PodGroupInitiallyScheduled")["status"] == "True"


def test_killed_scheduler_keeps_its_request_and_deletes_it_with_the_gang(cluster: Up) -> None:
    """provisioning.md 3.1, 3.2, 5.2: kill -9 between, and no second request."""
    space = "nodes"
    path, api, requests = cluster.workplace(space), cluster.api, REQUESTS.format(space)
    api.create(GROUPS.format(namespace=space), pod_group("train", 2))
    for name in ("train-0", "train-1"):
        api.create(path, pod(name, cpu="64", group="train"))
    eventually(lambda: len(api.items(requests)) == 1, "the request")
    [request] = api.items(requests)
    cluster.kill_scheduler()
    conditions = [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "in work"}]
    api.patch(f"{requests}/{request['metadata']['name']}/status", {"status": {"conditions": conditions}})

    def told() -> bool:
        pods = api.pods(space).values()
        return {item["metadata"].get("annotations", {}).get(STATE) for item in pods} == {"Accepted: Accepted: in work"}

    eventually(told, "the state on both pods")
    assert [item["metadata"]["uid"] for item in api.items(requests)] == [request["metadata"]["uid"]]
    for name in ("train-0", "train-1"):
        api.delete(f"{path}/{name}")
    templates = f"/api/v1/namespaces/{space}/podtemplates"
    eventually(lambda: not api.items(requests) and not api.items(templates), "the request and its templates gone")
    assert not any(is_running(item) for item in api.pods(space).values())
