"""Evictions before a restart, from the decision records: limits count them (cost.md 9.4), and moves continue.

A unit that was being moved keeps its reserved places on the target nodes (moving.md 4.6).
"""

from datetime import datetime

from reprieve.cluster.evictions import EvictedUnit, EvictionHistory
from reprieve.decisions.records import DecisionRecord
from reprieve.observability.store import HistoryStore
from reprieve.scheduling.carried_moves import HOUR, CarriedMoves


async def recall(store: HistoryStore, history: EvictionHistory, now: float, moves: CarriedMoves | None = None) -> None:
    """Count the recorded evictions within the longest limit before now (seconds since the epoch).

    Raises sqlite3.Error if the records cannot be read.
    """
    longest = max(history.longest, HOUR if moves is not None and moves.enabled else 0.0)
    if longest > 0:
        for record in reversed(await store.evictions(now - longest)):
            _count(record, history, moves)


def _count(record: DecisionRecord, history: EvictionHistory, moves: CarriedMoves | None) -> None:
    preemption = record.preemption
    if preemption is None or preemption.state == "Failed":
        return
    when = datetime.fromisoformat(record.time).timestamp()
    for unit in preemption.evicted:
        if unit.moves_to and moves is not None:
            moves.recall(when, dict(zip(unit.pod_uids, unit.moves_to, strict=False)))
        if unit.owner:  # records of earlier versions do not have it
            start = when - unit.running_seconds if unit.running_seconds is not None else None
            uid = unit.pod_uids[0] if unit.pod_uids else unit.uid
            namespace = unit.unit.partition("/")[0]
            history.note(EvictedUnit(uid, namespace, unit.owner, unit.priority_class, start), when)
