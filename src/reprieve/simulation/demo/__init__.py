"""The worked example: a full GPU cluster, a gang that gets its room, and a gang that cannot fit.

Two acts on the shipped cluster (`cluster.yaml` beside this file).  Each says what must come out; `check` compares.
"""

from dataclasses import dataclass
from pathlib import Path

from reprieve.simulation.report import Answer

DIRECTORY = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Act:
    """Manifests that arrive in the demo cluster, and what must become of them."""

    title: str
    story: tuple[str, ...]
    files: tuple[str, ...]
    """Names in `DIRECTORY`."""
    scheduled: int
    """Pods that are placed at the end; all of them, or none."""
    evicted: tuple[str, ...]
    """Workloads that make way, as units are named, sorted."""
    lesson: tuple[str, ...]


ACTS = (
    Act(
        title="Act 1: a training gang arrives in a full cluster",
        story=(
            "16 nodes with 8 GPUs each, every GPU taken. The gang train asks for",
            "8 workers with 4 GPUs each, all or nothing, at priority 1000. Serving",
            "runs at priority 2000, research at 100, leftovers at 10.",
        ),
        files=("cluster.yaml", "train.yaml"),
        scheduled=8,
        evicted=(
            *(f"default/batch-{i}" for i in (12, 13, 14, 15, 4, 5, 6, 7)),
            "default/eval-0",
            "default/eval-1",
            "default/nightly",
        ),
        lesson=(
            "nightly goes as a whole; sweep on the same nodes is more important and stays.",
            "eval makes way because the notebooks' budget allows no disruption.",
            "Of the batch pods those that started last go; the other half stays.",
        ),
    ),
    Act(
        title="Act 2: a gang that cannot fit",
        story=(
            "The gang giant asks for 13 whole nodes. Serving holds 4 of the 16 at a",
            "higher priority: even with everybody else gone there are only 12.",
        ),
        files=("cluster.yaml", "giant.yaml"),
        scheduled=0,
        evicted=(),
        lesson=("An eviction that would not help is not made: everybody keeps running.",),
    ),
)


def check(act: Act, answer: Answer) -> list[str]:
    """What came out other than expected, one line each; empty when all is as it must be."""
    placed = sum(1 for pod in answer.plan.pods if pod.outcome == "Scheduled")
    evicted = tuple(sorted({victim.unit for made in answer.plan.preemptions for victim in made.victims}))
    differences = []
    if placed != act.scheduled:
        differences.append(f"{placed} pods placed, expected {act.scheduled}")
    if evicted != act.evicted:
        differences.append(f"evicted: {', '.join(evicted) or 'nobody'}; expected: {', '.join(act.evicted) or 'nobody'}")
    return differences
