"""Budgets without a controller: what one allows now, and what is left once pods have gone (whatif.md 4.4).

Numbers are those of the disruption controller and the eviction API: percentages round up, expected are all pods that
have not ended, healthy are those that run and are not said to be unready.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kube_rules import objects as o
from kube_rules.meta import ObjectMeta
from reprieve.simulation.controllers.disruption import allowances, allowed_now, followed, is_healthy, with_statuses
from tests.building import World
from tests.building import node as made_node
from tests.building import pod as made_pod

Json = dict[str, Any]


def budget(name: str = "b", status: Json | None = None, **spec: Any) -> o.PodDisruptionBudget:
    """A budget of the pods with `app: a`."""
    data: Json = {"metadata": {"name": name, "namespace": "default"}}
    data["spec"] = {"selector": {"matchLabels": {"app": "a"}}, **spec}
    return msgspec.convert({**data, **({"status": status} if status else {})}, o.PodDisruptionBudget)


SET: Json = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s", "controller": True}]}


def pod(name: str, on: str = "n1", phase: str = "Running", ready: str = "", **meta: Any) -> o.Pod:
    """A pod of a ReplicaSet, unless `meta` has other owners."""
    meta = {**SET, **meta}
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    data: Json = {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "a"}, **meta},
        "spec": {"nodeName": on, "containers": []},
        "status": {"phase": phase, "conditions": conditions},
    }
    return msgspec.convert(data, o.Pod)


def owned(item: o.Pod | tuple[o.Pod, float]) -> o.Pod:
    """The pod of a ReplicaSet."""
    pod = item if isinstance(item, o.Pod) else item[0]
    owner = o.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="s", controller=True)
    return replace(pod, metadata=replace(pod.metadata, owner_references=(owner,)))


def refused(budgets: list[o.PodDisruptionBudget], pods: list[o.Pod]) -> list[str]:
    """Names of the pods, each with the budgets in its way, evicted one after the other."""
    over = allowed_now(budgets, pods)
    return [f"{pod.name}: {' '.join(found)}" for pod in pods if (found := over(pod))]


@pytest.mark.parametrize(
    ("spec", "pods", "allowed"),
    [
        ({"minAvailable": 0}, 4, 4),
        ({"minAvailable": 3}, 4, 1),
        ({"minAvailable": 4}, 4, 0),
        ({"minAvailable": 9}, 4, 0),
        ({"minAvailable": "50%"}, 4, 2),
        ({"minAvailable": "50%"}, 5, 2),  # 2.5 are three
        ({"minAvailable": "1%"}, 4, 3),
        ({"minAvailable": "100%"}, 4, 0),
        ({"maxUnavailable": 0}, 4, 0),
        ({"maxUnavailable": 1}, 4, 1),
        ({"maxUnavailable": 9}, 4, 4),
        ({"maxUnavailable": "50%"}, 5, 3),  # 2.5 are three
        ({"maxUnavailable": "0%"}, 5, 0),
        ({}, 4, 0),  # without a bound it expects no pods
    ],
)
def test_how_many_a_budget_lets_go(spec: Json, pods: int, allowed: int) -> None:
    names = [f"p{number}" for number in range(pods)]
    assert refused([budget(**spec)], [pod(name) for name in names]) == [
        f"{name}: default/b" for name in names[allowed:]
    ]


@pytest.mark.parametrize(
    ("other", "expected", "healthy"),
    [
        (pod("x"), True, True),
        (pod("x", ready="True"), True, True),
        (pod("x", ready="False"), True, False),
        (pod("x", ready="Unknown"), True, False),
        (pod("x", on="", phase="Pending"), True, False),
        (pod("x", phase="Pending"), True, True),  # on a node, and nothing says that it is not ready
        (pod("x", phase="Succeeded"), False, False),
        (pod("x", phase="Failed"), False, False),
        (pod("x", deletionTimestamp="2026-01-01T00:00:00Z"), True, False),
        (pod("x", namespace="other"), False, False),
        (pod("x", labels={"app": "b"}), False, False),
    ],
)
def test_which_pods_are_expected_and_which_are_healthy(other: o.Pod, expected: bool, healthy: bool) -> None:
    """Of two healthy pods and another: at most one away, and at least one there."""
    there = [pod("p"), pod("q"), other]
    assert is_healthy(other) == (healthy or other.namespace == "other" or other.metadata.labels == {"app": "b"})
    at_most_one_away = allowed_now([budget(maxUnavailable=1)], there)
    allowed = 1 - (expected and not healthy)
    assert [not at_most_one_away(one) for one in there[:2]] == [turn < allowed for turn in range(2)]
    one_stays = allowed_now([budget(minAvailable=1)], there)
    assert [not one_stays(one) for one in there[:2]] == [turn < 1 + healthy for turn in range(2)]


def test_pod_that_no_budget_selects_may_be_evicted() -> None:
    budgets = [budget(maxUnavailable=0)]
    strangers = [pod("x", namespace="other"), pod("y", labels={"app": "b"})]
    assert refused(budgets, strangers) == []


def test_pod_of_several_budgets_cannot_be_evicted_and_names_all() -> None:
    """As the eviction API refuses it, however much each allows."""
    budgets = [budget("b", minAvailable=0), budget("c", minAvailable=0)]
    assert refused(budgets, [pod("p")]) == ["p: default/b default/c"]


@pytest.mark.parametrize(
    ("policy", "status", "phase", "goes"),
    [
        ("AlwaysAllow", {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 3}, "Running", True),
        ("IfHealthyBudget", {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3}, "Running", True),
        ("IfHealthyBudget", {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 3}, "Running", False),
        ("IfHealthyBudget", {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0}, "Running", False),
        (None, {"disruptionsAllowed": 0, "currentHealthy": 4, "desiredHealthy": 3}, "Running", True),
        (None, {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 3}, "Pending", True),
    ],
)
def test_pods_that_are_not_ready_go_as_the_policy_says(
    policy: str | None, status: Json, phase: str, goes: bool
) -> None:
    """KEP-3017; one that has not started is not asked about."""
    spec: Json = {"minAvailable": 3, **({"unhealthyPodEvictionPolicy": policy} if policy else {})}
    over = allowed_now([budget(status=status, **spec)], [])
    assert over(pod("p", phase=phase, ready="False")) == (() if goes else ("default/b",))


def test_eviction_of_an_unready_pod_takes_nothing_of_the_budget() -> None:
    status = {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 4}
    over = allowed_now([budget(status=status, minAvailable=2)], [])
    asked = [pod("a", ready="False"), pod("b"), pod("c")]
    assert [over(one) for one in asked] == [(), (), ("default/b",)]


@pytest.mark.parametrize(
    ("allowed", "current", "desired", "gone", "come", "after"),
    [
        (2, 5, 3, 1, 0, (1, 4)),
        (2, 5, 3, 3, 0, (0, 2)),
        (1, 4, 3, 0, 2, (3, 6)),
        (0, 3, 3, 0, 1, (1, 4)),
        (0, 1, 3, 0, 1, (0, 2)),  # two are lacking: one more allows nothing yet
        (0, 1, 3, 0, 3, (1, 4)),
        (0, 1, 3, 2, 0, (0, 0)),
        (1, 4, 3, 0, 0, (1, 4)),
    ],
)
def test_budget_follows_the_pods_that_go_and_come(
    allowed: int, current: int, desired: int, gone: int, come: int, after: tuple[int, int]
) -> None:
    status = {"disruptionsAllowed": allowed, "currentHealthy": current, "desiredHealthy": desired}
    strangers = [pod("x", namespace="other"), pod("y", labels={"app": "b"})]
    [found] = followed(
        [budget(status=status, minAvailable=3)],
        [*(pod(f"g{number}") for number in range(gone)), *strangers],
        [pod(f"c{number}") for number in range(come)],
    )
    assert found.status is not None
    assert (found.status.disruptions_allowed, found.status.current_healthy) == after


def test_budget_without_a_status_stays_without() -> None:
    """Its readers count by themselves."""
    assert followed([budget(minAvailable=1)], [pod("p")]) == [budget(minAvailable=1)]


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        # (allowed, healthy, desired, expected): four are expected, two of them are healthy
        ({"minAvailable": 0}, (2, 2, 0, 4)),
        ({"minAvailable": 1}, (1, 2, 1, 4)),
        ({"minAvailable": 2}, (0, 2, 2, 4)),
        ({"minAvailable": 9}, (0, 2, 9, 4)),
        ({"minAvailable": "26%"}, (0, 2, 2, 4)),
        ({"minAvailable": "25%"}, (1, 2, 1, 4)),
        ({"maxUnavailable": 2}, (0, 2, 2, 4)),
        ({"maxUnavailable": 3}, (1, 2, 1, 4)),
        ({"maxUnavailable": 4}, (2, 2, 0, 4)),
        ({"maxUnavailable": 9}, (2, 2, 0, 4)),
        ({"maxUnavailable": "51%"}, (1, 2, 1, 4)),
        ({}, (0, 2, 0, 0)),
    ],
)
def test_status_that_the_controller_would_write(spec: Json, status: tuple[int, int, int, int]) -> None:
    """Of a plan's cluster: expected are all that match, healthy those on a node that are not terminating."""
    labels = {"app": "a"}
    world = World(
        made_node("n1", cpu=8),
        *(owned(made_pod(name, cpu=1, node="n1", labels=labels)) for name in ("runs", "first", "leaves")),
        owned(made_pod("waits", cpu=1, labels=labels)),
        made_pod("stranger", cpu=1, node="n1", labels={"app": "b"}),
    )
    world.engine.mark_terminating(
        next(pod.uid for pod in world.engine.cluster.pods.values() if pod.name == "leaves"), 0
    )
    budgets = [budget("other", maxUnavailable=0, selector={"matchLabels": {"app": "c"}}), budget(**spec)]
    empty, found = with_statuses(budgets, world.engine.cluster.pods.values())
    assert empty.status is not None
    assert empty.status.expected_pods == 0
    got = found.status
    assert got is not None
    assert (got.disruptions_allowed, got.current_healthy, got.desired_healthy, got.expected_pods) == status


def test_budget_of_another_namespace_counts_no_pods_here() -> None:
    world = World(made_node("n1"), made_pod("a", cpu=1, node="n1", labels={"app": "a"}))
    there = msgspec.structs.replace(budget(minAvailable=0), metadata=ObjectMeta(name="b", namespace="other"))
    [found] = with_statuses([there], world.engine.cluster.pods.values())
    assert found.status is not None
    assert (found.status.expected_pods, found.status.current_healthy) == (0, 0)


@pytest.mark.parametrize(
    ("owner", "spec", "allowed"),
    [
        ("", {"minAvailable": 1}, 2),
        ("", {"minAvailable": "10%"}, 0),
        ("", {"maxUnavailable": 2}, 0),
        ("Job", {"minAvailable": 1}, 2),
        ("Job", {"minAvailable": "10%"}, 0),
        ("Job", {"maxUnavailable": 2}, 0),
        ("StatefulSet", {"minAvailable": "10%"}, 2),
        ("StatefulSet", {"maxUnavailable": 2}, 2),
    ],
)
def test_share_needs_controllers_with_a_scale(owner: str, spec: Json, allowed: int) -> None:
    """whatif.md 14.8: as the disruption controller counts, which reads the scale of controllers for such a bound."""
    references = [{"apiVersion": "apps/v1", "kind": owner, "name": "s", "controller": True}] if owner else []
    pods = [pod(name, ownerReferences=references) for name in ("a", "b", "c")]
    assert allowances([budget(**spec)], pods) == [allowed]
    world = World(made_node("n1", cpu=8), *(replace(one, spec=replace(one.spec, node_name="n1")) for one in pods))
    (found,) = with_statuses([budget(**spec)], world.engine.cluster.pods.values())
    assert found.status is not None
    assert found.status.disruptions_allowed == allowed
