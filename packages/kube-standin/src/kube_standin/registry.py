"""The verbs: the path from a decoded request to the store, for HTTP and for controllers.

The path of a write: decode (types, unknown fields) -> default -> field ownership -> mutating admission -> the server's
bookkeeping (``strategy``) -> validation -> validating admission -> staged in the store. All of it is synchronous, so
that no other write can intervene and no lock or retry is needed: the ``*_now`` methods stage, and the handler waits for
the ticket of their outcome. Invariant: a response is sent only when its write is durable, and every stored object has
been validated.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kube_rules import field_errors as fe
from kube_rules.defaults import apply_identity
from kube_rules.errors import FieldError, excerpt
from kube_rules.json import Json
from kube_rules.meta import LONGEST_REVISION
from kube_rules.step_budget import StepBudget, TooMuchAtOnceError
from kube_rules.validation import validate_create, validate_update
from kube_rules.validation.reviews import validate_review
from kube_standin import errors, patching
from kube_standin.admission_chain import AdmissionRequest, Chain, Operation
from kube_standin.advice import warnings_about
from kube_standin.clock import ServerClock
from kube_standin.conversion import from_storage, read_stored, to_storage, to_stored
from kube_standin.decoder import Decoder
from kube_standin.deletion import Deletion
from kube_standin.errors import Cause, StatusError
from kube_standin.kinds import DEFINITIONS, KindTable, ServedKind
from kube_standin.numbers import parse_unsigned
from kube_standin.schema import Schema
from kube_standin.schema.default_values import default_problems
from kube_standin.storage import LONGEST_OBJECT, Store, StoredObject, TooLargeError
from kube_standin.strategy import before_create, count_generation, date_taints, drop_foreign_status, restrict
from kube_standin.worker_thread import INLINE
from kube_standin.write_options import Outcome, PatchType, WriteOptions, internal_options

__all__ = ["ObjectRegistry", "Outcome", "PatchType", "WriteOptions", "internal_options"]

FoundT = TypeVar("FoundT")
_NAME_ATTEMPTS = 8
OPTIONS_KINDS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_VOLATILE = frozenset(("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation"))
_LONGEST_PREFIX = 58


class ObjectRegistry:
    """All verbs for the kinds of ``kinds``; see the module."""

    def __init__(
        self,
        store: Store,
        *,
        kinds: KindTable | None = None,
        chain: Chain | None = None,
        clock: ServerClock | None = None,
    ) -> None:
        self.store = store
        self.kinds = kinds if kinds is not None else KindTable()
        self.chain = chain if chain is not None else Chain()
        self.clock = clock if clock is not None else ServerClock()
        self.decoder = Decoder(self.kinds)
        self.deletion = Deletion(self)
        for kind in self.kinds:
            self.declare(kind)

    # -- lookups -------------------------------------------------------------------------------------------

    def declare(self, kind: ServedKind) -> None:
        """Register the selectable fields of ``kind`` with the store (also after adding a custom kind)."""
        if kind.stored:
            rows = kind.versions.rows.values() if kind.versions is not None else (kind,)
            paths = dict.fromkeys(path for row in rows for path in row.fields.values())
            unmarked = kind.versions.unmarked if kind.versions is not None else None
            self.store.declare(kind.storage_key, tuple(paths), unmarked)

    def kind(self, api_version: str, kind: str) -> ServedKind:
        """Return the row of an object's apiVersion and kind, in a served version or not; raises KeyError."""
        row = self.kinds.readable(api_version, kind)
        if row is None:
            raise KeyError(f"{api_version} {kind}")
        return row

    def schema(self, kind: ServedKind) -> Schema:
        """Return the schema of ``kind``."""
        return self.decoder.schema(kind)

    def view(self, kind: ServedKind, state: StoredObject) -> Json:
        """Decode a stored state into the version of ``kind``; the caller may change the result."""
        return read_stored(kind, state)

    def head(self, kind: ServedKind, namespace: str, name: str) -> StoredObject | None:
        """Return the newest state of an object, staged ones included."""
        return self.store.head(kind.storage_key, namespace if kind.namespaced else "", name)

    def find(self, kind: ServedKind, namespace: str, name: str) -> Json | None:
        """Return the newest state (staged writes included) as an object, or None."""
        state = self.head(kind, namespace, name)
        return None if state is None else self.view(kind, state)

    def existing(self, kind: ServedKind, namespace: str, name: str) -> StoredObject:
        """Return the newest state, staged ones included; raises 404."""
        state = self.head(kind, namespace, name)
        if state is None:
            raise errors.not_found(kind.plural, kind.group, name)
        return state

    # -- reading

    def get_state(self, kind: ServedKind, namespace: str, name: str) -> StoredObject:
        """Return the committed state; raises 404."""
        state = self.store.get(kind.storage_key, namespace if kind.namespaced else "", name)
        if state is None:
            raise errors.not_found(kind.plural, kind.group, name)
        return state

    # -- writing -------------------------------------------------------------------------------------------

    def create_now(self, kind: ServedKind, namespace: str, obj: Json, options: WriteOptions) -> Outcome:
        """Stage a create of a decoded object."""
        metadata = obj.setdefault("metadata", {})
        self._place(kind, namespace, metadata)
        drop_foreign_status(kind, obj)
        if options.manager:
            obj = self._tracked(kind, None, obj, options, "")
        return self._admit_create(kind, namespace, obj, options)

    def _admit_create(self, kind: ServedKind, namespace: str, obj: Json, options: WriteOptions) -> Outcome:
        """Stage a create with complete field ownership."""
        metadata = obj["metadata"]
        if kind.terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(kind.plural, kind.group, metadata.get("name", ""), why)
        request = self.admission_request("CREATE", kind, namespace, metadata.get("name", ""), "", obj, None, options)
        obj = self._mutated(kind, request)
        metadata = obj["metadata"]
        version = metadata.pop("resourceVersion", "")
        stamp = self._moment(options)
        self._new_identity(metadata, stamp, options)
        before_create(kind, obj, stamp)
        generated = self._generate_name(metadata, options)
        name = metadata.get("name", "")
        if name:
            apply_identity(kind, obj)
        self.chain.allocate(request, obj)
        self._refuse(kind, name, self._problems(kind, obj, None, "", options))
        options.warnings.extend(warnings_about(kind, obj))
        stored_form = to_storage(kind, obj)
        request.object, request.name = (obj if kind.custom else stored_form), name
        options.may_create()
        self.chain.validate(request)
        if parse_unsigned(version) and not options.dry_run:
            raise errors.internal("resourceVersion should not be set on objects to be created")
        key_namespace = namespace if kind.namespaced else ""
        for _ in range(_NAME_ATTEMPTS):
            if not generated or self.store.head(kind.storage_key, key_namespace, metadata["name"]) is None:
                break
            metadata["name"] = generated + self.clock.suffix()
            stored_form["metadata"]["name"] = metadata["name"]
        name = request.name = metadata["name"]
        if self.store.head(kind.storage_key, key_namespace, name) is not None:
            raise errors.already_exists(kind.plural, kind.group, name)
        state: StoredObject | None = None
        if not options.dry_run:
            if kind.stored:
                state = self.put(kind.storage_key, key_namespace, name, stored_form, None)
                obj["metadata"]["resourceVersion"] = str(state.revision)
            self.chain.committed(request)
        return Outcome(self._headed(kind, obj), created=True, state=state, ticket=self.store.ticket)

    def update_now(
        self,
        kind: ServedKind,
        namespace: str,
        name: str,
        obj: Json,
        options: WriteOptions,
        subresource: str = "",
    ) -> Outcome:
        """Stage a PUT of a decoded object."""
        metadata = obj.setdefault("metadata", {})
        state = self.head(kind, namespace, name)
        self._check_name(metadata, name)
        self._place(kind, namespace, metadata)
        if state is None:
            if not kind.create_on_update or subresource:
                raise errors.not_found(kind.plural, kind.group, name)
            metadata["name"] = name
            metadata.pop("resourceVersion", None)
            return self.create_now(kind, namespace, obj, options)
        old = self.view(kind, state)
        self._check_version(kind, name, metadata, old["metadata"], unconditional=kind.unconditional_update)
        uid = metadata.get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise self.precondition_failed(kind, namespace, name, uid, old["metadata"]["uid"])
        return self._replace(kind, state, old, obj, options, subresource)

    def modify_now(
        self,
        kind: ServedKind,
        namespace: str,
        name: str,
        change: Callable[[Json], None],
        options: WriteOptions,
        subresource: str = "",
    ) -> Outcome:
        """Stage a change of the newest state; ``change`` works in place."""
        state = self.existing(kind, namespace, name)
        new = self.view(kind, state)
        change(new)
        return self._replace(kind, state, self.view(kind, state), new, options, subresource)

    def patch_now(
        self,
        kind: ServedKind,
        namespace: str,
        name: str,
        patch_type: PatchType,
        patch: Any,
        options: WriteOptions,
        subresource: str = "",
    ) -> Outcome:
        """Stage a patch (``patch`` is the decoded body: a list of operations for JSON patch, else a dict)."""
        state = self.head(kind, namespace, name)
        if patch_type == "apply":
            return self._apply(kind, namespace, name, state, patch, options, subresource)
        if state is None:
            raise errors.not_found(kind.plural, kind.group, name)
        old = self.view(kind, state)

        def change() -> tuple[Json, list[str]]:
            warnings: list[str] = []
            try:
                if patch_type == "json":
                    patched = patching.json_patch(old, patch)
                elif patch_type == "merge":
                    patched = patching.merge_patch(old, patch)
                else:
                    patched = patching.strategic_merge(self.schema(kind), old, patch)
            except patching.PatchError as error:
                raise _patch_refused(error) from error
            return self.decoder.patched(kind, patched, options.validation, warnings, options.repeated), warnings

        new, warnings = options.off_loop_steps.value("patch", (old, patch), change)
        options.warnings.extend(warnings)
        metadata = new.setdefault("metadata", {})
        self._check_name(metadata, name)
        self._place(kind, namespace, metadata)
        self._check_version(kind, name, metadata, old["metadata"], unconditional=True)
        uid = metadata.get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise errors.unfit(kind.kind, kind.group, name, fe.invalid("metadata.uid", uid, "field is immutable"))
        return self._replace(kind, state, old, new, options, subresource)

    def _apply(
        self,
        kind: ServedKind,
        namespace: str,
        name: str,
        state: StoredObject | None,
        applied: Json,
        options: WriteOptions,
        subresource: str,
    ) -> Outcome:
        """Stage a server-side apply: merge the manager's fields with those of other managers."""
        self.decoder.check_applied(kind, applied)
        metadata = applied["metadata"]
        if metadata.get("managedFields") is not None:
            raise errors.bad_request("metadata.managedFields must be nil")
        self._check_name(metadata, name)
        old: Json = {}
        if state is not None:
            old = self.view(kind, state)
            self._check_version(kind, name, metadata, old["metadata"], unconditional=True)
        elif subresource:
            raise errors.not_found(kind.plural, kind.group, name)
        elif metadata.get("uid"):
            why = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            raise errors.conflict(kind.plural, kind.group, name, why)
        now = self._moment(options)

        def merge() -> tuple[Json, list[str]]:
            warnings: list[str] = []
            try:
                merged = patching.apply(
                    self.schema(kind),
                    old or None,
                    applied,
                    manager=options.manager,
                    force=options.force,
                    subresource=subresource,
                    now=now,
                    api_version=kind.api_version,
                )
            except patching.ApplyConflict as error:
                causes = tuple(Cause(c.reason, c.message, c.field) for c in error.causes)
                raise StatusError(409, "Conflict", str(error), None, causes) from error
            except patching.PatchError as error:
                raise _patch_refused(error) from error
            return self.decoder.patched(kind, merged, options.validation, warnings), warnings

        new, warnings = options.off_loop_steps.value("apply", (old, applied), merge)
        if options.repeated and options.validation == "Strict":
            raise errors.bad_request(f"error strict decoding YAML: {options.repeated.texts[0]}")
        options.warnings.extend((*warnings, *options.repeated.texts))
        self._place(kind, namespace, new["metadata"])
        if state is None:
            drop_foreign_status(kind, new)
            return self._admit_create(kind, namespace, new, options)
        # A resourceVersion or uid in the applied body was a precondition, not a value.
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return self._replace(kind, state, old, new, options, subresource, track=False)

    def _replace(
        self,
        kind: ServedKind,
        state: StoredObject,
        old: Json,
        new: Json,
        options: WriteOptions,
        subresource: str,
        *,
        track: bool = True,
    ) -> Outcome:
        """Stage the step from ``old`` to ``new``: the common end of update, patch, apply and modify."""
        name, namespace = state.name, state.namespace
        before, metadata = old["metadata"], new["metadata"]
        for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName"):
            if key in before:
                metadata[key] = before[key]
            elif key != "generateName":
                metadata.pop(key, None)
        metadata["resourceVersion"] = before["resourceVersion"]
        restrict(kind, new, old, subresource)
        if track and options.manager:
            new = self._tracked(kind, old, new, options, subresource)
        request = self.admission_request("UPDATE", kind, namespace, name, subresource, new, old, options)
        new = self._mutated(kind, request)
        # Admission does not change what this subresource may not touch.
        restrict(kind, new, old, subresource)
        if not subresource:
            date_taints(kind, new, old, self._moment(options))
        self.chain.allocate(request, new)
        count_generation(kind, new, old, subresource)
        self._refuse(kind, name, self._problems(kind, new, old, subresource, options))
        options.warnings.extend(warnings_about(kind, new, old))
        stored_form = to_stored(kind, new, state)
        request.object = new if kind.custom else stored_form
        self.chain.validate(request)
        removed = self.deletion.completes(kind, new)
        new = patching.with_times_kept(new, old)
        if not removed and new == old and not self._is_outdated(kind, state, stored_form):
            return Outcome(self._headed(kind, new), ticket=self.store.ticket)
        written: StoredObject | None = None
        if not options.dry_run:
            if removed:
                self.store.delete(state, copy.deepcopy(stored_form))
            else:
                written = self.put(state.resource, namespace, name, stored_form, state)
                new["metadata"]["resourceVersion"] = str(written.revision)
            self.chain.committed(request)
        return Outcome(self._headed(kind, new), deleted=removed, state=written, ticket=self.store.ticket)

    @staticmethod
    def _is_outdated(kind: ServedKind, state: StoredObject, stored_form: Json) -> bool:
        """Return whether an unchanged write renews the stored form, as storage migration needs it."""
        return kind.versions is not None and kind.versions.is_outdated(kind, state, stored_form)

    def put(self, resource: str, namespace: str, name: str, body: Json, expected: StoredObject | None) -> StoredObject:
        """Stage the object of a request; raises StatusError for an object that etcd would refuse (api.md 5.4)."""
        try:
            return self.store.put(resource, namespace, name, body, expected, longest=LONGEST_OBJECT).state
        except TooLargeError as error:
            raise errors.internal(str(error)) from error

    def create_review(self, kind: ServedKind, namespace: str, review: Json, options: WriteOptions) -> Json:
        """Return a review object with its bookkeeping done; reviews are never stored."""
        metadata = review.setdefault("metadata", {})
        self._place(kind, namespace, metadata)
        review.pop("status", None)
        self._refuse(kind, metadata.get("name", ""), validate_review(kind.kind, review))
        if options.manager and review.get("spec"):
            review = self._tracked(kind, None, review, options, "")
        if kind.kind == "SelfSubjectReview":
            review["metadata"]["creationTimestamp"] = self.clock.stamp()
        return self._headed(kind, review)

    # -- parts

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
        return AdmissionRequest(
            operation,
            kind if kind.custom else self.kinds.storage_kind(kind),
            namespace if kind.namespaced else "",
            name,
            subresource,
            None if obj is None else self._storable(kind, name, obj, old, subresource),
            old if old is None or kind.custom else to_storage(kind, old),
            options.user,
            options.dry_run,
            self,
            options.warnings,
            kind.api_version,
            {"kind": OPTIONS_KINDS[operation], "apiVersion": "meta.k8s.io/v1", **options.sent},
            options.off_loop_steps,
        )

    def _storable(self, kind: ServedKind, name: str, obj: Json, old: Json | None, subresource: str) -> Json:
        """Return ``obj`` in its storage form; a value without one is refused like a validation error.

        Admission sees custom resources in the version of the request.
        """
        if kind.custom:
            return obj
        try:
            return to_storage(kind, obj)
        except FieldError as error:
            self._refuse(kind, name, self._problems(kind, obj, old, subresource, WriteOptions()))
            cause = Cause("FieldValueInvalid", error.message, error.path)
            raise errors.invalid(kind.kind, kind.group, name, [cause]) from error

    def _mutated(self, kind: ServedKind, request: AdmissionRequest) -> Json:
        """Run mutating admission on the storage form and return the object in the request's version.

        Raises 400 if a webhook or a policy changed its name or namespace (interfaces.md 6.3).
        """
        self.chain.mutate(request)
        obj = from_storage(kind, request.new)  # also a custom resource that was changed in another version
        metadata = obj.setdefault("metadata", {})
        self._place(kind, request.namespace, metadata)
        if request.old is not None:
            metadata.setdefault("name", "")  # validation reports another name
            for key in ("uid", "creationTimestamp", "resourceVersion"):
                metadata.setdefault(key, request.old["metadata"][key])
        return obj

    @staticmethod
    def _headed(kind: ServedKind, obj: Json) -> Json:
        """Return the object with kind and apiVersion first (the store removes them on write)."""
        return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}

    @staticmethod
    def _place(kind: ServedKind, namespace: str, metadata: Json) -> None:
        """Set the namespace of the object to that of the request; raises 400 for another one."""
        if not kind.namespaced:
            metadata.pop("namespace", None)
        elif metadata.get("namespace", "") in ("", namespace):
            metadata["namespace"] = namespace
        else:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )

    @staticmethod
    def _check_name(metadata: Json, name: str) -> None:
        body_name = metadata.get("name", "")
        if body_name and body_name != name:
            raise errors.bad_request(
                f"the name of the object ({body_name}) does not match the name on the URL ({name})"
            )
        metadata["name"] = name

    @staticmethod
    def _check_version(kind: ServedKind, name: str, metadata: Json, before: Json, *, unconditional: bool) -> None:
        """Check optimistic concurrency: a resourceVersion in the new object must be the current one."""
        version = metadata.get("resourceVersion", "")
        if version in ("", "0"):
            if unconditional:
                return
            missing = fe.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.unfit(kind.plural, kind.group, name, missing)
        number = version.isascii() and version.isdigit()
        if not number or len(version) > LONGEST_REVISION or int(version) >= 2**64:
            problem = "value out of range" if number else "invalid syntax"
            raise errors.internal(f'strconv.ParseUint: parsing "{excerpt(version)}": {problem}')
        if version != before["resourceVersion"]:
            raise errors.conflict(kind.plural, kind.group, name, errors.MODIFIED)

    def _moment(self, options: WriteOptions) -> str:
        """Return the time of a write, equal in all of its retries."""
        return options.off_loop_steps.once("now", self.clock.stamp)

    def _new_identity(self, metadata: Json, stamp: str, options: WriteOptions) -> None:
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(key, None)
        metadata["uid"] = options.uid or options.off_loop_steps.once("uid", self.clock.uid)
        metadata["creationTimestamp"] = options.created or stamp

    def _generate_name(self, metadata: Json, options: WriteOptions) -> str:
        """Generate the name from generateName if it is missing; return the prefix, or ""."""
        prefix: str = metadata.get("generateName", "")
        if metadata.get("name") or not prefix:
            return ""
        prefix = prefix[:_LONGEST_PREFIX]
        metadata["name"] = prefix + options.off_loop_steps.once("suffix", self.clock.suffix)
        return prefix

    def _tracked(self, kind: ServedKind, old: Json | None, new: Json, options: WriteOptions, subresource: str) -> Json:
        """Return the object with its changed fields owned by the manager of the request."""
        schema, now = self.schema(kind), self._moment(options)

        def track() -> Json:
            return patching.track_update(
                schema,
                old,
                new,
                manager=options.manager,
                subresource=subresource,
                now=now,
                api_version=kind.api_version,
            )

        tracked: Json = options.off_loop_steps.value("ownership", (new, old), track)
        return tracked

    def _problems(
        self, kind: ServedKind, new: Json, old: Json | None, subresource: str, options: WriteOptions
    ) -> Sequence[Any]:
        """Validate by the rules of the kind, custom resources also by their schema."""
        structural = self.schema(kind).structural

        def find(budget: StepBudget | None = None) -> tuple[Sequence[Any], list[str]]:
            problems = validate_create(kind, new) if old is None else validate_update(kind, new, old, subresource)
            tolerated: list[FieldError] = []
            if kind.resource == DEFINITIONS and not subresource and not problems:
                problems.extend(default_problems(new, old, budget or StepBudget()))
            if structural is not None:
                status = subresource == "status"
                problems.extend(structural.validate(new, old, budget, status=status, tolerated=tolerated))
            return problems[: errors.MOST_CAUSES], [f"{error.path}: {error.message}" for error in tolerated]

        problems, warnings = self._found(find, options, new, old, bounded=structural is not None)
        options.warnings.extend(warnings)
        return problems

    @staticmethod
    def _found(
        find: Callable[..., FoundT], options: WriteOptions, new: Json, old: Json | None, *, bounded: bool
    ) -> FoundT:
        """Return the result of validation, on the event loop if it is short; `bounded`: validation counts its steps."""
        off_loop_steps = options.off_loop_steps
        if off_loop_steps is INLINE:
            return find()
        if not off_loop_steps.always and bounded:
            with suppress(TooMuchAtOnceError):
                return find(StepBudget(inline=True))
        return off_loop_steps.findings("problems", _lasting(new, old), find)

    @staticmethod
    def _refuse(kind: ServedKind, name: str, problems: Sequence[Any]) -> None:
        if problems:
            # Both groups of Event are validated in the core form and named so.
            group = "" if kind.storage_key == "events" else kind.group
            raise errors.unfit(kind.kind, group, name, *problems)

    @staticmethod
    def precondition_failed(
        kind: ServedKind, namespace: str, name: str, expected: str, current: str, what: str = "UID"
    ) -> StatusError:
        """Return a 409 in the words of the storage for a uid or resourceVersion that differs from the object's."""
        path = "/".join(part for part in ("/registry", kind.plural, namespace, name) if part)
        return errors.conflict(
            kind.plural,
            kind.group,
            name,
            f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: {what} in precondition: {expected}, {what} in object meta: {current}",
        )


def _lasting(new: Json, old: Json | None) -> list[Json | None]:
    """Return the input of validation without values generated in each retry, such as a uid or a name suffix."""

    def lasting(obj: Json) -> Json:
        metadata = {key: value for key, value in obj.get("metadata", {}).items() if key not in _VOLATILE}
        if metadata.get("generateName"):
            metadata.pop("name", None)
        return {**obj, "metadata": metadata}

    return [lasting(new), None if old is None else lasting(old)]


def _patch_refused(error: Any) -> StatusError:
    return StatusError(error.code, error.reason or None, error.message, {} if error.code == 422 else None)
