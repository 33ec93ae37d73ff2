"""Gates of entities: PreEnqueue plugins of pods and groups, gangs with too few ready pods (scheduling.md 1)."""

from collections.abc import Mapping

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.profile import Profile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.queueing.entity import Entity


class PreEnqueueGates:
    """PreEnqueue gates of all profiles. Pods with a scheduler name of no profile use the first profile."""

    def __init__(self, cluster: ClusterState, profiles: Mapping[str, Profile]) -> None:
        self._cluster = cluster
        self._first = next(iter(profiles))
        self._of_pods = {n: [p for p in profile.pre_enqueue if not p.concerns_group] for n, profile in profiles.items()}
        self._of_groups = {n: [p for p in profile.pre_enqueue if p.concerns_group] for n, profile in profiles.items()}

    def of_entity(self, entity: Entity) -> Status:
        """Return SUCCESS, or the status that gates the entity as a whole; gated pods are in `held` already."""
        group = entity.group
        if group is not None and group.fault is not None:
            return Status(Code.UNRESOLVABLE, group.fault.message)
        if not entity.ready:
            return next(iter(entity.gated_pods.values()), SUCCESS)
        first = next(iter(entity.ready.values()))
        if first.resizing:
            return SUCCESS
        for plugin in self._of_groups.get(entity.profile, ()):
            status = plugin.pre_enqueue(self._cluster, first)
            if not status.ok:
                return status
        return next(iter(entity.gated_pods.values()), SUCCESS)

    def of_pod(self, pod: PodRecord) -> Status:
        """Return the first rejection of the pod by a PreEnqueue plugin, or SUCCESS."""
        if pod.resizing:
            return SUCCESS
        for plugin in self._of_pods.get(pod.scheduler_name, self._of_pods[self._first]):
            status = plugin.pre_enqueue(self._cluster, pod)
            if not status.ok:
                return status
        return SUCCESS
