"""Steps of a write that take long, or wait for others, and are done beside the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_standin.worker_thread import INLINE, AwaitedCall, NotYetDoneError, OffLoopSteps, TooManyTurnsError, repeated
from tests.admission.plane import Plane

Json = dict[str, Any]


@pytest.fixture
def plane() -> Plane:
    return Plane()


def test_step_is_done_again_when_what_it_is_given_changes() -> None:
    """The result is kept by what it was made of, for each step by itself, and is fresh each time."""
    steps = OffLoopSteps(always=True)
    calls: list[str] = []

    def value(step: str, given: Any) -> Any:
        def work() -> Json:
            calls.append(step)
            return {"of": given}

        return steps.value(step, given, work)

    def done(step: str, given: Any) -> Any:
        with pytest.raises(NotYetDoneError) as missing:
            value(step, given)
        asyncio.run(missing.value.work())
        return value(step, given)

    first = done("a", 1)
    assert first == {"of": 1}
    first["of"] = "changed"
    assert value("a", 1) == {"of": 1}
    assert done("a", 2) == {"of": 2}
    assert done("b", 2) == {"of": 2}
    assert done("a", 1) == {"of": 1}
    assert value("b", 2) == {"of": 2}
    assert calls == ["a", "a", "b", "a"]


def test_small_writes_wait_for_nothing_but_findings() -> None:
    steps = OffLoopSteps(always=False)
    assert steps.value("a", 1, lambda: 5) == INLINE.value("a", 1, lambda: 5) == 5
    with pytest.raises(NotYetDoneError) as missing:
        steps.findings("a", 2**70, lambda: 5)
    asyncio.run(missing.value.work())
    assert steps.findings("a", 2**70, lambda: 6) == 5


@pytest.mark.parametrize(("steps", "ends"), [(0, True), (23, True), (24, False), (100, False)])
def test_write_is_begun_anew_for_each_of_its_steps(steps: int, ends: bool) -> None:
    """Twenty-four times; then what it depends on never rests."""
    done: list[int] = []

    async def work() -> None:
        done.append(1)

    def write() -> str:
        if len(done) < steps:
            raise NotYetDoneError(work)
        return "written"

    async def run() -> str:
        return await repeated(write)

    if ends:
        assert asyncio.run(run()) == "written"
        assert len(done) == steps
        return
    with pytest.raises(TooManyTurnsError):
        asyncio.run(run())
    assert len(done) == 24


def test_write_makes_up_a_value_once() -> None:
    steps = OffLoopSteps(always=False)
    numbers = iter(range(9))
    assert [steps.once("uid", lambda: next(numbers)) for _ in range(3)] == [0, 0, 0]
    assert steps.once("name", lambda: next(numbers)) == 1
    assert [INLINE.once("uid", lambda: next(numbers)) for _ in range(2)] == [2, 3]


def test_calls_of_a_write_are_made_at_the_same_time_and_once_for_each_input() -> None:
    steps = OffLoopSteps(always=False)
    made: list[str] = []

    async def write(*inputs: str) -> list[Any]:
        together = asyncio.Barrier(len(inputs))

        def call(at: int, given: str) -> AwaitedCall:
            async def make() -> str:
                made.append(given)
                if given == "bad":
                    raise ValueError(given)
                await together.wait()
                return given.upper()

            return AwaitedCall(f"call {at}", given.encode(), make)

        return await repeated(lambda: steps.awaited([call(at, given) for at, given in enumerate(inputs)]))

    assert asyncio.run(write("a", "b")) == ["A", "B"]
    assert asyncio.run(write("a", "b")) == ["A", "B"]
    failed = asyncio.run(write("bad"))[0]
    assert isinstance(failed, ValueError)
    assert made == ["a", "b", "bad"]
    with pytest.raises(ValueError, match="cannot wait"):
        INLINE.awaited([])
