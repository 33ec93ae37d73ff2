"""Names that say nothing, for snapshots that leave the house.

Terms: a domain is a set of names that mean the same kind of thing (nodes, namespaces, label values, ...); within it a
name always gets the same pseudonym, wherever it is referred to.

Invariants: pseudonyms sort as the names do, because ties are broken by name and a plan must not change; the same
cluster gives the same pseudonyms. Two passes: names are noted while `frozen` is False, and replaced afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from reprieve.api.group_sources import GROUP_LABELS

NODE: Final = "node"
NAMESPACE: Final = "namespace"
UID: Final = "uid"
LABEL: Final = "label"
VALUE: Final = "value"
IMAGE: Final = "image"
GROUP: Final = "podgroup"
ADDRESS: Final = "address"

_OWN_DOMAINS: Final = ("kubernetes.io", "k8s.io")
_TELLING_NOTHING: Final = frozenset(
    (
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
    )
)
"""Label keys whose values are common knowledge and stay as they are."""
_HOSTNAMES: Final = ("kubernetes.io/hostname", "beta.kubernetes.io/hostname")
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"


class Names:
    """The table of pseudonyms of one snapshot. Without `anonymize` only images are replaced."""

    def __init__(self, *, anonymize: bool) -> None:
        self.anonymize = anonymize
        self.images: frozenset[str] = frozenset()
        """Images that pods use, with their tags: only those of a node's images matter."""
        self._seen: dict[str, set[str]] = defaultdict(set)
        self._given: dict[str, dict[str, str]] = {}
        self._numeric: set[str] = set()
        self._aliases: dict[tuple[str, str], tuple[str, str, str, str]] = {}

    def freeze(self) -> None:
        """Everything was noted: give out the pseudonyms."""
        for domain, names in self._seen.items():
            width = len(str(len(names)))
            self._given[domain] = {
                name: _pseudonym(domain, number, width) for number, name in enumerate(sorted(names), 1)
            }

    @property
    def frozen(self) -> bool:
        """Whether names are replaced by now."""
        return bool(self._given)

    def name(self, domain: str, text: str) -> str:
        """A name of a domain; empty stays empty."""
        if not text or not (self.anonymize or domain == IMAGE):
            return text
        if not self.frozen:
            self._seen[domain].add(text)
            return text
        parts = self._aliases.get((domain, text))
        if parts is not None:
            return f"{self.name(*parts[:2])}-{self.name(*parts[2:])}"
        return self._given[domain][text]

    def alias(self, domain: str, text: str, first: tuple[str, str], second: tuple[str, str]) -> None:
        """A name made of two others with a dash between them, as the claim of an ephemeral volume is."""
        self._aliases[domain, text] = (*first, *second)

    def key(self, text: str) -> str:
        """A label key, taint key or gate; those of Kubernetes itself stay."""
        return text if not text or _is_own(text) else self.name(LABEL, text)

    def numeric(self, key: str) -> None:
        """Note that values of this key are compared as numbers (Gt, Lt): they keep their value."""
        self._numeric.add(key)

    def value(self, key: str, text: str) -> str:
        """A value of a label or taint."""
        if not text or key in _TELLING_NOTHING:
            return text
        if key in self._numeric and text.lstrip("-").isdecimal():
            return text
        if key in GROUP_LABELS:
            return self.name(GROUP, text)
        if key == _NAMESPACE_LABEL:
            return self.name(NAMESPACE, text)
        if key in _HOSTNAMES and (not self.frozen or text in self._given.get(NODE, ())):
            if not self.frozen:
                self.name(VALUE, text)
                return text
            return self.name(NODE, text)
        return self.name(VALUE, text)


def _is_own(key: str) -> bool:
    """Whether a label key belongs to Kubernetes, or names a pod's group here."""
    prefix, slash, _ = key.rpartition("/")
    own = any(prefix == domain or prefix.endswith("." + domain) for domain in _OWN_DOMAINS)
    return (bool(slash) and own) or key in GROUP_LABELS


def _pseudonym(domain: str, number: int, width: int) -> str:
    if domain == ADDRESS:
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    tag = ":x" if domain == IMAGE else ""
    return f"{domain}-{number:0{width}d}{tag}"
