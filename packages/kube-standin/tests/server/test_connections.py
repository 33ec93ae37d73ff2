"""Connections that never end their request, or never read its answer, are cut; others go on."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kube_standin.server.connections import ConnectionLimits
from kube_standin.server.control_plane import ServeOptions
from tests.server.live import Live, live
from tests.waiting import DEADLINE

LIMIT = 3.0
"""Seconds a client has where it is not to be cut at once."""


def limits(seconds: float) -> ConnectionLimits:
    return ConnectionLimits(
        header_seconds=seconds, body_seconds=seconds, reading_seconds=seconds, header_bytes=16 * 1024
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    """A server that cuts every client."""
    with live(ServeOptions(tls=False, connections=limits(0.3))) as running:
        yield running


@pytest.fixture(scope="module")
def patient() -> Iterator[Live]:
    """A server that has to serve another client meanwhile, and must not cut a test that stands still for a moment."""
    with live(ServeOptions(tls=False, connections=limits(LIMIT))) as running:
        yield running


def connected(server: Live) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server.port), timeout=DEADLINE)


def head(server: Live, line: str = "GET /version", *more: str) -> bytes:
    token = f"Authorization: Bearer {server.server.keys.admin_token}"
    return "\r\n".join([f"{line} HTTP/1.1", "Host: x", token, *more, "", ""]).encode()


def rest_of(connection: socket.socket) -> bytes:
    """What still comes until the server closes; fails if it does not."""
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize("begun", [b"", b"G", b"GET /version HTTP/1.1\r\n", b"GET /version HTTP/1.1\r\nHost: x\r\nX: "])
def test_half_a_header_is_cut(server: Live, begun: bytes) -> None:
    with connected(server) as connection:
        connection.sendall(begun)
        assert rest_of(connection) == b""


def test_header_that_comes_byte_by_byte_is_cut(server: Live) -> None:
    """A deadline for the whole, not for each piece."""
    ends = time.monotonic() + DEADLINE
    with connected(server) as connection:
        connection.sendall(b"GET /")
        connection.settimeout(0.02)
        while not closed(connection, b"x"):
            assert time.monotonic() < ends


def closed(connection: socket.socket, piece: bytes) -> bool:
    """Send a piece; whether the server has closed the connection."""
    try:
        connection.sendall(piece)
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_half_a_body_is_cut(server: Live) -> None:
    path = "POST /api/v1/namespaces/default/configmaps"
    with connected(server) as connection:
        connection.sendall(head(server, path, "Content-Type: application/json", "Content-Length: 100") + b'{"meta')
        assert rest_of(connection) == b""


def answered(connection: socket.socket, request: bytes) -> None:
    """Send a request and read its answer, which has a Content-Length."""
    connection.sendall(request)
    found = b""
    while b"\r\n\r\n" not in found:
        found += received(connection)
    before, _, body = found.partition(b"\r\n\r\n")
    assert before.startswith(b"HTTP/1.1 200")
    length = int(before.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += received(connection)


def received(connection: socket.socket) -> bytes:
    piece = connection.recv(65536)
    assert piece, "closed"
    return piece


@contextmanager
def served_once(server: Live) -> Iterator[socket.socket]:
    """A connection that has been answered; a new one where this process stood still until the first was cut."""
    ends = time.monotonic() + DEADLINE
    while True:
        began = time.monotonic()
        with connected(server) as connection:
            try:
                answered(connection, head(server))
            except (AssertionError, OSError):
                assert began + LIMIT / 2 < time.monotonic() < ends
                continue
            yield connection
            return


def test_second_request_of_a_connection_has_a_deadline_too(patient: Live) -> None:
    with served_once(patient) as connection:
        connection.sendall(b"GET /ver")
        assert rest_of(connection) == b""


def test_connection_between_requests_is_kept(patient: Live) -> None:
    """What has answered and waits for nothing is not half a request: watches and idle clients live on."""
    with served_once(patient) as connection, connected(patient) as other:
        other.sendall(b"GET")
        assert rest_of(other) == b""  # the deadline of one that is cut has passed
        answered(connection, head(patient))


def test_watch_outlives_the_deadlines(patient: Live) -> None:
    with served_once(patient) as watch, connected(patient) as other:
        watch.sendall(head(patient, f"GET /api/v1/namespaces?watch=1&timeoutSeconds={DEADLINE:.0f}"))
        assert watch.recv(65536).startswith(b"HTTP/1.1 200")
        other.sendall(b"GET")
        assert rest_of(other) == b""
        body = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"late"}}'
        assert patient.request("POST", "/api/v1/namespaces", raw=body)[0] == 201
        seen = b""
        while b'"late"' not in seen:
            seen += received(watch)


def test_header_has_a_size(patient: Live) -> None:
    with connected(patient) as connection:
        for _ in range(64):
            try:
                connection.sendall(b"GET /version HTTP/1.1\r\n" if not _ else b"X-More: " + b"y" * 1024 + b"\r\n")
            except OSError:
                break
        assert rest_of(connection).startswith(b"HTTP/1.1 431")


def test_client_that_does_not_read_is_cut(patient: Live) -> None:
    big = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"a": "x" * 1_000_000}}
    patient.request("POST", "/api/v1/namespaces/default/configmaps", big)
    request = head(patient, "GET /api/v1/namespaces/default/configmaps/big")
    with connected(patient) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ends = time.monotonic() + DEADLINE
        while not refused(connection, request):
            assert time.monotonic() < ends


def refused(connection: socket.socket, piece: bytes) -> bool:
    try:
        connection.sendall(piece)
    except OSError:
        return True
    return False
