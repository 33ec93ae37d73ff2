"""The instrument itself: what it delays, and what comes of it in a process that is started with it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.late_watches.sitecustomize import is_late, lagging


@pytest.mark.parametrize(
    ("late", "lags", "keeps_up"),
    [
        ("pods", "/api/v1/pods", "/api/v1/nodes"),
        ("pods,nodes", "/api/v1/nodes", "/apis/scheduling.k8s.io/v1beta1/podgroups"),
        ("all-but-pods", "/apis/scheduling.k8s.io/v1beta1/podgroups", "/api/v1/pods"),
    ],
)
def test_watches_that_lag(late: str, lags: str, keeps_up: str) -> None:
    assert is_late(lags, late)
    assert not is_late(keeps_up, late)


def test_events_come_later_and_in_order_and_all_of_them() -> None:
    async def watch(_client: Any, path: str, _query: Any, handle: Callable[[str], None]) -> None:
        for number in range(3):
            handle(f"{path} {number}")
            await asyncio.sleep(0)

    async def run() -> list[str]:
        heard: list[str] = []
        late = asyncio.create_task(lagging(watch, "pods", 0.05)(None, "pods", {}, heard.append))
        await lagging(watch, "pods", 0.05)(None, "nodes", {}, heard.append)
        await late
        return heard

    assert asyncio.run(run()) == [f"{kind} {number}" for kind in ("nodes", "pods") for number in range(3)]


@pytest.mark.parametrize("late", [True, False])
def test_process_that_is_started_with_it_has_it(late: bool) -> None:
    program = "from reprieve.client import informer, watch; print(informer.watch is watch.watch)"
    environment = {key: value for key, value in os.environ.items() if key != "LATE"}
    environment |= {"PYTHONPATH": str(Path(__file__).parent), **({"LATE": "pods"} if late else {})}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == f"{not late}\n"
