"""Admission of groups: protection finalizers, members of deleted groups, and references to Workloads.

Rules: api.md "Workload and PodGroup", composite.md 1; recorded answers 439 to 446. ``controllers.groups`` removes the
finalizers: a PodGroup's once no unfinished pod names it, a CompositePodGroup's once no group does.
"""

from __future__ import annotations

from kube_standin.admission_chain import AdmissionRequest, Step

PROTECTION = "scheduling.k8s.io/podgroup-protection"
COMPOSITE_PROTECTION = "scheduling.k8s.io/compositepodgroup-protection"
PARENT = "parentCompositePodGroupName"
"""The field of a group's spec that names its parent composite."""
_GROUPS, _COMPOSITES = "podgroups.scheduling.k8s.io", "compositepodgroups.scheduling.k8s.io"
GROUPS = frozenset((_GROUPS, _COMPOSITES))
_FINALIZERS = {_GROUPS: PROTECTION, _COMPOSITES: COMPOSITE_PROTECTION}
STORED_GROUPS = {"PodGroup": "scheduling.k8s.io/podgroups", "CompositePodGroup": "scheduling.k8s.io/compositepodgroups"}
_WORKLOADS = "scheduling.k8s.io/workloads"


class PodGroupProtection(Step):
    """Adds the protection finalizer to a new group, and refuses new members of a deleted group."""

    kinds = frozenset(("pods", _GROUPS, _COMPOSITES))

    def mutate(self, request: AdmissionRequest) -> None:
        """Add the finalizer to a new group."""
        protection = _FINALIZERS.get(request.kind.resource)
        if protection is None or not request.creates:
            return
        finalizers = request.new["metadata"].setdefault("finalizers", [])
        if protection not in finalizers:
            finalizers.append(protection)

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse (403) a new object in a group that is being deleted; a missing group is accepted."""
        if not request.creates:
            return
        spec = request.new.get("spec") or {}
        if request.kind.resource == "pods":
            above, name = "PodGroup", (spec.get("schedulingGroup") or {}).get("podGroupName")
        else:
            above, name = "CompositePodGroup", spec.get(PARENT)
        if not name:
            return
        state = request.registry.store.head(STORED_GROUPS[above], request.namespace, name)
        if state is not None and "deletionTimestamp" in state.decode()["metadata"]:
            raise request.refused(
                f'cannot create {request.kind.kind} referencing {above} "{name}" because it is being deleted'
            )


class PodGroupReference(Step):
    """Refuses (403) a PodGroup that names a missing Workload or template; checked after validation (446).

    Groups of a tree are not checked: they were added in Kubernetes 1.37, which no longer has this rule.
    """

    kinds = frozenset((_GROUPS,))

    def validate(self, request: AdmissionRequest) -> None:
        """Check the reference of a new group."""
        if not request.creates:
            return
        spec = request.new.get("spec") or {}
        reference = spec.get("workloadRef")
        if not reference or spec.get(PARENT):
            return
        workload, template = reference.get("workloadName", ""), reference.get("templateName", "")
        state = request.registry.store.head(_WORKLOADS, request.namespace, workload)
        if state is None:
            raise request.refused(f'PodGroup rejected: Workload "{workload}" not found')
        templates = (state.decode().get("spec") or {}).get("podGroupTemplates") or ()
        if all(entry.get("name") != template for entry in templates):
            raise request.refused(
                f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{workload}"'
            )
