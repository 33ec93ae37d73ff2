"""`kube_rules.shared_parts`: equal parts of pods are one, and a pod with them is worth the same as one without."""

from __future__ import annotations

from typing import Any

import msgspec

from kube_rules import objects as o
from kube_rules.decoding import TypeMeta, from_json
from kube_rules.errors import Origin
from kube_rules.meta import EMPTY_MAP

TOLERATIONS = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]


def _pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> tuple[o.Pod, o.Pod]:
    """Return a pod as it is read, and as the decoder alone makes it."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    meta = {"name": name, "namespace": "shop", "annotations": {}, "ownerReferences": [owner], "labels": labels or {}}
    container = {"name": "main", "resources": {"limits": {}, "requests": {"cpu": "1"}}}
    filled = {"nodeName": "n1", "schedulerName": "other", "nodeSelector": {}, "containers": [container], **spec}
    text = msgspec.json.encode({"metadata": meta, "spec": filled})
    head = TypeMeta(api_version="v1", kind="Pod")
    return from_json(o.Pod, text, head, Origin()), msgspec.json.decode(text, type=o.Pod)


def _parts(pod: o.Pod) -> list[object]:
    meta, spec = pod.metadata, pod.spec
    named = [meta.namespace, spec.scheduler_name, spec.node_name, spec.containers[0].name]
    return [spec.tolerations, meta.owner_references, *named]


def test_equal_parts_are_one() -> None:
    """Tolerations, owners, names of schedulers, nodes and namespaces; empty maps are the one that cannot be filled."""
    first, plain = _pod("a", tolerations=TOLERATIONS)
    second, _ = _pod("b", tolerations=TOLERATIONS)
    assert first == plain
    for one, other in zip(_parts(first), _parts(second), strict=True):
        assert one is other
    for empty in (first.metadata.annotations, first.spec.node_selector, first.spec.containers[0].resources.limits):
        assert empty is EMPTY_MAP


def test_nodes_share_texts_and_have_one_map_of_equal_amounts() -> None:
    """Amounts, values of labels and conditions that occur again are one; a node is worth what the decoder makes."""

    def read(name: str) -> tuple[o.Node, o.Node]:
        amounts = {"cpu": "8", "memory": "32Gi"}
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": "east"}, "annotations": {}}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [condition]}
        text = msgspec.json.encode({"metadata": meta, "status": status})
        head = TypeMeta(api_version="v1", kind="Node")
        return from_json(o.Node, text, head, Origin()), msgspec.json.decode(text, type=o.Node)

    (first, plain), (second, _) = read("n1"), read("n2")
    assert first == plain
    assert first.status.allocatable is first.status.capacity
    assert first.metadata.labels["kubernetes.io/hostname"] is first.metadata.name
    assert first.metadata.annotations is EMPTY_MAP
    assert first.metadata.labels["zone"] is second.metadata.labels["zone"]
    assert first.status.capacity["memory"] is second.status.capacity["memory"]
    (one,), (other,) = first.status.conditions, second.status.conditions
    for name in ("type", "status", "reason", "message"):
        assert getattr(one, name) is getattr(other, name)


def _required(pod: o.Pod) -> o.NodeSelectorRequirement:
    affinity = pod.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    return required.node_selector_terms[0].match_expressions[0]


def _apart(pod: o.Pod) -> tuple[o.PodAffinityTerm, o.PodAffinityTerm]:
    affinity = pod.spec.affinity
    assert affinity is not None
    assert affinity.pod_anti_affinity is not None
    rules = affinity.pod_anti_affinity
    preferred = rules.preferred_during_scheduling_ignored_during_execution
    return rules.required_during_scheduling_ignored_during_execution[0], preferred[0].pod_affinity_term


def _unlike(weight: int, term: dict[str, Any]) -> dict[str, Any]:
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}],
        },
    }


def test_pods_that_differ_share_terms_and_texts() -> None:
    """Weights, names and amounts differ; terms, names of zones, values of labels, images and amounts that occur again
    are one.
    """
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    read = []
    for weight, name in enumerate(("a", "b"), 1):
        labels = {"app": "some-app", "name": name}
        resources = {"requests": {"cpu": "250m", "memory": f"{weight}Gi"}}
        containers = [{"name": "main", "image": "web:1", "resources": resources}]
        pod, plain = _pod(name, labels=labels, affinity=_unlike(weight, term), containers=containers)
        assert pod == plain
        read.append(pod)
    first, second = read
    assert first.metadata.labels["app"] is second.metadata.labels["app"]
    assert first.metadata.labels["name"] is first.metadata.name
    assert first.spec.containers[0].image is second.spec.containers[0].image
    assert first.spec.containers[0].resources.requests["cpu"] is second.spec.containers[0].resources.requests["cpu"]
    for one, other in zip(_required(first).values, _required(second).values, strict=True):
        assert one is other
    assert {id(term) for pod in read for term in _apart(pod)} == {id(_apart(first)[0])}


def test_long_terms_are_not_kept() -> None:
    """A long term stays in memory no longer than its pod."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "w" * 300}}}
    (first, plain), (second, _) = (_pod(name, affinity=_unlike(1, term)) for name in ("a", "b"))
    assert first == plain
    assert _apart(first)[0] is not _apart(second)[0]


def test_what_is_long_is_not_kept() -> None:
    """A long text that a user chose does not stay in memory longer than its pod."""
    for tolerations in ([{"key": "k" * 257, "operator": "Exists"}], TOLERATIONS * 9):
        (first, plain), (second, _) = _pod("a", tolerations=tolerations), _pod("b", tolerations=tolerations)
        assert first == plain
        assert first.spec.tolerations is not second.spec.tolerations


def test_pod_without_anything_leaves_the_defaults_alone() -> None:
    """The default spec is one object for all pods."""
    head = TypeMeta(api_version="v1", kind="Pod")
    assert from_json(o.Pod, b'{"metadata": {"name": "p"}}', head, Origin()) == o.Pod(metadata=o.ObjectMeta(name="p"))
    assert o.PodSpec() == o.Pod().spec


def test_spread_constraints_share_what_is_equal() -> None:
    """Equal constraints are one; of constraints and terms that differ otherwise, the selector and the key are one."""

    def constraints(skew: int, key: str) -> o.Pod:
        found: dict[str, Any] = {"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        found["labelSelector"] = {"matchLabels": {"app": "web"}}
        term = {"topologyKey": key, "labelSelector": found["labelSelector"]}
        anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        made, plain = _pod("a", topologySpreadConstraints=[found], affinity={"podAntiAffinity": anti})
        assert made == plain
        return made

    first, same, other = (constraints(*it).spec for it in ((1, "rack"), (1, "rack"), (2, "row")))
    assert first.topology_spread_constraints[0] is same.topology_spread_constraints[0]
    (one,), (differs,) = first.topology_spread_constraints, other.topology_spread_constraints
    assert one is not differs
    assert one.label_selector is differs.label_selector
    assert one.topology_key is differs.topology_key
    assert other.affinity is not None
    assert other.affinity.pod_anti_affinity is not None
    (term,) = other.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    assert term.label_selector is one.label_selector
