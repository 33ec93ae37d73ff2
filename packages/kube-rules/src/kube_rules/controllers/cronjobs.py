"""The Jobs that a CronJob starts and deletes, and its status.

Source: kube-controller-manager's cronjob controller (`syncCronJob`, `mostRecentScheduleTime`, `cleanupFinishedJobs`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from kube_rules.json import Json
from kube_rules.schedules import Schedule

SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
"""Annotation of a Job: the scheduled time for which its CronJob started it."""
_MANY: Final = 100
"""Number of missed times above which the controller emits a warning."""
_LONGEST_DEADLINE: Final = 10**9
"""Longest effective deadline in seconds: with a longer one no time is too old."""


@dataclass
class CronJobActions:
    """The actions for a CronJob at one moment.

    `deletes`: Jobs to delete. `creates`: a Job to create, or None; `status` already has its `lastScheduleTime`, and the
    caller adds its reference to `status.active`. `events`: (type, reason, message). `next_time`: when to decide again,
    None if only a change requires it.
    """

    status: Json
    deletes: list[Json] = field(default_factory=list)
    creates: Json | None = None
    events: list[tuple[str, str, str]] = field(default_factory=list)
    next_time: datetime | None = None


def job_of_cron_job(name: str, template: Json, at: datetime) -> Json:
    """Return the metadata and spec of the Job that a CronJob starts for the time `at`."""
    meta = template.get("metadata") or {}
    labels = {"labels": meta["labels"]} if meta.get("labels") else {}
    annotations = {**(meta.get("annotations") or {}), SCHEDULED_AT: at.isoformat().replace("+00:00", "Z")}
    minutes = int(at.timestamp()) // 60
    metadata = {"name": f"{name}-{minutes}", **labels, "annotations": annotations}
    return {"metadata": metadata, "spec": template.get("spec")}


def cron_job_actions(cron_job: Json, jobs: Sequence[Json], now: datetime) -> CronJobActions:
    """Decide the actions for a CronJob; `jobs` are the Jobs that it controls, `now` has a time zone."""
    actions = CronJobActions(copy.deepcopy(cron_job.get("status") or {}))
    _count_active(actions, jobs)
    _limit_history(actions, cron_job["spec"], jobs)
    if not cron_job["metadata"].get("deletionTimestamp") and not cron_job["spec"].get("suspend"):
        _start(actions, cron_job, jobs, now)
    if not actions.status.get("active"):
        actions.status.pop("active", None)
    return actions


def finished_as(job: Json) -> str:
    """Return `Complete` or `Failed` for a finished Job, otherwise the empty text."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return ""


def _count_active(actions: CronJobActions, jobs: Sequence[Json]) -> None:
    """Remove finished and missing Jobs from `status.active`."""
    status, by_uid = actions.status, {job["metadata"].get("uid"): job for job in jobs}
    running = []
    for reference in status.get("active") or ():
        job = by_uid.get(reference.get("uid"))
        if job is None:
            actions.events.append(("Normal", "MissingJob", f"Active job went missing: {reference.get('name')}"))
        elif outcome := finished_as(job):
            message = f"Saw completed job: {reference.get('name')}, condition: {outcome}"
            actions.events.append(("Normal", "SawCompletedJob", message))
        else:
            running.append(reference)
    status["active"] = running
    running_uids = {reference.get("uid") for reference in running}
    for uid, job in by_uid.items():
        if uid not in running_uids and not finished_as(job):
            message = f"Saw a job that the controller did not create or forgot: {job['metadata']['name']}"
            actions.events.append(("Warning", "UnexpectedJob", message))
    ends = [
        job["status"]["completionTime"]
        for job in jobs
        if finished_as(job) == "Complete" and (job.get("status") or {}).get("completionTime")
    ]
    if ends:
        status["lastSuccessfulTime"] = max(*ends, status.get("lastSuccessfulTime") or "")


def _limit_history(actions: CronJobActions, spec: Json, jobs: Sequence[Json]) -> None:
    """Delete the oldest finished Jobs beyond the two limits."""
    for outcome, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        if spec.get(limit) is None:
            continue
        ended = [job for job in jobs if finished_as(job) == outcome and not job["metadata"].get("deletionTimestamp")]
        # A Job without a start time counts as the latest.
        ended.sort(key=lambda job: ((job.get("status") or {}).get("startTime") or "~", job["metadata"]["name"]))
        actions.deletes += ended[: max(0, len(ended) - spec[limit])]


def _start(actions: CronJobActions, cron_job: Json, jobs: Sequence[Json], now: datetime) -> None:
    """Start the Job of the latest due time, unless a rule forbids it."""
    spec, status, metadata = cron_job["spec"], actions.status, cron_job["metadata"]
    try:
        schedule = Schedule.parse(spec["schedule"])
        zone: tzinfo = ZoneInfo(spec["timeZone"]) if spec.get("timeZone") else UTC
    except (ValueError, OSError) as error:  # of an object stored before validation
        message = f'unparseable schedule: "{spec["schedule"]}" : {error}'
        actions.events.append(("Warning", "UnparseableSchedule", message))
        return
    earliest = datetime.fromisoformat(status.get("lastScheduleTime") or metadata["creationTimestamp"]).astimezone(UTC)
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None:
        earliest = max(earliest, now - timedelta(seconds=min(deadline, _LONGEST_DEADLINE)))
    due, missed = _latest(schedule, zone, earliest, now)
    actions.next_time = schedule.next(max(now, due or now), zone)
    if missed > _MANY and deadline is None:
        message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        actions.events.append(("Warning", "TooManyMissedTimes", f"{message}: {missed}"))
    if due is None:
        return
    job = job_of_cron_job(metadata["name"], spec.get("jobTemplate") or {}, due.astimezone(zone))
    active = status["active"]
    if any(reference.get("name") == job["metadata"]["name"] for reference in active):
        return
    if active and spec.get("concurrencyPolicy") == "Forbid":
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        actions.events.append(("Normal", "JobAlreadyActive", message))
        return
    if spec.get("concurrencyPolicy") == "Replace":
        replaced = {reference.get("uid") for reference in active}
        actions.deletes += [item for item in jobs if item["metadata"].get("uid") in replaced]
        status["active"] = []
    actions.creates = job
    status["lastScheduleTime"] = due.isoformat().replace("+00:00", "Z")


def _latest(schedule: Schedule, zone: tzinfo, earliest: datetime, now: datetime) -> tuple[datetime | None, int]:
    """Return the latest due time after `earliest`, and the approximate number of due times."""
    latest = schedule.next(earliest, zone)
    if latest is None or latest > now:
        return None, 0
    second = schedule.next(latest, zone)
    if second is None or second > now:
        return latest, 1
    count = int((now - latest) / (second - latest)) + 1
    low, high = latest, now
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        after = schedule.next(middle, zone)
        if after is not None and after <= now:
            latest = low = after
        else:
            high = middle
    return latest, count
