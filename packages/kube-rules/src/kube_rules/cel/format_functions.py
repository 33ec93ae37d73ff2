"""Formatting functions: `'%d of %s'.format([1, 'x'])`, and the named formats of texts (`format.dns1123Label()`).

`string.format` and `strings.quote` follow cel-go's ext.Strings (version 2) with the locale en_US: %f groups thousands
and %e writes its exponent as a power of ten, as golang.org/x/text does. The named formats and their costs follow
k8s.io/apiserver/pkg/cel/library/format.go; messages are the API server's messages for such names.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from kube_rules.cel.functions import PATTERN, STANDARD, Function, needs, takes, traversed
from kube_rules.cel.network_functions import Url
from kube_rules.cel.values import NONE, CelError, Meter, Opaque, Optional, TypeName, type_name
from kube_rules.labels import (
    Messages,
    dns_1035_label_errors,
    dns_label_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)

_PRECISION = 6
_MOST_PRECISION = 100
_MOST_NESTING = 100
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_MAX_PATTERN = 128
"""Maximum length of the pattern of a named format, in characters (cel.MaxNameFormatRegexSize)."""

# -- string.format ----------------------------------------------------------------------------------------------------


def _format(meter: Meter, args: list[Any]) -> str:
    takes(args, 2, 2)
    text, values = needs(args[0], str), needs(args[1], list)
    meter.spend(max(int(traversed(len(text))), 1))
    pieces: list[str] = []
    left = iter(values)
    at = 0
    while (percent := text.find("%", at)) >= 0:
        pieces.append(text[at:percent])
        at = percent + 1
        if text[at : at + 1] == "%":
            pieces.append("%")
            at += 1
            continue
        try:
            value = next(left)
        except StopIteration:
            raise CelError(f"index {len(values)} out of range") from None
        clause, at = _clause(text, at)
        piece = clause(meter, value)
        meter.spend(int(traversed(len(piece))))
        pieces.append(piece)
    pieces.append(text[at:])
    return "".join(pieces)


_Clause = Callable[[Meter, Any], str]


def _clause(text: str, at: int) -> tuple[_Clause, int]:
    """Return the formatter for the letters after a percent sign, and the position after them."""
    precision = _PRECISION
    fault = "could not parse formatting clause: "
    if text[at : at + 1] == ".":
        end = at + 1
        while text[end : end + 1].isdigit() and text[end].isascii():
            end += 1
        digits = text[at + 1 : end]
        if end >= len(text):
            raise CelError(f"{fault}error while parsing precision: could not find end of precision specifier")
        if not digits or len(digits) > 9:
            raise CelError(f"{fault}error while parsing precision: error while converting precision to integer")
        precision = int(digits)
        if precision > _MOST_PRECISION:
            message = f"precision {precision} exceeds maximum allowed precision {_MOST_PRECISION}"
            raise CelError(f"{fault}error while parsing precision: {message}")
        at = end
    letter = text[at : at + 1]
    if not letter:
        raise CelError("unexpected end of string")
    if letter == "f":
        return lambda meter, value: _fixed(value, precision), at + 1
    if letter == "e":
        return lambda meter, value: _scientific(value, precision), at + 1
    if letter not in _CLAUSES:
        raise CelError(f'{fault}unrecognized formatting clause "{letter}"')
    return _CLAUSES[letter], at + 1


def _refused(clause: str, wanted: str, value: Any) -> CelError:
    message = f"error during formatting: {clause} clause can only be used on {wanted}, was given {type_name(value)}"
    return CelError(message)


def _as_double(value: Any, clause: str) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return float(value)
    if not isinstance(value, float):
        raise _refused(clause, "doubles", value)
    return value


def _unbounded(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    return ("∞" if number > 0 else "-∞") if math.isinf(number) else None


def _fixed(value: Any, precision: int) -> str:
    number = _as_double(value, "fixed-point")
    return _unbounded(number) or f"{number:,.{precision}f}"


def _scientific(value: Any, precision: int) -> str:
    number = _as_double(value, "scientific")
    if (special := _unbounded(number)) is not None:
        return special
    mantissa, _, exponent = f"{number:.{precision}e}".partition("e")
    return f"{mantissa}\u202f×\u202f10{exponent.removeprefix('+').translate(_RAISED)}"


def _decimal(meter: Meter, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused("decimal", "integers", value)
    return str(int(value))


def _binary(meter: Meter, value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if not isinstance(value, int):
        raise _refused("binary", "integers and bools", value)
    return f"{int(value):b}"


def _octal(meter: Meter, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused("octal", "integers", value)
    return f"{int(value):o}"


def _hexadecimal(upper: bool) -> _Clause:
    def clause(meter: Meter, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | str | bytes):
            raise _refused("hex", "integers, byte buffers, and strings", value)
        if isinstance(value, str):
            value = value.encode("utf-8", "replace")
        digits = value.hex() if isinstance(value, bytes) else f"{int(value):x}"
        return digits.upper() if upper else digits

    return clause


def _shown(meter: Meter, value: Any, depth: int = 0) -> str:
    """Return a value as %s formats it; texts inside lists and maps are quoted."""
    meter.spend(1)
    if depth > _MOST_NESTING:
        raise CelError("error during formatting: value is nested too deeply")
    if value is None:
        return "null"
    if isinstance(value, TypeName):
        return value.name
    if isinstance(value, list):
        return "[" + ", ".join(_inside(meter, item, depth) for item in value) + "]"
    if isinstance(value, dict):
        pairs = []
        for key, inner in value.items():
            if isinstance(key, float) or not isinstance(key, str | int):
                raise CelError(f"error during formatting: no formatting function for map key of type {type_name(key)}")
            pairs.append((_inside(meter, key, depth), _inside(meter, inner, depth)))
        return "{" + ", ".join(f"{key}:{shown}" for key, shown in sorted(pairs)) + "}"
    if isinstance(value, bool | int | float | str | bytes | datetime | timedelta):
        return str(STANDARD["string"].run(meter, [value]))
    wanted = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
    raise _refused("string", wanted, value)


def _inside(meter: Meter, value: Any, depth: int) -> str:
    shown = _shown(meter, value, depth + 1)
    if isinstance(value, str) or (isinstance(value, float) and not math.isfinite(value)):
        return _quoted(shown)
    if isinstance(value, datetime):
        return f'timestamp("{shown}")'
    if isinstance(value, timedelta):
        return f'duration("{shown}")'
    return shown


_CLAUSES: dict[str, _Clause] = {
    "s": _shown,
    "d": _decimal,
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal(False),
    "X": _hexadecimal(True),
}
_QUOTED = str.maketrans(
    {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\",
     '"': r"\""}
)  # fmt: skip


def _quoted(text: str) -> str:
    return '"' + text.encode("utf-8", "replace").decode().translate(_QUOTED) + '"'


def _quote(meter: Meter, args: list[Any]) -> str:
    takes(args, 1, 1)
    meter.spend(max(int(traversed(len(needs(args[0], str)))), 1))
    return _quoted(args[0])


# -- named formats ----------------------------------------------------------------------------------------------------

_UUID = re.compile(r"(?i)[0-9A-F]{8}-?[0-9A-F]{4}-?[0-9A-F]{4}-?[0-9A-F]{4}-?[0-9A-F]{12}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATETIME = re.compile(r"(\d{4}-\d\d-\d\d)[tT](\d\d:\d\d:\d\d)(\.\d+)?([zZ]|[+-]\d\d:?\d\d)?", re.ASCII)


class NamedFormat(Opaque):
    """A named format: `check` returns the problems of a text; `pattern` is the length of the format's pattern."""

    __slots__ = ("check", "name", "pattern")
    cel_type = "kubernetes.NamedFormat"

    def __init__(self, name: str, check: Callable[[str], Messages], pattern: int) -> None:
        self.name = name
        self.check = check
        self.pattern = pattern


def _prefix(check: Callable[[str], Messages]) -> Callable[[str], Messages]:
    """Return the check of a name prefix: a dash at the end counts as a letter (maskTrailingDash)."""
    return lambda text: check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> Messages:
    try:
        Url(text)
    except CelError as error:
        return (str(error).removeprefix("URL parse error during conversion from string: "),)
    return ()


def _byte(text: str) -> Messages:
    try:
        base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return ("invalid base64",)
    return () if text else ("invalid base64",)


def _date(text: str) -> Messages:
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        datetime.fromisoformat(text)
    except ValueError:
        return ("invalid date",)
    return ()


def _datetime(text: str) -> Messages:
    match = _DATETIME.fullmatch(text) if len(text) < 64 else None
    try:
        if match is None:
            raise ValueError
        datetime.fromisoformat(f"{match.group(1)}T{match.group(2)}")
    except ValueError:
        return ("invalid datetime",)
    return ()


FORMATS: Mapping[str, NamedFormat] = {
    name: NamedFormat(name, check, pattern)
    for name, check, pattern in (
        ("dns1123Label", dns_label_errors, 30),
        ("dns1123Subdomain", dns_subdomain_errors, 60),
        ("dns1035Label", dns_1035_label_errors, 30),
        ("qualifiedName", qualified_name_errors, 60),
        ("dns1123LabelPrefix", _prefix(dns_label_errors), 30),
        ("dns1123SubdomainPrefix", _prefix(dns_subdomain_errors), 60),
        ("dns1035LabelPrefix", _prefix(dns_1035_label_errors), 30),
        ("labelValue", label_value_errors, 40),
        ("uri", _uri, _MAX_PATTERN),
        ("uuid", lambda text: () if _UUID.fullmatch(text) else ("does not match the UUID format",), 64),
        ("byte", _byte, 100),
        ("date", _date, _MAX_PATTERN),
        ("datetime", _datetime, _MAX_PATTERN),
    )
}
"""The formats that a rule can name."""


def _named(meter: Meter, args: list[Any]) -> Optional:
    takes(args, 1, 1)
    meter.spend(1)
    named_format = FORMATS.get(needs(args[0], str))
    return NONE if named_format is None else Optional(named_format)


def _validate(meter: Meter, args: list[Any]) -> Optional:
    takes(args, 2, 2)
    form, text = needs(args[0], NamedFormat), needs(args[1], str)
    meter.spend(int(traversed(1 + len(text))) * math.ceil(form.pattern * PATTERN))
    result = list(form.check(text))
    return Optional(result) if result else NONE


def _constant(form: NamedFormat) -> Function:
    def run(meter: Meter, args: list[Any]) -> NamedFormat:
        takes(args, 0, 0)
        meter.spend(1)
        return form

    return Function(run, "kubernetes.NamedFormat")


def _functions() -> Iterator[tuple[str, Function]]:
    yield "format", Function(_format, "string", lambda n: traversed(n[0]), lambda n: n[0] + 1024 * n[1])
    yield "strings.quote", Function(_quote, "string", lambda n: traversed(n[0]), lambda n: 2 * n[0] + 2)
    yield "format.named", Function(_named, "optional")
    yield (
        "validate",
        Function(_validate, "optional", lambda n: traversed(n[1]) * math.ceil(_MAX_PATTERN * PATTERN)),
    )
    for name, form in FORMATS.items():
        yield f"format.{name}", _constant(form)


FORMATTING: Mapping[str, Function] = dict(_functions())
"""Functions that format values, and functions of named formats, by name."""
