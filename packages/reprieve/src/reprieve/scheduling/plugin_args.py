"""The args of in-tree plugins in a configuration file, checked and turned into plugins (scheduling.md 6).

Names, defaults and limits are those of `kubescheduler.config.k8s.io/v1`.  An arg that cannot be used is a
`ConfigurationError` with a path that starts at the plugin's args.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kube_rules import objects
from kube_rules.durations import readable_duration
from kube_rules.labels import qualified_name_errors
from kube_rules.meta import Int32
from kube_rules.selectors import SelectorError, compile_node_selector, compile_node_term
from kube_rules.work_annotations import LONGEST
from reprieve.cluster.evictions import DEFAULT_LIMITS, EVICTIONS, REPEATS, SCOPES, EvictionLimit
from reprieve.framework.configuration import ConfigurationError, Int64, converted
from reprieve.framework.configuration_rules import checked_duration
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import Plugin
from reprieve.framework.resource_strategies import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    Strategy,
    requested_to_capacity_ratio,
)
from reprieve.plugins.dynamic_resources import BINDING_TIMEOUT, DynamicResources
from reprieve.plugins.gang_scheduling import (
    ALWAYS,
    ANNOTATED,
    BEST_EFFORT_ATOMIC,
    GREEDY,
    NEVER,
    RETRY,
    GangScheduling,
    ProvisioningOptions,
    RepairOptions,
)
from reprieve.plugins.inter_pod_affinity import InterPodAffinity
from reprieve.plugins.node_affinity import NodeAffinityPlugin
from reprieve.plugins.node_resources_balanced import NodeResourcesBalancedAllocation
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.plugins.pod_topology_spread import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    SYSTEM_DEFAULTS,
    PodTopologySpread,
)
from reprieve.plugins.reservations import EVICT, WAIT, ReservationOptions, ReservationsPlugin
from reprieve.plugins.topology_placement import TopologyPlacement
from reprieve.plugins.volume_binding import VolumeBinding
from reprieve.preemption.cascade import DEEPEST
from reprieve.preemption.criteria import STANDARD, WITH_LIMITS, WITH_WAITS
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import (
    COMPATIBLE,
    HOLD_SECONDS,
    MINIMIZE_VICTIMS,
    MOVE,
    PRIORITY_FLOOR,
    REPRIEVE,
    SCORED,
    SUGGEST,
)

Args = Mapping[str, Any]

_MOST_LIMITS, _MOST_EVICTIONS, _LONGEST_WINDOW = 16, 100_000, 744 * 3600.0
"""Maximum number of eviction limits, of evictions that each counts, and of seconds."""


class _Args(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base class of all args."""

    api_version: str = ""
    kind: str = ""


class _ResourceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    weight: Int64 = 1


_CPU_AND_MEMORY = (_ResourceSpec(name="cpu"), _ResourceSpec(name="memory"))


class _Point(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    utilization: Int32
    score: Int32


class _Ratio(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    shape: tuple[_Point, ...] = ()


class _ScoringStrategy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    type: str = ""
    resources: tuple[_ResourceSpec, ...] = _CPU_AND_MEMORY
    requested_to_capacity_ratio: _Ratio | None = None


class _FitArgs(_Args, frozen=True, kw_only=True):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: _ScoringStrategy = _ScoringStrategy(type="LeastAllocated")


class _BalancedArgs(_Args, frozen=True, kw_only=True):
    resources: tuple[_ResourceSpec, ...] = _CPU_AND_MEMORY


class _EvictionLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ours (cost.md 9)."""

    per: str
    """`cluster`, `namespace`, `owner` or `priorityClass`: evictions are counted for each by itself."""
    most: Int32
    """How many evictions are allowed."""
    within: str
    """The time over which they are counted."""
    count: str = EVICTIONS
    """`Evictions`: every evicted unit; `Repeats`: only units that started after the last eviction that counts."""


class _PreemptionArgs(_Args, frozen=True, kw_only=True):
    """The numbers are accepted; every node is a candidate, nothing is sampled (preemption.md 3).

    The others are ours (preemption.md 4, "Options"; cost.md 1, 5).
    """

    min_candidate_nodes_percentage: Int32 = 10
    """Accepted without effect: every node is a candidate."""
    min_candidate_nodes_absolute: Int32 = 100
    """Accepted without effect: every node is a candidate."""
    victim_search: str = REPRIEVE
    """Ours: `Reprieve` keeps as many potential victims as possible; `PriorityFloor` evicts below one priority."""
    cost: tuple[str, ...] = STANDARD
    """Ours: the criteria that compare evictions, the first that differs decides (cost.md 1)."""
    cascade_depth: Int32 = 0
    """Ours: how many rounds of evictions by evicted pods count (cost.md 3)."""
    placement: str = MINIMIZE_VICTIMS
    """Ours: `MinimizeVictims` places a preempting group at the lowest cost; `Compatible` places it by score."""
    hold_seconds: Int64 = int(HOLD_SECONDS)
    """Ours: how long freed capacity is reserved for a preemptor; 0 reserves it without an end."""
    successor: bool = True
    """Ours: a gang that replaces terminating pods of its controller waits for their capacity instead of evicting."""
    wait_for_completions: str = "0s"
    """Ours: how long a preemptor waits for work that is expected to end, instead of evicting."""
    together: bool = True
    """Ours: preemptors of one priority that are pending at the same time are planned together, with one eviction."""
    wait_for_checkpoint: str = "0s"
    """Ours: how long a preemptor waits for the next checkpoint of its victims before it evicts them. With it and
    without a `cost`, `lostWork` comes before `startTime`."""
    moving: str = SUGGEST
    """Ours: `Move` moves units that are annotated as movable where a pending pod fits then; `Suggest` suggests it."""
    moves_per_hour: Int32 = 60
    """Ours: the most units that are moved within an hour. The first profile counts."""
    eviction_limits: tuple[_EvictionLimit, ...] = tuple(
        _EvictionLimit(per=limit.per, most=limit.most, within=readable_duration(limit.within), count=limit.count)
        for limit in DEFAULT_LIMITS
    )
    """Ours: how often a workload may be evicted; by default no owner repeatedly more than 6 times an hour, `[]`: no
    limit. If one counts every eviction and `cost` is not set, `lostWork` comes after `gangsBroken`."""


class _GangArgs(_Args, frozen=True, kw_only=True):
    """Ours (scheduling.md 3.9, repair.md)."""

    tree_search: str = GREEDY
    """`Retry`: a gang that fails is tried again with other orders of its pods, a tree also with each group limited to
    its minimum first; `Greedy`: one order."""
    repair_first: bool = True
    """A gang that lost members after it was scheduled is tried before all others of its priority. The first profile
    counts."""
    repair_seconds: Int64 = 60
    """How long the capacity of a lost member is kept for its replacement; 0 keeps none."""
    degraded_seconds: Int64 = 300
    """How long a gang with `recovery-policy: Restart` stays below its minimum before it is evicted as a whole; 0:
    forever."""
    provisioning_requests: str = NEVER
    """For which gangs that nothing can place the live scheduler creates a ProvisioningRequest: `Never`, `Annotated`
    (those with `scheduling.reprieve.dev/provisioning-request: "true"`) or `Always` (all but those with `"false"`)."""
    provisioning_after: Int64 = 30
    """Seconds that a gang is unschedulable before nodes are requested."""
    provisioning_class_name: str = BEST_EFFORT_ATOMIC
    """The class of the requests."""


class _TopologyArgs(_Args, frozen=True, kw_only=True):
    """Ours (topology.md 5)."""

    preferences: bool = True
    """Preferred levels, the ranks of members and slices count; `false`: only the constraint of the group does."""


class _QueueingArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ours (reservations.md 8)."""

    ageing: str = "0s"
    """After how long pods and groups that fail to be placed are tried before all others; `0s`: in the order of their
    priority forever. The first profile counts."""


class _ReservationsArgs(_Args, frozen=True, kw_only=True):
    """Ours (reservations.md)."""

    reserve_after: str = "10m"
    """How long a group waits after its first failed attempt until capacity is reserved for it; `0s` reserves none."""
    max_reservations: Int32 = 4
    """How many groups hold a reservation at a time."""
    min_pods: Int32 = 2
    """Groups, trees and pods with fewer pending pods get no reservation; 1 allows them for single pods."""
    backfill_margin: float = 5.0
    """Percent of its stated runtime by which backfilled work may be late without delaying the holder."""
    max_reserved: str = "24h"
    """How long a reservation lasts at most."""
    max_idle_share: float = 0.1
    """Share of the cluster's capacity that may be idle for reservations, over any ten `maxReserved`."""
    backfill_overrun: str = WAIT
    """What happens to backfilled work that runs for longer than it stated: `Wait` for it, or `Evict` it when the holder
    of the capacity is to start."""
    queueing: _QueueingArgs = _QueueingArgs()
    """The order of long-pending workloads."""


class _AffinityArgs(_Args, frozen=True, kw_only=True):
    added_affinity: objects.NodeAffinity | None = None


class _InterPodArgs(_Args, frozen=True, kw_only=True):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class _DefaultConstraint(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: dict[str, Any] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class _SpreadArgs(_Args, frozen=True, kw_only=True):
    default_constraints: tuple[_DefaultConstraint, ...] = ()
    defaulting_type: str = "System"


class _BindingArgs(_Args, frozen=True, kw_only=True):
    bind_timeout_seconds: Int64 = 600
    shape: tuple[_Point, ...] | None = None


# -- resources ------------------------------------------------------------------------------------------------------


def node_resources_fit(_gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for NodeResourcesFitArgs."""
    fit_args = converted(args, _FitArgs)
    for index, resource in enumerate(fit_args.ignored_resources):
        _label_name(f"ignoredResources[{index}]", resource)
    for index, group in enumerate(fit_args.ignored_resource_groups):
        if "/" in group:
            raise ConfigurationError(f"ignoredResourceGroups[{index}]", "resource group name can't contain '/'")
        _label_name(f"ignoredResourceGroups[{index}]", group)
    chosen = fit_args.scoring_strategy
    resources = _weighted(chosen.resources, "scoringStrategy.resources")
    return NodeResourcesFit(
        resources,
        _strategy(chosen),
        ignored=fit_args.ignored_resources,
        ignored_groups=fit_args.ignored_resource_groups,
    )


def _strategy(chosen: _ScoringStrategy) -> Strategy:
    ratio = chosen.type == "RequestedToCapacityRatio"
    if chosen.requested_to_capacity_ratio is not None and not ratio:
        where = "scoringStrategy.requestedToCapacityRatio"
        raise ConfigurationError(where, "must be nil when type is not RequestedToCapacityRatio")
    if chosen.type == "LeastAllocated":
        return LEAST_ALLOCATED
    if chosen.type == "MostAllocated":
        return MOST_ALLOCATED
    if not ratio:
        types = "LeastAllocated, MostAllocated or RequestedToCapacityRatio"
        raise ConfigurationError("scoringStrategy.type", f"{chosen.type!r}: expected {types}")
    if chosen.requested_to_capacity_ratio is None:
        where = "scoringStrategy.requestedToCapacityRatio"
        raise ConfigurationError(where, "must be specified when type is RequestedToCapacityRatio")
    where = "scoringStrategy.requestedToCapacityRatio.shape"
    shape = chosen.requested_to_capacity_ratio.shape
    if not shape:
        raise ConfigurationError(where, "at least one point must be specified")
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            raise ConfigurationError(f"{where}[{index}].utilization", f"{point.utilization}: not in range 0 to 100")
        if not 0 <= point.score <= 10:
            raise ConfigurationError(f"{where}[{index}].score", f"{point.score}: not in range 0 to 10")
        if index and point.utilization <= shape[index - 1].utilization:
            raise ConfigurationError(f"{where}[{index}].utilization", "values must be sorted in increasing order")
    return requested_to_capacity_ratio([(point.utilization, point.score) for point in shape])


def _weighted(resources: Sequence[_ResourceSpec], where: str) -> tuple[tuple[str, int], ...]:
    """Return (name, weight) pairs; an empty list means cpu and memory, a weight of 0 means 1."""
    result = []
    for index, resource in enumerate(resources or _CPU_AND_MEMORY):
        weight = resource.weight or 1
        if not 1 <= weight <= 100:
            raise ConfigurationError(
                f"{where}[{index}].weight", f"resource weight of {resource.name} not in valid range [1, 100]"
            )
        result.append((resource.name, weight))
    return tuple(result)


def node_resources_balanced(_gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for NodeResourcesBalancedAllocationArgs."""
    resources = _weighted(converted(args, _BalancedArgs).resources, "resources")
    for index, (name, weight) in enumerate(resources):
        if name in {earlier for earlier, _ in resources[:index]}:
            raise ConfigurationError(f"resources[{index}].name", f"{name!r} is given twice")
        if weight != 1:
            raise ConfigurationError(f"resources[{index}].weight", f"resource weight of {name} should be 1")
    return NodeResourcesBalancedAllocation([name for name, _ in resources])


# -- affinity and spread --------------------------------------------------------------------------------------------


def node_affinity(_gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for NodeAffinityArgs."""
    added = converted(args, _AffinityArgs).added_affinity
    if added is not None:
        where = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        try:
            if added.required_during_scheduling_ignored_during_execution is not None:
                compile_node_selector(added.required_during_scheduling_ignored_during_execution)
            for index, preferred in enumerate(added.preferred_during_scheduling_ignored_during_execution):
                where = f"addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
                compile_node_term(preferred.preference)
        except SelectorError as error:
            raise ConfigurationError(where, str(error)) from None
    return NodeAffinityPlugin(added)


def inter_pod_affinity(_gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for InterPodAffinityArgs."""
    affinity = converted(args, _InterPodArgs)
    weight = affinity.hard_pod_affinity_weight
    if not 0 <= weight <= 100:
        raise ConfigurationError("hardPodAffinityWeight", f"{weight}: not in valid range [0-100]")
    return InterPodAffinity(hard_weight=weight, ignore_preferred=affinity.ignore_preferred_terms_of_existing_pods)


def pod_topology_spread(_gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for PodTopologySpreadArgs."""
    spread = converted(args, _SpreadArgs)
    _one_of("defaultingType", spread.defaulting_type, ("System", "List"))
    if spread.defaulting_type == "System":
        if spread.default_constraints:
            raise ConfigurationError("defaultConstraints", "when .defaultingType is System, must be empty")
        return PodTopologySpread(SYSTEM_DEFAULTS)
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(spread.default_constraints):
        same = (constraint.topology_key, constraint.when_unsatisfiable)
        if same in seen:
            text = f"{{{same[0]}, {same[1]}}} is given twice"
            raise ConfigurationError(f"defaultConstraints[{index}]", text)
        seen.add(same)
    return PodTopologySpread(
        [_default(c, f"defaultConstraints[{index}]") for index, c in enumerate(spread.default_constraints)],
        system=False,
    )


def _default(constraint: _DefaultConstraint, where: str) -> objects.TopologySpreadConstraint:
    if constraint.max_skew <= 0:
        raise ConfigurationError(f"{where}.maxSkew", f"{constraint.max_skew}: must be greater than zero")
    if not constraint.topology_key:
        raise ConfigurationError(f"{where}.topologyKey", "can not be empty")
    _label_name(f"{where}.topologyKey", constraint.topology_key)
    _one_of(f"{where}.whenUnsatisfiable", constraint.when_unsatisfiable, (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY))
    if constraint.label_selector is not None:
        message = "constraint must not define a selector, as they deduced for each pod"
        raise ConfigurationError(f"{where}.labelSelector", message)
    return objects.TopologySpreadConstraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        when_unsatisfiable=constraint.when_unsatisfiable,
        min_domains=constraint.min_domains,
        node_affinity_policy=constraint.node_affinity_policy or "Honor",
        node_taints_policy=constraint.node_taints_policy or "Ignore",
    )


# -- devices --------------------------------------------------------------------------------------------------------


class _DynamicResourcesArgs(_Args, frozen=True, kw_only=True):
    filter_timeout: str = "10s"
    binding_timeout: str = f"{BINDING_TIMEOUT:g}s"


def dynamic_resources(gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for DynamicResourcesArgs. `filterTimeout` is not used: steps, not time, limit the search."""
    devices = converted(args, _DynamicResourcesArgs)
    if checked_duration("filterTimeout", devices.filter_timeout) < 0:
        raise ConfigurationError("filterTimeout", "must be zero or positive")
    seconds = checked_duration("bindingTimeout", devices.binding_timeout)
    if seconds < 1:
        raise ConfigurationError("bindingTimeout", "must be at least 1 second")
    return DynamicResources(binding_timeout=seconds, group_claims=gates.dra_workload_resource_claims)


def _lasting(path: str, value: str | int) -> float:
    """Return a time in seconds that may be zero."""
    seconds = float(value) if isinstance(value, int) else checked_duration(path, value)
    if not 0 <= seconds <= LONGEST:
        raise ConfigurationError(path, f"{value}: must be zero or positive, and at most ten years")
    return seconds


def _within(path: str, value: float, least: int, most: int) -> None:
    if not least <= value <= most:
        shown = f"{value:g}" if isinstance(value, float) else value
        raise ConfigurationError(path, f"{shown}: not in valid range [{least}, {most}]")


# -- preemption -----------------------------------------------------------------------------------------------------


def default_preemption(gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for DefaultPreemptionArgs."""
    preemption = converted(args, _PreemptionArgs)
    percentage, absolute = preemption.min_candidate_nodes_percentage, preemption.min_candidate_nodes_absolute
    _within("minCandidateNodesPercentage", percentage, 0, 100)
    if absolute < 0:
        raise ConfigurationError("minCandidateNodesAbsolute", f"{absolute}: not in valid range [0, inf)")
    if percentage == absolute == 0:
        text = "cannot be zero at the same time as minCandidateNodesAbsolute"
        raise ConfigurationError("minCandidateNodesPercentage", text)
    _within("cascadeDepth", preemption.cascade_depth, 0, DEEPEST)
    _one_of("victimSearch", preemption.victim_search, (REPRIEVE, PRIORITY_FLOOR))
    _one_of("placement", preemption.placement, (COMPATIBLE, MINIMIZE_VICTIMS, SCORED))
    hold = _lasting("holdSeconds", preemption.hold_seconds)
    wait = _lasting("waitForCompletions", preemption.wait_for_completions)
    checkpoint = _lasting("waitForCheckpoint", preemption.wait_for_checkpoint)
    _one_of("moving", preemption.moving, (SUGGEST, MOVE))
    _within("movesPerHour", preemption.moves_per_hour, 1, _MOST_EVICTIONS)
    limits = _eviction_limits(preemption.eviction_limits)
    cost = preemption.cost
    if "cost" not in args:
        counted = any(limit.count == EVICTIONS for limit in limits)
        cost = WITH_LIMITS if counted else WITH_WAITS if checkpoint else cost
    options = PreemptionOptions(
        group_policy=gates.pod_group_preemption_policy,
        victim_search=preemption.victim_search,
        placement=preemption.placement,
        hold_seconds=hold,
        successor=preemption.successor,
        wait_for_completions=wait,
        together=preemption.together,
        wait_for_checkpoint=checkpoint,
        moves=preemption.moving == MOVE,
        moves_per_hour=preemption.moves_per_hour,
        cost=cost,
        cascade_depth=preemption.cascade_depth,
        eviction_limits=limits,
    )
    return DefaultPreemption(options)


def _eviction_limits(specs: Sequence[_EvictionLimit]) -> tuple[EvictionLimit, ...]:
    if len(specs) > _MOST_LIMITS:
        raise ConfigurationError("evictionLimits", f"{len(specs)} limits: at most {_MOST_LIMITS}")
    result = []
    for index, limit in enumerate(specs):
        where = f"evictionLimits[{index}]"
        _one_of(f"{where}.per", limit.per, SCOPES)
        _one_of(f"{where}.count", limit.count, (EVICTIONS, REPEATS))
        _within(f"{where}.most", limit.most, 1, _MOST_EVICTIONS)
        seconds = checked_duration(f"{where}.within", limit.within)
        if not 1 <= seconds <= _LONGEST_WINDOW:
            raise ConfigurationError(f"{where}.within", f"{limit.within}: must be at least 1s, and at most 744h")
        result.append(EvictionLimit(limit.per, limit.most, seconds, limit.count))
    return tuple(result)


# -- groups ---------------------------------------------------------------------------------------------------------


def gang_scheduling(_gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for GangSchedulingArgs; kube-scheduler's plugin has none."""
    gangs = converted(args, _GangArgs)
    _one_of("treeSearch", gangs.tree_search, (GREEDY, RETRY))
    repair_seconds, degraded = (
        _lasting("repairSeconds", gangs.repair_seconds),
        _lasting("degradedSeconds", gangs.degraded_seconds),
    )
    repair = RepairOptions(gangs.repair_first, repair_seconds, degraded)
    _one_of("provisioningRequests", gangs.provisioning_requests, (NEVER, ANNOTATED, ALWAYS))
    after = _lasting("provisioningAfter", gangs.provisioning_after)
    if not gangs.provisioning_class_name:
        raise ConfigurationError("provisioningClassName", "must not be empty")
    provisioning = ProvisioningOptions(gangs.provisioning_requests, after, gangs.provisioning_class_name)
    return GangScheduling(gangs.tree_search, repair, provisioning)


def topology_placement(_gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for TopologyPlacementArgs; kube-scheduler's plugin has none."""
    return TopologyPlacement(follows_terms=converted(args, _TopologyArgs).preferences)


def reservations(_gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for ReservationsArgs; kube-scheduler has no such plugin."""
    spec = converted(args, _ReservationsArgs)
    after, longest = _lasting("reserveAfter", spec.reserve_after), checked_duration("maxReserved", spec.max_reserved)
    if not 0 < longest <= LONGEST:
        raise ConfigurationError("maxReserved", f"{spec.max_reserved}: must be positive, and at most ten years")
    _within("maxReservations", spec.max_reservations, 1, 64)
    _within("minPods", spec.min_pods, 1, 1 << 20)
    _within("backfillMargin", spec.backfill_margin, 0, 1000)
    _within("maxIdleShare", spec.max_idle_share, 0, 1)
    _one_of("backfillOverrun", spec.backfill_overrun, (WAIT, EVICT))
    ageing = _lasting("queueing.ageing", spec.queueing.ageing)
    return ReservationsPlugin(
        ReservationOptions(
            reserve_after=after,
            max_reservations=spec.max_reservations,
            min_pods=spec.min_pods,
            backfill_margin=spec.backfill_margin / 100,
            max_reserved=longest,
            max_idle_share=spec.max_idle_share,
            evict_overrun=spec.backfill_overrun == EVICT,
            ageing=ageing,
        )
    )


def _label_name(path: str, name: str) -> None:
    for problem in qualified_name_errors(name):
        raise ConfigurationError(path, f"{name!r}: {problem}")


def _one_of(path: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigurationError(path, f"{value!r}: expected {' or '.join(allowed)}")


# -- volumes --------------------------------------------------------------------------------------------------------


def volume_binding(_gates: FeatureGates, args: Args) -> Plugin:
    """Return the plugin for VolumeBindingArgs."""
    binding = converted(args, _BindingArgs)
    if binding.bind_timeout_seconds < 0:
        message = "invalid BindTimeoutSeconds, should not be a negative value"
        raise ConfigurationError("bindTimeoutSeconds", message)
    if binding.shape is not None:
        raise ConfigurationError("shape", "unexpected field `shape`, feature StorageCapacityScoring is disabled")
    return VolumeBinding(float(binding.bind_timeout_seconds))
