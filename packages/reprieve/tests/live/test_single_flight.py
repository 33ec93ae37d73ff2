"""Calls for victims that several preemptions decided on are made once (preemption.md 7.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from reprieve.live.single_flight import SingleFlight
from tests.client.clock import FakeClock


class Calls:
    """Counts calls; each ends when the test says so, or at once."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.flight = SingleFlight(self.clock)
        self.made = 0
        self.error: Exception | None = None

    async def act(self) -> None:
        self.made += 1
        if self.error is not None:
            raise self.error

    async def once(self, what: str = "delete", key: str = "uid") -> bool:
        return await self.flight.once(what, key, self.act)


def play(act: Callable[[Calls], Awaitable[None]]) -> None:
    async def run() -> None:
        await act(Calls())

    asyncio.run(run())


@pytest.mark.parametrize(("passed", "made"), [(0.0, 1), (59.9, 1), (60.0, 2), (61.0, 2)])
def test_call_that_went_well_is_remembered_for_a_minute(passed: float, made: int) -> None:
    async def act(calls: Calls) -> None:
        assert await calls.once()
        calls.clock.advance(passed)
        assert await calls.once() is (made == 2)
        assert calls.made == made

    play(act)


def test_calls_of_other_pods_and_for_other_things_are_others() -> None:
    async def act(calls: Calls) -> None:
        for what, key in (("mark", "a"), ("mark", "b"), ("delete", "a")):
            assert await calls.once(what, key)
        assert not await calls.once("mark", "a")

    play(act)


def test_all_that_is_over_is_forgotten_oldest_first() -> None:
    async def act(calls: Calls) -> None:
        for key, after in (("a", 0.0), ("b", 30.0), ("c", 29.0)):
            calls.clock.advance(after)
            await calls.once(key=key)
        calls.clock.advance(31.0)
        assert [await calls.once(key=key) for key in "abc"] == [True, True, False]

    play(act)


def test_call_that_failed_is_made_anew_and_counts_from_then() -> None:
    async def act(calls: Calls) -> None:
        calls.error = RuntimeError("refused")
        with pytest.raises(RuntimeError, match="refused"):
            await calls.once()
        calls.clock.advance(50.0)
        calls.error = None
        assert await calls.once()
        calls.clock.advance(50.0)
        assert not await calls.once()

    play(act)


def test_eviction_that_was_undone_is_made_anew() -> None:
    async def act(calls: Calls) -> None:
        await calls.once()
        calls.flight.forget("mark", "uid")
        assert not await calls.once()
        calls.flight.forget("delete", "uid")
        assert await calls.once()

    play(act)


@pytest.mark.parametrize("error", [None, RuntimeError("refused")])
def test_second_caller_waits_for_the_first_call_and_gets_its_result(error: Exception | None) -> None:
    """However long it takes: a call under way is not forgotten, and neither is what was made after it."""

    async def act(calls: Calls) -> None:
        ends = asyncio.Event()

        async def slow() -> None:
            calls.made += 1
            await ends.wait()
            if error is not None:
                raise error

        first = asyncio.ensure_future(calls.flight.once("delete", "uid", slow))
        await asyncio.sleep(0)
        await calls.once(key="other")
        calls.clock.advance(100.0)
        second = asyncio.ensure_future(calls.once())
        await asyncio.sleep(0)
        assert not second.done()
        assert not await calls.once(key="other"), "behind one that is under way"
        ends.set()
        found = await asyncio.gather(first, second, return_exceptions=True)
        assert [*found] == ([True, False] if error is None else [error, error])
        assert calls.made == 2

    play(act)


def test_call_that_was_cancelled_is_made_anew() -> None:
    async def act(calls: Calls) -> None:
        async def never() -> None:
            await asyncio.Event().wait()

        first = asyncio.ensure_future(calls.flight.once("delete", "uid", never))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert await calls.once()

    play(act)


def test_pod_is_wanted_as_long_as_any_preemption_evicts_it() -> None:
    flight = SingleFlight(FakeClock())
    flight.begin(["a", "b"])
    flight.begin(["a"])
    seen = []
    for keys in (["a"], ["b"], ["a"], ["a", "c"]):
        flight.end(keys)
        seen.append([key for key in "abc" if flight.wanted(key)])
    assert seen == [["a", "b"], ["a"], [], []]
    flight.begin(["a"])
    assert flight.wanted("a"), "what ended too often is not owed"
