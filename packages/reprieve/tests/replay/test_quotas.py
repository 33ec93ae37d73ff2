"""ResourceQuotas of the cluster file: jobs that would exceed them wait outside (replay.md 3.8)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.replay.quotas import JobQuotaError, JobQuotas
from tests.replay.building import job

GIB = 1 << 30
MILLI = "example.com/gpu-milli"


def quota(hard: dict[str, Any], namespace: str | None = None) -> dict[str, Any]:
    meta = {"name": "q", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}


def admitted(quotas: JobQuotas, *jobs: Any) -> str:
    return "".join("y" if quotas.admits(one) else "n" for one in jobs)


@pytest.mark.parametrize(
    ("hard", "fits", "exceeds"),
    [
        ({"cpu": "2"}, {"cpu": 1000, "workers": 2}, {"cpu": 1001, "workers": 2}),
        ({"requests.cpu": "1500m"}, {"cpu": 1500}, {"cpu": 1501}),
        ({"memory": "2Gi"}, {"memory": GIB, "workers": 2}, {"memory": GIB + 1, "workers": 2}),
        ({"requests.memory": 1024}, {"memory": 1024}, {"memory": 1025}),
        ({"pods": "3"}, {"workers": 3}, {"workers": 4}),
        ({"count/pods": "3"}, {"workers": 3}, {"workers": 4}),
        ({"pods": 4, "count/pods": "3"}, {"workers": 3}, {"workers": 4}),
        ({"requests.nvidia.com/gpu": "2"}, {"gpu": 1, "workers": 2}, {"gpu": 1, "workers": 3}),
        ({"cpu": "2", "pods": "1"}, {"cpu": 2000}, {"cpu": 500, "workers": 2}),
        ({"pods": 0}, None, {"cpu": 1}),
    ],
)
def test_both_sides_of_a_quota(hard: dict[str, Any], fits: dict[str, Any] | None, exceeds: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"gpu": 0}
    if fits is not None:
        assert JobQuotas([quota(hard)], gpu="nvidia.com/gpu").admits(job("a", 0, 1, **plain | fits))
    assert not JobQuotas([quota(hard)], gpu="nvidia.com/gpu").admits(job("a", 0, 1, **plain | exceeds))


@pytest.mark.parametrize(
    ("per_gpu", "limit", "gpu", "fits"),
    [(1000, 1500, 1.5, True), (1000, 1500, 1.6, False), (1, 2, 2, True), (1, 2, 3, False)],
)
def test_gpus_are_counted_in_the_units_of_the_nodes(per_gpu: int, limit: int, gpu: float, fits: bool) -> None:
    quotas = JobQuotas([quota({f"requests.{MILLI}": limit})], gpu=MILLI, per_gpu=per_gpu)
    assert quotas.admits(job("a", 0, 1, gpu=gpu)) is fits


def test_quotas_of_other_resources_hold_no_job_back() -> None:
    hard = {
        "services": 0,
        "requests.storage": "0",
        "requests.example.com/other": 0,
        "limits.cpu": 0,
        "count/jobs.batch": 0,
    }
    assert JobQuotas([quota(hard)], gpu="nvidia.com/gpu").admits(job("a", 0, 1, cpu=5))
    assert JobQuotas([{"metadata": {}, "spec": None}, {"spec": {}}]).admits(job("a", 0, 1))
    assert not JobQuotas([quota({**hard, "cpu": "4m"})], gpu="nvidia.com/gpu").admits(job("a", 0, 1, cpu=5))


def test_several_quotas_of_a_namespace_hold_together_and_those_of_others_do_not() -> None:
    several = [
        quota({"pods": 3}),
        quota({"pods": 2, "cpu": 9}, "default"),
        quota({"pods": 5}),
        quota({"pods": 0}, "other"),
    ]
    jobs = [job("a", 0, 1, workers=3), job("b", 0, 1, workers=2)]
    assert [admitted(JobQuotas(several), one) for one in jobs] == ["n", "y"]
    assert (
        admitted(JobQuotas(several), job("c", 0, 1, tenant="free", workers=9), job("d", 0, 1, tenant="other")) == "yn"
    )


def test_jobs_outside_a_quota_are_admitted_in_order_when_others_end() -> None:
    """With others of its namespace behind it, those too that would fit."""
    quotas = JobQuotas([quota({"pods": 4})])
    jobs = [job(name, 0, 1, workers=count) for name, count in zip("abcdef", (2, 2, 3, 1, 1, 1), strict=True)]
    assert admitted(quotas, *jobs[:2]) == "yy"
    assert admitted(quotas, *jobs[2:5]) == "nnn"
    assert not quotas.admits(job("free", 0, 1)), "behind those of its namespace"
    assert list(quotas.ended(jobs[0], 0)) == []
    assert list(quotas.ended(jobs[1], 1)) == [2, 3]
    assert list(quotas.ended(jobs[2], 2)) == [4, 5]
    assert list(quotas.ended(job("x", 0, 1, tenant="other"), 9)) == []


def test_places_are_those_of_the_list_with_jobs_of_other_namespaces_between() -> None:
    quotas = JobQuotas([quota({"pods": 1})])
    first, second = job("a", 0, 1), job("b", 0, 1)
    assert admitted(quotas, first, job("other", 0, 1, tenant="t"), second) == "yyn"
    assert list(quotas.ended(first, 0)) == [2]


def test_quota_that_cannot_be_read_is_named() -> None:
    with pytest.raises(JobQuotaError, match=r"ResourceQuota team/q, requests\.cpu: "):
        JobQuotas([quota({"requests.cpu": "many"}, "team")])


def test_what_says_nothing_about_jobs_is_named_and_not_applied() -> None:
    """replay.md 3.8: a quota with scopes holds for some pods only, and other resources are not those of jobs."""
    scoped = quota({"pods": 0})
    scoped["spec"]["scopes"] = ["BestEffort"]
    selected = quota({"pods": 0}, "team")
    selected["spec"]["scopeSelector"] = {"matchExpressions": [{"scopeName": "Terminating", "operator": "Exists"}]}
    quotas = JobQuotas([scoped, selected, quota({"limits.cpu": 0, "count/jobs.batch": 0, "pods": 1})])
    assert quotas.not_applied == [
        "ResourceQuota default/q: it has scopes",
        "ResourceQuota team/q: it has scopes",
        "ResourceQuota default/q: limits.cpu",
        "ResourceQuota default/q: count/jobs.batch",
    ]
    assert admitted(quotas, job("a", 0, 1), job("b", 0, 1)) == "yn"


@pytest.mark.parametrize(
    ("hard", "too_large", "limits"),
    [
        ({"requests.cpu": "1500m"}, {"cpu": 1501}, "cpu=1500m"),
        ({"memory": "2Gi"}, {"memory": 2 * GIB + 1}, "memory=2Gi"),
        ({"requests.nvidia.com/gpu": "2", "pods": 9}, {"gpu": 1, "workers": 3}, "gpu=2"),
        ({"pods": "1", "cpu": "1"}, {"cpu": 501, "workers": 2}, "cpu=1, pods=1"),
    ],
)
def test_job_that_exceeds_a_quota_by_itself_holds_no_other_back(
    hard: dict[str, Any], too_large: dict[str, Any], limits: str
) -> None:
    """replay.md 3.8: it is refused, with the limits that it exceeds."""
    quotas = JobQuotas([quota(hard)], gpu="nvidia.com/gpu")
    refused, small = job("a", 0, 1, **{"gpu": 0, **too_large}), job("b", 0, 1, gpu=0)
    assert admitted(quotas, refused, small) == "ny"
    assert quotas.refusal(refused) == f"it exceeds a ResourceQuota of namespace default by itself: {limits}"
    assert quotas.refusal(small) == ""
    assert list(quotas.ended(small, 1)) == []
