"""ImageLocality (kubernetes/kubernetes pkg/scheduler/framework/plugins/imagelocality)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.plugins.image_locality import ImageLocality
from tests.building import World, node, pod
from tests.plugins.asking import scores

MIB = 1024 * 1024


def _node(name: str, **images: int) -> objects.Node:
    """A node with images by name, in MiB."""
    made = node(name)
    listed = tuple(
        objects.ContainerImage(names=(f"reg/{image}:1", f"reg/{image}:latest"), size_bytes=size * MIB)
        for image, size in images.items()
    )
    return replace(made, status=replace(made.status, images=listed))


def _pod(*images: str, init: tuple[str, ...] = ()) -> objects.Pod:
    made = pod("p")
    containers = tuple(objects.Container(name=f"c{i}", image=image) for i, image in enumerate(images))
    inits = tuple(objects.Container(name=f"i{i}", image=image) for i, image in enumerate(init))
    return replace(made, spec=replace(made.spec, containers=containers, init_containers=inits))


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        # Of two nodes one has it: 2000 MiB / 2 = 1000 MiB, the most one container can count.
        pytest.param(_pod("reg/huge:1"), [100, 0], id="huge"),
        # 200 MiB / 2 = 100 MiB: 100 * (100 - 23) // (1000 - 23) = 7
        pytest.param(_pod("reg/mid:1"), [7, 0], id="in between"),
        # 30 MiB / 2 = 15 MiB, less than 23
        pytest.param(_pod("reg/tiny:1"), [0, 0], id="too small to count"),
        # 66 MiB / 2 = 33 MiB: 100 * (33 - 23) // (1000 - 23) = 1; half a MiB less is none
        pytest.param(_pod("reg/edge:1"), [1, 0], id="just enough to count"),
        pytest.param(_pod("reg/less:1"), [0, 0], id="just not enough"),
        # On both: 300 MiB counts whole: 100 * 277 // 977 = 28
        pytest.param(_pod("reg/both:1"), [28, 28], id="spread over all nodes"),
        # 1000 + 0 of at most 2000: 100 * 977 // 1977 = 49
        pytest.param(_pod("reg/huge:1", "reg/none:1"), [49, 0], id="per container"),
        pytest.param(_pod("reg/none:1", init=("reg/huge:1",)), [49, 0], id="init containers count"),
        pytest.param(_pod("reg/huge"), [100, 0], id="no tag means latest"),
        pytest.param(_pod("host:5000/huge"), [], id="a port is no tag"),
        pytest.param(_pod("reg/none:1"), [], id="no node has it"),
    ],
)
def test_scores(item: objects.Pod, expected: list[int]) -> None:
    world = World(_node("n1", huge=2000, mid=200, tiny=30, both=300, edge=66, less=65), _node("n2", both=300), item)
    assert list(scores(world, ImageLocality()).values()) == expected


def test_images_come_and_go() -> None:
    """A node's list replaces the one before; a node that is gone has none; pods are not woken by it."""
    world = World(_node("n1"), _node("n2"), _pod("reg/huge:1"))
    cluster = world.engine.cluster
    assert scores(world, ImageLocality()) == {}
    before = cluster.nodes.static_version
    assert cluster.set_node(_node("n2", huge=2000)) is False
    assert cluster.nodes.static_version > before
    assert scores(world, ImageLocality()) == {"n1": 0, "n2": 100}
    cluster.set_node(_node("n2"))
    assert scores(world, ImageLocality()) == {}
    cluster.set_node(_node("n1", huge=2000))
    cluster.remove_node("n1")
    assert cluster.nodes.images == {}


def test_sizes_that_differ() -> None:
    """The first node by name says how large it is, whatever the order of arrival."""
    for order in ((0, 1), (1, 0)):
        nodes = [_node("n1", mid=1000), _node("n2", mid=100)]
        world = World(*[nodes[i] for i in order], _pod("reg/mid:1"))
        assert set(scores(world, ImageLocality()).values()) == {100}
