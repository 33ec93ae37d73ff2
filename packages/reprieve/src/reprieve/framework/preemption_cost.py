"""What an eviction costs: the extension point by which a plugin adds a criterion of its own (cost.md 1).

Candidates to make room are compared by a list of criteria, `cost` in the args of DefaultPreemption, the first that
differs decides.  A criterion says what evicting each of some units costs; it is asked for all units at once.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import CycleState, Plugin

Costs = npt.NDArray[np.float64]


class UsableNodes(Protocol):
    """Knows which nodes a pod may use at all: the evaluator of a profile."""

    def usable_nodes(self, state: CycleState) -> npt.NDArray[np.bool_]:
        """`bool[rows]`: live nodes that pass the STATIC filters, whatever runs there; not to be changed."""


@dataclass(frozen=True)
class EvictionUnits:
    """Units of eviction as columns, in order of importance: what a criterion looks at.

    Of unit `u`, `pods[u]` are its pods and `rows[u]` the rows of the nodes they run on; in the present view of the
    cluster they may have been taken off for a trial.
    """

    cluster: ClusterState
    evaluator: UsableNodes | None
    """Knows which nodes a pod may use at all."""
    names: Sequence[str]
    """`namespace/name` of the pod, or of the group where it is evicted as a whole."""
    pods: Sequence[Sequence[PodRecord]]
    rows: Sequence[Sequence[int]]
    priorities: npt.NDArray[np.int64]
    """`int64[units]`."""
    starts: Costs
    """`float64[units]`: the earliest start of the unit's pods in seconds since the epoch, infinite without one."""
    violates: npt.NDArray[np.bool_]
    """`bool[units]`: a PodDisruptionBudget would be violated by it."""
    scheduled: Mapping[str, int]
    """Members of each gang that run before evictions, by `namespace/name`; groups with no unit here may lack."""
    slack: Mapping[str, int] = field(default_factory=dict)
    """Of those that have their minCount, how many members they can lose and still have it."""
    stuck: Collection[str] = frozenset()
    """UIDs of the pods that could not restart on another node at once, before any eviction (cost.md 1.9)."""

    def __len__(self) -> int:
        return len(self.pods)

    @property
    def now(self) -> float:
        """Return the time of the decision, in seconds since the epoch."""
        return self.cluster.now

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """`int64[units]`: how many pods each has."""
        return np.fromiter((len(pods) for pods in self.pods), dtype=np.int64, count=len(self.pods))

    @cached_property
    def every_pod(self) -> list[PodRecord]:
        """Return all pods, unit by unit."""
        return [pod for pods in self.pods for pod in pods]

    def per_unit(self, of_pods: npt.ArrayLike) -> Costs:
        """Sums by unit, `float64[units]`, of a number for each of `every_pod`."""
        values = np.asarray(of_pods, dtype=np.float64)
        if not len(values):
            return np.zeros(len(self.pods))
        starts = np.cumsum(self.sizes) - self.sizes
        return np.add.reduceat(values, starts)


class PreemptionCost(Plugin):
    """A criterion: the cost of evicting units. Lower is better, and no cost is below zero.

    `text` says in a few words what is preferred (`least lost work`), `measure` what the numbers count (`GPU-seconds`).
    `timeless`: False where the same units cost otherwise as time passes; `by_terms`: what users say of their work
    counts; `by_itself`: nothing counts but the units, their pods, the budgets, and what nodes are, so that what
    evictions on a node cost is the same until something on it changes. It has to be `timeless` then.  Where it is so at
    times only, `beyond_the_node` says when.  `by_gang`: how many pods of their groups run counts, too, on whatever
    nodes; what evictions on a node cost is forgotten when that changes for a group with a pod there.
    """

    text: ClassVar[str] = ""
    measure: ClassVar[str] = ""
    timeless: ClassVar[bool] = False
    by_terms: ClassVar[bool] = True
    by_itself: ClassVar[bool] = False
    by_gang: ClassVar[bool] = False

    def of_units(self, units: EvictionUnits) -> Costs:
        """`float64[units]`: what evicting each alone costs."""
        raise NotImplementedError

    def total(self, victims: EvictionUnits) -> float:
        """Return the cost of evicting all of them: by default the sum of their costs."""
        return float(self.of_units(victims).sum())

    def beyond_the_node(self, cluster: ClusterState) -> Hashable | None:
        """Return what the costs on a node depend on beside its units, their pods, what nodes are, and the budgets.

        They are kept as long as it is equal to what it was, and what is on the node is the same; None: not at all.
        """
        return () if self.by_itself and self.timeless and not self.by_terms else None

    @property
    def additive(self) -> bool:
        """Return whether the whole is the sum of its parts."""
        return type(self).total is PreemptionCost.total
