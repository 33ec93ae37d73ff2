"""The input of a plan before any decision: its start, refusals, and ignored parts.

Source of the rules: interfaces.md; sizes of groups: workloads.md 2.4.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from kube_rules import objects
from kube_rules.decoding import name_of
from kube_rules.durations import readable_time
from kube_rules.errors import InputError, Origin
from kube_rules.foreign_groups import FOREIGN_VERSIONS
from kube_rules.grants import standing_problems
from kube_rules.group_sources import DEFAULT_SOURCES, GroupSources, group_problems, size_problem
from kube_rules.manifests import LoadedObject, Manifests, Remark
from kube_rules.work_annotations import annotation_problems, class_terms
from reprieve.framework.gates import FeatureGates
from reprieve.simulation.workloads.expansion_order import is_unknown_kind

_OFF = "the feature gate {gate} is off: the claims of the group would be ignored and the answer could be wrong"
_MOST_REMARKS = 20


def starts_at(loaded: Iterable[LoadedObject[objects.KubernetesObject]]) -> float:
    """Return the default start of simulated time, in seconds since the epoch: after all objects were created."""
    return max(map(_latest, loaded), default=0.0) + 1.0


def _latest(entry: LoadedObject[objects.KubernetesObject]) -> float:
    item = entry.object
    started = item.status.start_time if isinstance(item, objects.Pod) else None
    return max(entry.created, started.timestamp() if started is not None else 0.0)


def not_before(now: float, loaded: Iterable[LoadedObject[objects.KubernetesObject]]) -> float:
    """Return the start of a plan for a time, in seconds since the epoch.

    Undated objects together with dated ones only move the start (interfaces.md 1.11). Raises InputError for an object
    that was created or started after the time.
    """
    loaded = list(loaded)
    begun, stated = now, any(entry.dated for entry in loaded)
    for entry in loaded:
        latest = _latest(entry)
        if latest <= now:
            continue
        started = entry.object.status.start_time if isinstance(entry.object, objects.Pod) else None
        if entry.dated or not stated or (started is not None and started.timestamp() > now):
            late, planned = readable_time(latest), readable_time(now)
            message = f"created or started at {late}, after the planned time {planned}"
            raise InputError(entry.origin, message, subject=name_of(entry.object))
        begun = max(begun, latest)
    return begun


def misread_annotations(loaded: Iterable[LoadedObject[objects.KubernetesObject]]) -> list[str]:
    """Return the problems of unreadable, ignored annotations (cost.md 2), each with its object."""
    return [
        f"{entry.object.KIND} {entry.object.key}: {problem}"
        for entry in loaded
        for problem in annotation_problems(entry.object)
    ]


def beyond_grants(loaded: Sequence[LoadedObject[objects.KubernetesObject]]) -> list[str]:
    """Return a warning for each annotation beyond its grant (cost.md 7), merged for a controller's pods."""
    classes = {
        entry.object.name: class_terms(entry.object.metadata.annotations)
        for entry in loaded
        if isinstance(entry.object, objects.PriorityClass)
    }
    names_by_problem: dict[tuple[str, str], list[str]] = {}
    for entry in loaded:
        item = entry.object
        for problem in standing_problems(item, classes):
            owner = next(
                (owner_reference for owner_reference in item.metadata.owner_references if owner_reference.controller),
                None,
            )
            maker = f"{owner.kind} {item.namespace}/{owner.name}" if owner is not None else item.key
            names_by_problem.setdefault((maker, problem), []).append(f"{item.KIND} {item.key}")
    return [
        f"{names[0]}{f' and {len(names) - 1} more of {maker}' if len(names) > 1 else ''}: {problem}"
        for (maker, problem), names in names_by_problem.items()
    ]


class HasOrigin(Protocol):
    """An item with an origin."""

    @property
    def origin(self) -> Origin:
        """Return where the item was read from."""


def refuse_unplannable(
    item: objects.KubernetesObject, place: HasOrigin, gates: FeatureGates, sources: GroupSources
) -> None:
    """Raise InputError for a rule that is unsupported or gated off, to avoid a wrong answer.

    Also raise it for a pod of a new manifest without a valid size for its group. A pod that a cluster has already
    admitted (it has a UID) waits instead (workloads.md 2.4).
    """
    if isinstance(item, objects.Pod):
        membership = sources.membership(item) if not item.metadata.uid else None
        problem = size_problem(membership.source, item) if membership is not None else ""
        if problem:
            path, _, message = problem.partition(": ")
            raise InputError(place.origin, message, path=path, subject=name_of(item))
        return
    off = gates.generic_workload and not gates.dra_workload_resource_claims
    if off and isinstance(item, objects.PodGroup) and item.spec.resource_claims:
        text = _OFF.format(gate="DRAWorkloadResourceClaims")
        raise InputError(place.origin, text, path="spec.resourceClaims", subject=name_of(item))


def group_remarks(loaded: Sequence[LoadedObject[objects.KubernetesObject]], sources: GroupSources) -> list[str]:
    """Return the ignored parts of groups: unread fields, further groups of a pod, weaker duplicates, sizes."""
    result: list[str] = []
    versions: dict[str, set[str]] = {}
    sizes: dict[tuple[str, str], set[int]] = {}
    for entry in loaded:
        item = entry.object
        membership = sources.membership(item) if isinstance(item, objects.Pod) else None
        if membership is None and not isinstance(item, objects.PodGroup):
            continue
        result += [f"{item.KIND} {item.key}: {problem}" for problem in group_problems(item, sources)]
        if isinstance(item, objects.PodGroup) and sources.read(item):
            version = item.foreign.api_version if item.foreign is not None else item.API_VERSION
            versions.setdefault(item.key, set()).add(version)
        elif membership is not None and membership.size is not None:
            sizes.setdefault((item.namespace, membership.name), set()).add(membership.size)
    for key, found_versions in versions.items():
        strong, *weak = sorted(found_versions, key=(objects.PodGroup.API_VERSION, *FOREIGN_VERSIONS).index)
        result += [f"PodGroup {key} exists as {strong} and as {v}; {strong} is used" for v in weak]
    for (namespace, name), counts in sizes.items():
        if len(counts) > 1:
            most, *other_sizes = sorted(counts, reverse=True)
            rest = ", ".join(map(str, other_sizes))
            result.append(f"group {namespace}/{name}: its pods state different sizes; {most} is used, not {rest}")
    result += _members_above_their_groups(loaded)
    return first_remarks(result)


def first_remarks(remarks: Sequence[str]) -> list[str]:
    """Return the first remarks of one kind, and the number of further ones."""
    more = len(remarks) - _MOST_REMARKS
    return [*remarks[:_MOST_REMARKS], *([f"and {more} more like this"] if more > 0 else [])]


def _members_above_their_groups(loaded: Sequence[LoadedObject[objects.KubernetesObject]]) -> list[str]:
    """Return groups without a class and with pods of a higher class, against admission (preemption.md 8.3)."""
    groups = {
        entry.object.key: entry.object.spec.priority or 0
        for entry in loaded
        if isinstance(entry.object, objects.PodGroup)
        and not entry.object.spec.priority_class_name
        and entry.object.foreign is None
    }
    highest: dict[str, int] = {}
    for entry in loaded if groups else ():
        pod = entry.object
        if isinstance(pod, objects.Pod) and pod.spec.node_name and pod.spec.priority_class_name:
            group = pod.spec.scheduling_group
            key = f"{pod.namespace}/{group.pod_group_name}" if group is not None else ""
            if (pod.spec.priority or 0) > groups.get(key, pod.spec.priority or 0):
                highest[key] = max(highest.get(key, pod.spec.priority or 0), pod.spec.priority or 0)
    return [
        f"PodGroup {key} has priority {groups[key]} and no priority class, but some of its pods run with priority "
        f"{priority}: as victims they count with the higher priority"
        for key, priority in sorted(highest.items())
    ]


def workload_remarks(remarks: Iterable[Remark], sources: GroupSources) -> list[str]:
    """Return the parts of workloads that are not read, or only with another scheduler configuration."""
    return [str(remark) for remark in remarks if not remark.unless or remark.unless not in sources]


def input_remarks(
    manifests: Manifests, sources: GroupSources = DEFAULT_SOURCES, later: Sequence[Remark] = ()
) -> list[str]:
    """Return the ignored parts of an input, for every answer. `later`: remarks of a scenario."""
    everything = manifests.all()
    annotated = [entry for entry in everything if entry.object.metadata.annotations]
    of_workloads = workload_remarks((*manifests.remarks, *later), sources)
    return [
        *left_aside(manifests),
        *first_remarks(of_workloads),
        *first_remarks([*misread_annotations(annotated), *beyond_grants(annotated)]),
        *group_remarks(everything, sources),
    ]


def left_aside(manifests: Manifests) -> list[str]:
    """Return the kinds that do not matter for a plan, with the numbers of their objects."""
    counts = Counter(f"{item.api_version}/{item.kind}" for item in manifests.unknown if not is_unknown_kind(item))
    return [f"{count} × {kind}: not read" for kind, count in sorted(counts.items())]
