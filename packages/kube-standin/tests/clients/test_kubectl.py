"""kubectl against a real server process: what its users do all day.

The oldest and the newest kubectl of the machine run every test; those between run the tests marked `every_version`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kube_rules.versions import KUBERNETES_VERSION
from tests import manifests
from tests.clients.cluster import Cluster, client, eventually, has_account, kubectls, running
from tests.waiting import DEADLINE

Json = dict[str, Any]
FOUND = kubectls() or ["none"]
every_version = pytest.mark.parametrize("kubectl", FOUND, indirect=True, ids=lambda path: Path(path).name)
PATIENCE = f"--timeout={DEADLINE:.0f}s"
pytestmark = pytest.mark.skipif(FOUND == ["none"], reason="no kubectl on this machine")


@dataclass(frozen=True)
class Kubectl:
    """One binary, one namespace."""

    binary: str
    cluster: Cluster
    home: Path
    namespace: str

    @property
    def version(self) -> tuple[int, int]:
        """(major, minor) of the binary."""
        text = self("version", "--client")
        found = re.search(r"v(\d+)\.(\d+)", text)
        assert found, text
        return int(found[1]), int(found[2])

    def run(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command and return what came of it."""
        command = [self.binary, f"--kubeconfig={self.cluster.kubeconfig}", *arguments]
        if arguments[0] != "version":
            command.insert(2, f"--namespace={self.namespace}")
        environment = {**os.environ, "HOME": str(self.home), "KUBECTL_EXTERNAL_DIFF": ""}
        del environment["KUBECTL_EXTERNAL_DIFF"]
        return subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)

    def __call__(self, *arguments: str, text: str | None = None) -> str:
        """Run a command that must succeed and return its output."""
        done = self.run(*arguments, text=text)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def fails(self, *arguments: str, text: str | None = None) -> str:
        """Run a command that must fail and return what it says."""
        done = self.run(*arguments, text=text)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} did not fail\n{done.stdout}"
        return done.stdout + done.stderr

    @contextmanager
    def started(self, *arguments: str) -> Iterator[Iterator[str]]:
        """Start a command that goes on; its lines, of both streams, as they come. It is killed at the end, or late."""
        command = [self.binary, f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={self.namespace}", *arguments]
        environment = {**os.environ, "HOME": str(self.home)}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as process:
            late = threading.Timer(2 * DEADLINE, process.kill)
            late.start()
            try:
                assert process.stdout is not None
                yield iter(process.stdout)
            finally:
                late.cancel()
                process.kill()

    def json(self, *arguments: str) -> Json:
        """Return an object as JSON."""
        found: Json = json.loads(self(*arguments, "-o", "json"))
        return found

    def apply(self, *manifests: Json, flags: tuple[str, ...] = ()) -> str:
        """Apply manifests."""
        return self("apply", *flags, "-f", "-", text="\n---\n".join(json.dumps(one) for one in manifests))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module", params=sorted({FOUND[0], FOUND[-1]}), ids=lambda path: Path(path).name)
def kubectl(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubectl]:
    name = "t-" + re.sub(r"[^a-z0-9]+", "-", Path(request.param).name)
    made = Kubectl(request.param, cluster, tmp_path_factory.mktemp("home"), name)
    made("create", "namespace", name)
    core = client.CoreV1Api(cluster.api())
    eventually(lambda: has_account(core, name), "the namespace's account")
    yield made
    made("delete", "namespace", name, "--wait=false")


def pod(name: str, **labels: str) -> Json:
    return manifests.pod(name, "100m", labels=labels or {"app": name})


def deployment(name: str, replicas: int = 3, image: str = "img:1") -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def test_version_and_cluster(kubectl: Kubectl) -> None:
    assert re.search(r"Server Version: .*v1\.3\d", kubectl("version"))
    assert "is running at" in kubectl("cluster-info")
    assert "ok" in kubectl("get", "--raw", "/readyz")


@every_version
def test_only_its_command_version_speaks_of_the_servers_version(kubectl: Kubectl) -> None:
    """docs/up.md, Which kubectl: as far apart as they may be, nothing else compares the two, or warns."""
    apart = abs(kubectl.version[1] - int(KUBERNETES_VERSION.split(".")[1]))
    said = kubectl.run("version")
    assert ("exceeds the supported minor version skew" in said.stdout + said.stderr) == (apart > 1)
    for command in (
        ("get", "nodes"),
        ("get", "podgroups"),
        ("api-resources",),
        ("apply", "--dry-run=server", "-f", "-"),
    ):
        done = kubectl.run(*command, text=json.dumps(pod("unwarned")))
        assert done.returncode == 0, done.stderr
        assert "version" not in done.stderr.lower(), (command, done.stderr)


def test_discovery(kubectl: Kubectl) -> None:
    resources = kubectl("api-resources", "-o", "name").split()
    assert {"pods", "nodes", "podgroups.scheduling.k8s.io", "jobs.batch", "leases.coordination.k8s.io"} <= set(
        resources
    )
    assert "scheduling.k8s.io/v1beta1" in kubectl("api-versions").split()


def test_nodes(kubectl: Kubectl) -> None:
    table = kubectl("get", "nodes").splitlines()
    assert table[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [line.split()[:2] for line in table[1:]] == [[f"node-{number}", "Ready"] for number in (1, 2, 3)]
    assert "INTERNAL-IP" in kubectl("get", "nodes", "-o", "wide")
    described = kubectl("describe", "node", "node-1")
    for part in ("Allocatable:", "KubeletReady", "Non-terminated Pods:", "HolderIdentity:  node-1"):
        assert part in described


@every_version
def test_create_get_describe_delete(kubectl: Kubectl) -> None:
    assert "pod/one created" in kubectl("create", "-f", "-", text=json.dumps(pod("one", tier="x")))
    assert "AlreadyExists" in kubectl.fails("create", "-f", "-", text=json.dumps(pod("one")))
    kubectl("wait", "--for=condition=Ready", "pod/one", PATIENCE)
    row = kubectl("get", "pod", "one", "--no-headers").split()
    assert row[:4] == ["one", "1/1", "Running", "0"]
    wide = kubectl("get", "pods", "-o", "wide")
    assert "NODE" in wide
    assert "node-" in wide
    assert kubectl("get", "pod", "one", "-o", "jsonpath={.status.phase}") == "Running"
    assert "phase: Running" in kubectl("get", "pod", "one", "-o", "yaml")
    mine = ("get", "pods", "-l", "tier")  # pods of other tests may be there
    assert kubectl(*mine, "-o", "custom-columns=N:.metadata.name", "--no-headers").split() == ["one"]
    assert kubectl("get", "pods", "-l", "tier=x", "-o", "name").split() == ["pod/one"]
    assert kubectl("get", "pods", "-l", "tier,tier!=x", "-o", "name") == ""
    assert kubectl(*mine, "--field-selector=status.phase=Running", "-o", "name").split() == ["pod/one"]
    assert "TIER" in kubectl("get", "pods", "-L", "tier")
    described = kubectl("describe", "pod", "one")
    assert "Status:           Running" in re.sub(r"Status: +", "Status:           ", described)
    assert "NotFound" in kubectl.fails("get", "pod", "none")
    assert "deleted" in kubectl("delete", "pod", "one", PATIENCE)
    assert "NotFound" in kubectl.fails("get", "pod", "one")


def test_run_and_force_delete(kubectl: Kubectl) -> None:
    assert "pod/quick created" in kubectl("run", "quick", "--image=img:1", "--restart=Never")
    kubectl("wait", "--for=condition=Ready", "pod/quick", PATIENCE)
    kubectl("delete", "pod", "quick", "--grace-period=0", "--force")
    assert "NotFound" in kubectl.fails("get", "pod", "quick")


def test_apply_diff_and_prune_of_fields(kubectl: Kubectl) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "1", "b": "2"}}
    assert "configmap/cm created" in kubectl.apply(manifest)
    assert "configmap/cm unchanged" in kubectl.apply(manifest)
    changed = {**manifest, "data": {"a": "3"}}
    diff = kubectl.run("diff", "-f", "-", text=json.dumps(changed))
    assert diff.returncode == 1, diff.stderr
    assert re.search(r'^-\s+b: "2"$', diff.stdout, re.MULTILINE)
    assert "configmap/cm configured" in kubectl.apply(changed)
    assert kubectl.json("get", "cm", "cm")["data"] == {"a": "3"}
    assert kubectl.run("diff", "-f", "-", text=json.dumps(changed)).returncode == 0
    last = kubectl("apply", "view-last-applied", "cm", "cm")
    assert 'a: "3"' in last


@every_version
def test_apply_of_an_api_service(kubectl: Kubectl) -> None:
    """As metrics-server and Kueue bring one: it is stored, and no request goes to its Service."""
    group = f"{kubectl.namespace}.example.com"
    spec = {
        "group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "insecureSkipTLSVerify": True, "service": {"name": "server", "namespace": "other"},
    }  # fmt: skip
    manifest = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"v1.{group}"}}
    assert f"v1.{group} created" in kubectl.apply({**manifest, "spec": spec})
    shown = kubectl("get", "apiservices")
    assert re.search(rf"^v1\.{group} +other/server +False \(NotProxied\)", shown, re.MULTILINE), shown
    assert re.search(r"^v1\.apps +Local +True", shown, re.MULTILINE), shown
    assert f"{group}/v1" not in kubectl("api-versions")
    kubectl("delete", "apiservice", f"v1.{group}")


def test_server_side_apply_and_conflicts(kubectl: Kubectl) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}, "data": {"a": "1"}}
    flags = ("--server-side", "--field-manager=one")
    assert "serverside-applied" in kubectl.apply(manifest, flags=flags)
    other = {**manifest, "data": {"a": "2"}}
    text = json.dumps(other)
    said = kubectl.fails("apply", "--server-side", "--field-manager=two", "-f", "-", text=text)
    assert 'conflict with "one": .data.a' in said
    kubectl("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", text=text)
    managers = kubectl.json("get", "cm", "ssa", "--show-managed-fields")["metadata"]["managedFields"]
    assert [one["manager"] for one in managers if one["operation"] == "Apply"] == ["two"]


@pytest.mark.parametrize("kind", ["strategic", "merge", "json"])
def test_patch(kubectl: Kubectl, kind: str) -> None:
    name = f"patch-{kind}"
    kubectl("create", "configmap", name, "--from-literal=a=1")
    patch = '[{"op": "add", "path": "/data/b", "value": "2"}]' if kind == "json" else '{"data": {"b": "2"}}'
    assert "patched" in kubectl("patch", "configmap", name, f"--type={kind}", "-p", patch)
    assert kubectl.json("get", "cm", name)["data"] == {"a": "1", "b": "2"}
    assert "no change" in kubectl("patch", "configmap", name, f"--type={kind}", "-p", patch)


def test_label_annotate(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "marked")
    kubectl("label", "cm", "marked", "a=b")
    assert "overwrite" in kubectl.fails("label", "cm", "marked", "a=c")
    kubectl("label", "cm", "marked", "a=c", "--overwrite")
    kubectl("annotate", "cm", "marked", "note=hello")
    metadata = kubectl.json("get", "cm", "marked")["metadata"]
    assert (metadata["labels"], metadata["annotations"]["note"]) == ({"a": "c"}, "hello")
    kubectl("label", "cm", "marked", "a-")
    assert "labels" not in kubectl.json("get", "cm", "marked")["metadata"]


def test_taint_cordon_drain(kubectl: Kubectl) -> None:
    kubectl("taint", "nodes", "node-3", "maintenance=soon:NoSchedule")
    taints = kubectl.json("get", "node", "node-3")["spec"]["taints"]
    assert {"key": "maintenance", "value": "soon", "effect": "NoSchedule"} in taints
    kubectl("taint", "nodes", "node-3", "maintenance-")
    kubectl("cordon", "node-3")
    assert "SchedulingDisabled" in kubectl("get", "node", "node-3")
    eventually(
        lambda: "node.kubernetes.io/unschedulable" in kubectl("get", "node", "node-3", "-o", "jsonpath={.spec.taints}"),
        "the taint of a cordoned node",
    )
    kubectl("uncordon", "node-3")
    kubectl.apply(deployment("drained", 6))
    kubectl("rollout", "status", "deployment/drained", PATIENCE)
    node = kubectl.json("get", "pods", "-l", "app=drained")["items"][0]["spec"]["nodeName"]
    assert "drained" in kubectl("drain", node, "--ignore-daemonsets", "--force", PATIENCE)
    left = kubectl("get", "pods", "-l", "app=drained", f"--field-selector=spec.nodeName={node}", "-o", "name").split()
    assert left == []
    kubectl("rollout", "status", "deployment/drained", PATIENCE)
    kubectl("uncordon", node)
    kubectl("delete", "deployment", "drained")


def test_drain_respects_budgets(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("guarded", 3))
    kubectl("rollout", "status", "deployment/guarded", PATIENCE)
    kubectl("create", "pdb", "guard", "--selector=app=guarded", "--min-available=3")
    eventually(
        lambda: kubectl("get", "pdb", "guard", "-o", "jsonpath={.status.currentHealthy}") == "3", "the budget's status"
    )
    row = kubectl("get", "pdb", "guard", "--no-headers").split()
    assert row[:4] == ["guard", "3", "N/A", "0"]
    node = kubectl.json("get", "pods", "-l", "app=guarded")["items"][0]["spec"]["nodeName"]
    refusal = "Cannot evict pod as it would violate the pod's disruption budget"
    with kubectl.started("drain", node, "--ignore-daemonsets", "--force") as lines:
        assert any(refusal in line for line in lines), "the drain ended"
    kubectl("uncordon", node)
    kubectl("delete", "pdb", "guard")
    kubectl("delete", "deployment", "guarded")


def test_rollout(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=img:1", "--replicas=3")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web", PATIENCE)
    row = kubectl("get", "deployment", "web", "--no-headers").split()
    assert row[:4] == ["web", "3/3", "3", "3"]
    kubectl("set", "image", "deployment/web", "img=img:2")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web", PATIENCE)
    assert kubectl("rollout", "history", "deployment/web").split()[-4:] == ["1", "<none>", "2", "<none>"]
    assert "rolled back" in kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", PATIENCE)
    images = ("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.containers[0].image}")
    eventually(lambda: kubectl(*images).split() == ["img:1"] * 3, "the old pods gone")
    kubectl("scale", "deployment/web", "--replicas=5")
    kubectl("rollout", "status", "deployment/web", PATIENCE)
    assert kubectl(*images).split() == ["img:1"] * 5
    kubectl("rollout", "pause", "deployment/web")
    kubectl("rollout", "resume", "deployment/web")
    kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "status", "deployment/web", PATIENCE)
    eventually(lambda: "ScalingReplicaSet" in kubectl("describe", "deployment", "web"), "events")
    kubectl("delete", "deployment", "web")
    eventually(lambda: not kubectl("get", "pods", "-l", "app=web", "-o", "name"), "the pods to go with their owner")


def test_sets(kubectl: Kubectl) -> None:
    for kind, replicas in (("StatefulSet", {"replicas": 2, "serviceName": "s"}), ("DaemonSet", {})):
        labels = {"app": kind.lower()}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}}
        spec = {"selector": {"matchLabels": labels}, "template": template, **replicas}
        name = kind.lower()
        kubectl.apply({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
        kubectl("rollout", "status", f"{kind}/{name}", PATIENCE)
        kubectl("delete", kind, name, PATIENCE)


def test_job(kubectl: Kubectl) -> None:
    metadata = {"annotations": {"reprieve.dev/run-seconds": "0.3"}}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work", "annotations": {"reprieve.dev/pod-group": "true"}},
        "spec": {"parallelism": 2, "completions": 2, "template": {"metadata": metadata, "spec": spec}},
    }
    kubectl.apply(job)
    kubectl("wait", "--for=condition=complete", "job/work", PATIENCE)
    row = kubectl("get", "job", "work", "--no-headers").split()
    assert "2/2" in row
    assert kubectl("get", "podgroups", "-o", "name").split() == ["podgroup.scheduling.k8s.io/work"]
    assert "minCount" in kubectl("get", "podgroup", "work", "-o", "yaml")
    kubectl("delete", "job", "work")
    eventually(lambda: not kubectl("get", "podgroups,workloads", "-o", "name"), "the group to go with its Job")


def test_tree_of_groups(kubectl: Kubectl) -> None:
    """Created, shown, described, changed, refused and deleted as any other object (composite.md 1)."""
    version = "scheduling.k8s.io/v1alpha3"
    reference = {"workloadName": "serving", "templateName": "root"}
    gang = {"gang": {"minGroupCount": 2}}
    root = {
        "apiVersion": version,
        "kind": "CompositePodGroup",
        "metadata": {"name": "root"},
        "spec": {"workloadRef": reference, "schedulingPolicy": gang},
    }
    leaf = {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": {"name": "leaf"},
        "spec": {
            "workloadRef": {**reference, "templateName": "leaf"},
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "parentCompositePodGroupName": "root",
        },
    }
    kubectl("create", "-f", "-", text=json.dumps(root))
    kubectl.apply(leaf)
    heading, row = (line.split() for line in kubectl("get", "compositepodgroups").splitlines())
    assert heading == ["NAME", "POLICY", "WORKLOAD", "STATUS", "AGE"]
    assert row[:4] == ["root", "Gang", "serving", "Pending"]
    assert "Min Group Count" in kubectl("describe", "compositepodgroup", "root")
    patch = ("patch", "compositepodgroup", "root", "--type=merge", "-p")
    kubectl(*patch, '{"spec":{"schedulingPolicy":{"gang":{"minGroupCount":1}}}}')
    assert '"minGroupCount": 1' in kubectl("get", "compositepodgroup", "root", "-o", "json")
    refused = kubectl.fails(*patch, '{"spec":{"schedulingPolicy":{"basic":{},"gang":null}}}')
    assert "field is immutable" in refused
    kubectl("delete", "compositepodgroup", "root", "--wait=false")
    late = {**leaf, "metadata": {"name": "late"}}
    said = kubectl.fails("create", "-f", "-", text=json.dumps(late))
    assert 'cannot create PodGroup referencing CompositePodGroup "root" because it is being deleted' in said
    kubectl("delete", "podgroup", "leaf", PATIENCE)
    kubectl("wait", "--for=delete", "compositepodgroup/root", PATIENCE)


def test_explain(kubectl: Kubectl) -> None:
    assert "schedulingPolicy" in kubectl("explain", "podgroup.spec")
    assert "minGroupCount" in kubectl("explain", "compositepodgroup.spec.schedulingPolicy.gang")
    assert "KIND:" in kubectl("explain", "pod.spec.containers.resources")
    assert "preemptionPolicy" in kubectl("explain", "priorityclass")


def test_auth(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    assert kubectl("auth", "can-i", "*", "*", "--all-namespaces").strip() == "yes"


def test_typed_creates(kubectl: Kubectl) -> None:
    """Commands that send protobuf bodies from 1.32 on."""
    kubectl("create", "priorityclass", f"pc-{kubectl.namespace}", "--value=5", "--description=d")
    assert kubectl("get", "pc", f"pc-{kubectl.namespace}", "-o", "jsonpath={.value}") == "5"
    kubectl("delete", "pc", f"pc-{kubectl.namespace}")
    kubectl("create", "quota", "q", "--hard=pods=50")
    eventually(lambda: kubectl("get", "quota", "q", "-o", "jsonpath={.status.hard.pods}") == "50", "the quota's status")
    assert "50" in kubectl("describe", "quota", "q")
    kubectl("create", "serviceaccount", "robot")
    kubectl("create", "secret", "generic", "s", "--from-literal=k=v")
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.k}") == "dg=="
    kubectl("create", "service", "clusterip", "svc", "--tcp=80:80")
    kubectl("delete", "quota,sa,secret,service", "q", "robot", "s", "svc", "--ignore-not-found")
    assert "serviceaccount/default" in kubectl("get", "sa", "-o", "name").split()


def test_events(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("noisy", 1))
    eventually(lambda: "ScalingReplicaSet" in kubectl("get", "events"), "events")
    eventually(lambda: "SuccessfulCreate" in kubectl("events"), "the events of the replica set")
    kubectl("delete", "deployment", "noisy")


def test_watch(kubectl: Kubectl) -> None:
    kubectl.apply(pod("there", app="watched"))
    follow = ("get", "pods", "-w", "-l", "app=watched", "--no-headers", "--output-watch-events")
    with kubectl.started(*follow) as lines:
        assert next(lines).split()[:2] == ["ADDED", "there"]  # from here on it receives changes
        kubectl.apply(pod("watched"))
        kubectl("wait", "--for=condition=Ready", "pod/watched", PATIENCE)
        kubectl("delete", "pod", "watched", PATIENCE)
        seen: list[list[str]] = []
        for line in lines:
            words = line.split()
            if words[1] == "watched":
                seen.append(words)
                if words[0] == "DELETED":
                    break
    assert seen[0][:2] == ["ADDED", "watched"]
    assert any(words[3] == "Running" for words in seen)
    assert seen[-1][0] == "DELETED"


def test_strict_validation_and_bad_input(kubectl: Kubectl) -> None:
    bad = pod("bad")
    bad["spec"]["nodeNam"] = "x"
    said = kubectl.fails("create", "--validate=strict", "-f", "-", text=json.dumps(bad))
    assert 'unknown field "spec.nodeNam"' in said
    done = kubectl.run("create", "--validate=warn", "-f", "-", text=json.dumps(bad))
    assert done.returncode == 0
    assert 'unknown field "spec.nodeNam"' in done.stderr
    bad = pod("Bad_Name")
    assert "Invalid value" in kubectl.fails("create", "-f", "-", text=json.dumps(bad))


def test_edit_replace_and_dry_run(kubectl: Kubectl) -> None:
    made = kubectl("create", "deployment", "dry", "--image=i", "--dry-run=server", "-o", "yaml")
    assert "uid:" in made
    assert "NotFound" in kubectl.fails("get", "deployment", "dry")
    kubectl("create", "configmap", "swap", "--from-literal=a=1")
    swapped = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "swap"}, "data": {"z": "9"}}
    assert "replaced" in kubectl("replace", "-f", "-", text=json.dumps(swapped))
    assert kubectl.json("get", "cm", "swap")["data"] == {"z": "9"}


def test_all_namespaces_sort_and_chunks(kubectl: Kubectl) -> None:
    for number in range(5):
        kubectl("create", "configmap", f"many-{number}", "--from-literal=n=1")
    names = kubectl("get", "cm", "--sort-by=.metadata.name", "--chunk-size=2", "-o", "name").split()
    assert [name for name in names if "many" in name] == [f"configmap/many-{number}" for number in range(5)]
    assert kubectl.namespace in kubectl("get", "cm", "-A")
    kubectl("delete", "cm", "--all")
    assert "many" not in kubectl("get", "cm", "-o", "name")


def test_custom_resources(kubectl: Kubectl) -> None:
    plural = f"things{kubectl.namespace.replace('-', '')}"
    group = f"{kubectl.namespace}.example.com"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    kubectl.apply(definition)
    kubectl("wait", "--for=condition=established", f"crd/{plural}.{group}", PATIENCE)
    owner = kubectl.json("create", "configmap", "owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    thing = {
        "apiVersion": f"{group}/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "ownerReferences": [reference]},
        "spec": {"size": 3},
    }
    kubectl.apply(thing)
    assert kubectl("get", plural, "t", "-o", "jsonpath={.spec.size}") == "3"
    kubectl("delete", "configmap", "owner")
    eventually(lambda: not kubectl("get", plural, "-o", "name"), "a custom resource to go with its owner")
    kubectl("delete", "crd", f"{plural}.{group}", PATIENCE)
    said = kubectl.fails("get", plural)  # with its cached discovery, or after looking again
    assert "could not find the requested resource" in said or "doesn't have a resource type" in said


def test_namespace_goes_with_everything_in_it(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-gone"
    kubectl("create", "namespace", name)
    inside = Kubectl(kubectl.binary, kubectl.cluster, kubectl.home, name)
    inside.apply(deployment("d", 2))
    inside("rollout", "status", "deployment/d", PATIENCE)
    kubectl("delete", "namespace", name, PATIENCE)
    assert "NotFound" in kubectl.fails("get", "namespace", name)
