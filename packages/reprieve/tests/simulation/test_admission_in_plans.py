"""Quotas and limit ranges in plans (whatif.md 14)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules.manifests import Manifests
from reprieve.client.snapshot import snapshot
from reprieve.inputs.loader import read
from reprieve.python.cluster import load
from reprieve.questions.capacity import capacity
from reprieve.questions.queue_order import queue_of
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import Plan
from reprieve.simulation.workloads.expansion import expand

Json = dict[str, Any]
_VERSIONS = {
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "PodGroup": "scheduling.k8s.io/v1beta1",
    "RuntimeClass": "node.k8s.io/v1",
    "Scenario": "reprieve.dev/v1alpha1",
}


def made(kind: str, name: str, *, meta: Json | None = None, **fields: Any) -> Json:
    metadata = {"name": name, **(meta or {})}
    return {"apiVersion": _VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata, **fields}


def container(cpu: str = "", limit: str = "", **more: Any) -> Json:
    amounts = {part: {"cpu": amount} for part, amount in (("requests", cpu), ("limits", limit)) if amount}
    return {"name": "c", "image": "x", "resources": amounts, **more}


def pod(name: str, cpu: str = "", *, meta: Json | None = None, limit: str = "", **spec: Any) -> Json:
    return made("Pod", name, meta=meta, spec={"containers": [container(cpu, limit)], **spec})


def quota(hard: Json, name: str = "q", *, status: Json | None = None, **spec: Any) -> Json:
    return made("ResourceQuota", name, spec={"hard": hard, **spec}, **({"status": status} if status else {}))


def job(name: str, parallelism: int, cpu: str = "", **spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [container(cpu)], **spec}}
    return made("Job", name, spec={"parallelism": parallelism, "completions": parallelism, "template": template})


NODE = made("Node", "n1", status={"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "20"}})
HIGH = made("PriorityClass", "high", value=1000)


def given(*documents: Json) -> Manifests:
    return read([(f"document {at}", document) for at, document in enumerate((NODE, HIGH, *documents))])


def planned(*documents: Json) -> Plan:
    return plan(given(*documents)).plan


def outcomes(found: Plan) -> dict[str, str]:
    return {pod.name: pod.outcome for pod in found.pods}


def message(found: Plan, name: str) -> str | None:
    return next(pod.message for pod in found.pods if pod.name == name)


# -- refusals ------------------------------------------------------------------------------------------------------


def term(scope: str, operator: str = "Exists", *values: str) -> dict[str, Any]:
    expression = {"scopeName": scope, "operator": operator, **({"values": list(values)} if values else {})}
    return {"scopeSelector": {"matchExpressions": [expression]}}


FAR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "namespaces": ["other"], "labelSelector": {}}
        ]
    }
}


@pytest.mark.parametrize(
    ("scope", "covered", "free"),
    [
        ({}, pod("a", "1"), None),
        ({"scopes": ["BestEffort"]}, pod("a"), pod("b", "1")),
        ({"scopes": ["NotBestEffort"]}, pod("a", "1"), pod("b")),
        ({"scopes": ["Terminating"]}, pod("a", activeDeadlineSeconds=9), pod("b")),
        ({"scopes": ["NotTerminating"]}, pod("a"), pod("b", activeDeadlineSeconds=9)),
        ({"scopes": ["CrossNamespacePodAffinity"]}, pod("a", affinity=FAR), pod("b")),
        (term("PriorityClass", "In", "high"), pod("a", priorityClassName="high"), pod("b")),
        (term("PriorityClass", "NotIn", "high"), pod("a"), pod("b", priorityClassName="high")),
        (term("PriorityClass", "Exists"), pod("a", priorityClassName="high"), pod("b")),
        (term("PriorityClass", "DoesNotExist"), pod("a"), pod("b", priorityClassName="high")),
    ],
)
def test_quota_refuses_what_is_in_its_scopes(scope: Json, covered: Json, free: Json | None) -> None:
    """whatif.md 14.1."""
    found = planned(quota({"pods": "0"}, **scope), covered, *([free] if free is not None else []))
    assert outcomes(found)["a"] == "Refused"
    assert message(found, "a") == (
        'pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0'
    )
    assert free is None or outcomes(found)["b"] != "Refused"


@pytest.mark.parametrize("victim", [True, False])
def test_pod_counts_for_the_class_that_its_group_names_as_a_victim(victim: bool) -> None:
    """cost.md 7.7: as where the embedded API server counts."""
    notes = {"annotations": {"scheduling.reprieve.dev/preemption-priority-class": "high"}} if victim else {}
    group = made("PodGroup", "g", meta=notes, spec={"schedulingPolicy": {"basic": {}}})
    found = planned(
        quota({"pods": "1"}, **term("PriorityClass", "In", "high")),
        group,
        *(pod(name, schedulingGroup={"podGroupName": "g"}) for name in "ab"),
    )
    assert sorted(outcomes(found).values()) == (["Refused", "Scheduled"] if victim else ["Scheduled"] * 2)


def test_class_that_is_the_default_counts_as_the_class_of_a_pod() -> None:
    """whatif.md 14.1: priority admission comes before quotas."""
    default = made("PriorityClass", "usual", value=5, globalDefault=True)
    found = planned(default, quota({"pods": "0"}, **term("PriorityClass", "In", "usual")), pod("a"))
    assert outcomes(found) == {"a": "Refused"}


@pytest.mark.parametrize(
    ("item", "spec", "expected"),
    [
        ({"min": {"cpu": "2"}}, pod("a", "1", limit="3"), "minimum cpu usage per Container is 2, but request is 1"),
        ({"max": {"cpu": "2"}}, pod("a", limit="3"), "maximum cpu usage per Container is 2, but limit is 3"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, pod("a", "1", limit="4"),
         "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000"),
        ({"type": "Pod", "max": {"cpu": "2"}}, pod("a", limit="3"), "maximum cpu usage per Pod is 2, but limit is 3"),
    ],
)  # fmt: skip
def test_limit_range_refuses_what_is_out_of_its_bounds(item: Json, spec: Json, expected: str) -> None:
    """whatif.md 14.1: min, max and ratio."""
    limits = made("LimitRange", "lr", spec={"limits": [{"type": "Container", **item}]})
    found = planned(limits, spec)
    assert message(found, "a") == f'pods "a" is forbidden: {expected}'


def test_defaults_of_a_limit_range_are_requests_that_count() -> None:
    """whatif.md 14.1: defaults come first, so three pods of 3 cores fill a node of 8, and a quota counts them."""
    limits = made("LimitRange", "lr", spec={"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]})
    found = planned(limits, pod("a"), pod("b"), pod("c"), pod("d", "1"))
    assert outcomes(found) == {"a": "Scheduled", "b": "Scheduled", "c": "Unschedulable", "d": "Scheduled"}
    found = planned(limits, quota({"requests.cpu": "4"}), pod("a"), pod("b"))
    assert outcomes(found) == {"a": "Scheduled", "b": "Refused"}


def test_default_that_makes_a_pod_invalid_refuses_it() -> None:
    """whatif.md 14.1: validation comes after defaults."""
    limits = made("LimitRange", "lr", spec={"limits": [{"type": "Container", "default": {"cpu": "1"}}]})
    text = message(planned(limits, pod("a", "2")), "a")
    assert text is not None
    assert text.startswith('Pod "a" is invalid: spec.containers[0].resources.requests: Invalid value: "2"')


def test_pod_must_state_what_a_quota_limits() -> None:
    """whatif.md 14.1."""
    found = planned(quota({"limits.memory": "1Gi"}), pod("a", "1"))
    assert message(found, "a") == 'pods "a" is forbidden: failed quota: q: must specify limits.memory for: c'


# -- what exists ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "counted"),
    [
        (pod("there", "1", nodeName="n1"), True),
        (pod("there", "1", meta={"uid": "u"}), True),
        ({**pod("there", "1"), "status": {"phase": "Succeeded"}}, False),
        (pod("there", "1", meta={"namespace": "other"}, nodeName="n1"), False),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_existing_objects_are_counted_and_not_refused(there: Json, counted: bool, first: bool) -> None:
    """whatif.md 14.2: wherever it stands in the input."""
    new = pod("new", "1")
    found = planned(quota({"pods": "1", "requests.cpu": "1"}), *((there, new) if first else (new, there)))
    assert outcomes(found)["new"] == ("Refused" if counted else "Scheduled")
    assert outcomes(found).get("there") in (None, "Scheduled")


def test_quota_usage_is_counted_and_not_read() -> None:
    """whatif.md 14.3."""
    status = {"hard": {"pods": "2", "configmaps": "1"}, "used": {"pods": "2", "configmaps": "1"}}
    found = planned(quota({"pods": "2", "configmaps": "1"}, status=status), pod("a"), pod("b"), pod("c"))
    assert outcomes(found) == {"a": "Scheduled", "b": "Scheduled", "c": "Refused"}


# -- controllers ---------------------------------------------------------------------------------------------------


def test_controller_makes_as_many_pods_as_it_may() -> None:
    """whatif.md 14.4."""
    document = planned(quota({"pods": "2"}), job("over", 4))
    assert sorted(outcomes(document).values()) == ["Refused", "Refused", "Scheduled", "Scheduled"]
    (found,) = document.refused
    assert (found.kind, found.name, found.wanted, found.exist) == ("Job", "over", 4, 2)
    assert found.message == "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    assert found.pods == ("over-00002", "over-00003")
    assert not document.all_placed


def test_highest_owner_reports() -> None:
    """whatif.md 14.4: a Deployment for its ReplicaSet."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container("1")]}}
    web = made("Deployment", "web", spec={"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template})
    (found,) = planned(quota({"requests.cpu": "1"}), web).refused
    assert (found.kind, found.name, found.wanted, found.exist) == ("Deployment", "web", 3, 1)


def test_controller_that_is_refused_makes_no_pods() -> None:
    """whatif.md 14.5: and one that exists is counted."""
    there = job("there", 0)
    there["metadata"]["uid"] = "u"
    (found,) = planned(quota({"count/jobs.batch": "2"}), there, job("one", 2), job("two", 2)).refused
    assert (found.name, found.wanted, found.exist) == ("two", 2, 0)
    assert found.message == (
        "exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=2, limited: count/jobs.batch=2"
    )


def test_claim_that_is_refused_refuses_its_pod() -> None:
    """whatif.md 14.5."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "serviceName": "db"}
    stateful = made("StatefulSet", "db", spec={**spec, "template": template, "volumeClaimTemplates": [claim]})
    (found,) = planned(quota({"requests.storage": "1Gi"}), stateful).refused
    assert (found.name, found.wanted, found.exist) == ("db", 2, 1)
    assert found.message.startswith("exceeded quota: q, requested: requests.storage=1Gi")


def test_released_quota_lets_a_controller_go_on() -> None:
    """whatif.md 14.4: a pod that is evicted gives its quota back when it is gone."""
    low = pod("low", "8", nodeName="n1")
    high = pod("high", "8", priorityClassName="high", meta={"namespace": "other"})
    found = planned(quota({"pods": "2"}), low, job("over", 2, "0"), high)
    assert found.preemptions
    assert [one.outcome for one in found.pods if one.name.startswith("over")] == ["Scheduled", "Scheduled"]
    assert found.refused == ()


def test_scenario_creates_and_deletes_quotas() -> None:
    """whatif.md 14.4: what happens to quotas in a step counts from then on."""
    steps = [
        {"create": [quota({"pods": "1"})]},
        {"create": [job("over", 3)]},
        {"delete": [{"kind": "ResourceQuota", "namespace": "default", "name": "q"}]},
    ]
    document = planned(made("Scenario", "s", spec={"steps": steps[:2]}))
    assert sorted(outcomes(document).values()) == ["Refused", "Refused", "Scheduled"]
    document = planned(made("Scenario", "s", spec={"steps": steps}))
    assert set(outcomes(document).values()) == {"Scheduled"}


def test_scenario_objects_report_by_their_highest_owner() -> None:
    """whatif.md 14.4, 14.5: as what is there at the start."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container("1")]}}
    web = made("Deployment", "web", spec={"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template})
    hards: list[tuple[Json, int]] = [({"pods": "1"}, 1), ({"count/deployments.apps": "0"}, 0)]
    for hard, exist in hards:
        steps = [{"create": [quota(hard)]}, {"create": [web]}]
        (found,) = planned(made("Scenario", "s", spec={"steps": steps})).refused
        assert (found.kind, found.name, found.wanted, found.exist) == ("Deployment", "web", 2, exist)


def test_gang_short_of_refused_members_waits() -> None:
    """whatif.md 14.1: members that do not exist are none of the group."""
    group = made("PodGroup", "g", spec={"schedulingPolicy": {"gang": {"minCount": 3}}})
    spec: Json = {"schedulingGroup": {"podGroupName": "g"}}
    document = planned(quota({"pods": "2"}), group, *(pod(name, "1", **spec) for name in ("a", "b", "c")))
    assert outcomes(document) == {"a": "Gated", "b": "Gated", "c": "Refused"}
    assert document.pod_groups[0].outcome == "Gated"


# -- all callers -------------------------------------------------------------------------------------------------


def test_plan_of_the_cluster_afterwards_refuses_nothing_it_placed() -> None:
    """whatif.md 14.6: pods that were placed have the requests that they were given."""
    limits = made("LimitRange", "lr", spec={"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]})
    result = load([NODE, limits, quota({"requests.cpu": "6"}), pod("a"), pod("b"), pod("c")]).plan()
    assert outcomes(result.plan) == {"a": "Scheduled", "b": "Scheduled", "c": "Refused"}
    assert sorted(result.cluster.pods) == ["default/a", "default/b"]
    again = result.cluster.with_manifests(pod("d", "1")).plan()
    assert message(again.plan, "d") == (
        'pods "d" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=6, '
        "limited: requests.cpu=6"
    )


def test_queue_lists_pods_that_exist_and_names_refusals() -> None:
    """whatif.md 14.6."""
    queue = queue_of(expand(given(quota({"pods": "1"}), job("over", 2))).manifests, PlanOptions())
    assert [item.name for item in queue.items] == ["over-00000"]
    assert queue.refused == (
        "Job default/over wants 2 pods, 1 exists: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
    )


def test_capacity_counts_what_admission_lets_in() -> None:
    """whatif.md 14.7: pending pods that exist count, though capacity leaves them out."""
    there = pod("there", "1", meta={"uid": "u"})
    found = capacity(given(quota({"pods": "4"}), there), read([("shape", pod("s", "1"))]), PlanOptions())
    assert (found.now, found.with_preemption, found.largest_gang) == (3, 3, 3)
    assert found.refusal is not None
    assert "exceeded quota: q" in found.refusal
    assert found.pools[0].pods == 8
    assert found.pools[0].stranded == "0"


@pytest.mark.parametrize("anonymize", [False, True])
def test_snapshot_keeps_quotas_and_limit_ranges(anonymize: bool) -> None:
    """whatif.md 14.6: scopes name the classes that pods have."""
    bounds = made("LimitRange", "lr", spec={"limits": [{"type": "Container", "max": {"example.com/own": "1"}}]})
    by_class = term("PriorityClass", "In", "high")
    there = given(quota({"pods": "0"}, **by_class), bounds, pod("a", priorityClassName="high"))
    manifests, _ = snapshot([loaded.object for loaded in there.all()], anonymize=anonymize)
    again = plan(read([("snapshot", msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": manifests}))]))
    assert [one.outcome for one in again.plan.pods] == ["Refused"]


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (quota({"cpu": "many"}), "spec.hard[cpu]"),
        (quota({"pods": "-1"}), "spec.hard[pods]"),
        (quota({"pods": "1"}, scopes=["Odd"]), "spec.scopes"),
        (quota({"pods": "1"}, **term("Odd")), "spec.scopeSelector.matchExpressions[0].scopeName"),
        (quota({"pods": "1"}, **term("PriorityClass", "In")), "spec.scopeSelector.matchExpressions[0].values"),
        (quota({"pods": "1"}, **term("PriorityClass", "Is")), "spec.scopeSelector.matchExpressions[0].operator"),
        (made("LimitRange", "lr", spec={"limits": [{"max": {"cpu": "1"}}]}), "spec.limits[0].type"),
        (made("LimitRange", "lr", spec={"limits": [{"type": "Pod", "default": {"cpu": "1"}}]}),
         "spec.limits[0].default"),
        (made("LimitRange", "lr", spec={"limits": [{"type": "Pod", "max": {"cpu": "x"}}]}), "spec.limits[0].max[cpu]"),
    ],
)  # fmt: skip
def test_bad_quotas_and_limit_ranges_are_errors_with_their_place(document: Json, field: str) -> None:
    """api.md 5: file, document and field."""
    from kube_rules.errors import InputError

    with pytest.raises(InputError) as error:
        given(document)
    assert error.value.path == field


# -- RuntimeClasses (whatif.md 14.10)


SANDBOX = made("RuntimeClass", "sandbox", handler="runsc", overhead={"podFixed": {"cpu": "5"}})


def test_overhead_of_a_class_counts() -> None:
    """With the overhead of 5 CPUs one pod of 2 CPUs fits on a node of 8."""
    found = planned(SANDBOX, *(pod(name, "2", runtimeClassName="sandbox") for name in ("a", "b")))
    assert outcomes(found) == {"a": "Scheduled", "b": "Unschedulable"}
    assert outcomes(planned(SANDBOX, pod("a", "2"), pod("b", "2"))) == {"a": "Scheduled", "b": "Scheduled"}


def test_scheduling_of_a_class_counts() -> None:
    labelled = made("RuntimeClass", "labelled", handler="x", scheduling={"nodeSelector": {"disk": "ssd"}})
    assert outcomes(planned(labelled, pod("a", "1", runtimeClassName="labelled"))) == {"a": "Unschedulable"}


def test_overhead_of_a_class_counts_for_quotas() -> None:
    found = planned(SANDBOX, quota({"requests.cpu": "6"}), pod("a", "2", runtimeClassName="sandbox"))
    assert "requested: requests.cpu=7" in (message(found, "a") or "")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "none"}, 'RuntimeClass "none" not found'),
        (
            {"runtimeClassName": "sandbox", "overhead": {"cpu": "1"}},
            "Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        ({"overhead": {"cpu": "1"}}, "Pod Overhead set without corresponding RuntimeClass defined Overhead"),
    ],
)
def test_pods_that_their_class_does_not_admit(spec: Json, why: str) -> None:
    found = planned(SANDBOX, pod("a", "1", **spec))
    assert outcomes(found) == {"a": "Refused"}
    assert message(found, "a") == f'pods "a" is forbidden: pod rejected: {why}'


def test_input_without_classes_states_nothing_of_them() -> None:
    assert outcomes(planned(pod("a", "1", runtimeClassName="none"))) == {"a": "Scheduled"}
