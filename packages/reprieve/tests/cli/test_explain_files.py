"""`explain` of manifests, owners and all pending workloads (whatif.md 11)."""

import json
import re
from pathlib import Path

import pytest

from reprieve.cli.explain_files import of_namespace, waiting_document
from reprieve.client.leaves import request_state
from reprieve.client.pseudonyms import Names
from reprieve.decisions.outcomes import Help
from reprieve.simulation.report import Account, Answer, CompositeOutcome, Plan, PodGroupOutcome, PodOutcome, Stats
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
def test_object_or_its_owner(run: Run, cluster: str, asked: tuple[str, ...], kind: str, name: str) -> None:
    ended = run("explain", *asked, "-f", cluster, "-o", "json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert (found["object"]["kind"], found["object"]["name"]) == (kind, name)
    assert found["computed"]["record"]["result"] == "Unschedulable"


def test_in_words(run: Run, cluster: str) -> None:
    out = run("explain", "job/sweep", "-f", cluster).out
    assert "default/sweep-00000" in out
    assert "Free 1 more cpu on n1" in out


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
def test_composite_in_files_has_the_pods_of_the_groups_below_it(run: Run, tmp_path: Path, name: str) -> None:
    """whatif.md 11, composite.md 5: it waits, and says why, as on a live cluster."""
    file = tmp_path / "tree.yaml"
    file.write_text(TREE)
    ended = run("explain", "-f", file, f"cpg/{name}")
    assert ended.code == 0
    assert "has no pods" not in ended.out
    assert "computed on the cluster they describe" in " ".join(ended.out.split())
    assert "Insufficient cpu" in ended.out
    assert ("with the whole tree" in ended.out) == (name == "mid")


SPACED = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}}}
"""


def test_suggestion_names_the_namespace_and_can_be_asked_as_it_stands(run: Run, tmp_path: Path) -> None:
    """whatif.md 11: as NAMESPACE/TYPE/NAME, and as answers name a thing."""
    file = tmp_path / "job.yaml"
    file.write_text(SPACED)
    for asked in ("job/train", "job/trian"):
        refused = run("explain", asked, "-f", file)
        assert refused.code == 1
        assert refused.err.endswith('did you mean "ml/job/train"?\n')
    told = run("explain", "job/train", "-n", "ml", "-f", file)
    assert told.code == 0
    for arguments in (("ml/job/train",), ("job", "ml/train"), ("ml/job/train", "-n", "ml")):
        assert run("explain", *arguments, "-f", file) == told


def test_all_waiting_lists_groups_and_pods_that_wait(run: Run, cluster: str) -> None:
    """whatif.md 11.2."""
    ended = run("explain", "--all-waiting", "-f", cluster, "-o", "json")
    items = json.loads(ended.out)["items"]
    assert [(one["kind"], one["name"]) for one in items] == [("PodGroup", "train"), ("Pod", "sweep-00000")]
    assert {each["kind"] for each in items[0]["help"]} >= {"Nodes"}
    out = run("explain", "--all-waiting", "-f", cluster).out
    assert out.startswith("Pending\n")
    assert "would help: " in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "error: name the object to explain: TYPE NAME or TYPE/NAME, or --all-waiting"),
        (("pod/",), 2, "error: the name is empty"),
        (("pod",), 2, "error: 'pod': expected TYPE NAME or TYPE/NAME, or --all-waiting"),
        (("job/none", "-f", "@"), 1, "error: no job default/none is in the input"),
        (
            ("elsewhere/job/sweep", "-f", "@"),
            1,
            'error: no job elsewhere/sweep is in the input, did you mean "job/sweep"?',
        ),
        (("a/b/c/d", "-f", "@"), 2, "error: a/b/c/d: expected TYPE NAME, TYPE/NAME or NAMESPACE/TYPE/NAME"),
        (("job//x", "-f", "@"), 2, "error: job//x: expected"),
        (("a/job/x", "-n", "b", "-f", "@"), 2, "error: a/job/x: the namespace differs from -n b"),
        (("deploymint/sweep", "-f", "@"), 2, 'error: no kind "deploymint", did you mean "deployment"?'),
        (("pod/none", "-f", "@"), 1, 'error: pod "none" not found in namespace "default"'),
        (("pod/x", "-f", "@", "--records", "r"), 2, "error: --records cannot be combined with -f"),
        (("pod/x", "--all-waiting"), 2, "error: --all-waiting cannot be combined with TYPE or NAME"),
        (("--all-waiting",), 2, "error: nothing to plan"),
    ],
)
def test_bad_questions(run: Run, cluster: str, arguments: tuple[str, ...], code: int, message: str) -> None:
    """interfaces.md 1.9: 1 if the object does not exist, 2 for bad usage."""
    ended = run("explain", *(cluster if each == "@" else each for each in arguments))
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(message)


# -- what would help -------------------------------------------------------------------------------


def test_suggestions_for_one_pod_are_tried_and_in_the_document(run: Run, cluster: str) -> None:
    """whatif.md 5.5: as in `plan`, with the flags that make the change; `--no-suggest` tries nothing."""
    found = json.loads(run("explain", "job/sweep", "-f", cluster, "-o", "json").out)
    kinds = {each["kind"]: each for each in found["help"]}
    assert kinds["Priority"]["flags"] == ["--set-priority default/pod/sweep-00000=10"]
    assert found["computed"]["priorityThatHelps"] == kinds["Priority"]["priority"] == 10
    assert found["whatWouldHelp"] == [each["sentence"] for each in found["help"]]
    planned = json.loads(run("plan", "-f", cluster, "-o", "json").out)
    assert [one["help"] for one in planned["pods"] if one["name"] == "sweep-00000"] == [found["help"]]
    silent = json.loads(run("explain", "job/sweep", "-f", cluster, "-o", "json", "--no-suggest").out)
    assert (silent["help"], silent["computed"]["priorityThatHelps"]) == ([], None)


def test_note_says_that_nothing_was_tried_in_a_large_cluster(
    run: Run, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """whatif.md 11.1."""
    from reprieve.cli import whatif

    monkeypatch.setattr(whatif, "MOST_OBJECTS", 2)
    ended = run("explain", "job/sweep", "-f", cluster, "-o", "json")
    assert json.loads(ended.out)["computed"]["priorityThatHelps"] is None
    assert "in a cluster of more than 2 objects suggestions are not tried\n" in ended.err
    assert "tried" not in run("explain", "job/sweep", "-f", cluster, "--no-suggest").err


def test_priority_of_a_tree_is_not_tried_in_a_large_cluster(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """whatif.md 11.1: nothing else is tried of a tree, and that in smaller clusters than what helps others."""
    from reprieve.cli import whatif

    file = tmp_path / "tree.yaml"
    file.write_text(TREE)
    monkeypatch.setattr(whatif, "MOST_OF_PRIORITIES", 2)
    ended = run("explain", "cpg/root", "-f", str(file), "-o", "json")
    assert json.loads(ended.out)["computed"]["priorityThatHelps"] is None
    assert "in a cluster of more than 2 objects suggestions are not tried\n" in ended.err


def test_tree_of_a_redacted_name_keeps_its_priority(run: Run, tmp_path: Path) -> None:
    """whatif.md 11.1: the tried priority is that of the tree, its groups and their pods, and of no other object."""
    others = """- apiVersion: v1
  kind: Pod
  metadata: {name: root}
  spec: {nodeName: n1, priority: 5, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
- apiVersion: scheduling.k8s.io/v1alpha3
  kind: CompositePodGroup
  metadata: {name: other}
  spec: {workloadRef: {workloadName: w, templateName: r}, schedulingPolicy: {gang: {minGroupCount: 1}}}
"""
    file = tmp_path / "tree.yaml"
    file.write_text(TREE.replace('cpu: "4"', 'cpu: "1"') + others)
    found = json.loads(run("explain", "cpg/root", "-f", str(file), "-o", "json").out)
    assert found["computed"]["priorityThatHelps"] == 6


def test_owner_is_shown_with_how_many_of_its_pods_wait(run: Run, cluster: str) -> None:
    ended = run("explain", "job/train", "-f", cluster)
    assert ended.out.startswith(
        "job default/train has 2 pods: 0 on nodes, 2 pending.\n\npodgroup default/train is pending"
    )
    owner = json.loads(run("explain", "job/train", "-f", cluster, "-o", "json").out)["owner"]
    assert owner == {"kind": "Job", "namespace": "default", "name": "train", "pods": 2, "waiting": 2}


# -- the same input as a plan takes ----------------------------------------------------------------

SWEEPS = """apiVersion: example.com/v1
kind: Sweep
metadata: {name: s}
spec: {count: 2, template: {spec: {containers: [{name: c, resources: {requests: {cpu: "9"}}}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 1 * * *"
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, resources: {requests: {cpu: "9"}}}]}}}
"""
KINDS = """apiVersion: reprieve.dev/v1alpha1
kind: WorkloadKinds
workloadKinds:
- {group: example.com, kind: Sweep, sets: [{template: spec.template, replicas: spec.count, name: "{name}-{index}"}]}
"""


@pytest.fixture
def sweeps(tmp_path: Path, cluster: str) -> tuple[str, ...]:
    (tmp_path / "sweeps.yaml").write_text(SWEEPS)
    (tmp_path / "kinds.yaml").write_text(KINDS)
    return ("-f", cluster, "-f", str(tmp_path / "sweeps.yaml"))


def test_kind_of_a_row_of_ones_own(run: Run, tmp_path: Path, sweeps: tuple[str, ...]) -> None:
    """whatif.md 3.1: what `plan` expands `explain` does."""
    kinds = ("--workload-kinds", str(tmp_path / "kinds.yaml"))
    assert "sweep default/s has 2 pods: 0 on nodes, 2 pending." in run("explain", "sweep/s", *sweeps, *kinds).out
    refused = run("explain", "--all-waiting", *sweeps)
    assert (refused.code, refused.out) == (2, "")
    assert "Sweep" in refused.err
    lenient = run("explain", "--all-waiting", *sweeps, "--lenient")
    assert lenient.code == 0
    assert "Sweep" in lenient.err


ARRIVING = f"""---
apiVersion: reprieve.dev/v1alpha1
kind: Scenario
metadata: {{name: later}}
spec:
  steps:
  - create:
    - {SWEEPS.partition("---")[0].strip().replace(chr(10), chr(10) + "      ")}
"""
"""A sweep that comes while the plan goes on."""


@pytest.mark.parametrize("question", ["plan", "plan --compare-to more.yaml", "explain --all-waiting", "queue"])
def test_later_objects_have_the_kinds_of_ones_own(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str, question: str
) -> None:
    """whatif.md 1.11, 3.1: in every answer of which a plan is a part."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "later.yaml").write_text(ARRIVING)
    (tmp_path / "kinds.yaml").write_text(KINDS)
    (tmp_path / "more.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: more}\n")
    asked = (*question.split(), "-f", cluster, "-f", "later.yaml", "--workload-kinds", "kinds.yaml")
    ended = run(*asked)
    assert ended.code == 0, ended.err
    if question != "queue":  # a pod that comes later does not wait yet
        assert "s-0" in ended.out


def test_run_of_a_cron_job(run: Run, sweeps: tuple[str, ...]) -> None:
    ended = run("explain", "cronjob/nightly", *sweeps, "--lenient", "--run", "cronjob/nightly")
    assert ended.code == 0
    assert re.match(r"pod default/nightly-\d+-00000 is pending", ended.out)


def test_question_to_the_cluster_as_it_would_be(run: Run, cluster: str) -> None:
    """whatif.md 4.2: the changes stand on top, and in the document."""
    flags = ("--add-nodes", "1", "--like", "n1")
    ended = run("explain", "job/sweep", "-f", cluster, *flags)
    assert ended.out.startswith("Changes\n  --add-nodes 1 --like n1  1 node like n1: n1-1\n")
    assert "It fits now" in ended.out
    (made,) = json.loads(run("explain", "job/sweep", "-f", cluster, *flags, "-o", "json").out)["changes"]
    assert made["change"] == "--add-nodes 1 --like n1"
    pending = run("explain", "--all-waiting", "-f", cluster, *flags)
    assert pending.out.startswith("Changes\n")


def test_pending_tree_is_among_the_pending_workloads(run: Run, tmp_path: Path) -> None:
    """It is what is tried: its groups do not wait by themselves (composite.md 3)."""
    file = tmp_path / "tree.yaml"
    file.write_text(TREE)
    items = json.loads(run("explain", "--all-waiting", "-f", file, "-o", "json").out)["items"]
    assert [(one["kind"], one["name"], one["parent"]) for one in items] == [
        ("CompositePodGroup", "root", None),
        ("CompositePodGroup", "mid", "root"),
        ("PodGroup", "leaf", "mid"),
    ]
    assert "compositepodgroup default/root" in run("explain", "--all-waiting", "-f", file).out


OWNERS = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "1", pods: "10"}}}
- apiVersion: leaderworkerset.x-k8s.io/v1
  kind: LeaderWorkerSet
  metadata: {name: serve}
  spec:
    leaderWorkerTemplate:
      size: 2
      workerTemplate: &t {spec: {containers: [{name: c, resources: {requests: {cpu: "4"}}}]}}
- apiVersion: jobset.x-k8s.io/v1alpha2
  kind: JobSet
  metadata: {name: stages}
  spec: {replicatedJobs: [{name: a, replicas: 2, template: {spec: {template: {spec: {restartPolicy: Never, \
containers: [{name: c, resources: {requests: {cpu: "4"}}}]}}}}}]}
- apiVersion: batch.volcano.sh/v1alpha1
  kind: Job
  metadata: {name: parts}
  spec:
    minAvailable: 2
    tasks: [{name: ps, replicas: 1, template: *t}, {name: w, replicas: 3, minAvailable: 1, template: *t}]
- apiVersion: apps/v1
  kind: StatefulSet
  metadata: {name: db}
  spec: {replicas: 2, serviceName: db, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, \
spec: {containers: [{name: c, resources: {requests: {cpu: "4"}}}]}}}
"""


@pytest.mark.parametrize(
    ("owner", "pods", "expected"),
    [
        ("leaderworkerset/serve", 2, "pod default/serve-0"),
        ("jobset/stages", 2, "pod default/stages-a-0-0-00000"),
        ("vcjob/parts", 4, "podgroup default/parts"),
        ("statefulset/db", 2, "pod default/db-0"),
    ],
)
def test_owners_of_owners(run: Run, tmp_path: Path, owner: str, pods: int, expected: str) -> None:
    """Whatever stands between an object and its pods, and is nowhere in the input; each says why it waits."""
    (tmp_path / "owners.yaml").write_text(OWNERS)
    ended = run("explain", owner, "-f", tmp_path / "owners.yaml")
    assert f" has {pods} pods: 0 on nodes, {pods} pending.\n\n{expected} is pending" in ended.out
    assert "Insufficient cpu" in ended.out


# -- redacted --------------------------------------------------------------------------------------

SHARED = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: "4", pods: "10"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: payroll, namespace: secretive}
  spec: {nodeName: n1, priority: 3, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: takeover, namespace: secretive}
  spec: {nodeName: n2, priority: 9, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: layoffs, namespace: secretive}
  spec: {priority: 1, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}
- apiVersion: scheduling.k8s.io/v1beta1
  kind: PodGroup
  metadata: {name: plans, namespace: secretive}
  spec: {priority: 2, schedulingPolicy: {gang: {minCount: 1}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: merger, namespace: secretive}
  spec:
    priority: 2
    schedulingGroup: {podGroupName: plans}
    containers: [{name: c, resources: {requests: {cpu: "4"}}}]
- apiVersion: v1
  kind: Pod
  metadata: {name: mine, namespace: team}
  spec: {priority: PRIORITY, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}
"""
SECRETS = ("payroll", "takeover", "layoffs", "plans", "merger", "secretive")


@pytest.mark.parametrize("output", ["text", "json", "yaml"])
@pytest.mark.parametrize(
    ("asked", "priority", "expected"),
    [
        (("pod/mine", "-n", "team"), 5, "a pod of priority 3"),  # it would evict
        (("pod/mine", "-n", "team"), 0, "pod/mine"),  # it waits; others might end, or have a lower priority
        (("--all-waiting", "-n", "team"), 0, "mine"),
        (("--all-waiting",), 0, ""),
    ],
)
def test_other_peoples_objects_by_kind_and_priority_alone(
    run: Run, tmp_path: Path, asked: tuple[str, ...], priority: int, expected: str, output: str
) -> None:
    """whatif.md 11.3, in the answer and on stderr; what is one's own is named as ever."""
    file = tmp_path / "shared.yaml"
    file.write_text(SHARED.replace("PRIORITY", str(priority)))
    named = run("explain", *asked, "-f", file, "-o", output)
    assert any(secret in named.out for secret in SECRETS) or asked[1:] == ("-n", "team")
    ended = run("explain", *asked, "-f", file, "--redact", "-o", output)
    assert ended.code == 0
    assert [secret for secret in SECRETS if secret in ended.out + ended.err] == []
    assert expected in ended.out


def test_waiting_pods_of_others_are_counted(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "shared.yaml"
    file.write_text(SHARED.replace("PRIORITY", "0"))
    out = run("explain", "--all-waiting", "--redact", "-n", "default", "-f", file).out
    assert out.splitlines() == [
        "Pending in other namespaces",
        "  1 podgroup  of priority 2  Unschedulable",
        "  1 pod       of priority 1  Unschedulable",
        "  1 pod       of priority 0  Unschedulable",
    ]


def plan_of_all() -> Plan:
    """Two namespaces, each with a tree, groups and pods, in an order that is not the one of the answer."""
    tip = (Help(kind="Node", sentence="A node."),)

    def tree(namespace: str, name: str, outcome: str, parent: str | None = None) -> CompositeOutcome:
        return CompositeOutcome(
            namespace=namespace,
            name=name,
            parent=parent,
            priority=3,
            min_group_count=1,
            groups=("g",),
            scheduled=0,
            outcome=outcome,
        )

    def group(namespace: str, name: str, outcome: str) -> PodGroupOutcome:
        return PodGroupOutcome(
            namespace=namespace,
            name=name,
            priority=2,
            min_count=1,
            scheduled=0,
            outcome=outcome,
            parent="root",
            reason="Unschedulable",
            message="no room",
            help=tip,
        )

    def one(namespace: str, name: str, node: str | None = None, of: str | None = None) -> PodOutcome:
        outcome = "Scheduled" if node else "Unschedulable"
        return PodOutcome(
            namespace=namespace, name=name, pod_group=of, priority=1, outcome=outcome, node_name=node, help=tip
        )

    return Plan(
        pods=(one("a", "alone"), one("a", "placed", node="n1"), one("a", "member", of="g"), one("b", "alone")),
        pod_groups=(group("a", "g", "Unschedulable"), group("a", "done", "Scheduled"), group("b", "g", "Gated")),
        composite_pod_groups=(
            tree("b", "root", "Gated"),
            tree("a", "a-child", "Unschedulable", "root"),
            tree("a", "root", "Unschedulable"),
            tree("a", "done", "Scheduled"),
        ),
        stats=Stats(seconds=0, virtual_seconds=0, attempts=1),
    )


def test_pending_workloads_are_listed_trees_before_groups_before_pods() -> None:
    """whatif.md 11: roots before what is below them; placed workloads and pods of groups are left out."""
    account = Account(nodes=1, running_before=0, running_after=0)
    found = waiting_document(Answer(plan_of_all(), account)).items
    assert [(each.kind, each.namespace, each.name, each.parent) for each in found] == [
        ("CompositePodGroup", "a", "root", None),
        ("CompositePodGroup", "a", "a-child", "root"),
        ("CompositePodGroup", "b", "root", None),
        ("PodGroup", "a", "g", "root"),
        ("PodGroup", "b", "g", "root"),
        ("Pod", "a", "alone", None),
        ("Pod", "b", "alone", None),
    ]
    assert [len(each.help) for each in found] == [0, 0, 0, 1, 1, 1, 1]
    assert [each.priority for each in found] == [3, 3, 3, 2, 2, 1, 1]
    assert (found[3].outcome, found[3].reason, found[3].message) == ("Unschedulable", "Unschedulable", "no room")


@pytest.mark.parametrize(("namespace", "sizes"), [("a", (3, 2, 3)), ("b", (1, 1, 1)), ("c", (0, 0, 0))])
def test_namespace_has_what_is_in_it_of_every_sort(namespace: str, sizes: tuple[int, int, int]) -> None:
    found = of_namespace(plan_of_all(), namespace)
    assert (len(found.pods), len(found.pod_groups), len(found.composite_pod_groups)) == sizes
    there = {each.namespace for each in found.pods} | {each.namespace for each in found.pod_groups}
    assert there | {each.namespace for each in found.composite_pod_groups} <= {namespace}


def test_member_of_a_gang_has_the_help_of_its_gang(run: Run, cluster: str) -> None:
    """One pod of it with another priority would be no help: what is tried is tried of the gang (whatif.md 11.1)."""
    of_pod, of_gang = (
        json.loads(run("explain", asked, "-f", cluster, "-o", "json").out) for asked in ("pod/train-00000", "pg/train")
    )
    assert of_pod["help"] == of_gang["help"] != []
    assert of_pod["computed"]["record"]["entity"]["kind"] == "PodGroup"
    assert of_pod["object"]["podGroup"] == "train"
    assert (of_gang["object"]["pods"], of_gang["object"]["scheduled"]) == (2, 0)
    assert of_pod["computed"]["priorityThatHelps"] == of_gang["computed"]["priorityThatHelps"]


def test_tree_and_a_group_of_one_name_are_apart(run: Run, tmp_path: Path) -> None:
    """Each has its own pods and its own state."""
    file = tmp_path / "tree.yaml"
    namesake = """---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: root}
spec: {schedulingPolicy: {gang: {minCount: 1}}}
"""
    file.write_text(TREE + namesake)
    tree = json.loads(run("explain", "cpg/root", "-f", str(file), "-o", "json").out)
    group = json.loads(run("explain", "pg/root", "-f", str(file), "-o", "json").out)
    assert tree["object"]["pods"] > 0
    assert group["object"]["pods"] == 0
    assert (tree["object"]["kind"], group["object"]["kind"]) == ("CompositePodGroup", "PodGroup")


REQUESTED = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", pods: "10"}}}
- apiVersion: scheduling.k8s.io/v1
  kind: PodGroup
  metadata: {name: train}
  spec: {schedulingPolicy: {gang: {minCount: 1}}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: train-0
    annotations: {scheduling.reprieve.dev/provisioning-state: "Failed: OutOfResources: rack 7 is full"}
  spec: {schedulingGroup: {podGroupName: train}, containers: [{name: c, resources: {requests: {cpu: "8"}}}]}
"""


def test_state_of_requested_nodes_is_shown(run: Run, tmp_path: Path) -> None:
    """provisioning.md 5.4: by queue and explain; anonymous snapshots keep the state alone."""
    file = tmp_path / "cluster.yaml"
    file.write_text(REQUESTED)
    shown = run("queue", "-f", str(file))
    assert "nodes are requested: Failed: OutOfResources: rack 7 is full" in shown.out
    (item,) = json.loads(run("queue", "-f", str(file), "-o", "json").out)["items"]
    assert item["requested"] == "nodes are requested: Failed: OutOfResources: rack 7 is full"
    for asked in ("pg/train", "pod/train-0"):
        assert (
            "Nodes are requested: Failed: OutOfResources: rack 7 is full." in run("explain", asked, "-f", str(file)).out
        )
    names = Names(anonymize=True)
    assert request_state("Failed: OutOfResources: rack 7 is full", names) == "Failed"
    assert request_state("rack 7", names) == ""
