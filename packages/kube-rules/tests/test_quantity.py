"""Quantities: apimachinery resource.Quantity, api.md "Quantities and requests"."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.quantity import (
    MAX_INT64,
    NANO,
    Quantity,
    QuantityError,
    QuantityText,
    canonical,
    format_quantity,
    milli_value,
    parse,
    value,
)

SUFFIXES = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
    **{f"e{exponent}": exponent for exponent in (-9, -3, 0, 3, 9)},
    **{f"E+{exponent}": exponent for exponent in (0, 3)},
}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@pytest.mark.parametrize(
    ("text", "milli", "ones", "written"),
    [
        ("0", 0, 0, "0"),
        ("1500m", 1500, 2, "1500m"),
        ("0.5", 500, 1, "500m"),  # recorded answer of an API server: 0.5 -> 500m
        ("1000m", 1000, 1, "1"),  # 1000m -> 1
        ("1024Mi", 2**30 * 1000, 2**30, "1Gi"),  # 1024Mi -> 1Gi
        ("1e3", 10**6, 1000, "1e3"),  # 1e3 stays
        ("1000000k", 10**12, 10**9, "1G"),  # 1000000k -> 1G
        (1073741824, 2**30 * 1000, 2**30, "1073741824"),  # a bare number is decimal
        (0.5, 500, 1, "500m"),
        ("1.5Gi", 3 * 2**29 * 1000, 3 * 2**29, "1536Mi"),
        ("0.1m", 1, 1, "100u"),  # sub-milli rounds up
        ("0.1n", 1, 1, "1n"),  # the finest is 1n
        ("-0.1m", -1, -1, "-100u"),  # away from zero
        ("-1.5", -1500, -2, "-1500m"),
        ("1E", MAX_INT64, 10**18, "1E"),  # exa, not an exponent
        ("1E3", 10**6, 1000, "1E3"),
        ("12e4", 120_000_000, 120_000, "120e3"),
        ("9Ei", MAX_INT64, MAX_INT64, str(MAX_INT64)),  # capped
        ("1e400", MAX_INT64, MAX_INT64, str(MAX_INT64)),
        ("1e-400", 1, 1, "1e-9"),
        ("1.1Ki", 1126400, 1127, "1126400m"),  # a fraction is never shown binary
        (" 1 ", 1000, 1, "1"),
        ("+1Gi", 2**30 * 1000, 2**30, "+1Gi"),  # an API server keeps what needs no change
    ],
)
def test_amounts_and_canonical_text(text: QuantityText, milli: int, ones: int, written: str) -> None:
    """api.md 4.1."""
    quantity = parse(text)
    assert (milli_value(quantity), value(quantity), canonical(text)) == (milli, ones, written)


@pytest.mark.parametrize(
    "text",
    ["", "1x", "1 Gi", "--1", "1.1.1", "1e", "1e+", "1mi", "1Kii", ".", "+", "nan", "٣", "1Gi1", "0x1", "9" * 300],
)
def test_malformed_quantities_are_named(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert text[:64] in str(caught.value)


@pytest.mark.parametrize("found", [True, float("nan"), float("inf"), 10**5000], ids=["bool", "nan", "inf", "huge"])
def test_numbers_that_are_no_quantity(found: QuantityText) -> None:
    with pytest.raises(QuantityError):
        parse(found)


@given(st.integers(-(10**12), 10**12), st.integers(0, 10**6), st.sampled_from(sorted(SUFFIXES) + sorted(BINARY)))
def test_reading_is_exact_and_rounds_away_from_zero(whole: int, fraction: int, suffix: str) -> None:
    """api.md 4.1."""
    text = f"{whole}.{fraction:07d}{suffix}"
    scale = Fraction(2) ** BINARY[suffix] if suffix in BINARY else Fraction(10) ** SUFFIXES[suffix]
    sign = -1 if text.startswith("-") else 1
    exact = (abs(whole) + Fraction(fraction, 10**7)) * scale
    expected = min(-((-exact * NANO) // 1), MAX_INT64 * NANO)
    quantity = parse(text)
    assert quantity.nano == sign * expected
    assert milli_value(quantity) == sign * min(-(-expected // 10**6), MAX_INT64)
    assert value(quantity) == sign * min(-(-expected // NANO), MAX_INT64)


@given(st.integers(-(10**15), 10**15), st.sampled_from(sorted(SUFFIXES) + sorted(BINARY)))
def test_canonical_text_reads_as_the_same_amount_and_stays(number: int, suffix: str) -> None:
    quantity = parse(f"{number}{suffix}")
    again = parse(quantity.text)
    assert again.nano == quantity.nano
    assert again.text == quantity.text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        # kept as written: what Go's fast path takes (18 digits, an exponent that is a multiple of three, no three
        # zeros at the end); anything else becomes the largest suffix that keeps it exact
        ("1.500", "1.500"),
        ("1.50", "1500m"),
        ("1.5", "1500m"),
        ("1.000", "1"),
        ("0.500", "500m"),
        ("100", "100"),
        ("1000", "1k"),
        ("10000", "10k"),
        ("123456789012345678", "123456789012345678"),
        ("1234567890123456789", "1234567890123456789"),
        ("12345678901234567.123", "12345678901234567123m"),
        ("+5", "+5"),
        ("-0", "0"),
        ("0n", "0"),
        ("1500u", "1500u"),
        ("1000u", "1m"),
        ("999999n", "999999n"),
        ("1e-9", "1e-9"),
        ("1e-10", "1e-9"),
        ("1000e3", "1e6"),
        ("1e1", "10"),
        ("1000Ki", "1000Ki"),
        ("1024Ki", "1Mi"),
        ("8Ki", "8Ki"),
        ("2048", "2048"),
        ("0.5Ki", "512"),
        ("0.5Mi", "512Ki"),
        ("1025Ki", "1025Ki"),
        ("+12345678901Ki", "+12345678901Ki"),
        ("+123456789012Ki", "123456789012Ki"),  # too large for the fast path
        ("1Ei", "1Ei"),
        ("7Ei", "7Ei"),
        ("1024Pi", "1Ei"),
        ("0.1Ki", "102400m"),
        ("0.0001Ki", "102400u"),
        ("-1024Ki", "-1Mi"),
        (".5k", "500"),
        ("1E", "1E"),
        ("1P", "1P"),
        ("1000P", "1E"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775807"),
        ("1e18", "1e18"),
        ("1e19", "9223372036854775807"),
        ("1e401", "9223372036854775807"),
        ("1e-401", "1e-9"),
        ("0e999", "0"),
    ],
)
def test_text_as_an_api_server_writes_it(text: str, written: str) -> None:
    assert canonical(text) == written


@pytest.mark.parametrize(
    ("nano", "form", "text"),
    [
        (0, "DecimalSI", "0"),
        (1, "DecimalSI", "1n"),
        (1000, "DecimalSI", "1u"),
        (10**9, "DecimalSI", "1"),
        (10**27, "DecimalSI", "1E"),
        (10**30, "DecimalSI", "1000E"),
        (-1500 * 10**6, "DecimalSI", "-1500m"),
        (1023 * NANO, "BinarySI", "1023"),
        (1024 * NANO, "BinarySI", "1Ki"),
        (-1024 * NANO, "BinarySI", "-1Ki"),
        (1025 * NANO, "BinarySI", "1025"),
        (2**70 * NANO, "BinarySI", "1024Ei"),
        (1024 * NANO + 1, "BinarySI", "1024000000001n"),
        (10**12, "DecimalExponent", "1e3"),
        (10**9, "DecimalExponent", "1"),
        (1, "DecimalExponent", "1e-9"),
        (10**33, "DecimalExponent", "1e24"),
    ],
)
def test_amount_is_written_without_a_fraction(nano: int, form: str, text: str) -> None:
    """The largest suffix that keeps it exact."""
    assert format_quantity(nano, form) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1mi", "unable to parse quantity's suffix"),
        ("1KM", "unable to parse quantity's suffix"),
        ("1e+", "unable to parse quantity's suffix"),
        ("1E-", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1Ki5", "unable to parse quantity's suffix"),
        ("1z5", "quantities must match"),
        ("", "quantities must match"),
        (".", "quantities must match"),
        ("1" * 256, None),
        ("1" * 257, "must be no more than 256 characters"),
        (" " * 200 + "1" + " " * 200, None),
        (" " * 600 + "1", "must be no more than 256 characters"),
    ],
)
def test_why_a_text_is_no_quantity(text: str, reason: str | None) -> None:
    if reason is None:
        parse(text)
        return
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert caught.value.text == text
    assert caught.value.reason.startswith(reason)
    shown = text if len(text) <= 64 else f"{text[:64]}..."
    assert str(caught.value).startswith(f'"{shown}": ')


def test_numbers_are_read_as_their_text() -> None:
    assert parse(5).nano == 5 * NANO
    assert parse(1.5).nano == 15 * NANO // 10
    assert parse(1e20).nano == MAX_INT64 * NANO
    assert parse(10**255).nano == MAX_INT64 * NANO
    for wrong in (10**256, 10**308, 1 << 1025):
        with pytest.raises(QuantityError, match="must be no more than 256 characters"):
            parse(wrong)
    with pytest.raises(QuantityError, match="True"):
        parse(True)


@pytest.mark.parametrize(
    ("nano", "milli", "ones"),
    [
        (1, 1, 1),
        (10**6, 1, 1),
        (10**6 + 1, 2, 1),
        (-1, -1, -1),
        (-(10**6) - 1, -2, -1),
        (10**9, 1000, 1),
        (10**9 + 1, 1001, 2),
        (MAX_INT64 * 10**6, MAX_INT64, 9223372036854776),
        (MAX_INT64 * 10**6 + 1, MAX_INT64, 9223372036854776),
        (-(MAX_INT64 + 1) * 10**6, -MAX_INT64, -9223372036854776),
    ],
)
def test_amounts_round_away_from_zero_within_int64(nano: int, milli: int, ones: int) -> None:
    """api.md 4.3."""
    quantity = Quantity(nano, "DecimalSI", "")
    assert (milli_value(quantity), value(quantity)) == (milli, ones)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("1", "DecimalSI"),
        ("1Ki", "BinarySI"),
        ("1e3", "DecimalExponent"),
        ("0Ki", "BinarySI"),
        ("0.0001Ki", "DecimalSI"),  # less than one is never shown binary
        ("0.0009765625Ki", "BinarySI"),  # one
    ],
)
def test_format_of_a_quantity(text: str, form: str) -> None:
    assert parse(text).format == form
