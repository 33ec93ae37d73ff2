"""Changes as flags on the command line (whatif.md 4): their order, the answer's text and document, exit codes."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

CLUSTER = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "2", pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: "2", pods: "10"}}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-aaaaa
    namespace: default
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]
  spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    return str(file)


def test_changes_stand_above_the_answer(run: Run, cluster: str) -> None:
    ended = run("plan", "-f", cluster, "--cordon", "n2", "--drain", "n1", "--add-nodes", "1", "--like", "n1")
    assert ended.code == 0
    first = [line.split("  ")[1].strip() for line in ended.out.splitlines()[1:4]]
    assert first == ["--cordon n2", "--drain n1", "--add-nodes 1 --like n1"]
    assert "pod default/web-aaaaa  from n1  to n1-1 as web-00000" in ended.out


def test_order_is_that_of_the_command_line_and_not_of_the_options(run: Run, cluster: str) -> None:
    flags = ("--drain", "n1", "--cordon", "n2", "--drain", "n2", "--uncordon", "n1")
    ended = run("plan", "-f", cluster, *flags, "-o", "json")
    document = json.loads(ended.out)
    assert [each["change"] for each in document["changes"]] == [
        "--drain n1",
        "--cordon n2",
        "--drain n2",
        "--uncordon n1",
    ]
    (moved,) = document["displaced"]
    assert (moved["nodeName"], moved["outcome"], moved["to"]) == ("n1", "Moved", "n1")


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--drain", "n1"), 0),
        (("--drain", "n1", "--cordon", "n2"), 1),
        (("--drain", "n3"), 2),
        (("--like", "n1"), 2),
        (("--add-nodes", "1", "--cordon", "n1", "--like", "n1"), 2),
        (("--add-nodes", "1"), 2),
    ],
)
def test_exit_codes(run: Run, cluster: str, flags: tuple[str, ...], code: int) -> None:
    ended = run("plan", "-f", cluster, *flags, "--fail-on-pending")
    assert ended.code == code
    assert (code == 2) == (ended.out == "")
    assert (code == 2) == ended.err.startswith("error: ")


def test_expanded_pods_can_be_changed(run: Run, tmp_path: Path) -> None:
    """The group of a Volcano Job is in no manifest; the flags that a suggestion comes with name it."""
    job = """---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: vj}
spec:
  tasks:
  - {name: w, replicas: 3, template: {spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}}
"""
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER + job)
    document = json.loads(run("plan", "-f", str(file), "-o", "json").out)
    (help,) = (each for each in document["podGroups"][0]["help"] if each["kind"] == "MinCount")
    assert help["flags"] == ["--scale default/podgroup/vj=1"]
    ended = run("plan", "-f", str(file), *help["flags"][0].split(), "-o", "json")
    assert json.loads(ended.out)["podGroups"][0]["outcome"] == "Scheduled"


TEMPLATE = "template: {spec: {containers: [{name: c}]}}"


@pytest.mark.parametrize(
    ("manifest", "scale", "expected"),
    [
        (
            f"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: d}}\nspec: {{{TEMPLATE}}}\n",
            "ds/d=3",
            "error: --scale ds/d=3: daemonset default/d: its kind has no count to set\n",
        ),
        (
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: p}\n"
            f"spec: {{pytorchReplicaSpecs: {{Master: {{{TEMPLATE}}}, Worker: {{{TEMPLATE}}}}}}}\n",
            "pytorchjob/p=3",
            "error: --scale pytorchjob/p=3: pytorchjob default/p has several counts: specify pytorchjob/p/master or "
            "pytorchjob/p/worker\n",
        ),
    ],
)
def test_workload_that_cannot_be_scaled_is_an_error(
    run: Run, cluster: str, tmp_path: Path, manifest: str, scale: str, expected: str
) -> None:
    """whatif.md 4.3, 4.8: only what is not in the input yet is looked for among what its workloads make."""
    (tmp_path / "more.yaml").write_text(manifest)
    ended = run("plan", "-f", cluster, "-f", tmp_path / "more.yaml", "--scale", scale)
    assert (ended.code, ended.out, ended.err) == (2, "", expected)


def test_nodes_of_a_train_job_are_its_count(run: Run, cluster: str, tmp_path: Path) -> None:
    """whatif.md 4.8: its template is in the runtime, its count in itself."""
    jobs = "[{name: node, template: {spec: {template: {spec: {containers: [{name: node}]}}}}}]"
    (tmp_path / "more.yaml").write_text(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {name: torch}\n"
        f"spec: {{template: {{spec: {{replicatedJobs: {jobs}}}}}}}\n---\n"
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\n"
        "spec: {runtimeRef: {name: torch}}\n"
    )
    ended = run("plan", "-f", cluster, "-f", tmp_path / "more.yaml", "--scale", "trainjob/t=3", "-o", "json")
    document = json.loads(ended.out)
    assert document["changes"][0]["sentence"] == "trainjob default/t 1 -> 3"
    assert len(document["pods"]) == 3
