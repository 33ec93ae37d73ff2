"""`kube_rules.shared_parts`: equal parts of pods are one, and a pod with them is worth the same as one without."""

from __future__ import annotations

from typing import Any

import msgspec

from kube_rules import objects as o
from kube_rules.decoding import TypeMeta, from_json
from kube_rules.errors import Origin
from kube_rules.meta import EMPTY_MAP

TOLERATIONS = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]


def _pod(name: str, **spec: Any) -> tuple[o.Pod, o.Pod]:
    """Return a pod as it is read, and as the decoder alone makes it."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    meta = {"name": name, "namespace": "shop", "annotations": {}, "ownerReferences": [owner]}
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
