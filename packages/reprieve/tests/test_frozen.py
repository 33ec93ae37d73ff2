"""What was read is never changed afterwards: structs are frozen, but for those that are filled step by step."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import msgspec

import reprieve

FILLED = {
    "reprieve.cluster.pods": "a record follows its pod; the collector need not look at hundreds of thousands",
    "reprieve.client.leader_election": "a lease is written back with what it held",
    "kube_standin.controllers.views": "parts of a change, made in great numbers",
    "kube_standin.admission.priority": "parts of a body that are read and thrown away",
    "kube_standin.initial_owners": "parts of a body that are read and thrown away",
    "kube_standin.server.responses": "parts of a body that are read and thrown away",
    "kube_standin.storage.model": "parts of a body that are read and thrown away",
    "reprieve.decisions.records": "a record grows while it is decided",
    "reprieve.replay.traces.philly_log": "parts of a log that are read and thrown away",
}
"""Modules with structs that may change, and why."""


def structs() -> Iterator[type[msgspec.Struct]]:
    for module in pkgutil.walk_packages(reprieve.__path__, "reprieve."):
        if module.name in FILLED or module.name.endswith((".__main__", ".database.env")):  # run, not imported
            continue
        for found in vars(importlib.import_module(module.name)).values():
            if isinstance(found, type) and issubclass(found, msgspec.Struct) and found.__module__ == module.name:
                yield found


def test_what_was_read_does_not_change() -> None:
    found = list(structs())
    assert len(found) > 100, "they were looked at"
    assert [f"{kind.__module__}.{kind.__name__}" for kind in found if not kind.__struct_config__.frozen] == []
