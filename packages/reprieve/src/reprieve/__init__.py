"""A Kubernetes scheduler for gangs.

It places a gang as a whole or not at all, preempts as few workloads as possible, and explains each decision.  All names
that applications and plugins need are names of this module.  They are loaded on first use, so that importing the
package is fast.

    import reprieve

    cluster = reprieve.load("cluster.yaml", "gang.yaml")
    result = reprieve.plan(cluster.with_nodes(2, like="n1"))
    result.placements, result.preemptions, result.cluster
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kube_rules.errors import InputError as InputError
    from kube_rules.manifests import Manifests as Manifests
    from reprieve.cluster.groups import CompositeState as CompositeState
    from reprieve.cluster.groups import Group as Group
    from reprieve.cluster.groups import GroupState as GroupState
    from reprieve.cluster.pods import PodRecord as PodRecord
    from reprieve.cluster.state import ClusterState as ClusterState
    from reprieve.decisions.outcomes import Help as Help
    from reprieve.decisions.outcomes import PreemptionOutcome as PreemptionOutcome
    from reprieve.decisions.outcomes import Victim as Victim
    from reprieve.framework.configuration import ConfigurationError as ConfigurationError
    from reprieve.framework.diagnosis import Diagnosis as Diagnosis
    from reprieve.framework.events import ClusterEvent as ClusterEvent
    from reprieve.framework.events import EventKind as EventKind
    from reprieve.framework.events import Hints as Hints
    from reprieve.framework.events import always as always
    from reprieve.framework.gates import FeatureGates as FeatureGates
    from reprieve.framework.instructions import AwaitObject as AwaitObject
    from reprieve.framework.instructions import CreateObject as CreateObject
    from reprieve.framework.instructions import Instruction as Instruction
    from reprieve.framework.instructions import PatchObject as PatchObject
    from reprieve.framework.plugin import MAX_NODE_SCORE as MAX_NODE_SCORE
    from reprieve.framework.plugin import Assigned as Assigned
    from reprieve.framework.plugin import BindPlugin as BindPlugin
    from reprieve.framework.plugin import Codes as Codes
    from reprieve.framework.plugin import CycleState as CycleState
    from reprieve.framework.plugin import FilterPlugin as FilterPlugin
    from reprieve.framework.plugin import Mask as Mask
    from reprieve.framework.plugin import PermitPlugin as PermitPlugin
    from reprieve.framework.plugin import PerNodeFilter as PerNodeFilter
    from reprieve.framework.plugin import PerNodeScore as PerNodeScore
    from reprieve.framework.plugin import Placement as Placement
    from reprieve.framework.plugin import PlacementFeasiblePlugin as PlacementFeasiblePlugin
    from reprieve.framework.plugin import PlacementGeneratePlugin as PlacementGeneratePlugin
    from reprieve.framework.plugin import PlacementScorePlugin as PlacementScorePlugin
    from reprieve.framework.plugin import Plugin as Plugin
    from reprieve.framework.plugin import PodGroupAssignment as PodGroupAssignment
    from reprieve.framework.plugin import PodGroupAttempt as PodGroupAttempt
    from reprieve.framework.plugin import PodGroupPostFilterPlugin as PodGroupPostFilterPlugin
    from reprieve.framework.plugin import PostBindPlugin as PostBindPlugin
    from reprieve.framework.plugin import PostFilterPlugin as PostFilterPlugin
    from reprieve.framework.plugin import PostFilterResult as PostFilterResult
    from reprieve.framework.plugin import PreBindPlugin as PreBindPlugin
    from reprieve.framework.plugin import PreEnqueuePlugin as PreEnqueuePlugin
    from reprieve.framework.plugin import QueueSortPlugin as QueueSortPlugin
    from reprieve.framework.plugin import ReservePlugin as ReservePlugin
    from reprieve.framework.plugin import Rows as Rows
    from reprieve.framework.plugin import Scope as Scope
    from reprieve.framework.plugin import ScorePlugin as ScorePlugin
    from reprieve.framework.plugin import Scores as Scores
    from reprieve.framework.plugin import SignPlugin as SignPlugin
    from reprieve.framework.plugin import default_normalize as default_normalize
    from reprieve.framework.plugin import row_count as row_count
    from reprieve.framework.plugin import row_numbers as row_numbers
    from reprieve.framework.plugin_guard import PluginIncident as PluginIncident
    from reprieve.framework.preemption_cost import EvictionUnits as EvictionUnits
    from reprieve.framework.preemption_cost import PreemptionCost as PreemptionCost
    from reprieve.framework.profile import Profile as Profile
    from reprieve.framework.status import FITS as FITS
    from reprieve.framework.status import SUCCESS as SUCCESS
    from reprieve.framework.status import UNRESOLVABLE as UNRESOLVABLE
    from reprieve.framework.status import UNSCHEDULABLE as UNSCHEDULABLE
    from reprieve.framework.status import Code as Code
    from reprieve.framework.status import PlacementError as PlacementError
    from reprieve.framework.status import Status as Status
    from reprieve.python.builder import ClusterBuilder as ClusterBuilder
    from reprieve.python.cluster import Cluster as Cluster
    from reprieve.python.cluster import load as load
    from reprieve.python.plans import PlanResult as PlanResult
    from reprieve.python.plans import plan as plan
    from reprieve.scheduling.engine import Engine as Engine
    from reprieve.scheduling.engine_options import EngineOptions as EngineOptions
    from reprieve.scheduling.profiles import default_profile as default_profile
    from reprieve.simulation.plan import PlanOptions as PlanOptions
    from reprieve.simulation.report import Account as Account
    from reprieve.simulation.report import Answer as Answer
    from reprieve.simulation.report import Plan as Plan

_HOME = {
    "Account": "reprieve.simulation.report",
    "Answer": "reprieve.simulation.report",
    "Assigned": "reprieve.framework.plugin",
    "AwaitObject": "reprieve.framework.instructions",
    "BindPlugin": "reprieve.framework.plugin",
    "Cluster": "reprieve.python.cluster",
    "ClusterBuilder": "reprieve.python.builder",
    "ClusterEvent": "reprieve.framework.events",
    "ClusterState": "reprieve.cluster.state",
    "Code": "reprieve.framework.status",
    "Codes": "reprieve.framework.plugin",
    "ConfigurationError": "reprieve.framework.configuration",
    "CreateObject": "reprieve.framework.instructions",
    "CycleState": "reprieve.framework.plugin",
    "Diagnosis": "reprieve.framework.diagnosis",
    "Engine": "reprieve.scheduling.engine",
    "EngineOptions": "reprieve.scheduling.engine_options",
    "EventKind": "reprieve.framework.events",
    "EvictionUnits": "reprieve.framework.preemption_cost",
    "FITS": "reprieve.framework.status",
    "FeatureGates": "reprieve.framework.gates",
    "FilterPlugin": "reprieve.framework.plugin",
    "CompositeState": "reprieve.cluster.groups",
    "Group": "reprieve.cluster.groups",
    "GroupState": "reprieve.cluster.groups",
    "Help": "reprieve.decisions.outcomes",
    "Hints": "reprieve.framework.events",
    "InputError": "kube_rules.errors",
    "Instruction": "reprieve.framework.instructions",
    "MAX_NODE_SCORE": "reprieve.framework.plugin",
    "Manifests": "kube_rules.manifests",
    "Mask": "reprieve.framework.plugin",
    "PatchObject": "reprieve.framework.instructions",
    "PerNodeFilter": "reprieve.framework.plugin",
    "PerNodeScore": "reprieve.framework.plugin",
    "PermitPlugin": "reprieve.framework.plugin",
    "Placement": "reprieve.framework.plugin",
    "PlacementError": "reprieve.framework.status",
    "PlacementFeasiblePlugin": "reprieve.framework.plugin",
    "PlacementGeneratePlugin": "reprieve.framework.plugin",
    "PlacementScorePlugin": "reprieve.framework.plugin",
    "Plan": "reprieve.simulation.report",
    "PlanOptions": "reprieve.simulation.plan",
    "PlanResult": "reprieve.python.plans",
    "Plugin": "reprieve.framework.plugin",
    "PluginIncident": "reprieve.framework.plugin_guard",
    "PodGroupAssignment": "reprieve.framework.plugin",
    "PodGroupAttempt": "reprieve.framework.plugin",
    "PodGroupPostFilterPlugin": "reprieve.framework.plugin",
    "PodRecord": "reprieve.cluster.pods",
    "PostBindPlugin": "reprieve.framework.plugin",
    "PostFilterPlugin": "reprieve.framework.plugin",
    "PostFilterResult": "reprieve.framework.plugin",
    "PreBindPlugin": "reprieve.framework.plugin",
    "PreEnqueuePlugin": "reprieve.framework.plugin",
    "PreemptionCost": "reprieve.framework.preemption_cost",
    "PreemptionOutcome": "reprieve.decisions.outcomes",
    "Profile": "reprieve.framework.profile",
    "QueueSortPlugin": "reprieve.framework.plugin",
    "ReservePlugin": "reprieve.framework.plugin",
    "Rows": "reprieve.framework.plugin",
    "SUCCESS": "reprieve.framework.status",
    "Scope": "reprieve.framework.plugin",
    "ScorePlugin": "reprieve.framework.plugin",
    "Scores": "reprieve.framework.plugin",
    "SignPlugin": "reprieve.framework.plugin",
    "Status": "reprieve.framework.status",
    "UNRESOLVABLE": "reprieve.framework.status",
    "UNSCHEDULABLE": "reprieve.framework.status",
    "Victim": "reprieve.decisions.outcomes",
    "always": "reprieve.framework.events",
    "default_normalize": "reprieve.framework.plugin",
    "default_profile": "reprieve.scheduling.profiles",
    "load": "reprieve.python.cluster",
    "plan": "reprieve.python.plans",
    "row_count": "reprieve.framework.plugin",
    "row_numbers": "reprieve.framework.plugin",
}
"""Public name -> the module it lives in."""

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    result = getattr(import_module(home), name)
    globals()[name] = result
    return result


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
