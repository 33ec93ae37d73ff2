"""YAML as `kubectl apply -f` reads it (sigs.k8s.io/yaml over goyaml v2), with bounds.

Two oracles judge what is built from random text: JSON, which is YAML too, and `plainly`, the rules of goyaml v2 written
down again in their simplest form over PyYAML's node tree.
"""

from __future__ import annotations

import json
import re
import tracemalloc
from typing import Any

import pytest

from kube_rules.yamltext import (
    BASE_NODES,
    MANY_NODES,
    MAX_ALIAS_BYTES,
    MAX_ALIAS_NODES,
    MAX_DEPTH,
    MAX_OBJECT_NODES,
    NodeBudget,
    RepeatedKey,
    YamlError,
    read_document,
    read_documents,
)


def read(text: str) -> list[Any]:
    return [document.data for document in read_documents(text)]


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
            "a: 0777\nb: 0o17\nc: 0x1F\nd: 0b11\ne: 1_000\nf: +12\ng: -0b11\nh: 0x_1\ni: 0_7\nj: -0",
            {"a": 511, "b": 15, "c": 31, "d": 3, "e": 1000, "f": 12, "g": -3, "h": 1, "i": 7, "j": 0},
        ),
        ("a: _1\nb: 1_\nc: 0x\nd: 0b2\ne: +\nf: '-'", {"a": "_1", "b": 1, "c": "0x", "d": "0b2", "e": "+", "f": "-"}),
        ("a: 1e3\nb: .5\nc: 08\nd: 1:30\ne: 5.", {"a": 1000, "b": 0.5, "c": 8, "d": "1:30", "e": 5}),
        ("a: .5_1\nb: ._5\nc: .5_\nd: 0.5_", {"a": 0.51, "b": "._5", "c": ".5_", "d": 0.5}),
        ("a: 1e\nb: 1e999\nc: .\nd: ١\ne: 1.2.3", {"a": "1e", "b": "1e999", "c": ".", "d": "١", "e": "1.2.3"}),
        ("a: 18446744073709551615\nb: 18446744073709551616", {"a": 2**64 - 1, "b": 2**64}),
        ("a:\nb: ~\nc: null\nd: ''", {"a": None, "b": None, "c": None, "d": ""}),
        ("a: 2026-01-01T00:00:00Z\nb: 2026-01-01", {"a": "2026-01-01T00:00:00Z", "b": "2026-01-01"}),
        ("a: 100m\nb: 1.5Gi\nc: x#y # comment", {"a": "100m", "b": "1.5Gi", "c": "x#y"}),
        ("a: <<\nb: '<<'", {"a": "<<", "b": "<<"}),
        # keys become text, as JSON has them (sigs.k8s.io/yaml formats numbers as 32-bit floats, format g)
        ("1: a\n1.5: b\ntrue: c\nyes: d", None),
        (
            "1: a\n1.5: b\non: c\n0x10: d\n1e6: e\n08: f",
            {"1": "a", "1.5": "b", "true": "c", "16": "d", "1e+06": "e", "8": "f"},
        ),
        ("2026-01-01: a\n'': b\n0.1: c", {"2026-01-01": "a", "": "b", "0.1": "c"}),
        # anchors, aliases, merge keys, which take their turn among the keys (goyaml v2 merge)
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        ("&k a: 1\nb: *k\n*k : 2", None),
        ("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3", {"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 3}}),
        ("a: &x {k: 1, l: 2}\nb:\n  l: 3\n  <<: *x", {"a": {"k": 1, "l": 2}, "b": {"l": 2, "k": 1}}),
        ("a: &x {k: 1}\nb:\n  <<: [*x, {k: 2, m: 3}]", {"a": {"k": 1}, "b": {"k": 1, "m": 3}}),
        ("a: {<<: {k: {l: 1}}, k: 2}", {"a": {"k": 2}}),
        # block scalars, markers inside text, tags, line ends
        ("a: |\n  l1\n    l2\nb: >-\n  f1\n  f2\n", {"a": "l1\n  l2\n", "b": "f1 f2"}),
        ("a: |", {"a": ""}),
        ("a: |\n  ---\n  x\n", {"a": "---\nx\n"}),
        ("a: !!str 1\nb: !!int '3'\nc: !!float 3\nd: ! 1", {"a": "1", "b": 3, "c": 3, "d": "1"}),
        ("a: !!binary aGVs\n", {"a": "hel"}),
        ("a: !!map {}\nb: !!seq []", {"a": {}, "b": []}),
        ("a: 1\r\nb:\r\n  - c\r\n", {"a": 1, "b": ["c"]}),
        ("\ufeffa: 1", {"a": 1}),
        ("%YAML 1.1\n---\na: yes", {"a": True}),
    ],
)
def test_one_document(text: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(YamlError, match="already set in map"):
            read(text)
        return
    (found,) = read(text)
    assert repr(found) == repr(expected)  # 1 and True and 1.0 are equal, but not the same


def test_documents_are_counted_with_the_empty_ones_and_know_their_line() -> None:
    text = "# head\n---\na: 1\n...\n---\n# nothing\n--- {b: 2}\n"
    assert [(d.number, d.line, d.data) for d in read_documents(text)] == [(1, 2, {"a": 1}), (3, 7, {"b": 2})]
    assert [d.number for d in read_documents("a: 1\n---\nb: 2\n")] == [1, 2]
    assert [d.data for d in read_documents("a: 1\r---\rb: 2")] == [{"a": 1}, {"b": 2}]
    assert read("") == read("# nothing\n") == read("---\n---\n") == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\na: 2", 2, "key 'a' already set in map"),
        ("1: 1\n'1': 2", 2, "key '1' already set in map"),
        ("a:\n  b: 1\n  b: 2", 3, "key 'b' already set in map"),
        ("a: {<<: {k: 1}, k: 2, k: 3}", 1, "key 'k' already set in map"),
        ("x: 1\n---\na: 1\na: 2", 4, "key 'a' already set in map"),  # lines count from the top of the file
        ("a: *nope", 1, "found undefined alias"),
        ("a: &x 1\n---\nb: *x", 3, "found undefined alias"),
        ("a: &a [*a]", 1, "contains itself"),
        ("a: !foo bar", 1, "tag '!foo' is not allowed"),
        ("a: !int 1", 1, "tag '!int' is not allowed"),
        ("a: !!set {x}", 1, "is not allowed"),
        ("a: !!binary '*'", 1, "invalid base64"),
        ("a: !!python/object/apply:os.system ['true']", 1, "is not allowed"),
        ("a: !!int x", 1, "cannot decode 'x' as int"),
        ("a: !!int 08", 1, "cannot decode '08' as int"),
        ("a: !!int yes", 1, "cannot decode 'yes' as int"),
        ("a: .nan", 1, "JSON does not have"),
        ("a:\n- -.Inf", 2, "JSON does not have"),
        ("? [a]\n: 1", 1, "a key must be text"),
        ("? {a: 1}\n: 1", 1, "a key must be text"),
        ("a: &x [1]\n*x : 1", 2, "a key must be text"),
        ("a: 1\n~: 1", 2, "a key must be text"),
        ("{a: 1, ? : 1}", 1, "a key must be text"),
        ("a:\n\tb: 1", 2, "cannot start any token"),
        ("a:\n  b: [1, 2", 2, "flow sequence"),
        ('a: "abc', 1, "unexpected end of stream"),
        ("a:\n  b: 1\n c: 2", 3, "did not find expected key"),
        ("a: b: c", 1, "mapping values are not allowed"),
        ("a: &!", 1, "did not find expected alphabetic or numeric character"),
        ("b:\n  <<: 1", 2, "map merge requires map"),
        ("b:\n  <<: [{a: 1}, 2]", 2, "map merge requires map"),
        ("a: &x [{k: 1}]\nb: {<<: *x}", 2, "map merge requires map"),
        ("a: \x01", None, "control characters"),
        ("%A\n" * 101 + "--- 1", None, "more than 100 lines start with a %"),
    ],
)
def test_errors_name_the_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(YamlError) as caught:
        read(text)
    assert message in str(caught.value)
    assert caught.value.line in (line, line + 1 if line else None)  # an unexpected end is noticed after the end


def test_reader_of_one_document_lists_the_keys_given_twice_and_the_last_one_holds() -> None:
    text = "a: 1\nb: {c: 1, c: {d: 2}}\na: 3\nm: {<<: {k: 1}, k: 2}"
    assert read_document(text) == (
        {"a": 3, "b": {"c": {"d": 2}}, "m": {"k": 2}},
        [RepeatedKey("c", 2), RepeatedKey("a", 3)],
    )
    assert read_document("# nothing\n") == (None, [])
    assert read_document("---\n---\na: 1\n") == ({"a": 1}, [])
    with pytest.raises(YamlError, match="expected one document"):
        read_document("a: 1\n---\nb: 1\n")


# --- bounds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "a: " + "[" * 100_000 + "]" * 100_000,
        "{a: " * 100_000,
        "[{a: " * 100_000,
        "- " * 100_000 + "x",
        "".join(" " * i + "a:\n" for i in range(200)),
        "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 120)),
        "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{k: *a{i - 1}}}\n" for i in range(1, 120)),
        "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: {{k{i}: *a{i - 1}}}}}\n" for i in range(1, 120)),
    ],
    ids=["open", "flow", "maps", "both", "dashes", "block", "aliases", "aliases-in-maps", "aliases-in-merges"],
)
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(YamlError, match=f"nested deeper than {MAX_DEPTH} levels"):
        read(text)


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        f"a: &a {LONG}\nb: [" + "*a," * 100 + "]",
        f"a: &a {LONG}\n" + "".join(f"b{n}: *a\n" for n in range(100)),
        f"- &a {LONG}\n" + "- *a\n" * 100,
        f"? &a {LONG}\n: 1\nb: [" + "*a," * 100 + "]",
        f"b: [&a {LONG}" + ", {? *a : 1}" * 100 + "]",
        f"a: &a {{? {LONG}\n: 1}}\nb: [" + "*a," * 100 + "]",
        f"a: &a {{k: {LONG}}}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(100)),
        f"a: &a {{k: {LONG}}}\nb: {{<<: [" + "*a," * 100 + "]}",
        f"a: &a {{? {LONG}\n: 1}}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(100)),
        f"a: &a [{LONG}]\nb: &b [" + "*a," * 10 + "]\nc: &c [" + "*b," * 10 + "]\n",
        f"a: &a |\n  {LONG}\nb: [" + "*a," * 100 + "]",
        f"a: &a !!str {LONG}\nb: [" + "*a," * 100 + "]",
        f'a: &a "{"ä" * 50_000}"\nb: [' + "*a," * 100 + "]",
        f"a: &a {LONG[:100]}\nb: [" + "*a," * 50_000 + "]",
        f"a: &a {LONG}\nb: [" + "*a," * 20 + f"]\n---\na: &a {LONG}\nb: [" + "*a," * 20 + "]",
    ],
    ids=[
        "in a list", "as values", "anchor in a list", "anchor on a key", "as keys", "long key in a map", "merged",
        "merged in a list", "long key merged", "nested", "block", "tagged", "two bytes a character", "many short",
        "in two documents",
    ],
)  # fmt: skip
def test_text_that_aliases_stand_for_is_bounded(text: str) -> None:
    """interfaces.md 5.6: no alias of a long text makes of a short one more than a body may have."""
    with pytest.raises(YamlError, match="aliases stand for more than 3145728 bytes of text"):
        read(text)


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("a: &x abc\nb: *x", 3),
        ("a: &x äb\nb: *x", 3),
        ("a: &x 17\nb: *x", 2),
        ("a: &x {ab: cde}\nb: *x", 5),
        ("a: &x {ab: cde}\nb: {<<: *x}", 5),
        ("a: &x [ab]\nb: &y [*x, *x]\nc: *y", 2 + 2 + 4),
        ("- &x ab\n- &y {*x : c}\n- *y", 2 + 3),
        ("- &x ab\n- [cd]\n- *x", 2),
    ],
)
def test_values_counted_behind_aliases(text: str, counted: int) -> None:
    budget = NodeBudget()
    list(read_documents(text, budget))
    assert budget.aliased_bytes == counted


def test_aliases_may_stand_for_as_much_text_as_a_body_has_or_as_was_read() -> None:
    budget = NodeBudget()
    assert budget.allowed_aliased_bytes(0) == budget.allowed_aliased_bytes(MAX_ALIAS_BYTES) == MAX_ALIAS_BYTES
    budget.characters = MAX_ALIAS_BYTES
    assert budget.allowed_aliased_bytes(7) == MAX_ALIAS_BYTES + 7
    ones = "a: &a " + "x" * 1024 + "\nb: [" + "*a," * (MAX_ALIAS_BYTES // 1024)
    (found,) = read(ones + "]")
    assert len(found["b"]) == MAX_ALIAS_BYTES // 1024
    with pytest.raises(YamlError, match="bytes of text"):
        read(ones + "*a]")


def test_greatest_depth_is_read() -> None:
    (found,) = read("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert json.dumps(found) == "[" * MAX_DEPTH + "]" * MAX_DEPTH


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)),
        "a: &a [" + "x," * 20_000 + "]\nb: [" + "*a," * 20_000 + "]\n",
        "m0: &m0 {a: 1, b: 2}\n"
        + "".join(f"m{j}: &m{j} {{<<: [{','.join([f'*m{j - 1}'] * 50)}]}}\n" for j in range(1, 40)),
        ("a: &a [" + "x," * 100 + "]\nb: [" + "*a," * 100 + "]\n---\n") * 100,
    ],
    ids=["laughs", "quadratic", "merges", "in many documents"],
)
def test_aliases_are_bounded(text: str) -> None:
    with pytest.raises(YamlError, match="aliases stand for more than"):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: [" + "[[],[]]," * 400_000 + "]",
        "a: [" + "{}," * 400_000 + "]",
        "a: [" + "x," * 400_000 + "]",
        "a: {" + ",".join(f"k{i}: 1" for i in range(400_000)) + "}",
        "- a\n" * 400_000,
        "items:\n" + "- a\n" * 400_000,
        "items: [" + "{}," * 400_000 + "]",
        "items: [" + "{}             ," * 400_000 + "]",
        "items: [{a: [" + "[]           ," * 400_000 + "]}]",
        "- &a x\n" + "- *a\n" * 400_000,
        ("a: [" + "[]," * 10_000 + "]\n---\n") * 100,
        "---\n" * 400_000,
    ],
    ids=[
        "lists",
        "maps",
        "scalars",
        "keys",
        "texts",
        "items",
        "empty items",
        "padded items",
        "one item",
        "aliases",
        "in many documents",
        "documents",
    ],
)
def test_values_are_bounded_by_the_text(text: str) -> None:
    with pytest.raises(YamlError, match=r"too many for so little text|an object of more than 200000 values"):
        read(text)


def test_dense_text_is_given_up_early() -> None:
    """Of 30 MB no more is built than the budget's share of what was read until then."""
    text = "a: [" + "[[],[]]," * 3_750_000 + "]"
    tracemalloc.start()
    try:
        with pytest.raises(YamlError, match="too many for so little text"):
            read(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < len(text) + 30e6  # PyYAML's copy of the text, and 100,000 values


def test_small_text_may_be_dense_and_large_text_may_be_large() -> None:
    (found,) = read("[" + "[]," * (BASE_NODES - 100) + "]")
    assert len(found) == BASE_NODES - 100
    pod = "{kind: Pod, apiVersion: v1, metadata: {name: pod-%06d, namespace: a}, spec: {nodeName: n1}}"
    (found,) = read("items: [" + ",".join(pod % i for i in range(20_000)) + "]")  # 17 values in 87 characters
    assert len(found["items"]) == 20_000
    assert len(read("\n---\n".join(pod % i for i in range(20_000)))) == 20_000


def test_texts_of_one_input_share_a_budget() -> None:
    budget = NodeBudget()
    dense = "[" + "x," * (BASE_NODES - 100) + "]"
    for _ in range(2):  # each earns half of what it costs
        assert len(list(read_documents(dense, budget))) == 1
    with pytest.raises(YamlError, match="too many for so little text"):
        list(read_documents(dense, budget))


@pytest.mark.parametrize(
    "text",
    ["a: {0}", "a: '{0}'", 'a: "{0}"', "a: |\n  {0}", "# {0}\na: 1", "? {0}\n: 1", "a: &{0} 1"],
    ids=["plain", "single", "double", "block", "comment", "key", "anchor"],
)
def test_text_of_a_megabyte_is_read(text: str) -> None:
    assert len(read(text.format("x" * 1_000_000))) == 1


@pytest.mark.parametrize(
    "text",
    ["a: *{0}", "a: !{0} b", "a: !!{0} b", "a: !!int {0}", "? {0}\n: 1\n? {0}\n: 2", "a: &{0} [*{0}]", "{0}: 1"],
    ids=["alias", "tag", "type", "number", "key", "itself", "long key"],
)
def test_messages_quote_excerpts(text: str) -> None:
    with pytest.raises(YamlError) as caught:
        read(text.format("x" * 1_000_000))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "nodes", "aliased"),
    [
        # a document counts as four values more, and so does each map in the `items` of a list
        ("1", 5, 0),
        ("a: 1", 7, 0),
        ("[a, b]", 7, 0),
        ("a: {b: 1}", 9, 0),
        ("a: 1\n---\nb: 2", 14, 0),
        ("items: [{a: 1}, {b: 2}]", 4 + 3 + 2 * 7, 0),
        ("items: [1, [2]]", 4 + 3 + 3, 0),
        ("other: [{a: 1}]", 4 + 3 + 3, 0),
        ("x: {items: [{a: 1}]}", 4 + 5 + 3, 0),
        # an alias counts as one of them, and as what it stands for, written out, of the other bound
        ("a: &x 1\nb: *x", 9, 1),
        ("a: &x [1, 2]\nb: *x", 11, 3),
        ("a: &x [1]\nb: &y [*x, *x]\nc: *y", 14, 2 + 2 + 5),
        ("a: &x {k: 1}\nb: &y {k: *x}\nc: &z [*y, *y]\nd: *z", 19, 3 + 5 + 5 + 11),
        ("a: &x {k: 1}\nb: {<<: *x}", 13, 3),
        ("- &x [1]\n- {<<: {k: *x}}\n- &y [*x]\n- *y", 4 + 3 + 5 + 2 + 1, 2 + 2 + 3),
    ],
)
def test_values_counted_of_a_text(text: str, nodes: int, aliased: int) -> None:
    budget = NodeBudget()
    list(read_documents(text, budget))
    assert (budget.nodes, budget.aliased, budget.characters) == (nodes, aliased, len(text))


@pytest.mark.parametrize(
    ("characters", "index", "values", "aliased"),
    [
        (0, 0, 50_000, 200_000),
        (0, 3, 50_000, 200_000),
        (0, 4, 50_001, 200_001),
        (4, 4, 50_002, 200_002),
        (0, 23_400_000, 5_900_000, 6_050_000),  # where the two shares meet
        (0, 23_400_012, 5_900_002, 6_050_003),
        (23_400_000, 12, 5_900_002, 6_050_003),
    ],
)
def test_budget_grows_with_the_text(characters: int, index: int, values: int, aliased: int) -> None:
    """By a value for four characters, and beyond two millions for six."""
    assert (BASE_NODES, MANY_NODES, MAX_ALIAS_NODES) == (50_000, 2_000_000, 200_000)
    budget = NodeBudget()
    budget.characters = characters
    assert (budget.allowed(index), budget.allowed_aliased(index)) == (values, aliased)
    bounded = NodeBudget(55_000)
    bounded.characters = characters
    assert bounded.allowed(index) == min(values, 55_000)


def test_one_object_holds_so_many_values() -> None:
    """As many as an API server stores, wherever it stands; the objects of a list hold so many each."""
    one = "a: [" + "x            ," * (MAX_OBJECT_NODES - 3) + "]"
    assert len(read(one)) == 1
    with pytest.raises(YamlError, match="an object of more than 200000 values"):
        read(one[:-1] + "x]")
    half = "{a: [" + "x            ," * (MAX_OBJECT_NODES // 2) + "]}"
    assert len(read(f"items: [{half}, {half}, {half}]")[0]["items"]) == 3
    with pytest.raises(YamlError, match="an object of more than 200000 values"):
        read(f"other: [{half}, {half}, {half}]")
    assert read_document("a: [" + "x," * (BASE_NODES - 10) + "]")[1] == []


@pytest.mark.parametrize(("height", "depth", "fits"), [(1, 99, True), (1, 100, False), (50, 50, True), (51, 50, False)])
def test_depth_of_what_an_alias_stands_for_counts(height: int, depth: int, fits: bool) -> None:
    text = f"- &x {'[' * height}{']' * height}\n- {'[' * (depth - 1)}*x{']' * (depth - 1)}\n"
    again = text.replace("- &x", "- [&x").replace("]\n- ", "]]\n- ", 1)
    for each in (text, again):
        if fits:
            assert len(read(each)) == 1
        else:
            with pytest.raises(YamlError, match="nested deeper than 100 levels"):
                read(each)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: !!bool yes\nb: !!null ~\nc: !!timestamp 2026-01-01\nd: !!float 1.5",
         {"a": True, "b": None, "c": "2026-01-01", "d": 1.5}),
        ("a: !!bool 1", "cannot decode '1' as bool"),
        ("a: !!float yes", "cannot decode 'yes' as float"),
        ("a: !!null 1", "cannot decode '1' as null"),
        ("a: !!timestamp 1", "cannot decode '1' as timestamp"),
        ("a: !!int 1.5", "cannot decode '1.5' as int"),
        ("a: !!int 1e3", "cannot decode '1e3' as int"),
        ("a: !!binary aG\n", "invalid base64"),
        ("a: !!seq {}", "is not allowed"),
        ("a: !!map []", "is not allowed"),
        ("a: ! {}\nb: ! [1]", {"a": {}, "b": [1]}),
        # keys: the shortest text that a 32-bit float tells from all others
        ("1e300: a\n-1e300: b", {".inf": "a", "-.inf": "b"}),
        ("0.0001: a\n0.00001: b", {"0.0001": "a", "1e-05": "b"}),
        ("100000.5: c\n1000000.5: d", {"100000.5": "c", "1.0000005e+06": "d"}),
        ("0.1: a\n0.3333333333: b", {"0.1": "a", "0.33333334": "b"}),
        ("-1.5e3: c\n16777217.0: d", {"-1500": "c", "1.6777216e+07": "d"}),
        ("9223372036854775807: a\n-9223372036854775808: b", {"9223372036854775807": "a", "-9223372036854775808": "b"}),
        ("9223372036854775808: a", "a key must be text"),
        # numbers: what a float cannot hold is text
        ("a: 1e20\nb: 1e21\nc: 1e22", {"a": 10**20, "b": 1e21, "c": 1e22}),
        ("a: -1e400\nb: 0x10\nc: -0o17\nd: 0B11\ne: +0x1f", {"a": "-1e400", "b": 16, "c": -15, "d": 3, "e": 31}),
        # what a merge set may be set again, once, where it stands
        ("[{<<: {k: 1}}, {k: 1, k: 2}]", "key 'k' already set in map"),
        ("a: {<<: {k: 1}, b: {k: 1, k: 2}}", "key 'k' already set in map"),
        ("a: {k: 1, <<: {k: 2}, k: 3}", "key 'k' already set in map"),
        ("a: {<<: [{k: 1}, {k: 2, l: 3}], k: 4}", {"a": {"k": 4, "l": 3}}),
        ("a: {b: {<<: {k: 1}}, k: 1}", {"a": {"b": {"k": 1}, "k": 1}}),
    ],
)  # fmt: skip
def test_tags_keys_and_merges(text: str, expected: Any) -> None:
    if isinstance(expected, str):
        with pytest.raises(YamlError, match=re.escape(expected)):
            read(text)
        return
    assert repr(read(text)[0]) == repr(expected)
