"""When nodes fail and come back: drawn by seed, or a list (replay.md 3.7).

Draws depend on the seed and the node's name alone, so that all policies of a run meet the same failures.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reprieve.replay.job_list import JobListError, SubmitTimes, csv_rows, shown

Outage = tuple[int, int | None]
"""(down, up) in milliseconds; up is None for a node that does not come back."""
_SHORTEST = 1000


@dataclass(frozen=True, slots=True)
class Failures:
    """Mean times in milliseconds, or outages by node in order of time."""

    mean_between: int = 0
    mean_repair: int = 0
    listed: Mapping[str, Sequence[Outage]] = field(default_factory=dict)

    def of(self, node: str, seed: int) -> Iterator[Outage]:
        """Yield the outages of a node, endless if random; times since the start of the replay."""
        yield from self.listed.get(node, ())
        if self.mean_between <= 0:
            return
        draw = random.Random(f"{seed}/{node}")
        at = 0
        while True:
            down = at + max(_SHORTEST, round(draw.expovariate(1 / self.mean_between)))
            at = down + max(_SHORTEST, round(draw.expovariate(1 / self.mean_repair)))
            yield down, at


def read_failures(path: Path, *, begin: int, dated: bool, faster: float = 1.0) -> Failures:
    """Return a list: CSV `node,down,up`, `up` empty for a node that stays away. Raises JobListError, OSError.

    Times are like those of the job list, with the first job submitted at `begin`.  Nodes fail `faster` times as fast
    (replay.md 1.4), but are down as long.
    """
    file = str(path)
    result: defaultdict[str, list[Outage]] = defaultdict(list)
    read = SubmitTimes(dated)
    header: list[str] | None = None
    for line, row in csv_rows(path):
        if header is None:
            header = [name.strip() for name in row]
            if header != ["node", "down", "up"]:
                raise JobListError(
                    file, line, "", f"expected the columns node,down,up, found {shown(','.join(header))}"
                )
            continue
        if len(row) != 3:
            raise JobListError(file, line, "", f"{len(row)} fields, the first line has 3")
        node = row[0].strip()
        times = []
        for column, text in (("down", row[1].strip()), ("up", row[2].strip())):
            try:
                times.append(read(text) - begin if text or column == "down" else None)
            except ValueError as error:
                raise JobListError(file, line, column, f"{error}, found {shown(text)}") from None
        down, up = times
        assert down is not None
        if up is not None and up <= down:
            raise JobListError(file, line, "up", "expected a time after down")
        before = result[node][-1:]
        if before and (before[0][1] is None or before[0][1] > down):
            raise JobListError(
                file, line, "down", f"{shown(node)} is down already then: expected them in order of time"
            )
        result[node].append((down, up))
    if header is None:
        raise JobListError(file, 1, "", "empty: expected the columns node,down,up")
    return Failures(listed={node: _moved(outages, faster) for node, outages in result.items()})


def _moved(outages: Sequence[Outage], faster: float) -> list[Outage]:
    """Outages as the replay has them, in milliseconds since it began.

    What was over before is no more; what lasts until then begins with it; what comes to overlap is one.
    """
    result: list[Outage] = []
    for was_down, was_up in outages:
        if was_up is not None and was_up <= 0:
            continue
        down = max(0, round(was_down / faster))
        up = None if was_up is None else down + was_up - max(0, was_down)
        if result and (result[-1][1] is None or result[-1][1] >= down):
            before, last = result[-1]
            result[-1] = (before, None if last is None or up is None else max(last, up))
        else:
            result.append((down, up))
    return result
