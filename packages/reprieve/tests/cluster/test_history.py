"""What a failed check of the cluster's picture tells beside the failure (`reprieve.cluster.history`)."""

from __future__ import annotations

import pytest

from reprieve.cluster.history import History, RecordedCluster
from reprieve.cluster.resources import CPU
from reprieve.cluster.state import ClusterState
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import World, composite, gang, node, pod


def test_failed_check_lists_what_happened_to_the_node_it_names() -> None:
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
    texts = [line.split(" ", 3)[3] for line in story]
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
    assert [line for line in texts if line in decided] == decided
    assert not [line for line in texts if "n2" in line]


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


def test_kept_answers_are_bounded() -> None:
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


def test_scheduler_at_work_keeps_no_history() -> None:
    assert type(Engine().cluster) is ClusterState
    assert type(Engine(EngineOptions(validate=True)).cluster) is RecordedCluster


def test_each_kind_of_change_has_its_own_line() -> None:
    """What happened to a pod, with the node where there is one; bound or pending as it came."""
    world = World(
        node("n1"),
        node("n2"),
        pod("bound", node="n1"),
        pod("waits", nominated="n2"),
        pod("port", ports=[80]),
        gang("g", 1),
    )
    state = world.engine.cluster
    assert isinstance(state, RecordedCluster)
    waits, member = world.record("waits"), world.record("g-0")
    state.place_all([waits, member], [0, 1])
    state.displace_all([waits, member])
    state.place(waits, 0)
    state.displace(waits)
    state.change_pod(waits, signature=waits.signature, labels={"a": "b"}, start=None)
    state.change_pod(waits, signature=waits.signature, labels={"a": "b"}, start=3.0)
    state.change_pod(waits, signature=world.record("port").signature, labels={"a": "b"}, start=3.0)
    state.set_claims(waits, ())
    state.clear_nomination(waits)
    state.clear_nomination(waits)
    state.remove_group("default/g")
    state.set_composite(composite("top"))
    state.remove_composite("default/top")
    state.set_node(node("n2"))
    state.set_node(node("n2", cpu=7))
    state.remove_node("n2")

    def text_of(name: str) -> list[str]:
        return [line.split(" ", 3)[3] for line in state.history.story(name).splitlines()[1:]]

    assert text_of("default/bound") == [
        "pod default/bound is added, bound to n1",
        "pod default/bound is placed on n1",
    ]
    assert text_of("default/waits") == [
        "pod default/waits is added, pending",
        "pod default/waits is nominated to n2",
        "pod default/waits is placed, as one of 2, on n1",
        "pod default/waits is taken, as one of 2, off n1",
        "pod default/waits is placed on n1",
        "pod default/waits is taken off n1",
        "pod default/waits is changed",
        "pod default/waits has a start time",
        "pod default/waits is changed",
        "pod default/waits has other claims",
        "pod default/waits is no longer nominated to n2",
    ]
    assert text_of("default/g")[0] == "podgroup default/g is set"
    assert text_of("default/g")[-1] == "podgroup default/g is removed"
    assert "pod default/g-0 is placed, as one of 2, on n2" in text_of("default/g")
    assert text_of("default/top") == [
        "compositepodgroup default/top is set",
        "compositepodgroup default/top is removed",
    ]
    assert text_of("n2")[-3:] == ["node n2 is set, nothing new", "node n2 is set", "node n2 is removed"]
    assert History().changes == 20
    assert History().objects == 10_000
