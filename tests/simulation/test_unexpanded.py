"""What is not planned is refused: trees of groups."""

from __future__ import annotations

import io
from typing import Any

import yaml

from reprieve.api.loading import load
from reprieve.api.manifests import Manifests
from reprieve.controlplane.unknown_fields import PackedSchemas

SCHEMAS = PackedSchemas()


def loaded(*documents: dict[str, Any]) -> Manifests:
    text = yaml.safe_dump_all(documents)
    return load(["-"], stdin=io.BytesIO(text.encode()), complete=False, schemas=SCHEMAS)


def made(version: str, kind: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An object named x of the kind; `owner`, `uid`, `labels` and `name` go into its metadata."""
    meta: dict[str, Any] = {"name": more.pop("name", "x")}
    owner = more.pop("owner", None)
    if owner is not None:
        version_, kind_, name = owner
        reference = {"apiVersion": version_, "kind": kind_, "name": name, "uid": "u-" + name, "controller": True}
        meta["ownerReferences"] = [reference]
    meta |= {key: more.pop(key) for key in ("uid", "labels") if key in more}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec or {}, **more}
