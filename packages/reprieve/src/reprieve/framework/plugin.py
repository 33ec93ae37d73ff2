"""The extension points (scheduling.md 5).

A plugin is one object per profile; it derives from the class of each extension point it implements.  Filters and
scores are vectorised: they are asked about *rows* of the node columns and answer with arrays.  Each declares what its
answer depends on:

- `Scope.STATIC`: the pod's signature and the node's own object (labels, taints, unschedulable);
- `Scope.NODE`: also the pods on that node, and nothing else;
- `Scope.CLUSTER`: anything.

STATIC and NODE plugins may read of the pod only `state.signature`: their answers are shared by identical pods and
recomputed only for rows that changed.  Deciding is pure: a plugin does no I/O, reads no clock and keeps no state
that the cluster's columns do not determine (acting points - Reserve, PreBind, Bind, PostBind - return plain data).
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import numpy as np
import numpy.typing as npt

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.state import ClusterState
from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.events import EventKind, Hints, always
from reprieve.framework.instructions import Instruction
from reprieve.framework.status import FITS, SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Code, Status

if TYPE_CHECKING:
    from reprieve.framework.diagnosis import Diagnosis

Rows = slice | npt.NDArray[np.int64]
"""Which rows of the node columns: a slice for all of them, or an index array. Never empty."""
Codes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.int64]

MAX_NODE_SCORE = 100


class Scope(Enum):
    """What an answer depends on; see the module docstring."""

    STATIC = auto()
    NODE = auto()
    CLUSTER = auto()


class CycleState:
    """What one attempt of one pod carries from extension point to extension point.

    `data` is where plugins keep what they compute in PreFilter or PreScore, under their own name.
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
        """The group of the cycle that this attempt belongs to."""
        self.nominated = nominated
        """Row the pod was nominated to; the nomination itself is lifted during the attempt."""
        self.preemption_under_way = preemption_under_way
        """Victims of this preemptor's last preemption are still leaving (preemption.md 2.3)."""
        self.planned: object = None
        """Its part in an eviction that was planned for several preemptors (cost.md 8)."""
        self.data: dict[str, object] = {}


class Plugin:
    """Base of all plugins. `name` is its name in configuration files and messages."""

    name: ClassVar[str] = ""

    blocking: ClassVar[bool] = False
    """Its calls may wait for something outside: the driver must not have other work wait with them."""

    args_type: ClassVar[type[Any] | None] = None
    """What the plugin's args in a configuration file are read into (a msgspec.Struct, dataclass or TypedDict)."""

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Self:
        """Return the plugin for these `pluginConfig` args, without apiVersion and kind (docs/plugins.md).

        By default the constructor gets them as an `args_type`, or nothing where there is none.  Raises
        ConfigurationError, its path within the args, and msgspec.ValidationError.
        """
        if cls.args_type is not None:
            return cls(msgspec.convert(args, cls.args_type))  # type: ignore[call-arg]
        if args:
            raise ConfigurationError("", "this plugin takes no args")
        return cls()

    def events(self) -> Hints:
        """EventsToRegister: which events may help a pod this plugin rejected. By default any event may."""
        return dict.fromkeys(EventKind, always)


class PreEnqueuePlugin(Plugin):
    """Decide whether an entity may enter the active queue."""

    concerns_group: ClassVar[bool] = False
    """The answer is the same for all members of a group: only one of them is asked about.

    Hints of such a plugin are asked for events of the entity's own group, and for events of no group.
    """

    def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
        """Return SUCCESS, or why the pod has to wait."""
        raise NotImplementedError


class QueueSortPlugin(Plugin):
    """Orders the active queue. Exactly one per profile, the same in all profiles."""

    def sort_key(self, priority: int, timestamp: float, key: str) -> tuple[float, ...]:
        """Entities with the smaller key go first; ties go by key (scheduling.md 1)."""
        raise NotImplementedError


class FilterPlugin(Plugin):
    """Decide on which nodes a pod may run."""

    scope: ClassVar[Scope] = Scope.CLUSTER

    by_amounts: ClassVar[bool] = False
    """Of a NODE plugin: of a row it reads nothing but what is used and allocatable there."""

    checks_everything: bool = False
    """Of NodeResourcesFit: every amount that a pod asks for decides, so that plain numbers say what fits."""

    by_node_constraints: ClassVar[bool] = False
    """Of a STATIC plugin: of a pod it reads nothing but its nodeSelector, node affinity and tolerations."""

    incremental: ClassVar[bool] = False
    """`filter` answers from what `pre_filter` saw, brought up to date by `add_pod` and `remove_pod` alone.

    Otherwise it reads the present view, and is asked from scratch whenever that has changed.
    """

    by_nodes: ClassVar[bool] = False
    """Of a CLUSTER plugin: which pods run where does not matter to it."""

    outside: ClassVar[bool] = False
    """The answer comes from outside (HTTP extenders): it is asked last, about nodes that pass everything else.

    Only for where a pod is to go: not while victims are searched for, and not about nominated pods.
    """

    def pre_filter(self, state: CycleState) -> Status:
        """Prepare an attempt, before any filter. With SKIP, `filter` is not called for this pod."""
        return SUCCESS

    def concerns(self, state: CycleState) -> bool:
        """Return whether the plugin may have something to say about this pod, wherever other known pods are placed.

        Asked of CLUSTER plugins, to tell the pods that can share work; must not change in a trial.
        """
        return self.pre_filter(state).code is not Code.SKIP

    def narrowed(self, state: CycleState) -> Mask | None:
        """PreFilterResult: `bool[rows]`, the only nodes worth a look, from the pod alone; None: all of them.

        `filter` rejects the others too, for good; it is how they are reported, before any filter is called.
        """
        return None

    def local(self, state: CycleState) -> bool:
        """Asked of CLUSTER plugins: for this pod the answer on a row changes only with the pods on that row."""
        return False

    def likeness(self, state: CycleState) -> Hashable:
        """Asked of CLUSTER plugins after `pre_filter`: equal for pods of which it says the same on every row, as long
        as the row stays as it is in the touch log; None: there are none.
        """
        return None

    def add_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        """PreFilterExtensions: a pod was put on a row since `pre_filter`; bring `state.data` up to date.

        Returns whether that pod there counts for anything; the same for all pods of a kind.
        """
        return True

    def remove_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        """PreFilterExtensions: a pod was taken off a row since `pre_filter`; returns what `add_pod` does."""
        return True

    def incremental_filter(self, states: Sequence[CycleState], rows: Sequence[int]) -> "IncrementalFilter | None":
        """Return the rules of many pods of one kind, each on its row and prepared by `pre_filter`, to be kept up
        together.

        None: it is notified of each with `add_pod` and `remove_pod`.
        """
        return None

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """`int8[len(rows)]`: FITS, UNSCHEDULABLE or UNRESOLVABLE for each row."""
        raise NotImplementedError

    def fits(self, state: CycleState, rows: Rows) -> Mask:
        """`bool[len(rows)]`: `filter(...) == FITS`; override where that alone is cheaper."""
        mask: Mask = self.filter(state, rows) == FITS
        return mask

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """Return the texts behind a rejection, each with the rows (`bool[len(rows)]`) it holds for.

        A row may have several; only rows that `filter` rejected are read.
        """
        raise NotImplementedError


class IncrementalFilter:
    """What an incremental filter has counted for pods of one kind that are to stay where they are.

    A pod's *position* is its place in the states it was made from.  All of them pass when it is made, and again after
    every step that is taken back.
    """

    def count(self, pod: PodRecord, row: int, by: int) -> bool:
        """A pod came to a row (1) or left it (-1); returns whether that counts for anything."""
        raise NotImplementedError

    def suspects(self) -> Collection[int]:
        """Positions that may have been made to fail since the last call: at least those that were."""
        raise NotImplementedError

    def update_state(self, position: int) -> None:
        """Bring `data` of that pod's state up to date, for `filter` to be asked."""
        raise NotImplementedError


class PostFilterPlugin(Plugin):
    """Runs when no node fits a single pod: usually preemption."""

    def post_filter(self, state: CycleState, diagnosis: "Diagnosis") -> "PostFilterResult":
        """Return what could be done to make the pod schedulable."""
        raise NotImplementedError


class PodGroupPostFilterPlugin(Plugin):
    """Runs once when a whole pod group failed (KEP-5710, "Pod Group Post Filter").

    Plugins run in configured order; the first Success ends it.  `attempt` is the group's cycle: it can run the
    group's algorithm again in a changed view.
    """

    def pod_group_post_filter(self, attempt: "PodGroupAttempt") -> "PostFilterResult":
        """Return what could be done to make the group schedulable."""
        raise NotImplementedError


class ScorePlugin(Plugin):
    """Score the nodes that passed all filters."""

    scope: ClassVar[Scope] = Scope.CLUSTER

    by_amounts: ClassVar[bool] = False
    """See `FilterPlugin.by_amounts`; scores are 0 or more then."""

    by_node_constraints: ClassVar[bool] = False
    """See `FilterPlugin.by_node_constraints`."""

    def pre_score(self, state: CycleState) -> bool:
        """Prepare an attempt; with False the plugin does not score this pod."""
        return True

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """`int64[len(rows)]`, 0..100 after `normalize`; higher is better."""
        raise NotImplementedError

    normalizes: ClassVar[bool] = False

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """NormalizeScore over the feasible nodes: `int64[feasible]` in, the same shape 0..100 out."""
        return scores


class ReservePlugin(Plugin):
    """Account for assumed pods in a plugin."""

    def reserve(self, state: CycleState, row: int) -> Status:
        """Account for the pod on the node; a failure ends the attempt and unreserves."""
        return SUCCESS

    def unreserve(self, state: CycleState, row: int) -> None:
        """Undo `reserve`; must not fail and may be called twice."""

    def give_up(self, state: CycleState, row: int) -> Sequence[Instruction]:
        """A binding failed: what was written for it (PreBind) and should be taken back. Asked before `unreserve`."""
        return ()


class PermitPlugin(Plugin):
    """Approves, delays or denies a binding."""

    def permit(self, state: CycleState, row: int) -> Status:
        """SUCCESS, WAIT or a rejection."""
        return SUCCESS


class PreBindPlugin(Plugin):
    """Return the writes that are needed before a pod is bound, as plain data."""

    def pre_bind(self, state: CycleState, row: int) -> Sequence[Instruction]:
        """Return instructions, which are carried out in order before the pod is bound."""
        return ()


class BindPlugin(Plugin):
    """Decide how a pod is bound; the first plugin that answers is used."""

    def bind(self, state: CycleState, row: int) -> object | None:
        """Return an `Instruction` for the driver, or None to leave it to the next plugin."""
        return None


class PostBindPlugin(Plugin):
    """Notified when a pod is bound."""

    def post_bind(self, state: CycleState, row: int) -> None:
        """Informational."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A set of nodes among which a whole group may be placed (KEP-5732). `rows`: int64[k], ascending, live, k >= 1."""

    name: str
    """What messages call it; of a topology constraint the value of the label."""
    rows: npt.NDArray[np.int64]


Assigned = Sequence[tuple[PodRecord, int]]
"""(pod, row) of members that found a place, in scheduling order."""


class PlacementGeneratePlugin(Plugin):
    """Propose the sets of nodes in which a group of any level of a tree may be placed (KEP-5732).

    Below another group only what its placement has of them counts.  With several such plugins a placement is what one
    of each proposes in common.
    """

    follows_terms: bool = False
    """Preferred levels, ranks and slices of groups count (topology.md 5)."""

    def generate(self, cluster: ClusterState, group: Group) -> Sequence[Placement] | None:
        """Return the placements, in the order in which ties between them are settled; None: any node will do.

        Raises `PlacementError` where there cannot be a right answer.
        """
        return None

    def generate_below(self, cluster: ClusterState, group: Group, within: Placement) -> Sequence[Placement] | None:
        """`generate` for a group below one in that placement: what each of its placements has in common with it.

        Those without any nodes of it are left out. To be overridden where that is known without intersecting.
        """
        placements = self.generate(cluster, group)
        if placements is None:
            return None
        parts = ((placement.name, np.intersect1d(placement.rows, within.rows)) for placement in placements)
        return [Placement(name, rows) for name, rows in parts if len(rows)]


class PlacementScorePlugin(Plugin):
    """Score placements in which the group fits."""

    by_count: ClassVar[bool] = False
    """The score reads of `assigned` only which pods have a place, not where: the rows may be missing (NO_ROW)."""

    def score_placement(self, cluster: ClusterState, group: Group, placement: Placement, assigned: Assigned) -> int:
        """Higher is better, 0..100 after `normalize_placements`. The assigned pods are not placed in this view."""
        raise NotImplementedError

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        """NormalizePlacementScore over all placements in which the group fits: as many numbers, 0..100."""
        return scores


class PlacementFeasiblePlugin(Plugin):
    """Check the progress of a group's placement after every pod, or of a composite after every child group."""

    retries_orders: bool = False
    """A gang that fails is tried again with its pods in other orders (scheduling.md 3.9, `treeSearch: Retry`)."""

    def feasible(self, group: Group, *, scheduled: int, remaining: int) -> Status:
        """SUCCESS: good as it is; WAIT: may become good; UNSCHEDULABLE: cannot any more, stop early.

        More scheduled pods never make the answer worse: a placement without enough capacity is not tried at all.
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
    """Nothing helps: whatever was nominated before no longer holds."""
    deferred_writes: tuple[Instruction, ...] = ()
    """What may make the pod fit a later time, to be carried out; no other PostFilter runs then."""
    put_off: object | None = None
    """What the plugin waits for instead, as its plain data: no other PostFilter runs then."""
    in_vain: object | None = None
    """Where it did not succeed: what was tried and why it did not help, as the plugin's plain data."""
    nominations: Mapping[str, str] = field(default_factory=dict)
    """`namespace/name` of a pod to schedule -> name of its node."""
    victims: Sequence[str] = ()
    """`namespace/name` of each pod to evict."""


class TieBreaker:
    """Chooses among nodes of equal score, before the name does."""

    def narrow(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows to prefer among `int64[k]` rows of equal score; never empty."""
        return rows

    def took(self, row: int) -> None:
        """A pod was placed on the row."""


class PodGroupAttempt:
    """The handle a PodGroupPostFilter gets: the group, its pending pods, and its algorithm.

    Subclassed by the group cycle in `reprieve.scheduling`.
    """

    cluster: ClusterState
    group: Group
    pods: Sequence[PodRecord]

    placements: Sequence[Placement] | None = None
    """Where the group may be placed, as a whole in one of them; None: anywhere."""

    constrained_below: bool = False
    """Groups below it have placements of their own: not every node of a placement will do for every pod."""

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
        only placement to use.  With `diagnose` it says why members have no place.  `chosen`: the only placements to
        use of groups below it, by their `ref`.
        """
        raise NotImplementedError

    def choices_below(self, within: Placement | None) -> Sequence[tuple[Group, Sequence[Placement]]]:
        """Groups below it that have placements of their own, and those of them that are left `within` the root's."""
        return ()

    def hopeful(self) -> Sequence[Placement]:
        """Return those of the placements that may have room for enough members in the present view; the others do
        not.
        """
        raise NotImplementedError

    def placement_scores(self, found: Sequence[tuple[Placement, Assigned, Sequence[PodRecord]]]) -> Sequence[int]:
        """Return the group's own preference, higher is better, among (placement, members' places, pods counted as
        gone).
        """
        raise NotImplementedError

    @property
    def placed_without_help(self) -> int:
        """Return how many members the failed attempt could place."""
        raise NotImplementedError

    @property
    def nominated_rows(self) -> Sequence[int]:
        """Rows the members were nominated to before this attempt."""
        raise NotImplementedError

    preemption_under_way: bool = False
    """Victims of this group's last preemption are still leaving (preemption.md 2.3)."""

    planned: object = None
    """Its part in an eviction that was planned for several preemptors (cost.md 8)."""

    overtaken: bool = False
    """What leaves the nominated rows does not help the group any more, so that it may preempt (preemption.md 2.7)."""


@dataclass(frozen=True, slots=True)
class PodGroupAssignment:
    """Result of the group algorithm: `(pod, row)` in scheduling order, and whether that is enough to go on."""

    placed: tuple[tuple[PodRecord, int], ...]
    feasible: bool
    failed: Mapping[str, str]
    """UID -> why, for members that were tried and have no place, in that order; empty unless it was asked for."""
    diagnosis: "Diagnosis | None" = None
    """Why the first of those fits nowhere."""


class PerNodeFilter(FilterPlugin):
    """Adaptor for a filter that is called for one node at a time: simple to write, but slower by the number of nodes.

    Implement `filter_node`; return None when the node fits, else `(reason, resolvable)`.
    """

    def filter_node(self, state: CycleState, row: int) -> tuple[str, bool] | None:
        """Return None, or why the node does not fit and whether evictions could help."""
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
    """Return how many rows are meant."""
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
