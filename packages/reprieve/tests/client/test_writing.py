"""Writes: so many at a time, in order per object, none by a deposed leader, each with an end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from reprieve.client.connection import Connection
from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.leader_election import Fence, LeadershipLostError
from reprieve.client.rate_limits import BackoffPolicy
from reprieve.client.transport import ApiClient
from reprieve.client.write_queue import ATTEMPTS, WriterPool
from tests.client.clock import FakeClock, until
from tests.client.scripted import answer, client_of, scripted, status


@asynccontextmanager
async def pool(
    workers: int = 4, *, leading: bool = True, instant: float = 60.0
) -> AsyncIterator[tuple[WriterPool, Fence]]:
    clock = FakeClock(instant=instant)
    client = ApiClient(Connection("http://127.0.0.1:1", "test"), clock=clock, chance=random.Random(1), environment={})
    fence = Fence(clock)
    if leading:
        fence.opened(clock.monotonic() + 1e9, 1)
    writers = WriterPool(client, fence, workers=workers)
    try:
        yield writers, fence
    finally:
        await writers.aclose()


@pytest.mark.parametrize("seed", range(10))
def test_bounded_and_in_order_per_key(seed: int) -> None:
    """Random keys, random times, random passing failures: order per key, at most `workers` at a time, all end."""

    async def run() -> None:
        chance = random.Random(seed)
        running: Counter[str] = Counter()
        finished: dict[str, list[int]] = {}
        most = 0

        def write(key: str, number: int) -> Callable[[], Awaitable[int]]:
            failures = chance.choice([0, 0, 0, 1, 2])

            async def act() -> int:
                nonlocal failures, most
                running[key] += 1
                most = max(most, running.total())
                try:
                    assert running[key] == 1, "two writes to one object at a time"
                    for _ in range(chance.randrange(4)):
                        await asyncio.sleep(0)
                    if failures:
                        failures -= 1
                        raise UnreachableError("cut")
                    finished.setdefault(key, []).append(number)
                    return number
                finally:
                    running[key] -= 1

            return act

        async with pool(workers=3) as (writers, _):
            results = []
            for number in range(150):
                key = chance.choice("abcdefg")
                results.append((number, key, writers.submit(key, write(key, number))))
                if chance.random() < 0.3:
                    await asyncio.sleep(0)
            await writers.drain()
            assert writers.pending == writers.in_flight == 0
            assert [await result for _, _, result in results] == list(range(150))
        assert most == 3
        for key, numbers in finished.items():
            assert numbers == [number for number, other, _ in results if other == key]

    asyncio.run(run())


def test_failure_does_not_hold_up_what_comes_after() -> None:
    async def run() -> None:
        async def fail() -> None:
            raise ApiError(422, "Invalid", "no")

        async def work() -> str:
            return "done"

        async with pool(workers=1) as (writers, _):
            first, second = writers.submit("a", fail), writers.submit("a", work)
            with pytest.raises(ApiError, match="no"):
                await first
            assert await second == "done"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (ApiError(409, "Conflict", "no"), 1),
        (ApiError(404, "NotFound", "no"), 1),
        (ApiError(428, "", "no"), 1),
        (ApiError(430, "", "no"), 1),
        (ApiError(499, "", "no"), 1),
        (ApiError(429, "TooManyRequests", "later", retry_after=9.0), ATTEMPTS),
        (ApiError(500, "InternalError", "no"), ATTEMPTS),
        (UnreachableError("cut"), ATTEMPTS),
        (UnreachableError("not trusted", lasting=True), 1),
        (ValueError("a mistake of the program"), 1),
    ],
    ids=str,
)
def test_errors_that_pass_are_tried_again(error: Exception, attempts: int) -> None:
    async def run() -> None:
        tried: list[int] = []

        async def act() -> None:
            tried.append(1)
            raise error

        async with pool() as (writers, _):
            with pytest.raises(type(error)):
                await writers.submit("a", act)
            assert len(tried) == attempts
            waits = writers._client.clock.slept  # type: ignore[attr-defined]
            assert all(wait >= (getattr(error, "retry_after", None) or 0) for wait in waits)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (UnreachableError("cut"), [0.1, 0.2, 0.4, 0.5]),
        (ApiError(500, "InternalError", "no"), [0.1, 0.2, 0.4, 0.5]),
        (ApiError(429, "TooManyRequests", "later", retry_after=0.0), [0.1, 0.2, 0.4, 0.5]),
        (ApiError(429, "TooManyRequests", "later", retry_after=0.3), [0.3, 0.3, 0.4, 0.5]),
        (ApiError(503, "", "later", retry_after=9.0), [9.0] * 4),
    ],
    ids=str,
)
def test_write_waits_for_its_back_off_or_as_long_as_the_server_wishes(error: Exception, waits: list[float]) -> None:
    async def run() -> None:
        clock = FakeClock(instant=60.0)
        client = ApiClient(Connection("http://127.0.0.1:1", "test"), clock=clock, environment={})

        async def act() -> None:
            raise error

        writers = WriterPool(client, backoff=BackoffPolicy(initial=0.1, maximum=0.5, jitter=0.0))
        with pytest.raises(type(error)):
            await writers.submit("a", act)
        await writers.aclose()
        assert clock.slept == waits

    asyncio.run(run())


def test_losing_leadership_ends_everything_at_once() -> None:
    """In flight: cancelled. Waiting: refused. Later: refused. Nothing begins after the fence is shut."""

    async def run() -> None:
        begun: list[str] = []

        def write(name: str) -> Callable[[], Awaitable[None]]:
            async def act() -> None:
                begun.append(name)
                await asyncio.get_running_loop().create_future()

            return act

        async with pool(workers=2) as (writers, fence):
            results = [writers.submit(key, write(f"{key}{turn}")) for turn in range(3) for key in "abc"]
            await until(lambda: len(begun) == 2)
            unstarted = writers.submit("late", write("late"))
            fence.shut()
            results += [unstarted, writers.submit("z", write("z"))]
            assert writers.submit("a", write("again")).done(), "refused at once, not when its turn comes"
            await writers.drain()
            for result in results:
                with pytest.raises(LeadershipLostError):
                    await result
            assert sorted(begun) == ["a0", "b0"]
            fence.opened(float("inf"), 2)  # leader again: a new term writes
            done = writers.submit("a", _nothing)
            await done

    asyncio.run(run())


def test_writes_waiting_when_leadership_ended_are_not_carried_out_twice() -> None:
    """A key that was ready then is ready once: its writes go one at a time, each once."""

    async def run() -> None:
        done: list[int] = []

        async def hold() -> None:
            await asyncio.get_running_loop().create_future()

        def write(number: int) -> Callable[[], Awaitable[None]]:
            async def act() -> None:
                await asyncio.sleep(0)
                done.append(number)

            return act

        async with pool(workers=2) as (writers, fence):
            before = [writers.submit(key, hold) for key in "abc"]
            await until(lambda: writers.in_flight == 2)
            fence.shut()
            await writers.drain()
            fence.opened(float("inf"), 2)
            await asyncio.gather(*(writers.submit("c", write(number)) for number in range(3)))
            await writers.drain()
            assert done == [0, 1, 2]
            assert all(isinstance(result.exception(), LeadershipLostError) for result in before)

    asyncio.run(run())


def test_write_of_a_new_term_is_carried_out_once_though_those_before_have_not_ended() -> None:
    """Leader again at once: what was cancelled is still being written, and what waited is forgotten."""

    async def run() -> None:
        done: list[str] = []

        async def hold() -> None:
            await asyncio.get_running_loop().create_future()

        async def act() -> None:
            done.append("c")
            for _ in range(5):
                await asyncio.sleep(0)

        async with pool(workers=2) as (writers, fence):
            for key in "abc":
                writers.submit(key, hold)
            await until(lambda: writers.in_flight == 2)
            fence.shut()
            fence.opened(float("inf"), 2)
            await writers.submit("c", act)
            await writers.drain()
            assert done == ["c"]

    asyncio.run(run())


async def _nothing() -> None:
    return None


def test_write_with_a_task_that_never_began_ends_too() -> None:
    async def run() -> None:
        async with pool() as (writers, fence):
            result = writers.submit("a", _nothing)
            fence.shut()
            await writers.drain()
            with pytest.raises(LeadershipLostError):
                await result

    asyncio.run(run())


def test_fence_that_ran_out_stops_the_next_attempt() -> None:
    """No end of leadership was reported, but its time is over: the fence checks the clock."""

    async def run() -> None:
        tried: list[int] = []
        async with pool(instant=0.0) as (writers, fence):
            clock: FakeClock = writers._client.clock  # type: ignore[assignment]
            fence.opened(clock.monotonic() + 10.0, 1)

            async def act() -> None:
                tried.append(1)
                raise UnreachableError("cut")

            result = writers.submit("a", act)
            await until(lambda: clock.sleeping)
            clock.advance(11.0)
            await until(result.done)
            assert isinstance(result.exception(), LeadershipLostError)
            assert len(tried) == 1

    asyncio.run(run())


def test_no_writes_without_a_leader() -> None:
    async def run() -> None:
        async with pool(leading=False) as (writers, _):
            with pytest.raises(LeadershipLostError, match="not the leader"):
                await writers.submit("a", _nothing)

    asyncio.run(run())


def test_closed_pool_refuses() -> None:
    async def run() -> None:
        async with pool() as (writers, _):
            await writers.aclose()
            with pytest.raises(LeadershipLostError, match="closed"):
                await writers.submit("a", _nothing)

    asyncio.run(run())


def test_unawaited_result_can_be_cancelled() -> None:
    async def run() -> None:
        async with pool(workers=1) as (writers, _):
            gate = asyncio.Event()

            async def wait() -> None:
                await gate.wait()

            begun: list[int] = []

            async def begin() -> None:
                begun.append(1)

            writers.submit("a", wait)
            second = writers.submit("a", begin)
            second.cancel()
            gate.set()
            await writers.drain()
            assert begun == []

    asyncio.run(run())


def test_guard_of_a_request_is_the_fence() -> None:
    """Between two attempts of one request leadership ends: the second is not sent."""

    async def run() -> None:
        clock = FakeClock(instant=0.0)
        async with scripted(status(429), answer({})) as server, client_of(server, clock=clock) as client:
            fence = Fence(clock)
            fence.opened(clock.monotonic() + 5.0, 1)
            writers = WriterPool(client, fence)
            result = writers.submit("a", lambda: client.request("POST", "/x", body={}, guard=fence.check))
            await until(lambda: clock.sleeping)
            clock.advance(6.0)
            await until(result.done)
            assert isinstance(result.exception(), LeadershipLostError)
            assert len(server.seen) == 1
            await writers.aclose()

    asyncio.run(run())


def test_sixteen_writes_at_a_time_unless_stated_otherwise() -> None:
    async def run() -> None:
        begun: list[int] = []

        async def act() -> None:
            begun.append(1)
            await asyncio.get_running_loop().create_future()

        client = ApiClient(Connection("http://127.0.0.1:1", "test"), clock=FakeClock(), environment={})
        writers = WriterPool(client)
        assert (writers.in_flight, writers.pending, writers.guard) == (0, 0, None)
        for number in range(20):
            writers.submit(f"key {number}", act)
        await until(lambda: len(begun) >= 16)
        await asyncio.sleep(0)
        assert (len(begun), writers.in_flight, writers.pending) == (16, 16, 20)
        await writers.aclose()
        assert (writers.in_flight, writers.pending) == (0, 0)

    asyncio.run(run())


def test_five_attempts_with_waits_from_half_a_second_to_ten() -> None:
    class Lowest(random.Random):
        def random(self) -> float:
            return 0.0

    async def waits(**more: Any) -> list[float]:
        clock = FakeClock(instant=60.0)
        client = ApiClient(Connection("http://127.0.0.1:1", "test"), clock=clock, chance=Lowest(), environment={})

        async def act() -> None:
            raise UnreachableError("cut")

        writers = WriterPool(client, **more)
        with pytest.raises(UnreachableError):
            await writers.submit("a", act)
        await writers.aclose()
        return clock.slept

    assert asyncio.run(waits()) == [0.5, 1.0, 2.0, 4.0]
    assert asyncio.run(waits(attempts=8)) == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@pytest.mark.parametrize(
    ("how", "waiting", "later"),
    [
        ("deposed", "b: not written: not the leader any more", "c: not written: not the leader"),
        ("closed", "b: not written: closed", "c: not written: closed"),
    ],
)
def test_write_that_was_not_carried_out(how: str, waiting: str, later: str) -> None:
    """In flight: nothing; waiting, and later: that it was not written."""

    async def run() -> None:
        begun: list[int] = []

        async def act() -> None:
            begun.append(1)
            await asyncio.get_running_loop().create_future()

        async with pool(workers=1) as (writers, fence):
            flying, behind, other = writers.submit("a", act), writers.submit("a", act), writers.submit("b", act)
            await until(lambda: begun)
            assert (writers.in_flight, writers.pending) == (1, 3)
            if how == "deposed":
                fence.shut()
            else:
                await writers.aclose()
            after = writers.submit("c", act)
            await writers.drain()
            assert (writers.in_flight, writers.pending, len(begun)) == (0, 0, 1)
            assert writers.guard == fence.check
            found = [str(result.exception()) for result in (flying, behind, other, after)]
        assert found == [
            "a: cancelled in flight: it may or may not have been written",
            waiting.replace("b:", "a:"),
            waiting,
            later,
        ]

    asyncio.run(run())


def test_write_that_was_cancelled_before_its_turn_leaves_the_others() -> None:
    """Of its key, and of others; a drain waits for them."""

    async def run() -> None:
        done: list[str] = []
        gate = asyncio.Event()

        def write(name: str) -> Callable[[], Awaitable[None]]:
            async def act() -> None:
                await gate.wait()
                done.append(name)

            return act

        async with pool(workers=1) as (writers, _):
            results = {name: writers.submit(name[0], write(name)) for name in ("a1", "a2", "b1", "a3", "b2")}
            results["a2"].cancel()
            results["b1"].cancel()
            drained = asyncio.create_task(writers.drain())
            await until(lambda: writers.in_flight)
            assert not drained.done()
            gate.set()
            await drained
            assert sorted(done) == ["a1", "a3", "b2"]
            assert done.index("a1") < done.index("a3")
            assert writers.pending == 0

    asyncio.run(run())
