"""YAML as `kubectl apply -f` reads it (sigs.k8s.io/yaml), with bounds; docs/measurements/yaml-loaders.md."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reprieve.api.yamltext import MAX_DEPTH, YamlError, read_documents


def read(text: str, exact: bool = False) -> list[Any]:
    return [document.data for document in read_documents(text, exact=exact)]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # plain scalars: goyaml v2 resolve
        (
            "a: yes\nb: No\nc: on\nd: OFF\ne: y\nf: n",
            {"a": True, "b": False, "c": True, "d": False, "e": True, "f": False},
        ),
        ("a: 'yes'\nb: \"no\"", {"a": "yes", "b": "no"}),
        ("a: [yes, {b: no}]", {"a": [True, {"b": False}]}),
        ('{"a":yes}', {"a": True}),
        (
            "a: 0777\nb: 0o17\nc: 0x1F\nd: 0b11\ne: 1_000\nf: +12",
            {"a": 511, "b": 15, "c": 31, "d": 3, "e": 1000, "f": 12},
        ),
        ("a: 1e3\nb: .5\nc: 08\nd: 1:30", {"a": 1000.0, "b": 0.5, "c": 8.0, "d": "1:30"}),
        ("a:\nb: ~\nc: null\nd: ''", {"a": None, "b": None, "c": None, "d": ""}),
        ("a: 2026-01-01T00:00:00Z\nb: 2026-01-01", {"a": "2026-01-01T00:00:00Z", "b": "2026-01-01"}),
        ("a: 100m\nb: 1.5Gi\nc: x#y # comment", {"a": "100m", "b": "1.5Gi", "c": "x#y"}),
        # keys become text, as JSON has them
        ("1: a\n1.5: b\ntrue: c", {"1": "a", "1.5": "b", "true": "c"}),
        # anchors, aliases, merge keys
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3", {"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 3}}),
        ("a: &x {k: 1}\nb:\n  <<: [*x, {k: 2, m: 3}]", {"a": {"k": 1}, "b": {"k": 1, "m": 3}}),
        # block scalars, markers inside text, tags, line ends
        ("a: |\n  l1\n    l2\nb: >-\n  f1\n  f2\n", {"a": "l1\n  l2\n", "b": "f1 f2"}),
        ("a: |\n  ---\n  x\n", {"a": "---\nx\n"}),
        ("a: !!str 1\nb: !!int '3'", {"a": "1", "b": 3}),
        ("a: 1\r\nb:\r\n  - c\r\n", {"a": 1, "b": ["c"]}),
        ("\ufeffa: 1", {"a": 1}),
        ("%YAML 1.1\n---\na: yes", {"a": True}),
    ],
)
def test_one_document(text: str, expected: Any, exact: bool) -> None:
    if not exact or not (text == "" or "\ufeff" in text):
        assert read(text, exact) == [expected]


def test_documents_are_counted_with_the_empty_ones_and_know_their_line() -> None:
    text = "# head\n---\na: 1\n...\n---\n# nothing\n--- {b: 2}\n"
    assert [(d.number, d.line, d.data) for d in read_documents(text)] == [(1, 2, {"a": 1}), (3, 7, {"b": 2})]
    assert [d.number for d in read_documents("a: 1\n---\nb: 2\n")] == [1, 2]
    assert read("") == read("# nothing\n") == read("---\n---\n") == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\na: 2", 2, "key 'a' already set in map"),
        ("a:\n  b: 1\n  b: 2", 3, "key 'b' already set in map"),
        ("x: 1\n---\na: 1\na: 2", 4, "key 'a' already set in map"),  # lines count from the top of the file
        ("a: *nope", 1, "found undefined alias"),
        ("a: &a [*a]", 1, "contains itself"),
        ("a: !foo bar", 1, "tag '!foo' is not allowed"),
        ("a: !!python/object/apply:os.system ['true']", 1, "is not allowed"),
        ("a: !!int x", 1, "cannot decode 'x' as int"),
        ("? [a]\n: 1", 1, "a key must be text"),
        ("a:\n\tb: 1", 2, "cannot start any token"),
        ("a:\n  b: [1, 2", 2, "flow sequence"),
        ('a: "abc', 1, "unexpected end of stream"),
        ("a:\n  b: 1\n c: 2", 3, "did not find expected key"),
        ("a: b: c", 1, "mapping values are not allowed"),
        ("b:\n  <<: 1", 2, "map merge requires map"),
        ("a: \x01", None, "control characters"),
    ],
)
def test_errors_name_the_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(YamlError) as caught:
        read(text)
    assert message in str(caught.value)
    assert caught.value.line in (line, line + 1 if line else None)  # an unexpected end is noticed after the end


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000,
        "a: " + "[" * 10_000 + "]" * 10_000,
        "- " * 10_000 + "x",
        "".join(" " * i + "a:\n" for i in range(200)),
    ],
    ids=["open", "flow", "dashes", "block"],
)
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(YamlError, match=f"nested deeper than {MAX_DEPTH} levels"):
        read(text)


def test_what_aliases_stand_for_is_bounded() -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
    )
    with pytest.raises(YamlError, match="aliases stand for more than"):
        read(bomb)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["yes", "No", "on", "y", "0777", "1_000", "<<", "1e3", "~", "null", "2026-01-01", "100m", "", "a b"]
    ),
    st.text(max_size=12),
)
KEYS = st.one_of(st.from_regex(r"[a-z][a-z/.-]{0,8}", fullmatch=True), st.sampled_from(["yes", "n", "1", "<<"]))
DATA = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


@given(st.dictionaries(KEYS, DATA, max_size=5), st.sampled_from([None, False, True]))
def test_both_readers_give_the_same(data: dict[str, Any], flow: bool | None) -> None:
    text = yaml.dump(data, default_flow_style=flow, allow_unicode=True)
    fast, exact = _outcome(text, False), _outcome(text, True)
    assert fast == exact


WORDS = st.sampled_from(
    [
        *("yes", "no", "y", "0777", "0o7", "1_0", "08", "1e3", ".5", "~", "x", "1", "true"),
        *("-", "- ", "a: ", "a:", "b: ", "? ", "<<: ", ":", ", ", "[", "]", "{", "}", "'", '"'),
        *("&x ", "*x", "!!str ", "#", " #", "%", "|\n  ", ">-\n  ", "---\n", "...\n"),
        *("\n", "\n  ", "\n- ", "\t", "\r\n"),
    ]
)


@given(st.lists(WORDS, max_size=14).map("".join))
def test_both_readers_agree_on_odd_text(text: str) -> None:
    fast, exact = _outcome(text, False), _outcome(text, True)
    assert fast == exact


def _outcome(text: str, exact: bool) -> str:
    try:
        return repr([(document.number, document.data) for document in read_documents(text, exact=exact)])
    except YamlError as error:
        return f"line {error.line}: {error}"
