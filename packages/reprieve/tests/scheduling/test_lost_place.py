"""Which pod replaces a lost member, or one that moves (repair.md 2.3, moving.md 4.4)."""

from __future__ import annotations

import pytest

from kube_rules import objects
from reprieve.scheduling.lost_place import likeness
from tests.building import World, pod


def member(name: str, index: str | None) -> objects.Pod:
    return pod(name, labels={"apps.kubernetes.io/pod-index": index} if index is not None else {})


@pytest.mark.parametrize(
    ("name", "of_lost", "of_pod", "same_owner", "surely"),
    [
        ("lost", "0", "9", False, 1),
        ("other", "0", "0", True, 2),
        ("other", None, None, True, 2),
        ("other", "0", "0", False, 3),
        ("other", None, None, False, 0),
        ("other", "0", "1", True, 0),
        ("other", "0", None, True, 0),
        ("other", None, "0", True, 0),
    ],
)
def test_name_goes_before_index_and_that_before_the_owner(
    name: str, of_lost: str | None, of_pod: str | None, same_owner: bool, surely: int
) -> None:
    """repair.md 2.3"""
    lost, own = (World(member(*of)).record(of[0]) for of in (("lost", of_lost), (name, of_pod)))
    assert likeness(lost, own, same_owner=same_owner) == surely
