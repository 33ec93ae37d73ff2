"""What a cluster is made of and how it shows: runs of CronJobs, further kinds, strictness, tables and HTML."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import reprieve
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.python import configuration
from reprieve.python.answers import what_helps
from reprieve.python.builder import ClusterBuilder
from reprieve.python.cluster import Cluster
from reprieve.python.configuration import plan_options, profiles_for
from reprieve.questions.trials import Trials
from reprieve.simulation.plan import PlanOptions
from tests import manifests
from tests.cli.conftest import Run

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": 8, "pods": 9}},
}
TEMPLATE: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}


def cron_job(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    }


def annotated(key: str) -> dict[str, Any]:
    return manifests.pod(meta={"namespace": "default", "annotations": {f"scheduling.reprieve.dev/{key}": "1h"}})


# -- what is loaded ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "made"),
    [
        ((), []),
        (("default/a",), ["a"]),
        (["default/b", "default/a"], ["a", "b"]),
        ("cronjob/a", ["a"]),
        (["default/cronjob/b", "cj/a"], ["a", "b"]),
    ],
)
def test_cron_job_runs_where_that_is_wanted(run: Any, made: list[str]) -> None:
    """whatif.md 1.8: it calls for nothing by itself, and a warning says so."""
    cluster = reprieve.load(NODE, cron_job("a"), cron_job("b"), run=run)
    assert sorted({key.removeprefix("default/")[:1] for key in cluster.pods}) == made
    assert len(cluster.warnings) == min(1, 2 - len(made)), "what is alike is one line, as on the command line"
    assert sorted(cluster.plan(suggest=False).placements) == sorted(cluster.pods)
    assert cluster.cordon("n1").pods == cluster.pods, "the changed cluster runs the same"
    with pytest.raises(reprieve.InputError, match="no CronJob default/none is in the input"):
        reprieve.load(NODE, run=["default/none"])


def test_further_kinds_are_expanded_by_the_rows_of_a_file(tmp_path: Path) -> None:
    """And stay known to what is made of the cluster: changes, more manifests, the cluster afterwards."""
    file = tmp_path / "kinds.yaml"
    file.write_text(
        "apiVersion: reprieve.dev/v1alpha1\nkind: WorkloadKinds\n"
        "workloadKinds: [{group: example.com, kind: Sweep, sets: [{each: spec, template: pod, replicas: trials}]}]\n"
    )

    def sweep(name: str) -> dict[str, Any]:
        meta = {"name": name, "namespace": "default"}
        return {
            "apiVersion": "example.com/v1",
            "kind": "Sweep",
            "metadata": meta,
            "spec": {"trials": 2, "pod": TEMPLATE},
        }

    with pytest.raises(reprieve.InputError, match="but its kind is unknown"):
        reprieve.load(NODE, sweep("grid"))
    for where in (file, str(file)):
        cluster = reprieve.load(NODE, sweep("grid"), workload_kinds=where)
        assert len(cluster.pods) == 2
    assert len(cluster.scale("sweep/grid", 3).pods) == 3
    assert len(cluster.with_manifests(sweep("other")).pods) == 4
    after = cluster.plan().cluster
    assert set(after.pods.values()) == {"n1"}
    assert len(after.pods) == 2


@pytest.mark.parametrize(("key", "refused"), [("expected-work", True), ("expected-end", False)])
def test_strict_refuses_annotations_that_cannot_be_read(key: str, refused: bool) -> None:
    """cost.md 2: they count as not there, which a plan reports as a warning."""
    assert reprieve.load(NODE, annotated("expected-work")).warnings == ()
    assert "not known" in reprieve.load(NODE, annotated("expected-work")).plan(suggest=False).warnings[0]
    manifest = annotated(key)
    if key == "expected-end":
        manifest["metadata"]["annotations"] = {"scheduling.reprieve.dev/expected-end": "2030-01-01T00:00:00Z"}
    if refused:
        with pytest.raises(reprieve.InputError, match=r"strict: 1 annotation .* is Pod default/p: .*not known"):
            reprieve.load(NODE, manifest, strict=True)
    else:
        assert reprieve.load(NODE, manifest, strict=True).warnings == ()


def test_cluster_stays_strict_or_lenient_when_it_is_changed() -> None:
    odd = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 1}}
    lenient = reprieve.load(NODE, odd, lenient=True)
    assert len(lenient.cordon("n1").warnings) == len(lenient.warnings) == 1
    strict = reprieve.load(NODE, strict=True)
    with pytest.raises(reprieve.InputError, match="no pod template"):
        strict.with_manifests(odd)


def test_same_warning_is_given_once() -> None:
    odd: dict[str, Any] = {**NODE, "metadata": {"name": "n2"}, "spc": {}}
    more: dict[str, Any] = {**NODE, "metadata": {"name": "n3"}}
    found = reprieve.load(NODE, odd).cordon("n1").with_manifests(more)
    [warning] = found.warnings
    assert "spc" in warning


def test_added_objects_may_refer_to_those_there() -> None:
    """A node, and a PriorityClass; what is nowhere is an error all the same."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    cluster = reprieve.load(NODE, high)
    spec: dict[str, Any] = {"containers": [{"name": "c"}], "priorityClassName": "high", "nodeName": "n1"}
    meta = {"name": "p", "namespace": "default"}
    more: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    found = cluster.with_manifests(more)
    assert found.pods == {"default/p": "n1"}
    assert [pod.object.spec.priority for pod in found.manifests.pods] == [7]
    for name, wrong in (("nodeName", "n9"), ("priorityClassName", "low")):
        with pytest.raises(reprieve.InputError, match=wrong):
            cluster.with_manifests(more | {"spec": spec | {name: wrong}})


def test_nothing_of_a_cluster_can_be_set_or_deleted() -> None:
    cluster: Any = reprieve.load(NODE)
    with pytest.raises(AttributeError, match="a Cluster does not change: 'nodes' cannot be set"):
        cluster.nodes = ()
    with pytest.raises(AttributeError, match="a Cluster does not change: '_origin' cannot be deleted"):
        del cluster._origin
    assert copy.deepcopy(cluster).nodes == cluster.nodes == ("n1",)


# -- how it shows --------------------------------------------------------------------------------------------------


def test_groups_and_changes_are_counted_where_there_are_any() -> None:
    builder = ClusterBuilder().add_node("n1", {"cpu": "4"})
    assert repr(builder.build()) == "<Cluster: 1 node, 0 pods running, 0 waiting>"
    assert repr(builder.add_group("g").build()) == "<Cluster: 1 node, 0 pods running, 0 waiting, 1 pod group>"
    found = builder.add_group("h").add_pod("p", node="n1").add_pod("q").build().cordon("n1").uncordon("n1")
    assert repr(found) == "<Cluster: 1 node, 1 pod running, 1 waiting, 2 pod groups, 2 changes>"


def test_html_has_a_list_of_changes_where_there_are_any() -> None:
    cluster = ClusterBuilder().add_node("n1", {"cpu": "4"}).add_pod("p").add_pod("q", node="n1").build()
    plain = cluster._repr_html_()
    assert "<ul>" not in plain
    assert plain.startswith("<p>&lt;Cluster: 1 node, 1 pod running, 1 waiting&gt;</p><h4>Nodes</h4>")
    assert "<h4>Waiting pods</h4>" in plain
    assert "<td>p</td>" in plain
    changed = cluster.label("n1", "a=b")._repr_html_()
    assert changed.count("<li>") == 1
    assert "<ul><li>--label n1 a=b: " in changed


def test_html_of_an_answer_has_what_there_is_alone() -> None:
    builder = ClusterBuilder().add_node("n1", {"cpu": "4"}).add_pod("low", requests={"cpu": "4"}, node="n1", priority=1)
    nothing = builder.build().plan()._repr_html_()
    assert nothing == "<p>&lt;PlanResult: 0 placed, 0 waiting, 0 pods evicted&gt;</p>"
    full = (
        builder.add_pod("high", requests={"cpu": "4"}, priority=9)
        .add_pod("huge", requests={"cpu": "9"}, priority=20)
        .build()
    )
    shown = full.label("n1", "a=b").plan()._repr_html_()
    titles = [part.partition("<")[0] for part in shown.split("<h4>")[1:]]
    assert titles == ["Pods", "Victims", "What would help"]
    assert "<ul><li>--label n1 a=b: " in shown
    assert "<td>Pod default/huge</td><td>Add a node with 9 cpu" in shown


# -- answers -------------------------------------------------------------------------------------------------------


def test_suggestions_differ_between_pods() -> None:
    """By kind, namespace and name; nothing for pods that the input lacks, and for pods that do not wait."""
    cluster = (
        ClusterBuilder()
        .add_node("n1", {"cpu": "4"})
        .add_pod("same", requests={"cpu": "9"}, priority=1)
        .add_pod("same", namespace="other", requests={"cpu": "8"})
        .add_pod("runs", requests={"cpu": "1"})
        .add_group("same", min_count=2)
        .add_pod("m-0", group="same", requests={"cpu": "3"})
        .add_pod("m-1", group="same", requests={"cpu": "3"})
        .build()
    )

    def of(*key: str) -> list[tuple[str, str | None]]:
        kind, namespace, name = key
        trials = Trials(cluster.manifests, PlanOptions())
        return [(one.kind, one.amount) for one in what_helps((kind, namespace, name), PlanOptions(), trials)]

    assert ("Node", "9") in of("Pod", "default", "same")
    assert ("Node", "8") in of("Pod", "other", "same")
    assert "MinCount" in [kind for kind, _ in of("PodGroup", "default", "same")]
    assert "MinCount" not in [kind for kind, _ in of("Pod", "default", "same")]
    assert of("Pod", "default", "runs") == of("Pod", "default", "none") == of("PodGroup", "other", "same") == []


# -- configurations ------------------------------------------------------------------------------------------------

FORM: dict[str, Any] = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
EXTENDED = {**FORM, "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]}


@pytest.mark.parametrize(
    ("form", "how", "asked"),
    [
        (EXTENDED, {}, True),
        (EXTENDED, {"call_extenders": True}, True),
        (EXTENDED, {"call_extenders": False}, False),
        (FORM, {}, False),
        (FORM, {"call_extenders": True}, False),
    ],
)
def test_extenders_are_called_where_there_are_any_unless_left_out(
    form: dict[str, Any], how: dict[str, Any], asked: bool
) -> None:
    profiles, extenders = profiles_for(configuration_of(form), FeatureGates(), **how)
    assert (extenders is not None) is asked
    assert len(profiles) == 1


@pytest.mark.parametrize(("how", "seconds"), [({}, 10.0), ({"plugin_timeout": 3.0}, 3.0)])
@pytest.mark.parametrize("compatible", [None, False, True])
def test_profiles_are_made_with(
    how: dict[str, Any], seconds: float, compatible: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten seconds for a call of a plugin, and preemption is this scheduler's unless stated otherwise."""
    from reprieve.live import watchdog
    from reprieve.scheduling import profiles

    limits: list[float] = []
    placed: list[bool] = []
    profiles_of = profiles.profiles_of

    class Noted(watchdog.Watchdog):
        def __init__(self, limit: float) -> None:
            limits.append(limit)
            super().__init__(limit)

    def noted(*args: Any, compatible: bool) -> Any:
        placed.append(compatible)
        return profiles_of(*args, compatible=compatible)

    monkeypatch.setattr(watchdog, "Watchdog", Noted)
    monkeypatch.setattr(configuration, "profiles_of", noted)
    placing: dict[str, Any] = {} if compatible is None else {"compatible": compatible}
    plan_options(FORM, **how, **placing)
    profiles_for(configuration_of(FORM), FeatureGates(), **how, **placing)
    assert limits == [seconds] * 2
    assert placed == [bool(compatible)] * 2


def test_without_anything_stated_the_default_profile_plans() -> None:
    """It is made by the plan itself: for every pod, whatever scheduler it names."""
    assert plan_options() == PlanOptions()
    named = ClusterBuilder().add_node("n1", {"cpu": "4"}).add_pod("p", spec={"schedulerName": "another"})
    assert named.plan().placements == {"default/p": "n1"}
    assert named.plan(config=FORM).placements == {}
    assert named.plan(compatible=True).placements == {"default/p": "n1"}


def test_profile_warnings_come_before_those_of_extenders() -> None:
    profile = {"plugins": {"multiPoint": {"disabled": [{"name": "GangScheduling"}]}}}
    first, second = plan_options({**EXTENDED, "profiles": [profile]}).warnings
    assert first.startswith("profile 'default-scheduler': plugin GangScheduling is not enabled")
    assert "its extenders are not called" in second
    off = FeatureGates(generic_workload=False)
    assert plan_options({**FORM, "profiles": [profile]}, gates=off).warnings == ()


def test_manifests_that_are_planned_are_a_cluster() -> None:
    cluster = reprieve.load(NODE, annotated("x"))
    found = reprieve.plan(cluster.manifests, suggest=False)
    assert isinstance(found.before, Cluster)
    assert found.placements == {"default/p": "n1"}


# -- as on the command line ----------------------------------------------------------------------------------------

MESSY = """
apiVersion: v1
kind: Node
metadata: {name: n1, lables: {a: b}}
status: {allocatable: {cpu: 4, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {scheduling.reprieve.dev/minimum-runtime: soon}}
spec: {containers: [{name: c, imagePullPolice: Never}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: b, namespace: team}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, ressources: {}}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: c}
spec: {schedule: "@daily", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}}}
---
{apiVersion: example.com/v1, kind: Thing, metadata: {name: t}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}
"""


@pytest.mark.parametrize("text", [MESSY, "{}\n---\n"], ids=["messy", "empty"])
def test_warnings_are_the_lines_of_the_command(run: Run, tmp_path: Path, text: str) -> None:
    """interfaces.md 3: those of the input in `Cluster.warnings`, all of them in those of the result."""
    file = tmp_path / "in.yaml"
    file.write_text(text)
    ended = run("plan", "-f", file)
    told = [line.removeprefix("warning: ") for line in ended.err.splitlines()]
    if ended.code:
        with pytest.raises(reprieve.InputError):
            reprieve.load(file)
        return
    cluster = reprieve.load(file)
    result = cluster.plan()
    assert list(result.warnings) == told
    assert list(result.warnings[: len(cluster.warnings)]) == list(cluster.warnings)
    assert cluster.warnings


def test_input_without_objects_is_a_warning(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.yaml"
    file.write_text("# nothing\n")
    ended = run("plan", "-f", file)
    assert [f"warning: {line}" for line in reprieve.load(file).plan().warnings] == ended.err.splitlines()


TWO = [
    NODE,
    *(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train", "namespace": space},
            "spec": {"parallelism": 1, "template": TEMPLATE},
        }
        for space in ("default", "team")
    ),
]


def test_workloads_are_named_as_the_commands_name_them() -> None:
    """KIND/NAME in the namespace default, NAMESPACE/KIND/NAME elsewhere; what the docstring states."""
    cluster = reprieve.load(*TWO)
    assert {key.partition("/")[0] for key in cluster.without("job/train").pods} == {"team"}
    assert {key.partition("/")[0] for key in cluster.without("team/job/train").pods} == {"default"}
    with pytest.raises(reprieve.InputError):
        cluster.without("job/team/train")
    assert cluster.__doc__ is not None
    assert "NAMESPACE/KIND/NAME" in cluster.__doc__
    assert "KIND/NAMESPACE/NAME" not in cluster.__doc__


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json"])
def test_cluster_is_saved_and_loaded_again(run: Run, tmp_path: Path, suffix: str) -> None:
    """interfaces.md 3: before, after and changed; the command plans it too."""
    loaded = reprieve.load(*TWO)
    after = loaded.plan().cluster
    for cluster in (loaded, after, after.with_nodes(1, like="n1"), loaded.scale("team/job/train", 2), after.fail("n1")):
        file = tmp_path / f"cluster{suffix}"
        cluster.save(file)
        again = reprieve.load(file)
        assert (again.pods, again.nodes) == (cluster.pods, cluster.nodes)
        assert again.plan().placements == cluster.plan().placements
        assert again.plan().waiting == cluster.plan().waiting
        assert run("plan", "-f", file).code == 0
        pickled = pickle.loads(pickle.dumps(cluster))
        assert (pickled.pods, pickled.changes) == (cluster.pods, cluster.changes)


def test_file_of_another_kind_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.yaml, \.yml or \.json"):
        reprieve.load(NODE).save(tmp_path / "cluster.txt")
    assert list(tmp_path.iterdir()) == []
