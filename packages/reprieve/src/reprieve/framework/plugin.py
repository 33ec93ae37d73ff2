"""The extension points (scheduling.md 5).

A plugin is one object per profile; it derives from the class of each extension point it implements.  Filters and scores
are vectorised: they take *rows* of the node columns and return arrays.  Each declares what its result depends on:

- `Scope.STATIC`: the pod's signature and the node's own object (labels, taints, unschedulable);
- `Scope.NODE`: also the pods on that node, and nothing else;
- `Scope.CLUSTER`: anything.

STATIC and NODE plugins may read of the pod only `state.signature`: their results are shared by identical pods and
recomputed only for rows that changed.  Deciding is pure: a plugin does no I/O, reads no clock and keeps no state that
the cluster's columns do not determine (acting points - Reserve, PreBind, Bind, PostBind - return plain data).
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.state import ClusterState
from reprieve.framework.configuration import ConfigurationError, converted
from reprieve.framework.events import EventKind, Hints, always
from reprieve.framework.instructions import Instruction
from reprieve.framework.status import FITS, SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Code, Status

if TYPE_CHECKING:
    from reprieve.framework.diagnosis import Diagnosis

Rows = slice | npt.NDArray[np.int64]
"""Rows of the node columns: a slice for all of them, or an index array. Never empty."""
Codes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.int64]

MAX_NODE_SCORE = 100


class Scope(Enum):
    """The inputs of a plugin's result; see the module docstring."""

    STATIC = auto()
    NODE = auto()
    CLUSTER = auto()


class CycleState:
    """The state of one attempt of one pod, shared by its extension points.

    Plugins store in `data` what they compute in PreFilter or PreScore, under their own name.
    """

    __slots__ = ("cluster", "data", "group", "nominated", "planned", "pod", "preemption_under_way", "signature")

    def __init__(
        self,
        cluster: ClusterState,
        pod: PodRecord,
        group: Group | None = None,
        *,
        nominated: int = NO_ROW,
        preemption_under_way: bool = False,
    ) -> None:
        self.cluster = cluster
        self.pod = pod
        self.signature: PodSpecSignature = pod.signature
        self.group = group
        """The group of the cycle to which this attempt belongs."""
        self.nominated = nominated
        """The row of the pod's nominated node; the nomination itself is lifted during the attempt."""
        self.preemption_under_way = preemption_under_way
        """Victims of this preemptor's last preemption are still terminating (preemption.md 2.3)."""
        self.planned: object = None
        """Its part in an eviction that was planned for several preemptors (cost.md 8)."""
        self.data: dict[str, object] = {}


class Plugin:
    """Base of all plugins. `name` is the plugin's name in configuration files and messages."""

    name: ClassVar[str] = ""

    blocking: ClassVar[bool] = False
    """Calls may block on something outside: the driver must not let other work wait with them."""

    args_type: ClassVar[type[Any] | None] = None
    """The type of the plugin's args in a configuration file (a msgspec.Struct, dataclass or TypedDict)."""

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Self:
        """Return the plugin for these `pluginConfig` args, without apiVersion and kind (docs/plugins.md).

        By default the constructor gets them as an `args_type`, or nothing if that is None.  Raises ConfigurationError
        with its path within the args; an override may also raise msgspec.ValidationError.
        """
        if cls.args_type is not None:
            return cls(converted(args, cls.args_type))  # type: ignore[call-arg]
        if args:
            raise ConfigurationError("", "this plugin takes no args")
        return cls()

    def events(self) -> Hints:
        """EventsToRegister: return the events that may help a pod this plugin rejected. By default any event may."""
        return dict.fromkeys(EventKind, always)


class PreEnqueuePlugin(Plugin):
    """Decides whether an entity may enter the active queue."""

    concerns_group: ClassVar[bool] = False
    """The result is the same for all members of a group: the plugin is called for only one of them.

    Its hints are called for events of the entity's own group, and for events of no group.
    """

    def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
        """Return SUCCESS, or the reason why the pod must wait."""
        raise NotImplementedError


class QueueSortPlugin(Plugin):
    """Orders the active queue. Exactly one per profile, the same in all profiles."""

    def sort_key(self, priority: int, timestamp: float, key: str) -> tuple[float, ...]:
        """Return the sort key of an entity: the smallest goes first; ties go by `key` (scheduling.md 1)."""
        raise NotImplementedError


class FilterPlugin(Plugin):
    """Decides on which nodes a pod may run."""

    scope: ClassVar[Scope] = Scope.CLUSTER

    by_amounts: ClassVar[bool] = False
    """For a NODE plugin: of a row it reads only the used and allocatable amounts."""

    checks_everything: bool = False
    """For NodeResourcesFit: every amount that a pod requests is checked, so that the amounts alone decide what fits."""

    by_node_constraints: ClassVar[bool] = False
    """For a STATIC plugin: of a pod it reads only its nodeSelector, node affinity and tolerations."""

    incremental: ClassVar[bool] = False
    """`filter` uses only what `pre_filter` saw, updated by `add_pod` and `remove_pod`.

    Otherwise it reads the present view, and is called from scratch whenever that has changed.
    """

    by_nodes: ClassVar[bool] = False
    """For a CLUSTER plugin: the placement of other pods does not matter to it."""

    outside: ClassVar[bool] = False
    """The result comes from outside (HTTP extenders): the plugin is called last, for nodes that pass everything else.

    It is called only to choose a pod's node: not while victims are searched for, and not about nominated pods.
    """

    def pre_filter(self, state: CycleState) -> Status:
        """Prepare an attempt, before any filter. With SKIP, `filter` is not called for this pod."""
        return SUCCESS

    def concerns(self, state: CycleState) -> bool:
        """Return whether the plugin may affect this pod, wherever other known pods are placed.

        Called for CLUSTER plugins, to find pods that can share work; the result must not change in a trial.
        """
        return self.pre_filter(state).code is not Code.SKIP

    def narrowed(self, state: CycleState) -> Mask | None:
        """PreFilterResult: return `bool[rows]`, the only possible nodes, from the pod alone; None: all of them.

        `filter` must reject the others too, as unresolvable; they are reported before any filter is called.
        """
        return None

    def local(self, state: CycleState) -> bool:
        """Return whether for this pod the result on a row depends only on the pods on that row; for CLUSTER plugins."""
        return False

    def likeness(self, state: CycleState) -> Hashable:
        """Return a key of pods with the same result on every row until the row is in the touch log; None: no such pods.

        Called for CLUSTER plugins after `pre_filter`.
        """
        return None

    def add_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        """PreFilterExtensions: update `state.data` for a pod that was put on a row since `pre_filter`.

        Returns whether that pod counts there at all; the same for all pods of a kind.
        """
        return True

    def remove_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        """PreFilterExtensions: update `state.data` for a pod that left a row since `pre_filter`; returns the same."""
        return True

    def incremental_filter(self, states: Sequence[CycleState], rows: Sequence[int]) -> "IncrementalFilter | None":
        """Return one filter for many pods of one kind, each on its row and prepared by `pre_filter`.

        None: the plugin gets `add_pod` and `remove_pod` calls for each of them.
        """
        return None

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """Return `int8[len(rows)]`: FITS, UNSCHEDULABLE or UNRESOLVABLE for each row."""
        raise NotImplementedError

    def fits(self, state: CycleState, rows: Rows) -> Mask:
        """Return `bool[len(rows)]`: `filter(...) == FITS`; override it if it can be cheaper."""
        mask: Mask = self.filter(state, rows) == FITS
        return mask

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """Return the texts for a rejection, each with the rows (`bool[len(rows)]`) to which it applies.

        A row may have several; only rows that `filter` rejected are read.
        """
        raise NotImplementedError


class IncrementalFilter:
    """The counts of an incremental filter for pods of one kind that must stay on their rows.

    A pod's *position* is its index in the states passed in.  All of them pass initially, and again after every step
    that is undone.
    """

    def count(self, pod: PodRecord, row: int, by: int) -> bool:
        """Count a pod that came to a row (1) or left it (-1); return whether it counts at all."""
        raise NotImplementedError

    def suspects(self) -> Collection[int]:
        """Return positions that may fail since the last call: at least those that do."""
        raise NotImplementedError

    def update_state(self, position: int) -> None:
        """Update `data` of that pod's state before a call of `filter`."""
        raise NotImplementedError


class PostFilterPlugin(Plugin):
    """Runs when no node fits a single pod: usually preemption."""

    def post_filter(self, state: CycleState, diagnosis: "Diagnosis") -> "PostFilterResult":
        """Return the actions that would make the pod schedulable."""
        raise NotImplementedError


class PodGroupPostFilterPlugin(Plugin):
    """Runs once when a whole pod group failed (KEP-5710, "Pod Group Post Filter").

    Plugins run in configured order; the first Success ends it.  `attempt` is the group's cycle: it can run the group's
    algorithm again in a changed view.
    """

    def pod_group_post_filter(self, attempt: "PodGroupAttempt") -> "PostFilterResult":
        """Return the actions that would make the group schedulable."""
        raise NotImplementedError


class ScorePlugin(Plugin):
    """Scores the nodes that passed all filters."""

    scope: ClassVar[Scope] = Scope.CLUSTER

    by_amounts: ClassVar[bool] = False
    """See `FilterPlugin.by_amounts`; scores must then be 0 or more."""

    by_node_constraints: ClassVar[bool] = False
    """See `FilterPlugin.by_node_constraints`."""

    def pre_score(self, state: CycleState) -> bool:
        """Prepare an attempt; with False the plugin does not score this pod."""
        return True

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return `int64[len(rows)]`, 0..100 after `normalize`; higher is better."""
        raise NotImplementedError

    normalizes: ClassVar[bool] = False

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """NormalizeScore: return scores 0..100 for the feasible nodes, `int64[feasible]` as `scores`."""
        return scores


class ReservePlugin(Plugin):
    """Accounts for assumed pods in a plugin."""

    def reserve(self, state: CycleState, row: int) -> Status:
        """Account for the pod on the node; a failure ends the attempt and unreserves."""
        return SUCCESS

    def unreserve(self, state: CycleState, row: int) -> None:
        """Undo `reserve`; must not fail and may be called twice."""

    def give_up(self, state: CycleState, row: int) -> Sequence[Instruction]:
        """Return the writes that undo those of PreBind after a failed binding. Called before `unreserve`."""
        return ()


class PermitPlugin(Plugin):
    """Approves, delays or denies a binding."""

    def permit(self, state: CycleState, row: int) -> Status:
        """Return SUCCESS, WAIT or a rejection."""
        return SUCCESS


class PreBindPlugin(Plugin):
    """Returns the writes that are needed before a pod is bound, as plain data."""

    def pre_bind(self, state: CycleState, row: int) -> Sequence[Instruction]:
        """Return instructions, which are executed in order before the pod is bound."""
        return ()


class BindPlugin(Plugin):
    """Decides how a pod is bound; the first plugin with a result is used."""

    def bind(self, state: CycleState, row: int) -> object | None:
        """Return an `Instruction` for the driver, or None to leave it to the next plugin."""
        return None


class PostBindPlugin(Plugin):
    """Notified when a pod is bound."""

    def post_bind(self, state: CycleState, row: int) -> None:
        """Record the binding."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A set of nodes among which a whole group may be placed (KEP-5732). `rows`: int64[k], ascending, live, k >= 1."""

    name: str
    """The name in messages; for a topology constraint the value of the label."""
    rows: npt.NDArray[np.int64]


Assigned = Sequence[tuple[PodRecord, int]]
"""(pod, row) of placed members, in scheduling order."""


class PlacementGeneratePlugin(Plugin):
    """Proposes the sets of nodes in which a group of any level of a tree may be placed (KEP-5732).

    For a group below another, only the nodes in the parent's placement count.  With several such plugins a placement is
    the intersection of one proposal of each.
    """

    follows_terms: bool = False
    """Whether preferred levels, ranks and slices of groups count (topology.md 5)."""

    def generate(self, cluster: ClusterState, group: Group) -> Sequence[Placement] | None:
        """Return the placements, in the order in which ties between them are broken; None: any node is allowed.

        Raises `PlacementError` if no correct placement exists.
        """
        return None

    def generate_below(self, cluster: ClusterState, group: Group, within: Placement) -> Sequence[Placement] | None:
        """Return `generate` for a group below one in that placement: the intersections of its placements with it.

        Empty ones are left out. Override it if they are known without intersecting.
        """
        placements = self.generate(cluster, group)
        if placements is None:
            return None
        parts = ((placement.name, np.intersect1d(placement.rows, within.rows)) for placement in placements)
        return [Placement(name, rows) for name, rows in parts if len(rows)]


class PlacementScorePlugin(Plugin):
    """Scores placements in which the group fits."""

    by_count: ClassVar[bool] = False
    """Of `assigned` the score reads only which pods are placed, not where: the rows may be missing (NO_ROW)."""

    def score_placement(self, cluster: ClusterState, group: Group, placement: Placement, assigned: Assigned) -> int:
        """Return a score, 0..100 after `normalize_placements`. The assigned pods are not placed in this view."""
        raise NotImplementedError

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        """NormalizePlacementScore: return as many scores, 0..100, for all placements in which the group fits."""
        return scores


class PlacementFeasiblePlugin(Plugin):
    """Checks the progress of a group's placement after every pod, or of a composite after every child group."""

    retries_orders: bool = False
    """A failed gang is tried again with its pods in other orders (scheduling.md 3.9, `treeSearch: Retry`)."""

    def feasible(self, group: Group, *, scheduled: int, remaining: int) -> Status:
        """Return SUCCESS if the placement is good, WAIT if it may become good, else UNSCHEDULABLE to stop early.

        More scheduled pods never make the result worse: a placement without enough capacity is not tried at all.
        """
        return SUCCESS


class SignPlugin(Plugin):
    """Adds to a pod's signature what the plugin reads beyond `PodSpecSignature` (scheduling.md 4).

    A STATIC or NODE plugin that signs may read of the pod what it signs, besides `state.signature`.
    """

    def sign(self, pod: PodRecord) -> bytes | None:
        """Return the fragment; None: this pod cannot be signed, nothing is shared for it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The result of a PostFilter or PodGroupPostFilter. `proposal` is the plan of an in-tree plugin that succeeded.

    With Success a plugin names `nominations` and `victims`: the victims are evicted, and the pods wait for their
    capacity (preemption.md 2.8). Without victims the nominations are recorded, and the pods wait for an event.
    """

    status: Status
    proposal: object | None = None
    clear_nomination: bool = False
    """Preemption would not help: earlier nominations no longer hold."""
    deferred_writes: tuple[Instruction, ...] = ()
    """Writes to carry out that may make the pod fit later; no other PostFilter runs then."""
    deferral: object | None = None
    """The event the plugin waits for instead, as its plain data; no other PostFilter runs then."""
    unhelpful: object | None = None
    """After a failure: what was tried and why it did not help, as the plugin's plain data."""
    nominations: Mapping[str, str] = field(default_factory=dict)
    """`namespace/name` of a pod to schedule -> name of its node."""
    victims: Sequence[str] = ()
    """`namespace/name` of each pod to evict."""


class TieBreaker:
    """Chooses among nodes of equal score, before their names do."""

    def narrow(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows to prefer among `int64[k]` rows of equal score; never empty."""
        return rows

    def took(self, row: int) -> None:
        """Note that a pod was placed on the row."""


class PodGroupAttempt:
    """The handle for a PodGroupPostFilter: the group, its pending pods, and its algorithm.

    Subclassed by the group cycle in `reprieve.scheduling`.
    """

    cluster: ClusterState
    group: Group
    pods: Sequence[PodRecord]

    placements: Sequence[Placement] | None = None
    """The placements for the group, as a whole in one of them; None: anywhere."""

    constrained_below: bool = False
    """Groups below it have placements of their own: not every node of a placement suits every pod."""

    def run(
        self,
        ties: TieBreaker | None = None,
        within: Placement | None = None,
        *,
        diagnose: bool = False,
        chosen: Mapping[str, Placement] | None = None,
    ) -> "PodGroupAssignment":
        """Run the group's scheduling algorithm, without post filters, in the cluster's present view.

        The view is not changed.  `ties` decides between nodes of equal score before their names do; `within` is the
        only placement to use.  `diagnose`: report why members are not placed.  `chosen`: the only placements to use for
        groups below it, by their `ref`.
        """
        raise NotImplementedError

    def choices_below(self, within: Placement | None) -> Sequence[tuple[Group, Sequence[Placement]]]:
        """Return the groups below it with placements of their own, and their placements `within` the root's."""
        return ()

    def hopeful(self) -> Sequence[Placement]:
        """Return the placements that may have capacity for enough members in the present view; the others do not."""
        raise NotImplementedError

    def placement_scores(self, candidates: Sequence[tuple[Placement, Assigned, Sequence[PodRecord]]]) -> Sequence[int]:
        """Return the group's score, higher is better, of each (placement, members' rows, pods counted as evicted)."""
        raise NotImplementedError

    @property
    def placed_without_help(self) -> int:
        """Return the number of members that the failed attempt could place."""
        raise NotImplementedError

    @property
    def nominated_rows(self) -> Sequence[int]:
        """Return the rows of the nodes to which members were nominated before this attempt."""
        raise NotImplementedError

    preemption_under_way: bool = False
    """Victims of this group's last preemption are still terminating (preemption.md 2.3)."""

    planned: object = None
    """Its part in an eviction that was planned for several preemptors (cost.md 8)."""

    overtaken: bool = False
    """Capacity freed on the nominated rows no longer helps the group, so it may preempt (preemption.md 2.7)."""


@dataclass(frozen=True, slots=True)
class PodGroupAssignment:
    """Result of the group algorithm: `(pod, row)` in scheduling order, and whether that is enough members."""

    placed: tuple[tuple[PodRecord, int], ...]
    feasible: bool
    failed: Mapping[str, str]
    """UID -> reason, for members that were tried and not placed, in that order; empty without `diagnose`."""
    diagnosis: "Diagnosis | None" = None
    """Why the first of those fits nowhere."""


class PerNodeFilter(FilterPlugin):
    """Adaptor for a filter that is called for one node at a time: simpler to write, but slower by the number of nodes.

    Implement `filter_node`; return None when the node fits, else `(reason, resolvable)`.
    """

    def filter_node(self, state: CycleState, row: int) -> tuple[str, bool] | None:
        """Return None, or the reason why the node does not fit and whether evictions could help."""
        raise NotImplementedError

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        codes = []
        for row in row_numbers(state.cluster, rows):
            answer = self.filter_node(state, row)
            codes.append(FITS if answer is None else UNSCHEDULABLE if answer[1] else UNRESOLVABLE)
        return np.array(codes, dtype=np.int8)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        numbers = row_numbers(state.cluster, rows)
        texts: dict[str, Mask] = {}
        for index, row in enumerate(numbers):
            answer = self.filter_node(state, row)
            if answer is not None:
                texts.setdefault(answer[0], np.zeros(len(numbers), dtype=np.bool_))[index] = True
        return list(texts.items())


class PerNodeScore(ScorePlugin):
    """Adaptor for a score that is called for one node at a time. Implement `score_node`."""

    def score_node(self, state: CycleState, row: int) -> int:
        """Return the node's score; 0..100 after `normalize`."""
        raise NotImplementedError

    def score(self, state: CycleState, rows: Rows) -> Scores:
        return np.array([self.score_node(state, r) for r in row_numbers(state.cluster, rows)], dtype=np.int64)


def row_numbers(cluster: ClusterState, rows: Rows) -> list[int]:
    """Return the rows as plain integers."""
    if isinstance(rows, slice):
        return list(range(*rows.indices(len(cluster.nodes))))
    return [int(row) for row in rows]


def row_count(cluster: ClusterState, rows: Rows) -> int:
    """Return the number of rows."""
    return len(range(*rows.indices(len(cluster.nodes)))) if isinstance(rows, slice) else len(rows)


def default_normalize(scores: Scores, *, reverse: bool) -> Scores:
    """Upstream's default NormalizeScore: scale so that the highest is 100; reversed, the lowest raw score is best.

    All zero stays all zero, or becomes all 100 when reversed. Integer division, as upstream.
    """
    top = int(scores.max(initial=0))
    if top == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = scores * MAX_NODE_SCORE // top
    return MAX_NODE_SCORE - scaled if reverse else scaled
