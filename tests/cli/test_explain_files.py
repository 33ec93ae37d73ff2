"""`explain` of manifests, owners and everybody (whatif.md 11)."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

CLUSTER = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", pods: "10"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: old}
  spec: {nodeName: n1, priority: 9, containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: sweep}
  spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: train, annotations: {scheduling.reprieve.dev/gang: "true"}}
  spec:
    parallelism: 2
    completions: 2
    template: {spec: {restartPolicy: Never, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    return str(file)


@pytest.mark.parametrize(
    ("asked", "kind", "name"),
    [
        (("pod/sweep-00000",), "Pod", "sweep-00000"),
        (("pod", "sweep-00000"), "Pod", "sweep-00000"),
        (("job/sweep",), "Pod", "sweep-00000"),
        (("job", "train"), "PodGroup", "train"),
        (("pg/train",), "PodGroup", "train"),
    ],
)
def test_an_object_or_its_owner(run: Run, cluster: str, asked: tuple[str, ...], kind: str, name: str) -> None:
    ended = run("explain", *asked, "-f", cluster, "-o", "json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert (found["object"]["kind"], found["object"]["name"]) == (kind, name)
    assert found["computed"]["record"]["result"] == "Unschedulable"


def test_in_words(run: Run, cluster: str) -> None:
    out = run("explain", "job/sweep", "-f", cluster).out
    assert "default/sweep-00000" in out
    assert "1 more cpu free on n1" in out


TREE = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "1", pods: "10"}}}
- apiVersion: scheduling.k8s.io/v1alpha3
  kind: CompositePodGroup
  metadata: {name: root}
  spec: {workloadRef: {workloadName: w, templateName: r}, schedulingPolicy: {gang: {minGroupCount: 1}}}
- apiVersion: scheduling.k8s.io/v1alpha3
  kind: CompositePodGroup
  metadata: {name: mid}
  spec:
    parentCompositePodGroupName: root
    workloadRef: {workloadName: w, templateName: m}
    schedulingPolicy: {gang: {minGroupCount: 1}}
- apiVersion: scheduling.k8s.io/v1beta1
  kind: PodGroup
  metadata: {name: leaf}
  spec:
    parentCompositePodGroupName: mid
    workloadRef: {workloadName: w, templateName: l}
    schedulingPolicy: {gang: {minCount: 1}}
- apiVersion: v1
  kind: Pod
  metadata: {name: p}
  spec: {schedulingGroup: {podGroupName: leaf}, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}
"""


@pytest.mark.parametrize("name", ["root", "mid"])
def test_a_composite_in_files_has_the_pods_of_the_groups_below_it(run: Run, tmp_path: Path, name: str) -> None:
    """whatif.md 11, composite.md 5: it waits, and says why, as on a live cluster."""
    file = tmp_path / "tree.yaml"
    file.write_text(TREE)
    ended = run("explain", "-f", file, f"cpg/{name}")
    assert ended.code == 0
    assert "has no pods" not in ended.out
    assert "worked out on the cluster they describe" in " ".join(ended.out.split())
    assert "Insufficient cpu" in ended.out
    assert ("with the whole tree" in ended.out) == (name == "mid")


def test_everybody_who_waits(run: Run, cluster: str) -> None:
    ended = run("explain", "--all-waiting", "-f", cluster, "-o", "json")
    items = json.loads(ended.out)["items"]
    assert [(one["kind"], one["name"]) for one in items] == [("PodGroup", "train"), ("Pod", "sweep-00000")]
    assert {each["kind"] for each in items[0]["help"]} >= {"Nodes"}
    out = run("explain", "--all-waiting", "-f", cluster).out
    assert out.startswith("Waiting\n")
    assert "would help: " in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "error: what? TYPE NAME or TYPE/NAME, or --all-waiting"),
        (("pod/",), 2, "error: the name is empty"),
        (("job/none", "-f", "@"), 2, "error: no job default/none is in the input"),
        (("deploymint/sweep", "-f", "@"), 2, 'error: no kind "deploymint", did you mean "deployment"?'),
        (("pod/none", "-f", "@"), 1, 'error: pod "none" not found in namespace "default"'),
        (("pod/x", "-f", "@", "--records", "r"), 2, "error: -f explains manifests"),
        (("pod/x", "--all-waiting"), 2, "error: --all-waiting is about everybody"),
        (("--all-waiting",), 2, "error: nothing to plan"),
    ],
)
def test_bad_questions(run: Run, cluster: str, arguments: tuple[str, ...], code: int, message: str) -> None:
    ended = run("explain", *(cluster if each == "@" else each for each in arguments))
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(message)
