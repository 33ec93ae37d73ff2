"""What a refusal becomes (meta/v1 Status, RFC 9110 "Retry-After"): its parts, its text, and what it means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reprieve.client.errors import ApiError, ClientError, UnreachableError, api_error, status_event

WHERE = "https://server/api"


def refusal(**parts: Any) -> bytes:
    return json.dumps({"kind": "Status", **parts}).encode()


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        (refusal(code=404, reason="NotFound", message='pods "a" not found'), "NotFound", 'pods "a" not found'),
        (refusal(code=500, reason="Expired"), "Expired", "refused"),
        (refusal(reason=None, message=None), "", "refused"),
        (refusal(message="line one\n  line two"), "", "line one line two"),
        (refusal(kind="Pod", message="of another kind"), "", '{"kind": "Pod", "message": "of another kind"}'),
        (b"", "", "empty answer"),
        (b" \n ", "", "empty answer"),
        (b"404 page not found\n", "", "404 page not found"),
        (b"  <html>Login</html>", "", "the answer is a page of HTML: is this an API server?"),
        (b"no <html>", "", "no <html>"),
        (b"\xff!", "", "\ufffd!"),
        (b"x" * 400, "", "x" * 400),
        (b"x" * 401, "", "x" * 400),
        (b"[" * 100_000, "", "[" * 400),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_refusal_has_the_parts_of_its_status_or_quotes_the_answer(body: bytes, reason: str, message: str) -> None:
    """The code is that of the answer, whatever its body states; what is no Status is quoted up to 400 bytes."""
    found = api_error(418, body, {}, WHERE)
    assert (found.code, found.reason, found.retry_after) == (418, reason, None)
    assert found.message == f"{WHERE}: {message}"
    assert str(found) == f"{WHERE}: {message} (418{' ' + reason if reason else ''})"


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [
        (None, None, None),
        ("3", None, 3.0),
        (" 3 ", None, 3.0),
        ("0", None, 0.0),
        ("3", {"retryAfterSeconds": 9}, 3.0),
        ("0", {"retryAfterSeconds": 9}, 0.0),
        (None, {"retryAfterSeconds": 9}, 9.0),
        (None, {"retryAfterSeconds": 0}, 0.0),
        (None, {"name": "a"}, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {"retryAfterSeconds": 9}, 9.0),
        ("-1", None, None),
        ("", None, None),
        ("9" * 5000, None, None),
        ("3600", None, 3600.0),
        ("3601", None, 3600.0),
        (None, {"retryAfterSeconds": 3600}, 3600.0),
        (None, {"retryAfterSeconds": 10**12}, 3600.0),
        (None, {"retryAfterSeconds": -1}, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_when_to_ask_again_is_the_header_and_else_the_status(
    header: str | None, details: dict[str, Any] | None, seconds: float | None
) -> None:
    """An hour at most. A date counts as unsaid: API servers send seconds; so does what is no number of them."""
    headers = {} if header is None else {"Retry-After": header}
    assert api_error(429, refusal(details=details), headers, WHERE).retry_after == seconds
    if details is None:
        assert api_error(429, b"no Status", headers, WHERE).retry_after == seconds


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (refusal(code=410, reason="Expired", message="too old"), 410, f"{WHERE}: too old (410 Expired)"),
        (refusal(message="no code"), 0, f"{WHERE}: no code (0)"),
        (b"{}", 0, f"{WHERE}: {{}} (0)"),
    ],
)
def test_error_event_has_the_code_that_it_states(body: bytes, code: int, text: str) -> None:
    """It comes in an answer with status 200, so there is no other."""
    found = status_event(body, WHERE)
    assert (found.code, str(found), found.retry_after) == (code, text, None)


@pytest.mark.parametrize(
    ("code", "reason", "expired"),
    [
        (410, "", True),
        (410, "Other", True),
        (409, "", False),
        (411, "", False),
        (200, "Expired", True),
        (0, "Gone", True),
        (404, "NotFound", False),
    ],
)
def test_history_that_is_gone_is_known_by_code_or_reason(code: int, reason: str, expired: bool) -> None:
    assert ApiError(code, reason, "x").expired is expired


@pytest.mark.parametrize(
    ("code", "message", "ahead"),
    [
        (504, "Too large resource version: 100, current: 40", True),
        (504, "Timeout: Too large resource version: 100, current: 40", True),
        (504, "timeout", False),
        (503, "Too large resource version: 100, current: 40", False),
        (505, "Too large resource version: 100, current: 40", False),
    ],
)
def test_revision_that_is_not_there_yet_is_known_by_code_and_message(code: int, message: str, ahead: bool) -> None:
    """What the watch cache of an API server answers that was restored from a backup."""
    assert ApiError(code, "Timeout", message).ahead is ahead


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("a\nb\t c ", "a b c"),
        ("x" * 500, "x" * 500),
        ("x" * 501, "x" * 497 + "..."),
        ("x" * 250 + " \n " + "x" * 249, "x" * 250 + " " + "x" * 249),
    ],
    ids=["lines", "as long as may be", "too long", "long with blanks"],
)
def test_text_of_an_error_is_one_line_of_bounded_length(message: str, text: str) -> None:
    assert str(ClientError(message)) == text
    assert ApiError(500, "", message).message == text


def test_request_without_an_answer_was_sent_and_may_be_repeated_unless_stated_otherwise() -> None:
    plain = UnreachableError("cut")
    assert (plain.sent, plain.lasting) == (True, False)
    stated = UnreachableError("untrusted", sent=False, lasting=True)
    assert (stated.sent, stated.lasting) == (False, True)
