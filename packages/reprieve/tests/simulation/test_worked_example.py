"""The worked example without playing it: its manifests, its waves, and how a plan of each act is checked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reprieve.inputs.loader import load
from reprieve.simulation import demo
from reprieve.simulation.plan import plan
from reprieve.simulation.report import Plan


def check_plan(act: demo.Act, plan: Plan) -> list[str]:
    """What is not as the act says of a plan with `cluster.yaml`, the files the act builds on and its own."""
    arriving = [pod for pod in plan.pods if f"{pod.namespace}/{pod.pod_group}" in act.groups]
    placed = sum(1 for pod in arriving if pod.outcome == "Scheduled")
    made = [item for item in plan.preemptions if f"{item.preemptor.namespace}/{item.preemptor.name}" == act.group]
    evicted = {victim.unit for item in made for victim in item.victims}
    return demo.differences(act, scheduled=placed, evicted=evicted)


@pytest.mark.parametrize("act", demo.ACTS, ids=lambda act: act.file)
def test_plan_of_each_act_ends_as_it_must(act: demo.Act) -> None:
    files = [demo.DIRECTORY / name for name in (demo.CLUSTER, *act.after, act.file)]
    found = plan(load(files)).plan
    assert check_plan(act, found) == []
    short = check_plan(replace(act, scheduled=act.scheduled + 1, evicted=("default/x",)), found)
    assert short == [
        f"{act.scheduled} pods placed, expected {act.scheduled + 1}",
        f"evicted: {', '.join(act.evicted) or 'no pods'}; expected: default/x",
    ]


def test_acts_are_about() -> None:
    assert [(act.kind, act.groups) for act in demo.ACTS] == [
        ("PodGroup", ("default/train",)),
        ("PodGroup", ("default/giant",)),
        ("CompositePodGroup", ("default/chat-decode", "default/chat-prefill")),
    ]
    assert all(act.evicted == tuple(sorted(act.evicted)) for act in demo.ACTS)


def test_cluster_is_made_of() -> None:
    """Sixteen nodes, the classes, groups and budgets, and pods in two waves: those that started last come last."""
    nodes = demo.nodes()
    assert {item["kind"] for item in nodes} == {"Node"}
    assert len(nodes) == 16
    kinds = {item["kind"] for item in demo.furniture()}
    assert {"PodGroup", "PriorityClass", "PodDisruptionBudget"} <= kinds
    assert kinds.isdisjoint({"Node", "Pod"})
    first, last = demo.waves()
    names = [item["metadata"]["name"] for item in last]
    assert sorted(names) == sorted(f"batch-{index}" for index in (4, 5, 6, 7, 12, 13, 14, 15))
    assert len(first) + len(last) == 42
    assert len({item["metadata"]["name"] for item in (*first, *last)}) == 42


def test_pods_of_the_live_example_wait_for_the_node_they_run_on_in_the_plan() -> None:
    planned = {item["metadata"]["name"]: item for item in demo.objects(demo.CLUSTER) if item["kind"] == "Pod"}
    for item in (one for wave in demo.waves() for one in wave):
        given = planned[item["metadata"]["name"]]
        assert "nodeName" not in item["spec"]
        assert item["spec"]["nodeSelector"] == {"kubernetes.io/hostname": given["spec"]["nodeName"]}
        assert item["metadata"]["annotations"] == {"reprieve.dev/stop-seconds": "1"}
        rest = {key: value for key, value in item["spec"].items() if key != "nodeSelector"}
        assert rest == {key: value for key, value in given["spec"].items() if key not in ("nodeName", "nodeSelector")}
        assert (item["kind"], item["apiVersion"], "status" in item) == ("Pod", "v1", False)
