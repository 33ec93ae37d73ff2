"""Measure whether answers to questions are true, against trying everything on small random clusters.

    python tools/measure_answers.py                        # all of them, on 500 clusters each
    python tools/measure_answers.py --only drains --seeds 50
    python tools/measure_answers.py --first 1000           # other clusters

`priorities`: the queue says Priority only where the highest priority helps.  `shortages`: what is stated as missing is
enough, or "at least".  `drains`: how often gangs break in the order that is found and in the best one.  `capacity`:
figures are exact or "or more", against an integer program.  The clusters are those of
`packages/reprieve/tests/questions/random_inputs.py`, the checks those of `brute_force.py` beside it.  The exit code is
1 if an answer is untrue, or more than 2 % more gangs break than have to.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "packages/reprieve")]

from reprieve.questions.drain_order import drain_plan  # noqa: E402
from reprieve.simulation.plan import PlanOptions  # noqa: E402
from tests.questions.brute_force import (  # noqa: E402
    breaks_of,
    capacities,
    fewest_breaks,
    missing_with_victims_back,
    stated_shortages,
    waiting_for_priority,
)
from tests.questions.random_inputs import random_drain  # noqa: E402

MOST_ABOVE = 1.02
"""So many times the fewest gangs that break may break in the orders that are found."""


def priorities(seeds: range) -> bool:
    """Print how many pending workloads wait for a priority, and of how many that is not true."""
    found = [one for seed in seeds for one in waiting_for_priority(seed)]
    untrue = sum(says and not helps for _, says, helps in found)
    unsaid = sum(helps and not says for _, says, helps in found)
    said = sum(says for _, says, _ in found)
    print(f"priorities: {len(found)} pending workloads, Priority {said} times, wrong {untrue}, missing {unsaid}")
    return not untrue


def shortages(seeds: range) -> bool:
    """Print how many amounts are stated as missing, and how many of them are too small."""
    victims = [one for seed in seeds for one in missing_with_victims_back(seed)]
    hints = [one for seed in seeds for one in stated_shortages(seed)]
    low = sum(stated < missing for *_, stated, missing in victims)
    low_hints = sum(not runs and "at least" not in sentence for sentence, runs in hints)
    at_least = sum("at least" in sentence for sentence, _ in hints)
    print(f"shortages: {len(victims)} of victims, too small {low}; ", end="")
    print(f'{len(hints)} of pending workloads, "at least" {at_least}, too small {low_hints}')
    return not low and not low_hints


def drains(seeds: range) -> bool:
    """Print how often gangs break in the orders that are found, and in the best ones."""
    broken = fewest = worse = 0
    for seed in seeds:
        manifests, names = random_drain(seed)
        here = breaks_of(drain_plan(manifests, names, PlanOptions()))
        best = min(here, fewest_breaks(manifests, names, below=here)) if here else 0
        broken, fewest, worse = broken + here, fewest + best, worse + (here > best)
    print(f"drains: gangs break {broken} times, {fewest} in the best orders; {worse} of {len(seeds)} orders are worse")
    return broken <= MOST_ABOVE * fewest


def capacity(seeds: range) -> bool:
    """Print how many figures are exact, and how many are not true."""
    found: Counter[str] = Counter()
    for seed in seeds:
        for figure, says, exact, true in capacities(seed):
            found[f"{figure} {'exact' if exact else 'or more'}"] += 1
            found["untrue"] += says != true if exact else says > true
    print(f"capacity: {', '.join(f'{name} {number}' for name, number in sorted(found.items()))}")
    return not found["untrue"]


CHECKS = {"priorities": priorities, "shortages": shortages, "drains": drains, "capacity": capacity}


def main() -> int:
    """Read the command line and print what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500, help="how many random clusters (default: 500)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", choices=sorted(CHECKS), help="one of the answers")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    chosen = [arguments.only] if arguments.only else list(CHECKS)
    true = [CHECKS[name](seeds) for name in chosen]
    return 0 if all(true) else 1


if __name__ == "__main__":
    sys.exit(main())
