"""Pod groups at the door: the protection finalizer, and the reference to a Workload's template.

Rules: api.md "Workload and PodGroup"; recorded answers 439 to 446. The finalizer is taken off by
``controllers.groups`` once no unfinished pod references the group.
"""

from __future__ import annotations

from reprieve.controlplane.admission_chain import Request, Step

PROTECTION = "scheduling.k8s.io/podgroup-protection"
_WORKLOADS = "scheduling.k8s.io/workloads"


class PodGroupProtection(Step):
    """A new PodGroup carries the finalizer that keeps it while pods need it."""

    kinds = frozenset(("podgroups.scheduling.k8s.io",))

    def mutate(self, request: Request) -> None:
        """Add the finalizer on create."""
        if request.operation != "CREATE" or request.subresource:
            return
        finalizers = request.new["metadata"].setdefault("finalizers", [])
        if PROTECTION not in finalizers:
            finalizers.append(PROTECTION)


class PodGroupReference(Step):
    """A PodGroup that names a Workload's template needs both to exist (403); checked after validation (446)."""

    kinds = frozenset(("podgroups.scheduling.k8s.io",))

    def validate(self, request: Request) -> None:
        """Check the reference of a new group."""
        if request.operation != "CREATE" or request.subresource:
            return
        reference = (request.new.get("spec") or {}).get("workloadRef")
        if not reference:
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
