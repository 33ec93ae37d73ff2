"""Rows of users: what they may hold, which of two counts, and what they make (whatif.md 3).

Beside `test_workload_rules.py`, of kinds that are known.
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.errors import InputError
from reprieve.simulation.workloads.expansion import expand
from reprieve.simulation.workloads.rows import read_rows
from reprieve.simulation.workloads.table import TABLE
from tests.simulation.test_workloads import FILE, TEMPLATE, loaded, made, pod

Json = dict[str, Any]


@pytest.mark.parametrize("field", ["replicas", "size", "default", "less"])
@pytest.mark.parametrize(("number", "good"), [(-1, False), (0, True), (1_000_000, True), (1_000_001, False)])
def test_both_sides_of_what_a_number_of_a_row_may_be(field: str, number: int, good: bool) -> None:
    text = FILE + f"- {{group: e.com, kind: X, sets: [{{}}, {{{field}: {number}}}]}}"
    if good:
        [row] = read_rows("f", text)
        assert getattr(row.sets[1], field) == number
        return
    with pytest.raises(InputError, match="0 to 1000000") as caught:
        read_rows("f", text)
    assert caught.value.path == f"workloadKinds[0].sets[1].{field}"


@pytest.mark.parametrize(("count", "good"), [(1_000, True), (1_001, False)])
def test_how_many_rows_a_file_may_have(count: int, good: bool) -> None:
    text = FILE + "".join(f"- {{group: e.com, kind: X{turn}, sets: [{{}}]}}\n" for turn in range(count))
    if good:
        assert len(read_rows("f", text)) == count
        return
    with pytest.raises(InputError, match="more than 1000 kinds"):
        read_rows("f", text)


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ("{group: e.com, sets: [{}]}", "workloadKinds[0]"),
        ('{group: e.com, kind: "", sets: [{}]}', "workloadKinds[0].kind"),
        ("{kind: X, sets: [{}, {makes: a b c}]}", "workloadKinds[0].sets[1].makes"),
        ("{kind: X, sets: [{owner: apps/v1 StatefulSet}]}", "workloadKinds[0].sets[0].owner"),
        ("{kind: X, sets: [{owner: 'apps/v1 StatefulSet {x}'}]}", "workloadKinds[0].sets[0].owner"),
        ("{kind: X, sets: [{hostname: '{'}]}", "workloadKinds[0].sets[0].hostname"),
        ("{kind: X, sets: [{labels: {a/b: '{0}'}}]}", "workloadKinds[0].sets[0].a/b"),
        ("{kind: X, sets: [{annotations: {c: '{name[0]}'}}]}", "workloadKinds[0].sets[0].c"),
        ("{kind: X, sets: {}}", "workloadKinds[0].sets"),
    ],
)
def test_row_that_is_wrong_is_named_with_its_field(row: str, place: str) -> None:
    """whatif.md 3.3."""
    with pytest.raises(InputError) as caught:
        read_rows("f", f"{FILE}- {row}")
    assert caught.value.path == place


@pytest.mark.parametrize(
    ("text", "document", "line"),
    [
        (FILE + "- {kind: X, sets: [{}]}\n---\nkind: Other\n", 2, 5),
        (FILE + "- {kind: X, sets: [{}]}\n---\na: {\n", 2, 7),
        ("a: b", 1, 1),
    ],
)
def test_error_of_a_row_has_its_document_and_line(text: str, document: int, line: int) -> None:
    with pytest.raises(InputError) as caught:
        read_rows("f", text)
    assert (caught.value.origin.document, caught.value.origin.line) == (document, line)


def test_later_row_counts_and_only_for_its_versions() -> None:
    """whatif.md 3.1."""
    row = "- {{group: e.com, kind: X, versions: [{}], suspended: {}, sets: [{{}}]}}\n"
    first, second, third = (read_rows("f", FILE + row.format(*each)) for each in (("", "a"), ("v2", "b"), ("v2", "c")))
    rows = TABLE.with_more([*first, *second])
    assert [getattr(rows.of(f"e.com/{version}", "X"), "suspended", None) for version in ("v1", "v2")] == ["a", "b"]
    more = rows.with_more(third)
    assert [getattr(more.of(f"e.com/{version}", "X"), "suspended", None) for version in ("v1", "v2")] == ["a", "c"]
    assert rows.with_more([]) is rows
    assert rows.of("e.com/v1", "Y") is rows.of("f.com/v1", "X") is None
    assert [each for each in more.kinds() if each[0] == "e.com"] == [("e.com", "X")]
    assert TABLE.of("kubeflow.org/v1", "MPIJob") != TABLE.of("kubeflow.org/v2beta1", "MPIJob")


def test_row_of_a_user_counts_before_the_rules_of_a_kind() -> None:
    """whatif.md 3.1: of the kinds that have rules of their own too."""
    text = (
        FILE + "- {group: batch, kind: Job, sets: [{each: spec, replicas: parallelism, name: '{name}-mine-{index}'}]}"
    )
    given = loaded(made("batch/v1", "Job", {"parallelism": 2, "completions": 1, "template": TEMPLATE}))
    found = expand(given, rows=TABLE.with_more(read_rows("f", text)))
    assert [one.object.name for one in found.manifests.pods] == ["x-mine-0", "x-mine-1"]


def test_set_that_a_row_makes_is_there_for_its_selector() -> None:
    """whatif.md 3.2: an object between, of a kind that a scheduler reads; its pods are made in turn."""
    text = FILE + "- {group: e.com, kind: X, sets: [{each: spec, makes: apps/v1 ReplicaSet, name: '{name}-set'}]}"
    inner = {"spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
    found = expand(loaded(made("e.com/v1", "X", {"template": inner})), rows=TABLE.with_more(read_rows("f", text)))
    assert [(one.object.KIND, one.object.name) for one in found.manifests.all()] == [
        ("ReplicaSet", "x-set"),
        ("Pod", "x-set-00000"),
        ("Pod", "x-set-00001"),
    ]


NESTED = (
    FILE
    + """- group: e.com
  kind: X
  sets:
  - {each: spec.inner, makes: e.com/v1 X, name: "{name}-c", optional: true}
  - {each: spec.pods, name: "{name}-{index}", optional: true}
"""
)


def nested(levels: int) -> Json:
    """The spec of an X that makes an X that makes ..., the last of which makes a pod."""
    spec: Json = {"pods": {"template": TEMPLATE}}
    for _ in range(levels):
        spec = {"inner": {"template": {"spec": spec}}}
    return spec


@pytest.mark.parametrize("in_the_input", [False, True])
@pytest.mark.parametrize(("levels", "good"), [(1, True), (6, True), (7, False)])
def test_objects_are_made_six_levels_deep(levels: int, good: bool, in_the_input: bool) -> None:
    """A bound for rows that make what they are of; an object of that name in the input is a level as well."""
    rows = TABLE.with_more(read_rows("f", NESTED))
    documents = [made("e.com/v1", "X", nested(levels - turn), name="x" + "-c" * turn) for turn in range(levels + 1)]
    given = loaded(*(documents if in_the_input else documents[:1]))
    if good:
        assert [one.object.name for one in expand(given, rows=rows).manifests.pods] == ["x" + "-c" * levels + "-0"]
        return
    with pytest.raises(InputError, match="makes objects more than 6 levels deep"):
        expand(given, rows=rows)


@pytest.mark.parametrize("field", ["owner: 'apps/v1 StatefulSet {name}'", "makes: batch/v1 Job", "makes: v1 Pod"])
def test_row_names_other_kinds_by_version_and_kind(field: str) -> None:
    [row] = read_rows("f", f"{FILE}- {{group: e.com, kind: X, sets: [{{{field}}}]}}")
    name, _, value = field.partition(": ")
    assert getattr(row.sets[0], name) == value.strip("'")


@pytest.mark.parametrize("name", ["{name}-{index}", "{name}-"], ids=["by index", "made up"])
@pytest.mark.parametrize(("there", "more"), [(0, 6), (1, 5), (2, 4), (3, 3), (4, 2), (6, 0)])
def test_missing_replicas_of_a_set_are_made(name: str, there: int, more: int) -> None:
    """whatif.md 1.1: of two replicas of three pods."""
    text = FILE + f"- {{group: e.com, kind: X, sets: [{{each: spec, replicas: 2, size: 3, name: '{name}'}}]}}"
    pods = [pod(f"x-{turn}", ("e.com/v1", "X", "x")) for turn in range(there)]
    given = loaded(made("e.com/v1", "X", {"template": TEMPLATE}), *pods)
    found = expand(given, rows=TABLE.with_more(read_rows("f", text))).manifests.pods
    assert len(found) == there + more
    if name.endswith("}"):
        assert [one.object.name for one in found] == [f"x-{turn}" for turn in range(6)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{group: e.com, sets: [{}]}", "object missing required field `kind`"),
        ("{kind: X, sets: {}}", "expected `array`, got `object`"),
    ],
)
def test_errors_of_rows_begin_with_a_small_letter(row: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_rows("f", f"{FILE}- {row}")
    assert caught.value.message == message
