"""Extenders that take part in the preemption of a pod: the cases of kube-scheduler's own tests, written again.

Source: kubernetes/kubernetes, test/integration/scheduler/preemption/extender_preemption_test.go, and pull request
135486 (1.38): a node on which only an extender rejected the pod is a candidate without victims.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kube_rules import objects
from reprieve.scheduling.decision import SCHEDULER_ERROR
from tests.building import GPU, World, node, pod
from tests.plugins.extenders import ExtenderServer
from tests.plugins.test_extender import calls, kept, server, world  # noqa: F401

LICENCE = "example.com/license"
Made = Callable[..., World]
Answer = Callable[[dict[str, Any]], dict[str, Any]]
OURS = {"managedResources": [{"name": GPU, "ignoredByScheduler": True}]}
THEIRS = {"managedResources": [{"name": LICENCE, "ignoredByScheduler": True}]}


def holder(name: str, cpu: str = "100m", **amounts: Any) -> objects.Pod:
    """A running pod of lower priority."""
    return pod(name, cpu=cpu, node="n1", priority=100, grace=0, **amounts)


def high(cpu: str = "100m", **amounts: Any) -> objects.Pod:
    """The preemptor."""
    return pod("high", cpu=cpu, priority=1000, **amounts)


def without(made: list[World], *holders: str) -> Answer:
    """A filter that lets n1 through when these pods are gone."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        if set(holders) & made[0].where.keys():
            return {"NodeNames": [], "FailedNodes": {"n1": "out of what they hold"}}
        return {"NodeNames": body["NodeNames"], "Nodes": body["Nodes"]}

    return answer


def shown(server: ExtenderServer, verb: str = "preempt") -> list[list[str]]:  # noqa: F811
    """The victims on n1 that each call of a verb was sent, by name or UID."""
    bodies = [body for name, body in server.asked if name == verb]
    found = [(body["NodeNameToVictims"] or body["NodeNameToMetaVictims"])["n1"]["Pods"] for body in bodies]
    return [[one.get("UID") or one["metadata"]["uid"] for one in pods] for pods in found]


@pytest.mark.parametrize("cached", [False, True], ids=["whole nodes", "names of nodes"])
def test_node_that_only_an_extender_rejected_is_a_candidate(
    world: Made,  # noqa: F811
    server: ExtenderServer,  # noqa: F811
    cached: bool,
) -> None:
    """scheduling.md 6.5: with no victims, until the extender names some."""
    made: list[World] = []
    server.answers = {"filter": without(made, "v"), "preempt": kept(n1=["v"])}
    extender = {**OURS, "filterVerb": "filter", "preemptVerb": "preempt", "nodeCacheCapable": cached}
    made.append(world([node("n1", cpu=8, gpu=1), holder("v", gpu=1), high(gpu=1)], extender))
    made[0].settle()
    assert (made[0].evicted, made[0].where) == (["v"], {"high": "n1"})
    assert shown(server) == [[]]


def test_victims_of_plugins_and_of_an_extender_leave_together(
    world: Made,  # noqa: F811
    server: ExtenderServer,  # noqa: F811
) -> None:
    """scheduling.md 6.5: the extender is sent what plugins found."""
    made: list[World] = []
    server.answers = {"filter": without(made, "gpu"), "preempt": kept(n1=["cpu", "gpu"])}
    extender = {**OURS, "filterVerb": "filter", "preemptVerb": "preempt"}
    items = [node("n1", cpu=1, gpu=1), holder("cpu", "800m"), holder("gpu", gpu=1), high("500m", gpu=1)]
    made.append(world(items, extender))
    made[0].settle()
    assert (made[0].evicted, made[0].where) == (["cpu", "gpu"], {"high": "n1"})
    assert shown(server) == [["uid-cpu"]]


FAILURES: dict[str, tuple[dict[str, Any], Answer]] = {
    "status 500": ({"status": 500}, kept(n1=["v"])),
    "no answer in time": ({"hold": True}, kept(n1=["v"])),
    "the node is left out": ({}, kept()),
    "no victims": ({}, kept(n1=[])),
}


@pytest.mark.parametrize("ignorable", [False, True], ids=["needed", "ignorable"])
@pytest.mark.parametrize(("trouble", "answer"), FAILURES.values(), ids=FAILURES)
def test_extender_that_names_no_victims_evicts_none(
    world: Made,  # noqa: F811
    server: ExtenderServer,  # noqa: F811
    trouble: dict[str, Any],
    answer: Answer,
    ignorable: bool,
) -> None:
    """scheduling.md 6.5: a candidate that has no victims at the end is dropped."""

    def preempt(body: dict[str, Any]) -> dict[str, Any]:
        server.status = trouble.get("status", 200)
        return answer(body)

    def rejects(body: dict[str, Any]) -> dict[str, Any]:
        server.hold = threading.Event() if trouble.get("hold") else None
        return {"NodeNames": [], "FailedNodes": {"n1": "rejected"}}

    server.answers = {"filter": rejects, "preempt": preempt}
    extender = {
        **OURS,
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "ignorable": ignorable,
        "httpTimeout": "500ms",
    }
    made = world([node("n1", cpu=8, gpu=1), holder("v", gpu=1), high(gpu=1)], extender)
    decision = made.step()
    assert (made.evicted, decision.bindings, decision.preemption) == ([], (), None)
    assert shown(server) == [[]]
    fails = bool(trouble) and not ignorable
    assert (decision.rejections[0].reason == SCHEDULER_ERROR) is fails
    assert ("no candidate node for preemption" in decision.rejections[0].message) is not fails


def test_next_extender_names_the_victims_of_a_node_that_the_first_left_without(
    world: Made,  # noqa: F811
    server: ExtenderServer,  # noqa: F811
) -> None:
    """scheduling.md 6.5: each is asked about what the one before left."""
    made: list[World] = []
    server.answers = {
        "free": without(made),
        "filter": without(made, "v"),
        "keep": kept(n1=[]),
        "preempt": kept(n1=["v"]),
    }
    first = {**OURS, "filterVerb": "free", "preemptVerb": "keep"}
    second = {**THEIRS, "filterVerb": "filter", "preemptVerb": "preempt"}
    items = [node("n1", cpu=8), holder("v", more={LICENCE: 1}), high(gpu=1, more={LICENCE: 1})]
    made.append(world(items, first, second))
    made[0].settle()
    assert (made[0].evicted, made[0].where) == (["v"], {"high": "n1"})
    assert (shown(server, "keep"), shown(server)) == ([[]], [[]])


def test_node_without_lower_priority_is_no_candidate(
    world: Made,  # noqa: F811
    server: ExtenderServer,  # noqa: F811
) -> None:
    """preemption.md 3.2: no extender is asked about it."""
    made: list[World] = []
    server.answers = {"filter": without(made, "v"), "preempt": kept(n1=["v"])}
    extender = {**OURS, "filterVerb": "filter", "preemptVerb": "preempt"}
    equal = pod("v", cpu="100m", node="n1", priority=1000, gpu=1)
    made.append(world([node("n1", cpu=8, gpu=1), equal, high(gpu=1)], extender))
    made[0].settle()
    assert (made[0].evicted, shown(server)) == ([], [])
