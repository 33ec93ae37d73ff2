"""The policies for shared GPUs in examples/policies (replay.md 5.2): room is that of each GPU, not of the node."""

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.scheduling.profiles import profiles_of

ROOT = Path(__file__).parents[2]
NODES = """apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1}
  status: {allocatable: {cpu: 16, memory: 64Gi, pods: 99, alibabacloud.com/gpu-milli: 2000}}
"""
JOBS = """job,submit,duration,cpu,gpu
a,0,100,1,0.6
b,1,100,1,0.6
c,2,100,1,0.5
whole,3,100,1,1
d,4,100,1,0.4
"""


@pytest.mark.parametrize("policy", ["Random", "BestFit", "DotProd", "GpuClustering", "GpuPacking", "FGD"])
def test_part_of_a_gpu_finds_room_on_one_gpu_only(tmp_path: Path, policy: str) -> None:
    (tmp_path / "nodes.yaml").write_text(NODES)
    (tmp_path / "jobs.csv").write_text(JOBS)
    command = [sys.executable, "-m", "reprieve", "replay", "jobs.csv", "--cluster", "nodes.yaml", "-o", "csv"]
    command += ["--plugin", f"shared_gpus:{policy}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "examples" / "policies")}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    start = {row["job"]: float(row["start"]) for row in csv.DictReader(io.StringIO(ended.stdout))}
    assert (start["a"], start["b"], start["d"]) == (0, 1, 4)  # 0.6 and 0.6 on a GPU each, 0.4 beside one of them
    assert start["c"] >= 100  # 0.8 are free in all, but 0.4 on each GPU
    assert start["whole"] >= 100


FILES = sorted((ROOT / "examples" / "policies").glob("*.yaml"))
PAGES = "".join(page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_policy_file_is_read_and_stands_in_a_worked_example(path: Path) -> None:
    """Unknown fields and args are errors, so a file that is read sets what it says."""
    (profile,) = profiles_of(configuration_of(yaml.safe_load(path.read_text())), FeatureGates())
    assert profile.name == "default-scheduler"
    assert f"examples/policies/{path.name}" in PAGES
    assert any(f"{option}{path.name}" in PAGES for option in ("--config examples/policies/", "--policy ")), (
        "in a command"
    )
