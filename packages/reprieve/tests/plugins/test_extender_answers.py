"""What answers of HTTP extenders mean, asked of the plugin with a door of its own: no server, no socket.

kubernetes/kubernetes pkg/scheduler/extender.go; how extenders are reached is in the other files about them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from reprieve.cluster.pods import PodRecord
from reprieve.framework.configuration import Extender, ManagedResource
from reprieve.framework.extenders import VictimsOn
from reprieve.framework.instructions import CallExtender
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.framework.status import FITS, UNRESOLVABLE, UNSCHEDULABLE, Code, PluginError
from reprieve.plugins.extender import NOT_LISTED, ExtenderError, Extenders, HttpExtender, address
from tests.building import GPU, World, node, pod

ROWS = slice(0, 3)


class Calls:
    """A connection that gives prepared answers, and keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def call(self, verb: str, body: Mapping[str, Any]) -> Any:
        self.asked.append((verb, body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(body) if callable(self.answer) else self.answer

    def pod(self, pod: PodRecord) -> Mapping[str, Any]:
        return {"pod": pod.name}

    def node(self, name: str) -> Mapping[str, Any]:
        return {"metadata": {"name": name}}


def world() -> World:
    return World(
        node("n1"), node("n2"), node("n3"), pod("p", gpu=1), pod("q"), pod("a", node="n1"), pod("b", node="n1")
    )


def made(*answers: Any, notes: list[PluginIncident] | None = None, **settings: Any) -> tuple[Extenders, list[Calls]]:
    """Extenders of these answers with the same settings; one may be given with settings of its own, (answer, them)."""
    doors, found = [], []
    for index, answer in enumerate(answers):
        given, own = answer if isinstance(answer, tuple) else (answer, {})
        doors.append(Calls(given))
        wanted = {"url_prefix": f"http://e{index}", **settings, **own}
        found.append(HttpExtender(Extender(**wanted), doors[-1]))
    return Extenders(found, (notes if notes is not None else []).append), doors


# -- filter -----------------------------------------------------------------------------------------------------------

LISTED = {"NodeNames": ["n1", "n2", "n3"]}
FILTER: dict[str, tuple[Any, dict[str, tuple[int, str]]]] = {
    # what: (the answer, what is wrong by node)
    "all": (LISTED, {}),
    "keys in any case": ({"NODENAMES": ["n1", "n2", "n3"]}, {}),
    "one is not named": (
        {"nodenames": ["n1", "n3"]},
        {"n2": (UNRESOLVABLE, NOT_LISTED)},
    ),
    "failed": (
        {"NodeNames": ["n1"], "FailedNodes": {"n2": "no room", "n3": ""}},
        {"n2": (UNSCHEDULABLE, "no room"), "n3": (UNSCHEDULABLE, NOT_LISTED)},
    ),
    "failed for good": (
        {"NodeNames": ["n1"], "FailedAndUnresolvableNodes": {"n2": "too small", "n3": ""}},
        {"n2": (UNRESOLVABLE, "too small"), "n3": (UNRESOLVABLE, NOT_LISTED)},
    ),
    "failed either way": (
        {"NodeNames": ["n1", "n3"], "FailedNodes": {"n2": "a"}, "FailedAndUnresolvableNodes": {"n2": "b", "n3": "c"}},
        {"n2": (UNRESOLVABLE, "b")},
    ),
    "whole nodes": (
        {"Nodes": {"items": [{"metadata": {"name": "n1"}}, {"Metadata": {"Name": "n3"}}]}},
        {"n2": (UNRESOLVABLE, NOT_LISTED)},
    ),
    "no nodes": ({"Nodes": {"items": None}}, dict.fromkeys(("n1", "n2", "n3"), (UNRESOLVABLE, NOT_LISTED))),
    "nothing": ({}, dict.fromkeys(("n1", "n2", "n3"), (UNRESOLVABLE, NOT_LISTED))),
    "an empty error is none": ({**LISTED, "Error": ""}, {}),
    "null is nothing": ({**LISTED, "FailedNodes": None, "FailedAndUnresolvableNodes": None}, {}),
}


@pytest.mark.parametrize("case", FILTER)
def test_answers_of_an_extender_about_nodes(case: str) -> None:
    """ExtenderFilterResult: nodes it neither lists nor names as failed are out for good."""
    answer, wrong = FILTER[case]
    plugin, (door,) = made(answer, filter_verb="filter", node_cache_capable=True)
    state = world().state("q")
    assert plugin.pre_filter(state).ok
    codes = plugin.filter(state, ROWS).tolist()
    assert dict(zip(("n1", "n2", "n3"), codes, strict=True)) == {
        name: wrong.get(name, (FITS, ""))[0] for name in ("n1", "n2", "n3")
    }
    told = {text: mask.tolist() for text, mask in plugin.reasons(state, ROWS)}
    assert told == {
        text: [wrong.get(name, (0, ""))[1] == text for name in ("n1", "n2", "n3")] for _, text in wrong.values()
    }
    assert len(door.asked) == 1, "once in an attempt"
    assert door.asked == [("filter", {"Pod": {"pod": "q"}, "Nodes": None, "NodeNames": ["n1", "n2", "n3"]})]


def test_extender_that_does_not_know_nodes_is_sent_them_whole() -> None:
    """nodeCacheCapable decides what is sent; names in its answer count only where it was sent names."""
    plugin, (door,) = made({"NodeNames": ["n1"], "Nodes": {"items": [{"metadata": {"name": "n2"}}]}}, filter_verb="f")
    assert plugin.filter(world().state("q"), ROWS).tolist() == [UNRESOLVABLE, FITS, UNRESOLVABLE]
    items = [{"metadata": {"name": name}} for name in ("n1", "n2", "n3")]
    ((_, body),) = door.asked
    assert body["Nodes"] == {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": items}
    assert body["NodeNames"] is None


WRONG = {
    "an error": ({"Error": "out of order"}, "out of order"),
    "no object": ([], "expected an object, found list"),
    "names that are none": ({"NodeNames": "n1"}, "NodeNames: expected a list, found str"),
    "nodes that are none": ({"Nodes": {"items": {"a": 1}}}, "Nodes.items: expected a list, found dict"),
    "failures that are none": ({**LISTED, "FailedNodes": ["n1"]}, "FailedNodes: expected an object, found list"),
    "a node that was not asked about": (
        {"NodeNames": ["n1", "x", "w"]},
        "claims a filtered node 'w' which is not found in the input node list",
    ),
    "no server there": (ExtenderError("connection refused"), "connection refused"),
}


@pytest.mark.parametrize("case", WRONG)
def test_answer_that_is_none_fails_the_attempt_unless_it_may_be_ignored(case: str) -> None:
    """Named by its address; one that is ignorable is passed over with a note, and the next is asked."""
    answer, text = WRONG[case]
    plugin, _ = made(answer, filter_verb="f", node_cache_capable=True)
    with pytest.raises(PluginError) as caught:
        plugin.filter(world().state("q"), ROWS)
    assert str(caught.value) == f"running Filter plugin 'Extender': ExtenderError: http://e0: {text}"
    notes: list[PluginIncident] = []
    after = ({"NodeNames": ["n1", "n2"]}, {"ignorable": True})
    plugin, doors = made((answer, {"ignorable": True}), after, filter_verb="f", node_cache_capable=True, notes=notes)
    assert plugin.filter(world().state("q"), ROWS).tolist() == [FITS, FITS, UNRESOLVABLE]
    assert [len(door.asked) for door in doors] == [1, 1]
    assert [(note.plugin, note.point, note.kind) for note in notes] == [("Extender", "Filter", "error")]
    assert notes[0].text == f"extender http://e0 is skipped: {text}"


def test_extenders_are_called_in_order_with_the_nodes_that_are_left() -> None:
    """Ignorable ones last; none is asked about no nodes; the first to reject a node gives the reason."""

    def but(*out: str) -> Callable[[Any], Any]:
        return lambda body: {"NodeNames": [name for name in body["NodeNames"] if name not in out]}

    first = (but("n1"), {"ignorable": True})
    plugin, doors = made(first, but("n2"), filter_verb="f", node_cache_capable=True)
    state = world().state("q")
    assert plugin.filter(state, ROWS).tolist() == [UNRESOLVABLE, UNRESOLVABLE, FITS]
    assert [[body["NodeNames"] for _, body in door.asked] for door in doors] == [[["n1", "n3"]], [["n1", "n2", "n3"]]]
    plugin, doors = made(but("n1", "n2", "n3"), but(), filter_verb="f", node_cache_capable=True)
    assert plugin.filter(world().state("q"), ROWS).tolist() == [UNRESOLVABLE] * 3
    assert [len(door.asked) for door in doors] == [1, 0]


@pytest.mark.parametrize(
    ("managed", "verb", "p", "q"),
    [
        ([], "f", True, True),
        ([GPU], "f", True, False),
        (["x.io/a", GPU], "f", True, False),
        (["x.io/a"], "f", False, False),
        ([], "", False, False),
    ],
)
def test_pod_concerns_extenders_of_what_it_asks_for(managed: list[str], verb: str, p: bool, q: bool) -> None:
    """managedResources, none: every pod; an extender has nothing to say where it has no verb."""
    resources = tuple(ManagedResource(name=name) for name in managed)
    verbs: dict[str, Any] = {f"{kind}_verb": verb for kind in ("filter", "prioritize", "preempt", "bind")}
    plugin, _ = made({}, managed_resources=resources, weight=1, **verbs)
    found = world()
    for name, concerned in (("p", p), ("q", q)):
        state = found.state(name)
        assert plugin.concerns(state) is concerned
        assert plugin.pre_filter(state).code is (Code.SUCCESS if concerned else Code.SKIP)
        assert plugin.pre_score(state) is concerned
        assert plugin.judges_candidates(state) is concerned
        assert (plugin.bind(state, 0) is not None) is concerned


# -- score ------------------------------------------------------------------------------------------------------------


def score(weight: int, *answers: Any, notes: list[PluginIncident] | None = None, rows: Any = ROWS) -> list[int]:
    plugin, _ = made(*answers, prioritize_verb="p", weight=weight, node_cache_capable=True, notes=notes)
    found: list[int] = plugin.score(world().state("q"), rows).tolist()
    return found


@pytest.mark.parametrize(
    ("weight", "answer", "expected"),
    [
        (1, [{"Host": "n1", "Score": 10}], [100, 0, 0]),
        (3, [{"host": "n1", "score": 1}, {"host": "n3", "score": 10}], [30, 0, 300]),
        (1, [{"host": "n1", "score": 2}, {"host": "n1", "score": 3}], [50, 0, 0]),
        (1, [{"host": "n2", "score": -1}, {"host": "x", "score": 9}], [0, -10, 0]),
        (1, [{"host": "n2"}, {"host": "n1", "score": None}], [0, 0, 0]),
        (1, [], [0, 0, 0]),
        (1, None, [0, 0, 0]),
        ((1 << 38) // 10, [{"host": "n1", "score": 1}], [(1 << 38) // 10 * 10, 0, 0]),
    ],
)
def test_scores_are_scaled_and_weighed(weight: int, answer: Any, expected: list[int]) -> None:
    """`score * weight * (MaxNodeScore / MaxExtenderPriority)`; a node that is not named gets nothing."""
    assert score(weight, answer) == expected


def test_scores_of_extenders_add_up_and_a_lone_node_needs_none() -> None:
    """As upstream: with one node no extender is asked."""
    one, two = [{"host": "n1", "score": 1}], [{"host": "n1", "score": 2}, {"host": "n2", "score": 5}]
    assert score(1, one, two) == [30, 50, 0]
    assert score(1, one, two, rows=slice(0, 2)) == [30, 50]
    plugin, (door,) = made(one, prioritize_verb="p", weight=1)
    assert plugin.score(world().state("q"), slice(0, 1)).tolist() == [0]
    assert door.asked == []


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([{"host": "n1", "score": 1.5}], "Score 1.5: expected a whole number"),
        ([{"host": "n1", "score": True}], "Score True: expected a whole number"),
        ([{"host": "n1", "score": "1"}], "Score '1': expected a whole number"),
        ([{"host": "n1", "score": 1 << 40}], f"Score {1 << 40} is too large"),
        ([{"host": "n1", "score": -(1 << 40)}], f"Score {-(1 << 40)} is too large"),
        ([{"host": "n1", "score": (1 << 38) // 10 + 1}], f"Score {(1 << 38) // 10 + 1} is too large"),
        ({"host": "n1"}, "HostPriorityList: expected a list, found dict"),
        (["n1"], "expected an object, found str"),
        (ExtenderError("gone"), "gone"),
    ],
)
def test_scores_that_are_none_count_nothing(answer: Any, text: str) -> None:
    """Ignorable or not, other scores decide; it is noted, and the next extender is asked."""
    notes: list[PluginIncident] = []
    assert score(1, answer, [{"host": "n3", "score": 7}], notes=notes) == [0, 0, 70]
    assert [(note.point, note.kind) for note in notes] == [("Score", "error")]
    assert notes[0].text == f"extender http://e0 is skipped: {text}"


# -- bind -------------------------------------------------------------------------------------------------------------


def test_first_that_binds_and_is_concerned_binds() -> None:
    """With its address, its time and whether its failure matters."""
    first: Any = ({}, {"managed_resources": (ManagedResource(name=GPU),)})
    second: Any = ({}, {"http_timeout": "7s", "ignorable": True, "url_prefix": "http://e1/base/"})
    plugin, _ = made(first, second, bind_verb="bind")
    found = world()
    assert plugin.bind(found.state("q"), found.row("n2")) == CallExtender(
        url="http://e1/base/bind",
        body={"PodName": "q", "PodNamespace": "default", "PodUID": "uid-q", "Node": "n2"},
        seconds=7.0,
        ignorable=True,
    )
    chosen = plugin.bind(found.state("p"), 0)
    assert chosen is not None
    assert (chosen.url, chosen.seconds, chosen.ignorable) == ("http://e0/bind", 5.0, False)
    assert address(Extender(url_prefix="http://e//"), "v") == "http://e/v"


# -- preemption -------------------------------------------------------------------------------------------------------


def candidates(found: World) -> dict[int, VictimsOn]:
    return {found.row("n1"): VictimsOn((found.record("a"), found.record("b")), 1)}


def kept(**by_node: Any) -> dict[str, Any]:
    return {
        "NodeNameToMetaVictims": {
            name: {"Pods": [{"UID": f"uid-{one}"} for one in pods]} for name, pods in by_node.items()
        }
    }


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (kept(n1=["a", "b"]), {"n1": ["uid-a", "uid-b"]}),
        (kept(n1=["b"]), {"n1": ["uid-b"]}),
        (kept(), {}),
        ({}, {}),
        ({"nodenametometavictims": None}, {}),
    ],
)
def test_extender_keeps_candidates_and_victims(answer: Any, left: dict[str, list[str]], cached: bool) -> None:
    """ExtenderPreemptionArgs: whole pods, or UIDs for one that knows them."""
    plugin, (door,) = made(answer, preempt_verb="preempt", node_cache_capable=cached)
    found = world()
    state = found.state("q")
    told = plugin.judge_candidates(state, candidates(found))
    assert {found.engine.cluster.nodes.names[row]: list(uids) for row, uids in told.items()} == left
    ((verb, body),) = door.asked
    victims = [{"UID": "uid-a"}, {"UID": "uid-b"}] if cached else [{"pod": "a"}, {"pod": "b"}]
    assert verb == "preempt"
    assert body == {
        "Pod": {"pod": "q"},
        "NodeNameToVictims": None if cached else {"n1": {"Pods": victims, "NumPDBViolations": 1}},
        "NodeNameToMetaVictims": {"n1": {"Pods": victims, "NumPDBViolations": 1}} if cached else None,
    }


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (kept(n2=["a"]), "claims to preempt on node 'n2', which is none of the candidates"),
        (kept(gone=["a"]), "claims to preempt on node 'gone', which is none of the candidates"),
        (kept(n1=["x"]), "claims to preempt pod (UID: uid-x) on node: n1, but the pod is not found on that node"),
        (kept(n1=[]), "expected at least one victim pod on node 'n1'"),
        ({"NodeNameToMetaVictims": {"n1": None}}, "expected at least one victim pod on node 'n1'"),
        ({"NodeNameToMetaVictims": {"n1": {"pods": "a"}}}, "Pods: expected a list, found str"),
        ({"NodeNameToMetaVictims": ["n1"]}, "NodeNameToMetaVictims: expected an object"),
        ([], "expected an object, found list"),
    ],
)
def test_victims_that_cannot_be_fail_the_attempt(answer: Any, text: str) -> None:
    """Upstream's convertToVictims; one that is ignorable is passed over, and what was there stays."""
    found = world()
    plugin, _ = made(answer, preempt_verb="preempt")
    with pytest.raises(PluginError) as caught:
        plugin.judge_candidates(found.state("q"), candidates(found))
    assert str(caught.value) == f"running PostFilter plugin 'Extender': ExtenderError: http://e0: {text}"
    notes: list[PluginIncident] = []
    plugin, _ = made(answer, preempt_verb="preempt", ignorable=True, notes=notes)
    told = plugin.judge_candidates(found.state("q"), candidates(found))
    if text.startswith("expected at least"):
        assert (dict(told), notes) == ({}, [])  # a node without victims is no candidate then
    else:
        assert {row: list(uids) for row, uids in told.items()} == {found.row("n1"): ["uid-a", "uid-b"]}
        assert [note.point for note in notes] == ["PostFilter"]


def test_next_extender_receives_the_nodes_that_the_first_has_left() -> None:
    """With the violations that it counted; none is asked about no candidates."""
    first = kept(n1=["b"])
    first["NodeNameToMetaVictims"]["n1"]["NumPDBViolations"] = 3
    plugin, doors = made(first, kept(n1=["b"]), preempt_verb="preempt", node_cache_capable=True)
    found = world()
    assert dict(plugin.judge_candidates(found.state("q"), candidates(found))) == {found.row("n1"): ["uid-b"]}
    ((_, body),) = doors[1].asked
    assert body["NodeNameToMetaVictims"] == {"n1": {"Pods": [{"UID": "uid-b"}], "NumPDBViolations": 3}}
    plugin, doors = made(kept(), kept(n1=["b"]), preempt_verb="preempt")
    assert dict(plugin.judge_candidates(found.state("q"), candidates(found))) == {}
    assert [len(door.asked) for door in doors] == [1, 0]
