"""A second try for a group that shares devices, with other devices for its first member (KEP-5729).

The members of a group are placed one after another; the first decides which devices their shared claim gets, and so the
possible nodes of the others. On its best node the others may not fit, while they would on another. If the first try
fails, each set of nodes that one allocation reaches is tried, in the order of the nodes; the first that holds the group
is used. Invariant: the view is not changed; at most `MOST_TRIED` sets are tried.
"""

import numpy as np

from reprieve.cluster.device_allocation import DeviceError
from reprieve.framework.plugin import Placement
from reprieve.scheduling.group_algorithm import GroupAssignment, GroupCycle, place_group
from reprieve.scheduling.group_placements import hopeful

MOST_TRIED = 64


def within_reach(cycle: GroupCycle) -> GroupAssignment | None:
    """Return a place for the group within reach of one allocation of its shared devices; None if there is none."""
    pods, book = cycle.pods, cycle.running.cluster.devices
    if len(pods) < 2:
        return None
    shared = set.intersection(*(set(pod.claim_keys) for pod in pods))
    claims = book.lacking(claim for claim in book.of(pods[0]) if claim.key in shared)
    if not claims:
        return None
    try:
        sets = [Placement("", np.array(rows, dtype=np.int64)) for rows in book.reaches(claims)]
    except DeviceError:
        return None
    for item in hopeful(cycle, sets)[:MOST_TRIED]:
        result = place_group(cycle, diagnose=False, within=item)
        if result.feasible:
            return result
    return None
