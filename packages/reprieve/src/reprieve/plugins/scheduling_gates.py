"""SchedulingGates: a pod with gates is not ready to be scheduled."""

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import EventKind, Hints, always
from reprieve.framework.plugin import PreEnqueuePlugin
from reprieve.framework.status import SUCCESS, Code, Status

MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


class SchedulingGates(PreEnqueuePlugin):
    """Reject pods with `spec.schedulingGates`."""

    name = "SchedulingGates"

    def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
        return Status(Code.UNRESOLVABLE, MESSAGE, self.name) if pod.gates else SUCCESS

    def events(self) -> Hints:
        """Return the event of removed gates."""
        return {EventKind.GATES_REMOVED: always}
