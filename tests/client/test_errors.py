"""What an answer that refuses says, and how long it asks to wait."""

from __future__ import annotations

import json

import pytest

from reprieve.client.errors import api_error


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        (None, None, None),
        ("7", None, 7.0),
        (" 7 ", 3, 7.0),
        ("0", None, 0.0),
        (None, 3, 3.0),
        ("-1", None, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None, None),
        ("3600", None, 3600.0),
        ("3601", None, 3600.0),
        (None, 10**12, 3600.0),
        ("9" * 5000, None, None),
    ],
)
def test_how_long_a_server_asks_to_wait(header: str | None, details: int | None, expected: float | None) -> None:
    """Whole seconds, an hour at most; what is no such number counts as not given."""
    body = {"kind": "Status", "message": "no", "details": {"retryAfterSeconds": details} if details else {}}
    headers = {"Retry-After": header} if header is not None else {}
    assert api_error(429, json.dumps(body).encode(), headers, "GET /x").retry_after == expected
