"""An HTTP extender for tests: a real server in a thread that gives prepared answers and keeps what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.waiting import DEADLINE

Answer = Callable[[dict[str, Any]], Any]


class ExtenderServer:
    """`answers` by verb: a function from the request's body to the answer's; `asked` are (verb, body) in order."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.connections = 0
        self.status = 200
        self.raw: bytes | None = None
        """Sent instead of an answer."""
        self.hold: threading.Event | None = None
        """Answers wait for it."""
        self.hang_up = False
        """Close the connection after each answer, without a word about it."""
        self.url = ""

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked]


@contextmanager
def extender_server(tls: ssl.SSLContext | None = None) -> Iterator[ExtenderServer]:
    """Runs until the end of the block; its address is `url`."""
    found = ExtenderServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            found.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            verb = self.path.rpartition("/")[2]
            found.asked.append((verb, body))
            if found.hold is not None:
                found.hold.wait(DEADLINE)
            answer = found.raw if found.raw is not None else json.dumps(found.answers[verb](body)).encode()
            with suppress(ConnectionError):  # the client may have given up
                self.send_response(found.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            if found.hang_up:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    found.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}/scheduler"
    try:
        yield found
    finally:
        if found.hold is not None:
            found.hold.set()
        server.shutdown()
        server.server_close()
        thread.join(DEADLINE)
