"""Where objects live: an in-memory index with a bounded history of changes, made durable by SQLite.

``Store`` is the door: get, list (also as of an older revision), staged writes with group commit,
subscriptions.
"""

from reprieve.controlplane.storage.hub import Subscription, WatchEvent
from reprieve.controlplane.storage.log import SqliteLog, StorageError, VolatileLog, open_log
from reprieve.controlplane.storage.model import Change, Stored
from reprieve.controlplane.storage.store import CompactedError, FutureRevisionError, MovedError, Page, Store

__all__ = [
    "Change",
    "CompactedError",
    "FutureRevisionError",
    "MovedError",
    "Page",
    "SqliteLog",
    "StorageError",
    "Store",
    "Stored",
    "Subscription",
    "VolatileLog",
    "WatchEvent",
    "open_log",
]
