from tests.building import *
from tests.scheduling.test_resizes import two_nodes, resizes_of, growing
def test_one():
    parts = [composite("tree", min_groups=2), group("one", min_count=1, parent="tree"), group("two", min_count=1, parent="tree", priority=0)]
    world = World(node("n1", cpu=4), *parts, growing("a", group="one"), pod("low", cpu=2, group="two", node="n1")).drain()
    print(world.engine.cluster.pods.keys(), resizes_of(world))
    (d,) = world.engine.decisions
    print(world.evicted, d.rejections[0].message if d.rejections else d)
    parts = [composite("tree", min_groups=2), group("one", min_count=1, parent="tree"), group("two", min_count=1, parent="tree", priority=0)]
    world = World(node("n1", cpu=4), node("n2", cpu=4), *parts, growing("a", group="one"), growing("b", group="one", on="n2"), pod("lowz", cpu=2, node="n2"), pod("low", cpu=2, group="two", node="n1")).drain()
    (d,) = world.engine.decisions
    print(world.evicted, d.rejections[0].message if d.rejections else d)
    assert 0
