"""The storage of objects: an in-memory index with a bounded history of changes, made durable by SQLite.

``Store`` is the entry point: get, list (also as of an older revision), staged writes with group commit, subscriptions.
"""

from kube_standin.storage.hub import Subscription, WatchEvent
from kube_standin.storage.log import CommitLog, SqliteLog, StorageError, open_log
from kube_standin.storage.model import StoredChange, StoredObject
from kube_standin.storage.store import (
    DURABLE,
    LONGEST_OBJECT,
    CompactedError,
    FutureRevisionError,
    MovedError,
    Page,
    StagedWrite,
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
    "StagedWrite",
    "StorageError",
    "Store",
    "StoredChange",
    "StoredObject",
    "Subscription",
    "Ticket",
    "TooLargeError",
    "WatchEvent",
    "open_log",
]
