"""CEL selectors of devices: compiled once per text, evaluated within a budget by `reprieve.api.cel`.

What an expression sees (resource.k8s.io/v1, DeviceSelector): `device.driver`, `device.allowMultipleAllocations`,
`device.attributes["domain"].name` (bool, int, string, semver) and `device.capacity["domain"].name` (quantity).  A
domain a device does not know is an empty map; a name it does not know is an error, as upstream.  Of Kubernetes' own
functions there are those on quantities and semantic versions, the string functions and `cel.bind`.

Invariants: an expression that cannot be compiled, or whose cost may exceed the API's, is a `DeviceSelectorError`
every time it is used; evaluating changes nothing and stops at the same cost.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, total_ordering
from typing import Any

from reprieve.api import cel, quantity
from reprieve.api.cel.syntax import Bind, Call, Fold, Ident, Literal, MakeList, MakeMap, Select

LONGEST = 10 * 1024
"""Characters of an expression (resourceapi.CELSelectorExpressionMaxLength)."""
MAX_COST = 1_000_000
"""Cost of an expression, estimated and when it runs (resourceapi.CELSelectorExpressionMaxCost)."""
_MOST_ENTRIES = 32
"""Attributes and capacities of one device together."""
_LONGEST_VALUE = 64
"""Bytes of a string or version (resourceapi.DeviceAttributeMaxValueLength)."""
_LONGEST_DRIVER = 63
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)


class DeviceSelectorError(ValueError):
    """An expression that does not compile or fails when run; `str()` says why, in one line."""


@total_ordering
class Semver:
    """A semantic version (semver.org 2.0.0); build metadata does not order. Raises DeviceSelectorError."""

    __slots__ = ("key", "numbers", "text")

    def __init__(self, text: str) -> None:
        match = _SEMVER.fullmatch(text) if len(text) <= 256 else None
        if match is None:
            raise DeviceSelectorError(f"parse semantic version: {text[:64]!r} is none")
        self.text = text
        self.numbers = tuple(int(part) for part in match.groups()[:3])
        pre = match.group(4)
        # A release comes after its pre-releases; numbers order before words.
        parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split(".")) if pre else ()
        self.key = (self.numbers, not pre, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __lt__(self, other: "Semver") -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)


@total_ordering
class Amount:
    """A quantity inside an expression; `nano` in units of 10^-9."""

    __slots__ = ("nano",)

    def __init__(self, nano: int) -> None:
        self.nano = nano

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Amount) and self.nano == other.nano

    def __lt__(self, other: "Amount") -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)


class Selector:
    """A compiled expression.

    `reads`: the names of attributes and capacities, without domain, that its answer can depend on beside the driver,
    the flag for multiple allocations and which domains there are; None: on anything.
    """

    __slots__ = ("_program", "reads")

    def __init__(self, program: cel.Program, reads: frozenset[str] | None) -> None:
        self._program = program
        self.reads = reads

    def matches(self, device: Any) -> bool:
        """Whether a device (`device_value`) satisfies it. Raises DeviceSelectorError."""
        try:
            found = self._program.evaluate({"device": device}, cel.Meter(MAX_COST))
        except (cel.CelError, cel.CostExceededError) as error:
            raise DeviceSelectorError(str(error)) from None
        if not isinstance(found, bool):
            raise DeviceSelectorError(f"CEL result of type {cel.type_name(found)} could not be converted to bool")
        return found


def compiled(expression: str) -> Selector:
    """The selector of a text. Raises DeviceSelectorError if it does not compile."""
    if len(expression) > LONGEST:
        raise DeviceSelectorError(f"longer than {LONGEST} characters")
    found = _compiled(expression)
    if isinstance(found, str):
        raise DeviceSelectorError(found)
    return found


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Selector | str:
    try:
        tree = cel.parse(expression)
        program = cel.compiled(tree, ("device",), _FUNCTIONS)
    except cel.CelSyntaxError as error:
        return f"compilation failed: {error}"
    if cel.estimated_cost(tree, {"device": _DEVICE}, _FUNCTIONS) > MAX_COST:
        return "too complex, exceeds cost limit"
    return Selector(program, _reads(tree))


def device_value(driver: str, shared: bool, attributes: Mapping[str, Any], capacity: Mapping[str, int]) -> Any:
    """What an expression sees of a device.

    `attributes`: name, with or without a domain, to DeviceAttribute as in the manifest; `capacity`: the same to an
    amount in units of 10^-9.  Raises DeviceSelectorError for an attribute without a value.
    """
    known: dict[str, dict[str, Any]] = {}
    for name, attribute in attributes.items():
        domain, identifier = split_name(name, driver)
        known.setdefault(domain, {})[identifier] = _attribute(name, attribute)
    amounts: dict[str, dict[str, Any]] = {}
    for name, nano in capacity.items():
        domain, identifier = split_name(name, driver)
        amounts.setdefault(domain, {})[identifier] = Amount(nano)
    return {
        "driver": driver,
        "allowMultipleAllocations": shared,
        "attributes": _Domains(known),
        "capacity": _Domains(amounts),
    }


def split_name(name: str, driver: str) -> tuple[str, str]:
    """(domain, identifier) of a qualified name; the driver is the domain of names without one."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute(name: str, attribute: Mapping[str, Any]) -> Any:
    for form in ("int", "bool", "string"):
        if (value := attribute.get(form)) is not None:
            return value
    if (value := attribute.get("version")) is not None:
        return Semver(str(value))
    raise DeviceSelectorError(f"attribute {name}: unsupported attribute value")


class _Domains(dict[str, dict[str, Any]]):
    """A map that has an empty map for every key it does not have."""

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


# -- functions --------------------------------------------------------------------------------------------------------


def _amount(text: Any) -> Amount:
    try:
        return Amount(quantity.parse(_text(text)).nano)
    except quantity.QuantityError as error:
        raise DeviceSelectorError(str(error)) from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DeviceSelectorError(_NO_OVERLOAD)
    return value


def _ordered(one: Any, other: Any) -> int:
    if type(one) is not type(other) or not isinstance(one, Amount | Semver):
        raise DeviceSelectorError(_NO_OVERLOAD)
    return int(one > other) - int(one < other)


def _parses(of: Callable[[Any], Any], text: Any) -> bool:
    try:
        of(_text(text))
    except DeviceSelectorError:
        return False
    return True


def _summed(one: Any, other: Any, sign: int) -> Amount:
    whole = isinstance(other, int) and not isinstance(other, bool)
    if not isinstance(one, Amount) or not (whole or isinstance(other, Amount)):
        raise DeviceSelectorError(_NO_OVERLOAD)
    return Amount(one.nano + sign * (other.nano if isinstance(other, Amount) else int(other) * quantity.NANO))


def _integer(one: Any) -> int:
    if one.nano % quantity.NANO or abs(one.nano) >= 2**63 * quantity.NANO:
        raise DeviceSelectorError("cannot convert value to integer")
    return int(one.nano // quantity.NANO)


def _function(work: Callable[..., Any], count: int, kind: str) -> cel.Function:
    """A function of so many arguments, as an expression calls it; it goes through its first one if that is a text."""

    def run(meter: cel.Meter, args: list[Any]) -> Any:
        meter.spend(1 + (len(args[0]) // 10 if args and isinstance(args[0], str) else 0))
        try:
            if len(args) != count:
                raise DeviceSelectorError(_NO_OVERLOAD)
            return work(*args)
        except AttributeError:
            raise cel.CelError(_NO_OVERLOAD) from None
        except DeviceSelectorError as error:
            raise cel.CelError(str(error)) from None

    return cel.Function(run, kind, lambda sizes: 1 + sizes[0] // 10)


_NO_OVERLOAD = "no such overload"
_FUNCTIONS: Mapping[str, cel.Function] = {
    "quantity": _function(_amount, 1, "quantity"),
    "isQuantity": _function(lambda text: _parses(_amount, text), 1, "bool"),
    "semver": _function(lambda text: Semver(_text(text)), 1, "semver"),
    "isSemver": _function(lambda text: _parses(Semver, text), 1, "bool"),
    "compareTo": _function(_ordered, 2, "int"),
    "isGreaterThan": _function(lambda a, b: _ordered(a, b) > 0, 2, "bool"),
    "isLessThan": _function(lambda a, b: _ordered(a, b) < 0, 2, "bool"),
    "sign": _function(lambda a: (a.nano > 0) - (a.nano < 0), 1, "int"),
    "add": _function(lambda a, b: _summed(a, b, 1), 2, "quantity"),
    "sub": _function(lambda a, b: _summed(a, b, -1), 2, "quantity"),
    "isInteger": _function(lambda a: a.nano % quantity.NANO == 0, 1, "bool"),
    "asInteger": _function(_integer, 1, "int"),
    "asApproximateFloat": _function(lambda a: a.nano / quantity.NANO, 1, "double"),
    "major": _function(lambda v: v.numbers[0], 1, "int"),
    "minor": _function(lambda v: v.numbers[1], 1, "int"),
    "patch": _function(lambda v: v.numbers[2], 1, "int"),
}
"""Functions Kubernetes adds for quantities and semantic versions (apiserver/pkg/cel/library)."""

_VALUES = cel.Declared("map", _MOST_ENTRIES, 2, cel.Declared("dyn", _LONGEST_VALUE))
_DEVICE = cel.Declared(
    "object",
    1,
    2,
    None,
    {
        "driver": cel.Declared("string", _LONGEST_DRIVER),
        "allowMultipleAllocations": cel.Declared("bool"),
        "attributes": cel.Declared("map", _MOST_ENTRIES, 2, _VALUES),
        "capacity": cel.Declared("map", _MOST_ENTRIES, 2, _VALUES),
    },
)


# -- what an answer depends on ----------------------------------------------------------------------------------------

_DRIVER = ("device", "driver")
_FLAT = (_DRIVER, ("device", "allowMultipleAllocations"))


def _reads(tree: cel.Node) -> frozenset[str] | None:
    """See `Selector.reads`: only where `device` is used in no other way than to look one entry up."""
    names: set[str] = set()

    def walk(node: cel.Node) -> bool:
        path = _path(node)
        if path is not None:
            if path in _FLAT:
                return True
            if len(path) == 4:
                names.add(str(path[3]))
                return True
            return False
        match node:
            case Literal() | Ident():
                return True
            case Select(operand, _, _):
                return walk(operand)
            case Call("@in", None, (Literal(str() as wanted), where)) if len(_path(where) or ()) in (2, 3):
                names.add(wanted)
                return True
            case Call(_, target, args):
                return all(walk(inner) for inner in (target, *args) if inner is not None)
            case MakeList(items):
                return all(map(walk, items))
            case MakeMap(entries):
                return all(walk(inner) for entry in entries for inner in entry)
            case Fold(_, over, _, condition, body):
                return all(walk(inner) for inner in (over, condition, body) if inner is not None)
            case Bind(_, value, body):
                return walk(value) and walk(body)

    return frozenset(names) if walk(tree) else None


def _path(node: cel.Node) -> tuple[object, ...] | None:
    """`device.attributes["d"].name` as its parts; None for any other expression."""
    match node:
        case Ident("device"):
            return ("device",)
        case Select(operand, name, _):
            base = _path(operand)
            return None if base is None else (*base, name)
        case Call("_[_]", None, (operand, index)):
            base = _path(operand)
            if base is None:
                return None
            if isinstance(index, Literal) and isinstance(index.value, str):
                return (*base, index.value)
            if len(base) == 2 and _path(index) == _DRIVER:
                return (*base, _DRIVER)
    return None
