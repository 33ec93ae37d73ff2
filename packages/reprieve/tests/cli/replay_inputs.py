"""What tests of `reprieve replay` and `reprieve import` are run on: a job list, four nodes, a policy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

JOBS = """job,submit,duration,workers,gpu,priority,tenant,checkpoint
a,0,3600,4,8,0,team-a,600
b,60,600,1,1,0,team-b,
c,1800,600,2,8,100,team-b,
"""

FOUR = ("--cluster", "four.yaml")

NO_PREEMPTION = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    postFilter: {disabled: [{name: "*"}]}
    podGroupPostFilter: {disabled: [{name: "*"}]}
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "endless.csv").write_text("job,submit,gpu\nweb,0,1\n")
    (tmp_path / "none.yaml").write_text(NO_PREEMPTION)
    node = "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{}}}\n"
    node += "status: {{allocatable: {{nvidia.com/gpu: 8, pods: 9}}}}\n"
    (tmp_path / "four.yaml").write_text("".join(map(node.format, range(1, 5))))
    return tmp_path


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Any]:
    """A scheduler of Dask with a worker, both in this process."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        host="127.0.0.1",
        protocol="tcp://",
        dashboard_address="127.0.0.1:0",
        silence_logs=False,
    ) as cluster:
        yield cluster
