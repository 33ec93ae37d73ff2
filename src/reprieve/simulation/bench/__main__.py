"""`python -m reprieve.simulation.bench SCENARIO`: run one scenario in this process, figures as JSON on stdout."""

import sys

import msgspec

from reprieve.simulation.bench.running import NotBoundError, run
from reprieve.simulation.bench.scenarios import named

if __name__ == "__main__":
    try:
        print(msgspec.json.encode(run(named(sys.argv[1]))).decode())
    except NotBoundError as error:
        sys.exit(f"{error}")
