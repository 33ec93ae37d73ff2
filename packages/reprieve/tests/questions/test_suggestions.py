"""The smallest change that helps (whatif.md 5): with it a pending pod runs, with less of it not."""

from __future__ import annotations

import io
import random
from collections import Counter
from typing import Any
from unittest import mock

import pytest
import yaml
from msgspec.structs import replace

from kube_rules.manifests import Manifests
from reprieve.decisions.outcomes import Help
from reprieve.inputs.loader import load
from reprieve.python.pending_records import WaitingRecords
from reprieve.questions import trials as module
from reprieve.questions.changes import InputChange, changed
from reprieve.questions.pod_edits import workload_of_pod
from reprieve.questions.suggestions import helped
from reprieve.questions.trials import LEAST_WORK, Trials
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import Answer, Plan
from tests import manifests
from tests.manifests import pod

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def node(name: str, cpu: int = 8, gpu: int = 0, **more: Any) -> Json:
    return manifests.node(name, cpu, gpu, pods=10, **more)


def gang(name: str, minimum: int, priority: int = 0, key: str = "") -> Json:
    topology: Json = {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}
    return manifests.gang(name, minimum, priority=priority, **topology)


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
    """(Pod or PodGroup, name, help) of all that are helped."""
    pods = [("Pod", one.name, each) for one in document.pods for each in one.help]
    return pods + [("PodGroup", one.name, each) for one in document.pod_groups for each in one.help]


def kinds(document: Plan) -> dict[str, Help]:
    return {each.kind: each for _, _, each in helps(document)}


def as_changes(flags: tuple[str, ...]) -> list[InputChange]:
    made = []
    for flag in flags:
        name, _, value = flag.removeprefix("--").partition(" ")
        value, _, like = value.strip('"').partition(" --like ")
        made.append(InputChange(name, value, like))
    return made


def runs(manifests: Manifests, changes: list[InputChange], kind: str, name: str) -> bool:
    document = plan(changed(manifests, changes).manifests).plan
    found = document.pods if kind == "Pod" else document.pod_groups
    return any((one.name, one.outcome) == (name, "Scheduled") for one in found)


def with_less(help: Help) -> list[list[InputChange]]:
    """Every change that is one step less of the same sort."""
    changes = as_changes(help.flags)
    if help.kind in ("Nodes", "Domain"):
        (change,) = changes
        return [[InputChange("add-nodes", str(int(change.value) - 1), change.like)]] if change.value != "1" else [[]]
    if help.kind in ("Toleration", "Uncordon"):
        return [[one for one in changes if one is not left_out] for left_out in changes]
    if help.kind in ("MinCount", "Priority"):
        (change,) = changes
        workload, _, number = change.value.partition("=")
        step = 1 if help.kind == "MinCount" else -1
        return [[InputChange(change.flag, f"{workload}={int(number) + step}")]]
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
            objects.append(pod(f"run-{number}", cpu, node=on, priority=draw.choice((0, 5, 10))))
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
def test_pod_runs_with_the_suggestion_and_not_with_less(part: int) -> None:
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
    assert met["Nodes"] > 5, "the clusters must have pending pods"
    assert {"MinCount", "Priority", "Workload"} <= set(met)


def test_free_room_that_is_suggested_is_the_room_that_is_missing() -> None:
    """whatif.md 5.3: with the amounts it runs, with the smallest amount less it does not."""
    document = answered(loaded(node("n1", 8), pod("old", 6, node="n1", priority=9), pod("new", 4)))
    free = kinds(document)["Free"]
    assert (free.resource, free.amount, free.on) == ("cpu", "2", ("n1",))


def test_more_nodes_of_the_right_shape_are_suggested_for_a_gang() -> None:
    """whatif.md 5.2."""
    nodes = [node("small", 8), node("big", 64, gpu=8)]
    full = pod("old", 60, 8, node="big", priority=9)
    workers = [pod(f"g-{i}", 30, 4, group="g") for i in range(5)]
    found = kinds(answered(loaded(*nodes, full, gang("g", 5), *workers)))
    assert (found["Nodes"].nodes, found["Nodes"].like) == (3, "big")
    assert found["Nodes"].flags == ("--add-nodes 3 --like big",)


def test_domain_that_comes_closest_is_suggested_for_a_gang() -> None:
    """whatif.md 5.2."""
    nodes = [node(f"a{i}", labels={"rack": "a"}) for i in range(2)] + [
        node(f"b{i}", labels={"rack": "b"}) for i in range(3)
    ]
    workers = [pod(f"g-{i}", 8, group="g") for i in range(4)]
    found = kinds(answered(loaded(*nodes, gang("g", 4, key="rack"), *workers)))
    assert (found["Domain"].resource, found["Domain"].nodes) == ("rack=b", 1)
    assert found["Domain"].sentence.startswith("Add 1 more node like b0 in rack b, ")
    assert found["MinCount"].min_count == 3


def test_smallest_workload_that_has_to_end() -> None:
    """whatif.md 5.2."""
    nodes = [node("n1", 8), node("n2", 8)]
    running = [pod("small", 2, node="n1", priority=9), pod("other", 5, node="n1", priority=9)]
    running += [pod(f"r-{i}", 4, node="n2", priority=9, group="r") for i in range(2)]
    found = kinds(answered(loaded(*nodes, gang("r", 2, 9), *running, pod("new", 6))))
    assert found["Workload"].workload == "default/pod/other"
    assert found["Priority"].priority == 10


def test_no_more_nodes_are_uncordoned_than_needed() -> None:
    """whatif.md 5.2."""
    cordoned = [node(f"n{i}", cpu, unschedulable=True) for i, cpu in enumerate((2, 2, 8))]
    found = kinds(answered(loaded(*cordoned, pod("new", 6))))
    assert found["Uncordon"].flags == ("--uncordon n2",)


def test_hint_that_fails_its_trial_is_not_suggested() -> None:
    """Its node selector matches nothing, and without it there would still be no room."""
    document = answered(loaded(node("n1", 2), pod("new", 4, nodeSelector={"disk": "ssd"})))
    assert "Selector" not in kinds(document)
    assert "Selector" in kinds(answered(loaded(node("n1", 8), pod("new", 4, nodeSelector={"disk": "ssd"}))))


def test_trials_are_bounded_by_the_size_of_the_input() -> None:
    waiting = [pod(f"w-{i}", 5, priority=i) for i in range(20)]
    given = loaded(node("n1"), pod("old", 8, node="n1", priority=99), *waiting)
    document = answered(given)
    nodes = {one.name: each.nodes for one in document.pods for each in one.help if each.kind == "Nodes"}
    assert nodes == {f"w-{i}": 20 - i for i in range(15, 20)}, "the more important take the first of new nodes"
    assert not helps(answered(given, left=LEAST_WORK - 1))
    few = answered(loaded(node("n1", 8), node("big", 16), pod("old", 16, node="big"), pod("new", 9)), left=LEAST_WORK)
    assert [each.kind for _, _, each in helps(few)] == ["Nodes"], "what was found before they were spent is reported"
    again = answered(given)
    assert replace(again, stats=document.stats) == document


# -- rule by rule --------------------------------------------------------------------------------------------------


def sentences(document: Plan) -> dict[str, str]:
    return {each.kind: each.sentence for _, _, each in helps(document)}


@pytest.mark.parametrize(
    ("waiting", "nodes", "sentence"),
    [
        ([pod("a", 8)], 1, "Add 1 more node like n1 (--add-nodes 1 --like n1)."),
        (
            [gang("g", 2), *(pod(f"g-{i}", 8, group="g") for i in range(2))],
            2,
            "Add 2 more nodes like n1 (--add-nodes 2 ",
        ),
        (
            [gang("g", 3), *(pod(f"g-{i}", 4, group="g") for i in range(5))],
            2,
            "Add 2 more nodes like n1 (--add-nodes 2 ",
        ),
        (
            [gang("g", 9), *(pod(f"g-{i}", 4, group="g") for i in range(9))],
            5,
            "Add 5 more nodes like n1 (--add-nodes 5 ",
        ),
    ],
)
def test_how_many_more_nodes(waiting: list[Json], nodes: int, sentence: str) -> None:
    found = kinds(answered(loaded(node("n1"), pod("old", 8, node="n1", priority=99), *waiting)))
    help = found["Nodes"]
    assert (help.nodes, help.amount, help.like) == (nodes, str(nodes), "n1")
    assert help.sentence.startswith(sentence)


def test_members_that_have_a_place_need_none() -> None:
    running = [pod(f"g-{i}", 8, node=f"n{i}", group="g") for i in range(2)]
    waiting = [pod(f"g-{i}", 8, group="g") for i in range(2, 4)]
    found = kinds(answered(loaded(node("n0"), node("n1"), gang("g", 4), *running, *waiting)))
    assert found["Nodes"].nodes == 2


def test_shape_that_needs_fewest_is_taken_of_the_roomiest_three() -> None:
    """Of shapes that need as many the roomier one; labels, taints and amounts make a shape, the node's own name not.

    Shapes that the pod may not run on do not count.
    """
    small, large = node("small", 8), node("large", 16, labels={"a": "b"})
    workers = [gang("g", 4), *(pod(f"g-{i}", 8, group="g") for i in range(4))]
    full = [pod("b1", 8, node="small", priority=9), pod("b2", 16, node="large", priority=9)]
    assert kinds(answered(loaded(small, large, *full, *workers)))["Nodes"].flags == ("--add-nodes 2 --like large",)
    only_small = [{**one, "spec": {**one["spec"], "nodeSelector": {"size": "s"}}} for one in workers[1:]]
    given = loaded(node("small", 8, labels={"size": "s"}), large, *full, workers[0], *only_small)
    assert kinds(answered(given))["Nodes"].flags == ("--add-nodes 4 --like small",)
    for turn, helped_with in ((2, "--add-nodes 1 --like zz"), (3, "--add-nodes 1 --like zz")):
        others = [node(f"n{number}", 32 + number) for number in range(turn)]
        busy = [pod(f"b{number}", 32 + number, node=f"n{number}", priority=9) for number in range(turn)]
        picky = pod("picky", 8, nodeSelector={"size": "s"})
        found = kinds(answered(loaded(*others, *busy, node("zz", labels={"size": "s"}), pod("z", 8, node="zz"), picky)))
        assert (found["Nodes"].flags[0] if "Nodes" in found else None) == helped_with, turn


def test_where_the_node_is_too_small_more_of_them_do_not_help() -> None:
    found = answered(loaded(node("n1", 4), pod("new", 5)))
    assert "Nodes" not in kinds(found)
    assert kinds(found)["Node"].resource == "cpu"


@pytest.mark.parametrize("other", [8, 9])
def test_how_many_domains_are_tried(other: int) -> None:
    """The domains with the roomiest nodes that its pods may run on, eight at most."""
    nodes = [node(f"n{number}", 16, labels={"rack": f"r{number}"}) for number in range(other)]
    full = [pod(f"b{number}", 16, node=f"n{number}", priority=9) for number in range(other)]
    workers = [pod(f"g-{i}", 16, group="g", nodeSelector={"rack": f"r{other - 1}"}) for i in range(2)]
    found = kinds(answered(loaded(*nodes, *full, gang("g", 2, key="rack"), *workers)))
    assert (found["Domain"].resource, found["Domain"].nodes) == (f"rack=r{other - 1}", 2)
    like = f"n{other - 1}"
    assert found["Domain"].sentence == (
        f"Add 2 more nodes like {like} in rack r{other - 1}, where the fewest are needed (--add-nodes 2 --like {like})."
    )


def test_nodes_without_the_topology_label_are_no_domain() -> None:
    nodes = [node("plain", 64), node("n1", 8, labels={"rack": "a"})]
    workers = [pod(f"g-{i}", 8, group="g") for i in range(2)]
    found = kinds(answered(loaded(*nodes, gang("g", 2, key="rack"), *workers)))
    assert found["Nodes"].like == "n1"


@pytest.mark.parametrize(
    ("cordoned", "size", "flags", "sentence"),
    [
        (1, 8, ("--uncordon n0",), "Uncordon 1 node: n0 (--uncordon n0)."),
        (3, 2, ("--uncordon n0", "--uncordon n1"), "Uncordon 2 nodes: n0, n1 "),
    ],
)
def test_nodes_that_are_cordoned(cordoned: int, size: int, flags: tuple[str, ...], sentence: str) -> None:
    nodes = [node(f"n{i}", unschedulable=True) for i in range(cordoned)]
    workers = [gang("g", len(flags)), *(pod(f"g-{i}", 8, group="g") for i in range(len(flags)))]
    found = kinds(answered(loaded(*nodes, *workers)))["Uncordon"]
    assert (found.flags, found.nodes, found.amount) == (flags, len(flags), str(len(flags)))
    assert found.sentence.startswith(sentence)
    assert size


@pytest.mark.parametrize(
    ("taint", "tolerations", "text"),
    [
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, [], "k=v:NoSchedule"),
        ({"key": "k", "effect": "NoExecute"}, [], "k:NoExecute"),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, [{"key": "k", "value": "w"}], "k=v:NoSchedule"),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, [{"key": "k", "value": "v"}], None),
        ({"key": "k", "effect": "PreferNoSchedule"}, [], None),
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, [], None),
    ],
)
def test_taints_that_keep_it_out(taint: Json, tolerations: list[Json], text: str | None) -> None:
    """Not those of a node's lifecycle: no user takes them off."""
    tainted = node("n1", taints=[taint])
    document = answered(loaded(node("n0", 2), tainted, pod("new", 4, tolerations=tolerations)))
    found = kinds(document).get("Toleration")
    assert (found.resource if found is not None else None) == text
    if found is not None and text is not None:
        key, _, effect = text.replace("=v", "").partition(":")
        assert found.flags == (f'--taint "n1 {key}:{effect}-"',)
        assert found.sentence == (
            f"Tolerate the taints of 1 node, or remove the taint {text} from n1 ({found.flags[0]})."
        )
        assert (found.nodes, found.amount) == (1, "1")


def test_nodes_of_a_taint_are_named_as_far_as_needed() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    nodes = [node(f"n{i}", taints=[taint]) for i in range(3)]
    workers = [gang("g", 2), *(pod(f"g-{i}", 8, group="g") for i in range(2))]
    found = kinds(answered(loaded(*nodes, *workers)))["Toleration"]
    assert (found.nodes, len(found.flags)) == (2, 2)
    assert "the taints of 2 nodes, or remove the taint k:NoSchedule from n0, n1 (" in found.sentence


@pytest.mark.parametrize(("kinds_of_taint", "expected"), [(3, True), (4, False)])
def test_how_many_taints_are_tried(kinds_of_taint: int, expected: bool) -> None:
    """Three, by key: the last of them is on the only node that is large enough."""
    nodes = [node(f"n{i}", 2, taints=[{"key": f"k{i}", "effect": "NoSchedule"}]) for i in range(kinds_of_taint - 1)]
    large = node("large", 8, taints=[{"key": "z", "effect": "NoSchedule"}])
    assert ("Toleration" in kinds(answered(loaded(*nodes, large, pod("new", 8))))) is expected


@pytest.mark.parametrize(
    ("places", "minimum", "expected"),
    [(1, 2, 1), (1, 5, 1), (2, 5, 2), (3, 5, 3), (4, 5, 4), (0, 5, None), (0, 2, None), (0, 1, None)],
)
def test_highest_minimum_with_which_it_could_start(places: int, minimum: int, expected: int | None) -> None:
    """whatif.md 5.2."""
    nodes = [node(f"n{i}", 8) for i in range(places)] or [node("n0", 1)]
    workers = [pod(f"g-{i}", 8, group="g") for i in range(minimum)]
    found = kinds(answered(loaded(*nodes, gang("g", minimum), *workers))).get("MinCount")
    assert (found.min_count if found is not None else None) == expected
    if found is not None:
        flag = f"--scale default/podgroup/g={expected}"
        assert (found.amount, found.flags) == (str(expected), (flag,))
        assert found.sentence == f"Set minCount to {expected} instead of {minimum} ({flag})."


@pytest.mark.parametrize(
    ("running", "has", "expected"),
    [
        ([5], 0, 6),
        ([5], 5, 6),
        ([5, 9], 0, 6),
        ([9, 7], 6, 8),
        ([999_999_999], 0, 1_000_000_000),
        ([1_000_000_000], 0, None),
        ([2_000_000_000], 0, None),
        ([-5], -10, -4),
    ],
)
def test_lowest_priority_with_which_it_could_make_room(running: list[int], has: int, expected: int | None) -> None:
    """whatif.md 5.2: one more than the least important of the pods in the way, and none that users may not give."""
    there = [node(f"n{i}") for i in range(len(running))]
    pods = [pod(f"old-{i}", 8, node=f"n{i}", priority=level) for i, level in enumerate(running)]
    for waiting, name in (
        ([pod("new", 8, priority=has)], "default/pod/new"),
        ([gang("new", 1, has), pod("new-0", 8, group="new", priority=has)], "default/podgroup/new"),
    ):
        found = kinds(answered(loaded(*there, *pods, *waiting))).get("Priority")
        levels = sorted(level for level in running if level >= has)
        assert expected is None or expected == levels[0] + 1
        assert (found.priority if found is not None else None) == expected
        if found is not None:
            flag = f"--set-priority {name}={expected}"
            assert (found.amount, found.flags) == (str(expected), (flag,))
            assert (
                found.sentence
                == f"Set a priority of {expected} or more (it has {has}): it could then preempt ({flag})."
            )


@pytest.mark.parametrize(
    ("running", "expected", "sentence"),
    [
        (["a 8"], "default/pod/a", "End or remove default/pod/a with its 1 pod (--without default/pod/a)."),
        (["b 4", "a 4"], "default/pod/a", "End or remove default/pod/a with its 1 pod"),
        (["a 2", "b 6"], "default/pod/b", "End or remove default/pod/b with its 1 pod"),
        (["g/a 4", "g/b 4"], "default/podgroup/g", "End or remove default/podgroup/g with its 2 pods (--without "),
    ],
)
def test_workload_of_fewest_pods_that_has_to_end(running: list[str], expected: str, sentence: str) -> None:
    """Of as many pods the least important, then by name."""
    objects = [gang("g", 1, 9)]
    for one in running:
        name, cpu = one.split()
        group, _, name = name.rpartition("/")
        objects.append(pod(name, int(cpu), node="n1", priority=9, group=group))
    found = kinds(answered(loaded(node("n1"), *objects, pod("new", 4))))["Workload"]
    assert (found.workload, found.flags) == (expected, (f"--without {expected}",))
    assert found.sentence.startswith(sentence)


def test_group_that_running_pods_name_but_that_is_missing_is_not_suggested_for_removal() -> None:
    manifests = loaded(node("n1"), pod("a", 8, on="n1", priority=10, group="missing"), pod("new", 4))
    assert "Workload" not in kinds(answered(manifests))


def test_least_important_of_two_workloads_ends() -> None:
    running = [pod("a", 4, node="n1", priority=9), pod("b", 4, node="n1", priority=8)]
    assert kinds(answered(loaded(node("n1"), *running, pod("new", 4))))["Workload"].workload == "default/pod/b"


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({"nodeSelector": {"a": "b"}}, "Selector"),
        ({"preemptionPolicy": "Never", "priority": 99}, "Policy"),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}, "Ports"),
    ],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_hints_of_the_last_attempt_are_tried_too(spec: Json, kind: str, grouped: bool) -> None:
    old = pod(
        "old", 4, node="n1", priority=5, containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    )
    full = pod("full", 8, node="n1", priority=5) if kind == "Policy" else pod("full", 1, node="n1", priority=100)
    group = gang("g", 1, spec.get("priority", 0))
    if kind == "Policy":
        group["spec"]["preemptionPolicy"] = "Never"
    new = pod("new", 4, group="g" if grouped else "", **spec)
    given = [node("n1"), full, *([old] if kind == "Ports" else []), *([group] if grouped else []), new]
    assert kind in kinds(answered(loaded(*given)))


# -- trials --------------------------------------------------------------------------------------------------------


def test_trial_is_about_one_pending_workload() -> None:
    """Another workload that runs in it is not the requested one."""
    workers = [gang("g", 2), *(pod(f"g-{i}", 8, group="g") for i in range(2))]
    trials = Trials(loaded(node("n1", 8), *workers, pod("small", 1), pod("big", 9)), PlanOptions())

    def run(*changes: InputChange) -> list[str]:
        asked = (("Pod", "small"), ("Pod", "big"), ("PodGroup", "g"), ("Pod", "g"), ("PodGroup", "small"))
        return [name for kind, name in asked if trials.runs((kind, "default", name), changes)]

    assert run() == ["small"]
    assert run(InputChange("add-nodes", "1", "n1")) == ["g"]
    assert run(InputChange("add-nodes", "2", "n1")) == ["small", "g"]
    assert not trials.runs(("Pod", "other", "small"), [])
    assert not trials.runs(("PodGroup", "other", "g"), [InputChange("add-nodes", "2", "n1")])


TERM: Json = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}}
CONSTRAINT: Json = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}


def cost_of(*documents: Json) -> int:
    """Of one trial, or of a second one of the same, which is not made."""
    trials = Trials(loaded(*documents), PlanOptions(), left=10_000)
    with (
        mock.patch.object(module, "LEAST_WORK", 3),
        mock.patch.object(module, "plan", return_value=Answer(Plan(), mock.Mock())),
    ):
        assert not trials.runs(("Pod", "default", "p0"), [])
        assert not trials.runs(("Pod", "default", "p0"), [])
    assert trials.left is not None
    return 10_000 - trials.left


@pytest.mark.parametrize(("pods", "cost"), [(1, 3), (2, 3), (3, 4), (9, 10)])
def test_trial_costs_as_many_objects_as_it_plans(pods: int, cost: int) -> None:
    """whatif.md 5.4: so many at least."""
    assert cost_of(node("n1"), *(pod(f"p{i}", 0) for i in range(pods))) == cost


@pytest.mark.parametrize("side", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(
    ("required", "preferred", "spread", "more"),
    [(8, 0, 0, 0), (9, 0, 0, 1), (4, 4, 2, 2), (0, 0, 9, 1), (3, 9, 0, 4), (0, 0, 8, 0)],
)
def test_many_rules_of_a_pod_cost_as_objects_do(
    side: str, required: int, preferred: int, spread: int, more: int
) -> None:
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": [TERM] * required,
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}] * preferred,
    }
    rules = pod(
        "p0",
        0,
        affinity={side: affinity},
        topologySpreadConstraints=[{**CONSTRAINT, "topologyKey": f"rack{i}"} for i in range(spread)],
    )
    assert cost_of(node("n1"), node("n2"), rules, pod("p1", 0)) == 4 + more


def test_each_pending_workload_has_a_share_of_the_trials_and_the_rest_is_passed_on() -> None:
    """One trial each: the first sort that is tried is more nodes."""
    given = [node("n1"), pod("old", 8, node="n1", priority=99), *(pod(f"w-{i}", 5, priority=i) for i in range(3))]
    one_each = {name for _, name, each in helps(answered(loaded(*given), left=3 * LEAST_WORK)) if each.kind == "Nodes"}
    assert "w-2" in one_each
    nodes = [node("n1", 2), node("n2", 64)]
    picky = [pod("old", 64, node="n2", priority=99), pod("a", 3, priority=5), pod("b", 3, priority=4)]
    found = answered(loaded(*nodes, *picky), left=4 * LEAST_WORK)
    assert {name for _, name, each in helps(found) if each.kind == "Nodes"} == {"a", "b"}
    trials = Trials(loaded(*nodes, *picky), PlanOptions(), left=2 * LEAST_WORK - 1)
    document = plan(loaded(*nodes, *picky)).plan
    assert helped(Answer(document, mock.Mock()), trials, lambda _key: ()).plan is not None
    assert trials.spent
    assert trials.left is not None
    assert 0 <= trials.left < LEAST_WORK


@pytest.mark.parametrize("waiting", [4, 5, 6])
def test_five_most_important_pending_workloads_are_helped(waiting: int) -> None:
    """whatif.md 5.4; or one alone, which is named."""
    given = loaded(node("n1", 2), *(pod(f"w-{i}", 3, priority=i) for i in range(waiting)))
    answer, asked = plan(given), list[str]()

    def hints(key: tuple[str, str, str]) -> tuple[Help, ...]:
        asked.append(key[2])
        return ()

    helped(answer, Trials(given, PlanOptions()), hints)
    assert asked == [f"w-{i}" for i in reversed(range(waiting))][:5]
    hint = Help(kind="Node", sentence="larger", resource="cpu")
    alone = helped(answer, Trials(given, PlanOptions()), lambda _key: [hint], ("Pod", "default", "w-0")).plan
    assert [name for _, name, _ in helps(alone)] == []
    alone = helped(answer, Trials(given, PlanOptions()), lambda _key: [hint], ("Pod", "default", asked[0])).plan
    assert [(name, each.kind) for _, name, each in helps(alone)] == [(asked[0], "Node")]


@pytest.mark.parametrize(
    ("owner", "labels", "group", "name"),
    [
        (None, {}, "", "default/pod/p"),
        (None, {}, "g", "default/podgroup/g"),
        (("Job", "j"), {}, "", "default/job/j"),
        (("Job", "j"), {}, "g", "default/podgroup/g"),
        (("DaemonSet", "d"), {}, "", None),
        (("Node", "n1"), {}, "", None),
        (("ReplicaSet", "web-5d4"), {}, "", "default/replicaset/web-5d4"),
        (("ReplicaSet", "web-5d4"), {"pod-template-hash": "5d4"}, "", "default/deployment/web"),
        (("ReplicaSet", "web-5d4"), {"pod-template-hash": "5d5"}, "", "default/replicaset/web-5d4"),
        (("StatefulSet", "web-5d4"), {"pod-template-hash": "5d4"}, "", "default/statefulset/web-5d4"),
    ],
)
def test_workload_name_of_a_pod(
    owner: tuple[str, str] | None, labels: dict[str, str], group: str, name: str | None
) -> None:
    """As `--without` takes it; daemons and static pods stay."""
    made = pod("p", 1, group=group)
    made["metadata"]["labels"] = labels
    if owner is not None:
        kind, of = owner
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": of, "uid": "u", "controller": True}
        made["metadata"]["ownerReferences"] = [reference]
    [found] = loaded(*([gang("g", 1)] if group else []), made).pods
    assert workload_of_pod(found.object) == name
