"""Pack the JSON definitions of the API objects that the embedded control plane serves.

Input: the wheel of the PyPI package `kubernetes-validate` (Apache-2.0), which carries the published
definitions of every Kubernetes API object per minor version. Output, beside `kube_rules.schema`:
`packed/structure.json.xz` with types, list types and keys, merge keys, group/version/kinds: all that decoding needs,
and no documentation texts (`kube_standin.field_texts` reads them from the package where it is installed).

Only the closure of the kinds in `ROOTS` is kept. Kinds that the newest version dropped but older clients
still use (`OLDER`) come from the version that still had them. The result is a function of the wheel alone.

    python tools/pack_schemas.py kubernetes_validate-1.37.0-py3-none-any.whl
"""

from __future__ import annotations

import json
import lzma
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "packages/kube-rules/src/kube_rules/schema/packed"
CURRENT = "1.37.0"

_KINDS: dict[str, str] = {
    "io.k8s.api.core.v1": """Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
        PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service
        ServiceAccount""",
    "io.k8s.api.admissionregistration.v1": """MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
        MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
        ValidatingWebhookConfiguration""",
    "io.k8s.api.apps.v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "io.k8s.api.batch.v1": "CronJob Job",
    "io.k8s.api.certificates.v1": "CertificateSigningRequest",
    "io.k8s.api.networking.v1": "IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR",
    "io.k8s.api.policy.v1": "Eviction PodDisruptionBudget",
    "io.k8s.api.scheduling.v1": "PriorityClass",
    "io.k8s.api.scheduling.v1beta1": "PodGroup Workload",
    "io.k8s.api.scheduling.v1alpha3": "CompositePodGroup PodGroup Workload",
    "io.k8s.api.storage.v1": """CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment
        VolumeAttributesClass""",
    "io.k8s.api.resource.v1": "DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice",
    "io.k8s.api.coordination.v1": "Lease",
    "io.k8s.api.discovery.v1": "EndpointSlice",
    "io.k8s.api.events.v1": "Event",
    "io.k8s.api.flowcontrol.v1": "FlowSchema PriorityLevelConfiguration",
    "io.k8s.api.node.v1": "RuntimeClass",
    "io.k8s.api.rbac.v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "io.k8s.api.autoscaling.v1": "HorizontalPodAutoscaler Scale",
    "io.k8s.api.autoscaling.v2": "HorizontalPodAutoscaler",
    "io.k8s.api.authorization.v1": """LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
        SubjectAccessReview""",
    "io.k8s.api.authentication.v1": "SelfSubjectReview TokenRequest TokenReview",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1": "CustomResourceDefinition",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1": "APIService",
    "io.k8s.apimachinery.pkg.apis.meta.v1": """APIGroup APIGroupList APIResourceList APIVersions DeleteOptions
        Status WatchEvent""",
    "io.k8s.apimachinery.pkg.version": "Info",
}
ROOTS = tuple(f"{package}.{kind}" for package, kinds in _KINDS.items() for kind in kinds.split())
OLDER: dict[str, tuple[str, ...]] = {
    "1.36.0": tuple(f"io.k8s.api.scheduling.v1alpha2.{k}" for k in ("Workload", "PodGroup")),
}
_REF = "#/$defs/"  # after the optional file name


def definitions(wheel: zipfile.ZipFile, version: str) -> dict[str, Any]:
    """All definitions of one Kubernetes version in the wheel, by their full name."""
    name = f"kubernetes_validate/kubernetes-json-schema/v{version}-local/_definitions.json"
    found: dict[str, Any] = json.loads(wheel.read(name))["$defs"]
    return found


def references(value: Any) -> Iterator[str]:
    """Full names of all definitions that `value` refers to."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref" and isinstance(inner, str):
                yield inner.rpartition(_REF)[2]
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def closure(every: dict[str, Any], roots: tuple[str, ...]) -> dict[str, Any]:
    """The definitions that `roots` (and their lists) reach."""
    kept: dict[str, Any] = {}
    todo = [name for root in roots for name in (root, root + "List") if name in every or name == root]
    while todo:
        name = todo.pop()
        if name not in kept:
            kept[name] = every[name]
            todo.extend(references(every[name]))
    return kept


def plain(value: Any) -> Any:
    """Undo what the package added for JSON Schema: null in types, absolute references, enums of
    apiVersion.
    """
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for key, inner in value.items():
        if key == "description" and isinstance(inner, str):
            continue
        if key == "$ref" and isinstance(inner, str):
            out[key] = inner.rpartition(_REF)[2]
        elif key == "type" and isinstance(inner, list):
            out[key] = next(name for name in inner if name != "null")
        elif key == "properties":
            out[key] = {name: plain(spec) for name, spec in inner.items()}
        elif key not in ("$schema", "$id"):
            out[key] = plain(inner)
    return out


def pack(wheel_path: Path) -> dict[str, Any]:
    """Structure of the closure, keyed by the full definition name."""
    with zipfile.ZipFile(wheel_path) as wheel:
        kept = closure(definitions(wheel, CURRENT), ROOTS)
        for version, roots in OLDER.items():
            for name, body in closure(definitions(wheel, version), roots).items():
                kept.setdefault(name, body)
    structure: dict[str, Any] = {}
    for name in sorted(kept):
        body = plain(kept[name])
        for field in ("apiVersion", "kind"):
            if "x-kubernetes-group-version-kind" in body:
                body.get("properties", {}).get(field, {}).pop("enum", None)
        structure[name] = body
    return structure


def write(path: Path, content: dict[str, Any]) -> int:
    """Write compressed, byte for byte the same for the same content; the size in bytes."""
    raw = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    packed = lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)
    path.write_bytes(packed)
    return len(packed)


def main() -> int:
    """Read the wheel named on the command line and write the packed file."""
    if len(sys.argv) != 2:
        print("usage: pack_schemas.py KUBERNETES_VALIDATE_WHEEL", file=sys.stderr)
        return 2
    structure = pack(Path(sys.argv[1]))
    TARGET.mkdir(parents=True, exist_ok=True)
    size = write(TARGET / "structure.json.xz", {"kubernetes": CURRENT, "definitions": structure})
    print(f"{len(structure)} definitions, {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
