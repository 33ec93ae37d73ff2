"""A profile at work: plugins, the evaluator that runs them, and the cluster cache they read."""

from dataclasses import dataclass, field

from reprieve.cluster.state import ClusterState
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.gates import FeatureGates
from reprieve.framework.placement_meter import PlacementMeter
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.framework.profile import Profile
from reprieve.framework.status import PluginError
from reprieve.framework.tried_placements import TriedPlacements


@dataclass(frozen=True, slots=True)
class RunningProfile:
    """The inputs of cycles for pods of one schedulerName."""

    cluster: ClusterState
    profile: Profile
    evaluator: Evaluator
    gates: FeatureGates
    tried: TriedPlacements = field(default_factory=TriedPlacements)
    """Results of groups in placements."""

    meter: PlacementMeter = field(init=False)
    """The meter of placements of groups."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "meter", PlacementMeter(self.profile.name))

    def report(self, error: PluginError) -> None:
        """Record an error of a plugin for the log and the counters (`Effects.incidents`)."""
        self.profile.watch.report(PluginIncident.of(error))
