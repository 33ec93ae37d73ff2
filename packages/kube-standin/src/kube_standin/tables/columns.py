"""Columns: a heading with its description, and the function that fills its cells."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from kube_rules.json import Json
from kube_rules.schema import definitions
from kube_standin.field_texts import texts_of
from kube_standin.tables import ages

Cell = Callable[[Json, datetime], Any]
NONE = "<none>"
UNSET = "<unset>"


class Column(NamedTuple):
    """One column; `about` is its description, or `TYPE#FIELD` for that field's documentation.

    `wide` columns (priority 1) are shown only with `kubectl get -o wide`.
    """

    name: str
    about: str
    cell: Cell
    type: str = "string"
    wide: bool = False
    format: str = ""

    def definition(self) -> Json:
        """Return the column in the form of `columnDefinitions`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": described(self.about),
            "priority": int(self.wide),
        }


def described(about: str) -> str:
    """Resolve `TYPE#FIELD` to the documentation of that field, "" if it is not installed."""
    definition, sign, field = about.partition("#")
    if not sign or " " in definition:
        return about
    full = definition if definition in definitions.structure() else f"io.k8s.api.{definition}"
    return texts_of(full).field(field)


META = definitions.OBJECT_META


def path(dotted: str, default: Any = "") -> Cell:
    """Return a cell that shows one field."""
    steps = dotted.split(".")

    def cell(obj: Json, _: datetime) -> Any:
        value: Any = obj
        for step in steps:
            if not isinstance(value, dict) or step not in value:
                return default
            value = value[step]
        return value

    return cell


def of(make: Callable[[Any], Any], dotted: str = "") -> Cell:
    """Return a cell computed from the object, or from one field (None if missing), without the time."""
    if not dotted:
        return lambda obj, _: make(obj)
    fetch = path(dotted, None)
    return lambda obj, now: make(fetch(obj, now))


def text(dotted: str, default: str = NONE) -> Cell:
    """Return a cell that shows one field as text; `default` if it is missing or empty."""
    fetch = path(dotted, None)

    def cell(obj: Json, now: datetime) -> str:
        value = fetch(obj, now)
        return default if value in (None, "") else str(value)

    return cell


def count(dotted: str) -> Cell:
    """Return a cell that shows a number, zero if it is missing."""
    return path(dotted, 0)


def size(dotted: str) -> Cell:
    """Return a cell that shows the number of entries of a list or map."""
    fetch = path(dotted, ())
    return lambda obj, now: len(fetch(obj, now) or ())


def of_containers(field: str, dotted: str = "spec.template.spec.containers") -> Cell:
    """Return a cell that shows a field of each container of a list, separated by commas."""
    return of(lambda containers: ",".join(container.get(field, "") for container in containers or ()), dotted)


def since(dotted: str) -> Cell:
    """Return a cell that shows the time since a moment."""
    fetch = path(dotted, None)
    return lambda obj, now: ages.age(fetch(obj, now), now)


wide = partial(Column, wide=True)
"""A column for `-o wide`: name, description, cell."""


def integer(name: str, about: str, dotted: str) -> Column:
    """Return a column of numbers from one field."""
    return Column(name, about, count(dotted), "integer")


def access_modes(modes: list[str] | None) -> str:
    """Return access modes in short form: RWO,ROX,RWX,RWOP."""
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(word for mode, word in short.items() if mode in (modes or ()))


def selector(label_selector: Json | None) -> str:
    """Return a label selector as text."""
    if label_selector is None:
        return NONE
    parts = [f"{key}={value}" for key, value in sorted(label_selector.get("matchLabels", {}).items())]
    for expression in label_selector.get("matchExpressions", ()):
        key, operator = expression.get("key", ""), expression.get("operator", "")
        values = ",".join(sorted(expression.get("values", ())))
        words = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(words.get(operator, "<error>"))
    return ",".join(parts) or NONE


def labels(label_map: Json | None) -> str:
    """Return a map of labels as text."""
    return ",".join(f"{key}={value}" for key, value in sorted((label_map or {}).items())) or NONE


NAME = Column("Name", f"{META}#name", path("metadata.name"), format="name")
AGE = Column("Age", f"{META}#creationTimestamp", since("metadata.creationTimestamp"))
CREATED = Column("Created At", f"{META}#creationTimestamp", path("metadata.creationTimestamp"), "date")
