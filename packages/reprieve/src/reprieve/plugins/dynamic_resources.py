"""DynamicResources: devices by claim (resource.k8s.io/v1, structured parameters).

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/dynamicresources, 1.36, gates at their defaults):
- A pod waits until all its claims exist; a claim from a template must belong to the pod (PreEnqueue, PreFilter).
- An allocated claim is usable on the nodes of its allocation's node selector, by at most 256 consumers.
- A claim of the pod's PodGroup, with an entry equal to one of the pod's, belongs to the group. It is reserved for the
  group once for all its pods (KEP-5729, gate DRAWorkloadResourceClaims).
- Unallocated claims are allocated together for the node (`reprieve.cluster.device_allocation`). An invalid claim or
  class, such as one with a selector that does not compile, ends the attempt with SchedulerError.
- Score: nodes with an earlier option of a prioritized list rank higher.
- PostFilter, PodGroupPostFilter: an allocated claim that excludes a node for its pod, or for a pod of the group, and
  that no other pod uses is deallocated.
- An extended resource that a device class serves becomes a claim of the pod, created at PreBind (devices.md 4).
- PreBind: the finalizer, then allocation and reservation in one write of the status; then the wait for binding
  conditions of the devices.

Upstream 1.36 treats every failure as final. Here evicting the pods that hold devices may help if the claim controller
would then release the devices (KEP-5690). Filters read the current view, and in the trial of a preemption the victims'
devices are free once all consumers of their claims are evicted.
"""

import itertools
from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kube_rules.devices import MOST_CONSUMERS, DeviceTaintRule, ResourceClaim
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
from reprieve.framework.status import FITS, SKIP, SUCCESS, UNRESOLVABLE, Code, Status

CANNOT_ALLOCATE = "cannot allocate all claims"
NOT_AVAILABLE = "resourceclaim not available on the node"
IN_USE = "resourceclaim in use"
NO_CLAIMS = "no new claims to deallocate"
NOT_SCHEDULABLE = "still not schedulable"
DEALLOCATED = "deallocation of ResourceClaim requested"
TOO_MANY = "too many devices for the claim of extended resources"
LEFT_OVER = "cannot schedule extended resource claim"
"""An earlier attempt created a claim for the pod's extended resources and ended before binding."""
GATE = "DRAWorkloadResourceClaims"
BINDING_TIMEOUT = 600.0

_BITS = 63
"""The number of resources that fit in the bits of an int64."""


@dataclass(slots=True)
class _DeviceNeeds:
    """The claims of one attempt. `refusal` is set if no node can help."""

    allocated: list[ClaimState]
    lacking: list[ClaimState]
    refusal: Status | None = None
    special: ClaimState | None = None
    """The claim for extended resources; its requests depend on the node."""


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

    `binding_timeout`: seconds to wait for devices to become ready. With `group_claims=False` a pod with a claim of its
    PodGroup is rejected, with the name of the gate.
    """

    name = PLUGIN
    scope: ClassVar[Scope] = Scope.CLUSTER
    normalizes: ClassVar[bool] = True

    def __init__(self, *, binding_timeout: float = BINDING_TIMEOUT, group_claims: bool = True) -> None:
        self._binding_timeout = binding_timeout
        self._group_claims = group_claims

    def events(self) -> Hints:
        """Return the events that may help a pod without devices."""
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
        """Reject a pod until all its claims exist."""
        why = self._missing(cluster, pod) if pod.claims else ""
        return Status(Code.UNRESOLVABLE, why, self.name) if why else SUCCESS

    # -- filter -------------------------------------------------------------------------------------------------------

    def concerns(self, state: CycleState) -> bool:
        """Return whether the pod has claims."""
        return bool(state.pod.claims)

    def local(self, state: CycleState) -> bool:
        """Return whether only the pod uses its claims, and every device belongs to one node."""
        book = state.cluster.devices
        return book.index.local and all(len(claim.users) == 1 for claim in book.of(state.pod))

    def likeness(self, state: CycleState) -> Hashable:
        """Return a key for pods with equal claims of their own, unallocated and for local devices; else None."""
        needs, book = self._needs(state), state.cluster.devices
        if needs.refusal is not None or needs.allocated or needs.special is not None or not book.index.local:
            return None
        shapes = tuple([c.shape.id for c in needs.lacking if c.shape is not None and len(c.users) == 1])
        return (book.stamp, shapes) if len(shapes) == len(needs.lacking) else None

    def pre_filter(self, state: CycleState) -> Status:
        """Look up the claims and sort them into allocated and unallocated ones."""
        pod = state.pod
        if not pod.claims:
            return SKIP
        why = self._missing(state.cluster, pod)
        claims = [] if why else state.cluster.devices.of(pod)
        if not why and not claims:
            return SKIP
        special = state.cluster.devices.special(pod)
        claims = [claim for claim in claims if claim is not special]
        need = _DeviceNeeds(
            [c for c in claims if c.allocation is not None], [c for c in claims if c.allocation is None]
        )
        need.special = special
        if special is not None and special.object is not None:
            why = why or LEFT_OVER
        why = why or next(filter(None, (_in_use(state.cluster, claim, pod) for claim in need.allocated)), "")
        why = why or next(filter(None, (_without_class(state.cluster, claim) for claim in need.lacking)), "")
        if why:
            need.refusal = Status(Code.UNRESOLVABLE, why, self.name)
        state.data[self.name] = need
        return need.refusal or SUCCESS

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        needs = self._needs(state)
        if needs.refusal is not None:
            return np.full(row_count(state.cluster, rows), UNRESOLVABLE, dtype=np.int8)
        numbers = _numbers(state.cluster, rows)
        codes: Codes = np.zeros(len(numbers), dtype=np.int8)
        reachable = self._reachable(state, needs, numbers)
        codes[~reachable] = UNRESOLVABLE
        for where, view in self._views(state, needs, np.flatnonzero(reachable), numbers):
            codes[where] = view.codes[numbers[where]] if view is not None else UNRESOLVABLE
        return codes

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        needs = self._needs(state)
        if needs.refusal is not None:
            return [(needs.refusal.reason, np.ones(row_count(state.cluster, rows), dtype=np.bool_))]
        numbers = _numbers(state.cluster, rows)
        reachable = self._reachable(state, needs, numbers)
        texts: dict[str, Mask] = {}
        if not reachable.all():
            texts[NOT_AVAILABLE] = ~reachable
        for where, view in self._views(state, needs, np.flatnonzero(reachable), numbers):
            for index in where[view.codes[numbers[where]] != FITS] if view is not None else where:
                text = view.faults.get(int(numbers[index]), CANNOT_ALLOCATE) if view is not None else TOO_MANY
                texts.setdefault(text, np.zeros(len(numbers), dtype=np.bool_))[index] = True
        return list(texts.items())

    def _views(
        self, state: CycleState, needs: _DeviceNeeds, where: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], DeviceVerdicts | None]]:
        """Yield positions in `numbers` with the verdicts there, by the resources that device classes serve.

        None: the claim for extended resources would need more devices than a claim can have.
        """
        book, nodes = state.cluster.devices, state.cluster.nodes
        if needs.special is None or needs.special.object is not None:
            if needs.lacking:
                yield where, book.verdicts(needs.lacking, numbers[where])
            return
        asks = state.pod.signature.extended
        served = sorted({name for ask in asks for name, _, _ in ask.amounts if name in book.served})
        if not served or not len(where):
            return
        by_resource = np.stack([nodes.by_devices(name)[numbers[where]] for name in served])
        if len(served) < _BITS:
            kinds = by_resource.T @ (1 << np.arange(len(served), dtype=np.int64))
        else:
            kinds = np.unique(by_resource, axis=1, return_inverse=True)[1].reshape(-1)
        for kind in np.unique(kinds):
            alike = kinds == kind
            claims, positions = list(needs.lacking), where[alike]
            shaped = book.shape_for(
                state.pod, frozenset(itertools.compress(served, by_resource[:, alike.argmax()].tolist()))
            )
            if shaped is not None and sum(option.count for option in shaped[0].options) > MOST_RESULTS:
                yield positions, None
                continue
            if shaped is not None:
                claims.append(ClaimState(needs.special.key, shape=shaped[0]))
            if claims:
                yield positions, book.verdicts(claims, numbers[positions])

    def _missing(self, cluster: ClusterState, pod: PodRecord) -> str:
        shared = (group for claim in pod.claims if (group := cluster.devices.sharing(pod, claim)) is not None)
        if not self._group_claims and (group := next(shared, None)) is not None:
            return f"PodGroup {group.key}, spec.resourceClaims: the feature gate {GATE} is off"
        return missing(cluster, pod)

    def _reachable(self, state: CycleState, needs: _DeviceNeeds, rows: npt.NDArray[np.int64]) -> Mask:
        """Return `bool[len(rows)]`: the rows on which all allocated claims are usable."""
        mask: Mask = np.ones(len(rows), dtype=np.bool_)
        for claim in needs.allocated:
            if _failed(claim) or (claim.allocation is not None and state.cluster.devices.evicting(claim.allocation)):
                mask[:] = False
            elif claim.allocation is not None:
                mask &= _usable_on(state.cluster, claim.allocation, rows)
        return mask

    def _needs(self, state: CycleState) -> _DeviceNeeds:
        result = state.data[self.name]
        assert isinstance(result, _DeviceNeeds)
        return result

    # -- post filter --------------------------------------------------------------------------------------------------

    def post_filter(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        """Deallocate a claim of the pod if its devices exclude nodes."""
        needs = state.data.get(self.name)
        if not isinstance(needs, _DeviceNeeds):
            return PostFilterResult(Status(Code.UNSCHEDULABLE, NO_CLAIMS, self.name))
        left_over = leftover_deletion(needs.special)
        if left_over is not None:
            status = Status(Code.UNSCHEDULABLE, DEALLOCATED, self.name)
            return PostFilterResult(status, deferred_writes=(left_over,))
        alive = np.flatnonzero(state.cluster.nodes.alive[: len(state.cluster.nodes)])
        for claim in needs.allocated:
            if claim.pods_only and _in_the_way(state.cluster, claim, {state.pod.uid}, alive):
                deferred_writes = (give_back(claim),)
                return PostFilterResult(
                    Status(Code.UNSCHEDULABLE, DEALLOCATED, self.name), deferred_writes=deferred_writes
                )
        return PostFilterResult(Status(Code.UNSCHEDULABLE, NOT_SCHEDULABLE, self.name))

    def pod_group_post_filter(self, attempt: PodGroupAttempt) -> PostFilterResult:
        """Deallocate claims of a group and its pods that none of them uses.

        Upstream 1.37 leaves claims reserved for a PodGroup allocated; here all pods of the group are known.
        """
        cluster, group = attempt.cluster, attempt.group
        waiting = {pod.uid for pod in attempt.pods}
        alive = np.flatnonzero(cluster.nodes.alive[: len(cluster.nodes)])
        claims = {} if attempt.preemption_under_way else {c.key: c for p in attempt.pods for c in cluster.devices.of(p)}
        releasable = [claim for claim in claims.values() if _in_the_way(cluster, claim, waiting, alive, group.uid)]
        deferred_writes: tuple[Instruction, ...] = tuple(give_back(claim) for claim in releasable)
        left_over = (leftover_deletion(cluster.devices.special(pod)) for pod in attempt.pods)
        deferred_writes += tuple(item for item in left_over if item is not None)
        message = DEALLOCATED if deferred_writes else ""
        return PostFilterResult(Status(Code.UNSCHEDULABLE, message, self.name), deferred_writes=deferred_writes)

    # -- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState) -> bool:
        """Return whether a claim has a prioritized list."""
        if not state.pod.claims:
            return False
        need = state.data.get(self.name)
        if not isinstance(need, _DeviceNeeds):
            self.pre_filter(state)
            need = state.data.get(self.name)
        return isinstance(need, _DeviceNeeds) and any(c.shape is not None and c.shape.prioritized for c in need.lacking)

    def score(self, state: CycleState, rows: Rows) -> Scores:
        numbers = _numbers(state.cluster, rows)
        scores: Scores = np.zeros(len(numbers), dtype=np.int64)
        for where, view in self._views(state, self._needs(state), np.arange(len(numbers)), numbers):
            rows_there = numbers[where]
            if view is not None:
                scores[where] = np.where(view.codes[rows_there] == FITS, view.scores[rows_there], 0)
        return scores

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Scale the scores so that the best node gets 100."""
        return default_normalize(scores, reverse=False)

    # -- reserve and bind ---------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, row: int) -> Status:
        """Return an error if a claim of the pod was not allocated when the pod was placed."""
        pod = state.pod
        book = state.cluster.devices
        special = book.special(pod)
        for claim in book.of(pod) if pod.claims else ():
            if claim is special and claim.allocation is None and book.special_shape(pod, row) is None:
                continue  # the node provides all extended resources itself
            if claim.allocation is None or pod.uid not in claim.assumptions.holders:
                return Status(Code.ERROR, f"claim allocation of {claim.key} not found for node", self.name)
        return SUCCESS

    def give_up(self, state: CycleState, row: int) -> Sequence[Instruction]:
        """Return the writes that remove the reservations and claims of a pod that is not bound after all."""
        result: list[Instruction] = []
        book, pod = state.cluster.devices, state.pod
        special = book.special(pod)
        if special is not None and not pod.bound and (special.object is not None or book.special_shape(pod, row)):
            result.append(removal(pod.namespace, claim_name(pod.name, pod.uid), special.object))
        for claim in book.of(pod) if pod.claims else ():
            if claim is special:
                continue
            if claim.object is None or claim.assumptions.holders - {state.pod.uid}:
                continue
            if claim.consumers <= {state.pod.uid} and claim.pods_only:
                result.append(give_back(claim))
        return result

    def pre_bind(self, state: CycleState, row: int) -> Sequence[Instruction]:
        """Write finalizer, allocation and reservation; then wait for the devices to become ready."""
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
    """Return why the pod's claims cannot be used yet, in upstream's words; "" if they all exist."""
    for claim in pod.claims:
        if claim.extended:
            continue  # it is created when the pod is bound
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
    """Return why the pod, or its group, cannot become another consumer; "" if it can."""
    book = cluster.devices
    listed = {("pods", uid) for uid in claim.consumers} | {("podgroups", uid) for uid in claim.groups}
    users = [user for uid in claim.assumptions.holders if (user := cluster.pods.get(uid)) is not None]
    listed |= {_consumer(user, book.reserver(user, claim)) for user in users}
    return IN_USE if len(listed) >= MOST_CONSUMERS and _consumer(pod, book.reserver(pod, claim)) not in listed else ""


def _consumer(pod: PodRecord, group: GroupState | None) -> tuple[str, str]:
    return ("pods", pod.uid) if group is None else ("podgroups", group.uid)


def _in_the_way(
    cluster: ClusterState, claim: ClaimState, waiting: Set[str], rows: npt.NDArray[np.int64], group: str = ""
) -> bool:
    """Return whether a claim is allocated only for pending pods, or their group, and excludes some node.

    `waiting`: UIDs of the pods. `group`: the UID of their group. No pod uses a claim reserved for it unless one of the
    claim's pods is placed.
    """
    allocation = claim.stated
    if allocation is None or claim.assumptions.holders or claim.strangers:
        return False
    if not claim.consumers <= waiting or not claim.groups <= {group}:
        return False
    if _failed(claim) or cluster.devices.evicting(allocation):
        return True
    return not _usable_on(cluster, allocation, rows).all()


def _without_class(cluster: ClusterState, claim: ClaimState) -> str:
    """Return a message about a missing class of a request, or ""."""
    for option in claim.shape.options if claim.shape is not None else ():
        if option.class_name and option.class_name not in cluster.devices.classes:
            return f"request {option.name}: device class {option.class_name} does not exist"
    return ""


def _usable_on(cluster: ClusterState, allocation: Allocation, rows: npt.NDArray[np.int64]) -> Mask:
    """Return `bool[len(rows)]`: the rows that the allocation's node selector matches."""
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
    """Return whether a device of the claim has a binding failure condition."""
    if claim.object is None or claim.stated is None or not any(g.failure_conditions for g in claim.stated.grants):
        return False
    return readiness(claim.key, claim.object, claim.stated.grants).code is Code.UNSCHEDULABLE


# -- hints ------------------------------------------------------------------------------------------------------------


def _still_there(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether a slice or class was added or changed; a removed one does not help."""
    return event.item is not None


def _taints_less(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether a blocking rule was removed, or now selects other devices or sets another taint."""
    before, after = event.before, event.item
    if not isinstance(before, DeviceTaintRule) or before.spec.taint.effect not in BLOCKING:
        return False
    if not isinstance(after, DeviceTaintRule):
        return True
    taint, new_taint = before.spec.taint, after.spec.taint
    same = (taint.key, taint.value, taint.effect) == (new_taint.key, new_taint.value, new_taint.effect)
    return not same or before.spec.device_selector != after.spec.device_selector


def _claim_helps(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether devices were released, or a claim of the pod is new or changed its status."""
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
    """Return whether a pod with claims lost its place or nomination, which frees assumed devices."""
    return event.pod is not None and bool(event.pod.claims)
