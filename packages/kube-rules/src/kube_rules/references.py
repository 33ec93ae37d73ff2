"""Rules between the objects of one input: duplicates, nodes of bound pods, groups that older servers admitted.

Invariant: every error names the origin of the invalid object.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from kube_rules.decoding import name_of
from kube_rules.errors import FieldError, InputError
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import LoadedObject
from kube_rules.meta import KubernetesObject
from kube_rules.objects import Pod, PodGroup
from kube_rules.validation.typed import validate


def refuse_duplicates(objects: Iterable[LoadedObject[KubernetesObject]]) -> None:
    """Raise `InputError` for the second object with the same kind, namespace and name."""
    seen: defaultdict[tuple[str, str, str], dict[str, LoadedObject[KubernetesObject]]] = defaultdict(dict)
    for loaded in objects:
        obj = loaded.object
        foreign = obj.foreign if isinstance(obj, PodGroup) else None
        version = foreign.api_version if foreign is not None else ""  # other APIs have their own names
        meta = obj.metadata
        first = seen[obj.KIND, version, meta.namespace].setdefault(meta.name, loaded)
        if first is not loaded:
            raise InputError(
                loaded.origin,
                f'Duplicate value: "{obj.name}": already defined in {first.origin}',
                path="metadata.name",
                subject=name_of(obj),
            )


def check_nodes(pods: Iterable[LoadedObject[Pod]], nodes: Collection[str]) -> None:
    """Raise `InputError` for a pod that is bound to a node not in `nodes`; finished pods may outlive their nodes."""
    for loaded in pods:
        node = loaded.object.spec.node_name
        if node and node not in nodes and not loaded.object.finished:
            raise InputError(
                loaded.origin,
                f'Invalid value: "{node}": no Node with this name is in the input',
                path="spec.nodeName",
                subject=name_of(loaded.object),
            )


def check_groups(groups: Iterable[LoadedObject[PodGroup]], pods: Iterable[LoadedObject[Pod]]) -> None:
    """Validate all groups except those that an API server has already admitted.

    An older version (1.36) allowed `all` with `basic`, and stored objects are not validated again. A group is stored if
    it has a UID, or if a pod that names it is bound or has a UID.
    """
    groups = list(groups)
    stored = {
        (loaded.object.namespace, pod_group_name(loaded.object))
        for loaded in (pods if groups else ())
        if loaded.object.spec.node_name or loaded.object.metadata.uid
    }
    for loaded in groups:
        group = loaded.object
        try:
            validate(group, stored_groups=bool(group.metadata.uid) or (group.namespace, group.name) in stored)
        except FieldError as error:
            raise InputError(loaded.origin, error.message, path=error.path, subject=name_of(group)) from None
