"""Extended resources that device classes serve: which class, what containers ask for, the claim of a pod."""

from __future__ import annotations

import msgspec
import pytest

from kube_rules import objects
from reprieve.cluster.devices import SPECIAL
from reprieve.cluster.extended_resources import ANNOTATION, asks_of, claim_name, owner_of, requests_of, served_by
from reprieve.cluster.pods import PodClaim
from tests.building import World, node, pod
from tests.plugins.devices import Json, claim, device_class, devices, got_of, slice_of

GPU_OF_CLASS = "example.com/gpu"


def _container(name: str, **requests: str) -> Json:
    names = {"gpu": GPU_OF_CLASS}
    return {"name": name, "resources": {"requests": {names.get(each, each): n for each, n in requests.items()}}}


def _serving(name: str = "k", resource: str | None = GPU_OF_CLASS, created: int | None = None) -> objects.DeviceClass:
    made = device_class(name, **({"extendedResourceName": resource} if resource else {}))
    if created is None:
        return made
    stamp = {"name": name, "creationTimestamp": f"2026-01-0{created}T00:00:00Z"}
    return msgspec.convert({"metadata": stamp, "spec": msgspec.to_builtins(made.spec)}, objects.DeviceClass)


def test_which_class_serves_a_name() -> None:
    """devices.md 4.1: the youngest, then the first by name; one without a date is the oldest."""
    implicit = "deviceclass.resource.kubernetes.io/"
    assert served_by([_serving("a", None)]) == {f"{implicit}a": "a"}
    for classes, serves in (
        ([_serving("b"), _serving("a")], "a"),
        ([_serving("a", created=1), _serving("b", created=2), _serving("c", created=1)], "b"),
        ([_serving("a"), _serving("b", created=1)], "b"),
        ([_serving("b", created=3), _serving("a", created=3)], "a"),
    ):
        for order in (classes, classes[::-1]):
            assert served_by(order)[GPU_OF_CLASS] == serves
    odd = [_serving("a", f"{implicit}b", created=1), _serving("b", None)]
    assert served_by(odd)[f"{implicit}b"] == served_by(odd[::-1])[f"{implicit}b"] == "a"


ASKS: list[tuple[str, Json, list[tuple[int, bool, list[tuple[str, int, int]]]]]] = [
    ("nothing", {"containers": [{"name": "a"}]}, []),
    ("cpu alone", {"containers": [_container("a", cpu="1")]}, []),
    ("one", {"containers": [_container("a", gpu="2")]}, [(0, True, [(GPU_OF_CLASS, 2, 0)])]),
    ("none of it", {"containers": [_container("a", gpu="0")]}, []),
    (
        "beside others, in the order of names",
        {"containers": [_container("a", cpu="1", gpu="1", memory="1")]},
        [(0, True, [(GPU_OF_CLASS, 1, 1)])],
    ),
    (
        "the second of two",
        {"containers": [_container("a", cpu="1"), _container("b", gpu="1")]},
        [(1, True, [(GPU_OF_CLASS, 1, 0)])],
    ),
    (
        "an init container, a sidecar and a container",
        {
            "initContainers": [_container("i", gpu="1"), {**_container("s", gpu="1"), "restartPolicy": "Always"}],
            "containers": [_container("a", gpu="1")],
        },
        [
            (0, False, [(GPU_OF_CLASS, 1, 0)]),
            (1, True, [(GPU_OF_CLASS, 1, 0)]),
            (2, True, [(GPU_OF_CLASS, 1, 0)]),
        ],
    ),
]


@pytest.mark.parametrize(("spec", "asks"), [a[1:] for a in ASKS], ids=[a[0] for a in ASKS])
def test_containers_ask_of_classes(spec: Json, asks: list[tuple[int, bool, list[tuple[str, int, int]]]]) -> None:
    """devices.md 4.4: I counts init containers and containers, R the names of all that the container asks for."""
    found = asks_of(msgspec.convert(spec, objects.PodSpec))
    assert [(one.number, one.lasting, list(one.amounts)) for one in found] == asks


def test_init_containers_use_what_those_after_them_have() -> None:
    """devices.md 4.4: where these are too few one more request, for the most that any lacks, is shared by all."""
    spec = {
        "initContainers": [
            {**_container("side", gpu="2"), "restartPolicy": "Always"},
            _container("small", gpu="1"),
            _container("large", gpu="7"),
            _container("middle", gpu="5"),
        ],
        "containers": [_container("a", gpu="1"), _container("b", gpu="1")],
    }
    requests, mapped = requests_of(asks_of(msgspec.convert(spec, objects.PodSpec)), {GPU_OF_CLASS: "k"}, [GPU_OF_CLASS])
    assert {one["name"]: one["exactly"]["count"] for one in requests} == {
        "container-0-request-0": 2,
        "container-2-request-0": 5,
        "container-4-request-0": 1,
        "container-5-request-0": 1,
    }
    assert [one["name"] for one in requests] == sorted(one["name"] for one in requests)
    by_container: dict[str, list[str]] = {}
    for one in mapped:
        by_container.setdefault(one.container, []).append(one.request.removesuffix("-request-0"))
    assert by_container == {
        "side": ["container-0"],
        "a": ["container-4"],
        "b": ["container-5"],
        "small": ["container-4"],
        "large": ["container-4", "container-5", "container-2"],
        "middle": ["container-4", "container-5", "container-2"],
    }


def test_pods_get_a_claim_for_what_classes_serve_and_lose_it() -> None:
    """With the class, and with the gate; the claim that was made for a pod counts before any other."""
    world = World(node("n"), slice_of("n", devices(2)), pod("p", more={GPU_OF_CLASS: 1}), pod("q"))
    state = world.engine.cluster
    book, p, q = state.devices, world.record("p"), world.record("q")
    assert (p.claims, book.special(p), book.served_anew()) == ((), None, False)
    world.add(_serving())
    assert p.claims == (PodClaim(SPECIAL, f"{SPECIAL} of p", generated=False, made=True, extended=True),)
    assert (q.claims, book.served[GPU_OF_CLASS]) == ((), "k")
    assert (book.special_shape(p, 0) is not None, book.special_shape(q, 0)) == (True, None)
    assert book.with_extended(p, p.claims) == p.claims
    assert state.claims_renewed(p) is False
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    made = claim("made", metadata={"annotations": {ANNOTATION: "true"}, "ownerReferences": [owner]})
    assert (owner_of(made), owner_of(claim("c"))) == ("uid-p", None)
    other = claim(
        "made", metadata={"annotations": {ANNOTATION: "true"}, "ownerReferences": [{**owner, "controller": False}]}
    )
    assert owner_of(other) is None
    assert owner_of(claim("made", metadata={"annotations": {ANNOTATION: "false"}, "ownerReferences": [owner]})) is None
    state.place(p, 0)
    held = book.special(p)
    assert held is not None
    assert (got_of(held), held.object) == (["n/gpu-0"], None)
    book.set(made)
    assert state.claims_renewed(p) is True
    now = book.special(p)
    assert now is not None
    assert (now.key, got_of(now)) == ("default/made", ["n/gpu-0"]), "what was assumed goes on"
    assert f"default/{SPECIAL} of p" not in book.claims
    state.check()
    book.remove("ResourceClaim", "default", "made")
    assert state.claims_renewed(p) is True
    assert p.claims[0].claim == f"{SPECIAL} of p"
    state.displace(p)
    book.serves_extended = False
    assert book.served_anew() is True
    assert book.served == {}
    assert state.classes_changed() == [p]
    assert len(p.claims) == len(state.classes_changed()) == 0


def test_node_with_devices_of_its_own_needs_no_claim() -> None:
    """devices.md 4.2: the node serves it itself; of two resources each by itself."""
    both = {GPU_OF_CLASS: 1, "example.com/nic": 1}
    world = World(
        node("none"),
        node("own", more=both),
        node("half", more={GPU_OF_CLASS: 1}),
        _serving(),
        _serving("l", "example.com/nic"),
        pod("p", more=both),
    )
    book, p = world.engine.cluster.devices, world.record("p")
    counts = []
    for name in ("none", "own", "half"):
        found = book.special_shape(p, world.row(name))
        counts.append([(one.container, one.resource) for one in found[1]] if found is not None else None)
    assert counts == [[("main", GPU_OF_CLASS), ("main", "example.com/nic")], None, [("main", "example.com/nic")]]
    assert book.shape_for(p, frozenset()) is None


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("p", "p-extended-resources-"),
        ("x" * 90, "x" * 33 + "-extended-resources-"),
        ("x" * 32 + "." + "y" * 60, "x" * 32 + "-ext"),
    ],
)
def test_name_of_the_claim_for_a_pod(name: str, begins: str) -> None:
    """The same whenever asked, at most 63 characters, another for another UID."""
    found = claim_name(name, "uid")
    assert found == claim_name(name, "uid")
    assert found != claim_name(name, "other")
    assert found.startswith(begins)
    assert len(found) <= 63
    assert len(claim_name("x" * 90, "uid")) == 63
