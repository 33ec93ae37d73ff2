"""`plan --kubeconfig` and `snapshot` on the embedded control plane, over TLS (interfaces.md)."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from reprieve.simulation.virtual import VirtualCluster
from tests.cli.conftest import Ended, Run
from tests.server.live import Json, Live, live


def pod(name: str, cpu: str, *, node: str = "", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}, "annotations": {"note": "private"}},
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/app:1",
                    "env": [{"name": "TOKEN", "value": "s3cret"}],
                    "resources": {"requests": {"cpu": cpu}},
                }
            ],
            **spec,
        },
    }


def create(server: Live, path: str, body: Json) -> Json:
    status, made, _ = server.request("POST", path, body)
    assert status == 201, made
    return dict(made)


def fill(server: Live) -> None:
    """Two nodes full of low priority, a gang of two that wants in, and a pod that fits nowhere."""
    for name, value in (("low", 10), ("high", 1000)):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        create(server, "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    for number in (1, 2):
        name = f"n{number}"
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"rack": f"r{number}"}}}
        create(server, "/api/v1/nodes", node)
        allocatable = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
        merge = {"Content-Type": "application/merge-patch+json"}
        assert server.request("PATCH", f"/api/v1/nodes/{name}/status", allocatable, headers=merge)[0] == 200
        assert server.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, headers=merge)[0] == 200
        create(server, PODS, pod(f"low-{number}", "3", node=name, priorityClassName="low"))
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "high"},
    }
    create(server, "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", group)
    for number in (0, 1):
        member: Json = {"priorityClassName": "high", "schedulingGroup": {"podGroupName": "train"}}
        create(server, PODS, pod(f"train-{number}", "3", **member))
    create(server, PODS, pod("huge", "64", nodeSelector={"rack": "r1"}))


PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with live() as running:
        fill(running)
        yield running


def kubeconfig(server: Live, path: Path, *, token: str = "", url: str = "", **cluster: Any) -> Path:
    """The server's kubeconfig with something changed, and a second context for readers."""
    config = yaml.safe_load(server.server.kubeconfig.read_text())
    config["clusters"][0]["cluster"].update(cluster)
    if url:
        config["clusters"][0]["cluster"]["server"] = url
    if token:
        config["users"][0]["user"] = {"token": token}
    config["users"].append({"name": "reader", "user": {"token": server.server.keys.reader_token}})
    config["contexts"].append({"name": "reading", "context": {"cluster": "reprieve", "user": "reader"}})
    path.write_text(yaml.safe_dump(config))
    return path


def document(ended: Ended) -> Json:
    assert ended.code == 0, ended.err
    found: Json = json.loads(ended.out)
    del found["stats"]["seconds"]
    return found


def versions(server: Live) -> dict[str, str]:
    """Every object's revision: nothing may change while it is read."""
    paths = ("/api/v1/pods", "/api/v1/nodes", "/api/v1/events", "/apis/scheduling.k8s.io/v1beta1/podgroups")
    return {
        item["metadata"]["uid"]: item["metadata"]["resourceVersion"]
        for path in paths
        for item in server.request("GET", path)[1]["items"]
    }


def test_plan_of_a_live_cluster(server: Live, run: Run) -> None:
    before = versions(server)
    plan = document(run("plan", "--kubeconfig", server.server.kubeconfig, "-o", "json"))
    outcomes = {pod["name"]: pod["outcome"] for pod in plan["pods"]}
    assert outcomes == {"train-0": "Scheduled", "train-1": "Scheduled", "huge": "Unschedulable"}
    assert {victim["name"] for victim in plan["preemptions"][0]["victims"]} == {"low-1", "low-2"}
    assert plan["preemptions"][0]["preemptor"] == {
        "kind": "PodGroup",
        "namespace": "default",
        "name": "train",
        "priority": 1000,
    }
    assert versions(server) == before


ADDED_POD = """
apiVersion: v1
kind: Pod
metadata: {name: added}
spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}
"""


def test_manifests_are_added_to_the_cluster_of_kubectl(
    server: Live, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """page.md 8.7: `--live` without `--kubeconfig`, as in a pod with a service account, and with a context."""
    (tmp_path / "added.yaml").write_text(ADDED_POD)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(server, tmp_path / "config")))
    for more in ((), ("--context", "reading")):
        plan = document(run("plan", "-f", tmp_path / "added.yaml", "--live", *more, "-o", "json"))
        assert {pod["name"] for pod in plan["pods"]} == {"train-0", "train-1", "huge", "added"}


DELAYED = """
apiVersion: v1
kind: Pod
metadata: {name: patient, annotations: {scheduling.reprieve.dev/preemption-delay: 5m}}
spec: {priorityClassName: system-cluster-critical, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}
"""


def test_live_plan_is_for_now_and_new_objects_are_made_now(
    server: Live, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """interfaces.md 1.5, cost.md 2: however long nothing was made in the cluster, a delay begins with the new pod."""
    file = tmp_path / "patient.yaml"
    file.write_text(DELAYED)
    config, starts = server.server.kubeconfig, []
    real = VirtualCluster.__init__

    def noted(world: VirtualCluster, engine: Any, start: float) -> None:
        starts.append(start)
        real(world, engine, start)

    monkeypatch.setattr(VirtualCluster, "__init__", noted)
    later = time.time() + 7200
    monkeypatch.setattr("reprieve.python.inputs.time", SimpleNamespace(time=lambda: later))

    def first_start(*arguments: object) -> tuple[float, Any]:
        starts.clear()  # suggestions for pending pods come from trials, which are plans too
        found = document(run("plan", "--kubeconfig", config, *arguments, "-o", "json"))
        return starts[0], found

    assert first_start()[0] == later
    begun, plan = first_start("-f", file)
    [deferred] = [found for found in plan["putOff"] if found["preemptor"]["name"] == "patient"]
    assert later < begun <= later + 5
    assert 295 <= deferred["until"] <= 300
    asked = datetime.fromtimestamp(int(later) + 7200, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert first_start("--now", asked)[0] == int(later) + 7200
    early = run("plan", "--kubeconfig", config, "--now", "2020-01-01T00:00:00Z")
    assert early.code == 2
    assert "after the planned time 2020-01-01T00:00:00Z" in early.err


def test_reading_rights_are_enough(server: Live, run: Run, tmp_path: Path) -> None:
    path = kubeconfig(server, tmp_path / "config")
    mine = document(run("plan", "--kubeconfig", path, "--context", "reading", "-o", "json"))
    assert mine == document(run("plan", "--kubeconfig", path, "-o", "json"))


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_plan_of_the_snapshot_is_the_same(ending: str, server: Live, run: Run, tmp_path: Path) -> None:
    config, file = server.server.kubeconfig, tmp_path / f"cluster.{ending}"
    ended = run("snapshot", "--kubeconfig", config, "-o", file)
    assert (ended.code, ended.out) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    for word in ("s3cret", "registry", "private", "annotations", "TOKEN"):
        assert word not in text
    mine = document(run("plan", "--kubeconfig", config, "-o", "json"))
    assert document(run("plan", "-f", file, "-o", "json")) == mine


def test_plan_of_an_anonymised_snapshot_is_the_same_by_other_names(server: Live, run: Run, tmp_path: Path) -> None:
    config, file = server.server.kubeconfig, tmp_path / "cluster.yaml"
    assert run("snapshot", "--anonymize", "--kubeconfig", config, "-o", file).code == 0
    text = file.read_text()
    for word in ("train", "huge", "low-1", "n1", "r1", "rack", "kube-system", "uid: '"):
        assert word not in text, word
    mine = document(run("plan", "--kubeconfig", config, "-o", "json"))
    other = document(run("plan", "-f", file, "-o", "json"))
    assert other["stats"] == mine["stats"]
    shapes = [
        [(pod["outcome"], pod["priority"], pod["nodeName"] is None, pod["message"]) for pod in plan["pods"]]
        for plan in (mine, other)
    ]
    assert shapes[0] == shapes[1]
    assert [len(preemption["victims"]) for preemption in other["preemptions"]] == [2]


def test_snapshots_go_to_stdout_too(server: Live, run: Run) -> None:
    ended = run("snapshot", "--kubeconfig", server.server.kubeconfig, "-o", "-")
    assert {item["kind"] for item in yaml.safe_load_all(ended.out)} >= {"Node", "Pod", "PodGroup", "PriorityClass"}


MORE = """
apiVersion: v1
kind: Pod
metadata: {name: extra}
spec: {priorityClassName: high, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}
"""


def test_manifests_are_added_as_new_objects(server: Live, run: Run, tmp_path: Path) -> None:
    """They queue behind what waits already, and may use the cluster's classes."""
    file = tmp_path / "more.yaml"
    file.write_text(MORE)
    plan = document(run("plan", "--kubeconfig", server.server.kubeconfig, "-f", file, "-o", "json"))
    extra = next(pod for pod in plan["pods"] if pod["name"] == "extra")
    assert (extra["priority"], extra["namespace"]) == (1000, "default")
    assert {pod["name"]: pod["outcome"] for pod in plan["pods"]}["train-1"] == "Scheduled"
    assert plan["preemptions"][0]["preemptor"]["name"] == "train"


ADDED: dict[str, tuple[str, str]] = {
    "an object that exists": (
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n",
        'Node "n1": metadata.name: Duplicate value: "n1": already exists in the cluster',
    ),
    "a class of another value": (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 3\n",
        "exists in the cluster with value 1000",
    ),
    "a pod on a node that is nowhere": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {nodeName: n9, containers: [{name: c}]}\n",
        'spec.nodeName: Invalid value: "n9": no Node with this name is in the cluster or the input',
    ),
    "an unknown class": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {priorityClassName: p, containers: [{name: c}]}\n",
        "no PriorityClass with name p was found",
    ),
    "bad input": ("apiVersion: v1\nkind: Pod\nmetadata: {name: X_}\nspec: {}\n", "metadata.name: Invalid value"),
}


@pytest.mark.parametrize("name", ADDED)
def test_objects_that_cannot_be_added_are_bad_input(name: str, server: Live, run: Run, tmp_path: Path) -> None:
    text, message = ADDED[name]
    file = tmp_path / "more.yaml"
    file.write_text(text)
    ended = run("plan", "--kubeconfig", server.server.kubeconfig, "-f", file)
    assert (ended.code, ended.out) == (2, "")
    assert f"error: {file}: document 1" in ended.err
    assert message in ended.err


def test_objects_that_the_cluster_has_may_be_given_again(server: Live, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    same = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n"
    file.write_text(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: default}}\n---\n{same}---{MORE}")
    assert run("plan", "--kubeconfig", server.server.kubeconfig, "-f", file).code == 0


# --- servers that refuse, and those that are not there -----------------------------------------------------------


@pytest.mark.parametrize("command", ["plan", "snapshot"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token": "wrong"}, "Unauthorized"),
        ({"url": "https://127.0.0.1:1"}, "cannot connect"),
        ({"url": "https://no-such-host.invalid"}, "cannot connect"),
        ({"tls-server-name": "other.example.com"}, "the server's certificate is not trusted"),
    ],
    ids=["refused", "no listener", "no such host", "another name"],
)
def test_unreachable_or_refusing_server_is_exit_3(
    command: str,
    change: Json,
    message: str,
    server: Live,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **more: Any) -> Any:
        """Without a network, or with a slow one, it may take any time to learn that there is no such host."""
        if host == "no-such-host.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return looked_up(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    config = kubeconfig(server, tmp_path / "config", **change)
    more = ["-o", tmp_path / "out.yaml"] if command == "snapshot" else []
    ended = run(command, "--kubeconfig", config, *more)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert message in ended.err
    assert not (tmp_path / "out.yaml").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("plan", "--kubeconfig", "nowhere"), "error: nowhere: No such file or directory"),
        (("plan", "--context", "x", "-f", "y"), "error: --context requires --kubeconfig or --live when -f is given"),
        (("plan",), "error: nothing to plan"),
        (("plan", "-f", "y", "--live"), "error: --live: no cluster is configured"),
        (("snapshot", "-o", "x.txt"), "error: -o x.txt: the name must end in .yaml, .yml, .json"),
        (("snapshot", "--kubeconfig", "nowhere", "-o", "x.yaml"), "error: nowhere: No such file or directory"),
    ],
)
def test_bad_usage_is_exit_2(args: tuple[str, ...], message: str, run: Run) -> None:
    ended = run(*args)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_context_that_is_not_there(server: Live, run: Run) -> None:
    ended = run("plan", "--kubeconfig", server.server.kubeconfig, "--context", "other")
    assert ended.code == 2
    assert "no context 'other'; known: 'reprieve'" in ended.err


def test_file_that_cannot_be_written(server: Live, run: Run, tmp_path: Path) -> None:
    ended = run("snapshot", "--kubeconfig", server.server.kubeconfig, "-o", tmp_path / "missing" / "x.yaml")
    assert ended.code == 2
    assert "No such file or directory" in ended.err


def test_kinds_that_may_not_be_read_are_reported_and_passed_over(server: Live, run: Run, tmp_path: Path) -> None:
    """A role that may read nodes and pods only: the plan goes on without groups, and says so."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "few"},
        "rules": [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "few"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "few"},
        "subjects": [{"kind": "ServiceAccount", "name": "few", "namespace": "default"}],
    }
    create(server, f"{rbac}/clusterroles", role)
    create(server, f"{rbac}/clusterrolebindings", binding)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "few"}}
    create(server, "/api/v1/namespaces/default/serviceaccounts", account)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = create(server, "/api/v1/namespaces/default/serviceaccounts/few/token", asked)["status"]["token"]
    ended = run("plan", "--kubeconfig", kubeconfig(server, tmp_path / "config", token=token), "-o", "json")
    assert ended.code == 0
    assert "warning: podgroups.v1.scheduling.k8s.io not read: " in ended.err
    assert "warning: poddisruptionbudgets.v1.policy not read: " in ended.err
    assert "is forbidden" in ended.err
    assert all("warning: " in line for line in ended.err.splitlines())
    role["rules"][0]["resources"] = ["nodes"]  # type: ignore[index]
    assert server.request("PUT", f"{rbac}/clusterroles/few", role)[0] == 200
    ended = run("plan", "--kubeconfig", tmp_path / "config")
    assert (ended.code, ended.out) == (3, "")
    assert "pods is forbidden" in ended.err


def test_gangs_of_controllers_are_gangs_in_a_plan_of_their_cluster(run: Run, tmp_path: Path) -> None:
    """workloads.md 2.10: with the source on the controllers are read too, beside a configuration that has it off."""
    on, off = tmp_path / "on.yaml", tmp_path / "off.yaml"
    for file, switch in ((on, True), (off, False)):
        profile = {"schedulerName": "default-scheduler"}
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        file.write_text(yaml.safe_dump({**head, "profiles": [profile], "groupSources": {"owners": switch}}))
    with live() as server:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        create(server, "/api/v1/nodes", {**node, "status": {"allocatable": {"cpu": "4", "pods": "10"}}})
        merge = {"Content-Type": "application/merge-patch+json"}
        assert server.request("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": None}}, headers=merge)[0] == 200
        for name, asks in (("gang", "true"), ("plain", "false")):
            meta = {"name": name, "annotations": {"scheduling.reprieve.dev/gang": asks}}
            container = {"name": "c", "image": "i"}
            template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}
            spec = {"parallelism": 2, "completions": 2, "template": template}
            made = create(server, "/apis/batch/v1/namespaces/default/jobs", {**job, "spec": spec})
            owner = {key: job[key] for key in ("apiVersion", "kind")} | {"controller": True}
            owner |= {"name": name, "uid": made["metadata"]["uid"]}
            for number in range(2):
                body = pod(f"{name}-{number}", "3")
                body["metadata"]["ownerReferences"] = [owner]
                create(server, PODS, body)

        access = kubeconfig(server, tmp_path / "config")

        def placed(*options: object) -> set[str]:
            ended = run("plan", "--kubeconfig", access, "-o", "json", *options)
            assert ended.code == 0, ended.err
            return {each["name"] for each in json.loads(ended.out)["pods"] if each["outcome"] == "Scheduled"}

        assert placed("--config", on) in ({"plain-0"}, {"plain-1"})  # all are of one second
        [single] = placed("--config", off)
        assert placed() == {single}
        both = run("plan", "--kubeconfig", access, "--compare", on, "--compare", off, "-o", "json")
        assert both.code == 0, both.err
        assert server.request("DELETE", f"{PODS}/plain-0?gracePeriodSeconds=0")[0] == 200
        assert server.request("DELETE", f"{PODS}/plain-1?gracePeriodSeconds=0")[0] == 200
        bigger = {"status": {"allocatable": {"cpu": "6"}, "capacity": {"cpu": "6"}}}
        assert server.request("PATCH", "/api/v1/nodes/n1/status", bigger, headers=merge)[0] == 200
        assert placed("--config", on) == {"gang-0", "gang-1"}


def test_scaled_workload_is_made_of_its_template_in_the_cluster(run: Run) -> None:
    """whatif.md 4.8: also where none of its pods is there; else after one of them, which is reported."""
    apps = "/apis/apps/v1/namespaces/default"
    labels = {"app": "idle"}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "3"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec: Json = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    with live() as running:
        machine = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", "pods": "20"}}}
        create(running, "/api/v1/nodes", machine)
        merge = {"Content-Type": "application/merge-patch+json"}
        assert running.request("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": None}}, headers=merge)[0] == 200
        create(running, f"{apps}/deployments", {"metadata": {"name": "idle"}, "spec": spec})
        create(running, f"{apps}/statefulsets", {"metadata": {"name": "idle"}, "spec": {**spec, "serviceName": "idle"}})
        orphan = pod("gone-1", "1", node="n1")
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "1", "controller": True}
        orphan["metadata"]["ownerReferences"] = [owner]
        create(running, "/api/v1/namespaces/default/pods", orphan)

        def scaled(what: str) -> Json:
            return document(run("plan", "--kubeconfig", running.server.kubeconfig, "--scale", what, "-o", "json"))

        for kind in ("deploy", "statefulset.apps", "default/sts"):
            found = scaled(f"{kind}/idle=3")
            outcomes = sorted(one["outcome"] for one in found["pods"])
            assert outcomes == ["Scheduled", "Scheduled", "Unschedulable"], kind
            assert "0 -> 3" in found["changes"][0]["sentence"]
            assert "like pod" not in found["changes"][0]["sentence"]
        cloned = scaled("rs/gone=2")
        assert [one["outcome"] for one in cloned["pods"]] == ["Scheduled"]
        reported = "replicaset default/gone 1 -> 2, the new ones like pod gone-1: its template is not in the input"
        assert cloned["changes"][0]["sentence"] == reported
        ended = run("plan", "--kubeconfig", running.server.kubeconfig, "--scale", "deploy/absent=2")
        assert ended.code == 2
        assert "deployment default/absent" in ended.err
