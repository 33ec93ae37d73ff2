"""The functions of Kubernetes' environment (apiserver/pkg/cel/environment): what they give, cost and refuse."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from kube_rules import cel
from kube_rules.cel import overloads

LIMIT = 10_000_000


def run(text: str, **values: Any) -> tuple[Any, int]:
    """The value of an expression that also fits its types, and what it cost."""
    node = cel.parse(text)
    cel.checked_type(node, dict.fromkeys(values, cel.UNKNOWN))
    meter = cel.Meter(LIMIT)
    value = cel.compiled(node, values).evaluate(values, meter)
    return value, LIMIT - meter.left


TRUE = [
    # addresses (library/ip.go)
    "ip('127.0.0.1').family() == 4 && ip('::1').family() == 6",
    "isIP('192.168.0.1') && !isIP('192.168.0.256') && !isIP(':::1') && !isIP('01.2.3.4')",
    "!isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')",
    "ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD') && !ip.isCanonical('2001:db8::0:0:0:abcd')",
    "ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified() && !ip('127.0.0.1').isUnspecified()",
    "ip('127.9.9.9').isLoopback() && ip('::1').isLoopback() && !ip('192.168.0.1').isLoopback()",
    "ip('224.0.0.1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast()",
    "ip('ff02::1').isLinkLocalMulticast() && !ip('fd00::1').isLinkLocalMulticast()",
    "ip('169.254.169.254').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()",
    "ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
    "ip('2001:db8::abcd').isGlobalUnicast() && !ip('ff00::1').isGlobalUnicast()",
    "ip('::1') == ip('0:0::1') && string(ip('0:0::1')) == '::1' && type(ip('::1')) == type(ip('1.2.3.4'))",
    # networks (library/cidr.go)
    "cidr('192.168.0.0/24').containsIP('192.168.0.9') && !cidr('192.168.0.0/24').containsIP(ip('192.168.1.1'))",
    "cidr('192.168.0.0/16').containsCIDR(cidr('192.168.10.0/24'))",
    "!cidr('192.168.1.0/24').containsCIDR('192.168.0.0/23') && !cidr('1.0.0.0/8').containsIP('::1')",
    "cidr('192.168.0.7/24').masked() == cidr('192.168.0.0/24') && cidr('192.168.0.7/24').ip() == ip('192.168.0.7')",
    "cidr('::1/128').prefixLength() == 128 && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
    "isCIDR('::/0') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0/08')",
    "!isCIDR('10.0.0.0/255.0.0.0') && !isCIDR('::ffff:10.0.0.0/104')",
    # URLs (library/urls.go)
    "url('https://user@example.com:80/path?query=val#frag').getHost() == 'example.com:80'",
    "url('https://example.com:80/').getPort() == '80' && url('https://example.com/').getPort() == ''",
    "url('https://[::1]:80/').getHostname() == '::1' && url('/path').getScheme() == ''",
    "url('HTTP://a/').getScheme() == 'http'",
    "url('https://example.com/a b/').getEscapedPath() == '/a%20b/'",
    "url('/path?k=a&k=b&c=%20d').getQuery() == {'k': ['a', 'b'], 'c': [' d']}",
    "isURL('https://a') && !isURL('../relative') && !isURL('https://a b/') && !isURL('mailto:x') && !isURL('/%zz')",
    # quantities and versions
    "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('50k').add(20).compareTo(quantity('50020')) == 0",
    "quantity('1.5').isInteger() == false && quantity('-1').sign() == -1 && quantity('200M').asInteger() == 200000000",
    "quantity('50').asApproximateFloat() == 50.0 && isQuantity('1.3Gi') && !isQuantity('20 Mi')",
    "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.2.3').minor() == 2 && !isSemver('1.2')",
    "semver('v01.2', true) == semver('1.2.0') && isSemver('v1', true) && !isSemver('v1-rc', true)",
    "!isSemver('1.0.0-01') && isSemver('1.0.0-0a.b+c')",
    # named formats (library/format.go)
    "!format.dns1123Label().validate('a-b').hasValue() && format.dns1123Label().validate('A').hasValue()",
    "format.named('dns1035Label').value().validate('1a').hasValue() && !format.named('missing').hasValue()",
    "format.dns1123LabelPrefix().validate('my-label-') == optional.none()",
    "format.dns1123Subdomain().validate('a..b').value().join('').contains('RFC 1123')",
    "!format.qualifiedName().validate('a.b/c').hasValue() && format.labelValue().validate('-').hasValue()",
    "!format.uri().validate('http://a').hasValue() && format.uri().validate('a').hasValue()",
    "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
    "format.uuid().validate('1').hasValue()",
    "!format.byte().validate('aGVsbG8=').hasValue() && format.byte().validate('*').value() == ['invalid base64']",
    "!format.date().validate('2021-01-01').hasValue() && format.date().validate('2021-02-30').hasValue()",
    "!format.datetime().validate('2021-01-01T00:00:00Z').hasValue() && format.datetime().validate('x').hasValue()",
    # string.format and strings.quote (ext.Strings)
    "'%s is %d%%'.format(['a', dyn(5)]) == 'a is 5%'",
    "'%s %s'.format([dyn([1, dyn('x')]), null]) == '[1, \"x\"] null'",
    "'%s'.format([{'b': dyn(1), 'a': true}]) == '{\"a\":true, \"b\":1}'",
    "'%x %X %o %b %b'.format([dyn(255), 'Ab', 8, 5, true]) == 'ff 4162 10 101 1'",
    "'%f %.2f %.0f'.format([1.5, 10000.126, 2.0]) == '1.500000 10,000.13 2'",
    "'%.3e'.format([1052.0]) == '1.052\u202f×\u202f10⁰³' && '%f'.format(['Infinity']) == '∞'",
    "'%s %s'.format([timestamp('2024-01-01T00:00:00Z'), dyn(duration('1h'))]) == '2024-01-01T00:00:00Z 3600s'",
    "strings.quote('a\"\\n') == '\"a\\\\\"\\\\n\"'",
    # optionals
    "optional.of(1).hasValue() && optional.none().orValue(2) == 2 && optional.of(3).value() == 3",
    "optional.ofNonZeroValue('').hasValue() == false && optional.ofNonZeroValue([1]).hasValue()",
    "optional.none().or(optional.of(4)).value() == 4 && optional.of(5).or(optional.of(4)).value() == 5",
    "{'a': {'b': 1}}.?a.?b.orValue(0) == 1 && {'a': {'b': 1}}.?a.b.value() == 1 && !{'a': 1}.?b.hasValue()",
    "{'a': 1}[?'a'] == optional.of(1) && [1, 2][?5] == optional.none() && {'a': [7]}.?a[0].value() == 7",
    "optional.of(2).optMap(x, x * 2).value() == 4 && !optional.none().optMap(x, 1 / 0).hasValue()",
    "optional.of(2).optFlatMap(x, optional.none()) == optional.none()",
    "[1, ?optional.none(), ?optional.of(2)] == [1, 2] && {?'a': optional.none(), 'b': 1} == {'b': 1}",
    "has({'a': {'b': 1}}.?a.b) && !has({'a': {'b': 1}}.?z.b)",
    "[optional.of(1), optional.none()].unwrapOpt() == [1] && optional.unwrap([optional.of(2)]) == [2]",
    "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()",
    # sets and lists
    "sets.contains([1, 2, 3], [1, 3]) && !sets.contains([1], [1, 2]) && sets.contains([], [])",
    "sets.equivalent([1, 2, 2], [2, 1]) && !sets.equivalent([1], [1, 2]) && sets.intersects([1], [2, 1])",
    "[1, 2, 3, 4].slice(1, 3) == [2, 3] && [[1], [2, 3]].flatten() == [1, 2, 3]",
    "dyn([[[1]], [[2, 3]]]).flatten(2) == [1, 2, 3]",
    "lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1] && [2, 1, 2].distinct() == [2, 1]",
    "[3, 1, 2].sort() == [1, 2, 3] && ['bb', 'a'].sortBy(x, size(x)) == ['a', 'bb']",
    "[1, 2].isSorted() && [duration('1s'), duration('2s')].sum() == duration('3s') && ['b', 'a'].min() == 'a'",
    # comprehensions of two variables
    "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'} && [5].transformMap(i, v, v + i) == {0: 5}",
    "{'a': 1, 'b': 2}.exists(k, v, k == 'b' && v == 2) && {'a': 1}.transformList(k, v, v > 1, v) == []",
    # numbers of different types, durations as numbers
    "1 < 1.5 && 2u > 1 && 1.0 <= 1u && 5 >= 4.9",
    "duration('1s') > duration('999ms') && int(duration('1us')) == 1000 && false < true",
    "'abc'.find('b.?') == 'bc' && 'a1b2'.findAll('[0-9]', 1) == ['1']",
]


@pytest.mark.parametrize("text", TRUE)
def test_functions_return(text: str) -> None:
    assert run(text)[0] is True


FAULTS = [
    ("ip('x')", 'IP Address "x" parse error during conversion from string'),
    ("ip('::ffff:1.2.3.4')", "IPv4-mapped IPv6 address"),
    ("ip('fe80::1%eth0')", "with zone value is not allowed"),
    ("cidr('x')", "network address parse error during conversion from string"),
    ("url('x')", "URL parse error during conversion from string"),
    ("quantity('x')", "quantities must match"),
    ("semver('1.2')", "parse semantic version"),
    ("optional.none().value()", "optional.none() dereference"),
    ("'%d'.format(['x'])", "decimal clause can only be used on integers, was given string"),
    ("'%s'.format([])", "index 0 out of range"),
    ("'%y'.format([1])", 'unrecognized formatting clause "y"'),
    ("'%.101f'.format([1.0])", "precision 101 exceeds maximum allowed precision 100"),
    ("[1].slice(0, 2)", "list is length 1"),
    ("dyn([1, 'a'].map(x, dyn(x))).sort()", "must have the same type"),
    ("lists.range(2000000)", "lists.range() of more than"),
    ("{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k})", "already exists"),
    ("dyn(ip('::1')) < dyn(ip('::2'))", "no such overload"),
]


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_functions_refuse_while_they_run(text: str, fault: str) -> None:
    program = cel.compiled(cel.parse(text), ())
    with pytest.raises(cel.CelError) as error:
        program.evaluate({}, cel.Meter(LIMIT))
    assert fault in str(error.value)


SELF = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "s": {"type": "string", "maxLength": 20},
        "l": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 10}},
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "properties": {"a-b": {"type": "boolean"}, "namespace": {"type": "string"}}},
        "t": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "d": {"type": "string", "format": "duration"},
        "b": {"type": "string", "format": "byte", "maxLength": 20},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
    },
}
FORM = cel.declared(SELF)
TYPES = [
    ("self.n + 1", "int"),
    ("self.x + 1.0", "double"),
    ("self.l.map(x, x.size())", "list(int)"),
    ("self.m.map(k, self.m[k] > 0)", "list(bool)"),
    ("self.o.a__dash__b && self.o.__namespace__ == 's'", "bool"),
    ("self.t > timestamp('2024-01-01T00:00:00Z') && self.day < self.t && self.d > duration('1s')", "bool"),
    ("self.t - self.day", "duration"),
    ("self.b == b'x' ? size(self.b) : 1", "int"),
    ("self.port == 1 || self.port == 'a' || type(self.port) == int", "bool"),
    ("self.?s", "optional_type(string)"),
    ("self.?o.?__namespace__", "optional_type(string)"),
    ("self.o.namespace == 's' && has(self.o.namespace)", "bool"),
    ("self.?o.?namespace", "optional_type(string)"),
    ("self.?m[?'a'].orValue(1)", "int"),
    ("self.?s.optMap(x, x.size()).orValue(0)", "int"),
    ("dyn(self.s)", "dyn"),
    ("self.m.transformMap(k, v, string(v))", "map(string, string)"),
    ("self.o != null && self.t != null", "bool"),
    ("{'a': 1}", "map(string, int)"),
    ("[]", "list(dyn)"),
    ("self.l.sortBy(x, size(x))", "list(string)"),
    ("self.l.all(i, x, i > 0 && x != '')", "bool"),
    ("self.m.exists(k, v, k != '' && v > 0)", "bool"),
    ("dyn(self.l).all(x, x)", "bool"),
    ("self.m.filter(k, self.m[k] > 1)", "list(string)"),
    ("self.l.transformMapEntry(i, x, {x: i})", "map(string, int)"),
    ("self.l.transformMap(i, x, x)", "map(int, string)"),
    ("self.l.transformList(i, x, i)", "list(int)"),
    ("[null, self.o]", "list(object)"),
    ("[1, dyn(2)]", "list(dyn)"),
    ("{1: 2, 3: 4}", "map(int, int)"),
    ("[?self.?s]", "list(string)"),
    ("[?dyn(1)]", "list(dyn)"),
    ("self.?o.a__dash__b", "optional_type(bool)"),
    ("self.?s.optFlatMap(x, optional.of(size(x)))", "optional_type(int)"),
    ("[[1], []]", "list(list(int))"),
    ("type(self)", "type"),
    ("int", "type"),
    ("self.n == 1 ? self.o : null", "object"),
    # undeclared
    ("missing == 1", "undeclared reference to 'missing' (in container '')"),
    ("frobnicate(1)", "undeclared reference to 'frobnicate' (in container '')"),
    ("self.s.frobnicate()", "undeclared reference to 'frobnicate' (in container '')"),
    ("authorizer.group('').resource('pods').check('get').allowed()", "undeclared reference to"),
    ("cel.bind(a, self.n, a > 1)", "undeclared reference to 'cel' (in container '')"),
    ("self.nothing == 1", "undefined field 'nothing'"),
    ("has(self.nothing)", "undefined field 'nothing'"),
    ("self.any == 1", "undefined field 'any'"),
    ("self.s.size", "type 'string' does not support field selection"),
    # overloads
    ("self.n + 'a'", "found no matching overload for '_+_' applied to '(int, string)'"),
    ("self.n == 1.0", "found no matching overload for '_==_' applied to '(int, double)'"),
    ("self.n == null", "found no matching overload for '_==_' applied to '(int, null)'"),
    ("self.n && true", "found no matching overload for '_&&_' applied to '(int, bool)'"),
    ("self.n.contains('a')", "found no matching overload for 'contains' applied to 'int.(string)'"),
    ("size(self.n)", "found no matching overload for 'size' applied to '(int)'"),
    ("self.s.reverse()", "found no matching overload for 'reverse' applied to 'string.()'"),
    ("contains(self.s, 'a')", "found no matching overload for 'contains' applied to '(string, string)'"),
    ("self.l.indexOf(1)", "found no matching overload for 'indexOf' applied to 'list(string).(int)'"),
    ("1 in self.l", "found no matching overload for '@in' applied to '(int, list(string))'"),
    ("self.m[1]", "found no matching overload for '_[_]' applied to '(map(string, int), int)'"),
    ("self.n ? 1 : 2", "found no matching overload for '_?_:_' applied to '(int, int, int)'"),
    ("self.t > '2024'", "found no matching overload for '_>_' applied to '(timestamp, string)'"),
    ("self.l.sum()", "found no matching overload for 'sum' applied to 'list(string).()'"),
    ("self.l.all(x, x)", "found no matching overload for '_&&_' applied to '(bool, string)'"),
    ("self.l.map(x, x, x)", "found no matching overload for '_?_:_' applied to '(string, int, int)'"),
    ("self.l.filter(x, x)", "found no matching overload for '_?_:_' applied to '(string, int, int)'"),
    ("self.l.exists(x, x)", "found no matching overload for '_||_' applied to '(bool, string)'"),
    ("self.l.exists_one(x, x)", "found no matching overload for '_?_:_' applied to '(string, int, int)'"),
    ("self.m.sortBy(x, x)", "found no matching overload for '@sortByAssociatedKeys' applied to 'map(string, int)."),
    ("self.l.sortBy(x, [x])", "applied to 'list(string).(list(list(string)))'"),
    ("self.l.transformMapEntry(i, x, x)", "overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), string)'"),
    ("true || self.n", "found no matching overload for '_||_' applied to '(bool, int)'"),
    ("[1, ?1]", "expected type 'optional_type(dyn)' but found 'int'"),
    ("{'a': 1, 'b': 'c'}", "expected type 'int' but found 'string'"),
    ("self.?s.optFlatMap(x, x)", "overload for '_?_:_' applied to '(bool, string, optional_type(dyn))'"),
    ("self.l.optMap(x, x)", "found no matching overload for 'hasValue' applied to 'list(string).()'"),
    ("self.n.all(x, true)", "expression of type 'int' cannot be range of a comprehension"),
    ("[1, 'a']", "expected type 'int' but found 'string'"),
    ("ip(self.n)", "found no matching overload for 'ip' applied to '(int)'"),
    ("ip(self.s) < ip('::1')", "found no matching overload for '_<_' applied to '(net.IP, net.IP)'"),
]


@pytest.mark.parametrize(("text", "said"), TYPES)
def test_expressions_are_held_to_their_types(text: str, said: str) -> None:
    """cel-go's checker: the type of an expression, or why it has none; what is not known fits everything."""
    node = cel.parse(text)
    if " " in said and not said.startswith("map("):
        with pytest.raises(cel.CelSyntaxError) as error:
            cel.checked_type(node, {"self": FORM})
        assert said in str(error.value)
        return
    found = cel.checked_type(node, {"self": FORM})
    assert str(found) == said


def test_every_function_has_overloads_and_every_overload_a_function() -> None:
    """Nothing compiles that fails at each write for want of a function."""
    for name in cel.LIBRARY:
        assert overloads.overloads(name), name
    declared = {name for name in overloads.DECLARED if name[0].isalpha()}
    assert declared == set(cel.LIBRARY)


@pytest.mark.parametrize(
    "text",
    [
        "self.l.all(x, isIP(x)) || self.l.exists(x, format.dns1123Label().validate(x).hasValue())",
        "self.l.sort() == self.l.distinct() || sets.equivalent(self.l, self.l.reverse())",
        "'%s'.format([self.s]).size() > 1 || url(self.s).getHost() == ''",
        "self.l.first().optMap(x, x + self.s).orValue('') == self.?s.orValue('x')",
        "self.l.sortBy(x, size(x)).map(x, [x]).flatten().join() != 'a' || quantity(self.s).sign() > 0",
        "self.l.transformMapEntry(i, v, {v: i}).size() < 9 && strings.quote(self.s).size() < 30",
    ],
)
def test_expressions_cost_no_more_than_estimated(text: str) -> None:
    """Over values as large as the schema admits."""
    node = cel.parse(text)
    cel.checked_type(node, {"self": FORM})
    most = cel.estimated_cost(node, {"self": FORM})
    for items in ([], ["1.2.3.4"], ["a" * 10] * 5, [str(n) * 10 for n in range(5)]):
        meter = cel.Meter(LIMIT)
        with suppress(cel.CelError):
            cel.compiled(node, ("self",)).evaluate({"self": {"l": items, "s": "x" * 20}}, meter)
        assert LIMIT - meter.left <= most


DEAR = {"type": "array", "items": {"type": "string"}, "maxItems": 10_000}


@pytest.mark.parametrize("text", ["self.sort() == self", "sets.contains(self, self)", "self.distinct() == self"])
def test_quadratic_growth_is_estimated(text: str) -> None:
    assert cel.estimated_cost(cel.parse(text), {"self": cel.declared(DEAR)}) > 10**8


CONVERTED = [
    ("date-time", "2024-01-02T03:04:05Z", "self.v.getFullYear() == 2024 && self.v.getHours() == 3"),
    ("date", "2024-01-02", "self.v == timestamp('2024-01-02T00:00:00Z')"),
    ("duration", "1h30m", "self.v == duration('90m')"),
    ("byte", "aGVsbG8=", "self.v == b'hello' && size(self.v) == 5"),
    ("password", "x", "self.v == 'x'"),
]


@pytest.mark.parametrize(("form", "value", "rule"), CONVERTED)
def test_formats_are_types(form: str, value: str, rule: str) -> None:
    schema = {"type": "object", "properties": {"v": {"type": "string", "format": form}}}
    node = cel.parse(rule)
    assert str(cel.checked_type(node, {"self": cel.declared(schema)})) == "bool"
    obj = {"v": value}
    given = cel.converted(schema, obj)
    assert cel.compiled(node, ("self",)).evaluate({"self": given}, cel.Meter(LIMIT)) is True
    assert obj == {"v": value}


def test_values_without_formats_are_not_copied() -> None:
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}}}}
    obj = {"l": ["a"], "m": {"n": 1}}
    assert cel.converted(schema, obj) is obj
    number = {"type": "array", "items": {"type": "number"}}
    assert [type(one) for one in cel.converted(number, [1, 1.5])] == [float, float]
    assert cel.converted({"type": "string", "format": "duration"}, "1s") == timedelta(seconds=1)
    assert cel.converted({"type": "string", "format": "byte"}, "*") == "*"
