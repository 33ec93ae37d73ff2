"""A shadow beside the real kube-scheduler's recorded decisions, 24 small clusters with kube-scheduler 1.36.3.

The cluster is shown to the shadow, then the recorded outcome as what the acting scheduler did. Where several outcomes
were recorded the shadow may differ from some, but not from all. `DIFFERS` has the differences that are to be found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects as o
from kube_rules.meta import KubernetesObject
from reprieve.decisions.shadow import ShadowReport
from reprieve.inputs.loader import load
from reprieve.scheduling.arrival_order import in_order
from tests.live.test_shadow_decisions import HOLD, Stage
from tests.outside import BESIDE, needs

SHARED = BESIDE / "reference" / "kube-scheduler-1.36.3"
FILES = sorted(SHARED.glob("*.yaml")) if SHARED.is_dir() else []
DIFFERS = {
    "10d-heterogeneous-greedy-fails": {"Starved"},
    "10e-heterogeneous-greedy-preempts": {"Starved"},
}
"""Gangs that 1.36.3 tries in hash order, and does not place."""

pytestmark = needs(SHARED)


def shown(path: Path, outcome: dict[str, Any]) -> ShadowReport:
    """What the shadow reports after that outcome."""
    stage = Stage()
    loaded = [item for kind in load([path]).objects.values() for item in kind]
    items: list[tuple[KubernetesObject, float]] = [(item.object, item.created or stage.now) for item in loaded]
    for item, created in in_order(items):
        if isinstance(item, o.Pod):
            uid = item.metadata.uid or f"uid-{item.key}"
            stage.show(replace(item, metadata=replace(item.metadata, uid=uid)))
        elif stage.engine.reads(item.KIND):
            stage.engine.set(item, stage.now, created=created)
    stage.engine.complete(stage.now)
    stage.decide()
    for key in outcome["preempted"]:
        stage.change(key, preempted=True)
    for key in outcome["preempted"]:
        stage.change(key, gone=True)
    for key, node in sorted(outcome["bound"].items()):
        stage.change(key, node=node)
    for _ in range(3):
        stage.after(HOLD + 40)
    return stage.report


@pytest.mark.parametrize("path", FILES or [SHARED], ids=lambda p: p.stem)
def test_recorded_decisions_differ_only_as_argued(path: Path) -> None:
    """shadow.md 3: kinds of differences, in each of the recorded outcomes."""
    outcomes = json.loads(path.with_suffix(".json").read_text())["outcomes"]
    reports = [shown(path, outcome) for outcome in outcomes]
    kinds = [{difference.kind for difference in report.differences} for report in reports]
    assert DIFFERS.get(path.stem, set()) in kinds, [report.differences for report in reports]
