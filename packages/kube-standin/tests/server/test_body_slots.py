"""Large bodies that arrive slowly keep no other out (interfaces.md 5.8), by a clock that does not wait."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from kube_standin.errors import StatusError
from kube_standin.server.body_slots import LARGE_BODIES, BodySlots
from tests.server.inprocess import virtually

KB = 1024


class Ended(NamedTuple):
    """How the reading of a body ended: the code of its refusal (0: it was read), and when, in seconds."""

    code: int
    seconds: float


async def sends(slots: BodySlots, piece: int, every: float, pieces: int, holds: float = 0.0) -> Ended:
    """A client that sends so many pieces, one every so many seconds; the request then takes a while."""
    now = asyncio.get_running_loop().time
    try:
        async with slots.slot():
            async with slots.arriving() as body:
                for _ in range(pieces):
                    await asyncio.sleep(every)
                    body.came(piece)
            await asyncio.sleep(holds)
    except StatusError as error:
        closes = error.headers == {"Connection": "close"}
        return Ended(error.code if closes else -1, now())
    return Ended(0, now())


@pytest.mark.parametrize(
    ("piece", "every", "pieces", "code", "seconds"),
    [
        (1, 1.0, 60, 408, 5.0),
        (0, 60.0, 1, 408, 5.0),
        (16 * KB, 1.0, 30, 0, 30.0),
        (17 * KB, 1.0, 30, 0, 30.0),
        (15 * KB, 1.0, 200, 408, 65.0),
        (64 * KB, 4.0, 10, 0, 40.0),
        (1024 * KB, 0.0, 3, 0, 0.0),
    ],
)
def test_body_keeps_a_minimum_rate(piece: int, every: float, pieces: int, code: int, seconds: float) -> None:
    """16 KiB a second, after five seconds of grace."""
    ended = virtually(lambda: sends(BodySlots(), piece, every, pieces))
    assert ended.code == code
    assert ended.seconds == pytest.approx(seconds, abs=2.0)


@pytest.mark.parametrize("slow", [LARGE_BODIES, 100])
@pytest.mark.parametrize(("piece", "every"), [(1, 1.0), (1, 0.01), (16 * KB, 0.5), (100 * KB, 0.9)])
def test_slow_bodies_give_way_to_one_that_waits(slow: int, piece: int, every: float) -> None:
    """Within a second, however many they are; each of them is asked to try again."""

    async def run() -> tuple[list[Ended], Ended]:
        slots = BodySlots()
        slowly = [asyncio.ensure_future(sends(slots, piece, every, 50)) for _ in range(slow)]
        await asyncio.sleep(0.3)
        began = asyncio.get_running_loop().time()
        code, ended = await sends(slots, 1024 * KB, 0.001, 3)
        for task in slowly:
            task.cancel()
        gone = [task.result() for task in slowly if task.done() and not task.cancelled()]
        await asyncio.gather(*slowly, return_exceptions=True)
        return gone, Ended(code, ended - began)

    gone, quick = virtually(run)
    assert quick.code == 0
    assert quick.seconds < (0.2 if slow == LARGE_BODIES else 2.0)
    assert {ended.code for ended in gone} <= {429}
    if slow == LARGE_BODIES:
        assert len(gone) == 1, "no more give way than others wait"


def test_quick_bodies_and_requests_that_are_handled_give_no_way() -> None:
    async def run() -> list[Ended]:
        slots = BodySlots(2)
        tasks = [
            sends(slots, 256 * KB, 0.1, 30),  # 2.5 MiB a second
            sends(slots, 64 * KB, 0.001, 2, holds=10.0),
            sends(slots, 64 * KB, 0.001, 2),
        ]
        return await asyncio.gather(*tasks)

    first, second, third = virtually(run)
    assert (first.code, second.code, third.code) == (0, 0, 0)
    assert third.seconds == pytest.approx(first.seconds, abs=0.2)


def test_slots_come_back() -> None:
    async def run() -> list[Ended]:
        slots = BodySlots(1)
        for _ in range(3):
            assert (await sends(slots, 1, 60.0, 1)).code == 408
            task = asyncio.ensure_future(sends(slots, 1, 1.0, 9))
            await asyncio.sleep(0.1)
            waiting = asyncio.ensure_future(sends(slots, 64 * KB, 0.001, 2))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return [await sends(slots, 64 * KB, 0.001, 2)]

    assert [ended.code for ended in virtually(run)] == [0]
