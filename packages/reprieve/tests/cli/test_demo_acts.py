"""`reprieve demo` on a stage without a cluster: what is shown of each act, and what is reported as unexpected.

How it plays on a real one is in test_demo.py.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp import web

from reprieve.cli import demo as command
from reprieve.cli.outcome import CommandError
from reprieve.cli.sections import Section, Tone
from reprieve.client.cluster_reader import ClusterReading
from reprieve.decisions.records import (
    CandidateRecord,
    Comparison,
    CostRecord,
    EntityReference,
    NominationRecord,
    PreemptionRecord,
    UnitRecord,
)
from reprieve.inputs.loader import load
from reprieve.live.demo_cluster import LateError
from reprieve.live.supervisor import ChildRefusedError
from reprieve.simulation import demo
from tests.cli.conftest import Ended, Run
from tests.cli.test_explain_text import record
from tests.decisions.made import record as made
from tests.decisions.made import unit
from tests.waiting import DEADLINE

TRAIN, GIANT, CHAT = demo.ACTS
GPU = "nvidia.com/gpu"


def pod(name: str) -> Any:
    container = SimpleNamespace(resources=SimpleNamespace(requests={GPU: "4"}))
    return SimpleNamespace(metadata=SimpleNamespace(uid=name), spec=SimpleNamespace(containers=[container]))


class Stage:
    """Five pods run, and everything happens at once: `placed` pods of the act start, those of `evicted` units go.

    `lost` pods stop although they were not preempted.
    """

    def __init__(self, act: demo.Act, *, placed: int, evicted: Iterable[str] = (), lost: int = 0) -> None:
        self.before = [pod(f"before-{number}") for number in range(5)]
        self.act, self.placed, self.evicted, self.lost = act, placed, tuple(evicted), lost
        self.preempted = {"default/earlier": pod("earlier")}
        self.arrived: list[Any] = []
        self.created: list[list[str]] = []
        self.awaited: list[str] = []

    async def create(self, items: Iterable[Any]) -> None:
        self.created.append([item["kind"] for item in items])
        self.preempted |= {unit: self.before.pop() for unit in self.evicted}
        self.before = self.before[self.lost :]
        self.arrived = [pod(f"new-{number}") for number in range(self.placed)]

    async def until(self, check: Callable[[], bool], what: str) -> None:
        self.awaited.append(what)
        assert check(), what

    def running(self, *groups: str) -> list[Any]:
        assert groups in ((), self.act.groups)
        return self.arrived if groups else [*self.before, *self.arrived]

    def pods(self) -> list[Any]:
        return self.running()

    def units(self) -> set[str]:
        return set(self.preempted)

    def waits(self, group: str) -> str | None:
        assert group == self.act.group
        return None if self.placed else "0/16 nodes are available"

    def tree_is_scheduled(self, root: str) -> bool:
        return root == self.act.group


Named = tuple[int, PreemptionRecord]


def account(*evicted: str) -> Named:
    """Return a decision, with its priority, to evict these and to spare another."""
    gone = (msgspec.structs.replace(unit("v"), unit=name) for name in evicted)
    return 9, made(*gone, unit("spared", evicted=False))


def performed(
    monkeypatch: pytest.MonkeyPatch,
    stage: Stage,
    *,
    foreseen: Named | None = None,
    recorded: Named | None = None,
) -> tuple[list[Section], list[str]]:
    async def plan(act: demo.Act, _client: object) -> Named | None:
        assert act is stage.act
        assert stage.created == [], "planned before the act"
        return foreseen

    async def record(_act: demo.Act, url: str) -> Named | None:
        assert url == "http://scheduler"
        return recorded

    monkeypatch.setattr(command, "_foreseen", plan)
    monkeypatch.setattr(command, "_recorded", record)
    client: Any = None
    return asyncio.run(command._perform(stage.act, stage, client, "http://scheduler"))  # type: ignore[arg-type]


def test_gang_that_gets_its_room_is_shown_with_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    act = replace(TRAIN, scheduled=2, evicted=("default/a", "default/b"))
    stage = Stage(act, placed=2, evicted=act.evicted)
    foreseen = account("default/a", "default/b")
    (first, evicted, spared), different = performed(monkeypatch, stage, foreseen=foreseen, recorded=(8, foreseen[1]))
    assert different == []
    assert (first.title, first.tone) == ("All 2 pods of default/train run.", Tone.GOOD)
    assert first.notes == ("2 workloads (2 pods) evicted to free capacity.", "5 pods running before, 5 now.")
    assert evicted.title == "Evicted for podgroup default/train (priority 8)"
    assert (len(evicted.rows), len(spared.rows)) == (1, 1)
    assert stage.awaited == ["default/train running", "the victims deleted"]
    assert stage.created == [[item["kind"] for item in demo.objects(act.file)]]


def test_tree_is_waited_for_until_it_is_reported_as_scheduled(monkeypatch: pytest.MonkeyPatch) -> None:
    act = replace(CHAT, scheduled=1, evicted=("default/a",))
    stage = Stage(act, placed=1, evicted=act.evicted)
    (first, evicted, _), different = performed(monkeypatch, stage, foreseen=account("default/a"))
    assert different == []
    assert first.notes[0] == "1 workload (1 pod) evicted to free capacity."
    assert evicted.title == "Evicted for compositepodgroup default/chat (priority 9)", (
        "what is not recorded is what was foreseen"
    )
    assert stage.awaited == [
        "default/chat running",
        "default/chat marked as scheduled",
        "the victims deleted",
    ]


def test_gang_that_cannot_fit_waits_and_no_pods_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(GIANT, placed=0)
    (only,), different = performed(monkeypatch, stage)
    assert different == []
    assert (only.title, only.tone) == ("default/giant is pending: none of its 13 pods is placed.", Tone.WAITING)
    assert only.notes == ("0/16 nodes are available", "No pods are evicted.", "5 pods running before, 5 now.")
    assert stage.awaited == ["default/giant marked as unschedulable"]


ONE_GOES = replace(TRAIN, scheduled=1, evicted=("default/a",))


@pytest.mark.parametrize(
    ("came", "foreseen", "recorded", "expected"),
    [
        (
            (ONE_GOES, 2, ("default/a",), 0),
            account("default/a"),
            None,
            ["2 pods placed, expected 1"],
        ),
        (
            (ONE_GOES, 1, ("default/a",), 1),
            account("default/a"),
            None,
            ["pods that were not preempted do not run any more"],
        ),
        (
            (ONE_GOES, 1, ("default/a",), 0),
            account("default/b"),
            account("default/a"),
            ["the plan for the same cluster names other victims"],
        ),
        (
            (ONE_GOES, 1, ("default/a",), 0),
            account("default/a"),
            account("default/a", "default/b"),
            ["the scheduler's record names other victims"],
        ),
        (
            (GIANT, 0, ("default/a",), 0),
            None,
            None,
            [
                "evicted: default/a; expected: no pods",
                "the plan for the same cluster names other victims",
                "the scheduler's record names other victims",
            ],
        ),
    ],
    ids=["placed", "lost", "plan", "record", "evicted"],
)
def test_different_outcome_is_reported(
    monkeypatch: pytest.MonkeyPatch,
    came: tuple[demo.Act, int, tuple[str, ...], int],
    foreseen: Named | None,
    recorded: Named | None,
    expected: list[str],
) -> None:
    """`came`: for an act, how many are placed, which are evicted, and how many others stop."""
    act, placed, evicted, lost = came
    stage = Stage(act, placed=placed, evicted=evicted, lost=lost)
    sections, different = performed(monkeypatch, stage, foreseen=foreseen, recorded=recorded)
    assert different == expected
    if not placed:
        assert sections[0].notes[1] == "1 pod evicted."
        assert len(sections) == 1, "there is no decision to show"


# -- what was decided ----------------------------------------------------------------------------------------------

MADE = PreemptionRecord(
    domain="rack-1",
    potential_victims=2,
    evicted=(
        UnitRecord(
            unit="default/nightly",
            kind="PodGroup",
            outcome="Evicted",
            priority=10,
            pods=2,
            pod_names=("default/nightly-0", "default/nightly-1"),
            nodes=("n1",),
            running_seconds=7.0,
            violates_pdb=True,
        ),
    ),
    reprieved=(
        UnitRecord(
            unit="default/p",
            kind="Pod",
            outcome="Reprieved",
            priority=5,
            pods=1,
            pod_names=("default/p",),
            nodes=("n2",),
        ),
    ),
    reprieved_total=1,
    cost=CostRecord(units=1, pods=2, highest_priority=10),
    comparison=Comparison(candidates=3, chosen=CandidateRecord(domain="rack-1")),
    nominations=(NominationRecord(pod="default/train-0", node="n1"),),
    nominations_total=1,
    state="Done",
)


def records(*preemptions: PreemptionRecord | None) -> list[Any]:
    """Records of attempts, the newest first, as the scheduler reports them."""
    entity = EntityReference(kind="PodGroup", namespace="default", name="train", priority=1000)
    return [msgspec.to_builtins(record(entity=entity, preemption=made)) for made in preemptions]


def recorded_by(answer: Any, *, status: int = 200) -> tuple[Named | None, list[dict[str, str]]]:
    """What is made of a scheduler's answer, and what it was asked."""
    asked: list[dict[str, str]] = []

    async def explain(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        return web.json_response(answer, status=status)

    async def main() -> Named | None:
        app = web.Application()
        app.router.add_get("/explain", explain)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            return await command._recorded(TRAIN, f"http://{host}:{port}")
        finally:
            await runner.cleanup()

    return asyncio.run(main()), asked


def test_decision_is_read_from_the_first_record_of_one() -> None:
    found, asked = recorded_by({"items": records(None, MADE)})
    assert asked == [{"kind": "PodGroup", "namespace": "default", "name": "train"}]
    assert found is not None
    assert found == (1000, MADE)


@pytest.mark.parametrize("answer", [{"items": []}, {"items": records(None, None)}, {}, {"items": [{"id": "x"}]}])
def test_where_no_decision_is_recorded_there_is_none(answer: Any) -> None:
    assert recorded_by(answer)[0] is None


def test_scheduler_that_cannot_be_asked_has_recorded_nothing() -> None:
    assert asyncio.run(command._recorded(TRAIN, "http://127.0.0.1:9")) is None


@pytest.mark.parametrize(("act", "evicted"), [(TRAIN, set(TRAIN.evicted)), (GIANT, None)])
def test_plan_of_the_cluster_as_it_is_foresees_the_act(
    monkeypatch: pytest.MonkeyPatch, act: demo.Act, evicted: set[str] | None
) -> None:
    async def read_cluster(_client: object) -> ClusterReading:
        return ClusterReading(objects=[one.object for one in load([str(demo.DIRECTORY / demo.CLUSTER)]).all()])

    monkeypatch.setattr("reprieve.client.cluster_reader.read_cluster", read_cluster)
    client: Any = SimpleNamespace(connection=SimpleNamespace(server="https://here"))
    found = asyncio.run(command._foreseen(act, client))
    assert (found and {unit.unit for unit in found[1].evicted}) == evicted


# -- the whole of it -----------------------------------------------------------------------------------------------


@pytest.fixture
def theatre(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """`command._play` on a cluster that is none; the options with which one was started."""
    started: list[Any] = []

    @asynccontextmanager
    async def local_cluster(options: Any) -> AsyncIterator[Any]:
        started.append(options)
        yield SimpleNamespace(kubeconfig=tmp_path / "kubeconfig", scheduler_url="http://scheduler")

    @asynccontextmanager
    async def of_nothing(*_: object, **more: Any) -> AsyncIterator[str]:
        if "limits" in more:
            assert more["limits"].qps == 0.0, "not slowed down"
        yield "stage"

    monkeypatch.setattr("reprieve.live.local.local_cluster", local_cluster)
    monkeypatch.setattr("reprieve.client.kubeconfig.connect", lambda path: path)
    monkeypatch.setattr("reprieve.client.transport.ApiClient", of_nothing)
    monkeypatch.setattr("reprieve.live.demo_cluster.demo_cluster", of_nothing)
    return started


def acting(monkeypatch: pytest.MonkeyPatch, perform: Callable[[demo.Act], tuple[list[Section], list[str]]]) -> None:
    async def fill(_scene: object) -> Section:
        return Section("A cluster")

    async def performing(act: demo.Act, _scene: object, _client: object, url: str) -> tuple[list[Section], list[str]]:
        assert url == "http://scheduler"
        return perform(act)

    monkeypatch.setattr(command, "_fill", fill)
    monkeypatch.setattr(command, "_perform", performing)


def test_each_act_is_shown_with_its_story_outcome_and_lesson(
    run: Run, theatre: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    acting(monkeypatch, lambda act: ([Section(f"Outcome of {act.group}")], []))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    ended = run("demo")
    assert (ended.code, ended.err) == (0, "")
    expected = ["A cluster", ""]
    for act in demo.ACTS:
        expected += [act.title, *(f"  {line}" for line in act.story), "", f"Outcome of {act.group}", ""]
        expected += ["What this shows", *(f"  {line}" for line in act.lesson), ""]
    assert ended.out.splitlines() == [
        *expected,
        "Try it yourself",
        f'  export PATH={Path(sys.executable).parent}:"$PATH"',
        f"  cd {demo.DIRECTORY}",
        "  reprieve plan -f cluster.yaml -f train.yaml",
        "  reprieve plan -f cluster.yaml -f giant.yaml",
        "  reprieve plan -f cluster.yaml -f train.yaml -f chat.yaml",
        "The same cluster to work with, until Ctrl-C",
        "  reprieve up --data-dir :memory: --port 0 -f cluster.yaml",
        "In another shell, after the export that it prints",
        f"  kubectl apply -f {demo.DIRECTORY}/train.yaml",
        "  kubectl get pods -o wide",
    ]
    [options] = theatre
    assert options.arguments == ("--scheduler-name=default-scheduler", "--v=0")
    assert (options.serve.kubelets.start_seconds, len(options.serve.kubelets.manifests)) == (0.1, 16)


def lines_to_try() -> list[list[str]]:
    return [lines for _, lines in command._ways()]


def test_commands_printed_to_try_work_in_a_fresh_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """interfaces.md 1.2: whatever the shell's PATH, directory and home are."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    plans, [up], [apply, _] = lines_to_try()
    fresh = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    for plan in plans[2:]:
        script = "\n".join((*plans[:2], plan))
        ended = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, env=fresh, cwd="/", check=False)
        assert (ended.returncode, ended.stderr) == (0, ""), plan
    assert "All 8 pods" in ended.stdout or "Placed" in ended.stdout
    script = "\n".join((*plans[:2], f"exec {up}"))
    with subprocess.Popen(["sh", "-ec", script], stdout=subprocess.PIPE, env=fresh, cwd="/", text=True) as running:
        assert running.stdout is not None
        export = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait(DEADLINE) == 0
    [assigned] = shlex.split(export.removeprefix("export "))
    assert assigned.startswith("KUBECONFIG=/")
    assert Path(shlex.split(apply)[-1]).exists()


@pytest.mark.parametrize("known", [True, False])
def test_program_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: bool) -> None:
    """Nothing is exported where that is so, an alias is made where there is no such program."""
    program = tmp_path / "a b" / "reprieve"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", f"{program.parent}:/bin" if known else "/bin")
    assert command._path_to_program() == ("" if known else f"export PATH='{program.parent}':\"$PATH\"")
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert command._path_to_program() == f"alias reprieve='{tmp_path}/python -m reprieve'"


def test_unexpected_act_is_named_with_exit_code_1(
    run: Run, theatre: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    acting(monkeypatch, lambda act: ([], [f"{act.group} one", "two"] if act is not GIANT else []))
    ended = run("demo")
    assert ended.code == 1
    assert ended.err.splitlines() == [
        f"unexpected: {TRAIN.title}: default/train one",
        f"unexpected: {TRAIN.title}: two",
        f"unexpected: {CHAT.title}: default/chat one",
        f"unexpected: {CHAT.title}: two",
    ]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LateError("default/train running: not within 60 s"), "default/train running: not within 60 s"),
        (TimeoutError(), "the scheduler does not become ready"),
        (ChildRefusedError(2), "the scheduler ended with exit code 2"),
    ],
)
def test_pod_that_is_refused_is_an_outcome_and_no_bad_input(
    run: Run, theatre: list[Any], monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    """With the scheduler's log, which says more than this can."""

    def perform(_act: demo.Act) -> tuple[list[Section], list[str]]:
        os.write(theatre[0].output, b"what the scheduler\nlogged\n")
        raise error

    acting(monkeypatch, perform)
    ended = run("demo")
    assert ended.code == 1
    assert ended.err == f"the scheduler's log:\nwhat the scheduler\nlogged\nerror: {message}\n"


def test_stage_is_filled_in_waves_that_start_one_after_the_other() -> None:
    """The pod that started last is evicted first, so the second wave starts in a later second than the first."""
    happened: list[tuple[str, int]] = []

    class Filled:
        async def create(self, items: Iterable[Any]) -> None:
            happened.append(("create", len(list(items))))

        async def tick_over(self) -> None:
            happened.append(("tick", 0))

        async def all_running(self, number: int) -> None:
            happened.append(("running", number))

        def running(self) -> list[Any]:
            return [pod(f"{number}") for number in range(3)]

    scene: Any = Filled()
    section = asyncio.run(command._fill(scene))
    first, second = map(len, demo.waves())
    assert happened == [
        ("create", len(demo.furniture())),
        *[("tick", 0), ("create", first), ("running", first)],
        *[("tick", 0), ("create", second), ("running", first + second)],
    ]
    assert section.title == "A cluster on this machine"
    assert section.notes[0] == "16 nodes with 128 GPUs, 42 pods running on 12 of them: every GPU is in use."


def test_demo_ends_itself_at_its_deadline(
    run: Run, theatre: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After five minutes, and half a minute to stop what runs; not when it is over before."""
    timers: list[Any] = []

    class Timer:
        def __init__(self, seconds: float, act: Callable[[], None]) -> None:
            self.seconds, self.act, self.daemon = seconds, act, False
            self.happened: list[object] = []
            timers.append(self)

        def start(self) -> None:
            self.happened.append(("started", self.daemon))

        def cancel(self) -> None:
            self.happened.append("cancelled")

    monkeypatch.setattr("threading.Timer", Timer)
    acting(monkeypatch, lambda act: ([], []))
    assert run("demo").code == 0
    [timer] = timers
    assert (timer.seconds, timer.happened) == (330.0, [("started", True), "cancelled"])
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)
    timer.act()
    assert codes == [1]
    assert capsys.readouterr().err == (
        "error: the demo did not end after 330 s and cannot be stopped: ended by force\n"
    )


def test_deadline_of_something_else_is_not_taken_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(_log: int) -> list[str]:
        raise TimeoutError("something else")

    monkeypatch.setattr(command, "_play", late)
    with pytest.raises(TimeoutError, match="something else"):
        asyncio.run(command._play_in_time(0))


def test_own_deadline_is_reported_as_not_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(_log: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(command, "_play", hangs)
    monkeypatch.setattr(command, "_WHOLE_SECONDS", 0.0)
    with pytest.raises(CommandError, match="the demo did not end after 0 s; stopping it") as refused:
        asyncio.run(command._play_in_time(0))
    assert refused.value.code == 1


def test_nothing_but_warnings_is_logged(run: Run, theatre: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    verbose: list[bool] = []
    monkeypatch.setattr("reprieve.cli.apiserver.log_to_stderr", verbose.append)
    acting(monkeypatch, lambda act: ([], []))
    assert run("demo") == Ended(0, run("demo").out, "")
    assert verbose == [False, False]
