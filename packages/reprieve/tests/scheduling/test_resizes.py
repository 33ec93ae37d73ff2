"""Deferred resizes in place: queued one by one, decided on their own node (docs/rules/resizes.md)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.requests import allocated_requests, pod_requests
from reprieve.decisions.preemptions import preemption_amounts
from reprieve.framework.gates import FeatureGates
from reprieve.framework.preemption_cost import Costs, EvictionUnits, PreemptionCost
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import Result
from tests.building import (
    START,
    World,
    annotated,
    composite,
    gang,
    group,
    node,
    pdb,
    pod,
    priority_class,
    profile_with,
)

PENDING = objects.PodCondition(type="PodResizePending", status="True", reason="Deferred")


def given(item: objects.Pod, cpu: str, *conditions: objects.PodCondition) -> objects.Pod:
    """The pod with what its kubelet has given to it."""
    amounts: dict[str, str | int | float] = {"cpu": cpu}
    status = objects.ContainerStatus(
        name="main", allocated_resources=amounts, resources=objects.ResourceRequirements(requests=amounts)
    )
    return replace(item, status=replace(item.status, container_statuses=(status,), conditions=conditions))


def growing(
    name: str = "web", *, want: str = "3", have: str = "2", priority: int = 10, on: str = "n1", **fields: object
) -> objects.Pod:
    """A running pod that wants more than it has."""
    return given(pod(name, cpu=want, node=on, priority=priority, **fields), have, PENDING)  # type: ignore[arg-type]


def entity_state(world: World, name: str = "web") -> QueueState | None:
    entity = world.engine.queue.find(world.record(name)) if name in world.where else None
    return entity.state if entity is not None else None


@pytest.mark.parametrize(
    ("want", "have", "reason", "counted", "allocated"),
    [
        ("3", "2", "Deferred", 3000, 2000),
        ("1", "2", "Deferred", 2000, 2000),
        ("3", "2", "Infeasible", 2000, 2000),
        ("3", "3", "", 3000, 3000),
    ],
)
def test_most_of_desired_and_allocated_counts(want: str, have: str, reason: str, counted: int, allocated: int) -> None:
    """resizes.md 2.1: for the scheduler the most of both, for a kubelet that resizes others what it has given."""
    conditions = (replace(PENDING, reason=reason),) if reason else ()
    item = given(pod("web", cpu=want, node="n1"), have, *conditions)
    assert pod_requests(item) == {"cpu": counted}
    assert allocated_requests(item) == {"cpu": allocated}


def test_member_of_a_gang_is_queued_by_itself() -> None:
    """resizes.md 1.2: what waits for a place, a pod of the same gang that fits nowhere, is another entity."""
    world = World(
        node("n1", cpu=4),
        gang("g", 2),
        growing(group="g"),
        pod("low", cpu=2, node="n1"),
        pod("m", cpu=9, group="g", priority=10),
    ).drain()
    assert world.evicted == ["low"]
    assert {entity.ref for entity in world.engine.queue.entities()} == {"group/default/g", "resizes/group/default/g"}


class _Unable(PreemptionCost):
    """A criterion that fails."""

    name = "Unable"

    def of_units(self, units: EvictionUnits) -> Costs:
        """See `PreemptionCost.of_units`."""
        raise ZeroDivisionError("by design")


def test_plugin_that_fails_an_attempt_for_a_resize_leaves_it_to_be_tried_again() -> None:
    """scheduling.md 5, resizes.md 4.2: the attempt is one for a resize, and no pods are evicted."""
    criteria = [{"name": "DefaultPreemption", "args": {"cost": ["Unable", "pods"]}}]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": criteria}],
    }
    items = [node("n1", cpu=4), growing(), pod("low", cpu=2, node="n1")]
    world = World(*items, plugins=[_Unable], config=config)
    decision = world.step()
    assert (decision.resize, decision.result, decision.preemption) == (True, Result.ERROR, None)
    assert "Unable" in decision.rejections[0].message
    assert entity_state(world) is QueueState.BACKOFF


def test_own_gang_is_not_evicted_for_a_resize() -> None:
    """resizes.md 3.2: also where the gang has a lower priority than its pod."""
    world = World(
        node("n1", cpu=4), gang("g", 1, priority=0), growing(group="g"), pod("m", cpu=2, node="n1", group="g")
    ).drain()
    assert world.evicted == []
    assert entity_state(world) is QueueState.UNSCHEDULABLE


def test_only_what_is_overcommitted_is_needed() -> None:
    """resizes.md 2.2: what the pod has of other resources is its own already."""
    world = World(node("n1", cpu=4, memory="4Gi"), growing(memory="2Gi"), pod("low", cpu=2, memory="2Gi", node="n1"))
    preemption = world.step().preemption
    assert preemption is not None
    assert preemption_amounts(world.engine.cluster, preemption) == [("cpu", 1000, 2000)]


def test_nothing_is_nominated_and_no_condition_is_decided() -> None:
    """resizes.md 4.1."""
    world = World(node("n1", cpu=4), growing(), pod("low", cpu=2, node="n1")).drain()
    (decision,) = world.engine.decisions
    assert (decision.resize, decision.result, decision.nominations) == (True, Result.WAITING, ())
    assert (world.nominated, world.virtual.rejections) == ({}, {})


def test_pending_resize_to_another_amount_is_tried_again() -> None:
    """resizes.md 1.6, 2.2: it fits now, and leaves the queue."""
    world = World(node("n1", cpu=4), growing(), pod("peer", cpu="1500m", node="n1", priority=10)).drain()
    assert entity_state(world) is QueueState.UNSCHEDULABLE
    world.change_pod("web", lambda _: growing(want="2500m"))
    world.virtual.until(START + 20)
    assert entity_state(world) is None


@pytest.mark.parametrize(("want", "state"), [("2500m", None), ("3500m", QueueState.UNSCHEDULABLE)])
def test_resize_that_fitted_and_asks_for_another_amount_is_queued_again(want: str, state: QueueState | None) -> None:
    """resizes.md 1.6: with what it asked for before it had left the queue."""
    world = World(node("n1", cpu=4), growing(), pod("peer", cpu=1, node="n1", priority=10)).drain()
    assert entity_state(world) is None
    attempts = len(world.engine.decisions)
    world.change_pod("web", lambda _: growing(want=want))
    world.virtual.until(START + 20)
    assert len(world.engine.decisions) == attempts + 1
    assert entity_state(world) is state


@pytest.mark.parametrize(("where", "woken"), [("n1", True), ("n2", False)], ids=["on its node", "on another node"])
def test_only_its_own_node_wakes_it(where: str, woken: bool) -> None:
    """resizes.md 1.5."""
    world = World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        growing(),
        pod("peer", cpu="1500m", node="n1", priority=10),
        pod("small", cpu="500m", node=where, priority=10),
    ).drain()
    attempts = len(world.engine.decisions)
    world.gone("small")
    world.virtual.until(START + 20)
    assert (len(world.engine.decisions) > attempts) is woken


def test_resize_that_fitted_is_not_tried_again_for_a_pod_with_the_same_amounts() -> None:
    """resizes.md 1.6."""
    other = pod("other", cpu=1, node="n1")
    world = World(node("n1", cpu=8), growing(), other)
    assert world.engine.step(world.now).decision is not None
    world.engine.set(replace(other, metadata=replace(other.metadata, labels={"a": "b"})), world.now)
    assert (entity_state(world), world.record("web").resizing) == (None, True)


def test_member_without_a_resize_does_not_wake_its_gang_from_another_node() -> None:
    """resizes.md 1.5, 1.9."""
    member = pod("b", cpu=1, node="n2", priority=10, group="g")
    peer = pod("peer", cpu=2, node="n1", priority=10)
    world = World(node("n1", cpu=4), node("n2", cpu=4), gang("g", 2)[0], growing("a", group="g"), member, peer).drain()
    attempts = len(world.engine.decisions)
    world.engine.set(replace(member, metadata=replace(member.metadata, labels={"a": "b"})), world.now)
    world.virtual.until(START + 20)
    assert len(world.engine.decisions) == attempts == 1


def test_node_that_forbids_evictions_and_then_allows_them() -> None:
    """resizes.md 2.3: the change of the policy wakes it."""
    forbids = node("n1", cpu=4)
    policy = objects.NodePodPreemptionPolicy(disable_resize_preemption=("example.com/autoscaler",))
    forbids = replace(forbids, spec=replace(forbids.spec, pod_preemption_policy=policy))
    world = World(forbids, growing(), pod("low", cpu=2, node="n1", grace=0)).drain()
    (decision,) = world.engine.decisions
    assert decision.rejections[0].message == "0/1 nodes are available: 1 node had resize preemption disabled."
    world.add(node("n1", cpu=4)).settle()
    assert world.evicted == ["low"]


def test_terminating_victim_is_waited_for() -> None:
    """resizes.md 3.4: also by a scheduler that has just started, as the mark is on the victim."""
    world = World(
        node("n1", cpu=6),
        growing(),
        pod("low", cpu=2, node="n1", terminating=True, preempted=True),
        pod("spare", cpu=2, node="n1"),
    ).drain()
    (decision,) = world.engine.decisions
    assert decision.preemption is None
    assert "not eligible due to a terminating pod on the nominated node" in decision.rejections[0].message


def test_resize_that_fits_leaves_the_queue() -> None:
    """resizes.md 2.2: the rest is up to the kubelet; nothing is bound."""
    world = World(node("n1", cpu=8), growing()).drain()
    (decision,) = world.engine.decisions
    assert (decision.resize, decision.result, decision.bindings) == (True, Result.SCHEDULED, ())
    assert entity_state(world) is None


def test_another_pod_that_grows_brings_it_back() -> None:
    """resizes.md 1.6: the kubelet gave the freed capacity to another pod."""
    world = World(
        node("n1", cpu=5), growing(), pod("peer", cpu=1, node="n1", priority=10), pod("low", cpu=1, node="n1")
    )
    world.engine.set(growing(), world.now)
    while world.engine.step(world.now).decision is not None:
        pass
    assert entity_state(world) is None
    peer = given(pod("peer", cpu=2, node="n1", priority=10), "2")
    world.engine.set(peer, world.now)
    (decision,) = [found for _ in range(2) if (found := world.engine.step(world.now).decision) is not None]
    assert decision.preemption is not None
    assert [verdict.unit.name for verdict in decision.preemption.victims] == ["default/low"]


def test_resize_taken_back_is_no_longer_queued() -> None:
    """resizes.md 1.4: the condition is gone, or the pod is deleted."""
    world = World(node("n1", cpu=4), growing(), pod("peer", cpu=2, node="n1", priority=10)).drain()
    assert entity_state(world) is QueueState.UNSCHEDULABLE
    world.engine.set(given(pod("web", cpu=2, node="n1", priority=10), "2"), world.now)
    assert (entity_state(world), world.record("web").resizing) == (None, False)
    world.engine.set(growing(), world.now)
    assert entity_state(world) is not None
    world.engine.remove(objects.ObjectRef("Pod", "default/web", "uid-web"), world.now)
    assert entity_state(world) is None


def test_gate_off() -> None:
    """resizes.md 1.7."""
    gates = FeatureGates(in_place_pod_vertical_scaling_scheduler_preemption=False)
    world = World(node("n1", cpu=4), growing(), pod("low", cpu=2, node="n1"), gates=gates).drain()
    assert (world.engine.decisions, entity_state(world)) == ([], None)


def test_annotations_about_work_hold_for_resizes() -> None:
    """resizes.md 3.3: a minimum runtime is kept, and the resize is tried when it is over."""
    low = pod("low", cpu=2, node="n1", start=0, grace=0, annotations=annotated(minimum_runtime="1h"))
    world = World(node("n1", cpu=4), growing(), low).drain()
    assert world.evicted == []
    world.settle()
    assert (world.evicted, world.now - START >= 3600) == (["low"], True)


def test_budgets_are_avoided_where_possible() -> None:
    """resizes.md 3.1."""
    world = World(
        node("n1", cpu=4),
        growing(),
        pod("guarded", cpu=1, node="n1", labels={"app": "db"}),
        pod("plain", cpu=1, node="n1", priority=5),
        pdb("db", {"app": "db"}),
    ).drain()
    assert world.evicted == ["plain"]


@pytest.mark.parametrize(("want", "evicted"), [("4", ["low"]), ("4001m", [])])
def test_request_above_the_node_evicts_no_pods(want: str, evicted: list[str]) -> None:
    """resizes.md 2.4: as large as the node it may be."""
    world = World(node("n1", cpu=4), growing(want=want), pod("low", cpu=2, node="n1")).drain()
    assert world.evicted == evicted
    (decision,) = world.engine.decisions
    assert decision.rejections[0].message == "0/1 nodes are available: 1 Insufficient cpu."
    assert decision.rejected_by == {"NodeResourcesFit"}


def test_amounts_do_not_count_without_the_plugin_that_compares_them() -> None:
    """resizes.md 2.2: nothing is overcommitted for a profile without NodeResourcesFit."""
    profile = profile_with(drop=["NodeResourcesFit"])
    world = World(node("n1", cpu=4), growing(), pod("low", cpu=2, node="n1"), profiles={profile.name: profile}).drain()
    (decision,) = world.engine.decisions
    assert (decision.result, world.evicted) == (Result.SCHEDULED, [])


def test_policy_that_never_preempts_holds_for_resizes() -> None:
    """resizes.md 3.3: the condition of the attempt says so, after the resources that are short."""
    world = World(node("n1", cpu=4), growing(never=True), pod("low", cpu=2, node="n1")).drain()
    (decision,) = world.engine.decisions
    assert (decision.result, world.evicted, decision.deferral) == (Result.UNSCHEDULABLE, [], None)
    assert decision.rejections[0].message.startswith("0/1 nodes are available: 1 Insufficient cpu. ")


# -- resizes of a gang (resizes.md 1.9, 3.5, 3.6) ----------------------------------------------------------------------


def two_nodes(*more: objects.KubernetesObject, gang_first: bool = True) -> World:
    """A gang `g` with `a` on n1 and `b` on n2 that both want 3 of 4 CPUs and have 2."""
    items = [node("n1", cpu=4), node("n2", cpu=4)]
    members = [growing("a", group="g"), growing("b", group="g", on="n2")]
    parts: list[objects.KubernetesObject] = [*items]
    parts += [group("g", min_count=2), *members] if gang_first else [*members, group("g", min_count=2)]
    return World(*parts, *more)


def resizes_of(world: World) -> dict[str, set[str]]:
    """By entity: the pods with a resize that waits in it."""
    found = {entity.ref: {pod.name for pod in entity.ready.values()} for entity in world.engine.queue.entities()}
    return dict(sorted(found.items()))


GANG = "resizes/group/default/g"


@pytest.mark.parametrize("gang_first", [True, False])
def test_resizes_of_a_gang_are_one_entity(gang_first: bool) -> None:
    """resizes.md 1.9: also if the gang's object is known later than its pods; one attempt decides for all."""
    world = two_nodes(pod("low1", cpu=2, node="n1"), pod("low2", cpu=2, node="n2"), gang_first=gang_first)
    assert resizes_of(world) == {GANG: {"a", "b"}}
    world.drain()
    (decision,) = world.engine.decisions
    assert (decision.ref, decision.result, decision.nominations) == (GANG, Result.WAITING, ())
    assert sorted(world.evicted) == ["low1", "low2"]
    assert decision.preemption is not None
    assert preemption_amounts(world.engine.cluster, decision.preemption) == [("cpu", 2000, 4000)]


def test_no_pods_are_evicted_for_a_part_of_a_gang() -> None:
    """resizes.md 3.5: and an event on either node tries both again."""
    world = two_nodes(pod("low", cpu=2, node="n1"), pod("peer", cpu=2, node="n2", priority=10)).drain()
    (decision,) = world.engine.decisions
    assert (world.evicted, decision.preemption) == ([], None)
    assert [each.pod.name for each in decision.rejections] == ["a", "b"]
    assert decision.rejections[0].message.endswith(
        "1 Insufficient cpu. preemption: no pods are evicted for a gang if one of its resizes fails: "
        "pod default/b: Insufficient cpu"
    )
    world.gone("peer")
    world.virtual.until(START + 20)
    assert world.evicted == ["low"]


def test_gang_with_evictions_under_way_evicts_no_more() -> None:
    """resizes.md 3.4: a victim that leaves one of the nodes is waited for, also by a newly started scheduler."""
    leaving = pod("low1", cpu=2, node="n1", terminating=True, preempted=True)
    world = two_nodes(leaving, pod("low2", cpu=2, node="n2")).drain()
    (decision,) = world.engine.decisions
    assert decision.preemption is None
    assert "not eligible due to a terminating pod on the nominated node" in decision.rejections[1].message


@pytest.mark.parametrize(
    "ended",
    [
        given(pod("b", cpu=2, node="n2", priority=10, group="g"), "2"),
        growing("b", group="g", on="n2", terminating=True, grace=600),
    ],
    ids=["withdrawn", "with its pod"],
)
def test_resize_that_ends_lets_the_others_be_tried(ended: objects.Pod) -> None:
    """resizes.md 3.5, 3.6: the one without victims is withdrawn, or its pod terminates."""
    world = two_nodes(pod("low", cpu=2, node="n1"), pod("peer", cpu=2, node="n2", priority=10)).drain()
    world.engine.set(ended, world.now)
    assert resizes_of(world) == {GANG: {"a"}}
    world.virtual.until(START + 20)
    assert world.evicted == ["low"]


def test_gang_waits_for_a_kubelet_that_allows_evictions() -> None:
    """resizes.md 1.8: one of its pods has PodResizePreemptionDisabled, until it has not."""
    world = two_nodes(pod("low1", cpu=2, node="n1"), pod("low2", cpu=2, node="n2"))
    disabled = objects.PodCondition(type="PodResizePreemptionDisabled", status="True")
    item = pod("b", cpu=3, node="n2", priority=10, group="g")
    world.engine.set(given(item, "2", PENDING, disabled), world.now)
    world.drain()
    assert (resizes_of(world), world.evicted) == ({GANG: {"a"}}, [])
    (decision,) = world.engine.decisions
    assert decision.rejections[0].message.endswith("pod default/b: its kubelet reports PodResizePreemptionDisabled")
    world.engine.set(given(item, "2", PENDING), world.now)
    world.virtual.until(START + 20)
    assert sorted(world.evicted) == ["low1", "low2"]


def test_resize_that_may_not_evict_no_longer_keeps_its_gang_from_evicting_once_it_is_withdrawn() -> None:
    """resizes.md 1.8, 3.6: it is not queued, so that no event on its node tries the others."""
    world = two_nodes(pod("low", cpu=2, node="n1"), pod("peer", cpu=2, node="n2", priority=10))
    disabled = objects.PodCondition(type="PodResizePreemptionDisabled", status="True")
    world.engine.set(given(pod("b", cpu=3, node="n2", priority=10, group="g"), "2", PENDING, disabled), world.now)
    world.drain()
    assert (resizes_of(world), world.evicted) == ({GANG: {"a"}}, [])
    world.engine.set(given(pod("b", cpu=2, node="n2", priority=10, group="g"), "2"), world.now)
    world.virtual.until(START + 20)
    assert world.evicted == ["low"]


def test_gang_that_fits_leaves_the_queue_and_comes_back_whole() -> None:
    """resizes.md 1.6, 2.2: a pod grows where one of them runs."""
    world = two_nodes(pod("other", cpu=1, node="n1", priority=10), pod("low", cpu=1, node="n2"))
    while world.engine.step(world.now).decision is not None:
        pass
    assert resizes_of(world) == {}
    world.engine.set(given(pod("other", cpu=2, node="n1", priority=10), "2"), world.now)
    assert resizes_of(world) == {GANG: {"a", "b"}}


def test_pods_of_a_basic_group_are_resized_one_by_one() -> None:
    """resizes.md 1.9: and of a gang without an object."""
    for items in ([group("g")], []):
        world = World(
            node("n1", cpu=4), node("n2", cpu=4), *items, growing("a", group="g"), growing("b", group="g", on="n2")
        )
        assert resizes_of(world) == {"pod/uid-a": {"a"}, "pod/uid-b": {"b"}}


@pytest.mark.parametrize(("whole", "evicted"), [(True, ["low", "w-0", "w-1"]), (False, ["low", "w-0"])])
def test_gang_that_resizes_leave_below_its_minimum_is_evicted_as_one(whole: bool, evicted: list[str]) -> None:
    """resizes.md 3.5, cost.md 2.7: as by any preemptor."""
    annotations = annotated(below_minimum="Whole") if whole else {}
    world = two_nodes(
        node("n3", cpu=4),
        group("w", min_count=2, annotations=annotations),
        pod("w-0", cpu=2, node="n1", group="w"),
        pod("w-1", cpu=2, node="n3", group="w"),
        pod("low", cpu=2, node="n2"),
    ).drain()
    assert sorted(world.evicted) == evicted


@pytest.mark.parametrize(
    ("allowed", "other", "evicted"),
    [(2, 5, ["low1", "low2"]), (1, 5, ["low2", "other"]), (1, 10, []), (0, 5, [])],
)
def test_resizes_of_a_gang_keep_to_budgets_that_its_class_respects(
    allowed: int, other: int, evicted: list[str]
) -> None:
    """resizes.md 3.5, cost.md 2.8: counted over the victims of all pods of the gang."""
    world = World(
        priority_class("respects", 10, annotated(pdb_policy="Respect")),
        node("n1", cpu=4),
        node("n2", cpu=4),
        pdb("x", {"app": "x"}, allowed=allowed),
        group("g", min_count=2, priority_class="respects", priority=10),
        *[growing(name, group="g", on=on, priority_class="respects") for name, on in (("a", "n1"), ("b", "n2"))],
        pod("low1", cpu=1, node="n1", labels={"app": "x"}),
        pod("low2", cpu=2, node="n2", labels={"app": "x"}),
        pod("other", cpu=1, node="n1", priority=other),
    ).drain()
    assert sorted(world.evicted) == evicted
    refused = "a PodDisruptionBudget would be violated" in world.engine.decisions[0].rejections[0].message
    assert refused is not bool(evicted)


@pytest.mark.parametrize(("of_low", "evicted"), [("two", []), ("", ["low"])])
def test_one_resize_that_does_not_fit_evicts_no_pod_of_its_gang(of_low: str, evicted: list[str]) -> None:
    """resizes.md 3.5, 4.1: the gang is the tree and preempts for several; one of its groups has a lower priority."""
    world = World(
        node("n1", cpu=4),
        composite("tree", min_groups=2),
        group("one", min_count=1, parent="tree"),
        group("two", min_count=1, parent="tree", priority=0),
        growing("a", group="one"),
        pod("other", cpu="1m", node="n1", group="two"),
        pod("low", cpu=2, node="n1", group=of_low),
    ).drain()
    (decision,) = world.engine.decisions
    preemptors = [decision.preemption.group] if decision.preemption is not None else []
    assert world.evicted == evicted
    assert [group.ref for group in preemptors if group is not None] == ["composite/default/tree"] * len(evicted)


@pytest.mark.parametrize(
    ("policies", "found"),
    [
        (("gang", "gang"), {"resizes/composite/default/tree": {"a", "b"}}),
        (("basic", "gang"), {"resizes/composite/default/left": {"a", "b"}}),
        (("gang", "basic"), {"resizes/group/default/one": {"a"}, "resizes/group/default/two": {"b"}}),
    ],
)
def test_gang_of_a_tree_is_the_highest_group_reached_through_gangs(
    policies: tuple[str, str], found: dict[str, set[str]]
) -> None:
    """resizes.md 1.9: below a composite with the basic policy the gangs are entities of their own."""
    tree, left = (1 if policy == "gang" else None for policy in policies)
    world = World(
        node("n1", cpu=6),
        composite("tree", min_groups=tree),
        composite("left", min_groups=left, parent="tree"),
        *(group(name, min_count=1, parent="left") for name in ("one", "two")),
        growing("a", group="one"),
        growing("b", group="two", want="4"),
    )
    assert resizes_of(world) == found


def test_gang_is_tried_without_a_resize_that_leaves_it() -> None:
    """resizes.md 1.9: its group moves out of the tree; it had found no victims."""
    world = World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        composite("tree", min_groups=2),
        group("one", min_count=1, parent="tree"),
        group("two", min_count=1, parent="tree"),
        growing("a", group="one"),
        growing("b", group="two", on="n2"),
        pod("low", cpu=2, node="n1"),
        pod("peer", cpu=2, node="n2", priority=10),
    ).drain()
    assert (len(world.engine.decisions), world.evicted) == (1, [])
    world.add(group("two", min_count=1))
    assert resizes_of(world) == {"resizes/composite/default/tree": {"a"}, "resizes/group/default/two": {"b"}}
    world.virtual.until(START + 20)
    assert world.evicted == ["low"]


def test_gang_is_deleted_while_its_resizes_wait() -> None:
    """resizes.md 1.9: they go on one by one."""
    world = two_nodes(pod("low", cpu=2, node="n1"), pod("peer", cpu=2, node="n2", priority=10)).drain()
    world.engine.remove(objects.ObjectRef("PodGroup", "default/g", ""), world.now)
    world.virtual.until(START + 20)
    assert resizes_of(world) == {"pod/uid-a": {"a"}, "pod/uid-b": {"b"}}
    assert world.evicted == ["low"]


def test_never_of_one_pod_holds_for_the_gang() -> None:
    """resizes.md 3.3, 3.5."""
    world = World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        group("g", min_count=2),
        growing("a", group="g"),
        growing("b", group="g", on="n2", never=True),
        pod("low1", cpu=2, node="n1"),
        pod("low2", cpu=2, node="n2"),
    ).drain()
    assert world.evicted == []


def test_minimum_runtime_on_one_node_keeps_the_victims_on_the_other() -> None:
    """resizes.md 3.3, 3.5: all are evicted when it is over."""
    terms = annotated(minimum_runtime="1h")
    world = two_nodes(
        pod("low1", cpu=2, node="n1", grace=0), pod("low2", cpu=2, node="n2", start=0, grace=0, annotations=terms)
    ).drain()
    assert world.evicted == []
    world.settle()
    assert (sorted(world.evicted), world.now - START >= 3600) == (["low1", "low2"], True)


def test_victim_that_is_about_to_leave_evicts_no_pods() -> None:
    """resizes.md 3.6: before its deletion its own resize has a turn; if it stays after all, it is tried again."""
    world = World(
        node("n1", cpu=4),
        growing("web", want="3", have="1"),
        growing("middle", want="2", have="1", priority=5),
        pod("low", cpu=1, node="n1"),
    )
    first = world.engine.step(world.now).decision
    assert first is not None
    assert first.preemption is not None
    assert [verdict.unit.name for verdict in first.preemption.victims] == ["default/middle"]
    second = world.engine.step(world.now).decision
    assert second is not None
    assert (second.preemption, second.rejections[0].message) == (None, "the pod is being evicted")
    world.engine.fail_preemption(first.ref, world.now)
    assert entity_state(world, "middle") is QueueState.BACKOFF


def test_resize_of_a_victim_that_stays_is_tried_again() -> None:
    """resizes.md 3.6, preemption.md 7.5: also if its preemptor is gone when the eviction has failed."""
    world = World(node("n1", cpu=4), growing(), pod("peer", cpu=2, node="n1", priority=10)).drain()
    world.add(pod("big", cpu=4, priority=100))
    preemptor = world.step().ref
    world.gone("big")
    world.engine.tick(START + 60)
    world.engine.step(START + 60)
    assert entity_state(world) is QueueState.UNSCHEDULABLE
    world.engine.fail_preemption(preemptor, START + 60)
    world.engine.tick(START + 120)
    assert entity_state(world) is QueueState.ACTIVE
