"""What is refused in a CustomResourceDefinition, with upstream's paths and texts (apiextensions validation)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from kube_rules.defaults import apply_defaults
from kube_rules.validation import validate_create
from kube_standin.kinds import BUILTIN
from tests.server.definitions import Json, definition, fields, version

KIND = next(kind for kind in BUILTIN if kind.kind == "CustomResourceDefinition")
AT = "spec.validation.openAPIV3Schema"
TEXT: Json = {"type": "string"}
SERVICE: Json = {"service": {"namespace": "n", "name": "s"}}
Change = Callable[[Json], object]


def findings(obj: Json) -> list[tuple[str, str]]:
    """Path and text of each finding, without the value."""
    apply_defaults(KIND, obj)
    return [(error.path, error.message.rpartition(": ")[2]) for error in validate_create(KIND, obj)]


def of_schema(schema: Json) -> list[tuple[str, str]]:
    return [(path.removeprefix(AT), text) for path, text in findings(definition(version(schema=schema)))]


def item(**words: Any) -> Json:
    return {"type": "object", "x-kubernetes-map-type": "atomic", **words}


EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}
KEYED = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
OF_KEYED = "this property is in x-kubernetes-list-map-keys, so it "


@pytest.mark.parametrize(
    ("place", "path", "text"),
    [
        ({"type": "string", "id": "x"}, ".id", "id is not supported"),
        (
            {"type": "object", "patternProperties": {"a": TEXT}},
            ".patternProperties",
            "patternProperties is not supported",
        ),
        (
            {**TEXT, "x-kubernetes-preserve-unknown-fields": False},
            ".x-kubernetes-preserve-unknown-fields",
            "must be true or undefined",
        ),
        (
            {**EMBEDDED},
            ".properties",
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ),
        ({**EMBEDDED, "properties": {"kind": {"type": "integer"}}}, ".properties[kind].type", "must be string"),
        ({**EMBEDDED, "properties": {"metadata": TEXT}}, ".properties[metadata].type", "must be object"),
        (
            {"type": "string", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            ".type",
            "must be object if x-kubernetes-embedded-resource is true",
        ),
        (
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            ".x-kubernetes-preserve-unknown-fields",
            "must be false if x-kubernetes-int-or-string is true",
        ),
        ({**TEXT, "x-kubernetes-map-type": "atomic"}, ".type", "must be object if x-kubernetes-map-type is specified"),
        ({**TEXT, "x-kubernetes-list-type": "atomic"}, ".type", "must be array if x-kubernetes-list-type is specified"),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
            ".items.x-kubernetes-map-type",
            "must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            {"type": "array", "items": {**TEXT, "nullable": True}, "x-kubernetes-list-type": "set"},
            ".items.nullable",
            "cannot be nullable when x-kubernetes-list-type is set",
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-map-keys": ["k"]},
            ".x-kubernetes-list-type",
            "must be map if x-kubernetes-list-map-keys is non-empty",
        ),
        ({**KEYED, "items": TEXT}, ".items.type", "must be object if parent array's x-kubernetes-list-type is map"),
        (
            {**KEYED, "items": {**fields(j=TEXT), "required": ["j"]}},
            ".x-kubernetes-list-map-keys",
            "entries must all be names of item properties",
        ),
        (
            {**KEYED, "items": fields(k=TEXT)},
            ".items.properties[k].default",
            OF_KEYED + "must have a default or be a required property",
        ),
        (
            {**KEYED, "items": {**fields(k={**TEXT, "nullable": True}), "required": ["k"]}},
            ".items.properties[k].nullable",
            OF_KEYED + "cannot be nullable",
        ),
        (
            {**KEYED, "items": {**fields(k={"type": "object"}), "required": ["k"]}},
            ".items.properties[k].type",
            "must be a scalar type if parent array's x-kubernetes-list-type is map",
        ),
        (
            {**TEXT, "x-kubernetes-validations": [{"rule": "true", "message": " "}]},
            ".x-kubernetes-validations[0].message",
            "must be non-empty if specified",
        ),
        (
            {**TEXT, "x-kubernetes-validations": [{"rule": "true\n&& true"}]},
            ".x-kubernetes-validations[0].message",
            "message must be specified if rule contains line breaks",
        ),
        (
            {**TEXT, "x-kubernetes-validations": [{"rule": "true", "message": "a\nb"}]},
            ".x-kubernetes-validations[0].message",
            "must not contain line breaks",
        ),
        (
            {**TEXT, "x-kubernetes-validations": [{"rule": "true", "messageExpression": " "}]},
            ".x-kubernetes-validations[0].messageExpression",
            "messageExpression must be non-empty if specified",
        ),
    ],
)
def test_place_of_a_schema(place: Json, path: str, text: str) -> None:
    assert of_schema(fields(a=place)) == [(f".properties[a]{path}", text)]


@pytest.mark.parametrize(
    ("words", "path", "text"),
    [
        ({"nullable": True}, ".nullable", "nullable cannot be true at the root"),
        ({"additionalProperties": TEXT}, ".additionalProperties", "must not be used at the root"),
        (
            {"properties": {"kind": {**TEXT, "default": "x"}}},
            ".properties[kind].default",
            "must not be set in top-level kind",
        ),
        (
            {"properties": {"metadata": fields(labels={"type": "object"})}},
            ".properties[metadata]",
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        ({"properties": {"metadata": TEXT}}, ".properties[metadata].type", "must be object"),
    ],
)
def test_root_of_a_schema(words: Json, path: str, text: str) -> None:
    assert of_schema({"type": "object", **words}) == [(path, text)]


def test_what_a_schema_may_have() -> None:
    keyed = {**KEYED, "items": {**fields(k=TEXT, d={**TEXT, "default": "x"}), "required": ["k"]}}
    of_set = {"type": "array", "x-kubernetes-list-type": "set", "items": item()}
    resource = {**EMBEDDED, "properties": {"spec": {"type": "object"}}}
    metadata = fields(name={**TEXT, "maxLength": 5})
    assert of_schema(fields(keyed=keyed, of_set=of_set, resource=resource, metadata=metadata)) == []


def scaled(**paths: str) -> Change:
    good = {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"}
    return lambda spec: spec["versions"][0].update(subresources={"scale": {**good, **paths}})


def column(**words: str) -> Change:
    good = {"name": "A", "type": "string", "jsonPath": ".spec.a"}
    return lambda spec: spec["versions"][0].update(additionalPrinterColumns=[{**good, **words}])


def selected(*paths: str) -> Change:
    schema = fields(spec=fields(**{f"a{number}": TEXT for number in range(9)}, o={"type": "object"}))

    def change(spec: Json) -> None:
        spec["versions"][0].update(
            schema={"openAPIV3Schema": schema}, selectableFields=[{"jsonPath": path} for path in paths]
        )

    return change


def converted(strategy: str = "Webhook", **webhook: Any) -> Change:
    good = {"clientConfig": {"url": "https://h/x"}, "conversionReviewVersions": ["v1"]}
    made = {key: value for key, value in {**good, **webhook}.items() if value is not None}
    return lambda spec: spec.update(conversion={"strategy": strategy, "webhook": made})


VERSION, CONFIG = "spec.versions[0]", "spec.conversion.webhookClientConfig"
FORM = "; desired format: https://host[/path]"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            scaled(specReplicasPath="spec.r"),
            [(f"{VERSION}.subresources.scale.specReplicasPath", "must be a simple json path starting with .")],
        ),
        (
            scaled(statusReplicasPath=".spec.r"),
            [(f"{VERSION}.subresources.scale.statusReplicasPath", "should be a json path under .status")],
        ),
        (
            scaled(labelSelectorPath=".x"),
            [
                (
                    f"{VERSION}.subresources.scale.labelSelectorPath",
                    "should be a json path under either .spec or .status",
                )
            ],
        ),
        (
            column(jsonPath="spec.a"),
            [(f"{VERSION}.additionalPrinterColumns[0].JSONPath", "must be a simple json path starting with .")],
        ),
        (
            column(format="x"),
            [
                (
                    f"{VERSION}.additionalPrinterColumns[0].format",
                    "must be one of byte,date,date-time,double,float,int32,int64,password",
                )
            ],
        ),
        (
            lambda spec: spec["versions"][0].update(deprecationWarning="x"),
            [(f"{VERSION}.deprecationWarning", "can only be set for deprecated versions")],
        ),
        (
            lambda spec: spec["versions"][0].update(deprecated=True, deprecationWarning=""),
            [(f"{VERSION}.deprecationWarning", "must not be an empty string")],
        ),
        (selected(".spec.a1"), []),
        (selected(".spec.x"), [("spec.selectableFields[0].jsonPath", "does not refer to a valid field")]),
        (
            selected(".spec.o"),
            [
                (
                    "spec.selectableFields[0].jsonPath",
                    "must point to a field of type string, boolean or integer. Enum string fields and "
                    "strings with formats are allowed.",
                )
            ],
        ),
        (selected(".spec.a1", ".spec['a1']"), [("spec.selectableFields[1].jsonPath", "\".spec['a1']\"")]),
        (
            selected(*(f".spec.a{number}" for number in range(9))),
            [("spec.selectableFields", "must have at most 8 items")],
        ),
        (lambda spec: spec["names"].update(categories=["A"]), [("spec.names.categories[0]", None)]),
        (converted(), []),
        (converted(clientConfig=SERVICE), []),
        (
            converted("None"),
            [
                (CONFIG, "should not be set when strategy is not set to Webhook"),
                ("spec.conversion.conversionReviewVersions", "should not be set when strategy is not set to Webhook"),
            ],
        ),
        (converted("Other", clientConfig=None, conversionReviewVersions=None), [("spec.conversion.strategy", None)]),
        (converted(clientConfig=None), [(CONFIG, "required when strategy is set to Webhook")]),
        (converted(clientConfig={}), [(CONFIG, "exactly one of url or service is required")]),
        (
            converted(clientConfig={**SERVICE, "url": "https://h"}),
            [(CONFIG, "exactly one of url or service is required")],
        ),
        (
            converted(clientConfig={"url": "http://h"}),
            [(f"{CONFIG}.url", f"'https' is the only allowed URL scheme{FORM}".rpartition(": ")[2])],
        ),
        (
            converted(clientConfig={"url": "https://h?a=b#c"}),
            [
                (f"{CONFIG}.url", "fragments are not permitted in the URL"),
                (f"{CONFIG}.url", "query parameters are not permitted in the URL"),
            ],
        ),
        (
            converted(clientConfig={"service": {"name": "s", "port": 0}}),
            [
                (f"{CONFIG}.service.namespace", "Required value"),
                (f"{CONFIG}.service.port", "must be between 1 and 65535, inclusive"),
            ],
        ),
        (converted(conversionReviewVersions=[]), [("spec.conversion.conversionReviewVersions", "Required value")]),
        (
            converted(conversionReviewVersions=["v7", "v7"]),
            [
                ("spec.conversion.conversionReviewVersions[1]", "duplicate version"),
                ("spec.conversion.conversionReviewVersions", "must include at least one of v1, v1beta1"),
            ],
        ),
    ],
)
def test_definition(change: Change, found: list[tuple[str, str | None]]) -> None:
    obj = copy.deepcopy(definition())
    change(obj["spec"])
    made = findings(obj)
    assert [path for path, _ in made] == [path for path, _ in found]
    for (_, text), (_, expected) in zip(made, found, strict=True):
        assert expected is None or text == expected
