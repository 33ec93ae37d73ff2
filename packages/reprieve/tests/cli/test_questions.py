"""`queue`, `drain-plan` and `capacity` (whatif.md 6-8) on files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ended, Run

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


def test_queue_is_in_the_order_of_trying_with_a_word_for_each(ask: Any) -> None:
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
    assert {one["since"] for one in items} == {None}


def test_queue_shows_creation_times_that_are_known(run: Run, tmp_path: Path) -> None:
    """whatif.md 6.5: no time is made up, not of a workload either; the column is there if one has a time.

    What has none comes last (interfaces.md 1.11).
    """
    dated = pod("dated", "99").replace(
        "metadata: {name: dated", "metadata: {creationTimestamp: '2026-05-04T03:02:01Z', name: dated"
    )
    job = (
        "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: j%s}\n"
        "spec: {template: {spec: {containers: [{name: c, resources: {requests: {cpu: '99'}}}]}}}\n"
    )
    later = job % ", creationTimestamp: '2026-06-01T00:00:00Z'"
    for documents, since in (
        (pod("first", "99") + pod("second", "99"), [None, None]),
        (job % "" + dated, ["2026-05-04T03:02:01Z", None]),
        (later + dated, ["2026-05-04T03:02:01Z", "2026-06-01T00:00:00Z"]),
    ):
        (tmp_path / "c.yaml").write_text(CLUSTER + documents)
        asked = ("queue", "-f", str(tmp_path / "c.yaml"), "--no-suggest")
        assert [one["since"] for one in json.loads(run(*asked, "-o", "json").out)["items"]] == since
        text = run(*asked).out
        assert ("since" in text.splitlines()[1]) is any(since)
        assert ("unknown" in text) is (None in since and any(since))
        assert ("in the order of the input" in text) is (since == [None, None])


@pytest.mark.parametrize("command", [("queue",), ("explain", "--all-waiting")])
def test_namespace_without_objects_is_a_warning(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    """whatif.md 6.4: an empty answer may be one to a misspelt name."""
    pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: team}\nspec: {containers: [{name: c}]}\n"
    space = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: empty}\n"
    (tmp_path / "c.yaml").write_text(CLUSTER + pod + space)
    asked = (*command, "-f", str(tmp_path / "c.yaml"), "-n")
    warning = 'warning: no object is in namespace "taem", did you mean "team"?\n'
    assert run(*asked, "taem") == Ended(0, "No pods are pending.\n", warning)
    assert run(*asked, "empty") == Ended(0, "No pods are pending.\n", "")
    assert run(*asked, "team").err == ""


def test_empty_queue_is_reported_as_empty(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    assert run("queue", "-f", str(tmp_path / "c.yaml")).out == "No pods are pending.\n"


def test_drain_plan_begins_with_what_breaks_least(ask: Any) -> None:
    found = ask("drain-plan n1 n2", "--add-nodes", "1", "--like", "n1")
    assert [node["name"] for node in found["nodes"]] == ["n1", "n2"]
    first, second = found["nodes"]
    assert (first["lost"], first["budgets"]) == (1, [])
    assert second["budgets"] == ["default/web"]
    assert [(one["name"], one["to"]) for one in second["displaced"]] == [("web-aaaaa", "n1-1")]


@pytest.mark.parametrize(
    ("tolerates", "verdict", "where"),
    [
        ("", "Every pod finds another place.", "from n2  to n1"),
        (
            "tolerations: [{operator: Exists}], nodeSelector: {rack: b}, ",
            "Every pod finds a place, some only on the node they were on.",
            "from n2  back to n2",
        ),
    ],
)
def test_pod_that_tolerates_the_cordon_may_come_back(
    run: Run, tmp_path: Path, tolerates: str, verdict: str, where: str
) -> None:
    """whatif.md 7.2: the drain evicts it, and nothing keeps its successor from the node."""
    owner = "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: u, controller: true}]"
    runs = pod("r-aaaaa", "1", 5, f"nodeName: n2, {tolerates}").replace(
        "{name: r-aaaaa}", f"{{name: r-aaaaa, {owner}}}"
    )
    (tmp_path / "c.yaml").write_text(CLUSTER + runs)
    flags = ("--without", "pod/web-aaaaa", "--fail-on-pending")
    ended = run("drain-plan", "n2", "-f", tmp_path / "c.yaml", *flags)
    assert ended.code == 0, ended.out
    assert f"{verdict}\n" in ended.out
    assert f"{where} as r-00000\n" in ended.out


def test_drain_plan_can_be_read_from_the_exit_code(ask: Any) -> None:
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


def test_capacity_shows_stranded_resources_and_their_owners(ask: Any, tmp_path: Path) -> None:
    shape = tmp_path / "shape.yaml"
    shape.write_text(pod("big", "2"))
    pools = {one["name"]: one for one in ask("capacity", "--shape", str(shape), "--pool", "rack")["pools"]}
    assert (pools["a"]["free"], pools["a"]["stranded"], pools["a"]["pods"]) == ("2", "0", 1)
    assert (pools["b"]["free"], pools["b"]["stranded"], pools["b"]["by"]) == ("1", "1", ["default/replicaset/web"])


def test_tree_stands_in_the_queue_with_its_groups(ask: Any) -> None:
    """whatif.md 6.2: the result of the tree's attempt is shown for each of its groups."""
    tree = (
        "---\napiVersion: scheduling.k8s.io/v1alpha3\nkind: CompositePodGroup\nmetadata: {name: tree}\n"
        "spec: {workloadRef: {workloadName: w, templateName: t}, schedulingPolicy: {gang: {minGroupCount: 2}}}\n"
    )
    groups = "".join(
        f"---\napiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {{name: {name}}}\n"
        f"spec: {{parentCompositePodGroupName: tree, workloadRef: {{workloadName: w, templateName: {name}}}, "
        "schedulingPolicy: {gang: {minCount: 1}}}\n"
        for name in ("left", "right")
    )

    def of(cpu: str) -> list[tuple[str, str]]:
        members = [
            pod(f"{name}-0", cpu, 0, f"schedulingGroup: {{podGroupName: {name}}}, ") for name in ("left", "right")
        ]
        items = ask("queue", documents=tree + groups + "".join(members))["items"]
        return sorted((one["name"], one["why"]) for one in items)

    assert of("1") == [("left", "Ready"), ("right", "Ready")]
    assert of("50") == [("left", "Resources"), ("right", "Resources")]


def test_capacity_marks_counts_that_stopped_at_the_limit(
    ask: Any, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """whatif.md 8.5: a figure that is as many as were tried is no answer to how many fit."""
    from reprieve.questions import capacity

    monkeypatch.setattr(capacity, "MOST_COPIES", 2)
    monkeypatch.setattr(capacity, "MOST_SINGLES", 3)
    shape = tmp_path / "shape.yaml"
    shape.write_text(pod("small", "1m"))
    found = ask("capacity", "--shape", str(shape))
    assert (found["now"], found["largestGang"]) == (2, 3)
    assert found["atLeast"] == ["now", "withPreemption", "largestGang"]
    assert {one["stranded"] for one in found["pools"]} == {None}
    text = run("capacity", "-f", str(tmp_path / "cluster.yaml"), "--shape", str(shape)).out
    assert text.startswith("2 or more of pod default/small fit now.\n")
    assert "The largest gang of such pods: 3 or more.\n" in text
    shape.write_text(pod("large", "2"))
    assert ask("capacity", "--shape", str(shape))["atLeast"] == []


def test_node_with_less_than_nothing_takes_no_room_from_others(ask: Any, tmp_path: Path) -> None:
    shape = tmp_path / "shape.yaml"
    shape.write_text(pod("one", "1"))
    before = ask("capacity", "--shape", str(shape))["now"]
    over = pod("over", "3", 9, "nodeName: n2, ")
    assert ask("capacity", "--shape", str(shape), documents=over)["now"] == before - 1


@pytest.mark.parametrize("question", ["queue", "drain-plan n1", "capacity --shape pod.yaml"])
def test_changes_and_kinds_not_read_are_reported_with_every_answer(
    ask: Any, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """whatif.md 4.2: each change is repeated on top of the answer, in the document as `changes`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(pod("one", "1"))
    secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
    found = ask(question, "--cordon", "n2", documents=secret)
    assert [one["change"] for one in found["changes"]] == ["--cordon n2"]
    ended = run(*question.split(), "-f", "cluster.yaml", "--cordon", "n2")
    assert ended.out.startswith("Changes\n  --cordon n2  1 node: no new pods are placed there\n\n")
    assert ended.err == "warning: 1 × v1/Secret: not read\n"


def test_queue_shows_what_would_help(run: Run, ask: Any, tmp_path: Path) -> None:
    """whatif.md 5.6: as in a plan of the same input; nothing for placed pods."""
    documents = pod("ready", "1") + pod("huge", "7", 1)
    items = {item["name"]: item for item in ask("queue", documents=documents)["items"]}
    planned = {one["name"]: one for one in ask("plan", documents=documents)["pods"]}
    assert items["ready"]["help"] == []
    assert items["huge"]["help"] == planned["huge"]["help"] != []
    assert all(item["help"] == [] for item in ask("queue", "--no-suggest", documents=documents)["items"])
    out = run("queue", "-f", tmp_path / "cluster.yaml").out
    assert f"      would help: {items['huge']['help'][0]['sentence']}\n" in out


def test_queue_tries_no_suggestions_in_a_large_cluster(
    run: Run, ask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """whatif.md 6.4: a pod that a change would help has a suggestion."""
    from reprieve.cli import queue

    monkeypatch.setattr(queue, "MOST_OBJECTS", 3)
    (item,) = ask("queue", documents=pod("huge", "7", 1))["items"]
    assert item["help"] == []
    ended = run("queue", "-f", tmp_path / "cluster.yaml")
    expected = "suggestions skipped: more than 3 objects. Run `reprieve explain` to see what would help.\n"
    assert ended.err == expected
    assert "tried" not in run("queue", "-f", tmp_path / "cluster.yaml", "--no-suggest").err
    ask("queue", documents=pod("ready", "1"))
    assert "tried" not in run("queue", "-f", tmp_path / "cluster.yaml").err


def test_queue_of_one_namespace_keeps_the_positions(ask: Any) -> None:
    other = pod("theirs", "1", 9).replace("{name: theirs}", "{name: theirs, namespace: team}")
    documents = pod("mine", "1") + other
    items = ask("queue", "-n", "default", documents=documents)["items"]
    assert [(item["position"], item["name"]) for item in items] == [(2, "mine")]
    assert len(ask("queue", "-A", documents=documents)["items"]) == 2
    assert "cannot be combined" in ask("queue", "-A", "-n", "team", documents=documents, code=2)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (["queue"], "error: nothing to plan"),
        (["queue", "-f", "c.yaml", "--without", "node/n1"], "error: --without node/n1: --remove-node n1 removes"),
        (
            ["capacity", "-f", "c.yaml", "--shape", "pod.yaml", "--topology", "rak"],
            'error: --topology: no node has the label "rak", did you mean "rack"?',
        ),
        (
            ["capacity", "-f", "c.yaml", "--shape", "pod.yaml", "--pool", "x"],
            'error: --pool: no node has the label "x"',
        ),
        (["queue", "-f", "c.yaml", "-w"], "error: -w needs a live cluster"),
        (["drain-plan", "-f", "c.yaml"], "Missing argument"),
        (["capacity", "-f", "c.yaml", "--like", "n1", "--topology", "rack"], "--topology requires --shape"),
        (["capacity", "-f", "c.yaml", "--like", "n1", "--pool", "rack"], "--pool requires --shape"),
        (["capacity", "-f", "c.yaml"], "expected one of --shape FILE (what to fit) and --like NODE"),
        (["capacity", "-f", "c.yaml", "--shape", "c.yaml"], "error: --shape: the manifests have no pending pods"),
        (["capacity", "-f", "c.yaml", "--shape", "none.yaml"], "error: none.yaml: No such file"),
    ],
)
def test_bad_questions(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(CLUSTER)
    (tmp_path / "pod.yaml").write_text(pod("one", "1"))
    ended = run(*question)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_shape_may_use_the_classes_of_the_cluster(ask: Any, tmp_path: Path) -> None:
    shape = tmp_path / "shape.yaml"
    shape.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: {spec: {restartPolicy: Never, "
        "priorityClassName: top, containers: [{name: c, resources: {requests: {cpu: 2}}}]}}}\n"
    )
    classes = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: top}\nvalue: 7\n"
    found = ask("capacity", "--shape", str(shape), documents=classes)
    assert (found["now"], found["withPreemption"]) == (1, 6)


def test_shape_may_be_a_run_of_a_cron_job(ask: Any, tmp_path: Path) -> None:
    shape = tmp_path / "shape.yaml"
    shape.write_text(
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec: {schedule: '0 1 * * *', "
        "jobTemplate: {spec: {template: {spec: {restartPolicy: Never, "
        "containers: [{name: c, resources: {requests: {cpu: 2}}}]}}}}}\n"
    )
    assert ask("capacity", "--shape", str(shape), "--run", "cronjob/nightly")["now"] == 1
    assert "no CronJob default/m is in the input" in ask(
        "capacity", "--shape", str(shape), "--run", "cronjob/m", code=2
    )


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (("-f", "-", "--shape", "pod.yaml"), CLUSTER, 0),
        (("-f", "c.yaml", "--shape", "-"), pod("one", "1"), 0),
        (("-f", "-", "--shape", "-"), CLUSTER, 2),
        (("-f", "c.yaml", "--shape", "-", "--shape", "-"), pod("one", "1"), 2),
    ],
)
def test_standard_input_is_the_cluster_or_the_shape(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], stdin: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(CLUSTER)
    (tmp_path / "pod.yaml").write_text(pod("one", "1"))
    ended = run("capacity", *arguments, stdin=stdin)
    assert (ended.code, bool(ended.out)) == (code, code == 0)
    assert ended.err == ("error: -: standard input can be read only once\n" if code else "")


def test_suggestions_are_tried_with_as_many_objects_as_may_be(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """whatif.md 6.4: in larger clusters it is not."""
    from reprieve.cli import queue

    assert queue.MOST_OBJECTS == 2_500
    monkeypatch.setattr(queue, "MOST_OBJECTS", 6)  # two nodes, a budget, two pods that run and one that waits
    assert ask("queue", documents=pod("huge", "7", 1))["items"][0]["help"]
    monkeypatch.setattr(queue, "MOST_OBJECTS", 5)
    assert not ask("queue", documents=pod("huge", "7", 1))["items"][0]["help"]


TWICE = """---
apiVersion: reprieve.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  steps:
  - create: &pod [{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}]
  - create: *pod
"""


@pytest.mark.parametrize("question", ["plan", "plan --compare-to pod.yaml", "queue", "explain --all-waiting"])
def test_input_that_cannot_be_planned_is_an_error_of_every_question(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """One line that names the place, and no half answer."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(pod("one", "1"))
    (tmp_path / "c.yaml").write_text(CLUSTER + TWICE)
    ended = run(*question.split(), "-f", "c.yaml")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith("error: c.yaml: document 2 ")
    assert ended.err.endswith("Pod default/p already exists at that time\n")


OWNED = "ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: {0}, uid: {0}, controller: true}}]"


def test_drain_plan_reports_what_it_preempts(run: Run, tmp_path: Path) -> None:
    """whatif.md 7.3, 7.5: in the text and the document, and by exit code."""
    node = "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {}}}\nstatus: {{allocatable: {{cpu: 4, pods: 9}}}}\n"
    documents = node.format("n1") + node.format("n2")
    for name, on, priority in (("top-aaaaa", "n1", 9), ("low-bbbbb", "n2", 1)):
        owner = OWNED.format(name.partition("-")[0])
        documents += pod(name, "3", priority, f"nodeName: {on}, ").replace(
            f"{{name: {name}}}", f"{{name: {name}, {owner}}}"
        )
    (tmp_path / "c.yaml").write_text(documents)
    asked = ("drain-plan", "n1", "-f", tmp_path / "c.yaml")
    ended = run(*asked)
    assert ended.code == 0, ended.err
    assert "Not every pod finds another place: 1 pod stays pending." in ended.out
    assert "1 pod is preempted to free capacity for others." in ended.out
    assert "pod default/low-bbbbb  from n2  pending as low-00000" in ended.out
    assert "preempted for pod default/top-00000 (priority 9)" in ended.out
    assert "why: if it stayed, default/top-00000 would not fit on n2: Insufficient cpu (2 short)" in ended.out
    assert "1 Insufficient cpu" in ended.out
    [step] = json.loads(run(*asked, "-o", "json").out)["nodes"]
    assert [(one["name"], one["outcome"], one["preemptor"]["name"]) for one in step["evicted"]] == [
        ("low-bbbbb", "Waiting", "top-00000")
    ]
    assert run(*asked, "--fail-on-preemption").code == 1
    assert run(*asked, "--fail-on-pending").code == 1
    assert run(*asked, "--without", "pod/low-bbbbb", "--fail-on-preemption", "--fail-on-pending").code == 0
