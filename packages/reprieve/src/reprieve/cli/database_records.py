"""Decision records that a command reads from a file or database with its user's rights (`--records FILE|URL`).

A database that cannot be used is a ConfigError, one that cannot be reached a ClientError.
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
    """Return whether `--records` names a file or a database, and not a scheduler."""
    scheme, colon, _ = place.partition("://")
    return not colon or scheme in ("postgresql", "postgres", "sqlite")


@dataclass(frozen=True, slots=True)
class PreemptionsSince:
    """A query for all preemptions since a time, in seconds since 1970."""

    seconds: float
    namespace: str = ""
    """Only preemptions by and of this namespace; empty: all."""

    @property
    def query(self) -> dict[str, str]:
        """Return the query string of the scheduler's endpoint."""
        return {"since": repr(self.seconds), **({"namespace": self.namespace} if self.namespace else {})}


class DatabaseRecords:
    """Reads records from a file or a database."""

    def __init__(self, place: str) -> None:
        self._place = place

    def answer(self, queries: Iterable[Mapping[str, str]]) -> list[DecisionRecord]:
        """Return the records that the endpoint of a scheduler would return for the queries.

        Raises ConfigError, ClientError.
        """
        questions = [
            float(query["since"]) if "since" in query else (query["kind"], query["namespace"], query["name"])
            for query in queries
        ]
        return [record for question in questions for record in self(question)]

    def __call__(self, question: tuple[str, str, str] | float) -> list[DecisionRecord]:
        """Return records about an object (kind, namespace, name), or preemptions since a time.

        Times are seconds since 1970. Newest first. Raises ConfigError, ClientError.
        """
        from reprieve.observability.database.location import RecordsAwayError, RecordsError, address_of, shown
        from reprieve.observability.database.store import DatabaseReader

        address = address_of(self._place)
        try:
            reader = DatabaseReader(address)
            return reader.evictions(question) if isinstance(question, float) else reader.find(*question)
        except RecordsError as error:
            raise ConfigError(str(error)) from None
        except RecordsAwayError as error:
            raise ClientError(f"{shown(address)}: {error}") from None
