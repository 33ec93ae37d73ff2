"""Measure suggestions to move running pods, against an exact solver: random clusters with scattered free capacity.

    python tools/measure_moves.py --seeds 500      # the table
    python tools/measure_moves.py --first 7 --seeds 1

A suggestion is *possible* if the engine, given the cluster with these pods on their new nodes, places every pending pod
and no node is overfull; it is compared with the fewest pods that have to move (`move_instances.py`, scipy's HiGHS).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), *(str(ROOT / "packages" / name) for name in ("reprieve", "kube-rules"))]

from tests.questions.move_instances import documents, fewest, instance, overfull, suggested  # noqa: E402


def main() -> None:
    """Print how many suggestions are possible, and by how much each is longer than the shortest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=32)
    given = parser.parse_args()
    longer: Counter[int] = Counter()
    seconds = 0.0
    for seed in range(given.first, given.first + given.seeds):
        cluster = instance(seed, given.nodes)
        try:
            least = fewest(cluster)
        except TimeoutError:
            print(f"seed {seed}: the solver did not finish")
            continue
        began = time.process_time()
        help, after = suggested(*documents(cluster))
        seconds += time.process_time() - began
        if help is None or not least:
            if help is not None or least:
                print(f"seed {seed}: suggested {help.amount if help is not None else None}, fewest {least}")
            continue
        wrong = overfull(after)
        if wrong:
            print(f"seed {seed}: not possible: {wrong}")
        longer[int(help.amount or 0) - least] += 1
    total = sum(longer.values())
    print(f"{total} clusters, {seconds / max(1, total):.2f} s each; longer than the fewest by:")
    for more, count in sorted(longer.items()):
        print(f"  {more}: {count}")


if __name__ == "__main__":
    main()
