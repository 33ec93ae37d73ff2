"""Admission of priorities: class names become numbers, and explicit numbers must match their class.

Rules: preemption.md 8; kube-apiserver's Priority plugin; recorded answers 097, 107, 151 to 158, 439 to 460. Terms: the
*default class* is the one marked ``globalDefault`` (the lowest value if there are several). Invariant: a stored Pod,
PodGroup or CompositePodGroup has ``spec.priority``, the value of its class when the object was created; later changes
of classes do not change existing objects. The same holds for the preemption priority of a group of either kind: its
annotation is the value of the class that it names, resolved when that was set (preemption.md 4, "Options").
"""

from __future__ import annotations

import msgspec

from kube_rules.admission.priorities import (
    DEFAULT_PRIORITY,
    PREEMPT_LOWER,
    PREEMPTION_PRIORITY,
    PREEMPTION_PRIORITY_CLASS,
    PriorityHolder,
    ResolvedClass,
    disagreement,
    too_low,
)
from kube_rules.foreign_groups import FOREIGN_VERSIONS
from kube_rules.grants import RAISING, excesses
from kube_rules.group_templates import templates
from kube_rules.json import Json
from kube_rules.versions import CRD_GROUP
from kube_rules.work_annotations import NO_CLASS_TERMS, class_terms
from kube_standin.admission_chain import AdmissionRequest, Objects, Step

CLASSES = "priorityclasses.scheduling.k8s.io"
GROUPS = "podgroups.scheduling.k8s.io"
COMPOSITES = "compositepodgroups.scheduling.k8s.io"
FOREIGN = frozenset(
    f"{plural}.{group}"
    for plural, group in (
        *(("podgroups", version.partition("/")[0]) for version in FOREIGN_VERSIONS),
        ("podgroups", CRD_GROUP),
        ("compositepodgroups", CRD_GROUP),
    )
)
"""Groups that are custom resources: none of their fields are resolved here."""
WORKLOADS = "workloads.scheduling.k8s.io"
_STORED_CLASSES = "scheduling.k8s.io/priorityclasses"
_UNCHANGED_TEMPLATES = "scheduling.k8s.io/v1alpha2"
"""Requests of this version do not change the priorities of Workload templates (recorded answers 419, 430)."""


class _ClassMeta(msgspec.Struct):
    name: str = ""
    annotations: dict[str, str] = {}


class _Class(msgspec.Struct, rename="camel"):
    """The fields of a stored PriorityClass that this module uses."""

    metadata: _ClassMeta
    value: int = 0
    global_default: bool = False
    preemption_policy: str = PREEMPT_LOWER


_decode = msgspec.json.Decoder(_Class).decode


def default_class(registry: Objects) -> ResolvedClass | None:
    """Return the class marked as default; of several the one with the lowest value."""
    lowest: ResolvedClass | None = None
    for state in registry.store.heads(_STORED_CLASSES):
        if b"globalDefault" not in state.raw:
            continue
        stored_class = _decode(state.raw)
        if stored_class.global_default and (lowest is None or stored_class.value < lowest.value):
            lowest = ResolvedClass(stored_class.metadata.name, stored_class.value, stored_class.preemption_policy)
    return lowest


class Priority(Step):
    """Resolves priority classes of new pods, groups of both kinds and templates; guards the default class."""

    kinds = frozenset(("pods", GROUPS, COMPOSITES, WORKLOADS, CLASSES))

    def mutate(self, request: AdmissionRequest) -> None:
        """Set class name, value and preemption policy; refuse (403) conflicting values."""
        if request.subresource:
            return
        spec = request.new.get("spec")
        if request.operation == "UPDATE" and request.kind.resource == "pods" and isinstance(spec, dict):
            # A client that omits fields which admission set does not change them.
            before = (request.old or {}).get("spec") or {}
            spec |= {name: before[name] for name in ("priority", "preemptionPolicy") if name in before.keys() - spec}
        if request.operation != "CREATE":
            return
        if not isinstance(spec, dict):
            if request.kind.resource == CLASSES or request.kind.resource == WORKLOADS:
                return
            spec = request.new["spec"] = {}
        match request.kind.resource:
            case "pods":
                self._resolve(request, spec, PriorityHolder.POD)
            case resource if resource == GROUPS:
                self._resolve(request, spec, PriorityHolder.GROUP)
            case resource if resource == COMPOSITES:
                self._resolve(request, spec, PriorityHolder.COMPOSITE)
            case resource if resource == WORKLOADS and request.version != _UNCHANGED_TEMPLATES:
                for template in templates(spec):
                    of = PriorityHolder.COMPOSITE_TEMPLATE if template.composite else PriorityHolder.TEMPLATE
                    self._resolve(request, template.holder, of)

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse a second default class."""
        if request.kind.resource != CLASSES or request.operation == "DELETE" or request.subresource:
            return
        if not request.new.get("globalDefault"):
            return
        present = default_class(request.registry)
        if present is not None and present.name != request.name:
            why = f"PriorityClass {present.name} is already marked as default. Only one default can exist"
            raise request.refused(why)

    def _resolve(self, request: AdmissionRequest, spec: Json, holder: PriorityHolder) -> None:
        resolved = _find(request, spec.get("priorityClassName") or "")
        conflict = disagreement(holder, spec.get("priority"), spec.get("preemptionPolicy"), resolved)
        if conflict is not None:
            raise request.refused(conflict.message)
        if resolved.name:
            spec["priorityClassName"] = resolved.name
        spec["priority"] = resolved.value
        spec["preemptionPolicy"] = resolved.policy


class PreemptionPriority(Step):
    """Resolves the priority of a group as a potential victim: one annotation names a class, another has its value.

    Not a plugin of kube-apiserver (preemption.md 4, "Options").
    """

    kinds = frozenset((GROUPS, COMPOSITES))

    def mutate(self, request: AdmissionRequest) -> None:
        """Set the value of the class that a group names; refuse (403) a class that is missing or too low."""
        if request.subresource or request.operation == "DELETE":
            return
        metadata = request.new["metadata"]
        annotations = metadata.get("annotations") or {}
        before = ((request.old or {}).get("metadata") or {}).get("annotations") or {}
        name, value_set = annotations.get(PREEMPTION_PRIORITY_CLASS, ""), annotations.get(PREEMPTION_PRIORITY)
        was = before.get(PREEMPTION_PRIORITY)
        priority = (request.new.get("spec") or {}).get("priority") or DEFAULT_PRIORITY
        if not name:
            if value_set is not None and before.get(PREEMPTION_PRIORITY_CLASS) and value_set == was:
                del annotations[PREEMPTION_PRIORITY]  # its class was removed
            elif value_set is not None and value_set != was:
                why = f"set from the class that {PREEMPTION_PRIORITY_CLASS} names, and not without one"
                raise request.refused(f"metadata.annotations[{PREEMPTION_PRIORITY}]: Forbidden: {why}")
            return
        if name == before.get(PREEMPTION_PRIORITY_CLASS) and was is not None:
            value = was  # as resolved before, whatever happened to the class
        else:
            resolved = _find(request, name)
            if (low := too_low(resolved, priority)) is not None:
                raise request.refused(str(low))
            value = str(resolved.value)
        if value_set is not None and value_set not in (value, was):
            why = f"{value_set} must match the value {value} of the class {name}"
            raise request.refused(f"metadata.annotations[{PREEMPTION_PRIORITY}]: Forbidden: {why}")
        metadata["annotations"] = {**annotations, PREEMPTION_PRIORITY: value}


class Standing(Step):
    """Refuses annotations that raise the standing of a victim beyond what its PriorityClass grants (cost.md 7).

    They are refused in every write: a create, an update of the object or of its status, a patch or an apply. Existing
    annotations may stay when a grant shrinks; they count as far as granted. Not a plugin of kube-apiserver.
    """

    kinds = frozenset(("pods", GROUPS, COMPOSITES)) | FOREIGN

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse (403) a new value that is not granted."""
        if request.operation == "DELETE":
            return
        annotations = (request.new.get("metadata") or {}).get("annotations") or {}
        before = ((request.old or {}).get("metadata") or {}).get("annotations") or {}
        if not any(name in annotations and annotations[name] != before.get(name) for name in RAISING):
            return
        spec = request.new.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        name = str(spec.get("priorityClassName") or "")
        own_class = _class(request, name) if name else None
        terms = class_terms(own_class.metadata.annotations) if own_class is not None else NO_CLASS_TERMS
        priority: int | None = None
        if request.kind.resource in FOREIGN:
            victim_class = _class(request, annotations.get(PREEMPTION_PRIORITY_CLASS, ""))
            if own_class is not None and victim_class is not None:
                priority, annotations = own_class.value, {**annotations, PREEMPTION_PRIORITY: str(victim_class.value)}
        elif request.kind.resource != "pods":
            priority = spec.get("priority") or DEFAULT_PRIORITY
        for excess in excesses(annotations, priority, name, terms.grant_in(request.namespace)):
            if annotations[excess.name] != before.get(excess.name):
                raise request.refused(excess.problem(annotations))


def _class(request: AdmissionRequest, name: str) -> _Class | None:
    state = request.registry.store.head(_STORED_CLASSES, "", name) if name else None
    return None if state is None else _decode(state.raw)


def _find(request: AdmissionRequest, name: str) -> ResolvedClass:
    if not name:
        return default_class(request.registry) or ResolvedClass("", DEFAULT_PRIORITY, PREEMPT_LOWER)
    named = _class(request, name)
    if named is None:
        raise request.refused(f"no PriorityClass with name {name} was found")
    return ResolvedClass(name, named.value, named.preemption_policy)
