"""One line for an outage, however many watches and retries notice it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from kube_standin.server.control_plane import ServeOptions, serving
from reprieve.client.clock import REAL_CLOCK
from reprieve.client.errors import ApiError
from reprieve.live.local import kept_port
from reprieve.live.outages import Outages
from tests.client.clock import FakeClock
from tests.live.executor import EVERY_KIND, placed, running, until
from tests.live.faults import FaultyClient, client_of, create, node, pod


class Recorder:
    """What was logged, and how often something was only counted."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.logged: list[str] = []
        self.counted = 0
        self.over: list[tuple[float, int]] = []
        self.outages = Outages(self.clock, self, over=lambda seconds, calls: self.over.append((seconds, calls)))

    def trouble(self, where: str, text: str) -> None:
        self.logged.append(f"{where}: {text}")

    def trouble_again(self, where: str) -> None:
        self.counted += 1

    def fail(self, what: str, text: str = "refused") -> None:
        self.outages.failed(what, "watch", f"{what}: {text}")

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.outages.tick()


def test_failures_together_are_logged_once_and_their_end_once() -> None:
    recorder = Recorder()
    kinds = ["pods", "nodes", "podgroups"]
    for _ in range(4):
        for kind in kinds:
            recorder.fail(kind)
        recorder.pass_time(3)
    assert recorder.logged == ["watch: pods: refused (what else fails until this is over is counted, not logged)"]
    assert recorder.counted == 11
    for kind in kinds:
        recorder.outages.well(kind)
    recorder.pass_time(5)
    assert recorder.over == [], "one moment is not over yet"
    recorder.pass_time(5)
    assert recorder.over == [(9.0, 12)]
    recorder.pass_time(100)
    assert recorder.over == [(9.0, 12)]
    recorder.fail("nodes")
    assert len(recorder.logged) == 2, "the next one is logged again"


def test_failures_that_go_on_are_logged_seldom() -> None:
    recorder = Recorder()
    for _ in range(3600):
        for kind in ("pods", "nodes", "leases", "podgroups"):
            recorder.fail(kind)
        recorder.pass_time(1)
    assert 6 <= len(recorder.logged) <= 11
    assert recorder.logged[1].startswith("watch: pods: refused (for 60 s now: pods, nodes, leases and 1 more)")


def test_failures_that_go_on_are_reported_after_a_minute_then_twice_as_late_up_to_ten_minutes() -> None:
    """Every second: after 60 s, then 120, 240, 480 and from then on 600 s later; else it is counted."""
    recorder = Recorder()
    reported = []
    for second in range(2200):
        before = len(recorder.logged)
        recorder.fail("pods")
        if len(recorder.logged) > before:
            reported.append(second)
        recorder.pass_time(1)
    assert reported == [0, 60, 180, 420, 900, 1500, 2100]
    assert recorder.counted == 2200 - len(reported)


@pytest.mark.parametrize(
    ("later", "logged"),
    [
        (0.5, 1),
        (60.0, 1),
        (60.5, 2),
    ],
)
def test_failures_within_a_minute_share_their_reason(later: float, logged: int) -> None:
    recorder = Recorder()
    recorder.fail("pods")
    recorder.pass_time(later)
    recorder.fail("nodes")
    assert (len(recorder.logged), recorder.counted) == (logged, 2 - logged)


def test_minute_counts_from_what_began_to_fail_last() -> None:
    """One kind after the other, as watches notice it."""
    recorder = Recorder()
    for number in range(5):
        recorder.fail(f"k{number}")
        recorder.pass_time(50)
    assert len(recorder.logged) == 1


@pytest.mark.parametrize(("names", "more"), [(1, ""), (3, ""), (4, " and 1 more"), (5, " and 2 more")])
def test_three_of_those_that_fail_are_named(names: int, more: str) -> None:
    recorder = Recorder()
    for _ in range(2):
        for number in range(names):
            recorder.fail(f"k{number}")
        recorder.pass_time(60)
    first = ", ".join(f"k{number}" for number in range(min(names, 3)))
    assert recorder.logged[1:] == [f"watch: k0: refused (for 60 s now: {first}{more})"]


@pytest.mark.parametrize(("quiet", "over"), [(9.0, []), (10.0, [(5.0, 2)]), (11.0, [(5.0, 2)])])
def test_outage_is_over_when_nothing_has_failed_for_ten_seconds(quiet: float, over: list[tuple[float, int]]) -> None:
    recorder = Recorder()
    recorder.fail("pods")
    recorder.pass_time(5)
    recorder.fail("pods")
    recorder.outages.well("pods")
    recorder.pass_time(quiet)
    assert recorder.over == over
    assert recorder.outages.under_way is not bool(over)
    recorder.pass_time(50)
    assert len(recorder.over) == 1, "once"


def test_failures_that_go_on_keep_an_outage_going() -> None:
    recorder = Recorder()
    recorder.fail("pods")
    recorder.fail("nodes")
    recorder.outages.well("pods")
    recorder.pass_time(100)
    assert (recorder.over, list(recorder.outages.failing)) == ([], ["nodes"])


def test_calls_that_are_not_repeated_count_as_part_of_an_outage() -> None:
    recorder = Recorder()
    recorder.fail("pods")
    for _ in range(3):
        recorder.outages.besides("write", "x")
    assert recorder.counted == 3
    recorder.outages.well("pods")
    recorder.pass_time(10)
    assert recorder.over == [(0.0, 4)]


def test_new_outage_is_reported_as_the_first_one_was() -> None:
    """Nothing of it is left: neither when it is logged again, nor what was counted."""
    recorder = Recorder()
    for _ in range(2):
        for second in range(61):
            recorder.fail("pods")
            if second < 60:
                recorder.pass_time(1)
        recorder.outages.well("pods")
        recorder.pass_time(10)
    assert [text.rpartition("(")[2] for text in recorder.logged] == [
        "what else fails until this is over is counted, not logged)",
        "for 60 s now: pods)",
    ] * 2
    assert recorder.over == [(60.0, 61)] * 2


def test_failure_of_its_own_reason_is_logged() -> None:
    """A right that was taken away for good must not hide an outage."""
    recorder = Recorder()
    recorder.fail("resourceclaims", "forbidden")
    for _ in range(300):
        recorder.pass_time(1)
    assert recorder.over == []
    recorder.fail("pods", "connection refused")
    assert "pods: connection refused" in recorder.logged[-1]


def test_failures_that_come_and_go_are_one_outage() -> None:
    """A proxy that answers and cuts."""
    recorder = Recorder()
    for _ in range(20):
        recorder.fail("pods")
        recorder.pass_time(1)
        recorder.outages.well("pods")
        recorder.pass_time(1)
    assert len(recorder.logged) == 1
    recorder.pass_time(10)
    assert recorder.over == [(38.0, 20)]


def test_single_failures_are_logged_unless_there_is_an_outage() -> None:
    recorder = Recorder()
    recorder.outages.besides("write", "status of a")
    recorder.fail("pods")
    recorder.outages.besides("write", "status of b")
    assert [text.partition(":")[0] for text in recorder.logged] == ["write", "watch"]


class Refusing(FaultyClient):
    """A client with watches that an API server refuses before it knows the rights."""

    burst = 0

    async def _answering(self, path: str, *more: Any) -> Any:
        if self.burst:
            self.burst -= 1
            raise ApiError(403, "Forbidden", f"{path}: not yet")
        return await super()._answering(path, *more)


def test_api_server_that_is_started_anew_is_one_line(tmp_path: Path) -> None:
    """Every watch is cut and refused again and again, first the connection, then by RBAC; then all goes on."""

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            # It comes back at the same port, which no other process may take meanwhile.
            options = ServeOptions(tls=False, data_dir=tmp_path, port=stack.enter_context(kept_port(0)))
            async with contextlib.AsyncExitStack() as first:
                server = await first.enter_async_context(serving(options))
                client = await first.enter_async_context(client_of(server))
                await create(client, node("n1"), pod("before"))
                found = await stack.enter_async_context(
                    running(server, kind=Refusing, kinds=EVERY_KIND, clock=REAL_CLOCK)
                )
                await until(lambda: placed(client, "before"), "it schedules")
                assert found.observer.troubles == []
            registry = found.observer.metrics.registry
            missed = {"where": "watch"}
            await until(
                lambda: (registry.get_sample_value("scheduler_trouble_total", missed) or 0) >= 30, "retries fail"
            )
            assert isinstance(found.client, Refusing)
            found.client.burst = 2 * len(found.scheduler.outages.failing)
            server = await stack.enter_async_context(serving(options))
            client = await stack.enter_async_context(client_of(server))
            await create(client, pod("after"))
            await until(lambda: placed(client, "after"), "it goes on")
            await until(lambda: not found.scheduler.outages.failing, "every watch is back")
            assert len(found.observer.troubles) == 1
            assert "watching again" in found.observer.troubles[0]
            assert found.client.burst == 0

    asyncio.run(run())
