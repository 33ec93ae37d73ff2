"""POST .../pods/NAME/eviction: delete a pod unless its disruption budget forbids it.

Rules and texts: kube-apiserver 1.36 (registry/core/pod/storage/eviction). Pods that do not run (Pending, finished,
terminating) bypass budgets; a successful eviction uses one disruption of the budget and records the pod in
disruptedPods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kube_rules.controllers.disruption import may_evict_unready
from kube_rules.json import Json
from kube_rules.meta import FINISHED
from kube_rules.selectors import compile_selector
from kube_standin import errors
from kube_standin.conditions import condition, is_true, set_condition, set_disrupted
from kube_standin.deletion import options_from
from kube_standin.errors import Cause, StatusError
from kube_standin.kinds import subresource
from kube_standin.registry import ObjectRegistry, Outcome, WriteOptions, internal_options
from kube_standin.subresource_admission import admit_body

_RETRY_SECONDS = 10
_MOST_DISRUPTED = 2000
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict_now(registry: ObjectRegistry, namespace: str, name: str, eviction: Json, options: WriteOptions) -> Outcome:
    """Stage an eviction; the outcome is the Status of the response; raises 429 if the budget forbids it."""
    if (eviction.get("metadata") or {}).get("name", "") != name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    kind = registry.kind("v1", "Pod")
    place = subresource(kind, "eviction")
    eviction = admit_body(registry, "CREATE", kind, namespace, name, place, (eviction, None), options)
    query = {"dryRun": "All"} if options.dry_run else {}
    deletion = options_from(eviction.get("deleteOptions") or {}, query, options.user)
    state = registry.existing(kind, namespace, name)
    pod = state.decode()
    if not _bypasses_budgets(pod):
        budgets = _budgets_of(registry, namespace, state.labels)
        if len(budgets) > 1:
            raise errors.internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        if budgets and not _tolerated_unhealthy(pod, budgets[0]):
            _take_disruption(registry, budgets[0], name, options, dry_run=deletion.dry_run)
    # Check the preconditions of the delete before the pod is marked.
    registry.deletion.check_preconditions(kind, name, pod["metadata"], deletion)
    if not deletion.dry_run:
        set_disrupted(pod, registry.clock.stamp(), "EvictionByEvictionAPI", "Eviction API: evicting")
        pod_state = registry.store.put(state.resource, namespace, name, pod, state).state
        if deletion.resource_version is not None:
            deletion = replace(deletion, resource_version=str(pod_state.revision))
    registry.deletion.delete(kind, namespace, name, replace(deletion, admitted=True))
    return Outcome(errors.CREATED, created=True, ticket=registry.store.ticket)


def _bypasses_budgets(pod: Json) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in (*FINISHED, "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _budgets_of(registry: ObjectRegistry, namespace: str, labels: Mapping[str, str]) -> list[Json]:
    kind = registry.kind("policy/v1", "PodDisruptionBudget")
    budgets: list[Json] = []
    for state in registry.store.heads(kind.storage_key, namespace):
        budget = state.decode()
        selector = (budget.get("spec") or {}).get("selector")
        if selector is None:
            continue
        if compile_selector(selector).matches(labels):
            budgets.append(registry.view(kind, state))
    return budgets


def _tolerated_unhealthy(pod: Json, budget: Json) -> bool:
    """Return whether an unready pod may be evicted without counting (unhealthyPodEvictionPolicy)."""
    if is_true(pod.get("status"), "Ready"):
        return False
    policy, status = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy"), budget.get("status") or {}
    return may_evict_unready(policy, status.get("desiredHealthy", 0), status.get("currentHealthy", 0))


def _too_many(message: str, retry: int | None = None) -> StatusError:
    details = {} if retry is None else {"retryAfterSeconds": retry}
    headers = {} if retry is None else {"Retry-After": str(retry)}
    return StatusError(
        429, "TooManyRequests", _REFUSED, details, (Cause("DisruptionBudget", message),), headers=headers
    )


def _take_disruption(registry: ObjectRegistry, budget: Json, pod: str, options: WriteOptions, *, dry_run: bool) -> None:
    """Check the budget and record that ``pod`` uses one of its disruptions.

    Missing numbers in the status are zero; none is negative.
    """
    metadata, status = budget["metadata"], budget.get("status") or {}
    name = metadata["name"]
    if status.get("observedGeneration", 0) < metadata["generation"]:
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", _RETRY_SECONDS)
    allowed = status.get("disruptionsAllowed", 0)
    if len(status.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        raise errors.forbidden(
            "poddisruptionbudgets",
            "policy",
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        )
    if allowed == 0:
        desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        if healthy <= desired:
            raise _too_many(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        raise _too_many(f"The disruption budget {name} does not allow evicting pods currently")
    if dry_run:
        return
    stamp = registry.clock.stamp()

    def take(current: Json) -> None:
        now = current["status"]
        now["disruptionsAllowed"] = allowed - 1
        if allowed == 1:
            insufficient = condition("DisruptionAllowed", "False", "InsufficientPods")
            generation = now["observedGeneration"]
            set_condition(now, {**insufficient, "observedGeneration": generation, "lastTransitionTime": stamp})
        now["disruptedPods"] = {**(now.get("disruptedPods") or {}), pod: stamp}

    kind = registry.kind("policy/v1", "PodDisruptionBudget")
    registry.modify_now(kind, metadata["namespace"], name, take, internal_options(options, "kube-apiserver"), "status")
