"""Check an expression against the types of its variables, before there is a value (cel-go's checker).

The check rejects a field that the schema does not declare, a function that does not exist, and a call with argument
types that no overload takes. `dyn` fits everything and is checked when the expression runs. The first error is
reported, in cel-go's words. The check takes time linear in the length of the expression.
"""

from __future__ import annotations

from collections.abc import Mapping

from kube_rules.cel.declarations import UNKNOWN, Declared
from kube_rules.cel.evaluator import TYPE_NAMES, escaped, unescaped
from kube_rules.cel.overloads import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    OPAQUE,
    STRING,
    TYPE,
    UINT,
    Overload,
    Type,
    overloads,
)
from kube_rules.cel.syntax import (
    ENTRY,
    OPTIONAL_FIELD,
    RESERVED,
    Bind,
    Call,
    CelSyntaxError,
    Fold,
    Ident,
    Literal,
    MakeList,
    MakeMap,
    MakeMessage,
    Node,
    Select,
)
from kube_rules.cel.values import Uint

OBJECT, PATCH = "Object", "JSONPatch"
"""Types of the values that mutating policies make; `Object.spec` and the like are types too."""
_PATCH_FIELDS = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
_NULLABLE = OPAQUE | {"object", "timestamp", "duration", "null", "dyn"}
_SORTED = frozenset({"int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes", "dyn"})


def checked_type(
    node: Node,
    variables: Mapping[str, Declared],
    *,
    bindings: bool = False,
    patches: bool = False,
    devices: bool = False,
) -> Type:
    """Return the type of an expression over variables of these forms.

    `bindings`: there is `cel.bind` (ext.Bindings). `patches`: there are `Object{}`, `JSONPatch{}` and
    `jsonpatch.escapeKey`. `devices`: there is `includes` for attributes of devices.

    Raises CelSyntaxError: an undeclared name, function or field, or no overload for the types of a call.
    """
    scope = {name: [type_of(form)] for name, form in variables.items()}
    return _Checker(scope, bindings=bindings, patches=patches, devices=devices).of(node)


def type_of(form: Declared | None) -> Type:
    """Return the type of values of a declared form."""
    if form is None:
        return DYN
    if form.kind == "list":
        return Type("list", (type_of(form.inner),))
    if form.kind == "map":
        return Type("map", (STRING, type_of(form.inner)))
    if form.kind == "optional":
        return Type("optional_type", (type_of(form.inner),))
    return Type(form.kind, (), form.fields)


def form_of(found: Type) -> Declared:
    """Return the form of values of a type; dyn for one that is none of JSON's."""
    if found.name == "list":
        return Declared("list", UNKNOWN.largest, inner=form_of(found.params[0]))
    if found.name == "map":
        return Declared("map", UNKNOWN.largest, inner=form_of(found.params[1]))
    if found.name in _SORTED:
        return Declared(found.name, UNKNOWN.largest if found.name in ("string", "bytes") else 1)
    return UNKNOWN


class _Checker:
    def __init__(self, scope: dict[str, list[Type]], *, bindings: bool, patches: bool, devices: bool) -> None:
        self._scope = scope
        self._bindings = bindings
        self._missing = {name for name, there in (("jsonpatch.escapeKey", patches), ("includes", devices)) if not there}
        self._patches = patches

    def of(self, node: Node) -> Type:
        match node:
            case Literal(value):
                return _of_literal(value)
            case Ident(name):
                known = self._scope.get(name)
                if known:
                    return known[-1]
                if name in TYPE_NAMES:
                    return TYPE
                raise _undeclared(name)
            case Select(operand, name, test):
                found = self._field(self.of(operand), name)
                return BOOL if test else found
            case MakeList(items):
                return Type("list", (self._joined([self._entry(item) for item in items]),))
            case MakeMap(entries):
                keys = self._joined([self.of(key) for key, _ in entries])
                return Type("map", (keys, self._joined([self._entry(value) for _, value in entries])))
            case MakeMessage(name, fields):
                return self._message(name, fields)
            case Bind(name, value, body):
                if not self._bindings:
                    raise _undeclared("cel")
                return self._within({name: self.of(value)}, body)
            case Fold():
                return self._fold(node)
            case Call():
                return self._call(node)

    def _message(self, name: str, fields: tuple[tuple[str, Node], ...]) -> Type:
        if not self._patches or not _is_message(name):
            raise _undeclared(name)
        for field, value in fields:
            found = self._entry(value)
            if name == PATCH and field not in _PATCH_FIELDS:
                raise CelSyntaxError(f"undefined field '{field}'")
            if name == PATCH and not _fits(_PATCH_FIELDS[field], found, {}):
                wanted = _PATCH_FIELDS[field]
                raise CelSyntaxError(f"expected type of field '{field}' is '{wanted}' but provided type is '{found}'")
        return Type(name)

    def _entry(self, node: Node) -> Type:
        if isinstance(node, Call) and node.function == ENTRY:
            found = self.of(node.args[0])
            if found.name == "dyn":
                return DYN
            if found.name != "optional_type":
                raise CelSyntaxError(f"expected type 'optional_type(dyn)' but found '{found}'")
            return found.params[0]
        return self.of(node)

    @staticmethod
    def _joined(found: list[Type]) -> Type:
        """Return the one type of all entries of a literal (HomogeneousAggregateLiterals)."""
        if not found:
            return DYN
        first = found[0]
        for other in found[1:]:
            bound: dict[str, Type] = {}
            if not _fits(first, other, bound) and not _fits(other, first, bound):
                raise CelSyntaxError(f"expected type '{first}' but found '{other}'")
            if first == NULL:
                first = other
        return DYN if any(item.name == "dyn" for item in found) else first

    def _within(self, variables: Mapping[str, Type], body: Node) -> Type:
        for name, given in variables.items():
            self._scope.setdefault(name, []).append(given)
        try:
            return self.of(body)
        finally:
            for name in variables:
                self._scope[name].pop()

    def _field(self, given: Type, name: str) -> Type:
        if given.name == "optional_type":
            found = self._field(given.params[0], name)
            return found if found.name == "optional_type" else Type("optional_type", (found,))
        if given.name == "dyn":
            return DYN
        if given.name == "map":
            return given.params[1]
        if given.name == PATCH:
            return _PATCH_FIELDS.get(name, DYN)
        if _is_message(given.name):
            return DYN
        if given.name != "object" and not given.fields:
            raise CelSyntaxError(f"type '{given}' does not support field selection")
        whole = unescaped(name)
        # A field named by a reserved word is found by that word too (DeclTypeProvider, recognizeKeywordAsFieldName).
        if whole not in given.fields or (escaped(whole) != name and name not in RESERVED):
            raise CelSyntaxError(f"undefined field '{name}'")
        return type_of(given.fields[whole])

    # -- macros

    def _fold(self, node: Fold) -> Type:
        over = self.of(node.over)
        if node.macro in ("optMap", "optFlatMap"):
            if over.name not in ("optional_type", "dyn"):
                raise _no_overload("hasValue", (over,), member=True)
            inner = self._within({node.variables[0]: over.params[0] if over.params else DYN}, node.body)
            if node.macro == "optMap":
                return Type("optional_type", (inner,))
            if inner.name not in ("optional_type", "dyn"):
                raise _no_overload("_?_:_", (BOOL, inner, Type("optional_type", (DYN,))))
            return inner
        if over.name not in ("list", "map", "dyn"):
            message = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
            raise CelSyntaxError(message)
        first = over.params[0] if over.params else DYN
        variables = {node.variables[0]: first}
        if len(node.variables) > 1:
            second = over.params[-1] if over.params else DYN
            variables = {node.variables[0]: INT if over.name == "list" else first, node.variables[1]: second}
        if node.condition is not None:
            self._condition("_?_:_", self._within(variables, node.condition))
        body = self._within(variables, node.body)
        match node.macro:
            case "all":
                self._condition("_&&_", body)
            case "exists":
                self._condition("_||_", body)
            case "filter":
                self._condition("_?_:_", body)
                return Type("list", (first,))
            case "map" | "transformList":
                return Type("list", (body,))
            case "transformMap":
                return Type("map", (INT if over.name == "list" else first, body))
            case "transformMapEntry":
                if body.name not in ("map", "dyn"):
                    raise _no_overload("cel.@mapInsert", (Type("map", (DYN, DYN)), body))
                return body
            case "sortBy":
                if body.name not in _SORTED or over.name == "map":
                    raise _no_overload("@sortByAssociatedKeys", (over, Type("list", (body,))), member=True)
                return Type("list", (first,))
            case _:
                self._condition("_?_:_", body)
        return BOOL

    @staticmethod
    def _condition(operator: str, found: Type) -> None:
        if found.name not in ("bool", "dyn"):
            raise _no_overload(operator, (found, INT, INT) if operator == "_?_:_" else (BOOL, found))

    # -- calls

    def _call(self, node: Call) -> Type:
        if node.function == OPTIONAL_FIELD:
            operand, name = node.args
            found = self._field(self.of(operand), name.value if isinstance(name, Literal) else "")
            return found if found.name == "optional_type" else Type("optional_type", (found,))
        if node.function in ("_&&_", "_||_"):
            for arg in node.args:
                if (given := self.of(arg)).name not in ("bool", "dyn"):
                    raise _no_overload(node.function, (given, BOOL) if arg is node.args[0] else (BOOL, given))
            return BOOL
        known = overloads(node.function)
        if not known or node.function in self._missing:
            raise _undeclared(node.function)
        member = node.target is not None
        args = tuple(self.of(arg) for arg in ((node.target,) if node.target is not None else ()) + node.args)
        applied = [_applied(item, args, member=member) for item in known]
        results = [item for item in applied if item is not None]
        if not results:
            raise _no_overload(node.function, args, member=member)
        return results[0] if all(item == results[0] for item in results) else DYN


def _is_message(name: str) -> bool:
    return name in (OBJECT, PATCH) or name.startswith(f"{OBJECT}.")


def _of_literal(value: object) -> Type:
    kinds = {bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL}
    return kinds[type(value)]


def _undeclared(name: str) -> CelSyntaxError:
    return CelSyntaxError(f"undeclared reference to '{name}' (in container '')")


def _no_overload(function: str, args: tuple[Type, ...], *, member: bool = False) -> CelSyntaxError:
    shown = ", ".join(map(str, args[1:] if member else args))
    applied = f"{args[0]}.({shown})" if member else f"({shown})"
    return CelSyntaxError(f"found no matching overload for '{function}' applied to '{applied}'")


def _applied(overload: Overload, args: tuple[Type, ...], *, member: bool) -> Type | None:
    """Return the type a call gives, or None if the overload does not take these types."""
    if overload.member is not member or len(overload.args) != len(args):
        return None
    bound: dict[str, Type] = {}
    for wanted, given in zip(overload.args, args, strict=True):
        if not _fits(wanted, given, bound):
            return None
    return _filled(overload.result, bound)


def _fits(wanted: Type, given: Type, bound: dict[str, Type]) -> bool:
    """Return whether a value of a type can stand where another is wanted; what letters stand for is noted."""
    if len(wanted.name) == 1:
        known = bound.get(wanted.name)
        if known is None or (known.name == "null" and given.name in _NULLABLE):
            bound[wanted.name] = given
            return True
        if given.name == "dyn":
            bound[wanted.name] = given
        return _fits(known, given, bound)
    if wanted.name == "dyn" or given.name == "dyn":
        return True
    if given.name == "null" or wanted.name == "null":
        return (wanted if given.name == "null" else given).name in _NULLABLE
    if wanted.name != given.name or len(wanted.params) != len(given.params):
        return False
    return all(_fits(one, other, bound) for one, other in zip(wanted.params, given.params, strict=True))


def _filled(given: Type, bound: Mapping[str, Type]) -> Type:
    if len(given.name) == 1:
        return bound.get(given.name, DYN)
    if not given.params:
        return given
    return Type(given.name, tuple(_filled(param, bound) for param in given.params))
