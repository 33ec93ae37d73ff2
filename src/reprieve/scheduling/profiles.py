"""The plugins that come with the product, and profiles made of them.

Order and score weights are kube-scheduler's (scheduling.md 5).  A configuration changes them the way upstream's does:
`multiPoint` enables or disables a plugin wherever it has something to say, a single extension point overrides that.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from reprieve.cluster.resources import CPU, MEMORY, SCORING_CPU, SCORING_MEMORY
from reprieve.framework.configuration import (
    ConfigurationError,
    Plugins,
    PluginSet,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import Plugin
from reprieve.framework.profile import Profile
from reprieve.plugins.default_binder import DefaultBinder
from reprieve.plugins.gang_scheduling import GangScheduling
from reprieve.plugins.node_affinity import NodeAffinity
from reprieve.plugins.node_name import NodeName
from reprieve.plugins.node_ports import NodePorts
from reprieve.plugins.node_resources_balanced import NodeResourcesBalancedAllocation
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.plugins.node_unschedulable import NodeUnschedulable
from reprieve.plugins.priority_sort import PrioritySort
from reprieve.plugins.scheduling_gates import SchedulingGates
from reprieve.plugins.taint_toleration import TaintToleration
from reprieve.preemption.default_preemption import DefaultPreemption

DEFAULT_SCHEDULER = "default-scheduler"
Args = Mapping[str, Any]
Factory = Callable[[FeatureGates, Args], Plugin]


class _ResourceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    weight: int = 1


class _ScoringStrategy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    type: str = "LeastAllocated"
    resources: tuple[_ResourceSpec, ...] = (_ResourceSpec(name="cpu"), _ResourceSpec(name="memory"))
    requested_to_capacity_ratio: dict[str, Any] | None = None


class _FitArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    api_version: str = ""
    kind: str = "NodeResourcesFitArgs"
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: _ScoringStrategy = _ScoringStrategy()


class _BalancedArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    api_version: str = ""
    kind: str = "NodeResourcesBalancedAllocationArgs"
    resources: tuple[_ResourceSpec, ...] = (_ResourceSpec(name="cpu"), _ResourceSpec(name="memory"))


class _PreemptionArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Accepted; every node is a candidate, nothing is sampled (preemption.md 3)."""

    api_version: str = ""
    kind: str = "DefaultPreemptionArgs"
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class _AffinityArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    api_version: str = ""
    kind: str = "NodeAffinityArgs"
    added_affinity: dict[str, Any] | None = None


_SCORING_COLUMNS = {"cpu": SCORING_CPU, "memory": SCORING_MEMORY}
_REAL_COLUMNS = {"cpu": CPU, "memory": MEMORY}


def _fit(_gates: FeatureGates, args: Args) -> Plugin:
    found = msgspec.convert(args, _FitArgs)
    strategy = found.scoring_strategy
    if strategy.type not in ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"):
        raise ConfigurationError("scoringStrategy.type", f"{strategy.type!r}: want LeastAllocated")
    if strategy.type != "LeastAllocated" or found.ignored_resources or found.ignored_resource_groups:
        what = "ignored resources" if strategy.type == "LeastAllocated" else f"strategy {strategy.type}"
        raise ConfigurationError("scoringStrategy", f"{what}: not supported yet")
    weights = tuple((_column(r, _SCORING_COLUMNS), r.weight) for r in strategy.resources)
    return NodeResourcesFit(weights)


def _balanced(_gates: FeatureGates, args: Args) -> Plugin:
    found = msgspec.convert(args, _BalancedArgs)
    return NodeResourcesBalancedAllocation(tuple(_column(r, _REAL_COLUMNS) for r in found.resources))


def _column(resource: _ResourceSpec, columns: Mapping[str, int]) -> int:
    if resource.name not in columns:
        raise ConfigurationError("resources", f"scoring by {resource.name!r} is not supported yet: cpu and memory are")
    if not 1 <= resource.weight <= 100:
        raise ConfigurationError("resources", f"weight {resource.weight} of {resource.name!r}: want 1 to 100")
    return columns[resource.name]


def _affinity(_gates: FeatureGates, args: Args) -> Plugin:
    if msgspec.convert(args, _AffinityArgs).added_affinity:
        raise ConfigurationError("addedAffinity", "not supported yet")
    return NodeAffinity()


def _preemption(gates: FeatureGates, args: Args) -> Plugin:
    msgspec.convert(args, _PreemptionArgs)
    return DefaultPreemption(group_policy=gates.pod_group_preemption_policy)


def _plain(make: Callable[[], Plugin]) -> Factory:
    def build(_gates: FeatureGates, args: Args) -> Plugin:
        if set(args) - {"apiVersion", "kind"}:
            raise ConfigurationError("", "this plugin takes no args")
        return make()

    return build


REGISTRY: dict[str, Factory] = {
    "SchedulingGates": _plain(SchedulingGates),
    "PrioritySort": _plain(PrioritySort),
    "NodeUnschedulable": _plain(NodeUnschedulable),
    "NodeName": _plain(NodeName),
    "TaintToleration": _plain(TaintToleration),
    "NodeAffinity": _affinity,
    "NodePorts": _plain(NodePorts),
    "NodeResourcesFit": _fit,
    "GangScheduling": _plain(GangScheduling),
    "DefaultPreemption": _preemption,
    "NodeResourcesBalancedAllocation": _balanced,
    "DefaultBinder": _plain(DefaultBinder),
}
"""In-tree plugins by name, in the order they run."""

LATER = frozenset(
    {
        "DynamicResources",
        "ImageLocality",
        "InterPodAffinity",
        "NodeDeclaredFeatures",
        "NodeVolumeLimits",
        "PodGroupPodsCount",
        "PodTopologySpread",
        "TopologyPlacement",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    }
)
"""Upstream's plugins that are not here yet: they may be disabled or given args, and pods that need them are refused."""

DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
}

_POINTS = {
    "preEnqueue": "PreEnqueuePlugin",
    "queueSort": "QueueSortPlugin",
    "filter": "FilterPlugin",
    "postFilter": "PostFilterPlugin",
    "podGroupPostFilter": "PodGroupPostFilterPlugin",
    "score": "ScorePlugin",
    "reserve": "ReservePlugin",
    "permit": "PermitPlugin",
    "preBind": "PreBindPlugin",
    "bind": "BindPlugin",
    "postBind": "PostBindPlugin",
    "placementGenerate": "PlacementGeneratePlugin",
    "placementScore": "PlacementScorePlugin",
    "placementFeasible": "PlacementFeasiblePlugin",
}
_COVERED = {"preFilter": "filter", "preScore": "score"}
"""Points that are one with another here: they can only be switched together with it."""


def default_profile(gates: FeatureGates, name: str = DEFAULT_SCHEDULER) -> Profile:
    """All in-tree plugins with their default weights."""
    return Profile(name, [make(gates, {}) for make in REGISTRY.values()], dict(DEFAULT_WEIGHTS))


def profiles_of(configuration: SchedulerConfiguration, gates: FeatureGates) -> tuple[Profile, ...]:
    """The profiles of a configuration. Raises ConfigurationError naming the path in the file."""
    if not configuration.profiles:
        return (default_profile(gates),)
    found = tuple(_profile(p, gates, f"profiles[{i}]") for i, p in enumerate(configuration.profiles))
    for index, profile in enumerate(found):
        try:
            sort = profile.queue_sort.name
        except ValueError as error:
            raise ConfigurationError(f"profiles[{index}].plugins.queueSort", str(error)) from None
        if sort != found[0].queue_sort.name:
            raise ConfigurationError(f"profiles[{index}].plugins.queueSort", "must be the same in all profiles")
    return found


def _profile(configuration: ProfileConfiguration, gates: FeatureGates, path: str) -> Profile:
    plugins = configuration.plugins
    names, weights = _multi_point(plugins, f"{path}.plugins.multiPoint")
    disabled: set[tuple[str, str]] = set()
    for point, chosen in plugins.points():
        where = f"{path}.plugins.{point}"
        if point in _COVERED:
            _check_covered(plugins, point, chosen, where)
            continue
        kind = _POINTS[point]
        for entry in chosen.disabled:
            _known(entry.name, where + ".disabled", wildcard=True)
            disabled |= {(kind, name) for name in (names if entry.name == "*" else [entry.name])}
        for ref in chosen.enabled:
            _known(ref.name, where + ".enabled")
            if ref.name not in names:
                names.append(ref.name)
                disabled |= {(other, ref.name) for other in _POINTS.values() if other != kind}
            disabled.discard((kind, ref.name))
            if point == "score":
                weights[ref.name] = ref.weight or DEFAULT_WEIGHTS.get(ref.name, 1)
    args = _args(configuration, path)
    built = [_build(name, gates, *args.get(name, ({}, ""))) for name in names]
    return Profile(configuration.scheduler_name, built, weights, frozenset(disabled))


def _multi_point(plugins: Plugins, where: str) -> tuple[list[str], dict[str, int]]:
    off = {entry.name for entry in plugins.multi_point.disabled}
    for name in sorted(off):
        _known(name, f"{where}.disabled", wildcard=True)
    names = [name for name in REGISTRY if name not in off and "*" not in off]
    weights = {name: weight for name, weight in DEFAULT_WEIGHTS.items() if name in names}
    for ref in plugins.multi_point.enabled:
        _known(ref.name, f"{where}.enabled")
        if ref.name not in names:
            names.append(ref.name)
        weights[ref.name] = ref.weight or DEFAULT_WEIGHTS.get(ref.name, 1)
    return names, weights


def _check_covered(plugins: Plugins, point: str, chosen: PluginSet, where: str) -> None:
    other = _COVERED[point]
    wider = {e.name for e in getattr(plugins, other).disabled} | {e.name for e in plugins.multi_point.disabled}
    for entry in chosen.disabled:
        _known(entry.name, where + ".disabled", wildcard=True)
        if entry.name not in wider and "*" not in wider and entry.name not in LATER:
            raise ConfigurationError(where, f"{entry.name!r} can only be disabled together with {other}")
    for ref in chosen.enabled:
        _known(ref.name, where + ".enabled")


def _known(name: str, where: str, *, wildcard: bool = False) -> None:
    if name in REGISTRY or (wildcard and (name == "*" or name in LATER)):
        return
    if name in LATER:
        raise ConfigurationError(where, f"plugin {name!r} is not supported yet")
    raise ConfigurationError(where, f"unknown plugin {name!r}; known: {', '.join(sorted(REGISTRY))}")


def _args(configuration: ProfileConfiguration, path: str) -> dict[str, tuple[Args, str]]:
    found: dict[str, tuple[Args, str]] = {}
    for index, config in enumerate(configuration.plugin_config):
        where = f"{path}.pluginConfig[{index}]"
        _known(config.name, f"{where}.name", wildcard=True)
        found[config.name] = (config.args, f"{where}.args")
    return found


def _build(name: str, gates: FeatureGates, args: Args, where: str) -> Plugin:
    try:
        return REGISTRY[name](gates, args)
    except ConfigurationError as error:
        raise ConfigurationError(".".join(filter(None, (where, error.path))), error.message) from None
    except msgspec.ValidationError as error:
        message, _, at = str(error).partition(" - at ")
        path = at.strip("`").removeprefix("$").removeprefix(".")
        raise ConfigurationError(".".join(filter(None, (where, path))), message) from None
