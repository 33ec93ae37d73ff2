"""What is about to be released, built and tried as a user would: `make release-check` (docs/release.md).

Builds the sdist of each package, and its wheel out of the sdist, into dist/; compares what is in them with the
repository; installs the wheels into new environments that know nothing of the checkout; runs the command there. Writes
an SBOM (CycloneDX) of each wheel with what it needs, and of the Python packages of the image with their hashes. Ends
with exit code 1 and what was printed at the first thing that is wrong. Needs git and access to a package index.
"""

from __future__ import annotations

import json
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
LOCKS = ROOT / "deploy" / "locks"
PACKAGES = {"kube-rules": "kube_rules", "kube-standin": "kube_standin", "reprieve": "reprieve"}
"""Distribution -> what is imported; each after those that it needs."""
PAGES = "src/reprieve/cli/pages"
"""A link to docs/ in the repository, the pages of `reprieve help` in a build."""
EXAMPLES = "src/reprieve/cli/examples"
"""A link to examples/ in the repository, the files that those pages name in a build."""
MADE_BY_THE_BUILD = {"PKG-INFO", ".gitignore"}
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


def build(scratch: Path, version: str) -> dict[str, tuple[Path, Path]]:
    """Build the sdist of each package, and its wheel from that."""
    tools = environment(scratch / "tools")
    run([tools / "pip", "install", "--quiet", "--require-hashes", "-r", LOCKS / "release.txt"], scratch)
    shutil.rmtree(DIST, ignore_errors=True)
    built = {}
    for name, module in PACKAGES.items():
        run([tools / "python", "-m", "build", "--no-isolation", "--outdir", DIST, ROOT / "packages" / name], scratch)
        built[name] = (DIST / f"{module}-{version}.tar.gz", DIST / f"{module}-{version}-py3-none-any.whl")
    made = {path.name for path in DIST.iterdir()}
    if made != (wanted := {path.name for both in built.values() for path in both}):
        raise WrongError(f"dist/ has {', '.join(sorted(made))}; wanted {', '.join(sorted(wanted))}")
    return built


def check_contents(name: str, sdist: Path, wheel: Path, version: str) -> None:
    """Nothing of the package is missing, and nothing came along that is not in the repository."""
    folder, module = f"packages/{name}/", PACKAGES[name]
    files = {path.removeprefix(folder) for path in tracked() if path.startswith(folder)}
    if PAGES in files:
        files -= {PAGES, EXAMPLES}
        pages = [path for path in tracked() if re.fullmatch(r"docs/(reference/)?[\w-]+\.md", path)]
        files |= {path.replace("docs", PAGES, 1) for path in pages}
        files |= {f"src/reprieve/cli/{path}" for path in tracked() if path.startswith("examples/")}
    with tarfile.open(sdist) as archive:
        top = f"{module}-{version}/"
        packed = {member.name.removeprefix(top) for member in archive.getmembers() if not member.isdir()}
    if stray := packed - files - MADE_BY_THE_BUILD:
        raise WrongError(f"{sdist.name} has what the repository has not: {', '.join(sorted(stray)[:5])}")
    if missing := files - packed:
        raise WrongError(f"{sdist.name} lacks {', '.join(sorted(missing)[:5])}")
    with zipfile.ZipFile(wheel) as archive_:
        names = {path for path in archive_.namelist() if not path.endswith("/")}
        license_text = archive_.read(f"{module}-{version}.dist-info/licenses/LICENSE").decode()
    installed = {path for path in names if ".dist-info/" not in path}
    package = {path.removeprefix("src/") for path in files if path.startswith("src/")}
    if installed != package:
        raise WrongError(f"{wheel.name} and src/ differ: {', '.join(sorted(installed ^ package)[:5])}")
    if license_text != (ROOT / "LICENSE").read_text():
        raise WrongError(f"{wheel.name} has another LICENSE")


def check_installed(wheels: Sequence[Path], scratch: Path, version: str) -> None:
    """The wheels, alone, do what the README promises."""
    programs = environment(scratch / "clean")
    run([programs / "pip", "install", "--quiet", *wheels], scratch)
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


def describe(built: Mapping[str, tuple[Path, Path]], scratch: Path, version: str) -> None:
    """Write the SBOMs to dist/: `NAME-VERSION.cdx.json` of each wheel, `image-VERSION.cdx.json` of the lock."""
    maker = scratch / "tools" / "bin" / "cyclonedx-py"
    common = ["--output-format", "JSON", "--spec-version", "1.6", "--output-reproducible", "--validate"]
    pinned = re.findall(r"^[\w.-]+==[^ ;\\]+(?: ;[^\\]*)?", (LOCKS / "image.txt").read_text(), flags=re.MULTILINE)
    constraints = scratch / "constraints.txt"  # without the hashes: with them the wheels would need some, too
    constraints.write_text("\n".join(pinned) + "\n")
    for name, module in PACKAGES.items():
        programs = environment(scratch / f"sbom-{name}")
        wheel = built[name][1]
        run([programs / "pip", "install", "--quiet", "-c", constraints, "--find-links", DIST, wheel], scratch)
        run([programs / "pip", "uninstall", "--quiet", "--yes", "setuptools", "pip"], scratch)
        project = ["--pyproject", ROOT / "packages" / name / "pyproject.toml", "--mc-type", "library"]
        path = DIST / f"{module}-{version}.cdx.json"
        run([maker, "environment", *project, *common, "--output-file", path, programs / "python"], scratch)
        check_sbom(path, hashed=False)
    path = DIST / f"image-{version}.cdx.json"
    project = ["--pyproject", ROOT / "packages" / "reprieve" / "pyproject.toml"]
    run([maker, "requirements", *project, *common, "--output-file", path, LOCKS / "image.txt"], scratch)
    check_sbom(path, hashed=True)


def check_sbom(path: Path, *, hashed: bool) -> None:
    """Raise WrongError if an SBOM names no component, or one without version, or (`hashed`) without hash."""
    document = json.loads(path.read_text())
    components = document.get("components", [])
    if document.get("bomFormat") != "CycloneDX" or not components:
        raise WrongError(f"{path.name} names no components")
    for component in components:
        hashes = [h for reference in component.get("externalReferences", ()) for h in reference.get("hashes", ())]
        if not component.get("version") or not component.get("purl") or (hashed and not hashes):
            raise WrongError(f"{path.name}: {component['name']} lacks a version, a package URL or a hash")
    print(f"{path.name} names {len(components)} components", flush=True)


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


def version_of() -> str:
    """Return the one version of the packages. Raises WrongError where they differ."""
    texts = [(ROOT / "packages" / name / "pyproject.toml").read_text() for name in PACKAGES]
    projects = [tomllib.loads(text)["project"] for text in texts]
    (version, *others) = sorted({project["version"] for project in projects})
    needed = {need for project in projects for need in project["dependencies"] if need.startswith("kube-")}
    if others or needed - {f"{name}=={version}" for name in PACKAGES}:
        raise WrongError(f"the packages and what they need of each other differ in version: {version}, {needed}")
    return version


def main() -> int:
    """Check everything, one after the other."""
    try:
        version = version_of()
        check_texts(version)
        with tempfile.TemporaryDirectory(prefix="reprieve-release-") as name:
            scratch = Path(name).resolve()
            built = build(scratch, version)
            for name, (sdist, wheel) in built.items():
                check_contents(name, sdist, wheel, version)
                print(f"built {sdist.name} and {wheel.name}, which hold what the repository holds", flush=True)
            describe(built, scratch, version)
            check_installed([wheel for _, wheel in built.values()], scratch, version)
            print("the wheels run by themselves: pip check, plan, demo", flush=True)
    except WrongError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
