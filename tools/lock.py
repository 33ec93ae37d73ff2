"""Pin what the packages need, with hashes: `make lock` writes deploy/locks, `make lint` checks it without network.

    tools/lock.py            # writes the locks, with the newest releases that pyproject.toml allows (uv, PyPI)
    tools/lock.py --check    # exit code 1 if a lock does not match the pyproject.toml of the three packages

A lock begins with the requirements that it was written for, so that a changed pyproject.toml is noticed. The check also
demands that each of them is met by a pinned release, and that each release has hashes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "deploy" / "locks"
PACKAGES = ("kube-rules", "kube-standin", "reprieve")
"""Each after those that it needs."""
OLDEST_PYTHON = "3.11"
EXTRAS = {"image": "records", "dev": "dev"}
"""Lock -> the extra of the package reprieve that it has beside the dependencies of all three."""
BUILDS = {"build": None, "release": "release"}
"""Lock -> the extra that it has beside the build systems of the packages, and what editable installs need."""
EDITABLES = "editables>=0.5"
BESIDE = ("docs", "helm")
"""Extras with a lock of their own, which are installed beside the lock `dev`: the same releases where both have one."""
_NEED = "# needs: "
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^ ;\\]+)")


class LockError(Exception):
    """A lock that does not match; the message has a line for each fault."""


@dataclass(frozen=True)
class Pin:
    """One pinned release: canonical name, version, whether it has hashes, and the line."""

    name: str
    version: str
    hashed: bool
    line: int


def needs() -> dict[str, list[str]]:
    """Return the direct requirements of each lock, sorted, without our own packages."""
    documents = {name: tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text()) for name in PACKAGES}

    def of(package: str, extra: str | None) -> Iterator[str]:
        project = documents[package]["project"]
        listed = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
        for text in listed:
            requirement = Requirement(text)
            if requirement.name not in PACKAGES:
                yield text
            for inner in sorted(requirement.extras if requirement.name in PACKAGES else ()):
                yield from of(requirement.name, inner)

    plain = [text for name in PACKAGES for text in of(name, None)]
    systems = [text for document in documents.values() for text in document["build-system"]["requires"]]
    locks = {lock: sorted({*plain, *of("reprieve", extra)}) for lock, extra in EXTRAS.items()}
    locks |= {extra: sorted(of("reprieve", extra)) for extra in BESIDE}
    for lock, extra in BUILDS.items():
        locks[lock] = sorted({*systems, EDITABLES, *(of("reprieve", extra) if extra else ())})
    return locks


def pins(text: str) -> list[Pin]:
    """Return the releases that a lock pins, in its order."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line and line[0] not in " #"]
    read = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        match = _PIN.match(lines[start])
        if match is None:
            raise LockError(f"line {start + 1}: {lines[start]!r} pins no release")
        hashed = any("--hash=sha256:" in line for line in lines[start:end])
        read.append(Pin(canonicalize_name(match[1]), match[2], hashed, start + 1))
    return read


def faults(lock: str, wanted: list[str], text: str) -> Iterator[str]:
    """Yield what is wrong with a lock that should meet the requirements `wanted`."""
    where = f"deploy/locks/{lock}.txt"
    stated = {line.removeprefix(_NEED) for line in text.splitlines() if line.startswith(_NEED)}
    for requirement in sorted(stated ^ set(wanted)):
        verb = "was written for" if requirement in stated else "was written without"
        yield f"{where} {verb} {requirement}, unlike pyproject.toml"
    try:
        read = pins(text)
    except LockError as error:
        yield f"{where}, {error}"
        return
    for pin in read:
        if not pin.hashed:
            yield f"{where}, line {pin.line}: {pin.name} {pin.version} has no hash"
    for requirement_ in map(Requirement, wanted):
        versions = [pin.version for pin in read if pin.name == canonicalize_name(requirement_.name)]
        if not versions or not all(requirement_.specifier.contains(v, prereleases=True) for v in versions):
            yield f"{where} pins {requirement_.name} {', '.join(versions) or 'not at all'}; needed is {requirement_}"


def check() -> None:
    """Raise LockError unless every lock matches; without network."""
    found = []
    for lock, wanted in needs().items():
        path = PLACE / f"{lock}.txt"
        found += [*faults(lock, wanted, path.read_text())] if path.is_file() else [f"{path.name} is missing"]
    if found:
        raise LockError("\n".join([*found, "run `make lock`"]))


def write() -> None:
    """Write every lock; first those that others take their releases from."""
    PLACE.mkdir(exist_ok=True)
    for lock, wanted in needs().items():
        with tempfile.TemporaryDirectory() as scratch:
            inputs, made = Path(scratch) / "needs.in", Path(scratch) / "lock.txt"
            inputs.write_text("\n".join(wanted) + "\n")
            command = [sys.executable, "-m", "uv", "pip", "compile", inputs, "--output-file", made, "--quiet"]
            command += ["--universal", "--python-version", OLDEST_PYTHON, "--generate-hashes"]
            command += ["--no-header", "--no-annotate", "--no-config"]
            if lock in BESIDE:
                command += ["--constraint", PLACE / "dev.txt"]
            subprocess.run(list(map(str, command)), check=True)
            head = ["# Written by `make lock` (docs/release.md): what is pinned here, and for which requirements."]
            head += [f"{_NEED}{requirement}" for requirement in wanted]
            (PLACE / f"{lock}.txt").write_text("\n".join(head) + "\n" + made.read_text())
        print(f"deploy/locks/{lock}.txt: {len(pins((PLACE / f'{lock}.txt').read_text()))} releases")


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only compare the locks with pyproject.toml")
    try:
        check() if parser.parse_args().check else write()
    except (LockError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
