"""JSON, data that is written, and odd text, read as YAML 1.1 and 1.2 have it."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from kube_rules.yamltext import (
    YamlError,
    read_documents,
)
from reprieve.client.plain_yaml import yaml_texts
from tests.inputs.test_yamltext import read

Y11 = "tag:yaml.org,2002:"


PRINTABLE = st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp"))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(-1e20, 1e20).map(lambda number: int(number) if number.is_integer() else number),
    st.sampled_from(
        [
            "yes",
            "No",
            "on",
            "y",
            "0777",
            "1_000",
            "<<",
            "1e3",
            "~",
            "null",
            "2026-01-01",
            "100m",
            "",
            "a b",
            "_1",
            "=",
            "!",
        ]
    ),
    st.text(PRINTABLE, max_size=12),
)
KEYS = st.one_of(
    st.from_regex(r"[a-z][a-z/.-]{0,8}", fullmatch=True),
    st.sampled_from(["yes", "n", "1", "<<", "", "~", ".inf"]),
    st.text(PRINTABLE, max_size=6),
)
DATA = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


@given(st.dictionaries(KEYS, DATA, min_size=1, max_size=5), st.sampled_from([None, 2]))
@settings(max_examples=100)
def test_json_is_yaml(data: dict[str, Any], indent: int | None) -> None:
    (found,) = read(json.dumps(data, ensure_ascii=False, indent=indent))
    assert repr(found) == repr(data)


@given(st.dictionaries(KEYS, DATA, min_size=1, max_size=5))
@settings(max_examples=70)
def test_data_written_is_read_again(data: dict[str, Any]) -> None:
    (found,) = read("".join(yaml_texts([data])))
    assert repr(found) == repr(data)


@given(st.dictionaries(KEYS, DATA, max_size=5), st.sampled_from([None, False, True]))
@settings(max_examples=100)
def test_other_peoples_yaml_is_read_as_the_rules_say(data: dict[str, Any], flow: bool | None) -> None:
    text = yaml.dump(data, default_flow_style=flow, allow_unicode=True)
    assert outcome(text) == plainly(text)


WORDS = st.sampled_from(
    [
        *(
            "yes",
            "no",
            "y",
            "0777",
            "0o7",
            "1_0",
            "_1",
            "08",
            "1e3",
            ".5",
            "~",
            "x",
            "1",
            "true",
            "1e6",
            "-",
            "- ",
            "a: ",
        ),
        *(
            "a:",
            "b: ",
            "? ",
            "<<: ",
            "<<: [",
            ":",
            ", ",
            "[",
            "]",
            "{",
            "}",
            "{a: ",
            "'",
            '"',
            "&x ",
            "&x {a: 1}",
            "*x",
        ),
        *("!!str ", "!!int ", "!foo ", "&!", "#", " #", "%", "|", "|\n  ", ">-\n  ", "---\n", "...\n"),
        *("\n", "\n  ", "\n    ", "\n- ", "\nb: ", "\nc: *x", "\t", "\r\n"),
    ]
)


@given(st.lists(WORDS, max_size=16).map("".join))
@example("07771e3:")
@settings(max_examples=800)
def test_odd_text_is_read_as_the_rules_say(text: str) -> None:
    assume(text.count("&x") < 2)  # PyYAML's tree has no second anchor of a name, goyaml's has
    assert outcome(text) == plainly(text)


def outcome(text: str) -> str:
    try:
        return repr([document.data for document in read_documents(text)])
    except YamlError:
        return "refused"


class Tree(yaml.CBaseLoader):
    """PyYAML's node tree, with "plain" as the tag of what is to be resolved and "none" as that of all else."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        return "plain" if kind is yaml.ScalarNode and implicit[0] else "none"


def plainly(text: str) -> str:
    """What goyaml v2 and sigs.k8s.io/yaml make of the node tree; and what is refused here besides, tags for one."""
    try:
        found = [value_of(node) for node in yaml.compose_all(text, Loader=Tree) if node is not None]
    except (yaml.YAMLError, ValueError, RecursionError):
        return "refused"
    return repr([data for data in found if data is not None])


def value_of(node: Any) -> Any:
    if isinstance(node, yaml.ScalarNode):
        found = scalar_of(node)
        if isinstance(found, float):
            json.dumps(found, allow_nan=False)
            return int(found) if found.is_integer() and abs(found) < 1e21 else found
        return found
    if node.tag not in ("none", Y11 + ("seq" if isinstance(node, yaml.SequenceNode) else "map")):
        raise ValueError("a foreign tag")
    if isinstance(node, yaml.SequenceNode):
        return [value_of(each) for each in node.value]
    built: dict[str, Any] = {}
    explicit: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ValueError("a key that is no text")
        if key.tag == "plain" and key.value == "<<":
            for each in reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(each, yaml.MappingNode):
                    raise ValueError("not a mapping to merge")
                built.update(value_of(each))
            continue
        name = key_of(scalar_of(key))
        if name in explicit:
            raise ValueError("a key twice")
        explicit.add(name)
        built[name] = value_of(value)
    return built


def scalar_of(node: Any) -> Any:
    if node.tag in ("none", Y11 + "str"):
        return node.value
    if node.tag == "plain":
        return resolved(node.value)
    if node.tag == Y11 + "int" and type(resolved(node.value)) is int:
        return resolved(node.value)
    raise ValueError("a foreign tag, or one of another type")


def resolved(text: str) -> Any:
    for value, words in {True: "y yes on true", False: "n no off false", None: "null"}.items():
        if text in {form for word in words.split() for form in (word, word.capitalize(), word.upper())}:
            return value
    if text in ("", "~"):
        return None
    if text.lower() in (".nan", ".inf", "+.inf", "-.inf"):
        return float(text.replace(".", ""))
    if text[0] in "+-.0123456789":
        if text.startswith(".") and re.search("_[^0-9]|[^0-9]_|_$", text):
            return text
        plain = text.replace("_", "")
        if re.fullmatch("[-+]?0[0-7]+", plain):
            return int(plain, 8)
        if re.fullmatch("[-+]?([0-9]+|0x[0-9a-f]+|0o[0-7]+|0b[01]+)", plain, re.IGNORECASE):
            try:
                number = int(plain, 0)
                return number if plain.strip("+-").startswith("0") or -(2**63) <= number < 2**64 else float(number)
            except ValueError:  # 08
                return float(plain)
        if re.fullmatch(r"[-+]?([.][0-9]+|[0-9]+([.][0-9]*)?)(e[-+]?[0-9]+)?", plain, re.IGNORECASE):
            return text if math.isinf(float(plain)) else float(plain)
    return text


def key_of(data: Any) -> str:
    if isinstance(data, bool):
        return str(data).lower()
    if isinstance(data, float) and abs(data) > 3.41e38:
        return ".inf" if data > 0 else "-.inf"
    if isinstance(data, float):  # a 32-bit float has about seven digits
        if abs(data) >= 1e6:
            mantissa, _, exponent = f"{data:.6e}".partition("e")
            return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"
        return str(int(data)) if data.is_integer() else f"{data:.7g}"
    if isinstance(data, int | str):
        return str(data)
    raise ValueError("a key that is no text")
