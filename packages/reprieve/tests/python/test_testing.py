"""`reprieve.testing`, as authors of plugins use it."""

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace as with_fields

import reprieve
from reprieve.framework.gates import FeatureGates
from reprieve.testing import PluginFailedError, World, gang, node, pod


class Last(reprieve.PerNodeScore):
    """The node with the last name."""

    name = "Last"

    def score_node(self, state: reprieve.CycleState, row: int) -> int:
        return 100 if state.cluster.nodes.names[row] == "n2" else 0


class Broken(reprieve.PerNodeFilter):
    """Raises."""

    name = "Broken"

    def filter_node(self, state: reprieve.CycleState, row: int) -> tuple[str, bool] | None:
        raise RuntimeError("oh")


CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.mark.parametrize("plugins", [[Last], [Last()]], ids=["class", "instance"])
def test_plugins_take_part_and_score_with_weight_one(plugins: list[reprieve.Plugin | type[reprieve.Plugin]]) -> None:
    items = node("n1"), node("n2"), pod("p")
    assert World(*items).settle().where == {"p": "n1"}
    assert World(*items, plugins=plugins).settle().where == {"p": "n2"}


def test_configuration_enables_classes_as_the_command_does() -> None:
    assert World(node("n1"), node("n2"), pod("p"), plugins=[Last], config=CONFIG).settle().where == {"p": "n2"}
    profiles = [{"plugins": {"multiPoint": {"disabled": [{"name": "Last"}]}}}]
    world = World(node("n1"), node("n2"), pod("p"), plugins=[Last], config={**CONFIG, "profiles": profiles})
    assert world.settle().where == {"p": "n1"}


@pytest.mark.parametrize("run", ["settle", "drain", "step"])
def test_plugin_that_raises_fails_the_test(run: str) -> None:
    """With its own traceback: what a test of a plugin is about (docs/plugins.md)."""
    world = World(node("n1"), pod("p"), plugins=[Broken])
    with pytest.raises(PluginFailedError, match="oh") as failed:
        getattr(world, run)()
    assert (failed.value.plugin, failed.value.point) == ("Broken", "Filter")
    assert "raise RuntimeError" in str(failed.value)


class Annotated(reprieve.PerNodeFilter):
    """Only where an annotation of the pod says."""

    name = "Annotated"
    scope = reprieve.Scope.CLUSTER

    def filter_node(self, state: reprieve.CycleState, row: int) -> tuple[str, bool] | None:
        wanted = state.pod.annotations.get("example.com/node")
        return None if wanted == state.cluster.nodes.names[row] else ("another node", False)


def test_plugins_see_the_annotations_of_a_pod() -> None:
    """As they are now, without the manifest that kubectl keeps there."""
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    pods = [pod(name, annotations={"example.com/node": name, **applied}) for name in ("n2", "n1")]
    world = World(node("n1"), node("n2"), *pods, plugins=[Annotated]).settle()
    assert world.where == {"n1": "n1", "n2": "n2"}
    assert world.record("n1").annotations == {"example.com/node": "n1"}
    late = World(node("n1"), pod("p"), plugins=[Annotated]).settle()
    assert late.pending == ["p"]
    meta = {"example.com/node": "n1"}
    late.change_pod("p", lambda it: with_fields(it, metadata=with_fields(it.metadata, annotations=meta)))
    assert late.record("p").annotations == meta


def test_plugin_that_raises_is_contained_as_in_a_cluster() -> None:
    world = World(node("n1"), pod("p"), plugins=[Broken], contained=True).drain()
    reason, message = world.rejection("p")
    assert reason == "SchedulerError"
    assert "Broken" in message
    assert "oh" in message


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: World(plugins=[Last()], config=CONFIG), "give plugins as classes"),
    (lambda: World(plugins=[Last], profiles={}), "not both"),
    (lambda: World(config={**CONFIG, "profiles": 3}), "profiles"),
    (lambda: World(plugins=cast(Any, [int])), "<class 'int'> is no plugin: expected classes or instances"),
    (lambda: World(plugins=cast(Any, ["Last"])), "'Last' is no plugin"),
    (lambda: World(gates={"GenericWork": True}), "unknown feature gate 'GenericWork'"),
    (lambda: World(gates=cast(Any, {"GenericWorkload": 0})), "'GenericWorkload': expected True or False, not 0"),
    (lambda: World(gates=cast(Any, [])), "expected feature gates as text, A=true,B=false, or as a dict"),
]


@pytest.mark.parametrize(("bad", "text"), BAD, ids=[text for _, text in BAD])
def test_arguments_that_cannot_be_used_are_an_error(bad: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        bad()


def test_feature_gates_are_given_by_name_too() -> None:
    """scheduling.md 6: without GenericWorkload a gang of two is two pods, and one of them has room."""
    for gates in ({"GenericWorkload": False}, FeatureGates(generic_workload=False)):
        assert World(node("n1", cpu=1), gang("g", 2, cpu=1), gates=gates).settle().where == {"g-0": "n1"}
    assert World(node("n1", cpu=1), gang("g", 2, cpu=1), gates={}).settle().where == {}


def test_testing_needs_no_test_framework() -> None:
    code = "import sys, reprieve.testing; print(sorted({'pytest', 'hypothesis', 'tests'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


WRONG_NAMES: list[tuple[Callable[[World], object], str]] = [
    (lambda world: world.record("c"), "no pod 'c' in this world: there is a, b"),
    (lambda world: world.state("c"), "no pod 'c' in this world: there is a, b"),
    (lambda world: world.gone("c"), "no pod 'c' in this world: there is a, b"),
    (lambda world: world.change_pod("c", lambda found: found), "no pod 'c' in this world: there is a, b"),
    (lambda world: world.row("n2"), "no node 'n2' in this world: there is n1"),
    (lambda world: world.message("a"), "no rejected pod 'a' in this world: there is b"),
    (lambda world: world.condition("g"), "no group with a condition 'g' in this world: there is none"),
]


@pytest.mark.parametrize(("asked", "text"), WRONG_NAMES)
def test_wrong_name_is_answered_with_those_there_are(asked: Callable[[World], object], text: str) -> None:
    """A test of a plugin that asks for what is not there fails as one with an assertion that does not hold."""
    world = World(node("n1", cpu=1), pod("a", cpu=1, priority=1), pod("b", cpu=1)).settle()
    with pytest.raises(AssertionError, match=re.escape(text)):
        asked(world)


def test_values_that_are_no_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="'n1': expected objects, as `node` and `pod` make them"):
        World(cast(Any, "n1"))
