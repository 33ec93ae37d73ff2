"""The input of the search for victims: plain numbers without the cluster's objects (cost.md 4).

Terms: a *kind* is a set of identical pods of the group (same requests, same usable nodes); a *unit* is evicted as one.
Nodes are numbered in the order of their names and units in the order of importance, so that the same cluster gives the
same numbers whatever the order in which its objects arrived.

Invariant: numbers have only resources and usable nodes. If other rules matter they are not `exact`: the result is a
proposal that the filters have to confirm.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.framework.diagnoser import any_concerned, nominated_rows
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.plugin import CycleState, Mask, Placement
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import Code, call_plugin
from reprieve.preemption.cost import Pricing, pricing_of
from reprieve.preemption.free_resources import RESOURCES_PLUGIN, only_resources
from reprieve.preemption.order import Ranking
from reprieve.preemption.units import PreemptionUnit
from reprieve.preemption.victim_search.rule_columns import RuleColumn, rule_columns, shares_with_rules

Amounts = tuple[int, ...]
"""One amount for each resource that the group requests, in the column's unit."""
Place = tuple[int, int, int]
"""Pods of a kind on a node: (kind, node, count)."""
FEW_KINDS, MOST_KINDS = 4, 24
_KINDS_TIMES_NODES = 4_000
"""Maximum number of kinds in a large and in a small cluster, and the product in between. Members that differ more are
treated as if each requested as much as those of similar size.
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """`usable[node]`: whether the pods may run there at all; `pods`: in scheduling order."""

    wants: Amounts
    usable: Sequence[bool]
    pods: tuple[PodRecord, ...]

    @property
    def wanted(self) -> tuple[tuple[int, int], ...]:
        """(resource, amount) of a pod's requests."""
        return tuple((resource, want) for resource, want in enumerate(self.wants) if want)


@dataclass(frozen=True, slots=True)
class Gangs:
    """Gangs that can break: `lost[unit]` are the (gang, pods) lost with it, `slack[gang]` what may be lost before."""

    lost: tuple[tuple[tuple[int, int], ...], ...]
    slack: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """Limits of the pods that namespaces should lose: `charged[unit]` are the (namespace, pods) lost with it."""

    charged: tuple[tuple[tuple[int, int], ...], ...]
    allowed: tuple[int, ...]

    @classmethod
    def of(cls, units: Sequence[PreemptionUnit], most: int) -> "TenantLimits":
        """Limit each namespace to `most` pods."""
        lost = [Counter([pod.namespace for pod in unit.pods]) for unit in units]
        number = {name: turn for turn, name in enumerate(sorted(set().union(*lost)))}
        charged = tuple([tuple(sorted([(number[name], count) for name, count in item.items()])) for item in lost])
        return cls(charged, (most,) * len(number))

    def most_lost(self, units: Iterable[int]) -> int:
        """Return the most pods that any one namespace loses with these units."""
        lost = Counter[int]()
        for unit in units:
            lost.update(dict(self.charged[unit]))
        return max(lost.values(), default=0)


@dataclass(frozen=True, slots=True)
class Numbers:
    """One search. `rows[node]` is the node's row; `free[node]` its amounts for the group without all units.

    For unit `u`, `takes[u]` are its (node, amounts) of the resources that the group requests, `charged[u]` the (budget,
    pods) charged for its eviction; `on[node]` lists the units with a share of the node.  `kinds` are sorted by how hard
    they are to place, hardest first.
    """

    rows: tuple[int, ...]
    free: tuple[Amounts, ...]
    kinds: tuple[Kind, ...]
    units: tuple[PreemptionUnit, ...]
    takes: tuple[tuple[tuple[int, Amounts], ...], ...]
    on: tuple[tuple[int, ...], ...]
    charged: tuple[tuple[tuple[int, int], ...], ...]
    allowed: tuple[int, ...]
    exact: bool
    """Whether only resources matter: pods that fit by these numbers fit."""
    pricing: Pricing | None = None
    """The criteria by which evictions are compared; None: a native list (`reprieve.preemption.cost`)."""
    gangs: Gangs | None = None
    """Set if gangs that fall below their minimum count."""
    restartless: tuple[int, ...] = ()
    """Number of pods of each unit that cannot restart elsewhere at once, if that counts.

    Empty if that applies to no pod of any unit, or to all of them.
    """
    all_restartless: bool = False
    tenants: TenantLimits | None = None
    """Set in a search that keeps to a limit of pods for each namespace."""


def numbers_of(
    running: RunningProfile,
    pods: Sequence[PodRecord],
    priority: int,
    ranking: Ranking,
    within: Placement | None = None,
) -> Numbers | None:
    """Return the numbers for these pods of a group, in a view without all units; None if the pods differ too much.

    `within`: the only nodes that the pods may use.
    """
    cluster, profile, evaluator = running.cluster, running.profile, running.evaluator
    states = [CycleState(cluster, pod) for pod in pods]
    exact = (
        all(evaluator.identity(pod) is not None for pod in pods)
        and only_resources(profile, states)
        and not any(any_concerned(profile.outside_filters, state) for state in states)
    )
    names = cluster.resources.names
    columns = sorted({column for pod in pods for column, _ in pod.signature.requests}, key=names.__getitem__)
    nodes = cluster.nodes
    order = np.argsort(nodes.rank, kind="stable")
    if within is not None:
        order = order[np.isin(order, within.rows)]
    rules = rule_columns(cluster, pods) if not exact else []
    kinds = _kinds(evaluator, states, columns, order, rules, running if not exact else None)
    if kinds is None:
        return None
    anywhere = np.any([kind.usable for kind in kinds], axis=0)
    order = order[anywhere]
    kinds = [Kind(kind.wants, np.asarray(kind.usable)[anywhere].tolist(), kind.pods) for kind in kinds]
    free = (nodes.allocatable[columns, : len(nodes)] - nodes.used[columns, : len(nodes)])[:, order]
    if rules:
        free = np.concatenate((free, np.array([rule.free[order] for rule in rules], dtype=np.int64)))
    place = np.full(len(nodes), -1, dtype=np.int64)
    place[order] = np.arange(len(order))
    with_nominated = nominated_rows(cluster, priority, slice(0, len(nodes)))
    with_nominated = with_nominated.only(place[with_nominated.rows] >= 0)
    free[: len(columns), place[with_nominated.rows]] -= with_nominated.amounts[columns]
    rows = order.tolist()
    node_of = dict(zip(rows, range(len(rows)), strict=True))
    takes, on = shares_of(ranking.ordered, node_of, columns, len(rows))
    if rules:
        takes, on = shares_with_rules(rules, ranking.ordered, node_of, takes, len(columns))
    charged, allowed = budgets_that_matter(ranking)
    return Numbers(
        rows=tuple(rows),
        free=tuple(map(tuple, free.T.tolist())),
        kinds=hardest_first(kinds, free),
        units=tuple(ranking.ordered),
        takes=takes,
        on=on,
        charged=charged,
        allowed=allowed,
        exact=exact,
        pricing=pricing_of(ranking.criteria, ranking.ordered, ranking.violations, ranking.costing),
        gangs=gangs_of(ranking),
        restartless=restartless_of(ranking),
        all_restartless=ranking.costing is not None and ranking.costing.all_stuck,
    )


def _kinds(
    evaluator: Evaluator,
    states: Sequence[CycleState],
    columns: Sequence[int],
    order: np.ndarray,
    rules: Sequence[RuleColumn] = (),
    narrowed: RunningProfile | None = None,
) -> list[Kind] | None:
    """Return the kinds of pods; None if they differ too much. `narrowed`: the profile with filters that count."""
    masks: dict[Hashable, Mask] = {}
    alike: dict[tuple[Amounts, bytes], list[PodRecord]] = {}
    for state in states:
        wants = dict(state.signature.requests)
        usable = evaluator.usable_nodes(state)[order]
        if narrowed is not None:
            like = _likeness(evaluator, state)
            if like not in masks:
                masks[like] = _beside_the_others(narrowed, state, usable, order)
            usable = masks[like]
        amounts = (*(wants.get(column, 0) for column in columns), *(rule.wants(state.pod) for rule in rules))
        alike.setdefault((amounts, usable.tobytes()), []).append(state.pod)
    groups = [(wants, mask, pods) for (wants, mask), pods in alike.items()]
    most = min(MOST_KINDS, max(FEW_KINDS, _KINDS_TIMES_NODES // max(1, len(order))))
    if len(groups) > most:
        groups = _merged(groups, most)
        if len(groups) > MOST_KINDS:
            return None
    return [Kind(wants, np.frombuffer(mask, dtype=np.bool_).tolist(), tuple(pods)) for wants, mask, pods in groups]


def _likeness(evaluator: Evaluator, state: CycleState) -> Hashable:
    """Return a key that is equal for pods with the same passing nodes, other members aside."""
    pod = state.pod
    own = pod.volumes is not None or bool(pod.claim_keys)
    return (evaluator.identity_on_rows(state) if own else evaluator.identity(pod)) or pod.uid


def _beside_the_others(running: RunningProfile, state: CycleState, usable: Mask, order: np.ndarray) -> Mask:
    """Return `bool[order]`: usable nodes that pass the filters beside the pods that are not evicted."""
    for plugin in (*running.profile.node_filters, *running.profile.cluster_filters):
        if plugin.name == RESOURCES_PLUGIN or not usable.any():
            continue
        if plugin.incremental and not plugin.by_nodes:
            continue  # rules that count pods by domain depend on the places of other members
        if call_plugin(plugin.name, "PreFilter", plugin.pre_filter, state).code is not Code.SKIP:
            usable = usable & call_plugin(plugin.name, "Filter", plugin.fits, state, order)
    return usable


_Alike = tuple[Amounts, bytes, list[PodRecord]]
"""The requests of similar pods, where they may run (`bool[nodes]` as bytes), and the pods."""


def _merged(groups: Sequence[_Alike], most: int) -> list[_Alike]:
    """Reduce the kinds: those of similar size count with the maximum of their requests."""
    by_mask: dict[bytes, list[_Alike]] = {}
    for group in groups:
        by_mask.setdefault(group[1], []).append(group)
    merged: list[_Alike] = []
    for mask, similar in by_mask.items():
        top = [max(1, *column) for column in zip(*(wants for wants, _, _ in similar), strict=True)]
        similar.sort(key=lambda group: ([-max(w / t for w, t in zip(group[0], top, strict=True))], group[0]))
        # If all have one size, one kind suffices.
        near = all(2 * min(column) >= max(column) for column in zip(*(wants for wants, _, _ in similar), strict=True))
        size = len(similar) if near else -(-len(similar) // max(1, most // len(by_mask)))
        for first in range(0, len(similar), size):
            part = similar[first : first + size]
            wants = tuple(max(column) for column in zip(*(wants for wants, _, _ in part), strict=True))
            merged.append((wants, mask, [pod for _, _, pods in part for pod in pods]))
    return merged


def shares_of(
    units: Sequence[PreemptionUnit], place: Mapping[int, int], columns: Sequence[int], nodes: int
) -> tuple[tuple[tuple[tuple[int, Amounts], ...], ...], tuple[tuple[int, ...], ...]]:
    """Return the amounts of each unit by node, and the units of each node; `place`: row -> node, if it counts."""
    amounts: dict[int, Amounts] = {}
    takes = []
    on: list[list[int]] = [[] for _ in range(nodes)]
    for turn, unit in enumerate(units):
        sums: dict[int, Amounts] = {}
        for pod, row in zip(unit.pods, unit.rows, strict=True):
            node = place.get(row)
            if node is None:
                continue
            signature = pod.signature
            own = amounts.get(id(signature))
            if own is None:
                own = amounts[id(signature)] = tuple(signature.delta[columns].tolist())
            before = sums.get(node)
            sums[node] = own if before is None else tuple(map(int.__add__, before, own))
        shares = tuple((node, held_amounts) for node, held_amounts in sorted(sums.items()) if any(held_amounts))
        for node, _ in shares:
            on[node].append(turn)
        takes.append(shares)
    return tuple(takes), tuple(map(tuple, on))


def budgets_that_matter(ranking: Ranking) -> tuple[tuple[tuple[tuple[int, int], ...], ...], tuple[int, ...]]:
    """Return `charged` and `allowed` without budgets that allow evicting all of their units at once."""
    left = dict(enumerate(ranking.allowed))
    for item in ranking.charged:
        if not left:
            break
        for budget in left.keys() & item.keys():
            left[budget] -= item[budget]
            if left[budget] < 0:
                del left[budget]
    if not left:
        single_charges = [(budget, 1) for budget in range(len(ranking.allowed))]
        # Most units are charged with one pod each: they share these tuples.
        charged = tuple(
            [
                tuple([single_charges[pair[0]] if pair[1] == 1 else pair for pair in item.items()])
                for item in ranking.charged
            ]
        )
        return charged, tuple(ranking.allowed)
    short = [budget for budget in range(len(ranking.allowed)) if budget not in left]
    number = {budget: turn for turn, budget in enumerate(short)}
    charged = tuple(
        tuple(sorted([(number[budget], count) for budget, count in item.items() if budget in number]))
        for item in ranking.charged
    )
    return charged, tuple([ranking.allowed[budget] for budget in short])


def gangs_of(ranking: Ranking) -> Gangs | None:
    """Return the gangs that break if all of the units are evicted; None if they do not count."""
    costing = ranking.costing
    if not ranking.criteria.counts_gangs or costing is None:
        return None
    lost = costing.losses(ranking.ordered)
    total = Counter[str]()
    for item in lost:
        total.update(item)
    number = {key: turn for turn, key in enumerate(key for key in total if total[key] > costing.slack[key])}
    return Gangs(
        lost=tuple(tuple([(number[key], count) for key, count in item.items() if key in number]) for item in lost),
        slack=tuple([costing.slack[key] for key in number]),
    )


def restartless_of(ranking: Ranking) -> tuple[int, ...]:
    """Return `Numbers.restartless`."""
    if ranking.criteria.upstream or ranking.costing is None:
        return ()
    return tuple(ranking.costing.unlike(ranking.ordered) or ())


def hardest_first(kinds: Iterable[Kind], free: np.ndarray) -> tuple[Kind, ...]:
    """Return the kinds in the order in which they are placed. `free`: `int64[amounts, nodes]`, without all units."""
    return tuple(sorted(kinds, key=lambda kind: _ease(kind, free)))


def _ease(kind: Kind, free: np.ndarray) -> tuple[int, Amounts]:
    """Return a sort key: the number of pods of the kind that fit without all units; then the larger first."""
    holds = np.array(kind.usable, dtype=np.int64) * (1 << 40)
    for have, want in zip(free, kind.wants, strict=True):
        if want:
            holds = np.minimum(holds, np.maximum(have, 0) // want)
    return int(holds.sum()), tuple(-want for want in kind.wants)
