"""Drains, one node at a time and one after the other (whatif.md 4.4, 4.6 and 7)."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest

from kube_rules.errors import InputError
from reprieve.questions import drain_order as module
from reprieve.questions import reinstatement
from reprieve.questions.drain_order import DrainPlan, drain_plan, nodes_named
from reprieve.simulation.plan import PlanOptions, plan
from tests.manifests import gang
from tests.questions.test_changes import Json, loaded, node, planned, pod

NODES = tuple(node(f"n{number}") for number in range(1, 6))


def drained(*documents: Json, names: tuple[str, ...] = ("n1",)) -> DrainPlan:
    given = loaded(*documents)
    return drain_plan(given, nodes_named(given, names), PlanOptions())


def summary(found: DrainPlan) -> list[tuple[str, list[tuple[str, str | None]], tuple[str, ...]]]:
    """Each step: the node, which pod goes where, and the budgets that stop it."""
    return [
        (step.name, [(one.name, one.to or one.outcome) for one in step.displaced], step.budgets) for step in found.nodes
    ]


def unready(phase: str = "Running") -> Json:
    """The first pod of `web`, on n1, which is not ready."""
    (found,) = web("n1")
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "False"}]}
    return {**found, "status": status}


def budget(allowed: int | None = None, healthy: int = 0, **spec: Any) -> Json:
    """For pods labelled `app: web`; with a status if it says how many evictions are `allowed`."""
    found: Json = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": spec.pop("name", "web"), "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }
    if allowed is not None:
        desired = {"currentHealthy": healthy, "desiredHealthy": healthy - allowed, "expectedPods": healthy}
        found["status"] = {"disruptionsAllowed": allowed, **desired}
    return found


def web(*nodes: str) -> list[Json]:
    names = (f"web-5d4-aaaa{chr(ord('a') + turn)}" for turn in range(len(nodes)))
    return [
        pod(name, on=on, owner="ReplicaSet web-5d4", labels={"app": "web"})
        for name, on in zip(names, nodes, strict=True)
    ]


def member(number: int, on: str) -> Json:
    return pod(f"g-{number}-aaaaa", on=on, owner="Job g", cpu="3", schedulingGroup={"podGroupName": "g"})


LOCAL: tuple[Json, ...] = (
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "claimRef": {"namespace": "default", "name": "data-db-0"},
            "local": {"path": "/disk"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
                    ]
                }
            },
        },
        "status": {"phase": "Bound"},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-db-0",
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "volumeName": "disk",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    },
)
CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]

CASES: dict[str, tuple[list[Json], list[tuple[str, str | None]], tuple[str, ...], bool]] = {
    "a bare pod is lost": ([pod("bare", on="n1")], [("bare", "Lost")], (), False),
    "a daemon stays": ([pod("agent-xxxxx", on="n1", owner="DaemonSet agent")], [], (), True),
    "a static pod stays": ([pod("etcd-n1", on="n1", owner="Node n1")], [], (), True),
    "a mirror pod stays": ([pod("m", on="n1", annotations={"kubernetes.io/config.mirror": "h"})], [], (), True),
    "an emptyDir holds no pod": (
        [pod("db-0", on="n1", owner="StatefulSet db", volumes=[{"name": "scratch", "emptyDir": {}}])],
        [("db-0", "n2")],
        (),
        True,
    ),
    "a volume of the node holds its pod": (
        [*LOCAL, pod("db-0", on="n1", owner="StatefulSet db", volumes=CLAIM)],
        [("db-0", "Waiting")],
        (),
        False,
    ),
    "a budget that allows nothing stops it": (
        [budget(maxUnavailable=0), *web("n1")],
        [("web-5d4-aaaaa", "n2")],
        ("default/web",),
        False,
    ),
    "a budget that its status says is used up stops it": (
        [budget(0, 3, maxUnavailable=1), *web("n1", "n2", "n3")],
        [("web-5d4-aaaaa", "n4")],
        ("default/web",),
        False,
    ),
    "two budgets for one pod stop it, whatever they allow": (
        [budget(maxUnavailable=1), budget(name="too", maxUnavailable=1), *web("n1")],
        [("web-5d4-aaaaa", "n2")],
        ("default/too", "default/web"),
        False,
    ),
    "an unready pod is evicted where enough are ready": (
        [budget(0, 2, maxUnavailable=1), unready(), *web("", "n2", "n3")[1:]],
        [("web-5d4-aaaaa", "n4")],
        (),
        True,
    ),
    "an unready pod counts where too few are ready": (
        [budget(minAvailable=3), unready(), *web("", "n2", "n3")[1:]],
        [("web-5d4-aaaaa", "n4")],
        ("default/web",),
        False,
    ),
    "an unready pod is always evicted where that is allowed": (
        [budget(minAvailable=3, unhealthyPodEvictionPolicy="AlwaysAllow"), unready(), *web("", "n2", "n3")[1:]],
        [("web-5d4-aaaaa", "n4")],
        (),
        True,
    ),
    "a pod that has not started is evicted": (
        [budget(maxUnavailable=0), unready("Pending")],
        [("web-5d4-aaaaa", "n2")],
        (),
        True,
    ),
    "a pod that has ended is no obstacle": (
        [{**pod("done", on="n1"), "status": {"phase": "Succeeded"}}],
        [],
        (),
        True,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_drain_moves_pods_and_states_what_stops_it(case: str) -> None:
    """whatif.md 4.4, 7.2."""
    documents, moved, budgets, clean = CASES[case]
    found = drained(*NODES, *documents)
    assert summary(found) == [("n1", moved, budgets)]
    assert found.clean is clean
    assert planned(loaded(*NODES, *documents), "drain n1").displaced == found.nodes[0].displaced


@pytest.mark.parametrize(("minimum", "broken"), [(3, [(3, 2, 1, 3)]), (2, [])])
def test_gang_of_which_one_member_moves(minimum: int, broken: list[tuple[int, ...]]) -> None:
    """whatif.md 4.6: broken where fewer than its minimum stay."""
    found = drained(*NODES, gang("g", minimum), member(0, "n1"), member(1, "n2"), member(2, "n3"))
    (step,) = found.nodes
    assert [(one.name, one.to) for one in step.displaced] == [("g-0-aaaaa", "n4")]
    assert [(one.before, one.left, one.coming_back, one.after) for one in step.broken_gangs] == broken


def steps(found: DrainPlan) -> list[tuple[int, str]]:
    return [(step.step, step.name) for step in found.nodes]


def test_nodes_that_would_break_one_gang_again_and_again_are_drained_together() -> None:
    """whatif.md 7.4: the gang is evicted once, and the plan counts how often it breaks."""
    found = drained(*NODES, gang("g", 2), member(0, "n1"), member(1, "n2"), *web("n3"), names=("n1", "n2", "n3"))
    assert steps(found) == [(1, "n3"), (2, "n1"), (2, "n2")]
    assert [(one.before, one.left, one.after) for step in found.nodes for one in step.broken_gangs] == [(2, 0, 2)]
    assert [(one.name, one.times, one.steps) for one in found.gangs] == [("g", 1, (2,))]
    assert found.clean


def test_nodes_of_a_gang_that_can_spare_each_of_them_are_drained_one_by_one() -> None:
    """whatif.md 7.4: together they would break it."""
    members = [member(turn, f"n{turn + 1}") for turn in range(3)]
    found = drained(*NODES, gang("g", 2), *members, names=("n1", "n2", "n3"))
    assert steps(found) == [(1, "n1"), (2, "n2"), (3, "n3")]
    assert not found.gangs


def test_nodes_are_not_drained_together_where_that_breaks_more_gangs() -> None:
    """whatif.md 7.4: `g` would break once instead of twice, and three that can spare a pod of each node would break."""
    elastic = [
        one
        for name in ("e1", "e2", "e3")
        for one in (gang(name, 1), *(gang_member(name, turn, on) for turn, on in enumerate(("n1", "n2"))))
    ]
    small = [gang("g", 2), gang_member("g", 0, "n1"), gang_member("g", 1, "n2")]
    found = drained(*NODES, *small, *elastic, names=("n1", "n2"))
    assert steps(found) == [(1, "n1"), (2, "n2")]
    assert [(one.name, one.times, one.steps) for one in found.gangs] == [("g", 2, (1, 2))]


def gang_member(group: str, number: int, on: str) -> Json:
    more: Json = {"schedulingGroup": {"podGroupName": group}}
    return pod(f"{group}-{number}-aaaaa", on=on, owner=f"Job {group}", cpu="100m", **more)


def test_budgets_count_the_nodes_of_one_step_one_after_the_other() -> None:
    """whatif.md 7.4: a budget of one pod at a time stops none of them if each finds another place."""
    pair = [gang("g", 2), gang_member("g", 0, "n1"), gang_member("g", 1, "n2")]
    for given in (budget(maxUnavailable=1), budget(1, 3, maxUnavailable=1)):
        found = drained(*NODES, given, *pair, *web("n1", "n2", "n3"), names=("n1", "n2"))
        assert steps(found) == [(1, "n1"), (1, "n2")]
        assert found.clean
        [use] = found.nodes[0].budget_use
        assert (use.budget, use.allowed, use.evicted, use.allowed_after, use.stops) == ("default/web", 1, 2, 1, False)
    found = drained(*NODES, budget(maxUnavailable=0), *pair, *web("n1", "n2", "n3"), names=("n1", "n2"))
    assert [step.budgets for step in found.nodes] == [("default/web",), ("default/web",)]
    assert not found.clean


def important(*nodes: str) -> list[Json]:
    return [pod(f"top-aaaa{turn}", on=on, owner="ReplicaSet top", cpu="3", priority=9) for turn, on in enumerate(nodes)]


def low(on: str, name: str = "low-aaaaa", owner: str = "ReplicaSet low", **more: Any) -> Json:
    return pod(name, on=on, owner=owner, cpu="3", labels={"app": "web"}, **more)


FATES: dict[str, tuple[list[Json], tuple[str, str | None, str | None], bool]] = {
    "it finds another place": ([node("n3")], ("Moved", "n3", "low-00000"), True),
    "it waits": ([], ("Waiting", None, "low-00000"), False),
}


@pytest.mark.parametrize("case", FATES)
def test_pods_preempted_for_displaced_ones_come_back_and_are_reported(case: str) -> None:
    """whatif.md 7.3: for which pod, why, what happens to it, and why it waits."""
    more, fate, clean = FATES[case]
    # On n3 the displaced pod would find a place without preempting, were it not for its selector.
    tied = [{**one, "spec": {**one["spec"], "nodeSelector": {"pool": "a"}}} for one in important("n1")]
    nodes = [node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "a"}), *more]
    found = drained(*nodes, *tied, low("n2"))
    [step] = found.nodes
    assert [(one.name, one.to) for one in step.displaced] == [("top-aaaa0", "n2")]
    [gone] = step.evicted
    assert (gone.name, gone.node_name, gone.preemptor.name) == ("low-aaaaa", "n2", "top-00000")
    assert gone.why is not None
    assert gone.why.pod == "default/top-00000"
    assert (gone.outcome, gone.to, gone.successor) == fate
    assert ("Insufficient cpu" in (gone.message or "")) is (fate[0] == "Waiting")
    assert (found.clean, found.evicts) == (clean, True)
    assert (step.waiting, step.lost) == (int(not clean), 0)


def test_preempted_pod_without_a_controller_is_lost() -> None:
    """whatif.md 7.3"""
    found = drained(node("n1"), node("n2"), *important("n1"), low("n2", "bare", owner=""))
    [step] = found.nodes
    assert [(one.name, one.outcome, one.successor) for one in step.evicted] == [("bare", "Lost", None)]
    assert (step.lost, found.clean, found.evicts) == (1, False, True)


def test_pods_that_come_back_may_preempt_in_turn() -> None:
    """whatif.md 7.3: 9 evicts 5, which evicts 1 on the node that it may run on, which waits."""
    nodes = [node(f"n{number}", labels={"n": str(number)}) for number in (1, 2, 3)]
    top = pod("top-aaaaa", on="n1", owner="ReplicaSet top", cpu="3", priority=9, nodeSelector={"n": "2"})
    mid = pod("mid-aaaaa", on="n2", owner="ReplicaSet mid", cpu="3", priority=5)
    found = drained(*nodes, top, mid, low("n3", priority=1))
    [step] = found.nodes
    assert [(one.name, one.preemptor.name, one.outcome, one.to) for one in step.evicted] == [
        ("mid-aaaaa", "top-00000", "Moved", "n3"),
        ("low-aaaaa", "mid-00000", "Waiting", None),
    ]


def test_preempted_gang_is_broken_by_the_step_that_preempts_it() -> None:
    """whatif.md 7.2, 7.3: and the next step begins with its pods waiting, so that nothing of it is evicted again."""
    pair = [gang("g", 2), *(low(on, f"g-{on}-aaaaa", "Job g", **IN_GANG) for on in ("n3", "n4"))]
    nodes = [node(f"n{number}") for number in (1, 2, 3, 4)]
    found = drained(*nodes, *pair, *important("n1", "n2"), names=("n1", "n2"))
    assert [len(step.evicted) for step in found.nodes] == [1, 1]
    assert [(one.name, one.times) for one in found.gangs] == [("g", 1)]
    [broken] = found.nodes[0].broken_gangs
    assert (broken.before, broken.left, broken.coming_back, broken.after) == (2, 1, 1, 1)


IN_GANG: Json = {"schedulingGroup": {"podGroupName": "g"}}


@pytest.mark.parametrize(("spec", "overruled"), [({"maxUnavailable": 1}, False), ({"maxUnavailable": 0}, True)])
def test_budgets_of_preempted_pods_are_counted_and_those_overruled_are_named(spec: Json, overruled: bool) -> None:
    """whatif.md 7.2, 7.3: allowed before, evicted, allowed after."""
    found = drained(node("n1"), node("n2"), node("n3"), budget(**spec), *important("n1"), low("n2"), low("n3", "b"))
    [step] = found.nodes
    [use] = step.budget_use
    assert (use.budget, use.stops, use.overruled) == ("default/web", False, overruled)
    allowed = 0 if overruled else 1
    assert (use.allowed, use.evicted, use.allowed_after) == (allowed, 1, 0)
    assert step.evicted[0].budgets == (("default/web",) if overruled else ())
    assert step.overruled == step.evicted[0].budgets


def test_displaced_pod_that_waits_says_why() -> None:
    """whatif.md 7.2: and `plan` says the same of it."""
    documents = [node("n1"), node("n2", cpu="1"), *important("n1")]
    [one] = drained(*documents).nodes[0].displaced
    assert one.message is not None
    assert "1 Insufficient cpu" in one.message
    assert planned(loaded(*documents), "drain n1").displaced[0].message == one.message


@pytest.mark.parametrize("status", [(), (1, 3)], ids=["counted", "with a status"])
@pytest.mark.parametrize("room", ["4", "1"], ids=["room", "no room"])
def test_budget_counts_again_pods_that_found_another_place(status: tuple[int, ...], room: str) -> None:
    """whatif.md 7.1: a budget of one is no obstacle to one drain after the other, unless a pod still waits."""
    nodes = [node("n1"), node("n2"), node("n3"), node("n4", cpu=room), node("n5", cpu="1"), node("n6", cpu="1")]
    full = [pod("full", on="n3", cpu="3", owner="ReplicaSet full")]
    full += [pod(f"full-{name}", on=name, owner="ReplicaSet full") for name in ("n5", "n6", "n4") if room == "1"]
    found = drained(*nodes, *full, budget(*status, maxUnavailable=1), *web("n1", "n2", "n3"), names=("n1", "n2"))
    assert [step.budgets for step in found.nodes] == [(), () if room == "4" else ("default/web",)]
    assert found.clean is (room == "4")


def test_drains_as_changes_count_each_other_with_or_without_a_budget_status() -> None:
    """whatif.md 4.4: each eviction counts for those after it, also of a later change."""
    for given in (budget(maxUnavailable=1), budget(1, 3, maxUnavailable=1)):
        answer = planned(loaded(*NODES, given, *web("n1", "n2", "n3")), "drain n1", "drain n2")
        assert [one.budgets for one in answer.displaced] == [(), ("default/web",)]


def test_node_that_is_cordoned_already_is_drained_and_stays_cordoned() -> None:
    closed = {**node("n1"), "spec": {"unschedulable": True}}
    found = drained(closed, *NODES[1:], *web("n1"))
    assert summary(found) == [("n1", [("web-5d4-aaaaa", "n2")], ())]


def test_node_named_twice_is_drained_once() -> None:
    found = drained(*NODES, *web("n1", "n2"), names=("n1", "kubernetes.io/hostname in (n1,n2)", "n1"))
    assert [step.name for step in found.nodes] == ["n1", "n2"]
    again = planned(loaded(*NODES, *web("n1")), "drain n1", "drain n1")
    assert [each.sentence for each in again.changes] == [
        "1 pod evicted from 1 node, 1 comes back",
        "0 pods evicted from 1 node",
    ]


def test_more_nodes_than_are_tried_are_drained_one_after_the_other_too() -> None:
    """whatif.md 7.1: of more than eight the order is by what each drain alone would do, and each is of what is left."""
    nodes = [node(f"n{number:02}") for number in range(12)]
    pods = web(*(f"n{number:02}" for number in range(9)))
    names = tuple(f"n{number:02}" for number in range(9))
    found = drained(*nodes, budget(maxUnavailable=1), *pods, names=names)
    assert [step.name for step in found.nodes] == list(names)
    assert found.clean


@pytest.mark.parametrize(
    ("name", "message"), [("n9", 'no node "n9"'), ("pool=x", 'no node matches "pool=x"'), ("nn1", 'did you mean "n1"?')]
)
def test_node_that_is_not_there_is_an_error(name: str, message: str) -> None:
    """whatif.md 4.3."""
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        drained(*NODES, names=("n1", name))


def cluster(chance: random.Random) -> tuple[list[Json], list[str]]:
    """A random cluster, and the nodes of it that are to be drained."""
    names = [f"n{number}" for number in range(chance.randint(3, 7))]
    items = [node(name, cpu=str(chance.choice((3, 4, 8)))) for name in names]
    owners = ("ReplicaSet web-5d4", "DaemonSet agent", "Job g") if chance.random() < 0.7 else ("", "DaemonSet agent")
    if chance.random() < 0.5:
        items.append(budget(maxUnavailable=chance.randint(0, 2)))
    members = 0
    for number in range(chance.randint(2, 14)):
        owner, on = chance.choice(owners), chance.choice([*names, names[0], ""] if chance.random() < 0.2 else names)
        more: Json = {"labels": {"app": "web"}} if owner.startswith("Replica") else {}
        if owner == "Job g":
            members += 1
            more["schedulingGroup"] = {"podGroupName": "g"}
        items.append(pod(f"p{number}-aaaaa", on=on, owner=owner, cpu=str(chance.randint(1, 2)), **more))
    if members:
        items.append(gang("g", chance.randint(1, members)))
    return items, chance.sample(names, chance.randint(1, min(5, len(names))))


@pytest.mark.parametrize("seed", range(60))
def test_plans_left_out_would_not_change_the_answer(seed: int) -> None:
    """whatif.md 7.1: the least harm is chosen as if the drain of every node had been planned each time."""
    items, names = cluster(random.Random(seed))
    found = drained(*items, names=tuple(names))

    def each_planned(there: Any, left: Any, options: Any) -> Any:
        every = [module._planned(module._Drain(there, names), options) for names in left]
        return iter(sorted(every, key=lambda one: (one.step.harm, one.step.nodes)))

    with (
        mock.patch.object(module._Drain, "decides_nothing", False),
        mock.patch.object(module, "_least_first", each_planned),
    ):
        assert drained(*items, names=tuple(names)) == found


def test_each_next_node_takes_one_plan_where_every_pod_finds_a_place() -> None:
    """Eight nodes took 36 plans."""
    nodes = [node(f"n{number}", cpu="16") for number in range(10)]
    names = tuple(f"n{number}" for number in range(8))
    with mock.patch.object(reinstatement, "plan", wraps=plan) as planned_once:
        assert drained(*nodes, *web(*names), names=names).clean
    assert planned_once.call_count == len(names)


def test_nothing_is_planned_without_returning_or_pending_pods() -> None:
    bare = [pod(f"bare-{number}", on=f"n{number}") for number in (1, 2, 3)]
    with mock.patch.object(reinstatement, "plan") as never:
        found = drained(*NODES, *bare, names=("n1", "n2", "n3"))
    assert not never.called
    assert summary(found) == [(f"n{number}", [(f"bare-{number}", "Lost")], ()) for number in (1, 2, 3)]


def leaving() -> Json:
    found = pod("leaving", on="n2", owner="ReplicaSet w")
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return found


VOLUME: Json = {"name": "v", "persistentVolumeClaim": {"claimName": "data-db-0"}}


def ended(phase: str) -> Json:
    return {**pod("done", on="n2", volumes=[VOLUME]), "status": {"phase": phase}}


EPHEMERAL: Json = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}
DEVICE: Json = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "t", "namespace": "default"},
    "spec": {"spec": {"devices": {}}},
}


@pytest.mark.parametrize(
    ("there", "plans"),
    [
        ([], 0),
        ([pod("runs", on="n2")], 0),
        ([pod("runs", on="n2", volumes=[{"name": "v", "emptyDir": {}}])], 0),
        ([ended("Succeeded")], 0),
        ([ended("Failed")], 0),
        ([pod("back-aaaaa", on="n1", owner="ReplicaSet back")], 1),
        ([pod("waits")], 1),
        ([leaving()], 1),
        ([pod("runs", on="n2", volumes=[VOLUME])], 1),
        ([pod("runs", on="n2", volumes=[EPHEMERAL])], 1),
        ([pod("runs", on="n2", resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}])], 1),
        ([DEVICE], 1),
        ([LOCAL[1]], 1),
        ([LOCAL[2]], 1),
    ],
)
def test_drain_is_planned_where_something_may_be_decided(there: list[Json], plans: int) -> None:
    """A pod waits, comes back or leaves, or controllers have something to write."""
    with mock.patch.object(reinstatement, "plan", wraps=plan) as planned_so_often:
        drained(*NODES, pod("bare", on="n1"), *there)
    assert planned_so_often.call_count == plans


@pytest.mark.parametrize(
    ("harm", "less"),
    [
        ("gang", "budget"),
        ("gang", "nobody"),
        ("budget", "lost"),
        ("lost", "waits"),
        ("waits", "two"),
        ("two", "one"),
        ("one", "nobody"),
    ],
)
@pytest.mark.parametrize("nodes", [("n1", "n2"), ("n2", "n1")])
def test_drain_that_breaks_least_comes_first(harm: str, less: str, nodes: tuple[str, str]) -> None:
    """whatif.md 7.1: gangs, then budgets, then pods that are lost, that wait, that are evicted; then by name."""

    def on(name: str, what: str) -> list[Json]:
        small = {"cpu": "10m"}
        found: dict[str, list[Json]] = {
            "gang": [
                gang("g", 1),
                pod("g-0-aaaaa", on=name, owner="Job g", schedulingGroup={"podGroupName": "g"}, **small),
            ],
            "budget": [
                budget(maxUnavailable=0),
                pod("web-aaaaa", on=name, owner="ReplicaSet web", labels={"app": "web"}, **small),
            ],
            "lost": [pod("bare", on=name, **small)],
            "waits": [pod("big-aaaaa", on=name, owner="ReplicaSet big", nodeSelector={"only": name}, **small)],
            "two": [pod(f"two-aaaa{turn}", on=name, owner="ReplicaSet two", **small) for turn in "ab"],
            "one": [pod("one-aaaaa", on=name, owner="ReplicaSet one", **small)],
            "nobody": [],
        }
        return found[what]

    first, second = nodes
    labelled = [node(name, labels={"only": name}) for name in ("n1", "n2", "n3")]
    found = drained(*labelled, *on(first, harm), *on(second, less), names=("n1", "n2"))
    assert [step.name for step in found.nodes] == [second, first]
    assert found.clean is {harm, less}.isdisjoint(("budget", "lost", "waits"))


def test_nodes_that_break_as_much_are_drained_by_name() -> None:
    found = drained(*NODES, names=("n3", "n1", "n2"))
    assert [step.name for step in found.nodes] == ["n1", "n2", "n3"]


def test_pods_pending_and_lost_are_counted_for_each_step() -> None:
    stuck = [pod(f"big-aaaa{turn}", on="n1", owner="ReplicaSet big", cpu="2", nodeSelector={"a": "b"}) for turn in "ab"]
    lost = [pod(name, on="n1", cpu="10m") for name in ("c", "a", "b")]
    [step] = drained(*NODES, *stuck, *lost).nodes
    assert (step.waiting, step.lost) == (2, 3)
    assert [one.name for one in step.displaced] == ["a", "b", "big-aaaaa", "big-aaaab", "c"]
    assert step.kubectl_needs == ("--force",)


@pytest.mark.parametrize(("nodes", "refused"), [(64, False), (65, True)])
def test_how_many_nodes_one_drain_plan_names(nodes: int, refused: bool) -> None:
    given = loaded(*(node(f"n{number}", labels={"pool": "a"}) for number in range(nodes)))
    if not refused:
        assert len(nodes_named(given, ["pool=a"])) == 64
        return
    with pytest.raises(InputError, match="drain-plan: 65 nodes: at most 64 can be planned at once"):
        nodes_named(given, ["pool=a"])


@pytest.mark.parametrize("now", [None, 0.5, 4e9])
def test_whenever_a_drain_is_planned_for_it_is_after_what_is_there(now: float | None) -> None:
    """What a drain makes is newer than its input: a time before that is no error."""
    found = drain_plan(loaded(*NODES, *web("n1", "n2")), ["n1", "n2"], PlanOptions(now=now))
    assert [[one.to for one in step.displaced] for step in found.nodes] == [["n3"], ["n4"]]


def test_drain_order_tries_each_next_of_eight_nodes_and_ranks_nine_once() -> None:
    """whatif.md 7.1."""
    with mock.patch.object(module, "_by_harm", wraps=module._by_harm) as ranked:
        for number, so_often in ((8, 0), (9, 1)):
            names = tuple(f"m{turn}" for turn in range(number))
            drained(*map(node, names), names=names)
            assert ranked.call_count == so_often
