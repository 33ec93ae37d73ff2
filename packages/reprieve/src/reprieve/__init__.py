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

_NAMES = {
    "kube_rules.errors": "InputError",
    "kube_rules.manifests": "Manifests",
    "reprieve.cluster.groups": "CompositeState Group GroupState",
    "reprieve.cluster.pods": "PodRecord",
    "reprieve.cluster.state": "ClusterState",
    "reprieve.decisions.outcomes": "Help PreemptionOutcome Victim",
    "reprieve.framework.configuration": "ConfigurationError",
    "reprieve.framework.diagnosis": "Diagnosis",
    "reprieve.framework.events": "ClusterEvent EventKind Hints always",
    "reprieve.framework.gates": "FeatureGates",
    "reprieve.framework.instructions": "AwaitObject CreateObject Instruction PatchObject",
    "reprieve.framework.plugin": (
        "Assigned BindPlugin Codes CycleState FilterPlugin MAX_NODE_SCORE Mask PerNodeFilter PerNodeScore "
        "PermitPlugin Placement PlacementFeasiblePlugin PlacementGeneratePlugin PlacementScorePlugin Plugin "
        "PodGroupAssignment PodGroupAttempt PodGroupPostFilterPlugin PostBindPlugin PostFilterPlugin "
        "PostFilterResult PreBindPlugin PreEnqueuePlugin QueueSortPlugin ReservePlugin Rows Scope ScorePlugin "
        "Scores SignPlugin default_normalize row_count row_numbers"
    ),
    "reprieve.framework.plugin_guard": "PluginIncident",
    "reprieve.framework.preemption_cost": "EvictionUnits PreemptionCost",
    "reprieve.framework.profile": "Profile",
    "reprieve.framework.status": "Code FITS PlacementError SUCCESS Status UNRESOLVABLE UNSCHEDULABLE",
    "reprieve.python.builder": "ClusterBuilder",
    "reprieve.python.cluster": "Cluster load",
    "reprieve.python.plans": "PlanResult plan",
    "reprieve.scheduling.engine": "Engine",
    "reprieve.scheduling.engine_options": "EngineOptions",
    "reprieve.scheduling.profiles": "default_profile",
    "reprieve.simulation.plan": "PlanOptions",
    "reprieve.simulation.report": "Account Answer Plan",
}
"""Module -> the public names that live in it."""
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

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
