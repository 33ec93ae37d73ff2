"""Comparing an answer with a recorded one: placeholders, trimmed bodies, and the path of everything that differs.

Placeholders bind at first sight and must hold from then on: ``<uid:N>`` one uid per N, ``<rv:N>`` one resourceVersion
per N and growing with N, ``<continue:N>`` a token. A path such as ``body.details.causes[0].field`` names a place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

_PLACEHOLDER = re.compile(r"<(?:(?P<kind>uid|rv|continue):(?P<number>\d+)|time(?:\+(?P<later>\d+)s)?|microtime|age|"
                          r"trimmed|rv|hash|host:port|bytes|unknown|(?P<random>\d+) random)>")  # fmt: skip
_FORMS = {"uid": r"[0-9a-f]{8}-[0-9a-f-]{27}", "rv": r"\d+", "continue": r"[A-Za-z0-9_-]+"}
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
_TIME_LEEWAY = timedelta(seconds=20)
_LITERAL_DAY = datetime(2026, 1, 1, tzinfo=UTC)
"""Times of this day are literal in the recordings, so their ages have grown since."""
_AGE_THEN = "323d"
"""How old they were when they were recorded."""
_MANAGERS = ("manager", "operation", "subresource", "apiVersion")


@dataclass
class Bindings:
    """What the placeholders stand for so far in one replay."""

    values: dict[tuple[str, int], str] = field(default_factory=dict)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def bind(self, kind: str, number: int, value: str) -> bool:
        """Bind or check one placeholder."""
        known = self.values.setdefault((kind, number), value)
        if known != value:
            return False
        if kind == "rv":
            for (other, position), bound in self.values.items():
                if other == "rv" and (position < number) != (int(bound) < int(value)) and position != number:
                    return False
        return True

    def fill(self, text: str) -> str:
        """Replace bound placeholders in a request; times become now."""

        def one(match: re.Match[str]) -> str:
            if match["kind"]:
                return self.values.get((match["kind"], int(match["number"])), match.group())
            if match.group() == "<time>":
                return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            return match.group()

        return _PLACEHOLDER.sub(one, text)

    def matches(self, expected: str, actual: str) -> bool:
        """Compare a text that may hold placeholders; binds what it meets only if the whole text fits."""
        if "<" not in expected:
            return expected == actual or (expected == _AGE_THEN and actual in _ages_now())
        pattern, names = "", []
        position = 0
        for match in _PLACEHOLDER.finditer(expected):
            pattern += re.escape(expected[position : match.start()])
            names.append(match)
            pattern += f"({self._form(match)})"
            position = match.end()
        pattern += re.escape(expected[position:])
        found = re.fullmatch(pattern, actual, re.DOTALL)
        if found is None:
            return False
        for index, match in enumerate(names):
            value = found.group(index + 1)
            if match["kind"] and not self.bind(match["kind"], int(match["number"]), value):
                return False
            if match.group().startswith("<time") and not self._about(value, int(match["later"] or 0)):
                return False
        return True

    @staticmethod
    def _form(match: re.Match[str]) -> str:
        if match["kind"]:
            return _FORMS[match["kind"]]
        if match.group().startswith("<time"):
            return _TIME
        return f".{{{match['random']}}}" if match["random"] else ".*"

    def _about(self, value: str, later: int) -> bool:
        """A time since the replay began, however long it takes, or so much later."""
        moment = datetime.fromisoformat(value.replace("Z", "+00:00")) - timedelta(seconds=later)
        return self.began - _TIME_LEEWAY < moment < datetime.now(UTC) + _TIME_LEEWAY


@dataclass
class Comparison:
    """How one answer is compared.

    ``part``: the recording was cut, so what it does not have is not compared. ``some``: lists were cut too.
    ``unordered_causes``: the order of ``details.causes`` (and of the message that joins them) is arbitrary.
    Everywhere null stands for absent, and a cause counts once however often it is repeated.
    """

    bindings: Bindings
    part: bool = False
    some: bool = False
    unordered_causes: bool = False

    def differences(self, expected: Any, actual: Any, path: str = "body") -> list[str]:
        """Return "PATH: expected, found" for everything in ``actual`` that is not as in ``expected``."""
        if expected == "<trimmed>":
            return []
        if isinstance(expected, str):
            if isinstance(actual, dict) and self.part:  # an item cut to its name
                actual = actual.get("metadata", {}).get("name")
            if isinstance(actual, str) and self.bindings.matches(expected, actual):
                return []
            return [_differs(path, expected, actual)]
        if isinstance(expected, dict) and isinstance(actual, dict):
            return self._mappings(expected, actual, path)
        if isinstance(expected, list) and isinstance(actual, list):
            return self._lists(expected, actual, path)
        if expected == actual and type(expected) is type(actual):
            return []
        return [_differs(path, expected, actual)]

    def _mappings(self, expected: dict[str, Any], actual: dict[str, Any], path: str) -> list[str]:
        found: list[str] = []
        if self.unordered_causes and "code" in expected:
            expected, actual = {**expected, "message": ""}, {**actual, "message": ""}
        for key, value in expected.items():
            where = f"{path}.{key}"
            if actual.get(key) is None:
                if value is not None:
                    found.append(f"{where}: expected {_short(value)}, is absent")
                continue
            found.extend(self.differences(value, actual[key], where))
        if not self.part:
            extra = [key for key in actual if key not in expected and actual[key] is not None]
            found.extend(f"{path}.{key}: not expected, is {_short(actual[key])}" for key in extra)
        return found

    def _lists(self, expected: list[Any], actual: list[Any], path: str) -> list[str]:
        if path.endswith(".managedFields"):
            expected, actual = sorted(expected, key=_manager), sorted(actual, key=_manager)
        if path.endswith(".causes"):
            expected, actual = _once(expected), _once(actual)
            if self.unordered_causes:
                expected, actual = sorted(expected, key=repr), sorted(actual, key=repr)
        if self.some and len(expected) < len(actual):
            return self._among(expected, actual, path)
        found: list[str] = []
        if len(expected) != len(actual):
            found.append(f"{path}: expected {len(expected)} entries, has {len(actual)}")
        for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
            found.extend(self.differences(left, right, f"{path}[{index}]"))
        return found

    def _among(self, expected: list[Any], actual: list[Any], path: str) -> list[str]:
        """A list of which only some entries were kept: each must be among the actual ones."""
        found: list[str] = []
        for index, entry in enumerate(expected):
            best: list[str] | None = None
            for candidate in actual:
                trial = Comparison(Bindings(dict(self.bindings.values)), self.part, self.some)
                problems = trial.differences(entry, candidate, f"{path}[{index}]")
                if best is None or len(problems) < len(best):
                    best = problems
                if not problems:
                    self.bindings.values.update(trial.bindings.values)
                    break
            found.extend(best or [])
        return found


def _ages_now() -> tuple[str, ...]:
    """How old a moment of the literal day is now, whichever it was."""
    days = (datetime.now(UTC) - _LITERAL_DAY).days
    return f"{days}d", f"{days - 1}d"


def _manager(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(entry.get(name, "") for name in _MANAGERS)


def _once(entries: list[Any]) -> list[Any]:
    return [entry for index, entry in enumerate(entries) if entry not in entries[:index]]


def _differs(path: str, expected: Any, actual: Any) -> str:
    return f"{path}: expected {_short(expected)}, is {_short(actual)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def places(found: Iterable[str]) -> list[str]:
    """Return the paths of differences."""
    return [line.partition(": ")[0] for line in found]
