"""Columns: a heading with its description, and the function that fills its cells."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from reprieve.api.json import Json
from reprieve.controlplane.schema import definitions
from reprieve.controlplane.tables import ages

Cell = Callable[[Json, datetime], Any]
NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"


class Column(NamedTuple):
    """One column; `about` is its description, or `TYPE#FIELD` for that field's documentation.

    `wide` columns (priority 1) show with `kubectl get -o wide` only.
    """

    name: str
    about: str
    cell: Cell
    type: str = "string"
    wide: bool = False
    format: str = ""

    def definition(self) -> Json:
        """The column as it stands in `columnDefinitions`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": described(self.about),
            "priority": int(self.wide),
        }


def described(about: str) -> str:
    """Resolve `TYPE#FIELD` to the documentation of that field."""
    definition, sign, field = about.partition("#")
    if not sign or " " in definition:
        return about
    text: str = definitions.descriptions()[definition][1].get(field, "")
    return text


META = definitions.OBJECT_META


def path(*steps: str, default: Any = "") -> Cell:
    """A cell that shows one field."""

    def cell(obj: Json, _: datetime) -> Any:
        value: Any = obj
        for step in steps:
            if not isinstance(value, dict) or step not in value:
                return default
            value = value[step]
        return value

    return cell


def text(*steps: str, default: str = NONE) -> Cell:
    """A cell that shows one field as text; `default` where it is missing or empty."""
    fetch = path(*steps, default=None)

    def cell(obj: Json, now: datetime) -> str:
        value = fetch(obj, now)
        return default if value in (None, "") else str(value)

    return cell


def count(*steps: str) -> Cell:
    """A cell that shows a number, zero where it is missing."""
    return path(*steps, default=0)


def size(*steps: str) -> Cell:
    """A cell that shows how many entries a list or map has."""
    fetch = path(*steps, default=())

    def cell(obj: Json, now: datetime) -> int:
        return len(fetch(obj, now) or ())

    return cell


def since(*steps: str) -> Cell:
    """A cell that shows how long ago a time was."""
    fetch = path(*steps, default=None)

    def cell(obj: Json, now: datetime) -> str:
        return ages.age(fetch(obj, now), now)

    return cell


def access_modes(modes: list[str]) -> str:
    """Access modes in short: RWO,ROX,RWX,RWOP."""
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(word for mode, word in short.items() if mode in modes)


def selector(given: Json | None) -> str:
    """A label selector as text."""
    if given is None:
        return NONE
    parts = [f"{key}={value}" for key, value in sorted(given.get("matchLabels", {}).items())]
    for expression in given.get("matchExpressions", ()):
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


def labels(given: Json | None) -> str:
    """A map of labels as text."""
    return ",".join(f"{key}={value}" for key, value in sorted((given or {}).items())) or NONE


NAME = Column("Name", f"{META}#name", path("metadata", "name"), format="name")
AGE = Column("Age", f"{META}#creationTimestamp", since("metadata", "creationTimestamp"))
CREATED = Column("Created At", f"{META}#creationTimestamp", path("metadata", "creationTimestamp"), "date")
