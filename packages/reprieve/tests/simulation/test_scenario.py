"""Scenario documents: what each field takes, and what its steps do when (docs/plan.md, `simulation/scenario.py`)."""

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
from reprieve.simulation.scenario import ScenarioStep, read_scenarios
from tests.manifests import pod
from tests.questions.test_suggestions import gang, loaded, node
from tests.simulation.test_losses import gone, scenario

Json = dict[str, Any]


def steps(*given: Any) -> tuple[ScenarioStep, ...]:
    [found] = read_scenarios(load(["-"], stdin=io.BytesIO(yaml.safe_dump(scenario(*given)).encode())))
    return found.steps


def played(*given: Any, also: tuple[Json, ...] = (), options: PlanOptions | None = None) -> Plan:
    return plan(loaded(node("n1", 4), *also, scenario(*given)), options).plan


ONE = "spec.steps[0]"


@pytest.mark.parametrize(
    ("step", "path", "message"),
    [
        (3, ONE, "must be a mapping"),
        ([], ONE, "must be a mapping"),
        ({"creat": []}, f"{ONE}.creat", 'unknown field, did you mean "create"?; known: create, together, delete, wait'),
        ({"x": []}, f"{ONE}.x", "unknown field; known: create, together, delete, wait"),
        ({"together": 1}, f"{ONE}.together", "must be true or false"),
        ({"together": None}, f"{ONE}.together", "must be true or false"),
        ({"create": {"a": 1}}, f"{ONE}.create", "must be a list"),
        ({"create": [3]}, f"{ONE}.create[0]", "must be a mapping"),
        ({"create": [pod("a", 1), {"kind": 3}]}, f"{ONE}.create[1].kind", ""),
        ({"create": [pod("a", 1) | {"spec": 3}]}, f"{ONE}.create[0].spec", ""),
        ({"create": [pod("a", 1, priorityClassName="gold")]}, f"{ONE}.create[0].spec.priorityClassName", "gold"),
        ({"create": [gang("g", 0)]}, f"{ONE}.create[0].spec.schedulingPolicy.gang.minCount", ""),
        ({"delete": "a"}, f"{ONE}.delete", "must be a list"),
        ({"delete": ["a"]}, f"{ONE}.delete[0]", "must be a mapping"),
        (
            {"delete": [{"kind": "Pod", "nam": "a"}]},
            f"{ONE}.delete[0].nam",
            'unknown field, did you mean "name"?; known: kind, namespace, name',
        ),
        ({"delete": [{"kind": "Pod", "name": "a"}, {"kind": "Pod"}]}, f"{ONE}.delete[1].name", "is required"),
        ({"delete": [{"kind": "Pod", "name": ""}]}, f"{ONE}.delete[0].name", "is required"),
        ({"delete": [{"kind": "Pod", "name": 3}]}, f"{ONE}.delete[0].name", "is required"),
        (
            {"delete": [{"kind": "Job", "name": "a"}]},
            f"{ONE}.delete[0].kind",
            "'Job': expected Pod, Node, PodGroup, CompositePodGroup, PodDisruptionBudget, ResourceQuota or LimitRange",
        ),
        ({"delete": [{"name": "a"}]}, f"{ONE}.delete[0].kind", "None: expected Pod, Node"),
        ({"delete": [{"kind": ["Pod"], "name": "a"}]}, f"{ONE}.delete[0].kind", "['Pod']: expected Pod, Node"),
        *(
            ({"wait": wait}, f"{ONE}.wait", f"{wait!r}: expected settled, victims-gone or {{seconds: N}}")
            for wait in (
                "settle",
                3,
                True,
                {},
                {"seconds": -1},
                {"seconds": True},
                {"seconds": "3"},
                {"seconds": None},
                {"seconds": 10**9 + 1},
                {"minutes": 1, "seconds": 3},
            )
        ),
    ],
)
def test_invalid_step_is_one_error_with_its_place(step: Any, path: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        steps(step)
    assert refused.value.path == path
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        (None, "spec", "must be a mapping"),
        ({}, "spec.steps", "must be a list of steps"),
        ({"steps": {}}, "spec.steps", "must be a list of steps"),
        ({"steps": [], "step": 1}, "spec.step", 'unknown field, did you mean "steps"?; known: steps'),
    ],
)
def test_scenario_has_a_list_of_steps(spec: Any, path: str, message: str) -> None:
    text = yaml.safe_dump({**scenario(), "spec": spec}).encode()
    with pytest.raises(InputError) as refused:
        read_scenarios(load(["-"], stdin=io.BytesIO(text)))
    assert (refused.value.path, refused.value.message) == (path, message)


@pytest.mark.parametrize(
    ("wait", "read"),
    [
        (None, None),
        ("settled", "settled"),
        ("victims-gone", "victims-gone"),
        ({"seconds": 0}, 0.0),
        ({"seconds": 2.5}, 2.5),
        ({"seconds": 10**9}, 1e9),
    ],
)
def test_step_waits_for(wait: Any, read: str | float | None) -> None:
    [step] = steps({"wait": wait})
    assert step.wait == read
    assert type(step.wait) is type(read)


def test_fields_of_a_step_and_their_defaults() -> None:
    first, second = steps(
        {},
        {
            "create": [pod("a", 1), gang("g", 1), node("n2")],
            "together": True,
            "delete": [
                {"kind": "Pod", "name": "p"},
                {"kind": "PodGroup", "namespace": "team", "name": "g"},
                {"kind": "Node", "namespace": None, "name": "n1"},
            ],
        },
    )
    assert (first.path, first.create, first.together, first.delete, first.wait) == (ONE, (), False, (), None)
    assert (second.path, second.together) == ("spec.steps[1]", True)
    assert [one.name for one in second.create] == ["a", "g", "n2"]
    assert second.places == tuple(f"spec.steps[1].create[{number}]" for number in range(3))
    assert second.delete == (("Pod", "default", "p"), ("PodGroup", "team", "g"), ("Node", "default", "n1"))


# -- what steps do -------------------------------------------------------------------------------------------------


def where(found: Plan) -> dict[str, str]:
    return {one.name: one.node_name or one.reason or one.outcome for one in found.pods}


def test_pods_of_one_step_are_tried_one_by_one_or_together() -> None:
    """Together the more important one comes first; one by one the scheduler runs after each."""
    low, high = pod("low", 3), pod("high", 3, priority=9, preemptionPolicy="Never")
    assert where(played({"create": [low, high]})) == {"high": "Unschedulable", "low": "n1"}
    assert where(played({"create": [low, high], "together": True})) == {"high": "n1", "low": "Unschedulable"}


def test_pods_of_one_step_are_tried_in_its_order() -> None:
    several = [pod(name, 3) for name in ("b", "a", "c")]
    assert where(played({"create": several, "together": True})) == {
        "a": "Unschedulable",
        "b": "n1",
        "c": "Unschedulable",
    }


@pytest.mark.parametrize(
    ("wait", "virtual", "reason"),
    [
        ({"seconds": 0}, 0.0, "Nominated"),
        ({"seconds": 29}, 29.0, "Nominated"),
        ({"seconds": 30}, 30.0, "n1"),
        ({"seconds": 45.5}, 45.5, "n1"),
        ("victims-gone", 30.0, "n1"),
        ("settled", 30.0, "n1"),
        (None, 30.0, "n1"),
    ],
)
def test_wait_of_the_last_step_ends_the_plan(wait: Any, virtual: float, reason: str) -> None:
    """A last step that waits for nothing is followed by settling."""
    low = pod("low", 4, node="n1")
    found = played({"create": [pod("high", 4, priority=9)], "wait": wait}, also=(low,))
    [high] = found.pods
    assert (high.node_name or high.outcome, found.stats.virtual_seconds) == (reason, virtual)


def test_no_steps_are_followed_by_settling() -> None:
    assert where(played(also=(pod("a", 1),))) == {"a": "n1"}


def test_step_without_a_wait_goes_on_with_the_next_one_at_once() -> None:
    low, high = pod("low", 4, node="n1"), pod("high", 4, priority=9)
    found = played(
        {"create": [high]}, {"delete": [{"kind": "Pod", "name": "high"}], "wait": {"seconds": 5}}, also=(low,)
    )
    assert found.pods == ()
    assert [made.preemptor.name for made in found.preemptions] == ["high"]


def test_deleted_pod_is_reported_only_if_it_is_created_again() -> None:
    a, b = pod("a", 1), pod("b", 1)
    found = played(gone("Pod", "a"), {"wait": "settled"}, also=(a, b))
    assert where(found) == {"b": "n1"}
    again = played({**gone("Pod", "a"), "wait": {"seconds": 60}}, {"create": [a]}, also=(a, b))
    assert where(again) == {"a": "n1", "b": "n1"}


@pytest.mark.parametrize(
    ("given", "path", "message"),
    [
        ((gone("Pod", "x"),), "spec.steps[0].delete", "Pod default/x does not exist at that time"),
        (
            ({}, {"delete": [{"kind": "Node", "name": "n9"}]}),
            "spec.steps[1].delete",
            "Node default/n9 does not exist at that time",
        ),
        (({"create": [pod("a", 1)]},), "spec.steps[0].create[0].metadata.name", "Pod default/a already exists"),
        (({"create": [pod("b", 1), pod("b", 1)]},), "spec.steps[0].create[1].metadata.name", "Pod default/b already"),
    ],
)
def test_step_that_does_not_fit_at_its_time_is_an_error(given: tuple[Json, ...], path: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        played(*given, also=(pod("a", 1),))
    assert refused.value.path == path
    assert message in refused.value.message


def test_claims_of_a_group_that_would_be_ignored_are_refused_in_a_step_too() -> None:
    group = gang("g", 1)
    group["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    options = PlanOptions(gates=FeatureGates(dra_workload_resource_claims=False))
    for given, also in (((), (group,)), (({"create": [group]},), ())):
        with pytest.raises(InputError, match="the feature gate DRAWorkloadResourceClaims is off"):
            played(*given, also=also, options=options)
    both = PlanOptions(gates=FeatureGates(dra_workload_resource_claims=False, generic_workload=False))
    assert played(also=(group,), options=both).pod_groups is not None


def test_plan_that_stops_at_its_first_decision_plays_no_more_steps() -> None:
    low, high = pod("low", 4, node="n1"), pod("high", 4, priority=9)
    later = {"create": [pod("later", 1)]}
    found = played({"create": [high]}, later, also=(low,), options=PlanOptions(first_decision=True))
    assert [(one.name, one.outcome, one.nominated_node_name) for one in found.pods] == [("high", "Nominated", "n1")]
