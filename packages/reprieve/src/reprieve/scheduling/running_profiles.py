"""The profiles of a running scheduler, by schedulerName; the first handles pods of any other name."""

from collections.abc import Mapping

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin_guard import PluginIncident, first_of
from reprieve.framework.profile import Profile
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.default_preemption import DefaultPreemption


class RunningProfiles(dict[str, RunningProfile]):
    """See the module docstring. `reserve` and `listen`: whether any of them has more to do when a pod is bound.

    `share`: identical pods share results, if the gates allow it.
    """

    def __init__(
        self,
        cluster: ClusterState,
        profiles: Mapping[str, Profile],
        gates: FeatureGates,
        *,
        seed: int | None,
        share: bool,
    ) -> None:
        super().__init__()
        for name, profile in profiles.items():
            evaluator = Evaluator(cluster, profile, share=share and gates.opportunistic_batching, seed=seed)
            self[name] = RunningProfile(cluster, profile, evaluator, gates)
            plugin = first_of(DefaultPreemption, profile.plugins)
            if plugin is not None:
                plugin.attach(self[name])
        self.reserve = any(
            profile.reserves or profile.permits or profile.pre_binds or len(profile.binders) > 1
            for profile in profiles.values()
        )
        self._policies = list({id(profile.watch): profile.watch for profile in profiles.values()}.values())
        self.listen = any(profile.post_binds for profile in profiles.values())

    def of(self, pod: PodRecord) -> RunningProfile:
        """Return the profile that decides for the pod."""
        return self.get(pod.scheduler_name) or next(iter(self.values()))

    @property
    def may_block(self) -> bool:
        """Return whether a step may wait for something outside, such as an extender or a plugin's thread."""
        return any(running.profile.blocking for running in self.values())

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the evaluators' tables, by kind."""
        sizes: dict[str, int] = {}
        for running in self.values():
            for kind, number in running.evaluator.sizes().items():
                sizes[kind] = sizes.get(kind, 0) + number
        return sizes

    def incidents(self) -> list[PluginIncident]:
        """Return errors of plugins since the last call, with tracebacks."""
        return [incident for policy in self._policies if policy.noted for incident in policy.take()]
