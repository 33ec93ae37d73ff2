"""A profile: the plugins for one schedulerName, their order and weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from reprieve.framework.plugin import (
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
    Scope,
    ScorePlugin,
)
from reprieve.framework.plugin_guard import CallPolicy, contained

P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True, slots=True)
class WeightedScore:
    """A score plugin with its weight."""

    plugin: ScorePlugin
    weight: int


@dataclass(frozen=True, slots=True)
class WeightedPlacement:
    """A placement score plugin with its weight."""

    plugin: PlacementScorePlugin
    weight: int


@dataclass(slots=True)
class Profile:
    """Plugins by extension point, in the order they run.

    `plugins` is every plugin once, in configured order; `score_weights` maps a score plugin's name to its weight (a
    score plugin without one does not score).  `disabled` holds (extension point class name, plugin name) pairs that a
    configuration turned off at one point only.  `placement_weights` are those of placement scores, 1 by default.
    """

    name: str
    plugins: Sequence[Plugin]
    score_weights: dict[str, int] = field(default_factory=dict)
    disabled: frozenset[tuple[str, str]] = frozenset()
    placement_weights: dict[str, int] = field(default_factory=dict)
    also_known_as: tuple[str, ...] = ()
    """Further scheduler names that select it."""
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By extension point class name: the plugins of that point in their order, if it differs from that of `plugins`."""
    watch: CallPolicy = field(default_factory=CallPolicy)
    """The policy for calls of plugins from outside the product, which run behind a guard."""
    filters: list[FilterPlugin] = field(init=False)
    scores: list[WeightedScore] = field(init=False)
    static_filters: list[FilterPlugin] = field(init=False)
    node_filters: list[FilterPlugin] = field(init=False)
    cluster_filters: list[FilterPlugin] = field(init=False)
    outside_filters: list[FilterPlugin] = field(init=False)
    cluster_scores: list[WeightedScore] = field(init=False)
    _points: dict[type, list[Any]] = field(init=False, default_factory=dict, compare=False, repr=False)
    """Results of `at`: some points are used with every binding."""

    def __post_init__(self) -> None:
        self.plugins = [contained(plugin, self.watch) for plugin in self.plugins]
        self.filters = self.at(FilterPlugin)
        self.static_filters = [p for p in self.filters if p.scope is Scope.STATIC]
        self.node_filters = [p for p in self.filters if p.scope is Scope.NODE]
        self.cluster_filters = [p for p in self.filters if p.scope is Scope.CLUSTER and not p.outside]
        self.outside_filters = [p for p in self.filters if p.outside]
        self.scores = [
            WeightedScore(p, self.score_weights[p.name]) for p in self.at(ScorePlugin) if self.score_weights.get(p.name)
        ]
        self.cluster_scores = [weighted for weighted in self.scores if weighted.plugin.scope is Scope.CLUSTER]

    def at(self, point: type[P]) -> list[P]:
        """Return the plugins of one extension point, in order; read-only."""
        plugins: list[P] | None = self._points.get(point)
        if plugins is None:
            plugins = self._points[point] = self._resolved(point)
        return plugins

    def _resolved(self, point: type[P]) -> list[P]:
        result = [p for p in self.plugins if isinstance(p, point) and (point.__name__, p.name) not in self.disabled]
        names = self.order.get(point.__name__)
        if names is None:
            return result
        return sorted((p for p in result if p.name in names), key=lambda p: names.index(p.name))

    @property
    def blocking(self) -> bool:
        """Return whether a cycle may wait for something outside."""
        return any(plugin.blocking for plugin in self.plugins)

    @property
    def pre_enqueue(self) -> list[PreEnqueuePlugin]:
        """PreEnqueue plugins in order."""
        return self.at(PreEnqueuePlugin)

    @property
    def queue_sort(self) -> QueueSortPlugin:
        """Return the one QueueSort plugin. Raises ValueError if there is not exactly one."""
        plugins = self.at(QueueSortPlugin)
        if len(plugins) != 1:
            raise ValueError(f"profile {self.name!r}: exactly one queueSort plugin is needed, found {len(plugins)}")
        return plugins[0]

    @property
    def post_filters(self) -> list[PostFilterPlugin]:
        """PostFilter plugins in order."""
        return self.at(PostFilterPlugin)

    @property
    def group_post_filters(self) -> list[PodGroupPostFilterPlugin]:
        """PodGroupPostFilter plugins in order."""
        return self.at(PodGroupPostFilterPlugin)

    @property
    def placement_generators(self) -> list[PlacementGeneratePlugin]:
        """PlacementGenerate plugins in order."""
        return self.at(PlacementGeneratePlugin)

    @property
    def placement_scores(self) -> list[WeightedPlacement]:
        """PlacementScore plugins with their weights."""
        return [WeightedPlacement(p, self.placement_weights.get(p.name, 1)) for p in self.at(PlacementScorePlugin)]

    @property
    def placement_feasible(self) -> list[PlacementFeasiblePlugin]:
        """PlacementFeasible plugins in order."""
        return self.at(PlacementFeasiblePlugin)

    @property
    def reserves(self) -> list[ReservePlugin]:
        """Reserve plugins in order."""
        return self.at(ReservePlugin)

    @property
    def permits(self) -> list[PermitPlugin]:
        """Permit plugins in order."""
        return self.at(PermitPlugin)

    @property
    def pre_binds(self) -> list[PreBindPlugin]:
        """PreBind plugins in order."""
        return self.at(PreBindPlugin)

    @property
    def post_binds(self) -> list[PostBindPlugin]:
        """PostBind plugins in order."""
        return self.at(PostBindPlugin)

    @property
    def binders(self) -> list[BindPlugin]:
        """Bind plugins in order."""
        return self.at(BindPlugin)
