"""The operations on a kind: which paths there are, what they take and what they answer.

An operation is described once, neutrally, and written out per version of OpenAPI. Operation ids follow
upstream (`readSchedulingV1alpha2NamespacedPodGroupStatus`), for generated clients are named by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from reprieve.controlplane.openapi import components
from reprieve.controlplane.openapi.served import ServedKind, group_version_path
from reprieve.controlplane.schema import definitions

Json = dict[str, Any]


@dataclass(frozen=True)
class Parameter:
    """One query parameter."""

    name: str
    type: str
    description: str


@dataclass(frozen=True)
class Operation:
    """One operation on one path. `body` and `answers` are full schema names; several answers are
    alternatives.
    """

    path: str
    method: str
    action: str
    operation_id: str
    description: str
    tag: str
    gvk: Json
    parameters: tuple[Parameter, ...]
    codes: tuple[int, ...]
    answers: tuple[str, ...]
    body: str | None = None
    body_required: bool = True
    patch: bool = False
    namespaced: bool = False
    named: bool = False


VERSION = "1.37"
"""Of Kubernetes, in every document."""
SECURITY: Json = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}
MEANINGS = {200: "OK", 201: "Created", 202: "Accepted"}

_P = {
    p.name: p
    for p in (
        Parameter("pretty", "string", "If 'true', then the output is pretty printed."),
        Parameter("dryRun", "string", "All: process the request fully, but store nothing."),
        Parameter("fieldManager", "string", "Name of who makes this change, at most 128 bytes."),
        Parameter("fieldValidation", "string", "What to do about unknown or duplicate fields: Ignore, Warn, Strict."),
        Parameter("force", "boolean", "Take over fields that other managers own. Apply patches only."),
        Parameter("labelSelector", "string", "Restrict the objects to those whose labels match."),
        Parameter("fieldSelector", "string", "Restrict the objects to those whose fields match."),
        Parameter("limit", "integer", "At most so many objects; the answer carries a token to go on with."),
        Parameter("continue", "string", "The token of an earlier answer."),
        Parameter("resourceVersion", "string", "Which state to answer from."),
        Parameter("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
        Parameter("sendInitialEvents", "boolean", "Let a watch begin with the objects that are there."),
        Parameter("allowWatchBookmarks", "boolean", "Let a watch tell how far it is."),
        Parameter("timeoutSeconds", "integer", "End a list or watch after so many seconds."),
        Parameter("watch", "boolean", "Answer with a stream of changes."),
        Parameter("gracePeriodSeconds", "integer", "How long the object may take to go; 0 means at once."),
        Parameter("propagationPolicy", "string", "What happens to dependents: Orphan, Background, Foreground."),
        Parameter("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    )
}


def _some(names: str) -> tuple[Parameter, ...]:
    return tuple(_P[name] for name in names.split())


_LIST = _some(
    "pretty allowWatchBookmarks continue fieldSelector labelSelector limit resourceVersion resourceVersionMatch "
    "sendInitialEvents timeoutSeconds watch"
)
_READ = _some("pretty resourceVersion")
_WRITE = _some("pretty dryRun fieldManager fieldValidation")
_PATCH = _some("pretty dryRun fieldManager fieldValidation force")
_DELETE = _some("pretty dryRun gracePeriodSeconds orphanDependents propagationPolicy")
_DELETE_MANY = _some(
    "pretty continue dryRun fieldSelector gracePeriodSeconds labelSelector limit orphanDependents propagationPolicy "
    "resourceVersion resourceVersionMatch sendInitialEvents timeoutSeconds"
)
# Subresource -> (its kind as (apiVersion, kind) or None for the object's own, its methods).
_SUBRESOURCES: dict[str, tuple[tuple[str, str] | None, tuple[str, ...]]] = {
    "status": (None, ("get", "put", "patch")),
    "finalize": (None, ("put",)),
    "scale": (("autoscaling/v1", "Scale"), ("get", "put", "patch")),
    "binding": (("v1", "Binding"), ("post",)),
    "eviction": (("policy/v1", "Eviction"), ("post",)),
    "token": (("authentication.k8s.io/v1", "TokenRequest"), ("post",)),
}
_VERB = {"get": "read", "put": "replace", "patch": "patch", "post": "create", "delete": "delete"}
_CODES = {"get": (200,), "put": (200, 201), "patch": (200, 201), "post": (200, 201, 202), "delete": (200, 202)}


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def _group_word(group: str) -> str:
    """`scheduling.k8s.io` -> Scheduling, `rbac.authorization.k8s.io` -> RbacAuthorization, "" -> Core."""
    short = group.removesuffix(".k8s.io") or "core"
    return "".join(_capital(part) for part in short.replace("-", ".").split("."))


def tag(kind: ServedKind) -> str:
    """`scheduling_v1alpha2`."""
    word = _group_word(kind.group)
    return f"{word[:1].lower()}{word[1:]}_{kind.version}"


def operations(kind: ServedKind) -> Iterator[Operation]:
    """All operations on a kind."""
    prefix = "/" + group_version_path(kind)
    words = _group_word(kind.group) + _capital(kind.version)
    scope = "Namespaced" if kind.namespaced else ""
    many = f"{prefix}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{prefix}/{kind.plural}"
    one = f"{many}/{{name}}"
    own, listed = components.name_of(kind), components.list_name_of(kind)
    shared: Json = {"tag": tag(kind), "gvk": components.gvk(kind), "namespaced": kind.namespaced}
    verbs = set(kind.verbs)

    def made(method: str, path: str, *, listing: bool = False, **more: Any) -> Operation:
        return Operation(path=path, method=method, named=not listing, **{**shared, **more})

    if "list" in verbs:
        yield made(
            "get",
            many,
            listing=True,
            action="list",
            operation_id=f"list{words}{scope}{kind.kind}",
            description=f"list or watch objects of kind {kind.kind}",
            parameters=_LIST,
            codes=(200,),
            answers=(listed,),
        )
        if kind.namespaced:
            everywhere = made(
                "get",
                f"{prefix}/{kind.plural}",
                listing=True,
                action="list",
                operation_id=f"list{words}{kind.kind}ForAllNamespaces",
                description=f"list or watch objects of kind {kind.kind}",
                parameters=_LIST,
                codes=(200,),
                answers=(listed,),
            )
            yield Operation(**{**everywhere.__dict__, "namespaced": False})
    if "create" in verbs:
        yield made(
            "post",
            many,
            listing=True,
            action="post",
            operation_id=f"create{words}{scope}{kind.kind}",
            description=f"create a {kind.kind}",
            parameters=_WRITE,
            codes=_CODES["post"],
            answers=(own,),
            body=own,
        )
    if "deletecollection" in verbs:
        yield made(
            "delete",
            many,
            listing=True,
            action="deletecollection",
            operation_id=f"delete{words}Collection{scope}{kind.kind}",
            description=f"delete collection of {kind.kind}",
            parameters=_DELETE_MANY,
            codes=(200,),
            answers=(components.STATUS, listed),
            body=components.DELETE_OPTIONS,
            body_required=False,
        )
    for verb, method, parameters in (
        ("get", "get", _READ),
        ("update", "put", _WRITE),
        ("patch", "patch", _PATCH),
        ("delete", "delete", _DELETE),
    ):
        if verb not in verbs:
            continue
        body = {"put": own, "patch": components.PATCH, "delete": components.DELETE_OPTIONS}.get(method)
        yield made(
            method,
            one,
            action=method,
            operation_id=f"{_VERB[method]}{words}{scope}{kind.kind}",
            description=f"{_VERB[method]} the specified {kind.kind}",
            parameters=parameters,
            codes=_CODES[method],
            answers=(components.STATUS, own) if method == "delete" else (own,),
            body=body,
            body_required=method != "delete",
            patch=method == "patch",
        )
    yield from _subresources(kind, one, words + scope, shared)


def _subresources(kind: ServedKind, one: str, words: str, shared: Json) -> Iterator[Operation]:
    for name in sorted(kind.subresources):
        if name not in _SUBRESOURCES:
            continue
        other, methods = _SUBRESOURCES[name]
        schema, gvk = components.name_of(kind), shared["gvk"]
        if other is not None:
            schema = definitions.definition_names()[other]
            group, _, version = other[0].rpartition("/")
            gvk = {"group": group, "kind": other[1], "version": version}
        answers = (components.STATUS, schema) if name in ("binding", "eviction") else (schema,)
        for method in methods:
            body = {"put": schema, "post": schema, "patch": components.PATCH}.get(method)
            yield Operation(
                **{**shared, "gvk": gvk},
                path=f"{one}/{name}",
                method=method,
                action=method,
                operation_id=f"{_VERB[method]}{words}{kind.kind}{_capital(name)}",
                description=f"{_VERB[method]} {name} of the specified {kind.kind}",
                parameters={"get": _READ, "patch": _PATCH}.get(method, _WRITE),
                codes=_CODES[method],
                answers=answers,
                body=body,
                patch=method == "patch",
                named=True,
            )


PATH_TEXTS = {
    "namespace": "object name and auth scope, such as for teams and projects",
    "name": "name of the object",
}


def path_parameters(operation: Operation) -> tuple[str, ...]:
    """Names in the braces of its path."""
    return tuple(name for name in ("name", "namespace") if f"{{{name}}}" in operation.path)


def extensions(operation: Operation) -> Json:
    """What Kubernetes tells of an operation beyond OpenAPI."""
    return {"x-kubernetes-action": operation.action, "x-kubernetes-group-version-kind": operation.gvk}


def extra_schemas(kind: ServedKind) -> set[str]:
    """Schemas of other groups that a kind's subresources use."""
    others = (_SUBRESOURCES[name][0] for name in kind.subresources if name in _SUBRESOURCES)
    return {definitions.definition_names()[other] for other in others if other is not None}


def paths(
    kinds: Iterable[ServedKind], parameter: Callable[[str], Json], written: Callable[[Operation, ServedKind], Json]
) -> tuple[Json, set[str]]:
    """The `paths` of a document, sorted, and the schemas they need beside those of the kinds.

    `parameter` writes the name of a path parameter out, `written` an operation.
    """
    found: Json = {}
    extra: set[str] = set()
    for kind in kinds:
        extra |= extra_schemas(kind)
        for operation in operations(kind):
            item = found.setdefault(operation.path, {"parameters": [parameter(p) for p in path_parameters(operation)]})
            item[operation.method] = written(operation, kind)
    return dict(sorted(found.items())), extra
