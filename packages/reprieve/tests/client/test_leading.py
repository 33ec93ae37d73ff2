"""Leader election by Lease (client-go leaderelection), on a lease as an API server keeps it: one leader at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web

from reprieve.client.connection import Identity
from reprieve.client.leader_election import Election, Fence, LeadershipLostError, LeaseOptions
from reprieve.client.transport import Limits
from tests.client.clock import FakeClock, until
from tests.client.scripted import Json, Scripted, client_of, scripted
from tests.waiting import DEADLINE

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class LeaseServer:
    """One lease with optimistic concurrency; may be away for some, and may keep an answer back."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.revision = 0
        self.away: set[str] = set()
        self.stuck: set[str] = set()
        self.transitions: list[tuple[str, int]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        holder = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if holder in self.stuck:
            await asyncio.get_running_loop().create_future()
        if holder in self.away:
            return self._refuse(503, "ServiceUnavailable")
        if request.method == "GET":
            return web.json_response(self.lease) if self.lease else self._refuse(404, "NotFound")
        body = json.loads(await request.read())
        if request.method == "POST":
            if self.lease is not None:
                return self._refuse(409, "AlreadyExists")
        elif self.lease is None or body["metadata"].get("resourceVersion") != str(self.revision):
            return self._refuse(409, "Conflict")
        self.revision += 1
        body["metadata"]["resourceVersion"] = str(self.revision)
        before = self.holder
        self.lease = body
        if self.holder != before and self.holder:
            self.transitions.append((self.holder, body["spec"]["leaseTransitions"]))
        return web.json_response(body)

    @property
    def holder(self) -> str:
        return str(((self.lease or {}).get("spec") or {}).get("holderIdentity") or "")

    @staticmethod
    def _refuse(code: int, reason: str) -> web.Response:
        return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": reason}, status=code)


class Candidate:
    def __init__(self, election: Election, lease: LeaseServer) -> None:
        self.election = election
        self.name = election._options.identity
        self.lease = lease
        self._asking = 0
        attempt = election._attempt

        async def counted() -> bool:
            self._asking += 1
            try:
                return await attempt()
            finally:
                self._asking -= 1

        election._attempt = counted  # type: ignore[method-assign]
        self.task = asyncio.create_task(election.run())

    @property
    def at_rest(self) -> bool:
        """Whether it waits for time to pass, not for an answer that will come."""
        return self._asking == 0 or self.name in self.lease.stuck

    @property
    def leads(self) -> bool:
        return self.election.fence.open

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def candidates(*names: str, **options: Any) -> AsyncIterator[tuple[LeaseServer, FakeClock, list[Candidate]]]:
    """Candidates that stand for election, each with its own client, all by one clock."""
    lease = LeaseServer()
    clock = FakeClock(instant=0.4)
    async with scripted(lease.handle) as server:
        stack: list[Any] = []
        found: list[Candidate] = []
        try:
            for name in names:
                client = _client(server, name, clock)
                stack.append(client)
                asked = LeaseOptions("kube-system", "scheduler", name, **options)
                found.append(Candidate(Election(await client.__aenter__(), asked), lease))
            yield lease, clock, found
        finally:
            for candidate in found:
                await candidate.stop()
            for client in reversed(stack):
                await client.__aexit__(None, None, None)


def _client(server: Scripted, name: str, clock: FakeClock) -> Any:
    return client_of(server, clock=clock, identity=Identity(token=name), limits=Limits(attempts=1))


async def tick(clock: FakeClock, seconds: float, *everyone: Candidate) -> None:
    """Let time pass in small steps, so that every candidate does what is due."""
    passed = 0.0
    while passed < seconds:
        clock.advance(0.5)
        passed += 0.5
        for _ in range(5):  # candidates that are due send their requests
            await asyncio.sleep(0)
        await until(lambda: all(candidate.at_rest for candidate in everyone))


def test_one_leads_and_the_next_takes_over_when_it_stops() -> None:
    """A lease that is given back is free at once."""

    async def run() -> None:
        async with candidates("a", "b") as (lease, clock, (first, second)):
            await until(lambda: first.leads or second.leads)
            leader, other = (first, second) if first.leads else (second, first)
            await tick(clock, 30.0, leader, other)
            assert leader.leads
            assert not other.leads
            assert lease.holder == leader.name
            await leader.stop()
            assert not leader.leads
            await tick(clock, 5.0, other)
            assert other.leads
            assert [term for _, term in lease.transitions] == [0, 1]
            assert other.election.fence.term == 1

    asyncio.run(run())


def test_leader_that_cannot_renew_steps_down_before_another_takes_over() -> None:
    """renew deadline 10 s < lease duration 15 s: in between there is no writer."""

    async def run() -> None:
        async with candidates("a", "b") as (lease, clock, both):
            await until(lambda: any(candidate.leads for candidate in both))
            await tick(clock, 4.0, *both)
            leader = next(candidate for candidate in both if candidate.leads)
            other = next(candidate for candidate in both if candidate is not leader)
            lease.away.add(leader.name)
            at, down, up = 0.0, None, None
            while up is None and at < 60.0:
                await tick(clock, 0.5, *both)
                at += 0.5
                assert not (leader.leads and other.leads), "two leaders"
                if down is None and not leader.leads:
                    down = at
                if other.leads:
                    up = at
            assert down is not None
            assert up is not None
            assert down <= 10.5
            assert up >= 12.0

    asyncio.run(run())


def test_answer_that_does_not_come_does_not_keep_the_fence_open() -> None:
    async def run() -> None:
        async with candidates("a") as (lease, clock, (only,)):
            await until(lambda: only.leads)
            lease.stuck.add("a")
            await tick(clock, 10.5, only)
            assert not only.leads
            with pytest.raises(LeadershipLostError):
                only.election.fence.check()
            await tick(clock, 15.0, only)
            await until(only.task.done)
            assert only.task.exception() is None

    asyncio.run(run())


def test_process_that_stood_still_finds_the_fence_shut() -> None:
    """Nothing ran meanwhile, no renewal failed: the clock alone decides."""

    async def run() -> None:
        async with candidates("a") as (_, clock, (only,)):
            await until(lambda: only.leads)
            clock.time += 11.0
            assert not only.leads

    asyncio.run(run())


@pytest.mark.parametrize("answer", ["not asked for", "too late"])
def test_leader_that_found_the_fence_shut_does_not_lead_on(answer: str) -> None:
    """Writes were refused meanwhile: a lease that could be renewed again does not bring them back, a restart does."""

    async def run() -> None:
        async with candidates("a") as (lease, clock, (only,)):
            await until(lambda: only.leads)
            renew = only.election._take_or_renew
            opened: list[float] = []
            only.election.fence.opened = lambda until, term: opened.append(until)  # type: ignore[method-assign]

            async def late() -> int | None:
                term = await renew()
                clock.time += 11.0
                return term

            if answer == "too late":
                only.election._take_or_renew = late  # type: ignore[method-assign]
            else:
                clock.time += 11.0
            await tick(clock, 3.0, only)
            await until(only.task.done)
            assert only.task.exception() is None
            assert opened == []
            assert lease.holder == ("" if answer == "too late" else "a")

    asyncio.run(run())


def test_lease_of_another_holder_is_not_taken_before_its_time() -> None:
    """Counted from when it was last seen to change; what its renewTime says does not matter (clocks differ)."""

    async def run() -> None:
        lease = LeaseServer()
        clock = FakeClock(instant=0.4)
        spec = {
            "holderIdentity": "old",
            "leaseDurationSeconds": 20,
            "leaseTransitions": 4,
            "renewTime": "1999-01-01T00:00:00.000000Z",
        }
        lease.lease = {"metadata": {"name": "scheduler", "resourceVersion": "0"}, "spec": spec}
        async with scripted(lease.handle) as server, client_of(server, clock=clock) as client:
            candidate = Candidate(Election(client, LeaseOptions("kube-system", "scheduler", "new")), lease)
            await until(lambda: candidate.election.leader == "old")
            await tick(clock, 18.0, candidate)
            assert not candidate.leads
            assert candidate.election.leader == "old"
            await tick(clock, 6.0, candidate)
            assert candidate.leads
            assert lease.transitions == [("new", 5)]
            await candidate.stop()

    asyncio.run(run())


def test_time_without_renewal_counts_from_before_one_stands_for_election() -> None:
    """scheduling.md 6.6: one that reads the cluster looks on; it takes the lease as soon as it has read it."""

    async def run() -> None:
        async with candidates("a") as (lease, clock, (leader,)):
            await until(lambda: leader.leads)
            other = Election(leader.election._client, LeaseOptions("kube-system", "scheduler", "b"))
            reading = asyncio.create_task(other.watch())
            await until(lambda: other.leader == "a")
            leader.election._options = replace(leader.election._options, release=False)
            await leader.stop()
            await tick(clock, 16.0)
            assert lease.transitions == [("a", 0)], "it looks, and takes nothing"
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            standing = asyncio.create_task(other.run())
            await until(lambda: other.fence.open)
            assert lease.transitions == [("a", 0), ("b", 1)]
            standing.cancel()
            await asyncio.gather(standing, return_exceptions=True)

    asyncio.run(run())


def test_looking_goes_on_when_the_server_is_away() -> None:
    """What a server or network does is reported by the one that stands for election."""

    async def run() -> None:
        async with candidates("a") as (lease, clock, (leader,)):
            await until(lambda: leader.leads)
            other = Election(leader.election._client, LeaseOptions("kube-system", "scheduler", "b"))
            lease.away = {"a"}  # they share a client
            reading = asyncio.create_task(other.watch())
            await tick(clock, 2.0)
            assert not reading.done()
            assert other.leader == ""
            lease.away = set()
            async with asyncio.timeout(DEADLINE):
                while other.leader != "a":
                    await tick(clock, 0.5)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    asyncio.run(run())


def test_leader_without_its_lease_stops_at_once() -> None:
    async def run() -> None:
        async with candidates("a") as (lease, clock, (only,)):
            await until(lambda: only.leads)
            reported: list[bool] = []
            only.election.fence.on_shut(lambda: reported.append(only.leads))
            assert lease.lease is not None
            lease.revision += 1
            lease.lease["metadata"]["resourceVersion"] = str(lease.revision)
            lease.lease["spec"] |= {"holderIdentity": "thief", "leaseTransitions": 9}
            await tick(clock, 3.0, only)
            assert not only.leads
            assert reported == [False]
            await until(only.task.done)
            assert lease.holder == "thief", "what is not ours is not given back"

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(8))
def test_never_two_leaders_whatever_is_away(seed: int) -> None:
    async def run() -> None:
        chance = random.Random(seed)
        names = ("a", "b", "c")
        async with candidates(*names) as (lease, clock, everyone):
            terms: list[int] = []
            for _ in range(400):
                for name in names:
                    if chance.random() < 0.02:
                        (lease.away.discard if name in lease.away else lease.away.add)(name)
                await tick(clock, 0.5, *everyone)
                for candidate in everyone:
                    if candidate.task.done():  # deposed: stands again
                        candidate.task = asyncio.create_task(candidate.election.run())
                leaders = [candidate for candidate in everyone if candidate.leads]
                assert len(leaders) <= 1
                terms += [leader.election.fence.term for leader in leaders]
            assert terms == sorted(terms), "terms only grow"
            assert len(lease.transitions) > 1, "the lease changed hands"

    asyncio.run(run())


def test_times_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="duration > renew deadline"):
        LeaseOptions("n", "l", "me", duration=10.0, renew_deadline=10.0)
    with pytest.raises(ValueError, match="identity"):
        LeaseOptions("n", "l", "")


def test_fence_is_shut_until_opened_and_notifies_once() -> None:
    clock = FakeClock()
    fence = Fence(clock)
    reported: list[int] = []
    fence.on_shut(lambda: reported.append(1))
    assert (fence.open, fence.term) == (False, 0)
    fence.shut()
    fence.opened(clock.monotonic() + 5, 3)
    fence.check()
    assert (fence.open, fence.term) == (True, 3)
    fence.shut()
    fence.shut()
    assert reported == [1]


@pytest.mark.parametrize(
    ("duration", "renew", "retry", "well"),
    [
        (15.0, 10.0, 2.0, True),
        (15.0, 15.0, 2.0, False),
        (15.0, 14.0, 11.0, True),
        (15.0, 12.0, 10.0, False),
        (15.0, 10.0, 0.0, False),
    ],
)
def test_times_of_a_lease_leave_room_for_another_attempt(
    duration: float, renew: float, retry: float, well: bool
) -> None:
    """As kube-scheduler checks them; the lease is given back at the end unless the options say otherwise."""

    def made() -> LeaseOptions:
        return LeaseOptions("n", "l", "me", duration=duration, renew_deadline=renew, retry=retry)

    if well:
        assert made().release
    else:
        with pytest.raises(ValueError, match="duration > renew deadline"):
            made()


MINE = {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 4}


@pytest.mark.parametrize(
    ("spec", "term", "acquired_now"),
    [
        (None, 1, True),
        ({}, 1, True),
        ({"holderIdentity": None}, 1, True),
        ({"holderIdentity": ""}, 1, True),
        ({"holderIdentity": "", "leaseTransitions": 4}, 5, True),  # given back: taken at once, the next term
        ({"leaseTransitions": 4, "leaseDurationSeconds": 3600}, 5, True),
        ({"holderIdentity": "me"}, 0, True),
        (MINE, 4, True),  # of an earlier life: the same term goes on
        ({**MINE, "acquireTime": "2020-01-01T00:00:00.000000Z"}, 4, False),
    ],
)
def test_lease_is_taken_whatever_its_spec_leaves_out(spec: Json | None, term: int, acquired_now: bool) -> None:
    async def run() -> None:
        lease = LeaseServer()
        lease.lease = {"metadata": {"name": "scheduler", "resourceVersion": "0", "labels": {"a": "b"}}}
        if spec is not None:
            lease.lease["spec"] = spec
        clock = FakeClock(instant=0.4)
        async with scripted(lease.handle) as server, client_of(server, clock=clock) as client:
            election = Election(client, LeaseOptions("kube-system", "scheduler", "me", release=False))
            task = asyncio.create_task(election.run())
            await asyncio.wait_for(election.wait_leading(), DEADLINE)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert election.leader == "me"
        written = lease.lease
        assert election.fence.term == written["spec"]["leaseTransitions"] == term
        assert written["metadata"]["labels"] == {"a": "b"}
        assert (written["spec"]["holderIdentity"], written["spec"]["leaseDurationSeconds"]) == ("me", 15)
        now = clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        assert written["spec"]["renewTime"] == now
        assert written["spec"]["acquireTime"] == (now if acquired_now else "2020-01-01T00:00:00.000000Z")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("spec", "given_back"),
    [
        (None, None),  # without a spec it has no holder
        ({}, None),
        ({"holderIdentity": ""}, None),
        ({"holderIdentity": "other", "leaseTransitions": 7}, None),
        (MINE, 4),
        ({"holderIdentity": "me"}, 0),
    ],
)
def test_lease_given_back_is_its_own_alone(spec: Json | None, given_back: int | None) -> None:
    """And with a duration of one second, as client-go does, so that others need not wait."""

    async def run() -> None:
        lease = LeaseServer()
        clock = FakeClock()
        async with scripted(lease.handle) as server, client_of(server, clock=clock) as client:
            election = Election(client, LeaseOptions("kube-system", "scheduler", "me"))
            task = asyncio.create_task(election.run())
            await asyncio.wait_for(election.wait_leading(), DEADLINE)
            assert lease.lease is not None
            lease.lease.pop("spec")
            if spec is not None:
                lease.lease["spec"] = spec
            before = json.dumps(lease.lease)
            task.cancel()
            [ended] = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(ended, asyncio.CancelledError), "giving back raises no error"
        if given_back is None:
            assert json.dumps(lease.lease) == before
        else:
            found = lease.lease["spec"]
            assert (found["holderIdentity"], found["leaseDurationSeconds"]) == ("", 1)
            assert found["leaseTransitions"] == given_back

    asyncio.run(run())


@pytest.mark.parametrize(
    ("duration", "waits"), [(None, 15.0), (0, 15.0), (1, 1.0), (20, 20.0)], ids=["none", "zero", "short", "long"]
)
def test_how_long_a_lease_of_others_is_waited_for(duration: int | None, waits: float) -> None:
    """As long as the lease says, and as long as one's own would last where it does not."""

    async def run() -> None:
        lease = LeaseServer()
        spec: Json = {"holderIdentity": "other", "leaseDurationSeconds": duration}
        lease.lease = {"metadata": {"name": "scheduler", "resourceVersion": "0"}, "spec": spec}
        clock = FakeClock(instant=3.0)
        began = clock.monotonic()
        async with scripted(lease.handle) as server, client_of(server, clock=clock) as client:
            election = Election(client, LeaseOptions("kube-system", "scheduler", "me", release=False))
            task = asyncio.create_task(election.run())
            await asyncio.wait_for(election.wait_leading(), DEADLINE)
            taken = clock.monotonic() - began
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # The lease is looked at each 2 s, and up to a fifth later; taking over is itself followed by one such pause.
        assert waits <= taken <= waits + 2 * 2.4

    asyncio.run(run())


def test_times_of_a_lease_are_kube_schedulers() -> None:
    """leaseDuration 15 s, renewDeadline 10 s, retryPeriod 2 s; given back at the end."""
    found = LeaseOptions("n", "l", "me")
    assert (found.duration, found.renew_deadline, found.retry, found.release) == (15.0, 10.0, 2.0, True)


@pytest.mark.parametrize(("later", "is_open"), [(0.0, True), (4.9, True), (5.0, False), (5.1, False)])
def test_fence_is_open_until_its_time_and_no_longer(later: float, is_open: bool) -> None:
    clock = FakeClock()
    fence = Fence(clock)
    fence.opened(clock.monotonic() + 5.0, 1)
    clock.advance(later)
    assert fence.open is is_open
    with contextlib.nullcontext() if is_open else pytest.raises(LeadershipLostError, match="nothing is written"):
        fence.check()


@dataclass
class Standing:
    """One candidate, and what it was notified of."""

    election: Election
    lease: LeaseServer
    clock: FakeClock
    trouble: list[str] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    task: asyncio.Task[None] | None = None

    @property
    def pauses(self) -> list[float]:
        """Between attempts; how long an attempt may take is slept as well, beside it."""
        return [seconds for seconds in self.clock.slept if seconds < 10.0]


@asynccontextmanager
async def standing(lease: LeaseServer, chance: Any = None, **options: float) -> AsyncIterator[Standing]:
    clock = FakeClock()
    async with scripted(lease.handle) as server, _client(server, "me", clock) as client:
        client.chance = chance or client.chance
        trouble: list[str] = []
        calls: Counter[str] = Counter()
        election = Election(
            client,
            LeaseOptions("kube-system", "scheduler", "me", **options),  # type: ignore[arg-type]
            on_leading=lambda: calls.update(["leading"]),
            on_trouble=trouble.append,
            on_answer=lambda: calls.update(["answer"]),
        )
        found = Standing(election, lease, clock, trouble, calls)
        found.task = asyncio.create_task(election.run())
        try:
            yield found
        finally:
            found.task.cancel()
            lease.stuck.clear()
            await asyncio.gather(found.task, return_exceptions=True)
