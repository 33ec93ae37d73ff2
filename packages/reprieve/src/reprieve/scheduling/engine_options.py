"""The options of an engine: profiles, gates, and work that it may leave out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kube_rules.group_sources import DEFAULT_SOURCES, GroupSources
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.queueing.timers import Timing
from reprieve.scheduling.profiles import default_profile


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """See the module docstring. The defaults are those of a scheduler without a configuration file."""

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """Profiles by schedulerName; empty: the default profile alone."""
    gates: FeatureGates = field(default_factory=FeatureGates)
    timing: Timing = field(default_factory=Timing)
    """Backoffs of the queue, in seconds."""
    sources: GroupSources = DEFAULT_SOURCES
    """The fields by which pods name their group (workloads.md 1); none without the gate GenericWorkload."""
    seed: int | None = None
    """Seed that breaks ties between nodes at random instead of by name (scheduling.md 2)."""
    any_scheduler: bool = False
    """Whether the first profile schedules pods of every schedulerName (`plan`)."""
    current_reasons: bool = True
    """If False, the reasons for pending pods are not read, so pods are not tried again to keep them current."""
    share: bool = True
    """Whether identical pods share work; off only for comparisons (the results are the same)."""
    validate: bool = False
    """For tests: every invariant of the cluster cache is checked after every step, and a failure lists the history
    of the objects it names (`reprieve.cluster.history`)."""

    @property
    def named_profiles(self) -> Mapping[str, Profile]:
        """Return the profiles that run, by schedulerName: never empty."""
        if self.profiles:
            return self.profiles
        profile = default_profile(self.gates)
        return {profile.name: profile}
