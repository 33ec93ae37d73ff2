"""Workloads in the steps of a Scenario: as their controllers' pods, from that step on (whatif.md 1)."""

from __future__ import annotations

import io
from typing import Any

import pytest
import yaml

from kube_rules.errors import InputError
from reprieve.framework.gates import FeatureGates
from reprieve.inputs.loader import load
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import Plan
from reprieve.simulation.scenario import read_scenarios
from reprieve.simulation.workloads.rows import read_rows
from reprieve.simulation.workloads.table import TABLE

Json = dict[str, Any]
NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "pods": "20"}},
}
CLASS: Json = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}


def job(name: str, count: int, cpu: str = "1", *, gang: bool = False, **spec: Any) -> Json:
    annotations = {"annotations": {"scheduling.reprieve.dev/gang": "true"}} if gang else {}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"containers": [container], **spec}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **annotations},
        "spec": {"parallelism": count, "completions": count, "template": template},
    }


ROWS = """
apiVersion: reprieve.dev/v1alpha1
kind: WorkloadKinds
workloadKinds:
- group: example.com
  kind: Sweep
  suspended: spec.paused
  sets: [{each: spec, replicas: count, name: "{name}-{index}"}]
"""


def planned(*steps: Json, also: tuple[Json, ...] = (), options: PlanOptions | None = None) -> Plan:
    scenario = {
        "apiVersion": "reprieve.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "s"},
        "spec": {"steps": list(steps)},
    }
    text = yaml.safe_dump_all([NODE, *also, scenario])
    return plan(load(["-"], stdin=io.BytesIO(text.encode())), options).plan


def outcomes(found: Plan) -> dict[str, str]:
    return {pod.name: pod.outcome for pod in found.pods}


def test_job_of_a_step_comes_with_its_pods() -> None:
    found = planned({"create": [job("first", 3)], "wait": "settled"}, {"create": [job("second", 2)]})
    assert outcomes(found) == {
        "first-00000": "Scheduled",
        "first-00001": "Scheduled",
        "first-00002": "Scheduled",
        "second-00000": "Scheduled",
        "second-00001": "Unschedulable",
    }


def test_gang_comes_as_one_and_makes_room_with_the_class_of_an_earlier_step() -> None:
    found = planned(
        {"create": [job("low", 4)], "wait": "settled"},
        {"create": [CLASS]},
        {"create": [job("train", 2, "2", gang=True, priorityClassName="high")], "wait": "victims-gone"},
    )
    shown = outcomes(found)
    assert shown["train-00000"] == shown["train-00001"] == "Scheduled"
    [made] = found.preemptions
    assert (made.preemptor.kind, made.preemptor.name) == ("PodGroup", "train")
    assert len(made.victims) == 4


def test_existing_pods_of_a_workload_are_not_made_again() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "first", "uid": "1", "controller": True}
    there = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "first-x", "ownerReferences": [owner]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }
    found = planned({"create": [job("first", 2)]}, also=(there,))
    assert [name for name, outcome in outcomes(found).items() if outcome == "Scheduled"] == ["first-00000"]


def test_custom_kinds_make_their_pods_and_are_reported_where_they_are_suspended() -> None:
    """whatif.md 1.5, 1.11, 3: by the rows of the options."""
    rows = TABLE.with_more(read_rows("rows.yaml", ROWS))
    template = job("x", 1)["spec"]["template"]
    sweep = {"apiVersion": "example.com/v1", "kind": "Sweep", "metadata": {"name": "s"}}
    steps: list[Json] = [
        {"create": [{**sweep, "spec": {"count": 2, "template": template}}], "wait": "settled"},
        {"create": [{**sweep, "metadata": {"name": "idle"}, "spec": {"paused": True, "template": template}}]},
    ]
    found = planned(*steps, options=PlanOptions(rows=rows))
    assert outcomes(found) == {"s-0": "Scheduled", "s-1": "Scheduled"}
    assert [(one.kind, one.name) for one in found.suspended] == [("Sweep", "idle")]
    with pytest.raises(InputError, match="Sweep"):
        planned(*steps)


def test_steps_follow_on_what_steps_before_them_did() -> None:
    """whatif.md 1.11: a node of a step gets its daemon, a deleted ordinal is made again, names go on."""
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d"},
        "spec": {"template": job("x", 1, "100m")["spec"]["template"]},
    }
    ordinals = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {"replicas": 1, "template": job("x", 1, "100m")["spec"]["template"]},
    }
    found = planned(
        {"create": [{**NODE, "metadata": {"name": "n2"}}, ordinals, job("j", 1, "100m")]},
        {"delete": [{"kind": "Pod", "name": "db-0"}]},
        {"create": [daemon, ordinals, job("j-0", 0), job("j", 2, "100m")]},
    )
    assert outcomes(found) == dict.fromkeys(("d-00000", "d-00001", "db-0", "j-00000", "j-00001"), "Scheduled")


def test_deleted_objects_are_gone_for_later_workloads() -> None:
    """whatif.md 1.11: no daemon on a node that is gone, and a gang of a group that is gone has its own again."""
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d"},
        "spec": {"template": job("x", 1, "100m")["spec"]["template"]},
    }
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "j"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }
    found = planned(
        {"create": [{**NODE, "metadata": {"name": "n2"}}, group]},
        {"delete": [{"kind": "Node", "name": "n2"}, {"kind": "PodGroup", "name": "j"}]},
        {"create": [daemon, job("j", 2, "100m", gang=True)]},
    )
    assert outcomes(found) == dict.fromkeys(("d-00000", "j-00000", "j-00001"), "Scheduled")
    assert [(one.name, one.min_count) for one in found.pod_groups] == [("j", 2)]


def test_many_steps_cost_what_they_bring() -> None:
    """whatif.md 1.11: no step reads the whole cluster; 2,000 pods are looked at once, not 300 times."""
    there = tuple(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i}"}, "spec": {"containers": [{"name": "c"}]}}
        for i in range(2_000)
    )
    steps = [{"create": [job(f"j{i}", 1)]} for i in range(300)]
    scenario = {"apiVersion": "reprieve.dev/v1alpha1", "kind": "Scenario", "spec": {"steps": steps}}
    given = load(["-"], stdin=io.BytesIO(yaml.safe_dump_all([NODE, *there, scenario]).encode()))
    reads = 0

    class Counted(dict[Any, Any]):
        def values(self) -> Any:
            nonlocal reads
            reads += 1
            return super().values()

    given.objects = Counted(given.objects)
    (found,) = read_scenarios(given)
    assert len(found.steps) == 300
    assert reads < 5


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (job("bad", 1, "much"), r"spec\.steps\[0\]\.create\[0\]\.spec\.template\.spec\.containers\[0\]"),
        (job("bad", 1, priorityClassName="lost"), r"lost"),
        (
            {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "metadata": {"name": "t"}, "spec": {}},
            r"spec\.steps\[0\]\.create\[0\]",
        ),
    ],
)
def test_object_that_cannot_be_made_is_an_error_with_its_step(manifest: Json, message: str) -> None:
    with pytest.raises(InputError, match=message):
        planned({"create": [manifest]})


def test_fields_turned_off_by_gates_are_refused_in_a_step_too() -> None:
    """Never a wrong answer: the claims of a group would be ignored."""
    group: Json = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 1}},
            "resourceClaims": [{"name": "c", "resourceClaimName": "claim"}],
        },
    }
    on, off = (
        PlanOptions(gates=FeatureGates.of({"DRAWorkloadResourceClaims": value, "WorkloadWithJob": False}))
        for value in (True, False)
    )
    for steps, also in (((group,), ()), ((), (group,))):
        assert [one.name for one in planned({"create": list(steps)}, also=also, options=on).pod_groups] == ["g"]
        with pytest.raises(InputError, match="the feature gate DRAWorkloadResourceClaims is off"):
            planned({"create": list(steps)}, also=also, options=off)


@pytest.mark.parametrize(
    ("version", "kind"), [("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")]
)
def test_sets_of_a_step_spread_their_pods_by_their_selector(version: str, kind: str) -> None:
    """whatif.md 1.11, and 1.1: as sets that are there from the start; by amounts alone n2 gets none."""
    nodes = [
        {**NODE, "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}} for name in ("n2", "n3", "n4")
    ]
    taken = [
        {**bare(f"on-{name}", cpu, nodeName=name), "status": {"phase": "Running"}}
        for name, cpu in (("n1", "4"), ("n2", "3"))
    ]
    labels = {"of": "w"}
    template = {"metadata": {"labels": labels}, "spec": bare("w", "1")["spec"]}
    selector = labels if version == "v1" else {"matchLabels": labels}
    spec = {"replicas": 3, "selector": selector, "template": template}
    made = planned({"create": [{"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}]},
                   also=(*nodes, *taken))  # fmt: skip
    assert sorted(pod.node_name or "" for pod in made.pods if pod.name.startswith("w-")) == ["n2", "n3", "n4"]


def bare(name: str, cpu: str, **spec: Any) -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}
