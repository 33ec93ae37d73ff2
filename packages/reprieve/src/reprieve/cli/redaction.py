"""Redaction: objects of others are shown only by kind and priority (`explain --redact`, whatif.md 11.3).

Terms: own are the object in question, its group, its tree and their pods; of all pending pods, those in the user's
namespace.  Nodes belong to no namespace and keep their names.

Invariant: names are removed from the evidence before anything is rendered, so that no output contains one; a name
without a known kind and priority becomes "another object".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace as with_fields

from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Manifests
from kube_rules.objects import CompositePodGroup, Pod, PodGroup
from reprieve.cli.evidence import Evidence
from reprieve.cli.explain_files import of_namespace
from reprieve.cli.sections import Row, Section, Tone
from reprieve.cli.whatif import HypotheticalDecision
from reprieve.decisions.outcomes import Help
from reprieve.decisions.phrases import count
from reprieve.decisions.records import DecisionRecord
from reprieve.simulation.report import CompositeOutcome, Plan, PodGroupOutcome, PodOutcome

Name = tuple[str, str]
"""(namespace, name)."""

_KINDS: Final = "pod|podgroup|compositepodgroup|group|gang|tree|workload"
_UID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_REST: Final = r"/(?:([a-z][a-z0-9.]*)/)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)"


@dataclass(slots=True)
class Redaction:
    """The objects that may be named, and of the others (kind in lower case, priority) by name."""

    own: set[Name] = field(default_factory=set)
    own_namespace: str | None = None
    """The namespace in which everything is own."""
    known: dict[Name, tuple[str, int]] = field(default_factory=dict)
    namespaces: set[str] = field(default_factory=set)
    _pattern: re.Pattern[str] | None = None

    def is_own(self, namespace: str, name: str) -> bool:
        """Return whether an object may be named."""
        return namespace == self.own_namespace or (namespace, name) in self.own

    def learn(self, namespace: str, name: str, kind: str, priority: int) -> None:
        """Add an object that a text may name."""
        self.known[namespace, name] = (kind.lower(), priority)
        self.namespaces.add(namespace)
        self._pattern = None

    def text(self, text: str) -> str:
        """Return a text without names of others and without UIDs."""
        if self._pattern is None:
            spaces = "|".join(
                re.escape(namespace) for namespace in sorted(self.namespaces, key=lambda item: (-len(item), item))
            )
            self._pattern = re.compile(rf"(?:\b({_KINDS}) )?(?<![\w./-])({spaces or '(?!)'}){_REST}")
        return _UID.sub("...", self._pattern.sub(self._named, text))

    def _named(self, match: re.Match[str]) -> str:
        before, namespace, kind, name = match.groups()
        if self.is_own(namespace, name):
            return match[0]
        if kind:  # workloads in flags: namespace/kind/name
            return f"another {kind}"
        known = self.known.get((namespace, name))
        if known is None:
            return f"another {before or 'object'}"
        kind, priority = known
        return f"{before} of priority {priority}" if before else f"a {kind} of priority {priority}"

    def help(self, help: Help) -> Help:
        """Return a suggestion, without its flags if they name others."""
        flags = tuple(flag for flag in help.flags if self.text(flag) == flag)
        workload = self.text(help.workload) if help.workload is not None else None
        sentence = help.sentence
        if len(flags) < len(help.flags):
            sentence = sentence.replace(f" ({' '.join(help.flags)})", "")
        return with_fields(help, flags=flags, workload=workload, sentence=self.text(sentence))

    def within(self, value: Any) -> Any:
        """Return plain data with every text redacted; pods of others are not listed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.within(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        result = {key: self.within(item) for key, item in value.items()}
        if "unit" in value and "podNames" in value:
            names = value["podNames"]
            result["podNames"] = [name for name in names if self.is_own(*_split(name))]
        return result


def redacted(evidence: Evidence) -> Evidence:
    """Return the evidence without the names of others."""
    target = evidence.target
    redaction = Redaction()
    redaction.namespaces.add(target.namespace)
    group = pod_group_name(evidence.pod) if evidence.pod is not None else None
    above = [evidence.composite.spec.parent_composite_pod_group_name] if evidence.composite is not None else []
    names = [target.name, group, *(pod.name for pod in evidence.members), *evidence.above, evidence.missing, *above]
    names += [evidence.owner.name] if evidence.owner is not None else []
    redaction.own |= {(target.namespace, name) for name in names if name}
    computed = evidence.computed
    records = [*evidence.records, *([computed.record] if computed is not None and computed.record is not None else [])]
    for record in records:
        for level in record.levels:
            redaction.own.add(_split(level.name))
    for record in records:
        for namespace, name, kind, priority in _named_in(record):
            if not redaction.is_own(namespace, name):
                redaction.learn(namespace, name, kind, priority)
    return replace(
        evidence,
        pod=_with_conditions(evidence.pod, redaction),
        group=_with_conditions(evidence.group, redaction),
        composite=_with_conditions(evidence.composite, redaction),
        events=[replace(event, note=redaction.text(event.note)) for event in evidence.events],
        records=[_record(record, redaction) for record in evidence.records],
        computed=_computed(computed, redaction),
        warnings=[redaction.text(warning) for warning in evidence.warnings],
    )


RecordOf = Callable[[str, str, str], DecisionRecord | None]


@dataclass(frozen=True, slots=True)
class RedactedQueue:
    """Pending objects. `plan`: all, others without names; `own`: those with names; `others`: the rest, counted."""

    plan: Plan
    own: Plan
    others: Section | None
    record_of: RecordOf


def redacted_waiting(document: Plan, record_of: RecordOf, manifests: Manifests, namespace: str) -> RedactedQueue:
    """Return the pending objects, those of other namespaces only by kind and priority."""
    redaction = Redaction(own_namespace=namespace)
    named: list[Pod | PodGroup | CompositePodGroup] = [loaded.object for loaded in manifests.pods]
    named += [loaded.object for loaded in manifests.pod_groups]
    named += [loaded.object for loaded in manifests.of(CompositePodGroup)]
    for item in named:
        redaction.learn(item.namespace or "default", item.name, item.KIND, item.spec.priority or 0)
    redaction.namespaces.update(loaded.object.namespace or "default" for loaded in manifests.all())

    def redacted(outcome: _OutcomeT) -> _OutcomeT:
        if outcome.namespace != namespace:
            nameless = with_fields(outcome, **_NAMELESS[type(outcome)])
            in_group = isinstance(outcome, PodOutcome) and outcome.pod_group is not None
            return with_fields(nameless, pod_group="") if in_group else nameless
        shown = with_fields(outcome, message=redaction.text(outcome.message) if outcome.message is not None else None)
        helps = getattr(outcome, "help", ())
        return with_fields(shown, help=tuple(map(redaction.help, helps))) if helps else shown

    plan = with_fields(
        document,
        pods=tuple(map(redacted, document.pods)),
        pod_groups=tuple(map(redacted, document.pod_groups)),
        composite_pod_groups=tuple(map(redacted, document.composite_pod_groups)),
    )

    def redacted_of(kind: str, space: str, name: str) -> DecisionRecord | None:
        record = record_of(kind, space, name)
        return _record(record, redaction) if record is not None else None

    return RedactedQueue(plan, of_namespace(plan, namespace), _others_section(document, namespace), redacted_of)


_OutcomeT = TypeVar("_OutcomeT", PodOutcome, PodGroupOutcome, CompositeOutcome)
_NAMELESS: Final[Mapping[type, Mapping[str, Any]]] = {
    PodOutcome: {
        **dict.fromkeys(("namespace", "name"), ""),
        **dict.fromkeys(("node_name", "nominated_node_name", "reason", "message")),
        "help": (),
    },
    PodGroupOutcome: {
        **dict.fromkeys(("namespace", "name"), ""),
        **dict.fromkeys(("reason", "message", "parent")),
        "help": (),
    },
    CompositeOutcome: {
        **dict.fromkeys(("namespace", "name"), ""),
        **dict.fromkeys(("reason", "message", "parent")),
        **dict.fromkeys(("groups", "short"), ()),
    },
}
"""Fields of outcomes of others that are not shown."""


def _others_section(document: Plan, namespace: str) -> Section | None:
    """Count the pending objects of other namespaces."""
    counter = Counter((kind, pending.priority, pending.outcome) for kind, pending in _others(document, namespace))
    rows = tuple(
        Row((count(number, kind.lower()), f"of priority {priority}", outcome), tone=Tone.WAITING)
        for (kind, priority, outcome), number in sorted(counter.items(), key=lambda entry: (-entry[0][1], entry[0]))
    )
    return Section("Pending in other namespaces", ("", "", ""), rows, tone=Tone.WAITING) if rows else None


# -- parts -----------------------------------------------------------------------------------------


def _others(document: Plan, namespace: str) -> Iterator[tuple[str, PodOutcome | PodGroupOutcome | CompositeOutcome]]:
    """Return the pending objects of other namespaces: roots of trees, groups without a tree, pods without a group."""
    for tree in document.composite_pod_groups:
        if tree.namespace != namespace and tree.outcome != "Scheduled" and tree.parent is None:
            yield "CompositePodGroup", tree
    for group in document.pod_groups:
        if group.namespace != namespace and group.outcome != "Scheduled" and group.parent is None:
            yield "PodGroup", group
    for pod in document.pods:
        if pod.namespace != namespace and pod.node_name is None and pod.pod_group is None:
            yield "Pod", pod


def _named_in(record: DecisionRecord) -> Iterator[tuple[str, str, str, int]]:
    """Return (namespace, name, kind, priority) of each object that a record names in its fields."""
    entity = record.entity
    yield entity.namespace, entity.name, entity.kind, entity.priority
    preemption = record.preemption
    units = [*preemption.evicted, *preemption.reprieved] if preemption is not None else []
    units += record.in_vain.considered if record.in_vain is not None else []
    for unit in units:
        for name in unit.pod_names:
            yield *_split(name), "Pod", unit.priority
        yield *_split(unit.unit), unit.kind, unit.priority
        for owner in unit.owners:
            kind, _, name = owner.partition(" ")
            yield *_split(name), kind, unit.priority


def _split(name: str) -> Name:
    namespace, _, rest = name.partition("/")
    return namespace, rest


def _record(record: DecisionRecord, redaction: Redaction) -> DecisionRecord:
    plain: dict[str, Any] = msgspec.to_builtins(record)
    result = redaction.within(plain)
    entity = record.entity
    preemption = result.get("preemption") or {}
    for unit in (*preemption.get("evicted", ()), *preemption.get("reprieved", ())):
        for key in ("uid", "podUids"):
            unit.pop(key, None)
    if not redaction.is_own(entity.namespace, entity.name):
        result["entity"] = {"kind": entity.kind, "namespace": "", "name": "", "priority": entity.priority}
    else:
        result["entity"] = plain["entity"]
    for item in result.get("pods", ()):
        item["names"] = [] if not redaction.is_own(entity.namespace, entity.name) else item["names"]
    reserved = result.get("reservation")
    if reserved is not None and record.reservation is not None:  # the number stays
        names = record.reservation.waits_for
        reserved["waitsFor"] = [name for name in names if redaction.is_own(*_split(name))]
    return msgspec.convert(result, DecisionRecord)


def _computed(computed: HypotheticalDecision | None, redaction: Redaction) -> HypotheticalDecision | None:
    if computed is None:
        return None
    helps = tuple(map(redaction.help, computed.helps)) if computed.helps is not None else None
    record = _record(computed.record, redaction) if computed.record is not None else None
    return replace(computed, record=record, helps=helps)


def _with_conditions(item: Any, redaction: Redaction) -> Any:
    """Return a pod or group with redacted messages of its conditions."""
    if item is None or not item.status.conditions:
        return item
    result: Sequence[Any] = [
        with_fields(condition, message=redaction.text(condition.message)) for condition in item.status.conditions
    ]
    return with_fields(item, status=with_fields(item.status, conditions=type(item.status.conditions)(result)))
