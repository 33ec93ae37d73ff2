"""Strategic merge patch: keyed lists, directives and the order of merged lists (transcripts 117 to 123, 260
to 267).
"""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_standin.patching import PatchError, strategic_merge
from kube_standin.patching.strategic import go_map
from kube_standin.schema import schema_for
from tests.recorded.oracle import needs_transcripts, transcript

Json = dict[str, Any]
POD = schema_for("v1", "Pod")
NODE = schema_for("v1", "Node")
DEPLOYMENT = schema_for("apps/v1", "Deployment")


def containers(*names: str) -> Json:
    return {"spec": {"containers": [{"name": name, "image": "i"} for name in names]}}


@pytest.mark.parametrize(
    ("live", "patch", "result"),
    [
        # Containers merge by name; what the patch does not name stays.
        (containers("a", "b"), {"spec": {"containers": [{"name": "b", "image": "j"}]}},
         {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}}),
        # A new item comes first: it has no place in the live order (transcript 118).
        (containers("a"), {"spec": {"containers": [{"name": "n", "image": "j"}]}},
         {"spec": {"containers": [{"name": "n", "image": "j"}, {"name": "a", "image": "i"}]}}),
        # $setElementOrder decides.
        (containers("a", "b"), {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                                         "containers": [{"name": "a", "image": "j"}]}},
         {"spec": {"containers": [{"name": "b", "image": "i"}, {"name": "a", "image": "j"}]}}),
        (containers("a", "b"), {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
         {"spec": {"containers": [{"name": "b", "image": "i"}, {"name": "a", "image": "i"}]}}),
        # What it lists that is in no list stands nowhere, whatever it is.
        (containers("a", "b"), {"spec": {"$setElementOrder/containers": [["x"], {"name": {}}, {"name": "b"}, 5],
                                         "containers": [{"name": "b"}]}}, containers("a", "b")),
        ({"metadata": {"finalizers": ["a", "b", "c"]}},
         {"metadata": {"$setElementOrder/finalizers": [["a"], "c", {"b": 1}, "b"], "finalizers": ["c"]}},
         {"metadata": {"finalizers": ["a", "c", "b"]}}),
        # Deletion by key, replacement of the whole list.
        (containers("a", "b"), {"spec": {"containers": [{"$patch": "delete", "name": "a"}]}}, containers("b")),
        (containers("a", "b"), {"spec": {"containers": [{"$patch": "replace"}, {"name": "c", "image": "i"}]}},
         containers("c")),
        # Lists without a merge key are replaced.
        ({"spec": {"tolerations": [{"key": "a"}]}}, {"spec": {"tolerations": [{"key": "b"}]}},
         {"spec": {"tolerations": [{"key": "b"}]}}),
        # Lists of plain values that merge are sets.
        ({"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["b", "c"]}},
         {"metadata": {"finalizers": ["a", "b", "c"]}}),
        ({"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
         {"metadata": {"finalizers": ["b"]}}),
        # null removes, objects merge, $patch on a map.
        ({"metadata": {"labels": {"a": "1", "b": "2"}}}, {"metadata": {"labels": {"a": None, "c": "3"}}},
         {"metadata": {"labels": {"b": "2", "c": "3"}}}),
        ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"$patch": "delete"}}},
         {"metadata": {"labels": {}}}),
        # $retainKeys drops what it does not list.
        ({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
         {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]}},
         {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
        # Directives in what is new do not end up in the object.
        ({}, {"metadata": {"labels": {"a": "1", "b": None}, "$retainKeys": ["labels"]}},
         {"metadata": {"labels": {"a": "1"}}}),
    ],
)  # fmt: skip
def test_rules_of_the_patch(live: Json, patch: Json, result: Json) -> None:
    before = copy.deepcopy((live, patch))
    assert strategic_merge(POD, live, patch) == result
    assert (live, patch) == before


def test_nested_keyed_lists_merge_too() -> None:
    live = {"spec": {"template": {"spec": containers("a")["spec"]}}}
    live["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "X", "value": "1"}]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}}}}
    merged = strategic_merge(DEPLOYMENT, live, patch)
    env = merged["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {one["name"]: one["value"] for one in env} == {"X": "1", "Y": "2"}


def test_update_strategy_keeps_only_the_keys_of_the_patch() -> None:
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"type": "Recreate", "$retainKeys": ["type"]}}}
    assert strategic_merge(DEPLOYMENT, live, patch) == {"spec": {"strategy": {"type": "Recreate"}}}


@needs_transcripts
@pytest.mark.parametrize("number", [266, 267])
def test_wrong_patch_reads_like_the_recorded_one(number: int) -> None:
    one = transcript(number)
    live: Json = {"metadata": {"labels": {"app": "a"}}, **containers("c")}
    with pytest.raises(PatchError) as caught:
        strategic_merge(POD, live, one.body)
    assert (caught.value.code, caught.value.reason, caught.value.message) == (500, "", one.answer["message"])


@needs_transcripts
def test_conditions_of_a_node_as_recorded() -> None:
    live: Json = {"status": {}}
    for number in (117, 118, 119, 120):
        one = transcript(number)
        live = strategic_merge(NODE, live, one.body)
        expected = [{k: v for k, v in c.items() if v is not None} for c in one.answer["status"]["conditions"]]
        assert live["status"]["conditions"] == expected
    assert strategic_merge(NODE, {"spec": {"taints": [{"key": "x"}]}}, transcript(123).body)["spec"] == {
        "taints": transcript(123).answer["spec"]["taints"]
    }


@needs_transcripts
def test_finalizers_as_recorded() -> None:
    live: Json = {"metadata": {}}
    for number in (262, 263, 264):
        one = transcript(number)
        live = strategic_merge(POD, live, one.body)
        assert live["metadata"]["finalizers"] == one.answer["metadata"]["finalizers"]


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({"spec": {"containers": [{"$patch": "delete"}]}}, "no merge key"),
        ({"spec": {"containers": [{"name": "a", "$patch": "frob"}]}}, "unknown patch type: frob"),
        ({"spec": {"containers": ["a"]}}, "not identical"),
        ({"spec": {"volumes": [{"name": "v", "hostPath": {}, "$retainKeys": ["name"]}]}}, "retainKeys"),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}, "invalid list type"),
        ({"metadata": {"finalizers": ["b", ["a"]]}}, "lists of lists are not supported"),
        ({"spec": {"containers": [["a"]]}}, "lists of lists are not supported"),
        ({"spec": {"containers": [{"name": {"a": 1}}]}}, "merge key name is no plain value"),
        ({"spec": {"containers": [{"name": ["a"]}]}}, "merge key name is no plain value"),
        ({"spec": {"containers": [{"name": ["a"], "$patch": "delete"}]}}, "merge key name is no plain value"),
    ],
)
def test_wrong_directives_are_refused(patch: Json, said: str) -> None:
    with pytest.raises(PatchError, match=said):
        strategic_merge(POD, containers("a") | {"metadata": {"finalizers": ["a"]}}, patch)


@pytest.mark.parametrize("patch", [[], "x", 1, None])
def test_patch_is_an_object(patch: Any) -> None:
    with pytest.raises(PatchError) as caught:
        strategic_merge(POD, {}, patch)
    assert caught.value.code == 400


_NAMES = st.lists(st.sampled_from("abcd"), unique=True, max_size=4)


@given(_NAMES, _NAMES)
def test_every_item_is_there_once_and_orders_are_kept(live: list[str], patched: list[str]) -> None:
    merged = strategic_merge(POD, containers(*live), containers(*patched))
    names = [one["name"] for one in merged["spec"]["containers"]]
    assert sorted(names) == sorted({*live, *patched})
    assert [name for name in names if name in patched] == patched
    untouched = [name for name in live if name not in patched]
    assert [name for name in names if name in untouched] == untouched


@given(_NAMES, _NAMES)
def test_merging_twice_changes_nothing_more(live: list[str], patched: list[str]) -> None:
    once = strategic_merge(POD, containers(*live), containers(*patched))
    assert strategic_merge(POD, once, containers(*patched)) == once


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), (False, "false"), (None, "<nil>"), ("True", "True"), (1, "1"), ({"b": [True, 2], "a": {}},
     "map[a:map[] b:[true 2]]")],
)  # fmt: skip
def test_values_are_shown_as_go_prints_them(value: Any, shown: str) -> None:
    assert go_map(value) == shown


class Compared(str):
    """A text that counts with how many others it is compared."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


MANY = 300


def texts(prefix: str = "e.com/") -> list[str]:
    return [Compared(f"{prefix}{number}") for number in range(MANY)]


def named(*prefixes: str, **more: Any) -> list[Json]:
    return [{"name": name, **more} for prefix in prefixes for name in texts(prefix)]


@pytest.mark.parametrize(
    ("live", "patch", "left"),
    [
        ({"metadata": {"finalizers": texts()}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": texts()}}, 0),
        ({"metadata": {"finalizers": texts()}}, {"metadata": {"finalizers": texts("f")}}, 2 * MANY),
        ({"metadata": {"finalizers": texts()}}, {"metadata": {"finalizers": texts()}}, MANY),
        ({"metadata": {"finalizers": texts()}},
         {"metadata": {"$setElementOrder/finalizers": texts(), "finalizers": texts()}}, MANY),
        ({"spec": {"containers": named("a")}}, {"spec": {"containers": named("a", image="i")}}, MANY),
        ({"spec": {"containers": named("a")}}, {"spec": {"containers": named("b")}}, 2 * MANY),
        ({"spec": {"containers": named("a", "b")}},
         {"spec": {"containers": [{**item, "$patch": "delete"} for item in named("a")]}}, MANY),
        ({"spec": {"volumes": named("a")}},
         {"spec": {"volumes": [{**item, "$retainKeys": texts()} for item in named("a")[:1]]}}, MANY),
    ],
    ids=["delete from", "merge others", "merge same", "order", "keyed", "keyed others", "delete keyed", "retain"],
)  # fmt: skip
def test_patch_takes_as_long_as_its_lists_not_as_their_product(live: Json, patch: Json, left: int) -> None:
    """interfaces.md 5.3: counted in comparisons; each of one list with each of the other would be 90,000."""
    Compared.times = 0
    if "$retainKeys" in str(patch):
        patch["spec"]["volumes"][0]["$retainKeys"].append("name")
    found = strategic_merge(POD, live, patch)
    assert Compared.times < 30 * MANY
    [inner] = found.values()
    assert len(next(value for value in inner.values() if isinstance(value, list))) == left


@pytest.mark.parametrize(
    "again",
    [{"env": [{"name": "V", "value": "x"}]}, {"resources": {"limits": {"a": "1"}}}, {"x": 1}],
    ids=["a list", "a map", "a field"],
)
def test_item_is_named_again_within_limits(again: Json) -> None:
    """Each time what it has by then is gone through: interfaces.md 5.3. Of 60,000 variables it would take minutes."""

    def merged(count: int) -> Json:
        items = [{"name": "c", **_numbered(again, number)} for number in range(count)]
        live = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
        return strategic_merge(POD, live, {"spec": {"containers": items}})

    (container,) = merged(3)["spec"]["containers"]
    assert container["image"] == "i"
    assert all(name in str(container) for number in range(3) for name in _names(_numbered(again, number)))
    with pytest.raises(PatchError) as caught:
        merged(60_000)
    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")


def _names(value: Json) -> list[str]:
    """The names in it that have a number."""
    return re.findall(r"'([Vax][0-9])'", str(value))


def _numbered(value: Any, number: int) -> Any:
    """The value with other names: every field `x`, variable `V` and limit `a` has the number."""
    if isinstance(value, list):
        return [_numbered(item, number) for item in value]
    if not isinstance(value, dict):
        return f"{value}{number}" if value == "V" else value
    return {f"{key}{number}" if key in ("a", "x") else key: _numbered(item, number) for key, item in value.items()}
