"""Running many scenarios, each in a process of its own: the peak of one's memory says nothing about another's."""

import math
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from reprieve.simulation.bench.scenario_run import BenchMeasurement
from reprieve.simulation.bench.scenarios import BenchScenario, at_size

GROWTH_SIZES = (500, 1_000, 2_000, 5_000)
"""Nodes at which growth is measured (performance.md)."""


class ScenarioError(Exception):
    """A scenario's process did not give figures; the message names it and has the last line of its errors."""


class Growth(msgspec.Struct, frozen=True, rename="camel"):
    """How a family's time grows. `exponent`: slope of log seconds over log (nodes + pods) by least squares."""

    family: str
    exponent: float
    runs: tuple[BenchMeasurement, ...]


def measure(scenarios: Iterable[BenchScenario], *, profile: bool = False) -> Iterator[BenchMeasurement]:
    """Yield the figures, one scenario after the other; `profile`: with where the time went. Raises ScenarioError."""
    for scenario in scenarios:
        command = [sys.executable, "-m", "reprieve.simulation.bench", scenario.name, *(["--profile"] * profile)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            last = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]
            raise ScenarioError(f"{scenario.name}: {last[0]}")
        yield msgspec.json.decode(ended.stdout, type=BenchMeasurement)


def growth(families: Iterable[str], sizes: Sequence[int] = GROWTH_SIZES) -> Iterator[Growth]:
    """Yield the growth of each family's time over sizes in nodes; at least two sizes. Raises ScenarioError."""
    for family in families:
        runs = tuple(measure(at_size(family, nodes) for nodes in sizes))
        points = [(run.nodes + run.pods, run.seconds) for run in runs]
        yield Growth(family, round(exponent(points), 3), runs)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Slope of log y over log x by least squares; x and y above zero, at least two different x."""
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(y) for _, y in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
