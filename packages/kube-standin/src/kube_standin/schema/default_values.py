"""The defaults of a definition's schemas: each must be valid by its own schema.

Rules: k8s.io/apiextensions-apiserver, apiserver/schema/defaulting (ValidateDefaults); interfaces.md 6.15.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.step_budget import StepBudget
from kube_standin.schema.structural import IMPLICIT, Structural

_VALUE = "value"


def default_problems(definition: Json, old: Json | None, budget: StepBudget) -> list[FieldError]:
    """Return the errors of the defaults of a new definition, or of schemas that an update changes."""
    versions = definition["spec"].get("versions") or []
    before = [version.get("schema") for version in ((old or {}).get("spec") or {}).get("versions") or ()]
    same = all(version.get("schema") == versions[0].get("schema") for version in versions)
    problems: list[FieldError] = []
    for index, version in enumerate(versions[:1] if same else versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not isinstance(schema, dict) or version.get("schema") in before:
            continue
        place = "spec.validation.openAPIV3Schema" if same else f"spec.versions[{index}].schema.openAPIV3Schema"
        for path, inner in _with_defaults(schema, place, root=True):
            problems.extend(_problems(inner, f"{path}.default", budget))
    return problems


def _with_defaults(schema: Json, path: str, *, root: bool) -> Iterator[tuple[str, Json]]:
    if schema.get("default") is not None:
        yield path, schema
    resource = root or schema.get("x-kubernetes-embedded-resource")
    for name, inner in (schema.get("properties") or {}).items():
        if isinstance(inner, dict) and not (resource and name in IMPLICIT):
            yield from _with_defaults(inner, f"{path}.properties[{name}]", root=False)
    if isinstance(schema.get("items"), dict):
        yield from _with_defaults(schema["items"], f"{path}.items", root=False)


def _problems(schema: Json, path: str, budget: StepBudget) -> Iterator[FieldError]:
    value: Any = schema["default"]
    structural = Structural({"type": "object", "properties": {_VALUE: schema}})
    _, unknown, problems = structural.decode({_VALUE: value})
    if unknown:
        yield fe.invalid(path, value, "must not have unknown fields")
    elif problems:
        yield fe.invalid(path, value, problems[0].message)
    else:
        for error in structural.validate({_VALUE: value}, None, budget):
            yield FieldError(f"{path}{error.path.removeprefix(_VALUE)}", error.message, error.reason)
