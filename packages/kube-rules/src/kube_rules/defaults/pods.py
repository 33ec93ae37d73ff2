"""Defaults of pods and pod templates, and the status of a new pod."""

from __future__ import annotations

from kube_rules.admission import amounts
from kube_rules.json import Json

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_QOS_RESOURCES = ("cpu", "memory")


def pod(obj: Json) -> None:
    """Set the defaults of a pod: its spec, and requests where only limits are set."""
    pod_spec(obj.setdefault("spec", {}))
    if obj.get("status"):
        _addresses(obj["status"])


def _addresses(status: Json) -> None:
    """Make `podIP` and `podIPs` agree; if they differ, `podIP` wins (conversions of core/v1)."""
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def pod_template(template: Json) -> None:
    """Set the defaults of a controller's template. Requests do not default to limits here, but in the pod."""
    template.setdefault("metadata", {})
    pod_spec(template.setdefault("spec", {}), requests=False)


def pod_spec(spec: Json, *, requests: bool = True) -> None:
    """Set the defaults below `spec`; with `requests`, also the defaults that pods have and templates do not."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if requests:
        spec.setdefault("enableServiceLinks", True)
    host_network = requests and spec.get("hostNetwork") is True
    for name in _CONTAINER_LISTS:
        for container in spec.get(name, ()):
            _container(container)
            if requests and name != "ephemeralContainers":
                _requests_from_limits(container["resources"])
            if host_network:
                for port in container.get("ports", ()):
                    if "containerPort" in port and not port.get("hostPort"):
                        port["hostPort"] = port["containerPort"]
    if requests and (spec.get("resources") or {}).get("limits"):
        _requests_from_containers(spec)
        _requests_from_limits(spec["resources"])
    for volume in spec.get("volumes", ()):
        _volume(volume)


def _requests_from_containers(spec: Json) -> None:
    """Set missing pod-level requests to the sum of the containers, for a pod with pod-level limits (KEP-2837)."""
    parts: Json = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    requests = spec["resources"].get("requests", {})
    missing = {
        name: total.text
        for name, total in amounts.of_pod(parts, "requests").items()
        if name not in requests and name in _QOS_RESOURCES
    }
    if missing:
        spec["resources"]["requests"] = {**requests, **missing}


def _requests_from_limits(resources: Json) -> None:
    limits = resources.get("limits")
    if limits:
        requests = resources.get("requests", {})
        missing = {name: value for name, value in limits.items() if name not in requests}
        if missing:
            resources["requests"] = {**requests, **missing}


def _container(container: Json) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for env in container.get("env", ()):
        field = env.get("valueFrom", {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _probe(container[name])
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _http_get(hook["httpGet"])


def _pull_policy(image: str) -> str:
    """Return the pull policy: Always for the tag "latest"."""
    return "Always" if _tag(image) == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    """Return the tag of an image reference; "latest" without one, "" for a digest."""
    if "@" in image:
        return ""
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return tag if colon else "latest"


def _probe(probe: Json) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        _http_get(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _http_get(action: Json) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _volume(volume: Json) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        if name in volume:
            volume[name].setdefault("defaultMode", 420)
    for source in (volume, *volume.get("projected", {}).get("sources", ())):
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in source.get("downwardAPI", {}).get("items", ()):
            if "fieldRef" in item:
                item["fieldRef"].setdefault("apiVersion", "v1")
    image = volume.get("image")
    if image is not None:
        image.setdefault("pullPolicy", _pull_policy(image.get("reference", "")))
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if "iscsi" in volume:
        volume["iscsi"].setdefault("iscsiInterface", "default")
    claim = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if claim is not None:
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def new_pod(obj: Json) -> None:
    """Set the initial status of a pod: Pending, its quality of service, and the gate that holds it.

    Selectors of other pods get requirements from `matchLabelKeys` and `mismatchLabelKeys` (KEP-3633, KEP-3243).
    """
    _merge_label_keys(obj.get("spec", {}), obj.get("metadata", {}).get("labels", {}))
    status: Json = {"phase": "Pending"}
    if obj.get("spec", {}).get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    status["qosClass"] = qos_class(obj)
    obj["status"] = status


def _merge_label_keys(spec: Json, labels: Json) -> None:
    """Add a requirement to existing selectors for each key that is a label of the pod."""
    selecting: list[Json] = list(spec.get("topologySpreadConstraints") or ())
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        of_kind = affinity.get(kind) or {}
        preferred = of_kind.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        selecting += (term.get("podAffinityTerm") or {} for term in preferred)
        selecting += of_kind.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    for item in selecting:
        selector = item.get("labelSelector")
        if selector is None:
            continue
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in item.get(field) or ():
                if key in labels:
                    merged = {"key": key, "operator": operator, "values": [labels[key]]}
                    selector.setdefault("matchExpressions", []).append(merged)


def qos_class(obj: Json) -> str:
    """Return the quality of service of a pod: Guaranteed, Burstable or BestEffort.

    Guaranteed: every container (or the pod as a whole) limits cpu and memory and requests the same amounts.
    """
    spec = obj.get("spec", {})
    if "resources" in spec:
        units = [spec["resources"]]
    else:
        units = [c.get("resources", {}) for name in _CONTAINER_LISTS[:2] for c in spec.get(name, ())]
    any_request = False
    guaranteed = True
    for resources in units:
        limits = _counted(resources.get("limits", {}))
        requests = _counted(resources.get("requests", {}))
        any_request = any_request or bool(limits) or bool(requests)
        if len(limits) != len(_QOS_RESOURCES) or {**limits, **requests} != limits:
            guaranteed = False
    if not any_request:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _counted(amounts: Json) -> dict[str, str]:
    """Return cpu and memory if set and not zero (quantities are canonical here)."""
    return {name: amounts[name] for name in _QOS_RESOURCES if amounts.get(name, "0") != "0"}
