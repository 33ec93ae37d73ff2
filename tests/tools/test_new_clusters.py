"""`--new-clusters`: properties on examples of a run's own, and the cluster that is printed when one fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from tests import drawing
from tests.cases.test_cases import outcome
from tests.random_clusters import RandomCluster, random_clusters

ROOT = Path(__file__).resolve().parents[2]
PROPERTIES = """
from hypothesis import given, strategies as st
from tests.random_clusters import random_clusters
from tests.drawing import examples

seen = set()

@examples(100)
@given(st.integers(0, 2**64))
def test_counts(number):
    seen.add(number)

def test_is_no_property():
    print("drawn:", sorted(seen))

@examples(3)
@given(random_clusters())
def test_wrong(cluster):
    assert not any(item.KIND == "Pod" and item.spec.node_name for item, _ in cluster.everything)
"""


def ran(folder: Path, *options: str, imports: str = "", code: int = 1) -> str:
    """What pytest says of three tests of their own, of which one fails unless it is left out (`code`)."""
    (folder / "test_there.py").write_text(imports + PROPERTIES)
    plugins = ["-p", "conftest", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
    command = [sys.executable, "-m", "pytest", *plugins, "-s", "-v"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "packages/reprieve")])}
    done = subprocess.run(
        [*command, "--rootdir", str(folder), *options, str(folder / "test_there.py")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_failing_property_prints_manifests(tmp_path: Path) -> None:
    """And only properties run."""
    told = ran(tmp_path, "--new-clusters", "0.2")
    assert "1 failed, 1 passed, 1 deselected" in told
    found = told.partition("As a case")[2].partition("title: ")[2]
    lines = [line.removeprefix("E").strip() for line in ("title: " + found).splitlines()]
    case = yaml.safe_load("\n".join(lines[: lines.index("expect: {}") + 1]))
    assert any(one["kind"] == "Pod" and one["spec"].get("nodeName") for one in case["objects"])
    assert {"Node", "Pod"} <= {one["kind"] for one in case["objects"]}


def test_without_it_every_run_draws_the_same(tmp_path: Path) -> None:
    """Whatever else has been imported: Hypothesis would draw the numbers of every module of the program there is."""
    (tmp_path / "program.py").write_text(f"NUMBERS = {list(range(10**6, 2 * 10**6, 1001))}\n")
    # Without the one that fails: its example would be made smaller at length, and says nothing of what is drawn.
    told = [ran(tmp_path, "-k", "not wrong", imports=imports, code=0) for imports in ("", "import program\n")]
    drawn = [one.partition("drawn: ")[2].partition("]")[0] for one in told]
    assert drawn[0]
    assert drawn[0] == drawn[1]


@settings(max_examples=40, deadline=None)
@given(random_clusters(terminating=False))
def test_manifests_are_the_cluster(tmp_path_factory: pytest.TempPathFactory, cluster: RandomCluster) -> None:
    """Planned from what is printed, the same pods are placed and preempted."""
    drawing.drew(cluster.everything)
    case: dict[str, Any] = yaml.safe_load(drawing.last_drawn())
    found = outcome(case, tmp_path_factory.mktemp("case"))
    world = cluster.world().settle()
    assert {f"{v.name}" for one in found.preemptions for v in one.victims} == set(world.evicted)
    placed = {pod.name: pod.node_name for pod in found.pods if pod.outcome == "Scheduled"}
    there = {item.metadata.name for item, _ in cluster.running}
    assert placed == {name: node for name, node in world.where.items() if name not in there}
