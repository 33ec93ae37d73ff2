"""The parser: from the text of an expression to a tree.

Grammar: cel-spec, language definition. A scanner without backtracking and a recursive descent with bounded length and
depth (cel-go also stops at 250), for all causes of depth: parentheses, lists, chains of operators or of calls.

Macros (`has`, `all`, `exists`, `exists_one`, `map`, `filter`, `sortBy`, `transformList`, `transformMap`,
`transformMapEntry`, `optMap`, `optFlatMap`, `cel.bind`) have their own nodes, because their variables are names, not
values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kube_rules.cel.values import INT

MAX_LENGTH = 100_000
"""Maximum length of an expression in code points (cel-go's default)."""
ENTRY = "@entry"
"""The function around an entry of a literal; an optional entry without a value is left out."""
OPTIONAL_FIELD = "_?._"
"""The function of `a.?b`; its arguments are the operand and the name."""
MAX_DEPTH = 250
"""Maximum nesting of an expression (cel-go's default)."""
_MAX_NODES = 50_000


class CelSyntaxError(ValueError):
    """A text that is not an expression; `str()` names the position, in one line."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable, or the name of a type."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`; with `test` it is `has(operand.field)`."""

    operand: Node
    field: str
    test: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator (`_+_`, `!_`, `_[_]`, `@in`, ...); `target` for calls of the form `target.f(...)`."""

    function: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MakeList:
    """`[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MakeMap:
    """`{a: b}`."""

    entries: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class MakeMessage:
    """`Object.spec{a: b}`: the name of a type, and fields with their values."""

    type_name: str
    fields: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """A macro over a list or map: `macro`, its operand, one or two variables, an optional filter, a body."""

    macro: str
    over: Node
    variables: tuple[str, ...]
    condition: Node | None
    body: Node


@dataclass(frozen=True, slots=True)
class Bind:
    """`cel.bind(name, value, body)`."""

    name: str
    value: Node
    body: Node


Node = Literal | Ident | Select | Call | MakeList | MakeMap | MakeMessage | Fold | Bind

_SPACE = re.compile(r"(?:[\t\n\f\r ]+|//[^\n]*)*")
_NAME = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+[uU]?|(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
                     r"|\.[0-9]+(?:[eE][+-]?[0-9]+)?)|[0-9]+[uU]?")  # fmt: skip
_PREFIX = re.compile(r"(?:[rR][bB]?|[bB][rR]?)(?=[\"'])")
_SIGNS = ("&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
          "[", "]", "{", "}")  # fmt: skip
_LEVELS = (("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))
_LEVEL_OF = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
RESERVED = frozenset(
    [
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
"""Reserved words; no identifier can be one of them."""
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'",
            '"': '"', "`": "`", "?": "?"}  # fmt: skip
_FOLDS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter", "sortBy", "optMap", "optFlatMap"})
_TRANSFORMS = frozenset({"transformList", "transformMap", "transformMapEntry"})
_FOLDS_OF_TWO = frozenset({"all", "exists", "exists_one", "existsOne"}) | _TRANSFORMS
_NAMESPACES = {
    "format": frozenset(
        {
            "named", "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
            "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
        }
    ),
    "ip": frozenset({"isCanonical"}),
    "jsonpatch": frozenset({"escapeKey"}),
    "lists": frozenset({"range"}),
    "optional": frozenset({"of", "none", "ofNonZeroValue", "unwrap"}),
    "sets": frozenset({"contains", "intersects", "equivalent"}),
    "strings": frozenset({"quote"}),
}  # fmt: skip
"""Functions with a dot in their names; such a name takes precedence over a variable of the first part."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # "name", "value", "end", or the sign itself
    value: Any
    at: int


def parse(text: str) -> Node:
    """Return the tree of an expression. Raises CelSyntaxError."""
    if len(text) > MAX_LENGTH:
        raise CelSyntaxError(f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_LENGTH}")
    return _Parser(text, list(_tokens(text))).whole()


def identifiers(node: Node) -> set[str]:
    """Return the free names of an expression (without the variables of its macros)."""
    result: set[str] = set()
    pending: list[tuple[Node, frozenset[str]]] = [(node, frozenset())]
    while pending:
        current, bound = pending.pop()
        match current:
            case Ident(name):
                if name not in bound:
                    result.add(name)
            case Select(operand, _, _):
                pending.append((operand, bound))
            case Call(_, target, args):
                pending.extend((inner, bound) for inner in (target, *args) if inner is not None)
            case MakeList(items):
                pending.extend((inner, bound) for inner in items)
            case MakeMap(entries):
                pending.extend((inner, bound) for entry in entries for inner in entry)
            case MakeMessage(_, fields):
                pending.extend((inner, bound) for _, inner in fields)
            case Fold(_, over, variables, condition, body):
                pending.append((over, bound))
                inside = bound | set(variables)
                pending.extend((inner, inside) for inner in (condition, body) if inner is not None)
            case Bind(name, value, body):
                pending.append((value, bound))
                pending.append((body, bound | {name}))
            case _:
                pass
    return result


# -- scanning ---------------------------------------------------------------------------------------------------------


def _where(text: str, at: int) -> str:
    line = text.count("\n", 0, at)
    return f"line {line + 1}, column {at - (text.rfind(chr(10), 0, at) + 1) + 1}"


def _fault(text: str, at: int, why: str = "") -> CelSyntaxError:
    return CelSyntaxError(f"Syntax error at {_where(text, at)}{': ' + why if why else ''}")


def _tokens(text: str) -> Iterator[_Token]:
    at = _blank(text, 0)
    last = at
    while at < len(text):
        last = at
        prefix_match = _PREFIX.match(text, at)
        if prefix_match is not None or text[at] in "\"'":
            prefix = prefix_match.group().lower() if prefix_match is not None else ""
            value, at = _string(text, at, prefix)
            yield _Token("value", value, last)
        elif (name := _NAME.match(text, at)) is not None:
            at = name.end()
            word = name.group()
            if word in _WORDS:
                yield _Token("value", _WORDS[word], last)
            elif word == "in":
                yield _Token("in", word, last)
            else:
                yield _Token("name", word, last)
        elif (number := _NUMBER.match(text, at)) is not None:
            at = number.end()
            yield _Token("number", number.group(), last)
        else:
            sign = next((sign for sign in _SIGNS if text.startswith(sign, at)), None)
            if sign is None:
                raise _fault(text, at)
            at += len(sign)
            yield _Token(sign, sign, last)
        at = _blank(text, at)
    yield _Token("end", "", last)


def _blank(text: str, at: int) -> int:
    blank = _SPACE.match(text, at)
    return at if blank is None else blank.end()


def _string(text: str, start: int, prefix: str) -> tuple[str | bytes, int]:
    """Return the string or bytes literal that begins at `start`, and the position after it."""
    at = start + len(prefix)
    quote = text[at] * 3 if text.startswith(text[at] * 3, at) else text[at]
    at += len(quote)
    raw, octets = "r" in prefix, "b" in prefix
    parts: list[str] = []
    while True:
        if at >= len(text):
            raise _fault(text, start, "string is not closed")
        if text.startswith(quote, at):
            break
        sign = text[at]
        if sign == "\\" and not raw:
            value, at = _escape(text, at, octets)
            parts.append(value)
            continue
        if sign in "\r\n" and len(quote) == 1:
            raise _fault(text, start, "string is not closed")
        if sign == "\\":  # in a raw string it stands for itself and escapes a quote
            parts.append(sign)
            at += 1
            if at >= len(text):
                raise _fault(text, start, "string is not closed")
            sign = text[at]
        parts.append(sign)
        at += 1
    end = at + len(quote)
    if not octets:
        return "".join(parts), end
    try:
        # An escape of one octet is a lone surrogate, distinct from the characters.
        return "".join(parts).encode("utf-8", "surrogateescape"), end
    except UnicodeEncodeError:
        raise _fault(text, start, "not UTF-8") from None


def _escape(text: str, at: int, octets: bool) -> tuple[str, int]:
    sign = text[at + 1 : at + 2]
    if sign in _ESCAPES and sign:
        return _ESCAPES[sign], at + 2
    digits, base, begin = {"x": (2, 16, 2), "X": (2, 16, 2), "u": (4, 16, 2), "U": (8, 16, 2)}.get(sign, (3, 8, 1))
    code_digits = text[at + begin : at + begin + digits]
    end = at + begin + digits
    try:
        if len(code_digits) != digits or not code_digits.isalnum() or not code_digits.isascii():
            raise ValueError
        code = int(code_digits, base)
        if base == 8 and code > 0o377:
            raise ValueError
        if octets:
            if digits > 3:
                raise ValueError
            return (chr(code) if code < 0x80 else chr(0xDC00 + code)), end
        if 0xD800 <= code < 0xE000:
            raise ValueError
        return chr(code), end
    except ValueError:
        raise _fault(text, at, "unknown escape") from None


# -- parsing ----------------------------------------------------------------------------------------------------------


def _dotted(node: Node) -> str:
    """Return the dotted name of a chain of fields, "" for any other expression."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test:
        parts.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, Ident) else ""


class _Parser:
    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0
        self._depth = 0
        if len(tokens) > _MAX_NODES:
            raise CelSyntaxError(f"expression has more than {_MAX_NODES} parts")

    def whole(self) -> Node:
        node = self._expression()
        if self._peek() != "end":
            raise self._unexpected()
        return node

    def _peek(self) -> str:
        return self._tokens[self._next].kind

    def _take(self, kind: str) -> Any:
        token = self._tokens[self._next]
        if token.kind != kind:
            raise self._unexpected()
        self._next += 1
        return token.value

    def _accept(self, kind: str) -> bool:
        if self._tokens[self._next].kind == kind:
            self._next += 1
            return True
        return False

    def _unexpected(self) -> CelSyntaxError:
        return _fault(self._text, self._tokens[self._next].at)

    def _deeper(self, levels: int = 1) -> None:
        self._depth += levels
        if self._depth > MAX_DEPTH:
            raise CelSyntaxError(f"expression recursion limit exceeded: {MAX_DEPTH}")

    def _expression(self, level: int = 0, *, choice: bool = True) -> Node:
        """Parse operators of `level` and tighter ones; they group to the left, and the depth of a chain is its length.

        Between `?` and `:` a second `? :` needs parentheses (`choice`).
        """
        self._deeper()
        node = self._operand()
        chain = 0
        while (found_level := _LEVEL_OF.get(self._peek(), -1)) >= level:
            operator = self._tokens[self._next].kind
            if operator in ("&&", "||"):
                node = self._joined(operator, node, found_level + 1)
                continue
            self._next += 1
            right = self._expression(found_level + 1)
            chain += 1
            self._deeper()
            node = Call("@in" if operator == "in" else f"_{operator}_", None, (node, right))
        if level == 0 and choice and self._accept("?"):
            yes = self._expression(choice=False)
            self._take(":")
            node = Call("_?_:_", None, (node, yes, self._expression()))
        self._depth -= chain + 1
        return node

    def _joined(self, operator: str, left: Node, level: int) -> Node:
        """Parse `a && b && c` as one call of three: long chains of conditions are common and add no depth."""
        function = f"_{operator}_"
        args = list(left.args) if isinstance(left, Call) and left.function == function else [left]
        while self._accept(operator):
            args.append(self._expression(level))
        return Call(function, None, tuple(args))

    def _operand(self) -> Node:
        """Parse signs, a primary expression, and its fields, indexes and calls."""
        signs: list[str] = []
        while self._peek() in ("!", "-"):
            signs.append(self._peek())
            self._next += 1
        negative = bool(signs) and signs[-1] == "-" and self._peek() == "number"
        if negative:  # the sign belongs to the number: the lowest integer has no positive counterpart
            signs.pop()
        if self._accept("("):
            node = self._expression()
            self._take(")")
        else:
            node = self._primary("-" if negative else "")
        chain = 0
        while True:
            if self._accept("."):
                if self._accept("?"):
                    node = Call(OPTIONAL_FIELD, None, (node, Literal(self._take("name"))))
                    chain += 1
                    self._deeper()
                    continue
                name = self._take("name")
                node = self._method(node, name) if self._peek() == "(" else Select(node, name)
            elif self._accept("["):
                function = "_[?_]" if self._accept("?") else "_[_]"
                index = self._expression()
                self._take("]")
                node = Call(function, None, (node, index))
            elif self._peek() == "{" and (type_name := _dotted(node)):
                node = self._message(type_name)
            else:
                break
            chain += 1
            self._deeper()
        self._depth -= chain
        if len(signs) > MAX_DEPTH:
            self._deeper(len(signs))
        for sign in reversed(signs):
            if isinstance(node, Call) and node.function == f"{sign}_":
                node = node.args[0]  # two negations cancel out
            else:
                node = Call(f"{sign}_", None, (node,))
        return node

    def _primary(self, sign: str) -> Node:
        kind = self._peek()
        if kind == "number":
            return Literal(self._number(sign))
        if kind == "value":
            return Literal(self._take("value"))
        if self._accept("["):
            return MakeList(self._listed("]", entries=True))
        if self._accept("{"):
            return self._map()
        self._accept(".")
        if self._peek() != "name" or self._tokens[self._next].value in RESERVED:
            raise self._unexpected()
        name = self._take("name")
        if not self._accept("("):
            return Ident(name)
        args = self._listed(")")
        if name == "has":
            if len(args) != 1 or not isinstance(args[0], Select):
                raise CelSyntaxError("invalid argument to has() macro")
            return Select(args[0].operand, args[0].field, test=True)
        return Call(name, None, args)

    def _listed(self, close: str, *, entries: bool = False) -> tuple[Node, ...]:
        self._deeper(2)
        result: list[Node] = []
        while not self._accept(close):
            result.append(self._optional_entry() if entries and self._accept("?") else self._expression())
            if not self._accept(","):
                self._take(close)
                break
        self._depth -= 2
        return tuple(result)

    def _optional_entry(self) -> Node:
        return Call(ENTRY, None, (self._expression(),))

    def _map(self) -> Node:
        self._deeper(2)
        entries: list[tuple[Node, Node]] = []
        while not self._accept("}"):
            optional = self._accept("?")
            key = self._expression()
            self._take(":")
            entries.append((key, self._optional_entry() if optional else self._expression()))
            if not self._accept(","):
                self._take("}")
                break
        self._depth -= 2
        return MakeMap(tuple(entries))

    def _message(self, type_name: str) -> Node:
        self._deeper(2)
        self._take("{")
        fields: dict[str, Node] = {}
        while not self._accept("}"):
            optional = self._accept("?")
            name = self._take("name")
            self._take(":")
            if name in fields:
                raise CelSyntaxError(f"repeated field: {name}")
            fields[name] = self._optional_entry() if optional else self._expression()
            if not self._accept(","):
                self._take("}")
                break
        self._depth -= 2
        return MakeMessage(type_name, tuple(fields.items()))

    def _method(self, target: Node, name: str) -> Node:
        self._take("(")
        args = self._listed(")")
        if name == "bind" and target == Ident("cel") and len(args) == 3:
            if not isinstance(args[0], Ident):
                raise CelSyntaxError("cel.bind() variable name must be a simple identifier")
            return Bind(args[0].name, args[1], args[2])
        if isinstance(target, Ident) and name in _NAMESPACES.get(target.name, ()):
            return Call(f"{target.name}.{name}", None, args)
        if len(args) == 3 and name in _FOLDS_OF_TWO and isinstance(args[1], Ident):
            return Fold(name, target, (self._variable(args[0]), self._variable(args[1])), None, args[2])
        if len(args) == 4 and name in _TRANSFORMS:
            return Fold(name, target, (self._variable(args[0]), self._variable(args[1])), args[2], args[3])
        if len(args) == 2 and name in _FOLDS:
            return Fold(name, target, (self._variable(args[0]),), None, args[1])
        if len(args) == 3 and name == "map":
            return Fold(name, target, (self._variable(args[0]),), args[1], args[2])
        return Call(name, target, args)

    @staticmethod
    def _variable(node: Node) -> str:
        if not isinstance(node, Ident):
            raise CelSyntaxError("argument must be a simple name")
        return node.name

    def _number(self, sign: str) -> Any:
        from kube_rules.cel.values import Uint

        at = self._tokens[self._next].at
        literal = self._take("number")
        if literal[:2] != "0x" and any(mark in literal for mark in ".eE"):
            return float(sign + literal)
        unsigned = literal[-1] in "uU"
        digits = literal.rstrip("uU")
        if len(digits) > 20:
            raise _fault(self._text, at, "invalid int literal")
        number = int(digits, 16 if digits[:2] == "0x" else 10)
        if unsigned:
            if number >= 2 * INT or sign:
                raise _fault(self._text, at, "invalid uint literal")
            return Uint(number)
        number = -number if sign else number
        if not -INT <= number < INT:
            raise _fault(self._text, at, "invalid int literal")
        return number
