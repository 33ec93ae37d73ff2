"""The smallest change that helps (whatif.md 5): with it who waits runs, with less of it he does not."""

from __future__ import annotations

import io
import random
from collections import Counter
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from reprieve.api.loading import load
from reprieve.api.manifests import Manifests
from reprieve.library.waiting import WaitingRecords
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import Help, Plan
from reprieve.simulation.whatif.changes import Change, changed
from reprieve.simulation.whatif.suggestions import LEAST_WORK, Trials, helped

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def node(name: str, cpu: int = 8, gpu: int = 0, labels: Json | None = None, **spec: Any) -> Json:
    status = {"allocatable": {"cpu": str(cpu), "pods": "10", **({GPU: str(gpu)} if gpu else {})}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": status,
    }


def pod(name: str, cpu: int, gpu: int = 0, on: str = "", priority: int = 0, group: str = "", **spec: Any) -> Json:
    asked = {"cpu": str(cpu), **({GPU: str(gpu)} if gpu else {})}
    spec = {
        "priority": priority,
        "containers": [{"name": "c", "resources": {"requests": asked, "limits": asked}}],
        **spec,
    }
    spec |= {"nodeName": on} if on else {}
    spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def gang(name: str, minimum: int, priority: int = 0, key: str = "") -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": minimum}}, "priority": priority}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def loaded(*documents: Json) -> Manifests:
    return load(["-"], stdin=io.BytesIO(yaml.safe_dump_all(documents).encode()))


def answered(manifests: Manifests, left: int | None = None) -> Plan:
    records = WaitingRecords()
    options = PlanOptions(observer=records)
    trials = Trials(manifests, options)
    if left is not None:
        trials.left = left
    return helped(plan(manifests, options), trials, records.hints).plan


def helps(document: Plan) -> list[tuple[str, str, Help]]:
    """(Pod or PodGroup, name, help) of everybody who is helped."""
    pods = [("Pod", one.name, each) for one in document.pods for each in one.help]
    return pods + [("PodGroup", one.name, each) for one in document.pod_groups for each in one.help]


def kinds(document: Plan) -> dict[str, Help]:
    return {each.kind: each for _, _, each in helps(document)}


def as_changes(flags: tuple[str, ...]) -> list[Change]:
    made = []
    for flag in flags:
        name, _, value = flag.removeprefix("--").partition(" ")
        value, _, like = value.strip('"').partition(" --like ")
        made.append(Change(name, value, like))
    return made


def runs(manifests: Manifests, changes: list[Change], kind: str, name: str) -> bool:
    document = plan(changed(manifests, changes).manifests).plan
    found = document.pods if kind == "Pod" else document.pod_groups
    return any((one.name, one.outcome) == (name, "Scheduled") for one in found)


def with_less(help: Help) -> list[list[Change]]:
    """Every change that is one step less of the same sort."""
    changes = as_changes(help.flags)
    if help.kind in ("Nodes", "Domain"):
        (change,) = changes
        return [[Change("add-nodes", str(int(change.value) - 1), change.like)]] if change.value != "1" else [[]]
    if help.kind in ("Toleration", "Uncordon"):
        return [[one for one in changes if one is not left_out] for left_out in changes]
    if help.kind in ("MinCount", "Priority"):
        (change,) = changes
        who, _, number = change.value.partition("=")
        step = 1 if help.kind == "MinCount" else -1
        return [[Change(change.flag, f"{who}={int(number) + step}")]]
    return [[]]


def random_cluster(seed: int) -> Manifests:
    """Nodes of two shapes, some cordoned or tainted; pods and gangs that run and that want in."""
    draw = random.Random(seed)
    objects: list[Json] = []
    room: dict[str, int] = {}
    for number in range(draw.randint(1, 4)):
        name = f"n{number}"
        cpu = draw.choice((4, 8))
        spec: Json = {}
        if draw.random() < 0.2:
            spec = {
                "unschedulable": True,
                "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
            }
        elif draw.random() < 0.2:
            spec = {"taints": [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}]}
        objects.append(node(name, cpu, labels={"rack": f"r{number % 2}"}, **spec))
        room[name] = cpu
    for number in range(draw.randint(0, 6)):
        on, cpu = draw.choice(list(room)), draw.randint(1, 4)
        if room[on] >= cpu:
            room[on] -= cpu
            objects.append(pod(f"run-{number}", cpu, on=on, priority=draw.choice((0, 5, 10))))
    wanted = range(draw.randint(0, 2))
    objects += [pod(f"want-{number}", draw.randint(2, 6), priority=draw.choice((0, 5, 10))) for number in wanted]
    for number in range(draw.randint(0, 2)):
        size, priority = draw.randint(2, 4), draw.choice((0, 5, 10))
        key = "rack" if draw.random() < 0.3 else ""
        objects.append(gang(f"g{number}", draw.randint(2, size), priority, key))
        cpu = draw.randint(1, 5)
        objects += [pod(f"g{number}-{i}", cpu, priority=priority, group=f"g{number}") for i in range(size)]
    return loaded(*objects)


@pytest.mark.parametrize("part", range(6))
def test_with_it_it_runs_and_with_less_it_does_not(part: int) -> None:
    """whatif.md 5.3, on 300 random clusters."""
    met: Counter[str] = Counter()
    for seed in range(part, 300, 6):
        manifests = random_cluster(seed)
        for kind, name, help in helps(answered(manifests)):
            if not help.flags:
                continue  # room on nodes that are there: it has no flag
            met[help.kind] += 1
            assert runs(manifests, as_changes(help.flags), kind, name), f"{seed}: {name}: {help.sentence}"
            for less in with_less(help):
                assert not runs(manifests, less, kind, name), f"{seed}: {name}: {less}: {help.sentence}"
    assert met["Nodes"] > 5, "the clusters must be such that somebody waits"
    assert {"MinCount", "Priority", "Workload"} <= set(met)


def test_room_that_is_told_is_the_room_that_is_missing() -> None:
    """whatif.md 5.3: with the amounts it runs, with the smallest amount less it does not."""
    document = answered(loaded(node("n1", 8), pod("old", 6, on="n1", priority=9), pod("new", 4)))
    free = kinds(document)["Free"]
    assert (free.resource, free.amount, free.on) == ("cpu", "2", ("n1",))


def test_a_gang_is_told_how_many_nodes_of_which_shape() -> None:
    nodes = [node("small", 8), node("big", 64, gpu=8)]
    full = pod("old", 60, 8, on="big", priority=9)
    workers = [pod(f"g-{i}", 30, 4, group="g") for i in range(5)]
    found = kinds(answered(loaded(*nodes, full, gang("g", 5), *workers)))
    assert (found["Nodes"].nodes, found["Nodes"].like) == (3, "big")
    assert found["Nodes"].flags == ("--add-nodes 3 --like big",)


def test_a_gang_in_one_domain_is_told_which_comes_closest() -> None:
    nodes = [node(f"a{i}", labels={"rack": "a"}) for i in range(2)] + [
        node(f"b{i}", labels={"rack": "b"}) for i in range(3)
    ]
    workers = [pod(f"g-{i}", 8, group="g") for i in range(4)]
    found = kinds(answered(loaded(*nodes, gang("g", 4, key="rack"), *workers)))
    assert (found["Domain"].resource, found["Domain"].nodes) == ("rack=b", 1)
    assert found["Domain"].sentence.startswith("rack b comes closest: with 1 more node like b0 in it")
    assert found["MinCount"].min_count == 3


def test_the_smallest_workload_that_has_to_end() -> None:
    nodes = [node("n1", 8), node("n2", 8)]
    running = [pod("small", 2, on="n1", priority=9), pod("other", 5, on="n1", priority=9)]
    running += [pod(f"r-{i}", 4, on="n2", priority=9, group="r") for i in range(2)]
    found = kinds(answered(loaded(*nodes, gang("r", 2, 9), *running, pod("new", 6))))
    assert found["Workload"].workload == "default/pod/other"
    assert found["Priority"].priority == 10


def test_no_more_nodes_are_uncordoned_than_needed() -> None:
    cordoned = [node(f"n{i}", cpu, unschedulable=True) for i, cpu in enumerate((2, 2, 8))]
    found = kinds(answered(loaded(*cordoned, pod("new", 6))))
    assert found["Uncordon"].flags == ("--uncordon n2",)


def test_what_does_not_hold_is_not_told() -> None:
    """Its node selector matches nothing, and without it there would still be no room."""
    document = answered(loaded(node("n1", 2), pod("new", 4, nodeSelector={"disk": "ssd"})))
    assert "Selector" not in kinds(document)
    assert "Selector" in kinds(answered(loaded(node("n1", 8), pod("new", 4, nodeSelector={"disk": "ssd"}))))


def test_trials_are_bounded_by_the_size_of_the_input() -> None:
    waiting = [pod(f"w-{i}", 5, priority=i) for i in range(20)]
    given = loaded(node("n1"), pod("old", 8, on="n1", priority=99), *waiting)
    document = answered(given)
    nodes = {one.name: each.nodes for one in document.pods for each in one.help if each.kind == "Nodes"}
    assert nodes == {f"w-{i}": 20 - i for i in range(15, 20)}, "the more important take the first of new nodes"
    assert not helps(answered(given, left=LEAST_WORK - 1))
    few = answered(loaded(node("n1", 8), node("big", 16), pod("old", 16, on="big"), pod("new", 9)), left=LEAST_WORK)
    assert [each.kind for _, _, each in helps(few)] == ["Nodes"], "what was found before they were spent is told"
    again = answered(given)
    assert replace(again, stats=document.stats) == document
