"""Validation of typed objects: an API server's rules for the fields that typed objects have.

A typed object has only the fields that a scheduler reads. An input is not refused for a missing image, a missing limit
of an extended resource, an owner without UID, an unread volume source, fields that only the creation of a pod forbids,
or a toleration operator that depends on a feature gate (`is_needed`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import msgspec

from kube_rules import field_errors as fe
from kube_rules import objects as o
from kube_rules.caching import remembered
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.meta import KubernetesObject
from kube_rules.selectors import parse_integer
from kube_rules.validation import errors_of_metadata, errors_of_new, pods
from kube_rules.validation.plain_pods import is_plain
from kube_rules.validation.resources import NO_LIMIT
from kube_rules.validation.rows import NOT_NEGATIVE
from kube_rules.validation.scheduling import ALL_OF_BASIC
from kube_rules.validation.selectors import COMPARISONS

_CHECKED: Final = (
    o.Node, o.PriorityClass, o.PodDisruptionBudget, o.ResourceQuota, o.LimitRange, o.DeviceClass, o.DeviceTaintRule,
    o.RuntimeClass, o.Workload, o.PodGroup, o.CompositePodGroup,
)  # fmt: skip
"""Kinds besides Pod with all the fields that their rules need; `validation.manifests` checks the others."""
_OTHERS: Final = re.compile(
    r".*\.image|.*\.ownerReferences\.uid|.*\.volumeMounts\[.*"
    r"|(?:.*\.)?spec\.(?:volumes\[.*|ephemeralContainers|hostNetwork)"
)
"""Fields that are only partly read, or that pods of a cluster may have.

Ephemeral containers are added later; the host's network with separate users depends on a feature gate.
"""
_OPERATOR: Final = re.compile(r"(?:.*\.)?spec\.tolerations\[\d+\]\.operator")


class TypedKind(NamedTuple):
    """Implements `kinds.KindName`."""

    group: str
    kind: str
    namespaced: bool


def is_validated(kind: type[KubernetesObject]) -> bool:
    """Return whether `validate` checks all fields of a kind that its rules read, not only the metadata."""
    return kind is o.Pod or kind in _CHECKED


def validate(typed: KubernetesObject, *, stored_groups: bool = False) -> None:
    """Raise `FieldError` for the first rule that the object violates.

    `stored_groups`: accept `all` with the `basic` policy, as API servers of 1.36 did. A group that one of them has
    admitted is stored, and stored objects are not validated again.
    """
    if isinstance(typed, o.Pod) and is_plain(typed):
        return
    for error in _errors(typed):
        if is_needed(error) and not (stored_groups and error.message.endswith(ALL_OF_BASIC)):
            raise error


def _errors(typed: KubernetesObject) -> Iterator[FieldError]:
    kind = _kind_of(type(typed))
    yield from errors_of_metadata(kind, {"metadata": msgspec.to_builtins(typed.metadata)})
    if isinstance(typed, o.Pod):
        try:
            text = msgspec.json.encode(typed.spec)
        except (UnicodeEncodeError, OverflowError):  # YAML has texts and numbers that JSON cannot express
            yield from _errors_of_spec(msgspec.to_builtins(typed.spec))
        else:
            yield from _errors_of_text(text)
    elif is_validated(type(typed)):
        plain: Json = {**msgspec.to_builtins(typed), "apiVersion": typed.API_VERSION}
        if "spec" in plain and plain["spec"].get("preemptionPolicy") == o.NO_POLICY_FIELD:
            del plain["spec"]["preemptionPolicy"]
        yield from errors_of_new(kind, plain)


@cache
def _kind_of(kind: type[KubernetesObject]) -> TypedKind:
    return TypedKind(kind.API_VERSION.rpartition("/")[0], kind.KIND, kind.NAMESPACED)


@remembered(4096, 4096)
def _errors_of_text(spec: bytes) -> tuple[FieldError, ...]:
    """Return the errors of the spec of a pod as JSON; pods of one controller share it."""
    return tuple(_errors_of_spec(msgspec.json.decode(spec)))


def _errors_of_spec(spec: Json) -> Iterator[FieldError]:
    if "workloadRef" in spec:
        why = "scheduling.k8s.io/v1alpha1 is not served: name the group in spec.schedulingGroup.podGroupName"
        yield fe.forbidden("spec.workloadRef", why)
    yield from pods.create({"spec": spec}, "")
    yield from _needs_of_a_plan(spec)


def _needs_of_a_plan(spec: Json) -> Iterator[FieldError]:
    """Yield errors of values that a plan cannot use, even if an API server accepts them."""
    for index, toleration in enumerate(spec.get("tolerations", ())):
        if toleration.get("operator") in COMPARISONS and parse_integer(toleration.get("value", "")) is None:
            yield fe.invalid(f"spec.tolerations[{index}].value", toleration.get("value", ""), "must be an integer")
    grace = spec.get("terminationGracePeriodSeconds", 0)
    if grace < 0:
        yield fe.invalid("spec.terminationGracePeriodSeconds", grace, NOT_NEGATIVE)


def is_needed(error: FieldError) -> bool:
    """Return whether an error concerns a field that a plan needs; also for the templates of a workload."""
    if _OTHERS.fullmatch(error.path):
        return False
    if error.message.endswith(NO_LIMIT):
        return False
    gated = _OPERATOR.fullmatch(error.path) and error.reason == "FieldValueNotSupported"
    return not gated or not any(f'value: "{name}"' in error.message for name in COMPARISONS)
