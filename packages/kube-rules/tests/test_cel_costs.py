"""What each function and operator of expressions gives, what type that has, what it costs and was estimated to cost.

Costs are the units of cel-go (interpreter/runtimecost.go, checker/cost.go) and of k8s.io/apiserver/pkg/cel/library
(cost.go): an API server refuses by the estimate, and stops an expression by what it costs.  Where this one asks for
more when it runs (lists compared item by item, a pattern by the size of its program, a text that is formatted by its
length), it says so: these are the only ones that may cost more than was estimated.
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import cel
from kube_rules.cel import overloads
from kube_rules.cel.functions import NO_OVERLOAD

LIMIT = 10_000_000

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "s": {"type": "string", "maxLength": 20},
        "l": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 10}},
        "ll": {"type": "array", "maxItems": 4, "items": {"type": "array", "maxItems": 3, "items": {"type": "integer"}}},
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 10}},
        "o": {"type": "object", "properties": {"a-b": {"type": "boolean"}, "t": {"type": "string", "maxLength": 5}}},
        "b": {"type": "string", "format": "byte", "maxLength": 20},
        "t": {"type": "string", "format": "date-time"},
        "ints": {"type": "array", "maxItems": 6, "items": {"type": "integer"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
OBJECT = {
    "n": 3,
    "x": 1.5,
    "s": "abcdefghijklmnopqrst",
    "l": ["aa", "bb", "cc"],
    "ll": [[1, 2], [3]],
    "m": {"a": "1", "b": "22"},
    "o": {"a-b": True, "t": "xx"},
    "b": "MDEyMzQ1Njc4OTAxMjM0NQ==",
    "t": "2024-05-06T07:08:09.5Z",
    "ints": [4, 2, 3],
}
FORM = cel.declared(SCHEMA)
SELF = cel.converted(SCHEMA, OBJECT)

# fmt: off
EXPRESSIONS: list[tuple[str, str, Any, Any, int]] = [
    # expression, type, value (... if only functions can see into it), cost (... if it depends on RE2), estimate
    ("1", "int", 1, 0, 0),
    ("'abc'", "string", "abc", 0, 0),
    ("1.5", "double", 1.5, 0, 0),
    ("b'ab'", "bytes", b"ab", 0, 0),
    ("true", "bool", True, 0, 0),
    ("null", "null", ..., 0, 0),
    ("int", "type", ..., 1, 1),
    ("self", "object", ..., 1, 1),
    ("self.n", "int", 3, 2, 2),
    ("self.o.t", "string", "xx", 3, 3),
    ("has(self.o.a__dash__b)", "bool", True, 2, 2),
    ("has(self.any) || has(self.m.zz)", "bool", False, 3, 3),
    ("has(self.o.t)", "bool", True, 2, 2),
    ("[]", "list(dyn)", [], 10, 10),
    ("[1, 2, 3]", "list(int)", [1, 2, 3], 10, 10),
    ("[self.n, self.n]", "list(int)", [3, 3], 14, 14),
    ("{}", "map(dyn, dyn)", {}, 30, 30),
    ("{'a': 1}", "map(string, int)", {"a": 1}, 30, 30),
    ("{'a': self.n, self.s: 2}", "map(string, int)", {"a": 3, "abcdefghijklmnopqrst": 2}, 34, 34),
    ("cel.bind(v, self.n, v + v)", "int", 6, 15, 15),
    ("cel.bind(v, self.s, v.size())", "int", 20, 14, 14),
    ("1 + 2", "int", 3, 1, 1),
    ("self.n + self.n", "int", 6, 5, 5),
    ("self.n - 1", "int", 2, 3, 3),
    ("self.n * 2", "int", 6, 3, 3),
    ("self.n / 2", "int", 1, 3, 3),
    ("self.n % 2", "int", 1, 3, 3),
    ("-self.n", "int", -3, 3, 3),
    ("!self.o.a__dash__b", "bool", False, 4, 4),
    ("self.x / 2.0", "double", 0.75, 3, 3),
    ("self.s + self.s", "string", "abcdefghijklmnopqrstabcdefghijklmnopqrst", 9, 20),
    ("self.s + 'x'", "string", "abcdefghijklmnopqrstx", 5, 11),
    ("self.b + self.b", "bytes", b"01234567890123450123456789012345", 8, 8),
    ("self.l + self.l", "list(string)", ["aa", "bb", "cc", "aa", "bb", "cc"], 5, 5),
    ("self.l + ['x']", "list(string)", ["aa", "bb", "cc", "x"], 13, 13),
    ("self.n == 1", "bool", False, 3, 3),
    ("self.s == 'abc'", "bool", False, 3, 3),
    ("self.s == self.s", "bool", True, 7, 12),
    ("self.s != self.s", "bool", False, 7, 12),
    ("self.s < 'b'", "bool", True, 3, 3),
    ("self.s >= self.s", "bool", True, 7, 12),
    ("self.l == self.l", "bool", True, 8, 5),
    ("self.m == self.m", "bool", True, 7, 5),
    ("self.b == self.b", "bool", True, 6, 6),
    ("self.n < self.n", "bool", False, 5, 5),
    ("self.n < 1.5", "bool", False, 3, 3),
    ("self.t == self.t", "bool", True, 5, 5),
    ("self.t < self.t", "bool", False, 5, 5),
    ("'a' in self.l", "bool", False, 5, 7),
    ("'aa' in self.l", "bool", True, 5, 7),
    ("'a' in self.m", "bool", True, 3, 3),
    ("'zz' in self.m", "bool", False, 3, 3),
    ("1 in []", "bool", False, 10, 10),
    ("self.l[0]", "string", "aa", 3, 3),
    ("self.ll[0][1]", "int", 2, 4, 4),
    ("self.m['a']", "string", "1", 3, 3),
    ("self.m.a", "string", "1", 3, 3),
    ("self.m[?'a']", "optional_type(string)", ..., 3, 3),
    ("self.l[?7]", "optional_type(string)", ..., 3, 3),
    ("self.?s", "optional_type(string)", ..., 2, 2),
    ("self.?o.t", "optional_type(string)", ..., 3, 3),
    ("self.?o.?t", "optional_type(string)", ..., 3, 3),
    ("self.?m[?'a']", "optional_type(string)", ..., 3, 3),
    ("self.?l[0]", "optional_type(string)", ..., 3, 3),
    ("self.n > 1 ? self.s : 'b'", "string", "abcdefghijklmnopqrst", 5, 5),
    ("self.n > 9 ? self.s : 'b'", "string", "b", 3, 5),
    ("self.n > 9 ? self.s + self.s : 'b'", "string", "b", 3, 23),
    ("self.n > 1 ? self.n : 2", "int", 3, 5, 5),
    ("self.n > 1 && self.n > 2", "bool", True, 6, 6),
    ("self.n > 9 && self.n > 2", "bool", False, 3, 6),
    ("self.n > 1 || self.n > 2", "bool", True, 3, 6),
    ("self.n > 9 || self.n > 2 || self.n > 0", "bool", True, 6, 9),
    ("self.l.all(v, v != 'x')", "bool", True, 19, 29),
    ("self.l.all(v, v == 'x')", "bool", False, 9, 29),
    ("self.l.exists(v, v == 'aa')", "bool", True, 10, 34),
    ("self.l.exists(v, v == 'cc')", "bool", True, 22, 34),
    ("self.l.exists(v, false)", "bool", False, 16, 24),
    ("self.l.exists_one(v, v == 'aa')", "bool", True, 16, 24),
    ("self.l.existsOne(i, v, i == 1)", "bool", True, 16, 24),
    ("self.l.filter(v, v != 'aa')", "list(string)", ["bb", "cc"], 58, 88),
    ("self.l.map(v, v + 'x')", "list(string)", ["aax", "bbx", "ccx"], 55, 103),
    ("self.l.map(v, v != 'aa', v + 'x')", "list(string)", ["bbx", "ccx"], 59, 113),
    ("self.l.map(v, v != 'aa', v + 'x')[0]", "string", "bbx", 60, 114),
    ("self.l.transformList(i, v, i)", "list(int)", [0, 1, 2], 52, 78),
    ("self.l.transformList(i, v, i > 0, v)", "list(string)", ["bb", "cc"], 57, 88),
    ("self.l.transformMap(i, v, v)", "map(int, string)", {0: "aa", 1: "bb", 2: "cc"}, 78, 108),
    ("self.m.transformMap(k, v, k == 'a', v)", "map(string, string)", {"a": "1"}, 66, 118),
    ("self.m.transformMapEntry(k, v, {v: k})", "map(string, string)", {"1": "a", "22": "b"}, 125, 263),
    ("self.m.transformMapEntry(k, v, k == 'a', {v: k})", "map(string, string)", {"1": "a"}, 97, 273),
    ("self.l.all(i, v, i < 9)", "bool", True, 19, 29),
    ("self.m.all(k, k != 'x')", "bool", True, 14, 29),
    ("self.m.all(k, v, v != 'x')", "bool", True, 14, 29),
    ("self.m.map(k, k)", "list(string)", ["a", "b"], 39, 78),
    ("self.m.filter(k, k == 'a')", "list(string)", ["a"], 43, 88),
    ("self.ints.sortBy(v, -v)", "list(int)", [4, 3, 2], 84, 183),
    ("self.ll.map(x, x.map(y, y))", "list(list(int))", [[1, 2], [3]], 100, 265),
    ("self.l.all(v, self.l.exists(w, v == w))", "bool", True, 67, 289),
    ("size(self.s)", "int", 20, 3, 3),
    ("self.l.size()", "int", 3, 3, 3),
    ("self.s.contains('abc')", "bool", True, 4, 10),
    ("self.s.contains(self.s)", "bool", True, 8, 68),
    ("self.s.startsWith('abc')", "bool", True, 3, 3),
    ("self.s.startsWith(self.s)", "bool", True, 6, 12),
    ("self.s.endsWith('abcdefghijk')", "bool", False, 4, 4),
    ("self.s.matches('a+b')", "bool", True, ..., 11),
    ("self.s.matches('a')", "bool", True, ..., 11),
    ("self.s.matches('^(abcdefghi)[a-z]+$')", "bool", True, ..., 47),
    ("self.s.find('b.*')", "string", "bcdefghijklmnopqrst", ..., 11),
    ("self.s.findAll('[ab]')", "list(string)", ["a", "b"], ..., 11),
    ("self.s.findAll('[a-z]', 2)", "list(string)", ["a", "b"], ..., 20),
    ("self.s.lowerAscii()", "string", "abcdefghijklmnopqrst", 4, 10),
    ("self.s.upperAscii()", "string", "ABCDEFGHIJKLMNOPQRST", 4, 10),
    ("self.s.trim()", "string", "abcdefghijklmnopqrst", 4, 10),
    ("self.s.substring(3)", "string", "defghijklmnopqrst", 4, 10),
    ("self.s.substring(3, 5)", "string", "de", 4, 10),
    ("self.s.charAt(3)", "string", "d", 3, 3),
    ("self.s.charAt(20)", "string", "", 3, 3),
    ("self.s.replace('a', 'xyz')", "string", "xyzbcdefghijklmnopqrst", 7, 18),
    ("self.s.replace('a', 'xyz', 1)", "string", "xyzbcdefghijklmnopqrst", 7, 18),
    ("self.s.split('c')", "list(string)", ["ab", "defghijklmnopqrst"], 7, 18),
    ("self.s.split('c', 2)", "list(string)", ["ab", "defghijklmnopqrst"], 7, 18),
    ("self.s.split('c', 0)", "list(string)", [], 6, 18),
    ("self.l.join()", "string", "aabbcc", 7, 22),
    ("self.l.join('--')", "string", "aa--bb--cc", 7, 23),
    ("self.s.indexOf('e')", "int", 4, 4, 10),
    ("self.s.indexOf('e', 5)", "int", -1, 4, 10),
    ("self.s.lastIndexOf('e')", "int", 4, 4, 10),
    ("self.l.indexOf('bb')", "int", 1, 5, 27),
    ("self.l.lastIndexOf('zz')", "int", -1, 5, 27),
    ("self.ints.indexOf(3)", "int", 2, 5, 8),
    ("self.ints.isSorted()", "bool", False, 5, 8),
    ("self.l.isSorted()", "bool", True, 6, 27),
    ("self.ints.sum()", "int", 9, 5, 8),
    ("self.ints.min()", "int", 2, 5, 8),
    ("self.l.max()", "string", "cc", 6, 27),
    ("bool('true')", "bool", True, 1, 1),
    ("bytes(self.s)", "bytes", b"abcdefghijklmnopqrst", 4, 10),
    ("double('1.5')", "double", 1.5, 1, 1),
    ("int(self.x)", "int", 1, 3, 3),
    ("int(self.t)", "int", 1714979289, 3, 3),
    ("uint(self.n)", "uint", ..., 3, 3),
    ("string(self.n)", "string", "3", 3, 3),
    ("string(self.s)", "string", "abcdefghijklmnopqrst", 4, 10),
    ("string(self.b)", "string", "0123456789012345", 4, 4),
    ("string(self.t)", "string", "2024-05-06T07:08:09.500000Z", 3, 3),
    ("string(duration('1m'))", "string", "60s", 2, 2),
    ("type(self.n)", "type", ..., 3, 3),
    ("dyn(self.s)", "dyn", "abcdefghijklmnopqrst", 3, 3),
    ("duration('90s')", "duration", ..., 1, 1),
    ("timestamp('2024-01-01T00:00:00Z')", "timestamp", ..., 1, 1),
    ("self.t.getFullYear()", "int", 2024, 3, 3),
    ("self.t.getMonth()", "int", 4, 3, 3),
    ("self.t.getDate()", "int", 6, 3, 3),
    ("self.t.getDayOfMonth()", "int", 5, 3, 3),
    ("self.t.getDayOfWeek()", "int", 1, 3, 3),
    ("self.t.getDayOfYear()", "int", 126, 3, 3),
    ("self.t.getHours()", "int", 7, 3, 3),
    ("self.t.getMinutes()", "int", 8, 3, 3),
    ("self.t.getSeconds()", "int", 9, 3, 3),
    ("self.t.getMilliseconds()", "int", 500, 3, 3),
    ("self.t.getHours('+02:30')", "int", 9, 3, 3),
    ("self.t.getDate('-08:00')", "int", 5, 3, 3),
    ("self.t.getHours('Europe/Berlin')", "int", 9, 3, 3),
    ("self.t.getHours('UTC')", "int", 7, 3, 3),
    ("duration('5400s').getHours()", "int", 1, 2, 2),
    ("duration('5400s').getMinutes()", "int", 90, 2, 2),
    ("duration('5400s').getSeconds()", "int", 5400, 2, 2),
    ("duration('1500ms').getMilliseconds()", "int", 500, 2, 2),
    ("self.ints.slice(0, 2)", "list(int)", [4, 2], 15, 19),
    ("self.ll.flatten()", "list(int)", [1, 2, 3], 18, 25),
    ("dyn(self.ll).flatten(2)", "list(dyn)", [1, 2, 3], 19, 26),
    ("lists.range(4)", "list(int)", [0, 1, 2, 3], 15, 15),
    ("lists.range(self.n)", "list(int)", [0, 1, 2], 16, 18446744073709551615),
    ("self.ints.reverse()", "list(int)", [3, 2, 4], 16, 19),
    ("self.ints.distinct()", "list(int)", [4, 2, 3], 31, 85),
    ("self.ints.sort()", "list(int)", [2, 3, 4], 31, 88),
    ("self.l.sort()", "list(string)", ["aa", "bb", "cc"], 31, 65),
    ("self.ints.first()", "optional_type(int)", ..., 3, 3),
    ("self.ints.last()", "optional_type(int)", ..., 3, 3),
    ("sets.contains(self.l, self.l)", "bool", True, 14, 30),
    ("sets.contains(self.l, ['aa'])", "bool", True, 16, 18),
    ("sets.intersects(self.l, ['x'])", "bool", False, 16, 18),
    ("sets.equivalent(self.l, self.l)", "bool", True, 23, 55),
    ("optional.of(self.s)", "optional_type(string)", ..., 3, 3),
    ("optional.none()", "optional_type(dyn)", ..., 1, 1),
    ("optional.ofNonZeroValue(0)", "optional_type(int)", ..., 1, 1),
    ("optional.of(self.s).value()", "string", "abcdefghijklmnopqrst", 4, 4),
    ("optional.of(self.s).hasValue()", "bool", True, 4, 4),
    ("optional.of(self.s).or(optional.of('x'))", "optional_type(string)", ..., 5, 5),
    ("optional.of(self.s).orValue('x')", "string", "abcdefghijklmnopqrst", 4, 4),
    ("optional.of(self.s).optMap(v, v + v)", "optional_type(string)", ..., 22, 37),
    ("optional.none().optMap(v, v)", "optional_type(dyn)", ..., 3, 16),
    ("optional.of(self.s).optFlatMap(v, optional.of(v))", "optional_type(string)", ..., 17, 21),
    ("[optional.of(1)].unwrapOpt()", "list(int)", [1], 13, 13),
    ("optional.unwrap([optional.of(1), optional.none()])", "list(int)", [1], 15, 15),
    ("[?self.?s]", "list(string)", ["abcdefghijklmnopqrst"], 12, 12),
    ("{?'a': self.?s}", "map(string, string)", {"a": "abcdefghijklmnopqrst"}, 32, 32),
    ("'%s'.format([self.s])", "string", "abcdefghijklmnopqrst", 18, 13),
    ("'%d and %d, over ten characters'.format([1, 2])", "string", "1 and 2, over ten characters", 15, 13),
    ("strings.quote(self.s)", "string", '"abcdefghijklmnopqrst"', 4, 10),
    ("format.dns1123Label()", "kubernetes.NamedFormat", ..., 1, 1),
    ("format.named('uuid')", "optional_type(kubernetes.NamedFormat)", ..., 1, 1),
    ("format.dns1123Label().validate(self.s)", "optional_type(list(string))", ..., 27, 259),
    ("format.uri().validate(self.s)", "optional_type(list(string))", ..., 99, 259),
    ("format.labelValue().validate('x')", "optional_type(list(string))", ..., 11, 33),
    ("ip('1.2.3.4')", "net.IP", ..., 1, 1),
    ("ip('2001:db8:3333:4444:5555:6666:7777:8888')", "net.IP", ..., 4, 4),
    ("ip('1.2.3.4').family()", "int", 4, 2, 2),
    ("isIP('1.2.3.4')", "bool", True, 1, 1),
    ("ip.isCanonical('1.2.3.4')", "bool", True, 2, 2),
    ("ip.isCanonical('192.168.255.255')", "bool", True, 3, 3),
    ("cidr('10.0.0.0/8')", "net.CIDR", ..., 1, 1),
    ("cidr('10.0.0.0/8').ip()", "net.IP", ..., 2, 2),
    ("cidr('10.0.0.0/8').masked()", "net.CIDR", ..., 2, 2),
    ("cidr('10.0.0.0/8').prefixLength()", "int", 8, 2, 2),
    ("isCIDR('10.0.0.0/8')", "bool", True, 1, 1),
    ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", "bool", True, 6, 6),
    ("cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))", "bool", True, 6, 6),
    ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", "bool", True, 10, 10),
    ("cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))", "bool", True, 10, 10),
    ("url('https://a.b/c')", "kubernetes.URL", ..., 2, 2),
    ("isURL('https://a.b/c')", "bool", True, 2, 1),
    ("url('https://u@a.b:80/c?d=e').getScheme()", "string", "https", 4, 4),
    ("url('https://u@a.b:80/c?d=e').getHost()", "string", "a.b:80", 4, 4),
    ("url('https://u@a.b:80/c?d=e').getHostname()", "string", "a.b", 4, 4),
    ("url('https://u@a.b:80/c?d=e').getPort()", "string", "80", 4, 4),
    ("url('https://u@a.b:80/c?d=e').getEscapedPath()", "string", "/c", 4, 4),
    ("url('https://u@a.b:80/c?d=e').getQuery()", "map(string, list(string))", {"d": ["e"]}, 4, 4),
    ("url('https://a.b/c') == url('https://a.b/c')", "bool", True, 5, 6),
    ("quantity('1234567890')", "kubernetes.Quantity", ..., 1, 1),
    ("isQuantity('12345678901')", "bool", True, 2, 2),
    ("quantity('1').add(quantity('2'))", "kubernetes.Quantity", ..., 3, 3),
    ("quantity('1').sub(2)", "kubernetes.Quantity", ..., 2, 2),
    ("quantity('1').compareTo(quantity('2'))", "int", -1, 3, 3),
    ("quantity('1').isGreaterThan(quantity('2'))", "bool", False, 3, 3),
    ("quantity('1').isLessThan(quantity('2'))", "bool", True, 3, 3),
    ("quantity('1').sign()", "int", 1, 2, 2),
    ("quantity('1').isInteger()", "bool", True, 2, 2),
    ("quantity('1').asInteger()", "int", 1, 2, 2),
    ("quantity('1').asApproximateFloat()", "double", 1.0, 2, 2),
    ("semver('1.2.3')", "kubernetes.Semver", ..., 1, 1),
    ("semver('v1.2', true)", "kubernetes.Semver", ..., 1, 1),
    ("isSemver('1.2.3-alpha')", "bool", True, 2, 2),
    ("semver('1.2.3').major()", "int", 1, 2, 2),
    ("semver('1.2.3').minor()", "int", 2, 2, 2),
    ("semver('1.2.3').patch()", "int", 3, 2, 2),
    ("self.l.all(v, isIP(v))", "bool", False, 9, 44),
    ("cidr('2001:db8::/32').containsIP('2001:db8::1')", "bool", True, 8, 8),
    ("self.s.replace('a', 'b') == self.s", "bool", False, 11, 28),
    ("self.s.replace('', 'zz').size() > self.l.size()", "bool", True, 16, 23),
    ("self.s.split('c').all(v, v != 'x')", "bool", True, 19, 425),
    ("self.s.findAll('[ab]').all(v, v == 'a' || v == 'b')", "bool", True, ..., 573),
    ("self.l.join('--').contains('bb')", "bool", True, 8, 44),
    ("self.l.join('--') + self.s == 'x'", "bool", False, 14, 55),
    ("(self.l + self.l).all(v, v != 'x')", "bool", True, 37, 57),
    ("(self.n > 1 ? self.l : self.ints.map(v, 'x')).all(v, v != 'x')", "bool", True, 22, 120),
    ("self.l.filter(v, v != 'aa').all(v, v != 'x')", "bool", True, 70, 115),
    ("self.l.map(v, v + v).all(v, v != 'x')", "bool", True, 75, 150),
    ("self.m.transformMap(k, v, v + v).all(k, v, v != 'x')", "bool", True, 79, 180),
    ("self.m.transformMapEntry(k, v, {v: k}).all(k, v, v != 'x')", "bool", True, 137, 290),
    ("self.l.transformList(i, v, v + v).all(v, v != 'x')", "bool", True, 75, 150),
    ("self.l.sortBy(v, v).all(v, v != 'x')", "bool", True, 98, 168),
    ("self.ll.flatten().all(v, v > 0)", "bool", True, 35, 87),
    ("dyn(self.l).flatten().all(v, v != 'x')", "bool", True, 34, 18874372),
    ("self.l.reverse().all(v, v != 'x')", "bool", True, 33, 45),
    ("self.l.first().orValue('x') == self.s", "bool", False, 7, 10),
    ("self.?l[0].orValue('x') == self.s", "bool", False, 7, 10),
    ("self.?s.optMap(v, v + v).orValue('x') == self.s", "bool", False, 27, 46),
    ("self.?s.optFlatMap(v, optional.of(v + v)).value() == self.s", "bool", False, 28, 47),
    ("self.l[?0].value() == self.s", "bool", False, 7, 10),
    ("self.?o.t.value() == self.s", "bool", False, 7, 8),
    ("optional.of(self.s).or(optional.of('x')).value() == self.s", "bool", True, 11, 16),
    ("[self.s, 'x'].all(v, v != 'y')", "bool", True, 24, 24),
    ("[self.s, 'x'][0] == self.s", "bool", True, 18, 23),
    ("{'a': self.s}.all(k, v, v == self.s)", "bool", True, 43, 48),
    ("{'a': self.s}.a == self.s", "bool", True, 38, 43),
    ("[?self.?s].all(v, v == self.s)", "bool", True, 23, 28),
    ("cel.bind(v, self.s + self.s, v == v)", "bool", True, 26, 48),
    ("bytes(self.s) == self.b", "bool", False, 8, 14),
    ("string(self.b) == self.s", "bool", False, 8, 10),
    ("self.s.lowerAscii() == self.s", "bool", True, 9, 20),
    ("self.s.substring(2) + self.s.trim() == self.s", "bool", False, 17, 46),
    ("'%s'.format([self.s]) == self.s", "bool", True, 23, 23),
    ("strings.quote(self.s) == self.s", "bool", False, 9, 20),
    ("url('https://a.b/c').getHost() == self.s", "bool", False, 6, 7),
    ("url('https://a.b/c').getEscapedPath() == 'a long text of more than ten'", "bool", False, 4, 6),
    ("url('https://a.b/c').getQuery().all(k, v, k != 'x')", "bool", True, 5, 70),
    ("sets.equivalent(self.ints, self.ints)", "bool", True, 23, 77),
    ("self.o.a__dash__b ? 1 : 2", "int", 1, 3, 3),
    ("!(self.n in [1, 2])", "bool", True, 15, 15),
    ("format.uri().validate(self.s).orValue([]).all(v, v != 'x')", "bool", True, 117, 292),
    ("format.named('uuid').value() == format.uuid()", "bool", True, 4, 4),
    ("lists.range(3).map(v, v * 2).sum()", "int", 6, 70, 70),
    ("type(self.n) == int", "bool", True, 5, 5),
    ("self.l.exists(i, v, i > 0 && v == 'cc')", "bool", True, 26, 44),
    ("self.m.a == self.s", "bool", False, 6, 9),
    ("(self.n > 1 ? self.l : self.l).all(v, v != 'x')", "bool", True, 22, 32),
    ("self.ints.slice(1, 3)", "list(int)", [2, 3], 15, 19),
    ("self.m.all(k, v, k == self.s)", "bool", False, 11, 74),
    ("self.m.map(k, k == self.s)", "list(bool)", [False, False], 45, 128),
    ("lists.range(-1)", "list(int)", [], 11, 11),
]
# fmt: on
DEARER = ("self.l == self.l", "self.m == self.m", "isURL(", ".format([")


@pytest.mark.parametrize(("text", "kind", "value", "cost", "estimate"), EXPRESSIONS)
def test_type_value_cost_and_estimate(text: str, kind: str, value: Any, cost: Any, estimate: int) -> None:
    node = cel.parse(text)
    assert str(cel.checked_type(node, {"self": FORM}, bindings=True)) == kind
    assert cel.estimated_cost(node, {"self": FORM}) == estimate
    meter = cel.Meter(LIMIT)
    found = cel.compiled(node, ("self",)).evaluate({"self": SELF}, meter)
    if value is not ...:
        assert (type(found), found) == (cel.Uint if kind == "uint" else type(value), value)
    if cost is not ...:
        assert LIMIT - meter.left == cost
        assert cost <= estimate or any(part in text for part in DEARER)


def test_program_takes_what_it_costs_and_not_less() -> None:
    """Both sides of the limit."""
    program = cel.compiled(cel.parse("self.l.all(v, v != 'x')"), ("self",))
    assert program.evaluate({"self": SELF}, cel.Meter(19)) is True
    with pytest.raises(cel.CostExceededError):
        program.evaluate({"self": SELF}, cel.Meter(18))


def test_optional_counts_with_its_size() -> None:
    """A text out of an optional is as long as it may be, whichever way it is taken out."""
    long = {"type": "object", "properties": {"s": {"type": "string", "maxLength": 1000}}}
    for text in ("self.?s.value()", "self.?s.orValue('')", "optional.none().or(self.?s).value()", "[?self.?s][0]"):
        node = cel.parse(f"{text} == self.s")
        assert cel.estimated_cost(node, {"self": cel.declared(long)}) > 400, text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("self.s", 80),  # four bytes a character
        ("self.s + self.s", 160),
        ("self.s.lowerAscii()", 80),
        ("self.s.substring(1)", 80),
        ("self.s.replace('a', 'bc')", 80 + 81 * 2),
        ("self.s.find('a')", 80),
        ("self.l.join('--')", 5 * 40 + 4 * 2),
        ("strings.quote(self.s)", 162),
        ("'%s%s'.format([1, 2])", 4 + 2 * 1024),
        ("string(self.s)", 80),
        ("string(self.n)", 32),
        ("url(self.s).getScheme()", 80),
        ("url(self.s).getHost()", 80),
        ("url(self.s).getHostname()", 80),
        ("url(self.s).getPort()", 80),
        ("url(self.s).getEscapedPath()", 240),
        ("self.l[0]", 40),
        ("self.m.a", 40),
        ("self.o.t", 20),
        ("(self.n > 1 ? self.s : 'b')", 80),
        ("self.l.min()", 40),
        ("dyn(self.s)", 80),
    ],
)
def test_how_large_what_a_function_gives_may_be(text: str, size: int) -> None:
    """A comparison costs the smaller of both: with a text that is larger by one than what is compared, and by far."""
    node = {length: cel.parse(f"{text} == '{'x' * length}'") for length in (10 * size, 10 * size + 10)}
    costs = {length: cel.estimated_cost(one, {"self": FORM}) for length, one in node.items()}
    assert len(set(costs.values())) == 1
    itself = cel.estimated_cost(cel.parse(text), {"self": FORM})
    assert costs[10 * size] - itself == -(-size // 10)


# -- what a function is not called with -------------------------------------------------------------------------------

SAMPLES: dict[str, Any] = {
    "bool": True,
    "int": 1,
    "uint": cel.Uint(1),
    "double": 1.0,
    "string": "a",
    "bytes": b"a",
    "null": None,
    "timestamp": cel.converted({"type": "string", "format": "date-time"}, "2024-01-01T00:00:00Z"),
    "duration": cel.converted({"type": "string", "format": "duration"}, "1s"),
    "list": [1],
    "map": {"a": 1},
    "type": cel.TypeName("int"),
    "optional_type": cel.Optional([1]),
    "net.IP": cel.LIBRARY["ip"].run(cel.Meter(9), ["1.2.3.4"]),
    "net.CIDR": cel.LIBRARY["cidr"].run(cel.Meter(9), ["1.2.3.0/24"]),
    "kubernetes.URL": cel.LIBRARY["url"].run(cel.Meter(9), ["http://a/b"]),
    "kubernetes.Quantity": cel.QuantityValue(10**9),
    "kubernetes.Semver": cel.Semver("1.2.3"),
    "kubernetes.NamedFormat": cel.LIBRARY["format.uuid"].run(cel.Meter(9), []),
}
"""A value of each type."""


def refused(name: str, args: list[Any]) -> bool:
    try:
        cel.LIBRARY[name].run(cel.Meter(LIMIT), args)
    except cel.CelError as error:
        return str(error) == NO_OVERLOAD
    return False


@pytest.mark.parametrize("name", sorted(cel.LIBRARY))
def test_functions_refuse_other_numbers_of_arguments(name: str) -> None:
    """An expression may hide its types (`dyn`), so a function holds to its overloads when it runs."""
    known = overloads.overloads(name)
    for count in range(7):
        if count not in {len(one.args) for one in known}:
            longest = max(known, key=lambda one: len(one.args)).args
            given = [SAMPLES.get(kind.name, 1) for kind in longest][:count]
            assert refused(name, given + [given[-1] if given else 1] * (count - len(given))), count


@pytest.mark.parametrize("name", sorted(cel.LIBRARY))
def test_functions_refuse_values_of_other_types(name: str) -> None:
    """In each place, beside values that fit."""
    known = overloads.overloads(name)
    for one in known:
        for at, wanted in enumerate(one.args):
            beside = {other.args[at].name for other in known if at < len(other.args)}
            if any(len(kind) == 1 or kind == "dyn" for kind in beside):
                continue
            given = [SAMPLES.get(kind.name, 1) for kind in one.args]
            for kind, sample in SAMPLES.items():
                if kind not in beside:
                    assert refused(name, [*given[:at], sample, *given[at + 1 :]]), (one, wanted, kind)
