"""ProvisioningRequests for gangs that nothing can place (docs/rules/provisioning.md)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.client.discovery import Resource, ServedResources
from reprieve.client.errors import ApiError
from reprieve.decisions.requested_nodes import STATE
from reprieve.framework.configuration import ConfigurationError
from reprieve.live.node_request_states import backoff, state_of
from reprieve.live.node_requests import CONSUME, FOR, TURN, NodeRequests, template_of
from reprieve.plugins.gang_scheduling import ALWAYS, ANNOTATED, BEST_EFFORT_ATOMIC, GangScheduling, ProvisioningOptions
from tests.building import START, World, gang, node, pod, profile_with
from tests.scheduling.configuration_text import profiles

Json = dict[str, Any]
REQUESTS = Resource("autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", True)
GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", True)
PATH = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"


class Api:
    """A client with objects by path; `sent` has what changed something, in order."""

    def __init__(self, *stored: Json) -> None:
        self.stored = {f"{PATH}/{item['metadata']['name']}": item for item in stored}
        self.sent: list[tuple[str, str]] = []
        self.bodies: dict[str, Json] = {}
        self.refuses: ApiError | None = None

    async def get(self, path: str, query: object = ()) -> Any:
        if "/pods/" in path:
            found: Json = {"metadata": {"labels": {"app": "x"}}, "spec": SPEC}
        else:
            made = [item for where, item in self.bodies.items() if where.startswith(PATH)]
            found = {"items": [*self.stored.values(), *made]}
        return Answer(found)

    async def request(self, method: str, path: str, *, body: bytes = b"", **_how: object) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.sent.append((method, path))
        if method == "POST":
            item = msgspec.json.decode(body)
            where = f"{path}/{item['metadata']['name']}"
            if where in self.bodies:
                raise ApiError(409, "AlreadyExists", "it is there")
            self.bodies[where] = item
        elif method == "DELETE":
            if path not in self.bodies and path not in self.stored:
                raise ApiError(404, "NotFound", "it is gone")
            self.bodies.pop(path, None)
            self.stored.pop(path, None)
        else:
            self.bodies[path] = msgspec.json.decode(body)


class Answer:
    def __init__(self, found: Json) -> None:
        self._found = found

    def read(self, _type: object) -> Json:
        return self._found


class Pool:
    """Carries out a write at once."""

    guard = None

    def submit(self, _key: str, act: Callable[[], Awaitable[None]]) -> asyncio.Future[None]:
        result: asyncio.Future[None] = asyncio.get_event_loop().create_future()
        try:
            result.get_loop().run_until_complete(act())
            result.set_result(None)
        except ApiError as error:
            result.set_exception(error)
        return result


SPEC: Json = {
    "nodeName": "",
    "containers": [{"name": "c", "image": "i", "command": ["sleep"], "resources": {"requests": {"cpu": "4"}}}],
    "volumes": [{"name": "token", "projected": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "d"}}],
    "tolerations": [{"key": "gpu"}],
    "schedulingGroup": {"podGroupName": "g"},
}


class Stage:
    """A world with the requests of its gangs."""

    def __init__(self, *items: Any, mode: str = ALWAYS, after: float = 5.0, api: Api | None = None) -> None:
        self.api = api or Api()
        self.said: list[str] = []
        profile = profile_with(GangScheduling(provisioning=ProvisioningOptions(mode, after)))
        self.world = World(*items, profiles={profile.name: profile})
        self.provisioning = NodeRequests(
            self.world.engine,
            self.api,  # type: ignore[arg-type]
            ServedResources([REQUESTS, GROUPS]),
            Pool(),  # type: ignore[arg-type]
            note=self.said.append,
            trouble=self.said.append,
        )
        self._seen = 0

    def at(self, seconds: float) -> Stage:
        """Let the gangs be tried, and what is due be done at that time."""
        self.world.drain().virtual.until(START + seconds)
        for decision in self.world.engine.decisions[self._seen :]:
            self.provisioning.decided(decision, START)
        self._seen = len(self.world.engine.decisions)
        self.provisioning.tick(START + seconds)
        asyncio.get_event_loop().run_until_complete(asyncio.sleep(0))
        return self

    def requests(self) -> list[Json]:
        return [item for path, item in self.api.bodies.items() if path.startswith(PATH)]


@pytest.fixture(autouse=True)
def loop() -> Any:
    """A loop that the pool runs writes on."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    asyncio.set_event_loop(None)
    made.close()


def large(minimum: int = 2) -> list[Any]:
    return [*gang("g", minimum, cpu=8)]


def test_gang_that_nothing_can_place_gets_a_request() -> None:
    """provisioning.md 2.1, 2.2: after the time, once, with a template for each kind of pod and the gang as owner."""
    stage = Stage(node("n1", cpu=4), large()).at(4)
    assert stage.requests() == []
    stage.at(6).at(7).at(100)
    (made,) = stage.requests()
    assert made["spec"] == {
        "provisioningClassName": BEST_EFFORT_ATOMIC,
        "podSets": [{"podTemplateRef": {"name": f"{made['metadata']['name']}-0"}, "count": 2}],
    }
    assert made["metadata"]["annotations"] == {FOR: "group/default/g"}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("PodGroup", "g")
    template = stage.api.bodies[f"{TEMPLATES}/{made['metadata']['name']}-0"]
    assert template["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "4"}}
    patched = [body for path, body in stage.api.bodies.items() if "/pods/" in path]
    assert [body["metadata"]["annotations"][CONSUME] for body in patched] == [made["metadata"]["name"]] * 2


def test_pods_of_a_gang_that_fails_are_unschedulable_and_those_of_a_gated_one_are_not_tried() -> None:
    """provisioning.md 4.1."""
    world = Stage(node("n1", cpu=4), large()).at(1).world
    rejections = [rejection for decision in world.engine.decisions for rejection in decision.rejections]
    assert {(rejection.pod.name, rejection.reason) for rejection in rejections} == {
        ("g-0", "Unschedulable"),
        ("g-1", "Unschedulable"),
    }
    gated = Stage(node("n1", cpu=4), large()[:-1]).at(1).world
    assert not gated.engine.decisions


def test_request_is_deleted_when_the_gang_is_placed() -> None:
    """provisioning.md 3.1: with its templates. provisioning.md 5.5: a node is added, and the gang is tried again."""
    stage = Stage(node("n1", cpu=4), large()).at(6)
    assert len(stage.requests()) == 1
    stage.world.add(node("n2", cpu=32))
    stage.at(20)
    assert (stage.requests(), [path for path in stage.api.bodies if path.startswith(TEMPLATES)]) == ([], [])


def test_request_is_deleted_when_the_gang_is_gone() -> None:
    """provisioning.md 3.1."""
    stage = Stage(node("n1", cpu=4), large()).at(6)
    for name in [record.name for record in stage.world.engine.cluster.pods.values()]:
        stage.world.gone(name)
    stage.at(8)
    assert stage.requests() == []


def test_no_nodes_are_requested_for_a_gang_that_preempts() -> None:
    """provisioning.md 2.1: nor for single pods."""
    stage = Stage(node("n1", cpu=16), pod("low", cpu=16, node="n1", priority=-5), large(), pod("huge", cpu=99)).at(60)
    assert stage.api.sent == []


@pytest.mark.parametrize(
    ("mode", "annotation", "wanted"),
    [(ANNOTATED, "true", True), (ANNOTATED, "", False), (ALWAYS, "", True), (ALWAYS, "false", False)],
)
def test_gangs_ask_or_decline_by_annotation(mode: str, annotation: str, wanted: bool) -> None:
    """provisioning.md 1.2."""
    stage = Stage(node("n1", cpu=4), large(), mode=mode)
    group = objects.PodGroup(metadata=objects.ObjectMeta(name="g", namespace="default"))
    if annotation:
        annotations = {"scheduling.reprieve.dev/provisioning-request": annotation}
        group = replace(group, metadata=replace(group.metadata, annotations=annotations))
    stage.provisioning.group_changed(group, deleted=False)
    assert bool(stage.at(6).requests()) is wanted


def test_requests_are_off_by_default() -> None:
    """provisioning.md 1.1."""
    stage = Stage(node("n1", cpu=4), large(), mode=ProvisioningOptions().mode).at(100)
    assert (stage.provisioning.on, stage.api.sent) == (False, [])


def test_restarted_scheduler_finds_its_requests() -> None:
    """provisioning.md 3.2: what no gang waits for is deleted, the other stays and is not made twice."""

    def stored(name: str, ref: str) -> Json:
        sets = [{"podTemplateRef": {"name": f"{name}-0"}, "count": 2}]
        meta = {"name": name, "namespace": "default", "annotations": {FOR: ref}}
        return {"metadata": meta, "spec": {"podSets": sets}}

    api = Api(stored("old", "group/default/gone"), stored("mine", "group/default/g"))
    Stage(node("n1", cpu=4), large(), api=api).at(0).at(6)
    assert list(api.stored) == [f"{PATH}/mine"]
    assert [path for method, path in api.sent if method == "POST"] == []


def test_refusal_is_reported_and_tried_again() -> None:
    """provisioning.md 2.4."""
    api = Api()
    api.refuses = ApiError(403, "Forbidden", "no right")
    stage = Stage(node("n1", cpu=4), large(), api=api).at(6)
    assert any("no right" in text for text in stage.said)
    api.refuses = None
    assert stage.at(20).requests() == []
    assert len(stage.at(70).requests()) == 1


def reports(stage: Stage, *conditions: tuple[str, str, str]) -> Stage:
    """The cluster-autoscaler writes conditions that are True: type, reason, message."""
    (made,) = stage.requests()
    made["status"] = {
        "conditions": [{"type": t, "status": "True", "reason": why, "message": text} for t, why, text in conditions]
    }
    return stage


def states(stage: Stage) -> set[str | None]:
    """What the annotations of the pods say."""
    patches = [body for path, body in stage.api.bodies.items() if "/pods/" in path]
    return {body["metadata"]["annotations"].get(STATE) for body in patches}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], "Pending"),
        ([("Accepted", "False", "", "")], "Pending"),
        ([("Accepted", "True", "Accepted", "in work")], "Accepted: Accepted: in work"),
        ([("Accepted", "True", "", ""), ("Provisioned", "True", "", "")], "Provisioned"),
        ([("Provisioned", "False", "CapacityIsNotFound", "later"), ("Accepted", "True", "", "")], "Accepted"),
        ([("Provisioned", "True", "", ""), ("BookingExpired", "True", "", "")], "BookingExpired"),
        ([("Provisioned", "True", "", ""), ("CapacityRevoked", "True", "Gone", "")], "CapacityRevoked: Gone"),
        ([("Accepted", "True", "", ""), ("Failed", "True", "NoQuota", "x" * 500)], f"Failed: NoQuota: {'x' * 288}..."),
    ],
)
def test_one_condition_decides(conditions: list[tuple[str, str, str, str]], expected: str) -> None:
    """provisioning.md 5.1: those that are True, the worst first."""
    read = [{"type": t, "status": s, "reason": why, "message": text} for t, s, why, text in conditions]
    assert state_of(read).text == expected


def test_state_is_on_the_pods() -> None:
    """provisioning.md 5.2: written when it changes."""
    stage = Stage(node("n1", cpu=4), large()).at(6)
    assert states(stage) == {"Pending"}
    reports(stage, ("Accepted", "Accepted", "")).at(12).at(18)
    assert states(stage) == {"Accepted: Accepted"}
    reports(stage, ("Provisioned", "", "")).at(24).at(30)
    assert states(stage) == {"Provisioned"}
    assert len([path for _, path in stage.api.sent if "/pods/" in path]) == 6


@pytest.mark.parametrize("kind", ["Failed", "CapacityRevoked", "BookingExpired"])
def test_request_that_ended_is_replaced_after_a_backoff(kind: str) -> None:
    """provisioning.md 5.3: 60 s, then twice that; meanwhile the pods keep what the autoscaler goes by."""
    stage = Stage(node("n1", cpu=4), large()).at(6)
    (first,) = stage.requests()
    reports(stage, (kind, "OutOfResources", "no machines")).at(12).at(18)
    assert stage.requests() == []
    assert states(stage) == {f"{kind}: OutOfResources: no machines"}
    last = [body["metadata"]["annotations"] for path, body in stage.api.bodies.items() if "/pods/" in path]
    assert [CONSUME in annotations for annotations in last] == [False, False]
    assert stage.at(70).requests() == []
    (second,) = stage.at(79).requests()
    assert second["metadata"]["name"] == f"{first['metadata']['name']}-1"
    assert second["metadata"]["annotations"] == {FOR: "group/default/g", TURN: "1"}
    reports(stage, (kind, "", "")).at(90).at(96)
    assert stage.at(210).requests() == []
    (third,) = stage.at(217).requests()
    assert third["metadata"]["name"].endswith("-2")


def test_request_deleted_by_another_client_is_made_again() -> None:
    """provisioning.md 5.3."""
    stage = Stage(node("n1", cpu=4), large()).at(6)
    (first,) = stage.requests()
    del stage.api.bodies[f"{PATH}/{first['metadata']['name']}"]
    assert stage.at(12).at(18).requests() == []
    assert states(stage) == {"Deleted"}
    assert len(stage.at(80).requests()) == 1


def test_restarted_scheduler_goes_on_with_the_turn() -> None:
    """provisioning.md 5.3: which request it is, is on the request."""
    sets = [{"podTemplateRef": {"name": "mine-0"}, "count": 2}]
    meta = {"name": "mine", "namespace": "default", "annotations": {FOR: "group/default/g", TURN: "3"}}
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    api = Api({"metadata": meta, "spec": {"podSets": sets}, "status": failed})
    stage = Stage(node("n1", cpu=4), large(), api=api).at(0).at(6).at(12)
    assert api.stored == {}
    assert stage.at(480).requests() == []
    (made,) = stage.at(500).requests()
    assert made["metadata"]["annotations"][TURN] == "4"


def test_backoff_has_an_end() -> None:
    """provisioning.md 5.3."""
    assert [backoff(ended) for ended in (1, 2, 3, 6, 7, 1000)] == [60, 120, 240, 1800, 1800, 1800]


def test_template_has_what_decides_about_nodes() -> None:
    """provisioning.md 2.3."""
    found = template_of({"metadata": {"labels": {"app": "x"}}, "spec": SPEC})
    assert found["metadata"] == {"labels": {"app": "x"}}
    assert set(found["spec"]) == {"containers", "tolerations", "volumes"}
    assert found["spec"]["containers"] == [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}]
    assert [volume["name"] for volume in found["spec"]["volumes"]] == ["data"]


@pytest.mark.parametrize(
    ("args", "where"),
    [
        ({"provisioningRequests": "Sometimes"}, "provisioningRequests"),
        ({"provisioningAfter": -1}, "provisioningAfter"),
        ({"provisioningClassName": ""}, "provisioningClassName"),
    ],
)
def test_bad_settings_are_refused(args: Json, where: str) -> None:
    """provisioning.md 1.1."""
    with pytest.raises(ConfigurationError, match=where):
        profiles(f"profiles:\n- pluginConfig:\n  - name: GangScheduling\n    args: {json.dumps(args)}\n")
