"""kill -9 of a writing process: nothing acknowledged is missing, resourceVersions never go back.

A forked child writes and reports each settled write over a pipe; it is killed at a random moment, and the file is
opened again. ``REPRIEVE_CHAOS=full`` runs 1,000 rounds.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import struct
import time
from pathlib import Path
from typing import Any

from kube_standin.storage import SqliteLog, Store
from kube_standin.storage.store import StoreLimits

ROUNDS = 1000 if os.environ.get("REPRIEVE_CHAOS") == "full" else 40
LIMITS = StoreLimits(history_changes=500, history_bytes=200_000)
REPORT = struct.Struct("<II?")


def write_for_ever(path: Path, pipe: int, seed: int) -> None:
    """Child: four writers over 40 objects, some deletes; each settled write is reported as (object, revision,
    deleted)."""

    async def main() -> None:
        store = Store(SqliteLog(path), limits=LIMITS)

        async def writer(number: int) -> None:
            chance = random.Random(seed * 10 + number)
            while True:
                which = number * 10 + chance.randrange(10)
                name = f"n{which}"
                state = store.head("things", "", name)
                body: dict[str, Any] = {"metadata": {"name": name}, "pad": "x" * chance.randrange(2000)}
                deleted = state is not None and chance.random() < 0.1
                if state is not None and deleted:
                    written = store.delete(state)
                else:
                    written = store.put("things", "", name, body, state)
                await written.ticket.settled()
                os.write(pipe, REPORT.pack(which, written.state.revision, deleted))

        await asyncio.gather(*(writer(number) for number in range(4)))

    asyncio.run(main())


def one_round(path: Path, seed: int, acknowledged: dict[int, tuple[int, bool]]) -> int:
    """Fork, let it write for a moment, kill it, collect what it had reported; how many writes that were."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read_end)
            write_for_ever(path, write_end, seed)
        finally:
            os._exit(1)
    os.close(write_end)
    # The moment of death is what is being varied: by what has been reported, and a little.
    chance = random.Random(seed)
    data, least = b"", chance.randrange(40) * REPORT.size
    while len(data) < least and (chunk := os.read(read_end, 65536)):
        data += chunk
    time.sleep(chance.uniform(0.0, 0.005))
    os.kill(child, signal.SIGKILL)
    _, ending = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ending) == -signal.SIGKILL, f"round {seed}: ended by itself"
    while chunk := os.read(read_end, 65536):
        data += chunk
    os.close(read_end)
    for start in range(0, len(data) - REPORT.size + 1, REPORT.size):
        which, revision, deleted = REPORT.unpack_from(data, start)
        acknowledged[which] = (revision, deleted)
    return len(data) // REPORT.size


def deleted_later(store: Store, name: str, revision: int) -> bool:
    """Whether a write that was not reported any more took the object away."""
    events = store.subscribe("things", since=store.compacted).take()
    return any(e.type == "DELETED" and e.state.name == name and e.state.revision > revision for e in events)


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    acknowledged: dict[int, tuple[int, bool]] = {}
    highest = reported = 0
    for seed in range(ROUNDS):
        reported += one_round(path, seed, acknowledged)
        store = Store(SqliteLog(path), limits=LIMITS)
        assert store.revision >= max([highest, *(r for r, _ in acknowledged.values())]), f"round {seed}: went back"
        highest = store.revision
        for which, (revision, deleted) in acknowledged.items():
            state = store.get("things", "", f"n{which}")
            told = f"round {seed}: n{which}, acknowledged {'deletion' if deleted else 'write'} {revision}"
            if state is not None:
                assert state.revision >= revision, told
                assert not deleted or state.revision > revision, told
            elif not deleted:
                assert deleted_later(store, f"n{which}", revision), told
                acknowledged[which] = (revision, True)
        store.close()
    # Counted in writes, which each round waits for, so that a slow machine reaches the same.
    assert highest >= reported > ROUNDS * 5
