"""Tables: the output of `kubectl get`, computed by the server (`meta.k8s.io/v1 Table`), and partial objects.

Columns of built-in kinds are in `kinds.COLUMNS`, those of custom resources in their definition; all other kinds show
their name and creation time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kube_rules.json import Json
from kube_standin.kinds import ServedKind
from kube_standin.patching.strategic import go_map
from kube_standin.tables import ages, jsonpaths
from kube_standin.tables.columns import AGE, NAME, Cell, Column
from kube_standin.tables.kinds import COLUMNS, DEFAULT

__all__ = ["columns_of", "partial_object", "row_maker", "table"]

_META_VERSION = "meta.k8s.io/v1"


def _custom_cell(path: str, kind: str) -> Cell:
    def cell(obj: Json, now: datetime) -> Any:
        values = jsonpaths.find(path, obj)
        if not values:
            return None
        value = values[0]
        if kind == "date":
            return ages.age(value, now) if isinstance(value, str) else None
        if kind == "integer":
            return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        if kind == "number":
            return value if isinstance(value, int | float) and not isinstance(value, bool) else None
        if kind == "boolean":
            return value if isinstance(value, bool) else None
        return value if isinstance(value, str) else go_map(value if len(values) == 1 else values)

    return cell


def columns_of(kind: ServedKind) -> tuple[Column, ...]:
    """Return the columns of a kind."""
    if not kind.custom:
        return COLUMNS.get((kind.group, kind.kind), DEFAULT)
    printer_columns = (kind.definition or {}).get("additionalPrinterColumns")
    if not printer_columns:
        return (NAME, AGE)
    return (
        NAME,
        *(
            Column(
                column["name"],
                column.get("description")
                or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
                _custom_cell(column["jsonPath"], column.get("type", "string")),
                column.get("type", "string"),
                bool(column.get("priority", 0)),
                column.get("format", ""),
            )
            for column in printer_columns
        ),
    )


def partial_object(obj: Json, version: str = "v1") -> Json:
    """Return an object reduced to its metadata, in a version of `meta.k8s.io`."""
    meta = obj.get("metadata", {})
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": meta}


def table(
    kind: ServedKind,
    items: list[Json],
    *,
    include_object: str,
    now: datetime,
    list_meta: Json,
) -> Json:
    """Return the table of objects of one kind.

    `include_object` is "Metadata" (also ""), "Object" or "None"; `now` is a time with zone for ages; `list_meta`
    becomes the table's metadata.
    """
    out: Json = {"kind": "Table", "apiVersion": _META_VERSION, "metadata": list_meta}
    out["columnDefinitions"] = [column.definition() for column in columns_of(kind)]
    out["rows"] = list(map(row_maker(kind, include_object=include_object, now=now), items))
    return out


def row_maker(kind: ServedKind, *, include_object: str, now: datetime) -> Callable[[Json], Json]:
    """Return the function that creates the row of an object in a `table`."""
    cells = [column.cell for column in columns_of(kind)]

    def row(obj: Json) -> Json:
        attached: Any = None
        if include_object == "Object":
            attached = obj
        elif include_object != "None":
            attached = partial_object(obj)
        return {"cells": [cell(obj, now) for cell in cells], "object": attached}

    return row
