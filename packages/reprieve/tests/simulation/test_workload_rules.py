"""Rules of workloads, one by one: what pods are like, and how many there are (whatif.md 1-2).

Beside `test_workloads.py`, which expands whole manifests, and the files on gangs and on rows of users.
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.errors import InputError
from kube_rules.objects import Pod
from reprieve.scheduling.arrival_order import in_order
from reprieve.simulation.workloads.expansion import expand
from tests.simulation.test_workload_gangs import GANG
from tests.simulation.test_workloads import TEMPLATE, loaded, made, made_of, pod

Json = dict[str, Any]
TRAINER = "trainer.kubeflow.org/v1alpha1"
RS = ("apps/v1", "ReplicaSet", {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE})


# -- what pods are like ----------------------------------------------------------------------------


def pods_of(*documents: Json) -> list[Pod]:
    """The pods that are made of an input."""
    given = loaded(*documents)
    found = expand(given)
    assert not found.problems
    return [one.object for one in found.manifests.pods][len(given.pods) :]


def as_data(*documents: Json) -> list[Json]:
    """The same as plain data, fields that no scheduler reads included."""
    return [batch.manifest(one) for batch in expand(loaded(*documents)).batches for one in batch.pods]


def test_template_fields_stay_except_those_the_controller_sets() -> None:
    """whatif.md 1.3: labels and annotations of both; the host name of the controller counts."""
    template = {
        "metadata": {"labels": {"app": "a", "job-name": "mine"}, "annotations": {"note": "kept"}},
        "spec": {"hostname": "own", "schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c"}]},
    }
    spec = {"completionMode": "Indexed", "completions": 1, "template": template}
    group = made("scheduling.k8s.io/v1beta1", "PodGroup", {"schedulingPolicy": {"basic": {}}}, name="g")
    documents = (group, made("batch/v1", "Job", spec, annotations=GANG))
    [one] = pods_of(*documents)
    assert one.metadata.labels == {
        "app": "a",
        "job-name": "x",
        "batch.kubernetes.io/job-name": "x",
        "batch.kubernetes.io/job-completion-index": "0",
    }
    assert one.metadata.annotations == {"note": "kept", "batch.kubernetes.io/job-completion-index": "0"}
    assert [each["spec"]["hostname"] for each in as_data(*documents)] == ["x-0"]
    assert one.spec.scheduling_group is not None
    assert one.spec.scheduling_group.pod_group_name == "g"
    assert [(each.kind, each.name) for each in one.metadata.owner_references] == [("Job", "x")]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        (made("batch/v1", "Job", {"completionMode": "Indexed", "completions": 2, "template": TEMPLATE}), ["x-0"]),
        (made("batch/v1", "Job", {"template": TEMPLATE}), [None]),
        (made("apps/v1", "StatefulSet", {"ordinals": {"start": 3}, "template": TEMPLATE}), ["x-3"]),
        (made("apps/v1", "ReplicaSet", {"template": TEMPLATE}), [None]),
        (
            made(
                "leaderworkerset.x-k8s.io/v1",
                "LeaderWorkerSet",
                {"leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}},
            ),
            ["x-0", "x-0-1"],
        ),
        (
            made(
                "kubeflow.org/v2beta1",
                "MPIJob",
                {"mpiReplicaSpecs": {"Launcher": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}},
            ),
            [None, "x-worker-0"],
        ),
    ],
    ids=["Indexed Job", "Job", "StatefulSet", "ReplicaSet", "LeaderWorkerSet", "MPIJob"],
)
def test_pods_of_an_index_have_a_host_name(document: Json, names: list[str | None]) -> None:
    """whatif.md 1.3: as their controllers give it."""
    assert [each["spec"].get("hostname") for each in as_data(document)] == names


def test_pod_of_a_stateful_set_has_its_claims_in_place_of_volumes_of_their_name() -> None:
    """whatif.md 2.3: claims are made where they do not exist, once, with the labels of template and selector."""
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    template = {"spec": {"volumes": volumes, "containers": [{"name": "c"}]}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}
    claims = [{"metadata": {"name": name, "labels": {"of": name}}, "spec": spec} for name in ("data", "log")]
    there = made("v1", "PersistentVolumeClaim", {**spec, "storageClassName": "old"}, name="data-x-0")
    of_set = {"replicas": 2, "serviceName": "peers", "selector": {"matchLabels": {"app": "x"}}}
    whole = made("apps/v1", "StatefulSet", {**of_set, "template": template, "volumeClaimTemplates": claims})
    found = expand(loaded(whole, there)).manifests
    assert [
        {
            each.name: each.persistent_volume_claim and each.persistent_volume_claim.claim_name
            for each in one.spec.volumes
        }
        for one in (each.object for each in found.pods)
    ] == [{"tmp": None, "data": f"data-x-{turn}", "log": f"log-x-{turn}"} for turn in range(2)]
    assert [
        (one.object.name, one.object.spec.storage_class_name, one.object.metadata.labels)  # type: ignore[attr-defined]
        for one in found.all()
        if one.object.KIND == "PersistentVolumeClaim"
    ] == [
        ("data-x-0", "old", {}),
        ("log-x-0", "fast", {"of": "log", "app": "x"}),
        ("data-x-1", "fast", {"of": "data", "app": "x"}),
        ("log-x-1", "fast", {"of": "log", "app": "x"}),
    ]
    identities = [(each["spec"]["hostname"], each["spec"]["subdomain"]) for each in as_data(whole, there)]
    assert identities == [("x-0", "peers"), ("x-1", "peers")]


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"spec": {"resources": {"requests": []}}}, "spec.volumeClaimTemplates[1].spec.resources.requests"),
        ({"spec": {"accessModes": "ReadWriteOnce"}}, "spec.volumeClaimTemplates[1].spec.accessModes"),
    ],
)
def test_claim_template_that_cannot_be_read_is_an_error_with_its_place(wrong: Json, path: str) -> None:
    claims = [{"metadata": {"name": "good"}, "spec": {}}, {"metadata": {"name": "bad"}, **wrong}]
    whole = made("apps/v1", "StatefulSet", {"template": TEMPLATE, "volumeClaimTemplates": claims})
    with pytest.raises(InputError) as caught:
        expand(loaded(whole))
    assert caught.value.path == path
    assert caught.value.subject == 'StatefulSet "default/x"'


def test_daemon_s_pod_keeps_the_affinity_it_has_beside_its_node() -> None:
    """whatif.md 2.4: what is required of nodes is its node and nothing else."""
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
        **anti,
    }
    template = {"spec": {"affinity": affinity, "containers": [{"name": "c"}]}}
    nodes = [made("v1", "Node", name=name, labels={"pool": pool}) for name, pool in (("n2", "a"), ("n1", "b"))]
    [one] = pods_of(*nodes, made("apps/v1", "DaemonSet", {"template": template}))
    found = one.spec.affinity
    assert found is not None
    assert found.node_affinity is not None
    assert found.pod_anti_affinity is not None
    assert len(found.pod_anti_affinity.required_during_scheduling_ignored_during_execution) == 1
    assert len(found.node_affinity.preferred_during_scheduling_ignored_during_execution) == 1
    terms = found.node_affinity.required_during_scheduling_ignored_during_execution
    assert terms is not None
    assert [[(each.key, each.values) for each in term.match_fields] for term in terms.node_selector_terms] == [
        [("metadata.name", ("n2",))]
    ]
    assert not terms.node_selector_terms[0].match_expressions


@pytest.mark.parametrize(
    ("spec", "taints", "runs"),
    [
        ({}, [], True),
        ({}, [("k", "NoSchedule")], False),
        ({}, [("k", "NoExecute")], False),
        ({}, [("k", "PreferNoSchedule")], True),
        ({"tolerations": [{"key": "k", "operator": "Exists"}]}, [("k", "NoSchedule"), ("k", "NoExecute")], True),
        ({"tolerations": [{"key": "k", "operator": "Exists"}]}, [("k", "NoSchedule"), ("l", "NoSchedule")], False),
        ({}, [("node.kubernetes.io/unschedulable", "NoSchedule")], True),
        ({}, [("node.kubernetes.io/not-ready", "NoExecute")], True),
        ({}, [("node.kubernetes.io/not-ready", "NoSchedule")], False),
        ({}, [("node.kubernetes.io/unreachable", "NoExecute")], True),
        ({}, [("node.kubernetes.io/disk-pressure", "NoSchedule")], True),
        ({}, [("node.kubernetes.io/memory-pressure", "NoSchedule")], True),
        ({}, [("node.kubernetes.io/pid-pressure", "NoSchedule")], True),
        ({}, [("node.kubernetes.io/network-unavailable", "NoSchedule")], False),
        ({"hostNetwork": True}, [("node.kubernetes.io/network-unavailable", "NoSchedule")], True),
        ({"nodeName": "n1"}, [], True),
        ({"nodeName": "m1"}, [], False),
        ({"nodeSelector": {"pool": "a"}}, [], True),
        ({"nodeSelector": {"pool": "a", "zone": "b"}}, [], False),
    ],
)
def test_which_nodes_a_daemon_runs_on(spec: Json, taints: list[tuple[str, str]], runs: bool) -> None:
    """whatif.md 2.4, as the DaemonSet controller's `NodeShouldRunDaemonPod`."""
    node = made("v1", "Node", name="n1", labels={"pool": "a"})
    node["spec"] = {"taints": [{"key": taint, "effect": effect} for taint, effect in taints]}
    template = {"spec": {"containers": [{"name": "c"}], **spec}}
    others = [made("v1", "Node", name="m1")] if "nodeName" in spec else []
    names = made_of(node, *others, made("apps/v1", "DaemonSet", {"template": template}))
    on_m = spec.get("nodeName") == "m1"
    assert len(names) == (1 if runs or on_m else 0)
    if others:
        [one] = pods_of(node, *others, made("apps/v1", "DaemonSet", {"template": template}))
        assert one.spec.node_name == ("m1" if on_m else "n1")


def test_daemon_s_pod_tolerates_each_taint_once() -> None:
    own = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    template = {"spec": {"containers": [{"name": "c"}], "tolerations": [own]}}
    [one] = pods_of(made("v1", "Node", name="n1"), made("apps/v1", "DaemonSet", {"template": template}))
    assert [(each.key.removeprefix("node.kubernetes.io/"), each.effect) for each in one.spec.tolerations] == [
        ("unschedulable", "NoSchedule"),
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
    ]


@pytest.mark.parametrize("where", ["bound", "pinned", "ended", "going", "another's", "nowhere", "other affinity"])
def test_node_that_has_its_daemon_gets_no_other(where: str) -> None:
    """whatif.md 1.1, 2.4: by the node it runs on, or is pinned to."""
    one = pod("d", ("apps/v1", "DaemonSet", "other" if where == "another's" else "x"))
    if where == "pinned":
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        one["spec"]["affinity"] = {"nodeAffinity": required}
    elif where == "other affinity":
        one["spec"]["affinity"] = {"podAntiAffinity": {}}
    elif where != "nowhere":
        one["spec"]["nodeName"] = "n1"
    if where == "ended":
        one["status"] = {"phase": "Failed"}
    if where == "going":
        one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    nodes = [made("v1", "Node", name=name) for name in ("n1", "m1")]
    found = pods_of(*nodes, one, made("apps/v1", "DaemonSet", {"template": TEMPLATE}))
    assert len(found) == (1 if where in ("bound", "pinned") else 2)


def test_made_pods_queue_at_the_time_of_their_object_in_the_order_of_their_index() -> None:
    """whatif.md 1.4; and an object without a time stays without."""
    dated = made("batch/v1", "Job", {"parallelism": 3, "completions": 3, "template": TEMPLATE}, name="old")
    dated["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    found = expand(loaded(dated, made(*RS, name="young"))).manifests
    old, young = ([one for one in found.pods if one.object.name.startswith(name)] for name in ("old", "young"))
    assert [one.created for one in old] == [1767312000.0] * 3
    assert [one.created for one in young] == [1767312001.0]
    queued = in_order((one.object, one.created) for one in (*old, *young))
    assert [item.metadata.name for item, _ in queued] == [one.object.name for one in (*old, *young)]
    assert len({created for _, created in queued}) == 4
    assert ([one.dated for one in old], [one.dated for one in young]) == ([True] * 3, [False])
    orders = [one.order for one in (*old, *young)]
    assert orders == list(range(orders[0], orders[0] + 4))


def test_bound_pod_of_a_template_needs_its_node() -> None:
    """As of pods of the input."""
    template = {"spec": {"nodeName": "n1", "containers": [{"name": "c"}]}}
    job = made("batch/v1", "Job", {"template": template})
    assert [one.spec.node_name for one in pods_of(made("v1", "Node", name="n1"), job)] == ["n1"]
    with pytest.raises(InputError, match='Invalid value: "n1": no Node with this name is in the input') as caught:
        expand(loaded(made("v1", "Node", name="m1"), job))
    assert caught.value.path == "spec.nodeName"


def test_jobs_with_a_deadline_are_known_whatever_makes_them() -> None:
    """cost.md 6.4: by its deadline a Job's pods have ended; of kinds of that name in other groups nothing is known."""
    timed = {"template": TEMPLATE, "activeDeadlineSeconds": 60}
    jobset = {
        "replicatedJobs": [{"name": "w", "template": {"spec": timed}}, {"name": "v", "template": {"spec": timed}}]
    }
    started = {"startTime": "2026-01-01T00:00:00Z"}
    found = expand(
        loaded(
            made("batch/v1", "Job", timed, name="one", status=started),
            made("batch/v1", "Job", {"template": TEMPLATE}, name="endless"),
            made("batch/v1", "Job", {**timed, "suspend": True}, name="held"),
            made("batch/v1", "CronJob", {"jobTemplate": {"spec": timed}, "activeDeadlineSeconds": 60}, name="clock"),
            made("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"template": TEMPLATE}], "activeDeadlineSeconds": 60}),
            made("jobset.x-k8s.io/v1alpha2", "JobSet", jobset, name="set"),
        )
    ).manifests.jobs
    assert [(one.key, one.active_deadline) for one in found] == [
        ("default/one", 60.0),
        ("default/set-w-0", 60.0),
        ("default/set-v-0", 60.0),
    ]
    assert [one.started for one in found] == [1767225600.0, None, None]


# -- how many --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "step", "pods", "asks"),
    [
        ("node", "", 3, True),
        ("other", "", 1, False),
        ("other", "trainer", 3, True),
        ("other", "dataset-initializer", 1, False),
        ("node", "dataset-initializer", 3, True),
        ("launcher", "trainer", 1, True),
    ],
)
def test_which_job_of_a_runtime_trains(name: str, step: str, pods: int, asks: bool) -> None:
    """whatif.md 2.5: the one of that step, or called `node`; a launcher is one whatever the number of nodes."""
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step} if step else {}
    entry = {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": TEMPLATE}}}
    spec = {"template": {"spec": {"replicatedJobs": [entry]}}}
    runtime = made(TRAINER, "ClusterTrainingRuntime", spec, name="torch")
    trainer = {"numNodes": 3, "resourcesPerNode": {"requests": {"cpu": "3"}}}
    found = pods_of(runtime, made(TRAINER, "TrainJob", {"runtimeRef": {"name": "torch"}, "trainer": trainer}))
    assert len(found) == pods
    assert {bool(one.spec.containers[0].resources.requests) for one in found} == {asks}


@pytest.mark.parametrize(
    ("spec", "status", "there", "names"),
    [
        ({"parallelism": 2, "completions": 4}, {}, "", "0 1"),
        ({"parallelism": 2, "completions": 4}, {}, "0", "1"),
        ({"parallelism": 2, "completions": 4}, {}, "1", "0"),
        ({"parallelism": 3, "completions": 4}, {"completedIndexes": "0-1"}, "2", "3"),
        ({"parallelism": 3, "completions": 4}, {"completedIndexes": "0-1"}, "1", "2"),
        ({"parallelism": 3, "completions": 4}, {"completedIndexes": "0-3"}, "", ""),
        ({"parallelism": 3, "completions": 4}, {"completedIndexes": "0", "failedIndexes": "1-2"}, "", "3"),
        ({"parallelism": 1, "completions": 4}, {}, "0 1", ""),
        ({"parallelism": 3}, {}, "", "0"),
        ({"parallelism": 0, "completions": 4}, {}, "", ""),
    ],
)
def test_which_indexes_a_job_makes(spec: Json, status: Json, there: str, names: str) -> None:
    """whatif.md 2.1: the lowest that are neither done nor failed for good nor taken."""
    label = "batch.kubernetes.io/job-completion-index"
    pods = [pod(f"p-{index}", ("batch/v1", "Job", "x"), labels={label: index}) for index in there.split()]
    whole = made("batch/v1", "Job", {**spec, "completionMode": "Indexed", "template": TEMPLATE}, status=status)
    assert " ".join(one.metadata.labels[label] for one in pods_of(whole, *pods)) == names


@pytest.mark.parametrize(
    ("manager", "made_here"),
    [(None, True), ("", True), ("kubernetes.io/job-controller", True), ("m" * 128, False), ("m" * 129, False)],
)
def test_jobs_that_are_not_made(manager: str | None, made_here: bool) -> None:
    """whatif.md 2.1: of `managedBy` no more is shown than 128 characters."""
    whole = made("batch/v1", "Job", {"managedBy": manager, "template": TEMPLATE})
    whole["metadata"]["uid"] = "u"  # a Job of a cluster, which is not validated again
    found = expand(loaded(whole))
    assert len(found.manifests.pods) == made_here
    if not made_here:
        [problem] = found.problems
        assert problem.reason == f'it is managed by "{"m" * 128}", not by the Job controller'


@pytest.mark.parametrize(
    ("first", "second", "newest"), [(2, 1, "a"), (1, 2, "b"), (1, 1, "b"), (None, None, "b"), (1, None, "a")]
)
def test_latest_replica_set_of_one_revision_is_the_newest(first: int | None, second: int | None, newest: str) -> None:
    """whatif.md 2.2: of one moment the last by name."""
    sets = []
    for name, day in (("x-a", first), ("x-b", second)):
        one = made("apps/v1", "ReplicaSet", {"template": TEMPLATE}, name=name, owner=("apps/v1", "Deployment", "x"))
        one["metadata"] |= {} if day is None else {"creationTimestamp": f"2026-01-0{day}T00:00:00Z"}
        sets.append(one)
    assert made_of(made("apps/v1", "Deployment", {"template": TEMPLATE}), *sets) == [f"x-{newest}-00000"]


@pytest.mark.parametrize(("status", "cluster"), [({}, "x-00000"), ({"rayClusterName": "x-abcde"}, "x-abcde")])
def test_cluster_of_a_ray_job_has_the_name_of_its_status(status: Json, cluster: str) -> None:
    """whatif.md 1.3, 1.6: what is there already is not made under another name."""
    spec = {"submissionMode": "HTTPMode", "rayClusterSpec": {"headGroupSpec": {"template": TEMPLATE}}}
    [one] = pods_of(made("ray.io/v1", "RayJob", spec, status=status))
    assert (one.name, one.metadata.labels["ray.io/cluster"]) == (f"{cluster}-head-00000", cluster)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize("going", [False, True])
def test_workload_being_deleted_makes_no_pods(kind: str, going: bool) -> None:
    """whatif.md 1.5."""
    whole = made("apps/v1", kind, {"template": TEMPLATE})
    whole["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    assert len(pods_of(whole)) == (0 if going else 1)


def test_job_that_its_set_makes_is_expanded_once_where_it_is_in_the_input() -> None:
    """whatif.md 1.6."""
    job_spec = {"template": TEMPLATE, "completionMode": "NonIndexed"}
    entry = {"name": "w", "template": {"spec": job_spec}}
    jobset = made("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [entry]})
    assert made_of(jobset, made("batch/v1", "Job", job_spec, name="x-w-0")) == ["x-w-0-00000"]


@pytest.mark.parametrize(
    ("first", "newest"), [(2**63 - 1, "a"), (2**63, "b"), (2**63 + 1, "b"), (0, "b"), (1, "b"), (2, "a")]
)
def test_revision_is_an_int64(first: int, newest: str) -> None:
    """whatif.md 2.2: what is none is below all; of equal ones the last by name."""
    sets = []
    for name, revision in (("x-a", first), ("x-b", 1)):
        notes = {"deployment.kubernetes.io/revision": str(revision)}
        owner = ("apps/v1", "Deployment", "x")
        sets.append(made("apps/v1", "ReplicaSet", {"template": TEMPLATE}, name=name, owner=owner, annotations=notes))
    assert made_of(made("apps/v1", "Deployment", {"template": TEMPLATE}), *sets) == [f"x-{newest}-00000"]


@pytest.mark.parametrize("length", [253, 254])
def test_runtime_that_is_not_there_is_named_in_bounds(length: int) -> None:
    [problem] = expand(loaded(made(TRAINER, "TrainJob", {"runtimeRef": {"name": "r" * length}}))).problems
    assert problem.reason == f'its ClusterTrainingRuntime "{"r" * 253}" is not in the input'


@pytest.mark.parametrize(
    ("conditions", "over"),
    [
        ([], False),
        ([("Complete", "True")], True),
        ([("Failed", "True")], True),
        ([("FailureTarget", "True")], True),
        ([("SuccessCriteriaMet", "True")], True),
        ([("Complete", "False")], False),
        ([("Failed", "Unknown")], False),
        ([("Suspended", "True")], False),
        ([("Complete", "False"), ("Suspended", "True")], False),
        ([("Suspended", "False"), ("Complete", "True")], True),
    ],
)
def test_job_has_ended_by_a_condition_that_is_true(conditions: list[tuple[str, str]], over: bool) -> None:
    """whatif.md 1.5."""
    status = {"conditions": [{"type": type_, "status": status} for type_, status in conditions]}
    assert len(pods_of(made("batch/v1", "Job", {"template": TEMPLATE}, status=status))) == (0 if over else 1)


def test_workload_not_expanded_is_not_planned_without_its_pods() -> None:
    """whatif.md 1.7: it is a problem, and no part of the input any more; what only may have pods stays."""
    documents = (
        made("e.com/v1", "Thing", {"workers": [TEMPLATE]}),
        made("e.com/v1", "Other", {"size": 1}),
        made("v1", "ConfigMap"),
    )
    found = expand(loaded(*documents))
    assert [(one.kind, one.certain) for one in found.problems] == [("Thing", True), ("Other", False)]
    assert [one.kind for one in found.manifests.unknown] == ["Other", "ConfigMap"]
