"""Nothing that a client sends to the scheduler's endpoint stops the scheduler: bombs against a real process.

page.md 7, 8; observability.md: each is answered within 2 s while another client is served within 0.5 s. The server and
the scheduling loop share one thread, so what keeps the one from answering keeps the other from deciding.
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.attacked import ANSWERED, MEMORY, SERVED, Answered, Sent, Worked
from tests.waiting import DEADLINE

pytestmark = pytest.mark.timed
PROGRAM = """
import sys
from reprieve.live.page_plans import PagePlans
from tests.building import node, pod
from tests.page.serving import served
with served(node("n1"), pod("waits", cpu=99), plans=PagePlans(("-f", sys.argv[1]))) as world:
    print(world.url, flush=True)
    sys.stdin.read()
"""
WHAT_IF = "/ui/api/v1/whatif"
PAGE = "/ui/api/v1/page"
CLUSTER = Path(__file__).parents[4] / "examples" / "gpus" / "cluster.yaml"


@dataclass
class Endpoint:
    """A process that serves the page."""

    process: subprocess.Popen[str]
    host: str

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, timeout=DEADLINE)

    def send(self, sent: Sent) -> Answered:
        """Send a request, and read its answer."""
        worked = Worked(self.process.pid)
        with closing(self.connection()) as connection:
            connection.request(
                sent.method, sent.path, sent.body or None, {"Content-Type": sent.content_type, **sent.headers}
            )
            answer = connection.getresponse()
            body = answer.read()
            return Answered(answer.status, body, worked.seconds)

    @contextmanager
    def others(self) -> Iterator[list[float]]:
        """Ask for health and the page while the context lasts; the list is of its waits, in seconds."""
        waits: list[float] = []
        over = threading.Event()

        def ask() -> None:
            while True:
                waits.extend(self.send(Sent("GET", path)).seconds for path in ("/livez", PAGE))
                if over.wait(0.005):
                    return

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield waits
        finally:
            over.set()
            thread.join(DEADLINE)
            assert waits

    @property
    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, str(CLUSTER)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://"), "the server did not start"
        try:
            yield Endpoint(process, url.removeprefix("http://").removesuffix("/ui/"))
        finally:
            process.kill()


class Bomb(NamedTuple):
    """A request, or what makes it where that takes long, and the statuses that it may have."""

    name: str
    sent: Sent | Callable[[], Sent]
    statuses: tuple[int, ...]


def asked(*changes: str, manifests: str = "") -> bytes:
    return json.dumps({"manifests": manifests, "changes": changes}).encode()


def question(body: bytes, **headers: str) -> Sent:
    return Sent("POST", WHAT_IF, body, headers=headers)


LONG = "a" * 1_000_000
BOMBS: Sequence[Bomb] = (
    Bomb("a change of one word", question(asked(LONG)), (400,)),
    Bomb("a change in quotes", question(asked(f"'{LONG}'")), (400,)),
    Bomb("a change of backslashes", question(asked("\\a" * 300_000)), (400,)),
    Bomb("many changes", question(asked(*["--cordon n"] * 60_000)), (400,)),
    Bomb("depth", question(b'{"changes":' + b"[" * 500_000), (400,)),
    Bomb("many keys", question(b"{" + b",".join(b'"k%d":1' % at for at in range(90_000)) + b"}"), (400,)),
    Bomb("2 MiB", question(b'{"manifests":"' + b"x" * (2 << 20)), (413,)),
    Bomb(
        "1 GB of zeros, compressed",
        lambda: question(gzip.compress(bytes(1 << 30), 1), **{"Content-Encoding": "gzip"}),
        (400, 413),
    ),
    Bomb("a number of many digits", question(b'{"changes":[' + b"9" * 900_000 + b"]}"), (400,)),
    Bomb("a long path", Sent("GET", f"/ui/{'a' * 7000}.js"), (404,)),
    Bomb("a longer path", Sent("GET", f"/ui/{LONG}.js"), (400, 414)),
    Bomb("many dots", Sent("GET", "/ui/" + "../" * 2000 + "etc/passwd"), (404,)),
    Bomb("a long tag", Sent("GET", PAGE, headers={"If-None-Match": '"a",' * 1500}), (200,)),
    Bomb("a long token", Sent("GET", PAGE, headers={"Authorization": "Bearer " + "a" * 7000}), (200, 401)),
    Bomb("a long name", Sent("GET", "/explain?kind=Pod&name=" + "%25" * 2000), (200, 400)),
    Bomb("since of many digits", Sent("GET", "/explain?since=" + "9" * 7000), (400,)),
    Bomb("since that is no number", Sent("GET", "/explain?since=nan"), (400,)),
)


@pytest.mark.parametrize("bomb", BOMBS, ids=[bomb.name for bomb in BOMBS])
def test_bomb_is_answered_and_others_are_served(endpoint: Endpoint, bomb: Bomb) -> None:
    """page.md 8.3: every input has a bound, which is looked at before the input is."""
    sent = bomb.sent if isinstance(bomb.sent, Sent) else bomb.sent()
    with endpoint.others() as waits:
        answer = endpoint.send(sent)
    assert answer.status in bomb.statuses, (answer.status, answer.body[:300])
    assert answer.seconds < ANSWERED
    assert max(waits) < SERVED
    assert endpoint.megabytes < MEMORY


def test_watchers_beyond_the_limit_are_refused_and_others_are_served(endpoint: Endpoint) -> None:
    """page.md 7.4: watchers that stay connected and read nothing cost nothing."""
    with endpoint.others() as waits, ExitStack() as stack:
        statuses = []
        for _ in range(120):
            connection = stack.enter_context(closing(endpoint.connection()))
            connection.request("GET", "/ui/api/v1/events")
            statuses.append(connection.getresponse().status)
    assert (statuses.count(200), statuses.count(503)) == (100, 20)
    assert max(waits) < SERVED
