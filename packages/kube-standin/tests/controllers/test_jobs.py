"""Jobs (upstream: pkg/controller/job) and the gangs made for them."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.controllers.jobs import TRACKING, Jobs
from tests.admission.plane import priority_class
from tests.controllers.world import Json, World, ended, job, template

CONTROLLERS = ("job", "garbage-collector", "podgroup-protection")


@pytest.fixture
def world() -> World:
    return World(CONTROLLERS, nodes=1)


def status(world: World, name: str = "j") -> Json:
    found: Json = world.get("batch/v1", "Job", name)["status"]
    return found


def run(world: World, seconds: float = 0) -> World:
    world.schedule()
    return world.forward(seconds)


def conditions(world: World, name: str = "j") -> dict[str, tuple[str, str]]:
    found = world.get("batch/v1", "Job", name)["status"].get("conditions") or ()
    return {one["type"]: (one["status"], one.get("reason", "")) for one in found}


def test_runs_to_completion(world: World) -> None:
    world.create(job(completions=3, parallelism=2, pod=ended(5)))
    run(world)
    assert (status(world)["active"], status(world)["ready"]) == (2, 2)
    run(world, 6)
    run(world, 6)
    found = status(world)
    assert (found["succeeded"], found.get("active", 0), found["uncountedTerminatedPods"]) == (3, 0, {})
    assert conditions(world)["SuccessCriteriaMet"] == ("True", "CompletionsReached")
    assert conditions(world)["Complete"] == ("True", "CompletionsReached")
    assert found["completionTime"] >= found["startTime"]
    assert all(TRACKING not in (one["metadata"].get("finalizers") or ()) for one in world.pods())


def test_finished_pods_may_be_deleted_and_still_count(world: World) -> None:
    world.create(job(completions=2, parallelism=1, pod=ended(5)))
    run(world, 6)
    for name in world.names("Succeeded"):
        world.delete("v1", "Pod", name)
    run(world, 6)
    assert status(world)["succeeded"] == 2
    assert "Complete" in conditions(world)


def test_failures_wait_longer_each_time_and_end_at_the_limit(world: World) -> None:
    world.create(job(backoffLimit=2, pod=ended(1, code=3)))
    for failures, wait in ((1, 10), (2, 20)):
        run(world, 2)
        assert status(world)["failed"] == failures
        assert world.pods("Pending") == []
        world.forward(wait + 1)
        assert len(world.pods("Pending")) == 1
    run(world, 2)
    assert status(world)["failed"] == 3
    assert conditions(world)["FailureTarget"] == ("True", "BackoffLimitExceeded")
    assert conditions(world)["Failed"] == ("True", "BackoffLimitExceeded")


def test_times_of_failures_go_with_the_job(world: World) -> None:
    jobs = world.controllers.running["job"]
    assert isinstance(jobs, Jobs)
    for name, limit in (("ends", 0), ("goes", 9)):
        world.create(job(name, backoffLimit=limit, pod=ended(1, code=3)))
    run(world, 2)
    assert set(jobs._failed_at) == {("default", "goes")}
    world.delete("batch/v1", "Job", "goes")
    world.forward(60)
    assert not jobs._failed_at


def test_indexed(world: World) -> None:
    world.create(job(completionMode="Indexed", completions=4, parallelism=2, pod=ended(5)))
    run(world)
    labels = [one["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for one in world.pods()]
    assert sorted(labels) == ["0", "1"]
    env = world.pods()[0]["spec"]["containers"][0]["env"][0]
    assert env["name"] == "JOB_COMPLETION_INDEX"
    run(world, 6)
    assert status(world)["completedIndexes"] == "0,1"
    run(world, 6)
    assert status(world)["completedIndexes"] == "0-3"
    assert "Complete" in conditions(world)


@pytest.mark.parametrize("index", ["9" * 5000, "-1", "4", "x"])
def test_annotation_that_is_no_index_counts_for_nothing(world: World, index: str) -> None:
    """Upstream's getCompletionIndex: such a pod is freed and another makes up for it."""
    world.create(job(completionMode="Indexed", completions=2, parallelism=1, pod=ended(5)))
    world.schedule()
    [pod] = world.names()
    annotation = {"batch.kubernetes.io/job-completion-index": index}
    world.patch("v1", "Pod", pod, {"metadata": {"annotations": annotation}})
    world.forward(6)
    assert "completedIndexes" not in status(world)
    for _ in range(2):
        run(world, 6)
    assert status(world)["completedIndexes"] == "0,1"
    assert "Complete" in conditions(world)


def test_work_queue_is_complete_when_one_succeeded_and_all_ended(world: World) -> None:
    world.create(job(parallelism=2, pod=template(restartPolicy="Never")))
    run(world)
    first, second = world.names()
    world.set_phase(first, "Succeeded")
    world.settle()
    assert "Complete" not in conditions(world)
    assert len(world.pods()) == 2
    world.set_phase(second, "Succeeded")
    world.settle()
    assert "Complete" in conditions(world)


def test_suspend_and_resume(world: World) -> None:
    world.create(job(parallelism=2, completions=2, suspend=True, pod=ended(5)))
    world.settle()
    assert world.pods() == []
    assert conditions(world)["Suspended"] == ("True", "JobSuspended")
    assert "startTime" not in status(world)
    world.patch("batch/v1", "Job", "j", {"spec": {"suspend": False}})
    run(world)
    assert len(world.pods("Running")) == 2
    world.patch("batch/v1", "Job", "j", {"spec": {"suspend": True}})
    world.forward(2)
    assert world.pods() == []
    assert status(world).get("failed", 0) == 0
    world.patch("batch/v1", "Job", "j", {"spec": {"suspend": False}})
    run(world, 6)
    assert conditions(world)["Suspended"] == ("False", "JobResumed")
    assert "Complete" in conditions(world)


def test_deadline(world: World) -> None:
    world.create(job(activeDeadlineSeconds=20))
    run(world)
    world.forward(21)
    assert conditions(world)["Failed"] == ("True", "DeadlineExceeded")
    assert world.pods("Running") == []


def policy(*rules: Json) -> Json:
    return {"rules": list(rules)}


IGNORE_DISRUPTION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_preempted_pods_are_made_again_and_ignored_by_the_policy(world: World) -> None:
    world.create(job(completions=1, backoffLimit=0, podFailurePolicy=policy(IGNORE_DISRUPTION), pod=ended(60)))
    run(world)
    victim = world.names()[0]
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    condition |= {"lastTransitionTime": world.clock.stamp()}
    world.set_status("v1", "Pod", victim, {"conditions": [condition]})
    world.delete("v1", "Pod", victim)
    run(world)
    assert status(world).get("failed", 0) == 0
    assert len(world.pods("Running")) == 1
    run(world, 61)
    assert "Complete" in conditions(world)


def test_preempted_pods_count_without_a_policy(world: World) -> None:
    world.create(job(completions=1, backoffLimit=0))
    run(world)
    world.delete("v1", "Pod", world.names()[0])
    world.forward(2)
    assert status(world)["failed"] == 1
    assert conditions(world)["Failed"] == ("True", "BackoffLimitExceeded")


@pytest.mark.parametrize(
    ("rule", "code", "failed"),
    [
        ({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}, 42, True),
        ({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}, 43, False),
        ({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [42]}}, 43, True),
        ({"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}}, 42, True),
    ],
)
def test_failure_policy_on_exit_codes(world: World, rule: Json, code: int, failed: bool) -> None:
    world.create(job(podFailurePolicy=policy(rule), pod=ended(1, code=code)))
    run(world, 2)
    found = conditions(world)
    assert (found.get("Failed") == ("True", "PodFailurePolicy")) is failed
    if failed:
        message = world.condition(world.get("batch/v1", "Job", "j"), "Failed")["message"]
        assert f"failed with exit code {code} matching FailJob rule at index 0" in message


def test_replacement_waits_for_the_end_if_asked_to(world: World) -> None:
    slow = template(restartPolicy="Never")
    slow["metadata"]["annotations"] = {"reprieve.dev/stop-seconds": "20"}
    world.create(job(podReplacementPolicy="Failed", backoffLimit=6, pod=slow))
    run(world)
    world.delete("v1", "Pod", world.names()[0])
    world.forward(5)
    assert len(world.pods()) == 1
    assert status(world)["terminating"] == 1
    world.forward(30)
    assert len(world.pods("Pending")) == 1


def test_ttl(world: World) -> None:
    world.create(job(ttlSecondsAfterFinished=30, pod=ended(1)))
    run(world, 2)
    assert world.has("batch/v1", "Job", "j")
    world.forward(31)
    assert not world.has("batch/v1", "Job", "j")
    assert world.pods() == []


def test_parallelism_down_and_up(world: World) -> None:
    world.create(job(completions=10, parallelism=4))
    run(world)
    world.patch("batch/v1", "Job", "j", {"spec": {"parallelism": 1}})
    world.forward(1)
    assert len(world.names()) == 1
    assert status(world).get("failed", 0) == 0
    world.patch("batch/v1", "Job", "j", {"spec": {"parallelism": 3}})
    world.settle()
    assert len(world.names()) == 3


def test_deleting_a_job_frees_its_pods(world: World) -> None:
    world.create(job(parallelism=2, completions=2))
    run(world)
    world.delete("batch/v1", "Job", "j", propagation="Background")
    world.forward(2)
    assert world.pods() == []


def test_orphaned_pods_lose_the_finalizer(world: World) -> None:
    world.create(job())
    run(world)
    world.delete("batch/v1", "Job", "j", propagation="Orphan")
    world.settle()
    assert not world.has("batch/v1", "Job", "j")
    (left,) = world.pods()
    assert "ownerReferences" not in left["metadata"]
    world.delete("v1", "Pod", left["metadata"]["name"])
    world.forward(2)
    assert world.pods() == []


def test_pod_deleted_by_force_counts_and_goes() -> None:
    world = World(CONTROLLERS)  # no kubelet says how it ended
    world.create(job(completions=1))
    world.settle()
    world.bind(world.names()[0], "n")
    world.delete("v1", "Pod", world.names()[0], grace=0)
    world.forward(1)
    assert status(world)["failed"] == 1
    assert world.names() == []


def test_another_manager_is_left_alone(world: World) -> None:
    world.create(job(managedBy="example.com/other"))
    world.settle()
    assert world.pods() == []


@pytest.mark.parametrize("when", range(6))
def test_killed_at_any_moment_counts_exactly_once(when: int) -> None:
    world = World(CONTROLLERS, nodes=1)
    world.create(job(completions=4, parallelism=2, pod=ended(3)))
    for step in range(8):
        run(world, 2)
        if step == when:
            world = World(CONTROLLERS, nodes=1, store=world.store, clock=world.set_clock)
    assert status(world)["succeeded"] == 4
    assert len(world.pods("Succeeded")) == 4


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
def test_pods_are_counted_in_the_write_that_frees_them(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is killed right after it would otherwise run the same index, or one pod too many, again."""
    world = World(CONTROLLERS, nodes=1)
    flush, seen = world.store.flush, set[int]()

    def checked() -> None:
        flush()
        pods = [state.decode() for state in world.store.heads("pods")]
        freed = sum(TRACKING not in (one["metadata"].get("finalizers") or ()) for one in pods)
        counts = [state.decode().get("status") or {} for state in world.store.heads("batch/jobs")]
        assert [one.get("succeeded", 0) + one.get("failed", 0) for one in counts] == [freed] * len(counts)
        seen.add(freed)

    monkeypatch.setattr(world.store, "flush", checked)
    world.create(job(completions=3, parallelism=2, completionMode=mode, pod=ended(3)))
    for _ in range(4):
        run(world, 4)
    assert seen >= {0, 3}


# -- gangs


GANG = {"reprieve.dev/pod-group": "true"}


def gang(world: World, annotations: Json | None = None, **spec: Any) -> tuple[Json, Json]:
    world.create(job(annotations={**GANG, **(annotations or {})}, **spec))
    world.settle()
    version = "scheduling.k8s.io/v1beta1"
    return world.get(version, "Workload", "j"), world.get(version, "PodGroup", "j")


def test_gang_of_a_job(world: World) -> None:
    world.create(priority_class("high", 1000))
    made = template(restartPolicy="Never", priorityClassName="high")
    workload, group = gang(world, parallelism=3, completions=3, pod=made)
    assert workload["spec"]["controllerRef"] == {"apiGroup": "batch", "kind": "Job", "name": "j"}
    assert workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    assert group["spec"]["workloadRef"] == {"workloadName": "j", "templateName": "workers"}
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    assert group["spec"]["priority"] == 1000
    pods = world.pods()
    assert len(pods) == 3
    assert all(one["spec"]["schedulingGroup"] == {"podGroupName": "j"} for one in pods)
    assert all(one["spec"]["priority"] == 1000 for one in pods)


@pytest.mark.parametrize(("parallelism", "completions", "size"), [(4, 2, 2), (2, 8, 2), (3, None, 3)])
def test_gang_size(world: World, parallelism: int, completions: int | None, size: int) -> None:
    spec: Json = {"parallelism": parallelism} | ({} if completions is None else {"completions": completions})
    assert gang(world, **spec)[1]["spec"]["schedulingPolicy"]["gang"]["minCount"] == size


def test_gang_mode_and_topology(world: World) -> None:
    annotations = {"reprieve.dev/disruption-mode": "all", "reprieve.dev/topology-key": "rack"}
    spec = gang(world, annotations, parallelism=2, completions=2)[1]["spec"]
    assert spec["disruptionMode"] == {"all": {}}
    assert spec["schedulingConstraints"] == {"topology": [{"key": "rack"}]}


def test_gang_goes_with_its_job(world: World) -> None:
    gang(world, parallelism=2, completions=2)
    world.delete("batch/v1", "Job", "j", propagation="Background")
    world.forward(2)
    assert world.all("scheduling.k8s.io/v1beta1", "PodGroup") == []
    assert world.all("scheduling.k8s.io/v1beta1", "Workload") == []
    assert world.pods() == []


# -- spec.scheduling (KEP-5547)

V1BETA1 = "scheduling.k8s.io/v1beta1"


def scheduled(world: World, scheduling: Json, **spec: Any) -> Json:
    """The one PodGroup of a Job with this `spec.scheduling`."""
    world.create(job(scheduling=scheduling, **spec))
    world.settle()
    [group] = world.all(V1BETA1, "PodGroup")
    return group


def test_job_that_asks_for_a_gang_is_one(world: World) -> None:
    """The minimum is the parallelism; Workload and group are there before the pods, which name the group."""
    world.create(priority_class("high", 1000))
    asked = {
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": {"all": {}},
    }
    made = template(restartPolicy="Never", priorityClassName="high")
    group = scheduled(world, asked, parallelism=3, completions=6, pod=made)
    [workload] = world.all(V1BETA1, "Workload")
    assert workload["spec"]["controllerRef"] == {"apiGroup": "batch", "kind": "Job", "name": "j"}
    [found] = workload["spec"]["podGroupTemplates"]
    assert group["spec"]["workloadRef"] == {"workloadName": workload["metadata"]["name"], "templateName": found["name"]}
    for holder in (found, group["spec"]):
        assert holder["schedulingPolicy"] == {"gang": {"minCount": 3}}
        assert holder["schedulingConstraints"] == asked["schedulingConstraints"]
        assert holder["disruptionMode"] == {"all": {}}
        assert holder["priority"] == 1000
    pods = world.pods()
    assert len(pods) == 3
    assert {one["spec"]["schedulingGroup"]["podGroupName"] for one in pods} == {group["metadata"]["name"]}
    newest = max(int(one["metadata"]["resourceVersion"]) for one in (workload, group))
    assert newest < min(int(one["metadata"]["resourceVersion"]) for one in pods)
    assert [one["kind"] for one in group["metadata"]["ownerReferences"]] == ["Job", "Workload"]


@pytest.mark.parametrize(
    ("asked", "policy"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 2}}}, {"gang": {"minCount": 2}}),
        ({"schedulingPolicy": {"basic": {}}}, {"basic": {}}),
        ({}, {"basic": {}}),
    ],
)
def test_policies_of_a_job(world: World, asked: Json, policy: Json) -> None:
    assert scheduled(world, asked, parallelism=4, completions=4)["spec"]["schedulingPolicy"] == policy


def test_minimum_follows_the_job(world: World) -> None:
    """Elastic Jobs: of the Workload and of the group, whether it is the parallelism or says so itself."""

    def minima() -> set[int]:
        [workload], [group] = world.all(V1BETA1, "Workload"), world.all(V1BETA1, "PodGroup")
        of = (workload["spec"]["podGroupTemplates"][0], group["spec"])
        return {one["schedulingPolicy"]["gang"]["minCount"] for one in of}

    scheduled(world, {"schedulingPolicy": {"gang": {}}}, parallelism=4, completions=4, completionMode="Indexed")
    assert minima() == {4}
    world.patch("batch/v1", "Job", "j", {"spec": {"parallelism": 6, "completions": 6}})
    world.settle()
    assert minima() == {6}
    assert len(world.pods()) == 6
    world.patch("batch/v1", "Job", "j", {"spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 5}}}}})
    world.settle()
    assert minima() == {5}


def test_group_that_is_refused_is_told_on_the_job(world: World) -> None:
    """No pods without it; when what was wrong is put right, they come."""
    pod_template = template(restartPolicy="Never", priorityClassName="none")
    world.create(job(scheduling={"schedulingPolicy": {"gang": {}}}, parallelism=2, pod=pod_template))
    world.settle()
    assert world.pods() == []
    [event] = world.all("v1", "Event")
    assert (event["reason"], event["type"], event["involvedObject"]["kind"]) == ("FailedCreate", "Warning", "Job")
    assert "no PriorityClass with name none was found" in event["message"]
    world.create(priority_class("none", 5))
    world.forward(120)
    assert len(world.pods()) == 2


def workload_of(world: World, references: list[Json], finalizers: list[str]) -> None:
    """Put another Workload under the name that the Job `j` gives its own."""
    [made] = world.all(V1BETA1, "Workload")
    metadata = {"name": made["metadata"]["name"], "ownerReferences": references, "finalizers": finalizers}
    world.delete(V1BETA1, "Workload", made["metadata"]["name"])
    world.create({**made, "metadata": metadata})


@pytest.mark.parametrize(
    ("owner", "going", "grouped"),
    [
        ("its own", False, True),
        ("its own", True, False),
        ("no controller's", False, False),
        ("another's", False, False),
        ("unowned", False, False),
    ],
)
def test_workload_that_a_job_takes(world: World, owner: str, going: bool, grouped: bool) -> None:
    """One of its name that it does not control, or that is being deleted, is left alone; pods come without it."""
    world.create(job(scheduling={"schedulingPolicy": {"gang": {}}}, parallelism=0, completions=2))
    world.settle()
    uid = world.get("batch/v1", "Job", "j")["metadata"]["uid"]
    mine = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
    references = {
        "its own": [mine],
        "no controller's": [{**mine, "controller": False}],
        "another's": [{**mine, "uid": "another"}],
        "unowned": [],
    }
    group = {one["metadata"]["name"] for one in world.all(V1BETA1, "PodGroup")}
    workload_of(world, references[owner], ["example.com/hold"])
    if going:
        [made] = world.all(V1BETA1, "Workload")
        world.delete(V1BETA1, "Workload", made["metadata"]["name"])
    world.patch("batch/v1", "Job", "j", {"spec": {"parallelism": 2}})
    world.settle()
    named = {(one["spec"].get("schedulingGroup") or {}).get("podGroupName") for one in world.pods()}
    assert len(world.pods()) == 2
    assert named == (group if grouped else {None})


def test_jobs_that_get_no_group(world: World) -> None:
    """One that asks for none, one with a group in its template, one that another object controls."""
    asked: Json = {"schedulingPolicy": {"gang": {}}}
    own = template(restartPolicy="Never", schedulingGroup={"podGroupName": "mine"})
    world.create(job(name="plain", parallelism=1))
    world.create(job(name="own", scheduling=asked, pod=own))
    owned = job(name="owned", scheduling=asked)
    parent = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u", "controller": True}
    owned["metadata"]["ownerReferences"] = [parent]
    world.create(owned)
    world.settle()
    assert world.all(V1BETA1, "PodGroup") == []
    groups = {one["metadata"]["labels"]["job-name"]: one["spec"].get("schedulingGroup") for one in world.pods()}
    assert groups == {"plain": None, "own": {"podGroupName": "mine"}, "owned": None}


def test_parent_delegates_the_group_of_its_job(world: World) -> None:
    """The annotation names a template in the Workload of the parent; there is no Workload of the Job's own."""
    parent = {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "set"}
    spec = {
        "controllerRef": parent,
        "podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}],
    }
    world.create({"apiVersion": V1BETA1, "kind": "Workload", "metadata": {"name": "w"}, "spec": spec})
    child = job(annotations={"scheduling.k8s.io/group-template-name": "workers"}, parallelism=2, completions=2)
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u", "controller": True}
    ]
    world.create(child)
    world.settle()
    [group] = world.all(V1BETA1, "PodGroup")
    assert group["spec"]["workloadRef"] == {"workloadName": "w", "templateName": "workers"}
    assert [one["metadata"]["name"] for one in world.all(V1BETA1, "Workload")] == ["w"]
    assert {one["spec"]["schedulingGroup"]["podGroupName"] for one in world.pods()} == {group["metadata"]["name"]}


def test_job_that_has_started_gets_no_group_later(world: World) -> None:
    """As upstream: a group for pods that run already would say what is not so."""
    scheduled(world, {"schedulingPolicy": {"gang": {}}}, parallelism=1, completions=4, pod=ended(3))
    [group], [workload] = world.all(V1BETA1, "PodGroup"), world.all(V1BETA1, "Workload")
    run(world, 6)
    world.delete(V1BETA1, "PodGroup", group["metadata"]["name"])
    world.delete(V1BETA1, "Workload", workload["metadata"]["name"])
    for _ in range(10):
        run(world, 6)
    assert status(world)["succeeded"] == 4
    assert world.all(V1BETA1, "Workload") == []
