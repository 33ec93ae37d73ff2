"""One device claim: its state in the API and in the current view, and the nodes for claims of its shape."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kube_rules.devices import ResourceClaim
from reprieve.cluster.changes import ChangeReader
from reprieve.cluster.device_requests import Allocation, ClaimShape
from reprieve.cluster.pods import PodRecord


class AssumedClaim(NamedTuple):
    """The scheduler's own knowledge about a claim; replaced as a whole, so that undo is exact."""

    assumed: Allocation | None = None
    parked: Allocation | None = None
    """The allocation that was assumed before a trial removed its last holder."""
    holders: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    """UIDs of the pods that a trial removed."""


NOTHING = AssumedClaim()


@dataclass(eq=False, slots=True)
class ClaimState:
    """One claim: its state in the API, and derived values. `key`: namespace/name."""

    key: str
    object: ResourceClaim | None = None
    """None: pods reference the claim, but it does not exist."""
    shape: ClaimShape | None = None
    fault: str = ""
    """Why the spec or allocation is invalid."""
    stated: Allocation | None = None
    consumers: frozenset[str] = frozenset()
    """UIDs of the pods in status.reservedFor."""
    groups: frozenset[str] = frozenset()
    """UIDs of the PodGroups in status.reservedFor."""
    pods_only: bool = True
    """Whether status.reservedFor has only pods."""
    strangers: bool = False
    """Whether status.reservedFor has a consumer that is neither a pod nor a PodGroup."""
    assumptions: AssumedClaim = NOTHING
    allocation: Allocation | None = None
    """The allocation in the current view."""
    users: dict[str, PodRecord] = field(default_factory=dict)
    """Known pods that reference the claim, by UID."""

    @property
    def claim(self) -> ResourceClaim:
        """Return the object, which must exist."""
        assert self.object is not None
        return self.object

    def in_view(self) -> Allocation | None:
        """Return the allocation in the current view."""
        own = self.assumptions
        if own.assumed is not None or self.stated is None:
            return own.assumed
        given_up = own.gone and not own.holders and self.pods_only and self.consumers <= own.gone
        return None if given_up else self.stated


@dataclass(slots=True)
class DeviceVerdicts:
    """Where claims of certain shapes can be allocated. `codes`: int8[rows], UNKNOWN where no pod has asked.

    `potential`: int8[rows], the code with every device free; `scores`: int64[rows]; `faults`: row -> reason.
    """

    codes: npt.NDArray[np.int8]
    potential: npt.NDArray[np.int8]
    scores: npt.NDArray[np.int64]
    changes: ChangeReader
    faults: dict[int, str] = field(default_factory=dict)
    given_up: int = 0
    """The number of nodes on which the search exceeded its limit."""
