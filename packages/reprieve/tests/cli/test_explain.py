"""`reprieve explain` on a cluster of `reprieve up`: the whole way from a decision to the story (interfaces.md)."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reprieve.client.kubeconfig import connect
from reprieve.client.transport import ApiClient, Limits
from tests import manifests
from tests.cli.conftest import Run
from tests.manifests import gang, priority_class
from tests.waiting import DEADLINE

Json = dict[str, Any]
NODES = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 16Gi, pods: "110", example.com/gpu: "4"}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: "3", memory: 16Gi, pods: "110", example.com/gpu: "4"}}
"""
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


def pod(name: str, *, priority: str = "", group: str = "", scheduler: str = "", **requests: str) -> Json:
    amounts = {key.replace("gpu", "example.com/gpu"): amount for key, amount in requests.items()}
    named: Json = {"priorityClassName": priority, "schedulerName": scheduler}
    return manifests.pod(name, group=group, more=amounts, **{field: value for field, value in named.items() if value})


async def play(kubeconfig: Path) -> None:
    """Low pods run, a high one pushes one of them out; a huge one, one like the low ones and a gang wait."""
    async with ApiClient(connect(str(kubeconfig)), limits=Limits(qps=0.0)) as client:

        async def create(path: str, *bodies: Json) -> None:
            for body in bodies:
                await client.request("POST", path, body=body)

        async def until(condition: Callable[[dict[str, Json]], bool]) -> None:
            async with asyncio.timeout(DEADLINE):
                while not condition(
                    {item["metadata"]["name"]: item for item in (await client.get(PODS)).read(dict)["items"]}
                ):
                    await asyncio.sleep(0.02)

        def placed(*names: str) -> Callable[[dict[str, Json]], bool]:
            return lambda pods: all(name in pods and pods[name]["spec"].get("nodeName") for name in names)

        def rejected(*names: str) -> Callable[[dict[str, Json]], bool]:
            return lambda pods: all(pods[name]["status"].get("conditions") for name in names)

        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await create(classes, priority_class("mid", 500), priority_class("high", 1000))
        await create(PODS, pod("low-a", cpu="3", gpu="1"))
        await until(placed("low-a"))
        await create(PODS, pod("low-b", cpu="3", gpu="1"))
        await until(placed("low-b"))
        await create(PODS, pod("vip", priority="high", cpu="4"))
        await until(placed("vip"))
        await create(PODS, pod("huge", priority="mid", cpu="64"), pod("same", cpu="3"))
        await create(GROUPS, gang("train", 4))
        await create(PODS, *(pod(f"t{i}", group="train", gpu="2") for i in range(4)))
        await until(rejected("huge", "same", "t0", "t3"))
        await create(GROUPS, gang("wide", 3, priorityClassName="mid"), gang("odd", 2), gang("parts", 4))
        await create(PODS, *(pod(f"w{i}", group="wide", priority="mid", cpu="3") for i in range(3)))
        await create(PODS, pod("o0", group="odd", cpu="3"), pod("o1", group="odd", cpu="3", scheduler="yunikorn"))
        await create(PODS, *(pod(f"p{i}", group="parts", gpu=gpu) for i, gpu in enumerate(("1", "1", "1", "4"))))
        await until(rejected("w0", "o0", "p0"))

        # What groups say, and the events, are written beside what their pods say.
        async def is_reported() -> bool:
            groups = (await client.get(GROUPS)).read(dict)["items"]
            events = (await client.get("/apis/events.k8s.io/v1/namespaces/default/events")).read(dict)["items"]
            reported = {one["metadata"]["name"] for one in groups if (one.get("status") or {}).get("conditions")}
            return reported == {"train", "wide", "odd", "parts"} and any(one["reason"] == "Preempted" for one in events)

        async with asyncio.timeout(DEADLINE):
            while not await is_reported():
                await asyncio.sleep(0.02)


class Up:
    """A cluster of `reprieve up`, played on."""

    def __init__(self, place: Path) -> None:
        (place / "nodes.yaml").write_text(NODES)
        self.kubeconfig = place / "kubeconfig"
        self.records = place / "data" / "decisions.db"
        up = [sys.executable, "-m", "reprieve", "up", "--port", "0", "-f", str(place / "nodes.yaml")]
        self.process = subprocess.Popen(
            [*up, "--data-dir", str(place / "data"), "--kubeconfig", str(self.kubeconfig)],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if "the scheduler listens on" in line:
                break
        else:
            raise AssertionError("".join(lines))
        asyncio.run(play(self.kubeconfig))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stderr is not None
        self.process.stderr.read()
        self.process.wait(DEADLINE)
        self.process.stderr.close()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    cluster = Up(tmp_path_factory.mktemp("up"))
    yield cluster
    cluster.stop()


@pytest.fixture
def alone(up: Up, tmp_path: Path) -> Path:
    """A kubeconfig of the same cluster that does not say where the scheduler answers."""
    found = tmp_path / "alone"
    found.write_text(up.kubeconfig.read_text().replace("reprieve.dev/scheduler", "another.scheduler"))
    return found


def test_victim_that_is_gone(up: Up, run: Run) -> None:
    ended = run("explain", "pod", "low-b", "--kubeconfig", up.kubeconfig)
    other = run("explain", "pod", "low-a", "--kubeconfig", up.kubeconfig)
    gone = next(one.out for one in (ended, other) if "is gone: it was preempted" in one.out)
    assert (ended.code, ended.err) == (0, "")
    assert re.search(r"^Preempted by pod default/vip at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$", gone, re.M)
    assert "pod default/vip has priority 1000, this workload has 0." in gone
    assert "if it stayed, default/vip would not fit on n1: Insufficient cpu (3 short)" in gone
    assert "With a priority of 1000 or more it would not have been a potential victim." in gone
    assert "Preempted by pod" in gone.split("Events")[1]


def test_preemptor(up: Up, run: Run) -> None:
    ended = run("explain", "pod", "vip", "--kubeconfig", up.kubeconfig)
    assert ended.code == 0
    assert ended.out.startswith("pod default/vip is scheduled: it is on n1.\n")
    assert "Preemption: 1 workload (1 pod) evicted" in ended.out
    assert "every victim was evicted." in ended.out
    assert "What would help" not in ended.out


@pytest.mark.parametrize("output", ["text", "json"])
def test_redacted_preemptors_are_shown_by_kind_and_priority_alone(up: Up, run: Run, output: str) -> None:
    """whatif.md 11.4, of a scheduler's records and of events."""
    options = ("--kubeconfig", up.kubeconfig, "--redact", "-o", output)
    found = [run("explain", "pod", name, *options) for name in ("low-a", "low-b")]
    assert [(ended.code, ended.err) for ended in found] == [(0, "")] * 2
    (gone,) = [ended.out for ended in found if "vip" in ended.out or "of priority 1000" in ended.out]
    assert "vip" not in gone
    preemptor = run("explain", "pod", "vip", *options).out
    assert "low-" not in preemptor
    assert "a pod of priority 0" in preemptor


def test_request_no_node_can_meet(up: Up, run: Run) -> None:
    ended = run("explain", "pods", "huge", "--kubeconfig", up.kubeconfig)
    assert "Why: it fits on 0 of 2 nodes" in ended.out
    # As a fact; or as what would help, if no pod of an earlier second would take the added node.
    assert re.search(r"requests (64 cpu|that much), but the largest node has 4\.", ended.out)
    assert "A priority of" not in ended.out, "no priority helps"
    assert "From the scheduler's record (http://127.0.0.1:" in ended.out


def test_suggested_amounts_and_priority(up: Up, run: Run) -> None:
    ended = run("explain", "pod", "same", "--kubeconfig", up.kubeconfig)
    assert (
        "Free 3 more cpu on n2, where the shortage is smallest." in ended.out
        or "Free 3 more cpu on n1 or n2" in ended.out
    )
    assert "Set a priority of 1 or more (it has 0): it could then preempt (--set-priority default/pod/same=1)." in (
        ended.out
    )


def test_gang_and_its_members_have_the_same_explanation(up: Up, run: Run) -> None:
    group = run("explain", "podgroup", "train", "--kubeconfig", up.kubeconfig)
    member = run("explain", "pod", "t1", "-n", "default", "--kubeconfig", up.kubeconfig)
    assert group.out.startswith("podgroup default/train is pending: 0 of its 4 pods on nodes. It needs 4 to start.\n")
    for ended in (group, member):
        assert "3 of 4 pods fit when tried together." in ended.out
        assert (
            "Free 1 more example.com/gpu on n2, where the shortage is smallest: one more pod must be placed."
            in ended.out
        )
        assert "Set minCount to 3 instead of 4 (--scale default/podgroup/train=3)." in ended.out


def test_reason_without_preemption_for_a_gang_is_shown(up: Up, run: Run) -> None:
    """What runs at a lower priority is 3 cores on n2; vip is above."""
    ended = run("explain", "podgroup", "wide", "--kubeconfig", up.kubeconfig)
    assert "pod group is unschedulable, pod group is unschedulable" in ended.out, "the condition is upstream's"
    shown = ended.out.partition("No pods are evicted for it\n")[2]
    assert re.search(r"pod default/low-[ab] +1 pod +n2 +0 ", shown)
    assert (
        "Even with everything of lower priority evicted (1 workload, 1 pod), only 1 of its pods would fit; it needs 3."
        in shown
    )
    assert "Even then, default/w1 would fit on 0 of 2 nodes: 2 Insufficient cpu." in shown


def test_member_of_another_scheduler(up: Up, run: Run) -> None:
    """The group names the scheduler of the pod that it cannot get, and no lower minCount is advised."""
    ended = run("explain", "podgroup", "odd", "--kubeconfig", up.kubeconfig)
    assert 'the same .spec.schedulerName set, got: "yunikorn" and "default-scheduler"' in ended.out
    assert "minCount 1" not in ended.out


def test_gang_that_only_its_order_keeps_from_being_placed(up: Up, run: Run) -> None:
    ended = run("explain", "podgroup", "parts", "--kubeconfig", up.kubeconfig)
    assert "A placement may exist: pods are tried one after another" in ended.out
    assert "In another order 4 pods would fit: GangScheduling with treeSearch: Retry" in ended.out


def test_questions_go_to_the_cluster_that_kubectl_would_ask(up: Up, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kubectl reprieve queue` needs nothing else."""
    monkeypatch.setenv("KUBECONFIG", str(up.kubeconfig))
    for question in (["queue"], ["explain", "--all-waiting"]):
        items = json.loads(run(*question, "-o", "json").out)["items"]
        assert {"huge", "same", "train"} <= {item["name"] for item in items}
    worked_out = run("explain", "pod/same", "--add-nodes", "1", "--like", "n1")
    assert worked_out.out.startswith("Changes\n  --add-nodes 1 --like n1  1 node like n1: n1-1\n")
    assert "No scheduler has a decision record of this." in worked_out.out


def test_json_is_one_document(up: Up, run: Run) -> None:
    found = json.loads(run("explain", "podgroup", "train", "-o", "json", "--kubeconfig", up.kubeconfig).out)
    assert (found["apiVersion"], found["kind"], found["state"]) == ("reprieve.dev/v1alpha1", "Explanation", "Waiting")
    assert found["object"] == {
        "kind": "PodGroup",
        "namespace": "default",
        "name": "train",
        "exists": True,
        "priority": 0,
        "minCount": 4,
        "pods": 4,
        "scheduled": 0,
    }
    (record,) = found["records"]
    assert record["members"] == {"tried": 4, "placed": 3, "minCount": 4}
    assert record["lack"]["closest"] == {"missing": {"example.com/gpu": "1"}, "nodes": 1, "names": ["n2"]}
    assert found["recordsFrom"].startswith("http://127.0.0.1:")


def test_without_records_the_answer_is_computed_and_marked_so(alone: Path, run: Run) -> None:
    ended = run("explain", "podgroup", "train", "--kubeconfig", alone)
    assert ended.code == 0
    assert "Set minCount to 3 instead of 4" in ended.out
    assert "No decision record of a scheduler could be read." in ended.out
    assert "computed on the cluster as it is now" in ended.out


def test_records_from_the_file(up: Up, alone: Path, run: Run) -> None:
    ended = run("explain", "pod", "vip", "--kubeconfig", alone, "--records", up.records)
    assert "Preemption: 1 workload (1 pod) evicted" in ended.out
    assert f"From the scheduler's record ({up.records})" in ended.out


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("pod", "missing"), 1, 'error: pod "missing" not found in namespace "default"\n'),
        (("podgroup", "missing", "-n", "team"), 1, 'error: podgroup "missing" not found in namespace "team"\n'),
        (("cpg", "missing"), 1, 'error: compositepodgroup "missing" not found in namespace "default"\n'),
        (("node", "n1"), 2, "error: 'node': expected pod, podgroup or compositepodgroup\n"),
        (("pod", ""), 2, "error: the name is empty\n"),
        (("pod", "vip", "--context", "none"), 2, None),
        (("pod", "vip", "--records", "/no/such/file"), 2, None),
        (("pod", "vip", "--records", "ftp://host/"), 2, None),
        (("pod", "vip", "--records", "http://127.0.0.1:9/"), 3, None),
    ],
)
def test_objects_that_cannot_be_explained(
    up: Up, run: Run, arguments: tuple[str, ...], code: int, error: str | None
) -> None:
    ended = run("explain", *arguments, "--kubeconfig", up.kubeconfig)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    if error is not None:
        assert ended.err == error


def test_server_that_is_not_there(run: Run, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: ''}}]\n"
    )
    ended = run("explain", "pod", "a", "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out) == (3, "")
