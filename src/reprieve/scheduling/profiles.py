"""The plugins that come with the product, and profiles made of them.

Order and score weights are kube-scheduler's (scheduling.md 5).  A configuration changes them the way upstream's does:
`multiPoint` enables or disables a plugin wherever it has something to say, a single extension point overrides that.
"""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

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
from reprieve.plugins.image_locality import ImageLocality
from reprieve.plugins.node_name import NodeName
from reprieve.plugins.node_ports import NodePorts
from reprieve.plugins.node_unschedulable import NodeUnschedulable
from reprieve.plugins.pod_group_pods_count import PodGroupPodsCount
from reprieve.plugins.priority_sort import PrioritySort
from reprieve.plugins.scheduling_gates import SchedulingGates
from reprieve.plugins.taint_toleration import TaintToleration
from reprieve.plugins.topology_placement import TopologyPlacement
from reprieve.scheduling.plugin_args import (
    Args,
    default_preemption,
    inter_pod_affinity,
    node_affinity,
    node_resources_balanced,
    node_resources_fit,
    pod_topology_spread,
)

DEFAULT_SCHEDULER = "default-scheduler"
Factory = Callable[[FeatureGates, Args], Plugin]


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
    "NodeAffinity": node_affinity,
    "NodePorts": _plain(NodePorts),
    "NodeResourcesFit": node_resources_fit,
    "PodTopologySpread": pod_topology_spread,
    "InterPodAffinity": inter_pod_affinity,
    "GangScheduling": _plain(GangScheduling),
    "TopologyPlacement": _plain(TopologyPlacement),
    "PodGroupPodsCount": _plain(PodGroupPodsCount),
    "DefaultPreemption": default_preemption,
    "NodeResourcesBalancedAllocation": node_resources_balanced,
    "ImageLocality": _plain(ImageLocality),
    "DefaultBinder": _plain(DefaultBinder),
}
"""In-tree plugins by name, in the order they run."""

LATER = frozenset(
    {
        "DynamicResources",
        "NodeDeclaredFeatures",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    }
)
"""Upstream's plugins that are not here yet: they may be disabled or given args, and pods that need them are refused."""

_ALSO_CALLED = {"TopologyPlacementGenerator": "TopologyPlacement"}
"""Names by which configuration files written for kube-scheduler call plugins of ours."""

DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
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
    configuration = _by_our_names(configuration)
    plugins = configuration.plugins
    names, weights = _multi_point(plugins, f"{path}.plugins.multiPoint")
    placement_weights = {ref.name: ref.weight or 1 for ref in plugins.multi_point.enabled}
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
            elif point == "placementScore":
                placement_weights[ref.name] = ref.weight or 1
    args = _args(configuration, path)
    built = [_build(name, gates, *args.get(name, ({}, ""))) for name in names]
    return Profile(configuration.scheduler_name, built, weights, frozenset(disabled), placement_weights)


def _by_our_names(configuration: ProfileConfiguration) -> ProfileConfiguration:
    """The same with plugins called as they are called here."""

    def renamed(chosen: PluginSet) -> PluginSet:
        return PluginSet(
            enabled=tuple(replace(ref, name=_ALSO_CALLED.get(ref.name, ref.name)) for ref in chosen.enabled),
            disabled=tuple(replace(entry, name=_ALSO_CALLED.get(entry.name, entry.name)) for entry in chosen.disabled),
        )

    plugins = configuration.plugins
    points = {field: renamed(getattr(plugins, field)) for field in plugins.__struct_fields__}
    config = tuple(replace(c, name=_ALSO_CALLED.get(c.name, c.name)) for c in configuration.plugin_config)
    return replace(configuration, plugins=Plugins(**points), plugin_config=config)


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
