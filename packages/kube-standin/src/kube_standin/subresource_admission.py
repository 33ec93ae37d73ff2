"""Admission of subresource bodies of other kinds: a Scale, an Eviction, a Binding, the options of a connection."""

from __future__ import annotations

from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Operation
from kube_standin.kinds import ServedKind, Subresource
from kube_standin.registry import OPTIONS_KINDS, ObjectRegistry, WriteOptions


def admit_body(
    registry: ObjectRegistry,
    operation: Operation,
    kind: ServedKind,
    namespace: str,
    name: str,
    subresource: Subresource,
    bodies: tuple[Json, Json | None],
    options: WriteOptions,
) -> Json:
    """Return the body of a subresource request after webhooks; raises StatusError.

    `bodies`: the new and the old body; they are not objects of ``kind``.
    """
    if not registry.chain.waits(kind):
        return bodies[0]
    heads = {"kind": subresource.kind, "apiVersion": subresource.api_version}
    new, old = (None if body is None else {**heads, **body} for body in bodies)
    request = AdmissionRequest(
        operation,
        kind,
        namespace,
        name,
        subresource.name,
        new,
        old,
        options.user,
        options.dry_run,
        registry,
        options.warnings,
        kind.api_version,
        {} if operation == "CONNECT" else _options(operation, options),
        options.off_loop_steps,
        (subresource.group, subresource.version or "v1", subresource.kind),
    )
    registry.chain.admit_body(request)
    return request.new


def _options(operation: Operation, options: WriteOptions) -> Json:
    return {"kind": OPTIONS_KINDS[operation], "apiVersion": "meta.k8s.io/v1", **options.sent}
