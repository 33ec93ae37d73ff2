"""reprieve: a Kubernetes scheduler that thinks in workloads.

It places gangs all-or-nothing and, when room is short, preempts whole workloads, as few and as cheap as possible, and
says why.  The public surface is flat: everything an application or a plugin needs is a name of this module, loaded when
it is first used, so that importing the package costs nothing.

    import reprieve

    cluster = reprieve.Cluster().add(open("cluster.yaml").read())
    answer = cluster.plan()
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprieve.api.errors import InputError as InputError
    from reprieve.api.loading import Manifests as Manifests
    from reprieve.api.loading import load as load
    from reprieve.cluster.pods import PodRecord as PodRecord
    from reprieve.cluster.state import ClusterState as ClusterState
    from reprieve.framework.gates import FeatureGates as FeatureGates
    from reprieve.framework.plugin import CycleState as CycleState
    from reprieve.framework.plugin import FilterPlugin as FilterPlugin
    from reprieve.framework.plugin import PerNodeFilter as PerNodeFilter
    from reprieve.framework.plugin import PerNodeScore as PerNodeScore
    from reprieve.framework.plugin import Scope as Scope
    from reprieve.framework.plugin import ScorePlugin as ScorePlugin
    from reprieve.framework.profile import Profile as Profile
    from reprieve.framework.status import Code as Code
    from reprieve.framework.status import Status as Status
    from reprieve.scheduling.engine import Engine as Engine
    from reprieve.scheduling.profiles import default_profile as default_profile
    from reprieve.simulation.building import Cluster as Cluster
    from reprieve.simulation.plan import PlanOptions as PlanOptions
    from reprieve.simulation.plan import plan as plan
    from reprieve.simulation.report import Account as Account
    from reprieve.simulation.report import Answer as Answer
    from reprieve.simulation.report import Plan as Plan

_HOME = {
    "Account": "simulation.report",
    "Answer": "simulation.report",
    "Cluster": "simulation.building",
    "ClusterState": "cluster.state",
    "Code": "framework.status",
    "CycleState": "framework.plugin",
    "Engine": "scheduling.engine",
    "FeatureGates": "framework.gates",
    "FilterPlugin": "framework.plugin",
    "InputError": "api.errors",
    "Manifests": "api.loading",
    "PerNodeFilter": "framework.plugin",
    "PerNodeScore": "framework.plugin",
    "Plan": "simulation.report",
    "PlanOptions": "simulation.plan",
    "PodRecord": "cluster.pods",
    "Profile": "framework.profile",
    "Scope": "framework.plugin",
    "ScorePlugin": "framework.plugin",
    "Status": "framework.status",
    "default_profile": "scheduling.profiles",
    "load": "api.loading",
    "plan": "simulation.plan",
}
"""Public name -> the module it lives in."""

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
