"""The speed scenarios: their layout (performance.md), the fields of the figures, the exponent. Sizes are tiny here."""

import gc
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from kube_rules.topology_terms import HOSTNAME, ZONE
from reprieve.cluster.pod_affinity_index import MOST_MATCH_COUNTS
from reprieve.questions import bench as suggestion_bench
from reprieve.simulation.bench import arrivals, cluster_builder, comparison, scenario_run, series
from reprieve.simulation.bench.scenarios import DEFAULT, FAMILIES, SCENARIOS, BenchScenario, at_size, named
from tests.cli.conftest import Run
from tests.cli.conftest import run as run

TINY = {
    "basic": BenchScenario("tiny", "basic", 5, 10),
    "preempt": BenchScenario("tiny", "preempt", 4, 3),
    "gang": BenchScenario("tiny", "gang", 4, 12),
    "gangs": BenchScenario("tiny", "gangs", 40, 250),
    "gang-preempt": BenchScenario("tiny", "gang-preempt", 12, 5),
    "trees": BenchScenario("tiny", "trees", 40, 250),
    "tree-preempt": BenchScenario("tiny", "tree-preempt", 24, 12),
    "constrained": BenchScenario("tiny", "constrained", 20, 5),
    "steady": BenchScenario("tiny", "steady", 50, 67),
    "unlike": BenchScenario("tiny", "unlike", 40, 60),
    "waiting": BenchScenario("tiny", "waiting", 12, 80),
    "waiting-spread": BenchScenario("tiny", "waiting-spread", 20, 120),
    "racks": BenchScenario("tiny", "racks", 30, 20),
    "services": BenchScenario("tiny", "services", 20, 30),
    "budgets": BenchScenario("tiny", "budgets", 12, 5),
    "unlike-preempt": BenchScenario("tiny", "unlike-preempt", 6, 3),
    "unlike-budgets": BenchScenario("tiny", "unlike-budgets", 20, 3),
    "unlike-gang-preempt": BenchScenario("tiny", "unlike-gang-preempt", 12, 4),
    "devices": BenchScenario("tiny", "devices", 5, 20),
    "churn": BenchScenario("tiny", "churn", 20, 120),
    "big": BenchScenario("tiny", "big", 10, 8),
    "take-in": BenchScenario("tiny", "take-in", 10, 80),
    "apart": BenchScenario("tiny", "apart", 12, 12),
    "trees-in-domains": BenchScenario("tiny", "trees-in-domains", 96, 50),
    "tree-of-levels": BenchScenario("tiny", "tree-of-levels", 90, 14),
    "devices-preempt": BenchScenario("tiny", "devices-preempt", 5, 3),
    "unlike-devices-preempt": BenchScenario("tiny", "unlike-devices-preempt", 5, 3),
    "suggestions": BenchScenario("tiny", "suggestions", 8, 4),
    "small-gangs-preempt": BenchScenario("tiny", "small-gangs-preempt", 12, 10),
}


OF_FAMILY = {
    "steady": ("growthMb",),
    "churn": ("growthMb", "rssMb", "keptEntries"),
    "waiting": ("cpuPerSecond",),
    "waiting-spread": ("cpuPerSecond",),
    "big": ("takenInSeconds",),
    "take-in": ("rssMb", "heldMb"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_runs_to_the_end_and_gives_the_agreed_figures(family: str) -> None:
    measured = (suggestion_bench if family == "suggestions" else scenario_run).run(TINY[family])
    figures = msgspec.to_builtins(measured)
    assert list(figures) == [
        *("scenario", "nodes", "pods", "seconds", "decisionSeconds", "podsPerSecond", "attemptMs", "peakRssMb"),
        *("versions", "cpuSeconds"),
        *OF_FAMILY.get(family, ()),
    ]
    assert list(figures["attemptMs"]) == ["p50", "p99"]
    assert list(figures["versions"]) == ["reprieve", "python", "numpy"]
    assert (figures["nodes"], figures["pods"]) == (TINY[family].nodes, TINY[family].pods)
    assert (figures["decisionSeconds"] is not None) == (
        "preempt" in family or "budgets" in family or family in ("constrained", "racks", "tree-of-levels")
    )
    assert 0 < figures["attemptMs"]["p50"] <= figures["attemptMs"]["p99"]
    assert figures["seconds"] >= (figures["decisionSeconds"] or 0)
    assert figures["podsPerSecond"] == pytest.approx(figures["pods"] / figures["seconds"], rel=0.01, abs=0.06)
    assert 10 < figures["peakRssMb"] < 10_000


def test_scenario_that_cannot_end_is_no_figure() -> None:
    with pytest.raises(scenario_run.NotBoundError, match="too-much: 0 of 33 pods bound"):
        scenario_run.run(BenchScenario("too-much", "gang", 4, 33))


@pytest.mark.parametrize(("nodes", "units"), [(1000, 651), (5000, 3117)])
def test_running_gangs_fill_every_gpu_in_the_agreed_number_of_units(nodes: int, units: int) -> None:
    machines = cluster_builder.gpu_nodes(nodes)
    groups, pods = cluster_builder.running_gangs(machines)
    assert Counter(pod.spec.node_name for pod in pods) == {machine.name: 8 for machine in machines}
    sizes = Counter(pod.spec.scheduling_group.pod_group_name for pod in pods if pod.spec.scheduling_group)
    singles = sum(1 for pod in pods if pod.spec.scheduling_group is None)
    assert len(groups) + singles == units
    assert set(sizes) == {group.name for group in groups}
    assert all(group.disrupts_all and group.min_count == sizes[group.name] for group in groups)
    assert all(8 <= size <= 64 for size in list(sizes.values())[:-1])
    assert 0.7 < len(groups) / (len(groups) + singles / 8) < 0.9


def test_constrained_pods_carry_all_three_rules_and_keep_them() -> None:
    """performance.md: zone spread, inter-pod anti-affinity on hostname and host ports, victims and preemptors alike."""
    cluster = SCENARIOS["constrained-1000"].build()
    for pod in (*cluster.running, *cluster.work):
        (port,) = pod.spec.containers[0].ports
        (spread,) = pod.spec.topology_spread_constraints
        assert pod.spec.affinity is not None
        assert pod.spec.affinity.pod_anti_affinity is not None
        (term,) = pod.spec.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
        assert port.host_port > 0
        assert (spread.topology_key, term.topology_key) == (ZONE, HOSTNAME)
    places = Counter((pod.spec.node_name, pod.metadata.labels["slot"]) for pod in cluster.running)
    assert set(places.values()) == {1}
    assert len(places) == 8 * len(cluster.nodes)


def test_steady_work_is_200_pods_a_second_and_a_gang_of_64_every_ten() -> None:
    """performance.md, steady-5000: five virtual minutes."""
    steady = list(arrivals.steady_work(5_000, SCENARIOS["steady-5000"].pods))
    gangs = [arrival for arrival in steady if arrival.group is not None]
    assert [len(arrival.pods) for arrival in gangs] == [64] * 30
    assert [arrival.at for arrival in gangs] == [10.0 * turn for turn in range(1, 31)]
    assert Counter(int(a.at) for a in steady if a.group is None) == dict.fromkeys(range(300), 200)
    running = SCENARIOS["steady-5000"].build().running
    assert Counter(pod.spec.node_name for pod in running).most_common()[-1][1] == 10
    assert len(running) == 50_000


@pytest.mark.parametrize("scenario", [BenchScenario("some", "waiting", 80, 4_000), at_size("waiting-spread", 80)])
def test_waiting_gangs_cost_next_to_nothing_and_one_that_fits_starts_in_the_next_cycle(scenario: BenchScenario) -> None:
    """Of 1,000 and 160 waiting gangs none is tried needlessly: the one attempt is that of the gang that is placed."""
    measured = scenario_run.run(scenario)
    assert measured.cpu_per_second < 0.05  # type: ignore[operator]
    assert measured.attempt_ms.p50 == measured.attempt_ms.p99


@pytest.mark.parametrize("family", ["unlike-preempt", "unlike-budgets", "unlike-gang-preempt", "big", "churn"])
def test_no_two_pods_of_unlike_families_are_alike(family: str) -> None:
    cluster = TINY[family].build()
    engine = scenario_run.synced(cluster)
    for order, pod in enumerate(cluster.work):
        engine.set(pod, 0.0, created=float(order))
    assert len(engine.cluster.signatures) == len(cluster.running) + len(cluster.work) > 10


def test_identical_pods_differ_in_affinity_too() -> None:
    """Each pod has a signature, constraints, labels and a term of its own, which questions about them bring out."""
    machines = TINY["take-in"].build().nodes
    engine = scenario_run.synced(TINY["take-in"].build())
    for order, pod in enumerate(arrivals.running_elsewhere(machines, 80)):
        engine.set(pod, 0.0, created=float(order))
    for record in engine.cluster.pods.values():
        engine.cluster.pod_affinity.label_class(record)
    sizes = engine.sizes()
    assert {sizes[kind] for kind in ("signatures", "pod_constraints", "label_classes", "affinity_terms")} == {80}


def test_churn_leaves_living_pods_alone() -> None:
    """Every kept table follows the pods that there are, apart from the views of those seen last, which are bounded."""
    shorter, longer = (scenario_run.run(BenchScenario("some", "churn", 20, pods)).kept_entries for pods in (400, 800))
    assert isinstance(shorter, dict)
    assert isinstance(longer, dict)
    assert longer["label_classes"] == shorter["label_classes"] == 200
    assert all(200 <= kept["signatures"] <= 200 + kept["views"] for kept in (shorter, longer))
    engine, uids = scenario_run._long_running(BenchScenario("some", "churn", 20, 100))
    for arrival in arrivals.churn_work(20, 100):
        for pod in arrival.pods:
            engine.set(pod, arrival.at)
            uids.append(pod.metadata.uid)
        while engine.step(arrival.at).decision is not None:
            pass
    for uid in uids:
        scenario_run._end(engine, uid, 1e6)
    gc.collect()
    kept = engine.sizes()
    of_views = {kind: kept.pop(kind) for kind in ("signatures", "pod_constraints", "node_constraints")}
    bounded = {"match_counts": MOST_MATCH_COUNTS, "views": 512, "node_constraint_masks": 512}
    assert {kind for kind, number in kept.items() if number} <= set(bounded)
    assert all(kept[kind] <= most for kind, most in bounded.items())
    assert max(of_views.values()) <= max(kept["views"], kept["node_constraint_masks"])


def test_services_and_budgets_are_those_of_running_pods() -> None:
    """Each service has a running pod in its namespace; every running pod of `budgets` is guarded by one budget."""
    services = TINY["services"].build()
    where = {(pod.metadata.namespace, pod.metadata.labels["app"]) for pod in services.running}
    assert {(s.metadata.namespace, s.spec.selector["app"]) for s in services.services} == where
    assert len(SCENARIOS["services-5000"].build().services) == 5_000
    budgets = SCENARIOS["budgets-1000"].build()
    assert len(budgets.budgets) == 500
    teams = {pod.metadata.labels["team"] for pod in budgets.running}
    assert teams == {budget.metadata.name for budget in budgets.budgets}


def test_default_set_is_the_seven_and_the_table_s_others_run_by_name() -> None:
    assert (
        *("basic-500", "basic-5000", "preempt-500", "gang-1000", "gangs-100x100"),
        *("gang-preempt-100", "gang-preempt-1000"),
    ) == DEFAULT
    assert set(SCENARIOS) - set(DEFAULT) == {
        *("preempt-5000", "gang-5000", "gang-preempt-5000", "trees-100x10x10", "tree-preempt-1000"),
        *("constrained-1000", "steady-5000", "unlike-5000", "waiting-2000", "racks-1000"),
        *("waiting-spread-2000", "services-5000", "budgets-1000", "unlike-preempt-1000", "unlike-budgets-5000"),
        *("unlike-gang-preempt-1000", "devices-1000"),
        *("churn-1h", "churn-24h", "big-15000", "take-in-5000", "take-in-15000", "apart-5000"),
    }
    sizes = {name: (named(name).nodes, named(name).pods) for name in SCENARIOS}
    assert sizes == {
        "basic-500": (500, 1_000),
        "basic-5000": (5_000, 10_000),
        "preempt-500": (500, 500),
        "preempt-5000": (5_000, 1_000),
        "gang-1000": (1_000, 1_000),
        "gang-5000": (5_000, 5_000),
        "gangs-100x100": (5_000, 10_000),
        "gang-preempt-100": (100, 50),
        "gang-preempt-1000": (1_000, 500),
        "gang-preempt-5000": (5_000, 1_000),
        "trees-100x10x10": (5_000, 10_000),
        "tree-preempt-1000": (1_000, 500),
        "constrained-1000": (1_000, 200),
        "steady-5000": (5_000, 61_920),
        "unlike-5000": (5_000, 10_000),
        "waiting-2000": (1_000, 8_000),
        "waiting-spread-2000": (1_000, 24_000),
        "racks-1000": (5_000, 20),
        "services-5000": (1_000, 1_000),
        "budgets-1000": (1_000, 200),
        "unlike-preempt-1000": (1_000, 50),
        "unlike-budgets-5000": (5_000, 50),
        "unlike-gang-preempt-1000": (1_000, 100),
        "devices-1000": (1_000, 2_000),
        "churn-1h": (500, 180_000),
        "churn-24h": (500, 4_320_000),
        "apart-5000": (5_000, 5_000),
        "take-in-5000": (5_000, 50_000),
        "take-in-15000": (15_000, 150_000),
        "big-15000": (15_000, 1_000),
    }


def test_family_at_a_size_is_found_by_its_name() -> None:
    for family in FAMILIES:
        assert named(at_size(family, 500).name) == at_size(family, 500)
    with pytest.raises(KeyError):
        named("nope@5")


def test_exponent_is_the_slope_in_logarithms() -> None:
    assert series.exponent([(n, 3.0 * n**1.5) for n in (10, 20, 70)]) == pytest.approx(1.5)


def test_command_names_what_there_is(run: Run) -> None:
    assert run("bench", "--list").out.split() == [*SCENARIOS, *FAMILIES]


# -- side by side, and where the time goes -------------------------------------------------------------------------


def _saved(path: Path, *seconds: tuple[str, float]) -> str:
    template = scenario_run.run(TINY["basic"])
    figures = [msgspec.structs.replace(template, scenario=name, seconds=value) for name, value in seconds]
    path.write_bytes(msgspec.json.encode(figures))
    return str(path)


def test_two_sets_of_figures_side_by_side(run: Run, tmp_path: Path) -> None:
    """By name, the fastest of several; what only one file has is shown with nothing beside it."""
    before = _saved(tmp_path / "a.json", ("basic-500", 2.0), ("gang-1000", 1.0), ("basic-500", 4.0))
    after = _saved(tmp_path / "b.json", ("preempt-500", 3.0), ("basic-500", 0.5))
    ended = run("bench", "--compare", before, after, "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert [(one["scenario"], one["ratio"]) for one in found] == [
        *(("basic-500", 0.25), ("gang-1000", None), ("preempt-500", None))
    ]
    assert (found[1]["after"], found[2]["before"]) == (None, None)
    shown = run("bench", "--compare", before, after)
    assert shown.code == 0
    assert [line.split()[-1] for line in shown.out.splitlines() if line.strip().startswith("basic-500")] == ["0.25"]


def test_growth_is_compared_by_its_runs(tmp_path: Path) -> None:
    grown = series.Growth("basic", 1.0, (scenario_run.run(TINY["basic"]),))
    path = tmp_path / "g.json"
    path.write_bytes(msgspec.json.encode([grown]))
    (one,) = comparison.compare(path, path)
    assert (one.scenario, one.ratio) == ("tiny", 1.0)


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file"), (b"{}", "Expected `array`"), (b"[{}]", "missing required field"), (b"\xff", "not what")],
)
def test_files_without_figures_are_named(run: Run, tmp_path: Path, content: bytes | None, why: str) -> None:
    good = _saved(tmp_path / "a.json", ("basic-500", 1.0))
    bad = tmp_path / "b.json"
    if content is not None:
        bad.write_bytes(content)
    ended = run("bench", "--compare", good, str(bad))
    assert (ended.code, ended.out) == (2, "")
    assert str(bad) in ended.err
    assert why in ended.err


@pytest.mark.parametrize(
    "options", [("basic-500", "--compare", "a", "b"), ("--growth", "--compare", "a", "b"), ("--growth", "--profile")]
)
def test_options_that_exclude_each_other(run: Run, options: tuple[str, ...]) -> None:
    assert run("bench", *options).code == 2
