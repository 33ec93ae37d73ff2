"""A real PostgreSQL for tests: Debian's package, a cluster of its own in a temporary directory, killed at will."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import eventually

PASSWORD = "s3cret-of-tests"


def binaries() -> Path | None:
    """Where `initdb` and `postgres` are; None where PostgreSQL is not installed."""
    for place in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found and (Path(found).resolve().parent / "postgres").exists() else None


def reason_for_none() -> str:
    """Why there is none; empty where there is one."""
    if binaries() is None:
        return "not judged: PostgreSQL is not installed (apt-get install postgresql)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "not judged: PostgreSQL does not run as root, and there is no setpriv"
    return ""


class Postgres:
    """A server on loopback that wants a password."""

    def __init__(self, directory: Path) -> None:
        place = binaries()
        assert place is not None
        self._place = place
        self._data = directory / "data"
        self._as: list[str] = []
        if os.geteuid() == 0:
            self._as = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            shutil.chown(directory, "postgres", "postgres")
        secret = directory / "password"
        secret.write_text(PASSWORD)
        if self._as:
            shutil.chown(secret, "postgres", "postgres")
        self._run("initdb", f"--pgdata={self._data}", "--username=tests", f"--pwfile={secret}", "--auth=scram-sha-256",
                  "--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C")  # fmt: skip
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._as, str(self._place / program), *arguments], capture_output=True, text=True, check=False, cwd="/"
        )
        assert done.returncode == 0, done.stderr

    def address(self, database: str = "postgres", password: str = PASSWORD) -> str:
        return f"postgresql://tests:{password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        options = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off",
                   "max_connections": 20, "shared_buffers": "8MB"}  # fmt: skip
        settings = [f"-c{name}={value}" for name, value in options.items()]
        self._process = subprocess.Popen(
            [*self._as, str(self._place / "postgres"), "-D", str(self._data), *settings],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        eventually(lambda: self.query("SELECT 1"), "PostgreSQL answers")

    def kill(self) -> None:
        """As a crash: nothing is written any more, not even a word to its clients."""
        process = self._process
        assert process is not None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        for child in children:
            try:
                os.kill(int(child), signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()

    def query(self, *statements: str, database: str = "postgres") -> list[tuple[object, ...]] | None:
        """The rows of the last statement; None if the server does not answer."""
        import psycopg

        try:
            with psycopg.connect(self.address(database), autocommit=True, connect_timeout=5) as connection:
                rows: list[tuple[object, ...]] = []
                for statement in statements:
                    cursor = connection.execute(statement.encode())
                    rows = list(cursor.fetchall()) if cursor.description is not None else []
                return rows
        except psycopg.OperationalError:
            return None

    def create(self, name: str, more: str = "") -> str:
        """A new database; its address."""
        assert self.query(f"CREATE DATABASE {name} {more}") is not None
        return self.address(name)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A running server. The directory is not pytest's: the user `postgres` must get there."""
    with tempfile.TemporaryDirectory(prefix="reprieve-postgres-") as name:
        server = Postgres(Path(name))
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def small_disk(size: str, owner: Sequence[str] = ("postgres", "postgres")) -> Iterator[Path | None]:
    """A file system of that size for a tablespace; None where none may be mounted."""
    with tempfile.TemporaryDirectory(prefix="reprieve-disk-") as name:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", name], capture_output=True)
        if done.returncode:
            yield None
            return
        try:
            os.chmod(name, 0o755)
            place = Path(name) / "space"
            place.mkdir()
            shutil.chown(place, *owner)
            yield place
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)
