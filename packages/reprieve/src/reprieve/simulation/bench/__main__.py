"""`python -m reprieve.simulation.bench SCENARIO`: run one scenario in this process and print JSON to stdout.

With `--profile` the figures include a profile of the time.
"""

import sys
from cProfile import Profile

import msgspec

from reprieve.cluster.garbage_collection import collect_seldom
from reprieve.simulation.bench.scenario_run import NotBoundError, run
from reprieve.simulation.bench.scenarios import named

if __name__ == "__main__":
    collect_seldom()  # as `reprieve scheduler` does
    try:
        print(msgspec.json.encode(run(named(sys.argv[1]), Profile() if "--profile" in sys.argv[2:] else None)).decode())
    except NotBoundError as error:
        sys.exit(f"{error}")
