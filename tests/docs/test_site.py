"""The documentation site has every page, and the figure of the rooms is the code's (`make docs` builds it)."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.docs.markdown import blocks

ROOT = Path(__file__).parents[2]
TOP = {"CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_figure_of_the_rooms_is_current() -> None:
    checked = subprocess.run(
        [sys.executable, "tools/draw_rooms.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_arrows_that_follow_from_others_are_left_out() -> None:
    draw = tool("draw_rooms")
    edges = {"top": {"middle", "low"}, "middle": {"low"}, "low": set(), "aside": {"low"}}
    assert draw.drawn(edges) == [("top", "middle"), ("middle", "low"), ("aside", "low")]


def test_every_room_is_in_the_picture() -> None:
    draw = tool("draw_rooms")
    packages = ROOT / "packages" / "reprieve" / "src" / "reprieve"
    rooms = {path.parent.name for path in packages.glob("*/__init__.py")} | set(draw.PACKAGES) - {"reprieve"}
    assert set(draw.COLUMNS) == {name for layer in draw.layers() for name in layer} == rooms


def test_every_page_is_in_the_navigation_once() -> None:
    configured = yaml.safe_load((ROOT / "mkdocs.yml").read_text())

    def pages(entries: list[Any]) -> list[str]:
        values = [value for entry in entries for value in entry.values()]
        return [page for value in values for page in ([value] if isinstance(value, str) else pages(value))]

    listed = pages(configured["nav"])
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed) == sorted(there | TOP)
    assert "search" in configured["plugins"]


def test_reference_is_what_the_code_says() -> None:
    checked = subprocess.run(
        [sys.executable, "tools/write_reference.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_reference_has_every_annotation_and_label_of_ours() -> None:
    """Those that the code has as constants, of `reprieve.dev` and `scheduling.reprieve.dev`."""
    page = (ROOT / "docs" / "reference" / "annotations.md").read_text()
    kinds = {"v1alpha1", "v1beta1", "v1alpha3"}
    found = set()
    for path in (ROOT / "packages").glob("*/src/**/*.py"):
        found |= set(re.findall(r'"((?:scheduling\.)?reprieve\.dev/[a-z-]+)"', path.read_text()))
    found -= {name for name in found if name.rsplit("/", 1)[1] in kinds}
    found.discard("reprieve.dev/scheduler")  # an extension of a kubeconfig
    assert len(found) > 5
    assert not [name for name in found if f"`{name}`" not in page]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_no_page_begins_with_long_manifests(page: Path) -> None:
    """At most ten lines of YAML before the first command; longer ones are files of examples/."""
    lines = 0
    for block in blocks(page):
        if block.language != "yaml":
            break
        lines += block.text.count("\n")
    assert lines <= 10


@pytest.mark.parametrize("name", ["fault.yaml", "wish.yaml"])
def test_issue_forms_are_forms(name: str) -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / name).read_text())
    assert form["name"]
    assert form["description"]
    assert len({part["id"] for part in form["body"]}) == len(form["body"])
    for part in form["body"]:
        assert part["type"] in {"textarea", "input"}
        assert part["attributes"]["label"]
        assert isinstance(part["validations"]["required"], bool)
