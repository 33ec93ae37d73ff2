"""Whatever the decoder lets through is defaulted, validated, patched, owned and shown without stumbling."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube_rules.defaults import apply_defaults, prepare_create
from kube_rules.validation import FieldError, validate_create, validate_update
from kube_standin.kinds import BUILTIN, ServedKind
from kube_standin.patching import ApplyConflict, PatchError, apply, strategic_merge, track_update
from kube_standin.schema import schema_for
from kube_standin.tables import table
from tests.recorded.anything import objects

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
STORED = [kind for kind in BUILTIN if kind.stored]


@pytest.mark.parametrize("kind", STORED, ids=lambda k: f"{k.api_version}-{k.kind}")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_object_of_any_kind(kind: ServedKind, data: st.DataObject) -> None:
    schema = schema_for(kind.api_version, kind.kind)
    made: list[Json] = []
    bodies = [data.draw(objects(kind)) for _ in range(2)]
    for body in bodies:
        obj, unknown, problems = schema.check(copy.deepcopy(body), collect_unknown=True)
        assert (unknown, problems) == ([], [])
        obj = copy.deepcopy(obj)
        obj.setdefault("metadata", {}).setdefault("name", "x")
        apply_defaults(kind, obj)
        again = copy.deepcopy(obj)
        apply_defaults(kind, again)
        assert again == obj
        prepare_create(kind, obj, now="2026-01-01T00:00:00Z")
        assert all(isinstance(error, FieldError) for error in validate_create(kind, obj))
        made.append(obj)
    old, new = made
    for subresource in (None, "status"):
        assert all(isinstance(error, FieldError) for error in validate_update(kind, new, old, subresource))
    assert validate_update(kind, old, old, "") == [] or validate_create(kind, old)
    table(kind, made, include_object="", now=NOW, list_meta={})
    try:
        live = track_update(schema, None, old, manager="a", now=NOW, api_version=kind.api_version)
        after = track_update(schema, live, new, manager="b", now=NOW, api_version=kind.api_version)
        assert {key: value for key, value in after.items() if key != "metadata"} == {
            key: value for key, value in new.items() if key != "metadata"
        }
        strategic_merge(schema, live, bodies[1])
        bodies[1].setdefault("metadata", {"name": "x"})
        apply(schema, live, bodies[1], manager="c", force=True, now=NOW, api_version=kind.api_version)
    except (PatchError, ApplyConflict) as refusal:
        assert str(refusal)  # noqa: PT017 - a refusal is as good as a success here
