"""A pod group as preemptor (preemption.md 4), groups as victims, and the faults of kube-scheduler 1.36.3."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import PodGroupAttempt, PodGroupPostFilterPlugin, PostFilterResult
from reprieve.framework.profile import Profile
from reprieve.framework.status import Code, Status
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.outcome import Preemption
from reprieve.python.builder import ClusterBuilder
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import Result
from tests.building import World, gang, group, history, node, pdb, pod, profile_with


def _preempts(world: World) -> Preemption:
    decision = world.step()
    assert decision.preemption is not None, decision.condition
    return decision.preemption


def _victims(preemption: Preemption) -> list[str]:
    return [p.name for v in preemption.victims for p in v.unit.pods]


def _nodes(count: int, *, cpu: int = 1, priority: int = 0) -> list[Any]:
    """Nodes filled with one pod each: `low0` on `n0`, and so on."""
    return [
        item
        for i in range(count)
        for item in (node(f"n{i}", cpu=cpu), pod(f"low{i}", cpu=cpu, node=f"n{i}", priority=priority, start=i))
    ]


class _Asked(PodGroupPostFilterPlugin):
    """Cannot help, and says when it was asked."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name = name  # type: ignore[misc]
        self._asked = asked

    def pod_group_post_filter(self, attempt: PodGroupAttempt) -> PostFilterResult:
        self._asked.append(self.name)
        return PostFilterResult(Status(Code.UNSCHEDULABLE, f"{self.name} cannot help", self.name))


@pytest.mark.parametrize(
    ("room", "asked"), [(1, ["First"]), (0, ["First", "Last"])], ids=["helped by preemption", "by none"]
)
def test_plugins_run_in_configured_order_until_the_first_success(room: int, asked: list[str]) -> None:
    """preemption.md 2.4: once for the whole group, after all of it failed."""
    found: list[str] = []
    base = profile_with(drop=[DefaultPreemption.name])
    order = [_Asked("First", found), *base.plugins, DefaultPreemption(), _Asked("Last", found)]
    profile = Profile(base.name, order, base.score_weights)
    world = World(
        *_nodes(2, priority=0 if room else 100), *gang("m", 2, cpu=1, priority=9), profiles={profile.name: profile}
    )
    decision = world.step()
    assert found == asked
    assert (decision.preemption is not None and bool(decision.preemption.victims)) is bool(room)


# -- eligibility ---------------------------------------------------------------------------------------------------


_NEVER = "not eligible due to preemptionPolicy=Never."
_LOWER = "PreemptLowerPriority"


@pytest.mark.parametrize(
    ("own", "members", "gate", "says"),
    [
        (None, (False, False), True, ""),
        (None, (True, True), True, _NEVER),
        (None, (True, False), True, f"same preemption policy, got {_LOWER} and Never"),
        ("Never", (True, True), True, _NEVER),
        ("Never", (True, False), True, f"as the pod group's preemption policy, got {_LOWER} and Never"),
        ("Never", (False,), True, f"as the pod group's preemption policy, got {_LOWER} and Never"),
        (_LOWER, (False, False), True, ""),
        (_LOWER, (False, True), True, f"as the pod group's preemption policy, got Never and {_LOWER}"),
        (_LOWER, (True,), True, f"as the pod group's preemption policy, got Never and {_LOWER}"),
        (_LOWER, (True, True), False, _NEVER),
        (_LOWER, (False, True), False, f"the same preemption policy, got Never and {_LOWER}"),
        (None, (True, False), False, f"the same preemption policy, got {_LOWER} and Never"),
        (None, (True, True), False, _NEVER),
        ("Never", (False, False), False, ""),
    ],
)
def test_policy_that_counts(own: str | None, members: tuple[bool, ...], gate: bool, says: str) -> None:
    """preemption.md 2.2: with the gate the group's, a member that differs is an error; without it the members agree.

    `members`: whether each has preemptionPolicy Never.
    """
    world = World(
        *_nodes(len(members)),
        group("crew", min_count=len(members), priority=5, policy=own),
        *[pod(f"m{i}", cpu=1, priority=5, group="crew", never=never) for i, never in enumerate(members)],
        gates=FeatureGates(pod_group_preemption_policy=gate),
    )
    decision = world.step()
    assert (decision.preemption is not None) is (says == "")
    assert decision.condition is not None
    assert says in decision.condition.message
    assert (decision.condition.reason == "SchedulerError") is (", got " in says)


def test_member_that_runs_counts_too() -> None:
    """preemption.md 2.2, 8.4: without the gate all members must agree, running ones too."""
    world = World(
        *_nodes(2), group("crew", min_count=2, priority=5), gates=FeatureGates(pod_group_preemption_policy=False)
    )
    world.add(node("own"), pod("first", node="own", group="crew", priority=5, never=True))
    world.add(pod("second", cpu=1, group="crew", priority=5)).engine.remove(ObjectRef("Node", "own"), world.now)
    decision = world.step()
    assert decision.preemption is None
    assert decision.condition is not None
    assert decision.condition.reason == "SchedulerError"
    assert decision.condition.message.endswith("same preemption policy, got Never and PreemptLowerPriority")


def test_no_second_preemption_while_victims_leave() -> None:
    """preemption.md 2.3, 4.5: "starts no second preemption while the first is under way", wherever its victims are."""
    world = World(*_nodes(3), *gang("crew", 2, cpu=1, priority=5)).drain()
    first = set(world.evicted)
    assert len(first) == 2
    world.gone(sorted(first)[0])
    spare = next(n for n in ("low0", "low1", "low2") if n not in first)
    world.add(node("n9", cpu=1), pod("thief", cpu=1, node="n9", priority=1))
    world.virtual.now += 3
    world.drain()
    assert set(world.evicted) == first
    assert spare in world.where
    assert sorted(world.settle().where) == sorted(["crew-0", "crew-1", spare, "thief"])


@pytest.mark.parametrize("least", [None, 1], ids=["basic", "gang"])
def test_room_that_is_being_made_for_one_member_is_not_taken_by_another(least: int | None) -> None:
    """preemption.md 9: no victim without a preemptor that then fits; the victims of `big` leave one after the other."""
    world = World(
        node("n", cpu=4),
        pod("quick", cpu=2, node="n", grace=0),
        pod("slow", cpu=2, node="n", grace=100),
        group("crew", min_count=least, priority=5),
        pod("big", cpu=4, group="crew", priority=5),
    ).drain()
    assert world.nominated == {"big": "n"}
    world.add(pod("small", cpu=2, group="crew", priority=5))
    assert world.settle().where == {"big": "n"}
    assert world.evicted == ["quick", "slow"]
    assert world.pending == ["small"]


def test_gang_that_lost_its_room_makes_room_elsewhere_at_once() -> None:
    """preemption.md 2.3: the guard is the nomination; once cleared the gang does not wait for the first victims."""
    items = [*_nodes(4), *gang("crew", 2, cpu=1, priority=5)]
    world = World(*items).drain()
    first, held = set(world.evicted), set(world.nominated.values())
    world.add(*[pod(f"thief{i}", cpu=1, priority=9) for i in range(2)]).drain()
    lost = {f"thief{i}" for i in range(2)} & set(world.nominated)
    assert lost == {"thief0", "thief1"}
    assert held == set(world.nominated.values())
    assert set(world.evicted) == first
    world.virtual.until(world.now + 11)
    assert set(world.evicted) == {"low0", "low1", "low2", "low3"}
    assert sorted(world.settle().where) == ["crew-0", "crew-1", "thief0", "thief1"]


def test_gang_below_the_minimum_waits() -> None:
    """preemption.md 2.5: "is gated and does not preempt"."""
    world = World(*_nodes(3), group("crew", min_count=3, priority=5))
    world.add(*[pod(f"m{i}", cpu=1, priority=5, group="crew") for i in range(2)]).settle()
    assert world.evicted == []
    assert world.place("crew") is QueueState.GATED


# -- 4 -------------------------------------------------------------------------------------------------------------


def test_group_without_lower_priorities_anywhere() -> None:
    """preemption.md 4.1: "No preemption victims found for incoming preemptor"."""
    world = World(*_nodes(2, priority=5), *gang("crew", 2, cpu=1, priority=5)).settle()
    assert world.evicted == []
    assert "No preemption victims found for incoming preemptor" in world.condition("crew")[2]


def test_nothing_is_touched_if_it_does_not_fit_with_everything_gone() -> None:
    """preemption.md 4.2."""
    world = World(*_nodes(2), *gang("crew", 3, cpu=1, priority=5)).settle()
    assert world.evicted == []
    assert world.nominated == {}
    assert sorted(world.where) == ["low0", "low1"]


def test_members_are_as_many_as_fit_and_the_minimum() -> None:
    """preemption.md 4.2, 4.3: "(for at least `minCount` pods, and for as many as fit)"."""
    world = World(*_nodes(3), *gang("crew", 5, min_count=2, cpu=1, priority=5))
    found = _preempts(world)
    assert len(found.nominations) == 3
    assert len(world.nominated) == 3


@pytest.mark.parametrize("plain", [False, True])
def test_units_stay_where_the_placement_leaves_room(plain: bool) -> None:
    """preemption.md 4.3: the most important are spared, across all nodes of the placement."""
    items: list[Any] = []
    for i in range(3):
        items += [node(f"n{i}", cpu=4), *[pod(f"r{i}{j}", cpu=1, node=f"n{i}", priority=10 * i + j) for j in range(4)]]
    world = World(*items, *gang("crew", 3, cpu=2, priority=99), plain=plain)
    found = _preempts(world)
    per_node = {n: sum(1 for _, row in found.nominations if row == world.row(n)) for n in ("n0", "n1", "n2")}
    for i, name in enumerate(("n0", "n1", "n2")):
        gone = 2 * per_node[name]
        expected = {f"r{i}{j}" for j in range(4)[:gone]}
        assert {v for v in _victims(found) if v.startswith(f"r{i}")} == expected
    assert found.domain == "cluster"


@pytest.mark.parametrize(
    ("running", "members", "victims"),
    [
        # The second keeps away from the b on n1 and goes to n2; the first needs one CPU more on n1.
        (
            {"n0": [("r0", 0, 2, "b"), ("r1", 1, 2, "b")], "n1": [("r2", 0, 1, "b"), ("r3", 0, 1, "b")],
             "n2": [("r4", 1, 1, "a")]},
            [(3, None), (1, "b")],
            ["r3"],
        ),
        ({"n0": [("r0", 1, 1, "b")], "n1": [("r1", 0, 2, "b")]}, [(2, "b"), (3, "a")], ["r1"]),
        (
            {"n0": [("r0", 1, 1, "a"), ("r1", 0, 2, "b")], "n1": [("r2", 0, 2, "b"), ("r3", 0, 2, "a")]},
            [(3, "a"), (1, None)],
            ["r2", "r3"],
        ),
        ({"n0": [("r0", 1, 1, "a")], "n1": [("r1", 1, 1, "a")], "n2": [("r2", 0, 2, "b")]},
         [(2, "a"), (4, "a")], ["r0"]),
    ],
)  # fmt: skip
def test_victims_are_no_more_than_the_group_needs_where_amounts_do_not_tell(
    running: dict[str, list[tuple[str, int, int, str]]], members: list[tuple[int, str | None]], victims: list[str]
) -> None:
    """preemption.md 4.3: members keep away from others by a label: the group's own algorithm decides."""
    cluster = ClusterBuilder().add_group("g", min_count=2, priority=100)
    for name, there in running.items():
        cluster.add_node(name, {"cpu": "4"}, labels={"kubernetes.io/hostname": name})
        for one, priority, cpu, app in there:
            cluster.add_pod(one, node=name, priority=priority, requests={"cpu": str(cpu)}, labels={"app": app})
    for index, (cpu, away_from) in enumerate(members):
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": away_from}}}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        spec = {"affinity": apart} if away_from is not None else {}
        requests = {"cpu": str(cpu)}
        cluster.add_pod(f"g{index}", group="g", priority=100, requests=requests, labels={"app": "g"}, spec=spec)
    [preemption] = cluster.plan().plan.preemptions
    assert sorted(victim.name for victim in preemption.victims) == victims


def test_preemption_without_a_victim() -> None:
    """preemption.md 4.4: "the placement fits as it is": nothing is evicted, the group is retried at once."""
    # Greedy by creation: the small pod takes the GPU node first; with the low pod gone, it would go elsewhere.
    world = World(
        node("a", cpu=4, gpu=1), node("b", cpu=8), pod("low", cpu=6, node="b"), group("crew", min_count=2, priority=5)
    )
    world.add(pod("small", cpu=2, group="crew", priority=5), pod("large", cpu=4, gpu=1, group="crew", priority=5))
    first = world.step()
    if first.preemption is not None and not first.preemption.victims:
        assert world.place("crew") is QueueState.ACTIVE
        assert not world.engine.is_preempting("group/default/crew")
    world.virtual._act(first)
    world.settle()
    assert world.where == {"small": "b", "large": "a", "low": "b"}
    assert world.evicted == []


def test_every_assigned_pod_is_nominated_and_the_group_waits() -> None:
    """preemption.md 4.5: nominate every assigned pod; back to the queue, waiting."""
    world = World(*_nodes(2), node("n2", cpu=1), *gang("crew", 3, cpu=1, priority=5))
    decision = world.step()
    assert decision.result is Result.WAITING
    assert sorted(p.name for p, _ in decision.nominations) == ["crew-0", "crew-1", "crew-2"]
    assert sorted(n for _, n in decision.nominations) == ["n0", "n1", "n2"]
    assert world.entity("crew").block_reason == "waiting for the preemption for this pod group to be finished"


def test_group_may_be_placed_elsewhere_if_room_appears() -> None:
    """preemption.md 4.5: "It may later be placed anywhere if capacity becomes free"."""
    world = World(*_nodes(1), *gang("crew", 1, cpu=1, priority=5)).drain()
    assert world.nominated == {"crew-0": "n0"}
    world.add(node("n9", cpu=1))
    world.virtual.now += 2
    world.drain()
    assert world.where == {"crew-0": "n9"}
    assert world.nominated == {}


@pytest.mark.parametrize("count", [0, 1, 2])
def test_budgets_across_the_placement(count: int) -> None:
    """preemption.md 4.3, 6: violating units first, still evicted if needed."""
    world = World(*_nodes(3), *gang("crew", 2 if count < 2 else 3, cpu=1, priority=5))
    if count:
        world.add(pdb("b", {}, allowed=0))
    found = _preempts(world)
    assert len(found.victims) == (2 if count < 2 else 3)
    assert found.pdb_violations == (len(found.victims) if count else 0)


# -- the four meetings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_pod_or_group_meets_group(by_group: bool, whole: bool, plain: bool) -> None:
    """preemption.md 1, 3, 4: in mode `single` a gang loses what is needed, in mode `all` it is evicted as a whole."""
    victims = gang("low", 3, cpu=1, priority=1, whole=whole)
    placed = [pod(f"low-{i}", cpu=1, node=f"n{i}", priority=1, group="low", start=i) for i in range(3)]
    items = [*[node(f"n{i}", cpu=1) for i in range(3)], victims[0], *placed]
    high = gang("high", 1, cpu=1, priority=5) if by_group else [pod("high-0", cpu=1, priority=5)]
    world = World(*items, *high, plain=plain).settle()
    assert world.evicted == (["low-0", "low-1", "low-2"] if whole else world.evicted[:1])
    assert len(world.evicted) == (3 if whole else 1)
    assert "high-0" in world.where


@pytest.mark.parametrize("by_group", [False, True])
def test_pod_or_group_meets_pod(by_group: bool) -> None:
    """The least important of the plain pods goes."""
    high = gang("high", 1, cpu=1, priority=5) if by_group else [pod("high-0", cpu=1, priority=5)]
    world = World(node("n", cpu=2), pod("a", cpu=1, node="n", priority=1), pod("b", cpu=1, node="n", priority=2), *high)
    world.settle()
    assert world.evicted == ["a"]
    assert sorted(world.where) == ["b", "high-0"]


def test_members_of_a_group_without_an_object_are_on_their_own() -> None:
    """preemption.md 1: "so is a pod with a PodGroup that does not exist"."""
    placed = [pod(f"low-{i}", cpu=1, node="n", priority=i, group="lost") for i in range(3)]
    world = World(node("n", cpu=3), *placed, *gang("high", 1, cpu=1, priority=5)).settle()
    assert world.evicted == ["low-0"]


def test_groups_priority_protects_and_exposes_its_pods() -> None:
    """preemption.md 1: the group's priority for every pod that references an existing group, in either mode."""
    for whole in (False, True):
        strong = [
            group("s", min_count=1, priority=9, whole=whole),
            pod("strong", cpu=1, node="n", group="s", priority=0),
        ]
        weak = [group("w", min_count=1, priority=0, whole=whole), pod("weak", cpu=1, node="n", group="w", priority=9)]
        world = World(node("n", cpu=2), *strong, *weak, *gang("high", 1, cpu=1, priority=5)).settle()
        assert world.evicted == ["weak"]


def test_gang_does_not_preempt_its_own_members() -> None:
    """Equal priority is never lower."""
    world = World(node("n", cpu=1), group("crew", min_count=1, priority=5))
    world.add(pod("r", cpu=1, node="n", group="crew", priority=0), pod("p", cpu=1, group="crew", priority=5)).settle()
    assert world.evicted == []


def test_assumed_victims_are_units_too() -> None:
    """preemption.md 1: "(bound or assumed)": a gang that is only reserved is evicted as a whole as well."""
    world = World(node("n", cpu=2), *gang("low", 2, cpu=1, whole=True))
    assert world.step().result is Result.SCHEDULED
    world.add(pod("high", cpu=1, priority=5))
    assert sorted(_victims(_preempts(world))) == ["low-0", "low-1"]


def test_same_answer_whatever_came_first() -> None:
    """preemption.md 4: deterministic."""
    items = [(item, 1.0 * i) for i, item in enumerate([*_nodes(4), *gang("crew", 3, cpu=1, priority=5)])]
    one, other = World(*items).settle(), World(*items[::-1]).settle()
    assert history(one) == history(other)


def test_cleared_room_of_an_earlier_nomination_is_offered_to_others() -> None:
    """A preemptor that chooses another node gives the first one up (scheduling.md 7)."""
    world = World(node("n1", cpu=1), node("n2", cpu=2), pod("low", cpu=2, node="n2"))
    world.add(pod("high", cpu=2, priority=9, nominated="n1"), pod("small", cpu=1, priority=1)).settle()
    assert world.where == {"high": "n2", "small": "n1"}


# -- the known faults of kube-scheduler 1.36.3 ---------------------------------------------------------------------


def test_fault_no_hot_loop_of_an_unschedulable_group() -> None:
    """Fault: "an unschedulable group retries in a hot loop without backoff"."""
    world = World(*_nodes(2), *gang("crew", 3, cpu=1, priority=5)).drain()
    assert len(world.engine.decisions) == 1
    for _ in range(20):
        world.add(pod(f"noise{world.engine.attempts}", node="n0", cpu="0")).gone(f"noise{world.engine.attempts}")
        world.drain()
    assert len(world.engine.decisions) == 1, "events within the backoff start no attempt"
    assert world.place("crew") is QueueState.BACKOFF


def test_fault_no_new_decision_while_victims_terminate() -> None:
    """Fault: "a group re-decides while its victims still terminate and evicts more"."""
    world = World(*_nodes(4), *gang("crew", 2, cpu=1, priority=5)).drain()
    for second in range(1, 30):
        world.virtual.until(world.virtual.start + second)
        world.add(pod(f"noise{second}", node="n3", cpu="0")).gone(f"noise{second}").drain()
    assert len(world.virtual.preemptions) == 1
    assert len(world.settle().evicted) == 2


def test_fault_two_gangs_choose_different_victims() -> None:
    """Fault: members without a nomination, "so a second gang picks the same victims"."""
    world = World(*_nodes(4), *gang("one", 2, cpu=1, priority=5), *gang("two", 2, cpu=1, priority=5)).drain()
    assert len(world.virtual.preemptions) == 2
    first, second = (set(_victims(p.preemption)) for p in world.virtual.preemptions)
    assert not first & second
    assert len(world.nominated) == 4
    assert len(world.settle().where) == 4


def test_fault_victims_that_vanish_at_once_do_not_lose_the_wake_up() -> None:
    """Fault: "if victims vanish quickly the gang can miss its wake-up and stay gated forever"."""
    world = World(*_nodes(2), *gang("crew", 2, cpu=1, priority=5))
    decision = world.step()
    assert decision.preemption is not None
    for verdict in decision.preemption.victims:
        for victim in verdict.unit.pods:
            world.engine.mark_terminating(victim.uid, world.now, preempted=True)
            world.engine.remove(ObjectRef("Pod", uid=victim.uid), world.now)
    assert world.place("crew") is QueueState.GATED
    world.engine.finish_preemption(decision.ref, world.now)
    assert sorted(world.settle().where) == ["crew-0", "crew-1"]


def test_fault_a_decision_does_not_grow_with_the_square_of_the_group() -> None:
    """Fault: "time and memory of one group decision grow with the square of its size": passes do not grow at all."""
    passes = {}
    for size in (20, 80):
        world = World(
            *[node(f"n{i:03}", cpu=1) for i in range(size)],
            *[pod(f"low{i}", cpu=1, node=f"n{i:03}") for i in range(size)],
        )
        world.add(*gang("crew", size, cpu=1, priority=5))
        assert len(_preempts(world).victims) == size
        passes[size] = world.engine.running["default-scheduler"].evaluator.passes
    assert passes[80] <= passes[20] + 2


def test_unit_stays_where_members_placed_before_make_that_right() -> None:
    """preemption.md 4.3: the second member sees the first, so that one more pod of its zone keeps the spread."""
    constraint = objects.TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=objects.LabelSelector(match_labels={"app": "x"}),
    )
    crew = [
        replace(item, spec=replace(item.spec, topology_spread_constraints=(constraint,)))
        if isinstance(item, objects.Pod)
        else item
        for item in gang("crew", 2, cpu=2, priority=5, labels={"app": "x"})
    ]
    world = World(
        node("na", cpu=8, labels={"zone": "a"}),
        node("nb", cpu=3, labels={"zone": "b"}),
        pod("a", cpu=8, node="na"),
        pod("b", cpu=2, node="nb"),
        pod("kept", cpu=1, node="nb", labels={"app": "x"}),
        placement="Compatible",
    )
    found = _preempts(world.add(*crew))
    assert [world.engine.cluster.nodes.names[row] for _, row in found.nominations] == ["na", "nb"]
    assert _victims(found) == ["a", "b"]


def test_fault_the_order_does_not_depend_on_hashes() -> None:
    """Fault: "the order of pods in a gang and of equal victims depends on hash order"."""
    names = ["zeta", "alpha", "mid", "beta"]
    world = World(
        node("n", cpu=4),
        *[pod(f"v-{n}", cpu=1, node="n", uid=n) for n in names],
        group("crew", min_count=2, priority=5),
    )
    world.add(*[(pod(n, cpu=1, priority=5, group="crew"), 7.0) for n in names])
    found = _preempts(world)
    assert [p.name for p, _ in found.nominations] == sorted(names)
    assert _victims(found) == ["v-alpha", "v-beta", "v-mid", "v-zeta"]


def test_fault_below_the_minimum_the_reason_can_be_read() -> None:
    """Fault: "below minCount there is no condition and no event at all": the entity says why it waits."""
    world = World(node("n"), group("crew", min_count=2), pod("m", group="crew")).settle()
    assert world.entity("crew").gate.reason == "waiting for minCount pods from a gang to appear in scheduling queue"
    assert world.entity("crew").gate.plugin == "GangScheduling"
