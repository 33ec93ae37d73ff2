"""What operators write today, on `reprieve up`, unchanged: each set of pods runs as a gang (workloads.md)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import Up, condition, eventually, nodes_file, pod, up

Json = dict[str, Any]
FOLDER = Path(__file__).parents[1] / "data" / "operators"
GROUPS = {"scheduling.volcano.sh/v1beta1": False, "scheduling.x-k8s.io/v1alpha1": True}
"""Versions of PodGroup, and whether their definition has a status subresource."""
PLACED = {"scheduling.volcano.sh/v1beta1": "Running", "scheduling.x-k8s.io/v1alpha1": "Scheduled"}


def definition(api_version: str, *, subresource: bool) -> Json:
    group, _, version = api_version.partition("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{group}", "annotations": approved},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"},
            "versions": [{**served, **({"subresources": {"status": {}}} if subresource else {})}],
        },
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("operators")
    with up(directory, f"--nodes-file={nodes_file(directory, 'n1', cpu='4')}") as running:
        for version, subresource in GROUPS.items():
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            running.api.create(path, definition(version, subresource=subresource))
        for version in GROUPS:
            eventually(lambda at=f"/apis/{version}/podgroups": "items" in running.api.get(at))  # type: ignore[misc]
        yield running


def path_of(manifest: Json) -> str:
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    plural = "priorityclasses" if kind == "PriorityClass" else f"{kind.lower()}s"
    if kind == "PriorityClass":
        return f"{root}/{plural}"
    return f"{root}/namespaces/{manifest['metadata'].get('namespace', 'default')}/{plural}"


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("*.yaml")))
def test_gang_waits_for_its_last_pod_and_runs(cluster: Up, file: str) -> None:
    manifests = list(yaml.safe_load_all((FOLDER / file).read_text()))
    # Groups of two kinds have the same name: a late watch of the deleted one would take it for the other.
    space = file.removesuffix(".yaml")
    cluster.workplace(space)
    for one in manifests:
        one["metadata"].pop("ownerReferences", None)  # the owners are not there: all would be collected as garbage
        one["metadata"]["namespace"] = space
    objects = [one for one in manifests if one["kind"] != "Pod"]
    pods = [one for one in manifests if one["kind"] == "Pod"]
    for one in objects:
        cluster.api.create(path_of(one), one)
    *first, last = pods
    names = [one["metadata"]["name"] for one in first]
    for one in first:
        cluster.api.create(path_of(one), one)
    if file.startswith("spark"):
        eventually(lambda: cluster.api.runs(*names, namespace=space), "driver and executors, as they come")
    else:
        beside = {"apiVersion": "v1", "kind": "Pod", **pod("beside", cpu="1m", stop=0, namespace=space)}
        cluster.api.create(path_of(beside), beside)  # its turn comes after theirs
        eventually(lambda: cluster.api.runs("beside", namespace=space), "the later pod that waits for no other")
        assert not any(cluster.api.runs(name, namespace=space) for name in names)
        pods.append(beside)
    cluster.api.create(path_of(last), last)
    eventually(lambda: cluster.api.runs(*names, last["metadata"]["name"], namespace=space), "all of them")
    for one in objects:
        at = f"{path_of(one)}/{one['metadata']['name']}"
        if one["kind"] == "PodGroup":
            phase = PLACED[one["apiVersion"]]
            eventually(lambda at=at, phase=phase: cluster.api.get(at).get("status", {}).get("phase") == phase)  # type: ignore[misc]
        cluster.api.delete(at)
    for one in pods:
        cluster.api.request("DELETE", f"{path_of(one)}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})
    eventually(lambda: not cluster.api.pods(space), "they are gone")


def example() -> Any:
    """examples/controllers/gangs.py, which is no package."""
    path = Path(__file__).parents[2] / "examples" / "controllers" / "gangs.py"
    spec = importlib.util.spec_from_file_location("gangs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_example_controller_makes_gangs_of_job_sets_and_leader_worker_sets(cluster: Up) -> None:
    """Four pods fit. A JobSet of two Jobs of two runs; then a replica of three has to wait as a whole."""
    gangs = example()
    api = cluster.api
    for one in yaml.safe_load_all((Path(gangs.__file__).parent / "crds.yaml").read_text()):
        api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", one)
    for path in gangs.WATCHED:
        eventually(lambda path=path: "items" in api.get(path))  # type: ignore[misc]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    jobs = {"spec": {"parallelism": 2, "completions": 2, "template": pod}}
    body = {"metadata": {"name": "train"}, "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": jobs}]}}
    sets = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
    api.create(sets, {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **body})
    server = gangs.Server(cluster.kubeconfig)
    assert gangs.reconcile(server) == 3
    assert gangs.reconcile(server) == 0
    eventually(lambda: len(api.pods()) == 4 and api.runs(*api.pods()), "the JobSet runs")
    groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
    assert api.get(f"{groups}/train-w")["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}
    worker = {"spec": {"containers": [container]}}
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 3, "workerTemplate": worker}}
    version = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    path = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
    api.create(path, {**version, "metadata": {"name": "serve"}, "spec": spec})
    assert gangs.reconcile(server) == 4
    replica = ["serve-0", "serve-0-1", "serve-0-2"]

    def waits() -> bool:
        return bool(condition(api.group("serve-0") or {}, "PodGroupInitiallyScheduled").get("status") == "False")

    eventually(waits, "the replica reports that there is no capacity")
    assert not any(api.runs(name) for name in replica)
    api.delete(f"{sets}/train")
    eventually(lambda: api.runs(*replica), "the replica runs where the JobSet was")
    eventually(lambda: not any(name.startswith("train-w-0") for name in api.pods()), "no pod of the JobSet left")
    api.delete(f"{path}/serve")
    eventually(lambda: not api.pods(), "they are gone")
