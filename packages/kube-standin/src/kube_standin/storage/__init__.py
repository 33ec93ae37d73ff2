"""The storage of objects: an in-memory index with a bounded history of changes, made durable by SQLite.

``Store`` is the entry point: get, list (also as of an older revision), staged writes with group commit, subscriptions.
"""

from kube_standin.storage.hub import Subscription, WatchEvent
from kube_standin.storage.log import CommitLog, SqliteLog, StorageError, open_log
from kube_standin.storage.model import Stored, StoredChange
from kube_standin.storage.store import (
    DURABLE,
    LONGEST_OBJECT,
    CompactedError,
    FutureRevisionError,
    MovedError,
    Page,
    Staged,
    Store,
    Ticket,
    TooLargeError,
)

__all__ = [
    "DURABLE",
    "LONGEST_OBJECT",
    "CommitLog",
    "CompactedError",
    "FutureRevisionError",
    "MovedError",
    "Page",
    "SqliteLog",
    "Staged",
    "StorageError",
    "Store",
    "Stored",
    "StoredChange",
    "Subscription",
    "Ticket",
    "TooLargeError",
    "WatchEvent",
    "open_log",
]
