"""Pods as the scheduler sees them: one small record each.

A record is *pending* (`row < 0`), *assumed* or *bound* (`row >= 0`); the difference between the last two is the
business of the caller, not of deciding.  Rows are those of `reprieve.cluster.nodes.NodeColumns`.

Invariant: `row` and `nominated` are changed only by `reprieve.cluster.state.ClusterState`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from kube_rules import objects
from kube_rules.durations import readable_time
from kube_rules.meta import ObjectMeta, map_field
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
"""The condition of a pod that leaves for another node, of the one that replaces it there, and of the pod for which
units move (moving.md 4.6).
"""
_MOVES_TO: Final = " moves to "
_FOR_IT: Final = " moved for it"
_DIGITS: Final = 6
_seconds: Final = lru_cache(maxsize=1024)(float)
"""Number of seconds -> the same float for all pods with this grace period."""


class Moved(NamedTuple):
    """Units were moved. `when` that was decided, in seconds since the epoch.

    Of a pod of such a unit: its name, and the node of the pod; of the pod for which they move: how many they are.
    """

    when: float
    unit: str = ""
    node: str = ""
    units: int = 1


class PodClaim(NamedTuple):
    """spec.resourceClaims[] with what the pod's status says of it.

    `claim` is the name of the ResourceClaim; None with `made`: there is none and none is needed; without: not made yet.
    """

    name: str
    claim: str | None
    generated: bool
    """From a template: the claim has to belong to the pod."""
    made: bool
    known: bool = True
    """False: of a kind of reference that is not known here."""
    template: str | None = None
    """The ResourceClaimTemplate it names."""
    extended: bool = False
    """No entry of the spec: the claim for extended resources that device classes serve (devices.md 4)."""

    @property
    def reference(self) -> tuple[str, str | None, str | None]:
        """Name, claim and template as the pod's spec has them: what a claim of its group is compared with."""
        return self.name, None if self.generated else self.claim, self.template


_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class PodRecord(msgspec.Struct, eq=False, gc=False, kw_only=True):
    """One pod. Times are seconds since the epoch; `start` is None for a pod that has not started."""

    namespace: str
    name: str
    uid: str
    signature: PodSpecSignature
    priority: int = 0
    group: str | None = None
    """`namespace/name` of the PodGroup it names, whether or not that object exists."""
    created: float = 0.0
    start: float | None = None
    labels: Mapping[str, str] = map_field()
    scheduler_name: str = "default-scheduler"
    never_preempts: bool = False
    gates: tuple[str, ...] = ()
    grace: float = 30.0
    terminating: bool = False
    """It has a deletionTimestamp."""
    preempted: bool = False
    """DisruptionTarget=True with reason PreemptionByScheduler (preemption.md 2.3)."""
    owner: Owner | None = None
    claims: tuple[PodClaim, ...] = ()
    """The device claims it names; changed only by `ClusterState.set_claims`."""
    volumes: PodVolumes | None = None
    """Claims and disks that matter for placement; None for most pods."""
    generation: int = 0
    """The API's, for conditions that name it; 0 where the API does not count."""
    class_name: str = ""
    """The priority class that it names."""
    terms: WorkTerms = NO_WORK_TERMS
    """What its own annotations say of its work; see `ClusterState.terms_of`."""
    annotations: Mapping[str, str] = map_field()
    """For plugins (`annotations_of`)."""
    unschedulable_since: float | None = None
    """Since when the API says that it fits nowhere, as of when it was first seen; None: it does not say so."""
    moved: Moved | None = None
    """It leaves for another node, or replaces a pod that did, by its condition (moving.md 4.6)."""
    label_class: LabelClass | None = None
    """What other pods' selectors see of it, once it was asked for; changed only by the pod affinity index."""
    resizing: bool = False
    """It runs, and its resize in place is deferred: it is queued for that (resizes.md 1)."""
    resize_ref: str = ""
    """What its deferred resize waits in; empty while it is not `resizing`."""
    resize_disabled: bool = False
    """Its resize is deferred, and its kubelet reports that no pods may be evicted for it (resizes.md 1.8)."""
    row: int = NO_ROW
    bound: bool = False
    """The API says it is bound; an assumed pod has a row and is not bound."""
    nominated: int = NO_ROW
    key: str = ""
    """`namespace/name`."""

    def __post_init__(self) -> None:
        self.key = f"{self.namespace}/{self.name}"
        if self.uid == self.key:
            self.uid = self.key  # one text where there is no UID

    def __repr__(self) -> str:
        return f"<pod {self.key} priority={self.priority} row={self.row}>"

    @property
    def names_class(self) -> bool:
        """It names a priority class."""
        return bool(self.class_name)

    @property
    def claim_keys(self) -> list[str]:
        """`namespace/name` of the device claims it names, in their order, each once."""
        return list(
            dict.fromkeys(f"{self.namespace}/{claim.claim}" for claim in self.claims if claim.claim is not None)
        )

    @property
    def scheduled(self) -> bool:
        """Assumed or bound."""
        return self.row >= 0


def queue_order(pod: PodRecord) -> tuple[int, float, str, str]:
    """Sort key of a group's members: priority descending, then creation (scheduling.md 3.1); names settle ties."""
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

    `created` (seconds) stands in for `metadata.creationTimestamp`.  `group` is the key of its group (`namespace/name`);
    `scheduler_name` of the profile that its own name stands for, where that is another.
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
    found = next(since, None)
    return found.timestamp() if found is not None else None


def moved_of(pod: objects.Pod) -> Moved | None:
    """Return the move of which a pod is a part, by its condition; None: it states none, or none that can be read."""
    for found in pod.status.conditions or ():
        if found.type == MOVED and found.status == "True" and found.last_transition_time is not None:
            when = found.last_transition_time.timestamp()
            unit, _, node = found.message.rpartition(_MOVES_TO)
            count = found.message.removesuffix(_FOR_IT)
            if unit and node:
                return Moved(when, unit, node)
            return Moved(when, units=int(count)) if count.isdecimal() and len(count) <= _DIGITS else None
    return None


def moved_condition(moved: Moved) -> Mapping[str, str]:
    """Return the condition from which `moved_of` reads a move, as the API has it."""
    return {
        "type": MOVED,
        "status": "True",
        "reason": "MovedForPendingPod",
        "message": f"{moved.unit}{_MOVES_TO}{moved.node}" if moved.unit else f"{moved.units}{_FOR_IT}",
        "lastTransitionTime": readable_time(moved.when),
    }


def annotations_of(meta: ObjectMeta) -> Mapping[str, str]:
    """Return the annotations that plugins see: all but the copy of the manifest that `kubectl apply` keeps."""
    if not meta.annotations:
        return _EMPTY
    if _APPLIED not in meta.annotations:
        return meta.annotations
    return {key: text for key, text in meta.annotations.items() if key != _APPLIED}


def controller_of(meta: ObjectMeta) -> Owner | None:
    """Return the owner reference that is marked as the controller's."""
    if not meta.owner_references:
        return None
    return next(((o.api_version, o.kind, o.name) for o in meta.owner_references if o.controller), None)


def claims_of(pod: objects.Pod) -> tuple[PodClaim, ...]:
    """Return the device claims of a pod, those from templates as far as its status names them (resourceclaim.Name)."""
    if not pod.spec.resource_claims:
        return ()
    made = {item.name: item.resource_claim_name for item in pod.status.resource_claim_statuses}
    result = []
    for item in pod.spec.resource_claims:
        if item.resource_claim_name is not None:
            result.append(PodClaim(item.name, item.resource_claim_name, generated=False, made=True))
        elif item.resource_claim_template_name is not None:
            template = item.resource_claim_template_name
            result.append(
                PodClaim(item.name, made.get(item.name), generated=True, made=item.name in made, template=template)
            )
        else:
            result.append(PodClaim(item.name, None, generated=False, made=False, known=False))
    return tuple(result)


def was_preempted(pod: objects.Pod) -> bool:
    """Return whether the pod carries DisruptionTarget=True, reason PreemptionByScheduler (preemption.md 2.3)."""
    return bool(pod.status.conditions) and any(
        c.type == "DisruptionTarget" and c.status == "True" and c.reason == PREEMPTION_BY_SCHEDULER
        for c in pod.status.conditions or ()
    )


def gone_by(pod: objects.Pod) -> float | None:
    """Return when a pod that is terminating is to be gone (its deletionTimestamp), in seconds; None for one that
    stays.
    """
    stamp = pod.metadata.deletion_timestamp
    return stamp.timestamp() if stamp is not None else None
