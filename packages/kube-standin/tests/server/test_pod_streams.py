"""Logs of simulated containers, requests that would need a process, and metrics (kube-apiserver 1.36, kubelet)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.kubelet.logs import LogOptions, log_lines, rendered
from tests.server.inprocess import Plane, running
from tests.server.live import pod

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
METRICS = "/apis/metrics.k8s.io/v1beta1"
MERGE = "application/merge-patch+json"
FIRST, SECOND, THIRD = (f"2026-01-01T00:00:{second}Z" for second in ("01", "02", "03"))
ENDED = {"terminated": {"exitCode": 3, "reason": "Error", "startedAt": FIRST, "finishedAt": SECOND}}
RUNNING = {"running": {"startedAt": THIRD}}


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def a_pod(plane: Plane, *, state: Json | None = None, last: Json | None = None, restarts: int = 0) -> None:
    made = pod("p")
    made["spec"]["nodeName"] = "n"
    plane.create(PODS, made)
    if state is not None:
        name = made["spec"]["containers"][0]["name"]
        one = {"name": name, "image": "i", "imageID": "i", "ready": True, "restartCount": restarts, "state": state}
        status = {"phase": "Running", "containerStatuses": [{**one, "lastState": last or {}}]}
        assert plane.ask(f"PATCH {PODS}/p/status", {"status": status}, content_type=MERGE).status == 200


def log(plane: Plane, query: str = "") -> str:
    answer = plane.ask(f"GET {PODS}/p/log?{query}")
    assert (answer.status, answer.header("content-type")) == (200, "text/plain"), answer.body
    return answer.body.decode()


def test_log_has_the_changes_of_state(plane: Plane) -> None:
    a_pod(plane, state=RUNNING, last=ENDED, restarts=1)
    [line] = log(plane).splitlines()
    assert line == f"{THIRD} container c started (restart 1)"
    assert log(plane, "previous=true").splitlines() == [
        f"{FIRST} container c started",
        f"{SECOND} container c ended with exit code 3 (Error)",
    ]
    assert log(plane, "timestamps=true") == f"{THIRD} {line}\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LogOptions(tail=1), "2 b"),
        (LogOptions(tail=0), ""),
        (LogOptions(limit=3), "202"),
    ],
)
def test_parts_of_a_log(options: LogOptions, expected: str) -> None:
    shown = rendered([(FIRST, "1 a"), (SECOND, "2 b")], options).decode()
    assert shown.strip().endswith(expected)
    assert len(shown.splitlines()) == (1 if expected else 0)


def test_since(plane: Plane) -> None:
    a_pod(plane, state=ENDED)
    assert len(log(plane).splitlines()) == 2
    assert log(plane, f"sinceTime={SECOND}").splitlines() == [f"{SECOND} container c ended with exit code 3 (Error)"]


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("container=x", 400, "container x is not valid for pod p"),
        ("previous=true", 400, 'previous terminated container "c" in pod "p" not found'),
        ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (f"sinceSeconds=5&sinceTime={FIRST}", 422, "at most one of `sinceTime` or `sinceSeconds` may be specified"),
    ],
)
def test_refused_logs(plane: Plane, query: str, code: int, text: str) -> None:
    a_pod(plane, state=RUNNING)
    refusal = plane.ask(f"GET {PODS}/p/log?{query}").refusal
    assert refusal[0] == code
    assert text in refusal[2]


def test_log_before_the_first_start(plane: Plane) -> None:
    a_pod(plane)
    text = 'container "c" in pod "p" is waiting to start: ContainerCreating'
    assert plane.ask(f"GET {PODS}/p/log").refusal == (400, "BadRequest", text)
    assert plane.ask(f"GET {PODS}/none/log").refusal == (404, "NotFound", 'pods "none" not found')


@pytest.mark.parametrize("query", ["", "follow=true", "previous=true"])
def test_pods_without_a_node_have_no_log(plane: Plane, query: str) -> None:
    """kube-apiserver has no kubelet to ask: no content, also where a log would be followed."""
    plane.create(PODS, pod("p"))
    answer = plane.ask(f"GET {PODS}/p/log?{query}")
    assert (answer.status, answer.body) == (204, b"")
    assert (answer.header("content-type"), answer.header("content-length")) == (None, None)
    assert plane.ask(f"GET {PODS}/p/log?container=x&{query}").status == 400


def test_lines_of_a_container_that_waits_to_restart() -> None:
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    status = {"containerStatuses": [{"name": "c", "state": waits, "lastState": ENDED, "restartCount": 2}]}
    made = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": status}
    assert [text for _, text in log_lines(made, "c")] == [
        "container c started (restart 2)",
        "container c ended with exit code 3 (Error)",
    ]


def test_following_ends_with_the_container(plane: Plane) -> None:
    a_pod(plane, state=ENDED)
    assert len(log(plane, "follow=true").splitlines()) == 2


@pytest.mark.parametrize(
    ("method", "name", "does"),
    [
        ("GET", "exec?command=ls", "run a command in container c of pod p"),
        ("POST", "exec?command=ls", "run a command in container c of pod p"),
        ("POST", "attach", "attach to container c of pod p"),
        ("POST", "portforward", "forward ports to pod p"),
    ],
)
def test_what_needs_a_process(plane: Plane, method: str, name: str, does: str) -> None:
    a_pod(plane, state=RUNNING)
    text = f"cannot {does}: the node is simulated and no process is behind it"
    assert plane.ask(f"{method} {PODS}/p/{name}").refusal == (501, "NotImplemented", text)


def test_metrics_are_what_running_pods_request(plane: Plane) -> None:
    plane.create("/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}})
    made = pod("p")
    made["metadata"]["labels"] = {"app": "a"}
    made["spec"]["nodeName"] = "n"
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "250m", "memory": "1Gi"}}
    plane.create(PODS, made)
    assert plane.ask(f"GET {METRICS}/pods").json["items"] == []
    plane.ask(f"PATCH {PODS}/p/status", {"status": {"phase": "Running"}}, content_type=MERGE)
    used = {"cpu": "250m", "memory": "1Gi"}
    [found] = plane.ask(f"GET {METRICS}/namespaces/default/pods?labelSelector=app%3Da").json["items"]
    assert (found["metadata"]["name"], found["containers"]) == ("p", [{"name": "c", "usage": used}])
    assert plane.ask(f"GET {METRICS}/pods?labelSelector=app%3Db").json["items"] == []
    node = plane.ask(f"GET {METRICS}/nodes/n").json
    assert (node["kind"], node["usage"]) == ("NodeMetrics", used)
    text = 'nodes.metrics.k8s.io "x" not found'
    assert plane.ask(f"GET {METRICS}/nodes/x").refusal == (404, "NotFound", text)
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = plane.ask(f"GET {METRICS}/nodes", accept=accept).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
    assert table["rows"][0]["cells"] == ["n", "250m", "1Gi", "10s"]
