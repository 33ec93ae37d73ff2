"""From a tree to a program: closures that compute, and count what they do.

Costs are those of cel-go's interpreter (runtimecost.go): 1 for a variable or a field, the functions' own, a few units
for each turn of a macro. What a straight line of the expression costs is known when it is compiled and taken off the
meter at once, where the line begins; what depends on sizes is taken off where it happens.

Errors: `a || b` and `a && b` are true or false as soon as one side says so, even if the other fails; so are `exists`
and `all`. Running out of budget is no error of the expression: nothing inside it takes that in.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from reprieve.api.cel.functions import NO_OVERLOAD, NOT_OFFERED, STANDARD, Function
from reprieve.api.cel.syntax import Bind, Call, CelSyntaxError, Fold, Ident, Literal, MakeList, MakeMap, Node, Select
from reprieve.api.cel.values import CelError, Meter, TypeName, Uint, equal, size_of, type_name

LIST_COST = 10
MAP_COST = 30
TURN = {"all": 3, "exists": 4, "exists_one": 2, "existsOne": 2, "map": 12, "filter": 13, "transformList": 12,
        "transformMap": 14}  # fmt: skip
"""Cost of one turn of a macro beside its body: the condition of the loop and the step of the accumulator."""
MADE = {"map": LIST_COST, "filter": LIST_COST, "transformList": LIST_COST, "transformMap": MAP_COST}
"""Cost of what a macro begins with."""
_TYPES = frozenset(["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "dyn"])
_INT = 2**63

Env = list[Any]
Run = Callable[[Env, Meter], Any]


class Program:
    """A compiled expression; running it changes nothing but the meter."""

    __slots__ = ("_cost", "_run", "_slots", "names")

    def __init__(self, names: tuple[str, ...], run: Run, cost: int, slots: int) -> None:
        self.names = names
        self._run = run
        self._cost = cost
        self._slots = slots

    def evaluate(self, values: Mapping[str, Any], meter: Meter) -> Any:
        """The value of the expression.

        Raises CelError (also for a name without a value), CostExceededError.
        """
        env: Env = [values.get(name, _UNBOUND) for name in self.names]
        env.extend([_UNBOUND] * (self._slots - len(env)))
        meter.spend(self._cost)
        try:
            return self._run(env, meter)
        except CelError:
            raise
        except RecursionError:
            raise CelError("evaluation nested too deeply") from None
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            # What a value outside of CEL's ranges does to a function, such as an integer of a thousand digits.
            raise CelError(f"{type(error).__name__}: {error}") from None


class _Unbound:
    """The value of a name that has none."""


_UNBOUND = _Unbound()


def compiled(node: Node, names: Iterable[str], functions: Mapping[str, Function] | None = None) -> Program:
    """The program of a tree in which `names` are bound; `functions` come beside the standard ones.

    Raises CelSyntaxError for a name or a function that is nowhere declared.
    """
    known = {**STANDARD, **(functions or {})}
    compiler = _Compiler(tuple(names), known)
    run, cost = compiler.line(node)
    return Program(compiler.names, run, cost, compiler.slots)


class _Compiler:
    """Turns nodes into closures; `line` gives a closure and what the caller has to spend before it runs it."""

    def __init__(self, names: tuple[str, ...], functions: Mapping[str, Function]) -> None:
        self.names = names
        self.slots = len(names)
        self._functions = functions
        self._scope: dict[str, list[int]] = {name: [slot] for slot, name in enumerate(names)}

    def line(self, node: Node) -> tuple[Run, int]:
        match node:
            case Literal(value):
                return (lambda env, meter: value), 0
            case Ident(name):
                return self._ident(name)
            case Select(operand, name, test):
                return self._select(operand, name, test)
            case Call():
                return self._call(node)
            case MakeList(items):
                return self._list(items)
            case MakeMap(entries):
                return self._map(entries)
            case Bind(name, value, body):
                given, cost = self.line(value)
                slot = self._push(name)
                inner, more = self.line(body)
                self._scope[name].pop()

                def bind(env: Env, meter: Meter) -> Any:
                    env[slot] = given(env, meter)
                    return inner(env, meter)

                return bind, cost + more + LIST_COST
            case Fold():
                return self._fold(node)
        raise CelSyntaxError("no expression")

    def _push(self, name: str) -> int:
        slot = self.slots
        self.slots += 1
        self._scope.setdefault(name, []).append(slot)
        return slot

    def _ident(self, name: str) -> tuple[Run, int]:
        slots = self._scope.get(name)
        if not slots:
            if name in _TYPES:
                kind = TypeName(name)
                return (lambda env, meter: kind), 1
            raise CelSyntaxError(f"undeclared reference to '{name}'")
        slot = slots[-1]
        if slot >= len(self.names):
            return (lambda env, meter: env[slot]), 1

        def outer(env: Env, meter: Meter) -> Any:
            value = env[slot]
            if value is _UNBOUND:
                raise CelError(f"no such attribute(s): {name}")
            return value

        return outer, 1

    def _select(self, operand: Node, name: str, test: bool) -> tuple[Run, int]:
        inner, cost = self.line(operand)
        other = unescaped(name)
        if test:

            def has(env: Env, meter: Meter) -> bool:
                value = inner(env, meter)
                if not isinstance(value, dict):
                    raise CelError(NO_OVERLOAD)
                return name in value or other in value

            return has, cost + 1

        def select(env: Env, meter: Meter) -> Any:
            value = inner(env, meter)
            try:
                return value[name]
            except KeyError:
                if other in value:
                    return value[other]
                raise CelError(f"no such key: {name}") from None
            except (TypeError, IndexError):
                raise CelError(f"type '{type_name(value)}' does not support field selection") from None

        return select, cost + 1

    def _list(self, items: tuple[Node, ...]) -> tuple[Run, int]:
        lines = [self.line(item) for item in items]
        runs = [run for run, _ in lines]
        return (lambda env, meter: [run(env, meter) for run in runs]), LIST_COST + sum(cost for _, cost in lines)

    def _map(self, entries: tuple[tuple[Node, Node], ...]) -> tuple[Run, int]:
        lines = [(self.line(key), self.line(value)) for key, value in entries]
        runs = [(key, value) for (key, _), (value, _) in lines]

        def make(env: Env, meter: Meter) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for key, value in runs:
                name = _key(key(env, meter))
                if name in made:
                    raise CelError(f"repeated key: {name}")
                made[name] = value(env, meter)
            return made

        return make, MAP_COST + sum(one + other for (_, one), (_, other) in lines)

    # -- calls

    def _call(self, node: Call) -> tuple[Run, int]:
        if node.function in ("_&&_", "_||_"):
            return self._logic(node)
        lines = [self.line(arg) for arg in ((node.target,) if node.target is not None else ()) + node.args]
        runs = [run for run, _ in lines]
        cost = sum(cost for _, cost in lines)
        if node.function == "_?_:_":
            return _choice(lines), lines[0][1]
        if node.function in _BINARY:
            return _BINARY[node.function](*runs), cost
        if node.function in _UNARY:
            return _UNARY[node.function](runs[0]), cost + 1
        function = self._functions.get(node.function)
        if function is None:
            if node.function not in NOT_OFFERED:
                raise CelSyntaxError(f"undeclared reference to '{node.function}'")
            return _missing(node.function), cost
        work = function.run
        return (lambda env, meter: work(meter, [run(env, meter) for run in runs])), cost

    def _logic(self, node: Call) -> tuple[Run, int]:
        decides = node.function == "_||_"
        (first, cost), *rest = [self.line(arg) for arg in node.args]

        def logic(env: Env, meter: Meter) -> bool:
            failed: CelError | None = None
            run, spent = first, 0
            index = 0
            while True:
                if spent:
                    meter.spend(spent)
                try:
                    value = run(env, meter)
                    if value is decides:
                        return bool(decides)
                    if value is not (not decides):
                        raise CelError(NO_OVERLOAD)
                except CelError as error:
                    failed = failed or error
                if index == len(rest):
                    break
                run, spent = rest[index]
                index += 1
            if failed is not None:
                raise failed
            return not decides

        return logic, cost

    # -- macros

    def _fold(self, node: Fold) -> tuple[Run, int]:
        over, cost = self.line(node.over)
        slots = [self._push(name) for name in node.variables]
        condition = self.line(node.condition) if node.condition is not None else None
        body, each = self.line(node.body)
        for name in node.variables:
            self._scope[name].pop()
        turn = TURN[node.macro] + (condition[1] if condition is not None else each)
        slot, second = slots[0], slots[1] if len(slots) > 1 else -1

        def items(env: Env, meter: Meter) -> Iterable[Any]:
            value = over(env, meter)
            if not isinstance(value, list | dict):
                raise CelError(NO_OVERLOAD)
            if second < 0:
                return value if isinstance(value, list) else list(value)
            return enumerate(value) if isinstance(value, list) else list(value.items())

        if second < 0:

            def set_item(env: Env, item: Any) -> None:
                env[slot] = item
        else:

            def set_item(env: Env, item: Any) -> None:
                env[slot], env[second] = item

        cost += MADE.get(node.macro, 1) + 1
        if node.macro in ("all", "exists"):
            return _quantifier(node.macro == "exists", items, set_item, body, turn), cost
        if node.macro in ("exists_one", "existsOne"):
            return _exactly_one(items, set_item, body, turn), cost
        if node.macro == "filter":
            return _filter(items, set_item, body, turn), cost
        if node.macro == "transformMap":
            return _transform_map(over, slot, second, condition, body, each, turn), cost
        return _transform(items, set_item, condition, body, each, turn), cost


Items = Callable[[Env, Meter], Iterable[Any]]
SetItem = Callable[[Env, Any], None]


def _quantifier(decides: bool, items: Items, set_item: SetItem, body: Run, turn: int) -> Run:
    def quantifier(env: Env, meter: Meter) -> bool:
        failed: CelError | None = None
        for item in items(env, meter):
            meter.spend(turn)
            set_item(env, item)
            try:
                value = body(env, meter)
                if value is decides:
                    return bool(decides)
                if value is not (not decides):
                    raise CelError(NO_OVERLOAD)
            except CelError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return not decides

    return quantifier


def _exactly_one(items: Items, set_item: SetItem, body: Run, turn: int) -> Run:
    def exactly_one(env: Env, meter: Meter) -> bool:
        count = 0
        for item in items(env, meter):
            meter.spend(turn)
            set_item(env, item)
            count += _truth(body(env, meter))
        return count == 1

    return exactly_one


def _filter(items: Items, set_item: SetItem, body: Run, turn: int) -> Run:
    def chosen(env: Env, meter: Meter) -> list[Any]:
        found: list[Any] = []
        for item in items(env, meter):
            meter.spend(turn)
            set_item(env, item)
            if _truth(body(env, meter)):
                found.append(item)
        return found

    return chosen


def _transform(
    items: Items, set_item: SetItem, condition: tuple[Run, int] | None, body: Run, each: int, turn: int
) -> Run:
    test = condition[0] if condition is not None else None

    def transformed(env: Env, meter: Meter) -> list[Any]:
        made: list[Any] = []
        for item in items(env, meter):
            meter.spend(turn)
            set_item(env, item)
            if test is not None:
                if not _truth(test(env, meter)):
                    continue
                meter.spend(each)
            made.append(body(env, meter))
        return made

    return transformed


def _transform_map(
    over: Run, slot: int, second: int, condition: tuple[Run, int] | None, body: Run, each: int, turn: int
) -> Run:
    test = condition[0] if condition is not None else None

    def transformed(env: Env, meter: Meter) -> dict[Any, Any]:
        value = over(env, meter)
        if not isinstance(value, list | dict):
            raise CelError(NO_OVERLOAD)
        made: dict[Any, Any] = {}
        for key, item in list(value.items()) if isinstance(value, dict) else enumerate(value):
            meter.spend(turn)
            env[slot], env[second] = key, item
            if test is not None:
                if not _truth(test(env, meter)):
                    continue
                meter.spend(each)
            made[key] = body(env, meter)
        return made

    return transformed


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise CelError(NO_OVERLOAD)


def _choice(lines: list[tuple[Run, int]]) -> Run:
    (test, _), (yes, yes_cost), (no, no_cost) = lines

    def choice(env: Env, meter: Meter) -> Any:
        if _truth(test(env, meter)):
            meter.spend(yes_cost)
            return yes(env, meter)
        meter.spend(no_cost)
        return no(env, meter)

    return choice


def _missing(name: str) -> Run:
    def fail(env: Env, meter: Meter) -> Any:
        raise CelError(f"function '{name}' is not offered by this server")

    return fail


# -- operators --------------------------------------------------------------------------------------------------------


def _whole(value: Any, kind: type) -> Any:
    """The result of an operation on integers, in their range."""
    if kind is Uint:
        if not 0 <= value < 2 * _INT:
            raise CelError("unsigned integer overflow")
        return Uint(value)
    if not -_INT <= value < _INT:
        raise CelError("integer overflow")
    return value


def _added(one: Any, other: Any, meter: Meter) -> Any:
    kind = type(one)
    if kind is not type(other):
        if isinstance(one, datetime | timedelta) and isinstance(other, datetime | timedelta):
            return _moved(operator.add, one, other, meter)
        raise CelError(NO_OVERLOAD)
    if kind is int or kind is Uint:
        meter.spend(1)
        return _whole(one + other, kind)
    if kind is float:
        meter.spend(1)
        return one + other
    if kind is timedelta:
        return _moved(operator.add, one, other, meter)
    if kind in (str, bytes, list):
        meter.spend(1 + (len(one) + len(other)) // 10)
        return one + other
    raise CelError(NO_OVERLOAD)


def _moved(work: Callable[[Any, Any], Any], one: Any, other: Any, meter: Meter) -> Any:
    meter.spend(1)
    try:
        return work(one, other)
    except (OverflowError, ValueError):
        raise CelError("timestamp overflow") from None
    except TypeError:
        raise CelError(NO_OVERLOAD) from None


def _subtracted(one: Any, other: Any, meter: Meter) -> Any:
    kind = type(one)
    if kind is type(other) and kind in (int, Uint, float):
        meter.spend(1)
        return one - other if kind is float else _whole(one - other, kind)
    if isinstance(one, datetime | timedelta) and isinstance(other, datetime | timedelta):
        return _moved(operator.sub, one, other, meter)
    raise CelError(NO_OVERLOAD)


def _multiplied(one: Any, other: Any, meter: Meter) -> Any:
    kind = type(one)
    if kind is not type(other) or kind not in (int, Uint, float):
        raise CelError(NO_OVERLOAD)
    meter.spend(1)
    return one * other if kind is float else _whole(one * other, kind)


def _divided(one: Any, other: Any, meter: Meter) -> Any:
    kind = type(one)
    if kind is not type(other) or kind not in (int, Uint, float):
        raise CelError(NO_OVERLOAD)
    meter.spend(1)
    if kind is float:
        if other:
            return one / other
        return float("nan") if one == 0 or one != one else one * float("inf")
    if not other:
        raise CelError("division by zero")
    quotient = abs(one) // abs(other)
    return _whole(quotient if (one < 0) == (other < 0) else -quotient, kind)


def _remainder(one: Any, other: Any, meter: Meter) -> Any:
    kind = type(one)
    if kind is not type(other) or kind not in (int, Uint):
        raise CelError(NO_OVERLOAD)
    meter.spend(1)
    if not other:
        raise CelError("modulus by zero")
    rest = abs(one) % abs(other)
    return _whole(-rest if one < 0 else rest, kind)


_PLAIN = frozenset({int, float, Uint})


def _comparing(compare: Callable[[Any, Any], bool]) -> Callable[[Run, Run], Run]:
    def make(left: Run, right: Run) -> Run:
        def compared(env: Env, meter: Meter) -> bool:
            one, other = left(env, meter), right(env, meter)
            kind, beside = type(one), type(other)
            if kind in _PLAIN and beside in _PLAIN:
                meter.spend(1)
                return compare(one, other)
            if kind is not beside or kind in (list, dict, type(None)) or isinstance(one, TypeName):
                raise CelError(NO_OVERLOAD)
            meter.spend(1 + min(size_of(one), size_of(other)) // 10)
            try:
                return compare(one, other)
            except TypeError:
                raise CelError(NO_OVERLOAD) from None

        return compared

    return make


def _equality(wanted: bool) -> Callable[[Run, Run], Run]:
    def make(left: Run, right: Run) -> Run:
        def compared(env: Env, meter: Meter) -> bool:
            one, other = left(env, meter), right(env, meter)
            if type(one) is int and type(other) is int:
                meter.spend(1)
                return (one == other) is wanted
            meter.spend(1 + min(size_of(one), size_of(other)) // 10)
            return equal(one, other, meter) is wanted

        return compared

    return make


def _applied(work: Callable[[Any, Any, Meter], Any]) -> Callable[[Run, Run], Run]:
    return lambda left, right: lambda env, meter: work(left(env, meter), right(env, meter), meter)


def _key(value: Any) -> Any:
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise CelError(f"unsupported key type: {type_name(value)}")


def _has_key(where: dict[Any, Any], key: Any) -> bool:
    if key not in where:
        return False
    return isinstance(key, str) or any(equal(key, other, _FREE) for other in where if other == key)


_FREE = Meter(2**62)


def _contained(item: Any, where: Any, meter: Meter) -> bool:
    if isinstance(where, dict):
        meter.spend(1)
        return isinstance(item, bool | int | str) and _has_key(where, item)
    if not isinstance(where, list):
        raise CelError(NO_OVERLOAD)
    meter.spend(max(len(where), 1))
    if isinstance(item, str):
        return item in where
    return any(equal(item, other, meter) for other in where)


def _indexed(where: Any, index: Any, meter: Meter) -> Any:
    meter.spend(1)
    if isinstance(where, list):
        if isinstance(index, float) and index.is_integer():
            index = int(index)
        if not isinstance(index, int) or isinstance(index, bool):
            raise CelError(NO_OVERLOAD)
        if not 0 <= index < len(where):
            raise CelError(f"index out of bounds: {index}")
        return where[index]
    if isinstance(where, dict):
        key = _key(index)
        try:
            return where[key]
        except KeyError:
            raise CelError(f"no such key: {key}") from None
    raise CelError(NO_OVERLOAD)


def _not(inner: Run) -> Run:
    return lambda env, meter: not _truth(inner(env, meter))


def _negative(inner: Run) -> Run:
    def negative(env: Env, meter: Meter) -> Any:
        value = inner(env, meter)
        kind = type(value)
        if kind is int:
            return _whole(-value, kind)
        if kind in (float, timedelta):
            return -value
        raise CelError(NO_OVERLOAD)

    return negative


_BINARY: dict[str, Callable[[Run, Run], Run]] = {
    "_+_": _applied(_added),
    "_-_": _applied(_subtracted),
    "_*_": _applied(_multiplied),
    "_/_": _applied(_divided),
    "_%_": _applied(_remainder),
    "_<_": _comparing(operator.lt),
    "_<=_": _comparing(operator.le),
    "_>_": _comparing(operator.gt),
    "_>=_": _comparing(operator.ge),
    "_==_": _equality(True),
    "_!=_": _equality(False),
    "@in": _applied(_contained),
    "_[_]": _applied(_indexed),
}
_UNARY: dict[str, Callable[[Run], Run]] = {"!_": _not, "-_": _negative}

_ESCAPED = (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__"))
_KEYWORDS = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)


def unescaped(name: str) -> str:
    """The property a field stands for: `__namespace__` is `namespace`, `a__dash__b` is `a-b`."""
    if "__" not in name:
        return name
    if name[:2] == "__" == name[-2:] and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    made, at = "", 0
    while at < len(name):
        found = next((pair for pair in _ESCAPED if name.startswith(pair[0], at)), None)
        made += found[1] if found is not None else name[at]
        at += len(found[0]) if found is not None else 1
    return made
