"""The verbs over HTTP: from a target and a body to a response.

The order of checks is kube-apiserver's: the resource exists, the verb is allowed on it, the Accept header is
acceptable, then parameters, then the body.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from kube_rules.json import Json
from kube_standin import errors, patching
from kube_standin.admission_chain import User
from kube_standin.authorization import Authorizer
from kube_standin.binding import bind_now
from kube_standin.custom_versions import served
from kube_standin.deletion import DeleteOptions, options_from, warnings_of
from kube_standin.deprecations import deprecation_of
from kube_standin.errors import StatusError
from kube_standin.eviction import evict_now
from kube_standin.kinds import CONNECTIONS, ServedKind, subresource
from kube_standin.node_tokens import check_token_request
from kube_standin.patching.ownership import condense
from kube_standin.registry import ObjectRegistry, Outcome, WriteOptions
from kube_standin.reviews import answer as answer_review
from kube_standin.scale import apply_scale_now, scale_of, write_scale_now
from kube_standin.security import Tokens
from kube_standin.selectors import select
from kube_standin.server.bodies import decode_body, decode_patch, media_type, repeated_in_patch
from kube_standin.server.body_slots import LargeTurn
from kube_standin.server.components import Components
from kube_standin.server.lists import list_page, reach, selected
from kube_standin.server.negotiation import PLAIN, AnswerForm, negotiate, negotiate_custom, negotiate_review
from kube_standin.server.pod_streams import connection_options, refuse_connection
from kube_standin.server.query import list_options, parse_revision, write_options
from kube_standin.server.responses import Renderer, Reply
from kube_standin.server.target import Target
from kube_standin.server.usage import Usage
from kube_standin.subresource_admission import admit_body
from kube_standin.tokens import issue_now
from kube_standin.worker_thread import OffLoopSteps, TooManyTurnsError, Turn, off_loop, repeated


class PlainNotFound(Exception):  # noqa: N818 - a response, not a failure
    """Raised for a 404 as plain text: the group is not served."""


@dataclass(frozen=True)
class ResourceCall:
    """One request to a resource, with its body. ``aside``: the context of a wait for webhooks."""

    target: Target
    kind: ServedKind
    user: User
    headers: Mapping[str, str]
    body: bytes
    aside: Callable[[], AbstractAsyncContextManager[object]] = nullcontext[None]

    @property
    def content_type(self) -> str:
        """Return the Content-Type header, "" without one."""
        return self.headers.get("content-type", "")

    @property
    def user_agent(self) -> str:
        """Return the User-Agent header."""
        return self.headers.get("user-agent", "")


def resolve(registry: ObjectRegistry, target: Target) -> ServedKind:
    """Return the kind that a target names; raises the matching kind of 404, or 405."""
    kind = registry.kinds.at(target.group, target.version, target.resource)
    if kind is None:
        if target.group not in registry.kinds.groups():
            raise PlainNotFound
        raise errors.unknown_resource()
    # A namespace's own path names it twice; neither a namespace nor another cluster-scoped object is inside one.
    if target.namespace and not kind.namespaced and (kind.plural, target.name) != ("namespaces", target.namespace):
        raise errors.unknown_resource()
    if target.subresource and target.subresource not in kind.subresources:
        if kind.custom and target.subresource in ("scale", "status"):
            raise errors.not_found(kind.plural, kind.group, target.name)
        raise errors.unknown_resource()
    _check_verb(kind, target)
    return kind


def _check_verb(kind: ServedKind, target: Target) -> None:
    verb = target.verb
    if target.method in ("HEAD", "OPTIONS"):
        raise errors.method_not_allowed()
    if target.subresource:
        allowed = verb in subresource(kind, target.subresource).verbs
    else:
        allowed = verb in kind.verbs and (verb != "create" or not target.name)
        if verb in ("update", "patch") and not target.name:
            allowed = False
    cluster_wide = kind.namespaced and not target.namespace
    if not allowed or (cluster_wide and verb not in ("list", "watch")):
        raise errors.method_not_allowed()


LARGE = 64 * 1024
"""The size in bytes of a body, or of an object to change, from which `off_loop_steps` handles the request.

Such requests run one by one, so that their total memory is bounded."""

_MOST_WARNINGS = 64
"""The largest number of warnings of webhooks about one request."""

_SIDE_BODIES = {
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "scale": ("autoscaling/v1", "Scale"),
    "token": ("authentication.k8s.io/v1", "TokenRequest"),
}
"""Kinds of bodies that differ from the resource they are sent to."""


def _drop_empty(value: Any) -> None:
    """Remove empty texts from a review's attributes: they mean "not set"."""
    if isinstance(value, dict):
        for key in [key for key, inner in value.items() if inner == ""]:
            del value[key]
        for inner in value.values():
            _drop_empty(inner)


class Resources:
    """The verbs of one registry over HTTP."""

    def __init__(
        self,
        registry: ObjectRegistry,
        renderer: Renderer,
        authorizer: Authorizer,
        tokens: Tokens,
        *,
        future_wait: float,
        controllers: bool = False,
    ) -> None:
        self._registry = registry
        self._renderer = renderer
        self._authorizer = authorizer
        self._tokens = tokens
        self._future_wait = future_wait
        self._usage = Usage(registry)
        self._components = Components(controllers=controllers)
        self._large = asyncio.Semaphore(1)

    async def handle(self, call: ResourceCall) -> Reply:
        """Run one request; raises StatusError. A deprecated version causes a warning, also in refusals (api.md 2.6)."""
        deprecated = deprecation_of(call.kind, self._registry.kinds)
        if deprecated is None:
            return await self._turned(call)
        try:
            reply = await self._turned(call)
        except StatusError as error:
            error.warnings = (deprecated, *error.warnings)
            raise
        reply.warnings = (deprecated, *reply.warnings)
        return reply

    async def _turned(self, call: ResourceCall) -> Reply:
        """Run one request; large ones run one by one."""
        if len(call.body) <= LARGE:
            return await self._handle(call)
        async with LargeTurn(self._large) as turn:
            return await self._handle(replace(call, aside=turn.aside))

    async def _handle(self, call: ResourceCall) -> Reply:
        if call.target.subresource in CONNECTIONS:
            raise await self._refused_connection(call)
        if call.kind.computed:
            return await self._computed(call, negotiate(call.headers.get("accept", "")))
        choose = negotiate_custom if call.kind.custom else negotiate if call.kind.stored else negotiate_review
        answer = choose(call.headers.get("accept", ""))
        if not call.kind.stored and call.kind.kind != "Binding":
            return await self._review(call, answer)
        match call.target.verb:
            case "get":
                return await self._get(call, answer)
            case "list":
                return await self._list(call, answer)
            case "create":
                return await self._create(call, answer)
            case "update":
                return await self._update(call, answer)
            case "patch":
                return await self._patch(call, answer)
            case "delete":
                return await self._delete(call, answer)
            case "deletecollection":
                return await self._delete_collection(call, answer)
            case _:
                raise errors.method_not_allowed()

    # -- reading -------------------------------------------------------------------------------------------

    async def _get(self, call: ResourceCall, answer: AnswerForm) -> Reply:
        target, kind = call.target, call.kind
        version = target.query.get("resourceVersion", "")
        if version not in ("", "0"):
            try:
                revision = parse_revision(version)
            except ValueError as error:
                raise errors.internal(str(error)) from error
            await reach(self._registry, revision, self._future_wait)
        stored = self._registry.get_state(kind, target.namespace, target.name)
        kind, [state] = await served(kind, [stored])
        if target.subresource == "scale":
            return self._renderer.document(scale_of(kind, self._registry.view(kind, state)), answer, target.query)
        return self._renderer.stored(kind, state, answer, target.query)

    async def _list(self, call: ResourceCall, answer: AnswerForm) -> Reply:
        target, kind = call.target, call.kind
        options = list_options(target.query)
        namespace = target.namespace if kind.namespaced and target.namespace else None
        page, metadata = await list_page(self._registry, kind, namespace, options, self._future_wait)
        if kind.custom and answer.form == "object":
            metadata.setdefault("continue", "")  # lists of custom resources always show it
        kind, states = await served(kind, page.states)
        return self._renderer.many(kind, states, metadata, answer, target.query)

    async def _computed(self, call: ResourceCall, answer: AnswerForm) -> Reply:
        """Return the usage of nodes or pods, or the health of components."""
        target, kind = call.target, call.kind
        source: Usage | Components = self._components if kind.kind == "ComponentStatus" else self._usage
        if target.name:
            return self._renderer.one(kind, await source.one(kind, target), answer, target.query)
        items = await source.many(kind, target)
        if answer.form == "table":
            return self._renderer.document(self._renderer.table(kind, items, {}, target.query), answer, target.query)
        document = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": {}, "items": items}
        return self._renderer.document(document, answer, target.query)

    # -- writing -------------------------------------------------------------------------------------------

    def _options(self, call: ResourceCall) -> WriteOptions:
        apply = call.target.verb == "patch" and media_type(call.content_type) == "application/apply-patch+yaml"
        options = write_options(call.target.verb, call.target.query, call.user, call.user_agent, apply=apply)
        if call.target.verb in ("update", "patch"):
            # A PUT or an apply of a missing object needs the right to create it, too (api.md 7.2).
            options.may_create = partial(
                self._authorizer.check, call.user, replace(call.target.attributes, verb="create")
            )
        return options

    async def _decoded(self, call: ResourceCall, options: WriteOptions) -> Json:
        def decode() -> Json:
            obj, repeated = decode_body(call.body, call.content_type, call.kind.kind)
            decoded = self._registry.decoder.decode(call.kind, obj, options.validation, options.warnings, repeated)
            condense(decoded)
            return decoded

        return await off_loop(decode) if len(call.body) > LARGE else decode()

    async def _written(
        self, call: ResourceCall, options: WriteOptions, sent: Any, write: Callable[[Any], Outcome]
    ) -> Outcome:
        """Write the decoded body; a refusal carries the warnings so far."""
        try:
            return await self._tried(call, options, sent, write)
        except StatusError as error:
            error.warnings = tuple(options.warnings)
            raise

    async def _tried(
        self, call: ResourceCall, options: WriteOptions, sent: Any, write: Callable[[Any], Outcome]
    ) -> Outcome:
        """Write the decoded body; long steps run beside the event loop."""
        state = self._registry.head(call.kind, call.target.namespace, call.target.name) if call.target.name else None
        large = len(call.body) > LARGE or (state is not None and len(state.raw) > LARGE)
        if not large and not call.kind.custom and not self._registry.chain.waits(call.kind):
            return write(sent)
        options.off_loop_steps = OffLoopSteps(always=large, aside=call.aside)
        body, warnings = msgspec.json.encode(sent), list(options.warnings)

        def again() -> Outcome:
            options.warnings[:] = warnings
            return write(msgspec.json.decode(body))

        try:
            return await repeated(again)
        except TooManyTurnsError as error:
            kind = call.kind
            raise errors.conflict(kind.plural, kind.group, call.target.name, errors.MODIFIED) from error

    async def _waited(
        self, call: ResourceCall, kind: ServedKind, options: WriteOptions, write: Callable[[], Outcome]
    ) -> Outcome:
        """Write to a subresource, waiting for webhooks or a conversion if necessary; a refusal has their warnings."""
        if not kind.custom and not self._registry.chain.waits(kind):
            return write()
        options.off_loop_steps = OffLoopSteps(always=False, aside=call.aside)

        def again() -> Outcome:
            options.warnings.clear()
            return write()

        try:
            return await repeated(again)
        except TooManyTurnsError as error:
            raise errors.conflict(kind.plural, kind.group, "", errors.MODIFIED) from error
        except StatusError as error:
            error.warnings = tuple(options.warnings)
            raise

    async def _deleted(self, kind: ServedKind, namespace: str, name: str, options: DeleteOptions) -> Outcome:
        """Delete one object, waiting for webhooks or a conversion if necessary; the options get their warnings."""
        if not kind.custom and not self._registry.chain.waits(kind):
            return self._registry.deletion.delete(kind, namespace, name, options)
        warnings: list[str] = []
        waiting = replace(options, off_loop_steps=OffLoopSteps(always=False), warnings=warnings)

        def again() -> Outcome:
            warnings.clear()
            return self._registry.deletion.delete(kind, namespace, name, waiting)

        try:
            return await repeated(again)
        except TooManyTurnsError as error:
            raise errors.conflict(kind.plural, kind.group, name, errors.MODIFIED) from error
        except StatusError as error:
            error.warnings = tuple(warnings)
            raise
        finally:
            options.warnings.extend(warnings[: _MOST_WARNINGS - len(options.warnings)])

    async def _finish(self, call: ResourceCall, outcome: Outcome, options: WriteOptions, answer: AnswerForm) -> Reply:
        await outcome.ticket.settled()
        status = 201 if outcome.created else 200
        state, kind = outcome.state, call.kind
        converts = kind.versions is not None and kind.versions.webhook is not None
        if state is not None and not converts and answer == PLAIN and "pretty" not in call.target.query:
            reply = self._renderer.plain(kind, state, status)
        else:
            reply = self._renderer.one(call.kind, outcome.object, answer, call.target.query, status)
        reply.warnings = options.warnings
        return reply

    async def _document(self, outcome: Outcome, answer: AnswerForm, code: int) -> Reply:
        """Return a document that is not an object of the resource (a Status, a Scale, a token)."""
        await outcome.ticket.settled()
        return self._renderer.document(outcome.object, AnswerForm(yaml=answer.yaml), {}, code)

    async def _create(self, call: ResourceCall, answer: AnswerForm) -> Reply:
        target, kind, registry = call.target, call.kind, self._registry
        options = self._options(call)
        subresource = target.subresource or ("binding" if kind.resource == "bindings" else "")
        if subresource in ("binding", "eviction", "token"):
            body = await self._side_body(call, *_SIDE_BODIES[subresource])
            if subresource == "token":
                check_token_request(registry, self._authorizer, call.user, target.namespace, target.name, body)
                review = issue_now(registry, self._tokens, kind, target.namespace, target.name, body)
                outcome = Outcome(review, ticket=registry.store.ticket)
            else:
                change = bind_now if subresource == "binding" else evict_now
                pods = registry.kind("v1", "Pod")
                outcome = await self._waited(
                    call,
                    pods,
                    options,
                    lambda: change(registry, target.namespace, target.name, copy.deepcopy(body), options),
                )
            return await self._document(outcome, answer, 201)
        obj = await self._decoded(call, options)
        outcome = await self._written(
            call, options, obj, lambda sent: registry.create_now(kind, target.namespace, sent, options)
        )
        return await self._finish(call, outcome, options, answer)

    async def _refused_connection(self, call: ResourceCall) -> StatusError:
        """Return the response to an admitted connection; raises StatusError if it is refused (interfaces.md 6.16)."""
        target, kind, registry = call.target, call.kind, self._registry
        place = subresource(kind, target.subresource)
        options = WriteOptions(user=call.user)

        def admit() -> Outcome:
            bodies = connection_options(target), None
            admit_body(registry, "CONNECT", kind, target.namespace, target.name, place, bodies, options)
            return Outcome({}, ticket=registry.store.ticket)

        await self._waited(call, kind, options, admit)
        refusal = refuse_connection(registry, kind, target)
        refusal.warnings = tuple(options.warnings)
        return refusal

    async def _review(self, call: ResourceCall, answer: AnswerForm) -> Reply:
        options = self._options(call)
        review = await self._decoded(call, options)
        outcome = self._registry.create_review(call.kind, call.target.namespace, review, options)
        _drop_empty((outcome.get("spec") or {}).get("resourceAttributes"))
        outcome["status"] = answer_review(call.kind, outcome, call.user, self._authorizer, self._tokens)
        reply = self._renderer.one(call.kind, outcome, answer, call.target.query, 201)
        reply.warnings = options.warnings
        return reply

    async def _update(self, call: ResourceCall, answer: AnswerForm) -> Reply:
        target, kind, registry = call.target, call.kind, self._registry
        options = self._options(call)
        if target.subresource == "scale":
            scale = await self._side_body(call, *_SIDE_BODIES["scale"])
            outcome = await self._waited(
                call,
                kind,
                options,
                lambda: write_scale_now(registry, kind, target.namespace, target.name, copy.deepcopy(scale), options),
            )
            return await self._document(outcome, answer, 200)
        obj = await self._decoded(call, options)
        place = target.namespace, target.name
        outcome = await self._written(
            call, options, obj, lambda sent: registry.update_now(kind, *place, sent, options, target.subresource)
        )
        return await self._finish(call, outcome, options, answer)

    async def _patch(self, call: ResourceCall, answer: AnswerForm) -> Reply:
        target, kind, registry = call.target, call.kind, self._registry
        options = self._options(call)
        decode = partial(decode_patch, call.body, call.content_type or "application/json", kind)
        large = len(call.body) > LARGE
        patch_type, patch = await off_loop(decode) if large else decode()
        if options.validation != "Ignore":
            look = partial(repeated_in_patch, call.body, patch_type)
            options.repeated = await off_loop(look) if large else look()
        if target.subresource == "scale":
            change = self._apply_scale if patch_type == "apply" else partial(self._patch_scale, patch_type)
            outcome = await self._waited(call, kind, options, lambda: change(call, copy.deepcopy(patch), options))
            return await self._document(outcome, answer, 200)
        place = target.namespace, target.name
        outcome = await self._written(
            call,
            options,
            patch,
            lambda sent: registry.patch_now(kind, *place, patch_type, sent, options, target.subresource),
        )
        return await self._finish(call, outcome, options, answer)

    def _apply_scale(self, call: ResourceCall, patch: Any, options: WriteOptions) -> Outcome:
        scale = self._registry.decoder.side_body(*_SIDE_BODIES["scale"], patch)
        return apply_scale_now(self._registry, call.kind, call.target.namespace, call.target.name, scale, options)

    def _patch_scale(self, patch_type: str, call: ResourceCall, patch: Any, options: WriteOptions) -> Outcome:
        target, kind, registry = call.target, call.kind, self._registry
        old = registry.find(kind, target.namespace, target.name)
        if old is None:
            raise errors.not_found(kind.plural, kind.group, target.name)
        scale = scale_of(kind, old)
        try:
            # A Scale has no lists: strategic and plain merge are equal.
            change = patching.json_patch if patch_type == "json" else patching.merge_patch
            scale = change(scale, patch)
        except patching.PatchError as error:
            raise StatusError(error.code, error.reason, error.message) from error
        scale = registry.decoder.side_body(*_SIDE_BODIES["scale"], scale)
        return write_scale_now(registry, kind, target.namespace, target.name, scale, options)

    async def _delete(self, call: ResourceCall, answer: AnswerForm) -> Reply:
        target, kind = call.target, call.kind
        options = options_from(await self._delete_body(call), target.query, call.user)
        outcome = await self._deleted(kind, target.namespace, target.name, options)
        await outcome.ticket.settled()
        if outcome.deleted and not kind.returns_deleted:
            uid = outcome.object["metadata"].get("uid", "")
            status = Outcome(errors.success(target.name, kind.group, kind.plural, uid))
            reply = await self._document(status, answer, 200)
        else:
            reply = self._renderer.one(kind, outcome.object, answer, target.query)
        reply.warnings = [*options.warnings, *warnings_of(kind, options)]
        return reply

    async def _delete_collection(self, call: ResourceCall, answer: AnswerForm) -> Reply:
        target, kind, registry = call.target, call.kind, self._registry
        options = options_from(await self._delete_body(call), target.query, call.user)
        listing = list_options({k: v for k, v in target.query.items() if k in ("labelSelector", "fieldSelector")})
        selection = select(kind, listing.labels, listing.fields)
        namespace = target.namespace if kind.namespaced else None
        page = registry.store.page(kind.storage_key, namespace)
        states = await selected(kind, page.states, selection)
        turn = Turn()
        for state in states:
            try:
                await self._deleted(kind, state.namespace, state.name, options)
            except StatusError as error:
                if error.reason != "NotFound":
                    raise
            if turn.is_over:
                await registry.store.ticket.settled()
            await turn.over()
        await registry.store.ticket.settled()
        kind, shown = await served(kind, states)
        reply = self._renderer.many(kind, shown, {"resourceVersion": str(page.revision)}, answer, target.query)
        reply.warnings = [*options.warnings, *warnings_of(kind, options)]
        return reply

    async def _side_body(self, call: ResourceCall, api_version: str, kind: str) -> Json:
        def decode() -> Json:
            body, _ = decode_body(call.body, call.content_type, kind)
            if body.get("kind", kind) != kind:
                raise errors.bad_request(f"the object provided is unrecognized (must be of type {kind})")
            return self._registry.decoder.side_body(api_version, kind, body)

        return await off_loop(decode) if len(call.body) > LARGE else decode()

    async def _delete_body(self, call: ResourceCall) -> Json:
        return await self._side_body(call, "v1", "DeleteOptions") if call.body else {}
