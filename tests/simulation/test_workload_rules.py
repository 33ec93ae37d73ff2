"""Rules of workloads, one by one: what pods are like, gangs that are asked for, how many, rows (whatif.md 1-3).

Beside `test_workloads.py`, which expands whole manifests.
"""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.api.errors import InputError
from reprieve.api.manifests import Manifests
from reprieve.api.objects import Pod
from reprieve.simulation.workloads.expanding import expand
from reprieve.simulation.workloads.rows import read_rows
from reprieve.simulation.workloads.table import TABLE

from .test_workloads import FILE, TEMPLATE, loaded, made, made_of, pod

Json = dict[str, Any]
TRAINER = "trainer.kubeflow.org/v1alpha1"
GANG = {"scheduling.reprieve.dev/gang": "true"}


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


def test_what_the_template_says_stays_but_for_what_the_controller_sets() -> None:
    """whatif.md 1.3: labels and annotations of both; the host name of the template counts."""
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
    assert [each["spec"]["hostname"] for each in as_data(*documents)] == ["own"]
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


def test_a_pod_of_a_stateful_set_has_its_claims_in_place_of_volumes_of_their_name() -> None:
    """whatif.md 2.3: claims are made where they do not exist, once, with the labels of their template."""
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    template = {"spec": {"volumes": volumes, "containers": [{"name": "c"}]}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}
    claims = [{"metadata": {"name": name, "labels": {"of": name}}, "spec": spec} for name in ("data", "log")]
    there = made("v1", "PersistentVolumeClaim", {**spec, "storageClassName": "old"}, name="data-x-0")
    whole = made("apps/v1", "StatefulSet", {"replicas": 2, "template": template, "volumeClaimTemplates": claims})
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
        ("log-x-0", "fast", {"of": "log"}),
        ("data-x-1", "fast", {"of": "data"}),
        ("log-x-1", "fast", {"of": "log"}),
    ]


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"spec": {"resources": {"requests": []}}}, "spec.volumeClaimTemplates[1].spec.resources.requests"),
        ({"spec": {"accessModes": "ReadWriteOnce"}}, "spec.volumeClaimTemplates[1].spec.accessModes"),
    ],
)
def test_a_claim_template_that_cannot_be_read_is_an_error_with_its_place(wrong: Json, path: str) -> None:
    claims = [{"metadata": {"name": "good"}, "spec": {}}, {"metadata": {"name": "bad"}, **wrong}]
    whole = made("apps/v1", "StatefulSet", {"template": TEMPLATE, "volumeClaimTemplates": claims})
    with pytest.raises(InputError) as caught:
        expand(loaded(whole))
    assert caught.value.path == path
    assert caught.value.subject == 'StatefulSet "default/x"'


def test_a_daemon_s_pod_keeps_the_affinity_it_has_beside_its_node() -> None:
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


def test_a_daemon_s_pod_tolerates_each_taint_once() -> None:
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
def test_a_node_that_has_its_daemon_gets_no_other(where: str) -> None:
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
    """whatif.md 1.4; and what nobody dates is not dated for that."""
    dated = made("batch/v1", "Job", {"parallelism": 3, "completions": 3, "template": TEMPLATE}, name="old")
    dated["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    found = expand(loaded(dated, made(*RS, name="young"))).manifests
    old, young = ([one for one in found.pods if one.object.name.startswith(name)] for name in ("old", "young"))
    start = 1767312000.0
    assert [round((one.created - start) * 1e6) for one in old] == [0, 1, 2]
    stamps = [one.object.metadata.creation_timestamp for one in old]
    assert [stamp.isoformat() for stamp in stamps if stamp is not None] == [
        "2026-01-02T00:00:00+00:00",
        "2026-01-02T00:00:00.000001+00:00",
        "2026-01-02T00:00:00.000002+00:00",
    ]
    assert ([one.dated for one in old], [one.dated for one in young]) == ([True] * 3, [False])
    orders = [one.order for one in (*old, *young)]
    assert orders == list(range(orders[0], orders[0] + 4))


def test_a_bound_pod_of_a_template_needs_its_node() -> None:
    """As of pods of the input."""
    template = {"spec": {"nodeName": "n1", "containers": [{"name": "c"}]}}
    job = made("batch/v1", "Job", {"template": template})
    assert [one.spec.node_name for one in pods_of(made("v1", "Node", name="n1"), job)] == ["n1"]
    with pytest.raises(InputError, match='Invalid value: "n1": no Node with this name is in the input') as caught:
        expand(loaded(made("v1", "Node", name="m1"), job))
    assert caught.value.path == "spec.nodeName"


def test_jobs_with_a_deadline_are_known_whoever_makes_them() -> None:
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


# -- gangs -----------------------------------------------------------------------------------------

RS = ("apps/v1", "ReplicaSet", {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE})
GROUP = {"reprieve.dev/pod-group": "true"}


def job(annotations: Json, there: int = 0, **spec: Any) -> tuple[Json, ...]:
    """A Job of four, of which some are there."""
    owner = ("batch/v1", "Job", "x")
    whole = made("batch/v1", "Job", {"parallelism": 4, "completions": 4, "template": TEMPLATE, **spec})
    whole["metadata"]["annotations"] = annotations
    return whole, *(pod(f"there-{turn}", owner) for turn in range(there))


@pytest.mark.parametrize(
    ("documents", "minimum"),
    [
        (job({}), None),
        (job({"scheduling.reprieve.dev/gang": "false"}), None),
        (job(GANG), 4),
        (job(GANG, 1), 3),
        (job(GANG, 4), None),
        (job(GANG, parallelism=0), None),
        (job(GROUP), 4),
        (job(GROUP, 1), 3),
        (job(GROUP, 4), None),
        (job({"reprieve.dev/pod-group": "yes"}), None),
        (job({}, scheduling={}), 4),
        (job({}, 1, scheduling={}), 3),
        (job({}, scheduling={"schedulingPolicy": {"gang": {}}}), 4),
        (job({}, scheduling={"schedulingPolicy": {"gang": {"minCount": 3}}}), 3),
        (job({}, 1, scheduling={"schedulingPolicy": {"gang": {"minCount": 3}}}), 2),
        (job({}, 3, scheduling={"schedulingPolicy": {"gang": {"minCount": 3}}}), None),
        (job({}, scheduling={"schedulingPolicy": {"basic": {}}}), 0),
        (job({}, 4, scheduling={"schedulingPolicy": {"basic": {}}}), 0),
        (job(GROUP, scheduling={"schedulingPolicy": {"gang": {"minCount": 2}}}), 2),
        (job(GANG, scheduling="x"), 4),
    ],
)
def test_how_many_of_a_job_must_run_together(documents: tuple[Json, ...], minimum: int | None) -> None:
    """whatif.md 2.10: its parallelism, or what it says itself, less those that are there. 0: a group without a gang."""
    found = expand(loaded(*documents)).manifests
    groups = [one.object for one in found.pod_groups]
    assert [one.min_count or 0 for one in groups] == ([] if minimum is None else [minimum])
    assert [one.name for one in groups] == ["x"] * len(groups)
    of = {
        one.object.spec.scheduling_group and one.object.spec.scheduling_group.pod_group_name
        for one in found.pods[len(documents) - 1 :]
    }
    assert of <= ({None} if minimum is None else {"x"})


@pytest.mark.parametrize(
    ("annotations", "mode", "topology"),
    [
        ({}, "", ""),
        ({"reprieve.dev/disruption-mode": "all"}, "all", ""),
        ({"reprieve.dev/disruption-mode": "single"}, "single", ""),
        ({"reprieve.dev/disruption-mode": "some"}, "", ""),
        ({"reprieve.dev/topology-key": "rack"}, "", "rack"),
        ({"reprieve.dev/disruption-mode": "all", "reprieve.dev/topology-key": "rack"}, "all", "rack"),
    ],
)
def test_what_the_annotations_of_a_job_ask_of_its_group(annotations: Json, mode: str, topology: str) -> None:
    [group] = [one.object for one in expand(loaded(*job({**GROUP, **annotations}))).manifests.pod_groups]
    mode_of = group.spec.disruption_mode
    assert mode_of is not None
    assert (mode_of.all is not None) == (mode == "all"), "as by default a single one"
    constraints = group.spec.scheduling_constraints
    assert ([each.key for each in constraints.topology] if constraints is not None else []) == topology.split()


@pytest.mark.parametrize(
    ("own", "priority", "policy"),
    [
        ({}, 0, None),
        ({"priorityClassName": "high"}, 1000, "PreemptLowerPriority"),
        ({"priorityClassName": "meek"}, 500, "Never"),
        ({"priority": 7}, 7, None),
    ],
)
def test_a_gang_has_the_priority_of_its_pods(own: Json, priority: int, policy: str | None) -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, **more}
        for name, more in (
            ("high", {"value": 1000}),
            ("meek", {"value": 500, "preemptionPolicy": "Never"}),
        )
    ]
    template = {"spec": {"containers": [{"name": "c"}], **own}}
    found = expand(loaded(*classes, *job(GANG, template=template))).manifests
    [group] = [one.object for one in found.pod_groups]
    assert (group.spec.priority or 0) == priority
    assert group.spec.priority_class_name == own.get("priorityClassName", "")
    assert {one.object.spec.priority for one in found.pods} == {priority}
    if policy is not None:
        assert {group.spec.preemption_policy} | {one.object.spec.preemption_policy for one in found.pods} == {policy}


def test_a_group_of_that_name_in_the_input_counts_instead() -> None:
    given = made("scheduling.k8s.io/v1beta1", "PodGroup", {"schedulingPolicy": {"gang": {"minCount": 2}}})
    found = expand(loaded(given, *job(GANG))).manifests
    assert [one.object.min_count for one in found.pod_groups] == [2]
    assert {
        one.object.spec.scheduling_group and one.object.spec.scheduling_group.pod_group_name for one in found.pods
    } == {"x"}
    other = {**given, "metadata": {"name": "x", "namespace": "team"}}
    found = expand(loaded(other, *job(GANG))).manifests
    assert [(one.object.namespace, one.object.min_count) for one in found.pod_groups] == [("team", 2), ("default", 4)]


@pytest.mark.parametrize(
    ("documents", "path", "message"),
    [
        (
            job({}, scheduling={"disruptionMode": {"all": {}, "single": {}}}),
            "spec.scheduling.disruptionMode",
            "",
        ),
        (
            job({}, scheduling={"schedulingConstraints": {"topology": 5}}),
            "spec.scheduling.schedulingConstraints.topology",
            "",
        ),
        (job({}, scheduling={"schedulingPolicy": {"gang": {"minCount": -1}}}), "spec.scheduling", "whole number"),
        (
            job(GANG, template={"spec": {"priorityClassName": "gold", "containers": [{"name": "c"}]}}),
            "spec.template.spec.priorityClassName",
            "no PriorityClass with name gold",
        ),
        (job({**GROUP, "reprieve.dev/topology-key": "no key"}), "metadata.annotations", ""),
    ],
    ids=["two modes", "no list", "below none", "no such class", "no label"],
)
def test_a_group_that_cannot_be_made_is_an_error_of_its_object(
    documents: tuple[Json, ...], path: str, message: str
) -> None:
    """whatif.md 1.9: at the field of the object that the input has."""
    with pytest.raises(InputError) as caught:
        expand(loaded(*documents))
    assert caught.value.subject == 'Job "default/x"'
    assert caught.value.path == path
    assert message in caught.value.message


def with_gang(document: Json) -> Json:
    return {**document, "metadata": {**document["metadata"], "annotations": GANG}}


def groups_named(found: Manifests) -> list[str]:
    """What each pod says its group is; empty: none."""
    groups = [one.object.spec.scheduling_group for one in found.pods]
    return [(group.pod_group_name or "") if group is not None else "" for group in groups]


@pytest.mark.parametrize(
    ("kind", "there", "minimum"),
    [
        ("Deployment", 0, 3),
        ("Deployment", 1, 2),
        ("Deployment", 3, None),
        ("ReplicaSet", 1, 2),
        ("StatefulSet", 0, 3),
        ("StatefulSet", 1, 2),
        ("StatefulSet", 3, None),
    ],
)
def test_a_gang_of_a_set_is_all_that_is_missing(kind: str, there: int, minimum: int | None) -> None:
    """whatif.md 2.10: everything that is made; those that run are in no group that is made now."""
    pods = [pod(f"x-{turn}", ("apps/v1", kind, "x")) for turn in range(there)]
    whole = with_gang(made("apps/v1", kind, {"replicas": 3, "template": TEMPLATE}))
    if kind == "Deployment":
        pods = [
            pod(f"x-{turn}", ("apps/v1", "ReplicaSet", "x-5d4"), labels={"pod-template-hash": "5d4"})
            for turn in range(there)
        ]
    found = expand(loaded(whole, *pods)).manifests
    assert len(found.pods) == 3
    assert [one.object.min_count for one in found.pod_groups] == ([] if minimum is None else [minimum])


def test_each_replica_of_a_row_that_says_so_is_a_gang() -> None:
    """whatif.md 2.10, as of a LeaderWorkerSet; and one replica's pods are numbered from where its index starts."""
    text = FILE + "- {group: e.com, kind: X, gang: replica, sets: [{each: spec, replicas: 2, size: 2, start: first}]}"
    rows = TABLE.with_more(read_rows("f", text))
    for first in (None, 4):
        plain = made("e.com/v1", "X", {"template": TEMPLATE, **({} if first is None else {"first": first})})
        names = [f"x--{(first or 0) + turn}" for turn in range(4)]
        found = expand(loaded(plain), rows=rows).manifests
        assert ([one.object.name for one in found.pods], found.pod_groups) == (names, [])
        found = expand(loaded(with_gang(plain)), rows=rows).manifests
        groups = [f"x-{(first or 0) + turn}" for turn in range(2)]
        assert [one.object.name for one in found.pods] == names
        assert groups_named(found) == [each for each in groups for _ in range(2)]
        assert [(one.object.name, one.object.min_count) for one in found.pod_groups] == [(each, 2) for each in groups]


@pytest.mark.parametrize(
    ("minima", "in_parts"),
    [((None, None), False), ((1, None), True), ((None, 2), True), ((1, 2), True)],
)
def test_minima_of_tasks_are_asked_for_where_a_task_has_one(minima: tuple[int | None, ...], in_parts: bool) -> None:
    """whatif.md 2.9: else the group is a plain gang, which its pods name themselves."""
    tasks = [
        {"name": f"t{turn}", "replicas": turn + 1, "template": TEMPLATE}
        | ({} if least is None else {"minAvailable": least})
        for turn, least in enumerate(minima)
    ]
    found = expand(loaded(made("batch.volcano.sh/v1alpha1", "Job", {"minAvailable": 3, "tasks": tasks}))).manifests
    [group] = [one.object for one in found.pod_groups]
    assert (group.foreign is not None) is in_parts
    assert set(groups_named(found)) == {"" if in_parts else "x"}


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
def test_whose_jobs_are_not_made(manager: str | None, made_here: bool) -> None:
    """whatif.md 2.1: of `managedBy` no more is shown than 128 characters."""
    found = expand(loaded(made("batch/v1", "Job", {"managedBy": manager, "template": TEMPLATE})))
    assert len(found.manifests.pods) == made_here
    if not made_here:
        [problem] = found.problems
        assert problem.reason == f'it is managed by "{"m" * 128}", not by the Job controller'


@pytest.mark.parametrize(
    ("first", "second", "newest"), [(2, 1, "a"), (1, 2, "b"), (1, 1, "b"), (None, None, "b"), (1, None, "a")]
)
def test_of_replica_sets_of_one_revision_the_latest_is_the_newest(
    first: int | None, second: int | None, newest: str
) -> None:
    """whatif.md 2.2: of one moment the last by name."""
    sets = []
    for name, day in (("x-a", first), ("x-b", second)):
        one = made("apps/v1", "ReplicaSet", {"template": TEMPLATE}, name=name, owner=("apps/v1", "Deployment", "x"))
        one["metadata"] |= {} if day is None else {"creationTimestamp": f"2026-01-0{day}T00:00:00Z"}
        sets.append(one)
    assert made_of(made("apps/v1", "Deployment", {"template": TEMPLATE}), *sets) == [f"x-{newest}-00000"]


# -- rows of users ---------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["replicas", "size", "default", "less"])
@pytest.mark.parametrize(("number", "good"), [(-1, False), (0, True), (1_000_000, True), (1_000_001, False)])
def test_both_sides_of_what_a_number_of_a_row_may_be(field: str, number: int, good: bool) -> None:
    text = FILE + f"- {{group: e.com, kind: X, sets: [{{}}, {{{field}: {number}}}]}}"
    if good:
        [row] = read_rows("f", text)
        assert getattr(row.sets[1], field) == number
        return
    with pytest.raises(InputError, match="0 to 1000000") as caught:
        read_rows("f", text)
    assert caught.value.path == f"workloadKinds[0].sets[1].{field}"


@pytest.mark.parametrize(("count", "good"), [(1_000, True), (1_001, False)])
def test_how_many_rows_a_file_may_have(count: int, good: bool) -> None:
    text = FILE + "".join(f"- {{group: e.com, kind: X{turn}, sets: [{{}}]}}\n" for turn in range(count))
    if good:
        assert len(read_rows("f", text)) == count
        return
    with pytest.raises(InputError, match="more than 1000 kinds"):
        read_rows("f", text)


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ("{group: e.com, sets: [{}]}", "workloadKinds[0]"),
        ('{group: e.com, kind: "", sets: [{}]}', "workloadKinds[0].kind"),
        ("{kind: X, sets: [{}, {makes: a b c}]}", "workloadKinds[0].sets[1].makes"),
        ("{kind: X, sets: [{owner: apps/v1 StatefulSet}]}", "workloadKinds[0].sets[0].owner"),
        ("{kind: X, sets: [{owner: 'apps/v1 StatefulSet {x}'}]}", "workloadKinds[0].sets[0].owner"),
        ("{kind: X, sets: [{hostname: '{'}]}", "workloadKinds[0].sets[0].hostname"),
        ("{kind: X, sets: [{labels: {a/b: '{0}'}}]}", "workloadKinds[0].sets[0].a/b"),
        ("{kind: X, sets: [{annotations: {c: '{name[0]}'}}]}", "workloadKinds[0].sets[0].c"),
        ("{kind: X, sets: {}}", "workloadKinds[0].sets"),
    ],
)
def test_a_row_that_is_wrong_is_named_with_its_field(row: str, place: str) -> None:
    """whatif.md 3.3."""
    with pytest.raises(InputError) as caught:
        read_rows("f", f"{FILE}- {row}")
    assert caught.value.path == place


@pytest.mark.parametrize(
    ("text", "document", "line"),
    [
        (FILE + "- {kind: X, sets: [{}]}\n---\nkind: Other\n", 2, 5),
        (FILE + "- {kind: X, sets: [{}]}\n---\na: {\n", 2, 7),
        ("a: b", 1, 1),
    ],
)
def test_an_error_of_a_row_has_its_document_and_line(text: str, document: int, line: int) -> None:
    with pytest.raises(InputError) as caught:
        read_rows("f", text)
    assert (caught.value.origin.document, caught.value.origin.line) == (document, line)


def test_of_two_rows_the_later_counts_and_only_for_its_versions() -> None:
    """whatif.md 3.1."""
    row = "- {{group: e.com, kind: X, versions: [{}], suspended: {}, sets: [{{}}]}}\n"
    first, second, third = (read_rows("f", FILE + row.format(*each)) for each in (("", "a"), ("v2", "b"), ("v2", "c")))
    rows = TABLE.with_more([*first, *second])
    assert [getattr(rows.of(f"e.com/{version}", "X"), "suspended", None) for version in ("v1", "v2")] == ["a", "b"]
    more = rows.with_more(third)
    assert [getattr(more.of(f"e.com/{version}", "X"), "suspended", None) for version in ("v1", "v2")] == ["a", "c"]
    assert rows.with_more([]) is rows
    assert rows.of("e.com/v1", "Y") is rows.of("f.com/v1", "X") is None
    assert [each for each in more.kinds() if each[0] == "e.com"] == [("e.com", "X")]
    assert TABLE.of("kubeflow.org/v1", "MPIJob") != TABLE.of("kubeflow.org/v2beta1", "MPIJob")


def test_a_row_of_a_user_counts_before_the_rules_of_a_kind() -> None:
    """whatif.md 3.1: of the kinds that have rules of their own too."""
    text = (
        FILE + "- {group: batch, kind: Job, sets: [{each: spec, replicas: parallelism, name: '{name}-mine-{index}'}]}"
    )
    given = loaded(made("batch/v1", "Job", {"parallelism": 2, "completions": 1, "template": TEMPLATE}))
    found = expand(given, rows=TABLE.with_more(read_rows("f", text)))
    assert [one.object.name for one in found.manifests.pods] == ["x-mine-0", "x-mine-1"]


def test_a_set_that_a_row_makes_is_there_for_its_selector() -> None:
    """whatif.md 3.2: an object between, of a kind that a scheduler reads; its pods are made in turn."""
    text = FILE + "- {group: e.com, kind: X, sets: [{each: spec, makes: apps/v1 ReplicaSet, name: '{name}-set'}]}"
    inner = {"spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
    found = expand(loaded(made("e.com/v1", "X", {"template": inner})), rows=TABLE.with_more(read_rows("f", text)))
    assert [(one.object.KIND, one.object.name) for one in found.manifests.all()] == [
        ("ReplicaSet", "x-set"),
        ("Pod", "x-set-00000"),
        ("Pod", "x-set-00001"),
    ]


def test_what_is_not_expanded_is_not_planned_without_its_pods() -> None:
    """whatif.md 1.7: it is a problem, and no part of the input any more; what only may have pods stays."""
    documents = (
        made("e.com/v1", "Thing", {"workers": [TEMPLATE]}),
        made("e.com/v1", "Other", {"size": 1}),
        made("v1", "ConfigMap"),
    )
    found = expand(loaded(*documents))
    assert [(one.kind, one.certain) for one in found.problems] == [("Thing", True), ("Other", False)]
    assert [one.kind for one in found.manifests.unknown] == ["Other", "ConfigMap"]


NESTED = (
    FILE
    + """- group: e.com
  kind: X
  sets:
  - {each: spec.inner, makes: e.com/v1 X, name: "{name}-c", optional: true}
  - {each: spec.pods, name: "{name}-{index}", optional: true}
"""
)


def nested(levels: int) -> Json:
    """The spec of an X that makes an X that makes ..., the last of which makes a pod."""
    spec: Json = {"pods": {"template": TEMPLATE}}
    for _ in range(levels):
        spec = {"inner": {"template": {"spec": spec}}}
    return spec


@pytest.mark.parametrize("in_the_input", [False, True])
@pytest.mark.parametrize(("levels", "good"), [(1, True), (6, True), (7, False)])
def test_objects_are_made_six_levels_deep(levels: int, good: bool, in_the_input: bool) -> None:
    """A bound for rows that make what they are of; an object of that name in the input is a level as well."""
    rows = TABLE.with_more(read_rows("f", NESTED))
    documents = [made("e.com/v1", "X", nested(levels - turn), name="x" + "-c" * turn) for turn in range(levels + 1)]
    given = loaded(*(documents if in_the_input else documents[:1]))
    if good:
        assert [one.object.name for one in expand(given, rows=rows).manifests.pods] == ["x" + "-c" * levels + "-0"]
        return
    with pytest.raises(InputError, match="makes objects more than 6 levels deep"):
        expand(given, rows=rows)


@pytest.mark.parametrize("field", ["owner: 'apps/v1 StatefulSet {name}'", "makes: batch/v1 Job", "makes: v1 Pod"])
def test_a_row_names_other_kinds_by_version_and_kind(field: str) -> None:
    [row] = read_rows("f", f"{FILE}- {{group: e.com, kind: X, sets: [{{{field}}}]}}")
    name, _, value = field.partition(": ")
    assert getattr(row.sets[0], name) == value.strip("'")


@pytest.mark.parametrize("name", ["{name}-{index}", "{name}-"], ids=["by index", "made up"])
@pytest.mark.parametrize(("there", "more"), [(0, 6), (1, 5), (2, 4), (3, 3), (4, 2), (6, 0)])
def test_what_is_missing_of_a_set_is_made_whichever_replica_it_is_of(name: str, there: int, more: int) -> None:
    """whatif.md 1.1: of two replicas of three pods."""
    text = FILE + f"- {{group: e.com, kind: X, sets: [{{each: spec, replicas: 2, size: 3, name: '{name}'}}]}}"
    pods = [pod(f"x-{turn}", ("e.com/v1", "X", "x")) for turn in range(there)]
    given = loaded(made("e.com/v1", "X", {"template": TEMPLATE}), *pods)
    found = expand(given, rows=TABLE.with_more(read_rows("f", text))).manifests.pods
    assert len(found) == there + more
    if name.endswith("}"):
        assert [one.object.name for one in found] == [f"x-{turn}" for turn in range(6)]


@pytest.mark.parametrize(("status", "cluster"), [({}, "x-00000"), ({"rayClusterName": "x-abcde"}, "x-abcde")])
def test_the_cluster_of_a_ray_job_has_the_name_of_its_status(status: Json, cluster: str) -> None:
    """whatif.md 1.3, 1.6: what is there already is not made under another name."""
    spec = {"submissionMode": "HTTPMode", "rayClusterSpec": {"headGroupSpec": {"template": TEMPLATE}}}
    [one] = pods_of(made("ray.io/v1", "RayJob", spec, status=status))
    assert (one.name, one.metadata.labels["ray.io/cluster"]) == (f"{cluster}-head-00000", cluster)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize("going", [False, True])
def test_what_is_being_deleted_makes_no_pods(kind: str, going: bool) -> None:
    """whatif.md 1.5."""
    whole = made("apps/v1", kind, {"template": TEMPLATE})
    whole["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    assert len(pods_of(whole)) == (0 if going else 1)


def test_a_job_that_its_set_makes_is_expanded_once_where_it_is_in_the_input() -> None:
    """whatif.md 1.6."""
    job_spec = {"template": TEMPLATE, "completionMode": "NonIndexed"}
    entry = {"name": "w", "template": {"spec": job_spec}}
    jobset = made("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [entry]})
    assert made_of(jobset, made("batch/v1", "Job", job_spec, name="x-w-0")) == ["x-w-0-00000"]


@pytest.mark.parametrize(
    ("first", "newest"), [(2**63 - 1, "a"), (2**63, "b"), (2**63 + 1, "b"), (0, "b"), (1, "b"), (2, "a")]
)
def test_a_revision_is_an_int64(first: int, newest: str) -> None:
    """whatif.md 2.2: what is none is below all; of equal ones the last by name."""
    sets = []
    for name, revision in (("x-a", first), ("x-b", 1)):
        notes = {"deployment.kubernetes.io/revision": str(revision)}
        owner = ("apps/v1", "Deployment", "x")
        sets.append(made("apps/v1", "ReplicaSet", {"template": TEMPLATE}, name=name, owner=owner, annotations=notes))
    assert made_of(made("apps/v1", "Deployment", {"template": TEMPLATE}), *sets) == [f"x-{newest}-00000"]


@pytest.mark.parametrize("length", [253, 254])
def test_a_runtime_that_is_not_there_is_named_in_bounds(length: int) -> None:
    [problem] = expand(loaded(made(TRAINER, "TrainJob", {"runtimeRef": {"name": "r" * length}}))).problems
    assert problem.reason == f'its ClusterTrainingRuntime "{"r" * 253}" is not in the input'


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{group: e.com, sets: [{}]}", "object missing required field `kind`"),
        ("{kind: X, sets: {}}", "expected `array`, got `object`"),
    ],
)
def test_errors_of_rows_begin_with_a_small_letter(row: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_rows("f", f"{FILE}- {row}")
    assert caught.value.message == message


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
def test_a_job_has_ended_by_a_condition_that_is_true(conditions: list[tuple[str, str]], over: bool) -> None:
    """whatif.md 1.5."""
    status = {"conditions": [{"type": type_, "status": status} for type_, status in conditions]}
    assert len(pods_of(made("batch/v1", "Job", {"template": TEMPLATE}, status=status))) == (0 if over else 1)
