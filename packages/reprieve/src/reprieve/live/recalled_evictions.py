"""Evictions of before a restart, from the decision records: limits count them (cost.md 9.4), and moves go on.

A unit that was on its way to other nodes keeps its places there (moving.md 4.6).
"""

from datetime import datetime

from reprieve.cluster.evictions import EvictedUnit, EvictionHistory
from reprieve.decisions.records import DecisionRecord
from reprieve.observability.store import HistoryStore
from reprieve.scheduling.carried_moves import HOUR, CarriedMoves


async def recall(store: HistoryStore, history: EvictionHistory, now: float, moves: CarriedMoves | None = None) -> None:
    """Count the evictions of the records as far as a limit reaches back from now (seconds since the epoch).

    Raises sqlite3.Error where the records cannot be read.
    """
    longest = max(history.longest, HOUR if moves is not None and moves.on else 0.0)
    if longest > 0:
        for record in reversed(await store.evictions(now - longest)):
            _count(record, history, moves)


def _count(record: DecisionRecord, history: EvictionHistory, moves: CarriedMoves | None) -> None:
    made = record.preemption
    if made is None or made.state == "Failed":
        return
    when = datetime.fromisoformat(record.time).timestamp()
    for unit in made.evicted:
        if unit.moves_to and moves is not None:
            moves.recall(when, dict(zip(unit.pod_uids, unit.moves_to, strict=False)))
        if unit.owner:  # records of earlier versions do not state it
            start = when - unit.running_seconds if unit.running_seconds is not None else None
            uid = unit.pod_uids[0] if unit.pod_uids else unit.uid
            namespace = unit.unit.partition("/")[0]
            history.note(EvictedUnit(uid, namespace, unit.owner, unit.priority_class, start), when)
