"""deploy/Containerfile and .dockerignore, without building the image (`tools/check_image.py` does)."""

import re
import subprocess
from pathlib import Path

from tests.docs.test_site import tool

ROOT = Path(__file__).parents[2]


def test_context_is_what_the_image_is_made_of() -> None:
    """Not the tests, not what a builder has lying about, and nothing that is not in the repository."""
    names = tool("check_image").context()
    assert {"LICENSE"} == {name for name in names if "/" not in name}
    assert {name.split("/")[0] for name in names if "/" in name} == {"packages", "docs", "examples", "deploy"}
    assert {name for name in names if name.startswith("deploy/")} == {
        f"deploy/locks/{lock}.txt" for lock in ("build", "dev", "docs", "helm", "image", "release")
    }
    assert all(name.endswith(".md") for name in names if name.startswith("docs/")), "pages of `reprieve help`"
    assert "packages/reprieve/src/reprieve/__init__.py" in names


def test_every_step_is_understood_and_finds_its_files() -> None:
    check = tool("check_image")
    steps = check.steps((ROOT / "deploy" / "Containerfile").read_text())
    assert {name for name, _ in steps} <= {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
    names = check.context()
    for name, argument in steps:
        if name == "COPY" and not argument.startswith("--from"):
            for source in argument.split()[:-1]:
                assert any(path == source or path.startswith(f"{source}/") for path in names), source


def test_base_image_is_named_by_digest_or_not_at_all() -> None:
    """No default that grows old; a tag in its place ends the build at the first step."""
    steps = tool("check_image").steps((ROOT / "deploy" / "Containerfile").read_text())
    assert steps[0] == ("ARG", "BASE=")
    assert all(
        argument.startswith("${BASE:-localhost/set-build-arg-BASE-") for name, argument in steps if name == "FROM"
    )
    refusal = next(argument for name, argument in steps if name == "RUN")
    for base, code in (("python@sha256:0123", 0), ("python:3.11-slim", 1), ("", 1)):
        ended = subprocess.run(["sh", "-c", refusal], env={"BASE": base}, capture_output=True, text=True)
        assert ended.returncode == code
        assert ("is no digest" in ended.stderr) is bool(code)


def test_everything_installed_comes_from_a_lock_with_hashes() -> None:
    """And the packages themselves without an index."""
    steps = tool("check_image").steps((ROOT / "deploy" / "Containerfile").read_text())
    commands = [part.strip() for name, argument in steps if name == "RUN" for part in argument.split("&&")]
    installs = [command for command in commands if " install " in command or " wheel --" in command]
    assert len(installs) == 4
    assert all("--require-hashes" in command or "--no-index --no-deps" in command for command in installs)


def test_image_does_not_run_as_root() -> None:
    users = [argument for name, argument in tool("check_image").steps((ROOT / "deploy" / "Containerfile").read_text())
             if name == "USER"]  # fmt: skip
    assert len(users) == 1
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[0]), "kubelets check runAsNonRoot by the number"
