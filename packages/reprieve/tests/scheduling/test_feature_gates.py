"""Feature gates (scheduling.md 6)."""

from __future__ import annotations

from dataclasses import fields

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
        ("AllAlpha=false", FeatureGates(pod_group_preemption_policy=False)),
        (
            "AllBeta=false",
            FeatureGates(
                composite_pod_group=False,
                scheduler_async_preemption=False,
                topology_aware_workload_scheduling=False,
                dra_workload_resource_claims=False,
                in_place_pod_vertical_scaling_scheduler_preemption=False,
            ),
        ),
        (
            "TopologyAwareWorkloadScheduling=true,AllBeta=false,CompositePodGroup=true",
            FeatureGates(
                scheduler_async_preemption=False,
                dra_workload_resource_claims=False,
                in_place_pod_vertical_scaling_scheduler_preemption=False,
            ),
        ),
        ("AllAlpha=true,AllBeta=true", FeatureGates()),
    ],
)
def test_gates(text: str, expected: FeatureGates) -> None:
    """scheduling.md 6; a named gate counts before the groups, wherever it stands."""
    assert FeatureGates.read(text) == (expected, [])


def test_gates_of_kube_scheduler_are_accepted_with_a_note() -> None:
    gates, notes = FeatureGates.read("GangScheduling=true,WorkloadAwarePreemption=true,DRAAdminAccess=false")
    assert gates == FeatureGates()
    assert notes[0] == "feature gate GangScheduling is kube-scheduler's; it changes nothing here"
    assert len(notes) == 3


def test_first_name_of_a_gate_is_read_with_a_note() -> None:
    """scheduling.md 6.3."""
    gates, notes = FeatureGates.read("SchedulerOpportunisticBatching=false")
    assert gates == FeatureGates(opportunistic_batching=False)
    [note] = notes
    assert note.startswith("feature gate SchedulerOpportunisticBatching is OpportunisticBatching")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Foo=true", "unknown feature gate 'Foo'; known: AllAlpha, AllBeta, Composite"),
        ("genericworkload=true", "unknown feature gate 'genericworkload'"),
        ("GenericWorkload", "expected NAME=true or NAME=false"),
        ("GenericWorkload=yes", "expected NAME=true or NAME=false"),
        ("GenericWorkload=tRue", "expected NAME=true or NAME=false"),
    ],
)
def test_gates_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(GateError, match=message):
        FeatureGates.read(text)


def test_without_generic_workload_groups_are_ignored() -> None:
    """scheduling.md 6: pod by pod; `schedulingGroup` is ignored."""
    items = [node("n1", cpu=1), *gang("g", 2, cpu=1)]
    assert World(*items).settle().where == {}
    off = FeatureGates(generic_workload=False)
    assert len(World(*items, gates=off).settle().where) == 1


NAMES = {
    "GenericWorkload": "generic_workload",
    "SchedulerAsyncPreemption": "scheduler_async_preemption",
    "OpportunisticBatching": "opportunistic_batching",
    "TopologyAwareWorkloadScheduling": "topology_aware_workload_scheduling",
    "PodGroupPreemptionPolicy": "pod_group_preemption_policy",
    "CompositePodGroup": "composite_pod_group",
    "DRAWorkloadResourceClaims": "dra_workload_resource_claims",
    "WorkloadWithJob": "workload_with_job",
    "DRADeviceTaintRules": "dra_device_taint_rules",
    "DRAExtendedResource": "dra_extended_resource",
    "NodeDeclaredFeatures": "node_declared_features",
    "VolumeLimitScaling": "volume_limit_scaling",
    "InPlacePodVerticalScalingSchedulerPreemption": "in_place_pod_vertical_scaling_scheduler_preemption",
}


def test_every_gate_is_on_unless_it_is_switched_off_by_its_name() -> None:
    """scheduling.md 6.3: the names as Kubernetes writes them; each switches itself and nothing else."""
    assert {field.name: getattr(FeatureGates(), field.name) for field in fields(FeatureGates)} == dict.fromkeys(
        NAMES.values(), True
    )
    for name, switched in NAMES.items():
        for gates in (FeatureGates.parse(f"{name}=false"), FeatureGates.of({name: False})):
            off = [field.name for field in fields(FeatureGates) if not getattr(gates, field.name)]
            assert off == [switched], name


@pytest.mark.parametrize("group", ["AllAlpha", "AllBeta"])
def test_gates_of_no_stage_are_not_switched_with_one(group: str) -> None:
    """What is finished in Kubernetes 1.38 is neither alpha nor beta."""
    gates = FeatureGates.parse(f"{group}=false")
    assert gates.generic_workload
    assert gates.opportunistic_batching
    assert gates.volume_limit_scaling
    assert gates.workload_with_job
    assert gates.dra_device_taint_rules
    assert gates.dra_extended_resource
    assert gates.node_declared_features


@pytest.mark.parametrize(
    ("texts", "value"),
    [(("1", "t", "T", "true", "TRUE", "True"), True), (("0", "f", "F", "false", "FALSE", "False"), False)],
)
def test_values_are_written_as_go_reads_them(texts: tuple[str, ...], value: bool) -> None:
    """strconv.ParseBool; blanks around names and values do not matter, the last of two values counts."""
    for text in texts:
        assert FeatureGates.parse(f"GenericWorkload={text}").generic_workload is value
        assert FeatureGates.parse(f" , GenericWorkload = {text} ,,").generic_workload is value
        assert FeatureGates.parse(f"GenericWorkload={not value},GenericWorkload={text}").generic_workload is value


def test_first_gate_that_is_kube_scheduler_s_does_not_hide_the_next() -> None:
    """Every one of them is noted, whatever stands between, and those that are ours take effect."""
    text = "AllBeta=true,DRAAdminAccess=true,GenericWorkload=false,SchedulerQueueingHints=true"
    gates, notes = FeatureGates.read(text)
    assert not gates.generic_workload
    assert [note.split()[2] for note in notes] == ["DRAAdminAccess", "SchedulerQueueingHints"]
    with pytest.raises(GateError, match="unknown feature gate 'Foo'"):
        FeatureGates.of({"AllAlpha": True, "Foo": True})
