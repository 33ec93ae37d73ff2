"""Alerts and the dashboard ask for metrics, labels and values that the scheduler has (observability.md 3)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from reprieve.observability.database.metrics import SpoolMetrics
from reprieve.observability.metrics import Metrics
from reprieve.observability.runtime_metrics import RuntimeMetrics
from reprieve.observability.store import MemoryStore
from tests.building import gang, node, pod
from tests.deploy.manifests import DEPLOY
from tests.observability.watching import Observed, read

PLACE = DEPLOY / "components" / "monitoring"
_SERIES = re.compile(r"\b((?:scheduler|rest_client|leader_election|process|kubernetes)_[a-z_]+)(?:\{([^}]*)\})?")
_BY = re.compile(r"\bby \(([^)]*)\)")


def expressions() -> Iterator[tuple[str, str]]:
    """(where, PromQL) of all alerts and panels."""
    rule = yaml.safe_load((PLACE / "prometheusrule.yaml").read_text())
    for each in rule["spec"]["groups"][0]["rules"]:
        yield each["alert"], each["expr"]
    for panel in json.loads((PLACE / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Series by name, with their labels: those of a scheduler that has done a bit of everything."""
    seen = Observed(
        node("n1", cpu=4),
        pod("low", cpu=3, node="n1"),
        *gang("wide", 2, cpu=64, priority=5),
        *gang("new", 1, cpu=4, priority=50),
    ).settle()
    metrics = Metrics()
    RuntimeMetrics(metrics.registry)
    SpoolMetrics(metrics.registry, MemoryStore())
    found: dict[str, set[str]] = {}
    for sample in (*seen.samples(), *read(metrics)):
        found.setdefault(sample.name, set()).update(sample.labels)
    for collector in list(metrics.registry._collector_to_names):
        labels = set(collector._labelnames) if isinstance(collector, MetricWrapperBase) else set[str]()
        for name in metrics.registry._collector_to_names[collector]:
            found.setdefault(name, set()).update(labels | ({"le"} if name.endswith("_bucket") else set()))
    return found


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_monitoring_resources_that_are_enabled_exist(where: str, expression: str, known: dict[str, set[str]]) -> None:
    """Names of series, labels that are matched, labels that are summed by."""
    series = _SERIES.findall(expression)
    assert series, where
    labels = {"job", "instance", "le"}
    for name, matchers in series:
        assert name in known, f"{where}: {name}"
        labels |= known[name]
        for matcher in filter(None, matchers.split(",")):
            label = re.split(r"=|!", matcher.strip())[0]
            assert label in known[name] | {"job"}, f"{where}: {name} has no label {label}"
    for names in _BY.findall(expression):
        assert {each.strip() for each in names.split(",")} <= labels, where
    assert expression.count("(") == expression.count(")"), where


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_reads_the_alerts_and_what_the_panels_ask(tmp_path: Path) -> None:
    """By its own tool; what Grafana puts in for its variables is put in here."""
    rule = yaml.safe_load((PLACE / "prometheusrule.yaml").read_text())["spec"]
    asked = dict.fromkeys(expression for _, expression in expressions())
    plain = [expression.replace("$__rate_interval", "5m").replace("$job", ".+") for expression in asked]
    panels = [{"record": "asked", "expr": each, "labels": {"at": str(at)}} for at, each in enumerate(plain)]
    for name, document in (("alerts", rule), ("panels", {"groups": [{"name": "panels", "rules": panels}]})):
        (tmp_path / name).write_text(yaml.safe_dump(document))
        done = subprocess.run(["promtool", "check", "rules", str(tmp_path / name)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_reads_the_dashboard() -> None:
    """Its model: panels and queries with identities, variables that are defined, a data source that is chosen."""
    board = json.loads((PLACE / "dashboard.json").read_text())
    panels = board["panels"]
    assert board["uid"]
    assert len(board["uid"]) <= 40
    assert isinstance(board["schemaVersion"], int)
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(each, int) and each > 0 for each in ids)
    variables = {each["name"]: each for each in board["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert variables["job"]["datasource"] == chosen
    for panel in panels:
        assert panel["datasource"] == chosen, panel["title"]
        assert set(panel["gridPos"]) == {"x", "y", "w", "h"}
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references), panel["title"]
        for target in panel["targets"]:
            named = {found.strip("{}") for found in re.findall(r"\$(\{?\w+\}?)", target["expr"])}
            assert named <= {*variables, "__rate_interval", "__interval", "__range"}, panel["title"]


def test_lease_of_the_alert_is_that_of_the_deployment() -> None:
    """The name by which leadership is shown is the lease's."""
    base = yaml.safe_load((DEPLOY / "base" / "config.yaml").read_text())
    lease = yaml.safe_load(next(iter(base["data"].values())))["leaderElection"]["resourceName"]
    assert f'name="{lease}"' in dict(expressions())["ReprieveNobodyLeads"]


def test_panels_do_not_overlap() -> None:
    """Grafana would move them about."""
    cells: set[tuple[int, int]] = set()
    for panel in json.loads((PLACE / "dashboard.json").read_text())["panels"]:
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not mine & cells, panel["title"]
        cells |= mine
