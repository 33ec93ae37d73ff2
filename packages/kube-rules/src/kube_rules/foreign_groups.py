"""PodGroups of other schedulers: conversion to the internal form, and their own status (workloads.md 2, 4).

A PodGroup of the coscheduling plugin or of Volcano is converted to the internal form; fields that only its own API has
are under `FOREIGN`, a key that no API object has. Its status becomes the equivalent condition, so that a status written
earlier, by us or by another scheduler, is not written again.

Invariant: functions take and return plain data and never change their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kube_rules.errors import FieldError, excerpt
from kube_rules.meta import INITIALLY_SCHEDULED, LabelSelector, Struct, map_field

Manifest = dict[str, Any]

COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io"
VOLCANO_GROUP: Final = "scheduling.volcano.sh"
COSCHEDULING_VERSION: Final = f"{COSCHEDULING_GROUP}/v1alpha1"
VOLCANO_VERSION: Final = f"{VOLCANO_GROUP}/v1beta1"
FOREIGN_VERSIONS: Final = (COSCHEDULING_VERSION, VOLCANO_VERSION)
"""PodGroup versions of other schedulers, in order of precedence."""
SCHEDULERS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    COSCHEDULING_VERSION: ("scheduler-plugins-scheduler",),
    VOLCANO_VERSION: ("volcano",),
}
"""Names of the schedulers for these APIs."""
FOREIGN: Final = "$foreign"
CUSTOM: Final = "$custom"
"""Field of a PodGroup that was read as a custom resource, which no API server admits."""

_UNSCHEDULABLE: Final = "Unschedulable"
_LARGEST: Final = 2**31 - 1

_PLACED: Final = frozenset({"Scheduled", "Running", "Finished", "Completed", "Succeeded", "Failed"})
"""Phases of groups that have been placed as a whole."""
_UNDECIDED: Final = frozenset({"", "Pending", "Inqueue", "Unknown"})
"""Phases before the first attempt."""


def below(name: str, *parts: str) -> str:
    """Return the name of a group in the tree of a foreign PodGroup; without parts, of its root.

    The name has a colon, which no API object's name has.
    """
    return f"{name}:{':'.join(parts)}"


def made_for(name: str) -> str | None:
    """Return the foreign PodGroup of the tree with this root; None for any other group."""
    own, colon, rest = name.partition(":")
    return own if colon and not rest else None


def named_by(name: str) -> str:
    """Return the PodGroup that a group of this name, in such a tree or not, was made for."""
    return name.partition(":")[0]


class SubGroupPolicy(Struct, frozen=True, kw_only=True):
    """spec.subGroupPolicy[] of Volcano: pods of one group that form subgroups, by the values of labels."""

    name: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    sub_group_size: int | None = None
    """Number of pods that each subgroup needs."""
    min_sub_groups: int | None = None
    """Number of subgroups needed."""


class ForeignGroup(Struct, frozen=True, kw_only=True):
    """The fields of a PodGroup that only the API of another scheduler has."""

    api_version: str = ""
    min_member: int = 0
    min_task_member: dict[str, int] = map_field()
    """Number of pods that each task needs, by task name."""
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()
    queue: str = ""
    network_topology: dict[str, object] | None = None
    phase: str = ""

    @property
    def unread(self) -> list[str]:
        """Return the ignored fields, a sentence for each (workloads.md 2.2)."""
        result = []
        if self.queue not in ("", "default"):
            result.append(f'spec.queue: "{excerpt(self.queue)}" is not read: there are no queues here')
        if self.network_topology:
            result.append("spec.networkTopology is not read: say it as spec.schedulingConstraints of a native PodGroup")
        return result


# --- up ---------------------------------------------------------------------------------------------------------------


def coscheduling_up(manifest: Mapping[str, Any]) -> Manifest:
    """Return a PodGroup of scheduling.x-k8s.io in the internal form. Raises `FieldError`."""
    spec = manifest.get("spec")
    minimum = _minimum(spec, 1)
    return {
        **{key: value for key, value in manifest.items() if key != "status"},
        "spec": {**_policy(minimum), **_class(spec)},
        **_condition_of(manifest.get("status"), _condition_by_phase),
        FOREIGN: {"apiVersion": COSCHEDULING_VERSION, "minMember": minimum, **_phase(manifest.get("status"))},
    }


def volcano_up(manifest: Mapping[str, Any]) -> Manifest:
    """Return a PodGroup of scheduling.volcano.sh in the internal form. Raises `FieldError`."""
    spec = manifest.get("spec")
    minimum = _minimum(spec, 0)
    _refuse_parts(spec)
    own = {key: spec[key] for key in _VOLCANO_OWN if spec.get(key)} if isinstance(spec, Mapping) else {}
    return {
        **{key: value for key, value in manifest.items() if key != "status"},
        "spec": {**_policy(minimum), **_class(spec)},
        **_condition_of(manifest.get("status"), _condition_by_volcano),
        FOREIGN: {"apiVersion": VOLCANO_VERSION, "minMember": minimum, **own, **_phase(manifest.get("status"))},
    }


_POLICIES: Final = "subGroupPolicy"
_VOLCANO_OWN: Final = ("minTaskMember", _POLICIES, "queue", "networkTopology")


def _minimum(spec: Any, least: int) -> int:
    """Return `minMember`, 0 by default."""
    result = spec.get("minMember") if isinstance(spec, Mapping) else None
    if result is None:
        return 0
    if not isinstance(result, int) or isinstance(result, bool):
        raise FieldError("spec.minMember", f'Invalid value: "{excerpt(str(result))}": must be a number of pods')
    if not least <= result <= _LARGEST:
        raise FieldError("spec.minMember", f"Invalid value: {result}: must be from {least} to {_LARGEST}")
    return result


def _refuse_parts(spec: Any) -> None:
    """Refuse invalid numbers of tasks and subgroups, and unknown selector operators."""
    tasks, policies = (spec.get(key) if isinstance(spec, Mapping) else None for key in ("minTaskMember", _POLICIES))
    for name, least in tasks.items() if isinstance(tasks, Mapping) else ():
        _number(least, f"spec.minTaskMember[{excerpt(str(name))}]")
    for index, policy in enumerate(policies if isinstance(policies, list) else ()):
        path = f"spec.{_POLICIES}[{index}]"
        if not isinstance(policy, Mapping):
            continue
        for field in ("subGroupSize", "minSubGroups"):
            _number(policy.get(field), f"{path}.{field}")
        selector = policy.get("labelSelector")
        expressions = selector.get("matchExpressions") if isinstance(selector, Mapping) else None
        for place, expression in enumerate(expressions if isinstance(expressions, list) else ()):
            operator = expression.get("operator") if isinstance(expression, Mapping) else None
            if operator not in _OPERATORS:
                shown = excerpt(str(operator or ""))
                at = f"{path}.labelSelector.matchExpressions[{place}].operator"
                raise FieldError(at, f'Invalid value: "{shown}": not a valid selector operator')


_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def _number(value: Any, path: str) -> None:
    """Refuse a number out of range; decoding refuses other types."""
    if isinstance(value, int) and not 0 <= value <= _LARGEST:
        raise FieldError(path, f"Invalid value: {value}: must be from 0 to {_LARGEST}")


def _policy(minimum: int) -> Manifest:
    return {"schedulingPolicy": {"gang": {"minCount": minimum}} if minimum else {"basic": {}}}


def _class(spec: Any) -> Manifest:
    class_name = spec.get("priorityClassName") if isinstance(spec, Mapping) else None
    return {"priorityClassName": class_name} if class_name else {}


def _phase(status: Any) -> Manifest:
    phase = status.get("phase") if isinstance(status, Mapping) else None
    return {"phase": phase} if isinstance(phase, str) and phase else {}


def _condition_of(status: Any, read: Callable[[Mapping[str, Any]], Manifest | None]) -> Manifest:
    condition = read(status) if isinstance(status, Mapping) else None
    return (
        {"status": {"conditions": [{"type": INITIALLY_SCHEDULED["PodGroup"], **condition}]}}
        if condition is not None
        else {}
    )


def _condition_by_phase(status: Mapping[str, Any]) -> Manifest | None:
    phase = status.get("phase")
    if phase in _PLACED:
        return {"status": "True", "reason": "Scheduled"}
    if not isinstance(phase, str) or phase in _UNDECIDED:
        return None
    return {"status": "False", "reason": _UNSCHEDULABLE}


def _condition_by_volcano(status: Mapping[str, Any]) -> Manifest | None:
    conditions = status.get("conditions")
    by_type = {
        entry.get("type"): entry
        for entry in (conditions if isinstance(conditions, list) else ())
        if isinstance(entry, Mapping) and entry.get("status") == "True"
    }
    for kind, verdict in (("Scheduled", "True"), ("Unschedulable", "False")):
        condition = by_type.get(kind)
        if condition is None:
            continue
        reason = "Scheduled" if verdict == "True" else _REASONS.get(condition.get("reason"), condition.get("reason"))
        rest = {key: condition[key] for key in ("message", "lastTransitionTime") if isinstance(condition.get(key), str)}
        return {"status": verdict, "reason": reason if isinstance(reason, str) else _UNSCHEDULABLE, **rest}
    return {"status": "True", "reason": "Scheduled"} if status.get("phase") in _PLACED else None


NOT_ENOUGH_PODS: Final = "NotEnoughTasks"
NOT_ENOUGH_ROOM: Final = "NotEnoughResources"
_REASONS: Final[Mapping[Any, str]] = dict.fromkeys(
    (NOT_ENOUGH_PODS, NOT_ENOUGH_ROOM, "NotEnoughPodsOfTask"), _UNSCHEDULABLE
)


# --- down -------------------------------------------------------------------------------------------------------------


def status_of(api_version: str, condition: Mapping[str, Any]) -> Manifest:
    """Return the `status` of a foreign PodGroup to write for a condition `PodGroupInitiallyScheduled`.

    Empty for a condition of another type: these APIs have no equivalent.
    """
    if condition.get("type") != INITIALLY_SCHEDULED["PodGroup"]:
        return {}
    scheduled = condition.get("status") == "True"
    few = str(condition.get("message", "")).startswith("waiting for ")
    if api_version == COSCHEDULING_VERSION:
        return {"phase": "Scheduled" if scheduled else "Pending" if few else "Scheduling"}
    since = condition.get("lastTransitionTime")
    reason = condition.get("reason")
    if reason == _UNSCHEDULABLE:
        reason = NOT_ENOUGH_PODS if few else NOT_ENOUGH_ROOM
    entries = (
        {
            "type": "Scheduled",
            "status": "True" if scheduled else "False",
            "reason": "tasks in gang are ready to be scheduled" if scheduled else reason,
            "message": "",
        },
        {
            "type": "Unschedulable",
            "status": "False" if scheduled else "True",
            "reason": "Scheduled" if scheduled else reason,
            "message": "" if scheduled else condition.get("message") or "",
        },
    )
    return {
        "phase": "Running" if scheduled else "Inqueue",
        "conditions": [{**entry, "lastTransitionTime": since} for entry in entries],
    }


def manifest_of(group: Mapping[str, Any]) -> Manifest:
    """Return a PodGroup in the internal form as a manifest of its original API (named under `FOREIGN`)."""
    own = dict(group[FOREIGN])
    version, phase = own.pop("apiVersion"), own.pop("phase", "")
    spec = {key: value for key, value in own.items() if value}
    name = group.get("spec", {}).get("priorityClassName")
    rest = {key: group[key] for key in ("kind", "metadata") if key in group}
    return {
        "apiVersion": version,
        **rest,
        "spec": {**spec, **({"priorityClassName": name} if name else {})},
        **({"status": {"phase": phase}} if phase else {}),
    }


def accepted(api_version: str, phase: str) -> Manifest:
    """Return the `status` to write for a foreign PodGroup that no scheduler has processed; empty for none.

    Volcano's controllers create the pods of a group only when it is `Inqueue`, and there are no queues here.
    """
    if api_version == VOLCANO_VERSION and phase in ("", "Pending"):
        return {"phase": "Inqueue"}
    if api_version == COSCHEDULING_VERSION and not phase:
        return {"phase": "Pending"}
    return {}


def has_message(api_version: str) -> bool:
    """Return whether the status of this PodGroup has a field for a message."""
    return api_version != COSCHEDULING_VERSION
