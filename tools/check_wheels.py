"""Test a package as its users have it: its wheel in a new environment, with none of the checkout's sources.

    tools/check_wheels.py kube-standin [PYTEST OPTION...]

Builds the wheels of the package and of those it needs, installs them with the package's extra `test`, copies its tests
out of the checkout, and runs them there. Exit code 1 and the output of what failed. Needs access to a package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_release import PACKAGES, ROOT, WrongError, environment, run


def check(name: str, options: list[str], scratch: Path) -> int:
    """Run the tests of a package in `scratch` and return pytest's exit code."""
    needed = list(PACKAGES)[: list(PACKAGES).index(name) + 1]
    programs = environment(scratch / "venv")
    wheels = scratch / "wheels"
    pip = [programs / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    sources = [ROOT / "packages" / package for package in needed]
    run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, *sources], scratch)
    run([*pip, "install", "--find-links", wheels, f"{name}[test]"], scratch)
    copy = scratch / "checkout"
    for part in ("pyproject.toml", "conftest.py", *(f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py"))):
        (copy / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / part, copy / part)
    for package in needed:
        shutil.copytree(ROOT / "packages" / package / "tests", copy / "packages" / package / "tests")
    if (data := ROOT.parent / "shared").is_dir():  # tests.outside
        (scratch / "shared").symlink_to(data)
    _refuse_sources(programs, needed, copy)
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [programs / "python", "-m", "pytest", f"packages/{name}/tests", *options]
    return subprocess.run(command, cwd=copy, env=env, check=False).returncode


def _refuse_sources(programs: Path, needed: list[str], copy: Path) -> None:
    """Raise if a package comes from somewhere else than its wheel, or one that is not needed is there."""
    for name, module in PACKAGES.items():
        code = f"import importlib.util as u; s = u.find_spec({module!r}); print(s.origin if s else '')"
        origin = run([programs / "python", "-I", "-c", code], copy).strip()
        if (name in needed) is not ("site-packages" in origin):
            raise WrongError(f"{module} comes from {origin or 'nowhere'}")


def main() -> int:
    """Check the package of the command line."""
    name, *options = sys.argv[1:] or [""]
    if name not in PACKAGES:
        print(
            f"usage: check_wheels.py PACKAGE [PYTEST OPTION...], PACKAGE one of {', '.join(PACKAGES)}", file=sys.stderr
        )
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        try:
            return check(name, options, Path(scratch))
        except WrongError as error:
            print(error, file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
