"""On which line an unknown field stands, which known name is nearest, and how a path is written."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.errors import Origin
from kube_rules.meta import Struct
from kube_rules.unknown_fields import (
    MOST_LOCATED,
    UnknownField,
    located,
    misnamed_in,
    nearest,
    path_text,
)

Path = tuple[str | int, ...]


def found(path: Path, *, line: int | None = 1, at: Path = (), subject: str = 'Pod "p"') -> UnknownField:
    return UnknownField(Origin("a", 1, line), subject, path, at=at)


TEXT = """\
a: 1
b:
  c: {d: 1,
      e: [1, {f: 1}]}
  g:
  - h: 1
  - i: 1
    j: |
      k
    l: 1
? [x]
: 1
m: 1
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 1),
        (("b",), 2),
        (("b", "c"), 3),
        (("b", "c", "d"), 3),
        (("b", "c", "e"), 4),
        (("b", "c", "e", 1, "f"), 4),
        (("b", "g"), 5),
        (("b", "g", 0, "h"), 6),
        (("b", "g", 1, "i"), 7),
        (("b", "g", 1, "l"), 10),
        (("m",), 13),
        # what does not stand there is on the line of the last that does
        (("b", "x"), 2),
        (("b", "g", 7, "x"), 5),
        (("b", "g", "x"), 5),
        (("b", "c", "e", 0, "x"), 4),
        (("a", "x"), 1),
        (("b", 0), 2),
        (("nowhere",), 1),
    ],
)
def test_line_of_a_path(path: Path, line: int) -> None:
    for text in (TEXT, "---\n" + TEXT):
        [one] = located([found(path)], text)
        extra = 0 if text == TEXT or path == ("nowhere",) else 1
        assert one.origin.line == line + extra


@pytest.mark.parametrize(
    ("text", "line", "first", "expected"),
    [
        ("a: 1\n---\nb:\n  c: 1\n", 2, 1, 4),
        ("a: 1\n---\nb:\n  c: 1\n", 3, 1, 4),
        ("b:\n  c: 1\n", 10, 10, 11),  # the text begins on the tenth line of its file
        ("b: {c: 1}\n---\nb:\n\n  c: 1\n", 1, 1, 1),  # the first document, not the second
        ("b:\n...\n---\nb: {c: 1}\n", 1, 1, 1),
        ("b:\n  ---c: 1\n  c: 1\n", 1, 1, 3),  # no marker: it does not stand at the start of a line
        ("b: [\n", 1, 1, 1),  # broken further down
        ("", 1, 1, 1),
        ("b:\n  c: 1\n", None, 1, None),
        ("b:\n  c: 1\n", 99, 1, 99),  # beyond the text: it stays where it was
    ],
)
def test_documents_of_a_text(text: str, line: int | None, first: int, expected: int | None) -> None:
    [one] = located([found(("b", "c"), line=line)], text, first_line=first)
    assert one.origin.line == expected


def test_where_in_its_document_an_object_is_counts() -> None:
    text = "items:\n- a: 1\n- b: 1\n  c: 1\n"
    [one] = located([found(("c",), at=("items", 1))], text)
    assert one.origin.line == 4
    assert one.path == ("c",)


def test_equal_findings_are_looked_up_once() -> None:
    """The same misspelling stands in every object of a generated input."""
    text = "\n".join(f"a{number}: 1" for number in range(300)) + "\nlist:\n- x: 1\n- x: 1\n"
    alike = located([found(("list", 0, "x")), found(("list", 1, "x"))], text)
    assert [one.origin.line for one in alike] == [302, 1]
    other = located([found(("list", 0, "x")), found(("list", 1, "x"), subject='Node "n"')], text)
    assert [one.origin.line for one in other] == [302, 303]
    many = located([found((f"a{number}",)) for number in range(300)], text)
    assert [one.origin.line for one in many[:MOST_LOCATED]] == list(range(1, MOST_LOCATED + 1))
    assert {one.origin.line for one in many[MOST_LOCATED:]} == {1}


def test_document_of_more_than_a_megabyte_is_not_looked_through() -> None:
    small = "a: 1\nb: 1\nc: '" + "x" * (1024 * 1024 - 15) + "'"
    assert len(small) == 1024 * 1024
    assert located([found(("b",))], small)[0].origin.line == 2
    assert located([found(("b",))], small + "\n")[0].origin.line == 1
    twice = [found(("b",)), found(("c",))]
    assert [one.origin.line for one in located(twice, small)] == [2, 1]  # together, for all findings of a text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("a", "b"), "a.b"),
        (("a", 0, "b", 1, 2), "a[0].b[1][2]"),
        ((0, "a"), "[0].a"),
        (("x" * 128,), "x" * 128),
        (("x" * 129, "a"), "x" * 128 + "....a"),
    ],
)
def test_path_is_written_as_an_api_server_does(path: Path, text: str) -> None:
    assert path_text(path) == text


@pytest.mark.parametrize(
    ("each", "text"),
    [
        (found(("a", 0)), 'a: document 1 (line 1): Pod "p": unknown field "a[0]"'),
        (
            found(("a",), subject="")._replace(nearest="b"),
            'a: document 1 (line 1): unknown field "a", did you mean "b"?',
        ),
    ],
)  # fmt: skip
def test_finding_is_one_line(each: UnknownField, text: str) -> None:
    assert str(each) == text


def test_misspellings_differ_by_kind_and_path_without_indices() -> None:
    assert found(("a", 0, "b", 1)).shape == found(("a", 7, "b", 2), subject='Pod "q"').shape == ("Pod", "a.b")


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("NodeName", ["nodename", "nodeName"], "nodeName"),  # of those that differ in capitals the first by name
        ("nodename", ["nodeName"], "nodeName"),
        ("nodeNam", ["nodeName", "nodePort"], "nodeName"),
        ("ab", ["ba"], ""),  # two letters the wrong way round are no misspelling of a name of two
        ("abc", ["cba"], "cba"),
        ("abcd", ["wxyz"], ""),
        ("x" * 128, ["x" * 127], "x" * 127),
        ("x" * 129, ["x" * 128], ""),
        ("abcdefg", ["abcdexy"], "abcdexy"),  # five of seven letters
        ("abcdef", ["abcdxy"], ""),  # four of six
        ("a", [], ""),
    ],
)
def test_nearest_of_the_known_names(name: str, known: list[str], meant: str) -> None:
    assert nearest(name, known) == meant


class Inner(Struct, frozen=True, kw_only=True):
    some_name: str = ""


class Outer(Struct, frozen=True, kw_only=True):
    one: Inner | None = None
    many: tuple[Inner, ...] = ()
    others: list[Inner] | Inner = []  # noqa: RUF012 - msgspec copies it
    text: str = ""
    any: Any = None


@pytest.mark.parametrize(
    ("value", "misnamed"),
    [
        ({}, []),
        (7, []),
        ({"one": {"someName": "x"}, "any": {"x": 1}}, []),
        ({"one": {"some_name": "x"}}, [(("one", "some_name"), "someName")]),
        ({"many": [{}, {"x": 1}], "txt": ""}, [(("many", 1, "x"), ""), (("txt",), "text")]),
        ({"others": [{"someNam": 1}]}, [(("others", 0, "someNam"), "someName")]),
        ({"others": {"someNam": 1}}, [(("others", "someNam"), "someName")]),
        ({"many": {"x": 1}, "text": {"x": 1}, "one": None}, []),
        ({7: 1}, [(("7",), "")]),
    ],
)
def test_fields_that_a_type_does_not_have(value: Any, misnamed: list[tuple[Path, str]]) -> None:
    assert [(one.path, one.nearest) for one in misnamed_in(Outer, value)] == misnamed
