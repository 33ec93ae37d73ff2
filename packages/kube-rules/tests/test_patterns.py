"""Regular expressions from outside (RE2): what is found, what is refused, how deep they nest."""

from __future__ import annotations

import pytest

from kube_rules.patterns import MAX_LENGTH, MAX_NESTING, PatternError, pattern


@pytest.mark.parametrize(
    ("text", "given", "found"),
    [
        ("abc", "b", True),
        ("abc", "^b", False),
        ("abc", "^a.c$", True),
        ("abc", "", True),
        ("", "a", False),
        ("\ud800", "a", False),
        ("a\ud800", "a", True),  # a lone surrogate is no character
        ("é", "^.$", True),
    ],
)
def test_kinds_found(text: str, given: str, found: bool) -> None:
    assert pattern(given).found_in(text) is found


def test_everything_that_is_found_with_what_is_left_then() -> None:
    assert list(pattern("[a-z]+").all_in("ab1c22d")) == [("ab", 5), ("c", 3), ("d", 0)]
    assert list(pattern("z").all_in("abc")) == []
    assert [found for found, _ in pattern("(a)(b)").all_in("abab")] == ["ab", "ab"]


def test_search_costs_its_program_times_the_text() -> None:
    found = pattern("abc")
    assert found.cost("") == 16 * found.size
    assert found.cost("x" * 10) == 26 * found.size
    assert pattern("(abc){50}").size > 50


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("(", "error parsing regexp: missing"),
        ("a(?=b)", "error parsing regexp: invalid"),
        (r"(a)\1", "error parsing regexp: invalid escape sequence"),
        ("[", "error parsing regexp: missing"),
        ("\ud800", "error parsing regexp: invalid UTF-8"),
        ("a{1001}", "error parsing regexp: "),
        ("((a{100}){100}){100}", "error parsing regexp: "),
    ],
)
def test_text_that_is_no_pattern(given: str, why: str) -> None:
    for _ in range(2):  # an error is remembered too
        with pytest.raises(PatternError) as caught:
            pattern(given)
        assert str(caught.value).startswith(why)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400


def test_how_long_a_pattern_may_be() -> None:
    assert pattern("a" * MAX_LENGTH).found_in("a" * MAX_LENGTH)
    with pytest.raises(PatternError, match="expression is longer than 16384 characters"):
        pattern("a" * (MAX_LENGTH + 1))


TOO_DEEP = "expression nests too deeply"
DEEP = "(" * MAX_NESTING + "a" + ")" * MAX_NESTING


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        (DEEP, True),
        ("(" + DEEP + ")", False),
        (DEEP + DEEP, True),
        ("(" + ")(" * 2000 + ")", True),  # many, but none in another
        (r"\(" * 2000, True),
        (r"\\" + "(" + DEEP + ")", False),
        ("[(]" * 2000, True),
        ("[^(]" * 2000, True),
        ("[](]" * 2000, True),  # a bracket that comes first is one of the characters
        ("[^](]" * 2000, True),
        ("[]a](" + DEEP + ")", False),
        (r"[\]((]" * 1001, True),
        ("[a]" + "(" + DEEP + ")", False),
    ],
)
def test_how_deep_a_pattern_nests(given: str, fits: bool) -> None:
    """regexp/syntax: a thousand levels."""
    if fits:
        pattern(given)
        return
    with pytest.raises(PatternError, match=TOO_DEEP):
        pattern(given)
