"""How long an informer waits: for a word of the server, and before it asks again (client-go's reflector)."""

from __future__ import annotations

import asyncio

import pytest

from reprieve.client.informer import InformerOptions
from reprieve.client.rate_limits import BackoffPolicy
from tests.client.clock import until
from tests.client.informing import Observed, informing
from tests.client.scripted import (
    Json,
    Reply,
    answer,
    bookmark,
    event,
    gone,
    lines,
    page,
    pod,
    status,
)

SILENT = lines(then="silence")


def test_silent_connection_is_cut_and_resumed() -> None:
    """Nothing in 180 s: the connection may be dead without a sign of it. Bytes start the count again."""
    more = asyncio.Event

    async def run() -> None:
        released = more()
        first = lines(bookmark(5, end=True), then="silence", hold=released.wait())
        async with informing(first, lines(event("ADDED", pod("a", 6)), then="silence")) as observed:
            await until(lambda: observed.informer.synced and observed.clock.sleeping)
            observed.clock.advance(179.0)
            assert len(observed.server.seen) == 1
            observed.clock.advance(1.5)
            await until(lambda: observed.changes == ["added a@6"])
            assert observed.queries()[1]["resourceVersion"] == "5"
            assert "silent for 180 s" in observed.trouble[0]
            released.set()

    asyncio.run(run())


def test_server_that_ignores_sendinitialevents_is_listed() -> None:
    """Older servers send what there is and then nothing: the end of the first events never comes."""

    async def run() -> None:
        first = lines(event("ADDED", pod("a", 3)), then="silence")
        async with informing(first, answer(page([pod("a", 3)], 4)), SILENT) as observed:
            await until(lambda: observed.server.seen and observed.clock.sleeping)
            assert not observed.informer.synced

            def later() -> bool:
                """Its silence begins with the last it sent, which may be on its way."""
                observed.clock.advance(1.0)
                return observed.informer.revision == "4"

            await until(later)
            assert observed.changes == ["added a@3"]
            assert "limit" in observed.queries()[1]

    asyncio.run(run())


def test_role_lost_later_is_waited_for() -> None:
    async def run() -> None:
        async with informing(lines(bookmark(5, end=True)), status(403, "Forbidden"), SILENT) as observed:
            await until(lambda: len(observed.server.seen) == 3)
            assert "403" in observed.trouble[0]

    asyncio.run(run())


def backs_off(observed: Observed) -> bool:
    """It waits before it asks again; the guard of an open stream sleeps as well, but for longer."""
    return any(seconds < InformerOptions().first_silence for seconds in observed.clock.slept)


def test_short_empty_watches_do_not_become_a_storm() -> None:
    async def run() -> None:
        async with informing(lines(bookmark(5, end=True)), lines(), instant=0.0) as observed:
            await until(lambda: backs_off(observed))
            assert len(observed.server.seen) == 2
            observed.clock.advance(60.0)
            await until(lambda: len(observed.server.seen) == 3)

    asyncio.run(run())


def test_410_again_and_again_is_not_a_storm() -> None:
    async def run() -> None:
        replies = (lines(bookmark(5, end=True)), lines(gone()), lines(gone()), lines(gone()))
        async with informing(*replies, instant=0.0) as observed:
            await until(lambda: backs_off(observed))
            assert len(observed.server.seen) == 3

    asyncio.run(run())


def test_410_while_everything_is_sent_is_not_a_storm_either() -> None:
    """What was sent before it is no sign that it goes better: the second start over waits."""

    async def run() -> None:
        first = lines(event("ADDED", pod("a", 3)), gone())
        async with informing(first, instant=0.0) as observed:
            await until(lambda: backs_off(observed))
            assert len(observed.server.seen) == 2

    asyncio.run(run())


def test_410_after_an_event_starts_over_at_once() -> None:
    """Restarts are counted from the last word of the server: each of these is the first."""

    async def run() -> None:
        replies = [lines(bookmark(revision, end=True), gone()) for revision in (5, 6, 7)]
        async with informing(*replies, lines(bookmark(8, end=True), then="silence"), instant=0.0) as observed:
            await until(lambda: observed.informer.revision == "8")
            assert not backs_off(observed)
            assert observed.trouble == []

    asyncio.run(run())


@pytest.mark.parametrize(("lasted", "pause"), [(0.9, True), (1.0, False), (1.1, False)])
def test_short_watch_without_events_is_followed_by_a_pause(lasted: float, pause: bool) -> None:
    async def run() -> None:
        released = asyncio.Event()
        silent = lines(then="silence", hold=released.wait())
        async with informing(lines(bookmark(5, end=True)), silent, SILENT, instant=0.0) as observed:
            await until(lambda: len(observed.server.seen) == 2 and observed.clock.sleeping)
            observed.clock.advance(lasted)
            released.set()
            await until(lambda: backs_off(observed) if pause else len(observed.server.seen) == 3)
            assert backs_off(observed) is pause

    asyncio.run(run())


@pytest.mark.parametrize(
    ("refusal", "waited"),
    [
        (status(500), 0.1),
        (status(503), 0.1),
        (status(500, retry_after=0), 0.1),
        (status(429, retry_after=3), 3.0),
        (status(503, retry_after=1), 1.0),
    ],
)
def test_how_long_an_informer_waits_after_a_refusal(refusal: Reply, waited: float) -> None:
    """Its own back-off, or as long as the server wishes where that is longer."""

    async def run() -> None:
        backoff = BackoffPolicy(initial=0.1, maximum=1.0, jitter=0.0)
        replies = (refusal, refusal, lines(bookmark(5, end=True), then="silence"))
        async with informing(*replies, backoff=backoff) as observed:
            await until(lambda: observed.informer.synced)
            waits = [seconds for seconds in observed.clock.slept if seconds < InformerOptions().first_silence]
            assert waits == [waited, max(waited, 0.2)]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("between", "waits"),
    [
        (bookmark(6), [0.1, 0.1]),  # after an event: from the start
        (None, [0.1, 0.2]),
    ],
)
def test_back_off_begins_anew_after_an_event(between: Json | None, waits: list[float]) -> None:
    async def run() -> None:
        backoff = BackoffPolicy(initial=0.1, maximum=1.0, jitter=0.0)
        sent = () if between is None else (between,)
        second = lines(*sent, b"", then="cut")
        replies = (lines(bookmark(5, end=True)), status(500), second, lines(bookmark(9), then="silence"))
        async with informing(*replies, backoff=backoff) as observed:
            await until(lambda: observed.informer.revision == "9")
            assert [seconds for seconds in observed.clock.slept if seconds < 15.0] == waits

    asyncio.run(run())


@pytest.mark.parametrize("code", [400, 422])
def test_list_that_is_a_bad_request_is_not_a_storm(code: int) -> None:
    """There is no third way to ask."""

    async def run() -> None:
        async with informing(status(code, "Bad"), instant=0.0, watch_list=False) as observed:
            await until(lambda: backs_off(observed))
            assert len(observed.server.seen) == 1
            assert f"pods: watching again: {observed.server.url}/api/v1/pods: no ({code} Bad)" in observed.trouble

    asyncio.run(run())


def test_times_of_an_informer() -> None:
    """client-go's reflector: 0.8 s to 30 s of back-off, watches of five to ten minutes, a pause after less than 1 s."""
    found = InformerOptions()
    assert found.watch_list
    assert (found.silence, found.first_silence, found.shortest_watch, found.quick) == (180.0, 20.0, 300.0, 1.0)
    assert (found.backoff.initial, found.backoff.maximum, found.backoff.factor) == (0.8, 30.0, 2.0)
