"""Annotations that describe work, and thereby the cost of evicting it (cost.md 2).

They are on a pod, on its PodGroup, or as defaults on a PriorityClass; for each annotation the nearest counts. Times are
RFC 3339, durations have Go's format (`90s`, `1h30m`).

Rule: an invalid value counts as absent and is reported: no pod is refused because of an annotation.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from kube_rules.admission import PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS
from kube_rules.durations import duration
from kube_rules.meta import KubernetesObject
from kube_rules.objects import CompositePodGroup, Pod, PodGroup, PriorityClass
from kube_rules.topology_terms import PREFERRED_TOPOLOGY, SLICE, read_levels, read_slice
from kube_rules.unknown_fields import did_you_mean, nearest

DOMAIN: Final = "scheduling.reprieve.dev/"
LAST_CHECKPOINT: Final = f"{DOMAIN}last-checkpoint"
"""When the work was last saved. An eviction loses only the work since then; update it after every checkpoint."""
CHECKPOINT_INTERVAL: Final = f"{DOMAIN}checkpoint-interval"
"""How often the work is saved, counted from the start; for work that does not write `last-checkpoint`."""
MINIMUM_RUNTIME: Final = f"{DOMAIN}minimum-runtime"
"""How long after its start the work cannot be a victim."""
PREEMPTION_DELAY: Final = f"{DOMAIN}preemption-delay"
"""How long a pending preemptor waits before it may evict."""
EXPECTED_END: Final = f"{DOMAIN}expected-end"
"""When the work is expected to end; a preemptor may wait for that instead of evicting it."""
EXPECTED_RUNTIME: Final = f"{DOMAIN}expected-runtime"
"""How long the work is expected to run, counted from its start; backfill also uses it for pending work."""
RESTART_COST: Final = f"{DOMAIN}restart-cost"
"""How long the work needs after a restart until it makes progress again."""
BELOW_MINIMUM: Final = f"{DOMAIN}below-minimum"
"""For a gang that would fall below its minCount: `Whole` evicts it as a whole, `Protect` protects it from peers."""
MOVABLE: Final = f"{DOMAIN}movable"
"""Whether the work may be moved: evicted for a pending pod if it can run elsewhere at once."""
PDB_POLICY: Final = f"{DOMAIN}pdb-policy"
"""Whether preemptors of the class may violate a PodDisruptionBudget as a last resort; with `Respect` never."""
MAY_BREAK_MINIMUM_RUNTIME: Final = f"{DOMAIN}may-break-minimum-runtime"
"""Whether preemptors of the class may evict work before the end of its minimum runtime."""
BACKFILLED_UNTIL: Final = f"{DOMAIN}backfilled-until"
"""When work on capacity reserved for another workload should have ended; written with the binding."""
RECOVERY_POLICY: Final = f"{DOMAIN}recovery-policy"
"""For a group that stays below its minimum after it was scheduled: `Restart` evicts it."""

MAX_PREEMPTION_PRIORITY: Final = f"{DOMAIN}max-preemption-priority"
"""The highest priority that groups of the class may have as victims."""
MAX_MINIMUM_RUNTIME: Final = f"{DOMAIN}max-minimum-runtime"
"""The longest `minimum-runtime` of pods of the class."""
MAX_RESTART_COST: Final = f"{DOMAIN}max-restart-cost"
"""The longest `restart-cost` of pods of the class."""
ALLOW_BELOW_MINIMUM: Final = f"{DOMAIN}allow-below-minimum"
"""Whether `below-minimum` of gangs of the class counts."""
MAX_PROTECTED_PRIORITY: Final = f"{DOMAIN}max-protected-priority"
"""The highest priority of a preemptor from which `below-minimum: Protect` protects gangs of the class."""
GRANT_NAMESPACES: Final = f"{DOMAIN}grant-namespaces"
"""The namespaces in which the grants of the class apply."""

WHOLE, PROTECT = "Whole", "Protect"
BEST_EFFORT, RESPECT = "BestEffort", "Respect"
KEEP, RESTART = "Keep", "Restart"
LONGEST: Final = 10 * 366 * 24 * 3600.0
"""The longest duration in seconds (ten years)."""

_Time = Annotated[datetime, msgspec.Meta(tz=True)]


@dataclass(frozen=True, slots=True)
class WorkTerms:
    """The terms of one piece of work; None means not set. Times are seconds since the epoch, durations seconds."""

    last_checkpoint: float | None = None
    checkpoint_interval: float | None = None
    minimum_runtime: float | None = None
    preemption_delay: float | None = None
    restart_cost: float | None = None
    expected_end: float | None = None
    expected_runtime: float | None = None
    active_deadline: float | None = None
    """The `activeDeadlineSeconds` of a pod: its maximum runtime."""
    below_minimum: str | None = None
    """`WHOLE` or `PROTECT`."""
    movable: bool | None = None

    @property
    def decisive(self) -> tuple[object, ...]:
        """Return the terms that affect which pods may be evicted or when, not only the cost."""
        ends = self.expected_end, self.expected_runtime, self.active_deadline
        return (self.minimum_runtime, self.preemption_delay, self.below_minimum, *ends)

    @property
    def decides(self) -> bool:
        """Return whether the terms restrict which pods may be evicted, not only the cost."""
        return bool(self.minimum_runtime) or self.below_minimum is not None

    def over(self, fallback: "WorkTerms") -> "WorkTerms":
        """Return these terms, with missing terms taken from `fallback`."""
        if self is NO_WORK_TERMS:
            return fallback
        if fallback is NO_WORK_TERMS:
            return self
        return WorkTerms(
            *(
                getattr(fallback, field) if getattr(self, field) is None else getattr(self, field)
                for field in WorkTerms.__slots__
            )
        )


NO_WORK_TERMS: Final = WorkTerms()


@dataclass(frozen=True, slots=True)
class Grant:
    """Limits of annotations that protect a victim (cost.md 7). Durations are in seconds."""

    preemption_priority: int | None = None
    """None: the group's own priority."""
    minimum_runtime: float = 3600.0
    restart_cost: float = 3600.0
    below_minimum: bool = True
    protected_priority: int | None = None
    """None: the gang's own priority."""


DEFAULT_GRANT: Final = Grant()
"""The grant that applies unless an administrator sets another one."""


@dataclass(frozen=True, slots=True)
class ClassTerms:
    """The terms of a PriorityClass.

    `work`: defaults for its pods and groups; `grant`: limits of their own terms in `grant_namespaces` (None: in all),
    and `grant_elsewhere` in others; the other fields concern its preemptors.
    """

    work: WorkTerms = NO_WORK_TERMS
    respects_budgets: bool = False
    may_break_minimum_runtime: bool = False
    grant: Grant = DEFAULT_GRANT
    grant_elsewhere: Grant = DEFAULT_GRANT
    grant_namespaces: frozenset[str] | None = None

    def grant_in(self, namespace: str) -> Grant:
        """Return the grant for objects of a namespace."""
        granted = self.grant_namespaces is None or namespace in self.grant_namespaces
        return self.grant if granted else self.grant_elsewhere


NO_CLASS_TERMS: Final = ClassTerms()


def moment(text: str) -> float:
    """Return the seconds since the epoch of an RFC 3339 time. Raises ValueError with the expected format."""
    try:
        return msgspec.convert(text, _Time).timestamp()
    except (msgspec.ValidationError, OverflowError, ValueError):
        raise ValueError("expected an RFC 3339 time such as 2026-01-31T12:00:00Z") from None


def _duration(text: str) -> float:
    try:
        result = duration(text) if len(text) <= _LONGEST_TEXT else LONGEST * 2
    except ValueError:
        raise ValueError("expected a duration such as 90s or 1h30m") from None
    if result < 0:
        raise ValueError("a duration must not be negative")
    if result > LONGEST:
        raise ValueError("a duration is at most ten years")
    return result


_LONGEST_TEXT: Final = 64


def _interval(text: str) -> float:
    result = _duration(text)
    if not result:
        raise ValueError("an interval must be longer than 0")
    return result


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected {' or '.join(words)}")
        return text

    return read


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text) or not -(1 << 31) <= int(text) < 1 << 31:
        raise ValueError("expected a priority: an integer of 32 bits")
    return int(text)


_NUMBER: Final = re.compile(r"-?[0-9]{1,10}")


def _namespaces(text: str) -> frozenset[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(map(_NAMESPACE.fullmatch, names)):
        raise ValueError("expected names of namespaces, separated by commas")
    return frozenset(names)


_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


_WORK: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    LAST_CHECKPOINT: ("last_checkpoint", moment),
    CHECKPOINT_INTERVAL: ("checkpoint_interval", _interval),
    MINIMUM_RUNTIME: ("minimum_runtime", _duration),
    PREEMPTION_DELAY: ("preemption_delay", _duration),
    RESTART_COST: ("restart_cost", _duration),
    EXPECTED_END: ("expected_end", moment),
    EXPECTED_RUNTIME: ("expected_runtime", _interval),
    BELOW_MINIMUM: ("below_minimum", _one_of(WHOLE, PROTECT)),
    MOVABLE: ("movable", _one_of("true", "false")),
}
_CLASS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    PDB_POLICY: ("respects_budgets", _one_of(BEST_EFFORT, RESPECT)),
    MAY_BREAK_MINIMUM_RUNTIME: ("may_break_minimum_runtime", _one_of("true", "false")),
}
_GRANT: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    MAX_PREEMPTION_PRIORITY: ("preemption_priority", _number),
    MAX_MINIMUM_RUNTIME: ("minimum_runtime", _duration),
    MAX_RESTART_COST: ("restart_cost", _duration),
    ALLOW_BELOW_MINIMUM: ("below_minimum", _one_of("true", "false")),
    MAX_PROTECTED_PRIORITY: ("protected_priority", _number),
    GRANT_NAMESPACES: ("namespaces", _namespaces),
}
_PLACES: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    PREFERRED_TOPOLOGY: ("preferred", read_levels),
    SLICE: ("slices", read_slice),
}
"""Read by `topology_terms`."""
_GROUP: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {RECOVERY_POLICY: ("policy", _one_of(KEEP, RESTART))}
"""Annotations that count only on a group."""
_OF_CLASS: Final = {**_CLASS, **_GRANT}
"""Annotations that count only on a PriorityClass."""
_ELSEWHERE: Final = frozenset({PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS, BACKFILLED_UNTIL})
"""Annotations of the domain that other modules read."""
WORK_ANNOTATIONS: Final = (*_WORK, *_GROUP, *_OF_CLASS)
"""All annotations that this module reads."""


def work_terms(annotations: Mapping[str, str]) -> WorkTerms:
    """Return the terms in the annotations of a pod or PodGroup; invalid values count as absent."""
    return _terms(_read(annotations, _WORK, [])) if annotations else NO_WORK_TERMS


def work_terms_of(pod: Pod) -> WorkTerms:
    """Return the terms of a pod: its annotations and its deadline."""
    terms = work_terms(pod.metadata.annotations)
    deadline = pod.spec.active_deadline_seconds
    return terms if deadline is None else replace(terms, active_deadline=float(deadline))


def restarts_when_degraded(annotations: Mapping[str, str]) -> bool | None:
    """Return whether a group is evicted as a whole if it stays below its minimum; None if not set."""
    policy = _read(annotations, _GROUP, []).get("policy")
    return None if policy is None else policy == RESTART


def class_terms(annotations: Mapping[str, str]) -> ClassTerms:
    """Return the terms in the annotations of a PriorityClass; invalid values count as absent."""
    work = _terms(_read(annotations, _WORK, []))
    own = _read(annotations, _CLASS, [])
    granted = _read(annotations, _GRANT, [])
    # An invalid list names no namespace: it must not extend the grant to all.
    namespaces = granted.pop("namespaces", frozenset()) if GRANT_NAMESPACES in annotations else None
    if work is NO_WORK_TERMS and not own and not granted:
        return NO_CLASS_TERMS
    if "below_minimum" in granted:
        granted["below_minimum"] = granted["below_minimum"] == "true"
    return ClassTerms(
        work=work,
        respects_budgets=own.get("respects_budgets") == RESPECT,
        may_break_minimum_runtime=own.get("may_break_minimum_runtime") == "true",
        grant=_with_defaults(Grant(**granted), work),
        grant_elsewhere=_with_defaults(DEFAULT_GRANT, work),
        grant_namespaces=namespaces,
    )


def _with_defaults(grant: Grant, work: WorkTerms) -> Grant:
    """Return the grant, raised to the defaults that the class gives its pods."""
    return replace(
        grant,
        minimum_runtime=max(grant.minimum_runtime, work.minimum_runtime or 0.0),
        restart_cost=max(grant.restart_cost, work.restart_cost or 0.0),
        below_minimum=grant.below_minimum or work.below_minimum is not None,
    )


def annotation_problems(item: KubernetesObject) -> list[str]:
    """Return the problems of our annotations on a pod, a group or a PriorityClass, a sentence for each.

    Each names the field and, if the value is wrong, the value.
    """
    annotations = item.metadata.annotations
    if not annotations or not isinstance(item, Pod | PodGroup | CompositePodGroup | PriorityClass):
        return []
    problems: list[str] = []
    _read(annotations, _WORK, problems)
    own = _OF_CLASS if isinstance(item, PriorityClass) else _PLACES if isinstance(item, Pod) else {**_PLACES, **_GROUP}
    _read(annotations, own, problems)
    for name in annotations:
        if not name.startswith(DOMAIN) or name in _WORK or name in _ELSEWHERE or name in own:
            continue
        where = "a PriorityClass" if name in _OF_CLASS else "a PodGroup" if name in _GROUP else "pods and groups"
        if name in _OF_CLASS or name in _GROUP or name in _PLACES:
            problems.append(f"{_path(name)}: counts on {where} only")
            continue
        names = (key.removeprefix(DOMAIN) for key in (*_WORK, *_PLACES, *_GROUP, *_OF_CLASS, *_ELSEWHERE))
        meant = nearest(name.removeprefix(DOMAIN), names)
        problems.append(f"{_path(name)}: not known{did_you_mean(meant and DOMAIN + meant)}")
    return problems


def _read(
    annotations: Mapping[str, str], readers: Mapping[str, tuple[str, Callable[[str], Any]]], problems: list[str]
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if not annotations:
        return result
    for name, (field, read) in readers.items():
        text = annotations.get(name)
        if text is None:
            continue
        try:
            result[field] = read(text)
        except ValueError as error:
            problems.append(f'{_path(name)}: Invalid value: "{_short(text)}": {error}')
    return result


def _terms(values: dict[str, Any]) -> WorkTerms:
    if not values:
        return NO_WORK_TERMS
    if "movable" in values:
        values["movable"] = values["movable"] == "true"
    return WorkTerms(**values)


def _path(name: str) -> str:
    return f"metadata.annotations[{_short(name)}]"


def _short(text: str) -> str:
    return text if len(text) <= 2 * _LONGEST_TEXT else f"{text[: 2 * _LONGEST_TEXT]}..."
