"""Type checking: a validating policy's expressions are checked against the schemas of the matched kinds.

A mistake is a warning in the status, never a refusal: the policy still applies. Rules and messages: k8s.io/apiserver,
admission/plugin/policy/validating (typechecking.go); interfaces.md 6.14.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kube_rules import cel
from kube_rules.admission import expressions
from kube_rules.json import Json
from kube_rules.schema.definitions import OBJECT_META, definition_names, structure
from kube_rules.validation.admission_policies import EXPRESSION_WEIGHT
from kube_standin.kinds import KindTable, ServedKind

MOST_TYPES = 10
"""The largest number of kinds for which a policy is checked."""
MOST_TEXT = 32 * 1024
"""The characters of expressions to check, once for each kind: some tenths of a second on the event loop."""
_ANYTHING: Json = {"x-kubernetes-int-or-string": True}
"""The schema of values of any type."""


def expression_warnings(spec: Json, kinds: KindTable) -> list[Json]:
    """Return the warnings about the validations of a policy for its status."""
    most = max(MOST_TEXT // max(_weight(spec), 1), 1)
    forms = [(row, _variables(spec, row, kinds)) for row in _matched_kinds(spec, kinds)[:most]]
    result: list[Json] = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            text = validation.get(field)
            warnings = [mistake for row, variables in forms if text and (mistake := _mistake(row, variables, text))]
            if warnings:
                place = f"spec.validations[{index}].{field}"
                result.append({"fieldRef": place, "warning": "\n".join(warnings)})
    return result


def _weight(spec: Json) -> int:
    """Return the characters of a policy's expressions, as validation counts them."""
    items = [*(spec.get("variables") or ()), *(spec.get("validations") or ())]
    texts = (item.get(field) for item in items for field in ("expression", "messageExpression"))
    return sum(len(text) + EXPRESSION_WEIGHT for text in texts if text)


def _variables(spec: Json, row: ServedKind, kinds: KindTable) -> dict[str, cel.ValueForm]:
    """Return the types of the variables in a policy's expressions for objects of a kind."""
    forms = expressions.forms(object_form=_form(row))
    params = _param_form(spec, kinds)
    if params is not None:
        forms["params"] = params
    fields: dict[str, cel.ValueForm] = {}
    forms["variables"] = cel.ValueForm("object", fields=fields)
    for variable in spec.get("variables") or ():
        try:
            fields[variable.get("name", "")] = expressions.checked(variable.get("expression", ""), forms)
        except expressions.ExpressionError:
            fields[variable.get("name", "")] = cel.UNKNOWN
    return forms


def _mistake(row: ServedKind, variables: dict[str, cel.ValueForm], text: str) -> str:
    """Return the mistake in an expression for objects of a kind, "" for none."""
    try:
        expressions.checked(text, variables)
    except expressions.ExpressionError as error:
        group = f"{row.group}/{row.version}"
        return f"{group}, Kind={row.kind}: {str(error).removeprefix('compilation failed: ')}\n"
    return ""


def _matched_kinds(spec: Json, kinds: KindTable) -> list[ServedKind]:
    """Return the kinds that the rules name without wildcards, in order."""
    matched: dict[tuple[str, str, str], ServedKind] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        if any("*" in name for field in ("apiGroups", "apiVersions") for name in rule.get(field) or ()):
            continue
        plurals = {name for name in rule.get("resources") or () if "*" not in name and "/" not in name}
        for row in kinds:
            matches = row.group in (rule.get("apiGroups") or ()) and row.version in (rule.get("apiVersions") or ())
            if matches and row.plural in plurals:
                matched[row.gvk] = row
    return [matched[key] for key in sorted(matched)][:MOST_TYPES]


def _param_form(spec: Json, kinds: KindTable) -> cel.ValueForm | None:
    kind = spec.get("paramKind")
    if not kind:
        return None
    row = kinds.of(kind.get("apiVersion", ""), kind.get("kind", ""))
    return cel.UNKNOWN if row is None else _form(row)


def _form(row: ServedKind) -> cel.ValueForm:
    """Return the type of the objects of a kind."""
    if row.definition is None:
        name = definition_names().get((row.api_version, row.kind))
        return cel.UNKNOWN if name is None else _built_in(name)
    schema = (row.definition.get("schema") or {}).get("openAPIV3Schema") or {}
    heads = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _whole(OBJECT_META, ())}
    return cel.declared({**schema, "type": "object", "properties": {**(schema.get("properties") or {}), **heads}})


@lru_cache(maxsize=64)
def _built_in(name: str) -> cel.ValueForm:
    return cel.declared(_whole(name, ()))


def _whole(name: str, around: tuple[str, ...]) -> Json:
    """Return a packed definition with its references resolved; a recursive reference has any type."""
    body = structure()[name]
    if name in around or "type" not in body:
        return _ANYTHING
    return _filled(body, (*around, name))


def _filled(schema: Json, around: tuple[str, ...]) -> Json:
    if "$ref" in schema:
        return _whole(schema["$ref"], around)
    if schema.get("format") == "int-or-string":
        return _ANYTHING
    return dict(_filled_fields(schema, around))


def _filled_fields(schema: Json, around: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for word, value in schema.items():
        if word == "properties":
            yield word, {key: _filled(inner, around) for key, inner in value.items()}
        elif word in ("items", "additionalProperties") and isinstance(value, dict):
            yield word, _filled(value, around)
        else:
            yield word, value
