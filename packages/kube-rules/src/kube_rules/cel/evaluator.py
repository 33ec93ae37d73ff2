"""From a tree to a program: closures that compute values and count their cost.

Costs are those of cel-go's interpreter (runtimecost.go): 1 for a variable or a field, the functions' own costs, a few
units for each iteration of a macro. The cost of a straight line of the expression is known at compile time and spent at
once at its start; costs that depend on sizes are spent where they occur.

Errors: `a || b` and `a && b` are true or false as soon as one side decides, even if the other fails; so are `exists`
and `all`. An exhausted budget is not an error of the expression: no operator absorbs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kube_rules.cel.collection_functions import ordered, sort_cost
from kube_rules.cel.functions import NO_OVERLOAD, Function
from kube_rules.cel.library import LIBRARY
from kube_rules.cel.operators import BINARY, UNARY, Env, Run, key_of, maybe_field, truth
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
from kube_rules.cel.values import NONE, CelError, FullMap, Message, Meter, Optional, TypeName, type_name

LIST_COST = 10
MAP_COST = 30
MESSAGE_COST = 40
TURN = {"all": 3, "exists": 4, "exists_one": 2, "existsOne": 2, "map": 12, "filter": 13, "transformList": 12,
        "transformMap": 14, "transformMapEntry": 14, "sortBy": 12}  # fmt: skip
"""Cost of one iteration of a macro without its body: the condition of the loop and the step of the accumulator."""
MADE = {"map": LIST_COST, "filter": LIST_COST, "transformList": LIST_COST, "transformMap": MAP_COST,
        "transformMapEntry": MAP_COST, "sortBy": LIST_COST}  # fmt: skip
"""Initial cost of a macro."""
TYPE_NAMES = frozenset(["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "dyn"])
"""Names of types."""


class Program:
    """A compiled expression; evaluation changes only the meter."""

    __slots__ = ("_cost", "_run", "_slots", "names")

    def __init__(self, names: tuple[str, ...], run: Run, cost: int, slots: int) -> None:
        self.names = names
        self._run = run
        self._cost = cost
        self._slots = slots

    def evaluate(self, values: Mapping[str, Any], meter: Meter) -> Any:
        """Return the value of the expression.

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
            # A value outside CEL's ranges makes a function fail, such as an integer of a thousand digits.
            raise CelError(f"{type(error).__name__}: {error}") from None


class _NoValue:
    """Marks a name without a value."""


_UNBOUND = _NoValue()


def compiled(node: Node, names: Iterable[str], functions: Mapping[str, Function] | None = None) -> Program:
    """Return the program of a tree with the variables `names`; `functions` extend the standard functions.

    Raises CelSyntaxError for an undeclared name or function.
    """
    library = {**LIBRARY, **functions} if functions else LIBRARY
    compiler = _Compiler(tuple(names), library)
    run, cost = compiler.line(node)
    return Program(compiler.names, run, cost, compiler.slots)


class _Compiler:
    """Turns nodes into closures; `line` returns a closure and the cost that the caller spends before it runs it."""

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
            case MakeMessage(kind, fields):
                return self._message(kind, fields)
            case Bind(name, value, body):
                bound, cost = self.line(value)
                slot = self._push(name)
                inner, more = self.line(body)
                self._scope[name].pop()

                def bind(env: Env, meter: Meter) -> Any:
                    env[slot] = bound(env, meter)
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
            if name in TYPE_NAMES:
                kind = TypeName(name)
                return (lambda env, meter: kind), 1
            raise CelSyntaxError(f"undeclared reference to '{name}' (in container '')")
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
        unescaped_name = unescaped(name)
        if test:

            def has(env: Env, meter: Meter) -> bool:
                value = inner(env, meter)
                if isinstance(value, Optional):
                    value = value.value if value.present else {}
                if not isinstance(value, dict):
                    raise CelError(NO_OVERLOAD)
                return name in value or unescaped_name in value or isinstance(value, FullMap)

            return has, cost

        def select(env: Env, meter: Meter) -> Any:
            value = inner(env, meter)
            try:
                return value[name]
            except KeyError:
                if unescaped_name in value:
                    return value[unescaped_name]
                raise CelError(f"no such key: {name}") from None
            except (TypeError, IndexError):
                if isinstance(value, Optional):
                    return maybe_field(value, name, unescaped_name)
                raise CelError(f"type '{type_name(value)}' does not support field selection") from None

        return select, cost + 1

    def _list(self, items: tuple[Node, ...]) -> tuple[Run, int]:
        lines = [self.line(item) for item in items]
        runs = [run for run, _ in lines]
        if any(isinstance(item, Call) and item.function == ENTRY for item in items):
            return _list_with_optionals(items, runs), LIST_COST + sum(cost for _, cost in lines)
        return (lambda env, meter: [run(env, meter) for run in runs]), LIST_COST + sum(cost for _, cost in lines)

    def _map(self, entries: tuple[tuple[Node, Node], ...]) -> tuple[Run, int]:
        lines = [(self.line(key), self.line(value)) for key, value in entries]
        runs = [(key, value) for (key, _), (value, _) in lines]

        def make(env: Env, meter: Meter) -> dict[Any, Any]:
            result: dict[Any, Any] = {}
            for key, value in runs:
                name = key_of(key(env, meter))
                if name in result:
                    raise CelError(f"repeated key: {name}")
                item = value(env, meter)
                if item is not _LEFT_OUT:
                    result[name] = item
            return result

        return make, MAP_COST + sum(key_cost + value_cost for (_, key_cost), (_, value_cost) in lines)

    def _message(self, kind: str, fields: tuple[tuple[str, Node], ...]) -> tuple[Run, int]:
        lines = [(name, *self.line(value)) for name, value in fields]

        def make(env: Env, meter: Meter) -> Message:
            values = {name: run(env, meter) for name, run, _ in lines}
            return Message(kind, {name: value for name, value in values.items() if value is not _LEFT_OUT})

        return make, MESSAGE_COST + sum(cost for _, _, cost in lines)

    # -- calls

    def _call(self, node: Call) -> tuple[Run, int]:
        if node.function in ("_&&_", "_||_"):
            return self._logic(node)
        if node.function == OPTIONAL_FIELD:
            return self._optional_field(node)
        if node.function == ENTRY:
            inner, spent = self.line(node.args[0])
            return _entry(inner), spent
        lines = [self.line(arg) for arg in ((node.target,) if node.target is not None else ()) + node.args]
        runs = [run for run, _ in lines]
        cost = sum(cost for _, cost in lines)
        if node.function == "_?_:_":
            return _choice(lines), lines[0][1]
        if node.function in BINARY:
            return BINARY[node.function](*runs), cost
        if node.function in UNARY:
            return UNARY[node.function](runs[0]), cost + 1
        function = self._functions.get(node.function)
        if function is None:
            raise CelSyntaxError(f"undeclared reference to '{node.function}' (in container '')")
        work = function.run
        return (lambda env, meter: work(meter, [run(env, meter) for run in runs])), cost

    def _optional_field(self, node: Call) -> tuple[Run, int]:
        inner, cost = self.line(node.args[0])
        name = node.args[1].value if isinstance(node.args[1], Literal) else ""
        unescaped_name = unescaped(name)
        return (lambda env, meter: maybe_field(inner(env, meter), name, unescaped_name)), cost + 1

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
        if node.macro in ("optMap", "optFlatMap"):
            return self._optional_map(node, over, cost)
        slots = [self._push(name) for name in node.variables]
        condition = self.line(node.condition) if node.condition is not None else None
        body, body_cost = self.line(node.body)
        for name in node.variables:
            self._scope[name].pop()
        turn = TURN[node.macro] + (condition[1] if condition is not None else body_cost)
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
        if node.macro in ("transformMap", "transformMapEntry"):
            entries = node.macro == "transformMapEntry"
            return _transform_map(over, (slot, second), condition, body, body_cost, turn, entries=entries), cost
        if node.macro == "sortBy":
            return _sort_by(over, set_item, body, turn), cost
        return _transform(items, set_item, condition, body, body_cost, turn), cost

    def _optional_map(self, node: Fold, over: Run, cost: int) -> tuple[Run, int]:
        slot = self._push(node.variables[0])
        body, body_cost = self.line(node.body)
        self._scope[node.variables[0]].pop()
        flat = node.macro == "optFlatMap"

        def mapped(env: Env, meter: Meter) -> Optional:
            operand = over(env, meter)
            if not isinstance(operand, Optional):
                raise CelError(NO_OVERLOAD)
            if not operand.present:
                return NONE
            meter.spend(body_cost + LIST_COST)
            env[slot] = operand.value
            result = body(env, meter)
            if not flat:
                return Optional(result)
            if not isinstance(result, Optional):
                raise CelError(NO_OVERLOAD)
            return result

        return mapped, cost + 2


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
            count += truth(body(env, meter))
        return count == 1

    return exactly_one


def _filter(items: Items, set_item: SetItem, body: Run, turn: int) -> Run:
    def chosen(env: Env, meter: Meter) -> list[Any]:
        result: list[Any] = []
        for item in items(env, meter):
            meter.spend(turn)
            set_item(env, item)
            if truth(body(env, meter)):
                result.append(item)
        return result

    return chosen


def _transform(
    items: Items, set_item: SetItem, condition: tuple[Run, int] | None, body: Run, body_cost: int, turn: int
) -> Run:
    test = condition[0] if condition is not None else None

    def transformed(env: Env, meter: Meter) -> list[Any]:
        results: list[Any] = []
        for item in items(env, meter):
            meter.spend(turn)
            set_item(env, item)
            if test is not None:
                if not truth(test(env, meter)):
                    continue
                meter.spend(body_cost)
            results.append(body(env, meter))
        return results

    return transformed


def _sort_by(over: Run, set_item: SetItem, body: Run, turn: int) -> Run:
    def in_order(env: Env, meter: Meter) -> list[Any]:
        items = over(env, meter)
        if not isinstance(items, list):
            raise CelError(NO_OVERLOAD)
        keys: list[Any] = []
        for item in items:
            meter.spend(turn)
            set_item(env, item)
            keys.append(body(env, meter))
        meter.spend(sort_cost(len(keys)))
        return [items[at] for at in ordered(keys)]

    return in_order


def _transform_map(
    over: Run,
    slots: tuple[int, int],
    condition: tuple[Run, int] | None,
    body: Run,
    body_cost: int,
    turn: int,
    *,
    entries: bool,
) -> Run:
    test = condition[0] if condition is not None else None
    slot, second = slots

    def transformed(env: Env, meter: Meter) -> dict[Any, Any]:
        value = over(env, meter)
        if not isinstance(value, list | dict):
            raise CelError(NO_OVERLOAD)
        result: dict[Any, Any] = {}
        for key, item in list(value.items()) if isinstance(value, dict) else enumerate(value):
            meter.spend(turn)
            env[slot], env[second] = key, item
            if test is not None:
                if not truth(test(env, meter)):
                    continue
                meter.spend(body_cost)
            output = body(env, meter)
            for name, inner in _pairs(output) if entries else ((key, output),):
                if entries and name in result:
                    raise CelError(f"insert failed: key '{name}' already exists")
                result[name] = inner
        return result

    return transformed


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(value, dict):
        raise CelError(NO_OVERLOAD)
    return value.items()


# -- optionals --------------------------------------------------------------------------------------------------------

_LEFT_OUT = object()


def _entry(inner: Run) -> Run:
    def entry(env: Env, meter: Meter) -> Any:
        value = inner(env, meter)
        if not isinstance(value, Optional):
            raise CelError(f"cannot initialize optional entry from non-optional value {type_name(value)}")
        return value.value if value.present else _LEFT_OUT

    return entry


def _list_with_optionals(items: tuple[Node, ...], runs: list[Run]) -> Run:
    def make(env: Env, meter: Meter) -> list[Any]:
        return [item for run in runs if (item := run(env, meter)) is not _LEFT_OUT]

    return make


def _choice(lines: list[tuple[Run, int]]) -> Run:
    (test, _), (yes, yes_cost), (no, no_cost) = lines

    def choice(env: Env, meter: Meter) -> Any:
        if truth(test(env, meter)):
            meter.spend(yes_cost)
            return yes(env, meter)
        meter.spend(no_cost)
        return no(env, meter)

    return choice


_ESCAPED = (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__"))
_KEYWORDS = RESERVED | {"true", "false", "null", "in"}


def escaped(name: str) -> str:
    """Return the field name of a property; the inverse of `unescaped`."""
    if name in _KEYWORDS:
        return f"__{name}__"
    for mark, sign in (("__underscores__", "__"), *_ESCAPED[:3]):
        name = name.replace(sign, mark)
    return name


def unescaped(name: str) -> str:
    """Return the property name of a field: `__namespace__` is `namespace`, `a__dash__b` is `a-b`."""
    if "__" not in name:
        return name
    if name[:2] == "__" == name[-2:] and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    result, at = "", 0
    while at < len(name):
        escape = next((pair for pair in _ESCAPED if name.startswith(pair[0], at)), None)
        result += escape[1] if escape is not None else name[at]
        at += len(escape[0]) if escape is not None else 1
    return result
