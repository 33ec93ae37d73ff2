"""Pack `kubectl reprieve` for krew, the plugin manager of kubectl (docs/release.md).

    tools/kubectl_plugin.py archive --platform linux-amd64   # dist/kubectl-reprieve-linux-amd64.tar.gz
    tools/kubectl_plugin.py manifest --base URL              # dist/reprieve.yaml, for all archives in dist/

An archive has the packages with what deploy/locks/image.txt pins, by hash, for Python 3.11 of one platform, and a
launcher that starts the `python3.11` of the PATH without anything else that is installed there. The manifest has the
hash of each archive, and URL/NAME as its address.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PACKAGES = ("kube-rules", "kube-standin", "reprieve")
PLATFORMS = {"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"}
HOME = "https://github.com/example/reprieve"
LAUNCHER = """#!/bin/sh
# kubectl reprieve: the packages beside this file, in Python 3.11 without its own site-packages.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd) || exit 2
command -v python3.11 >/dev/null || { echo "error: kubectl reprieve needs python3.11 on the PATH" >&2; exit 2; }
exec python3.11 -I -S -c '
import sys
sys.path.insert(0, sys.argv.pop(1))
from reprieve.cli.main import kubectl
kubectl()' "$here/lib" "$@"
"""
CAVEATS = "The plugin needs python3.11 on the PATH."


def version() -> str:
    """Return the version of the packages."""
    text = (ROOT / "packages" / "reprieve" / "pyproject.toml").read_text()
    return str(tomllib.loads(text)["project"]["version"])


def pip(*arguments: str | Path) -> None:
    """Run pip of this Python, quietly."""
    command: Sequence[str | Path] = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)
    subprocess.run(list(map(str, command)), check=True)


def lay_out(scratch: Path) -> Path:
    """Install the locked releases and the packages below a directory, with the launcher; return the directory."""
    top = scratch / "kubectl-reprieve"
    pip(
        "install",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--target",
        top / "lib",
        "-r",
        ROOT / "deploy/locks/image.txt",
    )
    shutil.rmtree(top / "lib" / "bin")
    pip("wheel", "--no-deps", "--wheel-dir", scratch / "wheels", *(ROOT / "packages" / name for name in PACKAGES))
    pip("install", "--no-deps", "--no-index", "--target", top / "lib", *(scratch / "wheels").glob("*.whl"))
    shutil.rmtree(top / "lib" / "bin")  # commands with the path of this machine's Python
    launcher = top / "kubectl-reprieve"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    (top / "LICENSE").write_text((ROOT / "LICENSE").read_text())
    return top


def archive(platform: str) -> Path:
    """Write the archive of a platform, which is that of this machine."""
    DIST.mkdir(exist_ok=True)
    path = DIST / f"kubectl-reprieve-{platform}.tar.gz"
    with tempfile.TemporaryDirectory() as name:
        top = lay_out(Path(name))
        said = subprocess.run(
            [top / "kubectl-reprieve", "--version"], capture_output=True, text=True, check=True
        ).stdout
        if version() not in said:
            raise SystemExit(f"error: the plugin says {said.strip()!r}; the version is {version()}")
        with tarfile.open(path, "w:gz") as packed:
            packed.add(top, arcname=".", filter=lambda item: None if "__pycache__" in item.name else item)
    return path


def manifest(base: str) -> dict[str, object]:
    """Return krew's manifest of the archives in dist/. Raises SystemExit if there are none."""
    platforms = []
    for path in sorted(DIST.glob("kubectl-reprieve-*.tar.gz")):
        platform = path.name.removeprefix("kubectl-reprieve-").removesuffix(".tar.gz")
        if platform not in PLATFORMS:
            raise SystemExit(f"error: {path.name}: no platform of {', '.join(sorted(PLATFORMS))}")
        system, machine = platform.split("-")
        platforms.append(
            {
                "selector": {"matchLabels": {"os": system, "arch": machine}},
                "uri": f"{base.rstrip('/')}/{path.name}",
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "bin": "kubectl-reprieve",
            }
        )
    if not platforms:
        raise SystemExit("error: dist/ has no archive; `tools/kubectl_plugin.py archive` makes one")
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "reprieve"},
        "spec": {
            "version": f"v{version()}",
            "homepage": HOME,
            "shortDescription": "Plan gangs and preemptions of a cluster",
            "description": "What a scheduler for gangs would place and evict in your cluster, and why; writes nothing.",
            "caveats": CAVEATS,
            "platforms": platforms,
        },
    }


def main() -> None:
    """Pack or describe."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("archive", help="pack the plugin for this machine")
    packing.add_argument("--platform", required=True, choices=sorted(PLATFORMS))
    describing = commands.add_parser("manifest", help="write the manifest of all archives in dist/")
    describing.add_argument("--base", required=True, metavar="URL", help="where the archives can be fetched")
    options = parser.parse_args()
    if options.command == "archive":
        print(archive(options.platform))
    else:
        # JSON is YAML.
        (DIST / "reprieve.yaml").write_text(json.dumps(manifest(options.base), indent=2) + "\n")
        print(DIST / "reprieve.yaml")


if __name__ == "__main__":
    main()
