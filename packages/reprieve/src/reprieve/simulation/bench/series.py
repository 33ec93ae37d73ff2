"""Runs of many scenarios, each in its own process, so that peak memory is measured separately."""

import math
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from reprieve.simulation.bench.families import FAMILY_TABLE
from reprieve.simulation.bench.scenario_run import BenchMeasurement
from reprieve.simulation.bench.scenarios import BenchScenario, at_size

GROWTH_STEPS = (0.25, 0.5, 1.0)
"""The fractions of a family's largest size at which growth is measured (performance.md)."""


class ScenarioError(Exception):
    """A scenario's process returned no figures; the message has its name and the last line of its errors."""


class Growth(msgspec.Struct, frozen=True, rename="camel"):
    """The growth of a family's processor time. `exponent`: slope of its log over log(nodes + pods), least squares."""

    family: str
    exponent: float
    runs: tuple[BenchMeasurement, ...]


def measure(scenarios: Iterable[BenchScenario], *, profile: bool = False) -> Iterator[BenchMeasurement]:
    """Yield the figures of each scenario; `profile`: with a profile of the time. Raises ScenarioError."""
    for scenario in scenarios:
        command = [
            sys.executable,
            "-m",
            FAMILY_TABLE[scenario.family].module,
            scenario.name,
            *(["--profile"] * profile),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            last = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]
            raise ScenarioError(f"{scenario.name}: {last[0]}")
        yield msgspec.json.decode(ended.stdout, type=BenchMeasurement)


def growth(families: Iterable[str]) -> Iterator[Growth]:
    """Yield the growth of each family's processor time over its sizes in nodes. Raises ScenarioError."""
    for family in families:
        sizes = (round(step * FAMILY_TABLE[family].most) for step in GROWTH_STEPS)
        runs = tuple(measure(at_size(family, nodes) for nodes in sizes))
        points = [(run.nodes + run.pods, _time(run)) for run in runs]
        yield Growth(family, round(exponent(points), 3), runs)


def _time(run: BenchMeasurement) -> float:
    """Return the processor time, which other work affects least; for older figures the real time."""
    return run.cpu_seconds if isinstance(run.cpu_seconds, float) else run.seconds


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of log y over log x by least squares; x and y are positive, with at least two distinct x."""
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(y) for _, y in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
