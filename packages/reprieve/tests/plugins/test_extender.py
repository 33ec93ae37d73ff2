"""HTTP extenders: what they are asked, and what their answers do (scheduling.md 6; upstream's extender.go).

A real server over a real connection throughout: the JSON is part of what is tested.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_rules.meta import KubernetesObject
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.framework.instructions import CallExtender
from reprieve.live.extenders import Bodies, ExtenderCalls
from reprieve.scheduling.decision import SCHEDULER_ERROR, Decision
from reprieve.scheduling.profiles import profiles_of
from tests.building import GPU, World, gang, node, pdb, pod
from tests.cli.conftest import Run, run  # noqa: F401
from tests.plugins.extenders import ExtenderServer, extender_server

FILE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
Items = list[KubernetesObject]


@pytest.fixture
def server() -> Iterator[ExtenderServer]:
    with extender_server() as found:
        yield found


@pytest.fixture
def calls() -> Iterator[list[ExtenderCalls]]:
    """What `world` opened, closed at the end."""
    found: list[ExtenderCalls] = []
    yield found
    for each in found:
        each.close()


@pytest.fixture
def world(server: ExtenderServer, calls: list[ExtenderCalls]) -> Callable[..., World]:
    """`world(items, extender={...}, ...)`: a cluster with extenders at the server."""

    def made(items: Items, *extenders: dict[str, Any], **document: Any) -> World:
        found = [{"urlPrefix": server.url, "httpTimeout": "180s", **extender} for extender in extenders]
        configuration = configuration_of({**FILE, **document, "extenders": found})
        made = ExtenderCalls(configuration.extenders, Bodies(items))
        calls.append(made)
        profiles = profiles_of(configuration, FeatureGates(), extenders=made.plugin)
        return World(*items, profiles={profile.name: profile for profile in profiles})

    return made


def keep(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A filter that lets these nodes through, whichever way they come."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        if body["NodeNames"] is not None:
            return {"NodeNames": [name for name in body["NodeNames"] if name in names]}
        items = [item for item in body["Nodes"]["items"] if item["metadata"]["name"] in names]
        return {"Nodes": {"items": items}}

    return answer


NODES: Items = [node("n1", labels={"zone": "a"}), node("n2"), node("n3")]
FILTER = {"filterVerb": "filter"}
CACHED = {"nodeCacheCapable": True}


@pytest.mark.parametrize("cached", [False, True])
def test_filter_request_lists_the_nodes_that_passed_everything_else(
    world: Callable[..., World], server: ExtenderServer, cached: bool
) -> None:
    """Whole nodes, or names where the extender keeps nodes itself; the pod always whole."""
    server.answers["filter"] = keep("n2", "n3")
    items: Items = [*NODES, node("small", cpu=1), pod("p", cpu=2, labels={"app": "x"})]
    found = world(items, {**FILTER, "nodeCacheCapable": cached}).settle()
    assert found.where == {"p": "n2"}
    [(_, body)] = server.asked
    assert body["Pod"]["metadata"]["name"] == "p"
    assert body["Pod"]["metadata"]["labels"] == {"app": "x"}
    assert body["Pod"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": 2}
    if cached:
        assert (body["Nodes"], sorted(body["NodeNames"])) == (None, ["n1", "n2", "n3"])
    else:
        assert body["NodeNames"] is None
        assert sorted(item["metadata"]["name"] for item in body["Nodes"]["items"]) == ["n1", "n2", "n3"]
        assert body["Nodes"]["items"][0]["kind"] == "Node"
        assert body["Nodes"]["items"][0]["metadata"]["labels"] == {"zone": "a"}


def test_extenders_are_called_in_order_ignorable_ones_last(world: Callable[..., World], server: ExtenderServer) -> None:
    """Each sees what those before it left."""
    server.answers = {"first": keep("n2", "n3"), "second": keep("n3"), "third": keep("n3")}
    found = world(
        [*NODES, pod("p")],
        {"filterVerb": "third", "ignorable": True, **CACHED},
        {"filterVerb": "first", **CACHED},
        {"filterVerb": "second", **CACHED},
    ).settle()
    assert found.where == {"p": "n3"}
    assert [(verb, body["NodeNames"]) for verb, body in server.asked] == [
        ("first", ["n1", "n2", "n3"]),
        ("second", ["n2", "n3"]),
        ("third", ["n3"]),
    ]


def test_reasons_are_the_extender_s(world: Callable[..., World], server: ExtenderServer) -> None:
    """Failed and failed-for-good nodes with their texts; the latter wins; keys in any case; one call an attempt."""
    server.answers["filter"] = lambda body: {
        "nodenames": [],
        "failedNodes": {"n1": "no licence", "n2": "no licence"},
        "FailedAndUnresolvableNodes": {"n2": "wrong building"},
    }
    found = world([*NODES, pod("p")], {**FILTER, **CACHED})
    decision = found.step()
    assert decision.rejections[0].message == (
        "0/3 nodes are available: 1 no licence, 1 node(s) were left out by an extender, 1 wrong building. "
        "no new claims to deallocate, "
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    assert decision.rejected_by == {"Extender"}
    assert server.verbs() == ["filter"]


def test_any_event_wakes_a_pod_that_an_extender_rejected(world: Callable[..., World], server: ExtenderServer) -> None:
    """Extenders have no hints."""
    server.answers["filter"] = keep()
    found = world([*NODES, pod("p")], {**FILTER, **CACHED})
    found.step()
    server.answers["filter"] = keep("n1")
    found.add(pod("other", node="n1"))
    found.settle()
    assert found.where["p"] == "n1"


TROUBLE: dict[str, tuple[Callable[[ExtenderServer], None], str]] = {
    "an error in the answer": (
        lambda server: server.answers.update(filter=lambda _: {"Error": "out of order"}),
        "out of order",
    ),
    "a status": (lambda server: setattr(server, "status", 500), "failed filter: HTTP status 500"),
    "no JSON": (lambda server: setattr(server, "raw", b"<html>"), "the answer is no JSON"),
    "another shape": (lambda server: setattr(server, "raw", b'["n1"]'), "expected an object, found list"),
    "names that are no list": (
        lambda server: setattr(server, "raw", b'{"NodeNames": 7}'),
        "NodeNames: expected a list",
    ),
    "a node of its own": (
        lambda server: server.answers.update(filter=lambda _: {"NodeNames": ["elsewhere"]}),
        "claims a filtered node 'elsewhere' which is not found in the input node list",
    ),
    "no answer in time": (lambda server: setattr(server, "hold", threading.Event()), "gave no answer within 0.2 s"),
}


@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize("case", TROUBLE)
def test_filter_that_fails_fails_the_attempt_unless_it_may_be_ignored(
    world: Callable[..., World], server: ExtenderServer, case: str, ignorable: bool
) -> None:
    server.answers["filter"] = keep("n1")
    TROUBLE[case][0](server)
    within = {"httpTimeout": "200ms"} if case == "no answer in time" else {}
    found = world([*NODES, pod("p")], {**FILTER, **CACHED, "ignorable": ignorable, **within})
    decision = found.step()
    if ignorable:
        assert [binding.node for binding in decision.bindings] == ["n1"]
        return
    assert decision.rejections[0].reason == SCHEDULER_ERROR
    assert f"running Filter plugin 'Extender': ExtenderError: {server.url}: " in decision.rejections[0].message
    assert TROUBLE[case][1] in decision.rejections[0].message


@pytest.mark.parametrize("too_large", [False, True])
def test_answer_may_be_as_large_as_the_bound(
    world: Callable[..., World], server: ExtenderServer, monkeypatch: pytest.MonkeyPatch, too_large: bool
) -> None:
    server.raw = b'{"NodeNames": ["n1"]}'
    monkeypatch.setattr("reprieve.live.extenders.MAX_ANSWER", len(server.raw) - too_large)
    decision = world([*NODES, pod("p")], {**FILTER, **CACHED}).step()
    if too_large:
        assert f"the answer is larger than {len(server.raw) - 1} bytes" in decision.rejections[0].message
    else:
        assert [binding.node for binding in decision.bindings] == ["n1"]


def test_affinity_without_other_pods(calls: list[ExtenderCalls]) -> None:
    """Refused connections are named as such."""
    with socket.socket() as taken:  # so that no other process listens there
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        items: Items = [*NODES, pod("p")]
        configuration = configuration_of({**FILE, "extenders": [{"urlPrefix": url, **FILTER}]})
        made = ExtenderCalls(configuration.extenders, Bodies(items))
        calls.append(made)
        [profile] = profiles_of(configuration, FeatureGates(), extenders=made.plugin)
        found = World(*items, profiles={profile.name: profile})
        assert "connection refused" in found.step().rejections[0].message


def scores(**by_name: int) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    return lambda body: [{"Host": name, "Score": score} for name, score in by_name.items()]


@pytest.mark.parametrize(
    ("extender", "taint", "expected"),
    [
        ({"weight": 1}, 0, "n3"),
        ({"weight": 1}, 1, "n1"),
        ({"weight": 2}, 1, "n1"),
        ({"weight": 4}, 1, "n3"),
    ],
    ids=["scaled to 0..100", "against a preference that weighs 300", "still against it", "with a weight of its own"],
)
def test_scores_are_scaled_and_weighed(
    world: Callable[..., World], server: ExtenderServer, extender: dict[str, Any], taint: int, expected: str
) -> None:
    """`score * weight * (MaxNodeScore / MaxExtenderPriority)`; TaintToleration weighs 3."""
    server.answers["prioritize"] = scores(n3=10, unknown=10)
    taints = [("k", "v", "PreferNoSchedule")] if taint else []
    items: Items = [node("n1"), node("n2", taints=taints), node("n3", taints=taints), pod("p")]
    found = world(items, {"prioritizeVerb": "prioritize", **CACHED, **extender}).settle()
    assert found.where == {"p": expected}


@pytest.mark.parametrize(("named", "expected"), [({"n1": 0, "n2": 0}, "n1"), ({"n2": 1}, "n2"), ({"n1": -1}, "n2")])
def test_pod_that_is_not_named_gets_nothing(
    world: Callable[..., World], server: ExtenderServer, named: dict[str, int], expected: str
) -> None:
    """As upstream: a node that the answer leaves out is neither better nor worse than one with a score of 0."""
    server.answers["prioritize"] = scores(**named)
    found = world([node("n1"), node("n2"), node("n3"), pod("p")], {"prioritizeVerb": "prioritize", "weight": 1})
    assert found.settle().where == {"p": expected}


@pytest.mark.parametrize(
    "answer", [{"Error": "x"}, [{"Host": "n3", "Score": "high"}], [{"Host": "n3", "Score": 2**60}]]
)
def test_scores_that_cannot_be_had_are_done_without(
    world: Callable[..., World], server: ExtenderServer, answer: Any
) -> None:
    """As upstream, ignorable or not: other scores decide. It is noted."""
    server.answers["prioritize"] = lambda _: answer
    found = world([*NODES, pod("p")], {"prioritizeVerb": "prioritize", "weight": 1}).settle()
    assert found.where == {"p": "n1"}


def test_single_node_needs_no_score(world: Callable[..., World], server: ExtenderServer) -> None:
    found = world([node("n1"), pod("p")], {"prioritizeVerb": "prioritize", "weight": 1}).settle()
    assert (found.where, server.asked) == ({"p": "n1"}, [])


def test_only_pods_with_its_resources_concern_it(world: Callable[..., World], server: ExtenderServer) -> None:
    """managedResources; what it alone looks at, the scheduler does not (ignoredByScheduler)."""
    server.answers["filter"] = keep("n2")
    managed = {"managedResources": [{"name": GPU, "ignoredByScheduler": True}]}
    found = world([*NODES, pod("plain"), pod("gpu", gpu=4)], {**FILTER, **CACHED, **managed}).settle()
    assert found.where == {"plain": "n1", "gpu": "n2"}
    assert [body["Pod"]["metadata"]["name"] for _, body in server.asked] == ["gpu"]


def test_extenders_are_called_for_each_member_of_a_group(world: Callable[..., World], server: ExtenderServer) -> None:
    """As upstream's group cycle; nothing is shared between identical pods, the extender may tell them apart."""
    server.answers["filter"] = lambda body: {"NodeNames": ["n" + body["Pod"]["metadata"]["name"][-1]]}
    found = world([node("n0"), node("n1"), *gang("g", 2)], {**FILTER, **CACHED}).settle()
    assert found.where == {"g-0": "n0", "g-1": "n1"}
    assert server.verbs() == ["filter", "filter"]


# -- bind -----------------------------------------------------------------------------------------------------------


def _bind(decision: Decision) -> CallExtender:
    how = decision.bindings[0].method
    assert isinstance(how, CallExtender)
    return how


def test_extender_binds_before_plugins_do(world: Callable[..., World], server: ExtenderServer) -> None:
    """The decision says what is to be called; deciding calls nothing."""
    extender = {"bindVerb": "bind", "httpTimeout": "3s", "ignorable": True}
    found = world([node("n1"), pod("p", gpu=0)], extender)
    assert _bind(found.step()) == CallExtender(
        url=f"{server.url}/bind",
        body={"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n1"},
        seconds=3.0,
        ignorable=True,
    )
    assert server.asked == []


def test_pod_without_claims_is_bound(world: Callable[..., World]) -> None:
    found = world([node("n1"), pod("p")], {"bindVerb": "bind", "managedResources": [{"name": GPU}]})
    assert not isinstance(found.step().bindings[0].method, CallExtender)


# -- preemption -------------------------------------------------------------------------------------------------------


PREEMPT = {"preemptVerb": "preempt"}
FULL: Items = [
    node("n1", cpu=2),
    node("n2", cpu=2),
    pod("a", cpu=2, node="n1", start=1),
    pod("b1", cpu=1, node="n2", start=2),
    pod("b2", cpu=1, node="n2", priority=1, start=3),
    pod("high", cpu=2, priority=10),
]


def victims(decision: Decision) -> tuple[str, list[str]]:
    assert decision.preemption is not None
    return decision.preemption.domain, sorted(v.unit.pods[0].name for v in decision.preemption.victims)


def kept(**by_node: list[str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda _: {
        "NodeNameToMetaVictims": {
            name: {"Pods": [{"UID": f"uid-{p}"} for p in pods], "NumPDBViolations": 0} for name, pods in by_node.items()
        }
    }


@pytest.mark.parametrize("cached", [False, True])
def test_candidates_are_shown(world: Callable[..., World], server: ExtenderServer, cached: bool) -> None:
    """ProcessPreemption: victims by node, whole or by UID, with their budget violations."""
    server.answers["preempt"] = kept(n1=["a"], n2=["b1", "b2"])
    found = world([*FULL, pdb("all")], {**PREEMPT, "nodeCacheCapable": cached})
    assert victims(found.step()) == ("n1", ["a"])
    [(_, body)] = server.asked
    shown = body["NodeNameToMetaVictims" if cached else "NodeNameToVictims"]
    assert body["NodeNameToVictims" if cached else "NodeNameToMetaVictims"] is None
    assert sorted(shown) == ["n1", "n2"]
    assert shown["n1"]["NumPDBViolations"] == 1
    one = shown["n1"]["Pods"][0]
    assert one == {"UID": "uid-a"} if cached else one["metadata"]["uid"] == "uid-a"
    assert body["Pod"]["metadata"]["name"] == "high"


def test_nodes_may_be_dropped_and_victims_changed(world: Callable[..., World], server: ExtenderServer) -> None:
    """What is left is compared again; the next extender sees what the one before left."""
    server.answers = {"preempt": kept(n2=["b1", "b2"]), "again": kept(n2=["b1"])}
    found = world(FULL, PREEMPT, {"preemptVerb": "again", **CACHED})
    assert victims(found.step()) == ("n2", ["b1"])
    assert [victim["UID"] for victim in server.asked[1][1]["NodeNameToMetaVictims"]["n2"]["Pods"]] == [
        "uid-b1",
        "uid-b2",
    ]


def test_nothing_left(world: Callable[..., World], server: ExtenderServer) -> None:
    server.answers["preempt"] = lambda _: {}
    assert "no candidate node for preemption" in world(FULL, PREEMPT).step().rejections[0].message


BAD_VICTIMS = {
    "a pod that is not there": (kept(n1=["b1"]), "claims to preempt pod (UID: uid-b1) on node: n1, but the pod is not"),
    "a node that is no candidate": (kept(n7=["a"]), "claims to preempt on node 'n7', which is none of the candidates"),
    "no victims": (kept(n1=[]), "expected at least one victim pod on node 'n1'"),
}


@pytest.mark.parametrize("case", BAD_VICTIMS)
def test_bad_answer_fails_the_attempt_unless_it_may_be_ignored(
    world: Callable[..., World], server: ExtenderServer, case: str
) -> None:
    server.answers["preempt"], expected = BAD_VICTIMS[case]
    decision = world(FULL, PREEMPT).step()
    assert decision.rejections[0].reason == SCHEDULER_ERROR
    assert expected in decision.rejections[0].message
    ignored = world(FULL, {**PREEMPT, "ignorable": True}).step()
    if case == "no victims":  # as upstream: the node is dropped, the answer stands
        assert "no candidate node for preemption" in ignored.rejections[0].message
    else:
        assert victims(ignored) == ("n1", ["a"])


def test_unit_not_of_lower_priority_is_never_evicted(world: Callable[..., World], server: ExtenderServer) -> None:
    """preemption.md 9, whatever an extender says."""
    server.answers["preempt"] = kept(n1=["a", "equal"])
    items: Items = [*FULL[:-1], pod("equal", node="n1", priority=10), FULL[-1]]
    decision = world(items, PREEMPT).step()
    assert "which is not of lower priority" in decision.rejections[0].message
    assert decision.preemption is None


def test_groups_and_victim_searches_ask_no_extender(world: Callable[..., World], server: ExtenderServer) -> None:
    """As upstream: ProcessPreemption is for single pods; filters are asked where a pod goes, not which to evict."""
    server.answers["filter"] = keep("n1", "n2")
    items: Items = [*FULL[:-1], *gang("g", 2, cpu=2, priority=10)]
    found = world(items, {**PREEMPT, **FILTER, **CACHED})
    decision = found.step()
    assert victims(decision) == ("cluster", ["a", "b1", "b2"])
    assert set(server.verbs()) == {"filter"}


# -- the connection -------------------------------------------------------------------------------------------------


def test_connection_serves_many_calls_and_is_made_anew_when_it_was_closed(
    world: Callable[..., World], server: ExtenderServer, calls: list[ExtenderCalls]
) -> None:
    server.answers["filter"] = keep("n1")
    found = world([*NODES, *(pod(f"p{i}") for i in range(3))], {**FILTER, **CACHED}).settle()
    assert server.connections == 1
    server.hang_up = True
    for late in (pod(f"q{i}") for i in range(3)):
        calls[0].bodies.seen(late)
        found.add(late)
    found.settle()
    assert len(found.where) == 6
    assert 2 <= server.connections <= 4


MANIFESTS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, annotations: {room: "7"}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""


def test_plan_calls_extenders_only_with_the_option(
    run: Run,  # noqa: F811
    server: ExtenderServer,
    tmp_path: Path,
) -> None:
    """`plan` touches nothing outside unless `--call-extenders` is given; it says so."""
    config = tmp_path / "config.yaml"
    head = "".join(f"{key}: {value}\n" for key, value in FILE.items())
    config.write_text(f"{head}extenders: [{{urlPrefix: '{server.url}', filterVerb: filter}}]\n")
    server.answers["filter"] = keep("n2")
    ended = run("plan", "-f", "-", "-o", "json", "--config", config, stdin=MANIFESTS)
    assert '"nodeName": "n1"' in ended.out
    assert f"warning: {config}: its extenders are not called" in ended.err
    assert server.asked == []
    ended = run("plan", "-f", "-", "-o", "json", "--config", config, "--call-extenders", stdin=MANIFESTS)
    assert ('"nodeName": "n2"' in ended.out, ended.err) == (True, "")
    assert server.asked[0][1]["Nodes"]["items"][1]["metadata"]["annotations"] == {"room": "7"}
