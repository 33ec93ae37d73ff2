"""`reprieve.testing`, as authors of plugins use it."""

import subprocess
import sys
from collections.abc import Callable

import pytest

import reprieve
from reprieve.testing import World, node, pod


class Last(reprieve.PerNodeScore):
    """The node whose name comes last."""

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


def test_a_configuration_enables_classes_as_the_command_does() -> None:
    assert World(node("n1"), node("n2"), pod("p"), plugins=[Last], config=CONFIG).settle().where == {"p": "n2"}
    profiles = [{"plugins": {"multiPoint": {"disabled": [{"name": "Last"}]}}}]
    world = World(node("n1"), node("n2"), pod("p"), plugins=[Last], config={**CONFIG, "profiles": profiles})
    assert world.settle().where == {"p": "n1"}


def test_a_plugin_that_raises_is_told() -> None:
    world = World(node("n1"), pod("p"), plugins=[Broken]).drain()
    reason, message = world.rejection("p")
    assert reason == "SchedulerError"
    assert "Broken" in message
    assert "oh" in message


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: World(plugins=[Last()], config=CONFIG), "give plugins as classes"),
    (lambda: World(plugins=[Last], profiles={}), "not both"),
    (lambda: World(config={**CONFIG, "profiles": 3}), "profiles"),
]


@pytest.mark.parametrize(("bad", "text"), BAD, ids=[text for _, text in BAD])
def test_what_cannot_be_used_is_an_error(bad: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        bad()


def test_it_needs_no_test_framework() -> None:
    code = "import sys, reprieve.testing; print(sorted({'pytest', 'hypothesis', 'tests'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
