"""Objects with numbers and times at the edge of what the API takes: no controller raises for them (api.md 5.7)."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from kube_standin.clock import later, stamp
from kube_standin.deletion import DeleteOptions
from tests.admission.plane import pod
from tests.controllers.world import Json, World, job, owner, template

MOST, INT32 = 2**63 - 1, 2**31 - 1
FIRST, LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "moment"),
    [
        (1, "2026-01-01T00:00:01Z"),
        (-1, "2025-12-31T23:59:59Z"),
        (10**10, "2342-11-21T17:46:40Z"),
        (10**12, LAST),
        (MOST, LAST),
        (1e300, LAST),
        (-(10**12), FIRST),
        (-MOST, FIRST),
    ],
)
def test_moment_is_one_that_can_be_written(seconds: float, moment: str) -> None:
    assert stamp(later(NOW, seconds)) == moment


STRATEGIES = [
    {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    for surge in ("100%", "99%", INT32, 0)
    for unavailable in ("100%", INT32, 0)
    if surge or unavailable
]
ODD: list[tuple[str, Json]] = [
    *[
        (f"job {seconds}", job(activeDeadlineSeconds=seconds, backoffLimit=INT32))
        for seconds in (2**31, 10**11, 10**12, 2**62, MOST)
    ],
    ("job done at once", job(completions=0, ttlSecondsAfterFinished=INT32)),
    ("job of many", job(completions=INT32, parallelism=0, completionMode="Indexed")),
    *[(f"deployment {number}", owner("Deployment", replicas=2, strategy=one)) for number, one in enumerate(STRATEGIES)],
    ("paused", owner("Deployment", replicas=2, paused=True)),
    ("paused at zero", owner("Deployment", replicas=0, paused=True)),
    ("recreate, paused", owner("Deployment", replicas=1, paused=True, strategy={"type": "Recreate"})),
    ("deployment in time", owner("Deployment", replicas=1, minReadySeconds=INT32 - 1, progressDeadlineSeconds=INT32)),
    ("replica set", owner("ReplicaSet", replicas=1, minReadySeconds=INT32)),
    ("stateful set", owner("StatefulSet", replicas=2, serviceName="s", ordinals={"start": INT32}, minReadySeconds=INT32,
                           updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": INT32}})),
    ("daemon set", owner("DaemonSet", minReadySeconds=INT32,
                         updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": INT32}})),
    ("pod", pod("p", terminationGracePeriodSeconds=MOST, activeDeadlineSeconds=INT32, nodeName="node-1")),
    ("tolerant", pod("p", nodeName="node-1", tolerations=[
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": MOST}])),
]  # fmt: skip
STATUSES: list[Json] = [
    {},
    *[{"startTime": when} for when in (FIRST, LAST)],
    *[
        {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": when, "lastUpdateTime": when}]}
        for kind in ("Ready", "Progressing", "Complete")
        for when in (FIRST, LAST)
    ],
]


@pytest.mark.parametrize(("name", "obj"), ODD, ids=[name for name, _ in ODD])
def test_no_controller_raises(name: str, obj: Json, caplog: pytest.LogCaptureFixture) -> None:
    """It settles as it comes, with a status of any time, and when it is deleted."""
    world = World(None, nodes=1)
    world.patch("v1", "Node", "node-1", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}})
    caplog.clear()
    api_version, kind, own = obj["apiVersion"], obj["kind"], obj["metadata"]["name"]
    world.create(obj)
    world.settle()
    world.forward(1)
    for status in STATUSES:
        if world.has(api_version, kind, own):
            _status(world, api_version, kind, own, status)
    for made in world.pods():
        row = world.registry.kind("v1", "Pod")
        world.registry.deletion.delete(row, "default", made["metadata"]["name"], DeleteOptions(grace=MOST))
    world.settle()
    if world.has(api_version, kind, own):
        world.delete(api_version, kind, own)
    world.settle()
    world.forward(100)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def _status(world: World, api_version: str, kind: str, name: str, status: Json) -> None:
    """Write a status without validation: a later version of the rules may allow it."""
    row = world.registry.kind(api_version, kind)
    state = world.registry.head(row, "default", name)
    assert state is not None
    body: dict[str, Any] = state.decode()
    body["status"] = {**(body.get("status") or {}), **status}
    world.controllers.context.put(state, body)
    world.settle()


def test_deployment_that_loses_its_sets_while_it_is_paused_makes_them_again_when_it_goes_on() -> None:
    world = World(("deployment", "replicaset"))
    world.create(owner("Deployment", replicas=2, paused=True))
    world.settle()
    assert world.all("apps/v1", "ReplicaSet") == []
    world.patch("apps/v1", "Deployment", "a", {"spec": {"paused": False}})
    world.settle()
    assert len(world.pods()) == 2
    assert template()["spec"]["containers"]
