"""Small rules of `reprieve replay` on both sides of their bounds, in one process; whole ones are in test_replay.py."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest

from reprieve.cli import replay, replay_outcomes, replay_runs, replay_setup, replay_text
from reprieve.cli.interrupts import Interrupt
from reprieve.cli.outcome import CommandError
from tests.cli.conftest import Run

MALFORMED = ("x" * 64 + "=f", "a=", "=f", "a\tb=f", "", "=")
JOBS = "job,submit,duration,gpu\na,0,600,1\nb,60,600,1\n"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "nodes.yaml").write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\nstatus: {allocatable: {nvidia.com/gpu: 8, pods: 9}}\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], (("default", None),)),
        (["default"], (("default", None),)),
        (["a=default"], (("a", None),)),
        (["./default"], (("default", "./default"),)),
        (["a=f.yaml", "b=default"], (("a", "f.yaml"), ("b", None))),
        (["a=b=c"], (("a", "b=c"),)),
        (["x" * 63 + "=f"], (("x" * 63, "f"),)),
        ([f"p{number}=f" for number in range(32)], tuple((f"p{number}", "f") for number in range(32))),
        *(([text], "expected FILE, NAME=FILE, default or NAME=default") for text in MALFORMED),
        (["a=f", "a=g"], "--policy: a is given twice"),
        ([f"p{number}=f" for number in range(33)], "--policy: expected at most 32"),
    ],
)
def test_policies_have_names_of_their_own(given: list[str], found: object) -> None:
    if isinstance(found, str):
        with pytest.raises(CommandError, match=found):
            replay._policies(given)
    else:
        assert replay._policies(given) == found


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (61, "1m1s"), (86_399, "23h59m59s"), (86_400, "1d0s"), (90_061, "1d1h1m1s"), (864_000.4, "10d0s")],
)
def test_moment_of_a_replay_is_shown_in_days(seconds: float, text: str) -> None:
    assert replay._moment(seconds) == text


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--load", "0.0009"), "--load: expected a number from 0.001 to 1000, found 0.0009"),
        (("--load", "1000.1"), "--load: expected a number from 0.001 to 1000, found 1000.1"),
        (("--load", "nan"), "--load: expected a number from 0.001 to 1000, found nan"),
        (("--max-input-bytes", "0"), "--max-input-bytes: expected a size above 0"),
        (("--failures", "mtbf=59999ms,repair=1h"), "--failures: expected an mtbf of at least 1m"),
        (("--failures", "mtbf=1d,repair=1h,x=1"), "expected mtbf=DURATION,repair=DURATION, or a file"),
        (("--failures", "mtbf=soon,repair=1h"), "--failures mtbf: 'soon': expected a duration"),
        (("--failures", "mtbf=1h,repair=soon"), "--failures repair: 'soon': expected a duration"),
        (("--failures", "bad.csv"), "--failures: "),
        (("--failures", "near.csv"), 'the cluster has no node "nod-1", did you mean "node-1"?'),
        (("--failures", "far.csv"), 'the cluster has no node "zzz"\n'),
        (("--checkpoint", "soon"), "--checkpoint: 'soon': expected a duration"),
        (("--plugin-timeout", "0s"), "--plugin-timeout: expected more than 0"),
        (("--until", "soon"), "--until: "),
        (
            ("--cluster", "waits.yaml"),
            "--cluster: 1 pending pods; a cluster file may only contain running pods",
        ),
        (("--cluster", "none.yaml"), "--cluster: there are no nodes"),
        (("--cluster", "quota.yaml"), "quota.yaml: document "),
        (("--out", "jobs.csv"), "--out jobs.csv: is a file, not a directory"),
    ],
)
def test_jobs_that_cannot_be_replayed_are_named(run: Run, desk: Path, arguments: tuple[str, ...], wanted: str) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n"
    nodes = (desk / "nodes.yaml").read_text()
    (desk / "waits.yaml").write_text(f"{nodes}---\n{pod}")
    (desk / "none.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n")
    (desk / "quota.yaml").write_text(
        f"{nodes}---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q}}\nspec: {{hard: {{cpu: many}}}}\n"
    )
    (desk / "bad.csv").write_text("node,down,up\nnode-1,x,y\n")
    (desk / "near.csv").write_text("node,down,up\nnod-1,1,2\n")
    (desk / "far.csv").write_text("node,down,up\nzzz,1,2\n")
    cluster = () if "--cluster" in arguments else ("--cluster", "nodes.yaml")
    ended = run("replay", "jobs.csv", *cluster, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert wanted in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [("--load", "0.001"), ("--load", "1000"), ("--failures", "mtbf=1m,repair=0s"), ("--until", "30s")],
)
def test_jobs_just_within_the_bounds_are_replayed(run: Run, desk: Path, arguments: tuple[str, ...]) -> None:
    until = () if "--until" in arguments else ("--until", "1h")
    ended = run("replay", "jobs.csv", "--cluster", "nodes.yaml", *until, *arguments)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("Replay\n")
    assert "simulated in " in ended.err


@pytest.mark.parametrize(
    ("form", "name"), [("json", "replay.json"), ("csv", "jobs.csv"), ("trace", "trace.json"), ("text", None)]
)
def test_each_form_has_its_file(run: Run, desk: Path, form: str, name: str | None) -> None:
    """replay.md 1.2, 1.5."""
    ended = run("replay", "jobs.csv", "-o", form, "--out", "a/b")
    assert ended.code == 0, ended.err
    assert [file.name for file in (desk / "a" / "b").iterdir()] == ([name] if name else [])
    assert (f"wrote a/b/{name}\n" in ended.err) == (name is not None)
    assert "no --cluster: using 4 nodes sized for the jobs (the first: " in ended.err


def test_interrupted_replay_reports_how_far_it_came(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed before anything is simulated, it is heard nevertheless."""
    before = replay_runs._run_here

    def pressed(given: object, name: str, policy: object, interrupt: Interrupt) -> replay_runs.ReplayAnswer:
        interrupt.pressed(2, None)
        return before(given, name, policy, interrupt)  # type: ignore[arg-type]

    monkeypatch.setattr(replay_runs, "_run_here", pressed)
    ended = run("replay", "jobs.csv", "--cluster", "nodes.yaml")
    assert ended.code == 130
    assert "interrupted: this is what was simulated so far (default at " in ended.err


def test_interrupt_before_anything_runs_takes_effect_later() -> None:
    heard: list[str] = []
    interrupt = Interrupt()
    interrupt.then(lambda: heard.append("first"))
    assert heard == []
    interrupt.pressed(2, None)
    assert (heard, interrupt.wanted) == (["first"], True)
    interrupt.then(lambda: heard.append("second"))
    assert heard == ["first", "second"]


@pytest.mark.parametrize(("code", "text"), [(3, "with exit code 3"), (0, "with exit code 0"), (-9, "by signal 9")])
def test_end_of_a_process_is_described_by_signal_or_exit_code(code: int, text: str) -> None:
    assert replay_runs._how(code) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """All policies together; a pipe gets no progress."""
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        line = replay_runs._ReplayLine(2, 10)
        line.clear()
        assert stream.getvalue() == ""
        line.update(0, 3, 86_400_000)
        line.update(1, 4, 129_600_000)
        line.clear()
        expected = "\r3 of 20 jobs, day 1.0\033[K\r7 of 20 jobs, day 1.5\033[K\r\033[K"
        assert stream.getvalue() == (expected if stream.isatty() else "")


def test_progress_is_reported_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("reprieve.cli.replay_outcomes.time.monotonic", lambda: now[0])
    shown: list[int] = []
    progress = replay_outcomes.paced(lambda done, _: shown.append(done))
    for at in (10.0, 10.25, 10.5, 10.75, 11.0, 11.25):
        now[0] = at
        progress(int(at * 100), 0)
    assert shown == [1050, 1100]


def test_waiting_times_are_split_by_tenant_where_there_are_several(run: Run, desk: Path) -> None:
    """The ten with the most jobs, by name where they have as many; kinds of which there is one are no table."""

    def tables(tenants: list[str]) -> str:
        rows = "".join(f"j{number},0,600,1,{name}\n" for number, name in enumerate(tenants))
        (desk / "tenants.csv").write_text(f"job,submit,duration,gpu,tenant\n{rows}")
        ended = run("replay", "tenants.csv")
        assert ended.code == 0, ended.err
        return ended.out

    assert "by tenant" not in tables(["a", "a"])
    two = tables(["b", "a", "b"])
    assert "Mean waiting, by tenant\n" in two
    assert "Mean waiting, by GPUs of a job\n" not in two
    ten = tables([f"t{number}" for number in range(10)])
    assert "with the most jobs" not in ten
    eleven = tables([*(f"t{number:02}" for number in range(11)), "t10"])
    assert "the 10 with the most jobs, of 11; -o json lists them all" in eleven
    names = re.findall(r"^  (t\d+)", eleven, re.MULTILINE)
    assert names == [*(f"t{number:02}" for number in range(9)), "t10"]
    assert replay_text.MOST_TENANTS == 10


@pytest.mark.parametrize("policies", [(), ("--policy", "one=default", "--policy", "two=default")])
def test_quota_that_makes_no_sense_is_refused_before_anything_runs(
    run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch, policies: tuple[str, ...]
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(replay_runs, "_run_here", lambda *_: ran.append("here"))
    monkeypatch.setattr(replay_runs, "_run_apart", lambda *_: ran.append("apart"))
    quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {cpu: many}}\n"
    (desk / "quota.yaml").write_text((desk / "nodes.yaml").read_text() + quota)
    ended = run("replay", "jobs.csv", "--cluster", "quota.yaml", *policies)
    assert (ended.code, ended.out, ran) == (2, "", [])
    assert ended.err.startswith('error: quota.yaml: document 2 (line 5): ResourceQuota "default/q": spec.hard[cpu]: ')


@pytest.mark.parametrize(
    "form",
    [
        "{quota}",
        "{{apiVersion: v1, kind: List, items: [{quota}]}}",
        "{{apiVersion: v1, kind: List, items: }}\n---\n{quota}",
    ],
)
@pytest.mark.parametrize("place", ["a.yaml", "nodes/a.yaml"])
def test_quotas_are_those_of_the_cluster_in_every_form(run: Run, desk: Path, form: str, place: str) -> None:
    """A list, a document, a folder: of two jobs of a tenant the second waits until the first is over."""
    quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: team}, spec: {hard: {pods: 1}}}"
    (desk / "nodes").mkdir()
    (desk / place).write_text(f"{(desk / 'nodes.yaml').read_text()}---\n{form.format(quota=quota)}\n")
    (desk / "nodes" / "ignored.txt").write_text("no manifest")
    (desk / "two.csv").write_text("job,submit,duration,gpu,tenant\nx,0,10,1,team\ny,0,10,1,team\n")
    cluster = place.partition("/")[0]
    ended = run("replay", "two.csv", "--cluster", cluster, "-o", "csv")
    assert ended.code == 0, ended.err
    assert [row.split(",")[0] for row in ended.out.splitlines()[1:]] == ["default", "default"]
    starts = [row["start"] for row in csv.DictReader(io.StringIO(ended.out))]
    assert starts == ["0", "10"]


def test_answer_that_cannot_be_written_is_one_line(run: Run, desk: Path) -> None:
    (desk / "found" / "replay.json").mkdir(parents=True)
    ended = run("replay", "jobs.csv", "--cluster", "nodes.yaml", "-o", "json", "--out", "found")
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("error: ")
    assert ended.out.startswith("Replay\n")


def test_line_of_progress_is_that_of_one_policy_and_goes_at_the_end(
    run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[object] = []

    class Line:
        def __init__(self, policies: int, jobs: int) -> None:
            happened.append(("line", policies, jobs))

        def update(self, policy: int, done: int, _now: int) -> None:
            happened.append(("update", policy))

        def clear(self) -> None:
            happened.append("clear")

    monkeypatch.setattr(replay_runs, "_ReplayLine", Line)
    monkeypatch.setattr(replay_outcomes, "_EVERY", 0.0)
    run("replay", "jobs.csv", "--cluster", "nodes.yaml")
    assert happened[0] == ("line", 1, 2)
    assert set(happened[1:-1]) == {("update", 0)}
    assert happened[-1] == "clear"


def test_replay_without_options_is_what_was_typed(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option's default, and that each is passed on."""
    tasks: list[replay_setup.Task] = []

    def noting(task: replay_setup.Task) -> None:
        tasks.append(task)
        raise CommandError("noted")

    monkeypatch.setattr(replay_runs, "answer_of", noting)
    assert run("replay", "jobs.csv").err == "error: noted\n"
    [plain] = tasks
    assert (plain.jobs, plain.cluster, plain.policies) == (Path("jobs.csv"), (), (("default", None),))
    assert (plain.begin, plain.until, plain.load, plain.sample, plain.seed) == ("", "", 1.0, None, None)
    assert (plain.checkpoint, plain.restart, plain.failures, plain.skip_bad) == ("", "0s", "", False)
    assert (plain.max_jobs, plain.max_bytes, plain.timeline) == (1_000_000, 64 << 20, False)
    assert (plain.feature_gates, plain.plugins, plain.plugin_timeout) == ("", (), "10s")
    when = ("--from", "1h", "--until", "2h", "--load", "2", "--sample", "1", "--seed", "3")
    work = ("--checkpoint", "5m", "--restart", "1m", "--failures", "f.csv", "--skip-bad", "--max-jobs", "7")
    rest = ("--max-input-bytes", "8", "--feature-gates", "A=true", "--plugin", "m:P", "--plugin-timeout", "1s")
    run("replay", "jobs.csv", "--cluster", "a", "--cluster", "b", *when, *work, *rest, "-o", "trace")
    full = tasks[1]
    assert (full.cluster, full.begin, full.until, full.load, full.sample, full.seed) == (
        ("a", "b"),
        "1h",
        "2h",
        2.0,
        1,
        3,
    )
    assert (full.checkpoint, full.restart, full.failures, full.skip_bad) == ("5m", "1m", "f.csv", True)
    assert (full.max_jobs, full.max_bytes, full.timeline) == (7, 8, True)
    assert (full.feature_gates, full.plugins, full.plugin_timeout) == ("A=true", ("m:P",), "1s")


@pytest.mark.parametrize("option", ["--sample", "--max-jobs"])
def test_numbers_of_jobs_are_above_zero(run: Run, desk: Path, option: str) -> None:
    ended = run("replay", "jobs.csv", option, "0")
    assert (ended.code, ended.out) == (2, "")
    assert "0 is not in the range x>=1" in ended.err
    assert run("replay", "jobs.csv", "--cluster", "nodes.yaml", option, "2").code == 0


def test_document_has_the_setting_of_the_replay(run: Run, desk: Path) -> None:
    """Times in seconds; what was not asked for is null (replay.md 4)."""
    plain = json.loads(run("replay", "jobs.csv", "--cluster", "nodes.yaml", "-o", "json").out)["setting"]
    assert {key: plain[key] for key in SETTING} == SETTING
    asked = ("--until", "30m", "--checkpoint", "5m", "--restart", "90s", "--seed", "3")
    found = json.loads(run("replay", "jobs.csv", "--cluster", "nodes.yaml", "-o", "json", *asked).out)["setting"]
    changed = {"until": 1800.0, "checkpointSeconds": 300.0, "restartSeconds": 90.0, "seed": 3}
    assert {key: found[key] for key in SETTING} == {**SETTING, **changed}


SETTING = {"jobs": 2, "nodes": 1, "until": None, "checkpointSeconds": None, "restartSeconds": 0.0, "seed": None}


@pytest.mark.parametrize("policies", [("--policy", "a=c.yaml"), ("--policy", "a=c.yaml", "--policy", "b=c.yaml")])
def test_configuration_is_warned_of_once_for_each_policy(run: Run, desk: Path, policies: tuple[str, ...]) -> None:
    """By the file; not again by the processes of their own."""
    extenders = "extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]"
    (desk / "c.yaml").write_text(
        f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{extenders}\n"
    )
    ended = run("replay", "jobs.csv", "--cluster", "nodes.yaml", *policies)
    assert ended.code == 0, ended.err
    warnings = [line for line in ended.err.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == len(policies) // 2
    assert all(line.startswith("warning: c.yaml: ") and "extenders are not called" in line for line in warnings)


@pytest.mark.parametrize(("movable", "moves"), [("true", 1), ("false", 0), ("", 0)])
def test_job_that_may_move_does(run: Run, desk: Path, movable: str, moves: int) -> None:
    """replay.md 1.1, moving.md 4.1: `small` is in the way of a whole node, and fits beside `tune`."""
    rows = f"a,0,100,8,\ntune,1,9000,7,\nfill,2,400,1,\nsmall,3,9000,1,{movable}\ntrain,500,1000,8,\n"
    (desk / "moving.csv").write_text("job,submit,duration,gpu,movable\n" + rows)
    first = (desk / "nodes.yaml").read_text()
    (desk / "two.yaml").write_text(f"{first}---\n{first.replace('node-1', 'node-2')}")
    profile = {"pluginConfig": [{"name": "DefaultPreemption", "args": {"moving": "Move"}}]}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (desk / "move.yaml").write_text(json.dumps({**kind, "profiles": [profile]}))
    done = run("replay", "moving.csv", "--cluster=two.yaml", "--policy=move.yaml", "-o", "json")
    assert done.code == 0, done.err
    [replayed] = json.loads(done.out)["policies"]
    assert replayed["evictions"]["moves"] == moves, replayed["evictions"]
