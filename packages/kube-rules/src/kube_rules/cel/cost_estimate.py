"""The maximum cost of an expression, without values: cel-go's estimate (checker/cost.go).

Each node has a maximum cost, a maximum size and a form. A macro costs its body times the maximum number of items.
Nothing is evaluated, and the estimate takes time linear in the expression. Where cel-go knows a type from its checker
that is missing here (a field that the schema lacks), the estimate assumes any value that fits into a request. Costs are
capped at 2^64 - 1, as upstream's integers are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kube_rules.cel.declarations import UNKNOWN, ValueForm
from kube_rules.cel.evaluator import LIST_COST, MADE, MAP_COST, MESSAGE_COST, TURN, unescaped
from kube_rules.cel.functions import Function, traversed
from kube_rules.cel.library import LIBRARY
from kube_rules.cel.syntax import (
    ENTRY,
    OPTIONAL_FIELD,
    Bind,
    Call,
    Fold,
    Ident,
    Literal,
    MakeList,
    MakeMap,
    MakeMessage,
    Node,
    Select,
)

MOST = 2**64 - 1
_BOOL, _INT, _STRING = ValueForm("bool"), ValueForm("int"), ValueForm("string")
_SIZED = frozenset({"list", "map", "string", "bytes", "dyn", "optional", "kubernetes.URL"})
"""Forms with a size; an optional has the size of its content."""
_OVER_ITEMS = frozenset({"isSorted", "sum", "min", "max", "indexOf", "lastIndexOf"})


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The maximum cost, maximum size and form of one node."""

    cost: float
    size: float
    form: ValueForm


def estimated_cost(node: Node, variables: Mapping[str, ValueForm]) -> int:
    """Return the maximum cost of an expression with variables of these forms."""
    estimate = _Estimator({name: [_of(form)] for name, form in variables.items()}).of(node)
    return int(min(estimate.cost, MOST))


def _of(form: ValueForm, cost: float = 1) -> _Estimate:
    return _Estimate(cost, form.largest if form.kind in _SIZED else 1, form)


class _Estimator:
    def __init__(self, scope: dict[str, list[_Estimate]]) -> None:
        self._scope = scope

    def of(self, node: Node) -> _Estimate:
        match node:
            case Literal(value):
                if isinstance(value, str | bytes):
                    return _Estimate(0, len(value), _STRING)
                kind = "bool" if isinstance(value, bool) else "double" if isinstance(value, float) else "int"
                return _Estimate(0, 1, ValueForm(kind))
            case Ident(name):
                scopes = self._scope.get(name)
                return _Estimate(1, scopes[-1].size, scopes[-1].form) if scopes else _Estimate(1, 1, ValueForm("type"))
            case Select(operand, field, test):
                inner = self.of(operand)
                if test:
                    return _Estimate(inner.cost, 1, _BOOL)  # PresenceTestHasCost(false)
                return _of(_field(inner.form, field), inner.cost + 1)
            case MakeList(items):
                result = [self.of(item) for item in items]
                return _Estimate(
                    LIST_COST + sum(part.cost for part in result),
                    len(result),
                    ValueForm("list", len(result), inner=_any(result)),
                )
            case MakeMap(entries):
                result = [self.of(value) for _, value in entries]
                cost = MAP_COST + sum(self.of(key).cost for key, _ in entries) + sum(part.cost for part in result)
                return _Estimate(cost, len(result), ValueForm("map", len(result), inner=_any(result)))
            case MakeMessage(_, values):
                return _Estimate(MESSAGE_COST + sum(self.of(value).cost for _, value in values), 1, UNKNOWN)
            case Bind(name, value, body):
                bound = self.of(value)
                inner = self._within({name: bound}, body)
                return _Estimate(bound.cost + inner.cost + LIST_COST, inner.size, inner.form)
            case Fold():
                return self._fold(node)
            case Call():
                return self._call(node)

    def _within(self, variables: Mapping[str, _Estimate], body: Node) -> _Estimate:
        for name, estimate in variables.items():
            self._scope.setdefault(name, []).append(estimate)
        result = self.of(body)
        for name in variables:
            self._scope[name].pop()
        return result

    def _optional_map(self, node: Fold, over: _Estimate) -> _Estimate:
        """Estimate upstream's macro, which evaluates the operand twice: for presence and for its value."""
        body = self._within({node.variables[0]: _of(_content(over.form))}, node.body)
        form = body.form if node.macro == "optFlatMap" else _maybe(_resized(body))
        return _Estimate(2 * over.cost + body.cost + LIST_COST + 3, body.size, form)

    def _fold(self, node: Fold) -> _Estimate:
        over = self.of(node.over)
        if node.macro in ("optMap", "optFlatMap"):
            return self._optional_map(node, over)
        item = _item(over.form, keys=False)
        first = item if over.form.kind == "list" else _item(over.form, keys=True)
        variables = {node.variables[0]: first}
        if len(node.variables) > 1:
            key = _Estimate(1, 1, _INT) if over.form.kind == "list" else _item(over.form, keys=True)
            variables = {node.variables[0]: key, node.variables[1]: item}
        body = self._within(variables, node.body)
        per_item = TURN[node.macro] + body.cost
        if node.condition is not None:
            per_item += self._within(variables, node.condition).cost
        cost = over.cost + MADE.get(node.macro, 1) + 1 + _times(over.size, per_item)
        if node.macro == "sortBy":
            kind = ValueForm("list", int(min(over.size, MOST)), inner=first.form)
            return _Estimate(cost + 2.1 * over.size * over.size + 1 + LIST_COST, over.size, kind)
        if node.macro == "transformMapEntry":
            size = _times(over.size, max(body.size, 1))
            kind = ValueForm("map", int(min(size, MOST)), inner=body.form.inner or UNKNOWN)
            return _Estimate(cost, size, kind)
        if node.macro == "filter":
            kind = ValueForm("list", int(min(over.size, MOST)), inner=first.form)
            return _Estimate(cost, over.size, kind)
        if node.macro in ("map", "transformList", "transformMap"):
            inner = _resized(body)
            kind = ValueForm("map" if node.macro == "transformMap" else "list", int(min(over.size, MOST)), inner=inner)
            return _Estimate(cost, over.size, kind)
        return _Estimate(cost, 1, _BOOL)

    def _call(self, node: Call) -> _Estimate:
        target = (node.target,) if node.target is not None else ()
        args = [self.of(arg) for arg in (*target, *node.args)]
        spent = sum(arg.cost for arg in args)
        sizes = [arg.size for arg in args]
        match node.function:
            case "_&&_" | "_||_":
                return _Estimate(spent, 1, _BOOL)
            case "_?_:_":
                cost = args[0].cost + max(args[1].cost, args[2].cost)
                return _Estimate(cost, max(sizes[1:]), _any(args[1:]))
            case "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_":
                return _Estimate(spent + traversed(min(sizes)), 1, _BOOL)
            case "@in":
                return _Estimate(spent + (1 if args[1].form.kind == "map" else sizes[1]), 1, _BOOL)
            case "_[_]":
                if args[0].form.kind == "optional":
                    return _of(_maybe(_content(args[0].form).inner or UNKNOWN), spent + 1)
                return _of(args[0].form.inner or UNKNOWN, spent + 1)
            case "_[?_]":
                return _of(_maybe(_content(args[0].form).inner or UNKNOWN), spent + 1)
            case _ if node.function == OPTIONAL_FIELD:
                name = node.args[1].value if isinstance(node.args[1], Literal) else ""
                return _of(_maybe(_content(_field(args[0].form, name))), spent + 1)
            case _ if node.function == ENTRY:
                return _Estimate(spent, args[0].size, _content(args[0].form))
            case "optional.of" | "optional.ofNonZeroValue":
                return _Estimate(spent + 1, args[0].size, _maybe(_resized(args[0])))
            case "value":
                return _of(_content(args[0].form), spent + 1)
            case "or":
                return _Estimate(spent + 1, max(sizes), _any(args))
            case "orValue":
                return _Estimate(spent + 1, max(sizes), _any([_of(_content(args[0].form)), args[1]]))
            case "lists.range":
                first = node.args[0]
                count = float(first.value) if isinstance(first, Literal) and type(first.value) is int else float(MOST)
                count = max(count, 0)
                return _Estimate(spent + count + 1 + LIST_COST, count, ValueForm("list", int(count), inner=_INT))
            case "_+_":
                return _sum(args, spent)
            case "_-_" | "_*_" | "_/_" | "_%_" | "!_" | "-_":
                return _Estimate(spent + 1, 1, args[0].form)
        function = LIBRARY.get(node.function)
        if function is None:
            return _of(UNKNOWN, spent + 1)
        return _called(node.function, function, args, spent)


def _called(name: str, function: Function, args: list[_Estimate], spent: float) -> _Estimate:
    sizes = [arg.size for arg in args] + [0.0] * 4
    form = args[0].form if args else UNKNOWN
    if name in _OVER_ITEMS:
        inner = form.inner
        texts = form.kind == "list" and inner is not None and inner.kind in ("string", "bytes", "dyn")
        per_item = 1 + traversed(inner.largest) if texts and inner is not None else 1
        cost = traversed(sizes[0]) if form.kind == "string" else _times(sizes[0], per_item)
        return _of((inner or UNKNOWN) if function.items else ValueForm(function.kind), spent + cost)
    if name == "join":
        per_item = (form.inner or UNKNOWN).largest
        total = _times(sizes[0], per_item) + _times(max(sizes[0] - 1, 0), sizes[1])
        return _Estimate(spent + traversed(total), total, _STRING)
    cost = spent + function.cost(sizes)
    if function.items:
        if function.kind == "optional":
            return _of(_maybe(form.inner or UNKNOWN), cost)
        return _Estimate(cost, sizes[0], form)
    if name == "flatten":
        lists = form.inner is not None and form.inner.kind == "list"
        piece = form.inner if lists and form.inner is not None else ValueForm("list", UNKNOWN.largest)
        total = _times(sizes[0], piece.largest) if lists else float(piece.largest)
        flat = ValueForm("list", int(min(total, MOST)), inner=piece.inner or UNKNOWN)
        return _Estimate(spent + total + 1 + LIST_COST, total, flat)
    if function.kind == "optional":
        messages = ValueForm("list", 4, inner=ValueForm("string", 512))
        return _of(_maybe(messages if name == "validate" else ValueForm("kubernetes.NamedFormat")), cost)
    if function.kind not in _SIZED:
        return _Estimate(cost, 1, ValueForm(function.kind))
    size = min(function.result(sizes), float(MOST))
    inner = ValueForm("string", int(min(sizes[0], MOST))) if function.kind == "list" else None
    return _Estimate(cost, size, ValueForm(function.kind, int(size), inner=inner))


def _sum(args: list[_Estimate], spent: float) -> _Estimate:
    left, right = args[0], args[1]
    size = left.size + right.size
    if left.form.kind == "list" or right.form.kind == "list":
        inner = _any([_of(arg.form.inner or UNKNOWN) for arg in args])
        return _Estimate(spent + 1, size, ValueForm("list", int(min(size, MOST)), inner=inner))
    if left.form.kind in _SIZED and right.form.kind in _SIZED:
        kind = "string" if "string" in (left.form.kind, right.form.kind) else left.form.kind
        return _Estimate(spent + traversed(size), size, ValueForm(kind, int(min(size, MOST))))
    return _Estimate(spent + 1, 1, left.form if left.form.kind not in _SIZED else right.form)


def _times(count: float, cost: float) -> float:
    return 0 if not count or not cost else min(count * cost, math.inf)


def _field(form: ValueForm, name: str) -> ValueForm:
    if form.kind == "optional":
        return _maybe(_field(form.inner or UNKNOWN, name))
    result = form.fields.get(name) or form.fields.get(unescaped(name))
    if result is not None:
        return result
    return form.inner if form.kind == "map" and form.inner is not None else UNKNOWN


def _content(form: ValueForm) -> ValueForm:
    """Return the form of the content of an optional, or the form itself."""
    return (form.inner or UNKNOWN) if form.kind == "optional" else form


def _maybe(form: ValueForm) -> ValueForm:
    return form if form.kind == "optional" else ValueForm("optional", form.largest, inner=form)


def _item(form: ValueForm, *, keys: bool) -> _Estimate:
    if keys:
        return _of(UNKNOWN if form.kind != "map" else ValueForm("string", UNKNOWN.largest))
    return _of(form.inner or UNKNOWN)


def _resized(estimate: _Estimate) -> ValueForm:
    form = estimate.form
    return ValueForm(form.kind, int(min(estimate.size, MOST)), form.smallest, form.inner, form.fields)


def _any(estimates: list[_Estimate]) -> ValueForm:
    """Return the common form of several estimates, dyn if they differ, with the largest size."""
    if not estimates:
        return ValueForm("dyn", 0)
    first = _resized(estimates[0])
    if all(estimate.form.kind == first.kind and estimate.form.fields == first.fields for estimate in estimates):
        largest = max(estimates, key=lambda estimate: estimate.size)
        return _resized(largest)
    return ValueForm("dyn", int(min(max(estimate.size for estimate in estimates), MOST)))
