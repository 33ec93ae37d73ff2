"""The shortest manifest of every kind that is served and stored: apiVersion/Kind -> the fields beside metadata."""

from __future__ import annotations

import base64
from typing import Any

import yaml

Json = dict[str, Any]

_PEM = "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n"
SIGNING_REQUEST = base64.b64encode(_PEM.encode()).decode()
"""The form of a request, with nothing in it."""
_TEMPLATE = "{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}"
_ONCE = _TEMPLATE.replace("containers:", "restartPolicy: Never, containers:")
_SELECTED = f"selector: {{matchLabels: {{a: b}}}}, template: {_TEMPLATE}"
_EVERYTHING = "{resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['CREATE'], resources: ['*']}]}"
_TEXT = f"""
v1/ConfigMap: {{}}
v1/Endpoints: {{}}
v1/Event: {{involvedObject: {{namespace: default}}}}
v1/LimitRange: {{}}
v1/Namespace: {{}}
v1/Node: {{}}
v1/PersistentVolume: {{spec: {{capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], hostPath: {{path: /x}}}}}}
v1/PersistentVolumeClaim: {{spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}}}
v1/Pod: {{spec: {{containers: [{{name: c, image: i}}]}}}}
v1/PodTemplate: {{template: {_TEMPLATE}}}
v1/ReplicationController: {{spec: {{selector: {{a: b}}, template: {_TEMPLATE}}}}}
v1/ResourceQuota: {{}}
v1/Secret: {{}}
v1/Service: {{spec: {{ports: [{{port: 80}}]}}}}
v1/ServiceAccount: {{}}
apps/v1/ControllerRevision: {{revision: 1, data: {{}}}}
apps/v1/DaemonSet: {{spec: {{{_SELECTED}}}}}
apps/v1/Deployment: {{spec: {{{_SELECTED}}}}}
apps/v1/ReplicaSet: {{spec: {{{_SELECTED}}}}}
apps/v1/StatefulSet: {{spec: {{serviceName: s, {_SELECTED}}}}}
autoscaling/v2/HorizontalPodAutoscaler: &scaled
  {{spec: {{maxReplicas: 3, scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: d}}}}}}
autoscaling/v1/HorizontalPodAutoscaler: *scaled
batch/v1/CronJob: {{spec: {{schedule: "@daily", jobTemplate: {{spec: {{template: {_ONCE}}}}}}}}}
batch/v1/Job: {{spec: {{template: {_ONCE}}}}}
scheduling.k8s.io/v1/PriorityClass: {{value: 7}}
scheduling.k8s.io/v1beta1/PodGroup: &group {{spec: {{schedulingPolicy: {{basic: {{}}}}}}}}
scheduling.k8s.io/v1beta1/Workload: &work
  {{spec: {{podGroupTemplates: [{{name: t, schedulingPolicy: {{basic: {{}}}}}}]}}}}
scheduling.k8s.io/v1/PodGroup: *group
scheduling.k8s.io/v1/Workload: *work
scheduling.k8s.io/v1alpha3/PodGroup: *group
scheduling.k8s.io/v1alpha3/Workload: *work
scheduling.k8s.io/v1beta1/CompositePodGroup: &tree
  spec: {{schedulingPolicy: {{basic: {{}}}}, workloadRef: {{workloadName: tree, templateName: t}}}}
scheduling.k8s.io/v1alpha3/CompositePodGroup: *tree
scheduling.k8s.io/v1alpha2/PodGroup: *group
scheduling.k8s.io/v1alpha2/Workload: *work
policy/v1/PodDisruptionBudget: {{spec: {{minAvailable: 1, selector: {{matchLabels: {{a: b}}}}}}}}
coordination.k8s.io/v1/Lease: {{}}
certificates.k8s.io/v1/CertificateSigningRequest:
  {{spec: {{request: {SIGNING_REQUEST}, signerName: example.com/s, usages: [client auth]}}}}
networking.k8s.io/v1/Ingress: {{spec: {{defaultBackend: {{service: {{name: s, port: {{number: 80}}}}}}}}}}
networking.k8s.io/v1/IngressClass: {{spec: {{controller: example.com/c}}}}
networking.k8s.io/v1/NetworkPolicy: {{}}
networking.k8s.io/v1/IPAddress: {{spec: {{parentRef: {{resource: services, namespace: default, name: s}}}}}}
networking.k8s.io/v1/ServiceCIDR: {{spec: {{cidrs: [10.1.0.0/16]}}}}
discovery.k8s.io/v1/EndpointSlice: {{addressType: IPv4, endpoints: []}}
events.k8s.io/v1/Event:
  eventTime: "2026-01-01T00:00:00.000000Z"
  reportingController: example.com/c
  reportingInstance: c-1
  action: A
  reason: R
  type: Normal
  regarding: {{namespace: default}}
storage.k8s.io/v1/CSIDriver: {{spec: {{}}}}
storage.k8s.io/v1/CSINode: {{spec: {{drivers: []}}}}
storage.k8s.io/v1/CSIStorageCapacity: {{storageClassName: s}}
storage.k8s.io/v1/StorageClass: {{provisioner: example.com/p}}
storage.k8s.io/v1/VolumeAttachment:
  {{spec: {{attacher: example.com, nodeName: n, source: {{persistentVolumeName: v}}}}}}
storage.k8s.io/v1/VolumeAttributesClass: &attributes {{driverName: example.com, parameters: {{a: b}}}}
storage.k8s.io/v1beta1/VolumeAttributesClass: *attributes
resource.k8s.io/v1/DeviceClass: &class {{spec: {{}}}}
resource.k8s.io/v1/DeviceTaintRule: &taint {{spec: {{taint: {{key: k, effect: NoSchedule}}}}}}
resource.k8s.io/v1/ResourceClaim: &claim
  {{spec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: d}}}}]}}}}}}
resource.k8s.io/v1/ResourceClaimTemplate: &template {{spec: *claim}}
resource.k8s.io/v1/ResourceSlice: &slice
  spec: {{driver: example.com, nodeName: n, pool: {{name: p, resourceSliceCount: 1}}, devices: [{{name: d}}]}}
resource.k8s.io/v1beta2/DeviceClass: *class
resource.k8s.io/v1beta2/DeviceTaintRule: *taint
resource.k8s.io/v1beta2/ResourceClaim: *claim
resource.k8s.io/v1beta2/ResourceClaimTemplate: *template
resource.k8s.io/v1beta2/ResourceSlice: *slice
node.k8s.io/v1/RuntimeClass: {{handler: runsc}}
admissionregistration.k8s.io/v1/MutatingWebhookConfiguration: {{}}
admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration: {{}}
apiregistration.k8s.io/v1/APIService:
  spec: {{version: v1, groupPriorityMinimum: 100, versionPriority: 100}}
flowcontrol.apiserver.k8s.io/v1/FlowSchema: &flow {{spec: {{priorityLevelConfiguration: {{name: system}}}}}}
flowcontrol.apiserver.k8s.io/v1beta3/FlowSchema: *flow
flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration: &level
  spec: {{type: Limited, limited: {{limitResponse: {{type: Reject}}}}}}
flowcontrol.apiserver.k8s.io/v1beta3/PriorityLevelConfiguration: *level
admissionregistration.k8s.io/v1/MutatingWebhookConfiguration: {{}}
admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration: {{}}
admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy: &vap
  spec:
    matchConstraints: {_EVERYTHING}
    validations: [{{expression: "true"}}]
admissionregistration.k8s.io/v1beta1/ValidatingAdmissionPolicy: *vap
admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding: &vapb
  spec: {{policyName: none, validationActions: [Deny]}}
admissionregistration.k8s.io/v1/MutatingAdmissionPolicy: &map
  spec:
    matchConstraints: {_EVERYTHING}
    reinvocationPolicy: Never
    mutations: [{{patchType: JSONPatch, jsonPatch: {{expression: "[JSONPatch{{}}]"}}}}]
admissionregistration.k8s.io/v1beta1/ValidatingAdmissionPolicyBinding: *vapb
admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy: *map
admissionregistration.k8s.io/v1/MutatingAdmissionPolicyBinding: &mapb {{spec: {{policyName: none}}}}
admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicyBinding: *mapb
rbac.authorization.k8s.io/v1/ClusterRole: {{rules: []}}
rbac.authorization.k8s.io/v1/ClusterRoleBinding:
  roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: empty}}
rbac.authorization.k8s.io/v1/Role: {{rules: []}}
rbac.authorization.k8s.io/v1/RoleBinding:
  roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: empty}}
"""
FIELDS: dict[str, Json] = yaml.safe_load(_TEXT)


def definition(name: str) -> Json:
    """The CustomResourceDefinition of that name: it has to agree with what it defines."""
    plural, _, group = name.partition(".")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
               "subresources": {"status": {}}}  # fmt: skip
    names = {"plural": plural, "kind": plural.capitalize(), "singular": plural, "listKind": f"{plural}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def manifest(api_version: str, kind: str, name: str) -> Json:
    """A manifest of that kind, whole."""
    if kind == "CustomResourceDefinition":
        return definition(f"{name}.example.com")
    fields = FIELDS.get(f"{api_version}/{kind}", {})
    if kind == "IPAddress":  # its name is what it is about
        name = f"10.0.{sum(name.encode()) % 256}.{len(name)}"
    if kind == "APIService":  # its name is its group version
        group = f"{name}.example.com"
        name, fields = f"v1.{group}", {"spec": {**fields["spec"], "group": group}}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}
