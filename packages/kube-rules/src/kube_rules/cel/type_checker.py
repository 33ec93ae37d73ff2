"""Check an expression against the types of its variables, before there is a value (cel-go's checker).

The check rejects a field that the schema does not declare, a function that does not exist, and a call without an
overload for its argument types. `dyn` matches every type and is checked at evaluation. The first error is reported, in
cel-go's words. The check takes time linear in the length of the expression.
"""

from __future__ import annotations

from collections.abc import Mapping

from kube_rules.cel.declarations import UNKNOWN, ValueForm
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
"""Types of the values of mutating policies; `Object.spec` and the like are types too."""
_PATCH_FIELDS = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
_NULLABLE = OPAQUE | {"object", "timestamp", "duration", "null", "dyn"}
_SORTED = frozenset({"int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes", "dyn"})


def checked_type(
    node: Node,
    variables: Mapping[str, ValueForm],
    *,
    bindings: bool = False,
    patches: bool = False,
    devices: bool = False,
) -> Type:
    """Return the type of an expression over variables of these forms.

    `bindings` enables `cel.bind` (ext.Bindings), `patches` enables `Object{}`, `JSONPatch{}` and `jsonpatch.escapeKey`,
    `devices` enables `includes` for attributes of devices. Raises CelSyntaxError: an undeclared name, function or
    field, or no overload for the types of a call.
    """
    scope = {name: [type_of(form)] for name, form in variables.items()}
    return _Checker(scope, bindings=bindings, patches=patches, devices=devices).of(node)


def type_of(form: ValueForm | None) -> Type:
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


def form_of(type_: Type) -> ValueForm:
    """Return the form of values of a type; dyn for types without a JSON form."""
    if type_.name == "list":
        return ValueForm("list", UNKNOWN.largest, inner=form_of(type_.params[0]))
    if type_.name == "map":
        return ValueForm("map", UNKNOWN.largest, inner=form_of(type_.params[1]))
    if type_.name in _SORTED:
        return ValueForm(type_.name, UNKNOWN.largest if type_.name in ("string", "bytes") else 1)
    return UNKNOWN


class _Checker:
    def __init__(self, scope: dict[str, list[Type]], *, bindings: bool, patches: bool, devices: bool) -> None:
        self._scope = scope
        self._bindings = bindings
        self._missing = {name for name, on in (("jsonpatch.escapeKey", patches), ("includes", devices)) if not on}
        self._patches = patches

    def of(self, node: Node) -> Type:
        match node:
            case Literal(value):
                return _of_literal(value)
            case Ident(name):
                bindings = self._scope.get(name)
                if bindings:
                    return bindings[-1]
                if name in TYPE_NAMES:
                    return TYPE
                raise _undeclared(name)
            case Select(operand, name, test):
                field_type = self._field(self.of(operand), name)
                return BOOL if test else field_type
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
            actual = self._entry(value)
            if name == PATCH and field not in _PATCH_FIELDS:
                raise CelSyntaxError(f"undefined field '{field}'")
            if name == PATCH and not _fits(_PATCH_FIELDS[field], actual, {}):
                wanted = _PATCH_FIELDS[field]
                raise CelSyntaxError(f"expected type of field '{field}' is '{wanted}' but provided type is '{actual}'")
        return Type(name)

    def _entry(self, node: Node) -> Type:
        if isinstance(node, Call) and node.function == ENTRY:
            entry_type = self.of(node.args[0])
            if entry_type.name == "dyn":
                return DYN
            if entry_type.name != "optional_type":
                raise CelSyntaxError(f"expected type 'optional_type(dyn)' but found '{entry_type}'")
            return entry_type.params[0]
        return self.of(node)

    @staticmethod
    def _joined(types: list[Type]) -> Type:
        """Return the common type of all entries of a literal (HomogeneousAggregateLiterals)."""
        if not types:
            return DYN
        first = types[0]
        for type_ in types[1:]:
            bound: dict[str, Type] = {}
            if not _fits(first, type_, bound) and not _fits(type_, first, bound):
                raise CelSyntaxError(f"expected type '{first}' but found '{type_}'")
            if first == NULL:
                first = type_
        return DYN if any(item.name == "dyn" for item in types) else first

    def _within(self, variables: Mapping[str, Type], body: Node) -> Type:
        for name, type_ in variables.items():
            self._scope.setdefault(name, []).append(type_)
        try:
            return self.of(body)
        finally:
            for name in variables:
                self._scope[name].pop()

    def _field(self, operand: Type, name: str) -> Type:
        if operand.name == "optional_type":
            field_type = self._field(operand.params[0], name)
            return field_type if field_type.name == "optional_type" else Type("optional_type", (field_type,))
        if operand.name == "dyn":
            return DYN
        if operand.name == "map":
            return operand.params[1]
        if operand.name == PATCH:
            return _PATCH_FIELDS.get(name, DYN)
        if _is_message(operand.name):
            return DYN
        if operand.name != "object" and not operand.fields:
            raise CelSyntaxError(f"type '{operand}' does not support field selection")
        whole = unescaped(name)
        # A field named by a reserved word is also found by that word (DeclTypeProvider, recognizeKeywordAsFieldName).
        if whole not in operand.fields or (escaped(whole) != name and name not in RESERVED):
            raise CelSyntaxError(f"undefined field '{name}'")
        return type_of(operand.fields[whole])

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
    def _condition(operator: str, type_: Type) -> None:
        if type_.name not in ("bool", "dyn"):
            raise _no_overload(operator, (type_, INT, INT) if operator == "_?_:_" else (BOOL, type_))

    # -- calls

    def _call(self, node: Call) -> Type:
        if node.function == OPTIONAL_FIELD:
            operand, name = node.args
            field_type = self._field(self.of(operand), name.value if isinstance(name, Literal) else "")
            return field_type if field_type.name == "optional_type" else Type("optional_type", (field_type,))
        if node.function in ("_&&_", "_||_"):
            for arg in node.args:
                if (arg_type := self.of(arg)).name not in ("bool", "dyn"):
                    raise _no_overload(node.function, (arg_type, BOOL) if arg is node.args[0] else (BOOL, arg_type))
            return BOOL
        candidates = overloads(node.function)
        if not candidates or node.function in self._missing:
            raise _undeclared(node.function)
        member = node.target is not None
        args = tuple(self.of(arg) for arg in ((node.target,) if node.target is not None else ()) + node.args)
        applied = [_applied(item, args, member=member) for item in candidates]
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
    """Return the result type of a call, or None if the overload does not accept these types."""
    if overload.member is not member or len(overload.args) != len(args):
        return None
    bound: dict[str, Type] = {}
    for wanted, arg_type in zip(overload.args, args, strict=True):
        if not _fits(wanted, arg_type, bound):
            return None
    return _filled(overload.result, bound)


def _fits(wanted: Type, actual: Type, bound: dict[str, Type]) -> bool:
    """Return whether a value of one type is valid where another is wanted; `bound` records the types of letters."""
    if len(wanted.name) == 1:
        bound_type = bound.get(wanted.name)
        if bound_type is None or (bound_type.name == "null" and actual.name in _NULLABLE):
            bound[wanted.name] = actual
            return True
        if actual.name == "dyn":
            bound[wanted.name] = actual
        return _fits(bound_type, actual, bound)
    if wanted.name == "dyn" or actual.name == "dyn":
        return True
    if actual.name == "null" or wanted.name == "null":
        return (wanted if actual.name == "null" else actual).name in _NULLABLE
    if wanted.name != actual.name or len(wanted.params) != len(actual.params):
        return False
    return all(_fits(left, right, bound) for left, right in zip(wanted.params, actual.params, strict=True))


def _filled(type_: Type, bound: Mapping[str, Type]) -> Type:
    if len(type_.name) == 1:
        return bound.get(type_.name, DYN)
    if not type_.params:
        return type_
    return Type(type_.name, tuple(_filled(param, bound) for param in type_.params))
