"""The argument and result types of functions: the overloads of the environment, as a table.

Each function has one line with its overloads, separated by `|`. `T.(A, B) R` is called on a T, `(A, B) R` by name.
Capital letters stand for any type, and the same letter for the same type within one overload. cel-go: common/stdlib,
ext/strings.go, ext/lists.go, ext/sets.go, cel/library.go; k8s.io/apiserver/pkg/cel/library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from kube_rules.cel.declarations import ValueForm
from kube_rules.cel.format_functions import FORMATS


@dataclass(frozen=True, slots=True)
class Type:
    """A type: `name`, and as `params` the type of items, or the types of keys and values.

    ``object`` has fields; a name of one capital letter stands for any type.
    """

    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, ValueForm] = field(default_factory=dict, compare=False, hash=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name


DYN = Type("dyn")
BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TYPE = map(
    Type, ("bool", "int", "uint", "double", "string", "bytes", "null", "type")
)
TIMESTAMP, DURATION = Type("timestamp"), Type("duration")


@dataclass(frozen=True, slots=True)
class Overload:
    """Types of the arguments (a target first) and of the result; `member`: called on its first argument."""

    member: bool
    args: tuple[Type, ...]
    result: Type


_SHORT = {
    "ip": "net.IP",
    "cidr": "net.CIDR",
    "url": "kubernetes.URL",
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "namedFormat": "kubernetes.NamedFormat",
    "opt": "optional_type",
    "authorizer": "kubernetes.authorization.Authorizer",
    "pathCheck": "kubernetes.authorization.PathCheck",
    "groupCheck": "kubernetes.authorization.GroupCheck",
    "resourceCheck": "kubernetes.authorization.ResourceCheck",
    "decision": "kubernetes.authorization.Decision",
}
OPAQUE = frozenset(_SHORT.values())
"""Types that only functions can read."""
_ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_NUMBERS = ("int", "uint", "double")


def _each(form: str, kinds: tuple[str, ...]) -> str:
    return " | ".join(form.replace("?", kind) for kind in kinds)


_COMPARED = " | ".join(
    [_each("(?, ?) bool", _ORDERED), *(f"({a}, {b}) bool" for a in _NUMBERS for b in _NUMBERS if a != b)]
)
_PART = "timestamp.() int | timestamp.(string) int"
_PART_OF_DURATION = f"{_PART} | duration.() int"
_MATCH_CIDR = "cidr.(string) bool"

_TABLE: dict[str, str] = {
    "_+_": _each("(?, ?) ?", (*_NUMBERS, "string", "bytes", "duration"))
    + " | (list<A>, list<A>) list<A> | (timestamp, duration) timestamp | (duration, timestamp) timestamp",
    "_-_": _each("(?, ?) ?", (*_NUMBERS, "duration"))
    + " | (timestamp, duration) timestamp | (timestamp, timestamp) duration",
    "_*_": _each("(?, ?) ?", _NUMBERS),
    "_/_": _each("(?, ?) ?", _NUMBERS),
    "_%_": "(int, int) int | (uint, uint) uint",
    "-_": "(int) int | (double) double",
    "!_": "(bool) bool",
    "_<_": _COMPARED,
    "_<=_": _COMPARED,
    "_>_": _COMPARED,
    "_>=_": _COMPARED,
    "_==_": "(A, A) bool",
    "_!=_": "(A, A) bool",
    "@in": "(A, list<A>) bool | (A, map<A,B>) bool",
    "_[_]": "(list<A>, int) A | (map<A,B>, A) B | (opt<list<A>>, int) opt<A> | (opt<map<A,B>>, A) opt<B>",
    "_[?_]": "(list<A>, int) opt<A> | (map<A,B>, A) opt<B> | (opt<list<A>>, int) opt<A> | (opt<map<A,B>>, A) opt<B>",
    "_?_:_": "(bool, A, A) A",
    "size": " | ".join(f"({kind}) int | {kind}.() int" for kind in ("string", "bytes", "list<A>", "map<A,B>")),
    "contains": "string.(string) bool",
    "startsWith": "string.(string) bool",
    "endsWith": "string.(string) bool",
    "matches": "(string, string) bool | string.(string) bool",
    "find": "string.(string) string",
    "findAll": "string.(string) list<string> | string.(string, int) list<string>",
    "lowerAscii": "string.() string",
    "upperAscii": "string.() string",
    "trim": "string.() string",
    "substring": "string.(int) string | string.(int, int) string",
    "charAt": "string.(int) string",
    "replace": "string.(string, string) string | string.(string, string, int) string",
    "split": "string.(string) list<string> | string.(string, int) list<string>",
    "join": "list<string>.() string | list<string>.(string) string",
    "indexOf": "string.(string) int | string.(string, int) int | list<A>.(A) int",
    "lastIndexOf": "string.(string) int | string.(string, int) int | list<A>.(A) int",
    "format": "string.(list<dyn>) string",
    "strings.quote": "(string) string",
    "isSorted": _each("list<?>.() bool", _ORDERED),
    "sum": _each("list<?>.() ?", (*_NUMBERS, "duration")),
    "min": _each("list<?>.() ?", _ORDERED),
    "max": _each("list<?>.() ?", _ORDERED),
    "slice": "list<A>.(int, int) list<A>",
    "flatten": "list<list<A>>.() list<A> | list<dyn>.(int) list<dyn>",
    "lists.range": "(int) list<int>",
    "reverse": "list<A>.() list<A>",
    "distinct": "list<A>.() list<A>",
    "sort": _each("list<?>.() list<?>", _ORDERED),
    "first": "list<A>.() opt<A>",
    "last": "list<A>.() opt<A>",
    "sets.contains": "(list<A>, list<A>) bool",
    "sets.intersects": "(list<A>, list<A>) bool",
    "sets.equivalent": "(list<A>, list<A>) bool",
    "optional.of": "(A) opt<A>",
    "optional.none": "() opt<dyn>",
    "optional.ofNonZeroValue": "(A) opt<A>",
    "optional.unwrap": "(list<opt<A>>) list<A>",
    "unwrapOpt": "list<opt<A>>.() list<A>",
    "hasValue": "opt<A>.() bool",
    "includes": "dyn.(dyn) bool",
    "value": "opt<A>.() A",
    "or": "opt<A>.(opt<A>) opt<A>",
    "orValue": "opt<A>.(A) A",
    "bool": "(bool) bool | (string) bool",
    "bytes": "(bytes) bytes | (string) bytes",
    "double": "(double) double | (int) double | (uint) double | (string) double",
    "int": _each("(?) int", ("int", "uint", "double", "string", "timestamp", "duration")),
    "uint": _each("(?) uint", ("int", "uint", "double", "string")),
    "string": _each("(?) string", (*_ORDERED, "ip", "cidr")),
    "type": "(A) type",
    "dyn": "(A) dyn",
    "duration": "(string) duration | (duration) duration | (int) duration",
    "timestamp": "(string) timestamp | (timestamp) timestamp | (int) timestamp",
    "getFullYear": _PART,
    "getMonth": _PART,
    "getDate": _PART,
    "getDayOfMonth": _PART,
    "getDayOfWeek": _PART,
    "getDayOfYear": _PART,
    "getHours": _PART_OF_DURATION,
    "getMinutes": _PART_OF_DURATION,
    "getSeconds": _PART_OF_DURATION,
    "getMilliseconds": _PART_OF_DURATION,
    "ip": "(string) ip | cidr.() ip",
    "isIP": "(string) bool",
    "ip.isCanonical": "(string) bool",
    "family": "ip.() int",
    "isUnspecified": "ip.() bool",
    "isLoopback": "ip.() bool",
    "isLinkLocalMulticast": "ip.() bool",
    "isLinkLocalUnicast": "ip.() bool",
    "isGlobalUnicast": "ip.() bool",
    "cidr": "(string) cidr",
    "isCIDR": "(string) bool",
    "containsIP": f"{_MATCH_CIDR} | cidr.(ip) bool",
    "containsCIDR": f"{_MATCH_CIDR} | cidr.(cidr) bool",
    "masked": "cidr.() cidr",
    "prefixLength": "cidr.() int",
    "url": "(string) url",
    "isURL": "(string) bool",
    "getScheme": "url.() string",
    "getHost": "url.() string",
    "getHostname": "url.() string",
    "getPort": "url.() string",
    "getEscapedPath": "url.() string",
    "getQuery": "url.() map<string,list<string>>",
    "quantity": "(string) quantity",
    "isQuantity": "(string) bool",
    "semver": "(string) semver | (string, bool) semver",
    "isSemver": "(string) bool | (string, bool) bool",
    "compareTo": "quantity.(quantity) int | semver.(semver) int",
    "isGreaterThan": "quantity.(quantity) bool | semver.(semver) bool",
    "isLessThan": "quantity.(quantity) bool | semver.(semver) bool",
    "sign": "quantity.() int",
    "add": "quantity.(quantity) quantity | quantity.(int) quantity",
    "sub": "quantity.(quantity) quantity | quantity.(int) quantity",
    "isInteger": "quantity.() bool",
    "asInteger": "quantity.() int",
    "asApproximateFloat": "quantity.() double",
    "major": "semver.() int",
    "minor": "semver.() int",
    "patch": "semver.() int",
    "validate": "namedFormat.(string) opt<list<string>>",
    "path": "authorizer.(string) pathCheck",
    "group": "authorizer.(string) groupCheck",
    "serviceAccount": "authorizer.(string, string) authorizer",
    "resource": "groupCheck.(string) resourceCheck",
    "subresource": "resourceCheck.(string) resourceCheck",
    "namespace": "resourceCheck.(string) resourceCheck",
    "name": "resourceCheck.(string) resourceCheck",
    "fieldSelector": "resourceCheck.(string) resourceCheck",
    "labelSelector": "resourceCheck.(string) resourceCheck",
    "check": "pathCheck.(string) decision | resourceCheck.(string) decision",
    "allowed": "decision.() bool",
    "reason": "decision.() string",
    "errored": "decision.() bool",
    "error": "decision.() string",
    "jsonpatch.escapeKey": "(string) string",
    "format.named": "(string) opt<namedFormat>",
    **{f"format.{name}": "() namedFormat" for name in FORMATS},
}
DECLARED = frozenset(_TABLE)
"""Names of all functions and operators with overloads."""
_FORM = re.compile(r"(?:(?P<target>[^.(]+)\.)?\((?P<args>.*)\) (?P<result>\S+)")


@cache
def overloads(name: str) -> tuple[Overload, ...]:
    """Return the overloads of a function; none if it is undeclared."""
    return tuple(_overload(form) for form in _TABLE[name].split(" | ")) if name in _TABLE else ()


def _overload(form: str) -> Overload:
    match = _FORM.fullmatch(form)
    if match is None:
        raise ValueError(f"no overload: {form}")
    target, args = match["target"], match["args"]
    params = tuple(_type(arg) for arg in args.split(", ")) if args else ()
    return Overload(target is not None, (_type(target), *params) if target else params, _type(match["result"]))


def _type(text: str) -> Type:
    name, _, inner = text.partition("<")
    params: list[str] = []
    depth, begin = 0, 0
    inner = inner[:-1]
    for at, sign in enumerate(inner):
        depth += (sign == "<") - (sign == ">")
        if sign == "," and not depth:
            params.append(inner[begin:at])
            begin = at + 1
    if inner:
        params.append(inner[begin:])
    return Type(_SHORT.get(name, name), tuple(_type(param) for param in params))
