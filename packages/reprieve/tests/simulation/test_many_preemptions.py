"""A plan with many preemptions holds no decision, only its report: memory is bounded."""

import gc

import pytest

from reprieve.cli.render import plan_sections
from reprieve.preemption.outcome import Preemption
from reprieve.python.builder import ClusterBuilder
from reprieve.simulation import report_preemptions
from reprieve.simulation.report import Answer
from reprieve.simulation.virtual import TimedPreemption


def planned(nodes: int = 12, preemptors: int = 4) -> Answer:
    cluster = ClusterBuilder()
    for i in range(nodes):
        cluster.add_node(f"n{i:02d}", {"cpu": 1})
        cluster.add_pod(f"low-{i:02d}", node=f"n{i:02d}", priority=1, requests={"cpu": 1})
    for g in range(preemptors):
        priority = 10 + preemptors - g  # of different priorities, they are planned one after the other
        cluster.add_group(f"g{g}", min_count=1, priority=priority)
        cluster.add_pod(f"g{g}-0", group=f"g{g}", priority=priority, requests={"cpu": 1})
    return cluster.plan()


def test_spared_units_that_are_not_listed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    in_full = planned()
    monkeypatch.setattr(report_preemptions, "_LISTED_IN_ALL", 12)
    monkeypatch.setattr(report_preemptions, "_LISTED_OF_EACH", 5)
    short = planned()
    assert short.plan.preemptions == in_full.plan.preemptions
    assert [len(made.record.reprieved) for made in in_full.account.preemptions] == [11, 11, 11, 11]
    assert [len(made.record.reprieved) for made in short.account.preemptions] == [11, 11, 5, 5]
    assert [made.record.reprieved_total for made in short.account.preemptions] == [11, 11, 11, 11]
    assert [made.outcome.preemptor.name for made in short.account.preemptions] == [f"g{g}" for g in range(4)]
    # What people read shows the first five and counts the rest; it is the same either way.
    assert plan_sections(short)[:-1] == plan_sections(in_full)[:-1]


def test_no_decision_outlives_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    before = sum(type(each) is Preemption for each in gc.get_objects())
    kept: list[int] = []
    note = report_preemptions.PreemptionLedger.note

    def counted(self: report_preemptions.PreemptionLedger, made: TimedPreemption) -> None:
        note(self, made)
        kept.append(sum(type(each) is Preemption for each in gc.get_objects()) - before)

    monkeypatch.setattr(report_preemptions.PreemptionLedger, "note", counted)
    planned()
    assert len(kept) == 4
    assert max(kept) == 1
