"""Objectives, by which configurations are compared: a sum over blocks of a trace divided by another (tune.md 2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kube_rules.unknown_fields import did_you_mean, nearest
from reprieve.replay.job_list import Shape
from reprieve.replay.policy_run import PolicyOutcome
from reprieve.replay.statistics import JobRow

Measured = tuple[float, float]
"""(amount, divisor) of a block."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A lower value is better. The value over blocks is the sum of the amounts divided by the sum of the divisors."""

    name: str
    meaning: str
    unit: str
    """`h`: GPU-hours of a block; `s`: seconds of a job; empty: a number of a block."""
    measure: Callable[[PolicyOutcome], Measured]
    gangs: bool | None = None
    """True: only jobs with several workers count; False: only others."""

    def counts(self, shape: Shape) -> bool:
        """Return whether jobs of the shape count."""
        return self.gangs is None or self.gangs == (shape.workers > 1)


def _waited(rows: Sequence[JobRow], *, gangs: bool | None = None) -> Measured:
    chosen = [row.waiting for row in rows if gangs is None or (row.workers > 1) == gangs]
    return round(sum(chosen), 3), float(len(chosen))


def _slowdown(outcome: PolicyOutcome) -> Measured:
    slowdowns = [row.slowdown for row in outcome.rows if row.slowdown is not None]
    return round(sum(slowdowns), 4), float(len(slowdowns))


OBJECTIVES: Final[Sequence[Objective]] = (
    Objective("lost GPU-hours", "GPU-hours lost by evictions", "h", lambda o: (o.report.total.lost_gpu_hours, 1.0)),
    Objective(
        "lost and restart GPU-hours",
        "the same and those of restarts",
        "h",
        lambda o: (o.report.total.lost_gpu_hours + o.report.total.restart_gpu_hours, 1.0),
    ),
    Objective("evictions", "evicted units", "", lambda o: (float(o.report.evictions.units), 1.0)),
    Objective("wait", "mean waiting of all jobs", "s", lambda o: _waited(o.rows)),
    Objective(
        "wait of gangs",
        "mean waiting of jobs with several workers",
        "s",
        lambda o: _waited(o.rows, gangs=True),
        gangs=True,
    ),
    Objective(
        "wait of single pods",
        "mean waiting of jobs with one worker",
        "s",
        lambda o: _waited(o.rows, gangs=False),
        gangs=False,
    ),
    Objective("slowdown", "mean slowdown of the jobs that ended", "", _slowdown),
)
_BY_NAME: Final = {objective.name.lower(): objective for objective in OBJECTIVES}


def read_objectives(text: str) -> tuple[Objective, Objective]:
    """Return the two objectives that `A, B` names. Raises ValueError."""
    names = [" ".join(part.split()) for part in text.split(",")]
    for name in names:
        if name.lower() not in _BY_NAME:
            known = [objective.name for objective in OBJECTIVES]
            hint = did_you_mean(nearest(name, known))
            raise ValueError(f'no objective "{name[:64]}"{hint}; known: {", ".join(known)}')
    if len(names) != 2 or names[0].lower() == names[1].lower():
        raise ValueError("expected two different objectives, separated by a comma")
    return _BY_NAME[names[0].lower()], _BY_NAME[names[1].lower()]


def value_of(measured: Sequence[Measured]) -> float:
    """Return the value over blocks; 0 if nothing was counted."""
    divisor = sum(part for _, part in measured)
    return round(sum(amount for amount, _ in measured) / divisor, 6) if divisor else 0.0
