"""The slots and the trace of a replay (replay.md 4.8): what is in them, and that others can open them."""

import json
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from reprieve.replay.failures import Failures
from reprieve.replay.page import slots
from reprieve.replay.perfetto import as_trace, lanes
from reprieve.replay.policy_run import PolicyOutcome
from reprieve.replay.statistics import report, rows
from tests.building import pod
from tests.replay.building import gpu_nodes, job, replay


def outcome(name: str = "evict") -> PolicyOutcome:
    """Gangs and single pods on two nodes, with preemptions."""
    jobs = [
        job(f"j{at}", at * 100, 900, gpu=1 + at % 4, workers=1 + at % 3, priority=at % 4, checkpoint=200)
        for at in range(60)
    ]
    run = replay(jobs, gpu_nodes(2), timeline=True, restart=10)
    return PolicyOutcome(report(name, run), rows(run), run.timeline)


def beside_others() -> PolicyOutcome:
    """Jobs on nodes that hold pods already: one of them goes for a job, one with its node, one stays."""
    nodes = gpu_nodes(3)
    there = [pod(f"there-{at}", gpu=8, priority=at, node=f"n{at}") for at in range(3)]
    jobs = [job("wants", 100, 900, gpu=8, priority=1), job("too", 120, 600, gpu=4, priority=1, workers=2)]
    failures = Failures(listed={"n2": [(50_000, None)]})
    run = replay(jobs, [*nodes, *there], timeline=True, failures=failures)
    return PolicyOutcome(report("beside", run), rows(run), run.timeline)


def test_pods_of_the_cluster_file_have_slices_too() -> None:
    """Pods from before are shown, and their end too."""
    found = beside_others()
    events = json.loads(as_trace([found]))["traceEvents"]
    there = {event["name"]: event for event in events if event["ph"] == "X" and event["name"].startswith("default/")}
    assert {name: event["cat"] for name, event in there.items()} == {
        "default/there-0": "preempted",
        "default/there-1": "unfinished",
        "default/there-2": "lost",
    }
    assert there["default/there-0"]["ts"] == 0
    assert there["default/there-0"]["dur"] == (100 + 30) * 1_000_000
    assert there["default/there-2"]["dur"] == 50 * 1_000_000


@pytest.mark.parametrize("make", [outcome, beside_others])
def test_slices_nest_and_flows_connect_and_counts_equal_the_tables(make: Callable[[], PolicyOutcome]) -> None:
    found = make()
    events: list[dict[str, Any]] = json.loads(as_trace([found]))["traceEvents"]
    by_thread: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        assert event["ph"] in "XMsf"
        if event["ph"] == "X":
            assert event["dur"] >= 0
            by_thread[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in by_thread.values():
        spans.sort()
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    begun = {event["id"]: event for event in events if event["ph"] == "s"}
    ended = {event["id"]: event for event in events if event["ph"] == "f"}
    assert begun.keys() == ended.keys()
    evictions = found.report.evictions
    assert len(begun) == evictions.pods > 0
    for flow in (*begun.values(), *ended.values()):
        spans = by_thread[flow["pid"], flow["tid"]]
        assert any(begin <= flow["ts"] <= end for begin, end in spans)
    assert all(begun[number]["ts"] <= ended[number]["ts"] for number in begun)
    preempted = [event for event in events if event["ph"] == "X" and event["cat"] == "preempted"]
    assert len(preempted) == evictions.pods
    done = {event["name"] for event in events if event["ph"] == "X" and event["cat"] == "done"}
    assert len(done) == found.report.total.done


def test_lanes_are_as_few_as_there_can_be() -> None:
    assert lanes([(0, 10, 0), (5, 15, 1), (10, 20, 2), (15, 16, 3)]) == {0: 0, 1: 1, 2: 0, 3: 1}


def test_slots_are_as_many_as_requested_and_never_shared() -> None:
    """The fourth finds the first's slots free again, the third is beside it."""
    spans = [(0, 10, 0, 2), (0, 20, 1, 1), (5, 15, 2, 3), (10, 30, 3, 4)]
    assert slots(spans) == {0: [0, 1], 1: [2], 2: [3, 4, 5], 3: [0, 1, 6, 7]}
