"""Capacity on a node that is reserved for a pod that does not exist yet (repair.md 2, moving.md 4.4)."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from kube_rules.topology_terms import pod_index
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.state import ClusterState

STAND_IN: Final = "lost/"
"""Prefix of the UIDs of stand-ins: no UID of the API has a slash."""


@dataclass(slots=True, eq=False)
class LostPlace:
    """The node of a lost or moving pod, and the pod record that reserves its capacity. Times are seconds."""

    group: str
    """`namespace/name` of the pod group; "" without one."""
    lost: PodRecord
    row: int
    node: str
    until: float
    """Time at which it is released at the latest."""
    keeper: PodRecord
    """The pod that is nominated there: the stand-in, or the replacement."""

    @property
    def replaced(self) -> bool:
        """Return whether the replacement is known."""
        return not self.keeper.uid.startswith(STAND_IN)


def keep(cluster: ClusterState, pod: PodRecord, row: int, until: float) -> LostPlace:
    """Nominate a stand-in of a pod: it has the pod's requests, and is not an object of the API."""
    keeper = PodRecord(
        namespace=pod.namespace,
        name=pod.name,
        uid=STAND_IN + pod.uid,
        signature=amounts_signature(pod.signature, cluster.resources.capacity),
        priority=pod.priority,
        created=pod.created,
        scheduler_name=pod.scheduler_name,
    )
    cluster.nominate(keeper, row)
    return LostPlace(pod.group or "", pod, row, cluster.nodes.names[row], until, keeper)


def amounts_signature(signature: PodSpecSignature, capacity: int) -> PodSpecSignature:
    """Return the amounts and ports of a signature, without its rules about other pods: a stand-in breaks none."""
    vector = np.pad(signature.delta, (0, max(0, capacity - len(signature.delta))))
    return replace(signature, constraints=replace(signature.constraints, affinity=None, selects=False), vector=vector)


def likeness(lost: PodRecord, pod: PodRecord, *, same_owner: bool) -> int:
    """Return how well a pod matches a lost one of its namespace: 1 is best; 0: no replacement (repair.md 2.3)."""
    if pod.name == lost.name:
        return 1
    its, own = (pod_index(member.labels, member.annotations) for member in (lost, pod))
    if its != own:
        return 0
    if same_owner:
        return 2
    return 3 if its is not None else 0
