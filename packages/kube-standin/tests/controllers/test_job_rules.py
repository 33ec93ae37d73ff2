"""Rules of Jobs at both sides of each bound: verdicts on failures, waits, deadlines, indexes, counts, gangs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kube_rules.controllers.jobs import INDEX
from kube_standin.controllers.jobfailures import finished_at, judge, next_try
from kube_standin.controllers.jobgroups import never_started
from kube_standin.controllers.jobs import TRACKING
from tests.controllers.world import Json, World, ended, job, template

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


# -- verdicts


def failed(*codes: tuple[str, int], init: tuple[tuple[str, int], ...] = (), **conditions: str) -> Json:
    def listed(given: Any) -> list[Json]:
        return [{"name": name, "state": {"terminated": {"exitCode": code}}} for name, code in given]

    return {
        "metadata": {"name": "p", "namespace": "ns"},
        "status": {
            "containerStatuses": [{"name": "runs", "state": {"running": {}}}, *listed(codes)],
            "initContainerStatuses": listed(init),
            "conditions": [{"type": kind, "status": value} for kind, value in conditions.items()],
        },
    }


def codes(action: str, operator: str, *values: int, name: str | None = None) -> Json:
    wanted = {"containerName": name} if name is not None else {}
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **wanted}}


def on(action: str, kind: str, status: str | None = None) -> Json:
    return {
        "action": action,
        "onPodConditions": [{"type": "Never"}, {"type": kind} | ({"status": status} if status else {})],
    }


@pytest.mark.parametrize(
    ("rules", "pod", "action", "why"),
    [
        ([], failed(("c", 1)), "Count", ""),
        ([codes("FailJob", "In", 1, 2)], failed(("c", 2)), "FailJob",
         "Container c for pod ns/p failed with exit code 2 matching FailJob rule at index 0"),
        ([codes("FailJob", "In", 1, 2)], failed(("c", 3)), "Count", ""),
        ([codes("FailJob", "NotIn", 1, 2)], failed(("c", 3)), "FailJob",
         "Container c for pod ns/p failed with exit code 3 matching FailJob rule at index 0"),
        ([codes("FailJob", "NotIn", 1, 2)], failed(("c", 1)), "Count", ""),
        # One that ended well matches nothing, whatever the rule.
        ([codes("FailJob", "NotIn", 1)], failed(("c", 0)), "Count", ""),
        ([codes("FailJob", "In", 1)], failed(("c", 0), ("d", 1)), "FailJob",
         "Container d for pod ns/p failed with exit code 1 matching FailJob rule at index 0"),
        # The first container that matches is named; init containers come after the others.
        ([codes("FailJob", "In", 1)], failed(("c", 1), ("d", 1), init=(("i", 1),)), "FailJob",
         "Container c for pod ns/p failed with exit code 1 matching FailJob rule at index 0"),
        ([codes("FailJob", "In", 1)], failed(init=(("i", 1),)), "FailJob",
         "Container i for pod ns/p failed with exit code 1 matching FailJob rule at index 0"),
        ([codes("FailJob", "In", 1, name="d")], failed(("c", 1), ("d", 2)), "Count", ""),
        ([codes("FailJob", "In", 1, name="d")], failed(("c", 2), ("d", 1)), "FailJob",
         "Container d for pod ns/p failed with exit code 1 matching FailJob rule at index 0"),
        ([codes("FailJob", "In", 1, name="")], failed(("c", 1)), "FailJob",
         "Container c for pod ns/p failed with exit code 1 matching FailJob rule at index 0"),
        # The first rule that matches decides.
        ([codes("Ignore", "In", 5), codes("FailJob", "In", 1), codes("Ignore", "In", 1)], failed(("c", 1)), "FailJob",
         "Container c for pod ns/p failed with exit code 1 matching FailJob rule at index 1"),
        ([codes("Count", "In", 1), codes("FailJob", "In", 1)], failed(("c", 1)), "Count", ""),
        ([codes("Ignore", "In", 1), codes("FailJob", "In", 1)], failed(("c", 1)), "Ignore", ""),
        ([on("Ignore", "DisruptionTarget")], failed(DisruptionTarget="True"), "Ignore", ""),
        ([on("Ignore", "DisruptionTarget")], failed(DisruptionTarget="False"), "Count", ""),
        ([on("Ignore", "DisruptionTarget", "False")], failed(DisruptionTarget="False"), "Ignore", ""),
        ([on("FailJob", "Bad")], failed(Bad="True"), "FailJob",
         "Pod ns/p has condition Bad matching FailJob rule at index 0"),
    ],
)  # fmt: skip
def test_pod_failure_policy_decides_what_becomes_of_a_failure(
    rules: list[Json], pod: Json, action: str, why: str
) -> None:
    """podFailurePolicy (KEP-3329)."""
    verdict = judge({"spec": {"podFailurePolicy": {"rules": rules}}}, pod)
    assert (verdict.action, verdict.why) == (action, why)


@pytest.mark.parametrize(
    ("ends", "deleted", "expected"),
    [
        ([], None, "00:01:00"),
        (["00:00:10", "00:00:30", "00:00:20"], None, "00:00:30"),
        ([None, "00:00:10"], "00:00:50", "00:00:10"),
        ([], "00:00:50", "00:00:50"),
        ([], "00:01:50", "00:01:00"),
    ],
)
def test_when_a_pod_finished(ends: list[str | None], deleted: str | None, expected: str) -> None:
    """When its last container ended, else when it was deleted, and not later than now."""
    listed = [{"state": {"terminated": {"finishedAt": f"2026-01-01T{end}Z"} if end else {}}} for end in ends]
    metadata = {"deletionTimestamp": f"2026-01-01T{deleted}Z"} if deleted else {}
    found = finished_at({"metadata": metadata, "status": {"containerStatuses": listed}}, NOW)
    assert found.strftime("%H:%M:%S") == expected


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (11, 600), (12, 600), (10**6, 600)]
)
def test_how_long_the_next_try_waits(failures: int, seconds: float) -> None:
    """Ten seconds, twice as long after each failure, ten minutes at most."""
    assert next_try(NOW, failures) - NOW == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("status", "never"),
    [
        ({}, True),
        ({"active": 0, "conditions": [{"type": "Complete", "status": "False"}]}, True),
        ({"startTime": "2026-01-01T00:00:00Z"}, False),
        ({"succeeded": 1}, False),
        ({"failed": 1}, False),
        ({"conditions": [{"type": "Suspended", "status": "False"}]}, False),
    ],
)
def test_job_that_has_had_pods(status: Json, never: bool) -> None:
    """Any of it: such a Job gets no group any more, for its pods have none (KEP-5547)."""
    assert never_started({"status": status}) is never


# -- one Job


@pytest.fixture
def world() -> World:
    return World(("job",), nodes=1)


def status(world: World) -> Json:
    found: Json = world.get("batch/v1", "Job", "j")["status"]
    return found


def condition(world: World, kind: str) -> Json:
    return world.condition(world.get("batch/v1", "Job", "j"), kind)


def events(world: World) -> list[tuple[str, str, str]]:
    return [(one["reason"], one["type"], one["message"]) for one in world.all("v1", "Event")]


def test_deadline_is_counted_from_the_start(world: World) -> None:
    world.create(job(activeDeadlineSeconds=20))
    world.schedule()  # one second
    assert not condition(world.forward(18), "FailureTarget")
    assert condition(world.forward(1), "FailureTarget")["reason"] == "DeadlineExceeded"
    world.forward(1)
    told = ("DeadlineExceeded", "Warning", "Job was active longer than specified deadline")
    assert told in events(world)
    assert condition(world, "Failed")["message"] == told[2]


def test_suspended_job_has_no_deadline(world: World) -> None:
    world.create(job(activeDeadlineSeconds=20))
    world.forward(10)
    world.patch("batch/v1", "Job", "j", {"spec": {"suspend": True}})
    world.forward(60)
    assert not condition(world, "FailureTarget")
    world.patch("batch/v1", "Job", "j", {"spec": {"suspend": False}})
    assert not condition(world.forward(19), "FailureTarget"), "it starts again"
    assert condition(world.forward(1), "FailureTarget")


@pytest.mark.parametrize(("limit", "fails"), [(0, 1), (1, 2), (3, 4)])
def test_failures_up_to_the_limit_are_forgiven(world: World, limit: int, fails: int) -> None:
    world.create(job(backoffLimit=limit, pod=ended(1, code=3)))
    for number in range(1, fails + 1):
        assert not condition(world, "FailureTarget")
        world.schedule()
        world.forward(2)
        assert status(world)["failed"] == number
        world.forward(700)
    assert condition(world, "Failed")["reason"] == "BackoffLimitExceeded"


def test_retry_waits_to_the_second() -> None:
    """From when the pod ended."""
    world = World(("job",))
    world.create(job(backoffLimit=6))
    world.settle()
    [name] = world.names()
    world.set_status("v1", "Pod", name, {"phase": "Failed", "containerStatuses": [
        {"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:04Z"}}}]})  # fmt: skip
    world.set_clock.forward(4)
    world.settle()
    assert world.pods("Pending") == []
    assert world.forward(9).pods("Pending") == []
    assert len(world.forward(1).pods("Pending")) == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("ttl", [0, 5])
def test_time_to_live(phase: str, ttl: int) -> None:
    """Counted from the end, however it came."""
    world = World(("job",))
    world.create(job(ttlSecondsAfterFinished=ttl, backoffLimit=0))
    world.settle()
    world.set_phase(world.names()[0], phase)
    if ttl:
        assert world.forward(ttl - 0.1).has("batch/v1", "Job", "j")
        world.forward(0.1)
    assert not world.settle().has("batch/v1", "Job", "j")


def test_counts_of_a_job_that_runs(world: World) -> None:
    world.create(job(completions=4, parallelism=3))
    world.settle()
    assert {key: status(world).get(key) for key in ("active", "ready", "terminating")} == {
        "active": 3,
        "ready": 0,
        "terminating": 0,
    }
    world.schedule()
    assert (status(world)["active"], status(world)["ready"]) == (3, 3)
    first = world.names()[0]
    world.patch("v1", "Pod", first, {"metadata": {"annotations": {"reprieve.dev/stop-seconds": "20"}}})
    world.delete("v1", "Pod", first)
    found = status(world.settle())
    assert (found["active"], found["ready"], found["terminating"]) == (3, 2, 1)
    assert "succeeded" not in found
    assert "failed" not in found


def test_pod_of_a_job(world: World) -> None:
    made = template(restartPolicy="Never")
    made["metadata"] |= {"finalizers": ["example.com/own"], "annotations": {"a": "b"}}
    world.create(job(pod=made))
    [found] = world.settle().pods()
    assert found["metadata"]["finalizers"] == ["example.com/own", TRACKING]
    assert found["metadata"]["annotations"] == {"a": "b"}
    assert found["metadata"]["generateName"] == "j-"
    assert "env" not in found["spec"]["containers"][0]
    [owner] = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "j", True)


def test_pod_of_an_index(world: World) -> None:
    """Label, annotation, name, host name and variable say which; what the template says stands."""
    made = template(restartPolicy="Never", initContainers=[{"name": "i", "image": "i"}])
    own = {"name": "d", "image": "i", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]}
    made["spec"]["containers"].append(own)
    world.create(job(completionMode="Indexed", completions=2, parallelism=2, pod=made))
    pods = sorted(world.settle().pods(), key=lambda one: one["metadata"]["labels"][INDEX])
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    for index, found in enumerate(pods):
        metadata, spec = found["metadata"], found["spec"]
        assert (metadata["labels"][INDEX], metadata["annotations"][INDEX]) == (str(index), str(index))
        assert metadata["generateName"] == f"j-{index}-"
        assert spec["hostname"] == f"j-{index}"
        for container in (spec["containers"][0], spec["initContainers"][0]):
            assert container["env"] == [{"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]
        assert spec["containers"][1]["env"] == own["env"]


def indexes(world: World, phase: str | None = None) -> list[int]:
    return sorted(int(one["metadata"]["labels"][INDEX]) for one in world.pods(phase))


def by_index(world: World, index: int) -> str:
    [name] = [
        one["metadata"]["name"]
        for one in world.pods()
        if one["metadata"]["labels"].get(INDEX) == str(index) and one["status"]["phase"] in ("Pending", "Running")
    ]
    return str(name)


def test_indexes_that_are_done_or_taken_are_not_made_again() -> None:
    world = World(("job",))
    world.create(job(completionMode="Indexed", completions=5, parallelism=3, backoffLimit=6))
    assert indexes(world.settle()) == [0, 1, 2]
    world.set_phase(by_index(world, 1), "Succeeded")
    assert indexes(world.settle(), "Pending") == [0, 2, 3]
    assert status(world)["completedIndexes"] == "1"
    world.set_phase(by_index(world, 0), "Failed")
    world.forward(10)
    assert indexes(world, "Pending") == [0, 2, 3]
    assert status(world)["failed"] == 1
    for index in (3, 0, 2):
        world.set_phase(by_index(world, index), "Succeeded")
    world.settle()
    assert status(world)["completedIndexes"] == "0-3"
    assert indexes(world, "Pending") == [4]
    world.set_phase(by_index(world, 4), "Succeeded")
    world.settle()
    assert (status(world)["completedIndexes"], status(world)["succeeded"]) == ("0-4", 5)
    assert condition(world, "Complete")


def test_elastic_job_that_shrinks_ends_the_indexes_beyond() -> None:
    """And counts no failure for them; an index that is beyond is not counted as done either."""
    world = World(("job",))
    world.create(job(completionMode="Indexed", completions=4, parallelism=4))
    world.settle()
    world.patch("batch/v1", "Job", "j", {"spec": {"completions": 2, "parallelism": 2}})
    assert indexes(world.settle()) == [0, 1]
    assert "failed" not in status(world)


def test_index_with_two_pods_the_younger_is_deleted() -> None:
    world = World(("job",))
    world.create(job(completionMode="Indexed", completions=2, parallelism=2))
    [first, _] = world.settle().pods()
    double = {**first, "metadata": {**first["metadata"], "name": "double"}}
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        double["metadata"].pop(field, None)
    world.set_clock.forward(5)
    world.create(double)
    assert "double" not in world.settle().names()
    assert indexes(world) == [0, 1]


def test_work_queue_makes_no_pods_once_one_has_succeeded() -> None:
    world = World(("job",))
    world.create(job(parallelism=3))
    first, second, third = world.settle().names()
    world.set_phase(first, "Succeeded")
    world.delete("v1", "Pod", second, grace=0)
    world.settle()
    assert [one["metadata"]["name"] for one in world.pods("Pending")] == [third]
    assert not condition(world, "Complete")
    world.set_phase(third, "Succeeded")
    world.settle()
    assert condition(world, "Complete")
    assert status(world)["succeeded"] == 2


def test_no_more_pods_than_are_left_to_complete() -> None:
    world = World(("job",))
    world.create(job(completions=3, parallelism=2))
    first, second = world.settle().names()
    for name in (first, second):
        world.set_phase(name, "Succeeded")
    world.settle()
    assert len(world.pods("Pending")) == 1
    assert status(world)["active"] == 1


@pytest.mark.parametrize(("policy", "replaced"), [("TerminatingOrFailed", True), ("Failed", False)])
def test_when_a_pod_that_ends_is_replaced(world: World, policy: str, replaced: bool) -> None:
    slow = template(restartPolicy="Never")
    slow["metadata"]["annotations"] = {"reprieve.dev/stop-seconds": "20"}
    world.create(job(podReplacementPolicy=policy, pod=slow))
    world.schedule()
    world.delete("v1", "Pod", world.names()[0])
    assert len(world.settle().pods("Pending")) == int(replaced)
    world.forward(21)
    world.forward(10)
    assert len(world.pods("Pending")) == 1


@pytest.mark.parametrize(
    ("manager", "works"), [(None, True), ("kubernetes.io/job-controller", True), ("example.com/mine", False)]
)
def test_manager_of_a_job(manager: str | None, works: bool) -> None:
    world = World(("job",))
    world.create(job(managedBy=manager) if manager else job())
    assert bool(world.settle().pods()) is works


def test_job_that_is_deleted_makes_no_pods_and_counts_on() -> None:
    world = World(("job",))
    made = job(completions=2, parallelism=1)
    made["metadata"]["finalizers"] = ["example.com/wait"]
    world.create(made)
    [name] = world.settle().names()
    world.delete("batch/v1", "Job", "j", propagation="Background")
    world.set_phase(name, "Succeeded")
    assert status(world.settle())["succeeded"] == 1
    assert world.names() == [name]


def test_job_status_states(world: World) -> None:
    world.create(job(suspend=True, pod=ended(1)))
    world.settle()
    world.patch("batch/v1", "Job", "j", {"spec": {"suspend": False}})
    world.schedule()
    world.forward(2)
    [name] = world.names()
    assert sorted(events(world)) == [
        ("Completed", "Normal", "Job completed"),
        ("Resumed", "Normal", "Job resumed"),
        ("SuccessfulCreate", "Normal", f"Created pod: {name}"),
        ("Suspended", "Normal", "Job suspended"),
    ]
    assert {one["source"]["component"] for one in world.all("v1", "Event")} == {"job-controller"}
    assert condition(world, "Suspended")["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert condition(world, "Complete")["lastProbeTime"] == status(world)["completionTime"]


# -- deleting (upstream: DefaultGarbageCollectionPolicy of batch/v1 Jobs and v1 ReplicationControllers)

WITH_GARBAGE = ("job", "replicationcontroller", "replicaset", "garbage-collector", "namespace")


@pytest.mark.parametrize(
    ("finalizers", "asked", "left"),
    [
        ([], {}, 1),
        ([], {"propagation": "Orphan"}, 1),
        ([], {"propagation": "Background"}, 0),
        ([], {"propagation": "Foreground"}, 0),
        (["foregroundDeletion"], {}, 0),
        (["orphan"], {}, 1),
    ],
)
def test_job_leaves_its_pods_behind_unless_told_otherwise(finalizers: list[str], asked: Any, left: int) -> None:
    """api.md 6.1: by the request, else by a finalizer; kubectl asks for Background itself."""
    world = World(WITH_GARBAGE)
    made = job()
    made["metadata"]["finalizers"] = finalizers
    world.create(made)
    world.settle()
    world.delete("batch/v1", "Job", "j", **asked)
    world.settle()
    assert not world.has("batch/v1", "Job", "j")
    assert len(world.pods()) == left
    assert [one["metadata"].get("ownerReferences") for one in world.pods()] == [None] * left
    assert [one["metadata"].get("finalizers") for one in world.pods()] == [None] * left


@pytest.mark.parametrize(("kind", "left"), [("ReplicaSet", 0), ("ReplicationController", 1)])
def test_replication_controller_leaves_its_pods_behind(kind: str, left: int) -> None:
    world = World(WITH_GARBAGE)
    made: Json = {
        "apiVersion": "v1" if kind == "ReplicationController" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": {"replicas": 1, "template": template()},
    }
    if kind == "ReplicaSet":
        made["spec"]["selector"] = {"matchLabels": {"app": "a"}}
    world.create(made)
    world.settle()
    assert len(world.pods()) == 1
    world.delete(made["apiVersion"], kind, "a")
    world.settle()
    assert not world.has(made["apiVersion"], kind, "a")
    assert len(world.pods()) == left


@pytest.mark.parametrize("how", ["namespace", "owner", "time to live"])
def test_nothing_stays_where_a_controller_deletes_a_job(how: str) -> None:
    """The namespace controller, the garbage collector and the time to live ask for Background."""
    world = World(WITH_GARBAGE)
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    above = world.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "above", "namespace": "ns"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "above", "uid": above["metadata"]["uid"]}
    made = job(ttlSecondsAfterFinished=0, completions=1, parallelism=1)
    made["metadata"] |= {"namespace": "ns", "ownerReferences": [reference]}
    world.create(made)
    [one] = world.settle().pods()
    if how == "namespace":
        world.delete("v1", "Namespace", "ns", ns="")
    elif how == "owner":
        world.delete("v1", "ConfigMap", "above", ns="ns")
    else:
        world.set_phase(one["metadata"]["name"], "Succeeded", ns="ns")
    world.forward(5)
    assert world.all("batch/v1", "Job") == []
    assert world.pods() == []


def test_names_of_a_group_fit_whatever_the_job_is_called() -> None:
    """The longest name that a Job may have here, which ends in a dot where it is cut."""
    world = World(("job",))
    made = job("a" * 56 + ".b", scheduling={"schedulingPolicy": {"gang": {}}}, parallelism=2)
    world.create(made)
    world.settle()
    [workload] = world.all("scheduling.k8s.io/v1beta1", "Workload")
    [group] = world.all("scheduling.k8s.io/v1beta1", "PodGroup")
    [found] = workload["spec"]["podGroupTemplates"]
    assert found["name"] == "a" * 56 + "-pgt-0"
    name, _, digest = workload["metadata"]["name"].rpartition("-")
    assert (name, len(digest)) == ("a" * 56 + ".b", 10)
    assert group["metadata"]["name"].startswith(f"{workload['metadata']['name']}-{'a' * 56}-pgt")
    assert len(group["metadata"]["name"]) == 69 + 1 + 60 + 1 + 10
