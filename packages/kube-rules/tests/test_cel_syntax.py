"""From the text of an expression to its tree (cel-spec, language definition): how operators group, what a literal is,
how deep it may nest, and at which place an error is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_rules import cel
from kube_rules.cel.evaluator import escaped, unescaped
from kube_rules.cel.syntax import Bind, Call, Fold, Ident, Literal, MakeList, MakeMap, Select


def shown(node: Any) -> str:
    """A tree in prefix form."""
    match node:
        case Literal(value):
            return repr(value)
        case Ident(name):
            return name
        case Select(operand, field, test):
            return f"{'has ' if test else ''}{shown(operand)}.{field}"
        case Call(function, target, args):
            return f"{function}({', '.join(shown(one) for one in ((target,) if target is not None else ()) + args)})"
        case MakeList(items):
            return f"[{', '.join(map(shown, items))}]"
        case MakeMap(entries):
            return "{" + ", ".join(f"{shown(key)}: {shown(value)}" for key, value in entries) + "}"
        case Bind(name, value, body):
            return f"bind({name}, {shown(value)}, {shown(body)})"
        case Fold(macro, over, variables, condition, body):
            only = "" if condition is None else f" if {shown(condition)}"
            return f"{macro}({shown(over)}; {', '.join(variables)}{only}: {shown(body)})"
    raise AssertionError(node)


TREES = [
    # levels: || && comparison + * unary; to the left; ?: to the right
    ("a || b && c", "_||_(a, _&&_(b, c))"),
    ("a && b || c", "_||_(_&&_(a, b), c)"),
    ("a || b || c", "_||_(a, b, c)"),
    ("a && b && c && d", "_&&_(a, b, c, d)"),
    ("a && (b && c)", "_&&_(a, _&&_(b, c))"),
    ("a < b && c >= d", "_&&_(_<_(a, b), _>=_(c, d))"),
    ("a == b == c", "_==_(_==_(a, b), c)"),
    ("a - b - c", "_-_(_-_(a, b), c)"),
    ("a - (b - c)", "_-_(a, _-_(b, c))"),
    ("a + b * c", "_+_(a, _*_(b, c))"),
    ("a * b + c", "_+_(_*_(a, b), c)"),
    ("a / b % c", "_%_(_/_(a, b), c)"),
    ("a + b < c + d", "_<_(_+_(a, b), _+_(c, d))"),
    ("a in b || !c", "_||_(@in(a, b), !_(c))"),
    ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
    ("a ? b ? c : d : e", None),
    ("a ? (b ? c : d) : e", "_?_:_(a, _?_:_(b, c, d), e)"),
    ("a || b ? c || d : e || f", "_?_:_(_||_(a, b), _||_(c, d), _||_(e, f))"),
    # signs: two of a kind are none, a minus before a number is the number's
    ("-1", "-1"),
    ("--1", "-_(-1)"),
    ("-(1)", "-_(1)"),
    ("-a", "-_(a)"),
    ("--a", "a"),
    ("---a", "-_(a)"),
    ("!a.b", "!_(a.b)"),
    ("!!a", "a"),
    ("!-a", "!_(-_(a))"),
    ("-a.b[0]", "-_(_[_](a.b, 0))"),
    ("1 - -1", "_-_(1, -1)"),
    ("1-1", "_-_(1, 1)"),
    # members
    ("a.b.c", "a.b.c"),
    ("a[b][c].d", "_[_](_[_](a, b), c).d"),
    ("a.b().c(d, e)", "c(b(a), d, e)"),
    ("f(a, b,)", "f(a, b)"),
    ("a.?b.c[?d]", "_[?_](_?._(a, 'b').c, d)"),
    ("has(a.b.c)", "has a.b.c"),
    # literals of lists and maps
    ("[]", "[]"),
    ("[a, b,]", "[a, b]"),
    ("[a, ?b]", "[a, @entry(b)]"),
    ("{}", "{}"),
    ("{a: b, 1: 'c',}", "{a: b, 1: 'c'}"),
    ("{?a: b}", "{a: @entry(b)}"),
    # macros, and calls that only look like them
    ("a.all(b, c)", "all(a; b: c)"),
    ("a.exists(b, c)", "exists(a; b: c)"),
    ("a.exists_one(b, c)", "exists_one(a; b: c)"),
    ("a.existsOne(b, c, d)", "existsOne(a; b, c: d)"),
    ("a.all(b, c, d)", "all(a; b, c: d)"),
    ("a.filter(b, c)", "filter(a; b: c)"),
    ("a.map(b, c)", "map(a; b: c)"),
    ("a.map(b, c, d)", "map(a; b if c: d)"),
    ("a.sortBy(b, c)", "sortBy(a; b: c)"),
    ("a.optMap(b, c)", "optMap(a; b: c)"),
    ("a.optFlatMap(b, c)", "optFlatMap(a; b: c)"),
    ("a.transformList(b, c, d)", "transformList(a; b, c: d)"),
    ("a.transformList(b, c, d, e)", "transformList(a; b, c if d: e)"),
    ("a.transformMap(b, c, d)", "transformMap(a; b, c: d)"),
    ("a.transformMapEntry(b, c, d, e)", "transformMapEntry(a; b, c if d: e)"),
    ("a.all(b)", "all(a, b)"),
    ("a.all(b, c, d, e)", "all(a, b, c, d, e)"),
    ("a.filter(b, c, d)", "filter(a, b, c, d)"),
    ("a.transformMap(b, c)", "transformMap(a, b, c)"),
    ("cel.bind(a, b, c)", "bind(a, b, c)"),
    ("cel.bind(a, b)", "bind(cel, a, b)"),
    ("b.bind(a, b, c)", "bind(b, a, b, c)"),
    ("optional.of(a)", "optional.of(a)"),
    ("optional.other(a)", "other(optional, a)"),
    ("sets.contains(a, b)", "sets.contains(a, b)"),
    ("a.contains(b)", "contains(a, b)"),
    # blanks and comments
    (" a\n+\tb // and so on\n", "_+_(a, b)"),
    ("a //", "a"),
    ("// first\na", "a"),
]


@pytest.mark.parametrize(("text", "tree"), TREES, ids=[row[0] for row in TREES])
def test_operators_bind(text: str, tree: str | None) -> None:
    if tree is None:
        with pytest.raises(cel.CelSyntaxError):
            cel.parse(text)
        return
    assert shown(cel.parse(text)) == tree


LITERALS: list[tuple[str, Any]] = [
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    ("0x7fffffffffffffff", 2**63 - 1),
    ("-0x8000000000000000", -(2**63)),
    ("0x1fU", cel.Uint(31)),
    ("18446744073709551615u", cel.Uint(2**64 - 1)),
    ("0", 0),
    ("007", 7),
    ("1.5", 1.5),
    (".5", 0.5),
    ("1e3", 1000.0),
    ("1E-2", 0.01),
    ("-1.5e+1", -15.0),
    ("0xe1", 225),  # no exponent
    ("true", True),
    ("false", False),
    ("null", None),
    ("'a'", "a"),
    ('"a\'b"', "a'b"),
    ("''", ""),
    ("'''a'b''c'''", "a'b''c"),
    ('"""a\nb"""', "a\nb"),
    (r"'\a\b\f\n\r\t\v\\\'\"\`\?'", "\a\b\f\n\r\t\v\\'\"`?"),
    (r"'\x41\X42\u00e9\U0001F600\101\377'", "ABé\U0001f600A\xff"),
    (r"r'\n\''", r"\n\'"),
    (r'R"a\"b"', r"a\"b"),
    (r"b'a\xff\377\n'", b"a\xff\xff\n"),
    ("b'é'", "é".encode()),
    (r"br'\x41'", rb"\x41"),
    (r"rb'\x41'", rb"\x41"),
    (r"B'\x7f\x80'", b"\x7f\x80"),
]


@pytest.mark.parametrize(("text", "value"), LITERALS, ids=[row[0] for row in LITERALS])
def test_literals(text: str, value: Any) -> None:
    node = cel.parse(text)
    assert isinstance(node, Literal)
    assert (type(node.value), node.value) == (type(value), value)


WRONG = [
    ("9223372036854775808", "line 1, column 1: invalid int literal"),
    ("1 + -9223372036854775809", "line 1, column 6: invalid int literal"),
    ("18446744073709551616u", "line 1, column 1: invalid uint literal"),
    ("-1u", "line 1, column 2: invalid uint literal"),
    ("000000000000000000001", "line 1, column 1: invalid int literal"),
    ("'a", "line 1, column 1: string is not closed"),
    ("'a\n'", "line 1, column 1: string is not closed"),
    ("'a\r'", "line 1, column 1: string is not closed"),
    ("'''a''", "line 1, column 1: string is not closed"),
    ("r'a\\", "line 1, column 1: string is not closed"),
    ("r'a\\'", "line 1, column 1: string is not closed"),
    (r"'\x4'", "line 1, column 2: unknown escape"),
    (r"'\u004'", "line 1, column 2: unknown escape"),
    (r"'\x+1'", "line 1, column 2: unknown escape"),
    (r"'\400'", "line 1, column 2: unknown escape"),
    (r"'\18'", "line 1, column 2: unknown escape"),
    (r"'\ud800'", "line 1, column 2: unknown escape"),
    (r"'\udfff'", "line 1, column 2: unknown escape"),
    (r"'\U00110000'", "line 1, column 2: unknown escape"),
    (r"b'\u0041'", "line 1, column 3: unknown escape"),
    ("b'\ud800'", "line 1, column 1: not UTF-8"),
    ("a\n  + #", "line 2, column 5"),
    ("a +", "line 1, column 3"),
    ("a b", "line 1, column 3"),  # an early end is reported at the last part
    ("(a", "line 1, column 2"),
    ("a)", "line 1, column 2"),
    ("[a b]", "line 1, column 4"),
    ("[a", "line 1, column 2"),
    ("[,]", "line 1, column 2"),
    ("{a}", "line 1, column 3"),
    ("{a: b c: d}", "line 1, column 7"),
    ("f(a b)", "line 1, column 5"),
    ("f(?a)", "line 1, column 3"),
    ("a.1", "line 1, column 2"),
    ("a[b", "line 1, column 3"),
    ("a ? b", "line 1, column 5"),
    ("a ? : b", "line 1, column 5"),
    ("a = b", "line 1, column 3"),
    ("for", "line 1, column 1"),
    ("a.in", "line 1, column 3"),
    ("has(a)", "invalid argument to has() macro"),
    ("has(a.b, c.d)", "invalid argument to has() macro"),
    ("has(a.b.c())", "invalid argument to has() macro"),
    ("a.all(b.c, d)", "argument must be a simple name"),
    ("a.map(1, d)", "argument must be a simple name"),
    ("a.transformMap(b, 1, d, e)", "argument must be a simple name"),
    ("cel.bind(a.b, c, d)", "cel.bind() variable name must be a simple identifier"),
]


@pytest.mark.parametrize(("text", "where"), WRONG, ids=[ascii(row[0]) for row in WRONG])
def test_error_states_its_place(text: str, where: str) -> None:
    with pytest.raises(cel.CelSyntaxError) as caught:
        cel.parse(text)
    assert str(caught.value).endswith(where)


DEEPEST: list[tuple[Callable[[int], str], int]] = [
    # a form n times over, and the largest n that is read: 250 levels, three for a list, a map or a call
    (lambda n: "(" * n + "1" + ")" * n, 249),
    (lambda n: "1" + "+1" * n, 249),
    (lambda n: "1" + "==1" * n, 249),
    (lambda n: "a" + ".b" * n, 249),
    (lambda n: "a" + ".?b" * n, 249),
    (lambda n: "a" + "[0]" * n, 249),
    (lambda n: "a" + "[?0]" * n, 249),
    (lambda n: "true ? 1 : " * n + "1", 249),
    (lambda n: "!" * n + "a", 250),
    (lambda n: "!-" * n + "a", 125),
    (lambda n: "[" * n + "]" * n, 83),
    (lambda n: "{1: " * n + "1" + "}" * n, 83),
    (lambda n: "f(" * n + "1" + ")" * n, 83),
    (lambda n: "a.all(a, " * n + "true" + ")" * n, 83),
]


@pytest.mark.parametrize(("form", "most"), DEEPEST, ids=[form(2) for form, _ in DEEPEST])
def test_how_deep_an_expression_goes(form: Callable[[int], str], most: int) -> None:
    cel.parse(form(most))
    with pytest.raises(cel.CelSyntaxError, match="expression recursion limit exceeded: 250"):
        cel.parse(form(most + 1))


def test_depth_is_of_one_branch_and_not_of_all() -> None:
    """What was read is left again: width costs no depth."""
    for one in ("(a)", "[[a]]", "{1: {2: a}}", "f(g(a))", "a.b.c", "a[0][1]", "a.all(b, c)", "a + b", "-a", "a.?b"):
        cel.parse(f"[{', '.join([one] * 400)}]")
        cel.parse(" || ".join([f"({one})"] * 400))


def test_expression_may_be_so_long() -> None:
    assert cel.parse("'" + "x" * 99_998 + "'") == Literal("x" * 99_998)
    with pytest.raises(cel.CelSyntaxError, match="size: 100001, limit 100000"):
        cel.parse("'" + "x" * 99_999 + "'")
    cel.parse("a" + "&&a" * 24_999)  # 49,999 parts and the end
    with pytest.raises(cel.CelSyntaxError, match="more than 50000 parts"):
        cel.parse("!a" + "&&a" * 24_999)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1", set()),
        ("a + b.c + d[e]", {"a", "b", "d", "e"}),
        ("f(a) || b.g(c)", {"a", "b", "c"}),
        ("[a, {b: c}]", {"a", "b", "c"}),
        ("a.all(x, x == y)", {"a", "y"}),
        ("x.map(x, x > 1, x + z)", {"x", "z"}),
        ("a.transformMap(k, v, k == b, v + c)", {"a", "b", "c"}),
        ("cel.bind(x, a + x, x + b)", {"a", "x", "b"}),
        ("has(a.b)", {"a"}),
        ("a.exists(x, true) && x", {"a", "x"}),
    ],
)
def test_names_that_come_from_outside(text: str, names: set[str]) -> None:
    assert cel.identifiers(cel.parse(text)) == names


@pytest.mark.parametrize(
    ("prop", "field"),
    [
        ("a", "a"),
        ("a.b", "a__dot__b"),
        ("a-b", "a__dash__b"),
        ("a/b", "a__slash__b"),
        ("a__b", "a__underscores__b"),
        ("a_b", "a_b"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("true", "__true__"),
        ("a.b-c/d__e", "a__dot__b__dash__c__slash__d__underscores__e"),
    ],
)
def test_properties_that_are_no_identifiers_are_fields_too(prop: str, field: str) -> None:
    """apiserver/pkg/cel, Escape and Unescape."""
    assert escaped(prop) == field
    assert unescaped(field) == prop


@pytest.mark.parametrize("field", ["__other__", "a__b", "__namespace", "namespace__", "__dash"])
def test_keys_of_no_property_stay(field: str) -> None:
    assert unescaped(field) == field
