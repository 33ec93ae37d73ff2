"""What operators write today, unchanged: pods and their group objects, each set of them runs as a gang (workloads.md).

The manifests in tests/data/operators have the fields that the public API types and controllers of each operator write;
each has three pods of one CPU. Spark's groups have a minimum of one, so that the driver can start and ask for more.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from reprieve.inputs.loader import load
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import Answer

FOLDER = Path(__file__).parents[4] / "tests" / "data" / "operators"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml"))
NODE = """\
apiVersion: v1
kind: Node
metadata: {{name: n{number}}}
status: {{allocatable: {{cpu: "1", memory: 8Gi, pods: "10"}}}}
"""


def answer(file: str, nodes: int, directory: Path) -> Answer:
    path = directory / "nodes.yaml"
    path.write_text("---\n".join(NODE.format(number=number) for number in range(nodes)))
    return plan(load([path, FOLDER / file]), PlanOptions())


def test_every_operator_is_there() -> None:
    operators = {name.partition("-")[0].removesuffix(".yaml") for name in FILES}
    assert operators == {"kueue", "kuberay", "lws", "mpi", "spark", "trainer", "volcano"}


@pytest.mark.parametrize("file", FILES)
def test_all_of_them_or_none(file: str, tmp_path: Path) -> None:
    """With room for all they are placed; with room for one less none is, or, where the minimum is one, all that fit."""
    found = answer(file, 3, tmp_path)
    assert [pod.outcome for pod in found.plan.pods] == ["Scheduled"] * 3
    assert {pod.pod_group for pod in found.plan.pods} != {None}
    short = answer(file, 2, tmp_path)
    placed = 2 if file.startswith("spark") else 0
    assert sum(pod.outcome == "Scheduled" for pod in short.plan.pods) == placed
