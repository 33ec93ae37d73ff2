"""Facts of conformance specs of sig-apps and of resource quotas and garbage collection, with simulated kubelets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kube_standin.controllers import CONTROLLERS
from kube_standin.errors import StatusError
from tests import manifests
from tests.controllers.world import World, ended, job, owner, template

Json = dict[str, Any]
APPS, JOBS = "apps/v1", ("batch/v1", "Job")


@pytest.fixture
def world() -> World:
    return World(CONTROLLERS, nodes=2, adopt=False)


def conditions(obj: Json) -> dict[str, str]:
    return {one["type"]: one["status"] for one in (obj.get("status") or {}).get("conditions") or ()}


def used(world: World, name: str = "q") -> Json:
    found: Json = world.settle().forward(1).get("v1", "ResourceQuota", name)["status"]["used"]
    return found


def quota(name: str = "q", scopes: list[str] | None = None, **hard: str) -> Json:
    spec: Json = {"hard": {key.replace("_", ".").replace("__", "/"): value for key, value in hard.items()}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name},
            "spec": {**spec, **({"scopes": scopes} if scopes else {})}}  # fmt: skip


def pod(name: str = "p", resources: Json | None = None, **spec: Any) -> Json:
    containers = [{"name": "c", "image": "i", **({"resources": resources} if resources else {})}]
    return manifests.pod(name, **{"containers": containers, **spec})


# -- Jobs


def test_indexed_job_names_its_hosts(world: World) -> None:
    """job.go: each index succeeds once, and its pod is called JOB-INDEX."""
    world.create(job(pod=ended(1), completions=4, parallelism=2, completionMode="Indexed"))
    for _ in range(8):
        world.schedule().forward(3)
    found = world.get(*JOBS, "j")
    assert (found["status"]["succeeded"], found["status"]["completedIndexes"]) == (4, "0-3")
    hosts = {one["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: one["spec"]["hostname"]
             for one in world.pods("Succeeded")}  # fmt: skip
    assert hosts == {str(index): f"j-{index}" for index in range(4)}


def test_success_policy_ends_a_job_early(world: World) -> None:
    """job.go: with one of the indexes (or so many) succeeded, the rest is ended, and the job is complete."""
    policy = {"rules": [{"succeededIndexes": "0"}]}
    world.create(
        job(pod=template(restartPolicy="Never"), completions=3, parallelism=3, completionMode="Indexed",
            successPolicy=policy)
    )  # fmt: skip
    world.schedule().forward(2)
    [first] = [
        one for one in world.pods() if one["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "0"
    ]
    world.set_phase(first["metadata"]["name"], "Succeeded")
    world.settle().forward(60)
    status = world.get(*JOBS, "j")["status"]
    assert conditions({"status": status})["SuccessCriteriaMet"] == "True"
    assert conditions({"status": status})["Complete"] == "True"
    assert (status["completedIndexes"], status.get("active", 0)) == ("0", 0)
    reasons = {one["type"]: one.get("reason") for one in status["conditions"]}
    assert reasons == {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"}


def test_success_policy_may_count(world: World) -> None:
    """job.go: succeededCount alone, and with succeededIndexes."""
    rules = [{"succeededCount": 2, "succeededIndexes": "0-2"}]
    world.create(job(pod=template(restartPolicy="Never"), completions=5, parallelism=5, completionMode="Indexed",
                     successPolicy={"rules": rules}))  # fmt: skip
    world.schedule().forward(2)
    by_index = {one["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: one for one in world.pods()}
    for index in ("3", "0"):
        world.set_phase(by_index[index]["metadata"]["name"], "Succeeded")
    assert "SuccessCriteriaMet" not in conditions(world.settle().forward(10).get(*JOBS, "j"))
    world.set_phase(by_index["2"]["metadata"]["name"], "Succeeded")
    assert conditions(world.settle().forward(60).get(*JOBS, "j"))["Complete"] == "True"


def test_backoff_limit_per_index(world: World) -> None:
    """job.go: every index has its own limit; failed ones are listed, the others run to their end."""
    world.create(job(pod=template(restartPolicy="Never"), completions=3, parallelism=3, completionMode="Indexed",
                     backoffLimitPerIndex=0))  # fmt: skip
    world.schedule().forward(2)
    for one in world.pods():
        index = one["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
        world.set_phase(one["metadata"]["name"], "Failed" if index == "1" else "Succeeded")
    found = world.settle().forward(60).get(*JOBS, "j")
    assert (found["status"]["completedIndexes"], found["status"]["failedIndexes"]) == ("0,2", "1")
    failed = {one["type"]: one for one in found["status"]["conditions"]}["Failed"]
    assert failed["reason"] == "FailedIndexes"


def test_index_that_failed_is_tried_again_on_its_own() -> None:
    """interfaces.md 7.12: it waits alone, its pod names how often it failed, and a restart reads that from the pods."""
    world = World(("job",))
    world.create(job(pod=template(restartPolicy="Never"), completions=2, parallelism=2, completionMode="Indexed",
                     backoffLimitPerIndex=1))  # fmt: skip
    count = "batch.kubernetes.io/job-index-failure-count"

    def running(index: str) -> list[Json]:
        pods = [one["metadata"] for one in world.settle().pods("Pending")]
        return [one for one in pods if one["annotations"]["batch.kubernetes.io/job-completion-index"] == index]

    [first] = running("0")
    assert first["annotations"][count] == "0"
    world.set_phase(first["name"], "Failed")
    assert not running("0")
    assert len(running("1")) == 1
    world = world.restarted(("job",))
    world.forward(9)
    assert not running("0")
    world.forward(2)
    [second] = running("0")
    assert second["annotations"][count] == "1"
    world.set_phase(second["name"], "Failed")
    assert world.settle().get(*JOBS, "j")["status"]["failedIndexes"] == "0"
    assert not world.forward(700) or not running("0")
    world.set_phase(running("1")[0]["name"], "Succeeded")
    status = world.settle().get(*JOBS, "j")["status"]
    assert (status["completedIndexes"], status["failed"]) == ("1", 2)
    assert conditions({"status": status})["Failed"] == "True"


def test_most_failed_indexes(world: World) -> None:
    """job.go: maxFailedIndexes ends the job with MaxFailedIndexesExceeded."""
    world.create(job(pod=template(restartPolicy="Never"), completions=4, parallelism=2, completionMode="Indexed",
                     backoffLimitPerIndex=0, maxFailedIndexes=0))  # fmt: skip
    world.schedule().forward(2)
    world.set_phase(world.pods()[0]["metadata"]["name"], "Failed")
    found = world.settle().forward(60).get(*JOBS, "j")
    assert {one["type"]: one for one in found["status"]["conditions"]}["Failed"]["reason"] == "MaxFailedIndexesExceeded"
    assert found["status"].get("active", 0) == 0


def test_fail_index_of_the_failure_policy(world: World) -> None:
    """job.go: FailIndex marks the index as failed though its limit is not reached."""
    rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}
    world.create(job(pod=ended(1, code=42), completions=2, parallelism=2, completionMode="Indexed",
                     backoffLimitPerIndex=3, podFailurePolicy={"rules": [rule]}))  # fmt: skip
    world.schedule().forward(60)
    assert world.get(*JOBS, "j")["status"]["failedIndexes"] == "0,1"


def test_job_is_managed_by_another(world: World) -> None:
    """job.go: no pods, no status; the field does not change."""
    world.create(job(managedBy="example.com/custom-job-controller"))
    assert not world.settle().forward(10).pods()
    assert not world.get(*JOBS, "j").get("status")


def test_suspended_job_is_deleted_and_resumed(world: World) -> None:
    """job.go: no pods while it is suspended, and all gone when it becomes so."""
    world.create(job(pod=ended(2), completions=2, parallelism=2, suspend=True))
    assert not world.settle().pods()
    assert conditions(world.get(*JOBS, "j"))["Suspended"] == "True"
    world.patch(*JOBS, "j", {"spec": {"suspend": False}})
    world.schedule().forward(1)
    assert len(world.pods("Running")) == 2
    world.patch(*JOBS, "j", {"spec": {"suspend": True}})
    assert not world.settle().forward(40).pods()
    world.patch(*JOBS, "j", {"spec": {"suspend": False}})
    world.schedule().forward(30)
    assert conditions(world.get(*JOBS, "j"))["Complete"] == "True"


# -- sets


def test_controller_revisions_follow_a_daemon_set(world: World) -> None:
    """controller_revision.go: one of it, one of a client, and a third after a new template: revision 3."""
    world.create(owner("DaemonSet", "d"))
    [first] = world.settle().all(APPS, "ControllerRevision")
    labels = {"app": "a", "daemonset-name": "d"}
    metadata = {"name": "by-client", "labels": labels, "ownerReferences": first["metadata"]["ownerReferences"]}
    parts = {"data": first["data"], "revision": first["revision"] + 1}
    world.create({"apiVersion": APPS, "kind": "ControllerRevision", "metadata": metadata, **parts})
    world.settle()
    world.delete(APPS, "ControllerRevision", first["metadata"]["name"])
    assert [one["metadata"]["name"] for one in world.all(APPS, "ControllerRevision")] == ["by-client"]
    world.patch(APPS, "DaemonSet", "d", {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}})
    revisions = sorted(one["revision"] for one in world.settle().all(APPS, "ControllerRevision"))
    assert revisions[-1] == 3


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet"])
def test_controller_revisions_hold_the_bytes_that_clients_compare(world: World, kind: str) -> None:
    """daemon_set.go: the current revision is found by its bytes: JSON as Go writes it, with sorted keys."""
    world.create(owner(kind, "d"))
    [revision] = world.settle().all(APPS, "ControllerRevision")
    assert json.dumps(revision["data"]) == json.dumps(revision["data"], sort_keys=True)
    assert list(revision["data"]["spec"]["template"]) == ["$patch", "metadata", "spec"]


def test_daemon_pod_that_failed_is_replaced(world: World) -> None:
    """daemon_set.go: a failed pod is deleted, and another one is made on its node."""
    world.create(owner("DaemonSet", "d"))
    world.schedule().forward(2)
    failed = world.pods("Running")[0]["metadata"]["name"]
    world.set_phase(failed, "Failed")
    world.settle().forward(30)
    world.schedule().forward(2)
    assert failed not in world.names()
    assert len(world.pods("Running")) == 2


def test_stateful_set_halts_while_a_pod_is_unhealthy() -> None:
    """statefulset.go: up in ascending order and down in descending order, and not past an unready pod."""
    world = World(("statefulset",))
    world.create({**owner("StatefulSet", "s", replicas=3, serviceName="x")})
    world.settle()
    world.set_ready("s-0", False)
    assert world.settle().names() == ["s-0"]
    world.set_ready("s-0")
    assert world.settle().names() == ["s-0", "s-1"]
    world.set_ready("s-1")
    world.settle()
    world.set_ready("s-2")
    world.settle()
    for name in ("s-0", "s-1", "s-2"):
        world.set_ready(name, False)
    world.patch(APPS, "StatefulSet", "s", {"spec": {"replicas": 0}})
    assert world.settle().names() == ["s-0", "s-1", "s-2"]
    world.set_ready("s-2")
    assert world.settle().names() == ["s-0", "s-1"]
    world.set_ready("s-1")
    assert world.settle().names() == [], "the first unhealthy one holds nothing up"


def test_replica_set_reports_refused_pods(world: World) -> None:
    """rc.go, replica_set.go: ReplicaFailure while a quota allows fewer pods, gone after it scales down."""
    world.create(quota(pods="2"))
    world.settle().forward(1)
    world.create(owner("ReplicaSet", "r", replicas=3))
    assert conditions(world.settle().forward(5).get(APPS, "ReplicaSet", "r"))["ReplicaFailure"] == "True"
    world.patch(APPS, "ReplicaSet", "r", {"spec": {"replicas": 2}})
    assert "ReplicaFailure" not in conditions(world.settle().forward(60).get(APPS, "ReplicaSet", "r"))


# -- quotas


def test_quota_follows_the_life_of_objects(world: World) -> None:
    """resource_quota.go: counts of each kind, given back when it goes."""
    names = ("services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas")
    hard = {**dict.fromkeys(names, "10"), "count/replicasets.apps": "5", "count/widgets.example.com": "1"}
    world.create({**quota(), "spec": {"hard": hard}})
    before = used(world)
    assert (before["resourcequotas"], before["count/replicasets.apps"]) == ("1", "0")
    world.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    world.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    world.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
    world.create(owner("ReplicaSet", "r", replicas=0))
    world.create({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "r"},
                  "spec": {"replicas": 0, "selector": {"a": "b"}, "template": template({"a": "b"})}})  # fmt: skip
    after = used(world)
    for name in ("services", "configmaps", "secrets", "replicationcontrollers", "count/replicasets.apps"):
        assert int(after[name]) == int(before[name]) + 1, name
    for api, kind, name in (("v1", "Service", "s"), ("v1", "ConfigMap", "m"), ("v1", "Secret", "s"),
                            (APPS, "ReplicaSet", "r"), ("v1", "ReplicationController", "r")):  # fmt: skip
        world.delete(api, kind, name)
    assert used(world) == before


def test_quota_of_pods_charges_and_refuses(world: World) -> None:
    """resource_quota.go: cpu, memory, storage and extended resources; too much is 403, as are pods without requests."""
    hard = {"pods": "5", "cpu": "1", "memory": "500Mi", "ephemeral-storage": "50Gi", "requests.example.com/gpu": "3"}
    world.create({**quota(), "spec": {"hard": hard}})
    world.settle().forward(1)
    requests = {"cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi", "example.com/gpu": "2"}
    world.create(pod("one", {"requests": requests, "limits": {"example.com/gpu": "2"}}))
    assert used(world) == {
        "pods": "1", "cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi", "requests.example.com/gpu": "2",
    }  # fmt: skip
    for more in ({**requests, "example.com/gpu": "1"}, {"cpu": "100m", "memory": "1Mi", "ephemeral-storage": "1Gi"}):
        with pytest.raises(StatusError) as caught:
            world.create(pod("two", {"requests": {**more, "memory": "600Mi"}, "limits": {
                key: value for key, value in more.items() if key == "example.com/gpu"}}))  # fmt: skip
        assert caught.value.code == 403
    world.delete("v1", "Pod", "one", grace=0)
    assert set(used(world).values()) == {"0"}


@pytest.mark.parametrize(
    ("scopes", "inside", "outside"),
    [
        (["Terminating"], {"activeDeadlineSeconds": 3600}, {}),
        (["NotTerminating"], {}, {"activeDeadlineSeconds": 3600}),
    ],
)
def test_quota_scopes_of_termination(world: World, scopes: list[str], inside: Json, outside: Json) -> None:
    """resource_quota.go: each counts the pods of its scope alone."""
    world.create(quota(scopes=scopes, pods="5", requests_cpu="1", limits_cpu="2"))
    world.settle().forward(1)
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
    world.create(pod("out", resources, **outside))
    assert used(world)["pods"] == "0"
    world.create(pod("in", resources, **inside))
    assert used(world) == {"pods": "1", "requests.cpu": "500m", "limits.cpu": "1"}


def test_quota_scopes_of_best_effort(world: World) -> None:
    """resource_quota.go: a pod without requests and limits counts for one, any other for the other."""
    world.create(quota("best", ["BestEffort"], pods="5"))
    world.create(quota("rest", ["NotBestEffort"], pods="5"))
    world.settle().forward(1)
    world.create(pod("none"))
    assert (used(world, "best")["pods"], used(world, "rest")["pods"]) == ("1", "0")
    world.create(pod("some", {"requests": {"cpu": "1m"}}))
    assert (used(world, "best")["pods"], used(world, "rest")["pods"]) == ("1", "1")


# -- garbage


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_deployment_is_deleted_with_or_without_its_sets(world: World, policy: str) -> None:
    """garbage_collector.go: sets and pods go with it, or stay without an owner."""
    world.create(owner("Deployment", "d", replicas=2))
    world.schedule().forward(2)
    world.delete(APPS, "Deployment", "d", propagation=policy)
    world.settle().forward(40)
    sets = world.all(APPS, "ReplicaSet")
    assert len(sets) == (1 if policy == "Orphan" else 0)
    assert len(world.pods()) == (2 if policy == "Orphan" else 0)
    assert not any(one["metadata"].get("ownerReferences") for one in sets)


def test_pods_with_another_owner_are_kept(world: World) -> None:
    """garbage_collector.go: an owner that waits for its dependents does not take those that another one has too."""
    controllers = [
        world.create({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": name},
                      "spec": {"replicas": 4 if name == "gone" else 0, "selector": {"of": name},
                               "template": template({"of": name})}})
        for name in ("gone", "stays")
    ]  # fmt: skip
    world.schedule().forward(2)
    other = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "name": "stays",
        "uid": controllers[1]["metadata"]["uid"],
    }
    kept = world.names()[:2]
    for name in kept:
        owners = world.get("v1", "Pod", name)["metadata"]["ownerReferences"]
        world.patch("v1", "Pod", name, {"metadata": {"ownerReferences": [*owners, other]}})
    world.delete("v1", "ReplicationController", "gone", propagation="Foreground")
    world.settle().forward(60)
    assert not world.has("v1", "ReplicationController", "gone")
    assert world.names() == kept
    assert not any(one["metadata"].get("deletionTimestamp") for one in world.pods())
