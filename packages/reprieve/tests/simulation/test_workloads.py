"""Pods of what makes pods (whatif.md 1-3): a golden plan for each kind, and what cannot be expanded.

Beside each manifest in workloads/ stands what is made of it and what happens to it; REPRIEVE_UPDATE_GOLDEN=1 writes it
again.  In KINDfields.yaml are fields that are seldom set, or seldom left out.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_rules.errors import InputError
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Manifests
from kube_rules.objects import Pod
from kube_rules.schema.packed_schemas import PackedSchemas
from reprieve.inputs.loader import load, read
from reprieve.simulation.plan import plan
from reprieve.simulation.workloads import batches
from reprieve.simulation.workloads.expansion import Expansion, expand
from reprieve.simulation.workloads.expansion_order import UnplannedObject
from reprieve.simulation.workloads.rows import read_rows
from reprieve.simulation.workloads.table import TABLE

HERE = Path(__file__).parent / "workloads"
KINDS = sorted(path.stem for path in HERE.glob("*.yaml") if path.stem != "cluster")
SCHEMAS = PackedSchemas()
TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}


def runs_of(file: Path) -> list[str]:
    """The CronJobs of which a run is asked for."""
    first = file.read_text().splitlines()[0]
    return [first.removeprefix("# run: ")] if first.startswith("# run: ") else []


def expanded(name: str) -> Expansion:
    """One of the manifests with the cluster; the first line may say what to run."""
    file = HERE / f"{name}.yaml"
    run = runs_of(file)
    kinds = HERE / f"{name}.kinds"
    rows = TABLE.with_more(read_rows(str(kinds), kinds.read_text())) if kinds.exists() else TABLE
    return expand(load([HERE / "cluster.yaml", file], schemas=SCHEMAS), rows=rows, run=run)


def described(pod: Pod, outcome: str) -> str:
    """Everything that was made of a pod, and what happened to it."""
    (owner,) = pod.metadata.owner_references
    spec, lines = pod.spec, [f"{pod.name}  of {owner.kind} {owner.name}  {outcome}"]
    group = pod_group_name(pod)
    lines += [f"  gang {group}"] if group is not None else []
    lines += [f"  label {key}: {text}" for key, text in sorted(pod.metadata.labels.items())]
    lines += [f"  annotation {key}: {text}" for key, text in sorted(pod.metadata.annotations.items())]
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        lines += [f"  pinned to {field.values[0]}" for field in term.match_fields]
    lines += [f"  tolerates {one.key} {one.effect}" for one in spec.tolerations]
    claims = [volume.persistent_volume_claim for volume in spec.volumes]
    lines += [f"  claim {claim.claim_name}" for claim in claims if claim is not None]
    return "\n".join(lines)


def golden(found: Expansion, given: set[str]) -> str:
    """What was made, and the plan of it."""
    answer = plan(found.manifests).plan
    outcomes = {f"{pod.namespace}/{pod.name}": f"{pod.outcome} {pod.node_name or ''}".strip() for pod in answer.pods}
    parts = [
        described(loaded.object, outcomes.get(loaded.object.key) or f"is on {loaded.object.spec.node_name}")
        for loaded in found.manifests.pods
        if loaded.object.name not in given
    ]
    parts += [
        f"gang {group.name}: {group.scheduled} of {group.min_count}, {group.outcome}" for group in answer.pod_groups
    ]
    return "\n".join([*parts, *(f"not planned: {problem.reason}" for problem in found.problems)]) + "\n"


@pytest.mark.parametrize("name", KINDS)
def test_golden_plans(name: str) -> None:
    """whatif.md 2.1-2.8."""
    file = HERE / f"{name}.txt"
    given = {loaded.object.name for loaded in load([HERE / "cluster.yaml", HERE / f"{name}.yaml"]).pods}
    made = golden(expanded(name), given)
    if os.environ.get("REPRIEVE_UPDATE_GOLDEN"):
        file.write_text(made)
    assert made == file.read_text()


@pytest.mark.parametrize("name", KINDS)
def test_objects_made_are_not_made_again(name: str) -> None:
    """The pods that a controller made are matched by their owner: a second look makes nothing."""
    first = expanded(name)
    file = HERE / f"{name}.yaml"
    again = load([HERE / "cluster.yaml", file], schemas=SCHEMAS)
    again.objects[Pod] = list(first.manifests.pods)
    kinds = HERE / f"{name}.kinds"
    rows = TABLE.with_more(read_rows(str(kinds), kinds.read_text())) if kinds.exists() else TABLE
    second = expand(again, rows=rows, run=runs_of(file))
    assert [loaded.object.key for loaded in second.manifests.pods] == [one.object.key for one in first.manifests.pods]


_RUNNING = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", pods: "110"}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: mid}
value: 500
---
apiVersion: batch/v1
kind: Job
metadata: {name: j, uid: u-j, annotations: {ANNOTATION: "true"}}
spec:
  parallelism: 2
  completions: 2
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: x, resources: {requests: {cpu: "1"}}}]}}
---
apiVersion: v1
kind: Pod
metadata:
  name: j-abcde
  labels: {batch.kubernetes.io/job-name: j}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u-j, controller: true}]
spec: {nodeName: n1, priorityClassName: mid, schedulingGroup: {podGroupName: j}, containers: [{name: c, image: x}]}
"""


@pytest.mark.parametrize(
    ("annotation", "outcome"), [("reprieve.dev/pod-group", "Error"), ("scheduling.reprieve.dev/gang", "Scheduled")]
)
def test_group_of_the_api_alone_gets_a_default_priority(annotation: str, outcome: str) -> None:
    """preemption.md 8.3: admission gives it 0; a group that a scheduler makes has the priority of its pods."""
    loaded = read([("running.yaml", _RUNNING.replace("ANNOTATION", annotation))])
    answer = plan(expand(loaded).manifests).plan
    assert {pod.outcome for pod in answer.pods} == {outcome}


# -- what is not expanded --------------------------------------------------------------------------


def loaded(*documents: dict[str, Any]) -> Manifests:
    text = yaml.safe_dump_all(documents)
    return load(["-"], stdin=io.BytesIO(text.encode()), complete=False, schemas=SCHEMAS)


def problems(*documents: dict[str, Any]) -> list[UnplannedObject]:
    return expand(loaded(*documents)).problems


def made_of(*documents: dict[str, Any]) -> list[str]:
    given = loaded(*documents)
    found = expand(given)
    assert not found.problems
    return [one.object.name for one in found.manifests.pods][len(given.pods) :]


def made(version: str, kind: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An object named x of the kind; `owner`, `uid`, `labels` and `name` go into its metadata."""
    meta: dict[str, Any] = {"name": more.pop("name", "x")}
    owner = more.pop("owner", None)
    if owner is not None:
        version_, kind_, name = owner
        reference = {"apiVersion": version_, "kind": kind_, "name": name, "uid": "u-" + name, "controller": True}
        meta["ownerReferences"] = [reference]
    meta |= {key: more.pop(key) for key in ("uid", "labels", "annotations") if key in more}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec or {}, **more}


def pod(name: str, owner: tuple[str, str, str] | None = None, **more: Any) -> dict[str, Any]:
    return made("v1", "Pod", {"containers": [{"name": "c"}]}, name=name, owner=owner, **more)


SELECTOR = {"matchLabels": {"a": "b"}}
SET = {"selector": SELECTOR, "template": TEMPLATE}
RS = ("apps/v1", "ReplicaSet", "x")
GONE = {
    "a kind without a row": (made("argoproj.io/v1alpha1", "Workflow", {"templates": []}), True, "not expanded"),
    "a template without a controller": (made("v1", "PodTemplate", template=TEMPLATE), True, "not expanded"),
    "no template in it": (made("ray.io/v1", "RayCluster"), True, "nothing at spec.headGroupSpec"),
    "no template where it should be": (
        made("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"name": "t"}]}),
        True,
        "there is no template at spec.tasks[0].template",
    ),
    "no template of a Job": (made("batch/v1", "Job"), True, "there is no pod template at spec.template"),
    "no runtime": (
        made("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "torch"}}),
        True,
        'ClusterTrainingRuntime "torch" is not in the input',
    ),
    "managed by another controller": (
        made("batch/v1", "Job", {"managedBy": "kueue.x-k8s.io/multikueue", "template": TEMPLATE}),
        True,
        'managed by "kueue.x-k8s.io/multikueue"',
    ),
    "an unknown kind with a template in it": (
        made("e.com/v1", "Thing", {"workers": [TEMPLATE]}),
        True,
        "it has a pod template at spec.workers[0], but its kind is unknown",
    ),
    "an unknown kind": (made("example.com/v1", "Certificate"), False, "it is unknown whether it creates pods"),
    "by the clock": (
        made("batch/v1", "CronJob", {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}),
        False,
        "--run cronjob/x plans one run",
    ),
}


@pytest.mark.parametrize(("document", "certain", "reason"), GONE.values(), ids=GONE)
def test_workload_that_cannot_be_expanded_is_named(document: dict[str, Any], certain: bool, reason: str) -> None:
    (found,) = problems(document)
    assert (found.kind, found.certain) == (document["kind"], certain)
    assert '"' in found.subject
    assert reason in found.reason


def test_plan_refuses_what_it_cannot_expand() -> None:
    with pytest.raises(InputError, match='Workflow "default/x": its pods are not planned'):
        plan(loaded(GONE["a kind without a row"][0]))


@pytest.mark.parametrize(
    "document",
    [
        made("v1", "ConfigMap"),
        made("v1", "Secret"),
        made("networking.k8s.io/v1", "Ingress"),
        made("autoscaling/v2", "HorizontalPodAutoscaler"),
        made("rbac.authorization.k8s.io/v1", "Role"),
        made("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        made("kustomize.config.k8s.io/v1beta1", "Kustomization"),
        made("v1", "Service"),
    ],
    ids=lambda document: document["kind"],
)
def test_kinds_without_pods_are_no_problem(document: dict[str, Any]) -> None:
    assert not problems({key: value for key, value in document.items() if key != "spec" or value})


NOTHING: dict[str, list[dict[str, Any]]] = {
    "its pods are there": [made(*RS[:2], {**SET, "replicas": 2}), pod("a", RS), pod("b", RS)],
    "through its replica set": [
        made("apps/v1", "Deployment", SET, name="web"),
        made("apps/v1", "ReplicaSet", SET, name="web-5d4", owner=("apps/v1", "Deployment", "web")),
        pod("a", ("apps/v1", "ReplicaSet", "web-5d4")),
    ],
    "through a replica set that is not there": [
        made("apps/v1", "Deployment", SET, name="web"),
        pod("a", ("apps/v1", "ReplicaSet", "web-5d4"), labels={"pod-template-hash": "5d4"}),
    ],
    "scaled to nothing": [made(*RS[:2], {**SET, "replicas": 0})],
    "suspended": [made("batch/v1", "Job", {"suspend": True, "template": TEMPLATE})],
    "suspended by its run policy": [made("kubeflow.org/v1", "PyTorchJob", {"runPolicy": {"suspend": True}})],
    "its template left out, as in a snapshot": [made(*RS[:2], {"replicas": 3, "selector": SELECTOR})],
    "a job of a cluster that has ended": [
        made(
            "batch/v1",
            "Job",
            {"template": TEMPLATE},
            uid="u",
            status={"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]},
        ),
    ],
    "a queue of work of which one has succeeded": [
        made("batch/v1", "Job", {"parallelism": 3, "template": TEMPLATE}, uid="u", status={"succeeded": 1}),
    ],
    "a cron job of a cluster between its times": [
        made("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}, uid="u", status={}),
    ],
    "a job, all its parallel pods": [
        made("batch/v1", "Job", {"parallelism": 2, "completions": 8, "template": TEMPLATE}),
        pod("a", ("batch/v1", "Job", "x")),
        pod("b", ("batch/v1", "Job", "x")),
    ],
    "a kind without a row with a pod": [
        made("argoproj.io/v1alpha1", "Workflow"),
        pod("a", ("argoproj.io/v1alpha1", "Workflow", "x")),
    ],
    "an unknown kind with a pod": [made("e.com/v1", "Thing"), pod("a", ("e.com/v1", "Thing", "x"))],
    "owners in a circle": [
        made("apps/v1", "ReplicaSet", {**SET, "replicas": 0}, name="one", owner=("apps/v1", "ReplicaSet", "two")),
        made("apps/v1", "ReplicaSet", {**SET, "replicas": 0}, name="two", owner=("apps/v1", "ReplicaSet", "one")),
    ],
}


@pytest.mark.parametrize("documents", NOTHING.values(), ids=NOTHING)
def test_nothing_is_made_where_nothing_is_missing(documents: list[dict[str, Any]]) -> None:
    assert made_of(*documents) == []


MADE: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "one of two pods is there": ([made(*RS[:2], {**SET, "replicas": 2}), pod("a", RS)], ["x-00000"]),
    "a name is taken": ([made(*RS[:2], SET), pod("x-00000")], ["x-00001"]),
    "pods of one with another UID": ([made(*RS[:2], SET, uid="other"), pod("a", RS)], ["x-00000"]),
    "pods of another owner": (
        [made("apps/v1", "StatefulSet", {**SET, "replicas": 2}), pod("a", RS)],
        ["x-0", "x-1"],
    ),
    "in another namespace": (
        [made(*RS[:2], SET), {**pod("a", RS), "metadata": {**pod("a", RS)["metadata"], "namespace": "other"}}],
        ["x-00000"],
    ),
    "a job with fewer completions than parallelism": (
        [made("batch/v1", "Job", {"parallelism": 5, "completions": 2, "template": TEMPLATE})],
        ["x-00000", "x-00001"],
    ),
    "an owner speaks for what it owns": (
        [
            made("apps/v1", "Deployment", {**SET, "replicas": 2}, name="web"),
            made("apps/v1", "ReplicaSet", {**SET, "replicas": 7}, name="web-1", owner=("apps/v1", "Deployment", "web")),
        ],
        ["web-1-00000", "web-1-00001"],
    ),
    "a job of a cron job is its own": (
        [
            made("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}, uid="u-x", status={}),
            made("batch/v1", "Job", {"template": TEMPLATE}, name="x-1", owner=("batch/v1", "CronJob", "x")),
        ],
        ["x-1-00000"],
    ),
    "a name from generateName": (
        [{**made("batch/v1", "Job", {"template": TEMPLATE}), "metadata": {"generateName": "x-"}}],
        ["x-00000-00000"],
    ),
}


@pytest.mark.parametrize(("documents", "names"), MADE.values(), ids=MADE)
def test_pods_that_are_missing_are_made(documents: list[dict[str, Any]], names: list[str]) -> None:
    assert made_of(*documents) == names


def test_jobs_of_a_run_jobset_are_used_as_they_are() -> None:
    """A Job that is in the input counts as it is: its status, not its template in the set."""
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": TEMPLATE}
    jobset = made("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"name": "w", "template": {"spec": job}}]})
    owner = ("jobset.x-k8s.io/v1alpha2", "JobSet", "x")
    there = made("batch/v1", "Job", job, name="x-w-0", owner=owner, status={"succeeded": 1, "completedIndexes": "0"})
    assert made_of(jobset, there) == ["x-w-0-1-00000"]


@pytest.mark.parametrize(
    ("version", "kind", "hint"),
    [
        ("v1", "Podd", 'did you mean "Pod"?'),
        ("v1", "pod", 'did you mean "Pod"?'),
        ("apps/v1", "Deploymnt", 'did you mean "Deployment"?'),
        ("v1", "Deploymnt", 'did you mean "Deployment" in version "apps/v1"?'),
        ("policy/v1", "PodDisruptonBudget", 'did you mean "PodDisruptionBudget"?'),
        ("scheduling.k8s.i/v1beta1", "PodGroup", 'did you mean version "scheduling.k8s.io/v1beta1"?'),
        ("ray.io/v1", "RayClustr", 'did you mean "RayCluster"?'),
        ("example.com/v1", "Certificate", "it is unknown whether it creates pods"),
    ],
)
def test_misspelt_kind_is_named_with_the_nearest_known_one(version: str, kind: str, hint: str) -> None:
    (found,) = problems(made(version, kind))
    assert hint in found.reason


def test_many_unknown_kinds_cost_little() -> None:
    documents = [made("example.com/v1", f"Kind{number}") for number in range(3_000)]
    assert len(problems(*documents)) == 3_000


WRONG = {
    "a negative number": (made(*RS[:2], {**SET, "replicas": -1}), "spec.replicas", "or equal to 0"),
    "a text for a number": (
        made("batch/v1", "Job", {"parallelism": "2", "template": TEMPLATE}),
        "spec.parallelism",
        "",
    ),
    "a bad template": (
        made("ray.io/v1", "RayCluster", {"headGroupSpec": {"template": {"spec": {"containers": [{"name": 5}]}}}}),
        "spec.headGroupSpec.template.spec.containers[0].name",
        "",
    ),
    "in a Job of a JobSet": (
        made(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {
                "replicatedJobs": [
                    {
                        "name": "w",
                        "template": {
                            "spec": {
                                "template": {
                                    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "x"}}}]}
                                }
                            }
                        },
                    }
                ]
            },
        ),
        "spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources.requests[cpu]",
        "",
    ),
    "no such class": (
        made(*RS[:2], {"template": {"spec": {"priorityClassName": "gold", "containers": [{"name": "c"}]}}}),
        "spec.template.spec.priorityClassName",
        "no PriorityClass",
    ),
    "a template that is none": (made(*RS[:2], {"template": []}), "spec.template", "of type v1.PodTemplateSpec"),
    "entries that are none": (made("batch.volcano.sh/v1alpha1", "Job", {"tasks": 3}), "spec.tasks", "list or a map"),
    "too many": (made(*RS[:2], {**SET, "replicas": 100_001}), "", "more than 100000 pods would be created"),
}


@pytest.mark.parametrize(("document", "path", "message"), WRONG.values(), ids=WRONG)
def test_field_of_the_wrong_shape_is_an_error_with_its_place(document: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        expand(loaded(document))
    assert caught.value.path == path
    assert message in caught.value.message
    assert caught.value.subject == f'{document["kind"]} "default/x"'


def test_two_of_one_name_are_an_error() -> None:
    with pytest.raises(InputError, match="already defined in"):
        expand(loaded(made("batch/v1", "Job", {"template": TEMPLATE}), made("batch/v1", "Job", {"template": TEMPLATE})))


def test_run_needs_its_cron_job() -> None:
    with pytest.raises(InputError, match="no CronJob default/weekly is in the input"):
        expand(loaded(made("v1", "Namespace")), run=["weekly"])


@pytest.mark.parametrize(
    ("containers", "asking"),
    [
        (["node"], ["node"]),
        (["main"], ["main"]),  # the only one is meant
        (["side", "node"], ["node"]),
        (["side", "other"], []),
    ],
)
def test_resources_of_a_trainer_are_those_of_its_container(containers: list[str], asking: list[str]) -> None:
    """whatif.md 2.5: the resources of the trainer are those of the container `node`, or of the only one."""
    pods = {"template": {"spec": {"containers": [{"name": name} for name in containers]}}}
    runtime = made(
        "trainer.kubeflow.org/v1alpha1",
        "ClusterTrainingRuntime",
        {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": pods}}]}}},
        name="torch",
    )
    trainer = {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": "3"}}}
    job = made("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "torch"}, "trainer": trainer})
    found = expand(loaded(runtime, job)).manifests.pods
    assert len(found) == 2
    for one in found:
        asked = [each.name for each in one.object.spec.containers if each.resources.requests]
        assert asked == asking


def test_no_more_pods_are_made_than_a_plan_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """whatif.md 1.10: of all workloads together."""
    monkeypatch.setattr(batches, "MOST_PODS", 5)
    both = (made(*RS[:2], {**SET, "replicas": 3}), made(*RS[:2], {**SET, "replicas": 2}, name="second"))
    assert len(made_of(*both)) == 5
    with pytest.raises(InputError, match="more than 5 pods would be created") as caught:
        expand(loaded(*both, made(*RS[:2], {**SET, "replicas": 1}, name="third")))
    assert caught.value.subject == 'ReplicaSet "default/third"'


@pytest.mark.parametrize("uid", ["", "u-1"])
def test_made_pod_has_its_controller_as_owner(uid: str) -> None:
    """whatif.md 1.3: the owner reference is the controlling one, with the UID where there is one."""
    found = expand(loaded(made(*RS[:2], SET, **({"uid": uid} if uid else {})))).manifests.pods
    [owner] = found[0].object.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller, owner.block_owner_deletion) == (
        "ReplicaSet",
        "x",
        uid,
        True,
        True,
    )


# -- misspelt fields -------------------------------------------------------------------------------


def test_misspelt_fields_in_templates_of_custom_kinds_are_found() -> None:
    bad = {"spec": {"nodeSelectr": {}, "containers": [{"name": "c"}]}}
    job = {"name": "w", "template": {"spec": {"paralelism": 2, "template": bad}}}
    found = loaded(made("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [job]})).unknown_fields
    assert [(each.nearest, each.origin.line) for each in found] == [("nodeSelector", 15), ("parallelism", 10)]


@pytest.mark.parametrize(
    ("document", "misspelt", "meant"),
    [
        (
            made("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"template": TEMPLATE, "replica": 2}]}),
            "replica",
            "replicas",
        ),
        (
            made(
                "leaderworkerset.x-k8s.io/v1",
                "LeaderWorkerSet",
                {"leaderWorkerTemplate": {"sise": 2, "workerTemplate": TEMPLATE}},
            ),
            "sise",
            "size",
        ),
    ],
)
def test_misspelt_counts_of_custom_kinds_are_found(document: dict[str, Any], misspelt: str, meant: str) -> None:
    found = {(each.path[-1], each.nearest) for each in expand(loaded(document)).unknown_fields}
    assert found == {(misspelt, meant)}


# -- rows of users ---------------------------------------------------------------------------------


FILE = """apiVersion: reprieve.dev/v1alpha1
kind: WorkloadKinds
workloadKinds:
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b", "must be an object with apiVersion reprieve.dev/v1alpha1 and kind WorkloadKinds"),
        ("", "it lists no kinds"),
        ("{", "invalid YAML"),
        (FILE + "- {kind: X, set: []}", 'workloadKinds[0].set: unknown field, did you mean "sets"?'),
        (FILE + "- {group: e.com, kind: X}", "workloadKinds[0].sets: Required value"),
        (FILE + "- {group: e.com, sets: [{}]}", "missing required field `kind`"),
        (FILE + "- {group: e.com, kind: X, gang: all, sets: [{}]}", "workloadKinds[0].gang: Unsupported value"),
        (FILE + "- {group: e.com, kind: X, sets: [{replicas: -2}]}", "workloadKinds[0].sets[0].replicas: Invalid"),
        (FILE + "- {group: e.com, kind: X, sets: [{name: '{nam}'}]}", "workloadKinds[0].sets[0].name: Invalid"),
        (FILE + "- {group: e.com, kind: X, sets: [{name: '{name.x}'}]}", "workloadKinds[0].sets[0].name: Invalid"),
        (FILE + "- {group: e.com, kind: X, sets: [{makes: Job}]}", "workloadKinds[0].sets[0].makes: Invalid"),
        (FILE + "- {group: e.com, kind: X, sets: [{owner: me}]}", "workloadKinds[0].sets[0].owner: Invalid"),
        (FILE + "- {kind: X, minCountOfPart: least, sets: [{}]}", "minCountOfPart: Invalid value"),
    ],
)
def test_rows_that_cannot_be_read_are_an_error_with_their_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_rows("kinds.yaml", text)
    assert str(caught.value).startswith("kinds.yaml")
    assert message in str(caught.value)


def test_row_of_a_file_replaces_the_built_in_one() -> None:
    text = FILE + "- {group: ray.io, kind: RayCluster, sets: [{each: spec.head, name: '{name}-0'}]}"
    found = expand(
        loaded(made("ray.io/v1", "RayCluster", {"head": {"template": TEMPLATE}})),
        rows=TABLE.with_more(read_rows("f", text)),
    )
    assert [one.object.name for one in found.manifests.pods] == ["x-0"]
