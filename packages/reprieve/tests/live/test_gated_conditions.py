"""Conditions of pods and groups behind a gate."""

from __future__ import annotations

import pytest

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import PreEnqueuePlugin
from reprieve.framework.profile import Profile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.profiles import default_profile
from tests.live.scene import Scene, run
from tests.live.test_conditions import Json, stating

GONE = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
FEW = "waiting for minCount pods from a gang to appear in scheduling queue"


@pytest.mark.parametrize(
    ("exists", "spec", "message"),
    [
        (False, {"group": "g"}, GONE),
        (True, {"group": "g"}, FEW),
        (True, {"schedulingGates": [{"name": "later"}]}, None),
        (True, {"group": "g", "schedulingGates": [{"name": "later"}]}, None),
    ],
)
def test_gated_pods_are_reported_after_a_while(exists: bool, spec: Json, message: str | None) -> None:
    """observability.md 1.4 "Gated pods"; scheduling gates are the API server's to say; five seconds as in KEP-5501.

    provisioning.md 4.1: no reason is Unschedulable, for which an autoscaler makes nodes.
    """

    async def test(scene: Scene) -> None:
        if exists:
            scene.group(count=3)
        scene.pod(**spec)
        scene.clock.advance(4.9)
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        assert scene.writes.pods == []
        scene.clock.advance(0.2)
        for _ in range(2):
            scene.conditions.waiting(scene.engine, scene.now)
            await scene.conditions.drain()
        found = [patch["conditions"][0] for _, patch in scene.writes.pods]
        assert [(c["status"], c["reason"], c["message"]) for c in found] == (
            [] if message is None else [("False", "NotReadyForScheduling", message)]
        )

    run(test)


def test_group_below_min_count_has_its_condition_at_once() -> None:
    """observability.md 1.5: its condition comes from the start, and once; its pods wait five seconds to say so."""

    async def test(scene: Scene) -> None:
        scene.group(count=3)
        scene.pod("a", group="g")
        for _ in range(2):
            scene.conditions.waiting(scene.engine, scene.now)
            await scene.conditions.drain()
        found = [(c["type"], c["status"], c["reason"], c["message"]) for _, c, _ in scene.writes.groups]
        assert found == [("PodGroupInitiallyScheduled", "False", "Unschedulable", FEW)]
        assert scene.writes.pods == []

    run(test)


def test_group_behind_a_gate_does_not_keep_the_message_of_an_earlier_attempt() -> None:
    """A preemption is over and a member has gone: the group waits for members, not for the preemption any more."""

    async def test(scene: Scene) -> None:
        scene.group(count=3)
        scene.pod("a", group="g")
        scene.clock.advance(6)
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        assert [(c["status"], c["message"]) for _, c, _ in scene.writes.groups] == [("False", FEW)]
        scene.conditions.group(stating(False, message="pod group is waiting for podgroup preemption to complete"))
        for _ in range(2):
            scene.conditions.waiting(scene.engine, scene.now)
            await scene.conditions.drain()
        assert [(c["status"], c["message"]) for _, c, _ in scene.writes.groups][-1] == ("False", FEW)
        assert len(scene.writes.groups) <= 3

    run(test)


def test_message_of_a_gate_follows_the_reason() -> None:
    """First no object, then too few members, then enough: nothing more to say."""

    async def test(scene: Scene) -> None:
        scene.pod("a", group="g")
        for step in (lambda: scene.group(count=2), lambda: scene.pod("b", group="g"), lambda: None):
            scene.clock.advance(6)
            scene.conditions.waiting(scene.engine, scene.now)
            await scene.conditions.drain()
            step()
        assert [patch["conditions"][0]["message"] for _, patch in scene.writes.pods] == [GONE, FEW]

    run(test)


class Held(PreEnqueuePlugin):
    """Keeps back pods with `held` in their name."""

    name = "Held"

    def pre_enqueue(self, _cluster: ClusterState, pod: PodRecord) -> Status:
        return Status(Code.UNSCHEDULABLE, f"{pod.name} is not ready", "Held") if "held" in pod.name else SUCCESS


def test_pod_that_a_plugin_gates_reports_why_and_no_other_pod_does() -> None:
    """KEP-5501: members that could go say what their group waits for; about gates the API server has spoken."""
    base = default_profile(FeatureGates())
    profile = Profile(base.name, [Held(), *base.plugins], base.score_weights)

    async def test(scene: Scene) -> None:
        scene.group(count=3)
        scene.pod("a", group="g")
        scene.pod("held", group="g")
        scene.pod("gated", group="g", schedulingGates=[{"name": "later"}])
        scene.pod("held-alone")
        for _ in range(2):
            scene.clock.advance(6)
            scene.conditions.waiting(scene.engine, scene.now)
            await scene.conditions.drain()
        found = {uid: patch["conditions"][0] for uid, patch in scene.writes.pods}
        assert len(scene.writes.pods) == 3
        assert {uid: (c["reason"], c["message"]) for uid, c in found.items()} == {
            "uid-a": ("NotReadyForScheduling", "held is not ready"),
            "uid-held": ("NotReadyForScheduling", "held is not ready"),
            "uid-held-alone": ("NotReadyForScheduling", "held-alone is not ready"),
        }

    run(test, Engine(EngineOptions({profile.name: profile}, validate=True)))


def test_every_gated_pod_is_reported_whichever_others_wait() -> None:
    """KEP-5501: pods that may be tried, before and after it, and a group that is kept back for a moment only."""

    async def test(scene: Scene) -> None:
        scene.group(count=1)
        scene.pod("young", group="g")
        for name in ("one", "two"):
            scene.pod(f"ready-{name}")
            scene.pod(f"kept-{name}", group=f"nowhere-{name}")
        scene.clock.advance(6)
        scene.group(count=3, generation=2)
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        assert {uid for uid, _ in scene.writes.pods} == {"uid-kept-one", "uid-kept-two"}
        assert [uid for uid, _, _ in scene.writes.groups] == ["uid-g"]

    run(test)
