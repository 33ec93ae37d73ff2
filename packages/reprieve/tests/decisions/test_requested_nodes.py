"""What pending pods say of nodes that were requested for their gang (provisioning.md 5.4)."""

from __future__ import annotations

import pytest

from reprieve.decisions.requested_nodes import STATE, requested_sentence
from tests.building import pod


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        ([], ""),
        ([("", "")], ""),
        ([("Pending", "")], "nodes are requested: Pending"),
        (
            [("Pending", ""), ("Accepted", ""), ("Pending", "")],
            "nodes are requested: Accepted, nodes are requested: Pending",
        ),
        ([("Failed", "n1"), ("Accepted", "")], "nodes are requested: Accepted"),
    ],
)
def test_states_of_pods_without_a_node_are_reported(states: list[tuple[str, str]], sentence: str) -> None:
    """provisioning.md 5.4: each once, by name; a pod that runs needs none."""
    pods = [
        pod(f"p{turn}", node=node, annotations={STATE: state} if state else None)
        for turn, (state, node) in enumerate(states)
    ]
    assert requested_sentence(pods) == sentence
