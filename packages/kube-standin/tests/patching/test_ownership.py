"""managedFields of updates and server-side apply (KEP-555; transcripts 290 to 312)."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_standin.patching import ApplyConflict, PatchError, apply, merge_patch, ownership, track_update
from kube_standin.patching import fieldsets as f
from kube_standin.patching.typed import below, everything
from kube_standin.schema import Schema, SchemaNode, SchemaType, schema_for
from tests.recorded.oracle import every, needs_transcripts, transcript
from tests.recorded.shapes import pod, stored, without_times

Json = dict[str, Any]
MAP = schema_for("v1", "ConfigMap")
POD = schema_for("v1", "Pod")


def config(name: str = "cm", **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def applied(live: Json | None, manager: str, body: Json, *, force: bool = False, now: str = "t1",
            schema: Schema = MAP, subresource: str = "") -> Json:  # fmt: skip
    return apply(schema, live, body, manager=manager, force=force, subresource=subresource, now=now, api_version="v1")


def updated(live: Json | None, manager: str, new: Json, *, now: str = "t1", schema: Schema = MAP,
            subresource: str = "") -> Json:  # fmt: skip
    return track_update(schema, live, new, manager=manager, subresource=subresource, now=now, api_version="v1")


def owners(obj: Json) -> dict[str, Json]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


@needs_transcripts
def test_recorded_applies_and_updates_of_a_config_map() -> None:
    live: Json | None = None
    for number in range(290, 298):
        one = transcript(number)
        manager = one.path.partition("fieldManager=")[2].partition("&")[0]
        now = f"2026-01-01T00:00:{number - 290:02}Z"
        force = "force=true" in one.path
        if one.status == 409:
            with pytest.raises(ApplyConflict) as caught:
                applied(live, manager, one.body, force=force, now=now)
            assert caught.value.message == one.answer["message"]
            assert [(c.reason, c.field, c.message) for c in caught.value.causes] == one.causes
            continue
        if "apply" in one.content_type:
            live = applied(live, manager, one.body, force=force, now=now)
        else:
            assert live is not None
            live = updated(live, manager, merge_patch(live, one.body), now=now)
        assert live["data"] == one.answer["data"]
        expected = one.answer["metadata"]["managedFields"]
        assert without_times(live["metadata"]["managedFields"]) == without_times(expected)


@needs_transcripts
@pytest.mark.parametrize("number", [93, 94, 115, 116, 136, 364, 365, 379, 509, 518, 522, 537])
def test_creates_own_what_the_recorded_ones_own(number: int) -> None:
    one = transcript(number)
    expected = one.answer["metadata"].get("managedFields")
    if not expected or expected[0]["fieldsV1"] == "<trimmed>":
        pytest.skip("the recording left out the fields")
    obj = stored(one.body)
    schema = schema_for(one.body["apiVersion"], one.body["kind"])
    tracked = track_update(schema, None, obj, manager="wire", now="2026-01-01T00:00:00Z",
                           api_version=one.body["apiVersion"])  # fmt: skip
    assert without_times(tracked["metadata"]["managedFields"]) == without_times(expected)


@needs_transcripts
def test_enough_recordings_tell_their_fields() -> None:
    told = [t for t in every() if t.status == 201 and '"f:' in str(t.answer).replace("'", '"')]
    assert len(told) > 3


@needs_transcripts
def test_applied_pod_and_its_status_as_recorded() -> None:
    """Transcripts 307, 308: defaulted fields have no owner; /status has an entry of its own."""
    body, status = transcript(307), transcript(308)
    live = applied(None, "m1", body.body, schema=POD)
    after = applied(live, "m2", status.body, schema=POD, subresource="status")
    for obj, one in ((live, body), (after, status)):
        expected = one.answer["metadata"]["managedFields"]
        assert without_times(obj["metadata"]["managedFields"]) == without_times(expected)


def test_apply_that_changes_nothing_keeps_the_times() -> None:
    live = applied(None, "m", config(a="1"), now="t1")
    assert applied(live, "m", config(a="1"), now="t2") == live


def test_update_with_other_times_of_the_same_fields_changes_nothing() -> None:
    """As recorded (230): a client may send what it read before the second of the last write was over."""
    live = applied(None, "m", config(a="1"), now="2026-01-01T00:00:00Z")
    live = updated(live, "n", {**live, "data": {"a": "1", "b": "2"}}, now="2026-01-01T00:00:01Z")
    sent = copy.deepcopy(live)
    for entry in sent["metadata"]["managedFields"]:
        entry["time"] = "2026-01-01T00:00:09Z"
    assert updated(live, "n", sent, now="2026-01-01T00:00:10Z") == live


def test_field_left_out_is_removed_unless_another_manager_owns_it() -> None:
    live = applied(None, "m", config(a="1", b="1"))
    shared = applied(live, "n", config(b="1"), now="t2")
    after = applied(shared, "m", config(), now="t3")
    assert after["data"] == {"b": "1"}
    assert list(owners(after)) == ["n"]


def test_update_survives_an_apply_without_it() -> None:
    live = applied(None, "m", config(a="1"))
    live = updated(live, "u", merge_patch(live, {"data": {"x": "9"}}), now="t2")
    after = applied(live, "m", config(a="2"), now="t3")
    assert after["data"] == {"a": "2", "x": "9"}


def test_several_conflicts_are_listed_by_manager() -> None:
    live = applied(None, "m", config(a="1", b="1"))
    live = updated(live, "u", merge_patch(live, {"data": {"b": "2"}}), now="t2")
    with pytest.raises(ApplyConflict) as caught:
        applied(live, "n", config(a="3", b="3"))
    assert (
        caught.value.message
        == str(caught.value)
        == ('Apply failed with 2 conflicts: conflicts with "m":\n- .data.a\nconflicts with "u" using v1:\n- .data.b')
    )


def test_force_takes_fields_over() -> None:
    live = applied(None, "m", config(a="1", b="1"))
    after = applied(live, "n", config(a="2"), force=True)
    assert owners(after) == {"m": {"f:data": {"f:b": {}}}, "n": {"f:data": {"f:a": {}}}}


@needs_transcripts
@pytest.mark.parametrize("number", [300, 304])
def test_bodies_that_cannot_be_applied_read_like_the_recorded_ones(number: int) -> None:
    one = transcript(number)
    with pytest.raises(PatchError) as caught:
        applied(None, "m", one.body)
    assert (caught.value.code, caught.value.message) == (one.status, one.answer["message"])


def test_empty_list_of_managed_fields_may_not_be_applied_either() -> None:
    body = config(a="1")
    body["metadata"]["managedFields"] = []
    with pytest.raises(PatchError, match="must be nil"):
        applied(None, "m", body)


@pytest.mark.parametrize(
    ("containers", "field"),
    [
        ([{"name": "c", "nosuch": 1}], ".spec.containers[0].nosuch: field not declared in schema"),
        ([{"name": 5}], ".spec.containers[0].name: json: cannot unmarshal number"),
        ([{"image": "i"}], "omits all key fields"),
        ([{"name": "c"}, {"name": "c"}], "duplicate entries for key"),
    ],
)
def test_applied_lists_must_be_well_formed(containers: list[Json], field: str) -> None:
    live = applied(None, "m", pod(containers=[{"name": "c", "image": "i"}]), schema=POD)
    with pytest.raises(PatchError) as caught:
        applied(live, "m", pod(containers=containers), schema=POD)
    assert caught.value.code == 500
    assert field in caught.value.message


def test_quantities_are_compared_by_value() -> None:
    """Writing 1000m where 1 is stored takes no field from its manager."""
    one = pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}])
    same = pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000m"}}}])
    live = applied(None, "m", one, schema=POD)
    after = applied(live, "n", same, schema=POD, now="t2")
    assert len(owners(after)) == 2
    assert after["spec"] == live["spec"]


def test_untracked_object_gets_an_entry_for_what_was_before() -> None:
    live = config(a="1", b="1")
    with pytest.raises(ApplyConflict, match="before-first-apply"):
        applied(live, "m", config(a="2"))
    after = applied(live, "m", config(a="1"))
    assert set(owners(after)) == {"m", "before-first-apply"}


@needs_transcripts
def test_list_with_one_empty_entry_clears_and_stays_cleared() -> None:
    live = applied(None, "m", config(a="1"))
    cleared = updated(live, "wire", merge_patch(live, transcript(310).body))
    assert "managedFields" not in cleared["metadata"]
    assert "managedFields" not in updated(cleared, "wire", {**cleared, "immutable": True})["metadata"]


@pytest.mark.parametrize("given", [None, [], [{"manager": "x", "operation": "Frob"}], [{"fieldsV1": {"x": {}}}], ["x"]])
def test_managed_fields_a_client_lost_or_broke_are_kept(given: Any) -> None:
    live = applied(None, "m", config(a="1"))
    new = merge_patch(live, {"data": {"b": "1"}})
    new["metadata"] = {**new["metadata"], "managedFields": given}
    assert set(owners(updated(live, "u", new))) == {"m", "u"}


def test_eleventh_updater_makes_the_oldest_ones_one_entry() -> None:
    live = updated(None, "m0", config(k0="v"), now="2026-01-01T00:00:00Z")
    for number in range(1, 12):
        new = merge_patch(live, {"data": {f"k{number}": "v"}})
        live = updated(live, f"m{number}", new, now=f"2026-01-01T00:00:{number:02}Z")
        if number == 9:
            assert set(owners(live)) == {f"m{n}" for n in range(10)}, "ten keep their names"
    found = owners(live)
    assert len(found) == 10
    assert {"f:k0", "f:k1"} <= set(found["ancient-changes"]["f:data"])


def managed(operation: str, *, count: int) -> Json:
    entries = [
        {
            "manager": f"m{n}",
            "operation": operation,
            "apiVersion": "v1",
            "time": f"2024-01-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {f"f:k{n}": {}}},
        }
        for n in range(count)
    ]
    return {"metadata": {"name": "a", "managedFields": entries}}


def test_managers_by_the_thousand_become_few_before_anything_is_done_with_them() -> None:
    """Every step of a write goes through the entries, so a client could block the server with them."""
    obj = managed("Update", count=5000)
    ownership.condense(obj)
    found = obj["metadata"]["managedFields"]
    assert [entry["manager"] for entry in found] == ["ancient-changes", *(f"m{n}" for n in range(4991, 5000))]
    assert set(found[0]["fieldsV1"]["f:data"]) == {f"f:k{n}" for n in range(4991)}
    assert found[0]["time"] == "2024-01-01T01:23:10Z"


def test_port_without_a_protocol_is_the_one_with_the_default() -> None:
    """The key of a list may have defaults (merge type of ports: number and protocol): both mean one item."""

    def ports(**more: Any) -> Json:
        one = {"name": "c", "image": "i", "ports": [{"containerPort": 80, **more}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [one]}}

    live = applied(None, "m", ports(), schema=POD)
    container = owners(live)["m"]["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert list(container["f:ports"]) == ['k:{"containerPort":80,"protocol":"TCP"}']
    both = applied(live, "n", ports(protocol="TCP", hostPort=8080), schema=POD, now="t2")
    assert [port.get("hostPort") for port in both["spec"]["containers"][0]["ports"]] == [8080]
    other = applied(live, "n", ports(protocol="UDP"), schema=POD, now="t2")
    assert len(other["spec"]["containers"][0]["ports"]) == 2


@pytest.mark.parametrize(
    "obj",
    [managed("Update", count=100), managed("Apply", count=200), {"metadata": {"managedFields": [{}] * 200}}, {}],
    ids=["a hundred", "applied", "malformed", "none"],
)
def test_fields_within_their_limit_stay(obj: Json) -> None:
    before = copy.deepcopy(obj)
    ownership.condense(obj)
    key = itemgetter("manager")
    if "metadata" in obj and "manager" in obj["metadata"]["managedFields"][0]:
        assert sorted(obj["metadata"]["managedFields"], key=key) == sorted(before["metadata"]["managedFields"], key=key)
    else:
        assert obj == before


def test_status_written_through_the_main_resource_has_no_owner() -> None:
    obj = stored(pod())
    assert "f:status" not in owners(updated(None, "m", obj, schema=POD))["m"]
    changed = {**obj, "status": {"phase": "Running"}}
    tracked = updated(updated(None, "m", obj, schema=POD), "k", changed, schema=POD, subresource="status")
    assert owners(tracked)["k"] == {"f:status": {"f:phase": {}, "f:qosClass": {}}} or owners(tracked)["k"] == {
        "f:status": {"f:phase": {}}
    }


def test_datetime_is_written_in_rfc_3339() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    tracked = track_update(MAP, None, config(a="1"), manager="m", subresource="", now=moment, api_version="v1")
    assert tracked["metadata"]["managedFields"][0]["time"] == "2026-01-01T00:00:00Z"


# Sets of fields: the algebra that everything above rests on.
_TRIE: st.SearchStrategy[Json] = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(
        st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"y"']), inner, min_size=1, max_size=3
    ).flatmap(lambda d: st.booleans().map(lambda dot: {**d, ".": {}} if dot else d)),
    max_leaves=6,
)
_TOP = st.dictionaries(st.sampled_from(["f:a", "f:b", "f:c"]), _TRIE, max_size=3)


def members(top: Json) -> set[str]:
    return set(f.places(top))


@given(_TOP, _TOP)
def test_set_algebra(left: Json, right: Json) -> None:
    before = copy.deepcopy((left, right))
    assert members(f.union(left, right)) == members(left) | members(right)
    assert members(f.difference(left, right)) == members(left) - members(right)
    assert members(f.intersection(left, right)) == members(left) & members(right)
    assert (left, right) == before


_PATH = st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"y"']), min_size=1, max_size=3).map(tuple)


@given(_TOP, _PATH)
def test_without_a_place(top: Json, path: tuple[str, ...]) -> None:
    """A place goes with everything below it; nothing else does, and the set that is left has no empty branch."""
    before = copy.deepcopy(top)
    gone = "".join(map(f.readable, path))
    left = f.without(top, path)
    assert members(left) == {place for place in members(top) if not place.startswith(gone)}
    assert top == before
    assert f.union(left, {}) == f.difference(left, {}) == left
    assert f.intersection(left, left) == left


@given(_TOP)
def test_stored_fields_are_read_again(top: Json) -> None:
    assert f.decoded(top) == top


@pytest.mark.parametrize("value", [[], {"x": {}}, {"f:a": 1}, {"k:{": {}}, {"i:x": {}}, {"k:[]": {}}, "x"])
def test_value_that_is_no_set_of_fields_is_reported(value: Any) -> None:
    assert f.decoded(value) is None


def test_sets_are_written_in_the_order_of_upstream() -> None:
    """interfaces.md 4.8: the order of the elements, and not that of the object."""
    elements = [
        "i:10", "i:9", 'v:"b"', 'v:"a"', "v:true", "v:2", "v:10", "v:null",
        'k:{"port":443,"protocol":"TCP"}', 'k:{"port":80,"protocol":"UDP"}', 'k:{"port":80,"protocol":"TCP"}',
        "f:b", "f:a", ".",
    ]  # fmt: skip
    right = [
        ".", "f:a", "f:b",
        'k:{"port":80,"protocol":"TCP"}', 'k:{"port":80,"protocol":"UDP"}', 'k:{"port":443,"protocol":"TCP"}',
        "v:2", "v:10", 'v:"a"', 'v:"b"', "v:true", "v:null", "i:9", "i:10",
    ]  # fmt: skip
    assert list(f.ordered({element: {} for element in elements})) == right
    assert list(f.ordered({"f:x": {element: {} for element in elements}})["f:x"]) == right


def test_readable_paths() -> None:
    top = {
        "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}}}},
        "f:metadata": {"f:x": {'v:"y"': {}}},
    }
    assert list(f.places(top)) == [
        '.metadata.x[="y"]',
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].image',
    ]


_DATA = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
_STEP = st.tuples(st.sampled_from(["m", "n"]), st.booleans(), _DATA)


@settings(max_examples=150, deadline=None)
@given(st.lists(_STEP, max_size=6))
def test_last_applier_owns_what_it_stated_and_every_owner_owns_something(
    steps: list[Any],
) -> None:
    live: Json | None = None
    for number, (manager, apply_it, data) in enumerate(steps):
        now = f"2026-01-01T00:00:{number:02}Z"
        if apply_it or live is None:
            live = applied(live, manager, config(**data), force=True, now=now)
            for key, value in data.items():
                assert live["data"][key] == value
                assert f"f:{key}" in next(
                    e["fieldsV1"]["f:data"]
                    for e in live["metadata"]["managedFields"]
                    if e["manager"] == manager and e["operation"] == "Apply"
                )
        else:
            live = updated(live, manager, {**live, "data": dict(data)}, now=now)
            assert live["data"] == data
        for entry in live["metadata"].get("managedFields", ()):
            assert entry["fieldsV1"]
            assert set(entry["fieldsV1"].get("f:data", {})) - {"."} <= {f"f:{key}" for key in live.get("data", {})}


_STRING = SchemaNode(SchemaType.STRING, "string")


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (SchemaNode(SchemaType.MAP, "map", element=_STRING), SchemaType.STRING),
        (SchemaNode(SchemaType.MAP, "map"), SchemaType.ANY),
        (SchemaNode(SchemaType.LIST, "list", element=_STRING), SchemaType.ANY),
        (SchemaNode(SchemaType.ANY, "any"), SchemaType.ANY),
        (SchemaNode(SchemaType.STRUCT, "struct", fields={"k": _STRING}), SchemaType.STRING),
        (SchemaNode(SchemaType.STRUCT, "struct", fields={"other": _STRING}), SchemaType.ANY),
    ],
)
def test_key_leads_to(node: SchemaNode, found: SchemaType) -> None:
    """A key of what the schema does not know is of any type (structured-merge-diff: untyped values are deduced)."""
    assert below(node, "k").type is found


def test_change_within_a_keyed_item_owns_that_field_alone() -> None:
    """Lists within items of lists are compared by their own keys."""

    def with_value(value: str) -> Json:
        env = [{"name": "A", "value": "1"}, {"name": "B", "value": value}]
        spec = {"containers": [{"name": "c", "image": "i", "env": env}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}

    live = updated(None, "one", with_value("1"), schema=POD)
    again = {**with_value("2"), "metadata": live["metadata"]}
    live = updated(live, "two", again, schema=POD, now="t2")
    item: Json = {'k:{"name":"B"}': {"f:value": {}}}
    assert owners(live)["two"] == {"f:spec": {"f:containers": {'k:{"name":"c"}': {"f:env": item}}}}


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ({"securityContext": {"runAsUser": 1}}, {}, {}),
        ({"securityContext": {"runAsUser": 1}}, {"securityContext": {}}, {"securityContext": {}}),
        ({"resources": {"limits": {"cpu": "1"}}}, {}, {}),
        ({"resources": {"limits": {"cpu": "1"}}}, {"resources": {}}, {"resources": {}}),
    ],
)
@pytest.mark.parametrize("other", [{}, {"workingDir": "/w"}, {"securityContext": {"runAsGroup": 2}}])
def test_keyed_item_its_applier_leaves_out_is_removed_without_a_shell(
    before: Json, after: Json, left: Json, other: Json
) -> None:
    """Structs around a field that goes, go with it, in items of lists too; what others put there stays."""

    def of(more: Json) -> Json:
        return pod(containers=[{"name": "c", "image": "i", **copy.deepcopy(more)}])

    live = applied(None, "m", of(before), schema=POD)
    theirs = copy.deepcopy(live)
    for name, value in other.items():
        held = theirs["spec"]["containers"][0]
        held[name] = {**held.get(name, {}), **value} if isinstance(value, dict) else value
    if other:
        live = updated(live, "u", theirs, schema=POD, now="t2")
    [found] = applied(live, "m", of(after), schema=POD, now="t3")["spec"]["containers"]
    assert found == {"name": "c", "image": "i", **left, **other}


def test_create_owns_what_it_states_and_marks_what_might_not_be_there() -> None:
    """As `kubectl create deployment` shows: "." for what is optional (labels, ports, rollingUpdate), and for no other.

    What always stands (strategy, template) and lists that have to (containers) have no owner.
    """
    ports = [{"containerPort": 80, "protocol": "TCP"}]
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]},
    }
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "strategy": strategy, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    live = updated(None, "m", body, schema=schema_for("apps/v1", "Deployment"))
    port: Json = {".": {}, "f:containerPort": {}, "f:protocol": {}}
    container: Json = {".": {}, "f:name": {}, "f:image": {}}
    container["f:ports"] = {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': port}
    assert owners(live)["m"] == {
        "f:spec": {
            "f:selector": {},
            "f:strategy": {"f:type": {}, "f:rollingUpdate": {".": {}, "f:maxSurge": {}}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {"f:containers": {'k:{"name":"c"}': container}},
            },
        }
    }


def test_fields_unknown_to_the_schema_are_owned_key_by_key() -> None:
    """structured-merge-diff deduces the type of untyped values from their looks: maps by key, lists as a whole."""
    found = everything(SchemaNode(SchemaType.ANY, "any"), {"a": {"b": 1}, "c": [{"name": "x"}]})
    assert found == {".": {}, "f:a": {".": {}, "f:b": {}}, "f:c": {}}


_PORTS = SchemaNode(SchemaType.LIST, "ports", element=_STRING, list_type="set")
_KEYED = {"list_type": "map", "list_keys": ("name",)}


@pytest.mark.parametrize(
    ("element", "item"),
    [
        (None, {".": {}, "f:name": {}, "f:ports": {}}),
        (SchemaNode(SchemaType.STRUCT, "item", fields={"name": _STRING, "ports": _PORTS}),
         {".": {}, "f:name": {}, "f:ports": {".": {}, 'v:"a"': {}}}),
        (SchemaNode(SchemaType.STRUCT, "item", fields={"name": _STRING}, atomic=True), {}),
    ],
    ids=["of unknown items", "of items with a set", "of atomic items"],
)  # fmt: skip
def test_new_item_of_a_list_is_owned_as_its_schema_says(element: SchemaNode | None, item: Json) -> None:
    """KEP-555: atomic things are one place, keyed lists and sets an item each; by looks only where nothing is known."""
    node = SchemaNode(SchemaType.LIST, "list", element=element, **_KEYED)  # type: ignore[arg-type]
    assert everything(node, [{"name": "x", "ports": ["a"]}]) == {".": {}, 'k:{"name":"x"}': item}
    assert everything(node, []) == {}


def test_items_with_keys_are_merged_and_keep_their_neighbours() -> None:
    """What others own in an item stays; an item that is there twice is one afterwards."""

    def with_containers(*containers: Json) -> Json:
        metadata = {"name": "p"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": list(containers)}}

    live = applied(None, "one", with_containers({"name": "a", "image": "i"}, {"name": "b", "image": "i"}), schema=POD)
    after = applied(live, "two", with_containers({"name": "c", "image": "i"}, {"name": "b", "tty": True}), schema=POD)
    assert after["spec"]["containers"] == [
        {"name": "a", "image": "i"},
        {"name": "c", "image": "i"},
        {"name": "b", "image": "i", "tty": True},
    ]
    doubled = {**live, "spec": {"containers": [*live["spec"]["containers"], {"name": "b", "image": "other"}]}}
    again = applied(doubled, "two", with_containers({"name": "b", "tty": True}), schema=POD)
    assert again["spec"]["containers"] == [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "tty": True}]


class Asked(dict[str, Any]):
    """A set of fields of which single places may be asked, and which is never gone through."""

    def items(self) -> Any:
        raise AssertionError("it is gone through once for every manager")

    __iter__ = keys = values = items


@pytest.mark.parametrize(("take", "left"), [(f.difference, {}), (f.intersection, {"f:data": {"f:k": {}}})])
def test_fields_of_one_manager_are_looked_up_in_those_of_others(take: Any, left: Json) -> None:
    """A client chooses how many managers there are, and how many fields are taken from them."""
    assert take({"f:data": {"f:k": {}}}, {"f:data": Asked({".": {}, "f:k": {}, "f:l": {}})}) == left


def test_name_that_stands_twice_in_a_long_list_is_found() -> None:
    """With a count of the list for each item it would take minutes."""
    names = [f"e.com/{number}" for number in range(100_000)]
    live = applied(None, "m", config(a="1"))
    live["metadata"]["finalizers"] = ["e.com/x"]
    body = config(a="1")
    body["metadata"]["finalizers"] = [*names, names[-1], names[-2]]
    with pytest.raises(PatchError, match=r'duplicate entries for key \["e.com/99998"\]'):
        applied(live, "m", body)
