"""Expressions: what they mean (cel-spec, language definition), what they cost (cel-go), and where they stop."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_rules import cel
from kube_rules.cel import cost_estimate

SELF = {"a": 2, "b": 1, "list": [1, 2, 3], "words": ["x", "yy"], "a-b": 1, "namespace": "n", "f": 1.5, "none": None}
LIMIT = 10_000_000


def run(text: str, limit: int = LIMIT, **values: Any) -> tuple[Any, int]:
    """The value of an expression and what it cost."""
    meter = cel.Meter(limit)
    given = values or {"self": SELF}
    value = cel.compiled(cel.parse(text), given).evaluate(given, meter)
    return value, limit - meter.left


VALUES: list[tuple[str, Any]] = [
    # literals
    ("-9223372036854775808", -(2**63)),
    ("0x1F + 1", 32),
    ("2u + 0x3u == 5u", True),
    ("1.5e3", 1500.0),
    (r"'a\n\x41é\101'", "a\nAéA"),
    (r"r'\d'", "\\d"),
    ("'''it's'''", "it's"),
    (r"b'\xff\101' == b'\377A'", True),
    ("[1, 'a', null][2] == null // the end", True),
    ("{'a': 1, 2: 'b'}[2]", "b"),
    # operators
    ("1 + 2 * 3 - 4 / 2 % 2", 7),
    ("-7 / 2 == -3 && -7 % 2 == -1", True),
    ("1.0 / 0.0 > 1e300", True),
    ("1 == 1.0 && 1u == 1 && 1 < 1.5 && 2u > 1.5", True),
    ("true == 1", False),
    ("[1, true] == [true, 1]", False),
    ("{'a': [1]} == {'a': [1.0]}", True),
    ("'a' + 'b' == 'ab' && [1] + [2] == [1, 2]", True),
    ("'b' in {'b': 1} && 2 in [1, 2.0] && !(true in [1])", True),
    ("self.a > 1 ? 'more' : 'less'", "more"),
    ("!!true && --1 == 1 && -(-3) == 3", True),
    # errors do not decide what is decided
    ("1 / 0 == 1 || true", True),
    ("false && self.nothing == 1", False),
    ("self.nothing == 1 || self.a == 2", True),
    ("[0, 1].exists(x, 1 / x == 1)", True),
    ("[0, 1].all(x, 1 / x == 2)", False),
    # fields
    ("has(self.a) && !has(self.c) && has(self.none)", True),
    ("self.a__dash__b == 1 && self.__namespace__ == 'n'", True),
    ("self.namespace == 'n' && has(self.namespace)", True),
    ("self['a'] == self.a", True),
    # macros
    ("self.list.map(x, x * 2).filter(y, y > 2)", [4, 6]),
    ("self.list.map(x, x > 1, x * 10)", [20, 30]),
    ("self.list.exists_one(x, x == 2) && !self.list.existsOne(x, x > 1)", True),
    ("self.all(k, k != 'zz')", True),
    ("self.list.all(i, v, v == i + 1)", True),
    ("{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}", True),
    ("self.list.transformList(i, v, i > 0, v * i)", [2, 6]),
    ("self.list.map(x, self.list.map(y, x * y))[2][1]", 6),
    ("cel.bind(a, 1, cel.bind(b, a + 1, b == 2))", True),
    # functions
    ("size('aé') == 2 && size(self.list) == 3 && self.words.size() == 2", True),
    ("'abc'.matches('^a.c$') && !'abc'.matches('^b')", True),
    ("'aXbX'.replace('X', 'yy') + 'aXbX'.replace('X', '', 1)", "ayybyyabX"),
    ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
    ("['a', 'b'].join('-').upperAscii()", "A-B"),
    ("'hello'.substring(1, 3) + 'x'.charAt(0)", "elx"),
    ("'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && [1, 2].indexOf(2) == 1", True),
    ("'a1b22'.findAll('[0-9]+')", ["1", "22"]),
    ("[2, 1].min() == 1 && [2, 1].max() == 2 && [1, 2].sum() == 3 && ![2, 1].isSorted()", True),
    ("string(1) + string(true) + string(1.0) + string(b'x')", "1true1x"),
    ("int('42') + int(1.9) == 43 && double('1.5') == 1.5 && uint(3) == 3u", True),
    ("type(1) == int && type('') == string && type([]) == list && type(null) == null_type", True),
    ("duration('1h30m') > duration('1h') && duration('90s').getMinutes() == 1", True),
    ("timestamp('2024-02-29T12:00:00Z').getDayOfMonth()", 28),
    ("timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')", True),
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_expressions_mean(text: str, value: Any) -> None:
    found, _ = run(text)
    assert found == value
    assert type(found) is type(value)


FAULTS = [
    ("self.nothing", "no such key: nothing"),
    ("self.list[3]", "index out of bounds: 3"),
    ("9223372036854775807 + 1", "integer overflow"),
    ("0u - 1u", "unsigned integer overflow"),
    ("1 / 0", "division by zero"),
    ("1 + 1.0", "no such overload"),
    ("1 + '1'", "no such overload"),
    ("true < 1", "no such overload"),
    ("1 && true", "no such overload"),
    ("self.a.b", "type 'int' does not support field selection"),
    ("'x'.matches('(')", "error parsing regexp"),
    ("int('x')", "cannot convert 'x' to int"),
    ("duration('soon')", "invalid duration string"),
    ("timestamp('today')", "invalid timestamp"),
    ("'abc'.substring(4)", "index out of range: 4"),
    ("[].min()", "empty list"),
]


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_expressions_that_fail_while_they_run(text: str, fault: str) -> None:
    with pytest.raises(cel.CelError) as error:
        run(text)
    assert fault in str(error.value)


MALFORMED = [
    ("self.", "Syntax error at line 1, column 5"),
    ("", "Syntax error at line 1, column 1"),
    ("1 +\n+ 2", "Syntax error at line 2, column 1"),
    ("'never closed", "string is not closed"),
    (r"'\q'", "unknown escape"),
    ("99999999999999999999", "invalid int literal"),
    ("has(self)", "invalid argument to has() macro"),
    ("self.all(1, true)", "argument must be a simple name"),
    ("other == 1", "undeclared reference to 'other'"),
    ("frobnicate(1)", "undeclared reference to 'frobnicate'"),
    ("if == 1", "Syntax error"),
    ("a b", "Syntax error at line 1, column 3"),
    ("(" * 2000 + "1" + ")" * 2000, "recursion limit exceeded: 250"),
    ("[" * 2000 + "]" * 2000, "recursion limit exceeded: 250"),
    ("1" + "+1" * 2000, "recursion limit exceeded: 250"),
    ("self" + ".a" * 2000, "recursion limit exceeded: 250"),
    ("self" + "[0]" * 2000, "recursion limit exceeded: 250"),
    ("!-" * 2000 + "1", "recursion limit exceeded: 250"),
    ("true ? 1 : " * 2000 + "1", "recursion limit exceeded: 250"),
    ("self.all(a, " * 300 + "true" + ")" * 300, "recursion limit exceeded: 250"),
    ("'" + r"\n" * 40_000, "string is not closed"),
    ("x" * 100_001, "expression code point size exceeds limit: size: 100001, limit 100000"),
]


@pytest.mark.parametrize(("text", "fault"), MALFORMED, ids=[text[:24] for text, _ in MALFORMED])
def test_text_that_is_no_expression(text: str, fault: str) -> None:
    """Told in one line, and at once: nothing backtracks and nothing recurses without bound."""
    begin = time.process_time()
    with pytest.raises(cel.CelSyntaxError) as error:
        cel.compiled(cel.parse(text), ("self",))
    assert time.process_time() - begin < 1
    assert fault in str(error.value)
    assert "\n" not in str(error.value)


def test_deepest_that_is_read_also_runs() -> None:
    assert run("(" * 120 + "1" + ")" * 120)[0] == 1
    assert run(" && ".join(["true"] * 3000))[0] is True
    assert run("[" * 60 + "]" * 60)[0] != []


TEXT = st.text(st.sampled_from("self.abc[]{}()<>=!&|?:+-*/%'\"\\ \n01eux,\t//"), max_size=60)


@settings(max_examples=1500, deadline=None)
@given(text=TEXT | st.text(max_size=30))
def test_any_text_is_an_expression_or_a_syntax_error(text: str) -> None:
    try:
        node = cel.parse(text)
        program = cel.compiled(node, ("self",))
    except cel.CelSyntaxError:
        return
    assert cel.estimated_cost(node, {"self": cel.UNKNOWN}) >= 0
    try:
        program.evaluate({"self": SELF}, cel.Meter(100_000))
    except (cel.CelError, cel.CostExceededError):
        return


# -- costs ------------------------------------------------------------------------------------------------------------


def words(longest: int, most: int | None) -> dict[str, Any]:
    """A list of texts."""
    bound = {} if most is None else {"maxItems": most}
    return {"type": "array", **bound, "items": {"type": "string", "maxLength": longest}}


@pytest.mark.parametrize(("longest", "most"), [(16, 909_090), (63, 333_333), (253, 94_339), (1024, 24_154)])
def test_estimates_are_those_of_the_api_server(longest: int, most: int) -> None:
    """The largest maxItems an API server 1.36 accepts for this rule, found by trying."""
    node = cel.parse("self.all(x, x.contains('gpu'))")

    def cost(items: int) -> int:
        return cel.estimated_cost(node, {"self": cel.declared(words(longest, items))})

    assert cost(most) <= LIMIT < cost(most + 1)


UNBOUNDED = {
    "type": "object",
    "properties": {
        "list": words(8, None),
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "text": {"type": "string"},
        "few": words(8, 5),
        "int": {"type": "integer"},
    },
}


@pytest.mark.parametrize(
    ("text", "cheap"),
    [
        ("self.int > 3 && self.text != 'x'", True),
        ("self.few.all(x, self.few.all(y, x == y || x.size() > 1))", True),
        ("self.list.all(x, self.few.exists(y, x == y))", False),
        ("self.list.map(x, self.list.map(y, x + y)).size() > 0", False),
        ("self.map.all(k, self.map.exists(j, j == k))", False),
        ("self.text.matches('a+b+c+')", True),
        ("self.text.matches(self.text)", False),
        ("self.text.contains(self.text)", False),
        ("self.nowhere.all(x, self.nowhere.all(y, true))", False),
        ("self.text.split('').all(x, self.text.split('').all(y, x == y))", False),
        ("cel.bind(l, self.list, l.all(x, l.all(y, x == y)))", False),
        ("self.list.filter(x, x != '').all(x, self.list.exists(y, x == y))", False),
        ("(self.list + self.few).all(x, self.list.exists(y, x == y))", False),
        ("(self.int > 1 ? self.few : self.list).all(x, self.list.exists(y, x == y))", False),
    ],
)
def test_sizes_carry_through_expressions(text: str, cheap: bool) -> None:
    found = cel.estimated_cost(cel.parse(text), {"self": cel.declared(UNBOUNDED)})
    assert (found <= LIMIT) is cheap
    assert found <= cost_estimate.MOST


DEAR = [
    "self.all(x, self.all(y, self.all(z, x == y || true)))",
    "self.map(x, self.map(y, x)).size() > 0",
    "self.map(x, self + self).size() > 0",
    "self.filter(x, self.exists_one(y, x == y)).size() > 0",
    "self.all(x, i, self.all(y, j, true))",
    "self.transformMap(i, x, self.filter(y, y == x)).size() > 0",
    "self.all(x, self == self)",
    "self.all(x, x in self)",
    "self.all(x, self.indexOf(x) >= 0)",
    "self.map(x, 'a').join('bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb').replace('b', 'cccccccccccccccccccccccccc').size() > 0",
    "self.map(x, 'a').join('').findAll('a.*b|a').size() > 0",
    "self.map(x, 'ab').join('').matches('(a|b)*a(a|b){400}c')",
    "self.all(x, self.map(y, string(y)).join(',').contains('zz') || true)",
]


@pytest.mark.parametrize("text", DEAR)
def test_nothing_runs_beyond_its_budget(text: str) -> None:
    """A million units are about a tenth of a second; none of these would end in an hour."""
    begin = time.process_time()
    with pytest.raises(cel.CostExceededError, match="operation cancelled: actual cost limit exceeded"):
        run(text, 1_000_000, self=list(range(100_000)))
    assert time.process_time() - begin < 2


def test_running_out_is_not_taken_in_by_operators() -> None:
    """`true || ...` may take in an error, never the end of the budget."""
    for text in ("self.all(x, self.all(y, true)) || true", "true && self.exists(x, self.all(y, true) && false)"):
        with pytest.raises(cel.CostExceededError):
            run(text, 10_000, self=list(range(1000)))


@settings(max_examples=300, deadline=None)
@given(
    items=st.lists(st.text(st.sampled_from("abé"), max_size=6), max_size=5),
    text=st.sampled_from(
        [
            "self.all(x, x.size() < 3)",
            "self.exists(x, x == 'ab')",
            "self.map(x, x + x).join(',').contains('aa')",
            "self.filter(x, x != '').size() > 1 && self.isSorted()",
            "self.all(x, self.exists_one(y, x == y))",
            "self.all(x, x.matches('^a*b?$')) ? self.size() < 3 : self[0] in self",
            "self.map(x, x.replace('a', 'bb')).all(x, x.lowerAscii().startsWith('b'))",
            "cel.bind(l, self + self, l.all(x, x.indexOf('a') < 2))",
        ]
    ),
)
def test_expressions_cost_no_more_than_estimated(items: list[str], text: str) -> None:
    """Otherwise a rule that was accepted for objects of a size could fail for one of them."""
    node = cel.parse(text)
    most = cel.estimated_cost(node, {"self": cel.declared(words(6, 5))})
    meter = cel.Meter(LIMIT)
    with suppress(cel.CelError):
        cel.compiled(node, ("self",)).evaluate({"self": items}, meter)
    assert LIMIT - meter.left <= most


def test_durations_are_values() -> None:
    assert run("self", self=timedelta(seconds=1))[0] == timedelta(seconds=1)
    assert cel.identifiers(cel.parse("self.all(x, x == oldSelf && cel.bind(y, z, y))")) == {"self", "oldSelf", "z"}
