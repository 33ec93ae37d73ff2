"""The page over HTTP: who may read what, snapshots, watchers, questions (page.md 7, 8)."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import aiohttp
import msgspec
import pytest

from reprieve.client.transport import ApiClient
from reprieve.live import page_plans, page_snapshots
from reprieve.live.http_endpoint import DelegatedAuth, Health, Server, ServingOptions
from reprieve.live.page_history import PageHistory
from reprieve.live.page_plans import PagePlans, PlanQuestion, QuestionError, options_of
from reprieve.live.page_routes import PageRoutes
from reprieve.live.page_snapshots import BusyError, PageSnapshots
from reprieve.observability.metrics import Metrics
from reprieve.page.builder import document_of
from reprieve.page.documents import PageDocument
from reprieve.page.html import client_files
from tests.building import World, node, pod
from tests.waiting import DEADLINE

LOCAL = ServingOptions(port=0)
REMOTE = replace(LOCAL, host="0.0.0.0")
KNOWN = {"allowed": 200, "stranger": 401, "nosy": 403}
DATA = ("/ui/api/v1/page", "/ui/api/v1/events")
QUESTION = "/ui/api/v1/whatif"


def document() -> PageDocument:
    world = World(node("n1", gpu=8), pod("mine", gpu=1, node="n1"), pod("theirs", gpu=1, node="n1", namespace="b"))
    return document_of(world.engine, world.now, lambda _: None)


async def read() -> PageDocument | None:
    return document()


def snapshots() -> PageSnapshots:
    return PageSnapshots(read, lambda: 0, lambda: 0.0)


async def authorize(token: str, path: str) -> int:
    assert path.startswith("/ui/api/v1/")
    return KNOWN[token]


@dataclass
class Got:
    status: int
    text: str
    headers: Mapping[str, str]


def ask(
    options: ServingOptions,
    *requests: tuple[str, str],
    token: str | None = None,
    auth: Callable[[str, str], Awaitable[int]] | DelegatedAuth | None = authorize,
    headers: dict[str, str] | None = None,
    body: bytes = b"{}",
    plans: PagePlans | None = None,
    history: PageHistory | None = None,
) -> list[Got]:
    """Serve, ask, stop. Of a stream the first line counts."""

    async def run() -> list[Got]:
        page = PageRoutes(snapshots(), plans, history)
        server = Server(options, metrics=Metrics(process=False), health=Health(), authorize=auth, page=page)
        await server.start()
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        sent |= {"Content-Type": "application/json", **(headers or {})}
        try:
            found = []
            async with aiohttp.ClientSession(headers=sent) as session:
                for method, path in requests:
                    url = server.url.replace("0.0.0.0", "127.0.0.1") + path
                    data = io.BytesIO(body) if method == "POST" else None
                    async with session.request(method, url, ssl=False, data=data, allow_redirects=False) as answer:
                        stream = answer.content_type == "text/event-stream"
                        text = (await answer.content.readuntil(b"\n\n")).decode() if stream else await answer.text()
                        found.append(Got(answer.status, text, answer.headers))
            return found
        finally:
            await server.stop()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "token", "data"),
    [
        (LOCAL, None, 200),
        (replace(LOCAL, token="secret"), None, 401),
        (replace(LOCAL, token="secret"), "other", 401),
        (replace(LOCAL, token="secret"), "secret", 200),
        (REMOTE, None, 401),
        (REMOTE, "allowed", 200),
        (REMOTE, "stranger", 401),
        (REMOTE, "nosy", 403),
    ],
)
def test_data_needs_what_explain_needs(options: ServingOptions, token: str | None, data: int) -> None:
    """page.md 7.2: the client is open, and has no data."""
    answers = ask(options, ("GET", "/ui/"), ("GET", "/ui/app.js"), *(("GET", path) for path in DATA), token=token)
    assert [got.status for got in answers] == [200, 200, data, data]
    (got,) = ask(options, ("POST", QUESTION), token=token)
    assert (got.status in (403, 501)) if data == 200 else got.status == data


def test_other_host_names_are_refused_on_loopback() -> None:
    """page.md 7.2: a page elsewhere cannot read this one by a name of its own."""
    paths = ("/ui/", *DATA)
    answers = ask(LOCAL, *(("GET", path) for path in paths), headers={"Host": "evil.example"})
    assert [got.status for got in answers] == [403] * 3


@pytest.mark.parametrize("path", ["/ui/", "/ui/app.js", "/ui/page.css", *DATA, "/ui/nothing.js"])
def test_policy_is_strict_on_every_answer(path: str) -> None:
    """page.md 7.1: nothing inline, nothing from elsewhere, in no frame."""
    (got,) = ask(LOCAL, ("GET", path))
    policy = got.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "frame-ancestors 'none'" in policy
    assert got.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/ui/../app.py", "/ui/%2e%2e/html.py", "/ui/index.html", "/ui/app.js/", "/ui/x.py"])
def test_nothing_but_the_client_is_served(path: str) -> None:
    """page.md 7.1."""
    (got,) = ask(LOCAL, ("GET", path))
    assert got.status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_written(method: str) -> None:
    """page.md 7.1."""
    answers = ask(LOCAL, *((method, path) for path in ("/ui/", "/ui/app.js", *DATA)))
    assert [got.status for got in answers] == [405] * 4


def test_page_has_a_tag_and_is_not_sent_twice() -> None:
    """page.md 7.3."""
    first, stream = ask(LOCAL, ("GET", DATA[0]), ("GET", DATA[1]))
    tag = first.headers["ETag"]
    assert json.loads(first.text)["cluster"]["pods"]["names"] == ["theirs", "mine"]
    assert stream.text == f"event: page\ndata: {tag}\n\n"
    (again,) = ask(LOCAL, ("GET", DATA[0]), headers={"If-None-Match": tag})
    assert (again.status, again.text) == (304, "")


class Reviews:
    """An API server that knows one user, which may read the page and the pods of some namespaces."""

    def __init__(self, *namespaces: str, everywhere: bool = False) -> None:
        self.namespaces = namespaces
        self.everywhere = everywhere
        self.asked: list[dict[str, Any]] = []

    async def request(self, method: str, path: str, *, body: bytes, **_: object) -> Reviews:
        spec = json.loads(body)["spec"]
        self.asked.append(spec)
        asked = spec.get("resourceAttributes", {})
        allowed = not asked or asked["namespace"] in self.namespaces or (self.everywhere and not asked["namespace"])
        self.status = (
            {"authenticated": spec["token"] == "known", "user": {"username": "u"}}
            if "token" in spec
            else {"allowed": allowed}
        )
        return self

    def read(self, _: object) -> dict[str, Any]:
        return {"status": self.status}


def test_reader_of_one_namespace_sees_that_one() -> None:
    """page.md 4.1, 4.4, 8.4: by the right to list pods there; a question needs the right to list all."""
    auth = DelegatedAuth(cast(ApiClient, Reviews("default")))
    (got, question) = ask(REMOTE, ("GET", DATA[0]), ("POST", QUESTION), token="known", auth=auth)
    assert sorted(json.loads(got.text)["cluster"]["pods"]["names"]) == ["", "mine"]
    assert "theirs" not in got.text
    assert question.status in (403, 501)
    whole = DelegatedAuth(cast(ApiClient, Reviews(everywhere=True)))
    (got,) = ask(REMOTE, ("GET", DATA[0]), token="known", auth=whole)
    assert sorted(json.loads(got.text)["cluster"]["pods"]["names"]) == ["mine", "theirs"]
    (got,) = ask(REMOTE, ("GET", DATA[0]), token="unknown", auth=whole)
    assert got.status == 401


class Past(PageHistory):
    """Pictures since 2001; each takes until `go`."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go = asyncio.Event()

    async def page(self, at: float) -> PageDocument | None:
        self.began.set()
        await self.go.wait()
        return document() if at > 978_307_200 else None


def test_past_is_shown_by_the_present_rights() -> None:
    """page.md 11.3: as of 2000 nothing is kept."""
    past, auth = Past(), DelegatedAuth(cast(ApiClient, Reviews("default")))
    past.go.set()
    requests = [("GET", f"{DATA[0]}?at=20{year}-06-01T00:00:00Z") for year in ("02", "00")]
    kept, missing = ask(REMOTE, *requests, token="known", auth=auth, history=past)
    assert sorted(json.loads(kept.text)["cluster"]["pods"]["names"]) == ["", "mine"]
    assert (kept.status, missing.status) == (200, 404)
    assert missing.text == "no state of the cluster is kept from 2000-06-01T00:00:00Z or before\n"


def test_one_page_of_the_past_is_made_at_a_time() -> None:
    """page.md 11.3: the second request is refused while the first is answered, and succeeds afterwards."""

    async def run() -> None:
        past = Past()
        page = PageRoutes(snapshots(), None, past)
        server = Server(LOCAL, metrics=Metrics(process=False), health=Health(), page=page)
        await server.start()
        url = f"{server.url}{DATA[0]}?at=2002-01-01T00:00:00Z"
        try:
            async with aiohttp.ClientSession() as session:

                async def status() -> int:
                    async with session.get(url) as answer:
                        return answer.status

                first = asyncio.create_task(status())
                await past.began.wait()
                async with asyncio.timeout(DEADLINE):
                    assert await status() == 503
                past.go.set()
                assert (await first, await status()) == (200, 200)
        finally:
            past.go.set()
            await server.stop()

    asyncio.run(run())


def test_rights_are_asked_for_once_in_a_while() -> None:
    """page.md 4.4: answers hold as long as those of /explain."""
    reviews = Reviews("default")
    auth = DelegatedAuth(cast(ApiClient, reviews))

    async def run() -> None:
        assert await auth.namespaces("known", ["b", "default"]) == frozenset(["default"])
        first = len(reviews.asked)
        assert await auth.namespaces("known", ["b", "default"]) == frozenset(["default"])
        assert len(reviews.asked) == first + 1  # the token itself

    asyncio.run(run())


# -- snapshots ---------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_snapshot_is_made_once_for_all_and_not_too_often() -> None:
    """page.md 7.3, 7.4: at most one a second, and so seldom that making them takes a fiftieth of the time."""
    clock, version, reads = Clock(), [0], []

    async def slow() -> PageDocument | None:
        reads.append(clock.now)
        clock.now += 0.5
        return document()

    async def run() -> None:
        made = PageSnapshots(slow, lambda: version[0], clock)
        pages = await asyncio.gather(*(made.page(None) for _ in range(10)))
        assert len({id(page.body) for page in pages}) == len(reads) == 1
        version[0] = 1
        clock.now = 24.0
        await made.page(None)
        assert len(reads) == 1
        clock.now = 25.0
        await made.page(None)
        assert reads == [0.0, 25.0]
        clock.now = 1000.0
        await made.page(None)
        assert len(reads) == 2  # nothing has changed

    asyncio.run(run())


def test_forms_for_readers_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """page.md 7.4."""
    monkeypatch.setattr(page_snapshots, "MOST_READERS", 3)

    async def run() -> None:
        made = snapshots()
        for number in range(10):
            await made.page(frozenset({str(number)}))
        assert len(made._encoded) == 3

    asyncio.run(run())


def test_watchers_are_notified_and_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """page.md 7.4: one task makes snapshots for all, and ends with the last watcher."""
    monkeypatch.setattr(page_snapshots, "MOST_WATCHERS", 2)
    monkeypatch.setattr(page_snapshots, "LEAST_SECONDS", 0.001)
    version = [0]

    async def run() -> None:
        loop = asyncio.get_running_loop()
        made = PageSnapshots(read, lambda: version[0], lambda: loop.time() * 1000)
        async with made.watched() as first, made.watched() as second:
            with pytest.raises(BusyError):
                async with made.watched():
                    pass
            waiting = asyncio.gather(first(30.0), second(30.0))
            await asyncio.sleep(0)
            version[0] += 1
            assert list(await waiting) == [True, True]
        assert made._follower is None

    asyncio.run(run())


def test_scheduler_that_is_busy_says_so() -> None:
    """page.md 7.3: before the first snapshot; afterwards the last one is shown."""

    async def busy() -> PageDocument | None:
        return None

    async def run() -> None:
        with pytest.raises(BusyError):
            await PageSnapshots(busy, lambda: 0, lambda: 0.0).page(None)

    asyncio.run(run())


# -- questions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["--drain n1"], ["--drain=n1"]),
        (["--add-nodes 2 --like n1"], ["--add-nodes=2", "--like=n1"]),
        (
            ["--taint 'n1 a=b:NoSchedule'", "--scale=deployment/x=3"],
            ["--taint=n1 a=b:NoSchedule", "--scale=deployment/x=3"],
        ),
        (["--drain --plugin"], ["--drain=--plugin"]),
        ([], []),
    ],
)
def test_changes_become_options_with_their_values(lines: list[str], expected: list[str]) -> None:
    """page.md 8.2."""
    assert options_of(lines) == expected


@pytest.mark.parametrize(
    "lines",
    [
        *(["--plugin x:Y"], ["-f /etc/passwd"], ["--filename=/etc/passwd"], ["--kubeconfig x"], ["--config x"], ["n1"]),
        *(["--drain"], ["--drain 'n1"], ["--call-extenders"], ["--drain n"] * 33),
    ],
)
def test_nothing_but_changes_is_passed_on(lines: list[str]) -> None:
    """page.md 8.2: nothing that reads a file or runs code."""
    with pytest.raises(QuestionError):
        options_of(lines)


def plans(program: str) -> PagePlans:
    return PagePlans(("--kubeconfig=k",), command=(sys.executable, "-c", program))


def answer(program: str, question: PlanQuestion | None = None) -> bytes:
    return asyncio.run(plans(program).answer(msgspec.json.encode(question or PlanQuestion())))


def test_question_is_planned_in_a_process_of_its_own() -> None:
    """page.md 8.1: with the options of the scheduler, and the manifests on standard input."""
    program = "import sys, json; print(json.dumps([*sys.argv[1:], sys.stdin.read()]).join('{}'))"
    found = answer(program, PlanQuestion(manifests="kind: Pod", changes=("--drain n1",)))
    assert found == b'{["plan", "--kubeconfig=k", "-f", "-", "--live", "--drain=n1", "-o", "page", "kind: Pod"]}\n'
    assert b'"-f"' not in answer(program)
    files = PagePlans(("-f", "cluster.yaml"), command=(sys.executable, "-c", program))
    asked = msgspec.json.encode(PlanQuestion(manifests="kind: Pod"))
    assert b'["plan", "-f", "cluster.yaml", "-f", "-", "-o", "page", "kind: Pod"]' in asyncio.run(files.answer(asked))


@pytest.mark.parametrize(
    ("program", "status", "text"),
    [
        ("import sys; sys.exit('error: no such node')", 422, "error: no such node"),
        ("print('no document')", 422, "the plan ended with 0"),
        ("print('{' * 5000)", 422, "more than"),
        ("while True: pass", 504, "longer than"),
        ("import os; os.kill(os.getpid(), 9)", 422, "ended with -9"),
    ],
)
def test_plans_that_fail_are_refusals(program: str, status: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """page.md 8.3: bounded in time and bytes."""
    monkeypatch.setattr(page_plans, "MOST_ANSWER", 4000)
    monkeypatch.setattr(page_plans, "MOST_SECONDS", 1.0 if "while" in program else 60.0)
    with pytest.raises(QuestionError) as failed:
        answer(program)
    assert failed.value.status == status
    assert text in str(failed.value)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"other": 1}', b'{"changes": 1}', b"\xff", b"[" * 10000])
def test_questions_that_are_none_are_refused(body: bytes) -> None:
    """page.md 8.3."""
    (got,) = ask(LOCAL, ("POST", QUESTION), body=body, plans=plans("print('{}')"))
    assert got.status == 400


def test_question_is_bounded_and_comes_from_the_page_itself() -> None:
    """page.md 8.3, 7.2."""
    made = plans("print('{}')")
    (got,) = ask(LOCAL, ("POST", QUESTION), plans=made, body=b" " * (page_plans.MOST_BYTES + 1))
    assert got.status == 413
    for headers in ({"Origin": "https://evil.example"}, {"Content-Type": "text/plain"}):
        (got,) = ask(LOCAL, ("POST", QUESTION), plans=made, headers=headers)
        assert got.status == 403
    (got,) = ask(LOCAL, ("POST", QUESTION), plans=made)
    assert (got.status, got.text) == (200, "{}\n")


def test_client_is_one_page_and_modules() -> None:
    """page.md 7.1."""
    names: Sequence[str] = list(client_files())
    assert {"index.html", "page.css", "app.js"} <= set(names)
    assert "<script>" not in client_files()["index.html"]
