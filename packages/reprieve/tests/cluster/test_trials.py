"""Trials of the cluster cache: each change that one may hold, seen as it would be outside, undone without a trace."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kube_rules import objects
from kube_rules.selectors import NOTHING, compile_label_selector
from reprieve.cluster.affinity_terms import Matcher
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import CPU, PODS
from reprieve.cluster.state import ClusterState
from tests.building import World, composite, gang, group, node, pod
from tests.plugins import devices, storage

CSI = "disk.example.com"
WEB = objects.LabelSelector(match_labels={"app": "web"})
HOSTNAME = "kubernetes.io/hostname"
NODES = ("n0", "n1", "n2")


def _apart_and_together() -> objects.Affinity:
    term = objects.PodAffinityTerm(topology_key=HOSTNAME, label_selector=WEB)
    return objects.Affinity(
        pod_affinity=objects.PodAffinity(
            preferred_during_scheduling_ignored_during_execution=(
                objects.WeightedPodAffinityTerm(weight=3, pod_affinity_term=term),
            )
        ),
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)),
    )


KINDS = ("plain", "port", "g-0", "disk", "unbound", "web", "device", "network", "wanted")
"""A pod for everything that a placement changes."""


def make() -> World:
    """Three nodes, and a pod of each kind that waits; `wanted` is nominated to n2."""
    world = World(
        *(node(name, labels={HOSTNAME: name}) for name in NODES),
        *(storage.csi_node(name, {CSI: 1}) for name in NODES),
        *(devices.slice_of(name, devices.devices(2)) for name in NODES),
        devices.slice_of(None, [devices.device("switch")], driver="net.example.com", allNodes=True),
        devices.device_class(),
        devices.device_class("net", 'device.driver == "net.example.com"'),
        devices.claim("c"),
        devices.claim("net", devices.request("r", "net")),
        storage.storage_class("wait", provisioner=CSI),
        storage.claim("d", volume="v", bound=True),
        storage.volume("v", held="d", phase="Bound", driver=CSI),
        storage.claim("u"),
        composite("root", min_groups=1),
        gang("g", 1, min_count=1, parent="root", cpu="100m"),
        pod("plain", cpu="100m", memory="1Mi"),
        pod("port", ports=[80]),
        storage.pod("disk", "d"),
        storage.pod("unbound", "u"),
        pod("web", labels={"app": "web"}, affinity=_apart_and_together()),
        devices.user("device", "c"),
        devices.user("network", "net"),
        pod("wanted", cpu="300m", nominated="n2"),
        storage.pod("other", "d2", labels={"app": "web"}),
        storage.claim("d2", volume="v2", bound=True),
        storage.volume("v2", held="d2", phase="Bound", driver=CSI),
    )
    seen(world.engine.cluster)  # whatever is kept from the first time that it is asked for is kept
    return world


def seen(state: ClusterState) -> dict[str, Any]:
    """What deciding code reads of the cluster cache, by column."""
    nodes = state.nodes
    rows = np.arange(len(nodes), dtype=np.int64)
    matchers = (Matcher(frozenset({"default"}), NOTHING, compile_label_selector(WEB)),)
    pods = sorted(state.pods.values(), key=lambda each: each.key)
    other = next(each for each in pods if each.name == "other")
    web = next(each for each in pods if each.name == "web")
    book = state.devices
    claims = [book.claims["default/c"], book.claims["default/net"]]
    root = state.trees.composites["default/root"]
    return {
        "digest": state.digest(),
        "amounts": nodes.used[: PODS + 1, : len(nodes)].tolist(),
        "pods": [sorted(there) for there in nodes.pods],
        "rows": {each.name: (each.row, each.nominated, each.scheduled) for each in pods},
        "ports": [nodes.conflicting_port(row, (("TCP", "0.0.0.0", 80),)) for row in rows.tolist()],
        "nominated": [sorted(nodes.nominated.get(row, {})) for row in rows.tolist()],
        "held": [column.tolist() for column in nodes.nominated_amounts.held(0, PODS + 1)],
        "groups": {
            key: (found.scheduled, found.existing, [p.name for p in found.pending()], [p.name for p in found.running()])
            for key, found in state.groups.items()
        },
        "trees": (root.scheduled, [p.name for p in root.pending()], [p.name for p in root.running()]),
        "counts": state.pod_affinity.counts(matchers).tolist(),
        "apart": [dict(term.rows) for term in state.pod_affinity.anti_affinity_terms(web)],
        "together": [dict(term.rows) for term in state.pod_affinity.scoring_terms(web)],
        "users": dict(state.volumes.users),
        "used": [state.volumes.used_on("v", row) for row in rows.tolist()],
        "full": state.attached.exceeding(other, rows, overlaid=state.overlaid).tolist(),
        "got": {key: devices.got_of(found) for key, found in book.claims.items()},
        "holders": {key: sorted(found.assumptions.holders) for key, found in book.claims.items()},
        "taken": (dict(book.in_use.whole), dict(book.in_use.shares), dict(book.in_use.consumed)),
        "free": [book.verdicts([one], rows).codes.tolist() for one in claims if one.allocation is None],
    }


def _difference(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {what: (one[what], other[what]) for what in one if one[what] != other[what]}


Change = Callable[[ClusterState, PodRecord], None]


def _move(state: ClusterState, one: PodRecord) -> None:
    state.displace(one)
    state.place(one, 1)


def _nominate_and_place(state: ClusterState, one: PodRecord) -> None:
    state.nominate(one, 0)
    state.place(one, 1)


CHANGES: dict[str, tuple[bool, Change, list[int]]] = {
    "place": (False, lambda state, one: state.place(one, 1), [1]),
    "place with others": (False, lambda state, one: state.place_all([one], [1]), [1]),
    "displace": (True, lambda state, one: state.displace(one), [0]),
    "displace with others": (True, lambda state, one: state.displace_all([one]), [0]),
    "move": (True, _move, [0, 1]),
    "nominate": (False, lambda state, one: state.nominate(one, 1), [1]),
    "nominate and place": (False, _nominate_and_place, [0, 1]),
}
"""What may be done in a trial: whether the pod runs on n0 at first, the change, and the rows that it touches."""


def _start(runs: bool, name: str) -> tuple[ClusterState, PodRecord]:
    world = make()
    state, one = world.engine.cluster, world.record(name)
    if runs:
        state.place(one, 0)
        seen(state)
    return state, one


def _without(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {what: each for what, each in found.items() if what not in names}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_trial_shows_what_the_change_would_do_and_takes_it_back(change: str, name: str) -> None:
    """scheduling.md 7: "the view after undo equals the view before, bit for bit"; and readers are notified."""
    runs, do, touched = CHANGES[change]
    if name == "wanted" and "nominate" in change:
        touched = [*touched, 2]  # where it was nominated before
    done, other = _start(runs, name)
    do(done, other)
    wanted = _without(seen(done), "digest")
    done.check()
    state, one = _start(runs, name)
    before = seen(state)
    rows, gangs = state.changes(), state.gang_changes()
    rows.take()
    of_gang = {"default/g"} if name == "g-0" and change != "nominate" else set()
    with state.trial():
        do(state, one)
        assert set(rows.take() or ()) == set(touched)
        assert gangs.take() == of_gang
        # A pod taken off in a trial gets back what it had, as it is put back where it was (devices.py).
        besides = ("got", "taken") if (change, name) == ("move", "device") else ()
        assert _difference(_without(wanted, *besides), seen(state)) == {}
        assert _difference(wanted, before) != {}
        assert state.in_trial
        if one.volumes is None:  # choices of volumes are noted until the trial ends
            state.check()
    assert not state.in_trial
    assert _difference(before, seen(state)) == {}
    assert set(rows.take() or ()) == set(touched)
    assert gangs.take() == of_gang
    state.check()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_trial_goes_on_after_rolling_back_to_a_mark(change: str, name: str) -> None:
    """What came before the mark stays until the end, as does what an inner trial left alone."""
    runs, do, _ = CHANGES[change]
    state, one = _start(runs, name)
    filler = next(each for each in state.pods.values() if each.name == "other")
    before = seen(state)
    with state.trial():
        state.place(filler, 2)
        first, mark = seen(state), state.undo_mark
        for _ in range(2):
            do(state, one)
            assert _difference(first, seen(state)) != {}
            state.roll_back(mark)
            assert _difference(first, seen(state)) == {}
        with state.trial():
            do(state, one)
        assert _difference(first, seen(state)) == {}
        assert filler.row == 2
    assert _difference(before, seen(state)) == {}
    state.check()


@pytest.mark.parametrize("name", KINDS)
def test_pods_that_are_assumed_silently_are_placed_without_a_change_being_noted(name: str) -> None:
    """For readers of these rows alone: all is as when the pod runs there, except for the log of touched rows."""
    done, other = _start(False, name)
    done.place(other, 1)
    wanted = _without(seen(done), "digest")
    state, one = _start(False, name)
    before = seen(state)
    rows = state.changes()
    rows.take()
    kept = state.attached.exceeding(one, np.arange(3), overlaid=False).tolist()
    with state.assume_silently([(one, 1)]):
        assert state.overlaid
        assert _difference(wanted, seen(state)) == {}
        assert not state.volumes.unsettled
        with state.assume_silently([]):
            assert state.overlaid
        assert state.overlaid
    assert not state.overlaid
    assert _difference(before, seen(state)) == {}
    assert rows.take() == []
    assert state.attached.exceeding(one, np.arange(3), overlaid=False).tolist() == kept
    state.check()


def test_amounts_are_assumed_on_the_rows_named_and_given_back_though_the_body_fails() -> None:
    """Usage grows by the given amounts, and nothing else changes."""
    state, _ = _start(False, "plain")
    before = seen(state)
    amounts = np.zeros((state.resources.capacity, 2), dtype=np.int64)
    amounts[CPU] = [100, 200]
    rows = state.changes()
    rows.take()

    def fails() -> None:
        with state.assume_amounts(np.array([2, 0]), amounts):
            assert state.nodes.used[CPU, :3].tolist() == [200, 0, 100]
            assert not _difference(_without(before, "amounts", "digest"), _without(seen(state), "amounts", "digest"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert _difference(before, seen(state)) == {}
    assert rows.take() == []


def test_pod_placed_in_a_trial_chooses_volumes_until_it_ends() -> None:
    """A pod that chooses volumes lets later pods of the trial see the choices; bound ones make none."""
    state, one = _start(False, "unbound")
    with state.trial():
        state.place(one, 0)
        assert [(each.pod.name, each.row) for each in state.volumes.unsettled.values()] == [("unbound", 0)]
        for take in (state.displace, lambda one: state.displace_all([one])):
            entry = state.volumes.unsettled[one.uid]
            with state.trial():
                take(one)
                assert not state.volumes.unsettled
            assert state.volumes.unsettled == {one.uid: entry}, "what it has chosen stays chosen"
        state.displace(one)
        assert not state.volumes.unsettled
        state.place_all([one], [2])
        assert [(each.pod.name, each.row) for each in state.volumes.unsettled.values()] == [("unbound", 2)]
    assert not state.volumes.unsettled
    state.place(one, 0)
    assert not state.volumes.unsettled
    one.bound = True
    with state.trial():
        state.displace(one)
        state.place(one, 1)
        assert not state.volumes.unsettled


REFUSED: dict[str, Callable[[ClusterState, PodRecord], object]] = {
    "a node comes": lambda state, _: state.set_node(node("n9")),
    "a node changes": lambda state, _: state.set_node(node("n0", cpu=9)),
    "a node goes": lambda state, _: state.remove_node("n0"),
    "a pod comes": lambda state, one: state.add_pod(one),
    "a pod goes": lambda state, one: state.remove_pod(one),
    "a pod is deleted": lambda state, one: state.set_terminating(one),
    "a pod is overdue": lambda state, one: state.set_overdue(one.uid),
    "a pod changes": lambda state, one: state.change_pod(one, signature=one.signature, labels={"x": "y"}, start=None),
    "claims change": lambda state, one: state.set_claims(one, ()),
    "classes change": lambda state, _: state.classes_changed(),
    "a pod's group changes": lambda state, one: state.regroup(one, "default/g"),
    "a group comes": lambda state, _: state.set_group(group("h")),
    "a group goes": lambda state, _: state.remove_group("default/g"),
    "a composite comes": lambda state, _: state.set_composite(composite("top")),
    "a composite goes": lambda state, _: state.remove_composite("default/root"),
    "terms change": lambda state, one: state.set_terms(one, one.terms),
    "a namespace's labels change": lambda state, _: state.set_namespace(
        objects.Namespace(metadata=objects.ObjectMeta(name="default", labels={"team": "a"}))
    ),
}


@pytest.mark.parametrize("change", REFUSED)
def test_api_objects_cannot_change_inside_a_trial(change: str) -> None:
    """Undo knows placements alone: anything else would be half undone, so it is refused before anything changes."""
    state, one = _start(True, "web")
    before, sizes = seen(state), (len(state.nodes), len(state.pods), len(state.groups), len(state.trees.composites))
    with state.trial(), pytest.raises(RuntimeError, match=r"^the cluster's objects cannot change inside a trial$"):
        REFUSED[change](state, one)
    assert sizes == (len(state.nodes), len(state.pods), len(state.groups), len(state.trees.composites))
    if change != "a namespace's labels change":
        assert _difference(before, seen(state)) == {}


def test_while_a_cycle_runs_trials_are_its_threads_alone() -> None:
    """A call of a plugin that was given up may go on in another thread: it is refused, not let in between."""
    state, one = _start(False, "plain")
    amounts = np.zeros((state.resources.capacity, 1), dtype=np.int64)
    entrances: dict[str, Callable[[], Any]] = {
        "trial": state.trial,
        "assume_silently": lambda: state.assume_silently([(one, 0)]),
        "assume_amounts": lambda: state.assume_amounts(np.array([0]), amounts),
    }
    said: dict[str, str] = {}

    def elsewhere() -> None:
        for name, enter in entrances.items():
            try:
                with enter():
                    said[name] = ""
            except RuntimeError as error:
                said[name] = str(error)

    def ask() -> dict[str, str]:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return dict(said)

    assert set(ask().values()) == {""}
    assert not state.held_by_this_thread
    state.held_by_this_thread = True
    assert state.held_by_this_thread
    refused = "the cluster cache may be changed only by the thread that runs the cycle"
    assert ask() == dict.fromkeys(entrances, refused)
    for enter in entrances.values():
        with enter():
            pass
    state.held_by_this_thread = False
    assert set(ask().values()) == {""}
