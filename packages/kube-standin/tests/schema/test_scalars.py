"""Times and bytes as they are stored (Go's time package and metav1.Time), and how values are shown in errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kube_rules import field_errors as fe
from kube_rules import step_budget
from kube_rules.errors import FieldError
from kube_rules.schema import scalars
from kube_rules.step_budget import StepBudget, TooMuchAtOnceError, TooMuchError


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-01-31T23:59:59Z", "2026-01-31T23:59:59Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
        ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("0099-01-01T02:00:00+01:00", "0099-01-01T01:00:00Z"),
        ("2026-01-01T00:00:00.999Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:30:00-05:30", "2026-01-01T06:00:00Z"),
        ("2025-12-31T23:30:00-01:00", "2026-01-01T00:30:00Z"),
    ],
)
def test_times(text: str, stored: str) -> None:
    assert scalars.time(text) == stored


@pytest.mark.parametrize(
    "text",
    [
        *(f"2026-{month:02}-31T00:00:00Z" for month in (2, 4, 6, 9, 11)),
        *(f"2026-{month:02}-32T00:00:00Z" for month in (1, 3, 5, 7, 8, 10, 12)),
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2024-02-30T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "2026-01-01T24:00:01Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2026-01-01T00:00:00Z\n",
        "",
    ],
)
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(scalars.ScalarError, match="parsing time"):
        scalars.time(text)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000001Z"),
        ("2026-01-01T00:00:00.999999+01:00", "2025-12-31T23:00:00.999999Z"),
        ("0099-01-01T00:00:00.120000Z", "0099-01-01T00:00:00.120000Z"),
        ("0099-01-01T02:00:00.120000+01:00", "0099-01-01T01:00:00.120000Z"),
    ],
)
def test_times_with_microseconds(text: str, stored: str) -> None:
    assert scalars.micro_time(text) == stored


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("2026-01-01T00:00:00Z", "Z"),
        ("2026-01-01T00:00:00.00000Z", ".00000Z"),
        ("2026-01-01T00:00:00.0000000+01:00", ".0000000+01:00"),
    ],
)
def test_microseconds_have_six_digits(text: str, rest: str) -> None:
    layout = "2006-01-02T15:04:05.000000Z07:00"
    with pytest.raises(scalars.ScalarError) as caught:
        scalars.micro_time(text)
    assert str(caught.value) == f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as ".000000"'


@pytest.mark.parametrize("text", ["2026-02-30T00:00:00.000000Z", "x"])
def test_times_with_microseconds_that_are_none(text: str) -> None:
    with pytest.raises(scalars.ScalarError, match="parsing time"):
        scalars.micro_time(text)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("", ""),
        ("YQ==", "YQ=="),
        ("YWJj", "YWJj"),
        ("YW\nJj\r\nYQ=\n=\n", "YWJjYQ=="),  # as in a YAML block
        ("YR==", "YQ=="),  # bits of the last digit that belong to no byte
    ],
)
def test_bytes(text: str, stored: str) -> None:
    assert scalars.base64_bytes(text) == stored


@pytest.mark.parametrize(
    ("text", "place"),
    [
        *(("YQ=", 3), ("YQ=x", 2), ("a b=", 1), ("é", 0), ("YWJjY", 4), ("YWJjYQ", 4), ("YWJj=", 4), ("Y===", 1)),
        *(("YQ==YQ==", 4), ("YWI=\nx", 5), ("YQ=\n", 4)),
    ],
)
def test_bytes_that_are_none(text: str, place: int) -> None:
    """The place is that of Go's decoder."""
    with pytest.raises(scalars.ScalarError, match=f"illegal base64 data at input byte {place}$"):
        scalars.base64_bytes(text)


# -- values in errors


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ("é\n", '"é\\n"'),
        ({"a": [1, None, True]}, '{"a":[1,null,true]}'),
        (1.5, "1.5"),
        (None, "null"),
    ],
)
def test_values_are_shown_as_json(value: Any, text: str) -> None:
    assert fe.shown(value) == text


def test_long_values_are_cut() -> None:
    assert fe.shown("x" * 4096) == json.dumps("x" * 4096)
    assert fe.shown("x" * 4097) == json.dumps("x" * 4096 + "...")
    fits = [int("1" * 4094)]
    assert fe.shown(fits) == f"[{fits[0]}]"
    assert fe.shown([*fits, 2]) == f"[{fits[0]},2]"[:4096] + "..."
    assert len(fe.shown(list(range(100_000)))) == 4096 + 3


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (fe.invalid("f", "v", "why"), ("FieldValueInvalid", "f", 'Invalid value: "v": why')),
        (fe.required("f"), ("FieldValueRequired", "f", "Required value")),
        (fe.required("f", "why"), ("FieldValueRequired", "f", "Required value: why")),
        (fe.duplicate("f", 1), ("FieldValueDuplicate", "f", "Duplicate value: 1")),
        (fe.duplicate("f", 1, "why"), ("FieldValueDuplicate", "f", "Duplicate value: 1: why")),
        (fe.forbidden("f", "why"), ("FieldValueForbidden", "f", "Forbidden: why")),
        (
            fe.not_supported("f", "v", ["b", "a"]),
            ("FieldValueNotSupported", "f", 'Unsupported value: "v": supported values: "b", "a"'),
        ),
        (fe.too_long("f", 5), ("FieldValueTooLong", "f", "Too long: may not be more than 5 bytes")),
        (fe.too_many("f", 2, 1), ("FieldValueTooMany", "f", "Too many: 2: must have at most 1 item")),
        (fe.too_many("f", 3, 2), ("FieldValueTooMany", "f", "Too many: 3: must have at most 2 items")),
        (fe.type_invalid("f", "v", "why"), ("FieldValueTypeInvalid", "f", 'Invalid value: "v": why')),
        (fe.not_found("f", "v"), ("FieldValueNotFound", "f", 'Not found: "v"')),
        (fe.not_found("f", "v", "why"), ("FieldValueNotFound", "f", 'Not found: "v": why')),
    ],
)
def test_words_of_field_errors(error: FieldError, expected: tuple[str, str, str]) -> None:
    """Those of apimachinery's field package."""
    assert (error.reason, error.path, error.message) == expected
    assert str(error) == f"f: {expected[2]}"


def syntax(value: str) -> list[str]:
    return [f"{letter} is wrong" for letter in value if letter.isupper()]


def test_values_with_a_syntax() -> None:
    assert list(fe.malformed("f", "abc", syntax)) == []
    assert list(fe.malformed("f", "aBC", syntax)) == [
        fe.invalid("f", "aBC", "B is wrong"),
        fe.invalid("f", "aBC", "C is wrong"),
    ]
    assert list(fe.wanted("f", "", syntax)) == [fe.required("f")]
    assert list(fe.wanted("f", "a", syntax)) == []
    assert list(fe.wanted("f", "A", syntax)) == [fe.invalid("f", "A", "A is wrong")]


def test_values_of_a_few() -> None:
    assert list(fe.one_of("f", "", ("a", "b"))) == [fe.required("f")]
    assert list(fe.one_of("f", "b", ("a", "b"))) == []
    assert list(fe.one_of("f", "c", ("a", "b"))) == [fe.not_supported("f", "c", ("a", "b"))]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("a", "a", True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 10**400, "b": 2}, {"b": 2, "a": 10**400}, True),
        ({"a": 10**400}, {"a": 10**400 + 1}, False),
        ({"a": "\ud800", "b": 1}, {"b": 1, "a": "\ud800"}, True),
        ("1", 1, False),
        (1, True, False),
        (1, 1.0, False),
    ],
)
def test_set_keys_of_values(one: Any, other: Any, alike: bool) -> None:
    assert (fe.frozen(one) == fe.frozen(other)) is alike


# -- steps


def test_steps_that_may_be_taken() -> None:
    """The last one is free; one more is refused, on the loop so that it is tried elsewhere."""
    for inline, most, error in (
        (True, step_budget.INLINE, TooMuchAtOnceError),
        (False, step_budget.MOST, TooMuchError),
    ):
        budget = StepBudget(inline=inline)
        budget.spend(most)
        with pytest.raises(error):
            budget.spend(1)
    assert step_budget.INLINE < step_budget.MOST


def test_expressions_and_patterns_cost_steps_on_the_event_loop_alone() -> None:
    away = StepBudget()
    away.spend_cel(10**12)
    away.spend_search(10**12)
    away.spend(step_budget.MOST)
    here = StepBudget(inline=True)
    here.spend(step_budget.INLINE - 2)
    here.spend_cel(9)
    here.spend_search(199)
    here.spend_cel(10)
    here.spend_search(200)
    with pytest.raises(TooMuchAtOnceError):
        here.spend_cel(10)
    there = StepBudget(inline=True)
    there.spend(step_budget.INLINE)
    with pytest.raises(TooMuchAtOnceError):
        there.spend_search(200)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("2026-13-41T25:61:61Z", "month"),
        ("2026-00-01T00:00:00Z", "month"),
        ("2026-02-30T24:00:00Z", "hour"),
        ("2026-02-30T00:60:00Z", "minute"),
        ("2026-02-30T00:00:60Z", "second"),
        ("2026-02-30T00:00:00Z", "day"),
        ("2026-02-00T00:00:00.5+01:00", "day"),
        ("2026-02-01T00:00:00+25:00", "time zone offset"),
        ("0001-01-01T00:00:00+01:00", "year"),
        ("0000-01-01T00:00:00Z", "year"),
    ],
)
def test_part_of_a_time_that_no_time_has_is_named(text: str, part: str) -> None:
    """In the words of Go's time.Parse, as kube-apiserver shows them."""
    with pytest.raises(scalars.ScalarError) as caught:
        scalars.time(text)
    assert str(caught.value) == f'parsing time "{text}": {part} out of range'
