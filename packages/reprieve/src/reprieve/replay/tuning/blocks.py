"""Blocks of a trace, by weeks or by days: the first are for training, the last are held out (tune.md 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reprieve.decisions.phrases import count
from reprieve.replay.job_list import ReplayJob
from reprieve.replay.selection import ChosenJobs

DAY: Final = 86_400_000
WEEK: Final = 7 * DAY
_WEEKS: Final = 4
"""A trace of fewer weeks is split into days."""
MOST_BLOCKS: Final = 1000


@dataclass(frozen=True, slots=True)
class TraceBlock:
    """Jobs that arrive within one interval. `begin`: milliseconds since the first job of the trace."""

    begin: int
    chosen: ChosenJobs


@dataclass(frozen=True, slots=True)
class SplitTrace:
    """Blocks in order of time. `width`: milliseconds of a block."""

    width: int
    training: Sequence[TraceBlock]
    held_out: Sequence[TraceBlock]


def split(chosen: ChosenJobs, *, width: int | None, held_out: float) -> SplitTrace:
    """Return the blocks; of `held_out` of them, at least one, nothing is learnt. Raises ValueError.

    `width`: milliseconds of a block; None: a week, or a day where the trace has less than four weeks.
    """
    last = chosen.jobs[-1].submit
    if width is None:
        width = WEEK if last >= _WEEKS * WEEK else DAY
    if last // width + 1 > MOST_BLOCKS:
        raise ValueError(f"the trace has more than {MOST_BLOCKS} blocks of {span_text(width)}: choose a longer --block")
    by_number: dict[int, list[ReplayJob]] = {}
    for job in chosen.jobs:
        by_number.setdefault(job.submit // width, []).append(job)
    blocks = [_block(number * width, jobs) for number, jobs in sorted(by_number.items())]
    if len(blocks) < 2:
        raise ValueError(
            f"all jobs come within one block of {span_text(width)}: tuning learns from some blocks and is judged on "
            "others; give it a longer trace or a shorter --block"
        )
    count = min(len(blocks) - 1, max(1, round(held_out * len(blocks))))
    return SplitTrace(width, blocks[:-count], blocks[-count:])


def _block(begin: int, jobs: Sequence[ReplayJob]) -> TraceBlock:
    moved = [ReplayJob(job.name, job.submit - begin, job.work, job.shape, job.limit) for job in jobs]
    return TraceBlock(begin, ChosenJobs(moved, None, None, begin))


def span_text(width: int) -> str:
    """Return a length in milliseconds in words."""
    for size, unit in ((WEEK, "week"), (DAY, "day"), (3_600_000, "hour")):
        if width % size == 0:
            return count(width // size, unit)
    return f"{width / 1000:g} s"
