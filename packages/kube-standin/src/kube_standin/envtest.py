"""Replacements of etcd and kube-apiserver for envtest, the test environment of controller-runtime (Go).

envtest starts both from a folder (KUBEBUILDER_ASSETS), passes addresses and certificates as flags, and checks the
health of each. Its users have client certificates. As in envtest, no controllers and no kubelets run.
Functions import the server: the replacement of etcd does without it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kube_standin.command import CommandRefusedError, Console, interrupted, run_serving

if TYPE_CHECKING:
    from kube_standin.server.control_plane import ServeOptions

_CODE_EXECUTABLE = 0o755


def write_assets(folder: Path) -> None:
    """Write the programs ``etcd`` and ``kube-apiserver`` to a folder, created if needed. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        command = shlex.join((sys.executable, "-m", "kube_standin.envtest", name))
        path = folder / name
        draft = path.with_name(f".{name}.{os.getpid()}")
        draft.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        draft.chmod(_CODE_EXECUTABLE)
        draft.replace(path)


def etcd(arguments: Sequence[str]) -> None:
    """Answer GET /health on the client URL until SIGTERM. It stores nothing: the API server has its own storage."""
    parser = _Flags("etcd", "Answer health checks in place of etcd.")
    parser.add_argument("--listen-client-urls", default="http://127.0.0.1:2379", metavar="URL")
    address = urlsplit(parser.read(arguments).listen_client_urls)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with HTTPServer((address.hostname or "", address.port or 0), _Health) as server:
        server.serve_forever()


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer that the server is healthy."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"health":"true"}')

    def log_message(self, format: str, *arguments: object) -> None:
        """Write nothing."""


def kube_apiserver(arguments: Sequence[str]) -> None:
    """Serve with flags of kube-apiserver until SIGTERM. Objects are kept in memory."""
    console = Console()
    console.log(verbose=False)
    run_serving(_serve(_options(arguments)), console)


def _options(arguments: Sequence[str]) -> ServeOptions:
    from kube_standin.admission import STEPS, admission_steps
    from kube_standin.security import Certificates
    from kube_standin.server.control_plane import ServeOptions

    parser = _Flags("kube-apiserver", "Serve in place of kube-apiserver. Other flags are ignored, with a note.")
    parser.add_argument("--bind-address", default="127.0.0.1", metavar="ADDRESS")
    parser.add_argument("--secure-port", type=int, default=6443, metavar="PORT")
    parser.add_argument("--cert-dir", type=Path, metavar="DIR", help="apiserver.crt and apiserver.key")
    parser.add_argument("--tls-cert-file", type=Path, metavar="FILE")
    parser.add_argument("--tls-private-key-file", type=Path, metavar="FILE")
    parser.add_argument(
        "--client-ca-file", type=Path, metavar="FILE", help="authority of the client certificates that name users"
    )
    parser.add_argument("--disable-admission-plugins", action="append", default=[], metavar="NAME,...")
    flags = parser.read(arguments)
    directory = flags.cert_dir or Path()
    certificate = flags.tls_cert_file or directory / "apiserver.crt"
    key = flags.tls_private_key_file or directory / "apiserver.key"
    off = STEPS.keys() & {name for names in flags.disable_admission_plugins for name in names.split(",")}
    return ServeOptions(
        host=flags.bind_address,
        port=flags.secure_port,
        anonymous=True,
        client_ca=flags.client_ca_file,
        certificates=Certificates(certificate, certificate, key) if certificate.exists() else None,
        steps=lambda registry: admission_steps(registry, off=off),
    )


async def _serve(options: ServeOptions) -> None:
    from kube_standin.server.control_plane import serving

    stop = interrupted()
    async with serving(options):
        await stop.wait()


class _Flags(argparse.ArgumentParser):
    """Reads the flags that have an effect here and reports the others."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, description=description, allow_abbrev=False)

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the flags; an invalid one ends the process with code 2."""
        flags, ignored = self.parse_known_args(arguments)
        if ignored:
            Console().note(f"{self.prog}: ignored: {' '.join(ignored)}")
        return flags


PROGRAMS: Mapping[str, Callable[[Sequence[str]], None]] = {"etcd": etcd, "kube-apiserver": kube_apiserver}


if __name__ == "__main__":
    try:
        PROGRAMS[sys.argv[1]](sys.argv[2:])
    except CommandRefusedError as error:
        Console().note(f"error: {error}")
        sys.exit(2)
