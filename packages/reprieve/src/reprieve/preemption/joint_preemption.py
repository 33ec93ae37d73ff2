"""Several preemptors of one priority, planned together: one eviction for all (cost.md 8).

They are planned as one group without all-or-nothing between them. Without all potential victims they are placed one
after another, the largest request first; one that gets fewer places than alone is left out. For the others one eviction
is searched (`reprieve.preemption.group_candidates`).  Each of them has a *part* in it: its places, and the units that
must be evicted for them beside those of the parts before.  A part is carried out by its own preemptor, in the order of
the parts, if all its pods still pass every filter there.

Invariant: the parts together evict no unit that the one eviction keeps.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kube_rules.work_annotations import ClassTerms
from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import (
    Assigned,
    Placement,
    PodGroupAssignment,
    PodGroupAttempt,
    TieBreaker,
)
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.cost import Cost
from reprieve.preemption.group_preemption import candidates_within_terms
from reprieve.preemption.group_view import GroupRequest, GroupView, price_of
from reprieve.preemption.options import EvictionOptions
from reprieve.preemption.order import Ranking
from reprieve.preemption.outcome import CLUSTER_DOMAIN, Preemption, SearchLimit
from reprieve.preemption.protected_units import potential_victims
from reprieve.preemption.reprieved_units import verdicts_of
from reprieve.preemption.victim_search.search import FEWEST_STEPS, STEPS

MOST_PREEMPTORS = 64
MOST_PODS = 512
"""Maximum number of preemptors, and of their pods, that are planned together (cost.md 8.3)."""
_IN_NO_GROUP = GroupState("")


@dataclass(frozen=True, slots=True)
class Peer:
    """One of several preemptors. `pods` are in scheduling order; `place` runs its algorithm in the present view."""

    ref: str
    """Its key in the queue."""
    group: Group | None
    pods: Sequence[PodRecord]
    place: Callable[[TieBreaker | None, Placement | None], Assigned]
    """Return its places in the present view, or in a placement, without a change; none if too few."""
    constrained: bool = False
    """Whether it has placements, so that not every node is possible for every pod."""

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return self.group.key if self.group is not None else self.pods[0].key


@dataclass(frozen=True, slots=True)
class JointPart:
    """A preemptor's part of an eviction for several. `victims`: UIDs of the first pods of the units it evicts."""

    places: tuple[tuple[PodRecord, int], ...]
    victims: frozenset[str]
    together: tuple[str, ...]
    """The names of the other preemptors."""
    limits: tuple[SearchLimit, ...] = ()
    """Limits that ended the search for the eviction of all."""


@dataclass(frozen=True, slots=True)
class JointPlan:
    """One eviction for several. `parts`: by the refs of their preemptors, in the order in which they are carried out.

    `wanted`: how many places each preemptor gets; `price`: to compare it with another plan.
    """

    parts: dict[str, JointPart]
    wanted: Mapping[str, int]
    price: tuple[bool, Cost]


class JointAttempt(PodGroupAttempt):
    """Several preemptors as one group: it fails unless all in `wanted` get that number of places."""

    def __init__(
        self,
        cluster: ClusterState,
        peers: Sequence[Peer],
        wanted: Mapping[str, int],
        within: Placement | None = None,
    ) -> None:
        self.cluster = cluster
        self.placements = (within,) if within is not None else None
        self.group = _IN_NO_GROUP
        self.pods = [pod for peer in peers for pod in peer.pods]
        self.constrained_below = any(peer.constrained for peer in peers)
        self._peers, self._wanted = peers, wanted

    def run(
        self,
        ties: TieBreaker | None = None,
        within: Placement | None = None,
        *,
        diagnose: bool = False,
        chosen: Mapping[str, Placement] | None = None,
    ) -> PodGroupAssignment:
        placed: list[tuple[PodRecord, int]] = []
        with self.cluster.trial():
            for peer in self._peers:
                assigned = peer.place(ties, within)
                if len(assigned) < self._wanted[peer.ref]:
                    return PodGroupAssignment((), False, {})
                for pod, row in assigned:
                    self.cluster.place(pod, row)
                placed += assigned
        return PodGroupAssignment(tuple(placed), True, {})

    def hopeful(self) -> Sequence[Placement]:
        return self.placements or ()

    @property
    def placed_without_help(self) -> int:
        """Return 0: each preemptor has failed alone."""
        return 0

    @property
    def nominated_rows(self) -> Sequence[int]:
        """Return no rows: none of the preemptors is nominated yet."""
        return ()


def plan_together(
    running: RunningProfile,
    peers: Sequence[Peer],
    priority: int,
    terms: ClassTerms,
    options: EvictionOptions,
    within: Placement | None = None,
    last: Collection[str] = (),
) -> JointPlan | None:
    """Return one eviction for several preemptors; None if there is none, or the first would be the only one.

    The peers are in the order of the queue.  `within`: the only nodes that they may use; `last`: refs of preemptors
    with parts that are carried out after all others.  The cluster is not changed.
    """
    cluster = running.cluster
    rows = range(len(cluster.nodes)) if within is None else within.rows.tolist()
    pods = (pod for row in rows for pod in cluster.nodes.pods[row].values())
    units = potential_victims(cluster, priority, pods, terms)
    with cluster.trial():
        cluster.displace_all([pod for unit in units for pod in unit.pods])
        wanted = _wanted(cluster, sorted(peers, key=lambda peer: -_size(cluster, peer)), within)
    if not wanted or [*wanted] == [peers[0].ref]:
        return None
    by_ref = {peer.ref: peer for peer in peers}
    included = [by_ref[ref] for ref in wanted]
    steps = STEPS if within is None else FEWEST_STEPS
    attempt = JointAttempt(cluster, included, wanted, within)
    request = GroupRequest(running, attempt, priority, terms, options, steps, by_score=False)
    result = candidates_within_terms(request, units)
    if not result.candidates:
        return None
    best = min(result.candidates, key=price_of)
    if best.cost is None:
        return None
    in_turn = sorted(included, key=lambda peer: peer.ref in last)
    parts = _parts(request, in_turn, best.assignment.placed, best.ranking.only(best.reasons))
    return JointPlan({ref: replace(part, limits=result.limits) for ref, part in parts.items()}, wanted, best.price)


def _size(cluster: ClusterState, peer: Peer) -> float:
    """Return the largest share of the cluster's amount of any resource that it requests."""
    requested: dict[int, int] = {}
    for pod in peer.pods:
        for column, amount in pod.signature.requests:
            requested[column] = requested.get(column, 0) + amount
    nodes = cluster.nodes
    return max(
        (amount / max(1, int(nodes.allocatable[column, : len(nodes)].sum())) for column, amount in requested.items()),
        default=0.0,
    )


def _wanted(cluster: ClusterState, peers: Iterable[Peer], within: Placement | None) -> dict[str, int]:
    """Return the number of places of each preemptor that gets as many beside earlier ones as alone."""
    wanted: dict[str, int] = {}
    placed: list[PodRecord] = []
    for peer in peers:
        assigned = peer.place(None, within)
        if assigned and len(assigned) < len(peer.pods):
            with cluster.trial():
                cluster.displace_all(placed)
                alone = len(peer.place(None, within))
            if alone > len(assigned):
                continue
        if assigned:
            wanted[peer.ref] = len(assigned)
            for pod, row in assigned:
                cluster.place(pod, row)
                placed.append(pod)
    return wanted


def _parts(request: GroupRequest, peers: Sequence[Peer], placed: Assigned, ranking: Ranking) -> dict[str, JointPart]:
    """Divide the evicted units among the preemptors, each judged beside the parts before it."""
    cluster = request.running.cluster
    row_of = {pod.uid: (pod, row) for pod, row in placed}
    everything = range(len(ranking.ordered))
    before: set[int] = set()
    places: dict[str, tuple[tuple[PodRecord, int], ...]] = {}
    victims: dict[str, frozenset[int]] = {}
    with cluster.trial():
        cluster.displace_all([pod for unit in ranking.ordered for pod in unit.pods])
        for peer in peers:
            own = tuple(row_of[pod.uid] for pod in peer.pods if pod.uid in row_of)
            places[peer.ref] = own
            more = _needed(request, ranking, own, [index for index in everything if index not in before])
            with cluster.trial():
                back = [ranking.ordered[index] for index in everything if index not in before and index not in more]
                cluster.place_all([pod for unit in back for pod in unit.pods], [row for u in back for row in u.rows])
                shared = _needed(request, ranking, own, sorted(before))
            before |= more
            victims[peer.ref] = frozenset(more | shared)
            for pod, row in own:
                cluster.place(pod, row)
    evicting = [peer for peer in peers if victims[peer.ref]]
    names = {peer.ref: tuple(p.name for p in evicting if p is not peer) for peer in evicting}
    uids = [unit.pods[0].uid for unit in ranking.ordered]
    return {
        peer.ref: JointPart(places[peer.ref], frozenset(uids[i] for i in victims[peer.ref]), names[peer.ref])
        for peer in evicting
    }


def _needed(request: GroupRequest, ranking: Ranking, places: Assigned, indices: Sequence[int]) -> set[int]:
    """Return the units that cannot stay beside the places, in a view where all of them are displaced."""
    if not indices:
        return set()
    view = GroupView(request, ranking.only(indices))
    reasons = view.judged(None, PodGroupAssignment(tuple(places), True, {})).reasons
    return {indices[turn] for turn in reasons}


def carried_out(
    running: RunningProfile,
    part: JointPart,
    preemptor: PodRecord | Group,
    priority: int,
    terms: ClassTerms,
    options: EvictionOptions,
) -> Preemption | None:
    """Return the preemption of a preemptor's part; None if that no longer helps it."""
    cluster, pod = running.cluster, preemptor if isinstance(preemptor, PodRecord) else None
    group = preemptor if not isinstance(preemptor, PodRecord) else None
    # Records contain only the units on its nodes and those it evicts.
    rows = {row for _, row in part.places}
    rows |= {cluster.pods[uid].row for uid in part.victims if uid in cluster.pods}
    pods = [pod_there for row in sorted(rows) if row >= 0 for pod_there in cluster.nodes.pods[row].values()]
    units = potential_victims(cluster, priority, pods, terms)
    costing = options.criteria.costing(cluster, running.evaluator, units)
    ranking = Ranking(cluster, units, options.criteria, costing)
    evicted_indices = {index for index, unit in enumerate(ranking.ordered) if unit.pods[0].uid in part.victims}
    own = [placed for placed, _ in part.places]
    alone = Peer("", group, own, lambda *_: part.places)
    request = GroupRequest(running, JointAttempt(cluster, [alone], {"": len(own)}), priority, terms, options)
    with GroupView(request, ranking, stay=True).of(ranking, evicted_indices) as view:
        assignment = PodGroupAssignment(part.places, True, {})
        if not view.holds(assignment):
            return None
        judged = view.judged(None, assignment)
    if not judged.reasons:
        return None
    turns = sorted(evicted_indices)
    evicted = dict(zip((turns[index] for index in sorted(judged.reasons)), judged.evicted(), strict=True))
    verdicts = verdicts_of(ranking, {})
    return Preemption(
        pod=pod,
        group=group,
        priority=priority,
        domain=CLUSTER_DOMAIN if pod is None else cluster.nodes.names[part.places[0][1]],
        nominations=part.places,
        verdicts=tuple(evicted.get(index, verdict) for index, verdict in enumerate(verdicts)),
        criteria=options.criteria.described,
        cost=judged.cost,
        together=part.together,
        limits=part.limits,
    )
