"""No text that a user chose leaves an anonymised snapshot, whatever field has it (interfaces.md 1.15)."""

from __future__ import annotations

import datetime
import itertools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest

from kube_rules.meta import KubernetesObject
from reprieve.client.shapes import _ANNOTATIONS, SHAPES
from reprieve.client.snapshot import snapshot, text_of

SECRET = "plantedsecret"
Text = Callable[[], str]
DEEPEST = 14
FORMS: dict[str, str] = {
    "a word": "{0}{1}",
    "camel case": "Planted{0}{1}",
    "with a domain": "{0}{1}.example.org/{0}",
    "in a domain of Kubernetes": "{0}.kubernetes.io/{0}{1}",
    "a suffix of a domain of Kubernetes": "node-role.kubernetes.io/{0}{1}",
    "a suffix of a vendor": "nvidia.com/{0}{1}",
    "of the system": "system-{0}{1}",
    "a number in front": "5{0}{1}",
    "a unit behind": "5Gi{0}{1}",
    "a CEL expression": "device.attributes['{0}'].x == '{0}{1}'",
}
"""What a text looks like: in places its form decides what is kept."""


def filled(kind: Any, text: Text, depth: int = 0) -> Any:
    """A value of a type with `text` in each of its strings, and one item in each of its collections."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return filled(arguments[0], text, depth)
    if origin in (typing.Union, types.UnionType):
        return filled(next(each for each in arguments if each is not type(None)), text, depth)
    if origin is typing.Literal:
        return arguments[0]
    if origin in (list, tuple):
        return origin([filled(arguments[0], text, depth + 1)] if depth < DEEPEST else [])
    if origin is not None and issubclass(origin, Mapping):
        return {filled(arguments[0], text, depth + 1): filled(arguments[1], text, depth + 1)}
    if kind in (str, int, bool, float):
        return text() if kind is str else kind(7)
    if kind is datetime.datetime:
        return datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = msgspec.structs.fields(kind)
        return kind(**{field.name: filled(hints[field.name], text, depth + 1) for field in fields})
    if kind in (Any, object, dict, list):
        return {text(): [text()]} if kind is not list else [text()]
    return filled_other(kind, text)


def filled_other(kind: Any, text: Text) -> Any:
    raise AssertionError(f"no rule for {kind!r}: every field of a kind is tried")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", SHAPES, ids=lambda kind: kind.KIND)
def test_no_text_of_any_field_leaves(kind: type[KubernetesObject], form: str) -> None:
    numbers = itertools.count()
    made = filled(kind, lambda: FORMS[form].format(SECRET, next(numbers)))
    annotations = {key: FORMS[form].format(SECRET, next(numbers)) for key in _ANNOTATIONS}
    meta = msgspec.structs.replace(made.metadata, annotations={**annotations, f"{SECRET}.org/x": SECRET})
    made = msgspec.structs.replace(made, metadata=meta)
    for as_json in (True, False):
        shown = text_of(snapshot([made], anonymize=True)[0], json=as_json)
        assert SECRET not in shown, [line for line in shown.splitlines() if SECRET in line]
