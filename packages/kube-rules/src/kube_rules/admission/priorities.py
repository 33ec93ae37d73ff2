"""Priority admission: from class names to priorities and preemption policies (preemption.md 8).

Terms: a class has a value and a preemption policy. System classes exist in every cluster.

Invariant: every pod returned has `priority` and `preemption_policy` set. A manifest with a priority but no class keeps
its priority: objects read from a cluster without their classes look like this. A group with neither gets no priority if
no class is the default. Groups in clusters that do not set group priorities yet look like this, and without a priority
a group cannot conflict with the priorities of its pods (preemption.md 8).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from kube_rules.errors import FieldError
from kube_rules.meta import KubernetesObject
from kube_rules.objects import (
    NO_POLICY_FIELD,
    CompositePodGroup,
    CompositePodGroupSpec,
    CompositePodGroupTemplate,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupTemplate,
    PodSpec,
    PriorityClass,
    Workload,
)

DEFAULT_PRIORITY: Final = 0
PREEMPT_LOWER: Final = "PreemptLowerPriority"
NEVER: Final = "Never"
HIGHEST_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_CLASSES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}

PREEMPTION_PRIORITY_CLASS: Final = "scheduling.reprieve.dev/preemption-priority-class"
"""The PriorityClass with the priority of the group as a potential victim (preemption.md 4)."""
PREEMPTION_PRIORITY: Final = "scheduling.reprieve.dev/preemption-priority"
"""The priority of the group as a potential victim, as admission resolved it."""

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)
_SpecT = TypeVar("_SpecT", PodSpec, PodGroupSpec, CompositePodGroupSpec, PodGroupTemplate, CompositePodGroupTemplate)


class ResolvedClass(NamedTuple):
    """A resolved class; the name is empty if no class is named and there is no default."""

    name: str
    value: int
    policy: str


_OF_PODS: Final = (
    "the integer value of priority ({}) must not be provided in pod spec; priority admission controller "
    "computed {} from the given PriorityClass name",
    "the string value of PreemptionPolicy ({}) must not be provided in pod spec; priority admission controller "
    "computed {} from the given PriorityClass name",
)
_OF_GROUPS: Final = (
    "priority set in the HOLDER ({}) must match the priority computed ({}) based on the priority class set in "
    "the PLACE",
    "preemption policy set in the HOLDER ({}) must match the policy computed ({}) based on the priority class set in "
    "the PLACE",
)


class PriorityHolder(Enum):
    """Kinds of object with a priority: their name in refusals, and where the class is named."""

    POD = ("pod", "spec")
    GROUP = ("pod group", "spec")
    COMPOSITE = ("composite pod group", "spec")
    TEMPLATE = ("pod group template", "template")
    COMPOSITE_TEMPLATE = ("composite pod group template", "template")


def disagreement(
    holder: PriorityHolder, priority: int | None, policy: str | None, resolved: ResolvedClass
) -> FieldError | None:
    """Return the refusal of an explicit priority or preemption policy that differs from the class, if any."""
    name, place = holder.value
    pairs = (("priority", priority, resolved.value), ("preemptionPolicy", policy or None, resolved.policy))
    for (field, explicit, computed), text in zip(pairs, _OF_PODS if name == "pod" else _OF_GROUPS, strict=True):
        if explicit is not None and explicit != computed:
            return FieldError(field, text.replace("HOLDER", name).replace("PLACE", place).format(explicit, computed))
    return None


def too_low(resolved: ResolvedClass, priority: int) -> FieldError | None:
    """Return the refusal of a preemption class below the group's priority: groups could evict each other in turn."""
    if resolved.value >= priority:
        return None
    why = f"its value {resolved.value} is lower than the priority {priority}"
    return FieldError(f"metadata.annotations[{PREEMPTION_PRIORITY_CLASS}]", f'Invalid value: "{resolved.name}": {why}')


class PriorityAdmission:
    """Resolves class names against the classes of one cluster.

    `strict` refuses a preemption policy that differs from the class, as an API server does. Otherwise an explicit
    policy stays, because inputs may also show objects after admission.
    """

    def __init__(self, classes: Iterable[PriorityClass] = (), *, strict: bool = False) -> None:
        self._strict = strict
        self._classes = {
            name: ResolvedClass(name, priority, PREEMPT_LOWER) for name, priority in SYSTEM_CLASSES.items()
        }
        self._default: ResolvedClass | None = None
        for priority_class in classes:
            resolved = ResolvedClass(
                priority_class.name, priority_class.value, priority_class.preemption_policy or PREEMPT_LOWER
            )
            self._classes[priority_class.name] = resolved
            if priority_class.global_default and (self._default is None or resolved.value < self._default.value):
                self._default = resolved  # of several defaults the API server takes the lowest value

    def resolve(self, obj: ObjectT) -> ObjectT:
        """Return the object with its priority and preemption policy; kinds without a priority are returned unchanged.

        Raises `FieldError` for an unknown class and for a priority (if strict, a policy) that differs from the class.
        Objects that an API server has already stored (with a uid or resource version) keep their priority: deleting or
        replacing a class does not change existing objects.
        """
        stored = bool(obj.metadata.uid or obj.metadata.resource_version)
        if isinstance(obj, Pod):
            spec = self._spec(obj.spec, "spec", PriorityHolder.POD, stored)
            return obj if spec is obj.spec else replace(obj, spec=spec)
        if isinstance(obj, PodGroup):
            group = self._spec(obj.spec, "spec", PriorityHolder.GROUP, stored)
            return self._of_group(obj, obj.spec, group, stored)
        if isinstance(obj, CompositePodGroup):
            composite = self._spec(obj.spec, "spec", PriorityHolder.COMPOSITE, stored)
            return self._of_group(obj, obj.spec, composite, stored)
        if isinstance(obj, Workload):
            own = obj.spec
            return replace(
                obj,
                spec=replace(
                    own,
                    pod_group_templates=self._templates(own.pod_group_templates, "spec", stored),
                    composite_pod_group_templates=self._composites(own.composite_pod_group_templates, "spec", stored),
                ),
            )
        return obj

    def _of_group(
        self, group: ObjectT, own: object, spec: PodGroupSpec | CompositePodGroupSpec, stored: bool
    ) -> ObjectT:
        """Return a group with its resolved spec and its priority as a potential victim."""
        meta = group.metadata
        annotations = self.as_victim(meta.annotations, spec.priority or DEFAULT_PRIORITY, stored)
        if annotations is not meta.annotations:
            return replace(group, spec=spec, metadata=replace(meta, annotations=annotations))
        return group if spec is own else replace(group, spec=spec)

    def _templates(
        self, templates: tuple[PodGroupTemplate, ...], path: str, stored: bool
    ) -> tuple[PodGroupTemplate, ...]:
        return tuple(
            self._spec(template, f"{path}.podGroupTemplates[{index}]", PriorityHolder.TEMPLATE, stored)
            for index, template in enumerate(templates)
        )

    def _composites(
        self, templates: tuple[CompositePodGroupTemplate, ...], path: str, stored: bool
    ) -> tuple[CompositePodGroupTemplate, ...]:
        result = []
        for index, template in enumerate(templates):
            place = f"{path}.compositePodGroupTemplates[{index}]"
            resolved = self._spec(template, place, PriorityHolder.COMPOSITE_TEMPLATE, stored)
            result.append(
                replace(
                    resolved,
                    pod_group_templates=self._templates(resolved.pod_group_templates, place, stored),
                    composite_pod_group_templates=self._composites(
                        resolved.composite_pod_group_templates, place, stored
                    ),
                )
            )
        return tuple(result)

    def _spec(self, spec: _SpecT, path: str, where: PriorityHolder, stored: bool) -> _SpecT:
        name = spec.priority_class_name
        if spec.priority is not None and (stored or not name):
            if spec.preemption_policy is not None:
                return spec
            own_class = self._classes.get(name) if name else None
            if own_class is None and not isinstance(spec, PodSpec):
                return spec  # a group without a policy of its own follows its members (preemption.md 2.2)
            return replace(spec, preemption_policy=own_class.policy if own_class else PREEMPT_LOWER)
        if not isinstance(spec, PodSpec) and not name and self._default is None and not self._strict:
            return spec
        resolved = self._find(name, path)
        policy = spec.preemption_policy if self._strict and name else None
        error = disagreement(where, spec.priority, policy, resolved)
        if error is not None:
            raise FieldError(f"{path}.{error.path}", f"Forbidden: {error.message}")
        return replace(
            spec,
            priority=resolved.value,
            priority_class_name=resolved.name,
            preemption_policy=self._policy(spec, resolved),
        )

    def as_victim(self, annotations: dict[str, str], priority: int, stored: bool) -> dict[str, str]:
        """Return the annotations with the preemption priority of the class that they name, if any.

        A number without a class is removed. Raises `FieldError` for an unknown class and for a value below the
        scheduling priority: groups could evict each other in turn (preemption.md 4, "Options").
        """
        name = annotations.get(PREEMPTION_PRIORITY_CLASS)
        if not name:
            if PREEMPTION_PRIORITY not in annotations:
                return annotations
            return {key: text for key, text in annotations.items() if key != PREEMPTION_PRIORITY}
        if stored and name not in self._classes and PREEMPTION_PRIORITY in annotations:
            return annotations
        path = f"metadata.annotations[{PREEMPTION_PRIORITY_CLASS}]"
        victim_class = self._classes.get(name)
        if victim_class is None:
            raise FieldError(path, f'Invalid value: "{name}": no PriorityClass with name {name} was found')
        if (low := too_low(victim_class, priority)) is not None:
            raise low
        return {**annotations, PREEMPTION_PRIORITY: str(victim_class.value)}

    @staticmethod
    def _policy(spec: _SpecT, resolved: ResolvedClass) -> str | None:
        """Return the policy of the class; groups without a class, or of a version without the field, keep their own."""
        if not isinstance(spec, PodSpec) and (spec.preemption_policy == NO_POLICY_FIELD or not resolved.name):
            return spec.preemption_policy
        return spec.preemption_policy or resolved.policy

    def _find(self, name: str, path: str) -> ResolvedClass:
        if not name:
            return self._default or ResolvedClass("", DEFAULT_PRIORITY, PREEMPT_LOWER)
        resolved = self._classes.get(name)
        if resolved is None:
            raise FieldError(
                f"{path}.priorityClassName", f'Invalid value: "{name}": no PriorityClass with name {name} was found'
            )
        return resolved


def groups_with_default_priority(items: Iterable[KubernetesObject]) -> dict[int, PodGroup]:
    """Return the new PodGroups that get priority 0 from admission, by the `id` of the object.

    These are groups of `scheduling.k8s.io` without class and number with a pod that names a class (preemption.md 8.3).
    Other groups without a number keep none: clusters without classes show their pods with numbers alone.
    """
    groups: list[PodGroup] = []
    classed: set[tuple[str, str | None]] = set()
    for item in items:
        if isinstance(item, PodGroup):
            meta, spec = item.metadata, item.spec
            stored = bool(meta.uid or meta.resource_version)
            if spec.priority is None and not (spec.priority_class_name or stored or item.custom or item.foreign):
                groups.append(item)
        elif isinstance(item, Pod) and item.spec.priority_class_name and item.spec.scheduling_group is not None:
            classed.add((item.namespace, item.spec.scheduling_group.pod_group_name))
    return {
        id(group): replace(group, spec=replace(group.spec, priority=DEFAULT_PRIORITY))
        for group in groups
        if (group.namespace, group.name) in classed
    }
