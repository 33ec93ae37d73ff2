"""The options of preemption.md 4: victimSearch, placement, and a priority of its own for a group as a victim."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules.admission import PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS, PriorityAdmission
from kube_rules.errors import FieldError
from kube_rules.meta import ObjectMeta
from kube_rules.objects import PodDisruptionBudget, PodGroup, PriorityClass
from reprieve.cluster.budgets import BudgetIndex, budget_of, violating
from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.preemption.cost import UPSTREAM, Cost
from reprieve.preemption.criteria import STANDARD
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import EvictionOptions, PreemptionOptions
from reprieve.preemption.outcome import (
    Preemption,
    Verdict,
)
from reprieve.scheduling.profiles import profiles_of
from tests.building import World, annotated, gang, group, node, pod, priority_class, profile_with
from tests.drawing import examples
from tests.properties.coverage import met, must_meet
from tests.properties.test_preemption_invariants import _Judge
from tests.random_clusters import RandomCluster, random_clusters

some = examples(40)
OPTIONS: list[dict[str, str]] = [
    {"victim_search": "PriorityFloor", "placement": "Compatible"},
    {"placement": "MinimizeVictims"},
    {"victim_search": "PriorityFloor", "placement": "MinimizeVictims"},
]


def _with(**options: str) -> Any:
    profile = profile_with(DefaultPreemption(PreemptionOptions(**options)))  # type: ignore[arg-type]
    return {profile.name: profile}


def _preempts(world: World) -> Preemption:
    decision = world.step()
    assert decision.preemption is not None, decision.condition
    return decision.preemption


def _victims(preemption: Preemption) -> list[str]:
    return sorted(p.name for v in preemption.victims for p in v.unit.pods)


def _uneven() -> list[Any]:
    """The larger node is liked better when empty, but what runs there matters more."""
    return [
        node("large", cpu=8),
        node("small", cpu=4),
        pod("dear", cpu=8, node="large", priority=5, start=0),
        pod("cheap", cpu=4, node="small", priority=1, start=0),
        *gang("crew", 1, cpu=4, priority=9),
    ]


@pytest.mark.parametrize(
    ("options", "victims"),
    [({}, ["cheap"]), ({"placement": "Compatible"}, ["dear"]), *[(options, ["cheap"]) for options in OPTIONS]],
)
def test_where_room_is_made(options: dict[str, str], victims: list[str]) -> None:
    """preemption.md 4, "Options": Compatible takes the algorithm's place, the others look for a cheaper eviction."""
    assert _victims(_preempts(World(*_uneven(), profiles=_with(**options)))) == victims


@pytest.mark.parametrize("placement", ["Compatible", "Scored", "MinimizeVictims"])
@pytest.mark.parametrize(("first", "second", "victims"), [(5, 1, ["b"]), (1, 5, ["a"]), (3, 3, ["a"])])
def test_node_with_the_least_important_units_is_taken_of_equal_scores(
    placement: str, first: int, second: int, victims: list[str]
) -> None:
    """preemption.md 4.3: scores leave a choice; the more important unit stays, and names decide between equals."""
    running = [pod(name, cpu=4, node=f"n{name}", priority=priority) for name, priority in (("a", first), ("b", second))]
    items = [node("na", cpu=4), node("nb", cpu=4), *running, *gang("crew", 1, cpu=4, priority=9)]
    assert _victims(_preempts(World(*items, profiles=_with(placement=placement)))) == victims


def test_floor_keeps_everything_above_it() -> None:
    """ "units above N are never touched": they are no potential victims at all."""
    preemption = _preempts(World(*_uneven(), profiles=_with(victim_search="PriorityFloor")))
    assert [verdict.unit.name for verdict in preemption.verdicts] == ["default/cheap"]


def test_lowest_floor_that_suffices() -> None:
    """ "by binary search the lowest priority N so that the group is schedulable": two of five must be evicted."""
    nodes = [item for i in range(5) for item in (node(f"n{i}", cpu=1), pod(f"l{i}", cpu=1, node=f"n{i}", priority=-i))]
    world = World(*nodes, *gang("crew", 2, cpu=1, priority=9), profiles=_with(victim_search="PriorityFloor"))
    preemption = _preempts(world)
    assert _victims(preemption) == ["l3", "l4"]
    assert len(preemption.verdicts) == 2


def test_floor_for_each_placement() -> None:
    """preemption.md 4.6 with the option: each domain has its own floor, and the cheapest is chosen."""
    world = World(
        *[node(f"r{i}", cpu=1, labels={"rack": f"r{i}"}) for i in range(2)],
        pod("a", cpu=1, node="r0", priority=3, start=0),
        pod("b", cpu=1, node="r1", priority=2, start=0),
        group("crew", min_count=1, priority=9, topology="rack"),
        pod("p", cpu=1, group="crew", priority=9),
        profiles=_with(victim_search="PriorityFloor"),
    )
    preemption = _preempts(world)
    assert (preemption.domain, _victims(preemption), preemption.candidates) == ("r1", ["b"], 2)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options.values()))
@some
@given(data=st.data())
def test_rules_hold_with_every_option(options: dict[str, str], data: st.DataObject) -> None:
    """preemption.md 9: irreducible, whole units, lower priorities, no needless eviction."""
    cluster: RandomCluster = data.draw(random_clusters(preemptor="group"))
    world = World(*cluster.everything, profiles=_with(**options))
    _Judge(cluster, world)
    world.settle()


def _cost(preemption: Preemption, cluster: RandomCluster) -> Cost | None:
    """By one yardstick: budgets are counted over all victims."""
    budgets = BudgetIndex(budget_of(item) for item, _ in cluster.budgets if isinstance(item, PodDisruptionBudget))
    broken = violating([verdict.unit.pods for verdict in preemption.victims], budgets)
    return UPSTREAM.cost_of([Verdict(v.unit, b, v.reason) for v, b in zip(preemption.victims, broken, strict=True)])


@must_meet(no_cheaper=5, cheaper=2)
@some
@given(random_clusters(preemptor="group", max_nodes=6))
def test_minimizing_is_never_worse_than_compatible(cluster: RandomCluster) -> None:
    """preemption.md 4, "Options": by the cost order of section 3, for as many pods.

    cost.md 4.3: where no cheaper victims are found, it is the same decision, place by place.
    """
    usual = cluster.world(placement="Compatible").step().preemption
    found = cluster.world().step().preemption
    assert (usual is None) is (found is None)
    if usual is not None and found is not None:
        one, other = _cost(found, cluster), _cost(usual, cluster)
        assert one is None or (other is not None and one <= other)
        assert len(found.nominations) >= len(usual.nominations)
        if one == other and len(found.nominations) == len(usual.nominations):
            assert _victims(found) == _victims(usual)
            assert _places(found) == _places(usual)
            met("no_cheaper")
        else:
            met("cheaper")


def _places(preemption: Preemption) -> dict[str, int]:
    return {p.name: row for p, row in preemption.nominations}


# -- configuration -------------------------------------------------------------------------------------------------


def _configured(**args: str) -> Any:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}],
    }
    (profile,) = profiles_of(configuration_of(document), FeatureGates())
    return {profile.name: profile}


def test_options_come_from_the_configuration() -> None:
    """preemption.md 4: "configuration of the preemption plugin"."""
    for args, victim in (
        ({}, "cheap"),
        ({"placement": "MinimizeVictims"}, "cheap"),
        ({"placement": "Compatible"}, "dear"),
        ({"placement": "Compatible", "victimSearch": "PriorityFloor"}, "cheap"),
        ({"placement": "Compatible", "victimSearch": "Reprieve"}, "dear"),
    ):
        assert _victims(_preempts(World(*_uneven(), profiles=_configured(**args)))) == [victim], args


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"victimSearch": "Best"}, "victimSearch: 'Best': expected Reprieve or PriorityFloor"),
        ({"placement": ""}, "placement: '': expected Compatible or MinimizeVictims or Scored"),
    ],
)
def test_other_values_are_errors(args: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _configured(**args)
    assert str(caught.value) == f"profiles[0].pluginConfig[0].args.{message}"


# -- the priority as a victim --------------------------------------------------------------------------------------

CLASSES = [PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in (("low", 1), ("high", 50))]


def _guarded(name: str, *, priority: int, as_victim: str) -> PodGroup:
    made = group(name, priority=priority)
    return replace(made, metadata=replace(made.metadata, annotations={PREEMPTION_PRIORITY_CLASS: as_victim}))


def _resolved(name: str, *, priority: int, as_victim: str) -> PodGroup:
    made = PriorityAdmission(CLASSES).resolve(_guarded(name, priority=priority, as_victim=as_victim))
    return replace(made, spec=replace(made.spec, priority_class_name="granting"))


GRANTING = priority_class("granting", 1, annotated(max_preemption_priority="2000"))


def test_preemption_priority_counts_for_a_victim_only() -> None:
    """preemption.md 4, "Options": the priority used when the unit is a potential victim, and no other time."""
    world = World(
        node("n", cpu=2),
        GRANTING,
        _resolved("held", priority=1, as_victim="high"),
        pod("h", cpu=1, node="n", priority=1, group="held", start=0),
        pod("plain", cpu=1, node="n", priority=2, start=0),
        pod("first", cpu=1, priority=10),
    ).settle()
    assert world.evicted == ["plain"]
    world.add(pod("second", cpu=1, priority=10)).settle()
    assert world.pending == ["second"]
    world.add(pod("third", cpu=1, priority=51)).settle()
    assert "third" in world.where
    late = World(node("n", cpu=1), pod("x", cpu=1, node="n", priority=2), _resolved("g", priority=1, as_victim="high"))
    late.add(pod("p", cpu=1, priority=1, group="g")).settle()
    assert late.evicted == []


def test_priority_may_change_while_the_group_runs() -> None:
    """ "may be raised or lowered (not below) while it runs": the next decision goes by the new value."""
    world = World(
        node("n", cpu=1),
        GRANTING,
        _resolved("held", priority=1, as_victim="high"),
        pod("h", cpu=1, node="n", priority=1, group="held", start=0),
        pod("p", cpu=1, priority=10),
    ).settle()
    assert world.evicted == []
    world.engine.set(_resolved("held", priority=1, as_victim="low"), world.now)
    world.add(pod("q", cpu=1, priority=11)).settle()
    assert world.evicted == ["h"]


@pytest.mark.parametrize(
    ("priority", "as_victim", "message"),
    [
        (2, "low", 'Invalid value: "low": its value 1 is lower than the priority 2'),
        (0, "none", 'Invalid value: "none": no PriorityClass with name none was found'),
    ],
)
def test_composite_above_itself_is_refused(priority: int, as_victim: str, message: str) -> None:
    """ "rejected if lower than the scheduling priority": two groups could evict each other in turn."""
    with pytest.raises(FieldError) as caught:
        _resolved("held", priority=priority, as_victim=as_victim)
    assert caught.value.path == f"metadata.annotations[{PREEMPTION_PRIORITY_CLASS}]"
    assert message in str(caught.value)


@pytest.mark.parametrize("stored", [True, False])
def test_number_without_a_class_does_not_count(stored: bool) -> None:
    """Any user could write it: it would be a way around every class."""
    held = _guarded("held", priority=7, as_victim="")
    written = replace(
        held,
        metadata=replace(held.metadata, annotations={PREEMPTION_PRIORITY: "2000"}, uid="u" if stored else ""),
    )
    assert PREEMPTION_PRIORITY not in PriorityAdmission(CLASSES).resolve(written).metadata.annotations


def test_number_that_was_resolved_before_stays() -> None:
    """preemption.md 8: "Deleting a class changes no existing object"; a number below the priority does nothing."""
    held = _guarded("held", priority=7, as_victim="gone")
    stored = replace(
        held, metadata=replace(held.metadata, annotations={**held.metadata.annotations, PREEMPTION_PRIORITY: "3"})
    )
    assert PriorityAdmission(CLASSES).resolve(stored) == stored
    world = World(stored)
    spec = world.engine.cluster.groups["default/held"].spec
    assert spec is not None
    assert spec.victim_priority == 7


def test_options_by_default() -> None:
    """preemption.md 4, cost.md 3 to 6."""
    options, evictions = PreemptionOptions(), EvictionOptions()
    assert (options.group_policy, options.victim_search, options.placement) == (True, "Reprieve", "MinimizeVictims")
    assert (tuple(options.cost), options.cascade_depth, options.hold_seconds) == (STANDARD, 0, 600.0)
    assert (options.successor, options.wait_for_completions, options.plain, options.share) == (True, 0.0, False, True)
    assert options.together
    assert (evictions.group_policy, evictions.victim_search, evictions.placement) == (
        True,
        "Reprieve",
        "MinimizeVictims",
    )
    assert (evictions.criteria.names, evictions.cascades, evictions.plain, evictions.share) == (
        STANDARD,
        None,
        False,
        True,
    )
