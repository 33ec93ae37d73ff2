"""A server with a clock that is set: timers of controllers and kubelets fire in order, each at its own moment.

The moments are those of kube-controller-manager (CronJob schedules, ttlSecondsAfterFinished, node-monitor-grace-period
50 s) and of the kubelet (activeDeadlineSeconds).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kube_standin import ApiServer
from tests.calls import MAPS, Json, call, config_map, items, names

START = datetime(2030, 1, 1, 0, 5, tzinfo=UTC)
JOBS, PODS = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/pods"


def pod(**spec: Any) -> Json:
    return {"nodeName": "node-1", "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **spec}


def job(name: str, seconds: int | None = None, **spec: Any) -> Json:
    metadata = {"annotations": {} if seconds is None else {"reprieve.dev/run-seconds": str(seconds)}}
    template = {"metadata": metadata, "spec": pod()}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


def cron_job(schedule: str, **spec: Any) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": job("", 60, **spec)["spec"]}},
    }


def conditions(obj: Json) -> dict[str, str]:
    found = (obj.get("status") or {}).get("conditions") or ()
    return {one["type"]: one.get("reason") or one["status"] for one in found}


def test_time_stands_still_until_it_is_advanced() -> None:
    with ApiServer(clock=START) as api:
        call(api, MAPS, config_map("a"))
        api.advance(hours=1, minutes=30)
        call(api, MAPS, config_map("b"))
        stamps = {one["metadata"]["name"]: one["metadata"]["creationTimestamp"] for one in items(api, MAPS)}
        assert (stamps["a"], stamps["b"]) == ("2030-01-01T00:05:00Z", "2030-01-01T01:35:00Z")
        assert api.now == START + timedelta(hours=1, minutes=30)
        assert api.advance(timedelta(seconds=1)) == api.now


def test_cron_job_runs_and_its_jobs_are_removed_after_their_time() -> None:
    with ApiServer(nodes=1, clock=START, manifests=[cron_job("0 * * * *", ttlSecondsAfterFinished=600)]) as api:
        api.advance(minutes=54)
        assert not names(api, JOBS)
        api.advance(minutes=2, seconds=5)
        (made,) = items(api, JOBS)
        assert made["metadata"]["creationTimestamp"] == "2030-01-01T01:00:00Z"
        assert made["status"]["startTime"] == "2030-01-01T01:00:00Z"
        assert made["status"]["completionTime"] == "2030-01-01T01:01:00Z", "a minute after the pod started"
        assert "Complete" in conditions(made)
        api.advance(minutes=8)
        assert names(api, JOBS)
        api.advance(minutes=2)
        assert not names(api, JOBS) + names(api, PODS)
        api.advance(hours=2)
        (status,) = [one["status"] for one in items(api, "/apis/batch/v1/cronjobs")]
        assert status["lastScheduleTime"] == "2030-01-01T03:00:00Z"


def test_same_hours_bring_the_same_history() -> None:
    def history() -> list[tuple[str, str]]:
        jobs = [cron_job("*/7 * * * *", ttlSecondsAfterFinished=300), job("slow", 1000)]
        with ApiServer(nodes=2, clock=START, manifests=jobs) as api:
            api.advance(hours=1)
            api.advance(hours=1)
            events = items(api, "/api/v1/events")
        return sorted((one["firstTimestamp"], one["reason"]) for one in events)

    first = history()
    assert len(first) > 20, "Events of the last hour: older ones are deleted"
    assert first[0][0] >= "2030-01-01T01:05:00Z"
    assert history() == first


def test_job_fails_at_its_deadline() -> None:
    with ApiServer(nodes=1, clock=START, manifests=[job("late", activeDeadlineSeconds=90)]) as api:
        api.advance(seconds=89)
        assert "Failed" not in conditions(items(api, JOBS)[0])
        api.advance(seconds=2)
        assert conditions(items(api, JOBS)[0])["Failed"] == "DeadlineExceeded"


def test_node_with_an_ended_lease_is_unreachable() -> None:
    with ApiServer(nodes=2, clock=START) as api:
        api.advance(hours=1)
        assert all(conditions(one)["Ready"] == "KubeletReady" for one in items(api, "/api/v1/nodes"))
        path = "/api/v1/nodes/node-2"
        node = call(api, path)
        node["metadata"].setdefault("annotations", {})["reprieve.dev/kubelet"] = "down"
        call(api, path, node, "PUT")
        api.advance(seconds=25)
        assert conditions(call(api, path))["Ready"] == "KubeletReady"
        api.advance(seconds=35)
        assert conditions(call(api, path))["Ready"] == "NodeStatusUnknown"
        assert conditions(call(api, "/api/v1/nodes/node-1"))["Ready"] == "KubeletReady"


def test_large_fleet_is_there_at_the_start() -> None:
    with ApiServer(nodes=120, clock=START) as api:
        assert len(items(api, "/api/v1/nodes")) == 120
        assert api.now - START < timedelta(seconds=1)


def test_what_the_clock_refuses() -> None:
    with ApiServer() as api:
        assert abs(api.now - datetime.now(UTC)) < timedelta(minutes=1)
        with pytest.raises(RuntimeError, match="start it with a simulated clock"):
            api.advance(seconds=1)
        api.settle()
    with ApiServer(clock="simulated") as api:
        with pytest.raises(ValueError, match="not by -1 day"):
            api.advance(seconds=-1)
        with pytest.raises(ValueError, match="0 to 366 days"):
            api.advance(days=367)
    with pytest.raises(ValueError, match="needs a time zone"), ApiServer(clock=datetime(2030, 1, 1)):
        pass
