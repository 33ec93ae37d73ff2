"""Expressions of admission and of policies, without a server (interfaces.md 6.10, 6.11, 6.13)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import cel
from kube_rules.admission import expressions
from kube_rules.admission.mutating_policies import PolicyTypeError, made_patch
from kube_rules.admission.validating_policies import policy_failures
from kube_rules.cel import schema_rules
from kube_rules.validation.admission_policies import TEXT_LIMIT, mutating_policy, validating_binding, validating_policy

Json = dict[str, Any]
LIMIT = 20_000_000


def _values(obj: Any) -> Json:
    return {"object": obj, "oldObject": None, "request": {"operation": "CREATE"}, "params": None}


def _failures(spec: Json, obj: Any = None, limit: int = LIMIT) -> list[str]:
    found = policy_failures(spec, _values(obj), expressions.CostBudget(limit))
    return [failure.message for failure in found]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("object.a", "must evaluate to bool but got dyn"),
        ("1", "must evaluate to bool but got int"),
        ("request.object == null", "undefined field 'object'"),
        ("request.userInfo.username == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("namespaceObject.metadata.generation > 'a'", "applied to '(int, string)'"),
        ("authorizer.requestResource", "must evaluate to bool but got kubernetes.authorization.ResourceCheck"),
        ("authorizer.other.allowed()", "undefined field 'other'"),
        ("authorizer.path('/').allowed()", "found no matching overload for 'allowed'"),
        ("params == null", "undeclared reference to 'params'"),
        ("variables.a", "undeclared reference to 'variables'"),
        ("Object{a: 1}.a == 1", "undeclared reference to 'Object'"),
        ("jsonpatch.escapeKey('a') == 'a'", "undeclared reference to 'jsonpatch.escapeKey'"),
    ],
)
def test_expressions_have_the_types_of_a_request(text: str, said: str) -> None:
    with pytest.raises(expressions.ExpressionError) as error:
        expressions.checked(text, expressions.forms(), ("bool",))
    assert said in str(error.value)


def test_variable_is_computed_once_and_when_it_is_read() -> None:
    """The list costs 12 to build, with its addition; reading it again costs the reading."""
    variables = [{"name": "l", "expression": "[1, 2, 3]"}, {"name": "never", "expression": "object.nowhere"}]
    budget = expressions.CostBudget(1000)
    activation = expressions.Activation(_values({}), variables, budget)
    assert activation.value("variables.l.size() == 3") is True
    first = 1000 - budget.left
    assert activation.value("variables.l.size() == 3") is True
    assert 1000 - budget.left - first == first - 10
    assert activation.value("has(variables.never)") is True


def test_variable_that_fails_is_an_error_of_the_expression() -> None:
    spec = {
        "variables": [{"name": "x", "expression": "object.nowhere"}],
        "validations": [{"expression": "variables.x == 1"}, {"expression": "variables.x == 1 || true"}],
    }
    said = "no such key: nowhere"
    assert _failures(spec, {}) == [
        "expression 'variables.x == 1' resulted in error: composited variable \"x\" fails to evaluate: " + said
    ]
    assert _failures({**spec, "failurePolicy": "Ignore"}, {}) == []


def test_failures_come_in_the_order_of_the_validations() -> None:
    spec = {
        "validations": [
            {"expression": "false", "message": "first"},
            {"expression": "object.x"},
            {"expression": "true", "message": "never"},
            {"expression": "false", "messageExpression": "'th' + 'ird'"},
        ]
    }
    assert _failures(spec, {}) == ["first", "expression 'object.x' resulted in error: no such key: x", "third"]


def test_budget_around_ends_all() -> None:
    spec = {"validations": [{"expression": "[1, 2, 3].all(x, x > 0)"}] * 100}
    assert _failures(spec) == []
    assert _failures(spec, limit=1000) == [schema_rules.OVER_BUDGET]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("Object{}", {}),
        ("Object{a: Object.a{b: [1u, 2u]}, ?c: optional.none(), ?d: optional.of('x')}", {"a": {"b": [1, 2]}, "d": "x"}),
        ("Object{m: {'a': 1.5}, n: null}", {"m": {"a": 1.5}, "n": None}),
        ("Object{t: timestamp('2026-01-01T00:00:00Z'), d: duration('90s')}", {"t": "2026-01-01T00:00:00Z", "d": "90s"}),
        ("object.big ? Object{a: Object.a{}} : Object{}", {"a": {}}),
    ],
)
def test_configurations_are_json(text: str, made: Json) -> None:
    expressions.checked(text, expressions.forms(), ("Object",), patches=True)
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
    assert made_patch({}, mutation, _values({"big": True}), expressions.CostBudget(LIMIT)) == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Object{a: Object.b{}}", 'unexpected type name "Object.b", expected "Object.a"'),
        ("Object{a: [Object.a{b: Object.a.c{}}]}", 'unexpected type name "Object.a.c", expected "Object.a.b"'),
        ("Object{a: {1: 2}}", "a key of a map is no string"),
        ("Object{a: quantity('1')}", "a value of type kubernetes.Quantity is none of JSON"),
        ("Object{a: [0.0 / 0.0]}", "json: unsupported value: nan"),
        ("Object{a: 1.0 / 0.0}", "json: unsupported value: inf"),
    ],
)
def test_configuration_of_other_types_is_refused(text: str, said: str) -> None:
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
    with pytest.raises(PolicyTypeError) as error:
        made_patch({}, mutation, _values({}), expressions.CostBudget(LIMIT))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("nested", "said"),
    [
        ("[variables.v{}, variables.v{}]", "the patch is larger than 3145728 bytes"),
        ("{{'x': variables.v{}, 'y': variables.v{}}}", "the patch is larger than 3145728 bytes"),
        ("[variables.v{}]", "the patch is nested deeper than"),
    ],
)
def test_patch_that_stands_in_itself_is_bounded(nested: str, said: str) -> None:
    """interfaces.md 6.13: variables that hold the one before them twice make 2**300 values."""
    variables = [{"name": f"v{n}", "expression": nested.format(n - 1, n - 1) if n else "'x'"} for n in range(300)]
    made = ", ".join(f"JSONPatch{{op: 'add', path: '/a', value: variables.v{n}}}" for n in range(300))
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{made}]"}}
    with pytest.raises(PolicyTypeError, match=said):
        made_patch({"variables": variables}, mutation, _values({}), expressions.CostBudget(LIMIT))


def test_messages_are_equal_only_to_those_of_their_type() -> None:
    for text, equal in (("Object{a: 1} == Object{a: 1}", True), ("Object{a: 1} == Object.b{a: 1}", False)):
        program = cel.compiled(cel.parse(text), ())
        assert program.evaluate({}, cel.Meter(1000)) is equal


@pytest.mark.parametrize("text", ["Object{a: 1", "Object{a 1}", "Object{a: 1, a: 2}", "f(){a: 1}", "Object{'a': 1}"])
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(cel.CelSyntaxError):
        cel.parse(text)


def _policy(**spec: Any) -> Json:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}
    return {"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [rule]}, **spec}}


GOOD = [{"expression": "true"}]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (_policy(), "spec.validations: Required value: validations or auditAnnotations must contain"),
        (_policy(validations=GOOD, matchConstraints=None), "spec.matchConstraints: Required value"),
        (_policy(validations=GOOD, matchConstraints={}), "spec.matchConstraints.resourceRules: Required value"),
        (_policy(validations=GOOD, failurePolicy="Maybe"), 'failurePolicy: Unsupported value: "Maybe"'),
        (_policy(validations=GOOD, paramKind={"apiVersion": "a/b/c", "kind": "K"}), "unexpected GroupVersion string"),
        (_policy(validations=GOOD, paramKind={"apiVersion": "v1", "kind": "A b"}), "may have mixed case, but should"),
        (_policy(validations=[{"expression": " "}]), "Required value: expression is not specified"),
        (_policy(validations=[{"expression": "true", "message": "a\nb"}]), "message must not contain line breaks"),
        (_policy(validations=[{"expression": "true", "reason": "NotFound"}]), 'reason: Unsupported value: "NotFound"'),
        (_policy(validations=[{"expression": "true", "messageExpression": "1"}]), "must evaluate to string but got"),
        (_policy(validations=GOOD, variables=[{"name": "a-b", "expression": "1"}]), "not a valid CEL identifier"),
        (_policy(validations=GOOD, variables=[{"name": "in", "expression": "1"}]), "not a valid CEL identifier"),
        (_policy(validations=[{"expression": "variables.b"}], variables=[{"name": "a", "expression": "true"}]),
         "undefined field 'b'"),
        (_policy(validations=GOOD, variables=[{"name": "a", "expression": "variables.b == 1"},
                                              {"name": "b", "expression": "1"}]),
         "undeclared reference to 'variables'"),
        (_policy(auditAnnotations=[{"key": "a", "valueExpression": "1"}]), "must evaluate to one of [string null]"),
        (_policy(auditAnnotations=[{"key": "a b", "valueExpression": "'x'"}]), "auditAnnotations[0].key: Invalid"),
        (_policy(auditAnnotations=[{"key": f"k{n}", "valueExpression": "'x'"} for n in range(21)]),
         "must not have more than 20 auditAnnotations"),
        (_policy(validations=GOOD, matchConditions=[{"name": "a", "expression": "variables.x"}],
                 variables=[{"name": "x", "expression": "true"}]), "undeclared reference to 'variables'"),
        (_policy(validations=GOOD * 5000), "where each counts 32 more"),
        (_policy(validations=[{"expression": "'" + "x" * 50_000 + "' != ''"}] * 5),
         f"expressions of a policy may have at most {TEXT_LIMIT} characters together"),
    ],
)  # fmt: skip
def test_policies_that_cannot_work_are_refused(policy: Json, said: str) -> None:
    found = [f"{error.path}: {error.message}" for error in validating_policy(policy, "")]
    assert [text for text in found if said in text], found


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"validationActions": ["Deny"]}, "spec.policyName: Required value"),
        ({"policyName": "p"}, "spec.validationActions: Required value"),
        ({"policyName": "p", "validationActions": ["Deny", "Warn"]}, "must not contain both Deny and Warn"),
        ({"policyName": "p", "validationActions": ["Deny", "Deny"]}, "spec.validationActions[1]: Duplicate value"),
        ({"policyName": "p", "validationActions": ["Log"]}, 'Unsupported value: "Log"'),
        ({"policyName": "p", "validationActions": ["Deny"], "paramRef": {}}, "one of name or selector must be"),
        (
            {"policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "a", "selector": {}}},
            "name and selector are mutually exclusive",
        ),
        (
            {"policyName": "p", "validationActions": ["Deny"], "matchResources": {"resourceRules": [{}]}},
            "spec.matchResources.resourceRules[0].operations: Required value",
        ),
    ],
)
def test_bindings_that_cannot_work_are_refused(spec: Json, said: str) -> None:
    found = [f"{error.path}: {error.message}" for error in validating_binding({"spec": spec}, "")]
    assert [text for text in found if said in text], found


def test_mutation_has_the_patch_of_its_type_alone() -> None:
    both = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}, "applyConfiguration": {"expression": "1"}}
    found = list(mutating_policy(_policy(mutations=[both], reinvocationPolicy="Never"), ""))
    assert [error.path for error in found] == ["spec.mutations[0].applyConfiguration"]
