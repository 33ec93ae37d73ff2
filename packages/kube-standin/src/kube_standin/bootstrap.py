"""What every server has: its first namespaces and priority classes, and the admission steps that are always on."""

from __future__ import annotations

from kube_rules.foreign_groups import COSCHEDULING_VERSION, FOREIGN_VERSIONS
from kube_rules.json import Json
from kube_standin import errors
from kube_standin.admission.pods import NOT_READY, UNREACHABLE, tolerates_loss
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.errors import Cause
from kube_standin.registry import ObjectRegistry, WriteOptions

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
IMMORTAL = frozenset(("default", "kube-system", "kube-public"))
_SYSTEM_CLASSES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)


class NamespaceLifecycle(Step):
    """Nothing is created in a namespace that is missing or terminating; some namespaces may not be deleted."""

    def mutate(self, request: AdmissionRequest) -> None:
        """Check the namespace before anything else is done about a create."""
        if request.operation != "CREATE" or not request.kind.namespaced or not request.kind.stored:
            return
        state = request.registry.store.head("namespaces", "", request.namespace)
        if state is None:
            raise errors.not_found("namespaces", "", request.namespace)
        if b'"deletionTimestamp"' not in state.raw:
            return
        if state.decode()["metadata"].get("deletionTimestamp"):
            name = request.namespace
            cause = Cause("NamespaceTerminating", f"namespace {name} is being terminated", "metadata.namespace")
            why = f"unable to create new content in namespace {name} because it is being terminated"
            raise request.refused(why, [cause])

    def validate(self, request: AdmissionRequest) -> None:
        """Keep the namespaces the cluster cannot do without."""
        if request.operation == "DELETE" and request.kind.resource == "namespaces" and request.name in IMMORTAL:
            raise request.refused("this namespace may not be deleted")


class PodOverhead(Step):
    """Overhead is what a RuntimeClass adds; there are none here, so a pod may not state any (recorded 182).

    Overhead without a resource in it is stated as well. A pod may name a class all the same: they are not served, so
    no user could make the one that a kube-apiserver would ask for.
    """

    kinds = frozenset(("pods",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Refuse a new pod that states overhead; of one that is there, nothing is no overhead."""
        spec = request.new.get("spec", {})
        if request.operation != "CREATE" or request.subresource:
            if spec.get("overhead") == {}:
                del spec["overhead"]
            return
        if spec.get("overhead") is not None:
            why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise request.refused(why)


class KeptTolerations(Step):
    """The tolerations every pod got at its creation are put back if an update leaves them out (recorded 238, 261)."""

    kinds = frozenset(("pods",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Append what is missing of the two."""
        if request.operation != "UPDATE" or request.subresource or request.old is None:
            return
        spec = request.new.get("spec", {})
        present = spec.get("tolerations") or []
        lost = [
            toleration
            for toleration in request.old.get("spec", {}).get("tolerations") or []
            if toleration.get("key") in (NOT_READY, UNREACHABLE)
            and toleration.get("effect") == "NoExecute"
            and not any(tolerates_loss(one, toleration["key"]) for one in present)
        ]
        if lost:
            spec["tolerations"] = [*present, *lost]


class SystemClasses(Step):
    """The system priority classes may not be deleted."""

    kinds = frozenset(("priorityclasses.scheduling.k8s.io",))

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse their DELETE."""
        if request.operation == "DELETE" and request.name in {name for name, _, _ in _SYSTEM_CLASSES}:
            raise request.refused("this is a system priority class and cannot be deleted")


def base_steps() -> list[Step]:
    """Return the admission steps every server has, whatever plugins are on."""
    return [NamespaceLifecycle(), SystemClasses(), PodOverhead(), KeptTolerations()]


def ensure_base(registry: ObjectRegistry) -> None:
    """Stage the objects every cluster has; what exists is left as it is."""
    options = WriteOptions()
    namespace = registry.kind("v1", "Namespace")
    for name in NAMESPACES:
        if registry.head(namespace, "", name) is None:
            obj: Json = {"metadata": {"name": name}}
            registry.create_now(namespace, "", registry.decoder.decode(namespace, obj, "Ignore", []), options)
    classes = registry.kind("scheduling.k8s.io/v1", "PriorityClass")
    for name, value, description in reversed(_SYSTEM_CLASSES):
        if registry.head(classes, "", name) is None:
            obj = {"metadata": {"name": name}, "value": value, "description": description}
            registry.create_now(classes, "", registry.decoder.decode(classes, obj, "Ignore", []), options)


def foreign_definition(api_version: str) -> Json | None:
    """Return a definition of the PodGroup of another scheduler's API; None for any other version.

    A snapshot has such PodGroups without their definition (whatif.md 12.5).
    """
    if api_version not in FOREIGN_VERSIONS:
        return None
    group, _, version = api_version.partition("/")
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": kept, "status": kept}}
    served: Json = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if api_version == COSCHEDULING_VERSION:  # that of Volcano has no subresource
        served["subresources"] = {"status": {}}
    names = {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }
