"""Request bodies in JSON: duplicates, depth and what is no object (transcripts 070 to 072, 164)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.controlplane.schema import parse_json_strict
from reprieve.controlplane.schema.strict_json import MAX_DEPTH


@pytest.mark.parametrize(
    ("text", "value", "paths"),
    [
        ('{"a": 1}', {"a": 1}, []),
        ('{"a": 1, "a": 2}', {"a": 2}, ["a"]),
        ('{"metadata": {"name": "x", "name": "y"}}', {"metadata": {"name": "y"}}, ["metadata.name"]),
        ('{"l": [{"k": 1}, {"k": 1, "k": 2, "k": 3}]}', {"l": [{"k": 1}, {"k": 3}]}, ["l[1].k", "l[1].k"]),
    ],
)
def test_the_last_of_two_keys_wins_and_the_path_is_told(text: str, value: object, paths: list[str]) -> None:
    assert parse_json_strict(text.encode()) == (value, paths)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"apiVersion":"v1","kind":"Pod",', "unexpected end of JSON input"),
        (b"", "unexpected end of JSON input"),
        (b"[]", "cannot unmarshal array"),
        (b"null", "cannot unmarshal null"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": tru}', "at offset"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "UTF-8"),  # a surrogate by its bytes
        (b'{"\xed\xbf\xbf": 1}', "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        ('{"a": 1}'.encode("utf-16-le"), "at offset"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "nested deeper"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digit"),
    ],
)
def test_what_is_no_bounded_json_object_is_refused(raw: bytes, said: str) -> None:
    with pytest.raises(ValueError, match="(?i)" + said):
        parse_json_strict(raw)


def test_the_deepest_allowed_nesting_passes() -> None:
    raw = b'{"a":' * (MAX_DEPTH - 1) + b"{}" + b"}" * (MAX_DEPTH - 1)
    assert parse_json_strict(raw)[1] == []


@given(st.dictionaries(st.text(max_size=3), st.recursive(st.none() | st.integers() | st.text(), st.lists), max_size=4))
def test_plain_json_is_read_as_everywhere(value: dict[str, object]) -> None:
    assert parse_json_strict(json.dumps(value).encode()) == (value, [])
