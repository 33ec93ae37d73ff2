"""Objects after changes: copies of nodes and pods, cordoned and failed nodes (whatif.md 4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.controllers.pods import MIRROR
from kube_rules.group_sources import pod_group_name
from kube_rules.labels import label_value_errors, qualified_name_errors
from kube_rules.manifests import Manifests
from kube_rules.meta import KubernetesObject
from kube_rules.objects import Taint
from kube_rules.taints import UNREACHABLE, UNSCHEDULABLE
from kube_rules.topology_terms import HOSTNAME
from reprieve.questions.pod_edits import LIFECYCLE
from reprieve.simulation.workloads.owners import is_active, reference_of

_FAILED: Final = tuple(Taint(key=UNREACHABLE, effect=effect) for effect in ("NoSchedule", "NoExecute"))
_ENDING: Final = re.compile(r"-(?:[a-z0-9]{5}|\d{5})$")


def label_problem(key: str, value: str) -> str:
    """Return why an API server would refuse the key or the value of a label or taint; empty if it would not."""
    problems = ((key, qualified_name_errors(key)), (value, label_value_errors(value)))
    return next((f'"{text}": {errors[0]}' for text, errors in problems if errors), "")


def waiting_like(pod: objects.Pod, used_names: set[tuple[str, str]], tried: dict[tuple[str, str], int]) -> objects.Pod:
    """Return the replacement that a controller creates for a removed pod: similar, pending, with a free name.

    A name with an ordinal is kept; five generated characters at the end of a name are replaced. `tried`: by namespace
    and prefix, the last number tried, so that each of many names takes constant time.
    """
    meta = pod.metadata
    name = meta.name
    if (pod.namespace, name) in used_names or _ENDING.search(name):
        base = f"{_ENDING.sub('', name)}-"[:58]
        number = tried.get((pod.namespace, base), 0)
        while (pod.namespace, f"{base}{number:05d}") in used_names or f"{base}{number:05d}" == name:
            number += 1
        tried[pod.namespace, base] = number
        name = f"{base}{number:05d}"
    spec = replace(pod.spec, node_name="")
    fresh = replace(meta, name=name, generate_name="", uid="", resource_version="", creation_timestamp=None)
    fresh = replace(fresh, deletion_timestamp=None, deletion_grace_period_seconds=None)
    return objects.Pod(metadata=fresh, spec=spec)


def copies_of_node(
    manifests: Manifests, model: objects.Node, name: str, makes_daemons: Callable[[objects.Pod], bool]
) -> list[KubernetesObject]:
    """Return a copy of a node, ready and schedulable, with its devices and the daemons that no DaemonSet creates."""
    labels = {**model.metadata.labels, **({HOSTNAME: name} if HOSTNAME in model.metadata.labels else {})}
    taints = tuple(taint for taint in model.spec.taints if not taint.key.startswith(LIFECYCLE))
    meta = replace(model.metadata, name=name, uid="", resource_version="", labels=labels, creation_timestamp=None)
    spec = replace(model.spec, unschedulable=False, taints=taints, provider_id="")
    ready = tuple(condition for condition in model.status.conditions if condition.type != "Ready")
    copies: list[KubernetesObject] = [
        replace(model, metadata=meta, spec=spec, status=replace(model.status, conditions=ready))
    ]
    drivers = (loaded.object for loaded in manifests.of(objects.CSINode) if loaded.object.name == model.name)
    copies += [replace(csi, metadata=replace(csi.metadata, name=name, uid="")) for csi in drivers]
    for item in (loaded.object for loaded in manifests.of(objects.ResourceSlice)):
        if item.spec.node_name == model.name:
            pool = replace(item.spec.pool, name=f"{item.spec.pool.name}-{name}")
            renamed = replace(item.metadata, name=f"{item.name}-{name}"[:253], uid="")
            copies.append(replace(item, metadata=renamed, spec=replace(item.spec, node_name=name, pool=pool)))
    for pod in (loaded.object for loaded in manifests.pods if loaded.object.spec.node_name == model.name):
        if _is_daemon(pod) and is_active(pod) and not makes_daemons(pod):
            renamed = replace(pod.metadata, name=f"{pod.name[:200]}-{name}"[:253], uid="", creation_timestamp=None)
            affinity = _pinned_to(pod.spec.affinity, name)
            copies.append(replace(pod, metadata=renamed, spec=replace(pod.spec, node_name=name, affinity=affinity)))
    return copies


def _pinned_to(affinity: objects.Affinity | None, name: str) -> objects.Affinity | None:
    """Return the affinity of a daemon pod for another node."""
    if affinity is None or affinity.node_affinity is None:
        return affinity
    requirement = objects.NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
    term = objects.NodeSelectorTerm(match_fields=(requirement,))
    selector = objects.NodeSelector(node_selector_terms=(term,))
    of_node = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=selector)
    return replace(affinity, node_affinity=of_node)


def cordoned(node: objects.Node) -> objects.Node:
    """Return the node as `kubectl cordon` leaves it."""
    taint = Taint(key=UNSCHEDULABLE, effect="NoSchedule")
    taints = (
        node.spec.taints if any(item.key == UNSCHEDULABLE for item in node.spec.taints) else (*node.spec.taints, taint)
    )
    return replace(node, spec=replace(node.spec, unschedulable=True, taints=taints))


def uncordoned(node: objects.Node) -> objects.Node:
    """Return the node as `kubectl uncordon` leaves it."""
    taints = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE)
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))


def failed(node: objects.Node) -> objects.Node:
    """Return the node as the node lifecycle controller marks it when its kubelet stops reporting."""
    conditions = tuple(condition for condition in node.status.conditions if condition.type != "Ready")
    ready = objects.NodeCondition(type="Ready", status="Unknown", reason="NodeStatusUnknown")
    taints = tuple(taint for taint in node.spec.taints if taint.key != UNREACHABLE)
    return replace(
        node,
        spec=replace(node.spec, taints=(*taints, *_FAILED)),
        status=replace(node.status, conditions=(*conditions, ready)),
    )


def _is_daemon(pod: objects.Pod) -> bool:
    reference = reference_of(pod)
    return reference is not None and reference.kind == "DaemonSet"


def stays(pod: objects.Pod) -> bool:
    """Return whether a drain leaves the pod on its node: a static or DaemonSet pod."""
    return _is_daemon(pod) or MIRROR in pod.metadata.annotations or _is_static(pod)


def empty_dirs(pod: objects.Pod) -> tuple[str, ...]:
    """Return the volumes of a pod that lose their data with it."""
    return tuple(volume.name for volume in pod.spec.volumes if volume.empty_dir is not None)


def kubectl_needs(pods: Sequence[objects.Pod]) -> tuple[str, ...]:
    """Return the flags that `kubectl drain` requires to evict these pods (whatif.md 4.4)."""
    going = [pod for pod in pods if not stays(pod)]
    needs = {
        "--force": any(reference_of(pod) is None for pod in going),
        "--ignore-daemonsets": any(_is_daemon(pod) for pod in pods),
        "--delete-emptydir-data": any(empty_dirs(pod) for pod in going),
    }
    return tuple(flag for flag, needed in needs.items() if needed)


def _is_static(pod: objects.Pod) -> bool:
    reference = reference_of(pod)
    return reference is not None and reference.kind == "Node"


def gang_sizes(manifests: Manifests) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the minimum and the number of pods with a node of every gang, by (namespace, name)."""
    bound: dict[tuple[str, str], int] = {}
    for loaded in manifests.pods if manifests.pod_groups else ():
        pod = loaded.object
        name = pod_group_name(pod)
        if name is not None and pod.spec.node_name and not pod.finished:
            key = (pod.namespace, name)
            bound[key] = bound.get(key, 0) + 1
    result = {}
    for group in (loaded.object for loaded in manifests.pod_groups):
        gang = group.spec.scheduling_policy.gang
        if gang is not None:
            key = (group.namespace, group.name)
            result[key] = (gang.min_count, bound.get(key, 0))
    return result
