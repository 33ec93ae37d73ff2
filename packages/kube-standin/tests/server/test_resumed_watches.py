"""Writers, and watchers with selectors, cut and resumed at random: every change of a selection once, in order."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from tests.server.live import config_map
from tests.server.test_watching import MAPS, Client, client
from tests.waiting import DEADLINE

WRITERS, ROUNDS = 5, 30
SELECTORS = ("", "side=left", "side!=left", "side in (left,right)", "turn=end")


async def writer(c: Client, number: int, chance: random.Random) -> None:
    """Move one object in and out of the selections; now and then delete it and make it again."""
    name, there = f"w{number}", False
    for turn in range(ROUNDS):
        labels = {"side": chance.choice(["left", "right", "none"]), "turn": str(turn)}
        if not there:
            body = config_map(name)
            body["metadata"]["labels"] = labels
            await c.post(MAPS, body)
            there = True
        elif chance.random() < 0.2:
            async with c.session.delete(f"{c.server.url}{MAPS}/{name}") as answer:
                assert answer.status == 200
            there = False
        else:
            await c.patch(f"{MAPS}/{name}", {"metadata": {"labels": labels}})


async def watcher(c: Client, selector: str, since: str, chance: random.Random) -> list[tuple[str, str, int]]:
    """Watch until the object ``end`` shows, breaking the connection after a few events each time."""
    seen: list[tuple[str, str, int]] = []
    while True:
        left = chance.randrange(1, 12)
        query = {"watch": "true", "resourceVersion": since, "labelSelector": selector, "timeoutSeconds": "20"}
        async with c.session.get(c.server.url + MAPS, params=query) as answer:
            assert answer.status == 200
            async for line in answer.content:
                event = json.loads(line)
                metadata = event["object"]["metadata"]
                since = metadata["resourceVersion"]
                seen.append((event["type"], metadata["name"], int(since)))
                left -= 1
                if metadata["name"] == "end":
                    return seen
                if not left:
                    break
            answer.close()  # in the middle of the stream, whatever is still under way


def selected(selector: str, labels: dict[str, str]) -> bool:
    """What the selectors of this test mean, said again."""
    side = labels.get("side")
    return {
        "": True,
        "side=left": side == "left",
        "side!=left": side != "left",
        "side in (left,right)": side in ("left", "right"),
        "turn=end": labels.get("turn") == "end",
    }[selector]


@pytest.mark.parametrize("seed", range(3))
def test_cut_watcher_misses_nothing_and_sees_nothing_twice(seed: int) -> None:
    async def run() -> None:
        chance = random.Random(seed)
        async with client() as c, asyncio.timeout(DEADLINE):
            listing = await (await c.session.get(c.server.url + MAPS)).json()
            since = listing["metadata"]["resourceVersion"]
            everything = asyncio.create_task(c_all(c, since))
            tasks = [
                asyncio.create_task(watcher(c, selector, since, random.Random(chance.random())))
                for selector in SELECTORS
                for _ in range(2)
            ]
            await asyncio.gather(*(writer(c, number, random.Random(chance.random())) for number in range(WRITERS)))
            last = config_map("end")
            last["metadata"]["labels"] = {"side": "left", "turn": "end"}
            # It shows in every selection but one; taking its side away makes it show there too.
            await c.post(MAPS, last)
            await c.patch(f"{MAPS}/end", {"metadata": {"labels": {"side": None}}})
            history = await everything
            for index, seen in enumerate(await asyncio.gather(*tasks)):
                selector = SELECTORS[index // 2]
                wanted = expected(history, selector)
                assert seen == wanted[: len(seen)], selector
                assert seen[-1][1] == "end", selector
                assert all(name != "end" for _, name, _ in seen[:-1])

    asyncio.run(run())


async def c_all(c: Client, since: str) -> list[tuple[str, str, int, dict[str, str]]]:
    """Every change in one watch that is never cut, with labels, up to the last one of ``end``."""
    out: list[tuple[str, str, int, dict[str, str]]] = []
    async for event in c.watch(MAPS, f"resourceVersion={since}"):
        metadata = event["object"]["metadata"]
        out.append((event["type"], metadata["name"], int(metadata["resourceVersion"]), metadata.get("labels") or {}))
        if (event["type"], metadata["name"]) == ("MODIFIED", "end"):
            break
    return out


def expected(history: list[tuple[str, str, int, dict[str, str]]], selector: str) -> list[tuple[str, str, int]]:
    """What a watcher of a selection has to see of a history."""
    inside: set[str] = set()
    out: list[tuple[str, str, int]] = []
    for kind, name, revision, labels in history:
        before, after = name in inside, kind != "DELETED" and selected(selector, labels)
        if after:
            out.append(("MODIFIED" if before else "ADDED", name, revision))
            inside.add(name)
        elif before:
            out.append(("DELETED", name, revision))
            inside.discard(name)
    return out
