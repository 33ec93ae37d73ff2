"""Repair gangs that lost members before anything else starts (docs/rules/repair.md).

`GangHealth` finds degraded gangs, `LostPlaces` reserves their capacity for a while, and `GangRestarts` selects those to
evict as a whole. `review` is called before every attempt and with every tick.
"""

from collections.abc import Mapping
from dataclasses import replace

from reprieve.cluster.groups import GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin_guard import first_of
from reprieve.framework.profile import Profile
from reprieve.plugins.gang_scheduling import GangScheduling, RepairOptions
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.effects import EffectsInProgress
from reprieve.scheduling.gang_health import GangHealth
from reprieve.scheduling.gang_restarts import GangRestarts
from reprieve.scheduling.lost_places import LostPlaces
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.protected_gangs import ProtectedGangs

_FEWEST_KEPT = 256
_OFF = RepairOptions(first=False, seconds=0.0, degraded_seconds=0.0)


def repair_options(profile: Profile) -> RepairOptions:
    """Return the repair options of a profile; a profile without GangScheduling does not repair."""
    plugin = first_of(GangScheduling, profile.plugins)
    return plugin.repair if plugin is not None else _OFF


class GangRepair:
    """See the module docstring. The first profile sets whether degraded gangs are tried first."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        nominations: Nominations,
        profiles: Mapping[str, Profile],
        effects: EffectsInProgress,
    ) -> None:
        self._cluster, self._queue, self._nominations, self._effects = cluster, queue, nominations, effects
        self._options = {name: repair_options(profile) for name, profile in profiles.items()}
        self._common = next(iter(self._options.values()))
        self.health = GangHealth(cluster, queue)
        self.places = LostPlaces(cluster, queue, nominations, self.health, effects, self._repair_seconds)
        self.restarts = GangRestarts(cluster, queue, self.health, self._degraded_seconds)
        self._protected = ProtectedGangs(cluster, queue)

    def _options_of(self, pod: PodRecord) -> RepairOptions:
        return self._options.get(pod.scheduler_name, self._common)

    def _repair_seconds(self, pod: PodRecord) -> float:
        return self._options_of(pod).seconds

    def _degraded_seconds(self, group: GroupState) -> float:
        pod = next(iter(group.members.values()), None)
        return self._options_of(pod).degraded_seconds if pod is not None else 0.0

    def review(self, now: float) -> None:
        """Process the events of gangs and the time."""
        changed = list(self._queue.changed_groups)
        if changed:
            self._protected.review(changed, now)
        self._effects.satisfaction += self.health.review(self._common.first)
        self.places.review(changed, now)
        self._effects.evictions += self.restarts.review(now)

    def keep_nominations(self, decision: Decision) -> Decision:
        """Return the decision; replacements stay nominated to capacity that is reserved for them."""
        if not decision.cleared_nominations or decision.nominations or not self.places.by_group:
            return decision
        return replace(
            decision,
            cleared_nominations=tuple(pod for pod in decision.cleared_nominations if not self.places.keeps(pod)),
        )

    def trim(self) -> None:
        """Forget deleted groups: a standby receives many and reviews none."""
        changed, groups = self._queue.changed_groups, self._cluster.groups
        if len(changed) > 2 * len(groups) + _FEWEST_KEPT:
            self.health.forget_deleted()

    def resume(self, now: float) -> None:
        """Take over nominations of members of degraded gangs after the initial load; they last as long as new ones."""
        self._effects.satisfaction += self.health.review(self._common.first)
        for key in self.health.degraded:
            group = self._cluster.groups[key]
            nominated = [pod for pod in group.pending() if pod.nominated >= 0 and not self.places.keeps(pod)]
            if self._nominations.in_flight.has_victims(group.home) or any(map(self._is_waited_for, nominated)):
                continue  # a preemption for the gang is in progress: it has all its places for that
            for pod in nominated:
                self._nominations.reservations.forget(group.home)
                self.places.adopt(key, pod, now)

    def _is_waited_for(self, pod: PodRecord) -> bool:
        """Return whether victims terminate on a pod's nominated node, so that a preemption is in progress."""
        pods_there = self._cluster.nodes.pods[pod.nominated].values()
        return any(pod_there.terminating and pod_there.preempted for pod_there in pods_there)
