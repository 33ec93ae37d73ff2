"""Upper bounds of the members of a pending entity that could be placed, to skip futile attempts (scheduling.md 1.7).

A cluster with many pending gangs is full, and every pod that ends is an event for all of them. Trying each of them then
costs a full attempt and a preemption without success, per gang and event. The capacity of the nodes rules them out: if
the members of an entity, each counted as if it had the nodes for itself, find fewer places than it needs, it cannot be
placed, whatever other rules apply.

The *room* of a node, for an entity, is its free capacity without all pods that the entity may evict: the pods below its
priority, none if it never preempts.  The entity's needs are *shapes*: requests and node constraints. For each shape the
places are summed over the nodes and updated for changed rows, so that an event costs one row and not a pass over nodes
and entities.

A domain has no place for a member if its required anti-affinity matches a pod there that stays whatever is evicted.
Such pods are counted by row, so that one row is read for each pod that is added or removed.  Members with anti-affinity
to themselves find no more places than there are such domains.

Invariant: never less than what an attempt in the present view could place.  All ignored rules only reduce it: rules
about pods, ports, volumes, devices, nominations, topology constraints, filters of others.  If a third-party plugin may
choose victims, or another plugin compares requests, there is no bound. Property tests compare the outcome with that of
a scheduler that always tries again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kube_rules.requests import is_extended_resource
from reprieve.cluster.affinity_terms import TermKind, TermSpec
from reprieve.cluster.groups import Group, fewest_pods
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import FIRST_RESOURCE
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin_guard import unguarded
from reprieve.framework.running_profile import RunningProfile
from reprieve.plugins.gang_scheduling import GangScheduling
from reprieve.plugins.inter_pod_affinity import InterPodAffinity
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.plugins.pod_topology_spread import PodTopologySpread
from reprieve.preemption.eligibility import group_never_preempts
from reprieve.preemption.units import effective_priority
from reprieve.queueing.entity import Entity
from reprieve.scheduling.spread_capacity import Spread, SpreadBounds

Amounts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Cell = TypeVar("Cell", np.int64, np.bool_)

_LEVELS = 16
"""Maximum number of priorities that are distinguished; entities of further ones count as able to evict all pods."""
_KINDS = 4
"""Maximum number of kinds of members that are counted separately; for the others, only their smallest requests are."""
_MASKS = 64
"""Number of masks that are kept beside those of the present shapes."""
_MANY = 1 << 20
"""Maximum count of places on one node."""
_EVICTS_NONE = float("-inf")
_EVICTS_ALL = float("inf")
_MAY_FIT: frozenset[str] = frozenset()
_ANY_NODE = 0
"""Index of the mask of all live nodes."""
_STEP = 16

_MOST_EXCLUSIONS = 256
"""Maximum number of masks in which required anti-affinity is counted; it is ignored for further ones."""

_Constraints = tuple[str, int, tuple[TermSpec, ...], tuple[TermSpec, ...], float]
"""Profile name, id of node constraints, anti-affinity terms, those that match the pod itself, and the priority from
which matching pods stay.
"""
_Shape = tuple[tuple[tuple[int, int], ...], int]
"""(column, amount) pairs and the index of a mask."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """The properties of a profile that decide whether a bound is valid."""

    running: RunningProfile
    all_resources: bool
    counts_members: bool
    excludes: bool
    """Whether required anti-affinity counts."""
    spreads: PodTopologySpread | None
    pods_rejected_by: frozenset[str]
    groups_rejected_by: frozenset[str]


@dataclass(slots=True)
class _Level:
    """Shapes of entities that may evict the pods below one priority, with `room`, `int64[columns, rows]`.

    By slot: `divisors`, the requested amounts or 1 for none, and `beside`, 0 or `_MANY`, `int64[slots, columns]`;
    `masks` (index) and `totals`, `int64[slots]`.
    """

    priority: float
    room: Amounts
    slots: dict[_Shape, int] = field(default_factory=dict)
    users: list[int] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    divisors: Amounts = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    beside: Amounts = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    masks: Amounts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    totals: Amounts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def grow(self) -> None:
        """Add free slots."""
        size = len(self.users)
        more = max(_STEP, size)
        self.users += [0] * more
        self.free += range(size, size + more)
        missing = (0, more), (0, len(self.room) - self.divisors.shape[1])
        self.divisors, self.beside = np.pad(self.divisors, missing, constant_values=1), np.pad(self.beside, missing)
        self.masks, self.totals = np.pad(self.masks, (0, more)), np.pad(self.totals, (0, more))

    def places(self, room: Amounts) -> Amounts:
        """Return `int64[slots]`: the number of each shape that a node with that `room` (`int64[columns]`) holds."""
        result: Amounts = (np.maximum(room, 0) // self.divisors + self.beside).min(axis=1, initial=_MANY)
        return result


@dataclass(slots=True)
class _Entry:
    """One pending entity. `kinds`: slots of its kinds of members with their numbers; `spreads`: constraints they share.

    `together`: a shape that fits on any node where a member does, and its slot.
    """

    needed: int
    rejected_by: frozenset[str]
    level: _Level
    kinds: tuple[tuple[_Shape, int, int], ...]
    together: tuple[_Shape, int]
    spreads: tuple[Spread, ...] = ()


class CapacityBounds:
    """Bounds for pending entities, by entity key; see the module docstring.

    `refresh` updates the bounds from the cluster cache; between two calls the answers stay the same.
    """

    def __init__(self, cluster: ClusterState, profiles: Mapping[str, RunningProfile]) -> None:
        self._cluster = cluster
        self._rules = {name: rules for name, running in profiles.items() if (rules := _rules(running)) is not None}
        self._entries: dict[str, _Entry | None] = {}
        """None: no bound is known for the entity."""
        self._levels: dict[float, _Level] = {}
        self._mask_of: dict[_Constraints, int] = {}
        self._exclusions: dict[int, Amounts] = {}
        """By index of a mask with anti-affinity terms: `int64[terms, rows]`, number of matching pods that stay."""
        self._most: dict[int, int] = {}
        """By index of a mask with pods that have anti-affinity to each other: the domains that they may use."""
        self._masks: list[tuple[_Constraints, PodRecord] | None] = [None]
        """By index: the key of its mask, and a pod that has these constraints."""
        self._allowed: Mask = np.zeros((1, 0), dtype=np.bool_)
        """`bool[masks, rows]`: live nodes that node constraints allow."""
        self._columns = 0
        self._changes = cluster.changes(of_nodes=False)
        self._version = (0, 0)
        """The version of the nodes for which all this was computed."""
        self._allocatable: Amounts = np.zeros((0, 0), dtype=np.int64)
        """`int64[columns, rows]`, at that version."""
        self._rearranged: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Rows in another domain than before, within a `refresh`."""
        self._spreads = SpreadBounds(cluster)
        self._spread: dict[str, _Entry] = {}
        """The entities for which spread constraints count."""
        self._nominated: set[str] = set()
        self._noted = (-1, -1, -1)
        """The change counters of nominations, groups and trees for which this was computed."""

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the tables, for the gauges."""
        return {
            "waiting_entities": len(self._entries),
            "waiting_shapes": sum(len(level.slots) for level in self._levels.values()),
            "waiting_spreads": len(self._spreads),
        }

    def out_of_reach(self, entity: Entity) -> frozenset[str]:
        """Return the plugins that would reject the entity for lack of capacity with any evictions; empty if it may fit.

        Computed by the last `refresh`. An entity with a nomination is always tried, because an attempt clears a useless
        nomination.
        """
        ref = entity.ref
        try:
            entry = self._entries[ref]
        except KeyError:
            entry = self._entries[ref] = self._entered(entity)
        if entry is None or ref in self._nominated:
            return _MAY_FIT
        totals, most = entry.level.totals, self._most
        if totals[entry.together[1]] < entry.needed:
            return entry.rejected_by
        by_mask: dict[int, int] = {}
        for (_, mask), slot, count in entry.kinds:
            by_mask[mask] = min(by_mask.get(mask, 0) + min(count, int(totals[slot])), most.get(mask, _MANY))
        if sum(by_mask.values()) < entry.needed:
            return entry.rejected_by
        for spread in entry.spreads:
            members = spread.members()
            if members is not None and members < entry.needed:
                return entry.rejected_by | {PodTopologySpread.name}
        return _MAY_FIT

    def forget(self, key: str) -> None:
        """Remove an entity that is no longer pending, or with needs that may have changed.

        The last level stays and is kept up to date: the next pending entity most often has the same priority, and a new
        level reads all pods of the cluster.
        """
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        if entry.spreads:
            self._spreads.forget(entry.spreads)
            self._spread.pop(key, None)
        level = entry.level
        for shape, slot, _ in entry.kinds:
            _leave(level, shape, slot)
        _leave(level, *entry.together)
        if not level.slots and len(self._levels) > 1:
            del self._levels[level.priority]

    def refresh(self) -> None:
        """Apply the changes of the cluster cache."""
        cluster = self._cluster
        noted = (cluster.nodes.nominations, cluster.groups_version, cluster.trees.settled)
        if noted != self._noted:
            self._noted = noted
            nominated = cluster.nodes.nominated
            self._nominated = {cluster.entity_ref(pod) for by_uid in nominated.values() for pod in by_uid.values()}
        if not self._levels:
            return
        crowded = len(self._masks) > _MASKS + 2 * self.sizes()["waiting_shapes"]
        if self._columns != len(cluster.resources) or crowded:
            self._start_over()
            return
        touched = self._changes.take()
        nodes_changed = touched is None or self._version != cluster.nodes.version
        if not nodes_changed and not touched:
            return
        rows, before = self._changed_rows(touched, nodes_changed=nodes_changed)
        self._version = cluster.nodes.version
        self._recount_levels(rows, before, each_spread=touched is not None)
        if touched is not None:
            self._spreads.recount(rows.tolist())
        for entry in self._spread.values():
            if touched is None or any(spread.to_be_placed for spread in entry.spreads):
                self._place(entry)
        if nodes_changed:
            self._spreads.laid_out()
            self._rearranged = self._rearranged[:0]

    # -- internals -----------------------------------------------------------------------------------------------------

    def _changed_rows(
        self, touched: Sequence[int] | None, *, nodes_changed: bool
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the rows to count again, and the rows that masks allowed before, as wide as the cluster is now.

        `touched`: rows that have changed; None: unknown.
        """
        before, nodes = self._allowed, len(self._cluster.nodes)
        if touched is None:
            self._allow_again()
            self._allocatable = self._stated().copy()
            self._spreads.lay_out()
            return np.arange(nodes, dtype=np.int64), _widened(before, nodes)
        if nodes_changed:
            before = _widened(before, nodes)
            return self._after_nodes_changed(touched, before), before
        rows = np.unique(np.array(touched, dtype=np.int64))
        shifted = [index for index in self._exclusions if self._count_staying(index, rows)]
        if shifted:
            self._allowed = before.copy()
            for index in shifted:
                self._allowed[index] = self._allowed_rows(index)
            opened_or_shut = (self._allowed[shifted] != before[shifted]).any(axis=0)
            rows = np.union1d(rows, np.flatnonzero(opened_or_shut))
        return rows, before

    def _recount_levels(self, rows: npt.NDArray[np.int64], before: npt.NDArray[np.bool_], *, each_spread: bool) -> None:
        """Count the places of every level on these rows again; `each_spread`: update spreads after each change."""
        moved = (self._allowed[:, rows] != before[:, rows]).any(axis=0) | np.isin(rows, self._rearranged)
        spread_slots: dict[float, list[tuple[Spread, int]]] = {}
        for entry in self._spread.values() if each_spread else ():
            slot = entry.together[1]
            spread_slots.setdefault(entry.level.priority, []).extend((spread, slot) for spread in entry.spreads)
        for level in self._levels.values():
            level.room = _widened(level.room, before.shape[1])
            room = self._room(level.priority, rows)
            changed = np.flatnonzero(moved | (room != level.room[:, rows]).any(axis=0))
            for at in changed.tolist():
                row = int(rows[at])
                new = np.where(self._allowed[level.masks, row], level.places(room[:, at]), 0)
                old = np.where(before[level.masks, row], level.places(level.room[:, row]), 0)
                level.totals += new - old
                waiting = spread_slots.get(level.priority)
                if waiting:
                    was, now = old.tolist(), new.tolist()
                    self._spreads.moved(row, [(spread, was[slot], now[slot]) for spread, slot in waiting])
            level.room[:, rows[changed]] = room[:, changed]

    def _start_over(self) -> None:
        """Reset everything after new columns, or if most masks belong to no pending pod."""
        self._entries.clear()
        self._levels.clear()
        self._spreads.clear()
        self._spread.clear()
        self._forget_masks()

    def _forget_masks(self) -> None:
        self._mask_of.clear()
        self._exclusions.clear()
        self._most.clear()
        del self._masks[1:]

    def _entered(self, entity: Entity) -> _Entry | None:
        rules = self._rules.get(entity.profile)
        if rules is None or not entity.ready or not len(self._cluster.nodes):
            return None
        pods = list(entity.ready.values())
        if entity.group is None:
            priority: float = _EVICTS_NONE if pods[0].never_preempts else pods[0].priority
            if not rules.running.profile.post_filters:
                priority = _EVICTS_NONE
            needed, rejected_by = 1, rules.pods_rejected_by
        else:
            group = entity.group
            if group.spec is None:
                return None
            priority = _victims_of(rules.running, group)
            needed = max(1, fewest_pods(group)) if rules.counts_members else 1
            rejected_by = rules.groups_rejected_by
        if not self._levels:
            self._allow_again()
            self._changes.take()
            self._columns = len(self._cluster.resources)
            self._version = self._cluster.nodes.version
            self._allocatable = self._stated().copy()
        level = self._level(priority)
        kinds: dict[_Shape, int] = {}
        for pod in pods:
            shape = self._shape(entity.profile, rules, pod, level.priority)
            kinds[shape] = kinds.get(shape, 0) + 1
        together = _together(kinds)
        if len(kinds) > _KINDS:
            kinds = {together: len(pods)}
        if any(mask in self._exclusions for _, mask in kinds):
            rejected_by |= {InterPodAffinity.name}
        entered = tuple((shape, self._enter(level, shape), count) for shape, count in kinds.items())
        entry = _Entry(needed, rejected_by, level, entered, (together, self._enter(level, together)))
        if rules.spreads is not None:
            entry.spreads = tuple(self._spreads.of(rules.spreads, pods, level.priority))
            if entry.spreads:
                self._spread[entity.ref] = entry
                self._place(entry)
        return entry

    def _place(self, entry: _Entry) -> None:
        """Compute again the members that an entity's spread constraints allow."""
        places = self._places(entry.level, entry.together[0])
        for spread in entry.spreads:
            self._spreads.place(spread, places)

    def _after_nodes_changed(self, touched: Sequence[int], before: Mask) -> npt.NDArray[np.int64]:
        """Read masks and domains of nodes again. Return the rows to count again: those `touched`, and new ones.

        `before`: the earlier masks, as wide as there are rows now.
        """
        cluster, rows_before = self._cluster, self._version[1]
        rows = np.union1d(np.array(touched, dtype=np.int64), np.arange(rows_before, len(cluster.nodes), dtype=np.int64))
        for index, counts in self._exclusions.items():
            self._exclusions[index] = _widened(counts, len(cluster.nodes))
            self._count_staying(index, rows)
        self._allowed = np.array([self._allowed_rows(index) for index in range(len(self._masks))], dtype=np.bool_)
        self._rearranged = self._spreads.lay_out()
        # If device classes start or stop serving a resource, the amounts change too.
        allocatable = self._stated()
        resized = np.flatnonzero((allocatable != _widened(self._allocatable, len(cluster.nodes))).any(axis=0))
        self._allocatable = allocatable.copy()
        opened_or_shut = np.flatnonzero((self._allowed != before).any(axis=0))
        return np.unique(np.concatenate([rows, self._rearranged, resized, opened_or_shut]))

    def _stated(self) -> Amounts:
        """Return `int64[columns, rows]`: the capacity of the nodes."""
        nodes = self._cluster.nodes
        return nodes.allocatable[FIRST_RESOURCE : len(self._cluster.resources), : len(nodes)]

    def _level(self, priority: float) -> _Level:
        result = self._levels.get(priority)
        if result is None:
            if len(self._levels) >= _LEVELS:
                priority = _EVICTS_ALL
                result = self._levels.get(priority)
            if result is None:
                for idle in [level.priority for level in self._levels.values() if not level.slots]:
                    del self._levels[idle]
                rows = np.arange(len(self._cluster.nodes), dtype=np.int64)
                result = self._levels[priority] = _Level(priority, self._room(priority, rows))
        return result

    def _shape(self, profile: str, rules: _Rules, pod: PodRecord, priority: float) -> _Shape:
        requests = pod.signature.requests
        if not rules.all_resources:
            names = self._cluster.resources.names
            requests = tuple(pair for pair in requests if not is_extended_resource(names[pair[0]]))
        nodes = pod.signature.constraints.nodes.id
        terms = self._excluding(pod) if rules.excludes and priority != _EVICTS_ALL else ()
        apart = tuple(term for term in terms if term.matcher.accepts(pod.namespace, {}, pod.labels, terminating=False))
        mask = self._mask_of.get((profile, nodes, terms, apart, priority)) if terms else None
        if mask is None and len(self._exclusions) >= _MOST_EXCLUSIONS:
            terms = ()
        constraints: _Constraints = (profile, nodes, terms, apart, priority) if terms else (profile, nodes, (), (), 0.0)
        mask = self._mask_of.get(constraints)
        if mask is None:
            mask = self._mask_of[constraints] = len(self._masks)
            self._masks.append((constraints, pod))
            if terms:
                self._exclude(mask)
            self._allowed = np.vstack([self._allowed, self._allowed_rows(mask)[None, :]])
        return requests, mask

    def _enter(self, level: _Level, shape: _Shape) -> int:
        """Return the slot of a shape, with one more user."""
        slot = level.slots.get(shape)
        if slot is not None:
            level.users[slot] += 1
            return slot
        requests, mask = shape
        if not level.free:
            level.grow()
        slot = level.free.pop()
        level.slots[shape] = slot
        level.users[slot] = 1
        level.divisors[slot], level.beside[slot] = 1, _MANY
        level.masks[slot] = mask
        for column, amount in requests:
            at = column - FIRST_RESOURCE
            level.divisors[slot, at], level.beside[slot, at] = amount, 0
        level.totals[slot] = int(self._places(level, shape).sum())
        return slot

    def _places(self, level: _Level, shape: _Shape) -> Amounts:
        """Return `int64[rows]`: the number of a shape that each node holds."""
        requests, mask = shape
        places: Amounts = np.where(self._allowed[mask], _MANY, 0)
        for column, amount in requests:
            places = np.minimum(places, np.maximum(level.room[column - FIRST_RESOURCE], 0) // amount)
        return places

    def _allow_again(self) -> None:
        for index in self._exclusions:
            self._exclude(index)
        self._allowed = np.array([self._allowed_rows(index) for index in range(len(self._masks))], dtype=np.bool_)

    def _exclude(self, index: int) -> None:
        """Count again the pods that match a mask's terms and stay."""
        mask_key = self._masks[index]
        assert mask_key is not None
        rows = len(self._cluster.nodes)
        self._exclusions[index] = np.zeros((len(mask_key[0][2]), rows), dtype=np.int64)
        self._count_staying(index, np.arange(rows, dtype=np.int64))

    def _count_staying(self, index: int, rows: npt.NDArray[np.int64]) -> bool:
        """Count the pods on these rows; return whether the counts changed."""
        mask_key = self._masks[index]
        assert mask_key is not None
        (_, _, terms, _, priority), _ = mask_key
        pods, counts = self._cluster.nodes.pods, self._exclusions[index]
        shifted = False
        for row in rows.tolist():
            pods_there = pods[row].values()
            for at, term in enumerate(terms):
                count = sum(self._stays(pod, term, priority) for pod in pods_there)
                if count != counts[at, row]:
                    counts[at, row] = count
                    shifted = True
        return shifted

    def _allowed_rows(self, index: int) -> Mask:
        """Return one mask, `bool[rows]`."""
        mask_key = self._masks[index]
        nodes = self._cluster.nodes
        if mask_key is None:
            return nodes.alive[: len(nodes)]
        (profile, _, terms, apart, _), pod = mask_key
        allowed = self._rules[profile].running.evaluator.allowed_nodes(pod)[: len(nodes)]
        if not terms:
            return allowed
        allowed = allowed.copy()
        pods = self._cluster.pod_affinity
        for term, counts in zip(terms, self._exclusions[index], strict=True):
            allowed &= pods.by_domain(term.topology_key, counts)[pods.domains(term.topology_key)[0]] == 0
        self._most.pop(index, None)
        for term in apart:
            left = np.bincount(pods.domains(term.topology_key)[0][allowed], minlength=1)
            if not left[0]:  # on a node without the label the anti-affinity has no effect
                self._most[index] = min(self._most.get(index, _MANY), int(np.count_nonzero(left)))
        return allowed

    def _excluding(self, pod: PodRecord) -> tuple[TermSpec, ...]:
        """Return the required anti-affinity of the pod, except terms with a namespace selector."""
        terms = self._cluster.pod_affinity.terms(pod).of(TermKind.REQUIRED_ANTI_AFFINITY)
        return tuple(term for term in terms if term.matcher.namespace_selector.nothing)

    def _stays(self, pod: PodRecord, term: TermSpec, priority: float) -> bool:
        """Return whether a term matches a pod that does not terminate and may not be evicted by that priority."""
        if not term.matcher.accepts(pod.namespace, {}, pod.labels, terminating=False):
            return False
        return not pod.terminating and effective_priority(self._cluster, pod) >= priority

    def _room(self, priority: float, rows: npt.NDArray[np.int64]) -> Amounts:
        """Return `int64[columns, rows]`: the free amounts of these rows without all pods below the priority."""
        cluster, nodes = self._cluster, self._cluster.nodes
        columns = slice(FIRST_RESOURCE, len(cluster.resources))
        room = nodes.allocatable[columns, rows]
        if priority == _EVICTS_ALL:
            return room
        room -= nodes.used[columns, rows]
        if priority == _EVICTS_NONE:
            return room
        for at, row in enumerate(rows.tolist()):
            for pod in nodes.pods[row].values():
                if effective_priority(cluster, pod) < priority:
                    room[:, at] += pod.signature.delta[columns]
        return room


def _rules(running: RunningProfile) -> _Rules | None:
    """Return the properties of a profile for bounds; None if it allows none."""
    profile = running.profile
    fit = next((plugin for plugin in map(unguarded, profile.node_filters) if type(plugin) is NodeResourcesFit), None)
    victims = [*profile.post_filters, *profile.group_post_filters]
    if fit is None or not all(_is_ours(unguarded(plugin)) for plugin in victims):
        return None
    feasible = [unguarded(plugin) for plugin in profile.placement_feasible]
    clusterwide = [unguarded(plugin) for plugin in profile.cluster_filters]
    return _Rules(
        running,
        all_resources=fit.checks_everything,
        spreads=next((plugin for plugin in clusterwide if type(plugin) is PodTopologySpread), None),
        excludes=any(type(plugin) is InterPodAffinity for plugin in clusterwide),
        counts_members=any(type(plugin) is GangScheduling for plugin in feasible),
        pods_rejected_by=frozenset({fit.name}),
        groups_rejected_by=frozenset({fit.name, *(plugin.name for plugin in feasible)}),
    )


def _is_ours(plugin: object) -> bool:
    return type(plugin).__module__.partition(".")[0] == "reprieve"


def _victims_of(running: RunningProfile, group: Group) -> float:
    """Return the priority below which the group may evict."""
    if not running.profile.group_post_filters or group.spec is None:
        return _EVICTS_NONE
    never = group_never_preempts(group, group_policy=running.gates.pod_group_preemption_policy)
    return _EVICTS_NONE if never else group.spec.priority


def _together(shapes: Iterable[_Shape]) -> _Shape:
    """Return a shape that fits on any node where one of them does."""
    shapes = list(shapes)
    amounts = [dict(requests) for requests, _ in shapes]
    columns = set(amounts[0]).intersection(*amounts[1:])
    masks = {mask for _, mask in shapes}
    least = tuple((column, min(amount[column] for amount in amounts)) for column in sorted(columns))
    return least, masks.pop() if len(masks) == 1 else _ANY_NODE


def _leave(level: _Level, shape: _Shape, slot: int) -> None:
    level.users[slot] -= 1
    if not level.users[slot]:
        del level.slots[shape]
        level.free.append(slot)


def _widened(matrix: npt.NDArray[Cell], rows: int) -> npt.NDArray[Cell]:
    """Return the matrix with that number of columns, new ones zero."""
    more = rows - matrix.shape[1]
    return np.hstack([matrix, np.zeros((len(matrix), more), dtype=matrix.dtype)]) if more > 0 else matrix
