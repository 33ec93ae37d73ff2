"""Defaults of every kind but pods, and the initial status of objects (upstream: `pkg/apis/*/v1/defaults.go`)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from kube_rules import autoscalers
from kube_rules.admission.limit_ranges import complete_item
from kube_rules.controllers.jobs import job_labels
from kube_rules.defaults import pods
from kube_rules.defaults.rows import Fill, all_of, chosen, fill, holders
from kube_rules.json import Json
from kube_rules.meta import NAMESPACE_LABEL

_MAX_INT32 = 2**31 - 1
_RBAC = "rbac.authorization.k8s.io"
_WEBHOOKS = "admissionregistration.k8s.io"
_NODE_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip


# -- defaults beyond rows


def _namespace_label(obj: Json) -> None:
    """Set the label with the name of the namespace."""
    name = obj.get("metadata", {}).get("name")
    if name:
        obj["metadata"].setdefault("labels", {})[NAMESPACE_LABEL] = name


def _node_blocks(obj: Json) -> None:
    """Make podCIDR and podCIDRs agree; set allocatable to capacity by default."""
    spec, status = obj["spec"], obj["status"]
    if "podCIDR" in spec and spec.get("podCIDRs", [""])[0] != spec["podCIDR"]:
        spec["podCIDRs"] = [spec["podCIDR"]]
    elif "podCIDRs" in spec and "podCIDR" not in spec:
        spec["podCIDR"] = spec["podCIDRs"][0]
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def _service(obj: Json) -> None:
    """Set the defaults that depend on the type and the affinity; families and addresses depend on the cluster."""
    spec = obj["spec"]
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    if spec["sessionAffinity"] == "ClientIP":
        _CLIENT_SECONDS(spec)
    for port in spec.get("ports", ()):
        if port.get("targetPort", 0) in (0, "") and "port" in port:
            port["targetPort"] = port["port"]
    if spec["type"] in ("NodePort", "LoadBalancer") or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        _address_modes(obj)
    if spec["type"] != "ExternalName":
        _INTERNAL(spec)


_CLIENT_SECONDS = fill("sessionAffinityConfig.clientIP", timeoutSeconds=10800)


def _address_modes(obj: Json) -> None:
    """Set the mode of the addresses of a load balancer."""
    for address in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
        if address.get("ip"):
            address.setdefault("ipMode", "VIP")


_INTERNAL = fill(internalTrafficPolicy="Cluster")


def _string_data(obj: Json) -> None:
    for key, value in obj.pop("stringData", {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def _limits(obj: Json) -> None:
    """Set container limits: default from max, default request from default and then from min."""
    for item in obj["spec"].get("limits", ()):
        complete_item(item)


def _disruption_mode(obj: Json) -> None:
    """Disrupt the pods of a group individually by default (api.md, table of versions; composite.md 1)."""
    old = obj.get("apiVersion") == "scheduling.k8s.io/v1alpha2"
    obj["spec"].setdefault("disruptionMode", "Pod" if old else {"single": {}})


def _device_requests(spec: Json) -> None:
    """Set the count of device requests: one, exactly."""
    for place in ("devices?.requests[].exactly?", "devices?.requests[].firstAvailable[]"):
        for request in holders(spec, place.split(".")):
            _DEVICE_REQUEST(request)


_DEVICE_REQUEST = all_of(
    chosen("", "allocationMode", "ExactCount", fill(count=1)), fill("tolerations[]", operator="Equal")
)


def _subjects(obj: Json) -> None:
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or _RBAC


def _names(obj: Json) -> None:
    """Set names that follow from the kind."""
    names = obj["spec"]["names"]
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")


def _template_labels(obj: Json) -> None:
    """Give a ReplicationController and a Job the labels of their template."""
    labels = obj["spec"].get("template", {}).get("metadata", {}).get("labels")
    if labels:
        obj.setdefault("metadata", {}).setdefault("labels", dict(labels))


def _controller_selector(obj: Json) -> None:
    labels = obj["spec"].get("template", {}).get("metadata", {}).get("labels")
    if labels:
        obj["spec"].setdefault("selector", dict(labels))


def _template(obj: Json) -> None:
    pods.pod_template(obj["spec"].setdefault("template", {}))


def _claim_templates(obj: Json) -> None:
    for claim in obj["spec"].get("volumeClaimTemplates", ()):
        _CLAIM(claim)


def _job(obj: Json) -> None:
    """Set the defaults of a Job: one pod to completion, six retries."""
    spec = obj["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def _cron_template(obj: Json) -> None:
    pods.pod_template(obj["spec"]["jobTemplate"]["spec"].setdefault("template", {}))


# -- the tables

_SPEC = fill("spec")
_PENDING = fill("status", phase="Pending")
_FILE_SYSTEM = fill("spec", volumeMode="Filesystem")
_CLAIM = all_of(fill("spec.resources"), _FILE_SYSTEM, _PENDING)
_REPLICAS = (fill("spec", replicas=1), _template)
_HISTORY = fill("spec", revisionHistoryLimit=10)


def _match(place: str) -> Fill:
    return all_of(
        fill(place, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={}),
        fill(f"{place}.resourceRules[]", scope="*"),
        fill(f"{place}.excludeResourceRules[]", scope="*"),
    )


_POLICY = all_of(fill("spec", failurePolicy="Fail"), _match("spec.matchConstraints?"))
_POLICY_BINDING = all_of(_SPEC, fill("spec.paramRef?", parameterNotFoundAction="Deny"), _match("spec.matchResources?"))
_WEBHOOK = all_of(
    fill(
        "webhooks[]",
        failurePolicy="Fail",
        matchPolicy="Equivalent",
        namespaceSelector={},
        objectSelector={},
        timeoutSeconds=10,
    ),
    fill("webhooks[].rules[]", scope="*"),
    fill("webhooks[].clientConfig?.service?", port=443),
)


def _binding(obj: Json) -> None:
    """Set a missing or empty API group to that of RBAC."""
    role = obj.setdefault("roleRef", {})
    role["apiGroup"] = role.get("apiGroup") or _RBAC
    _subjects(obj)


def _rolling(strategy: str, **values: Any) -> Fill:
    return chosen(f"spec.{strategy}", "type", "RollingUpdate", fill("rollingUpdate", **values))


_SHARES = fill("spec.exempt?", nominalConcurrencyShares=0, lendablePercent=0)
_LIMITED = fill("spec.limited?", nominalConcurrencyShares=30, lendablePercent=0)
_QUEUING = "spec.limited?.limitResponse?.queuing?"


def _flow_schema(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


def _priority_level(obj: Json) -> None:
    _SPEC(obj)
    _SHARES(obj)
    _LIMITED(obj)
    for queuing in holders(obj, _QUEUING.split(".")):
        for name, value in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
            queuing[name] = queuing.get(name) or value


def _policy_types(obj: Json) -> None:
    """Set the directions of a NetworkPolicy: always incoming traffic, outgoing traffic if it has rules for it."""
    spec = obj["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _autoscaler(obj: Json) -> None:
    """Set metrics and the rules of a behavior; conversion sets those of v1."""
    spec = obj["spec"]
    if obj.get("apiVersion") == autoscalers.V1:
        return
    if not spec.get("metrics"):
        spec["metrics"] = autoscalers.default_metrics()
    behavior = spec.get("behavior")
    if behavior is not None:
        behavior["scaleUp"] = autoscalers.up_rules(behavior.get("scaleUp"))
        behavior["scaleDown"] = autoscalers.down_rules(behavior.get("scaleDown"))


DEFAULTS: Mapping[tuple[str, str], Fill] = {
    ("", "Pod"): pods.pod,
    ("", "PodTemplate"): lambda obj: pods.pod_template(obj.setdefault("template", {})),
    ("", "Namespace"): all_of(_SPEC, _namespace_label),
    ("", "Node"): all_of(
        fill("spec"),
        fill("status"),
        _node_blocks,
        fill("status.daemonEndpoints", kubeletEndpoint={"Port": 0}),
        fill("status.nodeInfo", **dict.fromkeys(_NODE_INFO, "")),
    ),
    ("", "Service"): all_of(
        fill("spec", type="ClusterIP", sessionAffinity="None"), fill("spec.ports[]", protocol="TCP"), _service
    ),
    ("", "Endpoints"): fill("subsets[].ports[]", protocol="TCP"),
    ("", "Secret"): all_of(fill(type="Opaque"), _string_data),
    ("", "LimitRange"): all_of(_SPEC, _limits),
    ("", "ResourceQuota"): _SPEC,
    ("", "PersistentVolume"): all_of(fill("spec", persistentVolumeReclaimPolicy="Retain"), _FILE_SYSTEM, _PENDING),
    ("", "PersistentVolumeClaim"): _CLAIM,
    ("", "ReplicationController"): all_of(_SPEC, _controller_selector, _template_labels, *_REPLICAS),
    ("apps", "ReplicaSet"): all_of(*_REPLICAS),
    ("apps", "Deployment"): all_of(
        *_REPLICAS,
        _rolling("strategy", maxUnavailable="25%", maxSurge="25%"),
        _HISTORY,
        fill("spec", progressDeadlineSeconds=600),
    ),
    ("apps", "StatefulSet"): all_of(
        *_REPLICAS,
        fill("spec", podManagementPolicy="OrderedReady", serviceName=""),
        _rolling("updateStrategy", partition=0, maxUnavailable=1),
        fill("spec.persistentVolumeClaimRetentionPolicy", whenDeleted="Retain", whenScaled="Retain"),
        _HISTORY,
        fill("spec.volumeClaimTemplates[]", apiVersion="v1", kind="PersistentVolumeClaim"),
        _claim_templates,
    ),
    ("apps", "DaemonSet"): all_of(_SPEC, _template, _rolling("updateStrategy", maxUnavailable=1, maxSurge=0), _HISTORY),
    ("batch", "Job"): all_of(
        _SPEC,
        _job,
        fill("spec", completionMode="NonIndexed", suspend=False, manualSelector=False),
        fill("spec.podFailurePolicy?.rules[].onPodConditions[]", status="True"),
        _template,
        _template_labels,
    ),
    ("batch", "CronJob"): all_of(
        fill("spec", concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1),
        fill("spec.jobTemplate.spec"),
        _cron_template,
    ),
    ("scheduling.k8s.io", "PriorityClass"): fill(preemptionPolicy="PreemptLowerPriority", value=0),
    ("scheduling.k8s.io", "PodGroup"): all_of(_SPEC, _disruption_mode),
    ("scheduling.k8s.io", "CompositePodGroup"): all_of(_SPEC, _disruption_mode),
    ("scheduling.k8s.io", "Workload"): _SPEC,
    ("policy", "PodDisruptionBudget"): _SPEC,
    ("storage.k8s.io", "StorageClass"): fill(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    ("storage.k8s.io", "CSIDriver"): fill(
        "spec",
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        requiresRepublish=False,
        seLinuxMount=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        volumeLifecycleModes=["Persistent"],
    ),
    ("storage.k8s.io", "CSINode"): _SPEC,
    ("resource.k8s.io", "ResourceClaim"): lambda obj: _device_requests(obj.setdefault("spec", {})),
    ("resource.k8s.io", "ResourceClaimTemplate"): all_of(
        fill("spec.spec"), lambda obj: _device_requests(obj["spec"]["spec"])
    ),
    ("resource.k8s.io", "DeviceClass"): _SPEC,
    ("coordination.k8s.io", "Lease"): _SPEC,
    ("autoscaling", "HorizontalPodAutoscaler"): all_of(fill("spec", minReplicas=1), _autoscaler),
    ("networking.k8s.io", "Ingress"): _SPEC,
    ("networking.k8s.io", "IngressClass"): all_of(_SPEC, fill("spec.parameters?", scope="Cluster")),
    ("networking.k8s.io", "NetworkPolicy"): all_of(
        fill("spec", podSelector={}),
        _policy_types,
        fill("spec.ingress[].ports[]", protocol="TCP"),
        fill("spec.egress[].ports[]", protocol="TCP"),
    ),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _flow_schema,
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): _priority_level,
    ("apiregistration.k8s.io", "APIService"): all_of(_SPEC, fill("spec.service?", port=443)),
    ("discovery.k8s.io", "EndpointSlice"): fill("ports[]", name="", protocol="TCP"),
    (_WEBHOOKS, "MutatingWebhookConfiguration"): all_of(_WEBHOOK, fill("webhooks[]", reinvocationPolicy="Never")),
    (_WEBHOOKS, "ValidatingWebhookConfiguration"): _WEBHOOK,
    (_WEBHOOKS, "ValidatingAdmissionPolicy"): _POLICY,
    (_WEBHOOKS, "MutatingAdmissionPolicy"): _POLICY,
    (_WEBHOOKS, "ValidatingAdmissionPolicyBinding"): _POLICY_BINDING,
    (_WEBHOOKS, "MutatingAdmissionPolicyBinding"): _POLICY_BINDING,
    (_RBAC, "RoleBinding"): _binding,
    (_RBAC, "ClusterRoleBinding"): _binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): all_of(
        fill("spec.names"),
        _names,
        fill("spec.conversion", strategy="None"),
        fill("spec.conversion.webhook?.clientConfig?.service?", port=443),
    ),
}
"""Kinds with defaults; other kinds have none."""


def _new_namespace(obj: Json) -> None:
    """Add the finalizer of the namespace controller to a new namespace."""
    finalizers = obj["spec"].get("finalizers", [])
    if "kubernetes" not in finalizers:
        obj["spec"]["finalizers"] = [*finalizers, "kubernetes"]


def _new_definition(obj: Json) -> None:
    """Set the status of a new definition: no accepted names yet."""
    stored = [v["name"] for v in obj["spec"].get("versions", ()) if v.get("storage") and "name" in v]
    obj["status"] = {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}


def _new_api_service(obj: Json) -> None:
    """Make an APIService without a Service available from the start."""
    if obj["spec"].get("service") is None:
        local = {"type": "Available", "status": "True", "reason": "Local"}
        obj["status"] = {"conditions": [{**local, "message": "Local APIServices are always available"}]}


FIRST_STATUS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("", "Namespace"): {"phase": "Active"},
    ("", "PersistentVolume"): {"phase": "Pending"},
    ("", "PersistentVolumeClaim"): {"phase": "Pending"},
    ("", "ReplicationController"): {"replicas": 0},
    ("", "ResourceQuota"): {},
    ("", "Service"): {"loadBalancer": {}},
    ("apps", "DaemonSet"): dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    ),
    ("apps", "Deployment"): {},
    ("apps", "ReplicaSet"): {"replicas": 0},
    ("apps", "StatefulSet"): {"replicas": 0, "availableReplicas": 0},
    ("batch", "CronJob"): {},
    ("batch", "Job"): {},
    # No disruptions are allowed before the first sync of the disruption controller.
    ("policy", "PodDisruptionBudget"): dict.fromkeys(
        ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0
    ),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): {},
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): {},
    ("apiregistration.k8s.io", "APIService"): {},
    ("autoscaling", "HorizontalPodAutoscaler"): {"currentMetrics": None, "desiredReplicas": 0},
    ("certificates.k8s.io", "CertificateSigningRequest"): {},
    ("networking.k8s.io", "Ingress"): {"loadBalancer": {}},
    ("networking.k8s.io", "ServiceCIDR"): {},
    ("resource.k8s.io", "DeviceTaintRule"): {},
    ("resource.k8s.io", "ResourceClaim"): {},
    ("scheduling.k8s.io", "PodGroup"): {},
    ("scheduling.k8s.io", "CompositePodGroup"): {},
}
"""The initial status of a new object; a status from the client is ignored."""
NEW: Mapping[tuple[str, str], Fill] = {
    ("", "Pod"): pods.new_pod,
    ("", "Namespace"): _new_namespace,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _new_definition,
    ("apiregistration.k8s.io", "APIService"): _new_api_service,
}
"""Further changes to a new object."""


def job_identity(obj: Json) -> None:
    """Set the selector and pod labels of a Job from its uid and name, unless `manualSelector` is set.

    A Job without labels gets the labels of its pods.
    """
    spec, meta = obj["spec"], obj["metadata"]
    _job_selector(spec, meta)
    if not meta.get("labels") and (labels := spec["template"].get("metadata", {}).get("labels")):
        meta["labels"] = dict(labels)


def _job_selector(spec: Json, meta: Json) -> None:
    if spec.get("manualSelector"):
        return
    template_labels = spec["template"]["metadata"].setdefault("labels", {})
    for key, value in job_labels(meta["name"], meta["uid"]).items():
        template_labels.setdefault(key, value)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = meta["uid"]
