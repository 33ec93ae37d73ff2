"""The plugins that come with the product, and the profile made of them.

The order and the score weights are kube-scheduler's (scheduling.md 5).
"""

from collections.abc import Callable

from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import Plugin
from reprieve.framework.profile import Profile
from reprieve.plugins.default_binder import DefaultBinder
from reprieve.plugins.gang_scheduling import GangScheduling
from reprieve.plugins.node_affinity import NodeAffinity
from reprieve.plugins.node_name import NodeName
from reprieve.plugins.node_ports import NodePorts
from reprieve.plugins.node_resources_balanced import NodeResourcesBalancedAllocation
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.plugins.node_unschedulable import NodeUnschedulable
from reprieve.plugins.priority_sort import PrioritySort
from reprieve.plugins.scheduling_gates import SchedulingGates
from reprieve.plugins.taint_toleration import TaintToleration
from reprieve.preemption.default_preemption import DefaultPreemption

DEFAULT_SCHEDULER = "default-scheduler"

REGISTRY: dict[str, Callable[[FeatureGates], Plugin]] = {
    "SchedulingGates": lambda gates: SchedulingGates(),
    "PrioritySort": lambda gates: PrioritySort(),
    "NodeUnschedulable": lambda gates: NodeUnschedulable(),
    "NodeName": lambda gates: NodeName(),
    "TaintToleration": lambda gates: TaintToleration(),
    "NodeAffinity": lambda gates: NodeAffinity(),
    "NodePorts": lambda gates: NodePorts(),
    "NodeResourcesFit": lambda gates: NodeResourcesFit(),
    "GangScheduling": lambda gates: GangScheduling(),
    "DefaultPreemption": lambda gates: DefaultPreemption(group_policy=gates.pod_group_preemption_policy),
    "NodeResourcesBalancedAllocation": lambda gates: NodeResourcesBalancedAllocation(),
    "DefaultBinder": lambda gates: DefaultBinder(),
}
"""In-tree plugins by name, in the order they run."""

DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
}


def default_profile(gates: FeatureGates, name: str = DEFAULT_SCHEDULER) -> Profile:
    """All in-tree plugins with their default weights."""
    return Profile(name, [make(gates) for make in REGISTRY.values()], dict(DEFAULT_WEIGHTS))
