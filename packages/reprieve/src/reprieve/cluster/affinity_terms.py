"""Inter-pod (anti-)affinity terms, compiled.

A *matcher* selects pods by namespace (name or labels) and labels. A *term* adds the topology key: nodes with the same
value of that label. Both are plain values; `reprieve.cluster.pod_affinity_index` interns equal ones.

Rules (kubernetes/kubernetes pkg/scheduler/framework GetAffinityTerms): no namespaces and no namespace selector mean the
pod's own namespace; an empty namespace selector means every namespace; an absent label selector matches no pod.
`matchLabelKeys` and `mismatchLabelKeys` are merged into the label selector when a pod is created (KEP-3633). A selector
that the API server merged already contains the requirement and is left unchanged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from kube_rules import objects
from kube_rules.selectors import IN, NOT_IN, NOTHING, Requirement, Selector, compile_label_selector


class TermKind(IntEnum):
    """The list of a pod's affinity that a term comes from."""

    REQUIRED_AFFINITY = 0
    REQUIRED_ANTI_AFFINITY = 1
    PREFERRED_AFFINITY = 2
    PREFERRED_ANTI_AFFINITY = 3


class Matcher(NamedTuple):
    """A selection of pods. `staying`: only pods that are not terminating."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    staying: bool = False

    def accepts(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str], *, terminating: bool
    ) -> bool:
        """Return whether the matcher selects a pod of that namespace with those labels."""
        if terminating and self.staying:
            return False
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class TermSpec(NamedTuple):
    """A term as a pod states it; `weight` is 0 for required ones."""

    kind: TermKind
    matcher: Matcher
    topology_key: str
    weight: int = 0


@dataclass(frozen=True, slots=True)
class AffinityTerms:
    """The terms of one pod, in the order of its spec."""

    specs: tuple[TermSpec, ...] = ()

    def of(self, kind: TermKind) -> tuple[TermSpec, ...]:
        """Return the terms of one list."""
        return tuple(spec for spec in self.specs if spec.kind is kind)


def merged_with_keys(
    selector: Selector, match: Iterable[str], mismatch: Iterable[str], labels: Mapping[str, str]
) -> Selector:
    """Return the selector with the label keys merged: the pod's own value (`match`) or any other (`mismatch`).

    Keys without a label on the pod add nothing.
    """
    if selector.nothing:
        return selector
    merged_keys = {(r.key, r.operator) for r in selector.requirements}
    more = [
        Requirement(key, operator, (labels[key],))
        for operator, keys in ((IN, match), (NOT_IN, mismatch))
        for key in keys
        if key in labels and (key, operator) not in merged_keys
    ]
    return Selector((*selector.requirements, *more)) if more else selector


def affinity_terms(affinity: objects.Affinity | None, namespace: str, labels: Mapping[str, str]) -> AffinityTerms:
    """Return the inter-pod terms of a pod of this namespace with these labels.

    Raises `kube_rules.selectors.SelectorError` for an operator that does not exist.
    """
    if affinity is None:
        return AffinityTerms()
    specs: list[TermSpec] = []
    kinds = (
        (affinity.pod_affinity, TermKind.REQUIRED_AFFINITY, TermKind.PREFERRED_AFFINITY),
        (affinity.pod_anti_affinity, TermKind.REQUIRED_ANTI_AFFINITY, TermKind.PREFERRED_ANTI_AFFINITY),
    )
    for stated, required, preferred in kinds:
        if stated is None:
            continue
        specs.extend(
            TermSpec(required, _matcher(term, namespace, labels), term.topology_key)
            for term in stated.required_during_scheduling_ignored_during_execution or ()
        )
        for weighted in stated.preferred_during_scheduling_ignored_during_execution or ():
            inner = weighted.pod_affinity_term
            specs.append(TermSpec(preferred, _matcher(inner, namespace, labels), inner.topology_key, weighted.weight))
    return AffinityTerms(tuple(specs))


def _matcher(term: objects.PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> Matcher:
    selector = compile_label_selector(term.label_selector)
    match, mismatch = term.match_label_keys or (), term.mismatch_label_keys or ()
    if match or mismatch:
        selector = merged_with_keys(selector, match, mismatch, labels)
    if term.namespace_selector is None:
        names = frozenset(term.namespaces) if term.namespaces else _only(namespace)
        return Matcher(names, NOTHING, selector)
    return Matcher(frozenset(term.namespaces or ()), compile_label_selector(term.namespace_selector), selector)


@lru_cache(maxsize=1024)
def _only(namespace: str) -> frozenset[str]:
    """Return an interned set with just this namespace."""
    return frozenset((namespace,))
