"""CronJobs start Jobs by the clock (upstream: pkg/controller/cronjob)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from kube_standin.errors import StatusError
from tests.controllers.world import Json, World, ended

CONTROLLERS = ("cronjob", "job", "garbage-collector")
START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)


@pytest.fixture
def world() -> World:
    made = World(CONTROLLERS, nodes=1)
    made.set_clock.moment = START
    return made


def cron_job(schedule: str = "* * * * *", *, pod: Json | None = None, **spec: object) -> Json:
    template = {"metadata": {"labels": {"l": "v"}}, "spec": {"template": pod or ended(5)}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


def jobs(world: World) -> list[str]:
    """The minute of 2026 for which each Job was started."""
    first = int(START.timestamp()) // 60
    return sorted(str(int(one["metadata"]["name"].rpartition("-")[2]) - first) for one in world.all("batch/v1", "Job"))


def status(world: World) -> Json:
    found: Json = world.get("batch/v1", "CronJob", "c").get("status") or {}
    return found


def reasons(world: World) -> set[str]:
    return {one["reason"] for one in world.all("v1", "Event") if one["involvedObject"]["kind"] == "CronJob"}


def run(world: World, seconds: float) -> World:
    """Let time pass in steps, with pods bound as they come."""
    for _ in range(int(seconds) // 5):
        world.schedule()
        world.forward(4)
    return world


def test_job_starts_each_minute_and_is_followed_to_its_end(world: World) -> None:
    world.create(cron_job())
    world.forward(35)
    job = world.get("batch/v1", "Job", f"c-{int(START.timestamp()) // 60 + 1}")
    assert job["metadata"]["labels"] == {"l": "v"}
    assert job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-01-01T00:01:00Z"
    assert job["metadata"]["ownerReferences"][0]["name"] == "c"
    assert [one["uid"] for one in status(world)["active"]] == [job["metadata"]["uid"]]
    assert status(world)["lastScheduleTime"] == "2026-01-01T00:01:00Z"
    run(world, 20)
    assert "active" not in status(world)
    assert status(world)["lastSuccessfulTime"] > "2026-01-01T00:01:00Z"
    run(world, 60)
    assert jobs(world) == ["1", "2"]
    assert {"SuccessfulCreate", "SawCompletedJob"} <= reasons(world)


@pytest.mark.parametrize(
    ("policy", "expected", "event"),
    [("Allow", ["1", "2", "3"], ""), ("Forbid", ["1"], "JobAlreadyActive"), ("Replace", ["3"], "SuccessfulDelete")],
)
def test_concurrency_policies(world: World, policy: str, expected: list[str], event: str) -> None:
    world.create(cron_job(pod=ended(100_000), concurrencyPolicy=policy))
    run(world, 180)
    assert jobs(world)[:3] == expected
    assert not event or event in reasons(world)


def test_history_is_limited(world: World) -> None:
    world.create(cron_job(successfulJobsHistoryLimit=1))
    run(world, 240)
    assert len(jobs(world)) <= 2
    assert "1" not in jobs(world)


def test_failed_jobs_have_a_limit_of_their_own(world: World) -> None:
    created = cron_job(pod=ended(1, code=1), failedJobsHistoryLimit=0)
    created["spec"]["jobTemplate"]["spec"]["backoffLimit"] = 0
    world.create(created)
    run(world, 130)
    assert "1" not in jobs(world)


def test_suspended_cron_job_starts_nothing_and_goes_on_with_the_latest_time(world: World) -> None:
    world.create(cron_job(suspend=True))
    world.forward(600)
    assert jobs(world) == []
    world.patch("batch/v1", "CronJob", "c", {"spec": {"suspend": False}})
    world.settle()
    assert jobs(world) == ["10"]


def test_latest_scheduled_time_alone_counts_after_an_outage(world: World) -> None:
    world.create(cron_job())
    world.set_clock.moment = START + timedelta(hours=5)
    after = world.restarted(CONTROLLERS)
    assert jobs(after) == ["300"]
    assert "TooManyMissedTimes" in reasons(after)


def test_time_before_the_starting_deadline_is_missed(world: World) -> None:
    world.create(cron_job("0 * * * *", startingDeadlineSeconds=60))
    world.set_clock.moment = START + timedelta(hours=1, minutes=30)
    after = world.restarted(CONTROLLERS)
    assert jobs(after) == []
    after.forward(1800)
    assert jobs(after) == ["120"]


def test_time_zone(world: World) -> None:
    world.create(cron_job("10 9 * * *", timeZone="Asia/Tokyo"))
    world.forward(600)
    assert status(world)["lastScheduleTime"] == "2026-01-01T00:10:00Z"
    (job,) = world.all("batch/v1", "Job")
    annotations = job["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-01-01T09:10:00+09:00"


def test_killed_controller_starts_no_job_twice(world: World) -> None:
    """The status was lost; the Job of that minute has its name."""
    world.create(cron_job(pod=ended(100_000)))
    world.forward(35)
    world.set_status("batch/v1", "CronJob", "c", {"active": None, "lastScheduleTime": None})
    after = world.restarted(CONTROLLERS)
    assert jobs(after) == ["1"]
    assert [one["name"] for one in status(after)["active"]] == [f"c-{int(START.timestamp()) // 60 + 1}"]


def test_foreign_job_of_the_same_name_is_left_alone(world: World) -> None:
    name = f"c-{int(START.timestamp()) // 60 + 1}"
    world.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": ended(9)}})
    world.create(cron_job())
    world.forward(35)
    assert "active" not in status(world)


def test_job_that_goes_missing_leaves_the_status(world: World) -> None:
    world.create(cron_job("0 * * * *", pod=ended(100_000)))
    world.forward(3600)
    world.delete("batch/v1", "Job", f"c-{int(START.timestamp()) // 60 + 60}")
    world.settle()
    assert "active" not in status(world)
    assert "MissingJob" in reasons(world)


def test_deleting_a_cron_job_takes_its_jobs(world: World) -> None:
    world.create(cron_job(pod=ended(100_000)))
    world.forward(35)
    world.delete("batch/v1", "CronJob", "c")
    world.forward(60)
    assert jobs(world) == []


def test_timers_do_not_pile_up(world: World) -> None:
    world.create(cron_job("0 0 1 1 *"))
    world.settle()
    waiting = len(world.controllers.context.timers)
    for number in range(20):
        world.patch("batch/v1", "CronJob", "c", {"metadata": {"labels": {"n": str(number)}}})
        world.settle()
    assert len(world.controllers.context.timers) == waiting


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(StatusError) as caught:
        call()
    return caught.value.message


def test_schedule_that_cannot_be_read_is_refused(world: World) -> None:
    message = refusal(lambda: world.create(cron_job("61 * * * *")))
    assert 'spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61' in message
