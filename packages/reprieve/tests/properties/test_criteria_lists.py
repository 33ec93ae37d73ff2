"""Of two lists of criteria, what is found by one is never worse by it than what is found by the other (cost.md 1.8)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.preemption.criteria import STANDARD, UPSTREAM_ORDER
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from tests.building import START, Item, World, gang, group, node, pdb, pod, profile_with
from tests.drawing import examples

NAMES = (*STANDARD, "units", "tenantSpread")
PREEMPTOR = 9
OFFSET = 1 << 31


@dataclass(frozen=True)
class _Pod:
    """A pod that runs, and what it stands for."""

    name: str
    unit: str
    gang: str
    namespace: str
    priority: int
    start: float
    budget: str
    grouped: bool
    size: int
    node: int
    cpu: int
    selects: bool
    stuck: bool = False


@dataclass
class _Case:
    """A cluster that is full: its objects, and the same in plain terms."""

    items: list[Item]
    pods: dict[str, _Pod]
    minimum: dict[str, int]
    budgets: dict[str, int]

    def price(self, names: Sequence[str], cost: Sequence[str]) -> tuple[float, ...]:
        """What evicting these pods costs by a list, counted again from what cost.md 1.3 says."""
        gone = [self.pods[name] for name in names]
        return tuple(_BY_NAME[name](self, gone) for name in cost)

    def units(self, gone: Sequence[_Pod]) -> dict[str, list[_Pod]]:
        """The pods by unit, the most important unit first (preemption.md 5)."""
        found: dict[str, list[_Pod]] = {}
        for each in gone:
            found.setdefault(each.unit, []).append(each)

        def importance(unit: str) -> tuple[object, ...]:
            mine = found[unit]
            one = mine[0]
            return (-one.priority, not one.grouped, -one.size, min(p.start for p in mine), min(p.name for p in mine))

        return {unit: found[unit] for unit in sorted(found, key=importance)}


def _violations(case: _Case, gone: Sequence[_Pod]) -> float:
    left, violations = dict(case.budgets), 0
    for pods in case.units(gone).values():
        for each in pods:
            if each.budget:
                left[each.budget] -= 1
        violations += any(left[each.budget] < 0 for each in pods if each.budget)
    return violations


def _gangs(case: _Case, gone: Sequence[_Pod]) -> float:
    running = Counter(each.gang for each in case.pods.values())
    lost = Counter(each.gang for each in gone if each.gang)
    return sum(running[key] >= case.minimum[key] > running[key] - count for key, count in lost.items())


def _start(_: _Case, gone: Sequence[_Pod]) -> float:
    highest = max(each.priority for each in gone)
    return -min(each.start for each in gone if each.priority == highest)


_BY_NAME: dict[str, Callable[[_Case, Sequence[_Pod]], float]] = {
    "pdbViolations": _violations,
    "highestPriority": lambda _, gone: max(each.priority for each in gone),
    "gangsBroken": _gangs,
    "prioritySum": lambda _, gone: sum(each.priority + OFFSET for each in gone),
    "pods": lambda _, gone: len(gone),
    "restartElsewhere": lambda _, gone: sum(each.stuck for each in gone),
    "startTime": _start,
    "units": lambda case, gone: len(case.units(gone)),
    "tenantSpread": lambda _, gone: max(Counter(each.namespace for each in gone).values()),
}


def _case(seed: int, *, lone: bool) -> _Case:
    """Gangs that go pod by pod, with and without pods beyond their minimum, whole ones, broken ones, and lone pods."""
    chance = random.Random(seed)
    case = _Case([], {}, {}, {f"b{i}": chance.randint(0, 2) for i in range(chance.choice([0, 0, 1, 2]))})
    nodes = chance.randint(1, 5)
    left = [chance.choice([2, 3, 4]) for _ in range(nodes)]
    case.items += [node(f"n{i}", cpu=cpu, labels={"host": f"n{i}"}) for i, cpu in enumerate(left)]
    some_select = chance.random() < 0.5
    case.items += [pdb(name, {"budget": name}, allowed=count) for name, count in case.budgets.items()]
    made = 0
    priorities = chance.choice([(1,), (1, 2), (1, 2, 3)])
    while any(left) and made < 7:
        made += 1
        name, size = f"u{made}", chance.choice([1, 1, 2, 2, 3, 4])
        grouped, whole = size > 1 or chance.random() < 0.2, chance.random() < 0.4
        least = chance.randint(1, size + (not whole and chance.random() < 0.2))
        priority, start = chance.choice(priorities), float(chance.randint(0, 5))
        at: list[int] = []
        cpu = chance.choice([1, 1, 1, 2])
        for _ in range(size):
            free = [i for i, cores in enumerate(left) if cores >= cpu]
            if free:
                at.append(chance.choice(free))
                left[at[-1]] -= cpu
        if not at:
            continue
        if grouped:
            case.items.append(group(name, min_count=least, priority=priority, whole=whole))
            case.minimum[name] = least
        namespace = "default"
        for turn, where in enumerate(at):
            budget = chance.choice(["", *case.budgets])
            mine = f"{name}-{turn}"
            selects = some_select and chance.random() < 0.5
            labels = {"budget": budget} if budget else {}
            case.items.append(
                pod(
                    mine,
                    cpu=cpu,
                    node=f"n{where}",
                    priority=priority,
                    group=name if grouped else None,
                    start=start,
                    labels=labels,
                    selector={"host": f"n{where}"} if selects else None,
                )
            )
            unit = name if grouped and whole else mine
            case.pods[mine] = _Pod(
                mine,
                unit,
                name if grouped else "",
                namespace,
                priority,
                start + START,
                budget,
                grouped,
                len(at) if grouped and whole else 1,
                where,
                cpu,
                selects,
            )
    for name, one in case.pods.items():
        fits = [i for i, cores in enumerate(left) if i != one.node and cores >= one.cpu]
        case.pods[name] = replace(one, stuck=one.selects or not fits)
    wants = chance.choice([1, 2])
    if lone:
        case.items.append(pod("crew", cpu=wants, priority=PREEMPTOR))
    else:
        case.items += gang("crew", chance.randint(1, 4), cpu=wants, priority=PREEMPTOR)
    return case


def _victims(case: _Case, cost: Sequence[str]) -> list[str] | None:
    profile = profile_with(DefaultPreemption(PreemptionOptions(cost=cost)))
    found = World(*case.items, profiles={profile.name: profile}).step().preemption
    if found is None or not found.victims:
        return None
    names = sorted(each.name for verdict in found.victims for each in verdict.unit.pods)
    assert found.cost is not None
    assert case.price(names, cost) == pytest.approx(found.cost), "what it says it costs is what it costs"
    return names


_LISTS = st.one_of(
    st.permutations(NAMES).flatmap(lambda names: st.integers(1, len(names)).map(lambda n: tuple(names[:n]))),
    st.sampled_from([STANDARD, UPSTREAM_ORDER, ("pdbViolations", "highestPriority", "gangsBroken", "pods")]),
)


@examples(70)
@given(st.integers(0, 2**32), st.booleans(), _LISTS, _LISTS)
def test_no_list_finds_better_by_another(seed: int, lone: bool, cost: tuple[str, ...], other: tuple[str, ...]) -> None:
    """cost.md 1.8: for pods and groups, by the default list and by any other."""
    case = _case(seed, lone=lone)
    own, instead = _victims(case, cost), _victims(case, other)
    assert (own is None) == (instead is None)
    if own is not None and instead is not None:
        assert case.price(own, cost) <= case.price(instead, cost)
