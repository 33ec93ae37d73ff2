"""Pod groups: what the object says and which pods name it.

A group state exists as soon as a pod names the group, with or without the object (api.md: the reference "may name a
group that does not exist yet").

Invariant: `existing` counts the members that are not terminating, `scheduled` those of them that have a row.  A
terminating member is on its way out and cannot make up a minimum (scheduling.md 7: no gang is partly bound below
minCount).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from reprieve.api import objects
from reprieve.api.admission import PREEMPTION_PRIORITY
from reprieve.api.work_annotations import NOTHING_SAID, WorkTerms, work_terms
from reprieve.cluster.pods import Owner, PodRecord

_LOWEST = -(1 << 31)


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The part of a PodGroup's spec that scheduling reads (api.md). `min_count` is None for the `basic` policy.

    A priority that is not set counts as 0 (preemption.md 1), but there is nothing for pods to be at odds with.
    """

    min_count: int | None
    disrupt_all: bool
    priority: int
    preemption_policy: str | None
    topology_key: str | None = None
    has_priority: bool = True
    class_name: str = ""
    """The priority class that it names."""
    victim_priority: int = 0
    """The priority that counts when the group's pods are potential victims; never below `priority`."""
    claims: frozenset[tuple[str, str | None, str | None]] = frozenset()
    """Device claims its pods share (KEP-5729): name, claim and template. A pod's own entry that is equal means it."""
    terms: WorkTerms = field(default=NOTHING_SAID, compare=False)
    """What its annotations say of the work of its pods; it changes often, and never who is a unit."""

    @property
    def names_class(self) -> bool:
        """It names a priority class."""
        return bool(self.class_name)


class GroupState:
    """One pod group. `members` are all pods that name it and have not ended, by UID."""

    __slots__ = ("created", "existing", "key", "members", "name", "namespace", "owner", "scheduled", "spec", "uid")

    def __init__(self, key: str) -> None:
        self.key = key
        self.namespace, self.name = key.split("/", 1)
        self.spec: GroupSpec | None = None
        """None while no object of that name exists."""
        self.uid = ""
        self.created = 0.0
        self.owner: Owner | None = None
        """The controller of the object."""
        self.members: dict[str, PodRecord] = {}
        self.scheduled = 0
        self.existing = 0
        """Members that count towards minCount: all that are not on their way out."""

    def __repr__(self) -> str:
        return f"<podgroup {self.key} {self.spec} members={len(self.members)} scheduled={self.scheduled}>"

    @property
    def min_count(self) -> int:
        """The gang's minimum; 0 for `basic` and for a missing object."""
        return self.spec.min_count or 0 if self.spec is not None else 0

    @property
    def is_gang(self) -> bool:
        """The object exists and has the gang policy."""
        return self.spec is not None and self.spec.min_count is not None

    def pending(self) -> list[PodRecord]:
        """Members to schedule: without a row and not terminating, in no particular order."""
        return [pod for pod in self.members.values() if pod.row < 0 and not pod.terminating]

    def running(self) -> list[PodRecord]:
        """Scheduled members (bound or assumed), in no particular order."""
        return [pod for pod in self.members.values() if pod.row >= 0]


def spec_of(group: objects.PodGroup) -> GroupSpec:
    """What scheduling reads of a PodGroup in its internal form (v1beta1)."""
    spec = group.spec
    gang = spec.scheduling_policy.gang
    constraints = spec.scheduling_constraints
    topology = constraints.topology if constraints is not None else None
    return GroupSpec(
        min_count=gang.min_count if gang is not None else None,
        disrupt_all=spec.disruption_mode is not None and spec.disruption_mode.all is not None,
        priority=spec.priority or 0,
        preemption_policy=spec.preemption_policy or None,
        topology_key=topology[0].key if topology else None,
        has_priority=spec.priority is not None,
        class_name=spec.priority_class_name or "",
        victim_priority=max(spec.priority or 0, _preemption_priority(group.metadata.annotations)),
        claims=frozenset(
            (one.name, one.resource_claim_name, one.resource_claim_template_name) for one in spec.resource_claims
        ),
        terms=work_terms(group.metadata.annotations),
    )


def _preemption_priority(annotations: Mapping[str, str]) -> int:
    """The resolved annotation (preemption.md 4, "Options"); without a number it says nothing."""
    text = annotations.get(PREEMPTION_PRIORITY, "")
    return int(text) if re.fullmatch(r"-?[0-9]{1,10}", text) else _LOWEST
