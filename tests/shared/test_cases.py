"""Every file of ../shared/cases, where that folder exists: the outcome independent implementations expect.

Cases that use a rule no plugin decides yet must be refused with a clear error, never answered wrongly.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml

from reprieve.api.errors import InputError
from reprieve.api.loading import load
from reprieve.framework.gates import FeatureGates
from reprieve.simulation.plan import PlanOptions, plan

SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
FILES = sorted(SHARED.rglob("*.yaml")) if SHARED.is_dir() else []
PASSED_ON = ("PodGroupPreemptionPolicy", "TopologyAwareWorkloadScheduling", "SchedulerAsyncPreemption")

pytestmark = pytest.mark.skipif(not FILES, reason="../shared/cases is not here")


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """The comparison that comes with the cases."""
    spec = importlib.util.spec_from_file_location("run_cases", SHARED / "run_cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needs_later_rule(case: dict[str, Any]) -> bool:
    """Whether the case uses a rule that is refused for now."""
    return any(
        use in ("inter-pod-affinity", "inter-pod-anti-affinity", "topology-spread", "topology-constraint")
        for use in case.get("uses") or []
    )


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_case(path: Path, runner: ModuleType, tmp_path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    if not runner.usable(case):
        pytest.skip("needs a custom plugin or white-box steps")
    manifest = tmp_path / "case.yaml"
    manifest.write_text(yaml.safe_dump_all(runner.documents(case)))
    gates = {k: v for k, v in (case.get("gates") or {}).items() if k in PASSED_ON and v != "any"}
    inputs, options = load([manifest]), PlanOptions(gates=FeatureGates.of(gates))
    refusal = ""
    try:
        answer = plan(inputs, options)
    except InputError as error:
        refusal = str(error)
    if refusal:
        assert needs_later_rule(case), refusal
        assert "not supported yet" in refusal
    else:
        assert runner.check(case, msgspec.to_builtins(answer.plan)) == []
