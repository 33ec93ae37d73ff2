"""Problems for the search for victims that are small enough to go through: every set of units, every way to place.

A `Problem` (see `tests.preemption.exact`) is both given to the search as its `Numbers`, without any cluster, and solved
here by trying everything.  Two resources at most, a handful of nodes and units: milliseconds each.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any, cast

from reprieve.cluster.pods import PodRecord
from reprieve.preemption.units import PreemptionUnit
from reprieve.preemption.victim_search import problem as searched
from reprieve.preemption.victim_search.eviction import NO_EVICTION, Eviction
from reprieve.preemption.victim_search.eviction import Price as SearchedPrice
from reprieve.preemption.victim_search.mixed_pods import MixedPods
from reprieve.preemption.victim_search.problem import Numbers
from tests.preemption.exact import NO_VICTIMS, Kind, Price, Problem, Unit


def unit(
    name: str,
    takes: dict[int, tuple[int, ...]],
    *,
    priority: int = 0,
    pods: int = 1,
    start: float = 0.0,
    charged: dict[str, int] | None = None,
) -> Unit:
    """A unit that holds so much on these nodes."""
    return Unit(name, priority, pods, start, pods > 1, takes, charged or {})


def kind(wants: tuple[int, ...], count: int = 1, nodes: Collection[int] = range(99)) -> Kind:
    """Like pods that want in."""
    return Kind(wants, count, frozenset(nodes))


def problem(free: Sequence[tuple[int, ...]], units: Sequence[Unit], kinds: Sequence[Kind], **allowed: int) -> Problem:
    """`free[node]` with every unit gone. Units in the order of importance, as the search numbers them."""
    return Problem(tuple(free), tuple(sorted(units, key=lambda each: each.importance)), tuple(kinds), allowed)


def numbers(made: Problem, *, exact: bool = True) -> Numbers:
    """The same as the search is given it; rows are ten times the number of the node."""
    nodes = range(len(made.free))
    budgets = {name: number for number, name in enumerate(made.allowed)}
    return Numbers(
        rows=tuple(10 * node for node in nodes),
        free=made.free,
        kinds=tuple(
            searched.Kind(each.wants, [node in each.nodes for node in nodes], _pods(f"k{number}", each.count))
            for number, each in enumerate(made.kinds)
        ),
        units=tuple(_unit(each) for each in made.units),
        takes=tuple(tuple(sorted(each.takes.items())) for each in made.units),
        on=tuple(tuple(turn for turn, each in enumerate(made.units) if node in each.takes) for node in nodes),
        charged=tuple(tuple((budgets[name], pods) for name, pods in each.charged.items()) for each in made.units),
        allowed=tuple(made.allowed.values()),
        exact=exact,
    )


def _pods(name: str, count: int, **more: Any) -> tuple[PodRecord, ...]:
    made = [
        SimpleNamespace(name=f"{name}-{i}", key=f"default/{name}-{i}", uid=f"{name}-{i}", **more) for i in range(count)
    ]
    return cast("tuple[PodRecord, ...]", tuple(made))


def _unit(each: Unit) -> PreemptionUnit:
    pods = _pods(each.name, each.pods, start=each.start)
    rows = tuple(10 * node for node in each.takes)
    return PreemptionUnit(each.name, pods, rows, each.priority, each.grouped, None)


def places(have: Sequence[int], wants: Sequence[int]) -> int:
    """How many pods of a kind fit into what is left; what they do not ask for does not count."""
    return max(0, min(left // want for left, want in zip(have, wants, strict=True) if want))


def left_beside(made: Problem, gone: Collection[str]) -> list[list[int]]:
    """By node: what is left beside the units that stay."""
    left = [list(have) for have in made.free]
    for each in made.units:
        if each.name not in gone:
            for node, amounts in each.takes.items():
                for resource, amount in enumerate(amounts):
                    left[node][resource] -= amount
    return left


def fits(made: Problem, gone: Collection[str]) -> bool:
    """Whether all pods find a place with these units gone, tried pod by pod."""
    return _place(left_beside(made, gone), [(each.wants, each.count, each.nodes) for each in made.kinds])


def _place(left: list[list[int]], kinds: Sequence[tuple[tuple[int, ...], int, Collection[int]]]) -> bool:
    if not kinds:
        return True
    wants, count, nodes = kinds[0]
    able = [node for node in range(len(left)) if node in nodes]
    room = {node: places(left[node], wants) for node in able}
    if len(kinds) == 1:
        return sum(room.values()) >= count
    for shares in _shares(count, [room[node] for node in able]):
        after = [list(have) for have in left]
        for node, share in zip(able, shares, strict=True):
            for resource, want in enumerate(wants):
                after[node][resource] -= share * want
        if _place(after, kinds[1:]):
            return True
    return False


def _shares(count: int, room: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways to put so many on nodes with so much room each."""
    if not room:
        if not count:
            yield ()
        return
    for here in range(min(count, room[0]) + 1):
        for others in _shares(count - here, room[1:]):
            yield (here, *others)


def evictions(made: Problem, among: Collection[str] | None = None) -> Iterator[tuple[str, ...]]:
    """Every set of units that makes room for all pods, smaller ones first; with more gone there is no less room."""
    names = [each.name for each in made.units if among is None or each.name in among]
    enough: list[frozenset[str]] = []
    """Sets of which no part makes room."""
    for size in range(len(names) + 1):
        for gone in combinations(names, size):
            if any(map(frozenset(gone).issuperset, enough)):
                yield gone
            elif fits(made, gone):
                enough.append(frozenset(gone))
                yield gone


def cheapest(made: Problem) -> Price | None:
    """What the cheapest eviction costs; None where no eviction makes room."""
    return min(map(made.price, evictions(made)), default=None)


def as_searched(price: Price) -> SearchedPrice:
    """A price as the search has it."""
    return NO_EVICTION if price == NO_VICTIMS else (int(price[0]), int(price[1]), price[2:])


def names(made: Problem, gone: Collection[int]) -> tuple[str, ...]:
    """The names of units by number."""
    return tuple(made.units[number].name for number in sorted(gone))


def random_problem(seed: int, *, kinds: int = 1, budgets: int = 0, nodes: int = 4, units: int = 7) -> Problem:
    """A few nodes that units fill, some of several pods on two nodes; and a group that wants about half of it."""
    chance = random.Random(seed)
    count = chance.randint(2, nodes)
    free = [(chance.randint(2, 6), chance.randint(0, 4)) for _ in range(count)]
    left = [list(have) for have in free]
    allowed = {f"b{number}": chance.randint(0, 2) for number in range(budgets)}
    made = []
    for number in range(units):
        takes: dict[int, tuple[int, ...]] = {}
        pods = chance.choice((1, 1, 2))
        for node in chance.sample(range(count), pods):
            amounts = (chance.randint(0, 3), chance.randint(0, 2))
            if any(amounts) and all(have >= amount for have, amount in zip(left[node], amounts, strict=True)):
                left[node] = [have - amount for have, amount in zip(left[node], amounts, strict=True)]
                takes[node] = amounts
        charged = {name: chance.randint(1, pods) for name in allowed if chance.random() < 0.5}
        made.append(
            unit(
                f"u{number}",
                takes,
                priority=chance.choice((-3, 1, 1, 2, 5)),
                pods=pods,
                start=float(chance.randint(0, 3)),
                charged=charged,
            )
        )
    wanted = []
    for _ in range(kinds):
        wants = (chance.randint(0, 3), chance.choice((0, 1, 1, 2)))
        nodes_of = [node for node in range(count) if chance.random() < 0.85]
        wanted.append(kind(wants if any(wants) else (1, 0), chance.randint(1, 3), nodes_of))
    return problem(free, made, wanted, **allowed)


def without(made: Problem, kept: Collection[str]) -> Problem:
    """The same where only these units are there; what the others hold is free for none."""
    return replace(made, units=tuple(each for each in made.units if each.name in kept))


def change(state: Eviction, what: str, chance: random.Random) -> None:
    """One change of those that a search makes: "evict", "restore", "bar", "unbar", "settle", "repack" or "off"."""
    staying = sorted(set(range(len(state.numbers.units))) - state.evicted)
    if what == "evict" and staying:
        state.evict(chance.choice(staying))
    elif what == "restore" and state.evicted:
        state.restore(chance.choice(sorted(state.evicted)))
    elif what == "bar":
        state.bar(chance.randrange(len(state.numbers.units)))
    elif what == "unbar":
        state.unbar(chance.randrange(len(state.numbers.units)))
    elif what == "repack":
        state.places.repack()
    elif what == "off":
        node = chance.randrange(len(state.places.left))
        if isinstance(state.places, MixedPods):
            state.places.take_off(node)
    else:
        state.places.settle()


def put(state: Eviction) -> list[list[int] | None]:
    """Pods of each kind by node; like pods are placed nowhere."""
    return state.places.put if isinstance(state.places, MixedPods) else [None] * len(state.places.left)


def opened(state: Eviction) -> list[list[int]]:
    """By kind: nodes with room for more."""
    if isinstance(state.places, MixedPods):
        return [list(nodes) for nodes in state.places.open]
    return [[node for node, count in enumerate(spare) if count] for spare in state.places.spare]


def unlike(state: Eviction) -> MixedPods:
    """Return the places of pods of several kinds."""
    assert isinstance(state.places, MixedPods)
    return state.places
