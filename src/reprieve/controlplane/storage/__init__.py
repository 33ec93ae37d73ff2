"""Where objects live: an in-memory index with a bounded history of changes, made durable by SQLite.

``Store`` is the door: get, list (also as of an older revision), staged writes with group commit,
subscriptions.
"""

from reprieve.controlplane.storage.hub import Subscription, WatchEvent
from reprieve.controlplane.storage.log import Log, SqliteLog, StorageError, open_log
from reprieve.controlplane.storage.model import Change, Stored
from reprieve.controlplane.storage.store import (
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
    "Change",
    "CompactedError",
    "FutureRevisionError",
    "Log",
    "MovedError",
    "Page",
    "SqliteLog",
    "Staged",
    "StorageError",
    "Store",
    "Stored",
    "Subscription",
    "Ticket",
    "TooLargeError",
    "WatchEvent",
    "open_log",
]
