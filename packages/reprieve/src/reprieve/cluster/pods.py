"""Pods as the scheduler sees them: one small record each.

A record is *pending* (`row < 0`), *assumed* or *bound* (`row >= 0`); only callers distinguish the last two. Rows are
those of `reprieve.cluster.nodes.NodeColumns`.

Invariant: only `reprieve.cluster.state.ClusterState` changes `row` and `nominated`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from kube_rules import objects
from kube_rules.durations import readable_time
from kube_rules.meta import DISRUPTION_TARGET, LAST_APPLIED, ObjectMeta, map_field
from kube_rules.work_annotations import DOMAIN, NO_WORK_TERMS, WorkTerms, work_terms_of
from reprieve.cluster.label_classes import LabelClass
from reprieve.cluster.pod_volumes import PodVolumes, volumes_of
from reprieve.cluster.signature import PodSpecSignature, SignatureTable

NO_ROW = -1
_EMPTY: Mapping[str, str] = {}
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
Owner = tuple[str, str, str]
"""(apiVersion, kind, name) of the controller."""


MOVED: Final = f"{DOMAIN}Moved"
"""The condition of a pod that moves to another node, of its replacement, and of the pod for which units move (moving.md
4.6).
"""
_MOVES_TO: Final = " moves to "
_FOR_IT: Final = " moved for it"
_DIGITS: Final = 6
_seconds: Final = lru_cache(maxsize=1024)(float)
"""Number of seconds -> one float object, shared by all pods with this grace period."""


class MoveTrace(NamedTuple):
    """A move of units. `when`: the time of the decision, in seconds since the epoch.

    For a moving pod: the names of its unit and of its node. For the pod that they move for: the number of units.
    """

    when: float
    unit: str = ""
    node: str = ""
    units: int = 1


class PodClaim(NamedTuple):
    """An entry of spec.resourceClaims[] together with the pod's status.

    `claim` is the name of the ResourceClaim. None: not created yet, or, with `made`, not needed.
    """

    name: str
    claim: str | None
    generated: bool
    """Created from a template: the claim must belong to the pod."""
    made: bool
    known: bool = True
    """False: a reference of an unknown kind."""
    template: str | None = None
    """The name of its ResourceClaimTemplate."""
    extended: bool = False
    """Not in the spec: the claim for extended resources that device classes serve (devices.md 4)."""

    @property
    def reference(self) -> tuple[str, str | None, str | None]:
        """Return the name, claim and template from the pod's spec, to compare with the claims of its group."""
        return self.name, None if self.generated else self.claim, self.template


class PodRecord(msgspec.Struct, eq=False, gc=False, kw_only=True):
    """One pod. Times are seconds since the epoch; `start` is None for a pod that has not started."""

    namespace: str
    name: str
    uid: str
    signature: PodSpecSignature
    priority: int = 0
    group: str | None = None
    """`namespace/name` of its PodGroup, whether or not the object exists."""
    created: float = 0.0
    start: float | None = None
    labels: Mapping[str, str] = map_field()
    scheduler_name: str = "default-scheduler"
    never_preempts: bool = False
    gates: tuple[str, ...] = ()
    grace: float = 30.0
    terminating: bool = False
    """Whether it has a deletionTimestamp."""
    preempted: bool = False
    """DisruptionTarget=True with reason PreemptionByScheduler (preemption.md 2.3)."""
    owner: Owner | None = None
    claims: tuple[PodClaim, ...] = ()
    """Its device claims; only `ClusterState.set_claims` changes them."""
    volumes: PodVolumes | None = None
    """Claims and disks that matter for placement; None for most pods."""
    generation: int = 0
    """The generation of the object, for conditions; 0 without one."""
    class_name: str = ""
    """The name of its priority class."""
    terms: WorkTerms = NO_WORK_TERMS
    """Its own annotations about its work; see `ClusterState.terms_of`."""
    annotations: Mapping[str, str] = map_field()
    """For plugins (`annotations_of`)."""
    unschedulable_since: float | None = None
    """The time since when the API reports it as unschedulable, as first seen; None: it does not."""
    moved: MoveTrace | None = None
    """Its move to another node, or that of the pod it replaces, by its condition (moving.md 4.6)."""
    label_class: LabelClass | None = None
    """Its label class, once queried; only the pod affinity index changes it."""
    resizing: bool = False
    """Whether it runs with a deferred in-place resize, for which it is queued (resizes.md 1)."""
    resize_ref: str = ""
    """The queue key of its deferred resize; empty unless `resizing`."""
    resize_disabled: bool = False
    """Whether its kubelet reports that no pods may be evicted for its deferred resize (resizes.md 1.8)."""
    row: int = NO_ROW
    bound: bool = False
    """Whether the API reports it as bound; an assumed pod has a row and is not bound."""
    nominated: int = NO_ROW
    key: str = ""
    """`namespace/name`."""

    def __post_init__(self) -> None:
        self.key = f"{self.namespace}/{self.name}"
        if self.uid == self.key:
            self.uid = self.key  # share the string if there is no UID

    def __repr__(self) -> str:
        return f"<pod {self.key} priority={self.priority} row={self.row}>"

    @property
    def names_class(self) -> bool:
        """Return whether the pod names a priority class."""
        return bool(self.class_name)

    @property
    def claim_keys(self) -> list[str]:
        """Return `namespace/name` of its device claims, in order, each once."""
        return list(
            dict.fromkeys(f"{self.namespace}/{claim.claim}" for claim in self.claims if claim.claim is not None)
        )

    @property
    def scheduled(self) -> bool:
        """Return whether the pod is assumed or bound."""
        return self.row >= 0


def queue_order(pod: PodRecord) -> tuple[int, float, str, str]:
    """Return the sort key of a group's member: priority descending, creation (scheduling.md 3.1), name."""
    return (-pod.priority, pod.created, pod.namespace, pod.name)


def record_of(
    pod: objects.Pod,
    signatures: SignatureTable,
    *,
    created: float,
    group: str | None = None,
    scheduler_name: str | None = None,
) -> PodRecord:
    """Return the record of an API object.

    `created` (seconds) replaces `metadata.creationTimestamp`. `group` is the key of its group (`namespace/name`).
    `scheduler_name` is the name of its profile, if it differs from the pod's own.
    """
    meta, spec, status = pod.metadata, pod.spec, pod.status
    namespace = meta.namespace or "default"
    return PodRecord(
        namespace=namespace,
        name=meta.name,
        uid=meta.uid or f"{namespace}/{meta.name}",
        signature=signatures.intern(pod),
        priority=spec.priority or 0,
        group=group or None,
        created=created,
        start=status.start_time.timestamp() if status.start_time is not None else None,
        labels=meta.labels or _EMPTY,
        annotations=annotations_of(meta),
        scheduler_name=scheduler_name or spec.scheduler_name or "default-scheduler",
        never_preempts=spec.preemption_policy == "Never",
        gates=tuple([gate.name for gate in spec.scheduling_gates]),
        grace=_seconds(spec.termination_grace_period_seconds),
        terminating=meta.deletion_timestamp is not None,
        preempted=was_preempted(pod),
        generation=meta.generation,
        class_name=spec.priority_class_name or "",
        terms=work_terms_of(pod),
        volumes=volumes_of(pod),
        claims=claims_of(pod),
        owner=controller_of(meta),
        unschedulable_since=unschedulable_since(pod),
        moved=moved_of(pod),
    )


def unschedulable_since(pod: objects.Pod) -> float | None:
    """Return the transition time of PodScheduled=False, reason Unschedulable (reservations.md 1.2)."""
    if not pod.status.conditions:
        return None
    since = (
        c.last_transition_time
        for c in pod.status.conditions or ()
        if c.type == "PodScheduled" and c.status == "False" and c.reason == "Unschedulable"
    )
    transition = next(since, None)
    return transition.timestamp() if transition is not None else None


def moved_of(pod: objects.Pod) -> MoveTrace | None:
    """Return the move in a pod's condition; None without a readable one."""
    for condition in pod.status.conditions or ():
        if condition.type == MOVED and condition.status == "True" and condition.last_transition_time is not None:
            when = condition.last_transition_time.timestamp()
            unit, _, node = condition.message.rpartition(_MOVES_TO)
            count = condition.message.removesuffix(_FOR_IT)
            if unit and node:
                return MoveTrace(when, unit, node)
            return MoveTrace(when, units=int(count)) if count.isdecimal() and len(count) <= _DIGITS else None
    return None


def moved_condition(moved: MoveTrace) -> Mapping[str, str]:
    """Return the condition for a move, in the form of the API; `moved_of` reads it."""
    return {
        "type": MOVED,
        "status": "True",
        "reason": "MovedForPendingPod",
        "message": f"{moved.unit}{_MOVES_TO}{moved.node}" if moved.unit else f"{moved.units}{_FOR_IT}",
        "lastTransitionTime": readable_time(moved.when),
    }


def annotations_of(meta: ObjectMeta) -> Mapping[str, str]:
    """Return the annotations that plugins see: all except the manifest copy of `kubectl apply`."""
    if not meta.annotations:
        return _EMPTY
    if LAST_APPLIED not in meta.annotations:
        return meta.annotations
    return {key: text for key, text in meta.annotations.items() if key != LAST_APPLIED}


def controller_of(meta: ObjectMeta) -> Owner | None:
    """Return the owner reference marked as controller."""
    if not meta.owner_references:
        return None
    return next(((o.api_version, o.kind, o.name) for o in meta.owner_references if o.controller), None)


def claims_of(pod: objects.Pod) -> tuple[PodClaim, ...]:
    """Return the device claims of a pod; the status names those from templates (resourceclaim.Name)."""
    if not pod.spec.resource_claims:
        return ()
    names = {item.name: item.resource_claim_name for item in pod.status.resource_claim_statuses}
    result = []
    for item in pod.spec.resource_claims:
        if item.resource_claim_name is not None:
            result.append(PodClaim(item.name, item.resource_claim_name, generated=False, made=True))
        elif item.resource_claim_template_name is not None:
            template = item.resource_claim_template_name
            result.append(
                PodClaim(item.name, names.get(item.name), generated=True, made=item.name in names, template=template)
            )
        else:
            result.append(PodClaim(item.name, None, generated=False, made=False, known=False))
    return tuple(result)


def was_preempted(pod: objects.Pod) -> bool:
    """Return whether the pod has DisruptionTarget=True, reason PreemptionByScheduler (preemption.md 2.3)."""
    return bool(pod.status.conditions) and any(
        c.type == DISRUPTION_TARGET and c.status == "True" and c.reason == PREEMPTION_BY_SCHEDULER
        for c in pod.status.conditions or ()
    )


def gone_by(pod: objects.Pod) -> float | None:
    """Return the deletionTimestamp of a terminating pod, in seconds; None for other pods."""
    stamp = pod.metadata.deletion_timestamp
    return stamp.timestamp() if stamp is not None else None
