"""Where a database of decision records is, and how to connect to it.

Invariant: no message has a password in it, neither of an address nor of an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL

DRIVERS: Final = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite+pysqlite"}
"""By the scheme of an address."""
EXPECTED: Final = "expected a file, postgresql://HOST/DATABASE or sqlite:///FILE"
_CONNECT_SECONDS: Final = 5
_STATEMENT_SECONDS: Final = 30
DAY: Final = 86_400.0


class RecordsError(Exception):
    """The database cannot be used: a bad address, a package that is missing, a schema that is not known."""


class RecordsAwayError(Exception):
    """The database does not answer now, or refuses; it may answer later."""


@dataclass(frozen=True, slots=True)
class RecordsRetention:
    """How long records are kept, in seconds, and how many bytes at most; evictions longest (history.md 3)."""

    evictions: float = 90 * DAY
    attempts: float = 14 * DAY
    bytes: int = 8 * 1024**3


@dataclass(frozen=True, slots=True)
class RecordsDatabase:
    """A database of decision records. `cluster`: the name of this cluster, where several use it.

    `spool`: the directory in which records are kept while the database is away, `spool_bytes` at most.
    """

    address: str = field(repr=False)
    cluster: str = ""
    spool: Path = Path("reprieve-records")
    spool_bytes: int = 32 * 1024**2
    retention: RecordsRetention = RecordsRetention()

    def __str__(self) -> str:
        return shown(self.address)


def url_of(address: str) -> URL:
    """Return the address with its driver. Raises RecordsError."""
    try:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError:
        raise RecordsError("a database of records needs the extra `records`: pip install 'reprieve[records]'") from None
    scheme = address.partition("://")[0]
    driver = DRIVERS.get(scheme)
    if driver is None:
        raise RecordsError(f"{scheme}://: {EXPECTED}")
    try:
        url = make_url(address).set(drivername=driver)
    except (ArgumentError, ValueError):
        raise RecordsError(f"{scheme}://: not an address of a database: {EXPECTED}") from None
    if not url.database:
        raise RecordsError(f"{shown(address)}: names no database: {EXPECTED}")
    return url


def shown(address: str) -> str:
    """Return an address without its password, for messages."""
    from sqlalchemy.engine import make_url

    url = make_url(address)
    query = {name: "***" if "password" in name.lower() else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def secrets_of(url: URL) -> list[str]:
    """Return what must stand in no message."""
    found = [url.password, *(value for name, value in url.query.items() if "password" in name.lower())]
    return [str(secret) for secret in found if secret]


def engine_of(address: str) -> Engine:
    """Return an engine, which connects when it is first used. Raises RecordsError."""
    from sqlalchemy import create_engine, event

    url = url_of(address)
    try:
        if url.get_backend_name() == "sqlite":
            engine = create_engine(url, hide_parameters=True, connect_args={"timeout": _CONNECT_SECONDS})
            event.listen(engine, "connect", _set_up_sqlite)
            return engine
        connect = {
            "connect_timeout": _CONNECT_SECONDS,
            "application_name": "reprieve",
            "options": f"-c statement_timeout={_STATEMENT_SECONDS * 1000}",
        }
        return create_engine(
            url, hide_parameters=True, pool_pre_ping=True, pool_size=2, max_overflow=2, connect_args=connect
        )
    except ImportError:
        raise RecordsError("PostgreSQL needs the extra `records`: pip install 'reprieve[records]'") from None


def reason_of(error: BaseException, url: URL) -> str:
    """Return what a database says of a failure, on one line and without secrets."""
    text = " ".join(str(getattr(error, "orig", None) or error).split())
    for secret in secrets_of(url):
        text = text.replace(secret, "***")
    return text


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
