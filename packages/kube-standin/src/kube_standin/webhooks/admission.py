"""Admission webhooks: mutating ones in turn, validating ones at the same time.

A write that needs an answer is broken off and begun anew once the answer is there (`worker_thread`), so a webhook sees
exactly what the write would store, and what has changed meanwhile is sent to it again. Rules and texts:
k8s.io/apiserver, admission/plugin/webhook; interfaces.md 6.
"""

from __future__ import annotations

import copy
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from kube_rules.admission.admission_reviews import (
    ReviewError,
    ReviewResponse,
    denial,
    read_response,
    review,
    review_request,
    review_version,
    user_info,
)
from kube_rules.admission.match_conditions import ConditionError, conditions_hold
from kube_rules.admission.request_match import AdmittedRequest, ApiResource, NoNamespaceError, matched_resource
from kube_rules.errors import excerpt
from kube_rules.json import Json
from kube_standin import errors, patching
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.conversion import from_storage, to_storage
from kube_standin.errors import Cause, StatusError
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry
from kube_standin.schema import parse_json_strict
from kube_standin.webhooks.configurations import ConfiguredWebhook, WebhookConfigurations, api_resource
from kube_standin.webhooks.reach import WebhookCallError
from kube_standin.worker_thread import INLINE, AwaitedCall

log = logging.getLogger("reprieve.apiserver")

_DRY_RUN_SAFE = ("None", "NoneOnDryRun")
_DEFAULT_SECONDS = 10
_MUTATING, _VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"


class CallsWebhooks(Protocol):
    """What posts a review; `WebhookCaller` does."""

    async def call(self, webhook: str, client_config: Mapping[str, Any], body: bytes, seconds: float) -> Json:
        """Return the JSON object that a webhook answers; raises WebhookCallError."""


@dataclass
class MutationRounds:
    """What mutating webhooks did to one write: which may be called again, and which have to."""

    invoked: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)
    output: Json | None = None

    def require_again(self) -> None:
        """Have those that were called so far called again."""
        self.again |= self.invoked
        self.invoked = set()


@dataclass(frozen=True)
class _Sent:
    """A write as webhooks see it: the row of the request, and those it may be converted to."""

    request: AdmissionRequest
    kind: ServedKind
    rows: Mapping[ApiResource, ServedKind]
    match: AdmittedRequest


class AdmissionWebhooks:
    """What both kinds of webhooks share over one registry."""

    def __init__(self, registry: ObjectRegistry, caller: CallsWebhooks, configurations: WebhookConfigurations) -> None:
        self._registry = registry
        self._caller = caller
        self.configurations = configurations

    def concerned(self, configuration: str, request: AdmissionRequest) -> tuple[ConfiguredWebhook, ...]:
        """Return the webhooks that may be called for a write; none for one that cannot wait."""
        if request.off_loop_steps is INLINE:
            return ()
        return self.configurations.concerned(configuration, self._row(request))

    def _row(self, request: AdmissionRequest) -> ServedKind:
        """Return the row of the version that the request is for."""
        return self._registry.kinds.of(request.version, request.kind.kind) or request.kind

    def sent(self, request: AdmissionRequest) -> _Sent:
        """Return a write as rules and reviews see it."""
        kind = self._row(request)
        rows = {
            api_resource(row, request.subresource, request.body_kind): row for row in self.configurations.versions(kind)
        }
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
        return _Sent(request, kind, rows, match)

    def _namespace_labels(self, name: str) -> Mapping[str, str] | None:
        state = self._registry.head(self._registry.kind("v1", "Namespace"), "", name)
        return None if state is None else state.labels

    def objects(self, sent: _Sent, matched: ApiResource) -> tuple[Json | None, Json | None]:
        """Return the new and the old object in the version that a webhook asked for."""
        request = sent.request
        if request.body_kind is not None:
            return request.object, request.old
        row = sent.rows[matched]
        heads = {"kind": row.kind, "apiVersion": row.api_version}
        new, old = (
            None if one is None else {**heads, **from_storage(row, one), **heads}
            for one in (request.object, request.old)
        )
        return new, old

    def matched(self, sent: _Sent, webhook: ConfiguredWebhook) -> ApiResource | None:
        """Return the form in which a write is sent to a webhook, None if it is not; raises StatusError."""
        entry = dict(webhook.entry)
        try:
            found = matched_resource(entry, sent.match, entry.get("rules") or ())
        except NoNamespaceError:
            raise errors.not_found("namespaces", "", sent.match.namespace) from None
        conditions = entry.get("matchConditions") or ()
        if found is None or not conditions:
            return found
        new, old = self.objects(sent, found)
        request = self._registry_request(sent, found)
        values = {"object": new, "oldObject": old, "request": request}
        try:
            return found if conditions_hold(conditions, values, entry.get("failurePolicy", "Fail")) else None
        except ConditionError as error:
            raise sent.request.refused(str(error)) from error

    def _registry_request(self, sent: _Sent, matched: ApiResource) -> Json:
        """Return what conditions see as `request`."""
        raw = review_request(sent.match, matched, _user(sent.request), sent.request.options, (None, None), False)
        request, _ = parse_json_strict(raw)
        return {**request, "dryRun": sent.request.dry_run}

    def awaited(self, sent: _Sent, webhook: ConfiguredWebhook, matched: ApiResource, step: str) -> AwaitedCall:
        """Return the call of a webhook for a write; its result is a ReviewResponse or a StatusError."""
        request, entry = sent.request, webhook.entry
        version = review_version(entry.get("admissionReviewVersions") or ()) or "v1"
        given = review_request(
            sent.match, matched, _user(request), request.options, self.objects(sent, matched), request.dry_run
        )
        mutating = step.startswith(_MUTATING)

        async def make() -> ReviewResponse:
            uid = str(uuid.uuid4())
            seconds = float(entry.get("timeoutSeconds") or _DEFAULT_SECONDS)
            body = review(version, uid, given)
            answer = await self._caller.call(webhook.key, entry.get("clientConfig") or {}, body, seconds)
            return read_response(answer, version, uid, mutating=mutating)

        return AwaitedCall(step, given, make)

    @staticmethod
    def check_dry_run(sent: _Sent, webhook: ConfiguredWebhook) -> None:
        """Refuse a dry run that a webhook might not keep dry."""
        if sent.request.dry_run and webhook.entry.get("sideEffects") not in _DRY_RUN_SAFE:
            raise errors.bad_request(f'admission webhook "{webhook.name}" does not support dry run')

    @staticmethod
    def response(sent: _Sent, webhook: ConfiguredWebhook, result: Any) -> ReviewResponse | None:
        """Return the response that allows a write, None for a failure that is ignored; raises StatusError."""
        if isinstance(result, WebhookCallError | ReviewError):
            word = (
                "failed to call webhook"
                if isinstance(result, WebhookCallError)
                else "received invalid webhook response"
            )
            reason = f'failed calling webhook "{webhook.name}": {word}: {result}'
            if webhook.ignores_failures:
                log.warning("webhook %s: %s", webhook.key, excerpt(reason))
                return None
            raise internal_error(reason)
        if isinstance(result, Exception):
            raise result
        found: ReviewResponse = result
        sent.request.warnings.extend(found.warnings)
        if not found.allowed:
            status = denial(webhook.name, found.status)
            raise StatusError(status["code"], status["reason"] or None, status["message"], status["details"])
        return found


class MutatingWebhooks(Step):
    """Calls mutating webhooks one after the other, each with what those before it made of the object."""

    def __init__(self, shared: AdmissionWebhooks, registry: ObjectRegistry) -> None:
        self._shared = shared
        self._registry = registry

    def waits(self, kind: ServedKind) -> bool:
        """See `Step`."""
        return bool(self._shared.configurations.concerned(_MUTATING, kind))

    def mutate(self, request: AdmissionRequest) -> None:
        """Call the webhooks for a CREATE or an UPDATE."""
        self._dispatch(request)

    def validate(self, request: AdmissionRequest) -> None:
        """Call the webhooks for a DELETE, which has no phase of mutation."""
        if request.operation == "DELETE":
            self._dispatch(request)

    def _dispatch(self, request: AdmissionRequest) -> None:
        webhooks = self._shared.concerned(_MUTATING, request)
        if not webhooks:
            return
        rounds = request.rounds = request.rounds or MutationRounds()
        again = request.round > 0
        if again and rounds.output != request.object:
            rounds.require_again()
        for webhook in webhooks:
            sent = self._shared.sent(request)
            matched = self._shared.matched(sent, webhook)
            if matched is None or (again and webhook.key not in rounds.again):
                continue
            self._shared.check_dry_run(sent, webhook)
            call = self._shared.awaited(sent, webhook, matched, f"{_MUTATING} {request.round} {webhook.key}")
            response = self._shared.response(sent, webhook, request.off_loop_steps.awaited([call])[0])
            if response is not None and response.patch and self._patch(sent, webhook, matched, response.patch):
                rounds.require_again()
                request.reinvoke = True
            if webhook.entry.get("reinvocationPolicy") == "IfNeeded":
                rounds.invoked.add(webhook.key)
        rounds.output = copy.deepcopy(request.object)

    def _patch(self, sent: _Sent, webhook: ConfiguredWebhook, matched: ApiResource, patch: bytes) -> bool:
        """Apply a JSON patch to the object of a write; whether that changed it."""
        request = sent.request
        new, _ = self._shared.objects(sent, matched)
        try:
            operations = parse_json_strict(b'{"patch":' + patch + b"}")[0].get("patch")
        except ValueError as error:
            reason = f"received undecodable patch in webhook response: {error}"
            if webhook.ignores_failures:
                return False
            raise internal_error(f'failed calling webhook "{webhook.name}": {reason}') from error
        if not operations:
            return False
        if new is None:
            text = "attempted to modify the object, which is not supported for this operation"
            raise internal_error(f'admission webhook "{webhook.name}" {text}')
        try:
            patched = patching.json_patch(new, operations)
        except patching.PatchError as error:
            raise internal_error(error.message) from error
        if request.body_kind is not None:
            group, version, kind = request.body_kind
            made = self._registry.decoder.side_body(f"{group}/{version}" if group else version, kind, patched)
        else:
            row = sent.rows[matched]
            made = to_storage(row, self._registry.decoder.patched(row, patched, "Ignore", []))
        changed = made != request.object
        request.object = made
        return changed


class ValidatingWebhooks(Step):
    """Calls validating webhooks at the same time; the first refusal in their order is the answer."""

    def __init__(self, shared: AdmissionWebhooks) -> None:
        self._shared = shared

    def waits(self, kind: ServedKind) -> bool:
        """See `Step`."""
        return bool(self._shared.configurations.concerned(_VALIDATING, kind))

    def validate(self, request: AdmissionRequest) -> None:
        """Call the webhooks."""
        webhooks = self._shared.concerned(_VALIDATING, request)
        if not webhooks:
            return
        sent = self._shared.sent(request)
        called: list[ConfiguredWebhook] = []
        calls: list[AwaitedCall] = []
        for webhook in webhooks:
            matched = self._shared.matched(sent, webhook)
            if matched is None:
                continue
            self._shared.check_dry_run(sent, webhook)
            called.append(webhook)
            calls.append(self._shared.awaited(sent, webhook, matched, f"{_VALIDATING} {webhook.key}"))
        if not calls:
            return
        refusals: list[StatusError] = []
        for webhook, result in zip(called, request.off_loop_steps.awaited(calls), strict=True):
            try:
                self._shared.response(sent, webhook, result)
            except StatusError as error:
                refusals.append(error)
        if refusals:
            raise refusals[0]


def internal_error(text: str) -> StatusError:
    """500 InternalError as upstream words it."""
    return StatusError(500, "InternalError", f"Internal error occurred: {text}", {}, (Cause("", text),))


def _user(request: AdmissionRequest) -> Json:
    user = request.user
    return user_info(user.name, user.uid, user.groups, dict(user.extra))


def webhook_steps(registry: ObjectRegistry, caller: CallsWebhooks) -> Sequence[Step]:
    """Return the steps that keep and call the webhooks of a registry, in the order they run."""
    configurations = WebhookConfigurations(registry)
    shared = AdmissionWebhooks(registry, caller, configurations)
    return configurations, MutatingWebhooks(shared, registry), ValidatingWebhooks(shared)
