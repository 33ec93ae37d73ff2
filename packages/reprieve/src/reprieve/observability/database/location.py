"""Where decision records are stored, in a file or a database, and how to connect to it.

Invariant: no message contains a password, whether it shows an address or an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL

Address = str | Path
"""The address of a database, or the path of an SQLite database file."""
DRIVERS: Final = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite+pysqlite"}
"""Driver by the URL scheme of the address."""
EXPECTED: Final = "expected a file, postgresql://HOST/DATABASE or sqlite:///FILE"
_CONNECT_SECONDS: Final = 5
_STATEMENT_SECONDS: Final = 30
DAY: Final = 86_400.0


class RecordsError(Exception):
    """The database cannot be used: a bad address, another program's file, a missing package, an unknown schema."""


class RecordsAwayError(Exception):
    """The database does not answer or refuses connections at the moment. A retry may succeed."""


@dataclass(frozen=True, slots=True)
class RecordsRetention:
    """How many seconds records are kept, and up to how many bytes. Evictions are kept longest (history.md 3)."""

    evictions: float = 90 * DAY
    attempts: float = 14 * DAY
    bytes: int = 8 * 1024**3


@dataclass(frozen=True, slots=True)
class RecordsDatabase:
    """A database of decision records. `cluster`: the name of this cluster, if several clusters share the database.

    `spool`: the directory for records while the database is unavailable, with up to `spool_bytes`. The default is next
    to the SQLite file, else `reprieve-records` in the temporary directory.
    """

    address: Address = field(repr=False)
    cluster: str = ""
    spool: Path | None = None
    spool_bytes: int = 32 * 1024**2
    retention: RecordsRetention = RecordsRetention()

    def __str__(self) -> str:
        return shown(self.address)

    @property
    def spool_directory(self) -> Path:
        """Return the directory for records that wait for the database."""
        if self.spool is not None:
            return self.spool
        file = file_of(url_of(self.address))
        return file.with_name(f"{file.name}.spool") if file is not None else Path(gettempdir()) / "reprieve-records"


def address_of(place: str) -> Address:
    """Return the location given by `--records`: an address, or a file if it has no scheme."""
    return place if "://" in place else Path(place)


def url_of(address: Address) -> URL:
    """Return the address as a URL with its driver. Raises RecordsError."""
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

    if isinstance(address, Path):
        return URL.create(DRIVERS["sqlite"], database=str(address))
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


def file_of(url: URL) -> Path | None:
    """Return the file of an SQLite database, or None for a server or an in-memory database."""
    name = url.database or ""
    return Path(name) if url.get_backend_name() == "sqlite" and name not in ("", ":memory:") else None


def shown(address: Address) -> str:
    """Return an address without its password, for messages."""
    from sqlalchemy.engine import make_url

    if isinstance(address, Path):
        return str(address)
    url = make_url(address)
    query = {name: "***" if "password" in name.lower() else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def secrets_of(url: URL) -> list[str]:
    """Return the values that must not appear in any message."""
    secrets = [url.password, *(value for name, value in url.query.items() if "password" in name.lower())]
    return [str(secret) for secret in secrets if secret]


def engine_of(address: Address, *, writes: bool = True) -> Engine:
    """Return an engine, which connects on first use. Raises RecordsError.

    `writes`: if False, an SQLite file is opened read-only and never created.
    """
    from sqlalchemy import create_engine, event

    url = url_of(address)
    try:
        if url.get_backend_name() == "sqlite":
            engine = create_engine(url, hide_parameters=True, connect_args={"timeout": _CONNECT_SECONDS})
            event.listen(engine, "connect", _set_up_sqlite if writes else _set_up_reading)
            event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
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
    """Return the database's error message on one line and without secrets."""
    text = " ".join(str(getattr(error, "orig", None) or error).split())
    for secret in secrets_of(url):
        text = text.replace(secret, "***")
    return text


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.isolation_level = None  # the engine begins transactions: sqlite3 would not include CREATE TABLE in them


def _set_up_reading(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA query_only = ON")
    connection.isolation_level = None
