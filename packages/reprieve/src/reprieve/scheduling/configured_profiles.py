"""Profiles from a configuration, by upstream's rules of precedence (scheduling.md 6).

`multiPoint` enables or disables a plugin at all its extension points; a single extension point overrides that: first
come plugins that both name, in the order of the extension point, then the rest of `multiPoint`, then those that only
the extension point names. A wrong configuration is a `ConfigurationError` with the path of the field.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from kube_rules.objects import DEFAULT_SCHEDULER
from kube_rules.unknown_fields import did_you_mean, nearest
from reprieve.framework.configuration import (
    API_VERSION,
    ConfigurationError,
    PluginRef,
    Plugins,
    PluginSet,
    ProfileConfiguration,
    split_error,
)
from reprieve.framework.gates import FeatureGates
from reprieve.framework.interrupts import is_ctrl_c
from reprieve.framework.plugin import (
    MAX_NODE_SCORE,
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PodGroupPostFilterPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from reprieve.framework.plugin_guard import CallPolicy, contained
from reprieve.framework.profile import Profile
from reprieve.framework.status import PluginError, named
from reprieve.preemption.default_preemption import DefaultPreemption

Args = Mapping[str, Any]
Factory = Callable[[FeatureGates, Args], Plugin]

POINTS: dict[str, type[Plugin]] = {
    "preEnqueue": PreEnqueuePlugin,
    "queueSort": QueueSortPlugin,
    "preFilter": FilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "podGroupPostFilter": PodGroupPostFilterPlugin,
    "preScore": ScorePlugin,
    "score": ScorePlugin,
    "reserve": ReservePlugin,
    "permit": PermitPlugin,
    "preBind": PreBindPlugin,
    "bind": BindPlugin,
    "postBind": PostBindPlugin,
    "placementGenerate": PlacementGeneratePlugin,
    "placementScore": PlacementScorePlugin,
    "placementFeasible": PlacementFeasiblePlugin,
}
"""Extension points by their names in the file."""

_COVERED = {"preFilter": "filter", "preScore": "score"}
"""Extension points that share a plugin with another one: they can only be switched together with it."""

_UPSTREAM_ALSO = {
    "preEnqueue": {"DefaultPreemption", "DynamicResources"},
    "filter": {"DynamicResources", "NodeDeclaredFeatures"},
    "postFilter": {"DynamicResources"},
    "score": {"DynamicResources", "VolumeBinding"},
    "reserve": {"DynamicResources", "GangScheduling", "VolumeBinding"},
    "permit": {"GangScheduling"},
    "preBind": {"DynamicResources", "VolumeBinding"},
    "placementScore": {"NodeResourcesFit"},
}
"""Points that upstream's plugin of that name extends and ours does not: a configuration may name it there."""

MAX_TOTAL_SCORE = 1 << 41
"""Scores and name ranks share 63 bits (`reprieve.framework.evaluation`)."""


@dataclass(frozen=True, slots=True)
class Registry:
    """All known plugins, by name."""

    in_tree: Mapping[str, Factory]
    """In the order they run; enabled unless a configuration says otherwise."""
    weights: Mapping[str, int]
    """Default weights of in-tree scores."""
    kube_names: Mapping[str, str] = field(default_factory=dict)
    """Names in configurations for kube-scheduler -> our names."""
    third_party: Mapping[str, Factory] = field(default_factory=dict)
    """Plugins that are enabled only by a configuration or by `named_plugins`."""
    named_plugins: tuple[str, ...] = ()
    """Third-party plugins to enable in every profile that does not mention them."""
    watch: CallPolicy = field(default_factory=CallPolicy)
    """The caller of third-party plugins."""
    extenders: Plugin | None = None
    """The plugin that calls the extenders of the configuration in every profile."""
    ignored_resources: tuple[str, ...] = ()
    """Extended resources that only extenders check."""

    def check(self, name: str, where: str, *, wildcard: bool = False) -> None:
        """Raise ConfigurationError unless the plugin is known; with `wildcard` also `*`."""
        if name in self.in_tree or name in self.third_party or (wildcard and name == "*"):
            return
        known_names = sorted({*self.in_tree, *self.third_party})
        hint = did_you_mean(nearest(name, known_names)) or f"; known: {', '.join(known_names)}"
        raise ConfigurationError(where, f"unknown plugin {name!r}{hint}")


def profile_of(configuration: ProfileConfiguration, gates: FeatureGates, registry: Registry, path: str) -> Profile:
    """Return one profile. Raises ConfigurationError; `path`: the profile's location in the file."""
    configuration = _by_our_names(configuration, registry.kube_names)
    plugins = configuration.plugins
    multi = _multi_point(plugins, registry, f"{path}.plugins.multiPoint")
    args = _args(configuration, registry, path)
    named = list(multi)
    for point, chosen in plugins.points():
        where = f"{path}.plugins.{point}"
        _check_set(plugins, point, chosen, registry, where)
        if point not in _COVERED:
            named += [ref.name for ref in chosen.enabled if ref.name not in named]
    built = {name: _build(name, gates, registry, *args.get(name, ({}, f"{path}.plugins"))) for name in named}
    for name, plugin in built.items():
        if isinstance(plugin, DefaultPreemption):
            plugin.check(list(built.values()), args.get(name, ({}, f"{path}.plugins"))[1])
    order: dict[str, tuple[str, ...]] = {}
    for point, chosen in plugins.points():
        kind = POINTS[point]
        if point in _COVERED:
            continue
        for index, ref in enumerate(chosen.enabled):
            if not isinstance(built[ref.name], kind) and ref.name not in _UPSTREAM_ALSO.get(point, ()):
                where = f"{path}.plugins.{point}.enabled[{index}].name"
                raise ConfigurationError(where, f"plugin {ref.name!r} does not extend {point}")
        if kind is PodGroupPostFilterPlugin:
            chosen = _group_post_filters(chosen, plugins.post_filter)
        names = tuple(name for name in _expand(multi, chosen) if isinstance(built[name], kind))
        if names != tuple(name for name in named if isinstance(built[name], kind)):
            order[kind.__name__] = names
    every = list(built.values())
    weights = _weights(multi, plugins.score, built, ScorePlugin, f"{path}.plugins.score")
    if registry.extenders is not None:
        extenders = registry.extenders
        every.append(extenders)
        weights[extenders.name] = 1  # their answers include their weights
        binders = order.get(BindPlugin.__name__) or tuple(p.name for p in every if isinstance(p, BindPlugin))
        other_binders = tuple(name for name in binders if name != extenders.name)
        order = {point: (*names, extenders.name) for point, names in order.items()}
        order[BindPlugin.__name__] = (extenders.name, *other_binders)  # extenders bind before plugins do
    profile = Profile(
        configuration.scheduler_name or DEFAULT_SCHEDULER,
        every,
        weights,
        placement_weights=_weights(
            multi, plugins.placement_score, built, PlacementScorePlugin, f"{path}.plugins.placementScore"
        ),
        also_known_as=configuration.also_known_as,
        order=order,
        watch=registry.watch,
    )
    sorts = len(profile.at(QueueSortPlugin))
    if sorts != 1:
        raise ConfigurationError(f"{path}.plugins.queueSort", f"exactly one queueSort plugin is needed, found {sorts}")
    if all(binder is registry.extenders for binder in profile.binders):
        raise ConfigurationError(f"{path}.plugins.bind", "at least one bind plugin is needed")
    return profile


def _by_our_names(configuration: ProfileConfiguration, names: Mapping[str, str]) -> ProfileConfiguration:
    """Return the profile with plugins under our names."""

    def renamed(chosen: PluginSet) -> PluginSet:
        return PluginSet(
            enabled=tuple(replace(ref, name=names.get(ref.name, ref.name)) for ref in chosen.enabled),
            disabled=tuple(replace(entry, name=names.get(entry.name, entry.name)) for entry in chosen.disabled),
        )

    plugins = configuration.plugins
    points = {field: renamed(getattr(plugins, field)) for field in plugins.__struct_fields__}
    config = tuple(replace(c, name=names.get(c.name, c.name)) for c in configuration.plugin_config)
    return replace(configuration, plugins=Plugins(**points), plugin_config=config)


def _multi_point(plugins: Plugins, registry: Registry, where: str) -> dict[str, int]:
    """Return the plugins of multiPoint in order with their weights: defaults, replaced in place, then new ones."""
    chosen = plugins.multi_point
    off = {entry.name for entry in chosen.disabled}
    for index, entry in enumerate(chosen.disabled):
        registry.check(entry.name, f"{where}.disabled[{index}].name", wildcard=True)
    own = _by_name(chosen, registry, where)
    multi = {name: registry.weights.get(name, 1) for name in registry.in_tree if name not in off and "*" not in off}
    for name, ref in own.items():
        multi[name] = ref.weight or 1
    mentioned = off | {ref.name for _, point in plugins.points() for ref in point.enabled}
    for name in registry.named_plugins:
        if name not in mentioned:
            multi.setdefault(name, 1)
    return multi


def _by_name(chosen: PluginSet, registry: Registry, where: str) -> dict[str, PluginRef]:
    result: dict[str, PluginRef] = {}
    for index, ref in enumerate(chosen.enabled):
        at = f"{where}.enabled[{index}].name"
        registry.check(ref.name, at)
        if ref.name in result:
            raise ConfigurationError(at, f"plugin {ref.name!r} is enabled twice")
        result[ref.name] = ref
    return result


def _check_set(plugins: Plugins, point: str, chosen: PluginSet, registry: Registry, where: str) -> None:
    _by_name(chosen, registry, where)
    for index, entry in enumerate(chosen.disabled):
        registry.check(entry.name, f"{where}.disabled[{index}].name", wildcard=True)
    main_point = _COVERED.get(point)
    if main_point is None:
        return
    wider = {e.name for e in getattr(plugins, main_point).disabled} | {e.name for e in plugins.multi_point.disabled}
    again = {ref.name for ref in chosen.enabled}
    for entry in chosen.disabled:
        alone = entry.name not in wider and "*" not in wider and entry.name not in again
        if alone:
            raise ConfigurationError(where, f"{entry.name!r} can only be disabled together with {main_point}")


def _group_post_filters(own: PluginSet, of_pods: PluginSet) -> PluginSet:
    """Return the plugins of podGroupPostFilter: those of postFilter, except plugins that are named there.

    A file that disables preemption at postFilter, for years the only such point of kube-scheduler, disables it for
    groups too.
    """
    named = {ref.name for ref in own.enabled} | {entry.name for entry in own.disabled}
    if "*" in named:
        return own
    return PluginSet(
        enabled=(*own.enabled, *(ref for ref in of_pods.enabled if ref.name not in named)),
        disabled=(*own.disabled, *(entry for entry in of_pods.disabled if entry.name not in named)),
    )


def _expand(multi: Mapping[str, int], chosen: PluginSet) -> Iterator[str]:
    """Yield the plugins of one extension point, in the order they run."""
    own = [ref.name for ref in chosen.enabled]
    off = {entry.name for entry in chosen.disabled}
    if "*" in off:
        yield from own
        return
    yield from (name for name in own if name in multi and name not in off)
    yield from (name for name in multi if name not in own and name not in off)
    yield from (name for name in own if name not in multi or name in off)


def _weights(
    multi: Mapping[str, int], chosen: PluginSet, built: Mapping[str, Plugin], kind: type[Plugin], where: str
) -> dict[str, int]:
    """Return the weights of one kind of scores: the extension point's before multiPoint's."""
    own = {ref.name: ref.weight or 1 for ref in chosen.enabled}
    weights = {name: weight for name, weight in {**multi, **own}.items() if isinstance(built[name], kind)}
    if sum(weights.values()) * MAX_NODE_SCORE >= MAX_TOTAL_SCORE:
        raise ConfigurationError(where, "total score of Score plugins could overflow")
    return weights


def _args(configuration: ProfileConfiguration, registry: Registry, path: str) -> dict[str, tuple[Args, str]]:
    result: dict[str, tuple[Args, str]] = {}
    for index, config in enumerate(configuration.plugin_config):
        where = f"{path}.pluginConfig[{index}]"
        registry.check(config.name, f"{where}.name")
        result[config.name] = (config.args, f"{where}.args")
    return result


def _build(name: str, gates: FeatureGates, registry: Registry, args: Args, where: str) -> Plugin:
    """Return a plugin, guarded if it is not in-tree. Raises ConfigurationError if it cannot be created."""
    if name in registry.in_tree:
        if name == "NodeResourcesFit" and registry.ignored_resources:
            args = {**args, "ignoredResources": [*(args.get("ignoredResources") or ()), *registry.ignored_resources]}
        kind = args.get("kind", f"{name}Args")
        if kind != f"{name}Args" or args.get("apiVersion", API_VERSION) != API_VERSION:
            raise ConfigurationError(f"{where}.kind", f"{kind!r}: expected {name}Args of {API_VERSION}")
        return _make(registry.in_tree[name], gates, args, where)
    own = {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}
    try:
        return contained(_make(registry.third_party[name], gates, own, where), registry.watch)
    except ConfigurationError:
        raise
    except PluginError as error:
        raise ConfigurationError(where, str(error)) from error
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        text = f"plugin {name!r} could not be made: {named(error)}"
        raise ConfigurationError(where, text) from error


def _make(make: Factory, gates: FeatureGates, args: Args, where: str) -> Plugin:
    try:
        return make(gates, args)
    except ConfigurationError as error:
        raise ConfigurationError(".".join(filter(None, (where, error.path))), error.message) from None
    except msgspec.ValidationError as error:
        path, message = split_error(error)
        raise ConfigurationError(".".join(filter(None, (where, path))), message) from None
