"""Feature gates (scheduling.md 6): `--feature-gates A=true,B=false`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields


class GateError(ValueError):
    """A gate that does not exist, cannot be turned on, or a value that is no boolean."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Every gate with its default. Names are the field's, in Kubernetes' spelling on the command line."""

    generic_workload: bool = True
    """Pod groups at all; off: pod-by-pod scheduling and preemption, `schedulingGroup` is ignored."""
    scheduler_async_preemption: bool = True
    opportunistic_batching: bool = True
    topology_aware_workload_scheduling: bool = True
    pod_group_preemption_policy: bool = True
    """The PodGroup's own preemptionPolicy counts; off: any member with Never makes the group Never."""
    composite_pod_group: bool = False

    @classmethod
    def parse(cls, text: str) -> "FeatureGates":
        """From `A=true,B=false`. Raises GateError naming the gate and what is allowed."""
        return cls.of(_pairs(text))

    @classmethod
    def of(cls, values: Mapping[str, bool]) -> "FeatureGates":
        """From Kubernetes' names. Raises GateError for an unknown one, or one that is not built yet."""
        chosen = {}
        for name, value in values.items():
            if name not in _FIELD_OF:
                raise GateError(f"unknown feature gate {name!r}; known: {', '.join(sorted(_FIELD_OF))}")
            if name == "CompositePodGroup" and value:
                raise GateError("feature gate CompositePodGroup cannot be turned on: not supported yet")
            chosen[_FIELD_OF[name]] = value
        return cls(**chosen)


_FIELD_OF = {"".join(part.capitalize() for part in f.name.split("_")): f.name for f in fields(FeatureGates)}


def _pairs(text: str) -> dict[str, bool]:
    pairs = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or value.lower() not in ("true", "false"):
            raise GateError(f"feature gate {part!r}: want NAME=true or NAME=false")
        pairs[name.strip()] = value.lower() == "true"
    return pairs
