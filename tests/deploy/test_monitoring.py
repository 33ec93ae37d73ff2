"""Alerts and the dashboard ask for metrics, labels and values that the scheduler has (observability.md 3)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
RUNBOOK = "https://github.com/example/reprieve/blob/main/docs/runbook.md"
PROMTOOL = shutil.which("promtool", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (`make .venv/.promtool-ready`)")
_SERIES = re.compile(r"\b((?:scheduler|rest_client|leader_election|process|kubernetes)_[a-z_]+)(?:\{([^}]*)\})?")
_BY = re.compile(r"\bby \(([^)]*)\)")


def promtool(*arguments: str) -> None:
    """Run Prometheus' own tool, which has to find no fault."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


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


@needs_promtool
def test_prometheus_reads_the_alerts_and_what_the_panels_ask(tmp_path: Path) -> None:
    """By its own tool; what Grafana puts in for its variables is put in here."""
    rule = yaml.safe_load((PLACE / "prometheusrule.yaml").read_text())["spec"]
    asked = dict.fromkeys(expression for _, expression in expressions())
    plain = [expression.replace("$__rate_interval", "5m").replace("$job", ".+") for expression in asked]
    panels = [{"record": "asked", "expr": each, "labels": {"at": str(at)}} for at, each in enumerate(plain)]
    for name, document in (("alerts", rule), ("panels", {"groups": [{"name": "panels", "rules": panels}]})):
        (tmp_path / name).write_text(yaml.safe_dump(document))
        promtool("check", "rules", str(tmp_path / name))


@needs_promtool
def test_alerts_fire_when_they_should_and_not_otherwise(tmp_path: Path) -> None:
    """Prometheus evaluates each on the series of alerts.yaml, in which each fires once and is silent once."""
    spec = yaml.safe_load((PLACE / "prometheusrule.yaml").read_text())["spec"]
    (tmp_path / "alerts").write_text(yaml.safe_dump(spec))
    document = yaml.safe_load((Path(__file__).parent / "alerts.yaml").read_text())
    rules = {rule["alert"]: rule for rule in spec["groups"][0]["rules"]}
    outcomes: set[tuple[str, bool]] = set()
    for test in document["tests"]:
        for expected in test["alert_rule_test"]:
            outcomes.add((expected["alertname"], "exp_alerts" in expected))
            annotations = rules[expected["alertname"]]["annotations"]
            for alert in expected.get("exp_alerts", ()):
                # Texts without a value are those of the rule.
                fixed = {key: text for key, text in annotations.items() if "{{" not in text}
                alert["exp_annotations"] = {**fixed, **alert["exp_annotations"]}
    assert outcomes == {(name, fires) for name in rules for fires in (False, True)}
    (tmp_path / "tests").write_text(yaml.safe_dump(document))
    promtool("test", "rules", str(tmp_path / "tests"))


def anchors(page: str) -> dict[str, str]:
    """Anchor -> text of each section of a page, as GitHub and mkdocs name them."""
    parts = re.split(r"^#{2,4} (.+)$", page, flags=re.MULTILINE)
    named = {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-"): head for head in parts[1::2]}
    return dict(zip(named, parts[2::2], strict=True))


@pytest.mark.parametrize(
    "rule",
    yaml.safe_load((PLACE / "prometheusrule.yaml").read_text())["spec"]["groups"][0]["rules"],
    ids=lambda rule: rule["alert"],
)
def test_runbook_has_cause_check_and_remedy_of_each_alert(rule: dict[str, Any]) -> None:
    """Where its `runbook_url` leads to; the chart puts another page in its place."""
    url, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert url == RUNBOOK
    section = anchors((DEPLOY.parent / "docs" / "runbook.md").read_text())[anchor]
    for part in ("Cause", "Check", "Remedy"):
        text = re.search(rf"^\*\*{part}:\*\* (.+)", section, flags=re.MULTILINE)
        assert text, f"{anchor}: {part}"
        assert len(text[1]) > 40


def test_runbook_has_no_section_of_an_alert_that_does_not_exist() -> None:
    alerts = {name.lower() for name, _ in expressions() if name.startswith("Reprieve")}
    sections = anchors((DEPLOY.parent / "docs" / "runbook.md").read_text())
    assert {anchor for anchor in sections if anchor.startswith("reprieve")} == alerts


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
