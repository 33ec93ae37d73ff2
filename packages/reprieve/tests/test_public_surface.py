"""The public surface: flat, complete, typed, and free to import (interfaces.md, "Python")."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import reprieve


def test_names_resolve_and_say_what_they_are() -> None:
    for name in reprieve.__all__:
        assert getattr(reprieve, name).__doc__, name


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(reprieve.__file__).read_text())
    seen = {a.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names if a.asname}
    assert seen == set(reprieve.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        reprieve.Nonsense  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    """Nothing imports heavy at start-up of a light command."""
    code = "import sys, reprieve, reprieve.cli.commands; print(sorted({'numpy', 'msgspec', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_cluster_built_in_python_plans() -> None:
    """The example in `reprieve.python.builder`."""
    cluster = reprieve.ClusterBuilder()
    cluster.add_node("n1", {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": 8})
    cluster.add_pod("low", node="n1", priority=10, requests={"nvidia.com/gpu": 8})
    cluster.add_group("train", min_count=1, priority=100)
    cluster.add_pod("train-0", group="train", priority=100, requests={"nvidia.com/gpu": 8})
    found = cluster.plan().plan
    assert [v.name for p in found.preemptions for v in p.victims] == ["low"]
    assert [(p.name, p.outcome, p.node_name) for p in found.pods] == [("train-0", "Scheduled", "n1")]


def test_bad_objects_are_named() -> None:
    cluster = reprieve.ClusterBuilder().add({"apiVersion": "v1", "kind": "Node", "metadata": {}})
    with pytest.raises(reprieve.InputError, match=r"<object 1>.*metadata\.name"):
        cluster.plan()
