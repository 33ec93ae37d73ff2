"""Test packages as their users have them: their wheels in a new environment, with none of the checkout's sources.

    tools/check_wheels.py kube-rules kube-standin [PYTEST OPTION...]

Builds the wheels of the packages and of those they need, and copies the tests out of the checkout. Then it installs one
package after the other, with its extra `test`, and runs its tests before the next is installed. Exit code 1 and the
output of what failed. Needs access to a package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from check_release import PACKAGES, ROOT, WrongError, environment, run


def check(names: Sequence[str], options: list[str], scratch: Path) -> int:
    """Run the tests of packages, given in the order of `PACKAGES`, in `scratch`; return pytest's exit code."""
    needed = _with_needs(names[-1])
    programs = environment(scratch / "venv")
    wheels = scratch / "wheels"
    pip = [programs / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    sources = [ROOT / "packages" / package for package in needed]
    run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, *sources], scratch)
    copy = scratch / "checkout"
    for part in ("pyproject.toml", "conftest.py", *(f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py"))):
        (copy / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / part, copy / part)
    for package in needed:
        shutil.copytree(ROOT / "packages" / package / "tests", copy / "packages" / package / "tests")
    if (data := ROOT.parent / "shared").is_dir():  # tests.outside
        (scratch / "shared").symlink_to(data)
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    for name in names:
        run([*pip, "install", "--find-links", wheels, f"{name}[test]"], scratch)
        _refuse_sources(programs, _with_needs(name), copy)
        command = [programs / "python", "-m", "pytest", f"packages/{name}/tests", *options]
        if code := subprocess.run(command, cwd=copy, env=env, check=False).returncode:
            return code
    return 0


def _with_needs(name: str) -> list[str]:
    """Return a package and those it needs, in the order of `PACKAGES`."""
    return list(PACKAGES)[: list(PACKAGES).index(name) + 1]


def _refuse_sources(programs: Path, needed: list[str], copy: Path) -> None:
    """Raise if a package comes from somewhere else than its wheel, or one that is not needed is there."""
    for name, module in PACKAGES.items():
        code = f"import importlib.util as u; s = u.find_spec({module!r}); print(s.origin if s else '')"
        origin = run([programs / "python", "-I", "-c", code], copy).strip()
        if (name in needed) is not ("site-packages" in origin):
            raise WrongError(f"{module} comes from {origin or 'nowhere'}")


def main() -> int:
    """Check the packages of the command line."""
    chosen = list(takewhile(lambda argument: not argument.startswith("-"), sys.argv[1:]))
    names = [name for name in PACKAGES if name in chosen]
    if not chosen or len(names) < len(chosen):
        print(
            f"usage: check_wheels.py PACKAGE... [PYTEST OPTION...], PACKAGE of {', '.join(PACKAGES)}", file=sys.stderr
        )
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        try:
            return check(names, sys.argv[1 + len(chosen) :], Path(scratch))
        except WrongError as error:
            print(error, file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
