"""Decisions made by hand, for tests of what is reported of them."""

from __future__ import annotations

from typing import Any

from reprieve.cluster.pods import PodRecord
from reprieve.preemption.outcome import Preemption, Reason, Verdict
from reprieve.preemption.units import PreemptionUnit
from reprieve.scheduling.decision import Decision, Rejection, Result
from tests.building import START


def rejection(record: PodRecord, message: str = "no", reason: str = "Unschedulable") -> Rejection:
    return Rejection(record, reason, message)


def failed(*rejections: Rejection, key: str = "group/default/crew", **more: Any) -> Decision:
    return Decision(key, Result.UNSCHEDULABLE, rejections=rejections, **more)


def unit(*pods: PodRecord, name: str = "default/unit") -> PreemptionUnit:
    return PreemptionUnit(name, pods, tuple(one.row for one in pods), 1, False, None)


def evicting(
    preemptor: PodRecord, *evicted: PreemptionUnit, spared: tuple[PreemptionUnit, ...] = (), **more: Any
) -> Decision:
    """A pod makes room for itself; `more` of its preemption."""
    why = Reason(preemptor, 0, "NodeResourcesFit", "Insufficient cpu")
    verdicts = [Verdict(one, False, why) for one in evicted] + [Verdict(one, False, None) for one in spared]
    made = Preemption(
        **{
            "pod": preemptor,
            "group": None,
            "priority": 9,
            "domain": "n000",
            "nominations": ((preemptor, 0),),
            "verdicts": tuple(verdicts),
            **more,
        }
    )
    return Decision(
        f"pod/{preemptor.uid}", Result.WAITING, rejections=(rejection(preemptor),), preemption=made, queued_at=START
    )
