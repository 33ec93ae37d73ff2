"""Quantities: apimachinery resource.Quantity, api.md "Quantities and requests"."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.api.quantity import (
    MAX_INT64,
    NANO,
    QuantityError,
    QuantityText,
    canonical,
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
