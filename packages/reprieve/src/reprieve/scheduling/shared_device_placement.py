"""A second look for a group that shares devices: where else its first member could have taken them (KEP-5729).

The members of a group are placed one after another; the first decides which devices a claim that all of them share
gets, and so where the others can go.  Its best node may leave no room for them while another would have.  Where the
first look fails, each set of nodes that one allocation reaches is tried, in the order of the nodes; the first that
holds the group is taken.

Invariant: the view is left as it was; at most `MOST_TRIED` sets are tried.
"""

import numpy as np

from reprieve.cluster.device_allocation import DeviceError
from reprieve.framework.plugin import Placement
from reprieve.scheduling.group_algorithm import GroupAssignment, GroupCycle, place_group
from reprieve.scheduling.group_placements import hopeful

MOST_TRIED = 64


def within_reach(cycle: GroupCycle) -> GroupAssignment | None:
    """Return a place for the group in the reach of one allocation of what its members share; None if there is none."""
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
