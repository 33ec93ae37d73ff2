"""What the speed figures are of and how they are computed: the clusters object by object, the clock, files compared.

Beside `test_bench.py`, which runs the scenarios.
"""

from __future__ import annotations

import hashlib
import itertools
import subprocess
import types
from collections.abc import Iterable
from cProfile import Profile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprieve.simulation.bench import arrivals, comparison, scenario_run, series
from reprieve.simulation.bench.scenarios import FAMILIES, BenchScenario, at_size, named

# -- what is measured ------------------------------------------------------------------------------


def digest(*found: Any) -> str:
    """Of objects, by every field that says something: one that the API gets later changes nothing."""

    def stated(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: kept for key, each in value.items() if (kept := stated(each)) not in ({}, [], None, "")}
        return [stated(each) for each in value] if isinstance(value, list | tuple) else value

    plain = stated(msgspec.to_builtins(found))
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()[:12]


CLUSTERS = {
    "basic": ("3405c6aec479", "e0f67dba162c", 200),
    "preempt": ("fdf6f5a0b928", "17a2ffb72e93", 20),
    "gang": ("dab1a98c5c70", "94223de2fd1c", 100),
    "gangs": ("76f820a0c8f6", "db0f88e9bd72", 200),
    "gang-preempt": ("0914098128de", "6627a8d5affb", 20),
    "trees": ("3e13c31ff4a2", "00bf4dcc0420", 200),
    "tree-preempt": ("e7d5f317fb05", "d8ab0a417ad3", 20),
    "constrained": ("cbff9b060c5a", "97533ea5aeff", 20),
    "steady": ("7f8380010f05", "ede7031793b5", 248),
    "unlike": ("2d10f6db3556", "279162fad4e8", 200),
    "waiting": ("d59f1e3dc109", "17ae3dff0a4f", 800),
    "waiting-spread": ("a6c4d9b29ee0", "cf9235b70ac4", 2400),
    "racks": ("1430c0e7b519", "e46e1bfeb926", 20),
    "services": ("eb19cd87b01d", "03ba107564f8", 100),
    "budgets": ("8f5ec9d40771", "095d14d658a9", 20),
    "unlike-preempt": ("bb3998af0a7d", "e54ccff9fd2f", 5),
    "unlike-budgets": ("1d39e5caab3c", "a87d4b315d73", 1),
    "unlike-gang-preempt": ("01550b8b8282", "5d56fcf183c6", 10),
    "devices": ("3bf70b38a5e7", "2a4fa99ac307", 200),
    "churn": ("3c06286fb2fc", "483ea59134a7", 2000),
    "big": ("9ecec9c915fc", "7ad352f6542c", 10),
    "take-in": ("6be3e1038e3e", "60c6af6e7d8d", 1000),
    "apart": ("7856041c39cc", "6cc5176b9d24", 100),
    "trees-in-domains": ("10a8fa41a45a", "c82d27188999", 200),
    "tree-of-levels": ("e29f37362701", "f9bea87f1c54", 16),
    "devices-preempt": ("bdef0bdcc813", "2ce9283ef2c6", 33),
    "unlike-devices-preempt": ("7d1c7aecb209", "9f006a5f79dd", 4),
    "suggestions": ("b115491ce8f4", "89ce730ec11f", 4),
    "small-gangs-preempt": ("1a18e5c357f0", "b7e9904058c5", 100),
}
"""Family -> what is built of it for 250 pods on 37 nodes and for 8 on 8, and how many pods are its work on 100."""


@pytest.mark.parametrize("family", FAMILIES)
def test_figures_of_other_days_are_of_the_same_cluster(family: str) -> None:
    """performance.md: a scenario is the same, object by object, on every machine and in every run.

    A deliberate change of a family takes another name for the scenario, or no comparison with what was measured
    before, and the new digest here.
    """
    built = (digest(BenchScenario("", family, nodes, pods).build()) for nodes, pods in ((37, 250), (8, 8)))
    assert (*built, at_size(family, 100).pods) == CLUSTERS[family]


@pytest.mark.parametrize(
    ("work", "same"),
    [
        ("steady", "417329acba2a"),
        ("churn", "173eb289fb73"),
        ("waiting", "6ab0d04276cd"),
        ("waiting-spread", "2100fde3383c"),
        ("take-in", "c65779339b00"),
    ],
)
def test_arrivals_and_ends_are_the_same_on_other_days(work: str, same: str) -> None:
    scenario = at_size(work, 50)
    cluster = scenario.build()
    found: Any
    if work == "steady":
        found = list(arrivals.steady_work(500, 400))
    elif work == "churn":
        found = list(arrivals.churn_work(50, 40))
    elif work == "take-in":
        found = list(arrivals.running_elsewhere(cluster.nodes, 120))
    else:
        found = arrivals.while_waiting(scenario, cluster)
    assert digest(found) == same


@pytest.mark.parametrize(
    ("name", "scenario"),
    [
        ("basic@0", BenchScenario("basic@0", "basic", 0, 1)),
        ("basic@1", BenchScenario("basic@1", "basic", 1, 2)),
        ("big@7", BenchScenario("big@7", "big", 7, 1)),
        ("basic-500", BenchScenario("basic-500", "basic", 500, 1_000)),
        ("basic@", None),
        ("basic@x", None),
        ("basic@-1", None),
        ("@5", None),
        ("basic", None),
        ("", None),
    ],
)
def test_which_scenario_a_name_means(name: str, scenario: BenchScenario | None) -> None:
    if scenario is not None:
        assert named(name) == scenario
        return
    with pytest.raises(KeyError):
        named(name)


# -- figures ---------------------------------------------------------------------------------------


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What clocks say: each look at that of the wall takes a second, and each at the processor's two."""
    looks = {"perf_counter": 0.0, "process_time": 0.0}

    def clock(name: str, step: float) -> Any:
        def look() -> float:
            looks[name] += step
            return looks[name]

        return look

    fake = types.SimpleNamespace(perf_counter=clock("perf_counter", 1.0), process_time=clock("process_time", 2.0))
    monkeypatch.setattr(scenario_run, "time", fake)
    return looks


@pytest.mark.parametrize(
    ("family", "nodes", "pods", "stated"),
    [
        ("basic", 5, 10, {"pods": 10, "nodes": 5}),
        ("big", 10, 8, {"takenInSeconds": 1.0}),
        ("take-in", 10, 500, {"cpuSeconds": 2.0, "seconds": 500.0, "podsPerSecond": 1.0}),
        ("take-in", 10, 501, {"cpuSeconds": 4.0, "seconds": 501.0}),
        ("waiting", 12, 80, {"cpuPerSecond": 0.25}),
        ("waiting", 80, 80, {"cpuPerSecond": 0.033333}),
        ("churn", 20, 120, {}),
    ],
)
def test_figures_are_what_the_clock_shows(
    ticking: dict[str, float], family: str, nodes: int, pods: int, stated: dict[str, float]
) -> None:
    """performance.md 1.2: milliseconds of one attempt; seconds of all, rounded to microseconds; pods by the second.

    `waiting`: of processor time for a second in which a pod ends, of which there are no more than sixty.
    """
    figures = msgspec.to_builtins(scenario_run.run(BenchScenario("tiny", family, nodes, pods)))
    assert figures["attemptMs"] == {"p50": 1000.0, "p99": 1000.0}
    assert {name: figures[name] for name in stated} == stated
    assert figures["podsPerSecond"] == round(pods / figures["seconds"], 1)
    assert 0 < figures["seconds"] < ticking["perf_counter"]


@pytest.mark.usefixtures("ticking")
def test_first_decision_to_preempt_is_timed_from_the_start() -> None:
    """performance.md 1.1: not the last one, and none where nothing is preempted."""
    several = scenario_run.run(BenchScenario("tiny", "preempt", 4, 3))
    assert several.decision_seconds is not None
    assert several.decision_seconds < several.seconds / 2
    assert scenario_run.run(BenchScenario("tiny", "basic", 4, 3)).decision_seconds is None


def test_percentiles_are_of_single_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second longer than the last: of 101 attempts, two seconds apart."""
    looks = itertools.accumulate(itertools.count())
    monkeypatch.setattr(
        scenario_run, "time", types.SimpleNamespace(perf_counter=looks.__next__, process_time=lambda: 0.0)
    )
    figures = scenario_run.run(BenchScenario("tiny", "take-in", 10, 101)).attempt_ms
    assert figures.p99 - figures.p50 == 98_000.0


@pytest.mark.parametrize(
    ("family", "nodes", "pods"), [("basic", 5, 10), ("steady", 50, 67), ("waiting", 12, 80), ("take-in", 10, 80)]
)
def test_profile_lists_the_hottest_functions(family: str, nodes: int, pods: int) -> None:
    """Twenty-five of them, by the time in themselves; a function of ours with its place."""
    figures = scenario_run.run(BenchScenario("tiny", family, nodes, pods), Profile())
    assert isinstance(figures.profile, tuple)
    assert len(figures.profile) == 25
    own = [hot.own_seconds for hot in figures.profile]
    assert own == sorted(own, reverse=True)
    assert all(hot.total_seconds >= hot.own_seconds >= 0 and hot.calls > 0 for hot in figures.profile)
    ours = [hot.function for hot in figures.profile if ":" in hot.function and "<" not in hot.function]
    assert ours
    assert all(not name.startswith("/") and name.split(":")[0].endswith(".py") for name in ours)


def test_clock_starts_when_the_cluster_is_known() -> None:
    """performance.md 1.1: nodes, running pods with their groups, services and budgets are in the cache by then."""
    for family in ("gang-preempt", "services", "budgets"):
        built = at_size(family, 12).build()
        engine = scenario_run.synced(built)
        known = engine.cluster
        assert sorted(known.nodes.row_of) == sorted(one.name for one in built.nodes)
        assert sorted(known.groups) == sorted(f"default/{one.name}" for one in built.running_groups)
        assert sorted(known.pods) == sorted(one.metadata.uid for one in built.running)
        assert len(known.budgets) == len(built.budgets)
        assert bool(known.default_selectors) is bool(built.services)
        assert {bool(one) for one in (built.running_groups, built.services, built.budgets)} == {True, False}


def test_memory_is_in_mebibytes_and_never_above_its_peak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tx\nVmHWM:\t  204800 kB\nVmRSS:\t  102400 kB\n")
    monkeypatch.setattr(scenario_run, "Path", lambda _: status)
    assert (scenario_run.rss_mb(), scenario_run.peak_rss_mb()) == (100.0, 200.0)
    status.write_text("Name:\tx\nVmHWM:\t  204800 kB\n")
    assert scenario_run.rss_mb() == 200.0, "the peak, where the kernel does not say it"
    status.unlink()
    assert scenario_run.rss_mb() == scenario_run.peak_rss_mb() > 1.0


@pytest.mark.parametrize(
    ("family", "step", "growth", "at_the_end"),
    [
        ("steady", 1.0, 29.0, None),
        ("steady", -1.0, -29.0, None),
        ("churn", 1.0, 43.0, 49.0),
        ("churn", -1.0, -45.0, -49.0),
    ],
)
def test_growth_of_memory_is_from_a_quiet_time_to_the_end(
    monkeypatch: pytest.MonkeyPatch, family: str, step: float, growth: float, at_the_end: float | None
) -> None:
    """Fifty samples. `steady`: the last fifth over the second; `churn`: the end over the third of 24 parts."""
    samples = [step * turn for turn in range(50)]
    monkeypatch.setattr(scenario_run, "rss_mb", lambda: samples.pop(0))
    figures = scenario_run.run(BenchScenario("tiny", family, 50, 100))
    assert samples == []
    assert figures.growth_mb == growth
    assert figures.rss_mb == (at_the_end if at_the_end is not None else msgspec.UNSET)


# -- several scenarios -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("Traceback\nValueError: no\n", "basic@3: ValueError: no"),
        ("  \n", "basic@3: exit code 7"),
        ("", "basic@3: exit code 7"),
    ],
)
def test_last_line_of_a_process_that_fails_is_reported(
    monkeypatch: pytest.MonkeyPatch, error: str, message: str
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 7, "", error))
    with pytest.raises(series.ScenarioError) as caught:
        list(series.measure([at_size("basic", 3)]))
    assert str(caught.value) == message


@pytest.mark.parametrize("profile", [True, False])
def test_each_scenario_is_run_by_its_name(monkeypatch: pytest.MonkeyPatch, profile: bool) -> None:
    """The figures of one after the other, as they come; with `--profile` if it was asked for."""
    asked: list[list[str]] = []

    def ran(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command[1:])
        return subprocess.CompletedProcess(command, 0, msgspec.json.encode(figure(command[3], 1.0)).decode(), "")

    monkeypatch.setattr(subprocess, "run", ran)
    found = series.measure([at_size("basic", 3), at_size("gang", 4)], profile=profile)
    assert next(iter(found)).scenario == "basic@3"
    more = ["--profile"] if profile else []
    assert asked == [["-m", "reprieve.simulation.bench", "basic@3", *more]]
    assert [one.scenario for one in found] == ["gang@4"]


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_growth_is_the_slope_over_the_sizes(monkeypatch: pytest.MonkeyPatch, power: float) -> None:
    """performance.md: over nodes and pods, at three sizes of the family, to three places."""

    def measured(scenarios: Iterable[BenchScenario]) -> list[scenario_run.BenchMeasurement]:
        return [
            msgspec.structs.replace(
                figure(one.name, 7.0 * float(one.nodes + one.pods) ** power), nodes=one.nodes, pods=one.pods
            )
            for one in scenarios
        ]

    monkeypatch.setattr(series, "measure", measured)
    found = list(series.growth(["basic", "gang"]))
    assert [(one.family, one.exponent) for one in found] == [("basic", power), ("gang", power)]
    assert [run.nodes for run in found[0].runs] == [500, 1_000, 2_000]


# -- side by side ----------------------------------------------------------------------------------


def figure(name: str, seconds: float) -> scenario_run.BenchMeasurement:
    return scenario_run.BenchMeasurement(
        scenario=name,
        nodes=1,
        pods=2,
        seconds=seconds,
        decision_seconds=None,
        pods_per_second=1.0,
        attempt_ms=scenario_run.Percentiles(1.0, 2.0),
        peak_rss_mb=1.0,
        versions={},
    )


@pytest.mark.parametrize(
    ("before", "after", "ratio"),
    [
        ([2.0], [1.0], 0.5),
        ([3.0], [1.0], 0.333),
        ([2.0, 4.0], [3.0, 1.0], 0.5),
        ([4.0, 2.0], [1.0, 3.0], 0.5),
        ([1.0], [], None),
        ([], [1.0], None),
        ([0.0], [1.0], None),
        ([0.5], [0.25], 0.5),
    ],
)
def test_how_much_faster_it_is(tmp_path: Path, before: list[float], after: list[float], ratio: float | None) -> None:
    """Seconds after over seconds before, the fastest of each; to three places."""
    for name, seconds in (("before", before), ("after", after)):
        (tmp_path / name).write_bytes(msgspec.json.encode([figure("s", each) for each in seconds]))
    [found] = comparison.compare(tmp_path / "before", tmp_path / "after")
    assert found.ratio == ratio
    assert (found.before and found.before.seconds) == (min(before) if before else None)
    assert (found.after and found.after.seconds) == (min(after) if after else None)


@pytest.mark.parametrize(("more", "good"), [(0, True), (1, False)])
def test_how_large_a_file_of_figures_may_be(
    tmp_path: Path, more: int, good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = msgspec.json.encode([figure("s", 1.0)])
    path = tmp_path / "figures"
    path.write_bytes(content + b" " * more)
    monkeypatch.setattr(comparison, "_MOST_BYTES", len(content))
    if good:
        assert [one.ratio for one in comparison.compare(path, path)] == [1.0]
        return
    with pytest.raises(
        comparison.FiguresError, match=f"{path}: more than 0 MiB, these are no figures of reprieve bench"
    ):
        comparison.compare(path, path)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b'[{"scenario": "\xff"}]', b'[{"family": "\xff"}]', b'[{"more": ' + b"[" * 100_000],
    ids=["nothing", "no list", "no text", "no text of a growth", "without end"],
)
def test_file_without_figures_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "figures"
    path.write_bytes(data)
    with pytest.raises(comparison.FiguresError, match="figures: not what reprieve bench -o json writes: "):
        comparison.compare(path, path)


def test_file_of_more_than_64_mib_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "figures"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(comparison.FiguresError, match="more than 64 MiB"):
        comparison.compare(path, path)
