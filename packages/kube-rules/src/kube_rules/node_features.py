"""Features that nodes declare, and the features that a pod's spec needs (KEP-5328).

A node lists in `status.declaredFeatures` which recent features its kubelet and runtime support. A pod's spec alone
determines which features it needs. The rules are those of the library that kube-scheduler, kube-apiserver and kubelet
share (component-helpers 1.37, nodedeclaredfeatures). Three of its nine features decide where a pod can run; the others
matter only to a resize or to clients of the kubelet.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kube_rules import objects


def _restarts_all(spec: objects.PodSpec) -> bool:
    for container in (*spec.containers, *spec.init_containers):
        for rule in container.restart_policy_rules:
            if rule.action == "RestartAllContainers":
                return True
    return False


def _bind_mount_options(spec: objects.PodSpec) -> bool:
    mounts = [item.volume_mounts for item in (*spec.containers, *spec.init_containers) if item.volume_mounts]
    mounts += [item.volume_mounts for item in spec.ephemeral_containers]
    return any(mount.bind_mount_options for container_mounts in mounts for mount in container_mounts)


NEEDS: Final[Mapping[str, Callable[[objects.PodSpec], bool]]] = {
    "RestartAllContainersOnContainerExits": _restarts_all,
    "UserNamespacesHostNetworkSupport": lambda spec: spec.host_network and spec.host_users is False,
    "VolumeBindMountOptions": _bind_mount_options,
}
"""Feature -> whether a pod with this spec can run only on nodes that declare it (devices.md 2.2)."""


def needed_features(spec: objects.PodSpec) -> tuple[str, ...]:
    """Return the features that a pod needs, sorted."""
    if len(spec.containers) == 1 and not (spec.init_containers or spec.ephemeral_containers or spec.host_network):
        container = spec.containers[0]
        if not (container.restart_policy_rules or container.volume_mounts):
            return ()
    return tuple(name for name, needs in NEEDS.items() if needs(spec))


_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9]*(/[A-Za-z0-9]+)*")
_LONGEST: Final = 253
_FORM: Final = (
    "invalid feature name: must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
    "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)


def declaration_errors(declared: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (index, problem) of a node's list: well formed names, sorted (devices.md 2.1); "" for a repeated name."""
    for index, name in enumerate(declared):
        if len(name) > _LONGEST:
            yield index, f"invalid feature name: must be no more than {_LONGEST} characters"
        elif _NAME.fullmatch(name) is None:
            yield index, _FORM
        if index and name == declared[index - 1]:
            yield index, ""
        elif index and name < declared[index - 1]:
            yield index, "list must be sorted alphabetically"


def decisive(declared: Iterable[str]) -> frozenset[str]:
    """Return the declared features that decide where pods can run."""
    return frozenset(NEEDS).intersection(declared)
