"""What a plan reports of its preemptions: victims, amounts, cost, spared pods (interfaces.md, cost.md 1)."""

from __future__ import annotations

from unittest import mock

import pytest

from reprieve.decisions.outcomes import PreemptionOutcome
from reprieve.simulation import report_preemptions
from reprieve.simulation.report import PlannedPreemption
from reprieve.simulation.report_preemptions import PreemptionLedger
from tests.building import World, gang, node, pdb, pod


def ledger(world: World, *, accounts: bool = True) -> PreemptionLedger:
    """The ledger of a world that has settled."""
    found = PreemptionLedger(world.virtual, accounts=accounts)
    world.virtual.keep = found.note
    world.settle()
    return found


def only(world: World) -> tuple[PreemptionOutcome, PlannedPreemption]:
    found = ledger(world)
    [outcome], [account] = found.outcomes, found.accounts
    return outcome, account


def test_report_of_a_preemption_by_a_pod() -> None:
    world = World(
        node("n1", cpu=4, memory="8Gi"),
        pod("low", cpu=3, memory="1Gi", node="n1", priority=1, start=-60),
        pod("kept", cpu=1, memory="1Gi", node="n1", priority=2, start=-30),
        pod("high", cpu=2, memory="1Gi", priority=9),
    )
    outcome, account = only(world)
    assert (outcome.preemptor.kind, outcome.preemptor.name, outcome.preemptor.priority) == ("Pod", "high", 9)
    assert (outcome.domain, outcome.nominations) == ("n1", {"default/high": "n1"})
    [victim] = outcome.victims
    assert (victim.namespace, victim.name, victim.pod_group, victim.node_name) == ("default", "low", None, "n1")
    assert (victim.priority, victim.unit, victim.violates_pdb) == (1, "default/low", False)
    assert victim.why is not None
    assert (victim.why.pod, victim.why.node_name, victim.why.missing) == ("default/high", "n1", {"cpu": "2"})
    assert (outcome.reprieved, outcome.pdb_violations) == (1, 0)
    assert (outcome.needed, outcome.freed) == ({"cpu": "2", "memory": "1Gi"}, {"cpu": "3", "memory": "1Gi"})
    assert list(outcome.needed) == ["cpu", "memory"], "the largest part of the cluster first"
    assert (account.outcome, account.at, account.free_before) == (outcome, 0.0, "")
    assert (account.protected, account.evicted_before) == (0, frozenset())
    assert (account.preemptor, account.priority, account.domain, account.candidates) == ("pod default/high", 9, "n1", 1)
    assert (account.nominations, account.cost_notes) == ((("default/high", "n1"),), ())
    assert [(one.unit, one.evicted, one.pods, bool(one.why)) for one in account.units] == [
        ("default/low", True, ("default/low",), True),
        ("default/kept", False, ("default/kept",), False),
    ]
    [low], [kept] = account.record.evicted, account.record.reprieved
    assert (low.unit, low.running_seconds) == ("default/low", 60.0)
    assert low.reason == "if it stayed, default/high would not fit on n1: Insufficient cpu (2 short)"
    assert (kept.unit, kept.running_seconds, kept.reason) == ("default/kept", 30.0, "")


def test_report_of_a_preemption_by_a_gang() -> None:
    """Nominations and the pods of a unit are sorted; a gang that is evicted as a whole is one unit."""
    world = World(
        *(node(f"n{i}", cpu=2) for i in range(3)),
        *gang("crew", 2, cpu=2, whole=True, priority=1)[:1],
        pod("crew-b", cpu=2, node="n1", group="crew", priority=1, uid="1"),
        pod("crew-a", cpu=2, node="n0", group="crew", priority=1, uid="2"),
        *gang("g", 2, cpu=2, priority=9),
        pod("safe", cpu=2, node="n2", priority=10),
    )
    outcome, account = only(world)
    assert (outcome.preemptor.kind, outcome.preemptor.name, outcome.domain) == ("PodGroup", "g", "cluster")
    assert list(outcome.nominations) == ["default/g-0", "default/g-1"]
    assert [(one.name, one.node_name, one.pod_group) for one in outcome.victims] == [
        ("crew-a", "n0", "crew"),
        ("crew-b", "n1", "crew"),
    ]
    assert {one.unit for one in outcome.victims} == {"default/crew"}
    [unit] = account.record.evicted
    assert (unit.unit, unit.kind, unit.nodes) == ("default/crew", "PodGroup", ("n0", "n1"))
    assert sorted(unit.pod_names) == ["default/crew-a", "default/crew-b"]
    assert (str(outcome.preemptor), unit.running_seconds) == ("podgroup default/g", None)


def test_budget_that_does_not_allow_it_is_counted() -> None:
    world = World(
        node("n1", cpu=2),
        pod("web", cpu=2, node="n1", labels={"app": "web"}),
        pdb("web", {"app": "web"}),
        pod("high", cpu=2, priority=9),
    )
    outcome, account = only(world)
    assert (outcome.pdb_violations, outcome.victims[0].violates_pdb) == (1, True)
    assert account.record.evicted[0].violates_pdb


@pytest.mark.parametrize(
    ("gpu", "cpu", "seconds", "hours"),
    [
        (4, 2, 3600, (4.0, 0.0)),
        (1, 1, 1800, (0.5, 0.0)),
        (0, 2, 3600, (0.0, 2.0)),
        (0, 3, 2, (0.0, 0.002)),
        (2, 0, 0, (0.0, 0.0)),
    ],
)
def test_lost_work_is_in_hours_of_requested_gpus_else_cpus(
    gpu: int, cpu: int, seconds: int, hours: tuple[float, float]
) -> None:
    """cost.md 1: GPUs, and the CPUs of pods without."""
    low = pod("low", cpu=cpu, gpu=gpu, memory=1, node="n1", start=-seconds)
    world = World(node("n1", cpu=9, gpu=4, memory=1), low, pod("high", memory=1, priority=9))
    outcome, _ = only(world)
    assert outcome.cost is not None
    assert (outcome.cost.lost_gpu_hours, outcome.cost.lost_cpu_hours) == hours
    assert (outcome.cost.decided_by, outcome.cost.values) == (None, ())


def test_without_accounts_there_are_outcomes_alone() -> None:
    world = World(node("n1", cpu=2), pod("low", cpu=2, node="n1"), pod("high", cpu=2, priority=9))
    found = ledger(world, accounts=False)
    assert (len(found.outcomes), found.accounts) == (1, [])


def crowd(spared: int) -> World:
    """Of so many pods on n1 one is evicted; the first of the others have a budget."""
    pods = [pod(f"p{i:02}", cpu=1, node="n1", priority=2, labels={"app": "a"} if i < 3 else {}) for i in range(spared)]
    return World(
        node("n1", cpu=spared + 1),
        pdb("b", {"app": "a"}),
        *pods,
        pod("low", cpu=1, node="n1", priority=1),
        pod("high", cpu=1, priority=9),
    )


@pytest.mark.parametrize(("in_all", "listed"), [(0, 2), (1, 5)])
def test_spared_units_are_listed_up_to_a_number_in_all(in_all: int, listed: int) -> None:
    """After that only the most important of each decision; the others are counted, and those that a budget protects."""
    with (
        mock.patch.object(report_preemptions, "_LISTED_IN_ALL", in_all),
        mock.patch.object(report_preemptions, "_LISTED_OF_EACH", 2),
    ):
        outcome, account = only(crowd(5))
    assert outcome.reprieved == 5
    assert len(account.record.reprieved) == listed
    assert [one.unit for one in account.record.evicted] == ["default/low"]
    assert (account.record.reprieved_total, account.protected) == (5, 3)


def test_terminating_victim_of_another_preemptor_is_marked() -> None:
    """Its capacity was taken by a more important preemptor before the victim had gone."""
    world = World(node("n1", cpu=2), pod("low", cpu=2, node="n1"), pod("high", cpu=2, priority=8))
    found = PreemptionLedger(world.virtual, accounts=True)
    world.virtual.keep = found.note
    world.drain()
    world.add(pod("higher", cpu=2, priority=9)).settle()
    assert [account.evicted_before for account in found.accounts] == [frozenset(), frozenset({"default/low"})]
    assert world.where == {"higher": "n1"}
