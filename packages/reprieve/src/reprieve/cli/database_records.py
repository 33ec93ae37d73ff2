"""Decision records that a command reads from their database, as its user may (`--records postgresql://HOST/DATABASE`).

Its errors are those of commands: ConfigError for a database that cannot be used, ClientError for one that is away.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from reprieve.client.errors import ClientError, ConfigError
from reprieve.decisions.records import DecisionRecord

EXPECTED: Final = "expected http://HOST:PORT, https://HOST:PORT, postgresql://HOST/DATABASE, sqlite:///FILE or a file"


def without_user(place: str) -> str:
    """Return an address without a user and a password, for messages."""
    return re.sub(r"//[^/]*@", "//", place, count=1)


def is_database(place: str) -> bool:
    """Return whether `--records` names a database."""
    return place.partition("://")[0] in ("postgresql", "postgres", "sqlite") and "://" in place


@dataclass(frozen=True, slots=True)
class PreemptionsSince:
    """A question about every preemption from then on, in seconds since 1970."""

    seconds: float
    namespace: str = ""
    """Only those by it and of it; empty: all."""

    @property
    def query(self) -> dict[str, str]:
        """As the scheduler is asked."""
        return {"since": repr(self.seconds), **({"namespace": self.namespace} if self.namespace else {})}


class DatabaseRecords:
    """Reads a database, by its address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def answer(self, queries: Iterable[Mapping[str, str]]) -> list[DecisionRecord]:
        """Return what the endpoint of a scheduler would answer to queries. Raises as a call does."""
        asked = [
            float(query["since"]) if "since" in query else (query["kind"], query["namespace"], query["name"])
            for query in queries
        ]
        return [record for question in asked for record in self(question)]

    def __call__(self, asked: tuple[str, str, str] | float) -> list[DecisionRecord]:
        """Return records about an object (kind, namespace, name), or preemptions since then (seconds since 1970).

        Newest first. Raises ConfigError, ClientError.
        """
        from reprieve.observability.database.location import RecordsAwayError, RecordsError, shown
        from reprieve.observability.database.store import DatabaseReader

        try:
            reader = DatabaseReader(self._address)
            return reader.evictions(asked) if isinstance(asked, float) else reader.find(*asked)
        except RecordsError as error:
            raise ConfigError(f"--records: {error}") from None
        except RecordsAwayError as error:
            raise ClientError(f"{shown(self._address)}: {error}") from None
