"""Rules as rows: what a field has to be, one row per field, read from top to bottom.

A *check* looks at one object, which stands at a path ("" for the whole), and returns what is wrong with it. Rows are
checks made of the name of a field and what is asked of it; they stand in the order in which the API server reports its
findings. A rule that compares fields is a function of the same form and stands among them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json

Found = Iterable[FieldError]
Check = Callable[[Json, str], Found]
Change = Callable[[Json, Json], Found]
"""A rule of a change: (new object, old object)."""
Syntax = Callable[[str], Collection[str]]
When = Literal["always", "set", "filled"]
"""Whether a syntax is asked of a missing text ("always": as of an empty one), or of an empty one ("set")."""

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
POSITIVE = "must be greater than zero"
_NOTHING: Json = {}


def at(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def reach(obj: Json, dotted: str) -> Json:
    """Return the object below some fields, an empty one if it is not there."""
    for step in dotted.split(".") if dotted else ():
        obj = obj.get(step) or _NOTHING
    return obj


# -- how checks go together


@dataclass(frozen=True, slots=True)
class IfThere:
    """A check of a field with which nothing is wrong where it is missing: most fields of most objects are."""

    name: str
    check: Check

    def __call__(self, holder: Json, path: str) -> Found:
        """See `Check`."""
        return self.check(holder, path) if self.name in holder else ()


def all_of(*checks: Check) -> Check:
    """Everything that any of the checks finds."""
    rows = [(one.name, one.check) if isinstance(one, IfThere) else (None, one) for one in checks]

    def check(holder: Json, path: str) -> list[FieldError]:
        result: list[FieldError] = []
        for name, one in rows:
            if name is None or name in holder:
                result += one(holder, path)
        return result

    return check


def below(dotted: str, *checks: Check) -> Check:
    """Checks of an object inside; where it is missing, of an empty one."""
    together = all_of(*checks)
    return lambda holder, path: together(reach(holder, dotted), at(path, dotted))


def given(name: str, *checks: Check) -> Check:
    """Checks of an object inside, if it is there."""
    together = all_of(*checks)

    def check(holder: Json, path: str) -> Found:
        inner = holder.get(name)
        return together(inner, at(path, name)) if inner is not None else ()

    return IfThere(name, check)


class Unique:
    """In a list: no two items agree in some fields.

    `place` is where the second is reported, from the item on; `shown` the value reported, by default the one field.
    """

    def __init__(
        self,
        *fields: str,
        place: str | None = None,
        shown: Callable[[Json], Any] | None = None,
        detail: str = "",
        empty: bool = True,
    ) -> None:
        self._fields, self._detail, self._empty = fields, detail, empty
        self._place = f".{fields[0]}" if place is None else place
        self._shown = shown or (lambda item: item.get(fields[0], ""))

    def fresh(self) -> Check:
        """The check for one list; items without a value in the first field are left out unless `empty`."""
        seen: set[tuple[Any, ...]] = set()

        def check(item: Json, path: str) -> Found:
            key = tuple(item.get(name) or "" for name in self._fields)
            if not self._empty and not key[0]:
                return ()
            if key in seen:
                return (fe.duplicate(f"{path}{self._place}", self._shown(item), self._detail),)
            seen.add(key)
            return ()

        return check


def listed(name: str, *checks: Check | Unique, most: int | None = None, stops: bool = True) -> Check:
    """Checks of every item of a list of objects, of which there are at most so many (`stops`: else nothing more)."""
    plain = [one for one in checks if not isinstance(one, Unique)]
    unique = len(plain) < len(checks)

    def check(holder: Json, path: str) -> Found:
        items = holder.get(name)
        if not items:
            return ()
        place = at(path, name)
        result: list[FieldError] = []
        if most is not None and len(items) > most:
            result.append(fe.too_many(place, len(items), most))
            if stops:
                return result
        bound = [one.fresh() if isinstance(one, Unique) else one for one in checks] if unique else plain
        for index, item in enumerate(items):
            where = f"{place}[{index}]"
            for one in bound:
                result += one(item, where)
        return result

    return IfThere(name, check)


def texts(name: str, syntax: Syntax) -> Check:
    """Every text of a list is well formed."""

    def check(holder: Json, path: str) -> Found:
        for index, text in enumerate(holder.get(name) or ()):
            yield from fe.malformed(f"{at(path, name)}[{index}]", text, syntax)

    return IfThere(name, check)


def repeated(values: Sequence[Hashable]) -> set[int]:
    """Return the places of values that stand in the list before, too."""
    first = {value: index for index, value in reversed([*enumerate(values)])}
    return {index for index, value in enumerate(values) if first[value] != index}


# -- fields of one object


def exactly_one(path: str, there: Collection[str], none: str, several: str, shown: Any = "") -> Found:
    """Of some fields one is there: what to say where none is, or several are."""
    return () if len(there) == 1 else (fe.invalid(path, shown, several if there else none),)


def required(*names: str, detail: str = "") -> Check:
    """There is a value, and no empty one."""
    return lambda holder, path: [fe.required(at(path, name), detail) for name in names if not holder.get(name)]


def wanted(name: str, syntax: Syntax) -> Check:
    """A text that is there and well formed."""

    def check(holder: Json, path: str) -> Found:
        text = holder.get(name, "")
        return () if text and not syntax(text) else fe.wanted(at(path, name), text, syntax)

    return check


def formed(name: str, syntax: Syntax, when: When = "filled") -> Check:
    """A text that is well formed."""

    def check(holder: Json, path: str) -> Found:
        text = holder.get(name)
        if (when == "filled" and not text) or (when == "set" and text is None):
            return ()
        return fe.malformed(at(path, name), text or "", syntax) if syntax(text or "") else ()

    return check if when == "always" else IfThere(name, check)


def enum(name: str, allowed: Collection[str], missing: str | None = "") -> Check:
    """One of the known values; `missing` is taken where there is none (None: nothing is wrong)."""

    def check(holder: Json, path: str) -> Found:
        value = holder.get(name, missing)
        if value in allowed or (value is None and missing is None):
            return ()
        return (fe.not_supported(at(path, name), value, allowed),)

    return IfThere(name, check) if missing is None else check


def choice(name: str, allowed: Collection[str]) -> Check:
    """Check that a field with a default is one of the known values."""

    def check(holder: Json, path: str) -> Found:
        value = holder.get(name) or ""
        return () if value in allowed else fe.one_of(at(path, name), value, allowed)

    return IfThere(name, check)


def at_least(low: int, *names: str, detail: str = NOT_NEGATIVE, missing: int | None = None) -> Check:
    """Numbers that are not too small; `missing` stands for one that is not there (None: nothing is wrong)."""

    def check(holder: Json, path: str) -> Found:
        return [
            fe.invalid(at(path, name), value, detail)
            for name in names
            if (value := holder.get(name, missing)) is not None and value < low
        ]

    return check


def within(low: int, high: int, name: str, *, missing: int | None = None, optional: bool = False) -> Check:
    """A number between two others; `missing` as in `at_least`, `optional`: 0 is as good as nothing."""

    def check(holder: Json, path: str) -> Found:
        value = holder.get(name, missing)
        if value is None or low <= value <= high or (optional and not value):
            return ()
        return (fe.invalid(at(path, name), value, f"must be between {low} and {high}, inclusive"),)

    return IfThere(name, check) if missing is None else check


def at_most(limit: int, name: str) -> Check:
    """A text of at most so many characters."""
    return lambda holder, path: [fe.too_long(at(path, name), limit)] if len(holder.get(name, "")) > limit else ()


# -- changes


def fixed(path: str, *names: str, shown: bool = True) -> Change:
    """Fields of the object at a path that do not change; the finding shows the new value, unless `shown` is false."""

    def change(new: Json, old: Json) -> Found:
        after, before = reach(new, path), reach(old, path)
        return [
            fe.invalid(at(path, name), after.get(name) if shown else None, IMMUTABLE)
            for name in names
            if after.get(name) != before.get(name)
        ]

    return change


def locked(name: str, detail: str) -> Change:
    """A field that does not change, refused with a detail of its own."""
    return lambda new, old: [fe.forbidden(name, detail)] if new.get(name) != old.get(name) else ()


def once(path: str, name: str, detail: str) -> Change:
    """A field that does not change once it is set."""

    def change(new: Json, old: Json) -> Found:
        before = reach(old, path).get(name)
        same = not before or reach(new, path).get(name) == before
        return () if same else (fe.forbidden(at(path, name), detail),)

    return change


def of_new(check: Check) -> Change:
    """Return what the new object has to be, whatever the old one was."""
    return lambda new, _: check(new, "")
