"""Selectors: apimachinery labels and fields, component-helpers nodeaffinity."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from kube_rules.selectors import (
    MAX_TERMS,
    MAX_VALUES,
    NOTHING,
    LabelMatcher,
    Requirement,
    Selector,
    SelectorError,
    compile_label_selector,
    compile_match_labels,
    compile_node_selector,
    field_value,
    parse_field_selector,
    parse_integer,
    parse_label_selector,
)


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a=", {"a": ""}, True),
        ("c!=d", {}, True),  # != holds without the key
        ("c!=d", {"c": "d"}, False),
        ("e in (x,y)", {"e": "y"}, True),
        ("e in (x, y)", {"e": "z"}, False),
        ("e in (x,)", {"e": ""}, True),  # an empty value may be listed
        ("e notin (x,y)", {}, True),
        ("e notin (x,y)", {"e": "x"}, False),
        ("f", {"f": ""}, True),
        ("!f", {"f": "1"}, False),
        ("! f", {}, True),
        ("g>1", {"g": "2"}, True),
        ("g>1", {"g": "x"}, False),
        ("g<1", {"g": "0"}, True),
        ("in in (in)", {"in": "in"}, True),
        ("a=b,c!=d,e in (x,y),!f,g>1", {"a": "b", "e": "x", "g": "10"}, True),
        ("a=b,c!=d,e in (x,y),!f,g>1", {"a": "b", "e": "x", "g": "1"}, False),
        ("example.com/a=b", {"example.com/a": "b"}, True),
    ],
)
def test_text_as_kubectl_sends_it(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_label_selector(text).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app in a", "unable to parse requirement: found 'a' expected: '('"),  # a recorded answer
        ("app=-bad-", 'unable to parse requirement: values[0][app]: Invalid value: "-bad-": a valid label'),
        ("-x", 'unable to parse requirement: key: Invalid value: "-x"'),
        ("a=b,", "expected: identifier"),
        ("a b", "found 'b', expected: in,notin"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a>x", "the value must be an integer"),
        ("a in (x y)", "expected: ',', or ')'"),
        ("a in (x", "expected: ',', or ')'"),
        ("=", "expected: identifier"),
        ("a=" * 40_000, "longer than"),
    ],
)
def test_text_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert message in str(caught.value)


WORDS = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True)
REQUIREMENTS = st.one_of(
    st.builds(
        Requirement, WORDS, st.sampled_from(["In", "NotIn"]), st.lists(WORDS, min_size=1, unique=True).map(tuple)
    ),
    st.builds(Requirement, WORDS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Requirement, WORDS, st.sampled_from(["Gt", "Lt"]), st.tuples(st.integers(-99, 99).map(str))),
)


@given(st.lists(REQUIREMENTS), st.dictionaries(WORDS, st.one_of(WORDS, st.integers(-99, 99).map(str))))
def test_selector_survives_being_written_and_read(found: list[Requirement], labels: dict[str, str]) -> None:
    selector = Selector(tuple(found))
    assert parse_label_selector(str(selector)).matches(labels) == selector.matches(labels)


NUMBERS = st.sampled_from(["1", "2", "-3", "x", str(2**63 - 1), str(-(2**63)), ""])


@given(
    st.lists(
        st.builds(
            Requirement,
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
            st.lists(NUMBERS, max_size=2).map(tuple),
        ),
        max_size=5,
    ),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e"]), NUMBERS),
)
def test_compiled_selector_matches_what_the_selector_does(found: list[Requirement], labels: dict[str, str]) -> None:
    selector = Selector(tuple(found))
    assert LabelMatcher(selector)(labels) is selector.matches(labels)
    assert not LabelMatcher(NOTHING)(labels)


class CountedLabels(dict[str, str]):
    """Labels that count how often they are asked for one."""

    asked = 0

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.asked += 1
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.asked += 1
        return super().__getitem__(key)


@pytest.mark.parametrize(
    "term", ["a{}=b", "a{}!=b", "!a{}", "a{}", "a{} in (b,c)", "a{} notin (b,c)", "a{}>1", "l0,l0 notin (v{})"]
)
def test_compiled_selector_takes_as_long_as_the_labels_are_many(term: str) -> None:
    """interfaces.md 5.7: not as the terms are."""
    selector = parse_label_selector(",".join(term.format(number) for number in range(MAX_TERMS // 2)))
    labels = CountedLabels({f"l{number}": "v" for number in range(5)})
    LabelMatcher(selector)(labels)
    assert labels.asked <= 2 * len(labels)


class CountedText(str):
    """A label value that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_values_of_a_requirement_are_looked_up(operator: str) -> None:
    """interfaces.md 5.7: not compared one by one."""
    values = tuple(f"v{number}" for number in range(1000))
    compiled = compile_label_selector(
        LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator=operator, values=values),))
    )
    CountedText.compared = 0
    for number in range(2000):
        assert compiled.matches({"a": CountedText(f"v{number}")}) == ((number < 1000) == (operator == "In"))
    assert CountedText.compared <= 2 * 2000
    assert compiled.requirements[0].values == values


def test_requirements_of_an_object_take_as_long_as_the_labels_are_many() -> None:
    """interfaces.md 5.7: those of the labelSelector of a budget, say."""
    expressions = tuple(
        LabelSelectorRequirement(key=f"l{number % 5}", operator="NotIn", values=(f"no{number}",))
        for number in range(1000)
    )
    compiled = compile_label_selector(LabelSelector(match_expressions=expressions))
    labels = CountedLabels({f"l{number}": "v" for number in range(5)})
    assert compiled.matches(labels)
    assert labels.asked <= 2 * len(labels)
    assert not compiled.matches({"l4": "no999"})
    rules = tuple(NodeSelectorRequirement(key=one.key, operator=one.operator, values=one.values) for one in expressions)
    terms = compile_node_selector(NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=rules),)))
    labels.asked = 0
    assert terms.matches(labels, "node")
    assert labels.asked <= 2 * len(labels)
    assert not terms.matches({"l4": "no999"}, "node")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (",".join(["a"] * MAX_TERMS), ""),
        (",".join(["a"] * (MAX_TERMS + 1)), "more than 1000 requirements"),
        ("a in (" + ",".join(str(n) for n in range(MAX_VALUES)) + ")", ""),
        ("a in (" + ",".join(str(n) for n in range(MAX_VALUES + 1)) + ")", "more than 4000 values"),
        ("a in (" + "," * MAX_VALUES + ")", "more than 4000 values"),
        (",".join(["a in (b,c)"] * 501), ""),
    ],
)
def test_terms_of_a_selector_are_bounded(text: str, problem: str) -> None:
    """interfaces.md 5.7."""
    if not problem:
        parse_label_selector(text)
        return
    with pytest.raises(SelectorError, match=problem):
        parse_label_selector(text)


def test_terms_of_a_field_selector_are_bounded() -> None:
    assert len(parse_field_selector(",".join(["a=b"] * MAX_TERMS)).requirements) == MAX_TERMS
    with pytest.raises(SelectorError, match="more than 1000 requirements"):
        parse_field_selector(",".join(["a=b"] * (MAX_TERMS + 1)))


@pytest.mark.parametrize(
    "text", ["x" * 60_000, "=" * 60_000, "a=" + "\\x" * 30_000, "a=" + "b=" * 30_000, "x y" * 20_000]
)
def test_refused_selector_is_quoted_in_excerpts(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        with pytest.raises(SelectorError) as refused:
            parse(text)
        assert len(str(refused.value)) < 1200


@given(st.text(alphabet="ab=!<>(), in", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(SelectorError):  # nothing else may be raised
        assert parse_label_selector(text).matches({"a": "b"}) in (True, False)


def test_absent_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not compile_label_selector(None).matches({})
    assert compile_label_selector(LabelSelector()).matches({"a": "b"})
    assert compile_label_selector(LabelSelector()).everything
    assert compile_match_labels({}).matches({})


def test_match_labels_and_expressions_all_hold() -> None:
    selector = compile_label_selector(
        LabelSelector(
            match_labels={"app": "a"},
            match_expressions=(LabelSelectorRequirement(key="tier", operator="NotIn", values=("x",)),),
        )
    )
    assert selector.matches({"app": "a"})
    assert not selector.matches({"app": "a", "tier": "x"})
    assert not selector.matches({"tier": "y"})
    assert [requirement.key for requirement in selector.requirements] == ["app", "tier"]


def test_unknown_operator_is_refused() -> None:
    broken = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Gt", values=("1",)),))
    with pytest.raises(SelectorError):
        compile_label_selector(broken)


def _term(operator: str, *values: str, field: bool = False) -> NodeSelectorTerm:
    requirement = NodeSelectorRequirement(key="metadata.name" if field else "k", operator=operator, values=values)
    return (
        NodeSelectorTerm(match_fields=(requirement,)) if field else NodeSelectorTerm(match_expressions=(requirement,))
    )


@pytest.mark.parametrize(
    ("terms", "labels", "matches"),
    [
        ((), {"k": "1"}, False),  # no term, no node
        ((NodeSelectorTerm(),), {"k": "1"}, False),  # an empty term matches no node
        ((_term("Gt", "5"),), {"k": "6"}, True),
        ((_term("Gt", "5"),), {"k": "5"}, False),
        ((_term("Lt", "5"),), {"k": "-6"}, True),
        ((_term("Lt", "5"),), {"k": "x"}, False),
        ((_term("Lt", "5"),), {}, False),
        ((_term("Lt", "5"),), {"k": "9" * 30}, False),  # not an int64
        ((_term("DoesNotExist"),), {}, True),
        ((_term("In", "a"), _term("In", "n1", field=True)), {"k": "b"}, True),  # one of the terms
        ((_term("NotIn", "n1", field=True),), {}, False),
    ],
)
def test_node_selectors(terms: tuple[NodeSelectorTerm, ...], labels: dict[str, str], matches: bool) -> None:
    compiled = compile_node_selector(NodeSelector(node_selector_terms=terms))
    assert compiled.matches(labels, "n1") is matches


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=p1", True),
        ("metadata.name==p1,status.phase!=Failed", True),
        ("spec.nodeName=", True),  # absent reads as empty
        ("spec.nodeName!=", False),
        ("spec.hostNetwork=true", True),
        (r"metadata.note=a\,b\=c\\d", True),
        ("metadata.name!=p1", False),
    ],
)
def test_field_selectors(text: str, matches: bool) -> None:
    manifest = {
        "metadata": {"name": "p1", "note": "a,b=c\\d"},
        "spec": {"hostNetwork": True},
        "status": {"phase": "Running"},
    }
    assert parse_field_selector(text).matches(manifest) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "metadata.name in (p1)",
            "invalid selector: 'metadata.name in (p1)'; can't understand 'metadata.name in (p1)'",
        ),
        (r"a=\x", "invalid escape sequence"),
        ("a=b=c", "unescaped '='"),
    ],
)
def test_field_selectors_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-5", -5),
        ("+5", 5),
        ("007", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        (str(-(2**63)), -(2**63)),
        (str(-(2**63) - 1), None),
        ("0" * 19, 0),
        ("0" * 20, None),
        ("", None),
        ("5.0", None),
        (" 5", None),
        ("٥", None),
    ],
)
def test_integers_of_labels(text: str, number: int | None) -> None:
    """strconv.ParseInt with 64 bits, but for digits in vast numbers."""
    assert parse_integer(text) == number


OPERATORS = [
    # operator, values, what a label's value does: absent, "", "5", "6", "x"
    ("In", ("5", "6"), "-- 5 6 -"),
    ("In", (), "-- - - -"),
    ("NotIn", ("5",), "ae - 6 x"),
    ("Exists", (), "-e 5 6 x"),
    ("DoesNotExist", (), "a- - - -"),
    ("Gt", ("5",), "-- - 6 -"),
    ("Lt", ("6",), "-- 5 - -"),
    ("Gt", ("x",), "-- - - -"),
    ("Gt", ("4", "5"), "-- - - -"),
    ("Lt", (), "-- - - -"),
]


@pytest.mark.parametrize(("operator", "values", "holds"), OPERATORS)
def test_operators_hold_for(operator: str, values: tuple[str, ...], holds: str) -> None:
    """labels.Requirement.Matches: `NotIn` also holds without the key, `Gt` and `Lt` only between integers."""
    requirement = Requirement("k", operator, values)
    expected = [mark != "-" for mark in holds.replace(" ", "")]
    given: list[dict[str, str]] = [{}, {"k": ""}, {"k": "5"}, {"k": "6"}, {"k": "x"}]
    assert [requirement.matches(labels) for labels in given] == expected
    assert [Selector((requirement,)).matches(labels) for labels in given] == expected


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a=b", "a in (b)"),
        ("b,a", "a,b"),  # by key
        ("a in (z,b,z)", "a in (b,z)"),
        ("a notin (b),!c,d", "a notin (b),!c,d"),
        ("a!=b", "a notin (b)"),
        ("a>5,b<6", "a>5,b<6"),
        ("a in (,b)", "a in (,b)"),
        ("", ""),
    ],
)
def test_selectors_are_written_in_one_way(text: str, written: str) -> None:
    assert str(parse_label_selector(text)) == written


def test_selector_of_nothing() -> None:
    nothing = compile_label_selector(None)
    assert str(nothing) == "<none>"
    assert nothing.nothing
    assert not nothing.everything
    assert not parse_label_selector("a").everything
    assert parse_label_selector("").everything


LONGEST = "a=" + "b" * 63


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b,,c", "found ',', expected: identifier after ','"),
        ("a=b,", "found '', expected: identifier after ','"),
        (",", "found ',', expected: identifier"),
        ("!", "found '', expected: identifier"),
        ("!!a", "found '!', expected: identifier"),
        ("!a b", "found 'b', expected: ',' or 'end of string'"),
        ("a==", None),
        ("a=,b", None),
        ("a=(", "found '(', expected: identifier"),
        ("a in", "found '' expected: '('"),
        ("a in b", "found 'b' expected: '('"),
        ("a in (b", "found '', expected: ',', or ')'"),
        ("a in (b=", "found '=', expected: ',', or ')'"),
        ("a in (b c)", "found 'c', expected: ',', or ')'"),
        ("a in ()", None),
        ("a notin (b,c) d", "found 'd', expected: ',' or 'end of string'"),
        ("a ~ b", "found '~', expected: in,notin,=,==,!=,gt,lt"),
        ("a>5", None),
        ("a>", "values[0][a]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a<x", "values[0][a]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a in (b,-)", 'values[1][a]: Invalid value: "-": a valid label'),
        ("a/b/c", 'key: Invalid value: "a/b/c": a qualified name'),
        (LONGEST, None),
        (LONGEST + "b", "must be no more than 63 bytes"),
        ("a" + " " * 65535, None),  # minutes, if the spaces were looked through from each of them
        ("a" + " " * 65536, "longer than 65536 characters"),
    ],
)
def test_where_a_selector_is_wrong(text: str, message: str | None) -> None:
    if message is None:
        parse_label_selector(text)
        return
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert str(caught.value).startswith("unable to parse requirement: ")
    assert message in str(caught.value)


MANIFEST = {"a": {"b": "c", "n": None, "t": True, "f": False, "i": 7, "l": []}, "s": "x"}


@pytest.mark.parametrize(
    ("path", "value"),
    [("a.b", "c"), ("a.n", ""), ("a.t", "true"), ("a.f", "false"), ("a.i", "7"), ("a.x", ""), ("s.x", ""), ("s", "x")],
)
def test_text_of_a_field(path: str, value: str) -> None:
    assert field_value(MANIFEST, path) == value


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", []),
        (",a=b,,", [("a", True, "b")]),
        ("a==b,c!=d", [("a", True, "b"), ("c", False, "d")]),
        (r"a=b\,c\=d\\", [("a", True, r"b,c=d\\"[:-1])]),
        ("a=", [("a", True, "")]),
        ("=b", [("", True, "b")]),
    ],
)
def test_field_selectors_are_read_part_by_part(text: str, requirements: list[tuple[str, bool, str]]) -> None:
    assert [tuple(one) for one in parse_field_selector(text).requirements] == requirements


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "can't understand 'a'"),
        ("a=b,c", "can't understand 'c'"),
        ("a=b=c", "unescaped '='"),
        (r"a=b\\=c", "unescaped '='"),
        ("a=b\\", "invalid escape sequence"),
        (r"a=\n", "invalid escape sequence"),
        ("a=" + "b" * 65535, "longer than 65536 characters"),
    ],
)
def test_where_a_field_selector_is_wrong(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert message in str(caught.value)
    parse_field_selector("a=" + "b" * 65534)


@pytest.mark.parametrize(
    ("expressions", "fields", "labels", "holds"),
    [
        (("k",), (), {"k": "1"}, True),
        (("k",), (), {}, False),
        (("k", "l"), (), {"k": "1"}, False),
        ((), ("n1",), {}, True),
        ((), ("n2",), {}, False),
        (("k",), ("n1",), {"k": "1"}, True),
        (("k",), ("n2",), {"k": "1"}, False),
        (("k",), ("n1",), {}, False),
    ],
)
def test_all_requirements_of_a_term_hold(
    expressions: tuple[str, ...], fields: tuple[str, ...], labels: dict[str, str], holds: bool
) -> None:
    term = NodeSelectorTerm(
        match_expressions=tuple(NodeSelectorRequirement(key=key, operator="Exists") for key in expressions),
        match_fields=tuple(
            NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,)) for name in fields
        ),
    )
    compiled = compile_node_selector(NodeSelector(node_selector_terms=(term,)))
    assert compiled.matches(labels, "n1") is holds
