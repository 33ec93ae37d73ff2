"""Rules of admission policies and their bindings (kubernetes, pkg/apis/admissionregistration/validation)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.validation import conditions, names, selectors, webhooks
from kube_rules.validation import rows as r

if TYPE_CHECKING:
    from kube_rules import cel

TEXT_LIMIT = 160 * 1024
"""Maximum length of all expressions of a policy, in characters plus `EXPRESSION_WEIGHT` for each."""
EXPRESSION_WEIGHT = 32
_MOST_ANNOTATIONS = 20
_LONGEST_ANNOTATION = 5 * 1024
_ACTIONS = ("Audit", "Deny", "Warn")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_BOTH = "validations or auditAnnotations must contain at least one item"
_EXCLUSIVE = "name and selector are mutually exclusive"


def _group_version(text: str, path: str) -> r.Found:
    if not text:
        yield fe.required(path)
        return
    if text.count("/") > 1:
        yield fe.invalid(path, text, f"unexpected GroupVersion string: {text}")
        return
    group, _, version = text.rpartition("/")
    if group:
        for message in names.subdomain(group):
            yield fe.invalid(path, group, message)
    if not version:
        yield fe.invalid(path, text, "version must be specified")
    else:
        for message in names.dns1035_label(version):
            yield fe.invalid(path, version, message)


def _param_kind(kind: Json, path: str) -> r.Found:
    yield from _group_version(kind.get("apiVersion", ""), f"{path}.apiVersion")
    name = kind.get("kind", "")
    if not name:
        yield fe.required(f"{path}.kind")
        return
    for message in names.dns1035_label(name.lower()):
        yield fe.invalid(f"{path}.kind", name, f"may have mixed case, but should otherwise match: {message}")


def _resource_names(rule: Json, path: str) -> r.Found:
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        place = f"{path}.resourceNames[{index}]"
        for message in names.path_segment(name):
            yield fe.invalid(place, name, message)
        if name in seen:
            yield fe.duplicate(place, name)
        seen.add(name)


_NAMED_RULE = (_resource_names, webhooks.rule)
_match: r.Check = r.all_of(
    r.enum("matchPolicy", ("Equivalent", "Exact"), missing=None),
    r.given("namespaceSelector", selectors.label_selector),
    r.given("objectSelector", selectors.label_selector),
    r.listed("resourceRules", *_NAMED_RULE),
    r.listed("excludeResourceRules", *_NAMED_RULE),
)


def _constraints(spec: Json, path: str) -> r.Found:
    match = spec.get("matchConstraints")
    if match is None:
        yield fe.required(f"{path}.matchConstraints")
        return
    yield from _match(match, f"{path}.matchConstraints")
    if not match.get("resourceRules"):
        yield fe.required(f"{path}.matchConstraints.resourceRules")


def _no_deletes(spec: Json, path: str) -> r.Found:
    """Refuse DELETE: mutation of a deleted object has no effect."""
    operations = tuple(name for name in webhooks.OPERATIONS if name != "DELETE")
    for index, rule in enumerate((spec.get("matchConstraints") or {}).get("resourceRules") or ()):
        for at, operation in enumerate(rule.get("operations") or ()):
            if operation == "DELETE":
                place = f"{path}.matchConstraints.resourceRules[{index}].operations[{at}]"
                yield fe.not_supported(place, operation, operations)


class _Expressions:
    """The expressions of one policy, in order: a variable is visible to later expressions."""

    def __init__(self, spec: Json) -> None:
        self._params = spec.get("paramKind") is not None
        self._variables: dict[str, cel.ValueForm] = {}
        self._read = 0

    @staticmethod
    def reserved(name: str) -> bool:
        """Return whether the name is reserved and cannot be a variable."""
        from kube_rules.cel.syntax import RESERVED

        return name in RESERVED or name in ("true", "false", "null", "in")

    def check(
        self,
        text: str,
        path: str,
        wanted: Sequence[str] = (),
        *,
        authorizer: bool = True,
        patches: bool = False,
        variable: str = "",
    ) -> r.Found:
        """Return the errors of an expression; a variable is declared for later expressions."""
        from kube_rules import cel
        from kube_rules.admission import expressions  # a plan starts without CEL

        weight = len(text) + EXPRESSION_WEIGHT
        self._read += weight
        if self._read > TEXT_LIMIT:
            message = (
                f"expressions of a policy may have at most {TEXT_LIMIT} characters together, where each counts "
                f"{EXPRESSION_WEIGHT} more"
            )
            return (fe.forbidden(path, message),) if self._read - weight <= TEXT_LIMIT else ()
        variables = expressions.forms(params=self._params, authorizer=authorizer)
        if self._variables:
            variables["variables"] = cel.ValueForm("object", fields=self._variables)
        form, result = cel.UNKNOWN, list[FieldError]()
        try:
            form = expressions.checked(text, variables, wanted, patches=patches)
        except expressions.ExpressionError as error:
            result.append(fe.invalid(path, text, str(error)))
        if variable:
            self._variables[variable] = form
        return result


def _variables(spec: Json, path: str, expressions: _Expressions) -> r.Found:
    for index, variable in enumerate(spec.get("variables") or ()):
        place = f"{path}.variables[{index}]"
        name, text = variable.get("name", ""), variable.get("expression", "")
        if not name.strip():
            yield fe.required(f"{place}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or expressions.reserved(name):
            yield fe.invalid(f"{place}.name", name, "name is not a valid CEL identifier")
        if not text.strip():
            yield fe.required(f"{place}.expression", "expression is not specified")
        else:
            yield from expressions.check(text, f"{place}.expression", variable=name)


def _validation(validation: Json, path: str, expressions: _Expressions) -> r.Found:
    text, message = validation.get("expression", ""), validation.get("message") or ""
    expression = validation.get("messageExpression") or ""
    if not text.strip():
        yield fe.required(f"{path}.expression", "expression is not specified")
    else:
        yield from expressions.check(text, f"{path}.expression", ("bool",))
    if expression and not expression.strip():
        yield fe.invalid(f"{path}.messageExpression", expression, "must be non-empty if specified")
    elif expression:
        yield from expressions.check(expression, f"{path}.messageExpression", ("string",), authorizer=False)
    if message and not message.strip():
        yield fe.invalid(f"{path}.message", message, "message must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield fe.invalid(f"{path}.message", message, "message must not contain line breaks")
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        yield fe.not_supported(f"{path}.reason", reason, _REASONS)


def _annotations(policy: Json, spec: Json, path: str, expressions: _Expressions) -> r.Found:
    place, items = f"{path}.auditAnnotations", spec.get("auditAnnotations") or ()
    if len(items) > _MOST_ANNOTATIONS:
        yield fe.invalid(place, items, f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations")
    seen: set[str] = set()
    for index, annotation in enumerate(items):
        key, text = annotation.get("key", ""), (annotation.get("valueExpression") or "").strip()
        for message in names.qualified(f"{policy['metadata'].get('name', '')}/{key}"):
            yield fe.invalid(f"{place}[{index}].key", key, message)
        if not text:
            yield fe.required(f"{place}[{index}].valueExpression", "valueExpression is not specified")
        elif len(text.encode("utf-8", "replace")) > _LONGEST_ANNOTATION:
            detail = f"must not exceed {_LONGEST_ANNOTATION} bytes in length"
            yield fe.required(f"{place}[{index}].valueExpression", detail)
        else:
            yield from expressions.check(text, f"{place}[{index}].valueExpression", ("string", "null"))
        if key in seen:
            yield fe.duplicate(f"{place}[{index}].key", key)
        seen.add(key)


def _head(spec: Json) -> r.Check:
    """Return the rules that both kinds of policies share."""
    return r.all_of(
        r.enum("failurePolicy", ("Fail", "Ignore"), missing=None),
        r.given("paramKind", _param_kind),
        _constraints,
        webhooks.match_conditions(params=spec.get("paramKind") is not None),
    )


def validating_policy(policy: Json, path: str) -> r.Found:
    """Check a ValidatingAdmissionPolicy."""
    spec, place = policy.get("spec") or {}, r.at(path, "spec")
    expressions = _Expressions(spec)
    yield from _head(spec)(spec, place)
    yield from _variables(spec, place, expressions)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        yield fe.required(f"{place}.validations", _BOTH)
        yield fe.required(f"{place}.auditAnnotations", _BOTH)
        return
    for index, validation in enumerate(spec.get("validations") or ()):
        yield from _validation(validation, f"{place}.validations[{index}]", expressions)
    yield from _annotations(policy, spec, place, expressions)


_PATCHES = {
    "ApplyConfiguration": ("applyConfiguration", ("Object",)),
    "JSONPatch": ("jsonPatch", ("list(JSONPatch)", "list(dyn)")),
}


def _mutation(mutation: Json, path: str, expressions: _Expressions) -> r.Found:
    kind = mutation.get("patchType", "")
    if not kind:
        yield fe.required(f"{path}.patchType")
        return
    if kind not in _PATCHES:
        yield fe.not_supported(f"{path}.patchType", kind, tuple(_PATCHES))
        return
    for name, (field, wanted) in _PATCHES.items():
        patch = mutation.get(field)
        if name != kind:
            if patch is not None:
                yield fe.forbidden(f"{path}.{field}", f"must not be specified when patchType is {kind}")
        elif patch is None:
            yield fe.required(f"{path}.{field}", f"must be specified when patchType is {kind}")
        elif not (patch.get("expression") or "").strip():
            yield fe.required(f"{path}.{field}.expression", "expression is not specified")
        else:
            yield from expressions.check(patch["expression"], f"{path}.{field}.expression", wanted, patches=True)


def mutating_policy(policy: Json, path: str) -> r.Found:
    """Check a MutatingAdmissionPolicy."""
    spec, place = policy.get("spec") or {}, r.at(path, "spec")
    expressions = _Expressions(spec)
    yield from _head(spec)(spec, place)
    yield from _no_deletes(spec, place)
    yield from _variables(spec, place, expressions)
    if not spec.get("mutations"):
        yield fe.required(f"{place}.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(spec.get("mutations") or ()):
        yield from _mutation(mutation, f"{place}.mutations[{index}]", expressions)
    yield from _REINVOCATION(spec, place)


def _reinvocation(spec: Json, path: str) -> r.Found:
    if not spec.get("reinvocationPolicy"):
        yield fe.required(f"{path}.reinvocationPolicy")


_REINVOCATION: r.Check = r.all_of(_reinvocation, r.enum("reinvocationPolicy", ("IfNeeded", "Never", ""), missing=None))


def _param_ref(ref: Json, path: str) -> r.Found:
    name, selector = ref.get("name", ""), ref.get("selector")
    if name:
        for message in names.path_segment(name):
            yield fe.invalid(f"{path}.name", name, message)
        if selector is not None:
            yield fe.forbidden(f"{path}.name", _EXCLUSIVE)
    if selector is not None:
        yield from selectors.label_selector(selector, f"{path}.selector")
        if name:
            yield fe.forbidden(f"{path}.selector", _EXCLUSIVE)
    if not name and selector is None:
        yield fe.required(path, "one of name or selector must be specified")
    action = ref.get("parameterNotFoundAction")
    if not action:
        yield fe.required(f"{path}.parameterNotFoundAction")
    elif action not in ("Allow", "Deny"):
        yield fe.not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _actions(spec: Json, path: str) -> r.Found:
    place, items = f"{path}.validationActions", spec.get("validationActions") or ()
    seen: set[str] = set()
    for index, action in enumerate(items):
        if action not in _ACTIONS:
            yield fe.not_supported(f"{place}[{index}]", action, _ACTIONS)
        if action in seen:
            yield fe.duplicate(f"{place}[{index}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        yield fe.invalid(place, items, detail)
    if not seen:
        yield fe.required(place, "at least one validation action is required")


_BINDING = (
    r.wanted("policyName", names.subdomain),
    r.given("paramRef", _param_ref),
    r.given("matchResources", _match),
)
mutating_binding: r.Check = r.below("spec", *_BINDING)
"""Check a MutatingAdmissionPolicyBinding."""
validating_binding: r.Check = r.below("spec", *_BINDING, _actions)
"""Check a ValidatingAdmissionPolicyBinding."""


def _warnings(checking: Json, path: str) -> r.Found:
    for index, warning in enumerate(checking.get("expressionWarnings") or ()):
        for field in ("warning", "fieldRef"):
            if not (warning.get(field) or "").strip():
                yield fe.required(f"{path}.expressionWarnings[{index}].{field}")


status: r.Check = r.below("status", r.given("typeChecking", _warnings), conditions.conditions)
"""Check the status of a ValidatingAdmissionPolicy."""
