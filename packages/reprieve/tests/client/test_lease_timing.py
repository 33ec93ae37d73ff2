"""How long a lease lasts, how often it is looked at, and which attempts are reported."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.clock import until
from tests.client.scripted import Json
from tests.client.test_leading import LeaseServer, standing

OF_ANOTHER: Json = {"holderIdentity": "other", "leaseDurationSeconds": 15}


def lease_with(spec: Json | None) -> LeaseServer:
    lease = LeaseServer()
    if spec is not None:
        lease.lease = {"metadata": {"name": "scheduler", "resourceVersion": "0"}, "spec": spec}
    return lease


@pytest.mark.parametrize(("duration", "seconds"), [(0.5, 1), (1.4, 1), (1.6, 2), (15.0, 15), (15.4, 15)], ids=str)
def test_lease_lasts_whole_seconds_and_one_at_least(duration: float, seconds: int) -> None:
    """leaseDurationSeconds of coordination.k8s.io/v1 is a positive integer."""

    async def run() -> None:
        lease = lease_with(None)
        async with standing(
            lease, duration=duration, renew_deadline=duration / 2, retry=duration / 8, release=False
        ) as candidate:
            await until(lambda: candidate.election.fence.open)
        assert lease.lease is not None
        assert lease.lease["spec"]["leaseDurationSeconds"] == seconds

    asyncio.run(run())


@pytest.mark.parametrize(
    ("spec", "attempts"),
    [
        (None, [{"leading": 1, "answer": 1}, {"leading": 1, "answer": 2}]),
        (OF_ANOTHER, [{"answer": 1}, {"answer": 2}]),
    ],
    ids=["free", "of another"],
)
def test_every_answer_is_notified_and_leadership_once(spec: Json | None, attempts: list[dict[str, int]]) -> None:
    async def run() -> None:
        async with standing(lease_with(spec)) as candidate:
            for number, calls in enumerate(attempts, 1):
                await until(lambda: len(candidate.pauses) == number)  # noqa: B023 - used at once
                assert dict(candidate.calls) == calls
                candidate.clock.advance(2.5)
            assert candidate.trouble == []

    asyncio.run(run())


@pytest.mark.parametrize(("spec", "pause"), [(None, 2.0), (OF_ANOTHER, 0.6), ({}, 2.0)], ids=["leads", "waits", "free"])
def test_candidate_looks_four_times_as_often_as_the_leader_renews(spec: Json | None, pause: float) -> None:
    """scheduling.md 6.6: with the jitter of client-go, so that not all candidates ask at once."""

    class Highest:
        def random(self) -> float:
            return 1.0

    async def run() -> None:
        async with standing(lease_with(spec), Highest()) as candidate:
            for number in (1, 2):
                await until(lambda: len(candidate.pauses) == number)  # noqa: B023 - used at once
                candidate.clock.advance(pause)
            assert candidate.pauses[:2] == [pause, pause]

    asyncio.run(run())


@pytest.mark.parametrize(("duration", "taken_after"), [(15, 15.0), (16, 16.0), (17, 17.0)])
def test_lease_of_others_is_taken_when_its_time_is_over_and_not_before(duration: int, taken_after: float) -> None:
    """scheduling.md 6.6: at the very end of its duration it is free, and is asked for just then."""

    class Lowest:
        def random(self) -> float:
            return 0.0

    async def run() -> None:
        lease = lease_with({**OF_ANOTHER, "leaseDurationSeconds": duration})
        async with standing(lease, Lowest()) as candidate:
            began = candidate.clock.monotonic()
            while not candidate.election.fence.open:
                attempts = len(candidate.pauses)
                await until(lambda: len(candidate.pauses) > attempts or candidate.election.fence.open)  # noqa: B023
                if not candidate.election.fence.open:
                    candidate.clock.advance(candidate.pauses[-1])
            assert candidate.clock.monotonic() - began == taken_after

    asyncio.run(run())


@pytest.mark.parametrize(
    ("failure", "leads", "reported"),
    [
        ("conflict", False, None),  # another candidate was quicker: that is what an election is about
        ("conflict", True, "Conflict (409 Conflict)"),
        ("away", False, "ServiceUnavailable (503 ServiceUnavailable)"),
        ("away", True, "ServiceUnavailable (503 ServiceUnavailable)"),
        ("stuck", False, "no answer within 10 s"),
        ("stuck", True, "no answer within 10 s"),
    ],
)
def test_which_attempts_that_fail_are_reported(failure: str, leads: bool, reported: str | None) -> None:
    async def run() -> None:
        lease = lease_with(None if leads else {})

        def fail() -> None:
            if failure == "conflict":
                lease.revision += 1  # changed by another client, as the next write will learn
            else:
                (lease.away if failure == "away" else lease.stuck).add("me")

        if not leads:
            fail()
        async with standing(lease) as candidate:
            if leads:
                await until(lambda: len(candidate.pauses) == 1)
                fail()
                candidate.clock.advance(2.0)
            if failure == "stuck":
                await until(lambda: candidate.clock.slept.count(10.0) == 1 + leads)
                candidate.clock.advance(10.0)
                await until(lambda: candidate.trouble)
            else:
                await until(lambda: len(candidate.pauses) == 1 + leads)
            assert dict(candidate.calls) == ({"leading": 1, "answer": 1} if leads else {})
            if reported is None:
                assert candidate.trouble == []
            else:
                [text] = candidate.trouble
                assert text.startswith("lease kube-system/scheduler: ")
                assert text.endswith(reported)

    asyncio.run(run())
