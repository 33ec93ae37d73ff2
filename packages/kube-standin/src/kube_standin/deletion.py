"""DELETE: preconditions, grace, finalizers, propagation, and the final removal of an object.

Rules: kube-apiserver's generic registry (BeforeDelete, updateForGracefulDeletionAndFinalizers) and pod strategy. Terms:
an object is *terminating* once it has a deletionTimestamp; it is removed when its grace period is over (0, or the kind
has none) and no finalizer is left. Namespaces also wait for ``spec.finalizers``, CRDs for their instances.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, cast

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.meta import FINISHED
from kube_standin import errors
from kube_standin.admission_chain import SYSTEM, AdmissionRequest, Chain, Operation, User
from kube_standin.clock import ServerClock, later, parse_stamp, stamp
from kube_standin.conditions import condition, drop_condition, set_condition
from kube_standin.conversion import to_stored
from kube_standin.errors import StatusError
from kube_standin.kinds import ServedKind
from kube_standin.numbers import parse_int
from kube_standin.storage import Store, StoredObject
from kube_standin.worker_thread import INLINE, OffLoopSteps
from kube_standin.write_options import Outcome, WriteOptions

Propagation = Literal["Orphan", "Background", "Foreground"]

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
DEFAULT_GRACE = 30


@dataclass(frozen=True)
class DeleteOptions:
    """The options of a DELETE; None means not set."""

    grace: int | None = None
    propagation: Propagation | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False
    user: User = SYSTEM
    off_loop_steps: OffLoopSteps = INLINE
    admitted: bool = False
    """Whether it is part of an eviction, which has already been admitted."""
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> Json:
        """Return the set options, as webhooks see them."""
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        required = {key: value for key, value in preconditions.items() if value is not None}
        return {
            **({"gracePeriodSeconds": self.grace} if self.grace is not None else {}),
            **({"preconditions": required} if required else {}),
            **({"propagationPolicy": self.propagation} if self.propagation is not None else {}),
            **({"dryRun": ["All"]} if self.dry_run else {}),
        }


class DeletionObjects(Protocol):
    """The parts of the registry that deletion needs."""

    store: Store
    clock: ServerClock
    chain: Chain

    def existing(self, kind: ServedKind, namespace: str, name: str) -> StoredObject:
        """Return the newest state of an object, staged ones included; raises 404."""

    def view(self, kind: ServedKind, state: StoredObject) -> Json:
        """Decode a stored state into the version of ``kind``; the caller may change the result."""

    def admission_request(
        self,
        operation: Operation,
        kind: ServedKind,
        namespace: str,
        name: str,
        subresource: str,
        obj: Json | None,
        old: Json | None,
        options: WriteOptions,
    ) -> AdmissionRequest:
        """Return the admission request of a write: the objects in their storage form."""


class Deletion:
    """Deletion in one registry."""

    def __init__(self, registry: DeletionObjects) -> None:
        self._registry = registry

    def completes(self, kind: ServedKind, obj: Json) -> bool:
        """Return whether ``obj`` (a new state) has nothing left to wait for."""
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
            return False
        if kind.resource == "namespaces":
            return not (obj.get("spec") or {}).get("finalizers")
        return not metadata.get("deletionGracePeriodSeconds")

    def delete(self, kind: ServedKind, namespace: str, name: str, options: DeleteOptions) -> Outcome:
        """Stage the DELETE of one object; raises 404, 409, or what admission refuses."""
        registry = self._registry
        state = registry.existing(kind, namespace, name)
        old = registry.view(kind, state)
        self.check_preconditions(kind, name, old["metadata"], options)
        request = registry.admission_request(
            "DELETE",
            kind,
            namespace,
            name,
            "",
            None,
            old,
            WriteOptions(
                user=options.user,
                dry_run=options.dry_run,
                warnings=options.warnings,
                off_loop_steps=options.off_loop_steps,
                sent=options.to_json(),
            ),
        )
        request.admitted = options.admitted
        registry.chain.validate(request)
        new = registry.view(kind, state)
        if not self._mark(kind, new, options):
            return Outcome(old, ticket=registry.store.ticket)
        # Without grace period and finalizers an object is removed directly, without a terminating state.
        removed = self.completes(kind, new) or not new["metadata"].get("deletionTimestamp")
        if not options.dry_run:
            self._write(kind, state, old, new, removed)
            registry.chain.committed(request)
        return Outcome(new, deleted=removed, ticket=registry.store.ticket)

    def _write(self, kind: ServedKind, state: StoredObject, old: Json, new: Json, removed: bool) -> None:
        """Stage the terminating state and, if nothing is left to wait for, the removal."""
        store = self._registry.store
        # Kinds without grace are removed in one step: watchers see the last living state. Pods show their last
        # terminating state first (MODIFIED, then DELETED with one more revision).
        two_steps = not removed or (kind.graceful and new != old)
        stored_form = to_stored(kind, new, state)
        if two_steps:
            if new == old:
                return
            state = store.put(state.resource, state.namespace, state.name, {**stored_form}, state).state
            new["metadata"]["resourceVersion"] = str(state.revision)
        if removed:
            last = store.delete(state).state
            new["metadata"]["resourceVersion"] = str(last.revision)

    def check_preconditions(self, kind: ServedKind, name: str, metadata: Json, options: DeleteOptions) -> None:
        """Raise 409 unless uid and resourceVersion are those that the caller expects."""
        pairs = (
            ("UID", options.uid, metadata["uid"], "deleted and then recreated"),
            ("ResourceVersion", options.resource_version, metadata["resourceVersion"], "modified"),
        )
        for part, expected, current, reason in pairs:
            if expected is not None and expected != current:
                raise errors.conflict(
                    kind.kind,
                    kind.group,
                    name,
                    f"the {part} in the precondition ({expected}) does not match the {part} in record ({current}). "
                    f"The object might have been {reason}",
                )

    def _mark(self, kind: ServedKind, new: Json, options: DeleteOptions) -> bool:
        """Make ``new`` a terminating state; False if the request changes nothing."""
        if kind.resource == "namespaces":
            return self._mark_namespace(kind, new)
        if kind.resource == "customresourcedefinitions.apiextensions.k8s.io":
            return self._mark_definition(new)
        metadata = new["metadata"]
        before = copy.deepcopy(metadata)
        if kind.graceful and not self._grace(new, options):
            return False
        self._propagate(metadata, options.propagation or _default_propagation(kind, metadata))
        if metadata.get("finalizers") and not kind.graceful and not metadata.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = self._registry.clock.stamp()
            metadata["deletionGracePeriodSeconds"] = 0
            if metadata.get("generation"):
                metadata["generation"] += 1
        return bool(metadata != before) or not metadata.get("finalizers")

    def _grace(self, new: Json, options: DeleteOptions) -> bool:
        """Set a pod's deletionTimestamp from its grace period; False if it already terminates at least as soon.

        After its grace period it waits for its finalizers, and is deleted if it has none: the process may have ended
        between the writes of its last state and of its removal.
        """
        metadata, spec, status = new["metadata"], new.get("spec") or {}, new.get("status") or {}
        running = metadata.get("deletionTimestamp")
        present = metadata.get("deletionGracePeriodSeconds") or 0
        if running and not present:
            return True
        if running and options.grace is None:
            return False
        grace = options.grace
        if grace is None:
            grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)
        if grace < 0:
            grace = 1
        if not spec.get("nodeName") or status.get("phase") in FINISHED:
            grace = 0
        if running:
            if grace >= present:
                return False
            metadata["deletionTimestamp"] = stamp(later(parse_stamp(running), grace - present))
            metadata["deletionGracePeriodSeconds"] = grace
            return True
        metadata["deletionTimestamp"] = stamp(later(self._registry.clock.now(), grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        return True

    @staticmethod
    def _propagate(metadata: Json, propagation: Propagation | None) -> None:
        """Set the finalizers that make the garbage collector orphan or delete dependents first."""
        if propagation is None:
            return
        wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(propagation)
        finalizers = [name for name in metadata.get("finalizers") or () if name not in (ORPHAN, FOREGROUND)]
        if wanted is not None:
            finalizers.append(wanted)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)

    def _mark_namespace(self, kind: ServedKind, new: Json) -> bool:
        metadata = new["metadata"]
        if metadata.get("deletionTimestamp"):
            return self.completes(kind, new)
        metadata["deletionTimestamp"] = self._registry.clock.stamp()
        new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
        return True

    def _mark_definition(self, new: Json) -> bool:
        """Hold a CRD by a finalizer until its instances are deleted."""
        metadata = new["metadata"]
        if metadata.get("deletionTimestamp"):
            return not metadata.get("finalizers")
        now = self._registry.clock.stamp()
        metadata["deletionTimestamp"] = now
        finalizers = metadata.setdefault("finalizers", [])
        if CRD_CLEANUP not in finalizers:
            finalizers.append(CRD_CLEANUP)
        status = new.setdefault("status", {})
        drop_condition(status, "Terminating")
        text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        terminating = condition("Terminating", "True", "InstanceDeletionPending", text)
        set_condition(status, {**terminating, "lastTransitionTime": now})
        return True


def _default_propagation(kind: ServedKind, metadata: Json) -> Propagation | None:
    """Return the propagation unless a request sets it: that of a finalizer, otherwise the kind's (api.md 6.1).

    A batch/v1 Job and a v1 ReplicationController orphan their dependents, as a kube-apiserver does for clients that
    predate garbage collection (kubectl and the controllers request Background themselves).
    """
    return "Orphan" if kind.orphans and not settles_dependents(metadata) else None


def settles_dependents(metadata: Json) -> bool:
    """Return whether a finalizer decides the propagation for an object with this metadata."""
    return any(name in (ORPHAN, FOREGROUND) for name in metadata.get("finalizers") or ())


def warnings_of(kind: ServedKind, options: DeleteOptions) -> tuple[str, ...]:
    """Return the warnings for a client that deletes objects of a kind."""
    return (_PODS_STAY,) if kind.resource == "jobs.batch" and options.propagation is None else ()


_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


def options_from(body: Json, query: Mapping[str, str], user: User) -> DeleteOptions:
    """Return the DeleteOptions of a body and the query (which supplies missing options); raises 422."""
    grace = body.get("gracePeriodSeconds")
    if grace is None and query.get("gracePeriodSeconds"):
        grace = parse_int(query["gracePeriodSeconds"])
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or None
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = query["orphanDependents"] == "true"
    field = "propagationPolicy"
    if orphan is not None and propagation is not None:
        conflict = "orphanDependents and deletionPropagation cannot be both set"
        raise _refused(fe.invalid(field, propagation, conflict))
    if propagation not in (None, "Orphan", "Background", "Foreground"):
        raise _refused(fe.not_supported(field, propagation, ("Foreground", "Background", "Orphan", "nil")))
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    preconditions = body.get("preconditions") or {}
    dry = body.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
    if dry not in ([], ["All"]):
        raise _refused(fe.not_supported("dryRun", dry, ("All",)))
    return DeleteOptions(
        grace=grace,
        propagation=cast("Propagation | None", propagation),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=bool(dry),
        user=user,
    )


def _refused(finding: FieldError) -> StatusError:
    return errors.unfit("DeleteOptions", "meta.k8s.io", "", finding)
