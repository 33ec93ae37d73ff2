"""The volumes that claims can have on nodes, for VolumeBinding's Filter and Reserve.

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/volumebinding, component-helpers storage/volume):
- Claims of a pod are matched smallest first. Each takes the smallest suitable volume of its class: available, in reach
  of the node, large enough, with the requested volume mode, access modes and labels. Names break ties.
- A claim with a reserved volume can only have that volume, which must be large enough and have the volume mode.
- A claim without a match is provisioned if its class has a provisioner, the node is in the class's topologies, and a
  driver that publishes capacities has enough in reach of the node.
- A claim with a selected node for provisioning keeps that node.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kube_rules.controllers.volumes import WAIT_FOR_CONSUMER, class_of, is_provisioned, storage, suits
from kube_rules.quantity import value_of
from kube_rules.selectors import SelectorError, compile_label_selector
from kube_rules.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeNodeAffinity,
)
from reprieve.cluster.node_affinity_masks import Mask, term_mask
from reprieve.cluster.nodes import ABSENT, NodeColumns
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import (
    AssumedPodVolumes,
    VolumeObjects,
    fully_bound,
    key_of,
)

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_NOT_THERE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

NONE = -1
Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Matching:
    """The result of matching a pod's claims on every row.

    `reasons`: text -> bool[rows]. `taken[i]`: int64[rows], the index in `offered[i]` of the volume for `searching[i]`,
    or NONE. `to_provision`: claims with a selected node.
    """

    reasons: dict[str, Mask]
    searching: list[PersistentVolumeClaim] = field(default_factory=list)
    offered: list[list[PersistentVolume]] = field(default_factory=list)
    taken: list[Numbers] = field(default_factory=list)
    to_provision: list[PersistentVolumeClaim] = field(default_factory=list)

    def rejected(self, rows: int) -> Mask:
        """Return `bool[rows]`: the rows on which some claim cannot be satisfied."""
        mask = np.zeros(rows, dtype=np.bool_)
        for reason in self.reasons.values():
            mask |= reason
        return mask

    def on_row(self, row: int) -> tuple[dict[str, PersistentVolume], list[PersistentVolumeClaim]]:
        """Return claim key -> volume, and the claims to provision, for a row that is not rejected."""
        volumes: dict[str, PersistentVolume] = {}
        rest = list(self.to_provision)
        for claim, offered, taken in zip(self.searching, self.offered, self.taken, strict=True):
            number = int(taken[row])
            if number == NONE:
                rest.append(claim)
            else:
                volumes[key_of(claim)] = offered[number]
        return volumes, rest


class VolumeReach:
    """The nodes that reach each volume, cached until nodes change."""

    def __init__(self) -> None:
        self._version: tuple[int, int] | None = None
        self._cluster: ClusterState | None = None
        self._kept: dict[str, tuple[VolumeNodeAffinity | None, Numbers | None]] = {}

    def rows(self, cluster: ClusterState, volume: PersistentVolume) -> Numbers | None:
        """Return the rows that reach a volume, ascending; None: all rows."""
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return None
        nodes = cluster.nodes
        if self._version != nodes.version or self._cluster is not cluster:
            self._version, self._cluster = nodes.version, cluster
            self._kept.clear()
        cached = self._kept.get(volume.metadata.name)
        if cached is None or cached[0] is not affinity:
            mask = np.zeros(len(nodes), dtype=np.bool_)
            for term in affinity.required.node_selector_terms:
                mask |= term_mask(nodes, term)
            cached = self._kept[volume.metadata.name] = (affinity, np.flatnonzero(mask))
        return cached[1]


def delayed(volumes: VolumeObjects, claim: PersistentVolumeClaim) -> bool:
    """Return whether binding waits for a pod: the claim's class requires it, and no volume is named."""
    cls = volumes.classes.get(class_of(claim))
    return cls is not None and cls.volume_binding_mode == WAIT_FOR_CONSUMER and not claim.spec.volume_name


def match(
    cluster: ClusterState,
    reach: VolumeReach,
    bound: Sequence[PersistentVolumeClaim],
    unbound: Sequence[PersistentVolumeClaim],
) -> Matching:
    """Match a pod's claims on every row; volumes that other pods of a trial took are unavailable."""
    store, n = cluster.volumes, len(cluster.nodes)
    result = Matching({})
    _check_bound(cluster, reach, bound, result)
    taken_by_others, chosen_by_others = _unsettled(cluster, reach)
    fixed = np.zeros(n, dtype=np.bool_)
    for claim in unbound:
        node = store.node_of(claim) or chosen_by_others.get(key_of(claim))
        if node is None:
            result.searching.append(claim)
            continue
        elsewhere = np.ones(n, dtype=np.bool_)
        row = cluster.nodes.row_of.get(node)
        if row is not None:
            elsewhere[row] = False
        fixed |= elsewhere
        result.to_provision.append(claim)
    result.searching.sort(key=lambda c: storage(c.spec.resources.requests))
    unmatched: list[Mask] = []
    for claim in result.searching:
        offered, taken = _search(cluster, reach, claim, result, taken_by_others)
        result.offered.append(offered)
        result.taken.append(taken)
        unmatched.append(taken == NONE)
    _check_provisioning(cluster, result, unmatched, fixed)
    return result


def _check_bound(
    cluster: ClusterState, reach: VolumeReach, bound: Iterable[PersistentVolumeClaim], result: Matching
) -> None:
    """Add the reasons of bound claims; on each node the first unusable claim decides."""
    n = len(cluster.nodes)
    fine = np.ones(n, dtype=np.bool_)
    for claim in bound:
        volume = cluster.volumes.volumes.get(claim.spec.volume_name)
        if volume is None:
            result.reasons[VOLUME_NOT_THERE] = fine
            return
        rows = reach.rows(cluster, volume)
        if rows is None:
            continue
        out = np.ones(n, dtype=np.bool_)
        out[rows] = False
        out &= fine
        if out.any():
            conflicting = result.reasons.get(NODE_CONFLICT)
            result.reasons[NODE_CONFLICT] = out if conflicting is None else conflicting | out
            fine = fine & ~out


def _search(
    cluster: ClusterState,
    reach: VolumeReach,
    claim: PersistentVolumeClaim,
    before: Matching,
    assumed_claims: dict[str, str],
) -> tuple[list[PersistentVolume], Numbers]:
    """Return the volumes for one claim, best first, and the index of its volume on each row."""
    store, n = cluster.volumes, len(cluster.nodes)
    taken = np.full(n, NONE, dtype=np.int64)
    key = key_of(claim)
    free: list[tuple[int, str, PersistentVolume]] = []
    labels = compile_label_selector(claim.spec.selector) if claim.spec.selector is not None else None
    for name, volume in store.by_class.get(class_of(claim), {}).items():
        is_own = store.has_volume_for(volume, claim)
        if name in assumed_claims:
            is_own = assumed_claims[name] == key
        if not suits(claim, volume, is_own, labels):
            continue
        if is_own:
            rows = reach.rows(cluster, volume)
            taken[slice(None) if rows is None else rows] = 0
            return [volume], taken
        free.append((storage(volume.spec.capacity), name, volume))
    free.sort(key=lambda entry: entry[:2])
    offered = [volume for _, _, volume in free]
    for number, volume in enumerate(offered):
        rows = reach.rows(cluster, volume)
        open_rows = np.flatnonzero(taken == NONE) if rows is None else rows[taken[rows] == NONE]
        for earlier_offer, earlier_choice in zip(before.offered, before.taken, strict=False):
            at = next((i for i, v in enumerate(earlier_offer) if v is volume), None)
            if at is not None:
                open_rows = open_rows[earlier_choice[open_rows] != at]
        taken[open_rows] = number
        if rows is None and not before.offered:
            break
    return offered, taken


def _check_provisioning(cluster: ClusterState, result: Matching, unmatched: Sequence[Mask], fixed: Mask) -> None:
    """Add the reasons of claims to provision; on each row the first impossible claim decides."""
    n = len(cluster.nodes)
    conflict = fixed.copy()
    full = np.zeros(n, dtype=np.bool_)
    everywhere = np.ones(n, dtype=np.bool_)
    todo = [(claim, everywhere) for claim in result.to_provision]
    todo += list(zip(result.searching, unmatched, strict=True))
    for claim, needed in todo:
        needed = needed & ~conflict & ~full
        if not needed.any():
            continue
        storage_class = cluster.volumes.classes.get(class_of(claim))
        if storage_class is None or not is_provisioned(storage_class):
            conflict |= needed
            continue
        outside = needed & ~topologies_mask(cluster.nodes, storage_class)
        conflict |= outside
        needed = needed & ~outside
        if needed.any():
            enough = _capacity_mask(cluster, storage_class, claim)
            if enough is not None:
                full |= needed & ~enough
    if conflict.any():
        result.reasons[BIND_CONFLICT] = conflict
    if full.any():
        result.reasons[NOT_ENOUGH_SPACE] = full


def topologies_mask(nodes: NodeColumns, storage_class: StorageClass) -> Mask:
    """Return `bool[rows]`: nodes in one of the class's allowed topologies; all if it has none."""
    if not storage_class.allowed_topologies:
        return np.ones(len(nodes), dtype=np.bool_)
    any_term = np.zeros(len(nodes), dtype=np.bool_)
    for term in storage_class.allowed_topologies:
        if not term.match_label_expressions:
            continue
        mask = np.ones(len(nodes), dtype=np.bool_)
        for requirement in term.match_label_expressions:
            column, numbers = nodes.label_column(requirement.key)
            wanted = [numbers[value] for value in requirement.values if value in numbers]
            mask &= (column != ABSENT) & np.isin(column, np.array(wanted, dtype=np.int32))
        any_term |= mask
    return any_term


def _capacity_mask(cluster: ClusterState, storage_class: StorageClass, claim: PersistentVolumeClaim) -> Mask | None:
    """Return `bool[rows]`: nodes in reach of enough capacity; None: the driver publishes no capacity."""
    store = cluster.volumes
    driver = store.drivers.get(storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity or "storage" not in claim.spec.resources.requests:
        return None
    wanted = storage(claim.spec.resources.requests)
    enough = np.zeros(len(cluster.nodes), dtype=np.bool_)
    for capacity in store.capacities.values():
        limit = volume_limit(capacity)
        if capacity.storage_class_name == storage_class.metadata.name and limit is not None and limit >= wanted:
            enough |= capacity_reach(cluster.nodes, capacity)
    return enough


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """Return the size in bytes of the largest possible volume; None: unknown."""
    limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return value_of(limit) if limit is not None else None


def capacity_reach(nodes: NodeColumns, capacity: CSIStorageCapacity) -> Mask:
    """Return `bool[rows]`: nodes that can use the capacity."""
    mask = np.zeros(len(nodes), dtype=np.bool_)
    if capacity.node_topology is None:
        return mask
    try:
        selector = compile_label_selector(capacity.node_topology)
    except SelectorError:
        return mask
    for row in np.flatnonzero(nodes.alive[: len(nodes)]):
        mask[row] = selector.matches(nodes.labels[row])
    return mask


def split(store: VolumeObjects, pod: PodRecord) -> tuple[list[PersistentVolumeClaim], list[PersistentVolumeClaim]]:
    """Return a pod's bound claims and those bound after placement; unknown and immediate claims are left out."""
    bound, unbound = [], []
    names: set[str] = set()
    for used in pod.volumes.claims if pod.volumes is not None else ():
        claim = store.claims.get(used.key)
        if claim is None or used.key in names:
            continue
        names.add(used.key)
        if fully_bound(claim):
            bound.append(claim)
        elif delayed(store, claim):
            unbound.append(claim)
    return bound, unbound


def _unsettled(cluster: ClusterState, reach: VolumeReach) -> tuple[dict[str, str], dict[str, str]]:
    """Return the choices of pods placed earlier in this trial: volume -> claim, and claim -> node for provisioning."""
    taken: dict[str, str] = {}
    chosen: dict[str, str] = {}
    waiting = cluster.volumes.unsettled
    for uid, entry in list(waiting.items()):
        if entry.taken is None:
            rest = {later_uid: waiting.pop(later_uid) for later_uid in list(waiting)[list(waiting).index(uid) :]}
            _settle(cluster, reach, entry)
            waiting.update(rest)
        taken.update(entry.taken or {})
        chosen.update(dict.fromkeys(entry.chosen, cluster.nodes.names[entry.row]))
    return taken, chosen


def _settle(cluster: ClusterState, reach: VolumeReach, entry: AssumedPodVolumes) -> None:
    """Choose volumes for one pod on its row, after the pods before it."""
    bound, unbound = split(cluster.volumes, entry.pod)
    if not unbound:
        entry.taken = {}
        return
    matching = match(cluster, reach, bound, unbound)
    volumes, rest = matching.on_row(entry.row)
    entry.taken = {volume.metadata.name: claim for claim, volume in volumes.items()}
    entry.chosen = frozenset(key_of(claim) for claim in rest)
