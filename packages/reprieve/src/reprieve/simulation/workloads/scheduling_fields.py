"""PodGroups that `spec.scheduling` of a JobSet or a LeaderWorkerSet requests (workloads.md 6).

The functions process one object: the groups that its controller would create, their pods, and ignored parts of the
field. They refuse what the admission of these kinds refuses.

Source: KEP-969 of JobSet, KEP-666 of LeaderWorkerSet, and the building blocks of KEP-6089.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kube_rules.controllers.claims import ENTRY
from kube_rules.group_owners import gang_sizes
from kube_rules.json import mapping, text
from reprieve.simulation.workloads.batches import PodWorkload
from reprieve.simulation.workloads.rows import value_at

PATH: Final = "spec.scheduling"
MOST_GROUPS: Final = 8
"""The maximum number of PodGroupTemplates of a Workload."""
_POLICY: Final = "schedulingPolicy"
_LEVEL: Final = (_POLICY, "schedulingConstraints", "disruptionMode")
_CLAIMS: Final = "resourceClaims"
_CLASS: Final = "spec.priorityClassName"
_JOBSET: Final = "jobset.sigs.k8s.io"
_LWS: Final = "leaderworkerset.sigs.k8s.io"
_EXCLUSIVE: Final = f"{_LWS}/exclusive-topology"


class RequestedGroup(NamedTuple):
    """A PodGroup that an object requests."""

    name: str
    """The suffix of the object's name; may be empty."""
    path: str
    """The path of the request in the object."""
    basic: bool = False
    min_count: int | None = None
    """None: all of its pods."""
    more: Mapping[str, Any] = {}
    """schedulingConstraints, disruptionMode, resourceClaims."""
    labels: Mapping[str, str] = {}
    """Labels of its running pods, in addition to those of the object."""


Asked = Callable[[str, str], RequestedGroup]
"""A function that returns the group for the pods of a part (replicated job; `leader` or `worker`) and replica."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the levels of one object; `unread` receives the path of each ignored field."""

    workload: PodWorkload
    unread: Callable[[str], None] = field(compare=False)

    def object_at(self, value: Any, path: str, fields: Sequence[str]) -> Mapping[str, Any]:
        """Return the object, {} if absent; report unknown fields. Raises InputError for another type."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.workload.error(path, "Invalid value: must be an object")
        for name in value:
            if name not in fields:
                self.unread(f"{path}.{str(name)[:128]}")
        return value

    def objects_at(self, value: Any, path: str, fields: Sequence[str]) -> None:
        """Report unknown fields of the objects in a list; creating the group checks other elements."""
        for index, item in enumerate(_listed(value)):
            if isinstance(item, Mapping):
                self.object_at(item, f"{path}[{index}]", fields)

    def list_at(self, value: Any, path: str) -> list[Any]:
        """Return the list, [] if absent. Raises InputError for another type."""
        if value is not None and not isinstance(value, list):
            raise self.workload.error(path, "Invalid value: must be a list")
        return value or []

    def level(
        self, value: Mapping[str, Any], path: str, *, gang: bool, count: str = "minCount", claims: bool = False
    ) -> RequestedGroup:
        """Return one level.

        `gang`: the default policy is a gang; `count`: a gang's count field; `claims`: the level has `resourceClaims`.
        """
        policy = self.object_at(value.get(_POLICY), f"{path}.{_POLICY}", ("basic", "gang"))
        if (
            value.get(_POLICY) is not None
            and len([name for name in ("basic", "gang") if policy.get(name) is not None]) != 1
        ):
            raise self.workload.error(
                f"{path}.{_POLICY}", "Invalid value: must specify exactly one of: `basic`, `gang`"
            )
        at = f"{path}.{_POLICY}.gang"
        number = self.object_at(policy.get("gang"), at, (count,)).get(count)
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
            raise self.workload.error(f"{at}.{count}", f"Invalid value: {str(number)[:64]}: must be greater than zero")
        self.object_at(policy.get("basic"), f"{path}.{_POLICY}.basic", ())
        at = f"{path}.schedulingConstraints"
        constraints = self.object_at(value.get("schedulingConstraints"), at, ("topology",))
        self.objects_at(constraints.get("topology"), f"{at}.topology", ("key",))
        at = f"{path}.disruptionMode"
        mode = self.object_at(value.get("disruptionMode"), at, ("single", "all"))
        for name in ("single", "all"):
            self.object_at(mode.get(name), f"{at}.{name}", ())
        if claims:
            self.objects_at(value.get(_CLAIMS), f"{path}.{_CLAIMS}", ENTRY)
        read = (*_LEVEL[1:], *((_CLAIMS,) if claims else ()))
        more = {name: value[name] for name in read if value.get(name) is not None}
        basic = policy.get("basic") is not None if policy else not gang
        return RequestedGroup("", path, basic, number, more)

    def bounded(self, group: RequestedGroup, pods: int) -> RequestedGroup:
        """Return the group if its minimum is at most the number of its pods. Raises InputError."""
        if group.min_count is not None and group.min_count > pods:
            message = f"Invalid value: {group.min_count}: must be less than or equal to the number of its pods, {pods}"
            raise self.workload.error(f"{group.path}.{_POLICY}.gang.minCount", message)
        return group


def groups_asked(workload: PodWorkload, unread: Callable[[str], None]) -> Asked | None:
    """Return the groups that the object requests; None without a `spec.scheduling` of its kind.

    Raises InputError for a value that the admission of its kind refuses.
    """
    read = _KINDS.get(workload.object_id[:2])
    if read is None or workload.spec.get("scheduling") is None:
        return None
    return read(Reader(workload, unread))


# -- JobSet ----------------------------------------------------------------------------------------


def _job_set(reader: Reader) -> Asked:
    workload = reader.workload
    sizes = gang_sizes("JobSet", workload.spec)
    scheduling = reader.object_at(workload.spec["scheduling"], PATH, (*_LEVEL, "replicatedJobs"))
    listed = map(mapping, _listed(workload.spec.get("replicatedJobs")))
    jobs = {text(job.get("name")) or str(index): job for index, job in enumerate(listed)}
    for index, job in enumerate(jobs.values()):
        if value_at(job, "template.spec.scheduling") is not None:
            at = f"spec.replicatedJobs[{index}].template.spec.scheduling"
            raise workload.error(at, f"Forbidden: may not be set with {PATH}")
    entries = reader.list_at(scheduling.get("replicatedJobs"), f"{PATH}.replicatedJobs")
    if entries:
        return _by_entries(reader, scheduling, entries, jobs, sizes)
    whole = reader.level(scheduling, PATH, gang=True)
    order = value_at(workload.spec, "startupPolicy.startupPolicyOrder")
    if order == "InOrder" or any(job.get("dependsOn") for job in jobs.values()):
        if whole.min_count is not None:
            message = "Forbidden: may not be set where the replicated jobs start one after the other"
            raise workload.error(f"{PATH}.{_POLICY}.gang.minCount", message)
        by_job = {name: _of_job(whole, name) for name in jobs}
        _check_number(reader, len(by_job))
        return lambda part, _: by_job[part]
    _check_classes(reader, PATH, [_class_of_job(job) for job in jobs.values()])
    reader.bounded(whole, sum(sizes.values()))
    return lambda _, __: whole


def _by_entries(
    reader: Reader,
    scheduling: Mapping[str, Any],
    entries: Sequence[Any],
    jobs: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, int],
) -> Asked:
    """Return the groups of `spec.scheduling.replicatedJobs`: for replicated jobs, or for each Job."""
    workload, at = reader.workload, f"{PATH}.replicatedJobs"
    conflicting = next((name for name in _LEVEL if scheduling.get(name) is not None), "")
    if conflicting:
        raise workload.error(f"{PATH}.{conflicting}", f"Forbidden: may not be set with {at}")
    result: dict[str, Callable[[str], RequestedGroup]] = {}
    named_jobs: set[str] = set()
    number = 0
    for index, entry in enumerate(entries):
        path = f"{at}[{index}]"
        value = reader.object_at(entry, path, ("targetReplicatedJobs", *_LEVEL, _CLAIMS, "job"))
        targets = _targets(reader, value, f"{path}.targetReplicatedJobs", jobs, named_jobs)
        _check_classes(reader, path, [_class_of_job(jobs[target]) for target in targets])
        if value.get("job") is not None:
            own = next((name for name in (*_LEVEL, _CLAIMS) if value.get(name) is not None), "")
            if len(targets) > 1 or own:
                message = "Forbidden: needs one replicated job, and no other field beside it"
                raise workload.error(f"{path}.job", message)
            inner = reader.object_at(value["job"], f"{path}.job", (*_LEVEL, _CLAIMS))
            replicas = max(1, _whole(jobs[targets[0]].get("replicas"), 1))
            of_each_job = reader.level(inner, f"{path}.job", gang=True, claims=True)
            result[targets[0]] = _each_job(
                reader.bounded(of_each_job, sizes.get(targets[0], 0) // replicas), targets[0]
            )
            number += replicas
            continue
        shared = reader.level(value, path, gang=True, claims=True)
        shared = reader.bounded(shared, sum(sizes.get(item, 0) for item in targets))
        shared = _of_job(shared, targets[0]) if len(targets) == 1 else shared._replace(name="-".join(targets))
        result.update(dict.fromkeys(targets, _always(shared)))
        number += 1
    missing = next((name for name in jobs if name not in named_jobs), None)
    if missing is not None:
        raise workload.error(at, f'Required value: no entry names the replicated job "{missing[:128]}"')
    _check_number(reader, number)
    return lambda part, replica: result[part](replica)


def _targets(
    reader: Reader, value: Mapping[str, Any], path: str, jobs: Mapping[str, Any], named_jobs: set[str]
) -> list[str]:
    """Return the replicated jobs that an entry names, and mark them as used."""
    targets = reader.list_at(value.get("targetReplicatedJobs"), path)
    if not targets:
        raise reader.workload.error(path, "Required value: must name a replicated job")
    for target in targets:
        if not isinstance(target, str) or target not in jobs:
            raise reader.workload.error(path, f'Invalid value: "{str(target)[:128]}": no replicated job has this name')
        if target in named_jobs:
            raise reader.workload.error(path, f'Duplicate value: "{target[:128]}"')
        named_jobs.add(target)
    return targets


def _of_job(group: RequestedGroup, name: str) -> RequestedGroup:
    return group._replace(name=name, labels={f"{_JOBSET}/replicatedjob-name": name})


def _each_job(group: RequestedGroup, name: str) -> Callable[[str], RequestedGroup]:
    def of(replica: str) -> RequestedGroup:
        labels = {f"{_JOBSET}/replicatedjob-name": name, f"{_JOBSET}/job-index": replica}
        return group._replace(name=f"{name}-{replica}", labels=labels)

    return of


def _always(group: RequestedGroup) -> Callable[[str], RequestedGroup]:
    return lambda _: group


def _class_of_job(job: Mapping[str, Any]) -> str:
    return text(value_at(job, f"template.spec.template.{_CLASS}"))


def _check_number(reader: Reader, number: int) -> None:
    if number > MOST_GROUPS:
        message = f"Too many: {number}: must have at most {MOST_GROUPS} groups"
        raise reader.workload.error(PATH, message)


# -- LeaderWorkerSet -------------------------------------------------------------------------------


def _leader_worker_set(reader: Reader) -> Asked:
    workload = reader.workload
    size = _whole(value_at(workload.spec, "leaderWorkerTemplate.size"), 1)
    scheduling = reader.object_at(workload.spec["scheduling"], PATH, (*_LEVEL, "replica"))
    at = f"{PATH}.replica"
    replica = reader.object_at(scheduling.get("replica"), at, (*_LEVEL, "leader", "worker"))
    active = [
        name
        for name, value, fields in (("", scheduling, _LEVEL), ("replica", replica, _LEVEL))
        if any(value.get(item) is not None for item in fields)
    ]
    roles = [role for role in ("leader", "worker") if replica.get(role) is not None]
    if len(active) + bool(roles) > 1:
        raise workload.error(PATH, "Forbidden: may be set at one level: of the object, replica, or leader and worker")
    templates = mapping(workload.spec.get("leaderWorkerTemplate"))
    present = [templates[name] for name in ("leaderTemplate", "workerTemplate") if templates.get(name) is not None]
    _check_classes(reader, PATH, [text(value_at(item, _CLASS)) for item in present])
    _check_alone(reader, templates)
    if roles:
        return _by_role(reader, replica, size)
    of_replica = active != [""]
    path, value = (at, replica) if of_replica else (PATH, scheduling)
    level = reader.level(value, path, gang=of_replica, count="minGroupCount")
    _check_exclusive(reader, level)
    if level.min_count is not None:
        message = "Forbidden: counts groups, and this level is one group of pods"
        raise workload.error(f"{path}.{_POLICY}.gang.minGroupCount", message)
    if not level.basic and workload.spec.get("startupPolicy") == "LeaderReady":
        message = "Forbidden: LeaderReady makes the workers after the leader runs, and a gang runs together"
        raise workload.error("spec.startupPolicy", message)
    if not of_replica:
        return lambda _, __: level
    return lambda _, index: level._replace(name=index, labels={f"{_LWS}/group-index": index})


def _by_role(reader: Reader, replica: Mapping[str, Any], size: int) -> Asked:
    """Return a group for the leader and one for the workers of each replica."""
    at = f"{PATH}.replica"
    if size < 2:
        raise reader.workload.error("spec.leaderWorkerTemplate.size", f"Invalid value: {size}: must be at least 2")
    result: dict[str, RequestedGroup] = {}
    for role, pods in (("leader", 1), ("worker", size - 1)):
        path = f"{at}.{role}"
        value = reader.object_at(replica.get(role), path, (*_LEVEL, _CLAIMS))
        result[role] = reader.level(value, path, gang=False, claims=True)
        _check_exclusive(reader, result[role])
        if result[role].min_count not in (None, pods):
            message = f"Invalid value: {result[role].min_count}: must be the number of its pods, {pods}"
            raise reader.workload.error(f"{path}.{_POLICY}.gang.minCount", message)
    return lambda role, index: result[role]._replace(
        name=f"{index}-{role}",
        min_count=None,
        labels={f"{_LWS}/group-index": index, **({f"{_LWS}/worker-index": "0"} if role == "leader" else {})},
    )


def _check_alone(reader: Reader, templates: Mapping[str, Any]) -> None:
    """Raise InputError if a template names a group, because the controller sets the group of every pod."""
    for name in ("leaderTemplate", "workerTemplate"):
        if value_at(mapping(templates.get(name)), "spec.schedulingGroup") is not None:
            at = f"spec.leaderWorkerTemplate.{name}.spec.schedulingGroup"
            raise reader.workload.error(at, f"Forbidden: may not be set with {PATH}")


def _check_exclusive(reader: Reader, group: RequestedGroup) -> None:
    """Raise InputError if a gang or a group with a domain also has one domain for each replica."""
    annotations = mapping(reader.workload.meta.get("annotations"))
    if annotations.get(_EXCLUSIVE) and (not group.basic or group.more.get(_LEVEL[1])):
        field = _POLICY if not group.basic else _LEVEL[1]
        raise reader.workload.error(
            f"{group.path}.{field}", f"Forbidden: may not be set with the annotation {_EXCLUSIVE}"
        )


# -- parts -----------------------------------------------------------------------------------------


def _check_classes(reader: Reader, path: str, classes: Sequence[str]) -> None:
    """Raise InputError if the pods of a group have different priority classes."""
    several = sorted(set(classes))
    if len(several) > 1:
        names = ", ".join(f'"{item[:64]}"' for item in several)
        raise reader.workload.error(path, f"Invalid value: {names}: its pod templates must have one priorityClassName")


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


_KINDS: Final[Mapping[tuple[str, ...], Callable[[Reader], Asked]]] = {
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
}
