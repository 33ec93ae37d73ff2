"""A profile at work: plugins, the evaluator that runs them, and the picture they read."""

from collections import deque
from dataclasses import dataclass, field

from reprieve.cluster.state import ClusterState
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.framework.status import PluginError


@dataclass(frozen=True, slots=True)
class RunningProfile:
    """What the cycles need to decide for pods of one schedulerName."""

    cluster: ClusterState
    profile: Profile
    evaluator: Evaluator
    gates: FeatureGates
    complaints: deque[PluginError] = field(default_factory=lambda: deque(maxlen=1000))
    """Errors of plugins, for whoever keeps the log (`Engine.take_plugin_incidents`)."""
