"""One line for an outage, however many watches and retries notice it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from reprieve.client.clock import REAL_CLOCK
from reprieve.client.errors import ApiError
from reprieve.controlplane.server.serving import ServeOptions, serving
from reprieve.live.local import kept_port
from reprieve.live.outages import Outages

from ..client.clock import FakeClock
from .executor import EVERY_KIND, placed, running, until
from .faults import FaultyClient, client_of, create, node, pod


class Heard:
    """What was said, and how often something was only counted."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.said: list[str] = []
        self.counted = 0
        self.over: list[tuple[float, int]] = []
        self.outages = Outages(self.clock, self, over=lambda seconds, calls: self.over.append((seconds, calls)))

    def trouble(self, where: str, text: str) -> None:
        self.said.append(f"{where}: {text}")

    def trouble_again(self, where: str) -> None:
        self.counted += 1

    def fail(self, what: str, text: str = "refused") -> None:
        self.outages.failed(what, "watch", f"{what}: {text}")

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.outages.tick()


def test_what_fails_together_is_said_once_and_its_end_once() -> None:
    heard = Heard()
    kinds = ["pods", "nodes", "podgroups"]
    for _ in range(4):
        for kind in kinds:
            heard.fail(kind)
        heard.pass_time(3)
    assert heard.said == ["watch: pods: refused (what else fails until this is over is counted, not said)"]
    assert heard.counted == 11
    for kind in kinds:
        heard.outages.well(kind)
    heard.pass_time(5)
    assert heard.over == [], "one moment is not over yet"
    heard.pass_time(5)
    assert heard.over == [(9.0, 12)]
    heard.pass_time(100)
    assert heard.over == [(9.0, 12)]
    heard.fail("nodes")
    assert len(heard.said) == 2, "the next one is said again"


def test_what_goes_on_failing_is_said_again_and_again_but_seldom() -> None:
    heard = Heard()
    for _ in range(3600):
        for kind in ("pods", "nodes", "leases", "podgroups"):
            heard.fail(kind)
        heard.pass_time(1)
    assert 6 <= len(heard.said) <= 11
    assert heard.said[1].startswith("watch: pods: refused (for 60 s now: pods, nodes, leases and 1 more)")


def test_what_fails_later_for_a_reason_of_its_own_is_said() -> None:
    """A right that was taken away for good must not hide an outage."""
    heard = Heard()
    heard.fail("resourceclaims", "forbidden")
    for _ in range(300):
        heard.pass_time(1)
    assert heard.over == []
    heard.fail("pods", "connection refused")
    assert "pods: connection refused" in heard.said[-1]


def test_what_comes_and_goes_is_one_outage() -> None:
    """A proxy that answers and cuts."""
    heard = Heard()
    for _ in range(20):
        heard.fail("pods")
        heard.pass_time(1)
        heard.outages.well("pods")
        heard.pass_time(1)
    assert len(heard.said) == 1
    heard.pass_time(10)
    assert heard.over == [(38.0, 20)]


def test_what_is_not_repeated_is_said_unless_there_is_an_outage() -> None:
    heard = Heard()
    heard.outages.besides("write", "status of a")
    heard.fail("pods")
    heard.outages.besides("write", "status of b")
    assert [text.partition(":")[0] for text in heard.said] == ["write", "watch"]


class Refusing(FaultyClient):
    """A client whose watches an API server refuses that does not know its rights yet."""

    burst = 0

    async def _answering(self, path: str, *more: Any) -> Any:
        if self.burst:
            self.burst -= 1
            raise ApiError(403, "Forbidden", f"{path}: not yet")
        return await super()._answering(path, *more)


def test_an_api_server_that_is_started_anew_is_one_line(tmp_path: Path) -> None:
    """Every watch is cut and refused again and again, first the connection, then by RBAC; then all goes on."""

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            # It comes back at the same place, which nobody may have taken meanwhile.
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
