"""Topology annotations of the pods of a group, and the index of a pod (topology.md 1, 3).

The annotations are on the pods of a group, on the group, or on an ancestor; for each annotation the nearest counts.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kube_rules.labels import qualified_name_errors
from kube_rules.unknown_fields import did_you_mean, nearest

PREFERRED_TOPOLOGY: Final = "scheduling.reprieve.dev/preferred-topology"
"""Topology levels at which the group uses as few domains as possible, most important level first."""
SLICE: Final = "scheduling.reprieve.dev/slice"
"""This many pods with consecutive indexes always run in one domain of the level."""

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
LEVELS: Final[Mapping[str, str]] = {
    "region": REGION,
    "zone": ZONE,
    "block": "topology.kubernetes.io/block",
    "rack": "topology.kubernetes.io/rack",
    "host": HOSTNAME,
}
"""The short names of levels, and their node labels."""
MOST_LEVELS: Final = 4
LARGEST_SLICE: Final = 4096
_LONGEST_TEXT: Final = 1024
_COUNT: Final = re.compile(r"[1-9][0-9]{0,3}")
_INDEX: Final = re.compile(r"[0-9]{1,8}")

_JOBSET, _LWS = "jobset.sigs.k8s.io", "leaderworkerset.sigs.k8s.io"
INDEXES: Final[tuple[tuple[str, str], ...]] = (
    (f"{_LWS}/group-index", f"{_LWS}/worker-index"),
    (f"{_JOBSET}/job-global-index", "batch.kubernetes.io/job-completion-index"),
    (f"{_JOBSET}/job-index", "batch.kubernetes.io/job-completion-index"),
    ("", "batch.kubernetes.io/job-completion-index"),
    ("", "training.kubeflow.org/replica-index"),
    ("", "kueue.x-k8s.io/pod-group-pod-index"),
    ("", "volcano.sh/task-index"),
    ("", "apps.kubernetes.io/pod-index"),
)
"""Labels or annotations with the index of a pod: of its part of the workload, and within that part."""


@dataclass(frozen=True, slots=True)
class RankSlices:
    """`size` pods with consecutive indexes run in one domain of `level`."""

    level: str
    size: int

    def __str__(self) -> str:
        return f"{self.level}={self.size}"


@dataclass(frozen=True, slots=True)
class TopologyTerms:
    """The topology terms of a group; levels are short names or keys of node labels, `slices` may be None."""

    preferred: tuple[str, ...] = ()
    slices: RankSlices | None = None

    def over(self, fallback: "TopologyTerms") -> "TopologyTerms":
        """Return these terms, with missing terms taken from `fallback`."""
        if fallback is NO_TOPOLOGY_TERMS:
            return self
        if self is NO_TOPOLOGY_TERMS:
            return fallback
        return TopologyTerms(self.preferred or fallback.preferred, self.slices or fallback.slices)


NO_TOPOLOGY_TERMS: Final = TopologyTerms()


def topology_terms(annotations: Mapping[str, str]) -> TopologyTerms:
    """Return the terms in the annotations of a pod or a group; an invalid value counts as absent."""
    if PREFERRED_TOPOLOGY not in annotations and SLICE not in annotations:
        return NO_TOPOLOGY_TERMS
    preferred: tuple[str, ...] = ()
    slices = None
    with suppress(ValueError):
        preferred = read_levels(annotations[PREFERRED_TOPOLOGY]) if PREFERRED_TOPOLOGY in annotations else ()
    with suppress(ValueError):
        slices = read_slice(annotations[SLICE]) if SLICE in annotations else None
    return TopologyTerms(preferred, slices)


def read_levels(text: str) -> tuple[str, ...]:
    """Return the levels of `preferred-topology`. Raises ValueError with the problem."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"must be no more than {_LONGEST_TEXT} bytes")
    levels = tuple(level.strip() for level in text.split(","))
    if len(levels) > MOST_LEVELS:
        raise ValueError(f"at most {MOST_LEVELS} levels, separated by commas")
    for level in levels:
        _check_level(level)
    if len({LEVELS.get(level, level) for level in levels}) < len(levels):
        raise ValueError("a level stands there twice")
    return levels


def read_slice(text: str) -> RankSlices:
    """Return the value of `slice`. Raises ValueError with the problem."""
    level, equals, size = text.rpartition("=") if len(text) <= _LONGEST_TEXT else ("", "", "")
    if not equals or not _COUNT.fullmatch(size) or not 2 <= int(size) <= LARGEST_SLICE:
        raise ValueError(f"expected a level and a number of pods from 2 to {LARGEST_SLICE}, such as rack=8")
    _check_level(level)
    return RankSlices(level, int(size))


def _check_level(level: str) -> None:
    """Raise ValueError for a level that is neither a short name nor a label key with a prefix."""
    if level in LEVELS:
        return
    if "/" in level:
        if messages := qualified_name_errors(level):
            raise ValueError(f'"{level}": {messages[0]}')
        return
    names = ", ".join(LEVELS)
    hint = did_you_mean(nearest(level, LEVELS))
    raise ValueError(f'no level is called "{level}"{hint} (expected {names}, or a node label with its prefix)')


def pod_index(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the index of the part of the workload of a pod, and the pod's index in it, or None."""
    for outer, inner in INDEXES:
        within = _index(labels, annotations, inner)
        part = _index(labels, annotations, outer) if outer else 0
        if within is not None and part is not None:
            return part, within
    return None


def _index(labels: Mapping[str, str], annotations: Mapping[str, str], key: str) -> int | None:
    text = labels.get(key, annotations.get(key))
    return int(text) if text is not None and _INDEX.fullmatch(text) else None


def ranks(indexes: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Return the ranks of the members of a group by name: their indexes, part by part.

    If members have equal indexes, ranks are positions in the order of indexes and then in the given order.
    """
    parts = {part for part, _ in indexes.values()}
    width = max((within for _, within in indexes.values()), default=0) + 1
    first = 0 if len(parts) > 1 else next(iter(parts), 0)
    result = {name: (part - first) * width + within for name, (part, within) in indexes.items()}
    if len(set(result.values())) < len(result):
        return {name: turn for turn, name in enumerate(sorted(result, key=lambda name: result[name]))}
    return result


@dataclass(frozen=True, slots=True)
class PlacedMember:
    """A member on a node, as an argument of `topology_use`."""

    name: str
    index: tuple[int, int] | None
    node: str
    node_labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LevelUse:
    """A level and its domains with running members, those with the most members first.

    `label`: the node label; `breaks`: number of neighbouring ranks in different domains.
    """

    level: str
    label: str
    domains: tuple[str, ...]
    breaks: int


def topology_use(terms: TopologyTerms, members: Sequence[PlacedMember]) -> tuple[LevelUse, ...]:
    """Return the members' use of the levels that a group requests: preferred levels, and the level of its slices.

    A level without its label on any of their nodes is left out.
    """
    levels = [*terms.preferred, *((terms.slices.level,) if terms.slices is not None else ())]
    of_rank = ranks({member.name: member.index for member in members if member.index is not None})
    result: dict[str, LevelUse] = {}
    for level in levels:
        label = LEVELS.get(level, level)
        if level in LEVELS and not any(label in member.node_labels for member in members):
            label = level
        if not any(label in member.node_labels for member in members):
            continue
        where = {member.name: member.node_labels.get(label, f"node {member.node}") for member in members}
        counts = Counter(where.values())
        ordered = [where[name] for name in sorted(of_rank, key=lambda name: of_rank[name])]
        breaks = sum(left != right for left, right in pairwise(ordered))
        result.setdefault(label, LevelUse(level, label, tuple(sorted(counts, key=lambda d: (-counts[d], d))), breaks))
    return tuple(result.values())
