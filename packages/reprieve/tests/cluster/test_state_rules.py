"""What is read of the cluster cache: which terms count, which rows are looked at again, what is free again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules import objects
from reprieve.cluster.pods import record_of
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import Reservation
from tests.building import annotated, composite, group, node, pdb, pod, priority_class


def _bare(*items: Any) -> ClusterState:
    """A picture of these, pods on the node that they name."""
    state = ClusterState()
    for item in items:
        if isinstance(item, objects.Node):
            state.set_node(item)
        elif isinstance(item, objects.PodGroup):
            state.set_group(item)
        elif isinstance(item, objects.CompositePodGroup):
            state.set_composite(item)
        elif isinstance(item, objects.PriorityClass):
            state.set_class(item)
        elif isinstance(item, objects.Pod):
            named = item.spec.scheduling_group
            key = f"default/{named.pod_group_name}" if named is not None else None
            state.add_pod(record_of(item, state.signatures, created=0.0, group=key), item.spec.node_name or None)
    return state


def test_pending_pod_waits_in() -> None:
    """Itself, its group, or the root of its tree; a group that is not there as one that is."""
    state = _bare(
        composite("top"),
        group("tree", parent="top"),
        group("flat"),
        pod("alone"),
        pod("a", group="tree"),
        pod("b", group="flat"),
        pod("c", group="nowhere"),
    )
    assert {one.name: state.entity_ref(one) for one in state.pods.values()} == {
        "alone": "pod/uid-alone",
        "a": "composite/default/top",
        "b": "group/default/flat",
        "c": "group/default/nowhere",
    }
    one = state.pods["uid-c"]
    one.group = "default/never"
    assert state.entity_ref(one) == "group/default/never"


def test_annotations_about_work_that_count() -> None:
    """cost.md 2: the pod's, else its group's, else that of the class of the group, or of the pod; as granted (7)."""
    state = _bare(
        priority_class("low", 1, annotated(minimum_runtime="1h", restart_cost="1m", preemption_delay="1s")),
        priority_class("high", 2, annotated(minimum_runtime="2h")),
        group("g", annotations=annotated(restart_cost="5m"), priority_class="low"),
        group("h"),
        pod("own", annotations=annotated(minimum_runtime="9h"), group="g", priority_class="high"),
        pod("of-group", group="g", priority_class="high"),
        pod("of-class", priority_class="high"),
        pod("of-group-without-class", group="h", priority_class="high"),
        pod("of-no-group", group="nowhere", priority_class="low"),
        pod("nothing"),
    )
    found = {one.name: state.terms_of(one) for one in state.pods.values()}
    assert {name: (each.minimum_runtime, each.restart_cost, each.preemption_delay) for name, each in found.items()} == {
        "own": (3600.0, 300.0, 1.0),
        "of-group": (3600.0, 300.0, 1.0),
        "of-class": (7200.0, None, None),
        "of-group-without-class": (7200.0, None, None),
        "of-no-group": (3600.0, 60.0, 1.0),
        "nothing": (None, None, None),
    }
    classes = {one.name: state.class_terms_of(one).work.minimum_runtime for one in state.pods.values()}
    assert classes == {
        "own": 3600.0,
        "of-group": 3600.0,
        "of-class": 7200.0,
        "of-group-without-class": 7200.0,
        "of-no-group": 3600.0,
        "nothing": None,
    }
    assert state.class_terms_of(state.groups["default/g"]).work.minimum_runtime == 3600.0
    assert state.class_terms_of(state.groups["default/h"]).work.minimum_runtime is None
    assert state.class_terms_of(state.groups["default/nowhere"]).work.minimum_runtime is None


RULING = annotated(minimum_runtime="1h")


@pytest.mark.parametrize(
    ("item", "rules"),
    [
        (pod("p"), False),
        (pod("p", annotations=annotated(restart_cost="1m")), False),
        (pod("p", annotations=RULING), True),
        (group("g", annotations=RULING), True),
        (group("g", annotations=annotated(restart_cost="1m")), False),
        (priority_class("c", 1, RULING), True),
        (priority_class("c", 1, annotated(pdb_policy="Respect")), True),
        (priority_class("c", 1, annotated(restart_cost="1m")), False),
    ],
)
def test_objects_that_restrict_evictions_are_noticed(item: Any, rules: bool) -> None:
    """And not only at what cost; no longer when it is gone."""
    state = _bare(item)
    assert state.rules_of_work is rules
    if isinstance(item, objects.Pod):
        one = state.pods["uid-p"]
        said_of = one.terms
        state.set_terms(one, record_of(pod("q"), state.signatures, created=0.0).terms)
        assert not state.rules_of_work
        state.set_terms(one, said_of)
        assert state.rules_of_work is rules
        state.remove_pod(one)
    elif isinstance(item, objects.PodGroup):
        state.remove_group("default/g")
    else:
        assert state.remove_class("c") is True
    assert not state.rules_of_work


def test_rows_of_pods_that_are_disrupted_otherwise_are_read_again() -> None:
    """A group comes, changes, goes, or one above it does; of pods that run and of no others."""
    state = _bare(
        node("a"), node("b"), node("c"), pod("p", group="g", node="b"), pod("q", group="g"), pod("r", node="a")
    )
    reader = state.changes(of_nodes=False)
    reader.take()
    steps: list[tuple[Any, bool]] = [
        (lambda: state.set_group(group("g", whole=True)), True),
        (lambda: state.set_group(group("g", whole=True)), False),
        (lambda: state.set_group(group("g", whole=True, annotations=RULING)), False),
        (lambda: state.set_group(group("g", parent="top")), True),
        (lambda: state.set_composite(composite("top", whole=True)), True),
        (lambda: state.set_composite(composite("top", whole=True)), False),
        (lambda: state.remove_composite("default/top"), True),
        (lambda: state.remove_group("default/g"), True),
        (lambda: state.regroup(state.pods["uid-p"], "default/h"), True),
        (lambda: state.regroup(state.pods["uid-q"], "default/h"), False),
        (lambda: state.set_terminating(state.pods["uid-p"]), True),
        (lambda: state.set_overdue("uid-p"), True),
        (lambda: state.set_overdue("uid-p"), False),
        (lambda: state.set_overdue("uid-q"), False),
    ]
    for number, (step, looked_at) in enumerate(steps):
        step()
        assert reader.take() == ([1] if looked_at else []), number


def test_pictures_that_differ_have_other_fingerprints() -> None:
    """Equal digests, equal views: whatever a plugin can read is part of it."""
    state = _bare(node("a"), node("b"), pod("p", cpu=1, ports=[80]), pod("q", cpu=1, group="g", ports=[81]))
    p, q = state.pods["uid-p"], state.pods["uid-q"]
    steps: list[Any] = [
        lambda: state.set_node(node("c")),
        lambda: state.set_node(node("c", cpu=9)),
        lambda: state.set_node(node("c", cpu=9, unschedulable=True)),
        lambda: state.set_node(node("c", cpu=9, taints=[("k", "v", "NoSchedule")])),
        lambda: state.remove_node("c"),
        lambda: state.place(p, 0),
        lambda: state.displace(p),
        lambda: state.place(p, 1),
        lambda: state.place(q, 0),
        lambda: state.displace(p),
        lambda: state.nominate(p, 0),
        lambda: state.nominate(p, 1),
        lambda: state.set_terminating(q),
        lambda: state.set_group(group("g")),
        lambda: state.set_group(group("g", min_count=2)),
        lambda: state.set_composite(composite("top")),
        lambda: state.set_composite(composite("top", min_groups=2)),
        lambda: state.remove_composite("default/top"),
        lambda: state.regroup(q, None),
        lambda: state.clear_nomination(p),
        lambda: state.remove_pod(q),
    ]
    seen = [state.digest()]
    for number, step in enumerate(steps):
        step()
        state.check()
        assert state.digest() != seen[-1], number
        seen.append(state.digest())
        assert state.digest() == seen[-1]


def test_pod_that_has_gone_counts_against_its_budgets_for_thirty_seconds() -> None:
    """cost.md 2.8: where a class respects budgets, of a pod that ran, until the budget's status is written."""
    respects = priority_class("c", 1, annotated(pdb_policy="Respect"))

    def gone(*items: Any, bound_to: str = "n") -> ClusterState:
        state = _bare(node("n"), *items, pod("p", labels={"app": "web"}, node=bound_to))
        state.set_budget(pdb("b", {"app": "web"}, allowed=1))
        state.set_budget(pdb("other", {"app": "db"}, allowed=1))
        state.now = 100.0
        state.remove_pod(state.pods["uid-p"])
        return state

    for state, count in ((gone(respects), 1), (gone(), 0), (gone(respects, bound_to=""), 0)):
        assert state.unsettled_disruptions("default/b") == count
        assert state.unsettled_disruptions("default/other") == 0
    state = gone(respects)
    for later, count in ((29.9, 1), (30.0, 0)):
        state.now = 100.0 + later
        assert state.unsettled_disruptions("default/b") == count
    written, removed = gone(respects), gone(respects)
    written.set_budget(pdb("b", {"app": "web"}, allowed=0))
    removed.remove_budget("default/b")
    assert (written.unsettled_disruptions("default/b"), removed.unsettled_disruptions("default/b")) == (0, 0)


def test_state_of_nothing() -> None:
    """Times and numbers begin at nought."""
    state = ClusterState()
    assert (state.now, state.budgets_version, state.groups_version, state.terms_version) == (0.0, 0, 0, 0)
    assert (len(state.nodes), state.nodes.count, state.nodes.nominations, state.trees.settled) == (0, 0, 0, 0)
    assert (state.volumes.version, state.default_selectors.version, state.overlaid, state.in_trial) == (
        0,
        0,
        False,
        False,
    )
    assert (state.touched.epoch, state.resized_gangs.epoch, state.touched.entries, state.resized_gangs.entries) == (
        0,
        0,
        [],
        [],
    )
    made = state.set_group(group("g"))
    assert (made.created, made.uid, made.ready) == (0.0, "uid-group-g", False)
    bare = msgspec.structs.replace(group("h"), metadata=objects.ObjectMeta(name="h"))
    assert (state.set_group(bare).uid, state.set_group(bare).key) == ("default/h", "default/h")
    one = msgspec.structs.replace(composite("c"), metadata=objects.ObjectMeta(name="c"))
    found = state.set_composite(one)
    assert (found.created, found.uid, found.key, found.ready_children, found.counted) == (
        0.0,
        "default/c",
        "default/c",
        0,
        False,
    )
    assert state.set_composite(one, foreign="a/v1").spec is not None
    spec = state.trees.composites["default/c"].spec
    assert spec is not None
    assert spec.foreign == "a/v1"


def test_terminating_pods_that_are_overdue() -> None:
    """cost.md 5.2: a pod that runs, until it is gone."""
    state = _bare(node("n"), pod("p", node="n"), pod("waits"))
    state.set_terminating(state.pods["uid-p"])
    for uid in ("uid-p", "uid-waits", "uid-nobody"):
        state.set_overdue(uid)
    assert state.overdue == {"uid-p"}
    state.remove_pod(state.pods["uid-p"])
    assert not state.overdue


def test_pod_that_changes_its_group_counts_for_the_other() -> None:
    """workloads.md 2.9, wherever it runs; a terminating one counts for neither."""
    state = _bare(node("n"), group("g"), group("h"), pod("p", group="g", node="n"), pod("q", group="g"))
    p, q = state.pods["uid-p"], state.pods["uid-q"]

    def counts() -> list[tuple[int, int, int]]:
        groups = [state.groups[f"default/{name}"] for name in "gh"]
        return [(each.existing, each.scheduled, len(each.members)) for each in groups]

    assert counts() == [(2, 1, 2), (0, 0, 0)]
    state.regroup(p, "default/h")
    assert counts() == [(1, 0, 1), (1, 1, 1)]
    state.set_terminating(p)
    assert counts() == [(1, 0, 1), (0, 0, 1)]
    state.regroup(p, "default/g")
    assert counts() == [(1, 0, 2), (0, 0, 0)]
    state.regroup(q, None)
    assert counts() == [(0, 0, 1), (0, 0, 0)]
    assert (p.group, q.group) == ("default/g", None)


def test_reserved_devices_are_given_back_with_their_pod() -> None:
    """Volumes that the API does not show yet are free again."""
    state = _bare(node("n"), pod("p", node="n"))
    state.volumes.reserve("uid-p", Reservation("n", {"default/c": "v"}, ("default/d",)))
    state.remove_pod(state.pods["uid-p"])
    assert (state.volumes.kept, state.volumes.selected, state.volumes.reservations) == ({}, {}, {})
