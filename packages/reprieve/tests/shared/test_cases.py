"""Every file of ../shared/cases and cases-trees, where those exist: the outcome independent implementations expect.

They expect a group to be placed by score (`--compatible`).  In all of these cases that is also the cheapest eviction.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import yaml

from reprieve.framework.gates import FeatureGates
from reprieve.inputs.loader import load
from reprieve.scheduling.profiles import default_profile
from reprieve.simulation.plan import PlanOptions, plan
from tests.outside import BESIDE, needs

SHARED = BESIDE / "cases"
FILES = sorted(path for area in (SHARED, BESIDE / "cases-trees") if area.is_dir() for path in area.rglob("*.yaml"))
PASSED_ON = (
    "PodGroupPreemptionPolicy",
    "TopologyAwareWorkloadScheduling",
    "SchedulerAsyncPreemption",
    "CompositePodGroup",
)

pytestmark = needs(SHARED)


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """The comparison that comes with the cases."""
    spec = importlib.util.spec_from_file_location("run_cases", SHARED / "run_cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("compatible", [True, False], ids=["compatible", "cheapest"])
@pytest.mark.parametrize("path", FILES or [SHARED], ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_case(path: Path, compatible: bool, runner: ModuleType, tmp_path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    if not runner.usable(case):
        pytest.skip("needs a custom plugin or white-box steps")
    manifest = tmp_path / "case.yaml"
    manifest.write_text(yaml.safe_dump_all(runner.documents(case)))
    gates = FeatureGates.of({k: v for k, v in (case.get("gates") or {}).items() if k in PASSED_ON and v != "any"})
    profiles = (default_profile(gates, compatible=compatible),)
    answer = plan(load([manifest]), PlanOptions(gates=gates, profiles=profiles, any_scheduler=True))
    assert runner.check(case, msgspec.to_builtins(answer.plan)) == []
