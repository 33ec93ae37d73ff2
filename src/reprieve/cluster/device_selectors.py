"""CEL selectors of devices: compiled once per text, evaluated by the library `celpy` (loaded at the first selector).

What an expression sees (resource.k8s.io/v1, DeviceSelector): `device.driver`, `device.allowMultipleAllocations`,
`device.attributes["domain"].name` (bool, int, string, semver) and `device.capacity["domain"].name` (quantity).  A
domain a device does not know is an empty map; a name it does not know is an error, as upstream.  Of Kubernetes' own
functions there are those on quantities and semantic versions, the string functions and `cel.bind`.

Invariants: an expression that cannot be compiled, or whose cost has no bound within the API's, is a
`DeviceSelectorError` every time it is used; evaluating changes nothing.
"""

import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, total_ordering
from typing import Any

from reprieve.api import quantity

LONGEST = 10 * 1024
"""Characters of an expression (resourceapi.CELSelectorExpressionMaxLength)."""
MAX_COST = 1_000_000
"""Steps an expression may take at most (resourceapi.CELSelectorExpressionMaxCost)."""
_MOST_ENTRIES = 32
"""Attributes and capacities of one device together."""
_MACROS = frozenset({"map", "filter", "all", "exists", "exists_one", "reduce", "min"})
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

    def __init__(self, program: Any, reads: frozenset[str] | None) -> None:
        self._program = program
        self.reads = reads

    def matches(self, device: Any) -> bool:
        """Whether a device (`device_value`) satisfies it. Raises DeviceSelectorError."""
        from celpy import celtypes, evaluation

        try:
            found = self._program.evaluate({"device": device})
        except evaluation.CELEvalError as error:
            raise DeviceSelectorError(_reason(error)) from None
        except DeviceSelectorError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise DeviceSelectorError(f"{type(error).__name__}: {error}") from None
        if not isinstance(found, celtypes.BoolType | bool):
            raise DeviceSelectorError(f"CEL result of type {type(found).__name__} could not be converted to bool")
        return bool(found)


def compiled(expression: str) -> Selector:
    """The selector of a text. Raises DeviceSelectorError if it does not compile."""
    found = _compiled(expression)
    if isinstance(found, str):
        raise DeviceSelectorError(found)
    return found


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Selector | str:
    try:
        import celpy
        from celpy import celparser
    except ImportError:
        return "CEL is not supported: the Python package cel-python is not installed"
    if len(expression) > LONGEST:
        return f"longer than {LONGEST} characters"
    limit = sys.getrecursionlimit()
    environment = celpy.Environment()
    sys.setrecursionlimit(limit)  # the library raises it for the whole process
    try:
        tree: Any = environment.compile(expression)
        tree = _without_bindings(environment, tree)
        cost = _cost(tree)
    except RecursionError:
        return "compilation failed: nested too deeply"
    except celparser.CELParseError as error:
        return f"compilation failed: {_syntax(error)}"
    if cost > MAX_COST:
        return f"compilation failed: the expression may take more than {MAX_COST} steps"
    functions = _functions()
    unknown = _unknown_functions(tree, functions)
    if unknown:
        return f"compilation failed: undeclared reference to '{unknown}'"
    return Selector(environment.program(tree, functions=functions), _reads(tree))


def device_value(driver: str, shared: bool, attributes: Mapping[str, Any], capacity: Mapping[str, int]) -> Any:
    """What an expression sees of a device.

    `attributes`: name, with or without a domain, to DeviceAttribute as in the manifest; `capacity`: the same to an
    amount in units of 10^-9.  Raises DeviceSelectorError for an attribute without a value.
    """
    from celpy import celtypes as t

    known: dict[str, dict[Any, Any]] = {}
    for name, attribute in attributes.items():
        domain, identifier = split_name(name, driver)
        known.setdefault(domain, {})[t.StringType(identifier)] = _attribute(name, attribute, t)
    amounts: dict[str, dict[Any, Any]] = {}
    for name, nano in capacity.items():
        domain, identifier = split_name(name, driver)
        amounts.setdefault(domain, {})[t.StringType(identifier)] = Amount(nano)
    return t.MapType(
        {
            t.StringType("driver"): t.StringType(driver),
            t.StringType("allowMultipleAllocations"): t.BoolType(shared),
            t.StringType("attributes"): _domains(known, t),
            t.StringType("capacity"): _domains(amounts, t),
        }
    )


def split_name(name: str, driver: str) -> tuple[str, str]:
    """(domain, identifier) of a qualified name; the driver is the domain of names without one."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute(name: str, attribute: Mapping[str, Any], t: Any) -> Any:
    if (value := attribute.get("int")) is not None:
        return t.IntType(value)
    if (value := attribute.get("bool")) is not None:
        return t.BoolType(value)
    if (value := attribute.get("string")) is not None:
        return t.StringType(value)
    if (value := attribute.get("version")) is not None:
        return Semver(str(value))
    raise DeviceSelectorError(f"attribute {name}: unsupported attribute value")


def _domains(known: Mapping[str, dict[Any, Any]], t: Any) -> Any:
    empty = t.MapType({})

    class Domains(t.MapType):  # type: ignore[misc]
        """A map that has an empty map for every key it does not have."""

        def __getitem__(self, key: Any) -> Any:
            return super().__getitem__(key) if key in self else empty

        def get(self, key: Any, default: Any = None) -> Any:
            """See `__getitem__`."""
            return self[key]

    return Domains({t.StringType(domain): t.MapType(entries) for domain, entries in known.items()})


# -- functions --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _functions() -> dict[str, Callable[..., Any]]:
    """Functions Kubernetes adds to CEL, as far as they are offered here (apiserver/pkg/cel/library)."""
    from celpy import celtypes as t

    def amount(text: Any) -> Amount:
        try:
            return Amount(quantity.parse(str(text)).nano)
        except quantity.QuantityError as error:
            raise DeviceSelectorError(str(error)) from None

    def pair(one: Any, other: Any) -> tuple[Any, Any]:
        if type(one) is not type(other) or not isinstance(one, Amount | Semver):
            raise DeviceSelectorError("no such overload")
        return one, other

    def ordered(one: Any, other: Any) -> int:
        a, b = pair(one, other)
        return int(a > b) - int(a < b)

    def parses(of: Callable[[Any], Any], text: Any) -> Any:
        try:
            of(text)
        except DeviceSelectorError:
            return t.BoolType(False)
        return t.BoolType(True)

    def summed(one: Any, other: Any, sign: int) -> Amount:
        if not isinstance(one, Amount):
            raise DeviceSelectorError("no such overload")
        more = other.nano if isinstance(other, Amount) else int(other) * quantity.NANO
        return Amount(one.nano + sign * more)

    def integer(one: Any) -> Any:
        if one.nano % quantity.NANO:
            raise DeviceSelectorError("cannot convert value to integer")
        return t.IntType(one.nano // quantity.NANO)

    return {
        "quantity": amount,
        "isQuantity": lambda text: parses(amount, text),
        "semver": lambda text: Semver(str(text)),
        "isSemver": lambda text: parses(lambda x: Semver(str(x)), text),
        "compareTo": lambda a, b: t.IntType(ordered(a, b)),
        "isGreaterThan": lambda a, b: t.BoolType(ordered(a, b) > 0),
        "isLessThan": lambda a, b: t.BoolType(ordered(a, b) < 0),
        "sign": lambda a: t.IntType((a.nano > 0) - (a.nano < 0)),
        "add": lambda a, b: summed(a, b, 1),
        "sub": lambda a, b: summed(a, b, -1),
        "isInteger": lambda a: t.BoolType(a.nano % quantity.NANO == 0),
        "asInteger": integer,
        "asApproximateFloat": lambda a: t.DoubleType(a.nano / quantity.NANO),
        "major": lambda v: t.IntType(v.numbers[0]),
        "minor": lambda v: t.IntType(v.numbers[1]),
        "patch": lambda v: t.IntType(v.numbers[2]),
        "lowerAscii": lambda s: t.StringType(s.lower()),
        "upperAscii": lambda s: t.StringType(s.upper()),
        "trim": lambda s: t.StringType(s.strip()),
        "replace": lambda s, old, new: t.StringType(str(s).replace(old, new)),
        "split": lambda s, by: t.ListType(t.StringType(part) for part in str(s).split(by)),
        "substring": lambda s, a, b=None: t.StringType(str(s)[int(a) : None if b is None else int(b)]),
        "indexOf": lambda s, part: t.IntType(str(s).find(part)),
    }


_BUILT_IN = frozenset(
    {"has", "size", "contains", "startsWith", "endsWith", "matches", "bool", "bytes", "double", "int", "list", "map"}
    | {"string", "type", "uint", "dyn", "timestamp", "duration", "getDate", "getDayOfMonth", "getDayOfWeek"}
    | {"getDayOfYear", "getFullYear", "getMonth", "getHours", "getMilliseconds", "getMinutes", "getSeconds"}
    | _MACROS
)


def _unknown_functions(tree: Any, functions: Mapping[str, Any]) -> str:
    """The first function that exists nowhere: an error at once, as by a type checker, not on some devices."""
    for node in tree.iter_subtrees():
        name = ""
        if node.data == "member_dot_arg":
            name = str(node.children[1])
        elif node.data in ("ident_arg", "dot_ident_arg"):
            name = str(node.children[0])
        if name and name not in functions and name not in _BUILT_IN:
            return name
    return ""


# -- syntax -----------------------------------------------------------------------------------------------------------


def _without_bindings(environment: Any, tree: Any) -> Any:
    """`cel.bind(name, value, expression)` as what it means, which the library can do: `[value].map(name, ...)[0]`."""
    for node in list(tree.iter_subtrees()):
        if node.data != "member_dot_arg" or len(node.children) != 3 or str(node.children[1]) != "bind":
            continue
        if str(_only_token(node.children[0])) != "cel" or node.children[2] is None:
            continue
        arguments = node.children[2].children
        if len(arguments) != 3:
            continue
        name, value, expression = arguments
        shape = environment.compile("[0].map(v, 0)[0]")
        while shape.data != "member_index":
            shape = shape.children[0]
        places = [sub for sub in shape.iter_subtrees() if sub.data == "exprlist"]
        literal = next(place for place in places if len(place.children) == 1)
        macro = next(place for place in places if len(place.children) == 2)
        literal.children = [value]
        macro.children = [name, expression]
        node.data, node.children = shape.data, shape.children
    return tree


def _only_token(node: Any) -> Any:
    while hasattr(node, "children"):
        if len(node.children) != 1:
            return ""
        node = node.children[0]
    return node


def _cost(node: Any) -> int:
    """At most how many steps: bodies of macros count once for each element their list or map can have."""
    if not hasattr(node, "children"):
        return 0
    if node.data == "member_dot_arg" and str(node.children[1]) in _MACROS and len(node.children) == 3:
        body = node.children[2]
        return _cost(node.children[0]) + _size(node.children[0]) * (_cost(body) + 1)
    return 1 + sum(_cost(child) for child in node.children)


def _size(node: Any) -> int:
    """At most how many elements a list or map has."""
    sizes = [_MOST_ENTRIES]
    for sub in node.iter_subtrees():
        if sub.data == "exprlist":
            sizes.append(len(sub.children))
        elif sub.data == "mapinits":
            sizes.append(len(sub.children) // 2)
    return max(sizes)


_DRIVER = ("device", "driver")
_FLAT = (_DRIVER, ("device", "allowMultipleAllocations"))


def _reads(tree: Any) -> frozenset[str] | None:
    """See `Selector.reads`: only where `device` is used in no other way than to look one entry up."""
    names: set[str] = set()

    def walk(node: Any) -> bool:
        if not hasattr(node, "children"):
            return True
        path = _path(node)
        if path is not None:
            if path in _FLAT:
                return True
            if len(path) == 4:
                names.add(str(path[3]))
                return True
            return False
        if node.data == "relation" and len(node.children) == 2 and node.children[0].data == "relation_in":
            wanted, where = _literal(node.children[0].children[0]), _path(node.children[1])
            if wanted is not None and where is not None and len(where) in (2, 3):
                names.add(wanted)
                return True
        return all(walk(child) for child in node.children)

    return frozenset(names) if walk(tree) else None


def _path(node: Any) -> tuple[object, ...] | None:
    """`device.attributes["d"].name` as its parts; None for any other expression."""
    while hasattr(node, "children") and node.data not in ("member_dot", "member_index", "ident"):
        if len(node.children) != 1 or node.data in ("unary_not", "unary_neg", "relation_in"):
            return None
        node = node.children[0]
    if not hasattr(node, "children"):
        return None
    if node.data == "ident":
        return ("device",) if str(node.children[0]) == "device" else None
    base = _path(node.children[0])
    if base is None:
        return None
    if node.data == "member_dot":
        return (*base, str(node.children[1]))
    key: object = _literal(node.children[1])
    if key is None and len(base) == 2 and _path(node.children[1]) == _DRIVER:
        key = _DRIVER
    return None if key is None else (*base, key)


def _literal(node: Any) -> str | None:
    """The value of a plain string literal; None for anything else."""
    while hasattr(node, "children"):
        if len(node.children) != 1 or node.data in ("unary_not", "unary_neg"):
            return None
        node = node.children[0]
    text = str(node)
    plain = getattr(node, "type", "") == "STRING_LIT" and text[:1] in "\"'" and text[:3] not in ('"""', "'''")
    return text[1:-1] if plain and "\\" not in text else None


def _syntax(error: Any) -> str:
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    return f"syntax error at line {line}, column {column}" if line else "syntax error"


_MISSING = re.compile(r"no such member in mapping: '?([^']+)'?")


def _reason(error: Exception) -> str:
    text = str(error.args[0]) if error.args else "evaluation failed"
    text = text.split(" (in activation")[0]
    cause = error.args[2] if len(error.args) > 2 else None
    if isinstance(cause, tuple) and cause and isinstance(cause[0], str):
        found = _MISSING.search(cause[0]) or _MISSING.search(text)
        return f"no such key: {found.group(1)}" if found else f"{text}: {cause[0]}" if cause[0] not in text else text
    found = _MISSING.search(text)
    return f"no such key: {found.group(1)}" if found else text
