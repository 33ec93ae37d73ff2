"""Pseudonyms for the names in anonymous snapshots.

Terms: a domain is a set of names of the same kind of object (nodes, namespaces, label values, ...). Within it a name
always has the same pseudonym, wherever it is used.

Invariants: pseudonyms sort as the names do, because ties are broken by name and a plan must not change; the same
cluster gives the same pseudonyms. There are two passes: names are collected while `frozen` is False, and replaced
after.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from kube_rules.group_sources import GROUP_LABELS
from kube_rules.meta import NAMESPACE_LABEL
from kube_rules.topology_terms import INDEXES
from reprieve.client.public_words import DRIVERS, KEYS, PLATFORMS, is_public, is_public_resource

NODE: Final = "node"
NAMESPACE: Final = "namespace"
UID: Final = "uid"
LABEL: Final = "label"
VALUE: Final = "value"
IMAGE: Final = "image"
GROUP: Final = "podgroup"
ADDRESS: Final = "address"

POD: Final = "pod"
CLAIM: Final = "claim"
VOLUME: Final = "volume"
DISK: Final = "disk"
CLASS: Final = "storageclass"
PRIORITY: Final = "priorityclass"
CONTAINER: Final = "container"
COMPOSITE: Final = "compositepodgroup"
DEVICE_CLAIM: Final = "deviceclaim"
DEVICE_CLASS: Final = "deviceclass"
TASK: Final = "task"
TEXT: Final = "text"
RESOURCE: Final = "resource"
GPU: Final = "gpu"
DRIVER: Final = "csidriver"

_DOMAINS: Final[Mapping[str, str]] = {
    "Pod": POD,
    "Node": NODE,
    "Namespace": NAMESPACE,
    "PodGroup": GROUP,
    "CompositePodGroup": COMPOSITE,
    "PriorityClass": PRIORITY,
    "PersistentVolumeClaim": CLAIM,
    "PersistentVolume": VOLUME,
    "StorageClass": CLASS,
    "CSINode": NODE,
    "ResourceClaim": DEVICE_CLAIM,
    "CSIDriver": DRIVER,
}
"""The domain of the names of each kind; other kinds have their own."""

_ZONES: Final = {
    "topology.kubernetes.io/zone": "zone",
    "failure-domain.beta.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "failure-domain.beta.kubernetes.io/region": "region",
}
"""The domain of the values of each label key; a volume may have several values, joined by `__`."""
_PLATFORMS: Final = ("kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os")
_INDEXES: Final = frozenset(key for keys in INDEXES for key in keys)
_GPUS: Final = re.compile(r"gpu\..*/.*|.*/(gpu([-.].*)?|mig-.*)")
"""Resources that count as GPUs, also under a pseudonym."""
_HOSTNAMES: Final = ("kubernetes.io/hostname", "beta.kubernetes.io/hostname")
_ATTACHABLE: Final = "attachable-volumes-csi-"


class Names:
    """The pseudonyms of one snapshot. Without `anonymize` only images are replaced."""

    def __init__(self, *, anonymize: bool) -> None:
        self.anonymize = anonymize
        self.images: frozenset[str] = frozenset()
        """The images that pods use, with their tags: no other images of nodes matter."""
        self._collected: dict[str, set[str]] = defaultdict(set)
        self._pseudonyms: dict[str, dict[str, str]] = {}
        self._numeric: set[str] = set()
        self._aliases: dict[tuple[str, str], tuple[str, str, str, str]] = {}

    def freeze(self) -> None:
        """Assign the pseudonyms after all names were collected."""
        for domain, names in self._collected.items():
            width = len(str(len(names)))
            self._pseudonyms[domain] = {
                name: _pseudonym(domain, number, width) for number, name in enumerate(sorted(names), 1)
            }

    @property
    def frozen(self) -> bool:
        """Return whether names are replaced now."""
        return bool(self._pseudonyms)

    def name(self, domain: str, text: str) -> str:
        """Return a name of a domain; empty stays empty."""
        if not text or not (self.anonymize or domain == IMAGE):
            return text
        if not self.frozen:
            self._collected[domain].add(text)
            return text
        parts = self._aliases.get((domain, text))
        if parts is not None:
            return f"{self.name(*parts[:2])}-{self.name(*parts[2:])}"
        return self._pseudonyms[domain][text]

    def alias(self, domain: str, text: str, first: tuple[str, str], second: tuple[str, str]) -> None:
        """Record a name made of two others joined by a dash, such as the claim of an ephemeral volume."""
        self._aliases[domain, text] = (*first, *second)

    def key(self, text: str) -> str:
        """Return a label key, taint key or gate; those of Kubernetes are public."""
        return text if not text or text in KEYS or text in GROUP_LABELS else self.name(LABEL, text)

    def word(self, text: str) -> str:
        """Return a value without a domain; values of enumerations, amounts and times are public."""
        return text if is_public(text) else self.name(TEXT, text)

    def driver(self, text: str) -> str:
        """Return the name of a driver or provisioner of volumes; common ones are public."""
        return text if text in DRIVERS else self.name(DRIVER, text)

    def resource(self, text: str) -> str:
        """Return the name of a resource; those of Kubernetes and common device plugins are public, GPUs remain GPUs."""
        if not self.anonymize or is_public_resource(text):
            return text
        for prefix in ("requests.", "limits."):
            if text.startswith(prefix):
                return prefix + self.resource(text.removeprefix(prefix))
        if text.startswith(_ATTACHABLE):
            return _ATTACHABLE + self.driver(text.removeprefix(_ATTACHABLE))
        pseudonym = self.name(GPU if _GPUS.fullmatch(text) else RESOURCE, text)
        return f"example.com/{pseudonym}" if self.frozen else text

    def numeric(self, key: str) -> None:
        """Record that values of this key are compared as numbers (Gt, Lt), so that they keep their value."""
        self._numeric.add(key)

    def value(self, key: str, text: str) -> str:
        """Return a value of a label or taint."""
        if not text or (key in _PLATFORMS and text in PLATFORMS):
            return text
        if key in _ZONES:
            return "__".join(self.name(_ZONES[key], part) for part in text.split("__"))
        if (key in self._numeric or key in _INDEXES) and text.lstrip("-").isdecimal():
            return text
        if key in GROUP_LABELS:
            return self.name(GROUP, text)
        if key == NAMESPACE_LABEL:
            return self.name(NAMESPACE, text)
        if key in _HOSTNAMES and (not self.frozen or text in self._pseudonyms.get(NODE, ())):
            if not self.frozen:
                self.name(VALUE, text)
                return text
            return self.name(NODE, text)
        return self.name(VALUE, text)


def _pseudonym(domain: str, number: int, width: int) -> str:
    if domain == ADDRESS:
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    tag = ":x" if domain == IMAGE else ""
    return f"{domain}-{number:0{width}d}{tag}"


def domain_of(kind: str) -> str:
    """Return the domain of the names of a kind."""
    return _DOMAINS.get(kind, kind.lower())
