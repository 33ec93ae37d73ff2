"""The node on which a pod preempts, and how many nodes are searched for it (preemption.md 3; cost.md 4.8)."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import Mock

import pytest

from reprieve.framework.plugin import CycleState
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption import pod_preemption
from reprieve.preemption.cheapest_victims import cheapest_on_row
from reprieve.preemption.cost import DEFAULT
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from tests.building import World, annotated, node, pdb, pod, priority_class, profile_with
from tests.preemption.seeds import each_seed


def _world(*items: Any, **options: Any) -> World:
    profile = profile_with(DefaultPreemption(PreemptionOptions(**options)))
    return World(*items, profiles={profile.name: profile})


def _uneven(on: str, priority: int = 0, **of_small: Any) -> list[Any]:
    """A reprieve evicts the two small pods, although the large one suffices."""
    sizes: tuple[tuple[str, int, float, dict[str, Any]], ...] = (
        ("a", 1, 2.0, of_small),
        ("b", 1, 3.0, {}),
        ("c", 2, 1.0, {}),
    )
    return [
        node(on, cpu=4),
        *(pod(f"{on}-{name}", cpu=cpu, node=on, start=at, priority=priority, **rest) for name, cpu, at, rest in sizes),
    ]


def _even(on: str, priority: int = 0, count: int = 2) -> list[Any]:
    """Two pods must be evicted."""
    return [node(on, cpu=count), *(pod(f"{on}-{i}", cpu=1, node=on, priority=priority) for i in range(count))]


@pytest.mark.parametrize("share", [True, False])
@each_seed(range(40))
def test_node_with_the_cheapest_set_of_units_is_chosen(seed: int, share: bool) -> None:
    """cost.md 4.8: against the cheapest set of each node; then the first by name, with what decided."""
    chance = random.Random(seed)
    names = [f"n{i}" for i in range(chance.randint(1, 8))]
    items: list[Any] = []
    for name in names:
        items.append(node(name, cpu=6, memory="6Gi"))
        for i in range(chance.randint(1, 4)):
            cpu, memory = chance.choice([(1, 1), (1, 2), (2, 1)])
            priority, start = chance.choice([0, 0, 1]), float(chance.randint(0, 1))
            items.append(pod(f"{name}-{i}", cpu=cpu, memory=f"{memory}Gi", node=name, priority=priority, start=start))
    chance.shuffle(names)
    items += [pod(f"w{i}", cpu=1, priority=9, nominated=name, gates=["x"]) for i, name in enumerate(names[:2])]
    world = _world(*items, share=share).add(pod("p", cpu=chance.randint(4, 6), memory="4Gi", priority=9))
    cluster, running, new = world.engine.cluster, world.engine.running["default-scheduler"], world.record("p")
    assert isinstance(running, RunningProfile)
    state, nodes = CycleState(cluster, new), cluster.nodes
    unfit = [row for row in range(len(nodes)) if not running.evaluator.fits_row(state, row)]
    cheapest = {row: cheapest_on_row(running, DEFAULT, new, row) for row in unfit}
    expected = sorted((best.cost, int(nodes.rank[row])) for row, best in cheapest.items() if best is not None)
    preemption = world.step().preemption
    if len(unfit) < len(nodes) or not expected:
        assert preemption is None
        return
    assert preemption is not None
    assert preemption.cost is not None
    assert (preemption.cost, int(nodes.rank[nodes.row_of[preemption.domain]])) == expected[0]
    assert preemption.candidates == len(expected)
    second = preemption.compared
    if second is not None and second.cost is not None and second.cost >= preemption.cost:
        pairs = zip(preemption.criteria, preemption.cost, second.cost, strict=True)
        apart = next((criterion.text for criterion, own, other in pairs if own != other), "first by name")
        assert (second.domain != preemption.domain, second.steps[-1]) == (True, (apart, 1))


@pytest.mark.parametrize("nodes", [1, 6])
@pytest.mark.parametrize("budgets", [0, 1])
def test_cost_counts_violations_as_the_record_states_them(nodes: int, budgets: int) -> None:
    """cost.md 4.8: the first number of the cost is that of the victims that violate a budget."""
    items = [item for i in range(nodes) for item in _uneven(f"n{i}")]
    preemption = _world(*items, pdb("b", {}, allowed=3 - 3 * budgets), pod("p", cpu=2, priority=9)).step().preemption
    assert preemption is not None
    assert [verdict.unit.name for verdict in preemption.victims] == ["default/n0-c"]
    assert preemption.cost is not None
    assert preemption.cost[0] == preemption.pdb_violations == budgets


def _searches(monkeypatch: pytest.MonkeyPatch) -> Mock:
    search = Mock(wraps=cheapest_on_row)
    monkeypatch.setattr(pod_preemption, "cheapest_on_row", search)
    return search


@pytest.mark.parametrize(
    ("nodes", "asks", "options", "searches"),
    [
        (3, {}, {}, 3),
        (70, {}, {"share": False}, 70),
        (70, {}, {"cost": ["pods"]}, 64),
        (70, {"ports": [80]}, {}, 4),
        (3, {"ports": [80]}, {"placement": "Compatible"}, 0),
        (3, {}, {"placement": "Compatible"}, 0),
        (3, {}, {"cascade_depth": 1}, 0),
    ],
    ids=["few", "nothing shared", "own list", "rules", "rules, compatible", "compatible", "cascades"],
)
def test_so_many_nodes_are_searched(
    nodes: int, asks: dict[str, Any], options: dict[str, Any], searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cost.md 4.8: nodes that are evaluated one by one, or the 64 or four nodes that are cheapest by a reprieve."""
    search = _searches(monkeypatch)
    items = [item for i in range(nodes) for item in _even(f"n{i:02}")]
    assert _world(*items, pod("p", cpu=2, priority=9, **asks), **options).step().preemption is not None
    assert len(search.mock_calls) == searches


@pytest.mark.parametrize(("nodes", "searches"), [(4, 4), (5, 1), (9, 1)])
def test_nodes_that_cannot_be_cheaper_are_not_searched(
    nodes: int, searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cost.md 4.8: from five nodes on, bounds exclude nodes with more important victims."""
    search = _searches(monkeypatch)
    items = [item for i in range(nodes) for item in _uneven(f"n{i}", priority=i)]
    preemption = _world(*items, pod("p", cpu=2, priority=99)).step().preemption
    assert preemption is not None
    assert (preemption.domain, len(search.mock_calls)) == ("n0", searches)


def test_evictions_in_turn_are_evaluated_on_so_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 3.3: on 64 nodes, and on none that costs more without evictions in turn."""
    items = [item for i in range(66) for item in _even(f"n{i:02}", count=1)]
    for priority, number in ((0, 64), (1, 1)):
        world = _world(*items, cascade_depth=1)
        plugins = world.engine.running["default-scheduler"].profile.plugins
        (plugin,) = [plugin for plugin in plugins if isinstance(plugin, DefaultPreemption)]
        cascades = plugin._attached().for_pod._cascades
        after = Mock(wraps=cascades.after)  # type: ignore[union-attr]
        monkeypatch.setattr(type(cascades), "after", lambda _, *given, after=after: after(*given))
        world.add(*(_even("m", count=1, priority=-1) if priority else ()), pod("p", cpu=1, priority=9))
        assert world.step().preemption is not None
        assert len(after.mock_calls) == number
        monkeypatch.undo()


def test_first_by_name_is_chosen_of_equal_costs_with_evictions_in_turn() -> None:
    """cost.md 3.3: although it costs more without them, so that it is tried later."""
    wanted = {"wanted": "yes"}
    world = _world(
        node("a", cpu=1, labels=wanted),
        *(pod(f"small-{i}", cpu="500m", node="a") for i in range(2)),
        node("z", cpu=1, labels=wanted),
        pod("returns", cpu=1, node="z", priority=5),
        node("low", cpu=1),
        pod("evicted-in-turn", cpu=1, node="low"),
        pod("p", cpu=1, priority=9, selector=wanted),
        cost=["pods"],
        cascade_depth=1,
    )
    preemption = world.step().preemption
    assert preemption is not None
    assert (preemption.domain, preemption.cost, preemption.cascade) == ("a", (2,), ())
    assert preemption.compared is not None
    assert (preemption.compared.domain, preemption.compared.cost) == ("z", (2,))
    assert preemption.compared.steps == (("first by name", 1),)


def test_far_node_is_found_where_nothing_is_shared() -> None:
    """cost.md 4.8: nodes that are evaluated one by one have exact bounds, so the limit of 64 nodes leaves none out."""
    items = [item for i in range(67) for item in _even(f"n{i:02}")]
    preemption = _world(*items, *_uneven("n99"), pod("p", cpu=2, priority=9), share=False).step().preemption
    assert preemption is not None
    assert [verdict.unit.name for verdict in preemption.victims] == ["default/n99-c"]


@pytest.mark.parametrize(
    "first", [_even("n0"), _uneven("n0", ports=[80])], ids=["nothing cheaper", "the proposal keeps the port"]
)
def test_proposals_of_later_nodes_are_tried_too(first: list[Any]) -> None:
    """cost.md 4.8: after a node on which the proposal by resources is no cheaper, or leaves a filter that fails."""
    items = [*first, *_uneven("n1")]
    preemption = _world(*items, pod("p", cpu=2, priority=9, ports=[80])).step().preemption
    assert preemption is not None
    assert [verdict.unit.name for verdict in preemption.victims] == ["default/n1-c"]
    assert [verdict.unit.name for verdict in preemption.verdicts if not verdict.evicted] == [
        "default/n1-a",
        "default/n1-b",
    ]
    assert preemption.compared is not None
    assert preemption.compared.domain == "n0"


def test_other_units_of_the_node_are_evicted_within_a_budget_that_is_used_up() -> None:
    """cost.md 2.8: the budget's status allows one disruption, which the terminating pod uses."""
    web = {"app": "web"}
    world = _world(
        priority_class("respects", 9, annotated(pdb_policy="Respect")),
        node("n", cpu=2),
        pod("protected", cpu=1, node="n", labels=web),
        pod("important", cpu=1, node="n", priority=5),
        node("small", cpu="100m"),
        pod("leaves", cpu="100m", node="small", labels=web, terminating=True),
        pdb("b", web, allowed=1),
        pod("p", cpu=1, priority=9, priority_class="respects"),
    )
    preemption = world.step().preemption
    assert preemption is not None
    assert [verdict.unit.name for verdict in preemption.victims] == ["default/important"]
