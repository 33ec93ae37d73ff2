"""Changes to an input before it is planned (whatif.md 4)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml

from kube_rules.errors import InputError
from kube_rules.manifests import Manifests
from kube_rules.objects import Pod
from reprieve.inputs.loader import load
from reprieve.questions.changes import ChangedInput, InputChange, changed, with_changes
from reprieve.simulation.plan import plan
from reprieve.simulation.report import Plan
from reprieve.simulation.workloads.expansion import expand
from tests import manifests
from tests.manifests import gang

Json = dict[str, Any]


def node(name: str, cpu: str = "4", labels: Json | None = None, **more: Any) -> Json:
    made = manifests.node(name, cpu, pods=10, labels={"kubernetes.io/hostname": name, **(labels or {})})
    return {**made, **more}


def pod(name: str, on: str = "", owner: str = "", cpu: str = "1", **more: Any) -> Json:
    """`owner`: `Kind name`; `labels`, `annotations` go into the metadata, the rest into the spec."""
    meta: Json = {"namespace": "default"}
    meta |= {key: more.pop(key) for key in ("labels", "annotations") if key in more}
    if owner:
        kind, of = owner.split()
        version = {"Job": "batch/v1", "Node": "v1"}.get(kind, "apps/v1")
        meta["ownerReferences"] = [
            {"apiVersion": version, "kind": kind, "name": of, "uid": f"u-{of}", "controller": True}
        ]
    return manifests.pod(name, cpu, node=on, meta=meta, **more)


def loaded(*documents: Json) -> Manifests:
    return load(["-"], stdin=io.BytesIO(yaml.safe_dump_all(documents).encode()))


def made(manifests: Manifests, *flags: str) -> ChangedInput:
    """The input after `drain n1`, `add-nodes 2 like n1` and so on."""
    changes = []
    for flag in flags:
        name, _, value = flag.partition(" ")
        value, _, like = value.partition(" like ")
        changes.append(InputChange(name, value, like))
    return changed(manifests, changes)


def planned(manifests: Manifests, *flags: str) -> Plan:
    after = made(manifests, *flags)
    return with_changes(plan(expand(after.manifests).manifests), after).plan


def where(answer: Plan) -> dict[str, str | None]:
    return {one.name: one.to or one.outcome for one in answer.displaced}


NODES = (node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "b"}))


def test_pod_moves_to_a_node_that_no_filter_checks() -> None:
    """whatif.md 4.11: neither capacity nor selector nor cordon counts; its old place is free."""
    full = node("n2", cpu="1", labels={"pool": "b"}, spec={"unschedulable": True})
    given = loaded(NODES[0], full, pod("runs", on="n1", cpu="4", nodeSelector={"pool": "a"}), pod("new", cpu="4"))
    answer = planned(given, "move pod/runs=n2")
    assert [(outcome.name, outcome.node_name) for outcome in answer.pods] == [("new", "n1")]
    (moved,) = (item.object for item in made(given, "move pod/runs=n2").manifests.pods if item.object.name == "runs")
    assert moved.spec.node_name == "n2"


# -- nodes -----------------------------------------------------------------------------------------


def test_cordoned_node_takes_no_pods_and_keeps_its_own() -> None:
    answer = planned(loaded(*NODES, pod("runs", on="n1"), pod("new")), "cordon n1")
    assert answer.pods[0].node_name == "n2"
    assert (answer.changes[0].change, answer.changes[0].nodes) == ("--cordon n1", ("n1",))
    assert not answer.displaced


def test_nodes_are_named_or_selected() -> None:
    after = made(loaded(*NODES, node("n3", labels={"pool": "a"})), "cordon pool=a", "uncordon n3")
    assert [one.object.spec.unschedulable for one in after.manifests.nodes] == [True, False, False]


def test_input_stays_as_it_was() -> None:
    given = loaded(*NODES, pod("a", on="n1", owner="ReplicaSet r"))
    before = [(one.object, one.order) for one in given.all()]
    made(given, "drain n1", "scale replicaset/r=3", "remove-node n2")
    assert [(one.object, one.order) for one in given.all()] == before


def test_drain_moves_pods_with_a_controller_and_loses_others() -> None:
    given = loaded(
        *NODES,
        pod("web-5d4-abcde", on="n1", owner="ReplicaSet web-5d4"),
        pod("db-0", on="n1", owner="StatefulSet db"),
        pod("bare", on="n1"),
        pod("agent-xxxxx", on="n1", owner="DaemonSet agent", cpu="100m"),
        pod("etcd-n1", on="n1", owner="Node n1", cpu="100m"),
        pod("stays", on="n2"),
    )
    answer = planned(given, "drain n1")
    assert where(answer) == {"bare": "Lost", "db-0": "n2", "web-5d4-abcde": "n2"}
    assert {one.name: one.successor for one in answer.displaced} == {
        "bare": None,
        "db-0": "db-0",
        "web-5d4-abcde": "web-5d4-00000",
    }
    assert [one.name for one in answer.lost] == ["bare"]
    assert not answer.all_placed
    assert "2 DaemonSet or static pods stay" in answer.changes[0].sentence


def test_drain_names_the_data_it_loses_and_what_kubectl_insists_on() -> None:
    """whatif.md 4.4: as `kubectl drain` would refuse; ended pods, and those that stay, are not asked about."""
    cache: Json = {"volumes": [{"name": "cache", "emptyDir": {"medium": "Memory"}}, {"name": "conf", "configMap": {}}]}
    web = pod("web-5d4-abcde", on="n1", owner="ReplicaSet web-5d4", **cache)
    ended = {**pod("ended", on="n1", **cache), "status": {"phase": "Succeeded"}}
    daemon = pod("agent-abcde", on="n1", owner="DaemonSet agent", **cache)
    answer = planned(loaded(*NODES, web, ended, daemon), "drain n1")
    assert [(one.name, one.empty_dirs) for one in answer.displaced] == [("web-5d4-abcde", ("cache",))]
    assert answer.changes[0].kubectl_needs == ("--ignore-daemonsets", "--delete-emptydir-data")
    assert "1 loses emptyDir data" in answer.changes[0].sentence
    alone = planned(loaded(*NODES, pod("bare", on="n1"), pod("etcd-n1", on="n1", owner="Node n1")), "drain n1")
    assert alone.changes[0].kubectl_needs == ("--force",)
    assert planned(loaded(*NODES, web), "fail n1").displaced[0].empty_dirs == ("cache",)
    assert planned(loaded(*NODES, web), "fail n1").changes[0].kubectl_needs == ()


@pytest.mark.parametrize(
    ("volume", "uid", "lost"),
    [
        ({"emptyDir": None}, "", ("v",)),
        ({}, "", ("v",)),
        ({"configMap": None}, "", ("v",)),
        ({"configMap": {"name": "c"}}, "", ()),
        ({"hostPath": {"path": "/x"}, "emptyDir": None}, "", ()),
        ({"emptyDir": {}}, "1", ("v",)),
        ({}, "1", ()),  # admitted, so it had a source that was left out
    ],
)
@pytest.mark.parametrize("dumped", [yaml.safe_dump_all, lambda documents: "\n".join(map(json.dumps, documents))])
def test_volume_without_a_source_is_an_empty_directory(
    volume: Json, uid: str, lost: tuple[str, ...], dumped: Callable[[Sequence[Json]], str]
) -> None:
    """whatif.md 4.4, as an API server defaults the volume before any drain sees it."""
    web = pod("web", on="n1", volumes=[{"name": "v", **volume}])
    web["metadata"]["uid"] = uid
    cluster = load(["-"], stdin=io.BytesIO(dumped([*NODES, web]).encode()))
    assert planned(cluster, "drain n1").displaced[0].empty_dirs == lost


def test_drain_names_the_budgets_in_its_way() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    pods = [pod(f"web-{i}", on="n1", owner="StatefulSet web", labels={"app": "web"}) for i in range(3)]
    answer = planned(loaded(*NODES, budget, *pods), "drain n1")
    assert [one.budgets for one in answer.displaced] == [(), ("default/web",), ("default/web",)]
    assert "2 violate a budget" in answer.changes[0].sentence


def test_broken_gang_is_named_with_what_is_left() -> None:
    members = [
        pod(f"g-{i}-aaaaa", on=f"n{i % 2 + 1}", owner="Job g", cpu="2", schedulingGroup={"podGroupName": "g"})
        for i in range(4)
    ]
    answer = planned(loaded(*NODES, gang("g", 4), *members), "drain n1")
    (broken,) = answer.broken_gangs
    assert (broken.name, broken.before, broken.left, broken.coming_back, broken.after) == ("g", 4, 2, 2, 2)
    assert [one.outcome for one in answer.displaced] == ["Waiting", "Waiting"]


def test_removed_node_takes_its_daemons_along() -> None:
    given = loaded(*NODES, pod("a-xxxxx", on="n1", owner="DaemonSet a"), pod("w-xxxxx", on="n1", owner="ReplicaSet w"))
    after = made(given, "remove-node n1")
    assert [one.object.name for one in after.manifests.nodes] == ["n2"]
    assert [(one.object.name, one.object.spec.node_name) for one in after.manifests.pods] == [("w-00000", "")]


def test_failed_node_stays_and_takes_no_pods() -> None:
    given = loaded(NODES[0], pod("w-xxxxx", on="n1", owner="ReplicaSet w"))
    answer = planned(given, "fail n1")
    assert where(answer) == {"w-xxxxx": "Waiting"}
    assert "untolerated taint" in (answer.pods[0].message or "")


def test_new_nodes_are_like_the_one_that_is_named() -> None:
    tainted = node("gpu", labels={"pool": "gpu"}, spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
    given = loaded(tainted, node("gpu-1"), pod("agent-xxxxx", on="gpu", owner="DaemonSet agent", cpu="500m"))
    after = made(given, "cordon gpu", "add-nodes 2 like gpu")
    nodes = {one.object.name: one.object for one in after.manifests.nodes}
    assert sorted(nodes) == ["gpu", "gpu-1", "gpu-2", "gpu-3"]
    new = nodes["gpu-2"]
    assert new.metadata.labels == {"kubernetes.io/hostname": "gpu-2", "pool": "gpu"}
    assert [taint.key for taint in new.spec.taints] == ["gpu"]
    assert not new.spec.unschedulable
    on = [one.object.spec.node_name for one in after.manifests.pods]
    assert on == ["gpu", "gpu-2", "gpu-3"], "the daemon comes along where no controller makes it"


def test_terminating_pod_is_neither_evicted_nor_lost() -> None:
    ending = pod("web-5d4-abcde", on="n1", owner="ReplicaSet web-5d4")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for change in ("drain n1", "fail n1", "remove-node n1", "taint n1 k:NoExecute"):
        answer = planned(loaded(*NODES, ending), change)
        assert (answer.displaced, answer.lost, answer.pods) == ((), (), ())
    assert planned(loaded(*NODES, ending), "drain n1").changes[0].sentence == "0 pods evicted from 1 node"


def test_taint_that_executes_evicts_pods_that_do_not_tolerate_it() -> None:
    """whatif.md 4.5: as kube-controller-manager evicts by taint; a taint that only keeps out moves no pods."""
    tolerates: Json = {"tolerations": [{"key": "k", "operator": "Exists"}]}
    given = loaded(
        *NODES,
        pod("web-5d4-abcde", on="n1", owner="ReplicaSet web-5d4", cpu="100m"),
        pod("bare", on="n1", cpu="100m"),
        pod("strong", on="n1", cpu="100m", **tolerates),
        pod("agent-xxxxx", on="n1", owner="DaemonSet agent", cpu="100m"),
    )
    answer = planned(given, "taint n1 k=v:NoExecute")
    assert {one.name: (one.outcome, one.to) for one in answer.displaced} == {
        "web-5d4-abcde": ("Moved", "n2"),
        "bare": ("Lost", None),
    }
    assert answer.changes[0].sentence == (
        "1 node: taint k=v:NoExecute added, 3 pods evicted, 1 comes back, 1 without a controller is lost"
    )
    assert not planned(given, "taint n1 k=v:NoSchedule").displaced


def test_taints_and_labels_are_put_on_and_taken_off() -> None:
    after = made(
        loaded(*NODES), "taint n1=a=b:NoSchedule", "taint pool=b x:NoExecute", "label n1 zone=z", "label n2=pool-"
    )
    one, two = (each.object for each in after.manifests.nodes)
    assert [(t.key, t.value, t.effect) for t in one.spec.taints] == [("a", "b", "NoSchedule")]
    assert [(t.key, t.value, t.effect) for t in two.spec.taints] == [("x", "", "NoExecute")]
    assert one.metadata.labels["zone"] == "z"
    assert "pool" not in two.metadata.labels
    gone = made(after.manifests, "taint n1 a-", "taint n2 x:NoExecute-")
    assert [each.object.spec.taints for each in gone.manifests.nodes] == [(), ()]


# -- workloads -------------------------------------------------------------------------------------


TEMPLATE: Json = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
DEPLOYMENT: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}
PYTORCH: Json = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "pt"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}},
            "Worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}},
        }
    },
}


def names(after: ChangedInput) -> list[str]:
    return sorted(one.object.name for one in expand(after.manifests).manifests.pods)


BOX: Json = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}}


def of_kind(version: str, kind: str, name: str, **spec: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


RAY = of_kind(
    "ray.io/v1",
    "RayCluster",
    "ray",
    headGroupSpec={"template": BOX},
    workerGroupSpecs=[{"groupName": "small", "replicas": 1, "maxReplicas": 3, "template": BOX}],
)


def test_pods_of_a_snapshot_are_scaled_after_one_of_them() -> None:
    """Owners have no template there: the pods are what is known."""
    runs = [
        pod(f"w-5d4-aaaa{i}", on="n1", owner="ReplicaSet w-5d4", labels={"pod-template-hash": "5d4"}) for i in "xyz"
    ]
    assert names(made(loaded(*NODES, *runs), "scale deployment/w=4")) == [
        *(f"w-5d4-{n}" for n in ("00000", "aaaax", "aaaay", "aaaaz"))
    ]
    costs = [{**one, "metadata": {**one["metadata"]}} for one in runs]
    costs[0]["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    assert names(made(loaded(*NODES, *costs), "scale deployment/w=2")) == ["w-5d4-aaaay", "w-5d4-aaaaz"]
    sts = [pod(f"db-{i}", on="n1", owner="StatefulSet db", cpu="100m") for i in range(3)]
    assert names(made(loaded(*NODES, *sts), "scale sts/db=1")) == ["db-0"]


def test_scaling_a_group_sets_its_minimum() -> None:
    after = made(loaded(*NODES, gang("g", 4)), "scale podgroup/g=2")
    assert after.manifests.pod_groups[0].object.min_count == 2
    assert after.applied[0].sentence == "minCount of podgroup default/g 4 -> 2"


def test_priority_is_set_for_all_that_share_it() -> None:
    members = [pod(f"g-{i}", owner="Job g", schedulingGroup={"podGroupName": "g"}) for i in range(2)]
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "top"}, "value": 900}
    after = made(loaded(*NODES, classes, gang("g", 2), *members), "set-priority job/g=top")
    assert {one.object.spec.priority for one in after.manifests.pods} == {900}
    assert after.manifests.pod_groups[0].object.spec.priority == 900
    later = made(loaded(*NODES, PYTORCH), "set-priority pytorchjob/pt=7")
    assert {one.object.spec.priority for one in expand(later.manifests).manifests.pods} == {7}


def test_priority_of_a_train_job_is_not_that_of_others_with_its_runtime() -> None:
    """whatif.md 4.9: its templates are in its runtime."""
    replicated = {"name": "node", "template": {"spec": {"template": TEMPLATE}}}
    version = "trainer.kubeflow.org/v1alpha1"
    runtime = {
        "apiVersion": version,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {"template": {"spec": {"replicatedJobs": [replicated]}}},
    }
    jobs = [
        {
            "apiVersion": version,
            "kind": "TrainJob",
            "metadata": {"name": name},
            "spec": {"runtimeRef": {"name": "torch"}},
        }
        for name in ("t", "u")
    ]
    cluster = loaded(*NODES, runtime, *jobs)
    after = made(cluster, "set-priority trainjob/t=5", "set-priority trainjob/t=7")
    pods = expand(after.manifests).manifests.pods
    assert {one.object.name[0]: one.object.spec.priority for one in pods} == {"t": 7, "u": 0}
    with pytest.raises(InputError, match="trainjob default/t has no pods and no template"):
        made(loaded(*NODES, *jobs), "set-priority trainjob/t=7")


@pytest.mark.parametrize(
    ("own", "policy", "kind", "before"),
    [
        ({}, {"numNodes": 4}, "ClusterTrainingRuntime", 4),
        ({}, {"numNodes": 4}, "TrainingRuntime", 4),
        ({"numNodes": 3}, {"numNodes": 4}, "ClusterTrainingRuntime", 3),
        ({}, {}, "ClusterTrainingRuntime", 1),
        ({}, {"numNodes": 4}, "", 1),
    ],
    ids=["of its runtime", "of a runtime of its namespace", "its own", "neither sets it", "no runtime in the input"],
)
def test_nodes_of_a_train_job_default_to_those_of_its_runtime(own: Json, policy: Json, kind: str, before: int) -> None:
    """whatif.md 2.5, 4.8: its own number comes first, and where neither sets it, it is one."""
    version = "trainer.kubeflow.org/v1alpha1"
    replicated = {"name": "node", "template": {"spec": {"template": TEMPLATE}}}
    runtime = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "torch"} | ({"namespace": "default"} if kind == "TrainingRuntime" else {}),
        "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [replicated]}}},
    }
    spec: Json = {"runtimeRef": {"name": "torch", **({"kind": kind} if kind else {})}, "trainer": own}
    job = {"apiVersion": version, "kind": "TrainJob", "metadata": {"name": "t"}, "spec": spec}
    cluster = loaded(*NODES, *([runtime] if kind else []), job)
    after = made(cluster, "scale trainjob/t=2")
    assert [each.sentence for each in after.applied] == [f"trainjob default/t {before} -> 2"]
    assert len(expand(cluster).manifests.pods) == (before if kind else 0)
    assert len(expand(after.manifests).manifests.pods) == (2 if kind else 0)


def test_without_takes_all_that_is_owned() -> None:
    members = [pod(f"g-{i}", on="n1", owner="Job g", schedulingGroup={"podGroupName": "g"}) for i in range(2)]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "g"}, "spec": {"template": TEMPLATE}}
    after = made(loaded(*NODES, job, gang("g", 2), *members, pod("other")), "without job/g")
    assert names(after) == ["other"]
    assert not after.manifests.pod_groups
    assert names(made(loaded(*NODES, gang("g", 2), *members, pod("other")), "without podgroup/g")) == ["other"]


def test_daemon_comes_to_new_nodes() -> None:
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {"template": TEMPLATE},
    }
    assert len(names(made(loaded(*NODES, daemons), "add-nodes 3 like n1"))) == 5


def test_returning_pod_is_not_made_again_by_its_workload() -> None:
    deployment = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 1}}
    runs = pod("web-5d4-aaaaa", on="n1", owner="ReplicaSet web-5d4", labels={"pod-template-hash": "5d4"})
    assert names(made(loaded(*NODES, deployment, runs), "drain n1")) == ["web-5d4-00000"]


# -- order and errors ------------------------------------------------------------------------------


def test_changes_happen_in_the_order_given() -> None:
    given = loaded(NODES[0], pod("w-xxxxx", on="n1", owner="ReplicaSet w"))
    assert where(planned(given, "drain n1", "add-nodes 1 like n1")) == {"w-xxxxx": "n1-1"}
    assert where(planned(given, "drain n1", "uncordon n1")) == {"w-xxxxx": "n1"}
    assert where(planned(given, "uncordon n1", "drain n1")) == {"w-xxxxx": "Waiting"}
    sentences = [one.change for one in planned(given, "drain n1", "add-nodes 1 like n1").changes]
    assert sentences == ["--drain n1", "--add-nodes 1 --like n1"]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("cordon gpu-77", '--cordon gpu-77: no node "gpu-77", did you mean "gpu-7"?'),
        ("drain pool=c", '--drain pool=c: no node matches "pool=c"'),
        ("drain a=(", "neither a node nor a label selector"),
        ("add-nodes 0 like n1", "expected a number of nodes from 1 to 10000"),
        ("add-nodes 1", "--like NODE must name the node"),
        ("add-nodes 1 like pool in (a,b)", "matches 2 nodes"),
        ("taint n1=a=b", "expected KEY[=VALUE]:EFFECT"),
        ("taint n1 a=b:Never", "expected KEY[=VALUE]:EFFECT"),
        ("taint n1 a-", 'has no taint "a"'),
        ("taint nowhere", 'expected "NODE|SELECTOR KEY=VALUE:EFFECT", or NODE=KEY=VALUE:EFFECT with the name'),
        ("taint n1 a!b=c:NoSchedule", '"a!b": name part must consist of'),
        ("taint n1 a=b!:NoSchedule", '"b!": a valid label'),
        ("label n1 a b=c", '"a b": name part must consist of'),
        ("label n1 a=b!", '"b!": a valid label'),
        ("label nowhere", 'expected "NODE|SELECTOR KEY=VALUE", or NODE=KEY=VALUE with the name of a node'),
        ("label n1 zone", "expected KEY=VALUE"),
        ("label n1 zone-", 'has no label "zone"'),
        ("scale web=2", "expected KIND/NAME"),
        ("scale deployment/web", "expected KIND/NAME=N"),
        ("scale deployment/webb=2", 'no deployment default/webb is in the input, did you mean "deployment/web"?'),
        ("scale deploymint/web=2", 'no kind "deploymint", did you mean "deployment"?'),
        ("scale deployment/web=-1", "expected a number from 0"),
        ("scale pytorchjob/pt=2", "has several counts: specify pytorchjob/pt/master or pytorchjob/pt/worker"),
        ("scale pytorchjob/pt/wroker=2", 'no such part, did you mean "worker"? It has pytorchjob/pt/master or'),
        ("scale raycluster/ray/small=4", "raycluster default/ray (small): no more than its maxReplicas, 3"),
        ("set-priority deployment/web=gold", "no PriorityClass with name gold"),
        ("set-priority deployment/web=9999999999", "up to 1000000000"),
        ("without pod/web", "no pod default/web is in the input"),
        ("without other/deployment/web", "no deployment other/web is in the input"),
    ],
)
def test_change_that_meets_nothing_is_an_error(flag: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        made(loaded(*NODES, node("gpu-7"), DEPLOYMENT, PYTORCH, RAY), flag)
    assert message in str(caught.value)


def test_one_name_of_two_groups_has_to_say_which() -> None:
    jobs = [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": TEMPLATE}},
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"tasks": []}},
    ]
    with pytest.raises(InputError, match=r"names 2 objects: specify one of job.batch/j or job.batch.volcano.sh/j"):
        made(loaded(*NODES, *jobs), "without job/j")
    after = made(loaded(*NODES, *jobs), "without job.batch/j")
    assert [maker.manifest["apiVersion"] for maker in after.manifests.pod_makers] == ["batch.volcano.sh/v1alpha1"]


def test_many_pods_of_many_nodes_cost_little() -> None:
    given = loaded(
        *(node(f"n{i}", labels={"pool": "a"}) for i in range(300)),
        *(pod(f"w-{i}-aaaaa", on=f"n{i % 300}", owner="ReplicaSet w", cpu="10m") for i in range(2_000)),
    )
    after = made(given, "drain pool=a")
    assert len(after.displaced) == 2_000
    assert len({one.object.name for one in after.manifests.of(Pod)}) == 2_000
