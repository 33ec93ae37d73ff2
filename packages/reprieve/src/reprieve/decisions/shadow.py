"""The document of a shadow report: where another scheduler's decisions and ours differ (shadow.md).

Stable JSON: every field is always written, under these names in camelCase.  Times are RFC 3339 in UTC, durations
seconds.  *Acting* is the scheduler that runs the cluster, *shadow* the one that only decides.
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
"""Differences, and evicted pods of each, that a report lists."""


class ShadowSide(Document, frozen=True, kw_only=True):
    """What one of the two did. `result`: Placed, HalfPlaced, Pending or Evicts; `pods`: those with a node.

    `evicted` are the first of the evicted pods, `lost_gpu_hours` the work that they had not saved (cost.md 2.1).
    """

    result: str
    pods: int = 0
    at: str | None = None
    nodes: tuple[str, ...] = ()
    evicted_pods: int = 0
    evicted: tuple[str, ...] = ()
    lost_gpu_hours: float = 0.0


class ShadowDifference(Document, frozen=True, kw_only=True):
    """One difference. `entity_kind`: Pod, PodGroup or CompositePodGroup. `until` is None while it lasts.

    `held_gpu_hours`: of a half-placed gang, what its bound pods held while it could not start.
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
        """Return the kind and name, as commands print them."""
        return f"{self.entity_kind.lower()} {self.namespace}/{self.name}"


class SecondsSpread(Document, frozen=True, kw_only=True):
    """Seconds of many cases; of more than the latest 10,000 the quantiles are of those. All 0 without any."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class ShadowFigures(Document, frozen=True, kw_only=True):
    """Figures of one of the two, over the gangs and pods that both have decided about."""

    evicted_pods: int
    lost_gpu_hours: float
    gang_wait: SecondsSpread
    pod_wait: SecondsSpread


class ShadowReport(Document, frozen=True, kw_only=True):
    """See the module docstring. `differences` are newest first, at most `MOST_DIFFERENCES`; `left_out`: older ones.

    `compared`: gangs and pods that both have placed.  `not_compared`: others, by the reason: `ActingFirst` (the
    shadow had not placed it when the acting scheduler had) and `Gone` (deleted before both had).  `same_node` and
    `other_node` count pods; a node of the same score is no difference.  `other_victims`: evictions of other pods that
    cost the same.  `unassigned_evictions`: pods evicted there by a preemptor that is not known.
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
    """Return the spread of seconds; `count` and `total` also cover cases that are not among the values."""
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
