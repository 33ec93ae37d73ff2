"""Admission webhooks as clients and webhooks see them (interfaces.md 6)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kube_standin import evaluation
from kube_standin.server.body_slots import HOOKED_BODIES, LARGE_BODIES, LargeTurn
from kube_standin.webhooks import WebhookCaller, WebhookCallError
from tests.server.inprocess import Answer, Plane

Json = dict[str, Any]
Handler = Callable[[Json], Json]
API = "/apis/admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = f"{API}/mutatingwebhookconfigurations", f"{API}/validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


def allow(_: Json) -> Json:
    """Allow a request."""
    return {"allowed": True}


def deny(message: str = "", **status: Any) -> Handler:
    """Deny every request."""
    return lambda _: {"allowed": False, "status": {**({"message": message} if message else {}), **status}}


def patch(*operations: Json) -> Handler:
    """Change the object of every request."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": text}


def set_data(key: str, value: str) -> Handler:
    """Set a key of a ConfigMap."""
    return patch({"op": "add", "path": f"/data/{key}", "value": value})


class Called:
    """Webhooks that are functions by path, and the requests they got: (path, request)."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.handlers: dict[str, Handler] = {}
        self.requests: list[tuple[str, Json]] = []

    async def call(self, webhook: str, config: Mapping[str, Any], body: bytes, seconds: float) -> Json:
        """Answer as the handler of the path does."""
        review = json.loads(body)
        path = config["url"].rpartition("/")[2]
        request = review["request"]
        self.requests.append((path, request))
        response = {"uid": request["uid"], **self.handlers[path](request)}
        return {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}

    def add(self, collection: str, handlers: Mapping[str, Handler], rules: Any = None, **fields: Any) -> None:
        """Configure webhooks, one for each path."""
        rules = rules or [rule(["configmaps"])]
        name = f"c{len(self.handlers)}-{next(iter(handlers))}"
        webhooks = [
            {"name": f"{path}.example.com", "clientConfig": {"url": f"https://127.0.0.1/{path}"}, "rules": rules,
             "sideEffects": "None", "admissionReviewVersions": ["v1"], **fields}
            for path in handlers
        ]  # fmt: skip
        self.handlers.update(handlers)
        answer = self.plane.ask(f"POST {collection}", {"metadata": {"name": name}, "webhooks": webhooks})
        assert answer.status == 201, answer.json

    @property
    def paths(self) -> list[str]:
        """The webhooks that were called, in their order."""
        return [path for path, _ in self.requests]


def rule(resources: list[str], operations: tuple[str, ...] = ("*",), groups: tuple[str, ...] = ("*",)) -> Json:
    """A rule of a webhook."""
    return {"apiGroups": groups, "apiVersions": ["*"], "operations": operations, "resources": resources}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[Called]:
    """A control plane with webhooks that are functions."""
    plane = Plane()
    found = Called(plane)
    monkeypatch.setattr(WebhookCaller, "call", lambda _, *given: found.call(*given))
    yield found
    plane.close()


def config_map(name: str = "m", **data: str) -> Json:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b", **data}}


def create(called: Called, **more: str) -> Answer:
    """Create a ConfigMap."""
    return called.plane.ask(f"POST {MAPS}", config_map(**more))


def test_mutating_webhook_changes_what_is_stored(called: Called) -> None:
    called.add(MUTATING, {"one": set_data("x", "1"), "two": set_data("y", "2")})
    answer = create(called)
    assert (answer.status, answer.json["data"]) == (201, {"a": "b", "x": "1", "y": "2"})
    assert called.plane.ask(f"GET {MAPS}/m").json["data"] == {"a": "b", "x": "1", "y": "2"}
    assert called.paths == ["one", "two"]
    assert called.requests[1][1]["object"]["data"] == {"a": "b", "x": "1"}


def test_review_has_the_whole_request(called: Called) -> None:
    called.add(VALIDATING, {"v": allow})
    called.plane.ask(f"POST {MAPS}?fieldManager=me&dryRun=All", config_map())
    request = called.requests[0][1]
    shown = {key: value for key, value in request.items() if key not in ("uid", "object")}
    assert shown == {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "m",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]},
        "oldObject": None,
        "dryRun": True,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me", "dryRun": ["All"]},
    }
    sent = request["object"]
    assert (sent["kind"], sent["apiVersion"], sent["data"]) == ("ConfigMap", "v1", {"a": "b"})
    assert {"uid", "creationTimestamp"} <= set(sent["metadata"])


def test_what_a_validating_webhook_saw_is_what_is_stored(called: Called) -> None:
    """interfaces.md 6.6."""
    called.add(VALIDATING, {"v": allow})
    made = called.plane.ask(f"POST {MAPS}", {"metadata": {"generateName": "g-"}}).json["metadata"]
    seen = called.requests[0][1]
    assert (seen["name"], seen["object"]["metadata"]["uid"]) == (made["name"], made["uid"])
    assert made["name"].startswith("g-")


@pytest.mark.parametrize(
    ("handler", "refusal"),
    [
        (deny("no"), (400, None, 'admission webhook "v.example.com" denied the request: no')),
        (deny("no", code=403, reason="Forbidden"),
         (403, "Forbidden", 'admission webhook "v.example.com" denied the request: no')),
        (deny(reason="Gone"), (400, "Gone", 'admission webhook "v.example.com" denied the request: Gone')),
        (deny(code=200), (400, None, 'admission webhook "v.example.com" denied the request without explanation')),
        (lambda _: {"uid": "x", "allowed": True},
         (500, "InternalError", 'Internal error occurred: failed calling webhook "v.example.com": received invalid '
          'webhook response: expected response.uid="UID", got "x"')),
        (lambda _: {"allowed": True, "patch": "W10=", "patchType": "JSONPatch"},
         (500, "InternalError", 'Internal error occurred: failed calling webhook "v.example.com": received invalid '
          "webhook response: validating webhook may not return response.patch")),
    ],
)  # fmt: skip
def test_refusals_are_worded_as_upstream(called: Called, handler: Handler, refusal: Any) -> None:
    """interfaces.md 6.4."""
    called.add(VALIDATING, {"v": handler})
    code, reason, message = create(called).refusal
    assert (code, reason, message.replace(called.requests[0][1]["uid"], "UID")) == refusal
    assert called.plane.ask(f"GET {MAPS}/m").status == 404


def unreachable(_: Json) -> Json:
    """Be no server."""
    raise WebhookCallError('Post "https://x": EOF')


@pytest.mark.parametrize("collection", [MUTATING, VALIDATING])
def test_failure_is_decided_by_the_policy(called: Called, collection: str) -> None:
    """interfaces.md 6.4."""
    called.add(collection, {"ignored": unreachable}, failurePolicy="Ignore")
    assert create(called).status == 201
    called.add(collection, {"failed": unreachable})
    text = 'failed calling webhook "failed.example.com": failed to call webhook: Post "https://x": EOF'
    answer = create(called, name="n")
    assert answer.refusal == (500, "InternalError", f"Internal error occurred: {text}")
    assert answer.json["details"] == {"causes": [{"message": text}]}


def test_webhook_that_may_be_called_again_is_when_a_later_one_changes_the_object(called: Called) -> None:
    called.add(MUTATING, {"again": allow, "later": set_data("x", "1")}, reinvocationPolicy="IfNeeded")
    called.add(MUTATING, {"never": set_data("y", "1")})
    create(called)
    assert called.paths == ["again", "later", "never", "again", "later"]
    assert called.requests[3][1]["object"]["data"] == {"a": "b", "x": "1", "y": "1"}


def test_operations_and_subresources_are_matched(called: Called) -> None:
    called.add(VALIDATING, {"updates": allow}, [rule(["configmaps"], ("UPDATE",))])
    called.add(VALIDATING, {"deletes": allow}, [rule(["configmaps"], ("DELETE",))])
    called.add(VALIDATING, {"status": allow}, [rule(["pods/status"])])
    called.add(VALIDATING, {"binding": allow}, [rule(["pods/binding"])])
    called.add(VALIDATING, {"eviction": allow}, [rule(["pods/eviction"])])
    called.add(VALIDATING, {"scale": allow}, [rule(["deployments/scale"])])
    ask = called.plane.ask
    create(called)
    ask(f"PATCH {MAPS}/m", {"data": {"z": "1"}}, content_type=MERGE)
    assert called.paths == ["updates"]
    assert called.requests[0][1]["oldObject"]["data"] == {"a": "b"}
    assert called.requests[0][1]["options"]["kind"] == "UpdateOptions"
    ask(f"DELETE {MAPS}/m?propagationPolicy=Background")
    deleted = called.requests[1][1]
    assert (deleted["operation"], deleted["object"], deleted["oldObject"]["data"]) == (
        "DELETE",
        None,
        {"a": "b", "z": "1"},
    )
    assert deleted["options"] == {
        "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"}  # fmt: skip
    create(called)
    ask(f"DELETE {MAPS}")
    assert "m" in [request["name"] for path, request in called.requests if path == "deletes"][1:]
    called.requests.clear()
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert ask(f"POST {PODS}", pod).status == 201
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert ask(f"POST {PODS}/p/binding", binding).status == 201
    ask(f"PATCH {PODS}/p/status", {"status": {"phase": "Running"}}, content_type=MERGE)
    assert ask(f"POST {PODS}/p/eviction", {"metadata": {"name": "p"}}).status == 201
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    ask(f"POST {deployments}", deployment)
    assert ask(f"PATCH {deployments}/d/scale", {"spec": {"replicas": 3}}, content_type=MERGE).status == 200
    assert called.paths == ["binding", "status", "eviction", "scale"]
    kinds = [(one["kind"]["kind"], one["subResource"], one["operation"]) for _, one in called.requests]
    assert kinds == [("Binding", "binding", "CREATE"), ("Pod", "status", "UPDATE"), ("Eviction", "eviction", "CREATE"),
                     ("Scale", "scale", "UPDATE")]  # fmt: skip
    scale = called.requests[3][1]
    assert (scale["oldObject"]["spec"], scale["object"]["spec"]) == ({"replicas": 1}, {"replicas": 3})


def test_denied_subresource_changes_nothing(called: Called) -> None:
    called.add(VALIDATING, {"v": deny("no")}, [rule(["pods/binding", "pods/eviction"])])
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    called.plane.ask(f"POST {PODS}", pod)
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert called.plane.ask(f"POST {PODS}/p/binding", binding).status == 400
    assert called.plane.ask(f"POST {PODS}/p/eviction", {"metadata": {"name": "p"}}).status == 400
    assert "nodeName" not in called.plane.ask(f"GET {PODS}/p").json["spec"]


def test_connections_are_admitted_before_they_are_refused(called: Called) -> None:
    """interfaces.md 6.16."""
    attach = deny("not this one")
    called.add(MUTATING, {"set": patch({"op": "add", "path": "/tty", "value": True})}, [rule(["pods/*"], ("CONNECT",))])
    called.add(VALIDATING, {"attach": attach}, [rule(["pods/attach"], ("CONNECT",))])
    called.add(VALIDATING, {"exec": allow}, [rule(["pods/exec"], ("*",))])
    ask = called.plane.ask
    ask(
        f"POST {PODS}",
        {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}},
    )
    called.requests.clear()
    refused = ask(f"POST {PODS}/p/attach?container=c&stdin=true&stderr=false")
    assert "not this one" in refused.json["message"]
    assert ask(f"GET {PODS}/p/exec?command=ls&command=-l").status == 501
    assert ask(f"POST {PODS}/p/portforward?ports=80,8080").status == 501
    assert ask(f"POST {PODS}/none/exec?command=ls").status == 404
    assert called.paths == ["set", "attach", "set", "exec", "set", "set", "exec"]
    sent = [request for _, request in called.requests]
    assert {(one["operation"], one["options"], one["oldObject"]) for one in sent} == {("CONNECT", None, None)}
    heads = {"apiVersion": "v1"}
    assert sent[0]["object"] == {**heads, "kind": "PodAttachOptions", "stdin": True, "stdout": True, "container": "c"}
    assert sent[1]["object"] == {**sent[0]["object"], "tty": True}
    words = {"stdout": True, "stderr": True, "tty": True, "command": ["ls", "-l"]}
    assert sent[3]["object"] == {**heads, "kind": "PodExecOptions", **words}
    assert sent[4]["object"] == {**heads, "kind": "PodPortForwardOptions", "ports": [80, 8080]}


def test_selectors_and_conditions_choose_requests(called: Called) -> None:
    exists = {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]}
    called.add(VALIDATING, {"objects": allow}, objectSelector=exists)
    called.add(VALIDATING, {"namespaces": allow}, namespaceSelector={"matchLabels": {"team": "a"}})
    conditions = [{"name": "big", "expression": "object.data.a == 'big' && request.operation == 'CREATE'"}]
    called.add(VALIDATING, {"conditions": allow}, matchConditions=conditions)
    create(called)
    assert called.paths == ["objects"]
    called.plane.ask("PATCH /api/v1/namespaces/default", {"metadata": {"labels": {"team": "a"}}}, content_type=MERGE)
    labelled = config_map("n", a="big")
    labelled["metadata"]["labels"] = {"skip": ""}
    called.plane.ask(f"POST {MAPS}", labelled)
    assert called.paths == ["objects", "namespaces", "conditions"]


def test_condition_that_fails_is_decided_by_the_policy(called: Called) -> None:
    conditions = [{"name": "broken", "expression": "object.data.missing == 'x'"}]
    called.add(VALIDATING, {"ignored": deny()}, matchConditions=conditions, failurePolicy="Ignore")
    assert create(called).status == 201
    called.add(VALIDATING, {"failed": deny()}, matchConditions=conditions)
    code, reason, message = create(called, name="n").refusal
    assert (code, reason) == (403, "Forbidden")
    assert message == (
        "configmaps \"n\" is forbidden: expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
    )


def test_conditions_have_a_budget(called: Called) -> None:
    costly = [{"name": "costly", "expression": "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, "
               "[1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, "
               "[1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))"}]  # fmt: skip
    called.add(VALIDATING, {"costly": deny()}, matchConditions=costly)
    assert "cost" in create(called, name="o").refusal[2]


def test_conditions_of_a_write_are_evaluated_beside_the_event_loop(
    called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    """interfaces.md 6.2 and 6.10: long ones of all webhooks of a write, within one budget."""
    monkeypatch.setattr(evaluation, "INLINE_COST", 1)
    conditions = [{"name": "c", "expression": "object.data.all(key, key != '')"}]
    called.add(MUTATING, {"m": set_data("x", "1")}, matchConditions=conditions)
    called.add(VALIDATING, {"v": allow}, matchConditions=conditions)
    assert create(called).json["data"]["x"] == "1"
    assert called.paths == ["m", "v"]
    monkeypatch.setattr(evaluation, "REQUEST_LIMIT", 2)
    assert "cost" in create(called, name="o").refusal[2]


def test_equivalent_versions_are_converted(called: Called) -> None:
    old = {
        "apiGroups": ["scheduling.k8s.io"],
        "apiVersions": ["v1alpha3"],
        "operations": ["*"],
        "resources": ["podgroups"],
    }
    called.add(VALIDATING, {"equivalent": allow}, [old])
    called.add(VALIDATING, {"exact": allow}, [old], matchPolicy="Exact")
    groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
    answer = called.plane.ask(
        f"POST {groups}", {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    )
    assert answer.status == 201, answer.json
    assert called.paths == ["equivalent"]
    request = called.requests[0][1]
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1alpha3", "v1beta1")
    assert request["object"]["apiVersion"] == "scheduling.k8s.io/v1alpha3"


def test_dry_runs_need_webhooks_without_side_effects(called: Called) -> None:
    """interfaces.md 6.5: A configuration of an earlier version may still have such webhooks; none can be made."""
    webhook = {"name": "v.example.com", "clientConfig": {"url": "https://127.0.0.1/v"}, "rules": [rule(["*"])],
               "sideEffects": "Some", "admissionReviewVersions": ["v1"]}  # fmt: skip
    refused = called.plane.ask(f"POST {VALIDATING}", {"metadata": {"name": "c"}, "webhooks": [webhook]})
    assert refused.status == 422
    assert 'sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"' in refused.json["message"]


def test_configurations_are_sent_to_no_webhook(called: Called) -> None:
    called.add(VALIDATING, {"v": deny()}, [rule(["*"])])
    called.add(MUTATING, {"m": deny()}, [rule(["*"])])
    names = [item["metadata"]["name"] for item in called.plane.ask(f"GET {VALIDATING}").json["items"]]
    assert called.plane.ask(f"DELETE {VALIDATING}/{names[0]}").status == 200
    assert called.paths == []


def test_warnings_reach_the_client(called: Called) -> None:
    called.add(VALIDATING, {"v": lambda _: {"allowed": True, "warnings": ["mind this"]}})
    assert create(called).header("warning") == '299 - "mind this"'
    deleted = called.plane.ask(f"DELETE {MAPS}/m")
    assert deleted.header("warning") == '299 - "mind this"'


def test_mutated_object_is_validated_and_defaulted(called: Called) -> None:
    """interfaces.md 6.1."""
    called.add(
        MUTATING, {"m": patch({"op": "replace", "path": "/spec/containers/0/name", "value": "BAD"})}, [rule(["pods"])]
    )
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    refused = called.plane.ask(f"POST {PODS}", pod)
    assert (refused.status, "spec.containers[0].name" in refused.json["message"]) == (422, True)
    called.handlers["m"] = patch({"op": "add", "path": "/spec/containers/-", "value": {"name": "d", "image": "j"}})
    made = called.plane.ask(f"POST {PODS}", pod).json
    assert made["spec"]["containers"][1]["imagePullPolicy"] == "Always"


def test_write_that_meets_another_is_reviewed_again(called: Called) -> None:
    """interfaces.md 6.6."""
    create(called)

    def meanwhile(request: Json) -> Json:
        if request["oldObject"]["data"] == {"a": "b"}:
            state = called.plane.registry.head(called.plane.registry.kind("v1", "ConfigMap"), "default", "m")
            assert state is not None
            changed = {**state.decode(), "data": {"a": "c"}}
            called.plane.registry.store.put(state.resource, "default", "m", changed, state)
        return {"allowed": True}

    called.add(VALIDATING, {"v": meanwhile})
    answer = called.plane.ask(f"PATCH {MAPS}/m", {"data": {"z": "1"}}, content_type=MERGE)
    assert answer.json["data"] == {"a": "c", "z": "1"}
    assert [request["oldObject"]["data"]["a"] for _, request in called.requests] == ["b", "c"]


def test_delete_cannot_be_mutated(called: Called) -> None:
    create(called)
    called.add(MUTATING, {"m": set_data("x", "1")})
    refused = called.plane.ask(f"DELETE {MAPS}/m").refusal
    assert refused[2].endswith("attempted to modify the object, which is not supported for this operation")


def test_tables_show_how_many_webhooks_there_are(called: Called) -> None:
    called.add(MUTATING, {"a": allow, "b": allow})
    table = called.plane.ask(f"GET {MUTATING}", accept="application/json;as=Table;v=v1;g=meta.k8s.io").json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Webhooks", "Age"]
    assert table["rows"][0]["cells"][1] == 2


@pytest.mark.parametrize("collection", [MUTATING, VALIDATING])
def test_slow_webhook_stops_no_other_large_write(called: Called, collection: str) -> None:
    """interfaces.md 5.8: neither where large writes are done one by one, nor where their bodies wait to be read."""
    called.add(collection, {"slow": allow})
    plane, answer_of = called.plane, called.call

    def large(kind: str, number: int) -> Any:
        body = {"metadata": {"name": f"m{number}"}, "data": {"a": base64.b64encode(b"x" * 100_000).decode()}}
        length = str(len(json.dumps(body)))
        return plane.asked(f"POST /api/v1/namespaces/default/{kind}", body, content_length=length)

    async def run() -> tuple[int, int, list[int]]:
        answered, waiting = asyncio.Event(), 0

        async def call(*given: Any) -> Json:
            nonlocal waiting
            waiting += 1
            await answered.wait()
            return await answer_of(*given)

        called.call = call  # type: ignore[assignment, method-assign]
        slow = [asyncio.ensure_future(large("configmaps", number)) for number in range(LARGE_BODIES + 1)]
        while waiting < HOOKED_BODIES:
            await asyncio.sleep(0.01)
        other = await large("secrets", 0)
        held = waiting
        answered.set()
        return other.status, held, [answer.status for answer in await asyncio.gather(*slow)]

    assert plane.run(run()) == (201, HOOKED_BODIES, [201] * (LARGE_BODIES + 1))


def test_client_that_leaves_a_large_write_gives_its_turn_back(called: Called) -> None:
    """interfaces.md 5.8"""

    async def run() -> int:
        turns = asyncio.Semaphore(1)

        async def wait(turn: LargeTurn) -> None:
            async with turn, turn.aside():
                await asyncio.Event().wait()

        task = asyncio.ensure_future(wait(LargeTurn(turns)))
        await asyncio.sleep(0)
        async with LargeTurn(turns):
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        async with LargeTurn(turns):
            return int(turns.locked())

    assert called.plane.run(run()) == 1


@pytest.mark.parametrize(("verb", "paths"), [("create", ["v"]), ("escalate", [])])
def test_conditions_see_the_rights_of_the_user(called: Called, verb: str, paths: list[str]) -> None:
    """interfaces.md 6.10: `authorizer` asks this server; the namespace is null."""
    plane = called.plane
    rules = [{"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"]}]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    plane.create(f"{rbac}/clusterroles", {"metadata": {"name": "ann"}, "rules": rules})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ann"}
    subjects = [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}]
    body = {"metadata": {"name": "ann"}, "roleRef": ref, "subjects": subjects}
    plane.create(f"{rbac}/clusterrolebindings", body)
    text = f"namespaceObject == null && authorizer.requestResource.check('{verb}').allowed()"
    called.add(VALIDATING, {"v": allow}, matchConditions=[{"name": "c", "expression": text}])
    assert plane.ask(f"POST {MAPS}", config_map(), impersonate_user="ann").status == 201
    assert called.paths == paths


def test_mutating_policies_come_before_mutating_webhooks(called: Called) -> None:
    """interfaces.md 6.13: a policy that may be evaluated again sees what a webhook changed."""
    text = "[JSONPatch{op: 'add', path: '/data/p', value: string(object.data.size())}]"
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
    spec = {
        "matchConstraints": {"resourceRules": [rule(["configmaps"], ("CREATE",))]},
        "mutations": [mutation],
        "reinvocationPolicy": "IfNeeded",
    }
    called.plane.create(f"{API}/mutatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    bound = {"metadata": {"name": "p"}, "spec": {"policyName": "p"}}
    called.plane.create(f"{API}/mutatingadmissionpolicybindings", bound)
    called.add(MUTATING, {"later": set_data("x", "1")})
    assert create(called).json["data"] == {"a": "b", "x": "1", "p": "3"}
    assert called.requests[0][1]["object"]["data"] == {"a": "b", "p": "1"}
