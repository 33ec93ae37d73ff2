"""What is made of options: both sides of each bound, and one line that names the option where it is no good.

Also the figures of `bench` as text, and `snapshot` of what was read: there is no cluster, and nothing is measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprieve.cli import comparison, history, options, source
from reprieve.cli.outcome import CommandError, Exit
from reprieve.client.cluster_reader import ClusterReading
from reprieve.client.errors import ConfigError, UnreachableError
from reprieve.inputs.loader import read
from reprieve.python.inputs import InputSource, Strictness, Warn
from reprieve.simulation.bench.scenario_run import BenchMeasurement, HotFunction, Percentiles
from reprieve.simulation.bench.series import Growth, ScenarioError
from tests.cli.conftest import Ended, Run

FORM = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

READ: list[tuple[Callable[[], object], object]] = [
    (lambda: options.read_seconds("--x", "10s"), 10.0),
    (lambda: options.read_seconds("--x", "1ns"), 1e-9),
    (lambda: options.read_size("--x", "1"), 1),
    (lambda: options.read_size("--x", "64Mi"), 64 * 1024 * 1024),
    (lambda: options.read_time("--x", "1970-01-01T00:00:10Z"), 10.0),
    (lambda: source.read_runs(None), []),
    (
        lambda: source.read_runs(["cronjob/a", "CJ/b", "cronjobs/c", "cronjob.batch/d"]),
        [f"default/{n}" for n in "abcd"],
    ),
    (lambda: source.read_runs(["team/cronjob/a"]), ["team/a"]),
]


@pytest.mark.parametrize(("reading", "found"), READ)
def test_options_that_are_valid_are_read(reading: Callable[[], object], found: object) -> None:
    assert reading() == found


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: options.read_seconds("--x", "0s"), "--x: expected more than 0, found '0s'"),
    (lambda: options.read_seconds("--x", "-1s"), "--x: expected more than 0, found '-1s'"),
    (lambda: options.read_seconds("--x", "soon"), "--x: 'soon': expected a duration like 15s or 1m30s"),
    (lambda: options.read_size("--x", "0"), "--x: expected a size above 0, found '0'"),
    (lambda: options.read_size("--x", "-1"), "--x: expected a size above 0, found '-1'"),
    (lambda: options.read_size("--x", "many"), "--x: "),
    (lambda: options.read_time("--x", "today"), '--x: "today": '),
    (lambda: options.read_gates("Nope=true"), "--feature-gates: unknown feature gate 'Nope'; known: "),
    (lambda: options.read_options(plugins=["no:Such"]), "--plugin "),
    (lambda: options.read_options(compatible=True, plugin_timeout="0s"), "--plugin-timeout: expected more than 0"),
    (lambda: source.read_runs(["job/a"]), "--run job/a: expected cronjob/NAME or NAMESPACE/cronjob/NAME"),
    (lambda: source.read_runs(["cronjob/"]), "--run cronjob/: expected"),
    (lambda: source.read_runs(["a"]), "--run a: expected"),
    (lambda: source.read_runs(["x/team/cronjob/a"]), "--run x/team/cronjob/a: expected"),
    (lambda: history._read_since("6"), "--since 6: expected a duration such as 6h, 30m or 7d, or a time (RFC 3339)"),
    (lambda: history._read_since("T6h"), "--since T6h: expected a duration"),
    (lambda: history._read_since("2026T"), '--since: "2026T": '),
]


@pytest.mark.parametrize(("reading", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_invalid_value_is_named_with_its_option(reading: Callable[[], object], message: str) -> None:
    with pytest.raises(CommandError) as refused:
        reading()
    assert str(refused.value).startswith(message)
    assert refused.value.code == Exit.BAD_INPUT


@pytest.mark.parametrize(
    ("text", "back"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("6h", 21_600), ("7d", 604_800), ("2w", 1_209_600)]
)
def test_how_far_back_history_goes(text: str, back: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprieve.cli.history.time.time", lambda: 2e9)
    assert history._read_since(text) == 2e9 - back
    assert history._read_since("1970-01-01T00:00:10Z") == 10.0


def test_gate_that_changes_nothing_here_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    options.read_gates("DRAAdminAccess=true,GenericWorkload=false")
    expected = "warning: --feature-gates: feature gate DRAAdminAccess is kube-scheduler's; it changes nothing here\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("asked", "lenient", "before", "after"),
    [
        ([("--a", False), ("--b", True)], False, "", "--b"),
        ([("--a", True), ("--b", True)], False, "", "--a"),
        ([("--a", False)], False, "", ""),
        ([("--a", True)], True, "", ""),
        ([("--a", True)], False, "--strict", "--strict"),
    ],
)
def test_answer_by_exit_code_is_of_all_of_the_input_unless_lenient(
    asked: list[tuple[str, bool]], lenient: bool, before: str, after: str
) -> None:
    asked_about = InputSource(strictness=Strictness(answer_for_all=before, lenient=lenient))
    assert source.answering_for_all(asked_about, asked).strictness.answer_for_all == after


def plans(run: Run, tmp_path: Path, number: int) -> Ended:
    (tmp_path / "c.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    (tmp_path / "k.yaml").write_text(FORM)
    more = [argument for _ in range(number) for argument in ("--compare", tmp_path / "k.yaml")]
    return run("plan", "-f", tmp_path / "c.yaml", *more)


def test_compared_plans_are_at_most_sixteen(run: Run, tmp_path: Path) -> None:
    assert comparison.MOST_VARIANTS == 16
    assert plans(run, tmp_path, 17) == Ended(2, "", "error: at most 16 plans can be compared\n")
    ended = plans(run, tmp_path, 16)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("Side by side\n")


@pytest.mark.parametrize(
    ("count", "named"), [(1, "f0"), (3, "f0, f1, f2"), (4, "f0, f1, f2, ..."), (5, "f0, f1, f2, ...")]
)
def test_input_without_objects_is_named_by_its_first_three_files(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    files = [f"f{number}" for number in range(count)]
    for name in files:
        Path(name).write_text("")
    ended = run("plan", *(argument for name in files for argument in ("-f", name)))
    assert f"warning: {named}: no objects found\n" in ended.err


# -- bench ---------------------------------------------------------------------------------------------------------


def measured(name: str = "gang-1000", **more: Any) -> BenchMeasurement:
    figures: dict[str, Any] = {
        "scenario": name,
        "nodes": 1000,
        "pods": 2000,
        "seconds": 1.25,
        "decision_seconds": None,
        "pods_per_second": 1600.4,
        "attempt_ms": Percentiles(p50=0.5, p99=2.0),
        "peak_rss_mb": 99.6,
        "versions": {},
    }
    return BenchMeasurement(**{**figures, **more})


def lines(ended: Ended) -> list[list[str]]:
    assert (ended.code, ended.err) == (0, ""), ended.err
    return [line.split() for line in ended.out.splitlines()]


def test_figures_are_a_table_with_other_measures_below(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hot = HotFunction(function="f", calls=3, own_seconds=0.1, total_seconds=0.25)
    every = {
        "growth_mb": 1.25,
        "rss_mb": 2.0,
        "cpu_per_second": 0.5,
        "taken_in_seconds": 3.0,
        "cpu_seconds": 4.0,
        "held_mb": 5.0,
    }
    given = {
        "gang-1000": measured(decision_seconds=0.75, profile=(hot,)),
        "basic-500": measured("basic-500", **every),
    }
    asked: list[bool] = []

    def measure(chosen: Any, *, profile: bool) -> list[BenchMeasurement]:
        asked.append(profile)
        return [given[one.name] for one in chosen]

    monkeypatch.setattr("reprieve.simulation.bench.series.measure", measure)
    ended = run("bench", "gang-1000", "basic-500")
    found = lines(ended)
    assert asked == [False, False]
    assert found[2] == ["gang-1000", "1000", "2000", "1.250", "0.750", "1600", "0.500", "2.000", "100"]
    assert found[3] == ["basic-500", "1000", "2000", "1.250", "-", "1600", "0.500", "2.000", "100"]
    assert " ".join(found[4]) == (
        "basic-500: memory grew by 1.2 MiB, 2.0 MiB resident at the end, 0.5000 s of CPU time per simulated second, "
        "3.000 s to load the cluster, 4.000 s of CPU time, 5.0 MiB kept for the pods"
    )
    assert found[6] == ["Where", "the", "time", "goes:", "gang-1000"]
    assert found[8] == ["0.100", "0.250", "3", "f"]
    assert len(found) == 9
    assert [one["scenario"] for one in json.loads(run("bench", "gang-1000", "-o", "json", "--profile").out)] == [
        "gang-1000"
    ]
    assert asked[-1] is True


def test_growth_is_shown_with_its_exponent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "reprieve.simulation.bench.series.growth", lambda names: [Growth(names[0], 1.006, (measured(), measured()))]
    )
    found = run("bench", "--growth", "basic").out.splitlines()
    assert found[0] == "basic: processor time grows with (nodes + pods) to the power of 1.01"
    assert len(found) == 4
    assert json.loads(run("bench", "--growth", "basic", "-o", "json").out)[0]["exponent"] == 1.006


def test_figures_before_and_after(run: Run, tmp_path: Path) -> None:
    for name, figures in (
        ("before.json", [measured(), measured("gone")]),
        (
            "after.json",
            [measured(seconds=0.625, peak_rss_mb=50.0, attempt_ms=Percentiles(p50=1, p99=3)), measured("new")],
        ),
    ):
        (tmp_path / name).write_bytes(msgspec.json.encode(figures))
    files = (tmp_path / "before.json", tmp_path / "after.json")
    assert lines(run("bench", "--compare", *files))[2:] == [
        ["gang-1000", "1.250", "0.625", "2.000", "3.000", "100", "50", "0.50"],
        ["gone", "1.250", "-", "2.000", "-", "100", "-", "-"],
        ["new", "-", "1.250", "-", "2.000", "-", "100", "-"],
    ]
    assert [one["ratio"] for one in json.loads(run("bench", "--compare", *files, "-o", "json").out)] == [
        0.5,
        None,
        None,
    ]
    for more in (("gang-1000",), ("--growth",), ("--profile",)):
        expected = "error: --compare cannot be combined with scenarios, --growth or --profile\n"
        assert run("bench", "--compare", *files, *more) == Ended(2, "", expected)
    ended = run("bench", "--compare", tmp_path / "before.json", tmp_path / "no.json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {tmp_path / 'no.json'}: ")


@pytest.mark.parametrize("flag", [(), ("--growth",)])
def test_which_scenarios_run_unless_some_are_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, flag: tuple[str, ...]
) -> None:
    from reprieve.simulation.bench.scenarios import DEFAULT, FAMILIES, SCENARIOS

    ran: list[str] = []

    def noted(chosen: Any, **_: Any) -> list[Any]:
        ran.extend(getattr(one, "name", one) for one in chosen)
        return []

    monkeypatch.setattr("reprieve.simulation.bench.series.measure", noted)
    monkeypatch.setattr("reprieve.simulation.bench.series.growth", noted)
    assert run("bench", *flag).code == 0
    assert tuple(ran) == (FAMILIES if flag else DEFAULT)
    assert run("bench", "--list").out.split() == [*SCENARIOS, *FAMILIES]
    expected = "error: --profile cannot be combined with --growth\n"
    assert run("bench", "--growth", "--profile") == Ended(2, "", expected)


def test_scenario_that_fails_is_no_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> list[Any]:
        raise ScenarioError("gang-1000: 3 of 4 pods bound")

    monkeypatch.setattr("reprieve.simulation.bench.series.measure", failing)
    assert run("bench", "gang-1000") == Ended(1, "", "error: gang-1000: 3 of 4 pods bound\n")


# -- snapshot ------------------------------------------------------------------------------------------------------


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> ClusterReading:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "secretive"}}
    found = ClusterReading(objects=[one.object for one in read([("n", node)]).nodes], warnings=["not read: x"])

    def read_live(
        kubeconfig: str | None, context: str | None, strictness: Strictness, warn: Warn
    ) -> tuple[ClusterReading, str]:
        warn(found.warnings)
        return found, "https://here"

    monkeypatch.setattr("reprieve.python.inputs.read_live", read_live)
    return found


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("name", ["s.yaml", "s.yml", "s.json"])
def test_snapshot_is_written_for_its_owner_alone_and_reads_again(run: Run, tmp_path: Path, name: str) -> None:
    ended = run("snapshot", "-o", tmp_path / name)
    assert ended == Ended(0, "", f"warning: not read: x\n{tmp_path / name}: 1 objects\n")
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    text = (tmp_path / name).read_text()
    assert text.startswith("{") == name.endswith(".json")
    assert [one.object.name for one in read([("s", text)]).nodes] == ["secretive"]


@pytest.mark.usefixtures("reading")
def test_snapshot_on_stdout_is_yaml_and_names_go_on_demand(run: Run, tmp_path: Path) -> None:
    shown = run("snapshot", "-o", "-")
    assert "secretive" in shown.out
    assert not shown.out.startswith("{")
    assert shown.err == "warning: not read: x\n"
    hidden = run("snapshot", "-o", "-", "--anonymize")
    assert "secretive" not in hidden.out
    for where, expected in (
        ("s.txt", "the name must end in .yaml, .yml, .json"),
        (tmp_path / "no" / "s.yaml", "No such"),
    ):
        ended = run("snapshot", "-o", where)
        assert (ended.code, ended.out) == (2, "")
        assert expected in ended.err


@pytest.mark.parametrize(
    ("error", "code"), [(ConfigError("the kubeconfig is bad"), 2), (UnreachableError("no server answers"), 3)]
)
def test_cluster_that_cannot_be_read_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def connect(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("reprieve.client.kubeconfig.connect", connect)
    assert run("snapshot", "-o", "-") == Ended(code, "", f"error: {error}\n")
