"""What is about to be released, built and tried as a stranger would: `make release-check` (docs/release.md).

Builds the sdist, and the wheel out of the sdist, into dist/; compares what is in them with the repository; installs
the wheel into a new environment that knows nothing of the checkout; runs the command there. Ends with exit code 1 and
what was printed at the first thing that is wrong. Needs git and access to a package index.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
MADE_BY_THE_BUILD = {"PKG-INFO"}
CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


class WrongError(Exception):
    """Something about the release is not as it should be."""


def run(command: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """What a command printed. Raises WrongError with its output where it fails."""
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise WrongError(f"{' '.join(map(str, command))}: exit code {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def environment(where: Path) -> Path:
    """A new virtual environment; returns its directory of programs."""
    venv.create(where, with_pip=True)
    return where / "bin"


def tracked() -> set[str]:
    """The files of the repository, by path."""
    return set(run(["git", "ls-files"], ROOT).splitlines())


def build(scratch: Path, version: str) -> tuple[Path, Path]:
    """Sdist and wheel, the latter made from the former."""
    tools = environment(scratch / "tools")
    run([tools / "pip", "install", "--quiet", "build"], scratch)
    shutil.rmtree(DIST, ignore_errors=True)
    run([tools / "python", "-m", "build", "--outdir", DIST, ROOT], scratch)
    sdist, wheel = DIST / f"reprieve-{version}.tar.gz", DIST / f"reprieve-{version}-py3-none-any.whl"
    made = {path.name for path in DIST.iterdir()}
    if made != {sdist.name, wheel.name}:
        raise WrongError(f"dist/ has {', '.join(sorted(made))}; wanted {sdist.name} and {wheel.name}")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path, version: str) -> None:
    """Nothing of the package is missing, and nothing came along that is not in the repository."""
    files = tracked()
    with tarfile.open(sdist) as archive:
        top = f"reprieve-{version}/"
        packed = {member.name.removeprefix(top) for member in archive.getmembers() if member.isfile()}
    if stray := packed - files - MADE_BY_THE_BUILD:
        raise WrongError(f"the sdist has what the repository has not: {', '.join(sorted(stray)[:5])}")
    wanted = {name for name in files if name.startswith(("src/", "tests/", "docs/"))}
    if missing := (wanted | {"LICENSE", "README.md", "pyproject.toml"}) - packed:
        raise WrongError(f"the sdist lacks {', '.join(sorted(missing)[:5])}")
    with zipfile.ZipFile(wheel) as archive_:
        names = {name for name in archive_.namelist() if not name.endswith("/")}
        metadata = archive_.read(f"reprieve-{version}.dist-info/METADATA").decode()
    installed = {name for name in names if ".dist-info/" not in name}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    package = {name.removeprefix("src/") for name in files if name.startswith("src/")}
    package |= set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values())
    if installed != package:
        raise WrongError(f"wheel and src/ differ: {', '.join(sorted(installed ^ package)[:5])}")
    if not any(name.endswith("/LICENSE") for name in names - installed):
        raise WrongError("the wheel has no LICENSE")
    if "](docs/" in metadata and "Description-Content-Type: text/markdown" not in metadata:
        raise WrongError("the wheel's description is not told to be markdown")


def check_installed(wheel: Path, scratch: Path, version: str) -> None:
    """The wheel, alone, does what the README promises."""
    programs = environment(scratch / "clean")
    run([programs / "pip", "install", "--quiet", wheel], scratch)
    run([programs / "pip", "check"], scratch)
    home = scratch / "home"
    home.mkdir()
    (home / "cluster.yaml").write_text(CLUSTER)
    env = {"PATH": f"{programs}:{os.defpath}", "HOME": str(home), "LANG": "C.UTF-8"}
    where = run([programs / "python", "-c", "import reprieve; print(reprieve.__file__)"], home, env)
    if not where.startswith(str(scratch)):
        raise WrongError(f"reprieve is imported from {where.strip()}")
    printed = run(["reprieve", "--version"], home, env).strip()
    if printed != f"reprieve {version}":
        raise WrongError(f"reprieve --version says {printed!r}; pyproject.toml says {version}")
    if "placed  on n1" not in run(["reprieve", "plan", "-f", "cluster.yaml"], home, env):
        raise WrongError("reprieve plan does not place a pod")
    if not run(["reprieve", "help", "plan"], home, env).startswith("# "):
        raise WrongError("reprieve help does not find its pages")
    run(["reprieve", "demo"], home, env)


def check_texts(version: str) -> None:
    """The version is one, and the image is called by it."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        raise WrongError(f"pyproject.toml: {version} is no version")
    for name in tracked():
        if not name.startswith("deploy/") or (ROOT / name).is_dir():  # the chart links to directories beside it
            continue
        for tag in re.findall(r"\breprieve:(\d[\w.-]*)", (ROOT / name).read_text()):
            if tag != version:
                raise WrongError(f"{name} names the image reprieve:{tag}; the version is {version}")


def main() -> int:
    """Check everything, one after the other."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    try:
        check_texts(version)
        with tempfile.TemporaryDirectory(prefix="reprieve-release-") as name:
            scratch = Path(name).resolve()
            sdist, wheel = build(scratch, version)
            print(f"built {sdist.name} and {wheel.name}", flush=True)
            check_contents(sdist, wheel, version)
            print("they hold what the repository holds", flush=True)
            check_installed(wheel, scratch, version)
            print("the wheel runs by itself: pip check, plan, demo", flush=True)
    except WrongError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
