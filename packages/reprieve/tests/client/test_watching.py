"""One watch: lines that arrive in any pieces, bounds, and streams that say nothing (client/watch.py)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from reprieve.client.connection import Connection
from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.transport import ApiClient, Stream
from reprieve.client.watch import Event, GarbledError, IdleTimeoutError, watch
from tests.client.clock import FakeClock, until

ONE = b'{"type":"ADDED","object":{"a":1}}\n'
TWO = b'{"type":"BOOKMARK","object":{"b":2}}\n'


class Pieces(Stream):
    """A stream that ends after these pieces, or waits until it is cut."""

    def __init__(self, pieces: list[bytes], *, ends: bool = True) -> None:
        self.pieces = [*pieces]
        self.ends = ends
        self.is_cut = asyncio.Event()

    async def piece(self) -> bytes:
        if self.pieces:
            return self.pieces.pop(0)
        if not self.ends:
            await self.is_cut.wait()
            raise UnreachableError("the stream was cut")
        return b""

    def cut(self) -> None:
        self.is_cut.set()


class Client(ApiClient):
    """Answers with one stream."""

    def __init__(self, stream: Pieces) -> None:
        self.clock = FakeClock()
        self.connection = Connection("https://server", "a test")
        self.served = stream
        self.asked: list[Any] = []

    @asynccontextmanager
    async def _serving(self, path: str, query: Any, opening: float) -> AsyncIterator[Stream]:
        self.asked.append((path, query, opening))
        yield self.served

    def stream(self, path: str, query: Any = None, *, opening: float = 0.0, **_: Any) -> Any:
        return self._serving(path, query, opening)


async def seen(pieces: list[bytes]) -> list[str]:
    """What is reported of a stream; `opened` first."""
    reported: list[str] = []

    def handle(event: Event) -> None:
        reported.append(f"{event.type} {msgspec.json.decode(event.object)}")

    client = Client(Pieces(pieces))
    await watch(client, "/pods", {"a": "b"}, handle, silence=lambda: 7.0, opened=lambda: reported.append("opened"))
    assert client.asked == [("/pods", {"a": "b", "watch": "true"}, 7.0)]
    return reported


@pytest.mark.parametrize("at", range(len(ONE + TWO) + 1))
def test_lines_may_be_cut_anywhere(at: int) -> None:
    """Every whole line once and in order, and first of all that the server answers."""
    both = ONE + TWO
    pieces = [piece for piece in (both[:at], both[at:]) if piece]
    assert asyncio.run(seen(pieces)) == ["opened", "ADDED {'a': 1}", "BOOKMARK {'b': 2}"]


@pytest.mark.parametrize(
    ("pieces", "events"),
    [
        ([], 0),
        ([b"\n", b"\r\n", ONE], 1),
        ([ONE, TWO[:-1]], 1),
        ([piece.to_bytes() for piece in ONE], 1),
        ([ONE * 3], 3),
    ],
)
def test_lines_without_an_event_and_what_comes_after_the_last_one_count_for_nothing(
    pieces: list[bytes], events: int
) -> None:
    assert len(asyncio.run(seen(pieces))) == 1 + events


@pytest.mark.parametrize("pieces", [[ONE[:20], ONE[20:30], ONE[30:]], [ONE + ONE[:30], ONE[30:]], [ONE + ONE[:29]]])
def test_event_may_be_as_long_as_the_bound(monkeypatch: pytest.MonkeyPatch, pieces: list[bytes]) -> None:
    """Bytes that are kept until a line ends; lines that have ended are not among them."""
    kept = max(30, len(pieces[0]) - len(ONE))
    monkeypatch.setattr("reprieve.client.watch.MAX_EVENT", kept)
    asyncio.run(seen(pieces))


@pytest.mark.parametrize(("more", "read"), [(0, True), (1, False)])
def test_event_has_sixteen_mebibytes_at_most(more: int, read: bool) -> None:
    """etcd holds objects of 1.5 MiB at most."""
    pieces = [b"x" * 16 * 1024 * 1024, b"x" * more]
    with contextlib.nullcontext() if read else pytest.raises(GarbledError, match="more than 16777216 bytes"):
        asyncio.run(seen([piece for piece in pieces if piece]))


@pytest.mark.parametrize("pieces", [[b"x" * 31], [b"x" * 20, b"x" * 11, b"\n"], [ONE + b"x" * 20, b"x" * 11]])
def test_event_beyond_the_bound_is_none(monkeypatch: pytest.MonkeyPatch, pieces: list[bytes]) -> None:
    monkeypatch.setattr("reprieve.client.watch.MAX_EVENT", 30)
    with pytest.raises(GarbledError, match="more than 30 bytes"):
        asyncio.run(seen(pieces))


@pytest.mark.parametrize(
    ("line", "error", "text"),
    [
        (b"no json\n", GarbledError, "no event"),
        (b'{"type":"ADDED"}\n', GarbledError, "no event"),
        (b'{"type":"NEWS","object":{}}\n', GarbledError, "unknown type 'NEWS'"),
        (b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}\n', ApiError, "too old"),
    ],
)
def test_text_that_is_no_event_ends_the_watch(line: bytes, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        asyncio.run(seen([ONE, line]))


@pytest.mark.parametrize("later", [False, True])
def test_silent_stream_is_cut_when_nothing_came_for_long_enough(later: bool) -> None:
    """Ten seconds from the last byte on, also where the limit was longer while the stream began."""

    async def act() -> None:
        stream = Pieces([ONE], ends=False)
        client = Client(stream)
        limits = [60.0] if later else [10.0]
        reported: list[Event] = []
        watching = asyncio.create_task(watch(client, "/pods", {}, reported.append, silence=lambda: limits[0]))
        clock = cast(FakeClock, client.clock)
        await until(lambda: reported and clock.sleeping)
        limits[0] = 10.0
        clock.advance(59.0 if later else 9.0)
        await asyncio.sleep(0)
        assert not stream.is_cut.is_set()
        clock.advance(1.0)
        with pytest.raises(IdleTimeoutError, match="the watch was silent for 10 s"):
            await watching

    asyncio.run(act())


def test_every_byte_begins_the_count_of_silence_anew() -> None:
    """Also one that ends no line: the connection lives."""

    class Later(Pieces):
        def __init__(self) -> None:
            super().__init__([ONE], ends=False)
            self.more = asyncio.Event()
            self.taken = 0

        async def piece(self) -> bytes:
            self.taken += 1
            if self.taken == 2:
                await self.more.wait()
                return b" "
            return await super().piece()

    async def act() -> None:
        stream = Later()
        client = Client(stream)
        clock = cast(FakeClock, client.clock)
        watching = asyncio.create_task(watch(client, "/pods", {}, lambda _: None, silence=lambda: 10.0))
        await until(lambda: stream.taken == 2 and clock.sleeping)
        clock.advance(6.0)
        stream.more.set()
        await until(lambda: stream.taken == 3)
        clock.advance(4.0)
        await until(lambda: len(clock.slept) == 2)
        assert clock.slept == [10.0, 6.0]
        assert not stream.is_cut.is_set()
        clock.advance(6.0)
        with pytest.raises(IdleTimeoutError, match="the watch was silent for 10 s"):
            await watching

    asyncio.run(act())


@pytest.mark.parametrize("cut", [False, True])
def test_nothing_goes_on_after_a_watch(cut: bool) -> None:
    """The guard against silence has ended with it."""

    async def act() -> None:
        stream = Pieces([ONE], ends=not cut)
        if cut:
            stream.cut()
        watching = watch(Client(stream), "/pods", {}, lambda _: None, silence=lambda: 10.0)
        if cut:
            with pytest.raises(UnreachableError):
                await watching
        else:
            await watching
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(act())


def test_stream_that_is_cut_is_not_called_silent() -> None:
    async def act() -> None:
        stream = Pieces([], ends=False)
        stream.cut()
        with pytest.raises(UnreachableError, match="the stream was cut") as caught:
            await watch(Client(stream), "/pods", {}, lambda _: None, silence=lambda: 10.0)
        assert not isinstance(caught.value, IdleTimeoutError)

    asyncio.run(act())
