"""An input that is loaded a second time: which of its objects were edited since (interfaces.md 1.16).

The data directory keeps a digest of every manifest that was loaded. An object that changed in the cluster is no edit of
its manifest, and stays as it is; an edited manifest is not passed over.
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
    """Return the name under which the digest of an object is kept."""
    return "/".join(item.object_id)


def digest(manifest: Mapping[str, Any]) -> str:
    """Return the digest of a manifest; neither the order of its fields nor its form counts."""
    return hashlib.blake2b(msgspec.json.encode(manifest, order="sorted"), digest_size=16).hexdigest()


def read_digests(directory: Path) -> dict[str, str]:
    """Return the digests that a data directory keeps; none where they cannot be read."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def write_digests(directory: Path, digests: Mapping[str, str]) -> None:
    """Keep digests in a data directory. Raises OSError."""
    write_secret(directory / FILE, msgspec.json.encode(digests, order="sorted"))


def difference(given: Json, stored: Json, *, status: bool) -> str:
    """Return the path of the first field that an object of the input has and the stored one has otherwise, or ''.

    `given` is decoded as `stored` was. Fields that only the stored object has are of the server. `status`: whether the
    status counts, which the cluster changes all the time.
    """
    for name, value in given.items():
        if name == "metadata":
            chosen = {part: value[part] for part in _CHOSEN if value.get(part)}
            found = _differs(chosen, stored.get("metadata"), "metadata")
        elif name not in ("apiVersion", "kind") and (status or name != "status"):
            found = _differs(value, stored.get(name), name)
        else:
            continue
        if found:
            return found
    return ""


def _differs(given: Any, stored: Any, path: str) -> str:
    if given is None or given == stored or (given in ({}, [], "") and not stored):
        return ""
    if isinstance(given, Mapping) and isinstance(stored, Mapping):
        for name, value in given.items():
            if found := _differs(value, stored.get(name), f"{path}.{name}"):
                return found
        return ""
    if isinstance(given, list) and isinstance(stored, list):
        return _missing(given, stored, path)
    return path


def _missing(given: Sequence[Any], stored: Sequence[Any], path: str) -> str:
    """Return the first item that the stored list does not have, in the order of the given one: admission adds
    others.
    """
    turn = 0
    for number, item in enumerate(given):
        found = f"{path}[{number}]"
        while turn < len(stored) and found:
            found = _differs(item, stored[turn], f"{path}[{number}]")
            turn += 1
        if found:
            return found
    return ""
