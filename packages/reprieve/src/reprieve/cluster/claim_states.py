"""One device claim: its state by the API and in the present view, and where claims like it can be allocated."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kube_rules.devices import ResourceClaim
from reprieve.cluster.changes import ChangeReader
from reprieve.cluster.device_requests import Allocation, ClaimShape
from reprieve.cluster.pods import PodRecord


class Held(NamedTuple):
    """What is known of a claim beyond the API; replaced as a whole, so that undo is exact."""

    assumed: Allocation | None = None
    parked: Allocation | None = None
    """What was assumed before its last holder was taken away in a trial."""
    holders: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    """Pods taken away in a trial, by UID."""


NOTHING = Held()


@dataclass(eq=False, slots=True)
class ClaimState:
    """One claim: what the API states of it, and what follows. `key`: namespace/name."""

    key: str
    object: ResourceClaim | None = None
    """None: pods name it, but it does not exist."""
    shape: ClaimShape | None = None
    fault: str = ""
    """Why its spec or allocation cannot be read."""
    stated: Allocation | None = None
    consumers: frozenset[str] = frozenset()
    """UIDs of the pods in status.reservedFor."""
    groups: frozenset[str] = frozenset()
    """UIDs of the PodGroups in status.reservedFor."""
    pods_only: bool = True
    """Only pods are in status.reservedFor."""
    strangers: bool = False
    """A consumer in status.reservedFor is neither a pod nor a PodGroup."""
    held: Held = NOTHING
    allocation: Allocation | None = None
    """What it has in the present view."""
    users: dict[str, PodRecord] = field(default_factory=dict)
    """Known pods that name it, by UID."""

    @property
    def claim(self) -> ResourceClaim:
        """Return the object, which must be known."""
        assert self.object is not None
        return self.object

    def in_view(self) -> Allocation | None:
        """Work out `allocation`."""
        held = self.held
        if held.assumed is not None or self.stated is None:
            return held.assumed
        given_up = held.gone and not held.holders and self.pods_only and self.consumers <= held.gone
        return None if given_up else self.stated


@dataclass(slots=True)
class DeviceVerdicts:
    """Where claims of certain shapes can be allocated. `codes`: int8[rows], UNKNOWN where no pod has asked.

    `potential`: int8[rows], what the code would be with every device free; `scores`: int64[rows]; `faults`: row -> why.
    """

    codes: npt.NDArray[np.int8]
    potential: npt.NDArray[np.int8]
    scores: npt.NDArray[np.int64]
    changes: ChangeReader
    faults: dict[int, str] = field(default_factory=dict)
    given_up: int = 0
    """On how many nodes the search was too long."""
