"""CEL selectors of devices: compiled once per text, evaluated within a budget by `kube_rules.cel`.

Variables (resource.k8s.io/v1, DeviceSelector): `device.driver`, `device.allowMultipleAllocations`,
`device.attributes["domain"].name` (bool, int, string, semver, or a list of one of them) and
`device.capacity["domain"].name` (quantity). An unknown domain is an empty map; an unknown name is an error, as
upstream. `kube_rules.cel.library` has the functions; `kube_rules.device_expressions` checks types and cost.

Invariants: an expression that does not compile, or may exceed the API's cost limit, raises `DeviceSelectorError` every
time. Evaluation has no side effects and always stops at the same cost.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from kube_rules import cel, device_expressions
from kube_rules.cel.syntax import Bind, Call, Fold, Ident, Literal, MakeList, MakeMap, MakeMessage, Select
from kube_rules.device_expressions import LONGEST, MAX_COST
from kube_rules.devices import DeviceSelectorError, split_name

__all__ = ["LONGEST", "MAX_COST", "CompiledSelector", "DeviceSelectorError", "compiled", "device_value", "split_name"]


class CompiledSelector:
    """A compiled expression.

    `reads`: the names of the attributes and capacities, without domain, that the result depends on, in addition to the
    driver, the flag for multiple allocations and the existing domains. None: on anything.
    """

    __slots__ = ("_program", "reads")

    def __init__(self, program: cel.Program, reads: frozenset[str] | None) -> None:
        self._program = program
        self.reads = reads

    def matches(self, device: Any) -> bool:
        """Return whether a device (`device_value`) matches. Raises DeviceSelectorError."""
        try:
            result = self._program.evaluate({"device": device}, cel.Meter(MAX_COST))
        except (cel.CelError, cel.CostExceededError) as error:
            raise DeviceSelectorError(str(error)) from None
        if not isinstance(result, bool):
            raise DeviceSelectorError(f"CEL result of type {cel.type_name(result)} could not be converted to bool")
        return result


def compiled(expression: str) -> CompiledSelector:
    """Return the selector of an expression. Raises DeviceSelectorError if it does not compile."""
    if len(expression.encode("utf-8", "replace")) > LONGEST:  # not cached: it may have any length
        raise DeviceSelectorError(f"may not be more than {LONGEST} bytes")
    result = _compiled(expression)
    if isinstance(result, str):
        raise DeviceSelectorError(result)
    return result


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> CompiledSelector | str:
    try:
        tree = device_expressions.parsed(expression)
    except device_expressions.DeviceExpressionError as error:
        return str(error)
    return CompiledSelector(cel.compiled(tree, ("device",)), _reads(tree))


def device_value(driver: str, shared: bool, attributes: Mapping[str, Any], capacity: Mapping[str, int]) -> Any:
    """Return the CEL value of a device.

    `attributes`: name, with or without a domain -> DeviceAttribute as in the manifest. `capacity`: name -> amount in
    units of 10^-9. Raises DeviceSelectorError for an attribute without a value.
    """
    attribute_values: dict[str, dict[str, Any]] = {}
    for name, attribute in attributes.items():
        domain, identifier = split_name(name, driver)
        attribute_values.setdefault(domain, {})[identifier] = _attribute(name, attribute)
    amounts: dict[str, dict[str, Any]] = {}
    for name, nano in capacity.items():
        domain, identifier = split_name(name, driver)
        amounts.setdefault(domain, {})[identifier] = cel.QuantityValue(nano)
    return {
        "driver": driver,
        "allowMultipleAllocations": shared,
        "attributes": _Domains(attribute_values),
        "capacity": _Domains(amounts),
    }


def _attribute(name: str, attribute: Mapping[str, Any]) -> Any:
    for form in ("ints", "bools", "strings", "int", "bool", "string"):
        if (value := attribute.get(form)) is not None:
            return value
    try:
        if (versions := attribute.get("versions")) is not None:
            return [cel.Semver(str(version)) for version in versions]
        if (value := attribute.get("version")) is not None:
            return cel.Semver(str(value))
    except cel.CelError as error:
        raise DeviceSelectorError(str(error)) from None
    raise DeviceSelectorError(f"attribute {name}: unsupported attribute value")


class _Domains(cel.FullMap):
    """A map with an empty map for every missing key."""

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


# -- dependencies of a result -----------------------------------------------------------------------------------------

_DRIVER = ("device", "driver")
_FLAT = (_DRIVER, ("device", "allowMultipleAllocations"))


def _reads(tree: cel.Node) -> frozenset[str] | None:
    """Return the names for `CompiledSelector.reads`; None if `device` is used other than to look up one entry."""
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
            case MakeMessage(_, fields):
                return all(walk(inner) for _, inner in fields)

    return frozenset(names) if walk(tree) else None


def _path(node: cel.Node) -> tuple[object, ...] | None:
    """Return `device.attributes["d"].name` as its parts; None for any other expression."""
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
