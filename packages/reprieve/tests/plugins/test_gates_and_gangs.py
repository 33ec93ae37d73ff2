"""SchedulingGates, PrioritySort, NodeName, GangScheduling, DefaultBinder and DefaultPreemption's plain answers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reprieve.framework.events import EventKind
from reprieve.framework.status import Code
from reprieve.plugins.default_binder import ApiBinding, DefaultBinder
from reprieve.plugins.gang_scheduling import GangScheduling
from reprieve.plugins.node_name import NodeName
from reprieve.plugins.priority_sort import PrioritySort
from reprieve.plugins.scheduling_gates import SchedulingGates
from reprieve.preemption.default_preemption import DefaultPreemption
from tests.building import World, gang, group, node, pod
from tests.plugins.asking import FITS, UNRESOLVABLE, reasons, verdicts


def test_gates_keep_a_pod_back() -> None:
    """SchedulingGates (PreEnqueue): any gate at all."""
    world = World(pod("gated", gates=["a", "b"]), pod("free"))
    plugin, cluster = SchedulingGates(), world.engine.cluster
    status = plugin.pre_enqueue(cluster, world.record("gated"))
    assert (status.code, status.plugin) == (Code.UNRESOLVABLE, "SchedulingGates")
    assert status.reason == "Scheduling is blocked due to non-empty scheduling gates"
    assert plugin.pre_enqueue(cluster, world.record("free")).ok


def test_priority_then_arrival() -> None:
    """PrioritySort: higher priority first, then the earlier (scheduling.md 1)."""
    key = PrioritySort().sort_key
    order = sorted([(0, 5.0, "a"), (10, 9.0, "b"), (10, 3.0, "c"), (-1, 0.0, "d")], key=lambda e: key(*e))
    assert [name for _, _, name in order] == ["c", "b", "a", "d"]


def test_pod_that_names_its_node() -> None:
    """NodeName: there or nowhere; everything else is unresolvable. Without a name the plugin is skipped."""
    world = World(node("n1"), node("n2"), pod("p"), pod("free"))
    record = world.record("p")
    record.signature = replace(record.signature, node_name="n2")
    assert verdicts(world, NodeName()) == {"n1": UNRESOLVABLE, "n2": FITS}
    assert reasons(world, NodeName()) == {"n1": ["node(s) didn't match the requested node name"]}
    assert verdicts(world, NodeName(), "free") == {}
    record.signature = replace(record.signature, node_name="gone")
    assert set(verdicts(world, NodeName()).values()) == {UNRESOLVABLE}


def test_gang_waits_for_its_object_and_its_members() -> None:
    """GangScheduling (PreEnqueue), messages of observability.md."""
    world = World(node("n"), pod("m-0", group="m"), pod("single"))
    plugin, cluster = GangScheduling(), world.engine.cluster
    assert plugin.pre_enqueue(cluster, world.record("single")).ok
    missing = plugin.pre_enqueue(cluster, world.record("m-0"))
    assert (missing.code, missing.reason) == (
        Code.UNRESOLVABLE,
        'waiting for pods\'s pod group "m" to appear in scheduling queue',
    )
    world.add(group("m", min_count=2))
    few = plugin.pre_enqueue(cluster, world.record("m-0"))
    assert (few.code, few.reason) == (
        Code.UNRESOLVABLE,
        "waiting for minCount pods from a gang to appear in scheduling queue",
    )
    world.add(pod("m-1", group="m"))
    assert plugin.pre_enqueue(cluster, world.record("m-0")).ok


def test_running_members_count_and_leaving_ones_do_not() -> None:
    """minCount counts pods in existence (scheduling.md 1), not terminating ones."""
    world = World(
        node("n"),
        group("m", min_count=3),
        pod("m-0", group="m"),
        pod("m-1", group="m", node="n"),
        pod("m-2", group="m", node="n", terminating=True),
    )
    plugin, cluster = GangScheduling(), world.engine.cluster
    assert not plugin.pre_enqueue(cluster, world.record("m-0")).ok
    world.add(pod("m-3", group="m", node="n"))
    assert plugin.pre_enqueue(cluster, world.record("m-0")).ok


@pytest.mark.parametrize(
    ("minimum", "scheduled", "remaining", "code"),
    [
        (3, 3, 0, Code.SUCCESS),
        (3, 4, 2, Code.SUCCESS),
        (3, 1, 2, Code.WAIT),
        (3, 1, 1, Code.UNSCHEDULABLE),
        (3, 0, 0, Code.UNSCHEDULABLE),
        (None, 0, 2, Code.WAIT),
        (None, 1, 0, Code.SUCCESS),
        (None, 0, 0, Code.UNSCHEDULABLE),
    ],
)
def test_progress_of_a_placement(minimum: int | None, scheduled: int, remaining: int, code: Code) -> None:
    """PlacementFeasible: enough, still possible, or hopeless; `basic` needs one (scheduling.md 3.2, 3.5)."""
    state = World(group("m", min_count=minimum)).engine.cluster.groups["default/m"]
    assert GangScheduling().feasible(state, scheduled=scheduled, remaining=remaining).code is code


def test_only_events_of_the_same_gang_help() -> None:
    """Hints of GangScheduling: a member, the object, its minimum."""
    hints = GangScheduling().events()
    assert set(hints) >= {EventKind.POD_ADDED, EventKind.GROUP_ADDED, EventKind.GROUP_CHANGED}
    assert EventKind.NODE_ADDED not in hints


def test_binder_names_pod_uid_and_node() -> None:
    """scheduling.md 2: POST pods/NAME/binding with the pod's UID."""
    world = World(node("n"), pod("p", uid="u-1"))
    assert DefaultBinder().bind(world.state("p"), world.row("n")) == ApiBinding("default", "p", "u-1", "n")


def test_preemption_needs_to_know_where_it_runs() -> None:
    """A plugin that was never attached to a profile says so."""
    world = World(node("n", cpu=1), pod("p", cpu=1))
    with pytest.raises(RuntimeError, match="before it was attached"):
        DefaultPreemption().post_filter(
            world.state("p"), world.engine.running["default-scheduler"].evaluator.diagnose(world.state("p"))
        )


def test_members_of_a_group_never_preempt_alone() -> None:
    """preemption.md 2.4: for pods of a pod group the per-pod PostFilter never preempts."""
    world = World(node("n", cpu=1), pod("low", cpu=1, node="n"), *gang("m", 1, priority=5, cpu=1))
    running = world.engine.running["default-scheduler"]
    state = world.state("m-0")
    state.group = world.engine.cluster.groups["default/m"]
    plugin = next(p for p in running.profile.post_filters if p.name == "DefaultPreemption")
    result = plugin.post_filter(state, running.evaluator.diagnose(state))
    assert result.proposal is None
    assert result.status.reason == "preemption: not eligible due to workload aware preemption enabled"
