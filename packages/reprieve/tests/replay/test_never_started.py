"""Jobs on tainted nodes, and why jobs never start (replay.md 2.1, 3.2, 4.6, 4.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kube_rules import objects
from reprieve.replay.job_list import Tolerated, tolerations
from reprieve.replay.quotas import JobQuotas
from reprieve.replay.statistics import report
from reprieve.replay.unstarted_jobs import MOST_REASONS, UnstartedJobs
from reprieve.replay.world import Replay
from tests.building import node
from tests.replay.building import gpu_nodes, job, replay

GPU_TAINT = ("nvidia.com/gpu", "present", "NoSchedule")
SOFT = ("slow", "", "PreferNoSchedule")


def tainted(*taints: tuple[str, str, str], name: str = "n0") -> objects.Node:
    return node(name, cpu=96, gpu=8, taints=taints)


def why(run: Replay) -> Sequence[UnstartedJobs]:
    return report("p", run).never_started


TOLERATED: Mapping[str, tuple[str, bool]] = {
    "none": ("", False),
    "its key": ("nvidia.com/gpu", True),
    "its key and value": ("nvidia.com/gpu=present", True),
    "another value": ("nvidia.com/gpu=absent", False),
    "its effect": ("nvidia.com/gpu:NoSchedule", True),
    "another effect": ("nvidia.com/gpu=present:NoExecute", False),
    "another key beside it": ("team=a;nvidia.com/gpu", True),
    "every taint": ("*", True),
    "every taint of another effect": ("*:NoExecute", False),
}


@pytest.mark.parametrize(("text", "starts"), TOLERATED.values(), ids=TOLERATED)
@pytest.mark.parametrize("own", [True, False])
def test_taint_keeps_away_jobs_that_do_not_tolerate_it(text: str, starts: bool, own: bool) -> None:
    """replay.md 3.2: by the column of the job, or of all jobs that list none."""
    given = tolerations(text)
    run = replay(
        [job("a", 0, 10, tolerations=given if own else ())],
        [tainted(GPU_TAINT)],
        until=100,
        tolerations=() if own else given,
    )
    assert (run.accounts[0].first_start is not None) is starts
    assert bool(why(run)) is not starts
    share = report("p", run).workload_fragmentation
    assert (share == 1.0) is not starts, "4.6: a node with taints that it does not tolerate is of no use to it"


def test_column_of_a_job_counts_before_what_holds_for_all() -> None:
    """replay.md 2.1"""
    run = replay(
        [job("a", 0, 10, tolerations=tolerations("team")), job("b", 0, 10)],
        [tainted(GPU_TAINT)],
        tolerations=tolerations("*"),
    )
    assert [one.first for one in why(run)] == ["a"]


def test_taints_that_are_not_tolerated_are_named() -> None:
    """replay.md 4.10: those that keep it away, of nodes that are there."""
    more = [(f"t{at}", "", "NoExecute") for at in range(4)]
    run = replay([job("a", 0, 10, workers=2), job("b", 0, 10)], [tainted(GPU_TAINT, SOFT), tainted(*more, name="n1")])
    assert why(run) == (
        UnstartedJobs(
            2,
            "a",
            "0/2 nodes are available: 2 node(s) had untolerated taint(s): "
            "nvidia.com/gpu=present:NoSchedule, t0:NoExecute, t1:NoExecute ...",
        ),
    )


def test_reasons_of_most_jobs_come_first() -> None:
    """replay.md 4.10: of a gang what kept its pods from nodes, of a topology that no node has its label."""
    jobs = [job(f"big{at}", 0, 10, gpu=9, workers=at) for at in (1, 2, 3)]
    jobs += [job("web", 1, None, gpu=8), job("web2", 1, None, gpu=8), job("late", 2, 5)]
    jobs += [job("topo", 3, 5, workers=2, topology_key="rack"), job("model", 4, 5, models=("H100",))]
    run = replay(jobs, gpu_nodes(2), until=100)
    short = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu"
    assert [(one.jobs, one.first, one.message) for one in why(run)] == [
        (4, "big1", short),
        (1, "model", "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector"),
        (1, "topo", 'no node has the label "rack" of its topology_key'),
    ]


def test_quota_holds_jobs_back() -> None:
    """replay.md 3.8, 4.10"""
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "1"}},
    }
    run = Replay(
        [job("web", 0, None), job("held", 1, 5)], [(one, 0.0) for one in gpu_nodes(1)], quotas=JobQuotas([quota])
    )
    run.run(10_000)
    run.close(10_000)
    assert why(run) == (UnstartedJobs(1, "held", "a ResourceQuota of namespace default holds it back"),)


def test_job_larger_than_its_quota_is_counted_and_the_next_one_runs() -> None:
    """replay.md 3.8, 4.10"""
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    jobs = [job("large", 0, 5, workers=2, gpu=1), job("small", 1, 5, gpu=1), job("large2", 2, 5, workers=3)]
    run = Replay(jobs, [(one, 0.0) for one in gpu_nodes(1)], quotas=JobQuotas([quota]))
    run.run(10_000)
    run.close(10_000)
    reason = "it exceeds a ResourceQuota of namespace default by itself: pods=1"
    assert why(run) == (UnstartedJobs(2, "large", reason),)
    assert [account.first_start for account in run.accounts] == [None, 1000, None]


def test_no_reasons_where_all_started_and_a_bounded_number_elsewhere() -> None:
    """replay.md 4.10"""
    assert why(replay([job("a", 0, 10)], gpu_nodes(1))) == ()
    many = [job(f"j{at:02}", 0, 10, workers=2, topology_key=f"rack-{at:02}") for at in range(MOST_REASONS + 5)]
    found = why(replay(many, gpu_nodes(1)))
    assert [one.first for one in found] == [f"j{at:02}" for at in range(MOST_REASONS)]


READ: Mapping[str, tuple[Tolerated, ...]] = {
    "": (),
    "a": (("a", "Exists", "", ""),),
    "a=": (("a", "Equal", "", ""),),
    "x.io/a=b:NoExecute ; a;a": (("x.io/a", "Equal", "b", "NoExecute"), ("a", "Exists", "", "")),
    "*": (("", "Exists", "", ""),),
    "*:NoSchedule": (("", "Exists", "", "NoSchedule"),),
}


@pytest.mark.parametrize(("text", "found"), READ.items())
def test_tolerations_are_read(text: str, found: Any) -> None:
    """replay.md 2.1"""
    assert tolerations(text) == found


@pytest.mark.parametrize(
    "text", [":NoSchedule", "a:", "a:Never", "*=b", "a b", "=b", "a=b=c", "a:NoSchedule:NoExecute"]
)
def test_other_texts_are_refused(text: str) -> None:
    """replay.md 2.3"""
    with pytest.raises(ValueError, match="expected tolerations such as"):
        tolerations(text)
