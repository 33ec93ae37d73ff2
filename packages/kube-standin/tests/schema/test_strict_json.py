"""Request bodies in JSON: duplicates, depth and what is no object (transcripts 070 to 072, 164)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_standin.schema import parse_json_strict, strict_json
from kube_standin.schema.strict_json import MAX_DEPTH


@pytest.mark.parametrize(
    ("text", "value", "paths"),
    [
        ('{"a": 1}', {"a": 1}, []),
        ('{"a": 1, "a": 2}', {"a": 2}, ["a"]),
        ('{"metadata": {"name": "x", "name": "y"}}', {"metadata": {"name": "y"}}, ["metadata.name"]),
        ('{"l": [{"k": 1}, {"k": 1, "k": 2, "k": 3}]}', {"l": [{"k": 1}, {"k": 3}]}, ["l[1].k", "l[1].k"]),
    ],
)
def test_last_of_two_keys_wins_and_the_path_is_told(text: str, value: object, paths: list[str]) -> None:
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
def test_body_that_is_no_bounded_json_object_is_refused(raw: bytes, said: str) -> None:
    with pytest.raises(ValueError, match="(?i)" + said):
        parse_json_strict(raw)


def test_deepest_allowed_nesting_passes() -> None:
    raw = b'{"a":' * (MAX_DEPTH - 1) + b"{}" + b"}" * (MAX_DEPTH - 1)
    assert parse_json_strict(raw)[1] == []


@given(st.dictionaries(st.text(max_size=3), st.recursive(st.none() | st.integers() | st.text(), st.lists), max_size=4))
def test_plain_json_is_read_as_everywhere(value: dict[str, object]) -> None:
    assert parse_json_strict(json.dumps(value).encode()) == (value, [])


@pytest.mark.parametrize(
    ("raw", "paths"),
    [
        (b'{"a": 1, "b": {"a": 1}}', []),
        (b'{"a": 1, "a": 2, "a": 3}', ["a", "a"]),
        (b'{"l": [{"x": 1}, {"x": 1, "x": 2}], "m": {"y": 1, "y": 2}}', ["l[1].x", "m.y"]),
        (b'{"a": {"b": 1, "b": {"c": 1, "c": 2}}, "d": 1, "d": 2}', ["d", "a.b", "a.b.c"]),
    ],
)
def test_where_keys_are_given_twice(raw: bytes, paths: list[str]) -> None:
    """The last one wins, and the outer ones are named first."""
    value, found = parse_json_strict(raw)
    assert found == paths
    assert value == json.loads(raw)
    assert type(value) is dict


@pytest.mark.parametrize(
    ("raw", "kind"), [(b"[]", "array"), (b'"x"', "string"), (b"1", "number"), (b"true", "bool"), (b"null", "null")]
)
def test_documents_that_are_no_objects_are_named(raw: bytes, kind: str) -> None:
    with pytest.raises(ValueError, match=f"cannot unmarshal {kind} into an object"):
        parse_json_strict(raw)


@pytest.mark.parametrize("tail", ["", " ", "\n"])
def test_text_that_ends_too_early(tail: str) -> None:
    with pytest.raises(ValueError, match="unexpected end of JSON input"):
        parse_json_strict(b'{"a": ' + tail.encode())
    with pytest.raises(ValueError, match="Extra data at offset 3"):
        parse_json_strict(b"{} x" + tail.encode())


@pytest.mark.parametrize(
    ("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]"), (b'[1,{"b":2,"a":', b"}]")], ids=["maps", "lists", "both"]
)
def test_how_deep_a_body_may_be(opening: bytes, closing: bytes) -> None:
    """Two hundred levels: the object is the first."""
    levels = (MAX_DEPTH - 1) // (2 if opening.startswith(b"[1") else 1)
    depth = b'{"x":' + opening * levels + b"%s" + closing * levels + b"}"
    left = MAX_DEPTH - 1 - levels * (2 if opening.startswith(b"[1") else 1)
    parse_json_strict(depth % (b"[" * left + b"1" + b"]" * left))
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        parse_json_strict(depth % (b"[" * (left + 1) + b"]" * (left + 1)))


@pytest.mark.parametrize(
    ("raw", "values"),
    [(b'{"a": [1, 2], "b": {"c": null}}', 6), (b"{}", 1), (b'{"a": ",,,,[{"}', 2), (b'{"a": [[], [[]]]}', 5)],
)
def test_how_many_values_a_body_may_hold(monkeypatch: pytest.MonkeyPatch, raw: bytes, values: int) -> None:
    """Every value counts, containers with what is in them; marks in a text do not."""
    for most, fits in ((values, True), (values - 1, False)):
        monkeypatch.setattr(strict_json, "MAX_VALUES", most)
        assert strict_json.more_values(json.loads(raw), raw) is not fits


def test_halves_of_pairs() -> None:
    """Two halves that belong together are a character, one alone is none."""
    assert parse_json_strict(rb'{"a": "\ud83d\ude00"}')[0] == {"a": "\U0001f600"}
    for half in (rb"\ud83d", rb"\uDE00", rb"\udfff"):
        with pytest.raises(ValueError, match="half of a surrogate pair"):
            parse_json_strict(b'{"a": "' + half + b'"}')
