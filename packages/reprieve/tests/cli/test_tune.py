"""`reprieve tune` (tune.md), on two weeks of made-up jobs in which a low class is evicted over and over."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reprieve.python.configuration import read_configuration
from tests.cli.conftest import Run
from tests.cli.replay_inputs import FOUR
from tests.observability.postgres import postgres, reason_for_none
from tests.waiting import eventually

DAY = 86_400
INPUT = ("tune", "--jobs", "days.csv", *FOUR, "--checkpoint", "1h", "--restart", "5m")


def days(number: int) -> str:
    """A job list of so many days: gangs that save their work every hour, evicted by others half an hour past it."""
    rows = ["job,submit,duration,workers,gpu,priority"]
    for day in range(number):
        rows.append(f"long{day},{day * DAY},40000,3,8,0")
        rows.append(f"other{day},{day * DAY + 1200},40000,1,8,0")
        rows += [f"u{day}-{at},{day * DAY + at * 9000 + 5400},1800,1,8,100" for at in range(2)]
    return "\n".join(rows) + "\n"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days.csv").write_text(days(4))
    node = "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{}}}\n"
    node += "status: {{allocatable: {{nvidia.com/gpu: 8, pods: 9}}}}\n"
    (tmp_path / "four.yaml").write_text("".join(map(node.format, range(1, 5))))
    (tmp_path / "search.yaml").write_text(
        "preemption.waitForCheckpoint: [0s, 15m, 45m]\nweights.NodeResourcesFit: {low: 1, high: 3}\n"
    )
    return tmp_path


def test_front_is_judged_on_blocks_that_were_not_seen(run: Run, desk: Path) -> None:
    """tune.md 1.1, 2.1, 3.1, 3.3, 4.1, 4.2, 5.2, 7.1, 7.2: waiting for a checkpoint loses less."""
    ended = run(*INPUT, "--search", "search.yaml", "--trials", 12, "--format", "json", "-o", "tuned.yaml")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    setting = found["setting"]
    assert (setting["trials"], setting["trainingBlocks"], setting["heldOutBlocks"]) == (12, 2, 2)
    assert setting["blockSeconds"] == DAY
    by_name = {item["name"]: item for item in found["configurations"]}
    assert [*by_name][:2] == ["today", "kube-scheduler"]
    today, chosen = by_name["today"], by_name[found["chosen"]]
    assert chosen["values"]["preemption.waitForCheckpoint"] != "0s"
    assert chosen["training"][0] < today["training"][0]
    assert chosen["training"][1] <= today["training"][1]
    lost, difference = chosen["heldOut"][0], chosen["againstToday"][0]
    assert lost["low"] <= lost["value"] <= lost["high"]
    assert difference["high"] < 0
    assert difference["value"] == pytest.approx(lost["value"] - today["heldOut"][0]["value"])


def test_chosen_configuration_is_one_that_others_read(run: Run, desk: Path) -> None:
    """tune.md 7.3: as the scheduler's `--config` and a policy of a replay, with what to expect of it."""
    ended = run(*INPUT, "--search", "search.yaml", "--trials", 12, "-o", "tuned.yaml")
    assert ended.code == 0, ended.err
    assert "wrote tuned.yaml" in ended.err
    text = (desk / "tuned.yaml").read_text()
    comment = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    assert "chosen of 12 on 2 blocks of 1 day of days.csv" in comment
    assert "lost GPU-hours: " in comment
    assert "wait of gangs: " in comment
    profile = read_configuration("tuned.yaml").profiles[0]
    [preemption] = [item.args for item in profile.plugin_config if item.name == "DefaultPreemption"]
    assert preemption in ({"waitForCheckpoint": "15m"}, {"waitForCheckpoint": "45m"})
    lost = [
        json.loads(run("replay", "days.csv", *FOUR, *INPUT[-4:], "--policy", policy, "-o", "json").out)
        for policy in ("default", "tuned.yaml")
    ]
    before, after = (item["policies"][0]["total"]["lostGpuHours"] for item in lost)
    assert after < before


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_study_that_goes_on_is_the_one_without_a_pause(run: Run, desk: Path, sampler: str) -> None:
    """tune.md 1.3 and 6.2: the same bytes in one run and in three, with a storage and without."""
    search = (*INPUT, "--search", "search.yaml", "--sampler", sampler, "--seed", 7, "--format", "json")
    at_once = run(*search, "--trials", 12)
    assert at_once.code == 0, at_once.err
    kept = ("--storage", "sqlite:///tune.db", "--study", "mine")
    for trials in (3, 9, 12):
        last = run(*search, *kept, "--trials", trials)
        assert last.code == 0, last.err
    assert last.out == at_once.out
    assert "study mine: 9 of 12 trials are done already" in last.err
    again = run(*search, *kept, "--trials", 12)
    assert again.out == at_once.out


def test_study_of_other_inputs_is_refused(run: Run, desk: Path) -> None:
    """tune.md 6.4: its values could not be compared."""
    command = (*INPUT, "--search", "search.yaml", "--trials", 1, "--storage", "sqlite:///tune.db")
    assert run(*command).code == 0
    ended = run(*command, "--objective", "evictions, wait")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "error: --study: the study 'reprieve' has other jobs, settings or objectives: choose another name\n"
    )


def test_interrupted_search_keeps_its_trials(desk: Path) -> None:
    """tune.md 1.5: SIGTERM is 143, Ctrl-C 130; the next run goes on."""
    (desk / "days.csv").write_text(days(80))
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        command = [sys.executable, "-m", "reprieve", *INPUT, "--storage", "sqlite:///tune.db", "--trials", "100000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            eventually(lambda: _maps("_sqlite3", process.pid), "the storage loaded")
            end = os.pidfd_open(process.pid)
            process.send_signal(number)
            assert select.select([end], [], [], 120)[0]
            os.close(end)
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (code, ""), err
        assert "trials are kept in the study reprieve: the same command continues it" in err
        assert "Traceback" not in err


def _maps(library: str, pid: int) -> bool:
    return library in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--objective", "lost GPU-hour, wait"), 'no objective "lost GPU-hour", did you mean "lost GPU-hours"?'),
        (("--objective", "wait"), "--objective: expected two different objectives"),
        (("--objective", "wait, Wait"), "--objective: expected two different objectives"),
        (("--jobs", "endless.csv"), "endless.csv: no job has a duration"),
        (
            ("--jobs", "single.csv"),
            "single.csv: no job of the held-out blocks counts for the objective 'wait of gangs'",
        ),
        (("--jobs", "short.csv"), "short.csv: all jobs come within one block of 1 day"),
        (("--block", "7d"), "days.csv: all jobs come within one block of 1 week"),
        (("--block", "soon"), "--block: 'soon': expected a duration"),
        (
            ("--search", "misspelt.yaml"),
            '--search misspelt.yaml: "reservations.minPod": no such name, did you mean "reserv',
        ),
        (("--search", "bad.yaml"), "--search bad.yaml: reservations.reserveAfter: 'soon': "),
        (("--search", "none.yaml"), "none.yaml: No such file or directory"),
        (("--config", "search.yaml"), "search.yaml: kind: None: expected KubeSchedulerConfiguration"),
        (("--storage", "mysql://db/x"), "--storage: expected sqlite:///FILE or postgresql://HOST/DATABASE"),
        (("--storage", "sqlite:///nowhere/x.db"), "--storage sqlite:///nowhere/x.db: unable to open database file"),
        (("--storage", "postgresql://me:pa55@127.0.0.1:1/x"), "--storage postgresql://me:***@127.0.0.1:1/x: "),
        (("--trials", "2", "--choose", "99"), "--choose: '99' is not on the front: expected today, or a trial of "),
    ],
)
def test_bad_input_is_one_error(run: Run, desk: Path, arguments: tuple[str, ...], message: str) -> None:
    """tune.md 1.2 and 1.4."""
    (desk / "endless.csv").write_text("job,submit,gpu\nweb,0,1\nother,900000,1\n")
    (desk / "short.csv").write_text("job,submit,duration,gpu\na,0,60,1\nb,3600,60,1\n")
    (desk / "single.csv").write_text("job,submit,duration,workers\na,0,60,2\nb,90000,60,1\n")
    (desk / "misspelt.yaml").write_text("reservations.minPod: {low: 1, high: 2}\n")
    (desk / "bad.yaml").write_text("reservations.reserveAfter: [10m, soon]\n")
    options = (*INPUT[1:], "--search", "search.yaml")
    pairs = zip(options[::2], options[1::2], strict=True)
    usual = [part for pair in pairs if pair[0] not in arguments for part in pair]
    ended = run("tune", *usual, *arguments)
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert message in ended.err
    assert "pa55" not in ended.err


def test_postgresql_keeps_a_study_and_no_message_has_its_password(run: Run, desk: Path) -> None:
    """tune.md 1.4 and 6.4: as SQLite does."""
    why_not = reason_for_none()
    if why_not:
        pytest.skip(why_not)
    command = (*INPUT, "--search", "search.yaml", "--format", "json")
    with postgres() as server:
        run(*command, "--trials", 2, "--storage", server.address())
        ended = run(*command, "--trials", 4, "--storage", server.address())
        wrong = run(*command, "--trials", 4, "--storage", server.address(password="pa55"))
    assert ended.code == 0, ended.err
    assert "2 of 4 trials are done already" in ended.err
    assert ended.out == run(*command, "--trials", 4).out
    assert wrong.code == 2
    assert "password authentication failed" in wrong.err
    assert wrong.err.count("\n") == 1
    assert "pa55" not in wrong.err


def test_table_of_the_search_is_printed(run: Run, desk: Path) -> None:
    """tune.md 5.1."""
    ended = run("tune", "--jobs", "days.csv", "--search", "show")
    assert ended.code == 0
    for name in ("weights.NodeResourcesFit", "preemption.cost", "reservations.reserveAfter", "queueing.ageing"):
        assert name in ended.out


def test_without_optuna_the_extra_is_named(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert run(*INPUT).err == "error: tune needs the extra `tune`: pip install 'reprieve[tune]'\n"


def test_values_are_written_into_every_profile(run: Run, desk: Path) -> None:
    """tune.md 5.1 and 5.3: what is not searched stays, and a disabled score is not enabled."""
    (desk / "today.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npodMaxBackoffSeconds: 20\n"
        "profiles:\n- schedulerName: default-scheduler\n  pluginConfig:\n"
        "  - {name: DefaultPreemption, args: {holdSeconds: 60}}\n"
        "- schedulerName: other\n  plugins: {score: {disabled: [{name: NodeResourcesFit}]}}\n"
    )
    (desk / "one.yaml").write_text(
        "weights.NodeResourcesFit: [7]\npreemption.cost: ['lostWork, pods']\npreemption.evictionLimits: [3 in 24h]\n"
    )
    command = (*INPUT, "--config", "today.yaml", "--search", "one.yaml", "--trials", 1, "--choose", "0")
    ended = run(*command, "-o", "tuned.yaml")
    assert ended.code == 0, ended.err
    found = yaml.safe_load((desk / "tuned.yaml").read_text())
    assert found["podMaxBackoffSeconds"] == 20
    expected = {
        "cost": ["pdbViolations", "highestPriority", "lostWork", "pods", "startTime"],
        "evictionLimits": [{"per": "owner", "most": 3, "within": "24h"}],
    }
    first, second = found["profiles"]
    assert first["pluginConfig"] == [{"name": "DefaultPreemption", "args": {"holdSeconds": 60, **expected}}]
    assert first["plugins"]["score"]["enabled"] == [{"name": "NodeResourcesFit", "weight": 7}]
    assert second["pluginConfig"] == [{"name": "DefaultPreemption", "args": expected}]
    assert second["plugins"] == {"score": {"disabled": [{"name": "NodeResourcesFit"}]}}
