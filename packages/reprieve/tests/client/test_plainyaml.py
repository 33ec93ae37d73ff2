"""YAML that readers of YAML 1.1 and 1.2 take for the same data (client/plain_yaml.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.printable import printable
from kube_rules.yamltext import read_documents
from reprieve.client.plain_yaml import _Dumper, yaml_texts


def yaml_of(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the documents as one stream."""
    return "".join(yaml_texts(documents))


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "Always",
        "nvidia.com/gpu",
        "n1-a_b",
        "/dev/sda",
        "yess",
        "nope",
        "e3",
        "infinity",
        "truee",
        "NULLs",
        "x" * 900,
    ],
)
def test_text_that_can_be_nothing_else_has_no_quotes(text: str) -> None:
    assert yaml_of([{"a": text}]) == f"a: {text}\n"


@pytest.mark.parametrize(
    "text",
    [
        *("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"),
        *("Y", "NO", "On", "True", "NULL", "NaN", "Inf"),
        *("1", "1e3", "0o17", "0x1f", "12:30", "1_000", "1.5", "-1", "-a", ".5", "=", "~", "<<"),
        *("2026-01-01", "", " a", "a ", "a b", "a: b", "a #b", "- a", "?", "*a", "&a", "!a", "%a", "@a", "a:", "a,b"),
        *("it's", '"', "{}", "[]", "|", ">", "caf\u00e9", "4Gi", "500m"),
    ],
)
def test_text_that_might_be_something_else_is_quoted(text: str) -> None:
    """`y` is true in YAML 1.1, `0o17` a number in 1.2, `12:30` one in base sixty, and so on."""
    escaped = text.replace("'", "''")
    assert yaml_of([{"a": text}]) == f"a: '{escaped}'\n"
    twice = yaml_of([{"a": text, text: [text]}])
    assert yaml.safe_load(twice) == {"a": text, text: [text]}
    assert [document.data for document in read_documents(twice)] == [{"a": text, text: [text]}]


def test_documents_keep_their_order_and_that_of_their_keys() -> None:
    documents: list[dict[str, Any]] = [{"b": 1, "a": [True, None, 1.5]}, {"kind": "Pod", "apiVersion": "v1"}]
    text = yaml_of(documents)
    assert text == "b: 1\na:\n- true\n- null\n- 1.5\n---\nkind: Pod\napiVersion: v1\n"
    assert list(yaml.safe_load_all(text)) == documents


def test_value_that_stands_twice_is_written_twice() -> None:
    """No anchors: not every reader knows them."""
    shared = {"cpu": "a"}
    assert yaml_of([{"limits": shared, "requests": shared}]) == "limits:\n  cpu: a\nrequests:\n  cpu: a\n"


_TEXTS = st.one_of(
    st.sampled_from(
        ["", "y", "on", "1e3", "a", "nvidia.com/gpu", "it's", " a ", "a: b", "x" * 99, "x" * 101, "a b " * 40]
    ),
    st.text(max_size=6),
)
_DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(_TEXTS, _DATA, max_size=4), max_size=3))
def test_every_document_is_written_as_the_dumper_of_pyyaml_writes_it(documents: list[dict[str, Any]]) -> None:
    """The faster path beside the plain one, byte for byte."""
    plain = [
        printable(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000))
        for document in documents
    ]
    assert yaml_of(documents) == "---\n".join(plain)


def test_manifests_are_not_left_to_the_dumper(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary pod has nothing unusual."""
    monkeypatch.setattr(yaml, "dump", None)
    container = {"name": "c", "image": "1", "resources": {"requests": {"cpu": "100m"}}, "ports": []}
    spec = {"containers": [container], "nodeName": "n1", "priority": 0, "hostNetwork": False, "affinity": {}}
    text = yaml_of(
        [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a/b": "on"}}, "spec": spec}]
    )
    assert yaml.safe_load(text)["spec"] == spec
