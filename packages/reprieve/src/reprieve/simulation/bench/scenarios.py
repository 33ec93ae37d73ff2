"""The benchmarks: the clusters and work of the table in performance.md, as data.

Terms: a *family* is a kind of cluster and work (`bench.families`); a *scenario* is a family at one size. Running pods
exist from the start. The work arrives at once, except for `steady` and `churn`, where it arrives over time while as
many pods end (`bench.arrivals`).

Invariant: a scenario has the same objects on every machine and in every run.
"""

from dataclasses import dataclass

from reprieve.simulation.bench.cluster_builder import BenchCluster
from reprieve.simulation.bench.families import FAMILY_TABLE


@dataclass(frozen=True, slots=True)
class BenchScenario:
    """A family at one size; `pods` is the number of pods to place."""

    name: str
    family: str
    nodes: int
    pods: int

    def build(self) -> BenchCluster:
        """Return the objects of the scenario."""
        return FAMILY_TABLE[self.family].build(self.nodes, self.pods)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        BenchScenario("basic-500", "basic", 500, 1_000),
        BenchScenario("basic-5000", "basic", 5_000, 10_000),
        BenchScenario("preempt-500", "preempt", 500, 500),
        BenchScenario("preempt-5000", "preempt", 5_000, 1_000),
        BenchScenario("gang-1000", "gang", 1_000, 1_000),
        BenchScenario("gang-5000", "gang", 5_000, 5_000),
        BenchScenario("gangs-100x100", "gangs", 5_000, 10_000),
        BenchScenario("gang-preempt-100", "gang-preempt", 100, 50),
        BenchScenario("gang-preempt-1000", "gang-preempt", 1_000, 500),
        BenchScenario("gang-preempt-5000", "gang-preempt", 5_000, 1_000),
        BenchScenario("trees-100x10x10", "trees", 5_000, 10_000),
        BenchScenario("tree-preempt-1000", "tree-preempt", 1_000, 500),
        BenchScenario("constrained-1000", "constrained", 1_000, 200),
        BenchScenario("steady-5000", "steady", 5_000, 300 * 200 + 30 * 64),
        BenchScenario("unlike-5000", "unlike", 5_000, 10_000),
        BenchScenario("waiting-2000", "waiting", 1_000, 8_000),
        BenchScenario("waiting-spread-2000", "waiting-spread", 1_000, 24_000),
        BenchScenario("racks-1000", "racks", 5_000, 20),
        BenchScenario("services-5000", "services", 1_000, 1_000),
        BenchScenario("budgets-1000", "budgets", 1_000, 200),
        BenchScenario("unlike-preempt-1000", "unlike-preempt", 1_000, 50),
        BenchScenario("unlike-budgets-5000", "unlike-budgets", 5_000, 50),
        BenchScenario("unlike-gang-preempt-1000", "unlike-gang-preempt", 1_000, 100),
        BenchScenario("devices-1000", "devices", 1_000, 2_000),
        BenchScenario("churn-1h", "churn", 500, 3_600 * 50),
        BenchScenario("churn-24h", "churn", 500, 24 * 3_600 * 50),
        BenchScenario("big-15000", "big", 15_000, 1_000),
        BenchScenario("apart-5000", "apart", 5_000, 5_000),
        BenchScenario("take-in-5000", "take-in", 5_000, 50_000),
        BenchScenario("take-in-15000", "take-in", 15_000, 150_000),
    )
}
"""The scenarios by name."""


DEFAULT = (
    "basic-500",
    "basic-5000",
    "preempt-500",
    "gang-1000",
    "gangs-100x100",
    "gang-preempt-100",
    "gang-preempt-1000",
)
"""The default scenarios, which take less than a minute in total."""


FAMILIES = tuple(FAMILY_TABLE)


def at_size(family: str, nodes: int) -> BenchScenario:
    """Return the family at a size, with work in proportion to the nodes, to measure the growth of its time."""
    kind = FAMILY_TABLE[family]
    return BenchScenario(f"{family}@{nodes}", family, nodes, max(kind.least, round(kind.per_node * nodes)))


def named(name: str) -> BenchScenario:
    """Return the scenario with this name, including `FAMILY@NODES`. Raises KeyError."""
    family, at, nodes = name.partition("@")
    return at_size(family, int(nodes)) if at and family in FAMILY_TABLE and nodes.isdigit() else SCENARIOS[name]
