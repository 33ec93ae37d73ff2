"""Feature gates (scheduling.md 6): `--feature-gates A=true,B=false`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields


class GateError(ValueError):
    """An unknown gate, or a value that is no boolean."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Every gate with its default. Each field is named after the gate in Kubernetes' spelling."""

    generic_workload: bool = True
    """Groups are scheduled and preempt as a whole. Off: groups are ignored, pods are scheduled one by one."""
    scheduler_async_preemption: bool = True
    """Evictions are carried out beside the scheduling cycle. Off: the cycle waits for them."""
    opportunistic_batching: bool = True
    """Identical pods share filter and score results. Off: each pod is evaluated alone, with the same decisions."""
    topology_aware_workload_scheduling: bool = True
    """Topology constraints of groups are enforced. Off: they are ignored."""
    pod_group_preemption_policy: bool = True
    """The PodGroup's own `preemptionPolicy` counts. Off: that of its members counts, which must agree."""
    composite_pod_group: bool = True
    """Trees of groups (composite.md). Off: CompositePodGroups are ignored, a PodGroup with a parent is flat."""
    dra_workload_resource_claims: bool = True
    """Device claims of a PodGroup (KEP-5729). Off: they are refused."""
    workload_with_job: bool = True
    """`Job.spec.scheduling` makes a Workload and a PodGroup (KEP-5547). Off: the embedded API drops the field."""
    dra_device_taint_rules: bool = True
    """DeviceTaintRules taint the devices they select (KEP-5055). Off: they are ignored."""
    dra_extended_resource: bool = True
    """Device classes serve extended resources (KEP-5004). Off: they serve none."""
    node_declared_features: bool = True
    """Pods run only on nodes that declare the features they need (KEP-5328). Off: declared features are ignored."""
    volume_limit_scaling: bool = True
    """`preventPodSchedulingIfMissing` of a CSIDriver counts (KEP-5030). Off: it is ignored."""
    in_place_pod_vertical_scaling_scheduler_preemption: bool = True
    """A deferred resize in place evicts pods of lower priority (KEP-5836). Off: it waits for free resources."""

    @classmethod
    def parse(cls, text: str) -> "FeatureGates":
        """Return the gates for `A=true,B=false`. Raises GateError with the gate and the known ones."""
        return cls.read(text)[0]

    @classmethod
    def read(cls, source: "str | Mapping[str, bool]") -> "tuple[FeatureGates, list[str]]":
        """Return the gates from text or by name, with a note for every kube-scheduler gate that has no effect here."""
        return cls._settled(_pairs(source) if isinstance(source, str) else source)

    @classmethod
    def of(cls, values: Mapping[str, bool]) -> "FeatureGates":
        """Return the gates by Kubernetes' names. Raises GateError for unknown names and for non-boolean values."""
        return cls._settled(values)[0]

    @classmethod
    def _settled(cls, values: Mapping[str, bool]) -> "tuple[FeatureGates, list[str]]":
        """Apply `AllAlpha` and `AllBeta` to gates of their stage that are not named; of two values the last counts."""
        if not isinstance(values, Mapping):
            raise GateError(
                f"{values!r:.100}: expected feature gates as text, A=true,B=false, or as a dict of booleans"
            )
        for name, value in values.items():
            if not isinstance(value, bool):
                raise GateError(f"feature gate {name!r}: expected True or False, not {value!r:.100}")
        chosen: dict[str, bool] = {}
        notes = []
        for group, members in _GROUPS.items():
            if group in values:
                chosen.update((_FIELD_OF[name], values[group]) for name in members)
        for spelling, value in values.items():
            name = _OTHER_NAMES.get(spelling, spelling)
            if name != spelling:
                notes.append(f"feature gate {spelling} is {name} in kube-scheduler; it is read as that")
            if name in _GROUPS:
                continue
            if name in _FIELD_OF:
                chosen[_FIELD_OF[name]] = value
            elif name in UPSTREAM:
                notes.append(f"feature gate {name} is kube-scheduler's; it changes nothing here")
            else:
                known_names = ", ".join(sorted([*_FIELD_OF, *_GROUPS]))
                raise GateError(f"unknown feature gate {name!r}; known: {known_names}")
        return cls(**chosen), notes


_FIELD_OF = {
    "".join(part.upper() if part == "dra" else part.capitalize() for part in f.name.split("_")): f.name
    for f in fields(FeatureGates)
}
_GROUPS = {
    "AllAlpha": ("PodGroupPreemptionPolicy",),
    "AllBeta": (
        "CompositePodGroup",
        "DRAWorkloadResourceClaims",
        "InPlacePodVerticalScalingSchedulerPreemption",
        "SchedulerAsyncPreemption",
        "TopologyAwareWorkloadScheduling",
    ),
}
"""Our gates by their stage in Kubernetes 1.38; gates that are stable there are in neither."""
_OTHER_NAMES = {
    "SchedulerOpportunisticBatching": "OpportunisticBatching",
    "SchedulerPreemptionForPodResize": "InPlacePodVerticalScalingSchedulerPreemption",
}
"""Names of gates in KEPs (KEP-5598, KEP-5836), and their names in kube-scheduler."""

UPSTREAM = frozenset(
    {
        "DRAAdminAccess",
        "DRAConsumableCapacity",
        "DRADerivedAttributes",
        "DRADeviceBindingConditions",
        "DRADeviceCompatibilityGroups",
        "DRADeviceTaints",
        "DRAFractionalCapacityRange",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAOptionalNodeOperations",
        "DRAPartitionableDevices",
        "DRAPrioritizedList",
        "DRAResourceClaimDeviceStatus",
        "DRASchedulerFilterTimeout",
        "DynamicResourceAllocation",
        "GangScheduling",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScaling",
        "InterPodAffinityHostnameFastPath",
        "MatchLabelKeysInPodTopologySpread",
        "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        "NodeInclusionPolicyInPodTopologySpread",
        "NominatedNodeNameForExpectation",
        "PodLevelResources",
        "SchedulerAsyncAPICalls",
        "SchedulerPopFromBackoffQ",
        "SchedulerPreQueueingHints",
        "SchedulerQueueingHints",
        "StorageCapacityScoring",
        "TaintTolerationComparisonOperators",
        "VolumeAttributesClass",
        "WorkloadAwarePreemption",
    }
)
"""Gates of kube-scheduler 1.35 to 1.37: command lines written for it are accepted (scheduling.md 6)."""


def _pairs(text: str) -> dict[str, bool]:
    pairs = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        chosen = _BOOLEANS.get(value.strip())
        if not equals or chosen is None:
            raise GateError(f"feature gate {part!r}: expected NAME=true or NAME=false")
        pairs[name.strip()] = chosen
    return pairs


_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
"""Booleans as Go reads them (strconv.ParseBool)."""
