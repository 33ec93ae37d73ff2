"""The worked example: a full GPU cluster, a gang that preempts, a gang that cannot fit, and a tree of groups.

`reprieve plan -f` reads the manifests directly; `reprieve demo` plays them on a live cluster. Each act states the
expected result.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kube_rules.json import Json
from kube_rules.topology_terms import HOSTNAME
from kube_rules.yamltext import read_documents

DIRECTORY = Path(__file__).parent
CLUSTER = "cluster.yaml"


@dataclass(frozen=True, slots=True)
class Act:
    """Manifests that arrive in the demo cluster, and their expected outcome."""

    title: str
    story: tuple[str, ...]
    file: str
    """The name of the file in `DIRECTORY`."""
    group: str
    """`namespace/name` of the new PodGroup, or of the root of a tree."""
    size: int
    scheduled: int
    """The number of running pods of the group at the end: all or none."""
    evicted: tuple[str, ...]
    """The evicted workloads by unit name, sorted."""
    lesson: tuple[str, ...]
    leaves: tuple[str, ...] = ()
    """`namespace/name` of the PodGroups of a tree; empty if `group` is a PodGroup."""
    after: tuple[str, ...] = ()
    """The files of the earlier acts that it requires."""

    @property
    def kind(self) -> str:
        """Return the kind of `group`."""
        return "CompositePodGroup" if self.leaves else "PodGroup"

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the new PodGroups with pods."""
        return self.leaves or (self.group,)


ACTS = (
    Act(
        title="Act 1: a training gang arrives in a full cluster",
        story=(
            "The gang train asks for 8 workers with 4 GPUs each, all or nothing, at",
            "priority 1000. Serving runs at priority 2000, research at 100, leftovers",
            "at 10.",
        ),
        file="train.yaml",
        group="default/train",
        size=8,
        scheduled=8,
        evicted=(
            *(f"default/batch-{i}" for i in (12, 13, 14, 15, 4, 5, 6, 7)),
            "default/eval-0",
            "default/eval-1",
            "default/nightly",
        ),
        lesson=(
            "nightly is evicted as a whole; sweep on the same nodes has a higher priority and stays.",
            "eval is evicted because the notebooks' budget allows no disruption.",
            "The batch pods that started last are evicted; the other half stays.",
        ),
    ),
    Act(
        title="Act 2: a gang that cannot fit",
        story=(
            "The gang giant asks for 13 whole nodes at priority 1000. Serving holds 4 of",
            "the 16 at a higher priority, and train has the same priority: even without",
            "all other pods 13 nodes are not free.",
        ),
        file="giant.yaml",
        group="default/giant",
        size=13,
        scheduled=0,
        evicted=(),
        lesson=("Evictions would not help, so no pods are evicted: all keep running.",),
    ),
    Act(
        title="Act 3: a model with prefill and decode workers that need each other",
        story=(
            "The tree chat has two gangs under one root: 2 prefill and 2 decode workers,",
            "a whole node each, at priority 1000. Either gang alone is of no use.",
        ),
        file="chat.yaml",
        group="default/chat",
        size=4,
        scheduled=4,
        evicted=("default/ablation",),
        lesson=(
            "The tree preempts as one: both of its gangs get their nodes, or neither.",
            "ablation is evicted as a whole; pods of higher priority stay.",
        ),
        leaves=("default/chat-decode", "default/chat-prefill"),
        after=("train.yaml",),
    ),
)


def differences(act: Act, *, scheduled: int, evicted: Iterable[str]) -> list[str]:
    """Return the differences from the expected result, one line each; empty without any."""
    evicted_units = tuple(sorted(evicted))
    result = []
    if scheduled != act.scheduled:
        result.append(f"{scheduled} pods placed, expected {act.scheduled}")
    if evicted_units != act.evicted:
        result.append(
            f"evicted: {', '.join(evicted_units) or 'no pods'}; expected: {', '.join(act.evicted) or 'no pods'}"
        )
    return result


# -- manifests for live play --------------------------------------------------------------------------


def objects(file: str) -> Iterator[Json]:
    """Yield the objects of a file as plain data, in order."""
    for document in read_documents((DIRECTORY / file).read_text()):
        plain = msgspec.to_builtins(document.data)
        yield from plain["items"] if plain.get("kind") == "List" else (plain,)


def nodes() -> tuple[Json, ...]:
    """Return the nodes of the cluster."""
    return tuple(item for item in objects(CLUSTER) if item["kind"] == "Node")


def furniture() -> list[Json]:
    """Return the cluster's objects other than nodes and pods: classes, groups, budgets."""
    return [item for item in objects(CLUSTER) if item["kind"] not in ("Node", "Pod")]


def waves() -> list[list[Json]]:
    """Return the pods of the cluster in waves with time between them: pods that start later are less important.

    Each pod selects its node in the manifest with a node selector, and is scheduled normally.
    """
    pods = [item for item in objects(CLUSTER) if item["kind"] == "Pod"]
    return [
        [_pending(pod) for pod in pods if (pod["metadata"]["name"] in _LATECOMERS) is late] for late in (False, True)
    ]


_LATECOMERS = frozenset(f"batch-{index}" for index in (*range(4, 8), *range(12, 16)))
_STOP_SECONDS = "1"
"""Pods of the example end a second after the request to delete them."""


def _pending(pod: Json) -> Json:
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    spec["nodeSelector"] = {HOSTNAME: pod["spec"]["nodeName"]}
    metadata = {**pod["metadata"], "annotations": {"reprieve.dev/stop-seconds": _STOP_SECONDS}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
