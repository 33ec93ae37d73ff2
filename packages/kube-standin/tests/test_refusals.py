"""What a refusal says and how long it may be; integers of the query, and why a text is none (api.md 5.2)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import field_errors as fe
from kube_rules.admission.amounts import added, amounts, printed, subtracted
from kube_standin import errors
from kube_standin.errors import Cause, StatusError
from kube_standin.numbers import parse_int

Json = dict[str, Any]

# -- numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("-0", 0),
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
        ("0" * 100 + "1", 1),
    ],
)
def test_integers(text: str, number: int) -> None:
    assert parse_int(text) == number


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "invalid syntax"),
        ("x", "invalid syntax"),
        ("1_0", "invalid syntax"),
        ("٣", "invalid syntax"),
        (" 1", "invalid syntax"),
        ("+-1", "invalid syntax"),
        (str(2**63), "value out of range"),
        (str(-(2**63) - 1), "value out of range"),
        ("9" * 5000, "value out of range"),
    ],
)
def test_texts_that_are_no_64_bit_integer_are_refused(text: str, why: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_int(text)
    shown = text if len(text) <= 64 else text[:64] + "..."
    assert (refused.value.code, refused.value.message) == (400, f'strconv.ParseInt: parsing "{shown}": {why}')


@pytest.mark.parametrize(("length", "cut"), [(64, False), (65, True)])
def test_refusal_shows_the_start_of_a_long_number(length: int, cut: bool) -> None:
    with pytest.raises(StatusError) as refused:
        parse_int("x" * length)
    assert ("..." in refused.value.message) is cut


# -- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "reason", "message", "details"),
    [
        (errors.not_found("pods", "", "p"), 404, "NotFound", 'pods "p" not found', {"name": "p", "kind": "pods"}),
        (errors.not_found("podgroups", "g", "p"), 404, "NotFound", 'podgroups.g "p" not found',
         {"name": "p", "group": "g", "kind": "podgroups"}),
        (errors.already_exists("pods", "", "p"), 409, "AlreadyExists", 'pods "p" already exists',
         {"name": "p", "kind": "pods"}),
        (errors.conflict("pods", "", "p", "why"), 409, "Conflict",
         'Operation cannot be fulfilled on pods "p": why', {"name": "p", "kind": "pods"}),
        (errors.forbidden("pods", "", "", "why"), 403, "Forbidden", "pods is forbidden: why", {"kind": "pods"}),
        (errors.forbidden("pods", "", "p", "why"), 403, "Forbidden", 'pods "p" is forbidden: why',
         {"name": "p", "kind": "pods"}),
        (errors.unknown_resource(), 404, "NotFound", "the server could not find the requested resource", {}),
        (errors.method_not_allowed(), 405, "MethodNotAllowed",
         "the server does not allow this method on the requested resource", {}),
        (errors.bad_request("why"), 400, "BadRequest", "why", None),
        (errors.internal("why"), 500, None, "why", None),
        (errors.expired("why"), 410, "Expired", "why", None),
        (errors.unfit("Pod", "", "p", fe.required("a.b")), 422, "Invalid", 'Pod "p" is invalid: a.b: Required value',
         {"name": "p", "kind": "Pod",
          "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "a.b"}]}),
        (errors.unfit("Pod", "", "", fe.required("a"), fe.required("a"), fe.required("b")), 422, "Invalid",
         'Pod "" is invalid: [a: Required value, b: Required value]',
         {"kind": "Pod", "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": name}
                                    for name in "aab"]}),
    ],
)  # fmt: skip
def test_refusals(error: StatusError, code: int, reason: str | None, message: str, details: Json | None) -> None:
    """api.md 5.2: what a Status says, and no more."""
    said = error.to_json()
    whole: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    whole |= {} if reason is None else {"reason": reason}
    whole |= {} if details is None else {"details": details}
    assert said == {**whole, "code": code}
    assert str(error) == message


def test_expired_list_can_be_continued() -> None:
    assert errors.expired("why", "token").to_json()["metadata"] == {"continue": "token"}


@pytest.mark.parametrize(("number", "given"), [(64, 64), (65, 64)])
def test_refusal_lists_at_most_64_causes(number: int, given: int) -> None:
    error = errors.unfit("Pod", "", "p", *(fe.required(f"f{index}") for index in range(number)))
    causes = error.to_json()["details"]["causes"]
    assert [cause["field"] for cause in causes] == [f"f{index}" for index in range(given)]


def test_long_texts_in_a_refusal_are_shortened() -> None:
    """A Status stays small whatever names and values the request held."""
    error = StatusError(400, "BadRequest", "m" * 5000, {"name": "n" * 2000}, (Cause("R", "c" * 2000, "f" * 2000),))
    said = error.to_json()
    assert len(said["message"]) <= errors.LONGEST_MESSAGE + 40
    assert len(said["details"]["name"]) <= errors.LONGEST_CAUSE + 40
    assert all(len(text) <= errors.LONGEST_CAUSE + 40 for text in said["details"]["causes"][0].values())
    kept = StatusError(400, "BadRequest", "m" * 4096, {"name": "n" * 1024}, (Cause("R", "c" * 1024),)).to_json()
    assert (len(kept["message"]), len(kept["details"]["name"])) == (4096, 1024)
    assert kept["details"]["causes"] == [{"reason": "R", "message": "c" * 1024}]


def test_causes_precede_the_retry_delay() -> None:
    """The order in which upstream writes them."""
    error = StatusError(504, "Timeout", "late", {"retryAfterSeconds": 1}, (Cause("R", "m"),))
    assert list(error.to_json()["details"]) == ["causes", "retryAfterSeconds"]


def test_success_names_the_deleted_object() -> None:
    said = errors.success("p", "g", "pods", "u")
    assert said["status"] == "Success"
    assert said["details"] == {"name": "p", "group": "g", "kind": "pods", "uid": "u"}
    assert errors.success("p", "", "pods", "")["details"] == {"name": "p", "kind": "pods"}
    assert errors.quoted(["a", 'b"']) == '["a" "b\\""]'


# -- quantities ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        ({"a": "1n"}, {"a": "1Ki"}, {"a": "1024000000001n"}, {"a": "-1023999999999n"}),
        ({"a": "1Ki"}, {"a": "1k"}, {"a": "2024"}, {"a": "24"}),
        ({"a": "0"}, {"a": "1Ki"}, {"a": "1Ki"}, {"a": "-1Ki"}),
        ({}, {"a": "1Ki"}, {"a": "1Ki"}, {"a": "-1Ki"}),
        ({"a": "1Ki"}, {}, {"a": "1Ki"}, {"a": "1Ki"}),
    ],
)
def test_sums_are_in_the_form_of_the_first_part_that_is_something(
    left: Json, right: Json, total: Json, difference: Json
) -> None:
    assert printed(added(amounts(left), amounts(right))) == total
    assert printed(subtracted(amounts(left), amounts(right))) == difference
