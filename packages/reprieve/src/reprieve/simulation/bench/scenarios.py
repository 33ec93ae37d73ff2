"""What is measured: clusters and work of the table in performance.md, as data.

Terms: a *family* is a kind of cluster and work (`bench.families`); a *scenario* is a family at one size.  Running pods
are there from the start; the work arrives at once, but for `steady` and `churn`, where it comes over virtual time while
as many pods end (`bench.over_time`).

Invariant: a scenario is the same, object by object, on every machine and in every run.
"""

from dataclasses import dataclass

from reprieve.simulation.bench.building import Cluster
from reprieve.simulation.bench.families import FAMILY_TABLE


@dataclass(frozen=True, slots=True)
class Scenario:
    """`pods` is the size of the work: the pods to place."""

    name: str
    family: str
    nodes: int
    pods: int

    def build(self) -> Cluster:
        """The objects."""
        return FAMILY_TABLE[self.family].build(self.nodes, self.pods)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("basic-500", "basic", 500, 1_000),
        Scenario("basic-5000", "basic", 5_000, 10_000),
        Scenario("preempt-500", "preempt", 500, 500),
        Scenario("preempt-5000", "preempt", 5_000, 1_000),
        Scenario("gang-1000", "gang", 1_000, 1_000),
        Scenario("gang-5000", "gang", 5_000, 5_000),
        Scenario("gangs-100x100", "gangs", 5_000, 10_000),
        Scenario("gang-preempt-100", "gang-preempt", 100, 50),
        Scenario("gang-preempt-1000", "gang-preempt", 1_000, 500),
        Scenario("gang-preempt-5000", "gang-preempt", 5_000, 1_000),
        Scenario("trees-100x10x10", "trees", 5_000, 10_000),
        Scenario("tree-preempt-1000", "tree-preempt", 1_000, 500),
        Scenario("constrained-1000", "constrained", 1_000, 200),
        Scenario("steady-5000", "steady", 5_000, 300 * 200 + 30 * 64),
        Scenario("unlike-5000", "unlike", 5_000, 10_000),
        Scenario("waiting-2000", "waiting", 1_000, 8_000),
        Scenario("waiting-spread-2000", "waiting-spread", 1_000, 24_000),
        Scenario("racks-1000", "racks", 5_000, 20),
        Scenario("services-5000", "services", 1_000, 1_000),
        Scenario("budgets-1000", "budgets", 1_000, 200),
        Scenario("unlike-preempt-1000", "unlike-preempt", 1_000, 50),
        Scenario("unlike-budgets-5000", "unlike-budgets", 5_000, 50),
        Scenario("unlike-gang-preempt-1000", "unlike-gang-preempt", 1_000, 100),
        Scenario("devices-1000", "devices", 1_000, 2_000),
        Scenario("churn-1h", "churn", 500, 3_600 * 50),
        Scenario("churn-24h", "churn", 500, 24 * 3_600 * 50),
        Scenario("big-15000", "big", 15_000, 1_000),
        Scenario("apart-5000", "apart", 5_000, 5_000),
        Scenario("take-in-5000", "take-in", 5_000, 50_000),
        Scenario("take-in-15000", "take-in", 15_000, 150_000),
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
"""What runs when none is named: the ones that stay within a minute in all."""


FAMILIES = tuple(FAMILY_TABLE)


def at_size(family: str, nodes: int) -> Scenario:
    """The family at a size, with work in proportion to the nodes: for the growth of its time."""
    return Scenario(f"{family}@{nodes}", family, nodes, max(1, round(FAMILY_TABLE[family].per_node * nodes)))


def named(name: str) -> Scenario:
    """The scenario of that name, `FAMILY@NODES` included. Raises KeyError."""
    family, at, nodes = name.partition("@")
    return at_size(family, int(nodes)) if at and family in FAMILY_TABLE and nodes.isdigit() else SCENARIOS[name]
