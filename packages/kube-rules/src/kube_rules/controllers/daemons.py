"""Pods of a DaemonSet: their nodes, and their differences from the template.

Source: kube-controller-manager's daemon set controller (`NodeShouldRunDaemonPod`, `AddOrUpdateDaemonPodTolerations`,
`CreatePodTemplate`, `GetTargetNodeName`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from kube_rules.controllers.pods import CONTROLLER_REVISION_HASH, PodParts
from kube_rules.json import Json, mapping, text
from kube_rules.objects import Affinity, NodeSelector
from kube_rules.selectors import REQUIRED, CompiledNodeSelector, SelectorError, compile_node_selector
from kube_rules.taints import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
    covers,
)

_TOLERATED: Final = (
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoExecute"),
    (DISK_PRESSURE, "NoSchedule"),
    (MEMORY_PRESSURE, "NoSchedule"),
    (PID_PRESSURE, "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
)
_ON_HOST_NETWORK: Final = (NETWORK_UNAVAILABLE, "NoSchedule")
_GENERATION: Final = "deprecated.daemonset.template.generation"


def daemon_tolerations(spec: Mapping[str, Any]) -> list[Any]:
    """Return the tolerations of a pod spec with the tolerations that the controller adds.

    A toleration of the template that differs only in its seconds is replaced: daemons stay on failing nodes.
    """
    present = spec.get("tolerations")
    tolerations = list(present) if isinstance(present, list) else []
    for key, effect in (*_TOLERATED, *((_ON_HOST_NETWORK,) if spec.get("hostNetwork") is True else ())):
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        same = [number for number, toleration in enumerate(tolerations) if _without_seconds(toleration) == wanted]
        for number in same:
            tolerations[number] = wanted
        if not same:
            tolerations.append(wanted)
    return tolerations


def _without_seconds(toleration: object) -> Json:
    return {name: value for name, value in mapping(toleration).items() if name != "tolerationSeconds"}


class NodeVerdict(NamedTuple):
    """Whether a node should have a pod of the DaemonSet, and whether an existing pod may continue to run there."""

    should_run: bool
    may_continue: bool


class DaemonNodes:
    """Decides which nodes run pods of a spec.

    An invalid affinity excludes no node: admission refuses the pods.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._name = text(spec.get("nodeName"))
        self._labels = mapping(spec.get("nodeSelector"))
        self._tolerations = [mapping(toleration) for toleration in daemon_tolerations(spec)]
        self._selector: CompiledNodeSelector | None = None
        required = mapping(mapping(spec.get("affinity")).get("nodeAffinity")).get(REQUIRED)
        if required is not None:
            with suppress(msgspec.ValidationError, SelectorError):
                self._selector = compile_node_selector(msgspec.convert(required, NodeSelector))

    def verdict(self, name: str, labels: Mapping[str, str], taints: Iterable[tuple[str, str, str]]) -> NodeVerdict:
        """Return the verdict on a node; a taint is (key, value, effect)."""
        if self._name not in ("", name) or any(labels.get(key) != value for key, value in self._labels.items()):
            return NodeVerdict(False, False)
        if self._selector is not None and not self._selector.matches(labels, name):
            return NodeVerdict(False, False)
        effects = {
            taint[2] for taint in taints if not any(_covers(toleration, taint) for toleration in self._tolerations)
        }
        return NodeVerdict(not effects & {"NoSchedule", "NoExecute"}, "NoExecute" not in effects)


def _covers(toleration: Mapping[str, Any], taint: tuple[str, str, str]) -> bool:
    key, operator, value, effect = (text(toleration.get(name)) for name in ("key", "operator", "value", "effect"))
    return covers(key, operator, value, effect, taint)


def daemon_labels(daemon_set: Mapping[str, Any], digest: str) -> dict[str, str]:
    """Return the labels of the pods of a DaemonSet's template with this hash."""
    annotations = mapping(mapping(daemon_set.get("metadata")).get("annotations"))
    return {CONTROLLER_REVISION_HASH: digest, "pod-template-generation": text(annotations.get(_GENERATION)) or "1"}


def daemon_pod(name: str, node: str) -> PodParts:
    """Return the differences from the template for the pod of the DaemonSet `name` on a node."""
    return PodParts(f"{name}-", node=node)


def node_of(node_name: str, affinity: Affinity | None) -> str:
    """Return the node that a daemon's pod runs on or is pinned to, or ""."""
    node_affinity = affinity.node_affinity if affinity is not None else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity is not None else None
    if node_name or required is None:
        return node_name
    fields = (field for term in required.node_selector_terms for field in term.match_fields)
    return next((field.values[0] for field in fields if field.key == "metadata.name" and field.values), "")
