"""The cost of an eviction, to choose between domains, placements and units (preemption.md 3; cost.md 1).

The comparison is a list of criteria; the first in which two evictions differ decides. `DEFAULT` is the list without a
configuration; `UPSTREAM` decides as kube-scheduler's comparison. The fast paths and the search implement both of these
*native* lists directly.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from kube_rules.unknown_fields import did_you_mean, nearest
from reprieve.cluster.state import ClusterState
from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.plugin import Plugin
from reprieve.framework.preemption_cost import Costs, EvictionUnits, PreemptionCost
from reprieve.preemption.criteria import (
    IN_TREE,
    PRIORITY_OFFSET,
    STANDARD,
    UPSTREAM_ORDER,
    Cascade,
    GangsBroken,
    HighestPriority,
    LostWorkCost,
    PdbViolations,
    PrioritySum,
    RestartElsewhere,
    StartTime,
    TenantSpread,
)
from reprieve.preemption.gangs import broken, losses, slack_of, standing
from reprieve.preemption.outcome import Cost as Cost
from reprieve.preemption.outcome import Criterion, Verdict
from reprieve.preemption.units import PreemptionUnit

BY_NAME: Final = "first by name"
NO_VICTIMS: Final = "no victims"


@dataclass(frozen=True)
class Criteria:
    """Criteria in the order in which they decide."""

    costs: tuple[PreemptionCost, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return their names in configurations."""
        return tuple(cost.name for cost in self.costs)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Return the preference of each, in a few words."""
        return tuple(cost.text or f"least {cost.name}" for cost in self.costs)

    @cached_property
    def described(self) -> tuple[Criterion, ...]:
        """Return the criteria for a decision."""
        return tuple(Criterion(*item) for item in zip(self.names, self.texts, self._measures, strict=True))

    @property
    def _measures(self) -> tuple[str, ...]:
        return tuple(cost.measure for cost in self.costs)

    @cached_property
    def upstream(self) -> bool:
        """Whether it is kube-scheduler's comparison."""
        return self.names == UPSTREAM_ORDER

    @cached_property
    def native(self) -> bool:
        """Whether it is the default or kube-scheduler's comparison, which the search and fast paths implement."""
        return self.upstream or self.names == STANDARD

    @cached_property
    def counts_gangs(self) -> bool:
        """Whether gangs that fall below their minimum count."""
        return GangsBroken.name in self.names

    @cached_property
    def counts_restarts(self) -> bool:
        """Whether pods that cannot restart elsewhere at once count."""
        return RestartElsewhere.name in self.names

    @cached_property
    def never_less(self) -> int:
        """Number of leading criteria by which a set of units never costs less than a part of it."""
        for turn, cost in enumerate(self.costs):
            if isinstance(cost, StartTime) and HighestPriority.name in self.names[:turn]:
                continue
            if not cost.additive and not isinstance(cost, HighestPriority | GangsBroken | TenantSpread | LostWorkCost):
                return turn
        return len(self.costs)

    @cached_property
    def in_tree(self) -> bool:
        """Whether no plugin adds any of them."""
        return all(name in IN_TREE for name in self.names)

    @cached_property
    def timeless(self) -> bool:
        """Whether the same units always cost the same."""
        return all(cost.timeless for cost in self.costs)

    def beyond_the_node(self, cluster: ClusterState) -> Hashable | None:
        """Return the key with which costs of a node are valid until the node changes; None: they are not."""
        if self.upstream:
            return ()
        keys = tuple(cost.beyond_the_node(cluster) for cost in self.costs)
        return None if None in keys else keys

    @cached_property
    def by_terms(self) -> bool:
        """Whether annotations about work count."""
        return any(cost.by_terms for cost in self.costs)

    @cached_property
    def by_gang(self) -> bool:
        """Whether the number of running pods of groups counts, on any nodes."""
        return any(cost.by_gang for cost in self.costs)

    def costing(
        self, cluster: ClusterState, evaluator: Evaluator | None, units: Sequence[PreemptionUnit]
    ) -> "Costing | None":
        """Return the data that criteria need before any pods are displaced; upstream's comparison needs none."""
        if self.upstream:
            return None
        return Costing(cluster, evaluator, units, restarts=self.counts_restarts)

    def cost_of(self, verdicts: Sequence[Verdict], costing: "Costing | None" = None) -> Cost | None:
        """Return a sortable cost, cheapest first: a number by each criterion, in order. None if no pods are evicted.

        `costing`: required except for upstream's comparison.
        """
        evicted = [v for v in verdicts if v.evicted]
        if not evicted:
            return None
        if self.upstream:
            return _native_cost(evicted)
        assert costing is not None
        if self.native:
            units = [v.unit for v in evicted]
            gangs = len(broken((pod for unit in units for pod in unit.pods), costing.slack))
            return _native_cost(evicted, gangs, sum(costing.restartless(units)))
        victims = costing.columns([v.unit for v in evicted], [v.violates_pdb for v in evicted])
        return tuple(cost.total(victims) for cost in self.costs)

    def dearest_first(
        self, units: Sequence[PreemptionUnit], violates: Sequence[bool], costing: "Costing | None" = None
    ) -> list[int]:
        """Return indices of units, given by importance, in the order of trials in a reprieve (preemption.md 3.4).

        By a native comparison, first those that violate a budget, each class by importance; if gangs count, units of
        one priority that a gang needs for its minimum come first, and of one size those that cannot restart elsewhere
        at once. By any other comparison the cost of each unit alone decides, criterion by criterion, the most expensive
        first; ties by importance.
        """
        if self.upstream or not units:
            return sorted(range(len(units)), key=lambda i: not violates[i])
        assert costing is not None
        if self.native:
            turns = in_turn(units, costing.unlike(units), costing.slack)
            return sorted(turns, key=lambda i: not violates[i])
        gangs = costing.standing(units) if self.counts_gangs else None
        columns = costing.columns(units, violates)
        keys: list[Costs] = []
        for cost in self.costs:
            if isinstance(cost, GangsBroken):
                keys.extend(np.array(gangs, dtype=np.float64).T if gangs is not None else ())
            else:
                keys.append(-cost.of_units(columns))
        order: list[int] = np.lexsort(keys[::-1]).tolist() if keys else list(range(len(units)))
        return order


def in_turn(
    units: Sequence[PreemptionUnit], restartless: Sequence[int] | None, slack: Mapping[str, int]
) -> Sequence[int]:
    """Return indices of units, given by importance, as a reprieve by the default list tries them; budgets aside.

    `restartless` (`Costing.unlike`) and `slack`: see `Costing`.
    """
    turns: Sequence[int] = range(len(units))
    if restartless is not None:
        turns = sorted(turns, key=lambda i: (*units[i].standing, -restartless[i], i))
    if slack:
        positions = dict(zip(turns, standing([losses(units[i].pods, slack) for i in turns], slack), strict=True))
        turns = sorted(turns, key=lambda i: (-units[i].priority, *positions[i]))
    return turns


def _native_cost(evicted: Sequence[Verdict], gangs: int | None = None, restartless: int = 0) -> Cost:
    """Return the numbers of a native list, in order.

    These are: units that violate a budget; the highest victim priority; gangs that break, if they count; the sum of the
    victims' priorities; the number of victim pods; those of them that cannot restart elsewhere at once, if gangs count;
    and the earliest start among the highest-priority victims, later being cheaper.
    """
    highest = max(v.unit.priority for v in evicted)
    earliest = min(v.unit.start for v in evicted if v.unit.priority == highest)
    return (
        sum(1 for v in evicted if v.violates_pdb),
        highest,
        *(() if gangs is None else (gangs,)),
        sum((v.unit.priority + PRIORITY_OFFSET) * len(v.unit.pods) for v in evicted),
        sum(len(v.unit.pods) for v in evicted),
        *(() if gangs is None else (restartless,)),
        -earliest,
    )


class Costing:
    """The data of criteria beside the units: the cluster cache, and the running pods of each gang before any eviction.

    It must be made before any pods are displaced for a trial. `restarts`: pods that cannot restart elsewhere at once
    count.
    """

    def __init__(
        self,
        cluster: ClusterState,
        evaluator: Evaluator | None,
        units: Sequence[PreemptionUnit],
        *,
        restarts: bool = True,
    ) -> None:
        self.cluster, self.evaluator = cluster, evaluator
        self.slack: Mapping[str, int] = slack_of(cluster, units)
        """The slack of each gang with a pod among the units that has its minCount (`reprieve.preemption.gangs`)."""
        self.scheduled: Mapping[str, int] = {
            key: cluster.groups[key].scheduled
            for key in {pod.group for unit in units for pod in unit.pods if pod.group is not None}
            if key in cluster.groups
        }
        self.stuck: frozenset[str] = frozenset()
        """UIDs of the units' pods that cannot restart elsewhere at once (cost.md 1.9)."""
        self.all_stuck = False
        """Whether these are all pods of the units."""
        if evaluator is not None and restarts:
            pods = [pod for unit in units for pod in unit.pods]
            stuck = evaluator.restarts.stuck(pods, [row for unit in units for row in unit.rows])
            self.stuck = frozenset([pod.uid for pod, out in zip(pods, stuck, strict=True) if out])
            self.all_stuck = len(self.stuck) == len(pods)

    def losses(self, units: Sequence[PreemptionUnit]) -> list[dict[str, int]]:
        """Return by unit the number of pods that each gang with slack loses with it."""
        slack = self.slack
        return [losses(unit.pods, slack) for unit in units]

    def standing(self, units: Sequence[PreemptionUnit]) -> list[tuple[bool, int]] | None:
        """Return the order of units in gangs (`reprieve.preemption.gangs.standing`); None if no gang can break."""
        return standing(self.losses(units), self.slack) if self.slack else None

    def restartless(self, units: Sequence[PreemptionUnit]) -> list[int]:
        """Return the number of pods of each unit that cannot restart elsewhere at once, for units passed initially."""
        stuck = self.stuck
        if self.all_stuck or not stuck:
            return [len(unit.pods) if stuck else 0 for unit in units]
        return [sum([pod.uid in stuck for pod in unit.pods]) for unit in units]

    def unlike(self, units: Sequence[PreemptionUnit]) -> list[int] | None:
        """Return `restartless`; None if it counts no pod of any unit, or every pod of all."""
        return self.restartless(units) if self.stuck and not self.all_stuck else None

    def columns(self, units: Sequence[PreemptionUnit], violates: Sequence[bool]) -> EvictionUnits:
        """Return units, in order of importance, for criteria; `violates`: which of them violate a budget."""
        return EvictionUnits(
            cluster=self.cluster,
            evaluator=self.evaluator,
            names=[unit.name for unit in units],
            pods=[unit.pods for unit in units],
            rows=[unit.rows for unit in units],
            priorities=np.array([unit.priority for unit in units], dtype=np.int64),
            starts=np.array([unit.start for unit in units], dtype=np.float64),
            violates=np.array(violates, dtype=np.bool_),
            scheduled=self.scheduled,
            slack=self.slack,
            stuck=self.stuck,
        )


def criteria_of(
    names: Sequence[str], plugins: Sequence[Plugin] = (), where: str = "cost", *, depth: int = 0
) -> Criteria:
    """Return the criteria of these names; `plugins` may add further ones.

    `depth`: how many rounds of cascades are evaluated. Raises ConfigurationError with the place in the list for an
    unknown or repeated name.
    """
    own = {plugin.name: plugin for plugin in plugins if isinstance(plugin, PreemptionCost)}
    if not names:
        raise ConfigurationError(where, "at least one criterion is needed")
    result: list[PreemptionCost] = []
    for index, name in enumerate(names):
        at = f"{where}[{index}]"
        if name in names[:index]:
            raise ConfigurationError(at, f"{name!r} is given twice")
        if name in IN_TREE:
            if name == Cascade.name and not depth:
                raise ConfigurationError(at, f"{name!r} needs a cascadeDepth of at least 1")
            lost = name == LostWorkCost.name and GangsBroken.name in names
            result.append(LostWorkCost(with_gangs=True) if lost else IN_TREE[name]())
        elif name in own:
            result.append(own[name])
        else:
            hint = did_you_mean(nearest(name, (*IN_TREE, *own)))
            raise ConfigurationError(at, f"{name!r}: no such criterion{hint}; known: {', '.join((*IN_TREE, *own))}")
    return Criteria(tuple(result))


DEFAULT: Final = criteria_of(STANDARD)
UPSTREAM: Final = criteria_of(UPSTREAM_ORDER)


@dataclass(frozen=True, slots=True)
class GuidingWeights:
    """Weights that guide the search: `units[unit]`, and for gangs, budgets and tenants; 0: they do not count.

    These are for each broken gang, each violated budget, and each pod above a limit of its namespace. `budget` is 0 if
    budgets come first.
    """

    units: tuple[float, ...]
    gang: float
    budget: float
    tenant: float


@dataclass(frozen=True, slots=True)
class Pricing:
    """The criteria for a search that tries thousands of evictions: units are numbers, by importance (cost.md 4).

    `weights` guide the search, close to the order of the criteria; `price` decides.
    """

    criteria: Criteria
    columns: EvictionUnits
    vectors: tuple[tuple[float, ...] | None, ...]
    """By criterion: the cost of each unit, if the total is the sum of its parts."""
    weights: GuidingWeights
    budgets_first: bool
    """Whether a violated budget weighs more than anything else."""
    by_limit: bool
    """Whether the highest priority decides before anything except budgets."""

    @property
    def limited_later(self) -> bool:
        """Return whether the highest priority counts, but not first."""
        return not self.by_limit and HighestPriority.name in self.criteria.names

    @property
    def counts_tenants(self) -> bool:
        """Return whether the number of pods that a namespace loses counts."""
        return TenantSpread.name in self.criteria.names

    def within_tenants(self) -> "Pricing":
        """Return the same for a search with a limit of pods for each namespace: units within it cost nothing extra."""
        alone = [cost.of_units(self.columns) for cost in self.criteria.costs]
        return replace(self, weights=_weights(self.criteria, self.columns, alone, limited_tenants=True))

    def price(self, victim_indices: Sequence[int], violations: Sequence[bool], gangs: int) -> Cost:
        """Return the cost of evicting these units, given by ascending number.

        `violations` are counted over them, and so are the `gangs` that fall below their minimum.
        """
        total: list[float] = []
        victims: EvictionUnits | None = None
        for cost, vector in zip(self.criteria.costs, self.vectors, strict=True):
            if isinstance(cost, PdbViolations):
                total.append(sum(violations))
            elif isinstance(cost, GangsBroken):
                total.append(gangs)
            elif vector is not None:
                total.append(sum([vector[unit] for unit in victim_indices]))
            elif isinstance(cost, HighestPriority):
                total.append(float(self.columns.priorities[victim_indices[0]]))
            else:
                if victims is None:
                    victims = _some(self.columns, victim_indices, violations)
                total.append(cost.total(victims))
        return tuple(total)


def pricing_of(
    criteria: Criteria, units: Sequence[PreemptionUnit], violates: Sequence[bool], costing: Costing | None
) -> Pricing | None:
    """Return the pricing; None for a native comparison, which the search implements."""
    if criteria.native:
        return None
    assert costing is not None
    columns = costing.columns(units, violates)
    alone = [cost.of_units(columns) for cost in criteria.costs]
    vectors = [
        tuple(vector.tolist()) if cost.additive and not isinstance(cost, PdbViolations) else None
        for cost, vector in zip(criteria.costs, alone, strict=True)
    ]
    names = criteria.names
    budgets_first = names[0] == PdbViolations.name
    by_limit = names[int(budgets_first) : int(budgets_first) + 1] == (HighestPriority.name,)
    return Pricing(criteria, columns, tuple(vectors), _weights(criteria, columns, alone), budgets_first, by_limit)


def _weights(
    criteria: Criteria, units: EvictionUnits, alone: Sequence[Costs], *, limited_tenants: bool = False
) -> GuidingWeights:
    """Return the weights that guide the search.

    `alone`: by criterion, the cost of each unit; `limited_tenants`: see `Pricing.within_tenants`.
    """
    sizes = units.sizes.astype(np.float64)
    weight: Costs = _LEAST_WEIGHT * sizes
    scale, gang, budget, tenant = _FIRST_SCALE, 0.0, 0.0, 0.0
    # Units above a priority limit are excluded, and those below it cost nothing extra: it breaks ties.
    pairs = sorted(zip(criteria.costs, alone, strict=True), key=lambda pair: isinstance(pair[0], HighestPriority))
    for cost, vector in pairs:
        if isinstance(cost, PdbViolations):
            if cost is not criteria.costs[0]:
                budget = scale
                scale *= _NEXT_SCALE
            continue
        if isinstance(cost, GangsBroken):
            gang = scale
            scale *= _NEXT_SCALE
            continue
        if isinstance(cost, TenantSpread) and limited_tenants:
            tenant = scale
            scale *= _NEXT_SCALE
            continue
        # A sum of priorities hides them behind its offset.
        parts = (sizes, vector - PRIORITY_OFFSET * sizes) if isinstance(cost, PrioritySum) else (vector,)
        for part in parts:
            finite = part[np.isfinite(part)]
            low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
            if not isinstance(cost, HighestPriority | StartTime):
                low = min(low, 0.0)
            if high > low:
                weight += scale * np.clip((part - low) / (high - low), 0.0, 1.0)
                scale *= _NEXT_SCALE
    return GuidingWeights(tuple(weight.tolist()), gang, budget, tenant)


_LEAST_WEIGHT = 1e-3
_FIRST_SCALE = float(1 << 32)
_NEXT_SCALE = 1e-3
"""Factor between successive criteria in these weights: large enough to mostly keep their order."""


def _some(columns: EvictionUnits, chosen: Sequence[int], violations: Sequence[bool]) -> EvictionUnits:
    """Return the columns of the chosen units."""
    return EvictionUnits(
        cluster=columns.cluster,
        evaluator=columns.evaluator,
        names=[columns.names[unit] for unit in chosen],
        pods=[columns.pods[unit] for unit in chosen],
        rows=[columns.rows[unit] for unit in chosen],
        priorities=columns.priorities[list(chosen)],
        starts=columns.starts[list(chosen)],
        violates=np.array(violations, dtype=np.bool_),
        scheduled=columns.scheduled,
        slack=columns.slack,
        stuck=columns.stuck,
    )
