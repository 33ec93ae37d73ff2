"""The domains that the members of a group use of its topology levels, as `explain` shows them (topology.md 5.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kube_rules import objects
from kube_rules.errors import names_text
from kube_rules.topology_terms import (
    NO_TOPOLOGY_TERMS,
    LevelUse,
    PlacedMember,
    TopologyTerms,
    pod_index,
    topology_terms,
    topology_use,
)
from reprieve.cli.sections import Row, Section
from reprieve.client.discovery import Resource
from reprieve.client.errors import ClientError
from reprieve.client.lists import list_objects
from reprieve.client.transport import ApiClient

_NODES = Resource("", "v1", "nodes", "Node", False)
_MOST_DOMAINS = 8

Above = objects.PodGroup | objects.CompositePodGroup


def terms_of(members: Sequence[objects.Pod], groups: Sequence[Above]) -> TopologyTerms:
    """Return the topology levels that a group requests; `groups`: it and those above it, the nearest first."""
    terms = NO_TOPOLOGY_TERMS
    for item in (*members[:1], *groups):
        terms = terms.over(topology_terms(item.metadata.annotations))
    return terms


def use_of(
    terms: TopologyTerms, members: Sequence[objects.Pod], nodes: Mapping[str, Mapping[str, str]]
) -> tuple[LevelUse, ...]:
    """Return the domains that members use; `nodes`: labels by name."""
    return topology_use(
        terms,
        [
            PlacedMember(pod.key, pod_index(pod.metadata.labels, pod.metadata.annotations), name, nodes.get(name) or {})
            for pod in sorted(members, key=lambda pod: pod.key)
            if (name := pod.spec.node_name) and not pod.terminating
        ],
    )


async def read_use(client: ApiClient, members: Sequence[objects.Pod], groups: Sequence[Above]) -> tuple[LevelUse, ...]:
    """Return these domains, with nodes read from the API server; empty if the user may not read nodes."""
    terms = terms_of(members, groups)
    if terms == NO_TOPOLOGY_TERMS or not any(pod.spec.node_name for pod in members):
        return ()
    try:
        listed = await list_objects(client, _NODES, objects.Node)
    except ClientError:
        return ()
    return use_of(terms, members, {node.metadata.name: node.metadata.labels for node in listed.objects})


def topology_section(uses: Sequence[LevelUse]) -> list[Section]:
    """Return a sentence on the domains used of each level."""
    rows = [
        Row((use.level, names_text(use.domains, _MOST_DOMAINS), str(len(use.domains)), str(use.breaks))) for use in uses
    ]
    return [Section("Topology", ("level", "domains", "number", "rank breaks"), tuple(rows))] if rows else []


def topology_document(uses: Sequence[LevelUse]) -> list[dict[str, Any]]:
    """Return the domains used of each level for `-o json`."""
    return [
        {"level": use.level, "label": use.label, "domains": list(use.domains), "breaks": use.breaks} for use in uses
    ]
