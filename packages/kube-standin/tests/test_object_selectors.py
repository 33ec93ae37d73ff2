"""Which objects a label or field selector selects."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.selectors import compile_selector, is_plain
from kube_standin.kinds import ServedKind
from kube_standin.selectors import select
from tests.recorded.shapes import custom_kind, shape
from tests.refused import message_of

Json = dict[str, Any]


META: Json = {"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "5", "creationTimestamp": "t", "labels": {}}


SHOWN = {key: META[key] for key in META if key != "labels"}


BY_LABELS: Json = {"matchLabels": {"b": "2", "a": "1"}}


BY_EXPRESSION: Json = {"matchExpressions": [{"key": "k", "operator": "Exists"}], **BY_LABELS}


@pytest.mark.parametrize(
    ("selector", "plain", "labels", "fits"),
    [
        ({"a": "b"}, True, {"a": "b", "c": "d"}, True),
        ({"a": "b"}, True, {"a": "c"}, False),
        ({"matchLabels": {"a": "b"}}, False, {"a": "b"}, True),
        ({"matchLabels": "x"}, True, {"matchLabels": "x"}, True),
        ({}, False, {"a": "b"}, True),
        (BY_EXPRESSION, False, {"a": "1", "b": "2"}, False),
        (BY_EXPRESSION, False, {"a": "1", "b": "2", "k": ""}, True),
    ],
)
def test_selectors_of_objects(selector: Json, plain: bool, labels: dict[str, str], fits: bool) -> None:
    """Plain labels are those of a ReplicationController."""
    assert is_plain(selector) is plain
    assert compile_selector(selector).matches(labels) is fits


@pytest.mark.parametrize(
    ("labels", "fields", "name", "namespace", "everything"),
    [
        ("", "", None, None, True),
        ("a=b", "", None, None, False),
        ("", "metadata.name=n", "n", None, False),
        ("", "metadata.name=n,metadata.namespace=s", "n", "s", False),
        ("", "metadata.name!=n", None, None, False),
        ("", "spec.nodeName=x", None, None, False),
    ],
)
def test_selectable_names(labels: str, fields: str, name: str | None, namespace: str | None, everything: bool) -> None:
    found = select(shape("v1", "Pod"), labels, fields)
    assert (found.name, found.namespace, found.match is None) == (name, namespace, everything)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (shape("v1", "Pod"), "field label not supported: spec.x"),
        (custom_kind("g", "v1", "Gang"), "field label not supported: spec.x"),
        (
            shape("v1", "ConfigMap"),
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_fields_that_are_not_offered(kind: ServedKind, message: str) -> None:
    assert message_of(select, kind, "", "spec.x=1") == (400, message)
