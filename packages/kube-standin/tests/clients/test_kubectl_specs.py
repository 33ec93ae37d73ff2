"""Conformance specs of sig-cli (test/e2e/kubectl) that need no process in a container, with a real kubectl."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.clients.cluster import client, eventually, has_account, running
from tests.clients.test_kubectl import FOUND, PATIENCE, Kubectl, deployment, pod

Json = dict[str, Any]
pytestmark = pytest.mark.skipif(FOUND == ["none"], reason="no kubectl on this machine")


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with running(tmp_path_factory.mktemp("cluster")) as cluster:
        made = Kubectl(FOUND[-1], cluster, tmp_path_factory.mktemp("home"), "specs")
        made("create", "namespace", "specs")
        core = client.CoreV1Api(cluster.api())
        eventually(lambda: has_account(core, "specs"), "the namespace's account")
        yield made


def controller(name: str, replicas: int = 1, port: int = 6379) -> Json:
    labels = {"app": "agnhost", "role": name}
    container = {"name": name, "image": "agnhost:2", "ports": [{"name": "server", "containerPort": port}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": replicas, "selector": labels, "template": template},
    }


def create(kubectl: Kubectl, manifest: Json) -> None:
    kubectl("create", "-f", "-", text=json.dumps(manifest))


def wait_for_pods(kubectl: Kubectl, role: str, count: int = 1) -> list[str]:
    """Return the pods of a controller when as many as it should have are ready."""

    def ready() -> bool:
        found = kubectl("get", "rc", role, "-o", "jsonpath={.status.readyReplicas} {.status.replicas}")
        return found.split() == [str(count), str(count)]

    eventually(ready, f"the pods of {role}")
    return kubectl("get", "pods", "-l", f"role={role}", "-o", "name").split()


def test_controller_is_created_scaled_and_stopped(kubectl: Kubectl) -> None:
    """Update Demo: "should create and stop a replication controller", "should scale a replication controller"."""
    create(kubectl, controller("demo", 2))
    wait_for_pods(kubectl, "demo", 2)
    for replicas in (1, 2):
        kubectl("scale", "rc", "demo", f"--replicas={replicas}", PATIENCE)
        wait_for_pods(kubectl, "demo", replicas)
    kubectl("delete", "rc", "demo", "--grace-period=0", "--force")
    eventually(lambda: not kubectl("get", "pods", "-l", "role=demo", "-o", "name"), "no pods")


def test_describe_says_what_there_is(kubectl: Kubectl) -> None:
    """Kubectl describe: "should check if kubectl describe prints relevant information for rc and pods"."""
    create(kubectl, controller("primary"))
    [name] = wait_for_pods(kubectl, "primary")
    metadata = {"name": "primary"}
    spec = {"ports": [{"port": 6379, "targetPort": "server"}], "selector": {"role": "primary"}}
    create(kubectl, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    facts: dict[tuple[str, ...], list[str]] = {
        ("pod", name.partition("/")[2]): [
            r"Name:\s+primary-", r"Namespace:\s+specs", r"Node:", r"Labels:\s+app=agnhost", r"role=primary",
            r"Annotations:", r"Status:\s+Running", r"IP:\s+10\.", r"Controlled By:\s+ReplicationController/primary",
            r"Image:\s+agnhost:2", r"State:\s+Running", r"QoS Class:\s+BestEffort",
        ],
        ("rc", "primary"): [
            r"Name:\s+primary", r"Namespace:\s+specs", r"Selector:\s+app=agnhost,role=primary",
            r"Labels:\s+app=agnhost",
            r"Replicas:\s+1 current", r"Pods Status:\s+1 Running", r"Pod Template:", r"Image:\s+agnhost:2", r"Events:",
        ],
        ("service", "primary"): [
            r"Name:\s+primary", r"Namespace:\s+specs", r"Selector:\s+role=primary", r"Type:\s+ClusterIP",
            r"Port:\s+<unset>\s+6379/TCP", r"Endpoints:\s+10\.[0-9.]+:6379", r"Session Affinity:\s+None",
        ],
        ("node", "node-1"): [
            r"Name:\s+node-1", r"Labels:", r"Annotations:", r"CreationTimestamp:", r"Conditions:", r"Type\s+Status",
            r"MemoryPressure\s+False", r"Ready\s+True", r"Addresses:", r"Capacity:", r"Kubelet Version:", r"Pods:",
        ],
        ("namespace", "specs"): [r"Name:\s+specs", r"Labels:", r"Annotations:", r"Status:\s+Active", r"No resource"],
    }  # fmt: skip

    def described(what: tuple[str, ...]) -> bool:
        text = kubectl("describe", *what)
        return all(re.search(fact, text) for fact in facts[what])

    for what in facts:
        eventually(partial(described, what), f"the facts of {what}")


def test_services_are_made_of_a_controller(kubectl: Kubectl) -> None:
    """Kubectl expose: "should create services for rc": their endpoints are its pods, by port."""
    create(kubectl, controller("exposed"))
    wait_for_pods(kubectl, "exposed")
    kubectl("expose", "rc", "exposed", "--name=rm2", "--port=1234", "--target-port=6379")
    kubectl("expose", "service", "rm2", "--name=rm3", "--port=2345", "--target-port=6379")
    address = kubectl("get", "pods", "-l", "role=exposed", "-o", "jsonpath={.items[0].status.podIP}")

    def reaches(name: str) -> bool:
        return kubectl("get", "endpoints", name, "--no-headers").split()[1] == f"{address}:6379"

    for name, port in (("rm2", 1234), ("rm3", 2345)):
        assert kubectl("get", "service", name, "-o", "jsonpath={.spec.ports[0].port}") == str(port)
        eventually(partial(reaches, name), f"the endpoints of {name}")


def test_labels_and_annotations(kubectl: Kubectl) -> None:
    """Kubectl label, patch: "should update the label on a resource", "should add annotations for pods in rc"."""
    create(kubectl, controller("marked"))
    [name] = wait_for_pods(kubectl, "marked")
    kubectl("label", name, "testing-label=testing-label-value")
    assert "testing-label-value" in kubectl("get", name, "-L", "testing-label")
    kubectl("label", name, "testing-label-")
    assert "testing-label-value" not in kubectl("get", name, "-L", "testing-label")
    kubectl("patch", name, "-p", '{"metadata":{"annotations":{"x":"y"}}}')
    assert kubectl("get", name, "-o", "jsonpath={.metadata.annotations.x}") == "y"


def test_pod_is_run_and_replaced(kubectl: Kubectl) -> None:
    """Kubectl run pod, Kubectl replace: "should create a pod from an image when restart is Never", "should update a
    single-container pod's image".
    """
    kubectl("run", "e2e-test-pod", "--restart=Never", "--image=httpd:1", "--labels=run=e2e-test-pod")
    found = kubectl.json("get", "pod", "e2e-test-pod")
    assert (found["spec"]["restartPolicy"], found["spec"]["containers"][0]["image"]) == ("Never", "httpd:1")
    kubectl("wait", "--for=condition=Ready", "pod/e2e-test-pod", PATIENCE)
    found = kubectl.json("get", "pod", "e2e-test-pod")
    found["spec"]["containers"][0]["image"] = "busybox:1"
    kubectl("replace", "-f", "-", text=json.dumps(found))
    assert kubectl.json("get", "pod", "e2e-test-pod")["spec"]["containers"][0]["image"] == "busybox:1"


def test_dry_run_and_diff(kubectl: Kubectl) -> None:
    """Kubectl server-side dry-run, Kubectl diff: "should check if kubectl can dry-run update Pods", "should check if
    kubectl diff finds a difference for Deployments".
    """
    kubectl("run", "dry", "--image=httpd:1", "--labels=run=dry")
    patch = '{"spec":{"containers":[{"name": "dry","image": "busybox:1"}]}}'
    kubectl("patch", "pod", "dry", "-p", patch, "--dry-run=server")
    assert kubectl.json("get", "pod", "dry")["spec"]["containers"][0]["image"] == "httpd:1"
    kubectl.apply(deployment("diffed", 1, "httpd:1"))
    done = kubectl.run("diff", "-f", "-", text=json.dumps(deployment("diffed", 1, "busybox:1")))
    assert done.returncode == 1, done.stderr
    assert re.search(r"^-.*image: httpd:1$", done.stdout, re.MULTILINE)
    assert re.search(r"^\+.*image: busybox:1$", done.stdout, re.MULTILINE)


def test_versions_and_addresses(kubectl: Kubectl) -> None:
    """Kubectl version, api-versions, cluster-info: "should check is all data is printed" and the like."""
    for part in ("Client Version:", "Server Version:"):
        assert part in kubectl("version")
    assert "v1" in kubectl("api-versions").split()
    assert re.search(r"Kubernetes (control plane|master).* is running at .*https://", kubectl("cluster-info"))


def test_subresource_is_shown(kubectl: Kubectl) -> None:
    """Kubectl get: "should show the status subresource", also as a table, and of a scale."""
    create(kubectl, pod("statused"))
    found = kubectl.json("get", "pod", "statused", "--subresource=status")
    assert (found["kind"], found["metadata"]["name"]) == ("Pod", "statused")
    kubectl.apply(deployment("scaled", 2))
    assert kubectl.json("get", "deployment", "scaled", "--subresource=scale")["kind"] == "Scale"


def test_proxy_serves_the_api(kubectl: Kubectl) -> None:
    """Proxy server: "should support proxy with --port 0"."""
    with kubectl.started("proxy", "--port=0") as lines:
        line = next(lines)
        found = re.search(r"Starting to serve on 127\.0\.0\.1:(\d+)", line)
        assert found, line
        configuration = client.Configuration(host=f"http://127.0.0.1:{found[1]}")
        core = client.CoreApi(client.ApiClient(configuration))
        assert core.get_api_versions().versions == ["v1"]
