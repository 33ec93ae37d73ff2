"""JSON patch (RFC 6902) and merge patch (RFC 7386)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_standin.patching import PatchError, json_patch, merge_patch
from kube_standin.schema.strict_json import MAX_DEPTH
from tests.recorded.oracle import needs_transcripts, transcript

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("obj", "ops", "result"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"l": [1, 3]}, [{"op": "add", "path": "/l/1", "value": 2}], {"l": [1, 2, 3]}),
        ({"l": [1]}, [{"op": "add", "path": "/l/-", "value": 2}], {"l": [1, 2]}),
        ({"l": [1, 2]}, [{"op": "remove", "path": "/l/0"}], {"l": [2]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": {"b": 1}}], {"a": {"b": 1}}),
        ({"a": {"b": 1}, "c": {}}, [{"op": "move", "from": "/a/b", "path": "/c/d"}], {"a": {}, "c": {"d": 1}}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),  # to where it is: no child of itself
        ({"a": 1, "c": {}}, [{"op": "move", "from": "/a", "path": "/c/d"}], {"c": {"d": 1}}),
        ({"l": [1, 2]}, [{"op": "copy", "from": "/l/1", "path": "/c"}], {"l": [1, 2], "c": 2}),
        ({"a": {"b": [1]}}, [{"op": "copy", "from": "/a/b", "path": "/c"}], {"a": {"b": [1]}, "c": [1]}),
        ({"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/m~0n"}], {}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
        ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
        ({"a": {"b": [1, {}]}}, [{"op": "test", "path": "/a", "value": {"b": [1, {}]}}], {"a": {"b": [1, {}]}}),
        ({"l": [1, 2]}, [{"op": "add", "path": "/l/2", "value": 3}], {"l": [1, 2, 3]}),
        ({"l": [1, 2]}, [{"op": "remove", "path": "/l/-1"}], {"l": [1]}),
        ({"l": [1, 2]}, [{"op": "replace", "path": "/l/1", "value": 3}], {"l": [1, 3]}),
        ({"l": [0] * 11}, [{"op": "remove", "path": "/l/10"}], {"l": [0] * 10}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/a/c"}], {"a": {"c": 1}}),
        ({"a": 1}, [{"op": "add", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_operations_of_rfc_6902(obj: Json, ops: list[Json], result: Json) -> None:
    before = copy.deepcopy(obj)
    assert json_patch(obj, ops) == result
    assert obj == before


@pytest.mark.parametrize(
    "ops",
    [
        [{"op": "test", "path": "/a", "value": True}],
        [{"op": "test", "path": "/a", "value": "1"}],
        [{"op": "remove", "path": "/nosuch"}],
        [{"op": "replace", "path": "/nosuch", "value": 1}],
        [{"op": "add", "path": "/x/y", "value": 1}],
        [{"op": "add", "path": "/l/5", "value": 1}],
        [{"op": "add", "path": "/l/01", "value": 1}],
        [{"op": "add", "path": "/l/x", "value": 1}],
        [{"op": "add", "path": "/l"}],
        [{"op": "move", "from": "/o", "path": "/o/p"}],
        [{"op": "move", "from": "/o", "path": "/o/p/q"}],
        [{"op": "copy", "from": "/l/1", "path": "/b"}],
        [{"op": "test", "path": "/l/1", "value": None}],
        [{"op": "frob", "path": "/a"}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": "", "value": 1}],
        [{"path": "/a"}],
        *(
            [{"op": "test", "path": path, "value": value}]
            for path in ("/a", "/l", "/o")
            for value in ("x", [2], {"x": 1})
        ),
        *([{"op": "test", "path": path, "value": None}] for path in ("/a", "/l", "/o")),
        [{"op": "test", "path": "/l", "value": {}}],
        [{"op": "test", "path": "/o", "value": []}],
        [{"op": "test", "path": "/l", "value": [1, 1]}],
        [{"op": "test", "path": "/l", "value": [True]}],
        [{"op": "test", "path": "/x/y", "value": None}],
        [{"op": "test", "path": "/a/b", "value": None}],
        [{"op": "replace", "path": "/a"}],
        [{"op": "test", "path": "/a"}],
        [{"op": "remove", "path": ""}],
        [{"op": "add", "path": "/l/2", "value": 1}],
        [{"op": "replace", "path": "/l/1", "value": 1}],
        [{"op": "replace", "path": "/l/-", "value": 1}],
        [{"op": "remove", "path": "/l/-2"}],
        [{"op": "remove", "path": "/l/1000000000"}],
        [{"op": "remove", "path": "/a/b"}],
        [{"op": "add", "path": "/a/b", "value": 1}],
        [{"op": "copy", "from": 5, "path": "/b"}],
        [{"op": "copy", "path": "/b"}],
        [{"op": "remove", "path": 5}],
    ],
)
def test_failed_operation_is_422_and_leaves_the_object_alone(ops: list[Json]) -> None:
    obj: Json = {"a": 1, "l": [1], "o": {}}
    before = copy.deepcopy(obj)
    with pytest.raises(PatchError) as caught:
        json_patch(obj, ops)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert obj == before


def test_result_shares_nothing_with_the_patch() -> None:
    value: Json = {"x": 1}
    patched = json_patch({}, [{"op": "add", "path": "/a", "value": value}, {"op": "copy", "from": "/a", "path": "/b"}])
    patched["a"]["x"] = 2
    assert (value, patched["b"]) == ({"x": 1}, {"x": 1})


def test_copies_are_bounded() -> None:
    ops = [{"op": "add", "path": "/a", "value": ["x" * 100_000]}]
    ops += [{"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(30)]
    with pytest.raises(PatchError) as caught:
        json_patch({}, ops)
    assert caught.value.code == 413
    assert json_patch({}, [{"op": "test", "path": "", "value": {}}] * 10_000) == {}
    with pytest.raises(PatchError) as caught:
        json_patch({}, [{"op": "test", "path": "", "value": {}}] * 10_001)
    assert caught.value.code == 413


@pytest.mark.parametrize(
    "value",
    ["x" * 100_000, ["x" * 100_000], {"k": "x" * 100_000}, {"x" * 100_000: 1}, [{"k": [{"l": "x" * 100_000}]}]],
    ids=["text", "list", "object", "key", "nested"],
)
@pytest.mark.parametrize("kind", ["copy", "test"])
def test_cost_of_copying_and_comparing_counts_contents(kind: str, value: Any) -> None:
    """3 MiB in one patch, whatever the parts consist of: copies can double a document time and again."""

    def times(count: int) -> list[Json]:
        one = {"copy": {"op": "copy", "from": "/a", "path": "/b"}, "test": {"op": "test", "path": "/a", "value": value}}
        return [one[kind]] * count

    # A comparison also brings a value of its own, which weighs as much again.
    fits = 30 if kind == "copy" else 15
    assert json_patch({"a": value}, times(fits))["a"] == value
    with pytest.raises(PatchError) as caught:
        json_patch({"a": value}, times(fits + 2))
    assert caught.value.code == 413


@needs_transcripts
@pytest.mark.parametrize("number", [245, 246, 247, 249])
def test_failures_read_like_the_recorded_ones(number: int) -> None:
    one = transcript(number)
    live: Json = {"metadata": {"labels": {"app": "a"}}, "spec": {}}
    with pytest.raises(PatchError) as caught:
        json_patch(live, one.body)
    assert (caught.value.code, caught.value.reason) == (one.status, one.answer["reason"])
    assert caught.value.message == one.answer["message"]


@pytest.mark.parametrize("ops", [{}, "x", 1, None, [1], [{"op": "remove", "path": "/a"}, []]])
def test_body_that_is_no_list_of_operations_is_400(ops: Any) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch({"a": 1}, ops)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


def test_result_may_be_no_deeper_than_a_body() -> None:
    """An object that is patched again and again could grow deeper than anything that reads it."""
    steps = MAX_DEPTH - 1
    ops = [{"op": "add", "path": "/a" * (n + 1), "value": {}} for n in range(steps)]
    assert json_patch({}, ops)
    with pytest.raises(PatchError, match="nested deeper") as caught:
        json_patch({}, [*ops, {"op": "add", "path": "/a" * (steps + 1), "value": {}}])
    assert caught.value.code == 422


@needs_transcripts
def test_body_of_another_type_reads_like_the_recorded_one() -> None:
    for number, change in ((248, json_patch), (255, merge_patch)):
        one = transcript(number)
        body = [] if number == 255 else one.body
        with pytest.raises(PatchError) as caught:
            change({}, body)
        assert (caught.value.code, caught.value.message) == (one.status, one.answer["message"])


@pytest.mark.parametrize(
    ("obj", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_of_rfc_7386(obj: Json, patch: Json, result: Json) -> None:
    before = copy.deepcopy(obj)
    assert merge_patch(obj, patch) == result
    assert obj == before


_JSON = st.recursive(
    st.booleans() | st.integers(0, 3) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)
_OBJECT = st.dictionaries(st.sampled_from("xyz"), _JSON, max_size=3)


@given(_OBJECT, _OBJECT)
def test_merging_twice_changes_nothing_more(obj: Json, patch: Json) -> None:
    once = merge_patch(obj, patch)
    assert merge_patch(once, patch) == once


@given(_OBJECT, _JSON)
def test_adding_and_removing_again_leads_back(obj: Json, value: Any) -> None:
    added = json_patch(obj, [{"op": "add", "path": "/new", "value": value}])
    assert json_patch(added, [{"op": "test", "path": "/new", "value": value}, {"op": "remove", "path": "/new"}]) == obj
