"""What could move so that a pending pod or gang runs (moving.md 1 to 3): possible always, and nearly the fewest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.manifests import gang, node, pod
from tests.questions.move_instances import documents, fewest, instance, overfull, suggested

Json = dict[str, Any]


@pytest.mark.parametrize("seed", range(12))
def test_suggestion_is_possible_and_nearly_the_shortest(seed: int) -> None:
    """moving.md 2.5, 3.2: placed again by the engine, every pod has its place; at most one unit more than needed."""
    cluster = instance(seed)
    help, after = suggested(*documents(cluster))
    least = fewest(cluster)
    assert (help is None) == (not least)
    if help is not None and least is not None:
        assert overfull(after) == []
        assert least <= int(help.amount or 0) == len(help.moves) <= least + 1


NODES = [node(name, gpu=8, labels={"kubernetes.io/hostname": name}) for name in ("n1", "n2", "n3")]
TRAIN = pod("train", gpu=8)


def on(name: str, gpus: int, at: str, **more: Any) -> Json:
    """Return a running pod."""
    return pod(name, gpu=gpus, node=at, **more)


DAEMON = {"ownerReferences": [{"apiVersion": "v1", "kind": "DaemonSet", "name": "o", "uid": "u", "controller": True}]}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
]}}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "objects", "expected"),
    [
        ("2.1: the fewest units", [on("a", 2, "n1"), on("b", 4, "n2"), on("c", 7, "n3")], {"a": "n2"}),
        ("1.1: DaemonSets stay", [on(f"d{i}", 4, f"n{i}", meta=DAEMON) for i in (1, 2, 3)], None),
        (
            "2.3: every filter counts",
            [on("a", 2, "n1", nodeSelector={"disk": "hdd"}), on("b", 5, "n2"), on("c", 5, "n3")],
            {"b": "n1"},
        ),
        (
            "2.3: rules about other pods count",
            [
                on("a", 2, "n1", affinity=APART, labels={"app": "web"}),
                on("b", 6, "n2", labels={"app": "web"}),
                on("c", 4, "n3"),
            ],
            {"a": "n3"},
        ),
        (
            "1.2: a gang moves whole",
            [gang("g", 2), *[on(f"g{i}", 1, "n1", group="g") for i in (0, 1)], on("b", 6, "n2"), on("c", 8, "n3")],
            {"g0": "n2", "g1": "n2"},
        ),
        ("2.2: not without enough free capacity", [on("a", 2, "n1"), on("b", 8, "n2"), on("c", 8, "n3")], None),
    ],
)  # fmt: skip
def test_rules_of_moving(rule: str, objects: list[Json], expected: dict[str, str] | None) -> None:
    """moving.md 1 and 2."""
    help, after = suggested(*NODES, *objects, TRAIN)
    moves = {move.name: move.to_node for move in help.moves} if help is not None else None
    assert moves == expected, rule
    assert overfull(after) == ([] if help is not None else ["train"])


def test_sentence_names_units_and_nodes() -> None:
    """moving.md 3.1."""
    help, _ = suggested(*NODES, on("eval-3", 2, "n1"), on("b", 6, "n2"), on("c", 7, "n3"), TRAIN)
    assert help is not None
    assert help.sentence == (
        "Move eval-3 from n1 to n2: train could start; no workload loses its place (--move default/pod/eval-3=n2)."
    )
