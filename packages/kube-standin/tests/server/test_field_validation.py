"""Unknown and repeated fields under each fieldValidation, as kube-apiserver reports them (e2e field_validation.go)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.definitions import CRDS, GROUP, Json, definition, fields, place, version
from tests.server.inprocess import Plane, running

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = "/api/v1/namespaces/default/configmaps"
TEXT = {"type": "string"}
EMBEDDED = {**fields(spec={"type": "object"}), "x-kubernetes-embedded-resource": True}
SCHEMA = fields(spec=fields(foo=TEXT, template=EMBEDDED))
PREFIX = 'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running() as made:
        made.create(CRDS, definition(version(schema=SCHEMA)))
        free = fields(spec={**fields(foo=TEXT), "x-kubernetes-preserve-unknown-fields": True})
        made.create(CRDS, definition(version(schema=free), kind="Free"))
        yield made


def warnings(answer: object) -> list[str]:
    return [value for name, value in answer.headers if name == "warning"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        (b'{"x":1,"data":{"a":"1","a":"2"}}', 'unknown field "x", duplicate field "data.a"'),
        (b'{"data":{"a":"1","a":"2","a":"3"},"x":1,"x":2}', 'duplicate field "data.a", unknown field "x"'),
        (b'{"x":{"y":1,"y":2}}', 'unknown field "x"'),
        (
            b'{"metadata":{"name":"m","name":"n","um":1}}',
            'duplicate field "metadata.name", unknown field "metadata.um"',
        ),
    ],
)
def test_problems_of_a_typed_object_come_in_the_order_of_the_body(plane: Plane, body: bytes, problems: str) -> None:
    answer = plane.ask(f"POST {MAPS}?fieldValidation=Strict", raw=body, content_type="application/json")
    text = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
    assert answer.refusal == (400, "BadRequest", text + problems)


def test_yaml_of_a_typed_object_names_repeated_keys_first(plane: Plane) -> None:
    body = b"x: 1\nmetadata:\n  name: a\n  name: b\n"
    answer = plane.ask(f"POST {MAPS}?fieldValidation=Strict", raw=body, content_type="application/yaml")
    text = 'yaml: unmarshal errors:\n  line 4: key "name" already set in map, unknown field "x"'
    assert answer.refusal[2].endswith(text)


def test_problems_of_a_custom_resource_are_sorted(plane: Plane) -> None:
    """Repeated fields, then those of metadata, then others by path, then those of embedded metadata."""
    body = (
        b'{"spec":{"z":1,"foo":"a","foo":"b","template":{"apiVersion":"v1","kind":"Pod","metadata":{"x":1}}},"b":1,'
        b'"metadata":{"name":"t","um":1},"a":1}'
    )
    answer = plane.ask(f"POST {place()}?fieldValidation=Strict", raw=body, content_type="application/json")
    problems = (
        'duplicate field "spec.foo", unknown field "metadata.um", unknown field "a", unknown field "b", '
        'unknown field "spec.z", unknown field "spec.template.metadata.x"'
    )
    assert answer.refusal == (400, "BadRequest", PREFIX + problems)


@pytest.mark.parametrize(
    ("directive", "code", "sent"),
    [
        ("Strict", 400, []),
        ("Warn", 201, ['299 - "duplicate field \\"spec.foo\\""', '299 - "unknown field \\"spec.z\\""']),
        ("", 201, ['299 - "duplicate field \\"spec.foo\\""', '299 - "unknown field \\"spec.z\\""']),
        ("Ignore", 201, []),
    ],
)
def test_what_each_directive_does(plane: Plane, directive: str, code: int, sent: list[str]) -> None:
    body = b'{"metadata":{"name":"d%s"},"spec":{"foo":"a","foo":"b","z":1}}' % directive.lower().encode()
    answer = plane.ask(f"POST {place()}?fieldValidation={directive}", raw=body, content_type="application/json")
    assert (answer.status, warnings(answer)) == (code, sent)


APPLY = {"content_type": "application/apply-patch+yaml"}
APPLIED = f"""
apiVersion: {GROUP}/v1
kind: Free
metadata:
  name: twice
spec:
  unknown: uk1
  foo: foo1
  foo: foo2
""".encode()
TWICE = 'error converting YAML to JSON: yaml: unmarshal errors:\n  line 9: key "foo" already set in map'


def test_apply_with_a_repeated_key_is_refused_if_strict(plane: Plane) -> None:
    path = place("twice", plural="frees")
    answer = plane.ask(f"PATCH {path}?fieldManager=m&fieldValidation=Strict", raw=APPLIED, **APPLY)
    assert answer.refusal == (400, "BadRequest", f"error strict decoding YAML: {TWICE}")
    assert plane.ask(f"GET {path}").status == 404
    json_body = b'{"apiVersion":"stable.example.com/v1","kind":"Free","spec":{"foo":"1",\n"foo":"2"}}'
    answer = plane.ask(f"PATCH {path}?fieldManager=m&fieldValidation=Strict", raw=json_body, **APPLY)
    assert 'line 2: key "foo" already set in map' in answer.refusal[2]
    answer = plane.ask(f"PATCH {path}?fieldManager=m", raw=APPLIED, **APPLY)
    assert (answer.status, answer.json["spec"]["foo"]) == (201, "foo2")
    shown = TWICE.replace('"', '\\"').replace("\n", " ")
    assert warnings(answer) == [f'299 - "{shown}"']
    answer = plane.ask(f"PATCH {path}?fieldManager=m&fieldValidation=Ignore", raw=APPLIED, **APPLY)
    assert (answer.status, warnings(answer)) == (200, [])


@pytest.mark.parametrize(
    ("media", "body", "problems"),
    [
        ("merge-patch", b'{"data":{"a":"1","a":"2"},"x":1}', 'duplicate field "data.a", unknown field "x"'),
        ("strategic-merge-patch", b'{"data":{"a":"1","a":"2"},"x":1}', 'duplicate field "data.a", unknown field "x"'),
        (
            "json-patch",
            b'[{"op":"add","path":"/x","value":1,"op":"add","foo":1}]',
            'json patch duplicate field "[0].op", json patch unknown field "[0].foo", unknown field "x"',
        ),
    ],
)
def test_repeated_fields_of_a_patch_come_before_unknown_ones(
    plane: Plane, media: str, body: bytes, problems: str
) -> None:
    name = f"patched-{media}"
    plane.create(MAPS, {"metadata": {"name": name}})
    how: Json = {"raw": body, "content_type": f"application/{media}+json"}
    answer = plane.ask(f"PATCH {MAPS}/{name}?fieldValidation=Strict", **how)
    assert answer.refusal[0] == 422
    assert answer.refusal[2].endswith(f"strict decoding error: {problems}")
    answer = plane.ask(f"PATCH {MAPS}/{name}", **how)
    expected = ['299 - "' + text.replace('"', '\\"') + '"' for text in problems.split(", ")]
    assert (answer.status, warnings(answer)) == (200, expected)
    assert warnings(plane.ask(f"PATCH {MAPS}/{name}?fieldValidation=Ignore", **how)) == []


@pytest.mark.parametrize(
    ("finalizer", "advice"),
    [
        ("held", "prefer a domain-qualified finalizer name to avoid"),
        ("held.example.com", "prefer a domain-qualified finalizer name including a path (/) to avoid"),
        ("example.com/held", ""),
        ("orphan", ""),
    ],
)
def test_custom_resources_take_any_finalizer_with_a_warning(plane: Plane, finalizer: str, advice: str) -> None:
    """registry/customresource: new finalizers only; built-in kinds refuse those without a domain."""
    name = f"f-{finalizer}".replace("/", "-")
    body = {"metadata": {"name": name, "finalizers": [finalizer]}}
    answer = plane.ask(f"POST {place()}", body)
    assert answer.status == 201
    expected = [f'299 - "metadata.finalizers: \\"{finalizer}\\": {advice}'] if advice else []
    assert [text[: len(start)] for text, start in zip(warnings(answer), expected, strict=True)] == expected
    patch = {"metadata": {"labels": {"a": "b"}}}
    answer = plane.ask(f"PATCH {place(name)}", patch, content_type="application/merge-patch+json")
    assert (answer.status, warnings(answer)) == (200, [])
    refused = plane.ask(f"POST {MAPS}", body)
    assert refused.status == (422 if advice else 201)
    if advice:
        assert refused.json["details"]["causes"][0]["field"] == "metadata.finalizers[0]"
