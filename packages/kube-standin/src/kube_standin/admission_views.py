"""A write as webhooks and policies see it: in the requested version, with the variables of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from kube_rules import cel
from kube_rules.admission.admission_reviews import review_request, user_info
from kube_rules.admission.request_match import EXEMPT_GROUP, AdmittedRequest, ApiResource, concerns
from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, User
from kube_standin.authorization import Authorizer
from kube_standin.conversion import from_storage, to_storage
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry
from kube_standin.rights import AccessDecision, Attributes
from kube_standin.schema import parse_json_strict

RuledT = TypeVar("RuledT")


@dataclass(frozen=True)
class AdmittedWrite:
    """A write: the row of the request, and the rows that it may be converted to."""

    request: AdmissionRequest
    kind: ServedKind
    rows: Mapping[ApiResource, ServedKind]
    match: AdmittedRequest


def api_resource(kind: ServedKind, subresource: str = "", body: tuple[str, str, str] | None = None) -> ApiResource:
    """Return a row as rules see it; `body` is the kind of the sent object, if it differs from the resource's."""
    return ApiResource(kind.group, kind.version, kind.plural, subresource, *(body or kind.gvk))


def user_of(request: AdmissionRequest) -> Json:
    """Return the user of a write in the form of reviews."""
    user = request.user
    return user_info(user.name, user.uid, user.groups, dict(user.extra))


class AdmissionViews:
    """Views of the writes of one registry."""

    def __init__(self, registry: ObjectRegistry, authorizer: Authorizer) -> None:
        self._registry = registry
        self._authorizer = authorizer

    def row(self, request: AdmissionRequest) -> ServedKind:
        """Return the row of the request's version."""
        return self._registry.kinds.of(request.version, request.kind.kind) or request.kind

    def versions(self, kind: ServedKind) -> list[ServedKind]:
        """Return all rows that share the stored objects of a row, that row first."""
        return [kind, *(row for row in self._registry.kinds if row.storage_key == kind.storage_key and row is not kind)]

    def of(self, request: AdmissionRequest) -> AdmittedWrite:
        """Return a write as rules and reviews see it."""
        kind = self.row(request)
        rows = {api_resource(row, request.subresource, request.body_kind): row for row in self.versions(kind)}
        resources = list(rows)
        of_namespace = kind.resource == "namespaces"
        match = AdmittedRequest(
            request.operation,
            resources[0],
            resources[1:],
            request.name if of_namespace else request.namespace,
            request.name,
            request.object,
            request.old,
            partial(self._namespace_labels, request.name if of_namespace else request.namespace),
        )
        return AdmittedWrite(request, kind, rows, match)

    def _namespace_labels(self, name: str) -> Mapping[str, str] | None:
        state = self._registry.head(self._registry.kind("v1", "Namespace"), "", name)
        return None if state is None else state.labels

    def objects(self, write: AdmittedWrite, matched: ApiResource) -> tuple[Json | None, Json | None]:
        """Return the new and the old object in the version that a webhook or a policy requests."""
        request = write.request
        if request.body_kind is not None:
            return request.object, request.old
        row = write.rows[matched]
        heads = {"kind": row.kind, "apiVersion": row.api_version}
        new, old = (
            None if obj is None else {**heads, **from_storage(row, obj), **heads}
            for obj in (request.object, request.old)
        )
        return new, old

    def stored(self, write: AdmittedWrite, matched: ApiResource, patched: Json, validation: Any = "Ignore") -> Json:
        """Return the stored form of a changed object; raises StatusError."""
        decoder, request = self._registry.decoder, write.request
        if request.body_kind is not None:
            group, version, kind = request.body_kind
            if request.operation == "CONNECT":
                return patched
            return decoder.side_body(f"{group}/{version}" if group else version, kind, patched)
        row = write.rows[matched]
        return to_storage(row, decoder.patched(row, patched, validation, []))

    def values(self, write: AdmittedWrite, matched: ApiResource) -> dict[str, Any]:
        """Return the variables `object`, `oldObject`, `request` and `authorizer` of expressions."""
        request = write.request
        new, old = self.objects(write, matched)
        raw = review_request(write.match, matched, user_of(request), request.options, (None, None), request.dry_run)
        review, _ = parse_json_strict(raw)
        return {"object": new, "oldObject": old, "request": review, "authorizer": self._asker(write)}

    def _asker(self, write: AdmittedWrite) -> cel.UserAccess:
        """Return the access to this server's own authorizer in its current state."""
        resource, request = write.match.resource, write.request
        access = cel.AccessQuestion(
            group=resource.group,
            resource=resource.plural,
            subresource=resource.subresource,
            namespace=write.match.namespace,
            name=request.name,
        )
        decide, user = self._authorizer.at_present(), request.user

        def answer(question: cel.AccessQuestion) -> tuple[bool, str]:
            decision: AccessDecision = decide(_asking(user, question), _attributes(question))
            return decision.allowed, decision.reason

        return cel.UserAccess(answer, access)


class ConcernedByResource(Generic[RuledT]):
    """The webhooks or policies with a rule for a resource, cached until the kinds change."""

    def __init__(self, registry: ObjectRegistry, views: AdmissionViews) -> None:
        self._kinds = registry.kinds
        self._views = views
        self._generation = 0
        self._cache: dict[tuple[str, str, str], tuple[RuledT, ...]] = {}

    def clear(self) -> None:
        """Clear the cache: webhooks or policies have changed."""
        self._cache.clear()

    def of(
        self, name: str, kind: ServedKind, candidates: Sequence[RuledT], rules: Callable[[RuledT], Iterable[Json]]
    ) -> tuple[RuledT, ...]:
        """Return those of the `candidates` named `name` that have a rule for a kind in one of its versions."""
        if not candidates or kind.group == EXEMPT_GROUP:
            return ()
        if self._generation != self._kinds.generation:
            self._generation = self._kinds.generation
            self._cache.clear()
        key = name, kind.storage_key, kind.api_version
        result = self._cache.get(key)
        if result is None:
            resources = [api_resource(row) for row in self._views.versions(kind)]
            result = self._cache[key] = tuple(
                candidate for candidate in candidates if concerns(rules(candidate), resources)
            )
        return result


def _asking(user: User, question: cel.AccessQuestion) -> User:
    if question.account is None:
        return user
    namespace, name = question.account
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


def _attributes(question: cel.AccessQuestion) -> Attributes:
    return Attributes(
        question.verb,
        question.group,
        question.resource,
        question.subresource,
        question.namespace,
        question.name,
        question.path,
    )
