"""A second load of an input: which of its objects were edited since the first (interfaces.md 1.16).

The data directory keeps a digest of every loaded manifest. An object that changed in the cluster is not an edit of its
manifest and is not changed; an edited manifest is never ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kube_rules.json import Json
from kube_standin.initial_owners import LoadedItem
from kube_standin.security import write_secret

FILE: Final = "loaded.json"
_CHOSEN: Final = ("labels", "annotations")


def key_of(item: LoadedItem) -> str:
    """Return the key of an object's digest."""
    return "/".join(item.object_id)


def digest(manifest: Mapping[str, Any]) -> str:
    """Return the digest of a manifest, independent of the order of its fields and its format."""
    return hashlib.blake2b(msgspec.json.encode(manifest, order="sorted"), digest_size=16).hexdigest()


def read_digests(directory: Path) -> dict[str, str]:
    """Return the digests of a data directory; none if they are missing or invalid."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def write_digests(directory: Path, digests: Mapping[str, str]) -> None:
    """Write digests to a data directory. Raises OSError."""
    write_secret(directory / FILE, msgspec.json.encode(digests, order="sorted"))


def difference(loaded: Json, stored: Json, *, status: bool) -> str:
    """Return the path of the first field in which an object of the input differs from the stored one, or ''.

    `given` is decoded like `stored`. Fields that only the stored object has belong to the server. `status`: whether the
    status counts, which the cluster changes all the time.
    """
    for name, value in loaded.items():
        if name == "metadata":
            chosen = {part: value[part] for part in _CHOSEN if value.get(part)}
            path = _differs(chosen, stored.get("metadata"), "metadata")
        elif name not in ("apiVersion", "kind") and (status or name != "status"):
            path = _differs(value, stored.get(name), name)
        else:
            continue
        if path:
            return path
    return ""


def _differs(loaded: Any, stored: Any, path: str) -> str:
    if loaded is None or loaded == stored or (loaded in ({}, [], "") and not stored):
        return ""
    if isinstance(loaded, Mapping) and isinstance(stored, Mapping):
        for name, value in loaded.items():
            if difference_path := _differs(value, stored.get(name), f"{path}.{name}"):
                return difference_path
        return ""
    if isinstance(loaded, list) and isinstance(stored, list):
        return _missing(loaded, stored, path)
    return path


def _missing(loaded: Sequence[Any], stored: Sequence[Any], path: str) -> str:
    """Return the path of the first item that the stored list lacks, in order; admission may add items."""
    turn = 0
    for number, item in enumerate(loaded):
        difference_path = f"{path}[{number}]"
        while turn < len(stored) and difference_path:
            difference_path = _differs(item, stored[turn], f"{path}[{number}]")
            turn += 1
        if difference_path:
            return difference_path
    return ""
