"""Answers to questions against trying everything, on random inputs; `tools/measure_answers.py` takes hundreds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprieve.questions.drain_order import drain_plan
from reprieve.questions.order_search import least_harm, width_for
from reprieve.questions.queue_order import queue_of
from reprieve.simulation.plan import PlanOptions
from tests.building import World, gang, node, pod
from tests.questions.brute_force import (
    breaks_of,
    capacities,
    fewest_breaks,
    missing_with_victims_back,
    stated_shortages,
    waiting_for_priority,
)
from tests.questions.random_inputs import manifests_of, random_drain

SEEDS = st.integers(0, 1 << 30)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_queue_says_priority_only_where_the_highest_one_helps(seed: int) -> None:
    """whatif.md 6.2: raised to the highest priority that users may give, the workload is placed."""
    assert [workload for workload, says, helps in waiting_for_priority(seed) if says and not helps] == []


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        pytest.param([pod("new", cpu=4, priority=1)], "Priority", id="a pod"),
        pytest.param([pod("new", cpu=4, priority=1, never=True)], "Resources", id="a pod that never preempts"),
        pytest.param(gang("new", 2, cpu=4, priority=1), "Priority", id="a gang"),
        pytest.param(gang("new", 3, cpu=4, priority=1), "Resources", id="a gang that is too large"),
        pytest.param(gang("new", 2, cpu=4, priority=1, topology="rack"), "Resources", id="a gang for one rack"),
    ],
)
def test_what_no_priority_helps_waits_for_resources(asked: list[object], why: str) -> None:
    """whatif.md 6.2: two nodes in two racks, both full."""
    nodes = [node(f"n{number}", cpu=4, labels={"rack": f"r{number}"}) for number in range(2)]
    running = [pod(f"old-{number}", cpu=4, node=f"n{number}", priority=5) for number in range(2)]
    (item,) = queue_of(manifests_of([*nodes, *running, *asked]), PlanOptions()).items
    assert item.why == why


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        pytest.param([pod("new", cpu=4, priority=1)], "Priority", id="a pod"),
        pytest.param([pod("new", cpu=4, priority=1, never=True)], "Priority", id="a pod that never preempts"),
        pytest.param(
            gang("new", 2, cpu=2, priority=1, policy="Never", never=True), "Priority", id="a gang that never preempts"
        ),
        pytest.param([pod("new", cpu=8, priority=1, never=True)], "Resources", id="a pod that is too large"),
    ],
)
def test_capacity_that_another_pending_pod_takes_goes_to_the_highest_priority(asked: list[object], why: str) -> None:
    """whatif.md 6.2: `other` preempts what runs; with the highest priority `new` gets what that frees."""
    running, other = pod("old", cpu=4, node="n", priority=0), pod("other", cpu=4, priority=5)
    items = queue_of(
        manifests_of(
            [
                node("n", cpu=4),
                node("m", cpu=9),
                pod("fixed", cpu=8, node="m", priority=2_000_000_000),
                running,
                other,
                *asked,
            ]
        ),
        PlanOptions(),
    ).items
    assert [item.why for item in items] == ["Preempting", why]


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_what_is_stated_as_missing_with_a_victim_back_is_missing(seed: int) -> None:
    """preemption.md 4.9: beside everything that stays and all pods that are nominated there."""
    assert [one for one in missing_with_victims_back(seed) if one[2] < one[3]] == []


def test_victim_that_is_judged_early_lacks_what_later_ones_that_stay_take() -> None:
    """preemption.md 4.9: `large` cannot stay for want of 1 core; then others stay that take 3 more."""
    items = [
        node("n", cpu=8),
        pod("large", cpu=5, node="n", priority=2, start=1.0),
        pod("small", cpu=2, node="n", priority=1, start=1.0),
        *(pod(f"tiny-{turn}", cpu="500m", node="n", priority=0) for turn in range(2)),
        *gang("new", 2, cpu=2, priority=9),
    ]
    world = World(*items)
    made = world.step().preemption
    assert made is not None
    stated = {verdict.unit.name: verdict.reason.missing[0].short for verdict in made.victims if verdict.reason}
    assert stated["default/large"] == 4000


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_pod_runs_with_the_stated_amount_or_it_is_a_lower_bound(seed: int) -> None:
    """whatif.md 5.3: also where a hint is read from a decision record and not tried."""
    assert [sentence for sentence, runs in stated_shortages(seed) if not runs and "at least" not in sentence] == []


@given(SEEDS)
@settings(max_examples=6, deadline=None)
def test_no_order_of_a_few_nodes_breaks_fewer_gangs(seed: int) -> None:
    """whatif.md 7.1: within 2 % over many clusters (`tools/measure_answers.py`); one more at most in any of them."""
    manifests, names = random_drain(seed, most=4)
    assert breaks_of(drain_plan(manifests, names, PlanOptions())) <= fewest_breaks(manifests, names) + 1


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_figure_of_capacity_is_exact_or_or_more(seed: int) -> None:
    """whatif.md 8.2, 8.5: against an integer program."""
    pytest.importorskip("scipy", reason="the exact solver is scipy's")
    for figure, says, exact, true in capacities(seed):
        assert says == true if exact else says <= true, figure


def test_search_from_all_sets_of_steps_finds_the_best_order() -> None:
    """The step with the least harm next leads to 9; the best order takes the dear step first."""
    harms = {("a",): 1, ("b",): 3, ("a", "b"): 8, ("b", "a"): 2}

    def then(state: tuple[str, ...], step: str) -> tuple[tuple[int, ...], str, tuple[str, ...]]:
        after = (*state, step)
        return (harms[after],), step, after

    start: tuple[str, ...] = ()
    assert least_harm(start, ("a", "b"), then, width_for(2, 100)) == ((5,), ["b", "a"])
    assert least_harm(start, ("a", "b"), then, 1) == ((9,), ["a", "b"])


@pytest.mark.parametrize(("most", "width"), [(0, 0), (20, 0), (21, 1), (41, 2), (192, 20), (1000, 20)])
def test_search_looks_at_no_more_than_its_work_allows(most: int, width: int) -> None:
    """Of six steps there are 21 next steps in one order and 192 from all sets."""
    assert width_for(6, most) == width
