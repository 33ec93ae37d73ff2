"""HorizontalPodAutoscalers: replicas follow what pods use (interfaces.md 7.11)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin import scale
from kube_standin.controllers import CONTROLLERS, autoscalers
from tests.controllers.world import World, owner, template

Json = dict[str, Any]
HPA = ("autoscaling/v2", "HorizontalPodAutoscaler")
PERCENT = "reprieve.dev/usage-percent"


@pytest.fixture
def world() -> World:
    return World(CONTROLLERS, nodes=1, adopt=False)


def scaled(world: World, replicas: int, percent: int, **spec: Any) -> World:
    """Return a world with a Deployment of which each pod uses a share of its requests, and an autoscaler."""
    pod = template()
    pod["metadata"]["annotations"] = {PERCENT: str(percent)}
    world.create(owner("Deployment", "d", pod=pod, replicas=replicas))
    world.settle().schedule()
    world.forward(600)
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    whole = {"scaleTargetRef": reference, "maxReplicas": 20, **spec}
    world.create({"apiVersion": HPA[0], "kind": HPA[1], "metadata": {"name": "h"}, "spec": whole})
    return world.settle()


def replicas(world: World) -> int:
    found: int = world.get("apps/v1", "Deployment", "d")["spec"]["replicas"]
    return found


def use(world: World, percent: int) -> None:
    """Let each pod use another share of its requests."""
    for pod in world.pods():
        world.patch("v1", "Pod", pod["metadata"]["name"], {"metadata": {"annotations": {PERCENT: str(percent)}}})


def conditions(world: World) -> dict[str, tuple[str, str]]:
    status = world.get(*HPA, "h")["status"]
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(80, 4), (72, 4), (88, 4), (90, 5), (100, 5), (200, 8), (159, 8), (120, 6)],
)
def test_replicas_follow_the_ratio(world: World, percent: int, expected: int) -> None:
    """Four replicas, 80 percent wanted: within a tenth nothing changes, and no more than double at once."""
    scaled(world, 4, percent)
    assert replicas(world) == expected
    status = world.get(*HPA, "h")["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (4, expected)
    [metric] = status["currentMetrics"]
    assert metric["resource"]["current"] == {"averageUtilization": percent, "averageValue": f"{percent}m"}
    assert conditions(world)["ScalingActive"] == ("True", "ValidMetricFound")
    assert ("lastScaleTime" in status) == (expected != 4)


def test_scaling_down_waits_for_five_minutes(world: World) -> None:
    scaled(world, 4, 20)
    assert replicas(world) == 4
    assert conditions(world)["AbleToScale"] == ("True", "ScaleDownStabilized")
    assert replicas(world.forward(285)) == 4
    assert replicas(world.forward(30)) == 1


def test_scaling_goes_on_every_fifteen_seconds(world: World) -> None:
    scaled(world, 4, 200)
    assert replicas(world) == 8
    world.schedule()
    use(world, 200)
    assert replicas(world.forward(13)) == 8
    assert replicas(world.forward(1)) == 16
    assert replicas(world.forward(15)) == 20, "the eight that do not run count as using nothing: 100 percent of 80"
    world.schedule()
    use(world, 200)
    assert replicas(world.forward(15)) == 20
    assert conditions(world)["ScalingLimited"] == ("True", "TooManyReplicas")


def test_behavior_limits_the_change(world: World) -> None:
    up = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
    scaled(world, 4, 200, behavior={"scaleUp": up})
    assert replicas(world) == 5
    assert conditions(world)["ScalingLimited"] == ("True", "ScaleUpLimit")
    assert replicas(world.forward(45)) == 5
    assert replicas(world.forward(30)) == 6


def test_behavior_may_forbid_and_hurry(world: World) -> None:
    down = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 50, "periodSeconds": 15}]}
    scaled(world, 8, 10, behavior={"scaleDown": down})
    assert replicas(world) == 4
    scaled_down = world.get(*HPA, "h")
    scaled_down["spec"]["behavior"]["scaleDown"]["selectPolicy"] = "Disabled"
    world.patch(*HPA, "h", {"spec": scaled_down["spec"]})
    assert replicas(world.forward(60)) == 4


def test_average_value_and_containers(world: World) -> None:
    """A target for the average of a pod; of a container alone; the most that a metric asks for counts."""
    average = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "50m"}},
    }
    container = {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 400}}
    scaled(world, 4, 100, metrics=[average, {"type": "ContainerResource", "containerResource": container}])
    assert replicas(world) == 8


def test_bounds_and_a_target_that_is_off(world: World) -> None:
    scaled(world, 2, 80, minReplicas=3)
    assert replicas(world) == 3
    world.patch("apps/v1", "Deployment", "d", {"spec": {"replicas": 30}})
    assert replicas(world.forward(15)) == 20
    world.patch("apps/v1", "Deployment", "d", {"spec": {"replicas": 0}})
    assert replicas(world.forward(15)) == 0
    assert conditions(world)["ScalingActive"] == ("False", "ScalingDisabled")


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ({"type": "Pods", "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "1"}}},
         "FailedGetPodsMetric"),
        ({"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}},
         "FailedGetExternalMetric"),
        ({"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization",
                                                                       "averageUtilization": 50}}},
         "FailedGetResourceMetric"),
    ],
)  # fmt: skip
def test_metric_without_a_source_is_reported(world: World, metric: Json, reason: str) -> None:
    scaled(world, 4, 100, metrics=[metric])
    assert replicas(world) == 4
    assert conditions(world)["ScalingActive"] == ("False", reason)


def test_events_state_what_is_missing(world: World) -> None:
    """The texts of kube-controller-manager, of one metric and of all."""
    memory = {"type": "Resource", "resource": {"name": "memory", "target": {
        "type": "Utilization", "averageUtilization": 50}}}  # fmt: skip
    scaled(world, 4, 100, metrics=[memory])
    texts = {one["reason"]: one["message"] for one in world.all("v1", "Event") if one["type"] == "Warning"}
    pod = world.names()[0]
    text = f"failed to get memory utilization: missing request for memory in container c of Pod {pod}"
    assert texts["FailedGetResourceMetric"] == text
    assert texts["FailedComputeMetricsReplicas"] == (
        "invalid metrics (1 invalid out of 1), first error is: failed to get memory resource metric value: " + text
    )


def test_target_without_pods_has_no_metrics(world: World) -> None:
    world.create(owner("Deployment", "d", replicas=1))
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": reference, "maxReplicas": 20}
    world.create(quota(pods="0"))
    world.settle()
    for name in world.names():
        world.delete("v1", "Pod", name, grace=0)
    world.create({"apiVersion": HPA[0], "kind": HPA[1], "metadata": {"name": "h"}, "spec": spec})
    [active] = [one for one in world.settle().get(*HPA, "h")["status"]["conditions"] if one["type"] == "ScalingActive"]
    assert active["message"].endswith(
        "unable to get metrics for resource cpu: no metrics returned from resource metrics API"
    )


def quota(**hard: str) -> Json:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}


def test_missing_target_is_reported(world: World) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    spec = {"scaleTargetRef": reference, "maxReplicas": 2}
    world.create({"apiVersion": HPA[0], "kind": HPA[1], "metadata": {"name": "h"}, "spec": spec})
    assert conditions(world.settle()) == {"AbleToScale": ("False", "FailedGetScale")}


@pytest.mark.parametrize(
    ("selector", "message", "event"),
    [
        ("", "the HPA target's scale is missing a selector", "SelectorRequired"),
        ("a in b", "couldn't convert selector into a corresponding internal selector object: ", "InvalidSelector"),
    ],
)
def test_scale_without_a_usable_selector_is_not_changed(
    world: World, monkeypatch: pytest.MonkeyPatch, selector: str, message: str, event: str
) -> None:
    """horizontal.go, validateAndParseSelector: custom resources may have such a scale."""
    found = scale.scale_of

    def scale_of(*parts: Any) -> Json:
        made = found(*parts)
        return {**made, "status": {**made["status"], "selector": selector}}

    monkeypatch.setattr(autoscalers, "scale_of", scale_of)
    scaled(world, 4, 200)
    assert replicas(world) == 4
    active = world.condition(world.get(*HPA, "h"), "ScalingActive")
    assert (active["status"], active["reason"]) == ("False", "InvalidSelector")
    assert active["message"].startswith(message)
    assert event in {one["reason"] for one in world.all("v1", "Event")}
