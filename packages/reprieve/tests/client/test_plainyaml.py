"""YAML that readers of YAML 1.1 and 1.2 take for the same data (client/plain_yaml.py)."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kube_rules.yamltext import read_documents
from reprieve.client.plain_yaml import yaml_of


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
