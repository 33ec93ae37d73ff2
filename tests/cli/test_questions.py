"""`queue`, `drain-plan` and `capacity` (whatif.md 6-8) on files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

CLUSTER = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {rack: a}}, status: {allocatable: {cpu: "8", pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, labels: {rack: b}}, status: {allocatable: {cpu: "4", pods: "10"}}}
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: web, namespace: default}
  spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-aaaaa
    namespace: default
    labels: {app: web}
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]
  spec: {nodeName: n2, priority: 5, containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: low, namespace: default}
  spec: {nodeName: n1, priority: 1, containers: [{name: c, resources: {requests: {cpu: "6"}}}]}
"""


def pod(name: str, cpu: str, priority: int = 0, more: str = "") -> str:
    return (
        f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{priority: {priority}, {more}"
        f'containers: [{{name: c, resources: {{requests: {{cpu: "{cpu}"}}}}}}]}}\n'
    )


@pytest.fixture
def ask(run: Run, tmp_path: Path) -> Any:
    """Ask a question of the cluster with these documents: the exit code and the JSON document."""

    def asked(question: str, *more: str, documents: str = "", code: int = 0) -> Any:
        (tmp_path / "cluster.yaml").write_text(CLUSTER + documents)
        name, *arguments = question.split()
        ended = run(name, *arguments, "-f", str(tmp_path / "cluster.yaml"), *more, "-o", "json")
        assert ended.code == code, ended.err
        return json.loads(ended.out) if ended.out else ended.err

    return asked


def test_the_queue_is_in_the_order_of_trying_with_a_word_for_each(ask: Any) -> None:
    documents = (
        pod("ready", "1")
        + pod("preempting", "7", 3)
        + pod("outranked", "4", 1)
        + pod("giant", "99", 2)
        + pod("gated", "1", 9, "schedulingGates: [{name: wait}], ")
    )
    items = ask("queue", documents=documents)["items"]
    assert [(one["position"], one["name"], one["why"], one["evicts"]) for one in items] == [
        (1, "preempting", "Preempting", ["default/low"]),
        (2, "giant", "Resources", []),
        (3, "outranked", "Priority", []),
        (4, "ready", "Ready", []),
        (5, "gated", "Gated", []),
    ]
    assert items[0]["since"] == "2026-01-01T00:00:06Z"


def test_an_empty_queue_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    assert run("queue", "-f", str(tmp_path / "c.yaml")).out == "Nothing waits.\n"


def test_a_drain_plan_begins_with_what_breaks_least(ask: Any) -> None:
    found = ask("drain-plan n1 n2", "--add-nodes", "1", "--like", "n1")
    assert [node["name"] for node in found["nodes"]] == ["n1", "n2"]
    first, second = found["nodes"]
    assert (first["lost"], first["budgets"]) == (1, [])
    assert second["budgets"] == ["default/web"]
    assert [(one["name"], one["to"]) for one in second["displaced"]] == [("web-aaaaa", "n1-1")]


def test_a_drain_plan_can_be_asked_as_an_exit_code(ask: Any) -> None:
    ask("drain-plan n2", "--fail-on-pending", code=1)
    ask("drain-plan n2", "--without", "pdb/web", "--without", "pod/low", "--fail-on-pending")
    assert 'no node "n9"' in ask("drain-plan n9", code=2)


def test_capacity_counts_whole_copies(ask: Any, tmp_path: Path) -> None:
    gang = (
        "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n"
        "spec: {schedulingPolicy: {gang: {minCount: 2}}, priority: 3}\n"
    )
    members = "".join(pod(f"g-{i}", "1", 3, "schedulingGroup: {podGroupName: g}, ") for i in range(2))
    shape = tmp_path / "shape.yaml"
    shape.write_text(gang + members)
    found = ask("capacity", "--shape", str(shape), "--topology", "rack")
    assert (found["shape"], found["podsPerCopy"], found["requests"]) == ("gang default/g", 2, {"cpu": "2"})
    assert (found["now"], found["withPreemption"], found["victims"]) == (1, 4, 1)
    assert found["largestGang"] == 3
    assert [(one["name"], one["pods"]) for one in found["domains"]] == [("a", 2), ("b", 1)]
    after = ask("capacity", "--shape", str(shape), "--without", "pod/low")
    assert after["now"] == 4


def test_capacity_tells_what_is_stranded_and_by_whom(ask: Any, tmp_path: Path) -> None:
    shape = tmp_path / "shape.yaml"
    shape.write_text(pod("big", "2"))
    pools = {one["name"]: one for one in ask("capacity", "--shape", str(shape), "--pool", "rack")["pools"]}
    assert (pools["a"]["free"], pools["a"]["stranded"], pools["a"]["pods"]) == ("2", "0", 1)
    assert (pools["b"]["free"], pools["b"]["stranded"], pools["b"]["by"]) == ("1", "1", ["default/replicaset/web"])


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (["queue"], "error: nothing to plan"),
        (["queue", "-f", "c.yaml", "-w"], "error: -w: only a live cluster changes"),
        (["drain-plan", "-f", "c.yaml"], "Missing argument"),
        (["capacity", "-f", "c.yaml"], "Missing option"),
        (["capacity", "-f", "c.yaml", "--shape", "c.yaml"], "error: --shape: there is no pod in it"),
        (["capacity", "-f", "c.yaml", "--shape", "none.yaml"], "error: none.yaml: No such file"),
    ],
)
def test_bad_questions(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(CLUSTER)
    ended = run(*question)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_the_shape_may_use_the_classes_of_the_cluster(ask: Any, tmp_path: Path) -> None:
    shape = tmp_path / "shape.yaml"
    shape.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: {spec: {restartPolicy: Never, "
        "priorityClassName: top, containers: [{name: c, resources: {requests: {cpu: 2}}}]}}}\n"
    )
    classes = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: top}\nvalue: 7\n"
    found = ask("capacity", "--shape", str(shape), documents=classes)
    assert (found["now"], found["withPreemption"]) == (1, 6)
