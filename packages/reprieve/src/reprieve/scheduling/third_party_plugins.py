"""Third-party plugins (scheduling.md 5, docs/plugins.md).

Any installed package can name them in the entry point group `reprieve.plugins`, and the command line as `module:Class`.
The first are enabled only by a configuration, like upstream's out-of-tree registry; the second in every profile that
does not mention them. An entry point is not imported before a configuration enables it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING

from reprieve.framework import plugin as framework
from reprieve.framework.gates import FeatureGates
from reprieve.framework.interrupts import is_ctrl_c
from reprieve.framework.plugin import Plugin
from reprieve.framework.plugin_guard import CallPolicy
from reprieve.framework.preemption_cost import PreemptionCost
from reprieve.framework.status import named
from reprieve.scheduling.configured_profiles import POINTS, Args, Factory

if TYPE_CHECKING:  # reading the metadata of all packages takes as long as a small plan
    from importlib.metadata import EntryPoint

GROUP = "reprieve.plugins"
_EXTENSION_POINTS = (*dict.fromkeys(POINTS.values()), framework.SignPlugin, PreemptionCost)


class PluginLoadError(ValueError):
    """A plugin cannot be used; the message says which and why, in one line."""


@dataclass(frozen=True, slots=True)
class ThirdParty:
    """Third-party plugins by their names in configurations."""

    factories: Mapping[str, Factory] = field(default_factory=dict)
    named_plugins: tuple[str, ...] = ()
    """Plugins that were named on the command line."""
    watch: CallPolicy | None = None
    """The caller of the plugins; None: direct calls."""

    def watched(self, watch: CallPolicy) -> "ThirdParty":
        """Return these plugins with another caller."""
        return replace(self, watch=watch)


NO_THIRD_PARTY = ThirdParty()


def third_party(
    references: "Iterable[str | type[Plugin]]" = (),
    *,
    in_tree: Iterable[str] = (),
    entry_points: "Sequence[EntryPoint] | None" = None,
) -> ThirdParty:
    """Return the plugins of installed packages and those named as `module:Class`, or given as classes.

    `in_tree` are names that are taken: an entry point of such a name is never used, because in-tree plugins take
    precedence. `entry_points` are by default those of this Python: without references they are read when a
    configuration names a plugin that is not in-tree.  Raises PluginLoadError for a reference that cannot be used, or a
    name that is taken.
    """
    reserved = frozenset(in_tree)
    references = tuple(references)
    if not references and entry_points is None:
        return ThirdParty(_InstalledPlugins())
    offered = _by_name(_installed() if entry_points is None else entry_points)
    factories = _factories(offered)
    named: list[str] = []
    for plugin_ref in references:
        if isinstance(plugin_ref, str):
            reference, kind = plugin_ref, _class_of(plugin_ref)
        else:
            reference = f"{getattr(plugin_ref, '__module__', '?')}:{getattr(plugin_ref, '__qualname__', plugin_ref)}"
            kind = _checked(reference, plugin_ref)
        if kind.name in reserved:
            raise PluginLoadError(f"{reference}: the name {kind.name!r} is taken by a plugin that comes with reprieve")
        if kind.name in named:
            raise PluginLoadError(f"{reference}: a plugin with the name {kind.name!r} is already given")
        if any(_reference(point) != _reference_of(reference) for point in offered.get(kind.name, ())):
            owners = ", ".join(_described(point) for point in offered[kind.name])
            raise PluginLoadError(f"{reference}: the name {kind.name!r} is taken by {owners}")
        factories[kind.name] = _factory(kind)
        named.append(kind.name)
    return ThirdParty(factories, tuple(named))


class _InstalledPlugins(Mapping[str, Factory]):
    """Plugins of installed packages, read at the first lookup of a name."""

    def __init__(self) -> None:
        self._known: dict[str, Factory] | None = None

    def _found(self) -> dict[str, Factory]:
        if self._known is None:
            self._known = _factories(_by_name(_installed()))
        return self._known

    def __getitem__(self, name: str) -> Factory:
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())


def _installed() -> "Sequence[EntryPoint]":
    from importlib.metadata import entry_points

    return tuple(entry_points(group=GROUP))


def _by_name(points: "Iterable[EntryPoint]") -> "dict[str, list[EntryPoint]]":
    offered: dict[str, list[EntryPoint]] = {}
    for point in points:
        offered.setdefault(point.name, []).append(point)
    return offered


def _factories(offered: "Mapping[str, Sequence[EntryPoint]]") -> dict[str, Factory]:
    return {name: _of_entry_points(name, points) for name, points in offered.items()}


def _factory(kind: type[Plugin]) -> Factory:
    def build(_gates: FeatureGates, args: Args) -> Plugin:
        return kind.configured(args)

    return build


def _of_entry_points(name: str, points: "Sequence[EntryPoint]") -> Factory:
    """Return a factory that imports on its first call; until then an error of one package affects no other."""

    def build(_gates: FeatureGates, args: Args) -> Plugin:
        if len({_reference(point) for point in points}) > 1:
            raise PluginLoadError(f"offered by several packages: {', '.join(_described(point) for point in points)}")
        kind = _class_of(_reference(points[0]))
        if kind.name != name:
            raise PluginLoadError(f"{_described(points[0])}: the name of the class is {kind.name!r}, not {name!r}")
        return kind.configured(args)

    return build


def _reference(point: "EntryPoint") -> str:
    return _reference_of(point.value)


def _reference_of(text: str) -> str:
    module, _, name = text.partition(":")
    return f"{module.strip()}:{name.strip()}"


def _described(point: "EntryPoint") -> str:
    package = point.dist.name if point.dist is not None else "?"
    return f"entry point {point.name} = {point.value} of {package}"


def _class_of(reference: str) -> type[Plugin]:
    """Return the class behind `module:Class`. Raises PluginLoadError."""
    module, colon, name = reference.partition(":")
    module, name = module.strip(), name.strip()
    if not colon or not module or not name:
        raise PluginLoadError(f"{reference!r}: expected MODULE:CLASS")
    imported = _guarded(reference, f"importing {module}", lambda: import_module(module))
    value: object = imported
    for part in name.split("."):
        value = getattr(value, part, None)
        if value is None:
            raise PluginLoadError(f"{reference}: module {module!r} has no {name!r}")
    return _checked(reference, value)


def _checked(reference: str, value: object) -> type[Plugin]:
    """Return the class if it is a plugin. Raises PluginLoadError."""
    if not isinstance(value, type) or not issubclass(value, Plugin):
        raise PluginLoadError(f"{reference}: not a plugin: it does not derive from reprieve.Plugin")
    if not isinstance(value.name, str) or not value.name:
        raise PluginLoadError(f"{reference}: the class has no name: set `name`, by which configurations refer to it")
    if not issubclass(value, _EXTENSION_POINTS):
        raise PluginLoadError(f"{reference}: it extends no extension point, such as reprieve.FilterPlugin")
    return value


def _guarded(reference: str, action: str, do: Callable[[], object]) -> object:
    try:
        return do()
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise PluginLoadError(f"{reference}: {action} failed: {named(error)}") from error
