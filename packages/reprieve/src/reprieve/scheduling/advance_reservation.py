"""One reservation of a long-pending workload: nodes and amounts for all members, and their expected start."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kube_rules.durations import readable_time
from kube_rules.errors import names_text
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord

Amounts = npt.NDArray[np.int64]
MOST_NAMED = 3


@dataclass(slots=True, eq=False)
class AdvanceReservation:
    """See the module docstring. Times are seconds since the epoch."""

    ref: str
    """The entity that holds it: `pod/<uid>`, `group/<namespace>/<name>` or `composite/<namespace>/<name>`."""
    group: Group | None
    pods: tuple[tuple[PodRecord, str], ...]
    """(pod, node reserved for it)."""
    priority: int
    created_at: float
    """Time when it was made; it lasts for `maxReserved` from then."""
    expected_start: float | None
    """Time when the holder is expected to start; None: it waits for pods that state no end."""
    awaited_pods: tuple[PodRecord, ...]
    """The pods on its nodes that must end first."""
    rows: Amounts = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    amounts: Amounts = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64), repr=False)
    """The reserved amounts: `int64[rows]`, each once, and `int64[columns, rows]` by column of the resource table."""
    members: int = 0
    """Number of pods of the holder when it was made."""
    reviewed_at: float = 0.0
    """Time when it was last computed."""
    nomination_lost: bool = False
    """One of its nominations was lost since then."""
    unchanged: bool = False
    """It existed before a restart and is unchanged, so it is not reported."""
    releases: int = 0
    """The value of `SchedulingQueue.releases` at that time."""

    @property
    def holder(self) -> Group | PodRecord:
        """Return the group that holds it, or the pod."""
        return self.group if self.group is not None else self.pods[0][0]

    @property
    def name(self) -> str:
        """`namespace/name` of the group, or of the pod."""
        return self.holder.key

    def current_places(self, row_of: Mapping[str, int]) -> list[tuple[PodRecord, str]]:
        """Return the `pods` that still hold their node, which a higher priority may take. `row_of`: rows by name."""
        return [(pod, node) for pod, node in self.pods if pod.nominated == row_of.get(node)]

    @property
    def nodes(self) -> list[str]:
        """Return the nodes, each once, in the order of the pods."""
        return list(dict.fromkeys(node for _, node in self.pods))

    @property
    def waits_for(self) -> tuple[PodRecord, ...]:
        """Return the pods that must end first and still run."""
        return tuple(pod for pod in self.awaited_pods if pod.row >= 0)

    def describe_start(self) -> str:
        """Return in words when the holder is expected to start: at a time, or when pods on its nodes have ended."""
        if self.expected_start is not None:
            return f"expected start {readable_time(self.expected_start)}"
        waits = self.waits_for
        if not waits:
            return "all pods there have ended"
        pods = "1 pod" if len(waits) == 1 else f"{len(waits)} pods"
        return f"when {pods} on {self._describe_nodes(waits)} {'has' if len(waits) == 1 else 'have'} ended"

    def describe_backfill(self) -> str:
        """Return in words which pods of the same or a lower priority may use the capacity until then."""
        if self.expected_start is None:
            return "no pods may use it until then"
        return "pods that state an end before then may use it"

    def _describe_nodes(self, waits: tuple[PodRecord, ...]) -> str:
        by_row = {pod.nominated: node for pod, node in self.pods}
        return names_text(list(dict.fromkeys(by_row[pod.row] for pod in waits if pod.row in by_row)), MOST_NAMED)

    def node_names_text(self) -> str:
        """Return the names of the nodes: `n1, n2, n3 and 5 more`."""
        return names_text(self.nodes, MOST_NAMED)
