"""Watches that lag, for finding out what a test takes for granted: they keep no order among themselves.

Python imports a module of this name from PYTHONPATH as it starts, so it works in every process that a test starts:

    PYTHONPATH=tests/late_watches LATE=all-but-pods LATE_SECONDS=1 .venv/bin/pytest tests/e2e

`LATE` are resources (`pods,nodes`), or `all-but-` and resources. What the API server sends of them comes in order and
so many seconds later. A test that fails then, and only then, relies on one watch being as quick as another.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

WHERE = "reprieve.client.informer"
ALL_BUT = "all-but-"


def is_late(path: str, late: str) -> bool:
    """Whether the resource of a path lags."""
    names = late.removeprefix(ALL_BUT).split(",")
    return (path.rpartition("/")[2] in names) is not late.startswith(ALL_BUT)


def lagging(watch: Callable[..., Any], late: str, seconds: float) -> Callable[..., Any]:
    """The watch of `reprieve.client.watch` with events that are handed on later."""

    async def watch_late(
        client: Any, path: str, query: Mapping[str, str], handle: Callable[[Any], None], **more: Any
    ) -> None:
        if not is_late(path, late):
            await watch(client, path, query, handle, **more)
            return
        loop = asyncio.get_running_loop()
        coming: asyncio.Queue[tuple[float, Any] | None] = asyncio.Queue()

        async def hand_on() -> None:
            while (item := await coming.get()) is not None:
                due, event = item
                await asyncio.sleep(max(0.0, due - loop.time()))
                handle(event)

        handing = asyncio.create_task(hand_on())
        try:
            await watch(client, path, query, lambda event: coming.put_nowait((loop.time() + seconds, event)), **more)
            coming.put_nowait(None)
            await handing
        finally:
            handing.cancel()

    return watch_late


class Finder(MetaPathFinder):
    """Changes the module that watches as it is imported."""

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module as it is, and then its watch."""
        if name != WHERE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def changed(module: Any) -> None:
            execute(module)
            module.watch = lagging(module.watch, os.environ["LATE"], float(os.environ.get("LATE_SECONDS", "1")))

        spec.loader.exec_module = changed  # type: ignore[method-assign]
        return spec


if "LATE" in os.environ:
    sys.meta_path.insert(0, Finder())
