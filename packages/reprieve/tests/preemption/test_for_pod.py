"""A single pod as preemptor (preemption.md 2, 3, 5, 6)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules.meta import ObjectRef
from reprieve.preemption.outcome import MissingAmount, Preemption
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import Decision, Result
from tests.building import World, gang, group, node, pdb, pod


def _preempts(*items: Any, plain: bool = False, placement: str = "MinimizeVictims", **wants: Any) -> Preemption:
    decision = _decides(*items, plain=plain, placement=placement, **wants)
    assert decision.preemption is not None, decision.rejections
    return decision.preemption


def _decides(*items: Any, plain: bool = False, placement: str = "MinimizeVictims", **wants: Any) -> Decision:
    world = World(*items, plain=plain, placement=placement)
    world.add(pod("high", **{"priority": 100, "cpu": 2, **wants}))
    return world.step()


def _victims(preemption: Preemption) -> list[str]:
    return [v.unit.name.removeprefix("default/") for v in preemption.victims]


def _full(name: str, *priorities: int, cpu: int = 1, start: float | None = None, **each: Any) -> list[Any]:
    """A node filled with one pod per priority."""
    pods = [pod(f"{name}-{i}", cpu=cpu, node=name, priority=p, start=start, **each) for i, p in enumerate(priorities)]
    return [node(name, cpu=cpu * len(priorities)), *pods]


# -- 2: when preemption is considered ------------------------------------------------------------------------------


def test_nothing_is_preempted_if_it_fits_without() -> None:
    """preemption.md 2.1: "If a pod or group can be scheduled without preemption, nothing is preempted"."""
    decision = _decides(*_full("n1", 0, 0), node("n2", cpu=2))
    assert (decision.result, decision.preemption) == (Result.SCHEDULED, None)


def test_policy_never() -> None:
    """preemption.md 2.2: never for `preemptionPolicy: Never`."""
    decision = _decides(*_full("n1", 0, 0), never=True)
    assert decision.preemption is None
    assert decision.rejections[0].message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


@pytest.mark.parametrize(
    ("victim", "eligible"),
    [
        ({"terminating": True, "preempted": True, "priority": 5}, False),
        ({"terminating": True, "preempted": False, "priority": 5}, True),
        ({"terminating": False, "preempted": True, "priority": 5}, True),
        ({"terminating": True, "preempted": True, "priority": 100}, True),
    ],
)
def test_preemption_waits_while_a_victim_terminates_on_the_nominated_node(
    victim: dict[str, Any], eligible: bool
) -> None:
    """preemption.md 2.3: lower priority, terminating, DisruptionTarget by the scheduler, on the nominated node."""
    items = [node("n1", cpu=2), pod("v", cpu=1, node="n1", **victim), pod("other", cpu=1, node="n1", priority=5)]
    decision = _decides(*items, *_full("n2", 7, 7), nominated="n1")
    assert (decision.preemption is not None) is eligible
    if not eligible:
        text = "preemption: not eligible due to a terminating pod on the nominated node."
        assert decision.rejections[0].message.endswith(text)
        assert decision.cleared_nominations == (), "the nomination stays while the preemption is under way"


def test_priority_of_a_terminating_member_is_its_groups() -> None:
    """preemption.md 1, 2.3: the group's priority where the object exists."""
    member = pod("v", cpu=2, node="n1", terminating=True, preempted=True, priority=0, group="crew")
    assert _decides(
        node("n1", cpu=2), group("crew", priority=200), member, *_full("n2", 0, 0), nominated="n1"
    ).preemption
    assert not _decides(
        node("n1", cpu=2), group("crew", priority=1), member, *_full("n2", 0, 0), nominated="n1"
    ).preemption


def test_nominated_node_that_failed_for_good_does_not_count() -> None:
    """preemption.md 2.3: "if the node meanwhile failed as unschedulable and unresolvable"."""
    leaving = pod("v", cpu=2, node="n1", terminating=True, preempted=True)
    found = _preempts(node("n1", cpu=2, unschedulable=True), leaving, *_full("n2", 0, 0), nominated="n1")
    assert found.domain == "n2"


_BY_PRIORITY = {"n1": 1, "n2": 2, "n3": 3}


def _three_full_nodes() -> World:
    """A preemptor takes the cheapest node, n1, then n2, then n3; victims take their time."""
    items = [_full(name, priority, cpu=4, grace=100) for name, priority in _BY_PRIORITY.items()]
    return World(*[item for each in items for item in each])


@pytest.mark.parametrize("how", ["taken by a higher one", "node gone", "cleared in the API"])
def test_cleared_nomination_frees_the_preemptor_at_once(how: str) -> None:
    """preemption.md 2.3 : the guard is the nomination; without one the pod does not wait for the first victims."""
    world = _three_full_nodes().add(pod("mid", cpu=4, priority=100)).drain()
    assert world.nominated == {"mid": "n1"}
    if how == "node gone":
        world.engine.remove(ObjectRef("Node", "n1"), world.now)
    elif how == "cleared in the API":
        world.change_pod("mid", lambda item: replace(item, status=replace(item.status, nominated_node_name="n1")))
        world.change_pod("mid", lambda item: replace(item, status=replace(item.status, nominated_node_name="")))
    else:
        world.add(pod("high", cpu=4, priority=1000)).drain()
        assert world.nominated == {"high": "n1"}
    key = world.entity("mid").ref
    assert not world.engine.is_preempting(key)
    world.virtual.until(world.now + 5)
    again = "n1" if how == "cleared in the API" else "n2"  # as cheap as ever, and its victim is leaving already
    assert world.nominated["mid"] == again
    assert set(world.evicted) == {"n1-0", *({"n2-0"} if again == "n2" else ())}
    assert world.engine.is_preempting(key)
    world.settle()
    assert world.where["mid"] == again
    assert not world.engine._nominations.in_flight._victims
    assert not world.engine._nominations.in_flight._preemptors


def test_nomination_that_ends_while_the_calls_run_frees_the_preemptor_when_they_have_ended() -> None:
    """preemption.md 2.3, 7.3: it stays gated until its calls are through, and then waits for no victims."""
    world = _three_full_nodes().add(pod("mid", cpu=4, priority=100))
    assert world.step().result is Result.WAITING
    key = world.entity("mid").ref
    world.engine.mark_terminating("uid-n1-0", world.now, preempted=True)
    world.engine.remove(ObjectRef("Node", "n1"), world.now)
    assert world.engine.step(world.now).decision is None
    world.engine.finish_preemption(key, world.now)
    second = world.step()
    assert second.ref == key
    assert second.preemption is not None
    assert second.preemption.domain == "n2"


def test_first_victims_of_a_freed_preemptor_leave_after_the_second() -> None:
    """preemption.md 2.3: a late victim of a void preemption neither ends nor prolongs the one that took its place."""
    world = _three_full_nodes().add(pod("mid", cpu=4, priority=100)).drain()
    world.add(pod("high", cpu=4, priority=1000)).drain()
    key = world.entity("mid").ref
    world.virtual.until(world.now + 5)
    assert world.nominated == {"high": "n1", "mid": "n2"}
    world.gone("n1-0")
    assert world.engine.is_preempting(key)
    world.gone("n2-0")
    assert not world.engine.is_preempting(key)


def test_preemptor_waits_for_all_its_victims() -> None:
    """preemption.md 2.3, 9: never two preemptions in flight, also when an event wakes the preemptor early."""
    world = World(*_full("n1", 0, 0, grace=30), node("n2", cpu=2, unschedulable=True), pod("high", cpu=2, priority=9))
    world.drain()
    assert sorted(world.evicted) == ["n1-0", "n1-1"]
    world.gone("n1-0").add(*[pod(f"x{i}", cpu=1, node="n2") for i in range(2)])
    world.virtual.now += 5
    world.add(node("n2", cpu=2)).drain()
    assert "terminating pod" in world.message("high")
    assert world.nominated == {"high": "n1"}
    assert world.settle().where["high"] == "n1"
    assert sorted(world.evicted) == ["n1-0", "n1-1"]


# -- 3: victims on one node ----------------------------------------------------------------------------------------


def test_equal_and_higher_priorities_are_no_victims() -> None:
    """preemption.md 3.1, 9: strictly lower only."""
    for priority in (100, 101):
        decision = _decides(*_full("n1", priority, priority))
        assert decision.preemption is None
        assert "No preemption victims found for incoming pod" in decision.rejections[0].message


def test_one_member_of_an_all_group_is_the_whole_group() -> None:
    """preemption.md 3.1: "Its pods on other nodes count in the comparison and are evicted too"."""
    crew = [group("crew", min_count=1, whole=True), *[pod(f"c{n}", cpu=2, node=n, group="crew") for n in ("n1", "n3")]]
    nodes = [node("n1", cpu=2), node("n2", cpu=2), node("n3", cpu=2)]
    found = _preempts(*nodes, *crew, pod("top", cpu=2, node="n2", priority=200))
    (verdict,) = found.victims
    assert [p.name for p in verdict.unit.pods] == ["cn1", "cn3"]
    # two small plain pods elsewhere: as many pods, but the sum of priorities is the same, so the name decides
    cheaper = _preempts(*nodes, *crew, pod("single", cpu=2, node="n2"))
    assert (cheaper.domain, _victims(cheaper)) == ("n2", ["single"])


def test_room_is_freed_only_where_a_member_runs() -> None:
    """preemption.md 3.1: members elsewhere "free room only where they run"."""
    crew = [group("crew", min_count=1, whole=True), pod("c1", cpu=1, node="n1", group="crew")]
    crew.append(pod("c2", cpu=9, node="n2", group="crew"))
    items = [node("n1", cpu=2), node("n2", cpu=9, unschedulable=True), pod("top", cpu=1, node="n1", priority=200)]
    decision = _decides(*items, *crew)
    assert decision.preemption is None
    assert "1 Insufficient cpu" in decision.rejections[0].message.partition("preemption:")[2]


def test_no_candidate_without_victims_or_room() -> None:
    """preemption.md 3.2, each node with its own reason."""
    decision = _decides(
        *_full("n1", 100, 100), *_full("n2", 0, 100), node("n3", cpu=1), node("n4", unschedulable=True), cpu=2
    )
    assert decision.preemption is None
    assert decision.rejections[0].message.partition(" preemption: ")[2] == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("running", "wants", "victims"),
    [
        # the important ones stay: the two least important go
        ([("a", 9, 1), ("b", 5, 1), ("c", 1, 1), ("d", 3, 1)], 2, ["d", "c"]),
        # a big unimportant one suffices
        ([("a", 9, 1), ("b", 1, 3)], 2, ["b"]),
        # greedy from the most important down: the big important one stays, several small ones go
        ([("a", 9, 2), ("b", 1, 1), ("c", 1, 1)], 2, ["b", "c"]),
        # one that does not fit back does not stop the less important ones behind it
        ([("a", 9, 3), ("b", 1, 1)], 2, ["a"]),
    ],
)
def test_reprieve_in_the_order_of_importance(
    running: list[tuple[str, int, int]], wants: int, victims: list[str], plain: bool
) -> None:
    """preemption.md 3.4: put back from the most important down; keep what still leaves room."""
    total = sum(cpu for _, _, cpu in running)
    pods = [pod(name, priority=priority, cpu=cpu, node="n") for name, priority, cpu in running]
    found = _preempts(node("n", cpu=total), *pods, cpu=wants, plain=plain)
    assert _victims(found) == victims
    assert found.reprieved == len(running) - len(victims)


def test_group_unit_comes_back_whole_or_not_at_all() -> None:
    """preemption.md 3.4."""
    crew = gang("crew", 3, priority=50, whole=True, cpu=1, node="n")
    found = _preempts(node("n", cpu=4), *crew, pod("single", cpu=1, node="n", priority=1), cpu=2)
    # bringing back two of three would do; the group is all or nothing, so the less important single stays
    assert [[p.name for p in v.unit.pods] for v in found.victims] == [["crew-0", "crew-1", "crew-2"]]


@pytest.mark.parametrize("plain", [False, True])
def test_reason_names_what_is_short_beside_nominated_pods(plain: bool) -> None:
    """preemption.md 3.1, 3.2: upstream judges a node with its nominated pods first, and tells what is short then."""
    decision = _decides(
        node("n1", cpu=4, memory="4Gi"),
        pod("low", cpu=2, memory="1Gi", node="n1"),
        pod("holds", cpu=2, memory="3Gi", priority=100, gates=["g"], nominated="n1"),
        cpu=3,
        memory="2Gi",
        plain=plain,
    )
    assert decision.rejections[0].message == (
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. "
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
    )


@pytest.mark.parametrize("ports", [(), (80,)], ids=["resources alone", "a host port too"])
@pytest.mark.parametrize("plain", [False, True])
def test_victim_s_reason_has_the_amount_that_is_short_beside_nominated_pods(
    plain: bool, ports: tuple[int, ...]
) -> None:
    """preemption.md 3.4: there is room for p beside the victim, and none beside the victim and the nominated pod."""
    world = World(node("n", cpu=4), pod("low", cpu=2, node="n"), plain=plain)
    world.add(pod("holds", cpu=1, priority=100, gates=["g"], nominated="n"))
    decision = world.add(pod("p", cpu=2, priority=100, ports=ports)).step()
    assert decision.preemption is not None
    (verdict,) = decision.preemption.verdicts
    assert verdict.reason is not None
    assert (verdict.reason.text, verdict.reason.missing) == ("Insufficient cpu", (MissingAmount("cpu", 1000, 2000),))


def test_nominated_pods_count_as_running_while_reprieving() -> None:
    """preemption.md 3.4: "(nominated pods of equal or higher priority count as running)"."""
    items = [*_full("n", 1, 2, 3, 4), pod("peer", cpu=1, priority=100, nominated="n", gates=["g"])]
    assert _victims(_preempts(*items, cpu=2)) == ["n-2", "n-1", "n-0"]
    lower = [*_full("n", 1, 2, 3, 4), pod("peer", cpu=1, priority=99, nominated="n", gates=["g"])]
    assert _victims(_preempts(*lower, cpu=2)) == ["n-1", "n-0"]


def test_ports_are_freed_by_eviction() -> None:
    """preemption.md 3.5: filters other than resources are asked: the pod with the port goes, the bigger one stays."""
    items = [
        node("n", cpu=4),
        pod("big", cpu=3, node="n", priority=1),
        pod("web", cpu=1, node="n", priority=50, ports=[80]),
    ]
    found = _preempts(*items, cpu=1, ports=[80])
    assert _victims(found) == ["web"]
    (verdict,) = found.victims
    assert verdict.reason is not None
    assert (verdict.reason.plugin, verdict.reason.text) == (
        "NodePorts",
        "node(s) didn't have free ports for the requested pod ports",
    )


def test_reason_names_what_would_be_short() -> None:
    """preemption.md 3.5, observability.md: why a unit was evicted: the pod, the node, the plugin and the amount."""
    (verdict,) = _preempts(*_full("n", 1, 1), cpu=1).victims
    reason = verdict.reason
    assert reason is not None
    assert (reason.pod.name, reason.plugin, reason.text) == ("high", "NodeResourcesFit", "Insufficient cpu")
    assert (reason.resource, reason.short) == ("cpu", 1000)


# -- 3: the choice between nodes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("one", "two", "budgets", "chosen"),
    [
        # fewest PDB violations, before everything else
        (_full("n1", 0, 0), _full("n2", 90, 90), [pdb("b", {"on": "n1"})], "n2"),
        (_full("n1", 0, 0), _full("n2", 90, 90), [pdb("b", {"on": "n1"}, allowed=2)], "n1"),
        # lowest highest-victim priority, before the sum
        (_full("n1", 5, 0), _full("n2", 4, 4), [], "n2"),
        # smallest sum of priorities
        (_full("n1", 5, 5), _full("n2", 5, 4), [], "n2"),
        # one pod of negative priority more is not cheaper: each counts plus 2^31
        (_full("n1", 5, -100), _full("n2", 5, cpu=2), [], "n2"),
        (_full("n1", -3, -3), _full("n2", -3, -4), [], "n2"),
        # fewest pods cannot differ when the sums do not, but for equal sums of different units; then the latest start
        (_full("n1", 5, 5, start=1), _full("n2", 5, 5, start=2), [], "n2"),
        (_full("n1", 5, 5, start=2), _full("n2", 5, 5, start=1), [], "n1"),
        (_full("n1", 5, 5, start=2), _full("n2", 5, 5, start=None), [], "n2"),
        # the first by name
        (_full("n2", 5, 5), _full("n1", 5, 5), [], "n1"),
    ],
)
def test_choice_between_candidates(
    one: list[Any], two: list[Any], budgets: list[Any], chosen: str, plain: bool
) -> None:
    """preemption.md 3, the criteria one by one; the order of arrival has no say."""
    for nodes in (one + two, two + one):
        items = [_on(item) for item in nodes]
        found = _preempts(*items, *budgets, plain=plain)
        assert found.domain == chosen
        assert found.candidates == 2


def _on(item: Any) -> Any:
    """The pod labelled with its node, so that a budget can select a node's pods."""
    if hasattr(item.spec, "node_name"):
        return replace(item, metadata=replace(item.metadata, labels={"on": item.spec.node_name}))
    return item


def test_earliest_of_the_highest_victims_decides() -> None:
    """preemption.md 3: "latest start time of the earliest-started highest-priority victim"; others do not count."""
    one = [
        node("n1", cpu=3),
        *[pod(f"a{i}", cpu=1, node="n1", priority=p, start=s) for i, (p, s) in enumerate([(5, 9), (5, 3), (1, 1)])],
    ]
    two = [
        node("n2", cpu=3),
        *[pod(f"b{i}", cpu=1, node="n2", priority=p, start=s) for i, (p, s) in enumerate([(5, 4), (5, 4), (1, 9)])],
    ]
    assert _preempts(*one, *two, cpu=3).domain == "n2"


def test_members_elsewhere_count_in_the_choice() -> None:
    """preemption.md 3.1: a whole group costs its pods everywhere."""
    crew = [group("crew", min_count=1, whole=True), pod("c1", cpu=2, node="n1", group="crew")]
    crew.append(pod("c2", cpu=1, node="n3", group="crew"))
    found = _preempts(node("n1", cpu=2), node("n3", cpu=1), *crew, *_full("n2", 0, cpu=2))
    assert found.domain == "n2"


def test_all_nodes_are_candidates() -> None:
    """preemption.md 3: no sampling: the one cheap node among many is found."""
    items = [item for i in range(150) for item in _full(f"n{i:03}", 50, cpu=2)]
    found = _preempts(*items, *_full("x", 1, cpu=2))
    assert (found.domain, found.candidates) == ("x", 151)


# -- 5: importance -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "victim"),
    [
        # 1. higher priority is more important
        ([pod("a", cpu=1, node="n", priority=2), pod("b", cpu=1, node="n", priority=1)], "b"),
        # 2. a unit of a group before a plain pod, whatever its size, mode or start
        ([group("g"), pod("a", cpu=1, node="n", group="g"), pod("b", cpu=1, node="n", start=1)], "b"),
        (
            [
                group("g", min_count=1, whole=True),
                pod("a", cpu=1, node="n", group="g"),
                pod("b", cpu=1, node="n", start=1),
            ],
            "b",
        ),
        # ... but only with the object there
        ([pod("a", cpu=1, node="n", group="gone", start=2), pod("b", cpu=1, node="n", start=1)], "a"),
        # 4. the earlier start; none counts as started now
        ([pod("a", cpu=1, node="n", start=2), pod("b", cpu=1, node="n", start=1)], "a"),
        ([pod("a", cpu=1, node="n"), pod("b", cpu=1, node="n", start=1)], "a"),
        # 5. the lower UID
        ([pod("a", cpu=1, node="n", uid="2"), pod("b", cpu=1, node="n", uid="1")], "a"),
        ([pod("a", cpu=1, node="n", uid="2", start=1), pod("b", cpu=1, node="n", uid="1", start=1)], "a"),
        # the group's priority counts, not the pod's
        (
            [
                group("g", priority=9),
                pod("a", cpu=1, node="n", group="g", priority=0),
                pod("b", cpu=1, node="n", priority=5),
            ],
            "b",
        ),
        (
            [
                group("g", priority=1),
                pod("a", cpu=1, node="n", group="g", priority=9),
                pod("b", cpu=1, node="n", priority=5),
            ],
            "a",
        ),
    ],
)
def test_importance_decides(items: list[Any], victim: str) -> None:
    """preemption.md 5: of two units of which one can stay, the more important does."""
    for order in (items, items[::-1]):
        found = _preempts(node("n", cpu=2), *order, cpu=1, placement="Compatible")
        assert _victims(found) == [victim]


def test_more_pods_are_more_important() -> None:
    """preemption.md 5, 5.3, before the start."""
    big = [
        group("big", min_count=1, whole=True),
        *[pod(f"b{i}", cpu=1, node="n", group="big", start=9) for i in range(2)],
    ]
    small = [group("small", min_count=1, whole=True), pod("s", cpu=2, node="n", group="small", start=1)]
    found = _preempts(node("n", cpu=4), *big, *small, cpu=2)
    assert _victims(found) == ["small"]


# -- 6: budgets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budgets", "victims"),
    [
        # without a budget the least important goes
        ([], ["c"]),
        # a budget that forbids it spares c; then the least important of the others goes
        ([pdb("b", {"app": "c"})], ["b"]),
        ([pdb("b", {"app": "c"}, allowed=1)], ["c"]),
        # all violate: importance again
        ([pdb("b", {})], ["c"]),
        # a nil selector matches nothing
        ([pdb("b", nothing=True)], ["c"]),
        # of another namespace
        ([pdb("b", {"app": "c"}, namespace="other")], ["c"]),
        # its disruption is already counted
        ([pdb("b", {"app": "c"}, disrupted=["c"])], ["c"]),
        # two disruptions allowed of three pods: walking from the most important, only c is over
        ([pdb("b", {}, allowed=2)], ["b"]),
        # the strictest of several budgets decides
        ([pdb("b1", {}, allowed=9), pdb("b2", {"app": "c"}, allowed=0)], ["b"]),
    ],
)
def test_budgets_come_first_but_are_no_veto(budgets: list[Any], victims: list[str]) -> None:
    """preemption.md 6: violating units are reprieved before others, and still evicted if needed.

    By `placement: Compatible`: the search counts budgets over all victims (cost.md 4.2).
    """
    pods = [pod(n, cpu=1, node="n", priority=p, labels={"app": n}) for n, p in (("a", 9), ("b", 5), ("c", 1))]
    found = _preempts(node("n", cpu=3), *pods, *budgets, cpu=1, placement="Compatible")
    assert _victims(found) == victims
    everyone = _preempts(node("n", cpu=3), *pods, *budgets, cpu=3)
    assert _victims(everyone) == ["a", "b", "c"], "not blocked by a budget, sorted by importance"


def test_unit_violates_if_any_of_its_pods_does() -> None:
    """preemption.md 6: of a whole group with two pods under a budget of one, the second is over."""
    crew = gang("crew", 2, whole=True, cpu=1, node="n", labels={"app": "crew"})
    found = _preempts(
        node("n", cpu=4), *crew, pod("x", cpu=2, node="n", priority=50), pdb("b", {"app": "crew"}, allowed=1)
    )
    assert _victims(found) == ["x"]
    assert [v.violates_pdb for v in found.verdicts] == [False, True]
    assert found.pdb_violations == 0


# -- 7: nominations ------------------------------------------------------------------------------------------------


def test_room_in_the_making_is_taken_for_equals_and_below() -> None:
    """preemption.md 7.1: nominated in memory at once; higher-priority pods do not see it."""
    for priority, result in ((5, Result.UNSCHEDULABLE), (4, Result.UNSCHEDULABLE)):
        world = World(*_full("n", 0, 0), pod("high", cpu=2, priority=5), pod("next", cpu=1, priority=priority))
        assert world.step().nominations[0][1] == "n"
        for uid in ("uid-n-0", "uid-n-1"):
            world.engine.remove(ObjectRef("Pod", uid=uid), world.now)
        assert world.step().result is result
    world = World(*_full("n", 0, 0), pod("high", cpu=2, priority=5))
    world.step()
    world.gone("n-0").add(pod("higher", cpu=1, priority=6))
    assert world.step().result is Result.SCHEDULED


def test_two_equal_preemptors_take_different_nodes() -> None:
    """preemption.md 7.1: the second sees the first one's room as taken."""
    world = World(*_full("n1", 0, cpu=2), *_full("n2", 1, cpu=2), *[pod(f"h{i}", cpu=2, priority=9) for i in (1, 2)])
    assert world.settle().where == {"h1": "n1", "h2": "n2"}
    assert world.evicted == ["n1-0", "n2-0"]


def test_lower_nominations_on_the_node_make_way() -> None:
    """preemption.md 7.4: lower nominations on the same node "are cleared and those pods re-queued"."""
    world = World(*_full("n", 0, 0, grace=30), pod("mid", cpu=2, priority=5)).drain()
    assert world.nominated == {"mid": "n"}
    world.add(pod("top", cpu=2, priority=9))
    decision = world.step()
    assert [p.name for p in decision.cleared_nominations] == ["mid"]
    assert world.nominated == {"top": "n"}
    assert world.place("mid") in (QueueState.BACKOFF, QueueState.ACTIVE)
    world.virtual._act(decision)
    assert world.settle().where == {"top": "n"}
    assert world.nominated == {}


def test_failure_reverts_the_nomination_and_leaves_the_rest_alone() -> None:
    """preemption.md 7.5: the nomination is reverted, the preemptor tried at once; it may choose again."""
    world = World(*_full("n1", 0, cpu=2), *_full("n2", 1, cpu=2), pod("high", cpu=2, priority=9))
    first = world.step()
    assert first.preemption is not None
    world.gone("n2-0")
    reverted = world.engine.fail_preemption(first.ref, world.now).unnominated_pods
    assert [p.name for p in reverted] == ["high"]
    assert not world.engine.is_preempting(first.ref)
    assert [b.node for b in world.step().bindings] == ["n2"]
    assert world.where["n1-0"] == "n1"


def test_victims_that_were_already_leaving_are_waited_for() -> None:
    """preemption.md 3.1, 7.2: a terminating pod is a potential victim; it is gone after its grace period."""
    world = World(
        node("n", cpu=1), pod("v", cpu=1, node="n", terminating=True, grace=7), pod("high", cpu=1, priority=9)
    )
    assert world.settle().where == {"high": "n"}
    assert world.now >= world.virtual.start + 7
