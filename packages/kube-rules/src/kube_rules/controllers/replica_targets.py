"""The desired replicas of an autoscaler: from its metrics, limited by its history and its behavior.

Rules and words: kube-controller-manager 1.36 (pkg/controller/podautoscaler), interfaces.md 7.11. Ratios are exact
fractions, where upstream has floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

from kube_rules.json import Json
from kube_rules.quantity import parse

TOLERANCE: Final = Fraction(1, 10)
DOWNSCALE_WINDOW: Final = 300
_STARTING: Final = timedelta(minutes=5)
"""After its start a pod's cpu counts only while it is ready (--horizontal-pod-autoscaler-cpu-initialization-period)."""
_FIRST_READY: Final = timedelta(seconds=30)
_SLOWEST: Final = 4


class MetricError(Exception):
    """A metric without a value; the text states why."""


class PodLoad(NamedTuple):
    """A pod of the target: its request and usage, in units of 10^-9, None without a measurement."""

    name: str
    phase: str
    deleted: bool
    ready: bool | None
    ready_since: datetime | None
    started: datetime | None
    request: int | None
    usage: int | None
    lacking: str = ""
    """The missing request in words: a resource in a container."""


class LoadSample(NamedTuple):
    """The pods of a target at a moment: the replicas in its scale, and the tolerances for scaling down and up.

    `cpu`: the resource is cpu, which starting pods use more of than later.
    """

    replicas: int
    pods: Sequence[PodLoad]
    tolerance: tuple[Fraction, Fraction]
    cpu: bool
    now: datetime


class MetricReplicas(NamedTuple):
    """The replicas that a metric calls for, with the utilization (percent) and the average of the pods."""

    replicas: int
    utilization: int | None
    average: int


class ScalingVerdict(NamedTuple):
    """A limited number of replicas, with the reason and the message of a condition."""

    replicas: int
    reason: str
    message: str


def tolerances(spec: Json) -> tuple[Fraction, Fraction]:
    """Return the tolerances for scaling down and up."""
    behavior = spec.get("behavior") or {}
    limits = []
    for name in ("scaleDown", "scaleUp"):
        tolerance = (behavior.get(name) or {}).get("tolerance")
        limits.append(TOLERANCE if tolerance is None else Fraction(parse(tolerance).nano, 10**9))
    return limits[0], limits[1]


def _groups(
    pods: Iterable[PodLoad], cpu: bool, now: datetime
) -> tuple[int, list[PodLoad], list[PodLoad], list[PodLoad]]:
    """Return the number of ready pods, and the pods with measurements, unready pods, and pods without measurements."""
    ready, measured, unready, missing = 0, [], [], []
    for pod in pods:
        if pod.deleted or pod.phase == "Failed":
            continue
        if pod.phase == "Pending":
            unready.append(pod)
        elif pod.usage is None:
            missing.append(pod)
        elif cpu and _is_starting(pod, now):
            unready.append(pod)
        else:
            ready += 1
            measured.append(pod)
    return ready, measured, unready, missing


def _is_starting(pod: PodLoad, now: datetime) -> bool:
    if pod.ready is None or pod.started is None:
        return True
    if pod.started + _STARTING > now:
        return not pod.ready
    return not pod.ready and pod.ready_since is not None and pod.started + _FIRST_READY > pod.ready_since


def by_utilization(sample: LoadSample, target: int) -> MetricReplicas:
    """Return the replicas for a target in percent of the requests. Raises MetricError."""

    def ratio(group: Mapping[str, int]) -> Fraction:
        requested = sum(requests[name] for name in group)
        if not requested:
            raise MetricError("no metrics returned matched known pods")
        return Fraction(sum(group.values()) * 100 // requested, target)

    requests = {pod.name: pod.request for pod in sample.pods if pod.request is not None}
    lacking = next((pod for pod in sample.pods if pod.request is None and not pod.deleted), None)
    if lacking is not None:
        raise MetricError(f"missing request for {lacking.lacking} of Pod {lacking.name}")
    fallback = max(100, target)

    def absent(pod: PodLoad) -> int:
        return requests[pod.name] * fallback // 100

    replicas, usage = _by_ratio(sample, ratio, absent)
    requested = sum(requests[name] for name in usage)
    return MetricReplicas(replicas, sum(usage.values()) * 100 // requested, sum(usage.values()) // len(usage))


def by_average(sample: LoadSample, target: int) -> MetricReplicas:
    """Return the replicas for a target for the average per pod, in units of 10^-9. Raises MetricError."""

    def ratio(group: Mapping[str, int]) -> Fraction:
        return Fraction(sum(group.values()), len(group) * target)

    replicas, usage = _by_ratio(sample, ratio, lambda _: target)
    return MetricReplicas(replicas, None, sum(usage.values()) // len(usage))


def _by_ratio(
    sample: LoadSample, ratio_of: Callable[[Mapping[str, int]], Fraction], absent: Callable[[PodLoad], int]
) -> tuple[int, dict[str, int]]:
    """Return the replicas for the ratio of usage and target, and the usage by pod.

    Pods without a measurement count against a change: as zero when scaling up, as `absent` when scaling down. Starting
    pods count as zero when scaling up.
    """
    current, tolerance = sample.replicas, sample.tolerance
    ready, measured, unready, missing = _groups(sample.pods, sample.cpu, sample.now)
    usage = {pod.name: pod.usage or 0 for pod in measured}
    if not usage:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
    ratio = ratio_of(usage)
    grows_with_unready = bool(unready) and ratio > 1
    if not grows_with_unready and not missing:
        return (current if _tolerated(ratio, tolerance) else ceil(ratio * ready)), usage
    counted = dict(usage)
    if ratio != 1:
        counted.update({pod.name: absent(pod) if ratio < 1 else 0 for pod in missing})
    if grows_with_unready:
        counted.update({pod.name: 0 for pod in unready})
    again = ratio_of(counted)
    if _tolerated(again, tolerance) or (ratio < 1 < again) or (again < 1 < ratio):
        return current, usage
    wanted = ceil(again * len(counted))
    if (again < 1 and wanted > current) or (again > 1 and wanted < current):
        return current, usage
    return wanted, usage


def _tolerated(ratio: Fraction, tolerance: tuple[Fraction, Fraction]) -> bool:
    return 1 - tolerance[0] <= ratio <= 1 + tolerance[1]


@dataclass
class ScalingHistory:
    """The history of an autoscaler: wanted (moment, replicas), and changes (moment, change) up and down."""

    wanted: list[tuple[datetime, int]] = field(default_factory=list)
    up: list[tuple[datetime, int]] = field(default_factory=list)
    down: list[tuple[datetime, int]] = field(default_factory=list)

    def forget(self, now: datetime) -> None:
        """Drop entries that are older than every window."""
        oldest = now - timedelta(hours=1)
        for events in (self.wanted, self.up, self.down):
            events[:] = [event for event in events if event[0] > oldest]

    def scaled(self, now: datetime, before: int, after: int) -> None:
        """Record a change of the replicas."""
        (self.up if after > before else self.down).append((now, abs(after - before)))


def held_back(spec: Json, current: int, wanted: int, history: ScalingHistory, now: datetime) -> list[ScalingVerdict]:
    """Return the stabilized number and the number within the bounds, each with its condition.

    The last number is the target's desired scale. `wanted` is recorded in the history.
    """
    behavior = spec.get("behavior")
    if not history.wanted:
        history.wanted.append((now, current))
    if behavior is None:
        stable = _stabilized(wanted, history, now)
        verdicts = [stable, _in_plain_bounds(spec, current, stable.replicas)]
    else:
        stable = _stabilized_by(behavior, current, wanted, history, now)
        verdicts = [stable, _in_bounds(spec, behavior, current, stable.replicas, history, now)]
    history.wanted.append((now, wanted))
    return verdicts


_READY = ("ReadyForNewScale", "recommended size matches current size")


def _stabilized(wanted: int, history: ScalingHistory, now: datetime) -> ScalingVerdict:
    oldest = now - timedelta(seconds=DOWNSCALE_WINDOW)
    highest = max((count for moment, count in history.wanted if moment > oldest), default=wanted)
    if highest > wanted:
        text = "recent recommendations were higher than current one, applying the highest recent recommendation"
        return ScalingVerdict(highest, "ScaleDownStabilized", text)
    return ScalingVerdict(wanted, *_READY)


def _stabilized_by(behavior: Json, current: int, wanted: int, history: ScalingHistory, now: datetime) -> ScalingVerdict:
    windows = []
    for name, default in (("scaleUp", 0), ("scaleDown", DOWNSCALE_WINDOW)):
        seconds = (behavior.get(name) or {}).get("stabilizationWindowSeconds", default)
        oldest = now - timedelta(seconds=seconds)
        windows.append([wanted, *(count for moment, count in history.wanted if moment > oldest)])
    lowest, highest = min(windows[0]), max(windows[1])
    stable = min(max(current, lowest), highest)
    if stable == wanted:
        return ScalingVerdict(wanted, *_READY)
    if stable < wanted:
        text = "recent recommendations were lower than current one, applying the lowest recent recommendation"
        return ScalingVerdict(stable, "ScaleUpStabilized", text)
    text = "recent recommendations were higher than current one, applying the highest recent recommendation"
    return ScalingVerdict(stable, "ScaleDownStabilized", text)


_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FAST = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_SLOW = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")


def _in_plain_bounds(spec: Json, current: int, wanted: int) -> ScalingVerdict:
    least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
    fastest = max(2 * current, _SLOWEST)
    if wanted < least:
        return ScalingVerdict(least, *_TOO_FEW)
    if wanted > min(most, fastest):
        return ScalingVerdict(fastest, *_TOO_FAST) if fastest < most else ScalingVerdict(most, *_TOO_MANY)
    return ScalingVerdict(wanted, *_WITHIN)


def _changed(events: Iterable[tuple[datetime, int]], seconds: int, now: datetime) -> int:
    oldest = now - timedelta(seconds=seconds)
    return sum(change for moment, change in events if moment > oldest)


def _limits(rules: Json, current: int, history: ScalingHistory, now: datetime, sign: int) -> list[int]:
    """Return the limit of each policy for the replicas."""
    limits = []
    for policy in rules.get("policies") or ():
        period, value = policy["periodSeconds"], policy["value"]
        start = current - _changed(history.up, period, now) + _changed(history.down, period, now)
        if policy["type"] == "Pods":
            limits.append(start + sign * value)
        elif sign > 0:
            limits.append(-(-start * (100 + value) // 100))
        else:
            limits.append(start * (100 - value) // 100)
    return limits


def _in_bounds(
    spec: Json, behavior: Json, current: int, wanted: int, history: ScalingHistory, now: datetime
) -> ScalingVerdict:
    least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
    if wanted > current:
        rules = behavior.get("scaleUp") or {}
        limits = _limits(rules, current, history, now, 1) or [current]
        policy = rules.get("selectPolicy", "Max")
        limit = current if policy == "Disabled" else max(current, min(limits) if policy == "Min" else max(limits))
        if wanted > min(most, limit):
            return ScalingVerdict(limit, *_TOO_FAST) if limit < most else ScalingVerdict(most, *_TOO_MANY)
    elif wanted < current:
        rules = behavior.get("scaleDown") or {}
        limits = _limits(rules, current, history, now, -1) or [current]
        policy = rules.get("selectPolicy", "Max")
        limit = current if policy == "Disabled" else min(current, max(limits) if policy == "Min" else min(limits))
        if wanted < max(least, limit):
            return ScalingVerdict(limit, *_TOO_SLOW) if limit > least else ScalingVerdict(least, *_TOO_FEW)
    return ScalingVerdict(wanted, *_WITHIN)
