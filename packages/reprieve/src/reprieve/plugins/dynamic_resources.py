"""DynamicResources: devices by claim (resource.k8s.io/v1, structured parameters).

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/dynamicresources, 1.36, gates at their defaults):
- A pod waits until all its claims exist; one made from a template has to belong to the pod (PreEnqueue, PreFilter).
- An allocated claim can be used where its allocation's node selector says, by at most 256 consumers.
- A claim of the pod's PodGroup - the pod's entry is equal to one of the group's - belongs to the group and is reserved
  for it, once for all its pods (KEP-5729, gate DRAWorkloadResourceClaims).
- Claims that are not allocated are allocated together for the node (`reprieve.cluster.device_allocation`); what is
  wrong with a claim or class - a selector that does not compile, say - ends the attempt with SchedulerError.
- Score: nodes where a prioritized list is served with an earlier option rank higher.
- PostFilter, PodGroupPostFilter: an allocated claim that keeps its pod, or a pod of the group, from a node and that
  no other pod uses is given back.
- An extended resource that a device class serves becomes a claim of the pod's own, made at PreBind (devices.md 4).
- PreBind: the finalizer, then allocation and reservation in one write of the status; then the wait for binding
  conditions of the devices.

Where upstream of 1.36 takes every failure for final, here evicting the pods that hold devices may help if the claim
controller would then give the devices back (KEP-5690): filters ask what the view says, and in a preemption's trial the
victims' devices are free once all consumers of their claims are gone.
"""

import itertools
from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kube_rules.devices import DeviceTaintRule, ResourceClaim
from kube_rules.meta import KubernetesObject
from reprieve.cluster.claim_states import ClaimState, DeviceVerdicts
from reprieve.cluster.device_allocation import BLOCKING
from reprieve.cluster.device_requests import MOST_RESULTS, Allocation
from reprieve.cluster.extended_resources import claim_name, owner_of
from reprieve.cluster.groups import GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.claim_writes import (
    PLUGIN,
    creation,
    give_back,
    leftover_deletion,
    readiness,
    removal,
    reservation,
)
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.events import ClusterEvent, EventKind, Hints, always
from reprieve.framework.instructions import AwaitObject, Instruction
from reprieve.framework.plugin import (
    Codes,
    CycleState,
    FilterPlugin,
    Mask,
    PodGroupAttempt,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    ReservePlugin,
    Rows,
    Scope,
    ScorePlugin,
    Scores,
    default_normalize,
    row_count,
)
from reprieve.framework.status import FITS, SUCCESS, UNRESOLVABLE, Code, Status

CANNOT_ALLOCATE = "cannot allocate all claims"
NOT_AVAILABLE = "resourceclaim not available on the node"
IN_USE = "resourceclaim in use"
NO_CLAIMS = "no new claims to deallocate"
NOT_SCHEDULABLE = "still not schedulable"
DEALLOCATED = "deallocation of ResourceClaim requested"
TOO_MANY = "too many devices for the claim of extended resources"
LEFT_OVER = "cannot schedule extended resource claim"
"""A claim for the pod's extended resources was made by an attempt that ended before the pod was bound."""
GATE = "DRAWorkloadResourceClaims"
MOST_CONSUMERS = 256
"""Entries of status.reservedFor (resourceapi.ResourceClaimReservedForMaxSize)."""
BINDING_TIMEOUT = 600.0

_BITS = 63
"""Resources that can be distinguished by the bits of a number."""
_SKIP = Status(Code.SKIP)


@dataclass(slots=True)
class _Asked:
    """What one attempt asks for. `refusal` is set where no node can help."""

    allocated: list[ClaimState]
    lacking: list[ClaimState]
    refusal: Status | None = None
    special: ClaimState | None = None
    """The claim for extended resources; what it asks for depends on the node."""


class DynamicResources(
    PreEnqueuePlugin,
    FilterPlugin,
    PostFilterPlugin,
    PodGroupPostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
):
    """See the module docstring. Default weight 2.

    `binding_timeout`: seconds to wait for devices to be ready. `group_claims` False: a pod that means a claim of its
    PodGroup is refused, with the name of the gate.
    """

    name = PLUGIN
    scope: ClassVar[Scope] = Scope.CLUSTER
    normalizes: ClassVar[bool] = True

    def __init__(self, *, binding_timeout: float = BINDING_TIMEOUT, group_claims: bool = True) -> None:
        self._binding_timeout = binding_timeout
        self._group_claims = group_claims

    def events(self) -> Hints:
        """What may help a pod that lacks devices."""
        return {
            EventKind.NODE_ADDED: always,
            EventKind.NODE_CHANGED: always,
            EventKind.DEVICE_SLICE_CHANGED: _still_there,
            EventKind.DEVICE_CLASS_CHANGED: _still_there,
            EventKind.DEVICE_TAINT_RULE_CHANGED: _taints_less,
            EventKind.DEVICE_CLAIM_CHANGED: _claim_helps,
            EventKind.POD_GONE: _gave_up_devices,
        }

    # -- before the cycle ---------------------------------------------------------------------------------------------

    def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
        """All claims are there."""
        why = self._missing(cluster, pod) if pod.claims else ""
        return Status(Code.UNRESOLVABLE, why, self.name) if why else SUCCESS

    # -- filter -------------------------------------------------------------------------------------------------------

    def concerns(self, state: CycleState) -> bool:
        """The pod names claims."""
        return bool(state.pod.claims)

    def local(self, state: CycleState) -> bool:
        """The claims are the pod's alone, and every device belongs to one node."""
        book = state.cluster.devices
        return book.index.local and all(len(claim.users) == 1 for claim in book.of(state.pod))

    def likeness(self, state: CycleState) -> Hashable:
        """Claims of its own, of a pod with nothing yet, that ask for the same of devices which belong to one node."""
        asked, book = self._asked(state), state.cluster.devices
        if asked.refusal is not None or asked.allocated or asked.special is not None or not book.index.local:
            return None
        shapes = tuple([c.shape.id for c in asked.lacking if c.shape is not None and len(c.users) == 1])
        return (book.stamp, shapes) if len(shapes) == len(asked.lacking) else None

    def pre_filter(self, state: CycleState) -> Status:
        """Look the claims up and sort them into those that have devices and those that lack them."""
        pod = state.pod
        if not pod.claims:
            return _SKIP
        why = self._missing(state.cluster, pod)
        claims = [] if why else state.cluster.devices.of(pod)
        if not why and not claims:
            return _SKIP
        special = state.cluster.devices.special(pod)
        claims = [claim for claim in claims if claim is not special]
        asked = _Asked([c for c in claims if c.allocation is not None], [c for c in claims if c.allocation is None])
        asked.special = special
        if special is not None and special.object is not None:
            why = why or LEFT_OVER
        why = why or next(filter(None, (_in_use(state.cluster, claim, pod) for claim in asked.allocated)), "")
        why = why or next(filter(None, (_without_class(state.cluster, claim) for claim in asked.lacking)), "")
        if why:
            asked.refusal = Status(Code.UNRESOLVABLE, why, self.name)
        state.data[self.name] = asked
        return asked.refusal or SUCCESS

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        asked = self._asked(state)
        if asked.refusal is not None:
            return np.full(row_count(state.cluster, rows), UNRESOLVABLE, dtype=np.int8)
        numbers = _numbers(state.cluster, rows)
        codes: Codes = np.zeros(len(numbers), dtype=np.int8)
        reachable = self._reachable(state, asked, numbers)
        codes[~reachable] = UNRESOLVABLE
        for where, view in self._views(state, asked, np.flatnonzero(reachable), numbers):
            codes[where] = view.codes[numbers[where]] if view is not None else UNRESOLVABLE
        return codes

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        asked = self._asked(state)
        if asked.refusal is not None:
            return [(asked.refusal.reason, np.ones(row_count(state.cluster, rows), dtype=np.bool_))]
        numbers = _numbers(state.cluster, rows)
        reachable = self._reachable(state, asked, numbers)
        texts: dict[str, Mask] = {}
        if not reachable.all():
            texts[NOT_AVAILABLE] = ~reachable
        for where, view in self._views(state, asked, np.flatnonzero(reachable), numbers):
            for index in where[view.codes[numbers[where]] != FITS] if view is not None else where:
                text = view.faults.get(int(numbers[index]), CANNOT_ALLOCATE) if view is not None else TOO_MANY
                texts.setdefault(text, np.zeros(len(numbers), dtype=np.bool_))[index] = True
        return list(texts.items())

    def _views(
        self, state: CycleState, asked: _Asked, where: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], DeviceVerdicts | None]]:
        """Places in `numbers` with what is to be had there: apart where device classes serve other resources.

        None: more devices would have to come by the claim for extended resources than a claim can have.
        """
        book, nodes = state.cluster.devices, state.cluster.nodes
        if asked.special is None or asked.special.object is not None:
            if asked.lacking:
                yield where, book.verdicts(asked.lacking, numbers[where])
            return
        asks = state.pod.signature.extended
        served = sorted({name for ask in asks for name, _, _ in ask.amounts if name in book.served})
        if not served or not len(where):
            return
        there = np.stack([nodes.by_devices(name)[numbers[where]] for name in served])
        if len(served) < _BITS:
            kinds = there.T @ (1 << np.arange(len(served), dtype=np.int64))
        else:
            kinds = np.unique(there, axis=1, return_inverse=True)[1].reshape(-1)
        for kind in np.unique(kinds):
            alike = kinds == kind
            claims, here = list(asked.lacking), where[alike]
            shaped = book.shape_for(state.pod, frozenset(itertools.compress(served, there[:, alike.argmax()].tolist())))
            if shaped is not None and sum(option.count for option in shaped[0].options) > MOST_RESULTS:
                yield here, None
                continue
            if shaped is not None:
                claims.append(ClaimState(asked.special.key, shape=shaped[0]))
            if claims:
                yield here, book.verdicts(claims, numbers[here])

    def _missing(self, cluster: ClusterState, pod: PodRecord) -> str:
        shared = (group for claim in pod.claims if (group := cluster.devices.sharing(pod, claim)) is not None)
        if not self._group_claims and (group := next(shared, None)) is not None:
            return f"PodGroup {group.key}, spec.resourceClaims: the feature gate {GATE} is off"
        return missing(cluster, pod)

    def _reachable(self, state: CycleState, asked: _Asked, rows: npt.NDArray[np.int64]) -> Mask:
        """`bool[len(rows)]`: where all claims that are allocated can be used."""
        mask: Mask = np.ones(len(rows), dtype=np.bool_)
        for claim in asked.allocated:
            if _failed(claim) or (claim.allocation is not None and state.cluster.devices.evicting(claim.allocation)):
                mask[:] = False
            elif claim.allocation is not None:
                mask &= _usable_on(state.cluster, claim.allocation, rows)
        return mask

    def _asked(self, state: CycleState) -> _Asked:
        result = state.data[self.name]
        assert isinstance(result, _Asked)
        return result

    # -- when nothing fits --------------------------------------------------------------------------------------------

    def post_filter(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        """Give back a claim of the pod's own with devices that are of no use to it."""
        asked = state.data.get(self.name)
        if not isinstance(asked, _Asked):
            return PostFilterResult(Status(Code.UNSCHEDULABLE, NO_CLAIMS, self.name))
        left_over = leftover_deletion(asked.special)
        if left_over is not None:
            status = Status(Code.UNSCHEDULABLE, DEALLOCATED, self.name)
            return PostFilterResult(status, deferred_writes=(left_over,))
        alive = np.flatnonzero(state.cluster.nodes.alive[: len(state.cluster.nodes)])
        for claim in asked.allocated:
            if claim.pods_only and _in_the_way(state.cluster, claim, {state.pod.uid}, alive):
                deferred_writes = (give_back(claim),)
                return PostFilterResult(
                    Status(Code.UNSCHEDULABLE, DEALLOCATED, self.name), deferred_writes=deferred_writes
                )
        return PostFilterResult(Status(Code.UNSCHEDULABLE, NOT_SCHEDULABLE, self.name))

    def pod_group_post_filter(self, attempt: PodGroupAttempt) -> PostFilterResult:
        """Return the same for a group: what its pods, or the group itself, have and none of them uses.

        Upstream of 1.37 leaves what is reserved for a PodGroup allocated; here all pods of the group are known.
        """
        cluster, group = attempt.cluster, attempt.group
        waiting = {pod.uid for pod in attempt.pods}
        alive = np.flatnonzero(cluster.nodes.alive[: len(cluster.nodes)])
        claims = {} if attempt.preemption_under_way else {c.key: c for p in attempt.pods for c in cluster.devices.of(p)}
        found = [claim for claim in claims.values() if _in_the_way(cluster, claim, waiting, alive, group.uid)]
        deferred_writes: tuple[Instruction, ...] = tuple(give_back(claim) for claim in found)
        left_over = (leftover_deletion(cluster.devices.special(pod)) for pod in attempt.pods)
        deferred_writes += tuple(item for item in left_over if item is not None)
        message = DEALLOCATED if deferred_writes else ""
        return PostFilterResult(Status(Code.UNSCHEDULABLE, message, self.name), deferred_writes=deferred_writes)

    # -- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState) -> bool:
        """Only a choice of options makes a difference."""
        if not state.pod.claims:
            return False
        asked = state.data.get(self.name)
        if not isinstance(asked, _Asked):
            self.pre_filter(state)
            asked = state.data.get(self.name)
        return isinstance(asked, _Asked) and any(c.shape is not None and c.shape.prioritized for c in asked.lacking)

    def score(self, state: CycleState, rows: Rows) -> Scores:
        numbers = _numbers(state.cluster, rows)
        scores: Scores = np.zeros(len(numbers), dtype=np.int64)
        for where, view in self._views(state, self._asked(state), np.arange(len(numbers)), numbers):
            rows_there = numbers[where]
            if view is not None:
                scores[where] = np.where(view.codes[rows_there] == FITS, view.scores[rows_there], 0)
        return scores

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """The best node gets 100."""
        return default_normalize(scores, reverse=False)

    # -- reserve and bind ---------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, row: int) -> Status:
        """Return what the pod was given when it was put on the node has to be there."""
        pod = state.pod
        book = state.cluster.devices
        special = book.special(pod)
        for claim in book.of(pod) if pod.claims else ():
            if claim is special and claim.allocation is None and book.special_shape(pod, row) is None:
                continue  # the node has all of it itself
            if claim.allocation is None or pod.uid not in claim.held.holders:
                return Status(Code.ERROR, f"claim allocation of {claim.key} not found for node", self.name)
        return SUCCESS

    def give_up(self, state: CycleState, row: int) -> Sequence[Instruction]:
        """Return what the API may have of a pod that is not bound after all: its reservations, and what only it
        reserved.
        """
        result: list[Instruction] = []
        book, pod = state.cluster.devices, state.pod
        special = book.special(pod)
        if special is not None and not pod.bound and (special.object is not None or book.special_shape(pod, row)):
            result.append(removal(pod.namespace, claim_name(pod.name, pod.uid), special.object))
        for claim in book.of(pod) if pod.claims else ():
            if claim is special:
                continue
            if claim.object is None or claim.held.holders - {state.pod.uid}:
                continue
            if claim.consumers <= {state.pod.uid} and claim.pods_only:
                result.append(give_back(claim))
        return result

    def pre_bind(self, state: CycleState, row: int) -> Sequence[Instruction]:
        """Write what was decided: finalizer, allocation and reservation; then wait for devices to be ready."""
        pod = state.pod
        result: list[Instruction] = []
        waits: list[Instruction] = []
        special = state.cluster.devices.special(pod)
        for claim in state.cluster.devices.of(pod) if pod.claims else ():
            allocation = claim.allocation
            if claim is special and claim.object is None and allocation is not None:
                result += creation(state.cluster, pod, row, allocation)
                if any(grant.binding_conditions for grant in allocation.grants):
                    name = claim_name(pod.name, pod.uid)
                    waits.append(self._wait(pod.namespace, name, allocation))
            if allocation is None or claim.object is None:
                continue
            group = state.cluster.devices.reserver(pod, claim)
            if pod.uid not in claim.consumers if group is None else group.uid not in claim.groups:
                result += reservation(claim, allocation, pod, group)
            if any(grant.binding_conditions for grant in allocation.grants):
                meta = claim.claim.metadata
                waits.append(self._wait(meta.namespace or "default", meta.name, allocation))
        return [*result, *waits]

    def _wait(self, namespace: str, name: str, allocation: Allocation) -> AwaitObject:
        key = f"{namespace}/{name}"

        def done(item: KubernetesObject | None) -> Status:
            if not isinstance(item, ResourceClaim):
                return Status(Code.UNSCHEDULABLE, f"claim {key} is gone", self.name)
            return readiness(key, item, allocation.grants)

        return AwaitObject("ResourceClaim", namespace, name, done, self._binding_timeout)


# -- claims of a pod --------------------------------------------------------------------------------------------------


def missing(cluster: ClusterState, pod: PodRecord) -> str:
    """Return why the pod's claims cannot be used yet; "" if they are all there (upstream's messages)."""
    for claim in pod.claims:
        if claim.extended:
            continue  # it is made when the pod is bound
        if not claim.known:
            return f"Pod {pod.key}, spec.resourceClaim {claim.name}: none of the supported fields are set"
        if not claim.made:
            return f"Pod {pod.key}: ResourceClaim not created yet"
        if claim.claim is None:
            continue
        state = cluster.devices.claims.get(f"{pod.namespace}/{claim.claim}")
        if state is None or state.object is None:
            return f'resourceclaim.resource.k8s.io "{claim.claim}" not found'
        meta = state.object.metadata
        if meta.deletion_timestamp is not None:
            return f'resourceclaim "{claim.claim}" is being deleted'
        group = cluster.devices.sharing(pod, claim)
        kind, key, uid = ("Pod", pod.key, pod.uid) if group is None else ("PodGroup", group.key, group.uid)
        if claim.generated and not any(o.controller and o.uid == uid for o in meta.owner_references):
            return f"ResourceClaim {state.key} was not created for {kind} {key} ({kind} is not owner)"
        if state.fault:
            return state.fault
    return ""


def _in_use(cluster: ClusterState, claim: ClaimState, pod: PodRecord) -> str:
    """ "" or why the pod, or its group, cannot become one more consumer."""
    book = cluster.devices
    listed = {("pods", uid) for uid in claim.consumers} | {("podgroups", uid) for uid in claim.groups}
    users = [user for uid in claim.held.holders if (user := cluster.pods.get(uid)) is not None]
    listed |= {_consumer(user, book.reserver(user, claim)) for user in users}
    return IN_USE if len(listed) >= MOST_CONSUMERS and _consumer(pod, book.reserver(pod, claim)) not in listed else ""


def _consumer(pod: PodRecord, group: GroupState | None) -> tuple[str, str]:
    return ("pods", pod.uid) if group is None else ("podgroups", group.uid)


def _in_the_way(
    cluster: ClusterState, claim: ClaimState, waiting: Set[str], rows: npt.NDArray[np.int64], group: str = ""
) -> bool:
    """Return whether a claim is allocated only for pods that wait, or their group, and keeps them from some node.

    `waiting`: UIDs of the pods. `group`: the UID of their group; a claim reserved for it is used by no pod as long as
    no pod that names it has a place.
    """
    allocation = claim.stated
    if allocation is None or claim.held.holders or claim.strangers:
        return False
    if not claim.consumers <= waiting or not claim.groups <= {group}:
        return False
    if _failed(claim) or cluster.devices.evicting(allocation):
        return True
    return not _usable_on(cluster, allocation, rows).all()


def _without_class(cluster: ClusterState, claim: ClaimState) -> str:
    """ "" or the class that a request names and that does not exist."""
    for option in claim.shape.options if claim.shape is not None else ():
        if option.class_name and option.class_name not in cluster.devices.classes:
            return f"request {option.name}: device class {option.class_name} does not exist"
    return ""


def _usable_on(cluster: ClusterState, allocation: Allocation, rows: npt.NDArray[np.int64]) -> Mask:
    """`bool[len(rows)]`: the allocation's node selector."""
    nodes = cluster.nodes
    selector = allocation.selector
    if selector is None:
        return np.ones(len(rows), dtype=np.bool_)
    only = allocation.only_node
    if only is not None:
        mask: Mask = rows == nodes.row_of.get(only, -1)
        return mask
    return np.array([selector.matches(nodes.labels[row], nodes.names[row]) for row in rows.tolist()], dtype=np.bool_)


def _numbers(cluster: ClusterState, rows: Rows) -> npt.NDArray[np.int64]:
    return np.arange(len(cluster.nodes), dtype=np.int64)[rows] if isinstance(rows, slice) else rows


def _failed(claim: ClaimState) -> bool:
    """Return whether a device of the claim has a condition that it cannot be bound."""
    if claim.object is None or claim.stated is None or not any(g.failure_conditions for g in claim.stated.grants):
        return False
    return readiness(claim.key, claim.object, claim.stated.grants).code is Code.UNSCHEDULABLE


# -- hints ------------------------------------------------------------------------------------------------------------


def _still_there(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    """A slice or class that is new or changed may help, one that is gone does not."""
    return event.item is not None


def _taints_less(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    """A rule that kept pods from devices is gone, or is about other devices or another taint now."""
    before, after = event.before, event.item
    if not isinstance(before, DeviceTaintRule) or before.spec.taint.effect not in BLOCKING:
        return False
    if not isinstance(after, DeviceTaintRule):
        return True
    taint, other = before.spec.taint, after.spec.taint
    same = (taint.key, taint.value, taint.effect) == (other.key, other.value, other.effect)
    return not same or before.spec.device_selector != after.spec.device_selector


def _claim_helps(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """Devices were given back, or a claim of the pod's own is new or has another status."""
    before, after = event.before, event.item
    if isinstance(before, ResourceClaim) and after is None and owner_of(before) == pod.uid:
        return True
    had = before.status.allocation if isinstance(before, ResourceClaim) else None
    has = after.status.allocation if isinstance(after, ResourceClaim) else None
    if had is not None and has is None:
        return True
    if not isinstance(after, ResourceClaim) or missing(cluster, pod):
        return False
    if after.full_key not in pod.claim_keys:
        return False
    return not isinstance(before, ResourceClaim) or before.status != after.status


def _gave_up_devices(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    """A pod with claims gave up its place or its nomination: what was only assumed for it is free."""
    return event.pod is not None and bool(event.pod.claims)
