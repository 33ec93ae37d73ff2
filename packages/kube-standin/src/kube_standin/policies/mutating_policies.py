"""Mutating policies: change an object by merging a configuration, or by a JSON patch (interfaces.md 6.13)."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

from kube_rules.admission.expressions import CostBudget, EvaluationError, OverBudgetError, conditions_hold
from kube_rules.admission.mutating_policies import PolicyTypeError, made_patch
from kube_rules.json import Json
from kube_standin import errors, patching
from kube_standin.admission_chain import AdmissionRequest, MutationRounds, Step
from kube_standin.errors import Cause, StatusError
from kube_standin.evaluation import evaluated
from kube_standin.kinds import ServedKind
from kube_standin.policies.bound_policies import MUTATING
from kube_standin.policies.invocations import Invocations, PolicyInvocation
from kube_standin.schema import schema_for

_FORBIDDEN = "admission request denied by policy"


class MutatingPolicies(Step):
    """Evaluates mutating policies one after the other, each with the object as the earlier ones changed it."""

    def __init__(self, invocations: Invocations) -> None:
        self._invocations = invocations

    def waits(self, kind: ServedKind) -> bool:
        """Return whether writes of a kind may wait (see `Step`); expensive evaluations run beside the event loop."""
        return bool(self._invocations.policies.concerned(MUTATING, kind))

    def mutate(self, request: AdmissionRequest) -> None:
        """Evaluate the policies."""
        bound = self._invocations.concerned(MUTATING, request)
        if not bound:
            return
        invocations = self._invocations.of(bound, self._invocations.views.of(request))
        if not invocations:
            return
        rounds = request.mutation_rounds(MUTATING)
        failed: list[tuple[str, str]] = []
        for invocation in invocations:
            try:
                self._invoke(request, rounds, invocation, failed)
            except (EvaluationError, OverBudgetError, PolicyTypeError, patching.PatchError) as error:
                failed.extend([(_denied(invocation, str(error)), "Invalid")] if invocation.policy.strict else ())
        rounds.output = copy.deepcopy(request.object)
        if failed:
            refused = request.refused(_FORBIDDEN)
            text, reason = failed[0]
            causes = tuple(Cause("", message) for message, _ in failed)
            raise StatusError(403, reason or refused.reason, text, refused.details, causes)

    def _invoke(
        self,
        request: AdmissionRequest,
        rounds: MutationRounds,
        invocation: PolicyInvocation,
        failed: list[tuple[str, str]],
    ) -> None:
        if invocation.error:
            failed.extend([(_denied(invocation, invocation.error), "")] if invocation.policy.strict else ())
            return
        if not self._holds(request, invocation):
            return
        if request.round and invocation.unique_name not in rounds.reinvoked_names:
            return
        before = request.object
        for index, mutation in enumerate(invocation.policy.spec.get("mutations") or ()):
            try:
                self._patch(request, invocation, index, mutation)
            except (EvaluationError, OverBudgetError, PolicyTypeError, patching.PatchError) as error:
                failed.extend([(_denied(invocation, str(error)), "Invalid")] if invocation.policy.strict else ())
        if before != request.object:
            rounds.require_again()
            request.reinvoke = True
        if invocation.policy.spec.get("reinvocationPolicy") == "IfNeeded":
            rounds.invoked_names.add(invocation.unique_name)

    def _values(self, request: AdmissionRequest, invocation: PolicyInvocation) -> dict[str, Any]:
        values = self._invocations.values(self._invocations.views.of(request), invocation.matched)
        return {**values, "params": invocation.param}

    def _holds(self, request: AdmissionRequest, invocation: PolicyInvocation) -> bool:
        spec = invocation.policy.spec
        conditions = spec.get("matchConditions") or ()
        if not conditions:
            return True
        values = {**self._values(request, invocation), "namespaceObject": None}
        work = partial(_hold, spec, values)
        return self._evaluated(request, invocation, "conditions", values, work) is True

    def _patch(self, request: AdmissionRequest, invocation: PolicyInvocation, index: int, mutation: Json) -> None:
        values = self._values(request, invocation)
        work = partial(_patch_of, invocation.policy.spec, mutation, values)
        patch = self._evaluated(request, invocation, str(index), values, work)
        write = self._invocations.views.of(request)
        current, _ = self._invocations.views.objects(write, invocation.matched)
        if current is None:
            return
        if mutation.get("patchType") == "JSONPatch":
            try:
                patched = patching.json_patch(current, patch)
            except patching.FailedTestError:
                return
            except patching.PatchError as error:
                raise PolicyTypeError(f"JSON Patch: {error}") from error
        else:
            patched = self._merged(write.rows[invocation.matched], request, current, patch)
        strict = not request.kind.custom and mutation.get("patchType") == "JSONPatch"
        try:
            request.object = self._invocations.views.stored(
                write, invocation.matched, patched, "Strict" if strict else "Ignore"
            )
        except StatusError as error:
            raise errors.internal_error(error.message) from error

    def _merged(self, row: ServedKind, request: AdmissionRequest, current: Json, patch: Json) -> Json:
        if request.body_kind is not None:
            group, version, kind = request.body_kind
            api_version = f"{group}/{version}" if group else version
            schema = schema_for(api_version, kind)
        else:
            api_version, kind = row.api_version, row.kind
            schema = self._invocations.schema(row)
        config = {**patch, "apiVersion": api_version, "kind": kind}
        try:
            return patching.merged_configuration(schema, current, config, api_version)
        except patching.PatchError as error:
            raise PolicyTypeError(f"error applying patch: {error}") from error

    def _evaluated(
        self, request: AdmissionRequest, invocation: PolicyInvocation, part: str, values: dict[str, Any], work: Any
    ) -> Any:
        step = f"{MUTATING} {request.round} {invocation.unique_name} {part}"
        result = evaluated(request, step, [invocation.policy.spec, {**values, "authorizer": None}], work)
        if isinstance(result, Exception):
            raise result
        return result


def _hold(spec: Json, values: dict[str, Any], budget: CostBudget) -> Any:
    """Return whether the conditions hold, or the error: a thread returns errors as values."""
    try:
        variables = spec.get("variables") or ()
        return conditions_hold(
            spec.get("matchConditions") or (),
            values,
            spec.get("failurePolicy", "Fail"),
            variables=variables,
            around=budget,
        )
    except (EvaluationError, OverBudgetError) as error:
        return error


def _patch_of(spec: Json, mutation: Json, values: dict[str, Any], budget: CostBudget) -> Any:
    try:
        return made_patch(spec, mutation, values, budget)
    except (EvaluationError, OverBudgetError, PolicyTypeError) as error:
        return error


def _denied(invocation: PolicyInvocation, why: str) -> str:
    return f"policy '{invocation.policy.name}' with binding '{invocation.binding.name}' denied request: {why}"
