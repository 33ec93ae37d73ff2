"""A world that reports its decisions to an observer."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from reprieve.observability.logs import Log
from reprieve.observability.metrics import Metrics
from reprieve.observability.observer import Observer, Recorder
from reprieve.scheduling.decision import Decision
from tests.building import Item, World

TOOK = 0.003
"""Seconds that every attempt takes."""


class Observed:
    """A world, its observer, and what came of it."""

    def __init__(self, *items: Item | Sequence[Item], records: Recorder | None = None, **how: Any) -> None:
        self.world = World(**how)
        self.sent: list[dict[str, Any]] = []
        self.logged = io.StringIO()
        self.observer = Observer(
            metrics=Metrics(process=False),
            sink=self.sent.append,
            log=Log(4, stream=self.logged),
            records=records,
            instance="here",
        )
        self.observer.attach(self.world.engine)
        self.world.engine.after_step = self._decided
        self.world.add(*items)

    def _decided(self, decision: Decision) -> None:
        now = self.world.now
        self.observer.decided(decision, seconds=TOOK, now=now)
        for binding in decision.bindings:
            self.observer.bound(binding.pod, binding.node, now=now + 0.001)
        preemption = decision.preemption
        if preemption is not None:
            for verdict in preemption.victims:
                for pod in verdict.unit.pods:
                    self.observer.evicted(pod, preemption, now=now)
            self.observer.preemption_ended(preemption, seconds=0.02, error=None, now=now)

    def settle(self) -> Self:
        """Run until nothing changes."""
        self.world.settle()
        return self

    def events(self, reason: str) -> list[tuple[str, str, str]]:
        """(type, regarding, note) of the new events of that reason."""
        return [
            (body["type"], body["regarding"]["name"], body["note"])
            for body in self.sent
            if body["reason"] == reason and "series" not in body
        ]

    def samples(self) -> list[Sample]:
        """What a scrape answers, read as Prometheus reads it."""
        return read(self.observer.metrics)

    def value(self, name: str, **labels: str) -> float | None:
        """One sample, None if there is none."""
        return value(self.samples(), name, labels)


def read(metrics: Metrics) -> list[Sample]:
    """A scrape, parsed."""
    families = text_string_to_metric_families(metrics.render().decode())
    return [sample for family in families for sample in family.samples]


def value(samples: Sequence[Sample], name: str, labels: Mapping[str, str]) -> float | None:
    """One sample, None if there is none."""
    found = [s.value for s in samples if s.name == name and labels.items() <= s.labels.items()]
    assert len(found) <= 1, f"{name}{labels} is not one series"
    return found[0] if found else None
