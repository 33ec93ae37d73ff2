"""deploy/Containerfile and .dockerignore, without building the image (`tools/check_image.py` does)."""

import re
from pathlib import Path

from tests.docs.test_site import tool

ROOT = Path(__file__).parents[2]


def test_context_is_what_the_image_is_made_of() -> None:
    """Not the tests, not what a builder has lying about, and nothing that is not in the repository."""
    names = tool("check_image").context()
    assert {"LICENSE"} == {name for name in names if "/" not in name}
    assert {name.split("/")[0] for name in names if "/" in name} == {"packages", "docs", "examples"}
    assert all(name.endswith(".md") for name in names if name.startswith("docs/")), "pages of `reprieve help`"
    assert "packages/reprieve/src/reprieve/__init__.py" in names


def test_every_step_is_understood_and_finds_its_files() -> None:
    check = tool("check_image")
    steps = check.steps((ROOT / "deploy" / "Containerfile").read_text())
    assert {name for name, _ in steps} <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
    names = check.context()
    for name, argument in steps:
        if name == "COPY" and not argument.startswith("--from"):
            for source in argument.split()[:-1]:
                assert any(path == source or path.startswith(f"{source}/") for path in names), source


def test_image_does_not_run_as_root() -> None:
    users = [argument for name, argument in tool("check_image").steps((ROOT / "deploy" / "Containerfile").read_text())
             if name == "USER"]  # fmt: skip
    assert len(users) == 1
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[0]), "kubelets check runAsNonRoot by the number"
