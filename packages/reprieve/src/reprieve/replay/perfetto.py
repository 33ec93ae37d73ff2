"""A replay as Trace Event JSON, which Perfetto and chrome://tracing open (replay.md 4.8).

Nodes are processes; pods on a node are slices on as many threads as it takes for none to overlap.  Decisions to preempt
are slices of a process of their own, with a flow to every victim.  Times are virtual, in microseconds.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from reprieve.replay.accounts import Timeline
from reprieve.replay.policy_run import PolicyOutcome

Event = dict[str, Any]
_DECISION = 1000
"""Milliseconds that a decision is drawn with; it takes no simulated time."""


def as_trace(outcomes: Sequence[PolicyOutcome]) -> str:
    """Return the document, with all policies next to each other."""
    events: list[Event] = []
    first = 1
    for outcome in outcomes:
        if outcome.timeline is not None:
            prefix = f"{outcome.report.name}: " if len(outcomes) > 1 else ""
            names = [row.job for row in outcome.rows]
            first = _policy(events, prefix, outcome.timeline, names, first)
    document = {"traceEvents": events, "displayTimeUnit": "ms"}
    return msgspec.json.encode(document).decode() + "\n"


def lanes(spans: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Return the lane of each item, given (begin, end, item): without overlaps, and as few as possible."""
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    result: dict[int, int] = {}
    used = 0
    for begin, end, item in sorted(spans):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        result[item] = lane
        heapq.heappush(busy, (max(end, begin), lane))
    return result


def _policy(events: list[Event], prefix: str, timeline: Timeline, names: Sequence[str], first: int) -> int:
    """Add the events of one policy, and return the number of the next process."""
    decisions = first
    events.append(_name("process_name", decisions, 0, f"{prefix}preemptions"))
    stays: dict[str, list[int]] = {}
    for stay, node in enumerate(timeline.node):
        stays.setdefault(node, []).append(stay)
    place: dict[int, tuple[int, int]] = {}
    for number, node in enumerate(sorted(stays), first + 1):
        events.append(_name("process_name", number, 0, f"{prefix}{node}"))
        lane_of = lanes((timeline.begin[stay], timeline.end[stay], stay) for stay in stays[node])
        events += [_name("thread_name", number, lane, f"slot {lane + 1}") for lane in sorted(set(lane_of.values()))]
        for stay in stays[node]:
            place[stay] = (number, lane_of[stay])
            events.append(
                {
                    "ph": "X",
                    "name": timeline.name(stay, names),
                    "cat": timeline.how[stay],
                    "pid": number,
                    "tid": lane_of[stay],
                    "ts": timeline.begin[stay] * 1000,
                    "dur": (timeline.end[stay] - timeline.begin[stay]) * 1000,
                    "args": {"worker": timeline.worker[stay], "outcome": timeline.how[stay]},
                }
            )
    drawn = lanes((when, when + _DECISION, number) for number, (when, _, _) in enumerate(timeline.preemptions))
    flow = first << 24
    for number, (when, preemptor, victims) in enumerate(timeline.preemptions):
        preemptor_name = names[preemptor] if 0 <= preemptor < len(names) else "a pod of the cluster file"
        lane = drawn[number]
        events.append(
            {
                "ph": "X",
                "name": f"{preemptor_name} preempts",
                "cat": "preemption",
                "pid": decisions,
                "tid": lane,
                "ts": when * 1000,
                "dur": _DECISION * 1000,
                "args": {"preemptor": preemptor_name, "victims": len(victims)},
            }
        )
        for victim in victims:
            flow += 1
            pid, tid = place[victim]
            at = min(max(when, timeline.begin[victim]), timeline.end[victim]) * 1000
            begun = {"ph": "s", "name": "preempts", "cat": "preemption", "id": flow}
            events.append({**begun, "pid": decisions, "tid": lane, "ts": when * 1000})
            events.append({**begun, "ph": "f", "bp": "e", "pid": pid, "tid": tid, "ts": at})
    return first + 1 + len(stays)


def _name(kind: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
