"""Profiles: which plugins run at which point, in which order and with which weight (scheduling.md 5, 6)."""

from __future__ import annotations

from typing import ClassVar

import pytest

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
from reprieve.framework.profile import Profile


def made(name: str, *points: type[Plugin], blocking: bool = False, **attributes: object) -> Plugin:
    """A plugin that comes with the product, as far as a profile can tell: it is not put behind a guard."""
    kind = type(
        name, points or (Plugin,), {"name": name, "blocking": blocking, "__module__": "reprieve.x", **attributes}
    )
    found: Plugin = kind()
    return found


def names(found: list[Plugin]) -> list[str]:
    return [plugin.name for plugin in found]


def test_filters_are_grouped_by_what_their_answers_depend_on() -> None:
    """scheduling.md 4: those that ask outside are asked last, and are no rules of the cluster."""
    profile = Profile(
        "p",
        [
            made("outer", FilterPlugin, scope=Scope.CLUSTER, outside=True),
            made("rule", FilterPlugin, scope=Scope.CLUSTER),
            made("room", FilterPlugin, scope=Scope.NODE),
            made("label", FilterPlugin, scope=Scope.STATIC),
            made("other", FilterPlugin),
        ],
    )
    assert names([*profile.filters]) == ["outer", "rule", "room", "label", "other"]
    assert names([*profile.static_filters]) == ["label"]
    assert names([*profile.node_filters]) == ["room"]
    assert names([*profile.cluster_filters]) == ["rule", "other"]
    assert names([*profile.outside_filters]) == ["outer"]


def test_scores_count_with_their_weights() -> None:
    """A score plugin without a weight, or with 0, does not score; a placement score without one counts once."""
    profile = Profile(
        "p",
        [
            made("a", ScorePlugin, scope=Scope.NODE),
            made("b", ScorePlugin),
            made("c", ScorePlugin),
            made("d", ScorePlugin, scope=Scope.STATIC),
            made("e", PlacementScorePlugin),
            made("f", PlacementScorePlugin),
        ],
        {"a": 2, "b": 1, "c": 0, "e": 9},
        placement_weights={"e": 5, "a": 7},
    )
    assert [(each.plugin.name, each.weight) for each in profile.scores] == [("a", 2), ("b", 1)]
    assert [(each.plugin.name, each.weight) for each in profile.cluster_scores] == [("b", 1)]
    assert [(each.plugin.name, each.weight) for each in profile.placement_scores] == [("e", 5), ("f", 1)]


POINTS: dict[str, type[Plugin]] = {
    "filters": FilterPlugin,
    "pre_enqueue": PreEnqueuePlugin,
    "post_filters": PostFilterPlugin,
    "group_post_filters": PodGroupPostFilterPlugin,
    "placement_generators": PlacementGeneratePlugin,
    "placement_feasible": PlacementFeasiblePlugin,
    "reserves": ReservePlugin,
    "permits": PermitPlugin,
    "pre_binds": PreBindPlugin,
    "post_binds": PostBindPlugin,
    "binders": BindPlugin,
}


@pytest.mark.parametrize("point", POINTS)
def test_plugins_of_a_point_run_in_their_order(point: str) -> None:
    """scheduling.md 6: the order of the profile; where a point has one of its own, that alone."""
    kind = POINTS[point]
    plugins = [made("a", kind), made("b"), made("c", kind), made("d", kind)]
    plain = Profile("p", plugins)
    assert names(getattr(plain, point)) == ["a", "c", "d"]
    without = Profile("p", plugins, disabled=frozenset({(kind.__name__, "c"), (Plugin.__name__, "a"), ("X", "d")}))
    assert names(getattr(without, point)) == ["a", "d"]
    ordered = Profile("p", plugins, order={kind.__name__: ("d", "a", "b"), Plugin.__name__: ()})
    assert names(getattr(ordered, point)) == ["d", "a"]


class _Sorts(QueueSortPlugin):
    name: ClassVar[str] = "Sorts"


def test_queue_has_exactly_one_order() -> None:
    """scheduling.md 5.3."""
    one = made("one", QueueSortPlugin)
    assert Profile("p", [made("a"), one]).queue_sort is one
    with pytest.raises(ValueError, match="profile 'p': exactly one queueSort plugin is needed, found 2"):
        _ = Profile("p", [one, made("two", QueueSortPlugin)]).queue_sort


def test_profile_waits_if_one_of_its_plugins_may() -> None:
    assert not Profile("p", [made("a"), made("b")]).blocking
    assert Profile("p", [made("a"), made("b", blocking=True)]).blocking
    assert not Profile("p", []).blocking


def test_plugins_of_others_are_behind_a_guard_that_shows_what_they_are() -> None:
    """scheduling.md 5.4; what others read of a plugin they read of the guard."""
    profile = Profile("p", [_Sorts(), made("own", QueueSortPlugin)], disabled=frozenset({("QueueSortPlugin", "own")}))
    found = profile.queue_sort
    assert (found.name, type(found).__name__) == ("Sorts", "Guarded_Sorts")
