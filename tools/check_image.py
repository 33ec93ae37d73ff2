"""The steps of deploy/Containerfile, carried out in a chroot: for machines without a container registry.

    sudo python3 tools/check_image.py [--base DIR]

Needs Debian or Ubuntu, root, debootstrap, and the network for Debian's and Python's packages. The base image,
python:3.11-slim, is stood in for by a minimal Debian 12 with its Python 3.11 in /usr/local; `--base` keeps it for the
next time. Everything else is as the file says: what of the checkout .dockerignore lets through, each RUN in its stage,
the environment, the user. Then the entry point is run as that user, and has to answer.

Ends with exit code 1 and what was printed at the first step that fails.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = "python3.11-venv,python3-pip,ca-certificates"
STAND_IN = "debian@sha256:stand-in"
"""The value of the argument BASE."""
PASSED_ON = ("PIP_INDEX_URL", "PIP_TRUSTED_HOST", "http_proxy", "https_proxy", "no_proxy")
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
MANIFEST = """
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


class StepError(Exception):
    """A step failed, or the file says something that is not understood here."""


@dataclass
class Stage:
    """One FROM and what came of it. `root`: the directory that is its file system."""

    name: str
    root: Path
    directory: str = "/"
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH, "HOME": "/root"})
    arguments: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)


def steps(text: str) -> list[tuple[str, str]]:
    """Instruction and argument of every step, continued lines joined."""
    joined = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    parts = (line.split(None, 1) for line in joined.splitlines() if line.strip())
    return [(part[0].upper(), part[1].strip()) for part in parts]


def context() -> list[str]:
    """The files of the checkout that .dockerignore lets through; of its patterns the last that matches counts."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    def kept(name: str) -> bool:
        result = True
        for pattern in patterns:
            wanted = pattern.removeprefix("!").removeprefix("**/")
            inside = pattern.lstrip("!").startswith("**/")
            parts = name.split("/")
            tried = parts if inside else ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
            if any(fnmatch.fnmatch(one, wanted) for one in tried):
                result = pattern.startswith("!")
        return result

    return [name for name in listed.stdout.splitlines() if kept(name)]


def run_in(stage: Stage, command: list[str], *, stdin: str = "") -> str:
    """What a command printed that runs in a stage, as its user. Raises StepError where it fails."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    inner = ["/usr/bin/env", "-i", *(f"{k}={v}" for k, v in {**passed, **stage.environment}.items())]
    script = 'cd "$1" && shift && exec "$@"'
    ended = subprocess.run(
        ["chroot", f"--userspec={stage.user}", stage.root, *inner, "sh", "-c", script, "sh", stage.directory, *command],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise StepError(f"{shlex.join(command)}: exit code {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def make_base(where: Path) -> None:
    """A minimal Debian with Python where the official image has it; kept if it is there already."""
    if (where / "usr/local/bin/python").exists():
        return
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", where, MIRROR],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shutil.copy("/etc/resolv.conf", where / "etc/resolv.conf")
    bundle = Path(os.environ.get("SSL_CERT_FILE", f"/{CERTIFICATES}"))
    if bundle.is_file():
        shutil.copy(bundle, where / CERTIFICATES)
    run_in(Stage("base", where), ["python3.11", "-m", "venv", "/usr/local"])


def inside(stage: Stage, path: str) -> Path:
    """Where a path of a stage is on this machine."""
    return stage.root / os.path.normpath(os.path.join(stage.directory, path)).lstrip("/")


def copy(stage: Stage, argument: str, stages: dict[str, Stage]) -> None:
    """COPY of files or one directory, from the checkout or another stage."""
    words = shlex.split(argument)
    origin = stages[words.pop(0).removeprefix("--from=")].root if words[0].startswith("--from=") else None
    *sources, target = words
    to = inside(stage, target)
    allowed = context()
    for source in sources:
        if origin is not None:
            shutil.copytree(origin / source.lstrip("/"), to, symlinks=True, dirs_exist_ok=True)
            continue
        names = [name for name in allowed if name == source or name.startswith(f"{source}/")]
        if not names:
            raise StepError(f"COPY {argument}: {source} is not part of the context (.dockerignore)")
        for name in names:
            single = name == source and (target.endswith("/") or len(sources) > 1)
            there = to / Path(name).name if single else to / Path(name).relative_to(source)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, there, follow_symlinks=False)


def build(scratch: Path, base: Path) -> Stage:
    """Carry out every step; returns the last stage."""
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for number, (instruction, argument) in enumerate(steps(CONTAINERFILE.read_text())):
        print(f"{instruction} {argument}", flush=True)
        if instruction == "FROM":
            words = argument.split()
            if not words[0].startswith("${BASE:-"):
                raise StepError(f"FROM {words[0]}: only the base image of the argument BASE is stood in for here")
            stage = Stage(words[2] if len(words) > 1 else str(number), scratch / str(number))
            subprocess.run(["cp", "-a", base, stage.root], check=True)
            stages[stage.name] = stage
            continue
        if stage is None and instruction == "ARG":
            continue
        assert stage is not None, "a Containerfile begins with FROM"
        match instruction:
            case "ARG":
                stage.arguments[argument] = STAND_IN
            case "WORKDIR":
                stage.directory = argument
                inside(stage, ".").mkdir(parents=True, exist_ok=True)
            case "COPY":
                copy(stage, argument, stages)
            case "RUN":
                run_in(stage, ["env", *(f"{k}={v}" for k, v in stage.arguments.items()), "sh", "-c", argument])
            case "ENV":
                for pair in shlex.split(argument):
                    name, _, value = pair.partition("=")
                    stage.environment[name] = value.replace("$PATH", stage.environment["PATH"])
            case "USER":
                stage.user = argument
            case "ENTRYPOINT":
                stage.entrypoint = json.loads(argument)
            case "CMD":
                run_in(stage, [*stage.entrypoint, *json.loads(argument)])
            case _:
                raise StepError(f"{instruction} is not known here")
    assert stage is not None, "a Containerfile begins with FROM"
    return stage


def try_out(image: Stage) -> None:
    """Check the image: it answers, runs as an unprivileged user, and cannot change itself."""
    printed = run_in(image, [*image.entrypoint, "--version"]).strip()
    print(f"as {image.user}: {printed}")
    if image.user.split(":")[0] in ("0", "root"):
        raise StepError("the image runs as root")
    planned = run_in(image, [*image.entrypoint, "plan", "-f", "-"], stdin=MANIFEST)
    if "placed  on n1" not in planned:
        raise StepError(f"plan does not place a pod:\n{planned}")
    run_in(image, ["sh", "-c", "! touch /opt/reprieve/x 2>/dev/null && ! python -m pip --version 2>/dev/null"])
    size = sum(path.lstat().st_size for path in (image.root / "opt/reprieve").rglob("*")) / 2**20
    print(f"plan answers; nothing in the image can be changed by its user; /opt/reprieve has {size:.0f} MiB")


def main() -> int:
    """Build it and try it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--base", type=Path, metavar="DIR", help="keep the base system here, and use it if it is there")
    base = parser.parse_args().base
    if os.geteuid() != 0 or shutil.which("chroot") is None or shutil.which("debootstrap") is None:
        print("error: this needs root, chroot and debootstrap", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="reprieve-image-") as name:
        scratch = Path(name)
        scratch.chmod(0o755)
        try:
            where = base or scratch / "base"
            make_base(where)
            try_out(build(scratch, where))
        except (StepError, subprocess.CalledProcessError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
