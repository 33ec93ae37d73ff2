"""What makes pods and is not expanded: answered for as far as its pods are in the input (interfaces.md, `plan`)."""

from __future__ import annotations

import io
from typing import Any

import pytest
import yaml

from reprieve.api.errors import InputError
from reprieve.api.loading import Manifests, load
from reprieve.controlplane.unknown_fields import PackedSchemas
from reprieve.simulation.plan import plan
from reprieve.simulation.unexpanded import unexpanded

SCHEMAS = PackedSchemas()
TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}


def loaded(*documents: dict[str, Any]) -> Manifests:
    text = yaml.safe_dump_all(documents)
    return load(["-"], stdin=io.BytesIO(text.encode()), complete=False, schemas=SCHEMAS)


def made(version: str, kind: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An object named x of the kind; `owner`, `uid`, `labels` and `name` go into its metadata."""
    meta: dict[str, Any] = {"name": more.pop("name", "x")}
    owner = more.pop("owner", None)
    if owner is not None:
        version_, kind_, name = owner
        reference = {"apiVersion": version_, "kind": kind_, "name": name, "uid": "u-" + name, "controller": True}
        meta["ownerReferences"] = [reference]
    meta |= {key: more.pop(key) for key in ("uid", "labels") if key in more}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec or {}, **more}


def pod(name: str, owner: tuple[str, str, str] | None = None, **more: Any) -> dict[str, Any]:
    return made("v1", "Pod", {"containers": [{"name": "c"}]}, name=name, owner=owner, **more)


SELECTOR = {"matchLabels": {"a": "b"}}
SET = {"selector": SELECTOR, "template": TEMPLATE}
RS = ("apps/v1", "ReplicaSet", "x")
GONE = [
    made("apps/v1", "Deployment", SET),
    made("apps/v1", "ReplicaSet", SET),
    made("apps/v1", "StatefulSet", SET),
    made("apps/v1", "DaemonSet", SET),
    made("v1", "ReplicationController", {"template": TEMPLATE}),
    made("v1", "PodTemplate", template=TEMPLATE),
    made("batch/v1", "Job", {"template": TEMPLATE}),
    made("batch/v1", "CronJob", {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}),
    made("jobset.x-k8s.io/v1alpha2", "JobSet"),
    made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    made("ray.io/v1", "RayCluster"),
    made("kubeflow.org/v1", "PyTorchJob"),
    made("kubeflow.org/v2beta1", "MPIJob"),
    made("trainer.kubeflow.org/v1alpha1", "TrainJob"),
    made("batch.volcano.sh/v1alpha1", "Job"),
    made("example.com/v1", "Something"),
    made("v1", "Podd"),
]


@pytest.mark.parametrize("document", GONE, ids=[each["kind"] for each in GONE])
def test_what_makes_pods_that_are_not_there_is_not_answered_for(document: dict[str, Any]) -> None:
    (found,) = unexpanded(loaded(document))
    assert found.kind == document["kind"]
    assert '"' in found.subject


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
        made("scheduling.k8s.io/v1beta1", "Workload", {"podGroupTemplates": []}),
    ],
    ids=lambda document: document["kind"],
)
def test_what_holds_no_pods_is_only_not_read(document: dict[str, Any]) -> None:
    document = {key: value for key, value in document.items() if key != "spec" or value}
    if document["kind"] == "Workload":
        document["spec"] = {
            "podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}],
        }
    assert not unexpanded(loaded(document))


ANSWERED: dict[str, list[dict[str, Any]]] = {
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
    "read from a cluster, all it has made is there": [
        made(*RS[:2], {**SET, "replicas": 3}, uid="u-x", status={"replicas": 1}),
        pod("a", RS),
    ],
    "a job of a cluster that has ended": [
        made("batch/v1", "Job", {"template": TEMPLATE}, uid="u", status={"succeeded": 1}),
    ],
    "a cron job of a cluster between its times": [
        made("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}, uid="u", status={}),
    ],
    "a job, all its parallel pods": [
        made("batch/v1", "Job", {"parallelism": 2, "completions": 8, "template": TEMPLATE}),
        pod("a", ("batch/v1", "Job", "x")),
        pod("b", ("batch/v1", "Job", "x")),
    ],
    "a cluster of somebody's with a pod": [made("ray.io/v1", "RayCluster"), pod("a", ("ray.io/v1", "RayCluster", "x"))],
    "a kind that nobody knows with a pod": [made("e.com/v1", "Thing"), pod("a", ("e.com/v1", "Thing", "x"))],
}


@pytest.mark.parametrize("documents", ANSWERED.values(), ids=ANSWERED)
def test_what_has_its_pods_in_the_input_is_answered_for(documents: list[dict[str, Any]]) -> None:
    assert not unexpanded(loaded(*documents))


NOT_ANSWERED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "one of two pods": ([made(*RS[:2], {**SET, "replicas": 2}), pod("a", RS)], "1 pod of it is not planned"),
    "pods of one with another UID": ([made(*RS[:2], SET, uid="other"), pod("a", RS)], "1 pod of it is not planned"),
    "pods of somebody else": (
        [made("apps/v1", "StatefulSet", {**SET, "replicas": 3}), pod("a", RS)],
        "3 pods of it are not planned",
    ),
    "in another namespace": (
        [made(*RS[:2], SET), {**pod("a", RS), "metadata": {**pod("a", RS)["metadata"], "namespace": "other"}}],
        "1 pod of it is not planned",
    ),
    "a job with fewer completions than parallelism": (
        [made("batch/v1", "Job", {"parallelism": 5, "completions": 2, "template": TEMPLATE})],
        "2 pods of it are not planned",
    ),
    "an unknown number": ([made("ray.io/v1", "RayCluster")], "its pods are not planned"),
    "a job of a cluster without its pods": (
        [made("batch/v1", "Job", {"template": TEMPLATE}, uid="u", status={"active": 4})],
        "4 pods of it are not planned",
    ),
}


@pytest.mark.parametrize(("documents", "reason"), NOT_ANSWERED.values(), ids=NOT_ANSWERED)
def test_pods_that_are_missing_are_counted(documents: list[dict[str, Any]], reason: str) -> None:
    (found,) = unexpanded(loaded(*documents))
    assert found.reason.startswith(reason)


def test_an_owner_speaks_for_what_it_owns() -> None:
    deployment = made("apps/v1", "Deployment", {**SET, "replicas": 2}, name="web")
    owned = made("apps/v1", "ReplicaSet", {**SET, "replicas": 2}, name="web-1", owner=("apps/v1", "Deployment", "web"))
    (found,) = unexpanded(loaded(deployment, owned))
    assert found.kind == "Deployment"


def test_owners_in_a_circle_come_to_an_end() -> None:
    one = made("apps/v1", "ReplicaSet", SET, name="one", owner=("apps/v1", "ReplicaSet", "two"))
    two = made("apps/v1", "ReplicaSet", SET, name="two", owner=("apps/v1", "ReplicaSet", "one"))
    unexpanded(loaded(one, two, pod("a", ("apps/v1", "ReplicaSet", "one"))))


def test_manifests_in_a_scenario_count() -> None:
    scenario = {
        "apiVersion": "reprieve.dev/v1alpha1",
        "kind": "Scenario",
        "spec": {"steps": [{"create": [made("apps/v1", "ReplicaSet", SET)]}]},
    }
    (found,) = unexpanded(loaded(scenario))
    assert found.kind == "ReplicaSet"


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
        ("example.com/v1", "Certificate", "whether it holds pods cannot be told"),
    ],
)
def test_a_misspelt_kind_is_named_with_the_nearest_known_one(version: str, kind: str, hint: str) -> None:
    (found,) = unexpanded(loaded(made(version, kind)))
    assert hint in found.reason


def test_many_kinds_that_nobody_knows_cost_little() -> None:
    documents = [made("example.com/v1", f"Kind{number}") for number in range(3_000)]
    assert len(unexpanded(loaded(*documents))) == 3_000


FROM_A_WORKLOAD = {
    "schedulingPolicy": {"basic": {}},
    "workloadRef": {"workloadName": "w", "templateName": "t"},
}
TREES = [
    made("scheduling.k8s.io/v1alpha3", "CompositePodGroup", FROM_A_WORKLOAD),
    made("scheduling.reprieve.dev/v1beta1", "CompositePodGroup", FROM_A_WORKLOAD),
    made("scheduling.k8s.io/v1beta1", "PodGroup", {**FROM_A_WORKLOAD, "parentCompositePodGroupName": "root"}),
]


@pytest.mark.parametrize("document", TREES, ids=lambda document: document["kind"])
def test_trees_of_groups_are_refused(document: dict[str, Any]) -> None:
    """Planned as if it were flat, a leaf of a tree would get a wrong answer."""
    for documents in ([document], [{"apiVersion": "v1", "kind": "List", "items": [document]}]):
        with pytest.raises(InputError, match="trees of groups are not planned yet") as caught:
            plan(loaded(*documents))
        assert document["kind"] in caught.value.subject


def test_a_tree_in_a_scenario_is_refused() -> None:
    scenario = {
        "apiVersion": "reprieve.dev/v1alpha1",
        "kind": "Scenario",
        "spec": {"steps": [{"create": [TREES[2]]}]},
    }
    with pytest.raises(InputError, match="trees of groups are not planned yet"):
        plan(loaded(scenario))
