"""Who may read the endpoint: answers of the API server, kept for ten seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reprieve.client.errors import ClientError
from reprieve.live import http_endpoint
from tests.live.test_serving import REMOTE, Reviews, _answer, ask


@pytest.mark.parametrize(
    ("authenticated", "allowed", "status"), [(True, True, 200), (True, False, 403), (False, True, 401)]
)
def test_api_server_decides(authenticated: bool, allowed: bool, status: int) -> None:
    reviews = Reviews(authenticated=authenticated, allowed=allowed)

    async def run() -> list[int]:
        auth = http_endpoint.DelegatedAuth(reviews)  # type: ignore[arg-type]
        return [await auth("token", "/metrics") for _ in range(3)]

    assert asyncio.run(run()) == [status] * 3
    assert reviews.asked == (["tokenreviews", "subjectaccessreviews"] if authenticated else ["tokenreviews"])
    if authenticated:
        assert reviews.last["spec"]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        assert reviews.last["spec"]["user"] == "prom"


class Down:
    """An API server that cannot be reached."""

    def __init__(self) -> None:
        self.requests = 0

    async def request(self, method: str, path: str, **how: Any) -> Any:
        self.requests += 1
        raise ClientError("connection refused")


def with_clock(
    reviews: Any, script: Callable[[Callable[[str, str], Awaitable[int]], list[float]], Awaitable[Any]]
) -> Any:
    """Run a script with a `DelegatedAuth` and the clock that it reads, in seconds."""

    async def run() -> Any:
        now = [100.0]
        asyncio.get_running_loop().time = lambda: now[0]  # type: ignore[method-assign]
        return await script(http_endpoint.DelegatedAuth(reviews), now)

    return asyncio.run(run())


@pytest.mark.parametrize(("later", "reviews"), [(0.0, 1), (9.9, 1), (10.0, 2), (11.0, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_answers_are_kept_for_ten_seconds_whatever_they_are(later: float, reviews: int, known: bool) -> None:
    """kube-scheduler's authentication and authorization caches."""
    server = Reviews(authenticated=known)

    async def script(auth: Callable[[str, str], Awaitable[int]], now: list[float]) -> None:
        await auth("token", "/metrics")
        now[0] += later
        await auth("token", "/metrics")

    with_clock(server, script)
    assert server.asked.count("tokenreviews") == reviews


def test_api_server_that_cannot_be_reached_is_an_error_that_is_not_kept() -> None:
    down = Down()

    async def script(auth: Callable[[str, str], Awaitable[int]], _: list[float]) -> list[int]:
        return [await auth("token", "/metrics") for _ in range(2)]

    assert with_clock(down, script) == [500, 500]
    assert down.requests == 2
    (got,) = ask(REMOTE, "/metrics", token="x", auth=lambda token, path: _answer(500))
    assert (got.status, got.text) == (500, "Internal Server Error\n")


@pytest.mark.parametrize(("expired", "asked_again"), [(True, False), (False, True)])
def test_thousand_answers_are_kept_those_that_are_over_go_first(
    monkeypatch: pytest.MonkeyPatch, expired: bool, asked_again: bool
) -> None:
    """Where none is over all of them go: a client chooses the tokens, and the number kept is bounded."""
    assert http_endpoint._REMEMBERED == 1024
    monkeypatch.setattr(http_endpoint, "_REMEMBERED", 3)
    server = Reviews()

    async def script(auth: Callable[[str, str], Awaitable[int]], now: list[float]) -> None:
        await auth("a", "/metrics")
        if expired:
            now[0] += 10
        await auth("b", "/metrics")
        await auth("c", "/metrics")
        assert server.asked.count("tokenreviews") == 3
        await auth("d", "/metrics")
        before = server.asked.count("tokenreviews")
        await auth("b", "/metrics")
        assert (server.asked.count("tokenreviews") > before) is asked_again

    with_clock(server, script)


@pytest.mark.parametrize(
    ("reviewed", "status"),
    [
        ({"allowed": True}, 200),
        ({"allowed": True, "denied": False}, 200),
        ({"allowed": True, "denied": True}, 403),
        ({"denied": True}, 403),
        ({}, 403),
        (None, 403),
    ],
)
def test_access_is_what_is_allowed_and_not_denied(reviewed: Any, status: int) -> None:
    """authorization.k8s.io: one authorizer may deny what another one allows."""
    server = Reviews()
    server.status["subjectaccessreviews"] = reviewed
    assert with_clock(server, lambda auth, now: auth("token", "/metrics")) == status


@pytest.mark.parametrize("reviewed", [{}, None, {"authenticated": False}, {"error": "expired"}])
def test_unknown_token_is_refused(reviewed: Any) -> None:
    server = Reviews()
    server.status["tokenreviews"] = reviewed
    assert with_clock(server, lambda auth, now: auth("token", "/metrics")) == 401


@pytest.mark.parametrize(
    ("user", "asked_for"),
    [
        (
            {"username": "p", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}},
            {"user": "p", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}},
        ),
        ({"username": "p", "groups": None, "extra": None}, {"user": "p", "uid": "", "groups": [], "extra": {}}),
        (None, {"user": "", "uid": "", "groups": [], "extra": {}}),
    ],
    ids=["all", "name-alone", "nothing"],
)
def test_review_of_access_has_all_that_the_token_stands_for(
    user: dict[str, Any] | None, asked_for: dict[str, Any]
) -> None:
    server = Reviews()
    server.status["tokenreviews"] = {"authenticated": True, "user": user}
    assert with_clock(server, lambda auth, now: auth("token", "/explain")) == 200
    assert server.last == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {**asked_for, "nonResourceAttributes": {"path": "/explain", "verb": "get"}},
    }
    assert server.how == {"deadline": 10.0, "repeatable": True}
