"""Feature gates (scheduling.md 6)."""

from __future__ import annotations

import pytest

from reprieve.framework.gates import FeatureGates, GateError
from tests.building import World, gang, node


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", FeatureGates()),
        ("GenericWorkload=false", FeatureGates(generic_workload=False)),
        (
            "GenericWorkload=F, OpportunisticBatching=0",
            FeatureGates(generic_workload=False, opportunistic_batching=False),
        ),
        ("SchedulerAsyncPreemption=false", FeatureGates(scheduler_async_preemption=False)),
        (
            "AllAlpha=false",
            FeatureGates(
                topology_aware_workload_scheduling=False,
                pod_group_preemption_policy=False,
                composite_pod_group=False,
            ),
        ),
        (
            "TopologyAwareWorkloadScheduling=true,AllAlpha=false",
            FeatureGates(pod_group_preemption_policy=False, composite_pod_group=False),
        ),
        (
            "AllBeta=false",
            FeatureGates(
                generic_workload=False,
                scheduler_async_preemption=False,
                opportunistic_batching=False,
                dra_workload_resource_claims=False,
                volume_limit_scaling=False,
            ),
        ),
        (
            "AllBeta=false,GenericWorkload=true",
            FeatureGates(
                scheduler_async_preemption=False,
                opportunistic_batching=False,
                dra_workload_resource_claims=False,
                volume_limit_scaling=False,
            ),
        ),
        ("AllAlpha=true,AllBeta=true", FeatureGates()),
    ],
)
def test_gates(text: str, expected: FeatureGates) -> None:
    """scheduling.md 6; whoever is named counts before the groups, wherever it stands."""
    assert FeatureGates.read(text) == (expected, [])


def test_gates_of_kube_scheduler_are_accepted_with_a_note() -> None:
    gates, notes = FeatureGates.read("GangScheduling=true,WorkloadAwarePreemption=true,DRAAdminAccess=false")
    assert gates == FeatureGates()
    assert notes[0] == "feature gate GangScheduling is kube-scheduler's; it changes nothing here"
    assert len(notes) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Foo=true", "unknown feature gate 'Foo'; known: AllAlpha, AllBeta, Composite"),
        ("genericworkload=true", "unknown feature gate 'genericworkload'"),
        ("GenericWorkload", "want NAME=true or NAME=false"),
        ("GenericWorkload=yes", "want NAME=true or NAME=false"),
        ("GenericWorkload=tRue", "want NAME=true or NAME=false"),
    ],
)
def test_gates_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(GateError, match=message):
        FeatureGates.read(text)


def test_without_generic_workload_groups_are_not_looked_at() -> None:
    """scheduling.md 6: pod by pod; `schedulingGroup` is ignored."""
    items = [node("n1", cpu=1), *gang("g", 2, cpu=1)]
    assert World(*items).settle().where == {}
    off = FeatureGates(generic_workload=False)
    assert len(World(*items, gates=off).settle().where) == 1
