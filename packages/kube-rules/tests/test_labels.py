"""Names, label keys and label values (apimachinery validation): lengths, characters, and the message for each error."""

from __future__ import annotations

import pytest

from kube_rules.caching import LONGEST, remembered
from kube_rules.labels import (
    Messages,
    dns_label_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)

CHECKS = {
    "label": dns_label_errors,
    "subdomain": dns_subdomain_errors,
    "value": label_value_errors,
    "key": qualified_name_errors,
}
LABEL = "a lowercase RFC 1123 label must consist"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist"
VALUE = "a valid label must be an empty string or consist"
NAME = "name part must consist"


def parts(*lengths: int) -> str:
    return ".".join("a" * length for length in lengths)


@pytest.mark.parametrize(
    ("check", "text", "messages"),
    [
        ("label", "a", ()),
        ("label", "a-b1", ()),
        ("label", "a" * 63, ()),
        ("label", "a" * 64, ("must be no more than 63 bytes",)),
        ("label", "a" * 252 + "A", ("must be no more than 63 bytes",)),  # not worth a match
        ("label", "A" * 64, ("must be no more than 63 bytes", LABEL)),
        ("label", "A" * 252, ("must be no more than 63 bytes", LABEL)),
        ("label", "A", (LABEL,)),
        ("label", "-a", (LABEL,)),
        ("label", "a-", (LABEL,)),
        ("label", "a.b", (LABEL,)),
        ("label", "", (LABEL,)),
        ("label", "é" * 31 + "a", (LABEL,)),  # 63 bytes
        ("label", "é" * 32, ("must be no more than 63 bytes", LABEL)),  # 64 bytes
        ("label", "\ud800", (LABEL,)),
        ("subdomain", parts(63, 63, 63, 61), ()),
        ("subdomain", parts(63, 63, 63, 62), ("must be no more than 253 bytes",)),
        ("subdomain", "a..b", (SUBDOMAIN,)),
        ("subdomain", "a.-b", (SUBDOMAIN,)),
        ("value", "", ()),
        ("value", "A_b.c-D", ()),
        ("value", "a" * 63, ()),
        ("value", "a" * 64, ("must be no more than 63 bytes",)),
        ("value", "a b", (VALUE,)),
        ("value", "-", (VALUE,)),
        ("key", "a", ()),
        ("key", "A_b.c", ()),
        ("key", "a.b/C_d", ()),
        ("key", "a" * 63, ()),
        ("key", "a" * 64, ("name part must be no more than 63 bytes",)),
        ("key", "x/" + "a" * 63, ()),
        ("key", "x/" + "-" * 64, ("name part must be no more than 63 bytes", NAME)),
        ("key", parts(63, 63, 63, 61) + "/a", ()),
        ("key", parts(63, 63, 63, 62) + "/a", ("prefix part must be no more than 253 bytes",)),
        ("key", "A/a", ("prefix part " + SUBDOMAIN,)),
        ("key", "/a", ("prefix part must be non-empty",)),
        ("key", "a/", ("name part must be non-empty", NAME)),
        ("key", "", ("name part must be non-empty", NAME)),
        ("key", "a/b/c", ("a qualified name must consist",)),
    ],
)
def test_messages_of_a_text(check: str, text: str, messages: tuple[str, ...]) -> None:
    found: Messages = CHECKS[check](text)
    assert len(found) == len(messages)
    for said, expected in zip(found, messages, strict=True):
        assert said.startswith(expected)


@pytest.mark.parametrize(("length", "times"), [(0, 1), (LONGEST, 1), (LONGEST + 1, 3)])
def test_texts_up_to_a_length_are_remembered(length: int, times: int) -> None:
    """A longer one is checked each time: names of a megabyte do not fill the memory."""
    asked = []

    @remembered(2)
    def check(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [check("a" * length) for _ in range(3)] == [length] * 3
    assert len(asked) == times


def test_no_more_are_remembered_than_was_asked_for() -> None:
    asked = []

    @remembered(2)
    def check(text: str) -> str:
        asked.append(text)
        return text

    for text in "abab" + "cab":
        check(text)
    assert asked == list("abcab")
