"""Costs of evictions: the extension point for criteria of plugins (cost.md 1).

Candidates for preemption are compared by a list of criteria, `cost` in the args of DefaultPreemption; the first that
differs decides.  A criterion returns the cost of evicting each of some units; it is called for all units at once.
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
    """Returns the nodes that a pod may use at all: the evaluator of a profile."""

    def usable_nodes(self, state: CycleState) -> npt.NDArray[np.bool_]:
        """Return `bool[rows]`: live nodes that pass the STATIC filters, whatever runs there; read-only."""


@dataclass(frozen=True)
class EvictionUnits:
    """Units of eviction as columns, in order of importance: the input of a criterion.

    For unit `u`, `pods[u]` are its pods and `rows[u]` the rows of their nodes; in the present view of the cluster a
    trial may have removed them.
    """

    cluster: ClusterState
    evaluator: UsableNodes | None
    """The source of the nodes that a pod may use at all."""
    names: Sequence[str]
    """`namespace/name` of the pod, or of the group that is evicted as a whole."""
    pods: Sequence[Sequence[PodRecord]]
    rows: Sequence[Sequence[int]]
    priorities: npt.NDArray[np.int64]
    """`int64[units]`."""
    starts: Costs
    """`float64[units]`: the earliest start of the unit's pods in seconds since the epoch, infinite without one."""
    violates: npt.NDArray[np.bool_]
    """`bool[units]`: its eviction would violate a PodDisruptionBudget."""
    scheduled: Mapping[str, int]
    """Running members of each gang before evictions, by `namespace/name`; groups without units may be missing."""
    slack: Mapping[str, int] = field(default_factory=dict)
    """For gangs at or above their minCount, the number of members they can lose and stay there."""
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
        """Return `int64[units]`: the number of pods of each."""
        return np.fromiter((len(pods) for pods in self.pods), dtype=np.int64, count=len(self.pods))

    @cached_property
    def every_pod(self) -> list[PodRecord]:
        """Return all pods, unit by unit."""
        return [pod for pods in self.pods for pod in pods]

    def per_unit(self, of_pods: npt.ArrayLike) -> Costs:
        """Return sums by unit, `float64[units]`, of one number for each of `every_pod`."""
        values = np.asarray(of_pods, dtype=np.float64)
        if not len(values):
            return np.zeros(len(self.pods))
        starts = np.cumsum(self.sizes) - self.sizes
        return np.add.reduceat(values, starts)


class PreemptionCost(Plugin):
    """A criterion: the cost of evicting units. Lower is better, and no cost is below zero.

    `text` describes in a few words what is preferred (`least lost work`), `measure` the unit of the numbers
    (`GPU-seconds`). `timeless`: False if the costs of the same units change with time; `by_terms`: users' annotations
    about their work count; `by_itself`: nothing counts but the units, their pods, the budgets, and what nodes are, so
    that the costs on a node stay the same until something on it changes; such a criterion must be `timeless`.  If that
    holds only at times, `beyond_the_node` decides.  `by_gang`: the number of running pods of their groups counts, too,
    on any node; the costs on a node are computed again when it changes for a group with a pod there.
    """

    text: ClassVar[str] = ""
    measure: ClassVar[str] = ""
    timeless: ClassVar[bool] = False
    by_terms: ClassVar[bool] = True
    by_itself: ClassVar[bool] = False
    by_gang: ClassVar[bool] = False

    def of_units(self, units: EvictionUnits) -> Costs:
        """Return `float64[units]`: the cost of evicting each alone."""
        raise NotImplementedError

    def total(self, victims: EvictionUnits) -> float:
        """Return the cost of evicting all of them: by default the sum of their costs."""
        return float(self.of_units(victims).sum())

    def beyond_the_node(self, cluster: ClusterState) -> Hashable | None:
        """Return a key of what costs on a node depend on beside its units, their pods, what nodes are, and the budgets.

        Costs are kept while the key and the pods on the node stay the same; None: they are never kept.
        """
        return () if self.by_itself and self.timeless and not self.by_terms else None

    @property
    def additive(self) -> bool:
        """Return whether the total is the sum of the units' costs."""
        return type(self).total is PreemptionCost.total
