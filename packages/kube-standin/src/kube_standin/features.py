"""Optional features of the server, switched by the feature gates of kube-apiserver.

Without `GenericWorkload` the kinds Workload and PodGroup are not served (stored objects stay and reappear with the
gate), and `spec.schedulingGroup` of a new pod is dropped (KEP-5710, upgrade and rollback). Without `CompositePodGroup`
the same holds for that kind, and fields that define a tree are refused in new objects: a group's
`parentCompositePodGroupName`, a Workload's `compositePodGroupTemplates` (KEP-6012). Without `PodGroupPreemptionPolicy`
the field `preemptionPolicy` of new groups and templates is dropped, without `DRAWorkloadResourceClaims` their field
`resourceClaims` (KEP-5729). Without `DRADeviceTaintRules` the kind DeviceTaintRule is not served (KEP-5055). Without
`WorkloadWithJob` `spec.scheduling` of new Jobs, and in templates of new CronJobs, is dropped (KEP-5547).

`minor` selects the API of one Kubernetes release (`releases`); gates are on only for features of that release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kube_rules import field_errors as fe
from kube_rules.group_templates import COMPOSITES, templates
from kube_rules.json import Json
from kube_rules.versions import SCHEDULING_GROUP
from kube_standin import errors, releases
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.kinds import BUILTIN, ServedKind

_WORKLOAD_KINDS = frozenset(("PodGroup", "Workload", "CompositePodGroup"))
_COMPOSITE = "CompositePodGroup"


@dataclass(frozen=True)
class Features:
    """The gates, by kube-apiserver's names; all are on by default."""

    generic_workload: bool = True
    composite_pod_group: bool = True
    """Only effective with `generic_workload`."""
    pod_group_preemption_policy: bool = True
    dra_workload_resource_claims: bool = True
    dra_device_taint_rules: bool = True
    workload_with_job: bool = True
    """Only effective with `generic_workload`."""
    minor: int | None = releases.NEWEST
    """The served release (36 for 1.36); None serves all versions of all releases."""

    @property
    def in_force(self) -> Features:
        """Return the gates, limited to features of the release."""
        groups, policy = releases.GROUPS.at(self.minor), releases.GROUP_POLICY.at(self.minor)
        return replace(
            self,
            generic_workload=self.generic_workload and groups,
            dra_workload_resource_claims=self.dra_workload_resource_claims and groups,
            composite_pod_group=self.composite_pod_group and policy,
            pod_group_preemption_policy=self.pod_group_preemption_policy and policy,
            workload_with_job=self.workload_with_job and policy,
        )

    def kinds(self) -> Iterator[ServedKind]:
        """Yield the built-in kinds that are served."""
        off = _WORKLOAD_KINDS if not self.generic_workload else () if self.composite_pod_group else (_COMPOSITE,)
        for kind in BUILTIN:
            if kind.kind == "DeviceTaintRule" and not self.dra_device_taint_rules:
                continue
            if (kind.group != SCHEDULING_GROUP or kind.kind not in off) and releases.serves(self.minor, kind):
                yield releases.row_of(self.minor, kind)


EVERY_RELEASE = Features(minor=None)
"""Everything that any release serves, each kind in all of its versions."""


class DropDisabled(Step):
    """Removes fields of disabled features from new objects; objects that already have them keep them."""

    kinds = frozenset(
        (
            "pods",
            "jobs.batch",
            "cronjobs.batch",
            "statefulsets.apps",
            "podgroups.scheduling.k8s.io",
            "compositepodgroups.scheduling.k8s.io",
            "workloads.scheduling.k8s.io",
        )
    )

    def __init__(self, features: Features) -> None:
        self.gates = features
        """The requested gates."""
        self.features = features.in_force
        """The effective gates."""

    def emulate(self, minor: int | None) -> None:
        """Switch to another release, with the requested gates."""
        self.gates = replace(self.gates, minor=minor)
        self.features = self.gates.in_force

    def mutate(self, request: AdmissionRequest) -> None:
        """Drop the fields; this is the last mutating step, because others fill in some of them."""
        if request.subresource == "status" and request.kind.resource.startswith("podgroups."):
            self._claims_made(request)
        if request.kind.resource == "statefulsets.apps":
            self._unavailable(request)
        if not request.creates:
            return
        spec = request.new.get("spec") or {}
        if request.kind.resource == "pods":
            if not self.features.generic_workload:
                spec.pop("schedulingGroup", None)
            return
        if request.kind.group == "batch":
            if not (self.features.workload_with_job and self.features.generic_workload):
                template = (spec.get("jobTemplate") or {}).get("spec") or {}
                for holder in (spec, template):
                    holder.pop("scheduling", None)
            return
        off = {
            "preemptionPolicy": not self.features.pod_group_preemption_policy,
            "resourceClaims": not self.features.dra_workload_resource_claims,
        }
        for holder in (spec, *(entry.holder for entry in templates(spec))):
            for name in filter(off.__getitem__, off):
                holder.pop(name, None)

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse (422) new trees if they are disabled; stored ones may stay (composite.md 1)."""
        if self.features.composite_pod_group or not request.creates:
            return
        spec = request.new.get("spec") or {}
        for name in ("parentCompositePodGroupName", COMPOSITES):
            if spec.get(name):
                refusal = fe.forbidden(f"spec.{name}", "the feature gate CompositePodGroup is off")
                raise errors.unfit(request.kind.kind, request.kind.group, request.name, refusal)

    def _unavailable(self, request: AdmissionRequest) -> None:
        """Drop the maximum of unavailable pods of a set without the feature, unless it is already set."""
        name = "maxUnavailable"
        if not releases.SET_UNAVAILABLE.at(self.features.minor) and name not in _rolling(request.old or {}):
            _rolling(request.new).pop(name, None)

    def _claims_made(self, request: AdmissionRequest) -> None:
        """Drop the claims of a group's status without the feature, unless they are already set."""
        if self.features.dra_workload_resource_claims:
            return
        before = ((request.old or {}).get("status") or {}).get("resourceClaimStatuses")
        if not before:
            (request.new.get("status") or {}).pop("resourceClaimStatuses", None)


def _rolling(stateful_set: Json) -> Json:
    strategy = (stateful_set.get("spec") or {}).get("updateStrategy") or {}
    return strategy.get("rollingUpdate") or {}
