"""Rules as rows: the requirements for a field, one row per field, in order.

A *check* takes one object and its path ("" for the root), and returns its errors. Rows are checks built from the name
of a field and its requirements, in the order of the API server's errors. A rule that compares fields is a function of
the same form between them.
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
"""A rule for a change: (new object, old object)."""
Syntax = Callable[[str], Collection[str]]
When = Literal["always", "set", "filled"]
"""When to check the syntax: "always" (a missing text counts as empty), "set" (also an empty text), or "filled"."""

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
POSITIVE = "must be greater than zero"
_NOTHING: Json = {}


def at(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def reach(obj: Json, dotted: str) -> Json:
    """Return the object below some fields, or an empty one."""
    for step in dotted.split(".") if dotted else ():
        obj = obj.get(step) or _NOTHING
    return obj


# -- combinations of checks


@dataclass(frozen=True, slots=True)
class OptionalField:
    """A check that passes if its field is missing, as most fields of most objects are."""

    name: str
    check: Check

    def __call__(self, holder: Json, path: str) -> Found:
        """See `Check`."""
        return self.check(holder, path) if self.name in holder else ()


def all_of(*checks: Check) -> Check:
    """Return the check with the errors of all checks."""
    rows = [(part.name, part.check) if isinstance(part, OptionalField) else (None, part) for part in checks]

    def check(holder: Json, path: str) -> list[FieldError]:
        result: list[FieldError] = []
        for name, run in rows:
            if name is None or name in holder:
                result += run(holder, path)
        return result

    return check


def below(dotted: str, *checks: Check) -> Check:
    """Return the checks of an inner object; a missing one counts as empty."""
    together = all_of(*checks)
    return lambda holder, path: together(reach(holder, dotted), at(path, dotted))


def given(name: str, *checks: Check) -> Check:
    """Return the checks of an inner object, if it exists."""
    together = all_of(*checks)

    def check(holder: Json, path: str) -> Found:
        inner = holder.get(name)
        return together(inner, at(path, name)) if inner is not None else ()

    return OptionalField(name, check)


class Unique:
    """Checks that no two items of a list have equal values in some fields.

    `place` is the path of the error below the second item; `shown` is the value in the error, by default the first
    field.
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
        """Return the check for one list; items without a value in the first field are skipped unless `empty`."""
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
    """Return the checks of every item of a list of at most `most` objects (`stops`: too many are not checked)."""
    plain = [item for item in checks if not isinstance(item, Unique)]
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
        bound = [item.fresh() if isinstance(item, Unique) else item for item in checks] if unique else plain
        for index, item in enumerate(items):
            where = f"{place}[{index}]"
            for run in bound:
                result += run(item, where)
        return result

    return OptionalField(name, check)


def texts(name: str, syntax: Syntax) -> Check:
    """Return the check that every text of a list is well formed."""

    def check(holder: Json, path: str) -> Found:
        for index, text in enumerate(holder.get(name) or ()):
            yield from fe.malformed(f"{at(path, name)}[{index}]", text, syntax)

    return OptionalField(name, check)


def repeated(values: Sequence[Hashable]) -> set[int]:
    """Return the indexes of repeated values."""
    first = {value: index for index, value in reversed([*enumerate(values)])}
    return {index for index, value in enumerate(values) if first[value] != index}


# -- fields of one object


def exactly_one(path: str, present: Collection[str], none: str, several: str, shown: Any = "") -> Found:
    """Check that exactly one of some fields is present; `none` and `several` are the error texts."""
    return () if len(present) == 1 else (fe.invalid(path, shown, several if present else none),)


def required(*names: str, detail: str = "") -> Check:
    """Return the check that fields have a value that is not empty."""
    return lambda holder, path: [fe.required(at(path, name), detail) for name in names if not holder.get(name)]


def wanted(name: str, syntax: Syntax) -> Check:
    """Return the check that a text is present and well formed."""

    def check(holder: Json, path: str) -> Found:
        text = holder.get(name, "")
        return () if text and not syntax(text) else fe.wanted(at(path, name), text, syntax)

    return check


def formed(name: str, syntax: Syntax, when: When = "filled") -> Check:
    """Return the check that a text is well formed."""

    def check(holder: Json, path: str) -> Found:
        text = holder.get(name)
        if (when == "filled" and not text) or (when == "set" and text is None):
            return ()
        return fe.malformed(at(path, name), text or "", syntax) if syntax(text or "") else ()

    return check if when == "always" else OptionalField(name, check)


def enum(name: str, allowed: Collection[str], missing: str | None = "") -> Check:
    """Return the check that a field has an allowed value; `missing` is the value of a missing field (None: valid)."""

    def check(holder: Json, path: str) -> Found:
        value = holder.get(name, missing)
        if value in allowed or (value is None and missing is None):
            return ()
        return (fe.not_supported(at(path, name), value, allowed),)

    return OptionalField(name, check) if missing is None else check


def choice(name: str, allowed: Collection[str]) -> Check:
    """Return the check that a field with a default has an allowed value."""

    def check(holder: Json, path: str) -> Found:
        value = holder.get(name) or ""
        return () if value in allowed else fe.one_of(at(path, name), value, allowed)

    return OptionalField(name, check)


def at_least(low: int, *names: str, detail: str = NOT_NEGATIVE, missing: int | None = None) -> Check:
    """Return the check that numbers are at least `low`; `missing` is the value of a missing field (None: valid)."""

    def check(holder: Json, path: str) -> Found:
        return [
            fe.invalid(at(path, name), value, detail)
            for name in names
            if (value := holder.get(name, missing)) is not None and value < low
        ]

    return check


def within(low: int, high: int, name: str, *, missing: int | None = None, optional: bool = False) -> Check:
    """Return the check that a number is within bounds; `missing` as in `at_least`; `optional`: 0 counts as missing."""

    def check(holder: Json, path: str) -> Found:
        value = holder.get(name, missing)
        if value is None or low <= value <= high or (optional and not value):
            return ()
        return (fe.invalid(at(path, name), value, f"must be between {low} and {high}, inclusive"),)

    return OptionalField(name, check) if missing is None else check


def at_most(limit: int, name: str) -> Check:
    """Return the check that a text has at most `limit` characters."""
    return lambda holder, path: [fe.too_long(at(path, name), limit)] if len(holder.get(name, "")) > limit else ()


# -- changes


def fixed(path: str, *names: str, shown: bool = True) -> Change:
    """Return the rule that fields of the object at a path do not change; the error shows the new value if `shown`."""

    def change(new: Json, old: Json) -> Found:
        after, before = reach(new, path), reach(old, path)
        return [
            fe.invalid(at(path, name), after.get(name) if shown else None, IMMUTABLE)
            for name in names
            if after.get(name) != before.get(name)
        ]

    return change


def locked(name: str, detail: str) -> Change:
    """Return the rule that a field does not change, with its own detail."""
    return lambda new, old: [fe.forbidden(name, detail)] if new.get(name) != old.get(name) else ()


def once(path: str, name: str, detail: str) -> Change:
    """Return the rule that a field does not change once it is set."""

    def change(new: Json, old: Json) -> Found:
        before = reach(old, path).get(name)
        same = not before or reach(new, path).get(name) == before
        return () if same else (fe.forbidden(at(path, name), detail),)

    return change


def of_new(check: Check) -> Change:
    """Return the rule that checks the new object, independent of the old one."""
    return lambda new, _: check(new, "")
