"""Admission webhooks: mutating ones in turn, validating ones at the same time.

A write that needs a response is interrupted and restarted after the response (`worker_thread`). A webhook thus sees
exactly the object that would be stored, and changed objects are sent to it again. Rules and messages: k8s.io/apiserver,
admission/plugin/webhook; interfaces.md 6.
"""

from __future__ import annotations

import copy
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kube_rules.admission.admission_reviews import (
    ReviewError,
    ReviewResponse,
    denial,
    read_response,
    review,
    review_request,
    review_version,
)
from kube_rules.admission.expressions import CostBudget, EvaluationError, conditions_hold
from kube_rules.admission.request_match import ApiResource, NoNamespaceError, matched_resource
from kube_rules.errors import excerpt
from kube_rules.json import Json
from kube_standin import errors, patching
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.admission_views import AdmissionViews, AdmittedWrite, user_of
from kube_standin.errors import StatusError
from kube_standin.evaluation import evaluated
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry
from kube_standin.schema import parse_json_strict
from kube_standin.webhooks.configurations import ConfiguredWebhook, WebhookConfigurations
from kube_standin.webhooks.reach import WebhookCallError
from kube_standin.worker_thread import INLINE, AwaitedCall

log = logging.getLogger("reprieve.apiserver")

_DRY_RUN_SAFE = ("None", "NoneOnDryRun")
_DEFAULT_SECONDS = 10
_MUTATING, _VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"


class CallsWebhooks(Protocol):
    """The protocol for posting reviews; implemented by `WebhookCaller`."""

    async def call(self, webhook: str, client_config: Mapping[str, Any], body: bytes, seconds: float) -> Json:
        """Return the JSON object of a webhook's response; raises WebhookCallError."""


class AdmissionWebhooks:
    """The common part of both kinds of webhooks over one registry."""

    def __init__(self, views: AdmissionViews, caller: CallsWebhooks, configurations: WebhookConfigurations) -> None:
        self.views = views
        self._caller = caller
        self.configurations = configurations

    def concerned(self, configuration: str, request: AdmissionRequest) -> tuple[ConfiguredWebhook, ...]:
        """Return the webhooks that may be called for a write; none for a write that cannot wait."""
        if request.off_loop_steps is INLINE:
            return ()
        return self.configurations.concerned(configuration, self.views.row(request))

    def matched(self, configuration: str, sent: AdmittedWrite, webhook: ConfiguredWebhook) -> ApiResource | None:
        """Return the form in which a write is sent to a webhook, None if it is not sent; raises StatusError."""
        entry = dict(webhook.entry)
        try:
            resource = matched_resource(entry, sent.match, entry.get("rules") or ())
        except NoNamespaceError:
            raise errors.not_found("namespaces", "", sent.match.namespace) from None
        conditions = entry.get("matchConditions") or ()
        if resource is None or not conditions:
            return resource
        values = {**self.views.values(sent, resource), "namespaceObject": None}

        def work(budget: CostBudget) -> bool | EvaluationError:
            try:
                return conditions_hold(conditions, values, entry.get("failurePolicy", "Fail"), around=budget)
            except EvaluationError as error:
                return error

        step = f"{configuration} {sent.request.round} {webhook.unique_name} conditions"
        result = evaluated(sent.request, step, [conditions, {**values, "authorizer": None}], work)
        if isinstance(result, EvaluationError):
            raise sent.request.refused(str(result)) from result
        return resource if result else None

    def awaited(self, sent: AdmittedWrite, webhook: ConfiguredWebhook, matched: ApiResource, step: str) -> AwaitedCall:
        """Return the call of a webhook for a write; its result is a ReviewResponse or a StatusError."""
        request, entry = sent.request, webhook.entry
        version = review_version(entry.get("admissionReviewVersions") or ()) or "v1"
        request_body = review_request(
            sent.match, matched, user_of(request), request.options, self.views.objects(sent, matched), request.dry_run
        )
        mutating = step.startswith(_MUTATING)

        async def make() -> ReviewResponse:
            uid = str(uuid.uuid4())
            seconds = float(entry.get("timeoutSeconds") or _DEFAULT_SECONDS)
            body = review(version, uid, request_body)
            answer = await self._caller.call(webhook.unique_name, entry.get("clientConfig") or {}, body, seconds)
            return read_response(answer, version, uid, mutating=mutating)

        return AwaitedCall(step, request_body, make)

    @staticmethod
    def check_dry_run(sent: AdmittedWrite, webhook: ConfiguredWebhook) -> None:
        """Refuse a dry run if the webhook may have side effects."""
        if sent.request.dry_run and webhook.entry.get("sideEffects") not in _DRY_RUN_SAFE:
            raise errors.bad_request(f'admission webhook "{webhook.name}" does not support dry run')

    @staticmethod
    def response(sent: AdmittedWrite, webhook: ConfiguredWebhook, result: Any) -> ReviewResponse | None:
        """Return the response that allows a write, None for an ignored failure; raises StatusError."""
        if isinstance(result, WebhookCallError | ReviewError):
            word = (
                "failed to call webhook"
                if isinstance(result, WebhookCallError)
                else "received invalid webhook response"
            )
            reason = f'failed calling webhook "{webhook.name}": {word}: {result}'
            if webhook.ignores_failures:
                log.warning("webhook %s: %s", webhook.unique_name, excerpt(reason))
                return None
            raise errors.internal_error(reason)
        if isinstance(result, Exception):
            raise result
        response: ReviewResponse = result
        sent.request.warnings.extend(response.warnings)
        if not response.allowed:
            status = denial(webhook.name, response.status)
            raise StatusError(status["code"], status["reason"] or None, status["message"], status["details"])
        return response


class MutatingWebhooks(Step):
    """Calls mutating webhooks one after the other, each with the object as the earlier ones changed it."""

    def __init__(self, shared: AdmissionWebhooks) -> None:
        self._shared = shared

    def waits(self, kind: ServedKind) -> bool:
        return bool(self._shared.configurations.concerned(_MUTATING, kind))

    def mutate(self, request: AdmissionRequest) -> None:
        """Call the webhooks for a CREATE or an UPDATE."""
        self._dispatch(request)

    def validate(self, request: AdmissionRequest) -> None:
        """Call the webhooks for a DELETE, which has no mutation phase."""
        if request.operation == "DELETE":
            self._dispatch(request)

    def _dispatch(self, request: AdmissionRequest) -> None:
        webhooks = self._shared.concerned(_MUTATING, request)
        if not webhooks:
            return
        rounds = request.mutation_rounds(_MUTATING)
        again = request.round > 0
        for webhook in webhooks:
            sent = self._shared.views.of(request)
            matched = self._shared.matched(_MUTATING, sent, webhook)
            if matched is None or (again and webhook.unique_name not in rounds.reinvoked_names):
                continue
            self._shared.check_dry_run(sent, webhook)
            call = self._shared.awaited(sent, webhook, matched, f"{_MUTATING} {request.round} {webhook.unique_name}")
            response = self._shared.response(sent, webhook, request.off_loop_steps.awaited([call])[0])
            if response is not None and response.patch and self._patch(sent, webhook, matched, response.patch):
                rounds.require_again()
                request.reinvoke = True
            if webhook.entry.get("reinvocationPolicy") == "IfNeeded":
                rounds.invoked_names.add(webhook.unique_name)
        rounds.output = copy.deepcopy(request.object)

    def _patch(self, sent: AdmittedWrite, webhook: ConfiguredWebhook, matched: ApiResource, patch: bytes) -> bool:
        """Apply a JSON patch to the object of a write; return whether that changed it."""
        request = sent.request
        new, _ = self._shared.views.objects(sent, matched)
        try:
            operations = parse_json_strict(b'{"patch":' + patch + b"}")[0].get("patch")
        except ValueError as error:
            reason = f"received undecodable patch in webhook response: {error}"
            if webhook.ignores_failures:
                return False
            raise errors.internal_error(f'failed calling webhook "{webhook.name}": {reason}') from error
        if not operations:
            return False
        if new is None:
            text = "attempted to modify the object, which is not supported for this operation"
            raise errors.internal_error(f'admission webhook "{webhook.name}" {text}')
        try:
            patched = patching.json_patch(new, operations)
        except patching.PatchError as error:
            raise errors.internal_error(error.message) from error
        stored_form = self._shared.views.stored(sent, matched, patched)
        changed = stored_form != request.object
        request.object = stored_form
        return changed


class ValidatingWebhooks(Step):
    """Calls validating webhooks at the same time; the first refusal in their order is the response."""

    def __init__(self, shared: AdmissionWebhooks) -> None:
        self._shared = shared

    def waits(self, kind: ServedKind) -> bool:
        return bool(self._shared.configurations.concerned(_VALIDATING, kind))

    def validate(self, request: AdmissionRequest) -> None:
        """Call the webhooks."""
        webhooks = self._shared.concerned(_VALIDATING, request)
        if not webhooks:
            return
        sent = self._shared.views.of(request)
        called: list[ConfiguredWebhook] = []
        calls: list[AwaitedCall] = []
        for webhook in webhooks:
            matched = self._shared.matched(_VALIDATING, sent, webhook)
            if matched is None:
                continue
            self._shared.check_dry_run(sent, webhook)
            called.append(webhook)
            calls.append(self._shared.awaited(sent, webhook, matched, f"{_VALIDATING} {webhook.unique_name}"))
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


def webhook_steps(registry: ObjectRegistry, caller: CallsWebhooks, views: AdmissionViews) -> Sequence[Step]:
    """Return the steps that store and call the webhooks of a registry, in the order they run."""
    configurations = WebhookConfigurations(registry, views)
    shared = AdmissionWebhooks(views, caller, configurations)
    return configurations, MutatingWebhooks(shared), ValidatingWebhooks(shared)
