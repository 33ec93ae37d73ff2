"""The cluster as a plan leaves it, object by object (`simulation/final_state.py`)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kube_rules import objects
from kube_rules.manifests import Manifests
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.engine import Engine
from reprieve.simulation.final_state import afterwards
from reprieve.simulation.plan import PlanOptions, plan
from tests.manifests import pod
from tests.questions.test_draining import CLAIM, DEVICE, LOCAL, budget
from tests.questions.test_suggestions import gang, loaded, node
from tests.simulation.test_losses import gone, scenario

Json = dict[str, Any]
AT = 2_000_000_000.0


class Kept:
    """Keeps the engine of a plan."""

    engine: Engine

    def attach(self, engine: Engine) -> None:
        self.engine = engine

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Nothing of it is looked at."""


def left(*documents: Json, first_decision: bool = False) -> Manifests:
    """What a plan of these leaves, at the end or at its first decision."""
    given, kept = loaded(*documents), Kept()
    answer = plan(given, PlanOptions(observer=kept, first_decision=first_decision))
    before = [(one.object, one.order) for one in given.all()]
    leaving = {f"{v.namespace}/{v.name}" for made in answer.plan.preemptions for v in made.victims}
    found = afterwards(given, kept.engine, AT, leaving if first_decision else frozenset())
    assert [(one.object, one.order) for one in given.all()] == before, "the input is not changed"
    return found


def pods(found: Manifests) -> dict[str, str]:
    """Name -> phase and node, or where it is nominated."""
    each = (one.object for one in found.pods)
    return {
        one.name: " ".join(filter(None, (one.status.phase, one.spec.node_name, one.status.nominated_node_name)))
        for one in each
    }


def test_placed_pods_run_and_evicted_pods_are_gone() -> None:
    found = left(node("n1"), pod("low", 8, node="n1"), pod("high", 8, priority=9), pod("big", 9))
    assert pods(found) == {"high": "Running n1", "big": "Pending"}
    [high] = [one.object for one in found.pods if one.object.name == "high"]
    assert high.status.start_time is not None
    assert high.status.conditions == ()
    assert high.metadata.deletion_timestamp is None


def test_victims_terminate_and_the_nomination_is_carried_at_the_first_decision() -> None:
    found = left(node("n1"), pod("low", 8, node="n1"), pod("high", 8, priority=9), first_decision=True)
    assert pods(found) == {"low": "Pending n1", "high": "Pending n1"}
    by_name = {one.object.name: one.object for one in found.pods}
    assert by_name["low"].metadata.deletion_timestamp == datetime.fromtimestamp(AT, UTC)
    assert by_name["high"].metadata.deletion_timestamp is None
    assert (by_name["high"].spec.node_name, by_name["high"].status.nominated_node_name) == ("", "n1")


def test_terminating_pod_keeps_its_time() -> None:
    old = pod("old", 1, node="n1")
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    [found] = left(node("n1"), old).pods
    assert found.object.metadata.deletion_timestamp == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_stays_as_it_was(phase: str) -> None:
    done = {**pod("done", 1, node="n1"), "status": {"phase": phase}}
    given = loaded(node("n1"), done)
    [found] = left(node("n1"), done).pods
    assert found.object == given.pods[0].object


def test_node_that_was_deleted_is_gone_with_its_pods() -> None:
    steps = scenario(gone("Node", "n1"))
    found = left(node("n1"), node("n2"), pod("a", 1, node="n1"), pod("b", 1, node="n2"), steps)
    assert [one.object.name for one in found.nodes] == ["n2"]
    assert list(pods(found)) == ["b"]


def test_steps_create_and_delete() -> None:
    """In the order in which it came, after all that was there; it was made when the plan ended."""
    first = {"create": [gang("new", 1), pod("new-0", 1, group="new"), pod("later", 1)], "wait": "settled"}
    second = {"create": [gang("brief", 1)], "delete": [{"kind": "PodGroup", "name": "old"}]}
    third = gone("PodGroup", "brief")
    found = left(node("n1"), gang("old", 1), budget(), pod("there", 1), scenario(first, second, third))
    assert sorted(one.object.name for one in found.pod_groups) == ["new"]
    assert [one.object.name for one in found.all()] == ["n1", "web", "there", "new", "new-0", "later"]
    orders = [one.order for one in found.all()]
    assert orders == sorted(set(orders))
    made = {one.object.name: one.created for one in found.all()}
    assert made["new"] == AT
    assert made["there"] < AT
    assert not found.scenarios


@pytest.mark.parametrize("pod_deleted", [False, True])
def test_budget_counts_anew_where_a_pod_was_deleted(pod_deleted: bool) -> None:
    steps = [scenario(gone("Pod", "other"))] if pod_deleted else []
    found = left(node("n1"), budget(1, 3, maxUnavailable=1), pod("other", 1, node="n1"), pod("new", 1), *steps)
    [kept] = found.of(objects.PodDisruptionBudget)
    assert (kept.object.status is None) is pod_deleted


def test_volumes_and_claims_are_as_the_plan_wrote_them() -> None:
    storage, disk, claim = LOCAL
    unbound = {**claim, "metadata": {"name": "data-db-0", "namespace": "default"}}
    unbound = {**unbound, "spec": {key: value for key, value in claim["spec"].items() if key != "volumeName"}}
    unbound["status"] = {"phase": "Pending"}
    free = {**disk, "spec": {key: value for key, value in disk["spec"].items() if key != "claimRef"}}
    free["status"] = {"phase": "Available"}
    labelled = node("n1", labels={"kubernetes.io/hostname": "n1"})
    found = left(labelled, storage, free, unbound, pod("db-0", 1, volumes=CLAIM))
    assert pods(found) == {"db-0": "Running n1"}
    [bound] = found.of(objects.PersistentVolumeClaim)
    [volume] = found.of(objects.PersistentVolume)
    assert bound.object.spec.volume_name == "disk"
    assert volume.object.spec.claim_ref is not None
    assert volume.object.spec.claim_ref.name == "data-db-0"


def test_cluster_after_a_plan_can_be_planned_again_to_the_same_end() -> None:
    workers = [gang("g", 2, 5), *(pod(f"g-{i}", 8, group="g", priority=5) for i in range(2))]
    given = [node("n1"), node("n2"), pod("low", 8, node="n1"), *workers, pod("waits", 9)]
    once = left(*given)
    kept = Kept()
    again = plan(once, PlanOptions(observer=kept)).plan
    assert not again.preemptions
    assert [(one.name, one.outcome) for one in again.pods] == [("waits", "Unschedulable")]
    assert pods(afterwards(once, kept.engine, AT)) == pods(once)


def test_claims_that_a_plan_made_are_there_behind_all_that_was() -> None:
    """Of the template that a pod names: its status names the claim, which was made when the plan ended."""
    users = [pod(name, 1, resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}]) for name in ("a", "b")]
    given = loaded(node("n1"), DEVICE, *users)
    found = left(node("n1"), DEVICE, *users)
    claims = found.of(objects.ResourceClaim)
    assert len({one.object.name for one in claims}) == 2
    named = {each.resource_claim_name for one in found.pods for each in one.object.status.resource_claim_statuses}
    assert named == {one.object.name for one in claims}
    assert [(one.created, str(one.origin)) for one in claims] == [(AT, "<plan>")] * 2
    before = max(one.order for one in given.all())
    assert sorted(one.order for one in claims) == [before + 1, before + 2]
