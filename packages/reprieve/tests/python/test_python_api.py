"""The Python API: clusters as values, plans of them, and what comes of a plan as values and tables."""

import copy
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import reprieve
from reprieve.python.tables import MOST_ROWS, Table, html
from tests import manifests
from tests.cli.conftest import Run

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {pool: gpu}}
status: {allocatable: {cpu: 8, pods: 10}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {pool: cpu}}
spec: {unschedulable: true}
status: {allocatable: {cpu: 8, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: low}
spec: {nodeName: n1, priority: 1, containers: [{name: c, resources: {requests: {cpu: 6}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completions: 2
  template: {spec: {priority: 10, restartPolicy: Never, containers: [{name: c, resources: {requests: {cpu: 4}}}]}}
"""


def cluster() -> reprieve.Cluster:
    return reprieve.load(CLUSTER)


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return manifests.pod(name, 4, meta={"namespace": "default"}, **spec)


def test_cluster_shows_what_is_loaded() -> None:
    found = cluster()
    assert repr(found) == "<Cluster: 2 nodes, 1 pod running, 2 waiting>"
    assert found.nodes == ("n1", "n2")
    assert found.pods == {"default/low": "n1", "default/train-00000": None, "default/train-00001": None}
    assert found.warnings == ()


def test_pods_on_nodes_run_unless_their_status_differs() -> None:
    """Manifests of what runs need no status: a plan takes a pod with a node as running."""
    cluster = reprieve.load(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": 8}}},
        pod("bound", nodeName="n"),
        pod("starting", nodeName="n") | {"status": {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}},
        pod("ended", nodeName="n") | {"status": {"phase": "Succeeded"}},
        pod("waiting"),
    )
    phases = {row[1]: row[4] for row in cluster.table().rows}
    assert phases == {"bound": "Running", "starting": "Pending", "ended": "Succeeded", "waiting": "Pending"}


def test_sources_of_every_sort_are_one_input(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CLUSTER)
    loaded = reprieve.load(
        tmp_path / "a.yaml", [pod("one"), json.dumps(pod("two")).encode()], json.dumps(pod("three"), indent=1)
    )
    assert {"default/one", "default/two", "default/three", "default/low"} <= set(loaded.pods)
    assert reprieve.load(str(tmp_path)).pods == cluster().pods
    assert reprieve.load(cluster().manifests).pods == cluster().pods


FLAGS: list[tuple[list[str], Callable[[reprieve.Cluster], reprieve.Cluster]]] = [
    (["--add-nodes", "2", "--like", "n1"], lambda c: c.with_nodes(2, like="n1")),
    (["--without", "job/train"], lambda c: c.without("job/train")),
    (["--remove-node", "n1"], lambda c: c.without_nodes("n1")),
    (["--cordon", "n1", "--cordon", "n2"], lambda c: c.cordon("n1", "n2")),
    (["--uncordon", "n2"], lambda c: c.uncordon("n2")),
    (["--drain", "pool=gpu"], lambda c: c.drain("pool=gpu")),
    (["--fail", "n1"], lambda c: c.fail("n1")),
    (["--taint", "n1 a=b:NoSchedule"], lambda c: c.taint("n1", "a=b:NoSchedule")),
    (["--label", "n1 zone=a"], lambda c: c.label("n1", "zone=a")),
    (["--scale", "job/train=3"], lambda c: c.scale("job/train", 3)),
    (["--set-priority", "job/train=0"], lambda c: c.set_priority("job/train", 0)),
    (["--uncordon", "n2", "--drain", "n1"], lambda c: c.uncordon("n2").drain("n1")),
    ([], lambda c: c),
]


@pytest.mark.parametrize(("flags", "change"), FLAGS, ids=[" ".join(flags) or "none" for flags, _ in FLAGS])
def test_method_answers_as_its_flag(
    flags: list[str], change: Callable[[reprieve.Cluster], reprieve.Cluster], tmp_path: Path, run: Run
) -> None:
    """The document is that of `reprieve plan`, help included; what was given stays as it was."""
    import msgspec

    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    ended = run("plan", "-f", tmp_path / "cluster.yaml", "-o", "json", *flags)
    assert (ended.code, ended.err) == (0, "")
    wanted = json.loads(ended.out)
    given = reprieve.load(tmp_path)
    before = repr(given), given.pods
    reported = json.loads(msgspec.json.encode(change(given).plan().plan))
    assert (repr(given), given.pods) == before
    for document in (wanted, reported):
        document["stats"]["seconds"] = 0
    assert reported == wanted


def test_result_holds_placements_victims_and_the_cluster_afterwards() -> None:
    result = cluster().plan()
    assert repr(result) == "<PlanResult: 2 placed, 0 waiting, 1 pod evicted>"
    assert result.placements == {"default/train-00000": "n1", "default/train-00001": "n1"}
    assert (result.waiting, result.help, result.all_placed) == ({}, {}, True)
    victim = result.preemptions[0].victims[0]
    assert (victim.name, victim.why and victim.why.message) == ("low", "Insufficient cpu")
    assert result.cluster.pods == dict(result.placements)
    again = result.cluster.plan()
    assert (again.placements, again.waiting, again.preemptions) == ({}, {}, ())


def test_plans_follow_one_another() -> None:
    first = cluster().plan().cluster
    waits = first.with_manifests(pod("more")).plan()
    assert list(waits.waiting) == ["default/more"]
    assert {each.kind for each in waits.help["Pod default/more"]} >= {"Nodes", "Uncordon", "Priority"}
    assert waits.before.uncordon("n2").plan().placements == {"default/more": "n2"}
    assert not waits.before.plan(suggest=False).help


def test_suspended_jobs_stay_suspended_afterwards() -> None:
    """whatif.md 1.5."""
    first = reprieve.load(CLUSTER.replace("parallelism: 2", "suspend: true")).plan()
    assert [(one.kind, one.name) for one in first.plan.suspended] == [("Job", "train")]
    assert first.cluster.plan().plan.suspended == first.plan.suspended


def test_changes_of_several_stages_are_reported_together() -> None:
    made = cluster().with_nodes(1, like="n1").drain("n1").with_manifests(pod("more")).cordon("n1-1")
    assert [change.split(":")[0] for change in made.changes] == [
        "--add-nodes 1 --like n1",
        "--drain n1",
        "--cordon n1-1",
    ]
    document = made.plan().plan
    assert [change.change for change in document.changes] == ["--add-nodes 1 --like n1", "--drain n1", "--cordon n1-1"]
    assert [each.name for each in document.displaced] == ["low"]


def test_first_decision_leaves_the_victims_on_their_way_out() -> None:
    after = cluster().plan(first_decision=True).cluster
    found = {loaded.object.name: loaded.object for loaded in after.manifests.pods}
    assert found["low"].metadata.deletion_timestamp is not None
    assert found["train-00000"].status.nominated_node_name == "n1"
    settled = after.plan()
    assert "default/train-00000" in settled.placements


def test_scenarios_have_happened_afterwards() -> None:
    scenario = {
        "apiVersion": "reprieve.dev/v1alpha1",
        "kind": "Scenario",
        "spec": {
            "steps": [
                {"create": [pod("late")], "wait": "settled"},
                {"delete": [{"kind": "Node", "name": "n2"}, {"kind": "Pod", "namespace": "default", "name": "low"}]},
            ]
        },
    }
    start = reprieve.load(CLUSTER, scenario).without("job/train").uncordon("n2")
    after = start.plan().cluster
    assert after.nodes == ("n1",)
    assert after.pods == {}
    assert after.plan().plan.pods == ()


def test_claims_and_volumes_are_as_they_were_written() -> None:
    """A volume that was bound for one pod is not given to another by the next plan."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"},
    }
    classed = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }

    def claim(name: str) -> dict[str, Any]:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        meta = {"name": name, "namespace": "default"}
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}

    def using(name: str) -> dict[str, Any]:
        return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])

    start = cluster().without("job/train").without("pod/low")
    first = start.with_manifests(volume, classed, claim("a"), using("a")).plan()
    assert first.placements == {"default/a": "n1"}
    second = first.cluster.with_manifests(claim("b"), using("b")).plan()
    assert list(second.waiting) == ["default/b"]


def test_configurations_plugins_and_times(tmp_path: Path) -> None:
    class Nowhere(reprieve.PerNodeFilter):
        """No node will do."""

        name = "Nowhere"

        def filter_node(self, state: reprieve.CycleState, row: int) -> tuple[str, bool] | None:
            return "node(s) are not wanted", False

    assert "node(s) are not wanted" in cluster().plan(plugins=[Nowhere]).waiting["default/train-00000"]
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {postFilter: {disabled: [{name: '*'}]}}}]\n"
    )
    assert not cluster().plan(config=file).preemptions
    when = datetime(2030, 1, 1, tzinfo=UTC)
    assert cluster().plan(now=when).placements == cluster().plan(now=when.timestamp()).placements
    assert reprieve.plan(cluster(), reprieve.PlanOptions(first_decision=True)).plan.pods[0].outcome == "Nominated"
    named, text = (
        cluster().plan(feature_gates=each).plan for each in ({"GenericWorkload": False}, "GenericWorkload=0")
    )
    assert (named.pods, named.stats.attempts) == (text.pods, text.stats.attempts)
    note = "feature gate GangScheduling is kube-scheduler's; it changes nothing here"
    assert note in cluster().plan(feature_gates={"GangScheduling": True}).warnings


BAD: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: cluster().drain("n9"), reprieve.InputError, r'--drain n9: no node "n9"'),
    (lambda: cluster().with_nodes(0, like="n1"), reprieve.InputError, "expected a number of nodes from 1"),
    (lambda: cluster().without("job/none"), reprieve.InputError, "--without job/none"),
    (lambda: cluster().with_manifests(pod("low")), reprieve.InputError, "already exists in the cluster"),
    (lambda: reprieve.load("nowhere.yaml"), reprieve.InputError, "nowhere.yaml: No such file or directory"),
    (lambda: reprieve.load(3), TypeError, "found int"),  # type: ignore[arg-type]
    (lambda: reprieve.load("a\0b"), reprieve.InputError, "null byte"),
    (lambda: reprieve.load(CLUSTER, max_bytes=10), reprieve.InputError, "larger than 10 bytes"),
    (lambda: reprieve.load(CLUSTER, strict=True, lenient=True), ValueError, "cannot be combined"),
    (lambda: reprieve.load(pod("p", nodSelector={}), strict=True), reprieve.InputError, "nodSelector"),
    (lambda: reprieve.load(CLUSTER, workload_kinds="no.yaml"), reprieve.InputError, "no.yaml: No such file"),
    (lambda: cluster().plan(config="no.yaml"), reprieve.InputError, "no.yaml: No such file or directory"),
    (lambda: cluster().plan(config={"kind": "X"}), reprieve.InputError, "<configuration>: "),
    (lambda: cluster().plan(plugins=["no:Such"]), reprieve.InputError, "no:Such"),
    (lambda: cluster().plan(plugins=[int]), reprieve.InputError, "not a plugin"),
    (lambda: cluster().plan(feature_gates="Nope=true"), reprieve.InputError, "unknown feature gate"),
    (lambda: cluster().plan(feature_gates={"Nop": True}), reprieve.InputError, "unknown feature gate 'Nop'"),
    (
        lambda: cluster().plan(feature_gates={"GenericWorkload": "false"}),
        reprieve.InputError,
        "'GenericWorkload': expected True or False, not 'false'",
    ),
    (lambda: cluster().plan(feature_gates=3), reprieve.InputError, "3: expected feature gates as text"),
    (lambda: reprieve.PlanOptions(gates={}), TypeError, "expected FeatureGates, not a dict"),  # type: ignore[arg-type]
    (lambda: cluster().plan(now=1.0), reprieve.InputError, "after the planned time"),
    (lambda: cluster().plan(now=datetime(2030, 1, 1)), ValueError, "time zone"),
    (lambda: reprieve.plan(cluster(), reprieve.PlanOptions(), seed=1), TypeError, "not both"),
    (lambda: cluster().to_dataframe("x"), ValueError, '"x": expected pods or nodes'),  # type: ignore[arg-type]
    (lambda: setattr(cluster(), "x", 1), AttributeError, "does not change"),
]


@pytest.mark.parametrize(("bad", "error", "text"), BAD, ids=[text for _, _, text in BAD])
def test_wrong_input_is_reported(bad: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        bad()


def test_unknown_fields_are_warnings_also_of_the_plan() -> None:
    found = reprieve.load(CLUSTER, pod("odd", nodSelector={}))
    assert len(found.warnings) == 1
    assert "nodSelector" in found.warnings[0]
    assert found.warnings[0] in found.plan().warnings


def test_html_is_escaped_and_short() -> None:
    text = html("a<b", Table(("x&y",), [("<script>",)] * (MOST_ROWS + 7)))
    assert "<script>" not in text
    assert "<h4>a&lt;b</h4>" in text
    assert "x&amp;y" in text
    assert text.count("&lt;script&gt;") == MOST_ROWS
    assert "and 7 more" in text
    assert html("none", Table(("x",), [])) == ""


def test_notebook_shows_tables() -> None:
    result = cluster().set_priority("job/train", 0).plan()
    assert "<td>train-00000</td>" in result._repr_html_()
    assert "What would help" in result._repr_html_()
    assert "--set-priority job/train=0" in result._repr_html_()
    shown = cluster().cordon("n1")._repr_html_()
    assert "<li>--cordon n1:" in shown
    assert "&lt;Cluster: " in shown


class _Frame:
    def __init__(self, rows: list[tuple[object, ...]], columns: list[str]) -> None:
        self.rows, self.columns = rows, columns


def test_data_frames_have_all_rows_and_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("pandas")
    vars(module)["DataFrame"] = _Frame
    monkeypatch.setitem(sys.modules, "pandas", module)
    result = cluster().plan()
    for what in ("pods", "victims", "groups"):
        found: Any = result.to_dataframe(what)
        assert found.columns == list(result.table(what).columns)
        assert found.rows == list(result.table(what).rows)
    nodes: Any = cluster().to_dataframe("nodes")
    assert nodes.columns == ["node", "running_pods", "unschedulable", "cpu", "pods"]
    assert nodes.rows == [("n1", 1, False, "8", "10"), ("n2", 0, True, "8", "10")]


def test_data_frames_of_pandas() -> None:
    pytest.importorskip("pandas")
    frame = cluster().plan().to_dataframe()
    assert list(frame["name"]) == ["train-00000", "train-00001"]
    assert cluster().plan().to_dataframe("groups").empty


def test_without_pandas_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'reprieve\[pandas\]'"):
        cluster().to_dataframe()


def test_plan_of_something_else_names_the_way_to_load_it() -> None:
    others: tuple[Any, ...] = ("cluster.yaml", None, {})
    for other in others:
        with pytest.raises(TypeError, match=r"expected a Cluster, not a \w+: reprieve.load reads"):
            reprieve.plan(other)


def test_copy_of_a_cluster_is_the_cluster() -> None:
    cluster = reprieve.load({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    assert copy.deepcopy([cluster])[0] is copy.copy(cluster) is cluster


@pytest.mark.parametrize("turn", ["znew again", "again znew"])
@pytest.mark.parametrize("kind", ["Pod", "Job"])
def test_new_manifests_beside_a_snapshot_are_tried_last_however_they_are_given(
    turn: str, kind: str, tmp_path: Path, run: Run
) -> None:
    """interfaces.md 1.11: two files, one file, further manifests, the command line."""

    def asked(name: str, created: str = "") -> dict[str, Any]:
        meta = {"name": name, **({"creationTimestamp": created} if created else {})}
        spec = pod(name)["spec"]
        if kind == "Job":
            spec = {"template": {"spec": {"restartPolicy": "Never", **spec}}}
        return {"apiVersion": "v1" if kind == "Pod" else "batch/v1", "kind": kind, "metadata": meta, "spec": spec}

    node = {"apiVersion": "v1", "kind": "Node", "status": {"allocatable": {"cpu": "9", "pods": "9"}}}
    dated = [
        node | {"metadata": {"name": "n1", "creationTimestamp": "2026-02-01T00:00:00Z"}},
        asked("old", "2026-06-02T00:00:00Z"),
    ]
    new = [asked(name) for name in turn.split()]
    first, second = tmp_path / "snapshot.json", tmp_path / "new.json"
    for file, documents in ((first, dated), (second, new)):
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    planned = [
        reprieve.load(first, second).plan(),
        reprieve.load(second, first).plan(),
        reprieve.load(*dated, *new).plan(),
        reprieve.load(first).with_manifests(second).plan(),
    ]
    names = [sorted(name.removeprefix("default/").partition("-")[0] for name in one.placements) for one in planned]
    assert names == [sorted(["old", turn.split()[0]])] * 4
    answer = json.loads(run("plan", "-f", str(first), "-f", str(second), "-o", "json").out)
    placed = {one["name"] for one in answer["pods"] if one["outcome"] == "Scheduled"}
    assert placed == {name.removeprefix("default/") for name in planned[0].placements}


def test_undated_manifests_are_no_obstacle_to_a_time_that_is_asked_about() -> None:
    """interfaces.md 1.11: they only make it later, beside objects that state when they were made."""
    dated = pod("old") | {"metadata": {"name": "old", "creationTimestamp": "2026-02-01T00:00:00Z"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    now = datetime(2026, 2, 1, tzinfo=UTC)
    assert list(reprieve.load(node, dated, pod("new")).plan(now=now, suggest=False).waiting) == [
        "default/new",
        "default/old",
    ]
    with pytest.raises(reprieve.InputError, match="after the planned time"):
        reprieve.load(node, dated, pod("new")).plan(now=now.replace(year=2025), suggest=False)
    with pytest.raises(reprieve.InputError, match="after the planned time"):
        reprieve.load(node, pod("new")).plan(now=now.replace(year=2025), suggest=False)
