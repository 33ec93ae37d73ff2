"""Validating policies as clients see them (interfaces.md 6.10 to 6.12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin import evaluation
from kube_standin.errors import StatusError
from kube_standin.features import EVERY_RELEASE
from kube_standin.registry import WriteOptions
from tests import manifests
from tests.policies.policy_objects import (
    API,
    DEPLOYMENTS,
    MAPS,
    MERGE,
    PODS,
    VALIDATING,
    binding,
    check,
    config_map,
    created,
    deployment,
    policy,
    rule,
    validate,
    warnings,
)
from tests.server.inprocess import Plane

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def plane() -> Iterator[Plane]:
    """A control plane."""
    found = Plane(features=EVERY_RELEASE)
    yield found
    found.close()


def pod(name: str, **spec: Any) -> Json:
    return manifests.pod(name, **{"containers": [{"name": "main", "image": "nginx"}], **spec})


def test_denied_write_says_which_policy_and_why(plane: Plane) -> None:
    made = "'wants replicas > 1, got ' + string(object.spec.replicas)"
    validate(
        plane,
        "replicated",
        rule("deployments", groups="apps"),
        validations=check("object.spec.replicas > 1", messageExpression=made),
    )
    answer = plane.ask(f"POST {DEPLOYMENTS}", deployment("lone"))
    said = "ValidatingAdmissionPolicy 'replicated' with binding 'replicated' denied request: wants replicas > 1, got 1"
    assert answer.refusal == (422, "Invalid", f'deployments.apps "lone" is forbidden: {said}')
    assert answer.json["details"]["causes"] == [{"message": said}]
    assert plane.ask(f"POST {DEPLOYMENTS}", deployment("pair", 2)).status == 201
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    assert plane.ask(f"POST {sets}", deployment("other")).status == 201


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "failed expression: object.data.size() > 1"),
        ({"message": " too few "}, "too few"),
        ({"message": "plain", "messageExpression": "'made'"}, "made"),
        ({"message": "plain", "messageExpression": "' '"}, "plain"),
        ({"message": "plain", "messageExpression": "'two\\nlines'"}, "plain"),
        ({"message": "plain", "messageExpression": "object.nowhere + ''"}, "plain"),
        ({"messageExpression": "'x'.replace('x', string(object.data))"}, "failed expression: object.data.size() > 1"),
    ],
)
def test_message_is_made_or_given_or_the_expression(plane: Plane, more: Json, said: str) -> None:
    validate(plane, "p", rule("configmaps"), validations=check("object.data.size() > 1", **more))
    answer = plane.ask(f"POST {MAPS}", config_map("m", one="1"))
    assert answer.refusal[2].endswith(f"denied request: {said}")


@pytest.mark.parametrize(
    ("reason", "code"), [("Invalid", 422), ("Forbidden", 403), ("Unauthorized", 401), ("RequestEntityTooLarge", 413)]
)
def test_reason_decides_the_code(plane: Plane, reason: str, code: int) -> None:
    validate(plane, "p", rule("configmaps"), validations=check("false", reason=reason))
    assert plane.ask(f"POST {MAPS}", config_map("m")).refusal[:2] == (code, reason)


def test_variables_are_read_by_those_after_them(plane: Plane) -> None:
    variables = [
        {"name": "volumes", "expression": "has(object.spec.volumes) ? object.spec.volumes : []"},
        {"name": "paths", "expression": "variables.volumes.filter(v, has(v.hostPath)).map(v, v.hostPath.path)"},
    ]
    made = "'mounts ' + variables.paths.map(p, string(p)).join(', ')"
    validations = check("variables.paths.size() == 0", messageExpression=made)
    validate(plane, "no-paths", rule("pods"), variables=variables, validations=validations)
    assert plane.ask(f"POST {PODS}", pod("plain")).status == 201
    volumes = [{"name": name, "hostPath": {"path": f"/{name}"}} for name in ("a", "b")]
    assert plane.ask(f"POST {PODS}", pod("mounting", volumes=volumes)).refusal[2].endswith("mounts /a, /b")


def test_field_is_fixed_by_the_old_object(plane: Plane) -> None:
    validations = check("oldObject == null || object.data.team == oldObject.data.team", message="team is fixed")
    validate(plane, "team", rule("configmaps"), validations=validations)
    created(plane, MAPS, config_map("m", team="a"))
    change = {"data": {"team": "b"}}
    assert plane.ask(f"PATCH {MAPS}/m", change, content_type=MERGE).refusal[2].endswith("team is fixed")
    assert plane.ask(f"PATCH {MAPS}/m", {"data": {"x": "y"}}, content_type=MERGE).status == 200


def test_deletion_has_an_old_object_alone(plane: Plane) -> None:
    validations = check("object == null && !('keep' in oldObject.data)", message="kept")
    validate(plane, "keep", rule("configmaps", "DELETE"), validations=validations)
    created(plane, MAPS, config_map("kept", keep="1"))
    created(plane, MAPS, config_map("free"))
    assert plane.ask(f"DELETE {MAPS}/kept").status == 422
    created(plane, MAPS, config_map("empty", a="1"))
    assert plane.ask(f"DELETE {MAPS}/empty").status == 200
    # An object without data: the expression fails, which denies too.
    assert "no such key: data" in plane.ask(f"DELETE {MAPS}/free").refusal[2]


@pytest.mark.parametrize("actions", ["Warn", "Audit", "Warn Audit"])
def test_other_actions_let_a_write_pass(plane: Plane, actions: str) -> None:
    validate(plane, "p", rule("configmaps"), actions=actions, validations=check("false", message="not good"))
    answer = plane.ask(f"POST {MAPS}", config_map("m"))
    assert answer.status == 201
    said = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': not good"
    assert [said in text for text in warnings(answer)] == ([True] if "Warn" in actions else [])


def test_policy_without_a_binding_does_nothing(plane: Plane) -> None:
    created(plane, VALIDATING, policy("p", rule("configmaps"), validations=check("false")))
    created(plane, MAPS, config_map("m"))
    created(plane, f"{API}/validatingadmissionpolicybindings", binding("b", "p", "Deny"))
    assert plane.ask(f"POST {MAPS}", config_map("n")).status == 422
    assert plane.ask(f"DELETE {API}/validatingadmissionpolicybindings/b").status == 200
    created(plane, MAPS, config_map("n"))


@pytest.mark.parametrize(
    ("match", "bound", "denied"),
    [
        ({}, {}, True),
        ({"excludeResourceRules": [rule("configmaps", resourceNames=["m"])]}, {}, False),
        ({"excludeResourceRules": [rule("configmaps", resourceNames=["n"])]}, {}, True),
        ({"namespaceSelector": {"matchLabels": {"strict": "yes"}}}, {}, False),
        ({"objectSelector": {"matchLabels": {"app": "a"}}}, {}, True),
        ({"objectSelector": {"matchLabels": {"app": "b"}}}, {}, False),
        ({}, {"matchResources": {"objectSelector": {"matchLabels": {"app": "b"}}}}, False),
        ({}, {"matchResources": {"resourceRules": [rule("configmaps", "UPDATE")]}}, False),
        ({}, {"matchResources": {"resourceRules": [rule("configmaps")]}}, True),
    ],
)
def test_rules_and_selectors_decide_what_is_matched(plane: Plane, match: Json, bound: Json, denied: bool) -> None:
    validate(plane, "p", rule("configmaps"), match=match, bound=bound, validations=check("false"))
    body = config_map("m")
    body["metadata"]["labels"] = {"app": "a"}
    assert plane.ask(f"POST {MAPS}", body).status == (422 if denied else 201)


@pytest.mark.parametrize(
    ("conditions", "failure_policy", "status"),
    [
        (["object.metadata.name == 'm'"], "Fail", 422),
        (["object.metadata.name == 'n'"], "Fail", 201),
        (["object.spec.x == 1"], "Fail", 422),
        (["object.spec.x == 1"], "Ignore", 201),
        (["object.spec.x == 1", "false"], "Fail", 201),
        (["request.operation == 'CREATE' && request.userInfo.username == 'admin'"], "Fail", 422),
    ],
)
def test_conditions_come_before_validations(
    plane: Plane, conditions: list[str], failure_policy: str, status: int
) -> None:
    named = [{"name": f"c{index}", "expression": text} for index, text in enumerate(conditions)]
    validate(
        plane,
        "p",
        rule("configmaps"),
        matchConditions=named,
        failurePolicy=failure_policy,
        validations=check("false"),
    )
    assert plane.ask(f"POST {MAPS}", config_map("m")).status == status


@pytest.mark.parametrize(("failure_policy", "status"), [("Fail", 422), ("Ignore", 201)])
def test_failing_expression_denies_by_failure_policy(plane: Plane, failure_policy: str, status: int) -> None:
    validate(plane, "p", rule("configmaps"), failurePolicy=failure_policy, validations=check("object.nowhere.x == 1"))
    answer = plane.ask(f"POST {MAPS}", config_map("m"))
    assert answer.status == status
    if status == 422:
        assert "expression 'object.nowhere.x == 1' resulted in error: no such key: nowhere" in answer.refusal[2]


def test_namespace_is_seen(plane: Plane) -> None:
    plane.ask("PATCH /api/v1/namespaces/default", {"metadata": {"labels": {"most": "2"}}}, content_type=MERGE)
    text = "object.spec.replicas <= int(namespaceObject.metadata.labels.most)"
    validate(plane, "p", rule("deployments"), validations=check(text))
    assert plane.ask(f"POST {DEPLOYMENTS}", deployment("a", 2)).status == 201
    assert plane.ask(f"POST {DEPLOYMENTS}", deployment("b", 3)).status == 422


def test_annotation_that_fails_denies(plane: Plane) -> None:
    annotations = [{"key": "replicas", "valueExpression": "'of ' + object.data.x"}]
    validate(plane, "p", rule("configmaps"), actions="Audit", auditAnnotations=annotations)
    assert plane.ask(f"POST {MAPS}", config_map("m", x="1")).status == 201
    assert "no such key: x" in plane.ask(f"POST {MAPS}", config_map("n", y="1")).refusal[2]


# -- parameters

KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
LIMIT = check("object.spec.replicas <= int(params.data.most)", messageExpression="'at most ' + params.data.most")


@pytest.mark.parametrize(
    ("ref", "statuses"),
    [
        ({"name": "few"}, (201, 422)),
        ({"name": "few", "namespace": "default"}, (201, 422)),
        ({"selector": {}}, (201, 422)),
        ({"selector": {"matchLabels": {"size": "many"}}}, (201, 201)),
        ({"name": "none", "parameterNotFoundAction": "Allow"}, (201, 201)),
        ({"name": "none", "parameterNotFoundAction": "Deny"}, (422, 422)),
        ({"name": "few", "namespace": "nowhere"}, (422, 422)),
    ],
)
def test_parameters_come_from_the_binding(plane: Plane, ref: Json, statuses: tuple[int, int]) -> None:
    for name, most in (("few", "2"), ("many", "20")):
        body = config_map(name, most=most)
        body["metadata"]["labels"] = {"size": name}
        created(plane, MAPS, body)
    bound = {"paramRef": {"parameterNotFoundAction": "Deny", **ref}}
    # What else is stored as a ConfigMap, such as the server's own, has no such key.
    kept = check("!has(params.data.most) || object.spec.replicas <= int(params.data.most)")
    validate(plane, "limit", rule("deployments"), paramKind=KIND, validations=kept, bound=bound)
    found = tuple(plane.ask(f"POST {DEPLOYMENTS}", deployment(f"d{count}", count)).status for count in (2, 5))
    assert found == statuses


def test_messages_see_parameters(plane: Plane) -> None:
    created(plane, MAPS, config_map("limit", most="3"))
    bound = {"paramRef": {"name": "limit", "parameterNotFoundAction": "Deny"}}
    validate(plane, "limit", rule("deployments"), paramKind=KIND, validations=LIMIT, bound=bound)
    assert plane.ask(f"POST {DEPLOYMENTS}", deployment("d", 4)).refusal[2].endswith("denied request: at most 3")
    plane.ask(f"PATCH {MAPS}/limit", {"data": {"most": "4"}}, content_type=MERGE)
    created(plane, DEPLOYMENTS, deployment("d", 4))


def test_without_a_reference_parameters_are_null(plane: Plane) -> None:
    validate(plane, "p", rule("configmaps"), paramKind=KIND, validations=check("params != null", message="no params"))
    assert plane.ask(f"POST {MAPS}", config_map("m")).refusal[2].endswith("no params")


def test_unknown_kind_of_parameters_denies(plane: Plane) -> None:
    kind = {"apiVersion": "rules.example.com/v1", "kind": "Limit"}
    bound = {"paramRef": {"name": "x", "parameterNotFoundAction": "Allow"}}
    validate(plane, "p", rule("configmaps"), paramKind=kind, bound=bound, validations=check("true"))
    said = plane.ask(f"POST {MAPS}", config_map("m")).refusal[2]
    assert "failed to find resource referenced by paramKind: 'rules.example.com/v1, Kind=Limit'" in said


# -- what users may do


def _grant(plane: Plane, user: str, *rules: Json) -> None:
    created(plane, f"{RBAC}/clusterroles", {"metadata": {"name": user}, "rules": list(rules)})
    subjects = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    created(plane, f"{RBAC}/clusterrolebindings", {"metadata": {"name": user}, "roleRef": ref, "subjects": subjects})


def _rights(verbs: str, resources: str, group: str = "") -> Json:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("authorizer.group('').resource('configmaps').namespace('default').check('create').allowed()", True),
        ("authorizer.group('').resource('secrets').namespace('default').check('create').allowed()", False),
        ("authorizer.group('').resource('pods').subresource('status').check('update').allowed()", True),
        ("authorizer.group('').resource('pods').check('update').allowed()", False),
        ("authorizer.requestResource.check('create').allowed()", True),
        ("authorizer.requestResource.check('delete').reason() == ''", True),
        ("authorizer.path('/apis').check('get').allowed()", True),
        ("authorizer.path('/metrics').check('get').allowed()", False),
        (
            "authorizer.serviceAccount('default', 'bot').group('').resource('configmaps').check('create').allowed()",
            False,
        ),
        ("!authorizer.requestResource.check('create').errored()", True),
        ("authorizer.requestResource.labelSelector('a=b').check('create').allowed()", True),
    ],
)
def test_expressions_ask_for_the_rights_of_the_user(plane: Plane, text: str, allowed: bool) -> None:
    _grant(plane, "ann", _rights("create", "configmaps"), _rights("update", "pods/status"))
    validate(plane, "p", rule("configmaps"), validations=check(text))
    assert plane.ask(f"POST {MAPS}", config_map("m"), impersonate_user="ann").status == (201 if allowed else 422)


def test_expression_makes_two_checks_at_most(plane: Plane) -> None:
    one = "authorizer.requestResource.check('create').allowed()"
    validate(plane, "p", rule("configmaps"), validations=check(f"{one} && {one} && {one}"))
    assert "actual cost limit exceeded" in plane.ask(f"POST {MAPS}", config_map("m")).refusal[2]


def test_author_of_a_policy_or_binding_must_be_able_to_read_its_parameters(plane: Plane) -> None:
    _grant(
        plane,
        "ann",
        _rights("create", "validatingadmissionpolicies validatingadmissionpolicybindings", API.split("/")[2]),
        _rights("get", "configmaps"),
    )
    secret = {"apiVersion": "v1", "kind": "Secret"}
    for kind, status in ((secret, 422), (KIND, 201)):
        body = policy("p", rule("pods"), paramKind=kind, validations=check("true"))
        assert plane.ask(f"POST {VALIDATING}", body, impersonate_user="ann").status == status
    created(plane, VALIDATING, policy("s", rule("pods"), paramKind=secret, validations=check("true")))
    ref = {"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}}
    for name, status in (("s", 422), ("p", 201)):
        body = binding(f"of-{name}", name, "Deny", **ref)
        answer = plane.ask(f"POST {API}/validatingadmissionpolicybindings", body, impersonate_user="ann")
        assert answer.status == status, answer.json


# -- bounds and kinds of requests

COSTLY = "object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != '')))"


@pytest.mark.parametrize(("failure_policy", "status"), [("Fail", 422), ("Ignore", 201)])
def test_costly_expression_is_bounded(plane: Plane, failure_policy: str, status: int) -> None:
    validate(plane, "p", rule("configmaps"), failurePolicy=failure_policy, validations=check(COSTLY))
    answer = plane.ask(f"POST {MAPS}", config_map("m", **{f"k{index}": "" for index in range(100)}))
    assert answer.status == status
    if status == 422:
        assert answer.refusal[2].endswith("operation cancelled: actual cost limit exceeded")
    assert plane.ask(f"POST {MAPS}", config_map("small", a="")).status == 201


def test_all_expressions_of_a_policy_have_one_budget(plane: Plane) -> None:
    """A variable that fails fails at once the next time; a dozen of them pass the budget."""
    names = [f"v{index}" for index in range(12)]
    variables = [{"name": name, "expression": COSTLY} for name in names]
    validations = [{"expression": f"variables.{name} || true"} for name in names for _ in range(2)]
    validate(plane, "p", rule("configmaps"), variables=variables, validations=validations)
    answer = plane.ask(f"POST {MAPS}", config_map("m", **{f"k{index}": "" for index in range(100)}))
    said = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert answer.refusal[2].endswith(said)
    assert plane.ask(f"POST {MAPS}", config_map("small", a="")).status == 201


def test_write_that_cannot_wait_has_a_budget_of_its_own(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """interfaces.md 6.10: what controllers write at once is evaluated on the event loop."""
    validate(plane, "p", rule("configmaps"), validations=check("object.data.all(a, a != '')"))
    maps = plane.registry.kind("v1", "ConfigMap")
    data = {f"k{index}": "" for index in range(100)}

    async def create(name: str) -> None:
        plane.registry.create_now(maps, "default", config_map(name, **data), WriteOptions())

    plane.run(create("within"))
    monkeypatch.setattr(evaluation, "UNWAITING_LIMIT", 100)
    with pytest.raises(StatusError, match="running out of cost budget"):
        plane.run(create("beyond"))
    assert plane.ask(f"POST {MAPS}", config_map("waits", **data)).status == 201


def test_parameters_are_bounded_together(plane: Plane) -> None:
    """interfaces.md 6.12."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    ref = {"selector": {"matchLabels": {"for": "p"}}, "parameterNotFoundAction": "Allow"}
    checks = check("params == null || params.metadata.name != ''")
    validate(plane, "p", rule("pods"), paramKind=kind, validations=checks, bound={"paramRef": ref})
    for index in range(4):
        assert plane.ask(f"POST {PODS}", pod(f"with-{index}")).status == 201
        labels = {"metadata": {"name": f"m{index}", "labels": {"for": "p"}}}
        created(plane, MAPS, {**config_map("", text="x" * 900_000), **labels})
    refusal = plane.ask(f"POST {PODS}", pod("beyond")).refusal
    assert refusal[2].endswith("params found for policy binding are larger than 3145728 bytes")


def test_policies_are_not_held_to_policies(plane: Plane) -> None:
    validate(plane, "p", rule("*", "*"), validations=check("false"))
    assert plane.ask(f"POST {MAPS}", config_map("m")).status == 422
    assert plane.ask(f"PATCH {VALIDATING}/p", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE).status == 200
    assert plane.ask(f"DELETE {API}/validatingadmissionpolicybindings/p").status == 200
    created(plane, MAPS, config_map("m"))


def test_dry_run_is_held_to_policies(plane: Plane) -> None:
    validate(plane, "p", rule("configmaps"), validations=check("request.dryRun"))
    assert plane.ask(f"POST {MAPS}?dryRun=All", config_map("m")).status == 201
    assert plane.ask(f"POST {MAPS}", config_map("m")).status == 422


@pytest.mark.parametrize("resources", ["deployments", "deployments/scale", "deployments/status"])
def test_subresources_are_matched_by_name(plane: Plane, resources: str) -> None:
    created(plane, DEPLOYMENTS, deployment("d"))
    validate(plane, "p", rule(resources, "UPDATE"), validations=check("has(object.x)"))
    changes = {
        "deployments": ("", {"metadata": {"labels": {"a": "b"}}}),
        "deployments/scale": ("/scale", {"spec": {"replicas": 2}}),
        "deployments/status": ("/status", {"status": {"replicas": 1}}),
    }
    for name, (path, body) in changes.items():
        answer = plane.ask(f"PATCH {DEPLOYMENTS}/d{path}", body, content_type=MERGE)
        assert answer.status == (422 if name == resources else 200), answer.json


def test_scale_is_what_is_sent(plane: Plane) -> None:
    created(plane, DEPLOYMENTS, deployment("d"))
    text = "object.kind == 'Scale' && request.subResource == 'scale' && object.spec.replicas < 5"
    validate(plane, "p", rule("deployments/scale"), validations=check(text, message="below 5"))
    assert plane.ask(f"PATCH {DEPLOYMENTS}/d/scale", {"spec": {"replicas": 4}}, content_type=MERGE).status == 200
    answer = plane.ask(f"PATCH {DEPLOYMENTS}/d/scale", {"spec": {"replicas": 5}}, content_type=MERGE)
    assert answer.refusal[2].endswith("below 5")


def test_eviction_is_admitted_once(plane: Plane) -> None:
    """As an Eviction; the deletion that follows is none of its own."""
    validate(plane, "evict", rule("pods/eviction"), validations=check("object.metadata.name != 'kept'"))
    validate(plane, "delete", rule("pods", "DELETE"), validations=check("false"))
    for name, status in (("kept", 422), ("gone", 201)):
        created(plane, PODS, pod(name))
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        assert plane.ask(f"POST {PODS}/{name}/eviction", eviction).status == status
    assert plane.ask(f"DELETE {PODS}/kept").status == 422


def test_policy_sees_the_version_it_matches(plane: Plane) -> None:
    """`matchPolicy: Equivalent`: a rule for another version of the resource."""
    groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
    match = {"apiGroups": ["scheduling.k8s.io"], "apiVersions": ["v1beta1"], "operations": ["CREATE"],
             "resources": ["podgroups"]}  # fmt: skip
    text = "object.apiVersion == 'scheduling.k8s.io/v1beta1' && request.requestKind.version == 'v1alpha2' && false"
    validate(plane, "p", match, validations=check(text))
    body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    answer = plane.ask(f"POST {groups}", body)
    assert answer.refusal[2].endswith(f"failed expression: {text}")
