"""Features that nodes declare, and what a pod's spec needs of them (KEP-5328).

A node lists in `status.declaredFeatures` what its kubelet and runtime can do of features that are not everywhere yet.
Which features a pod needs follows from its spec alone.  The rules are those of the library that kube-scheduler,
kube-apiserver and kubelet share (component-helpers 1.37, nodedeclaredfeatures): of the nine features registered there
three decide where a pod can run; the others matter only to a resize or to clients of the kubelet.
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
    return any(mount.bind_mount_options for each in mounts for mount in each)


NEEDS: Final[Mapping[str, Callable[[objects.PodSpec], bool]]] = {
    "RestartAllContainersOnContainerExits": _restarts_all,
    "UserNamespacesHostNetworkSupport": lambda spec: spec.host_network and spec.host_users is False,
    "VolumeBindMountOptions": _bind_mount_options,
}
"""Feature -> whether a pod with this spec can run only where it is declared (devices.md 2.2)."""


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
    """(place, what is wrong there) of a node's list: well formed names, sorted (devices.md 2.1); "": a name twice."""
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
    """Of what a node declares that which decides where pods can run."""
    return frozenset(NEEDS).intersection(declared)
