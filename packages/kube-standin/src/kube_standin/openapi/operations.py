"""The operations on a kind: their paths, inputs and responses.

An operation is described once, independent of the version, and written per version of OpenAPI. Operation ids follow
upstream (`readSchedulingV1alpha2NamespacedPodGroupStatus`), because generated clients use them as names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kube_rules.json import Json
from kube_rules.schema import definitions
from kube_standin.kinds import STREAMS, ServedKind, subresource
from kube_standin.openapi import components


class Parameter(NamedTuple):
    """One query parameter."""

    name: str
    type: str
    description: str


@dataclass(frozen=True)
class Operation:
    """One operation on one path. `body` and `answers` are full schema names; several answers are alternatives."""

    path: str
    method: str
    action: str
    operation_id: str
    description: str
    tag: str
    gvk: Json
    parameters: tuple[Parameter, ...]
    answers: tuple[str, ...]
    body: str | None

    @property
    def codes(self) -> tuple[int, ...]:
        """Return the status codes of successful responses."""
        return _CODES.get(self.action, (200,))

    @property
    def body_required(self) -> bool:
        """Return whether a request without a body is refused."""
        return self.method != "delete"

    @property
    def patch(self) -> bool:
        """Return whether the body is a patch."""
        return self.method == "patch"

    @property
    def schemas(self) -> tuple[str, ...]:
        """Return the full names of all schemas that it refers to."""
        return (*self.answers, *([self.body] if self.body is not None else ()))


_P = {
    p.name: p
    for p in (
        Parameter("pretty", "string", "true: indent the answer."),
        Parameter("dryRun", "string", "All: process the request fully, but store nothing."),
        Parameter("fieldManager", "string", "Name of the client that makes this change, at most 128 bytes."),
        Parameter("fieldValidation", "string", "What to do about unknown or duplicate fields: Ignore, Warn, Strict."),
        Parameter("force", "boolean", "Take over fields that other managers own. Apply patches only."),
        Parameter("labelSelector", "string", "Restrict the objects to those with matching labels."),
        Parameter("fieldSelector", "string", "Restrict the objects to those with matching fields."),
        Parameter(
            "limit", "integer", "Maximum number of objects to return; the response has a token for the next part."
        ),
        Parameter("continue", "string", "The continue token of an earlier response."),
        Parameter("resourceVersion", "string", "The resource version to read or to watch from."),
        Parameter("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
        Parameter("sendInitialEvents", "boolean", "Begin a watch with the existing objects."),
        Parameter("allowWatchBookmarks", "boolean", "Send bookmark events in a watch."),
        Parameter("timeoutSeconds", "integer", "End a list or watch after this many seconds."),
        Parameter("watch", "boolean", "Return a stream of changes."),
        Parameter("gracePeriodSeconds", "integer", "Seconds until the object is deleted; 0 means immediately."),
        Parameter("propagationPolicy", "string", "How to treat dependents: Orphan, Background, Foreground."),
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
_CODES = {"put": (200, 201), "patch": (200, 201), "post": (200, 201, 202), "delete": (200, 202)}
"""Action -> codes, if not only 200."""


class _Row(NamedTuple):
    """An operation of every kind that has the verb.

    `path`: "many" (the collection), "all" (that of all namespaces) or "one" (an object). In texts `{id}` stands for
    group, scope and kind. `answers` and `body` name schemas: "own", "list", or one of `components`.
    """

    verb: str
    path: str
    action: str
    operation_id: str
    description: str
    parameters: tuple[Parameter, ...]
    answers: tuple[str, ...]
    body: str | None = None


_STATUS, _OPTIONS, _PATCH_BODY = components.STATUS, components.DELETE_OPTIONS, components.PATCH
_OWN, _LISTED, _DELETED, _MANY = ("own",), ("list",), (_STATUS, "list"), "deletecollection"
_ROWS = (
    _Row("list", "many", "list", "list{id}", "list or watch objects of kind {kind}", _LIST, _LISTED),
    _Row("list", "all", "list", "list{all}ForAllNamespaces", "list or watch objects of kind {kind}", _LIST, _LISTED),
    _Row("create", "many", "post", "create{id}", "create a {kind}", _WRITE, _OWN, "own"),
    _Row(
        _MANY, "many", _MANY, "delete{many}", "delete collection of {kind}", _DELETE_MANY, (_STATUS, "list"), _OPTIONS
    ),
    _Row("get", "one", "get", "read{id}", "read the specified {kind}", _READ, _OWN),
    _Row("update", "one", "put", "replace{id}", "replace the specified {kind}", _WRITE, _OWN, "own"),
    _Row("patch", "one", "patch", "patch{id}", "patch the specified {kind}", _PATCH, _OWN, _PATCH_BODY),
    _Row("delete", "one", "delete", "delete{id}", "delete the specified {kind}", _DELETE, (_STATUS, "own"), _OPTIONS),
)
_METHODS = {"list": "get", _MANY: "delete"}
"""Action -> method, if they differ."""
_SUBRESOURCE_ROWS = (
    ("get", "get", "read", _READ, None),
    ("update", "put", "replace", _WRITE, "own"),
    ("patch", "patch", "patch", _PATCH, _PATCH_BODY),
    ("create", "post", "create", _WRITE, "own"),
)
"""Verb, method, word of the id, parameters, body."""
_ANSWERED_WITH_STATUS = ("binding", "eviction")
"""Subresources with bodies that are not objects."""


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def _group_word(group: str) -> str:
    """Return the word of a group: Scheduling for `scheduling.k8s.io`, Core for the core group."""
    short = group.removesuffix(".k8s.io") or "core"
    return "".join(_capital(part) for part in short.replace("-", ".").split("."))


def tag(kind: ServedKind) -> str:
    """Return the tag of a kind: `scheduling_v1alpha2`."""
    word = _group_word(kind.group)
    return f"{word[:1].lower()}{word[1:]}_{kind.version}"


def group_version_path(kind: ServedKind) -> str:
    """Return the path prefix of a group version: `api/v1` or `apis/GROUP/VERSION`."""
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def operations(kind: ServedKind) -> Iterator[Operation]:
    """Yield all operations on a kind."""
    everywhere = f"/{group_version_path(kind)}/{kind.plural}"
    many = f"/{group_version_path(kind)}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else everywhere
    places = {"many": many, "one": f"{many}/{{name}}"} | ({"all": everywhere} if kind.namespaced else {})
    scope = "Namespaced" if kind.namespaced else ""
    group = _group_word(kind.group) + _capital(kind.version)
    words = {
        "id": f"{group}{scope}{kind.kind}",
        "all": f"{group}{kind.kind}",
        "many": f"{group}Collection{scope}{kind.kind}",
        "kind": kind.kind,
    }
    schemas = {"own": components.name_of(kind), "list": components.list_name_of(kind)}
    for row in _ROWS:
        if row.verb in kind.verbs and row.path in places:
            yield Operation(
                path=places[row.path],
                method=_METHODS.get(row.action, row.action),
                action=row.action,
                operation_id=row.operation_id.format_map(words),
                description=row.description.format_map(words),
                tag=tag(kind),
                gvk=components.gvk(kind),
                parameters=row.parameters,
                answers=tuple(schemas.get(name, name) for name in row.answers),
                body=schemas.get(row.body, row.body) if row.body is not None else None,
            )
    for name in sorted(kind.subresources - STREAMS):
        side = subresource(kind, name)
        own, gvk = schemas["own"], components.gvk(kind)
        if side.kind != kind.kind:
            own = definitions.definition_names()[side.api_version, side.kind]
            gvk = {"group": side.group, "kind": side.kind, "version": side.version or "v1"}
        for verb, method, word, parameters, body in _SUBRESOURCE_ROWS:
            if verb in side.verbs:
                yield Operation(
                    path=f"{places['one']}/{name}",
                    method=method,
                    action=method,
                    operation_id=f"{word}{words['id']}{_capital(name)}",
                    description=f"{word} {name} of the specified {kind.kind}",
                    tag=tag(kind),
                    gvk=gvk,
                    parameters=parameters,
                    answers=(_STATUS, own) if name in _ANSWERED_WITH_STATUS else (own,),
                    body=own if body == "own" else body,
                )
