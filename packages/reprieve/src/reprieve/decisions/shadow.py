"""The document of a shadow report: where the decisions of another scheduler and ours differ (shadow.md).

Stable JSON: every field is always written, under these names in camelCase. Times are RFC 3339 in UTC, durations are
seconds. *Acting* is the scheduler that runs the cluster, *shadow* the one that only decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kube_rules.versions import DOCUMENT_VERSION
from reprieve.decisions.outcomes import Document

KIND: Final = "ShadowReport"
HALF_PLACED, STARVED, MORE_EVICTED, FEWER_EVICTED = "HalfPlaced", "Starved", "MoreEvicted", "FewerEvicted"
KINDS: Final = (HALF_PLACED, STARVED, MORE_EVICTED, FEWER_EVICTED)
"""Kinds of differences (shadow.md 3)."""
MOST_DIFFERENCES: Final = 1_000
MOST_EVICTED: Final = 20
"""Maximum numbers of differences, and of evicted pods of each, that a report lists."""


class ShadowSide(Document, frozen=True, kw_only=True):
    """The outcome of one scheduler. `result`: Placed, HalfPlaced, Pending or Evicts. `pods`: those with a node.

    `evicted` lists the first evicted pods. `lost_gpu_hours` is their unsaved work (cost.md 2.1).
    """

    result: str
    pods: int = 0
    at: str | None = None
    nodes: tuple[str, ...] = ()
    evicted_pods: int = 0
    evicted: tuple[str, ...] = ()
    lost_gpu_hours: float = 0.0


class ShadowDifference(Document, frozen=True, kw_only=True):
    """One difference. `entity_kind`: Pod, PodGroup or CompositePodGroup. `until` is None while it persists.

    `held_gpu_hours`: for a half-placed gang, the capacity held by its bound pods while it could not start.
    """

    kind: str
    entity_kind: str
    namespace: str
    name: str
    priority: int
    pods: int
    min_count: int
    since: str
    until: str | None
    seconds: float
    held_gpu_hours: float
    acting: ShadowSide
    shadow: ShadowSide
    message: str

    @property
    def entity(self) -> str:
        """Return the kind and name in the form that commands print."""
        return f"{self.entity_kind.lower()} {self.namespace}/{self.name}"


class SecondsSpread(Document, frozen=True, kw_only=True):
    """Statistics of seconds. Quantiles cover only the latest 10,000 cases. All values are 0 without cases."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class ShadowFigures(Document, frozen=True, kw_only=True):
    """Figures of one of the two schedulers, over the gangs and pods that both have decided about."""

    evicted_pods: int
    lost_gpu_hours: float
    gang_wait: SecondsSpread
    pod_wait: SecondsSpread


class ShadowReport(Document, frozen=True, kw_only=True):
    """See the module docstring. `differences`: the newest `MOST_DIFFERENCES`, newest first. `left_out`: older ones.

    `compared`: gangs and pods that both have placed. `not_compared`: others by reason: `ActingFirst` (the acting
    scheduler placed it before the shadow) and `Gone` (deleted before both had placed it). `same_node` and
    `other_node` count pods; a node with the same score is no difference. `other_victims`: evictions of other pods with
    the same cost. `unassigned_evictions`: pods that the acting scheduler evicted for an unknown preemptor.
    """

    api_version: str = DOCUMENT_VERSION
    kind: str = KIND
    schedulers: tuple[str, ...]
    since: str
    until: str
    hold_seconds: float
    counts: dict[str, int]
    differences: tuple[ShadowDifference, ...]
    left_out: int
    compared: int
    not_compared: dict[str, int]
    same_node: int
    other_node: int
    other_victims: int
    unassigned_evictions: int
    held_gpu_hours: float
    acting: ShadowFigures
    shadow: ShadowFigures
    decisions: SecondsSpread


def spread_of(values: Iterable[float], count: int, total: float) -> SecondsSpread:
    """Return statistics of seconds. `count` and `total` may include cases that are not among the values."""
    ordered = sorted(values)
    if not ordered:
        return SecondsSpread()

    def quantile(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 4)

    return SecondsSpread(
        count=count,
        mean=round(total / count, 4),
        p50=quantile(0.5),
        p90=quantile(0.9),
        p99=quantile(0.99),
        max=round(ordered[-1], 4),
    )


encode_report: Final = msgspec.json.Encoder().encode
decode_report: Final = msgspec.json.Decoder(ShadowReport).decode
