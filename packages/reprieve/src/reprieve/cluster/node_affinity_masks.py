"""The nodes that a node selector or node affinity matches, computed from label columns.

A requirement becomes one comparison of a label column (value numbers) with a small set of numbers. Gt and Lt compare
the integers of the values. matchFields supports `metadata.name`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kube_rules import objects
from kube_rules.objects import NodeSelectorRequirement, NodeSelectorTerm
from kube_rules.selectors import parse_integer
from reprieve.cluster.nodes import ABSENT, NodeColumns
from reprieve.cluster.signature import PodSpecSignature

Mask = npt.NDArray[np.bool_]


def requirement_mask(nodes: NodeColumns, requirement: NodeSelectorRequirement) -> Mask:
    """Return `bool[rows]`: the nodes with labels that satisfy one requirement.

    NotIn and DoesNotExist hold if the key is absent.
    """
    column, numbers = nodes.label_column(requirement.key)
    operator = requirement.operator
    present: Mask = column != ABSENT
    if operator == "Exists":
        return present
    if operator == "DoesNotExist":
        return ~present
    if operator in ("In", "NotIn"):
        holds = np.zeros(len(numbers) + 1, dtype=np.bool_)
        holds[[numbers[value] for value in requirement.values if value in numbers]] = True
        # ABSENT is -1 and therefore reads the last entry, which is False.
        matches: Mask = holds[column]
        return matches if operator == "In" else ~matches
    if operator in ("Gt", "Lt"):
        return _compare(column, numbers, operator, requirement.values)
    return np.zeros(len(column), dtype=np.bool_)


def _compare(
    column: "np.ndarray[tuple[int], np.dtype[np.int32]]",
    numbers: dict[str, int],
    operator: str,
    values: Sequence[str],
) -> Mask:
    holds = np.zeros(len(numbers) + 1, dtype=np.bool_)
    bound = parse_integer(values[0]) if len(values) == 1 else None
    if bound is not None:
        for value, number in numbers.items():
            integer = parse_integer(value)
            if integer is not None:
                holds[number] = integer > bound if operator == "Gt" else integer < bound
    # ABSENT is -1 and therefore reads the last entry, which is False.
    return holds[column]


def field_mask(nodes: NodeColumns, requirement: NodeSelectorRequirement) -> Mask:
    """Return `bool[rows]` for one of matchFields; only `metadata.name` with In or NotIn exists."""
    mask = np.zeros(len(nodes), dtype=np.bool_)
    if requirement.key != "metadata.name" or requirement.operator not in ("In", "NotIn"):
        return mask
    for name in requirement.values:
        row = nodes.row_of.get(name)
        if row is not None:
            mask[row] = True
    return mask if requirement.operator == "In" else ~mask


def term_mask(nodes: NodeColumns, term: NodeSelectorTerm) -> Mask:
    """Return `bool[rows]`: the nodes that satisfy all requirements of a term; an empty term matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(len(nodes), dtype=np.bool_)
    mask = np.ones(len(nodes), dtype=np.bool_)
    for requirement in term.match_expressions:
        mask &= requirement_mask(nodes, requirement)
    for requirement in term.match_fields:
        mask &= field_mask(nodes, requirement)
    return mask


def required_mask(nodes: NodeColumns, signature: PodSpecSignature) -> Mask:
    """Return `bool[rows]`: nodeSelector and required node affinity together (terms are ORed)."""
    mask = np.ones(len(nodes), dtype=np.bool_)
    for key, value in signature.node_selector.items():
        column, numbers = nodes.label_column(key)
        number = numbers.get(value)
        mask &= column == number if number is not None else False
    affinity = signature.affinity.node_affinity if signature.affinity is not None else None
    return mask & affinity_mask(nodes, affinity)


def affinity_mask(nodes: NodeColumns, affinity: objects.NodeAffinity | None) -> Mask:
    """Return `bool[rows]`: the required terms of a node affinity (ORed); all nodes without any."""
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return np.ones(len(nodes), dtype=np.bool_)
    any_term = np.zeros(len(nodes), dtype=np.bool_)
    for term in required.node_selector_terms:
        any_term |= term_mask(nodes, term)
    return any_term


def named_nodes(signature: PodSpecSignature) -> set[str] | None:
    """Return the names of the possible nodes if every required term names its nodes; None: any node is possible."""
    affinity = signature.affinity.node_affinity if signature.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None or not required.node_selector_terms:
        return None
    left: set[str] = set()
    for term in required.node_selector_terms:
        named = [r.values for r in term.match_fields if r.key == "metadata.name" and r.operator == "In"]
        if not named:
            return None
        left.update(set(named[0]).intersection(*named[1:]))
    return left
