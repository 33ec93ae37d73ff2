"""The plugins of the product, and profiles made from them.

Order and score weights are kube-scheduler's (scheduling.md 5).  `configured_profiles` applies a configuration to them,
`third_party_plugins` finds other plugins.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from kube_rules.objects import DEFAULT_SCHEDULER
from reprieve.framework.configuration import (
    ConfigurationError,
    PluginConfig,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import Plugin
from reprieve.framework.plugin_guard import CallPolicy
from reprieve.framework.profile import Profile
from reprieve.plugins.default_binder import DefaultBinder
from reprieve.plugins.image_locality import ImageLocality
from reprieve.plugins.node_declared_features import NodeDeclaredFeatures
from reprieve.plugins.node_name import NodeName
from reprieve.plugins.node_ports import NodePorts
from reprieve.plugins.node_unschedulable import NodeUnschedulable
from reprieve.plugins.node_volume_limits import NodeVolumeLimits
from reprieve.plugins.pod_group_pods_count import PodGroupPodsCount
from reprieve.plugins.priority_sort import PrioritySort
from reprieve.plugins.scheduling_gates import SchedulingGates
from reprieve.plugins.taint_toleration import TaintToleration
from reprieve.plugins.volume_restrictions import VolumeRestrictions
from reprieve.plugins.volume_zone import VolumeZone
from reprieve.preemption.criteria import UPSTREAM_ORDER
from reprieve.preemption.outcome import COMPATIBLE
from reprieve.scheduling.configured_profiles import Args, Factory, Registry, profile_of
from reprieve.scheduling.plugin_args import (
    default_preemption,
    dynamic_resources,
    gang_scheduling,
    inter_pod_affinity,
    node_affinity,
    node_resources_balanced,
    node_resources_fit,
    pod_topology_spread,
    reservations,
    topology_placement,
    volume_binding,
)
from reprieve.scheduling.third_party_plugins import NO_THIRD_PARTY, ThirdParty


def _gated(make: Callable[[FeatureGates], Plugin]) -> Factory:
    def build(gates: FeatureGates, args: Args) -> Plugin:
        if set(args) - {"apiVersion", "kind"}:
            raise ConfigurationError("", "this plugin takes no args")
        return make(gates)

    return build


def _plain(make: Callable[[], Plugin]) -> Factory:
    return _gated(lambda _gates: make())


REGISTRY: dict[str, Factory] = {
    "SchedulingGates": _plain(SchedulingGates),
    "PrioritySort": _plain(PrioritySort),
    "NodeUnschedulable": _plain(NodeUnschedulable),
    "NodeName": _plain(NodeName),
    "TaintToleration": _plain(TaintToleration),
    "NodeAffinity": node_affinity,
    "NodePorts": _plain(NodePorts),
    "NodeResourcesFit": node_resources_fit,
    "VolumeRestrictions": _plain(VolumeRestrictions),
    "NodeVolumeLimits": _gated(lambda gates: NodeVolumeLimits(scaling=gates.volume_limit_scaling)),
    "VolumeBinding": volume_binding,
    "VolumeZone": _plain(VolumeZone),
    "PodTopologySpread": pod_topology_spread,
    "InterPodAffinity": inter_pod_affinity,
    "GangScheduling": gang_scheduling,
    "TopologyPlacement": topology_placement,
    "PodGroupPodsCount": _plain(PodGroupPodsCount),
    "DynamicResources": dynamic_resources,
    "NodeDeclaredFeatures": _gated(lambda gates: NodeDeclaredFeatures(on=gates.node_declared_features)),
    "DefaultPreemption": default_preemption,
    "Reservations": reservations,
    "NodeResourcesBalancedAllocation": node_resources_balanced,
    "ImageLocality": _plain(ImageLocality),
    "DefaultBinder": _plain(DefaultBinder),
}
"""In-tree plugins by name, in the order they run."""

_ALSO_CALLED = {"TopologyPlacementGenerator": "TopologyPlacement"}
"""Names of our plugins in configuration files for kube-scheduler."""

IN_TREE_NAMES = frozenset({*REGISTRY, *_ALSO_CALLED})
"""Names third-party plugins cannot have."""

DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


_PLACED_BY_SCORE: Mapping[str, Mapping[str, str | int | list[str] | dict[str, str]]] = {
    "DefaultPreemption": {
        "placement": COMPATIBLE,
        "cost": [*UPSTREAM_ORDER],
        "cascadeDepth": 0,
        "holdSeconds": 0,
        "successor": False,
        "waitForCompletions": "0s",
        "waitForCheckpoint": "0s",
        "together": False,
        "moving": "Suggest",
        "evictionLimits": [],
    },
    "GangScheduling": {"repairFirst": False, "repairSeconds": 0, "degradedSeconds": 0},
    "Reservations": {"reserveAfter": "0s", "queueing": {"ageing": "0s"}},
    "TopologyPlacement": {"preferences": False},
}
"""Args that place a preempting group as kube-scheduler does, whatever the configuration. Reservations, repair,
preferred levels, ranks and slices are off, as kube-scheduler has none.
"""


def default_profile(gates: FeatureGates, name: str = DEFAULT_SCHEDULER, *, compatible: bool = False) -> Profile:
    """Return all in-tree plugins with their default weights; `compatible` as in `profiles_of`."""
    args = _PLACED_BY_SCORE if compatible else {}
    plugins = [make(gates, args.get(plugin, {})) for plugin, make in REGISTRY.items()]
    return Profile(name, plugins, dict(DEFAULT_WEIGHTS))


def profiles_of(
    configuration: SchedulerConfiguration,
    gates: FeatureGates,
    third_party: ThirdParty = NO_THIRD_PARTY,
    extenders: Plugin | None = None,
    *,
    compatible: bool = False,
) -> tuple[Profile, ...]:
    """Return the profiles of a configuration. Raises ConfigurationError naming the path in the file.

    `extenders` is the plugin that calls the configuration's extenders; without it they are not called.  `compatible`:
    victims are chosen as kube-scheduler does it in every profile (`placement: Compatible`).
    """
    registry = Registry(
        in_tree=REGISTRY,
        weights=DEFAULT_WEIGHTS,
        kube_names=_ALSO_CALLED,
        third_party=third_party.factories,
        named_plugins=third_party.named_plugins,
        watch=third_party.watch or CallPolicy(),
        extenders=extenders,
        ignored_resources=tuple(
            resource.name
            for extender in configuration.extenders
            for resource in extender.managed_resources
            if resource.ignored_by_scheduler
        ),
    )
    wanted = configuration.profiles or (ProfileConfiguration(scheduler_name=DEFAULT_SCHEDULER),)
    if compatible:
        wanted = tuple(map(_placing_by_score, wanted))
    result = tuple(profile_of(p, gates, registry, f"profiles[{i}]") for i, p in enumerate(wanted))
    first = result[0].queue_sort.name
    for index, profile in enumerate(result):
        if profile.queue_sort.name != first or _args_of(wanted[index], first) != _args_of(wanted[0], first):
            raise ConfigurationError(f"profiles[{index}].plugins.queueSort", "must be the same in all profiles")
    return result


def _placing_by_score(profile: ProfileConfiguration) -> ProfileConfiguration:
    result = list(profile.plugin_config)
    for plugin, args in _PLACED_BY_SCORE.items():
        turn_of_plugin = next((turn for turn, config in enumerate(result) if config.name == plugin), None)
        if turn_of_plugin is None:
            result.append(PluginConfig(name=plugin, args=dict(args)))
        else:
            result[turn_of_plugin] = replace(result[turn_of_plugin], args={**result[turn_of_plugin].args, **args})
    return replace(profile, plugin_config=tuple(result))


def _args_of(configuration: ProfileConfiguration, name: str) -> Args:
    return next((config.args for config in configuration.plugin_config if config.name == name), {})
