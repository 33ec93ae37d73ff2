"""What a failed check of the cluster's picture tells beside the failure (`reprieve.cluster.history`)."""

from __future__ import annotations

import pytest

from reprieve.cluster.history import History, RecordedCluster
from reprieve.cluster.resources import CPU
from reprieve.cluster.state import ClusterState
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import World, gang, node, pod


def test_a_failed_check_tells_what_happened_to_the_node_it_names() -> None:
    """The preemption that ended there, with its trials, in order; and nothing of the node that was not named."""
    world = World(node("n1", cpu=4), node("n2", cpu=1), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=10))
    world.settle()
    cluster = world.engine.cluster
    cluster.nodes.used[CPU, world.row("n1")] += 1
    with pytest.raises(AssertionError) as failed:
        cluster.check()
    first, heading, *story = str(failed.value).splitlines()
    assert first == "used of n1 is off"
    assert heading.startswith("what happened to n1, of ")
    told = [line.split(" ", 3)[3] for line in story]
    decided = [
        "node n1 is set",
        "pod default/low is placed on n1",
        "pod default/high is nominated to n1",
        "pod default/low is terminating (n1)",
        "pod default/low is removed (n1)",
        "pod default/high is no longer nominated to n1 (trial)",
        "pod default/high is nominated to n1 (undone)",
        "pod default/high is placed on n1",
    ]
    assert [line for line in told if line in decided] == decided
    assert not [line for line in told if "n2" in line]


def test_pods_and_groups_are_named_too() -> None:
    """A group has the changes of its members."""
    world = World(node("n1"), gang("g", 2), pod("g-0", cpu=1, group="g"), pod("g-1", cpu=1, group="g"))
    world.settle()
    cluster = world.engine.cluster
    cluster.groups["default/g"].scheduled += 1
    with pytest.raises(AssertionError) as failed:
        cluster.check()
    said = str(failed.value)
    assert "what happened to default/g, of" in said
    assert "podgroup default/g is set" in said
    assert "pod default/g-1 is placed on n1" in said
    cluster.groups["default/g"].scheduled -= 1
    record = world.record("g-0")
    record.row = 0 if record.row < 0 else -1
    with pytest.raises(AssertionError, match="what happened to default/g-0, of"):
        cluster.check()


def test_what_is_kept_is_bounded() -> None:
    """The latest changes of each object, and the objects that changed last; trials push no change out."""
    history = History(changes=3, objects=2)
    for number in range(5):
        history.record(f"change {number}", "default/a")
    for number in range(9):
        history.record(f"step {number}", "default/a", tried=True)
    assert [line.split(" ", 3)[3] for line in history.story("<pod default/a row=1>").splitlines()[1:]] == [
        *(f"change {number}" for number in (2, 3, 4)),
        *(f"step {number}" for number in (6, 7, 8)),
    ]
    history.record("b", "b")
    history.record("again", "default/a")
    history.record("c", "c")
    assert not history.story("b")
    assert history.story("default/a and c").count("what happened to") == 2
    assert not history.story("default/ab, x/default/a")


def test_a_scheduler_at_work_keeps_no_history() -> None:
    assert type(Engine().cluster) is ClusterState
    assert type(Engine(EngineOptions(validate=True)).cluster) is RecordedCluster
