"""Defaults of the kinds that run nothing themselves: nodes, namespaces, services, storage, devices,
policies.
"""

from __future__ import annotations

import base64

from reprieve.api.json import Json


def spec_only(obj: Json) -> None:
    """Kinds whose spec is always there."""
    obj.setdefault("spec", {})


def event(obj: Json) -> None:
    """Both groups of events: nothing to fill in."""


def namespace(obj: Json) -> None:
    """The label that carries the name."""
    obj.setdefault("spec", {})
    name = obj.get("metadata", {}).get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def new_namespace(obj: Json) -> None:
    """A new namespace is Active and held by the finalizer of the namespace controller."""
    finalizers = obj["spec"].get("finalizers", [])
    if "kubernetes" not in finalizers:
        obj["spec"]["finalizers"] = [*finalizers, "kubernetes"]
    obj["status"] = {"phase": "Active"}


_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def node(obj: Json) -> None:
    """A node: podCIDR and podCIDRs agree, allocatable is capacity unless said, empty status blocks."""
    spec = obj.setdefault("spec", {})
    if "podCIDR" in spec and spec.get("podCIDRs", [""])[0] != spec["podCIDR"]:
        spec["podCIDRs"] = [spec["podCIDR"]]
    elif "podCIDRs" in spec and "podCIDR" not in spec:
        spec["podCIDR"] = spec["podCIDRs"][0]
    status = obj.setdefault("status", {})
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {"Port": 0})
    info = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")


def service(obj: Json) -> None:
    """A service. Cluster addresses are not handed out here."""
    spec = obj.setdefault("spec", {})
    kind = spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if port.get("targetPort", 0) in (0, "") and "port" in port:
            port["targetPort"] = port["port"]
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")


def endpoints(obj: Json) -> None:
    """Ports are TCP."""
    for subset in obj.get("subsets", ()):
        for port in subset.get("ports", ()):
            port.setdefault("protocol", "TCP")


def endpoint_slice(obj: Json) -> None:
    """Ports are TCP and have a name, be it empty."""
    for port in obj.get("ports", ()):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def secret(obj: Json) -> None:
    """A secret is Opaque; `stringData` is written into `data`."""
    obj.setdefault("type", "Opaque")
    for key, value in obj.pop("stringData", {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def limit_range(obj: Json) -> None:
    """Container limits: default from max, default request from default and then from min."""
    obj.setdefault("spec", {})
    for item in obj["spec"].get("limits", ()):
        if item.get("type") == "Container":
            for source, target in (
                ("max", "default"),
                ("default", "defaultRequest"),
                ("min", "defaultRequest"),
            ):
                if item.get(source):
                    item[target] = {**item[source], **item.get(target, {})}


def persistent_volume(obj: Json) -> None:
    """A volume is kept and holds a file system."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def persistent_volume_claim(obj: Json) -> None:
    """A claim wants a file system."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("resources", {})
    spec.setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def pending(obj: Json) -> None:
    """New volumes and claims are Pending."""
    obj["status"] = {"phase": "Pending"}


def priority_class(obj: Json) -> None:
    """Pods of a class preempt unless it says Never."""
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    obj.setdefault("value", 0)


def pod_group(obj: Json) -> None:
    """A group is disrupted pod by pod unless it says otherwise (api.md, table of versions)."""
    spec = obj.setdefault("spec", {})
    if obj.get("apiVersion") == "scheduling.k8s.io/v1alpha2":
        spec.setdefault("disruptionMode", "Pod")
    else:
        spec.setdefault("disruptionMode", {"single": {}})


def new_disruption_budget(obj: Json) -> None:
    """Nothing may be disrupted until the disruption controller has looked."""
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    obj["status"] = dict.fromkeys(names, 0)


def storage_class(obj: Json) -> None:
    """Volumes are deleted with their claims and bound at once."""
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def csi_driver(obj: Json) -> None:
    """A driver attaches persistent volumes."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    for name in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(name, False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def resource_claim(obj: Json) -> None:
    """Requests for devices: one, counted exactly."""
    _claim_spec(obj.setdefault("spec", {}))


def resource_claim_template(obj: Json) -> None:
    """The claim inside a template."""
    _claim_spec(obj.setdefault("spec", {}).setdefault("spec", {}))


def _claim_spec(spec: Json) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        exact = [request["exactly"]] if "exactly" in request else []
        for wanted in [*exact, *request.get("firstAvailable", ())]:
            if wanted.setdefault("allocationMode", "ExactCount") == "ExactCount":
                wanted.setdefault("count", 1)
            for toleration in wanted.get("tolerations", ()):
                toleration.setdefault("operator", "Equal")


def role_binding(obj: Json) -> None:
    """Groups of subjects and of the role."""
    group = "rbac.authorization.k8s.io"
    obj.setdefault("roleRef", {}).setdefault("apiGroup", group)
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", group)


def custom_resource_definition(obj: Json) -> None:
    """Names that follow from the kind, and no conversion."""
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    conversion = spec.setdefault("conversion", {})
    conversion.setdefault("strategy", "None")


def new_custom_resource_definition(obj: Json) -> None:
    """A new definition has accepted no names yet."""
    stored = [v["name"] for v in obj["spec"].get("versions", ()) if v.get("storage") and "name" in v]
    obj["status"] = {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}
