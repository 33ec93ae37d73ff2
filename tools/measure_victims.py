"""Measure how cheap evictions are, against an exact solver: random clusters, and gangs that want into the openb trace.

    python tools/measure_victims.py --seeds 600                      # the table of random clusters
    python tools/measure_victims.py --seeds 200 --nodes 24           # larger ones
    python tools/measure_victims.py --seeds 0 --openb DIR            # nodes and pods of the trace, as CSV in DIR
    python tools/measure_victims.py --seeds 0 --openb DIR --exact 60 # each row solved for up to 60 s a criterion
    python tools/measure_victims.py --seeds 0 --times                # seconds of a decision in large clusters
    python tools/measure_victims.py --seeds 0 --rules 100            # gangs with a rule beside amounts, or with several
    python tools/measure_victims.py --seeds 0 --rules 100 --nodes 12 18 --only spread   # the same in larger clusters
    python tools/measure_victims.py --seeds 0 --criteria 100         # lists of criteria that are not the default
    python tools/measure_victims.py --seeds 0 --together 100         # several preemptors at once

Random clusters are those of `packages/reprieve/tests/preemption/instances.py`; the solver is scipy's HiGHS (`exact.py`)
and shares nothing with the engine.  Costs are compared in the order of the documentation (docs/concepts.md), budgets
counted over the victims.  "needed" are the clusters that need an eviction.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "packages/reprieve")]

from kube_rules import objects  # noqa: E402
from reprieve.cluster.garbage_collection import collect_seldom  # noqa: E402
from reprieve.inputs.loader import load  # noqa: E402
from reprieve.preemption import group_victims, pinned_choices  # noqa: E402
from reprieve.preemption.default_preemption import DefaultPreemption  # noqa: E402
from reprieve.preemption.options import PreemptionOptions  # noqa: E402
from reprieve.preemption.outcome import Preemption  # noqa: E402
from reprieve.preemption.victim_search.search import PricedEviction, cheapest_eviction  # noqa: E402
from reprieve.replay.job_objects import GPU_MILLI  # noqa: E402
from reprieve.replay.traces import openb_cluster as openb  # noqa: E402
from reprieve.scheduling.arrival_order import in_order  # noqa: E402
from reprieve.scheduling.engine import Engine  # noqa: E402
from reprieve.scheduling.engine_options import EngineOptions  # noqa: E402
from reprieve.simulation.bench.cluster_builder import BenchCluster  # noqa: E402
from reprieve.simulation.bench.scenarios import SCENARIOS  # noqa: E402
from reprieve.simulation.virtual import VirtualCluster  # noqa: E402
from tests.building import Item, World, group, pdb, pod, profile_with  # noqa: E402
from tests.preemption.exact import (  # noqa: E402
    PODS_AT,
    SUMS,
    Kind,
    NoSolutionError,
    Optimum,
    Price,
    Problem,
    Unit,
    cheapest,
    cheapest_by,
)
from tests.preemption.instances import instance  # noqa: E402
from tests.preemption.joint_instances import FAMILIES as JOINT_FAMILIES  # noqa: E402
from tests.preemption.joint_instances import Several  # noqa: E402
from tests.preemption.listed_instances import FAMILIES as LISTED  # noqa: E402
from tests.preemption.listed_instances import Listed  # noqa: E402
from tests.preemption.ruled_instances import FAMILIES, Ruled  # noqa: E402

MODES: dict[str, dict[str, Any]] = {
    "Compatible": {"placement": "Compatible"},
    "PriorityFloor": {"placement": "Compatible", "victim_search": "PriorityFloor"},
    "MinimizeVictims": {"placement": "MinimizeVictims"},
}
PREEMPTOR = 1_000_000
TRACE_FILES = ("openb_node_list_all_node.csv", "openb_pod_list_default.csv")
Members = tuple[tuple[int, int, int, int], ...]
"""(count, GPUs, cores, GiB) for each kind of member."""
_COUNTED = {*SUMS, "tenantSpread"}
"""Criteria by which an eviction is compared in numbers, as the excess over the optimum."""
GANGS: dict[str, Members] = {
    "64 x 8 GPU": ((64, 8, 32, 128),),
    "16 x 4": ((16, 4, 16, 64),),
    "200 x 1": ((200, 1, 4, 16),),
    "8 x 8 + 90 CPU": ((8, 8, 32, 128), (90, 0, 8, 32)),
    "40 x 2": ((40, 2, 8, 32),),
    "leader + 32 x 8": ((1, 0, 8, 32), (32, 8, 32, 128)),
}


# -- random clusters ---------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What one way of choosing came to."""

    optimal: int = 0
    higher: int = 0
    dearer: int = 0
    seconds: float = 0.0
    excess: list[float] = field(default_factory=list)

    def add(self, price: Price, best: Price, compatible: Price) -> None:
        """One more cluster."""
        self.optimal += price == best
        self.higher += price[1] > best[1]
        self.dearer += price > compatible
        self.excess.append(price[PODS_AT] / best[PODS_AT] if best[PODS_AT] else 1.0 + price[PODS_AT])


def random_clusters(seeds: range, nodes: tuple[int, int]) -> None:
    """Print the table."""
    tallies = {name: Tally() for name in MODES}
    needed = 0
    for seed in seeds:
        made = instance(seed, nodes=nodes)
        problem = made.problem()
        prices: dict[str, Price] = {}
        for name, options in MODES.items():
            profile = profile_with(DefaultPreemption(PreemptionOptions(**options)))
            world = World(*made.items(), profiles={profile.name: profile})
            began = time.process_time()
            found = world.step().preemption
            tallies[name].seconds += time.process_time() - began
            if found is None or (name == "Compatible" and not found.victims):
                break
            prices[name] = problem.price([verdict.unit.name for verdict in found.victims])
        else:
            needed += 1
            best = cheapest(problem).price
            for name, price in prices.items():
                tallies[name].add(price, best, prices["Compatible"])
    print(f"{len(seeds)} clusters of {nodes[0]} to {nodes[1]} nodes, {needed} of them need an eviction")
    row = "{:<16} {:>8} {:>14} {:>7} {:>16} {:>18} {:>9}"
    print(row.format("", "optimal", "pods/optimum", "worst", "higher priority", "dearer than Compat.", "ms each"))
    for name, tally in tallies.items():
        if needed:
            print(
                row.format(
                    name,
                    f"{tally.optimal / needed:.1%}",
                    f"{sum(tally.excess) / needed:.3f}",
                    f"{max(tally.excess):.2f}",
                    f"{tally.higher / needed:.1%}",
                    tally.dearer,
                    f"{tally.seconds / len(seeds) * 1000:.1f}",
                )
            )


# -- gangs with rules --------------------------------------------------------------------------------------------------


def gangs_with_rules(seeds: range, only: str, misses: bool, nodes: tuple[int, int] | None) -> None:
    """Print a row for each rule; clusters without a proven optimum are left out."""
    row = "{:<32} {:>9} {:>8} {:>13} {:>6} {:>16} {:>14} {:>8}"
    titles = ("optimal", "pods/optimum", "worst", "higher priority", "dearer than C.", "ms each")
    print(row.format("gangs with a rule", "clusters", *titles))
    for name, family in FAMILIES.items():
        if only not in name:
            continue
        tally, proven = Tally(), 0
        for seed in seeds:
            made = family(seed) if nodes is None else family(seed, nodes=nodes)
            usual, _ = _one_decision(made, MODES["Compatible"])
            if usual is None or not usual.victims:
                continue
            best = cheapest(made.problem, seconds=20)
            if not best.proven or (made.keeps_budgets and best.price[0]):
                continue
            proven += 1
            found, taken = _one_decision(made, MODES["MinimizeVictims"])
            assert found is not None
            tally.seconds += taken
            prices = [made.problem.price([verdict.unit.name for verdict in one.victims]) for one in (found, usual)]
            tally.add(prices[0], best.price, prices[1])
            if misses and prices[0] != best.price:
                print(f"  seed {seed}: {prices[0]} where {best.price} does")
        if proven:
            shares = (f"{tally.optimal / proven:.0%}", f"{sum(tally.excess) / proven:.3f}", f"{max(tally.excess):.2f}")
            taken_text = f"{tally.seconds / proven * 1000:.0f}"
            print(
                row.format(name, proven, *shares, f"{tally.higher / proven:.0%}", tally.dearer, taken_text), flush=True
            )


def _one_decision(made: Ruled | Listed, options: dict[str, Any]) -> tuple[Preemption | None, float]:
    profile = profile_with(DefaultPreemption(PreemptionOptions(**options)))
    world = World(*made.items, profiles={profile.name: profile})
    began = time.process_time()
    found = world.step().preemption
    return found, time.process_time() - began


# -- own criteria ------------------------------------------------------------------------------------------------------


def own_criteria(seeds: range, only: str, misses: bool, nodes: tuple[int, int] | None) -> None:
    """Print a row for each list of criteria, by the first of them that counts an amount."""
    row = "{:<32} {:>9} {:>8} {:>13} {:>6} {:>14} {:>8}"
    print(row.format("own criteria", "clusters", "optimal", "over optimum", "worst", "dearer than C.", "ms each"))
    for name, family in LISTED.items():
        if only not in name:
            continue
        optimal = dearer = 0
        excess, seconds = [], 0.0
        for seed in seeds:
            made = family(seed) if nodes is None else family(seed, nodes=nodes)
            usual, _ = _one_decision(made, {**MODES["Compatible"], "cost": made.cost})
            if usual is None or not usual.victims:
                continue
            best = cheapest_by(made.problem, made.cost, seconds=20)
            if not best.proven:
                continue
            found, taken = _one_decision(made, {"cost": made.cost})
            assert found is not None
            seconds += taken
            here, there = (
                made.problem.price_by(made.cost, [verdict.unit.name for verdict in one.victims])
                for one in (found, usual)
            )
            optimal += here == best.price
            dearer += here > there
            counted = next(turn for turn, criterion in enumerate(made.cost) if criterion in _COUNTED)
            least = best.price[counted]
            same = here[:counted] == best.price[:counted]
            excess.append(here[counted] / least if same and least > 0 else 1.0 + (here != best.price))
            if here != best.price and misses:
                print(f"  seed {seed}: {here} where {best.price} does")
        if excess:
            shares = (f"{optimal / len(excess):.0%}", f"{sum(excess) / len(excess):.3f}", f"{max(excess):.2f}")
            print(row.format(name, len(excess), *shares, dearer, f"{seconds / len(excess) * 1000:.0f}"), flush=True)


# -- several preemptors at once ----------------------------------------------------------------------------------------


def several_at_once(seeds: range, only: str, misses: bool) -> None:
    """Print a row for each family and way; clusters without a proven optimum, or where not all fit, are left out."""
    row = "{:<28} {:<10} {:>9} {:>8} {:>9} {:>13} {:>6} {:>16} {:>8}"
    titles = ("optimal", "placed", "pods/optimum", "worst", "higher priority", "ms each")
    print(row.format("several preemptors", "planned", "clusters", *titles))
    ways: dict[str, dict[str, Any]] = {
        "together": {},
        "one by one": {"together": False},
        "Compatible": MODES["Compatible"],
    }
    for name, family in JOINT_FAMILIES.items():
        if only not in name:
            continue
        tallies = {way: Tally() for way in ways}
        placed, waiting, proven = dict.fromkeys(ways, 0), 0, 0
        for seed in seeds:
            made = family(seed)
            try:
                best = cheapest(made.problem, seconds=20)
            except NoSolutionError:
                continue
            if not best.proven or not best.victims:
                continue
            proven, waiting = proven + 1, waiting + made.preemptors
            for way, options in ways.items():
                began = time.process_time()
                victims, count = _all_decisions(made, options)
                tallies[way].seconds += time.process_time() - began
                placed[way] += count
                price = made.problem.price(victims)
                if misses and not options and (count, price) != (made.preemptors, best.price):
                    print(f"  seed {seed}: {count} of {made.preemptors}, {price} where {best.price} does")
                if count == made.preemptors:
                    tallies[way].add(price, best.price, best.price)
        for way, tally in tallies.items():
            if tally.excess:
                cells = (
                    f"{tally.optimal / proven:.0%}",
                    f"{placed[way]}/{waiting}",
                    f"{sum(tally.excess) / len(tally.excess):.3f}",
                    f"{max(tally.excess):.2f}",
                    tally.higher,
                    f"{tally.seconds / proven * 1000:.0f}",
                )
                print(row.format(name, way, proven, *cells), flush=True)


def _all_decisions(made: Several, options: dict[str, Any]) -> tuple[set[str], int]:
    """The units that are evicted, and how many preemptors get a place."""
    profile = profile_with(DefaultPreemption(PreemptionOptions(**options)))
    world = World(*made.items, profiles={profile.name: profile})
    victims: set[str] = set()
    placed: set[str] = set()
    while (decision := world.engine.step(world.now).decision) is not None:
        if decision.bindings or decision.preemption is not None:
            placed.add(decision.ref)
        if decision.preemption is not None:
            victims |= {verdict.unit.name for verdict in decision.preemption.victims}
    return victims, len(placed)


# -- the openb trace ---------------------------------------------------------------------------------------------------


def filled_cluster(folder: Path) -> list[tuple[objects.KubernetesObject, float]]:
    """The trace's nodes with its tasks on them, as `reprieve import openb` fills them."""
    nodes, pods = (folder / name for name in TRACE_FILES)
    filled = openb.fill(openb.read_nodes(nodes), openb.read_tasks(pods))
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "cluster.json"
        openb.write(filled.documents, path)
        loaded = load([path])
    return list(in_order((each.object, each.created) for each in loaded.all()))


def in_gangs(
    cluster: Sequence[tuple[objects.KubernetesObject, float]], share: float
) -> list[tuple[objects.KubernetesObject, float]]:
    """So much of the tasks made into `all` gangs of 2 to 16 like neighbours; the rest as it was."""
    chance = random.Random(1)
    found = list(cluster)
    alike: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for turn, (item, _) in enumerate(found):
        if isinstance(item, objects.Pod):
            key = (item.spec.priority_class_name or "", repr(item.spec.containers[0].resources))
            alike.setdefault(key, []).append((item.spec.node_name or "", turn))
    groups: list[tuple[objects.KubernetesObject, float]] = []
    for key in sorted(alike):
        there, at = sorted(alike[key]), 0
        while at < len(there):
            run = there[at : at + chance.randint(2, 16)]
            at += len(run)
            if len(run) > 1 and chance.random() < share:
                name = f"g{len(groups):04}"
                for _, turn in run:
                    item, created = found[turn]
                    assert isinstance(item, objects.Pod)
                    member = objects.PodSchedulingGroup(pod_group_name=name)
                    found[turn] = (replace(item, spec=replace(item.spec, scheduling_group=member)), created)
                first = found[run[0][1]][0]
                assert isinstance(first, objects.Pod)
                made = group(name, min_count=len(run), priority=first.spec.priority, whole=True)
                groups.append((made, 0.0))
    return groups + found


def wanted(members: Members) -> list[objects.KubernetesObject]:
    """The gang."""
    pods = [
        pod(
            f"train-{kind}-{i:03}",
            cpu=cores,
            memory=f"{memory}Gi",
            more={GPU_MILLI: gpus * 1000} if gpus else {},
            group="train",
            priority=PREEMPTOR,
        )
        for kind, (count, gpus, cores, memory) in enumerate(members)
        for i in range(count)
    ]
    return [group("train", min_count=len(pods), priority=PREEMPTOR), *pods]


def decide(
    items: Sequence[tuple[objects.KubernetesObject, float]],
    work: Sequence[objects.KubernetesObject],
    options: dict[str, Any],
) -> tuple[Preemption | None, Engine, float]:
    """The decision for the gang, and the processor seconds it took."""
    profile = profile_with(DefaultPreemption(PreemptionOptions(**options)))
    engine = Engine(EngineOptions({profile.name: profile}))
    world = VirtualCluster(engine, 2e9)
    for item, created in items:
        world.add(item, created)
    for turn, item in enumerate(work):
        world.add(item, 2e9 + turn)
    # As a process that keeps a cluster does: what is kept is not searched for garbage while a client waits.
    gc.collect()
    gc.freeze()
    began = time.process_time()
    decision = engine.step(2e9 + len(work)).decision
    taken = time.process_time() - began
    gc.unfreeze()
    return (decision.preemption if decision is not None else None), engine, taken


def problem_of(preemption: Preemption, engine: Engine) -> Problem:
    """The decision once more in plain numbers, read from the cluster cache it was made on."""
    cluster = engine.cluster
    nodes, columns = cluster.nodes, sorted({c for p, _ in preemption.nominations for c, _ in p.signature.requests})
    free = (nodes.allocatable[columns, : len(nodes)] - nodes.used[columns, : len(nodes)]).T
    units = []
    for verdict in preemption.verdicts:
        takes: dict[int, Any] = {}
        for each, row in zip(verdict.unit.pods, verdict.unit.rows, strict=True):
            takes[row] = takes.get(row, 0) + each.signature.delta[columns]
            free[row] += each.signature.delta[columns]
        unit = verdict.unit
        shares = {row: tuple(amounts.tolist()) for row, amounts in takes.items()}
        units.append(Unit(unit.name, unit.priority, len(unit.pods), unit.start, unit.in_group, shares))
    kinds: dict[tuple[int, ...], int] = {}
    for each, _ in preemption.nominations:
        amounts = tuple(each.signature.delta[columns].tolist())
        kinds[amounts] = kinds.get(amounts, 0) + 1
    return Problem(
        tuple(map(tuple, free.tolist())),
        tuple(units),
        tuple(
            Kind(
                amounts,
                count,
                frozenset(row for row in range(len(nodes)) if (free[row] >= amounts).all()),
            )
            for amounts, count in kinds.items()
        ),
    )


def openb_rows(folder: Path, seconds: float | None) -> None:
    """Print a row for each gang, in the cluster as it is and with 60 % of the tasks in gangs ("g")."""
    plain = filled_cluster(folder)
    row = "{:<20}" + " {:>22}" * len(MODES) + " {:>20}"
    print(row.format("openb: evicted pods", *MODES, "exact" if seconds else ""))
    for prefix, cluster in (("", plain), ("g ", in_gangs(plain, 0.6))):
        for name, members in GANGS.items():
            shown, last = [], None
            for options in MODES.values():
                found, engine, taken = decide(cluster, wanted(members), options)
                if found is None:
                    shown.append("-")
                    continue
                highest = max((verdict.unit.priority for verdict in found.victims), default=0)
                shown.append(f"{sum(len(v.unit.pods) for v in found.victims)} ({highest}) {taken:.2f} s")
                last = (found, engine)
            exact = ""
            if seconds and last is not None:
                exact = optimum_shown(problem_of(*last), seconds)
            print(row.format(prefix + name, *shown, exact), flush=True)


def optimum_shown(problem: Problem, seconds: float) -> str:
    """The optimum, or how far the solver came."""
    try:
        best: Optimum = cheapest(problem, seconds=seconds)
    except NoSolutionError:
        return "no answer in time"
    return f"{best.price[-2]}" if best.proven else f"<= {best.price[-2]}, bound {best.bound:.0f}"


# -- times -------------------------------------------------------------------------------------------------------------


def times() -> None:
    """Print seconds of a decision in large clusters: Compatible, the search, and what makes it harder."""
    row = "{:<44} {:>12} {:>16} {:>8} {:>14}"
    print(row.format("seconds of one decision", "Compatible", "MinimizeVictims", "times", "of it searches"))
    for name in ("gang-preempt-100", "gang-preempt-1000", "gang-preempt-5000", "constrained-1000"):
        cluster = SCENARIOS[name].build()
        variants: dict[str, tuple[list[Item], Sequence[objects.Pod]]] = {name: ([], cluster.work)}
        if name == "gang-preempt-1000":
            budgets: list[Item] = [pdb(f"b{i:03}", {"app": f"a{i}"}, allowed=1) for i in range(500)]
            unlike = [
                replace(each, spec=replace(each.spec, containers=(_larger(each.spec.containers[0], i),)))
                for i, each in enumerate(cluster.work)
            ]
            variants[f"{name}, 500 budgets"] = (budgets, cluster.work)
            variants[f"{name}, unlike members"] = ([], unlike)
        for label, (more, work) in variants.items():
            usual, _ = _decision_time(cluster, more, work, MODES["Compatible"])
            spent, searched = _decision_time(cluster, more, work, MODES["MinimizeVictims"])
            cells = (f"{usual:.3f}", f"{spent:.3f}", f"{spent / usual:.1f}", f"{searched:.3f}")
            print(row.format(label, *cells), flush=True)


def _larger(container: objects.Container, by: int) -> objects.Container:
    requests = {**container.resources.requests, "cpu": f"{1000 + by}m"}
    return replace(container, resources=objects.ResourceRequirements(requests=requests))


def _decision_time(
    cluster: BenchCluster, more: Sequence[Item], work: Sequence[objects.Pod], options: dict[str, Any]
) -> tuple[float, float]:
    """Return the processor seconds of the fastest of three decisions, and those of its searches for victims."""
    running = list(cluster.running)
    if more:
        running = [
            replace(each, metadata=replace(each.metadata, labels={"app": f"a{i % 500}"}))
            for i, each in enumerate(running)
        ]
    before = [*cluster.nodes, *more, *cluster.running_groups, *running]
    items: list[tuple[objects.KubernetesObject, float]] = [(item, 1e9) for item in before]  # type: ignore[misc]
    found = []
    for _ in range(3):
        searched: list[float] = []

        def timed(*args: Any, searched: list[float] = searched, **more: Any) -> PricedEviction | None:
            began = time.process_time()
            result = cheapest_eviction(*args, **more)
            searched.append(time.process_time() - began)
            return result

        with (
            patch.object(group_victims, "cheapest_eviction", timed),
            patch.object(pinned_choices, "cheapest_eviction", timed),
        ):
            found.append((decide(items, [*cluster.groups, *work], options)[2], sum(searched)))
    return min(found)


def main() -> None:
    """Read the command line and print what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="how many random clusters (default: 200)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--nodes", type=int, nargs="+", metavar="N", help="nodes of each cluster, or least and most")
    parser.add_argument("--openb", type=Path, metavar="DIR", help="where the CSV files of the openb trace are")
    parser.add_argument("--exact", type=float, metavar="SECONDS", help="solve the openb rows too, so long a criterion")
    parser.add_argument("--times", action="store_true", help="seconds of a decision in large clusters")
    parser.add_argument("--rules", type=int, default=0, metavar="N", help="so many gangs with each rule beside amounts")
    parser.add_argument("--together", type=int, default=0, metavar="N", help="so many clusters with several preemptors")
    parser.add_argument(
        "--criteria", type=int, default=0, metavar="N", help="so many clusters with each list of criteria"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="the families with this in their name")
    parser.add_argument(
        "--misses", action="store_true", help="name the clusters where what was found is not the optimum"
    )
    asked = parser.parse_args()
    collect_seldom()  # as `reprieve scheduler` does
    nodes = (asked.nodes[0], asked.nodes[-1]) if asked.nodes else None
    if asked.seeds > 0:
        random_clusters(range(asked.first, asked.first + asked.seeds), nodes or (4, 20))
    if asked.rules:
        gangs_with_rules(range(asked.first, asked.first + asked.rules), asked.only, asked.misses, nodes)
    if asked.criteria:
        own_criteria(range(asked.first, asked.first + asked.criteria), asked.only, asked.misses, nodes)
    if asked.together:
        several_at_once(range(asked.first, asked.first + asked.together), asked.only, asked.misses)
    if asked.openb is not None:
        openb_rows(asked.openb, asked.exact)
    if asked.times:
        times()


if __name__ == "__main__":
    main()
