"""Ownership of fields: `metadata.managedFields` of updates and server-side apply (KEP-555).

An *entry* is one manager's set of fields. Entries are identified by manager, operation, subresource and, for updates,
apiVersion. An update takes the fields that it changes from all other managers. An apply claims the fields in its body,
conflicts if another manager owns a changed field, and removes fields that it claimed before and that no manager claims
now.

Entries of another apiVersion of the kind are compared by field names: equal names are the same field.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from kube_rules.json import Json
from kube_rules.schema.decoding import PathWalk
from kube_standin.clock import stamp
from kube_standin.patching import fieldsets, typed
from kube_standin.patching.errors import ApplyConflict, Conflict, PatchError
from kube_standin.patching.fieldsets import Trie
from kube_standin.schema import Schema

_MAX_UPDATE_ENTRIES = 10
_ANCIENT = "ancient-changes"
_BEFORE_APPLY = "before-first-apply"
_UNOWNED_META = frozenset(
    [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ]
)
# Fields that a write through a subresource ("" the main resource) does not change and so does not own.
_RESET: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("Pod", "status"): (
        ("f:spec",),
        ("f:metadata", "f:deletionTimestamp"),
        ("f:metadata", "f:ownerReferences"),
    ),
    ("Deployment", "status"): (("f:spec",), ("f:metadata", "f:labels")),
    ("PodDisruptionBudget", "status"): (("f:spec",), ("f:metadata",)),
    ("PodGroup", "status"): (("f:spec",), ("f:metadata",)),
    ("CompositePodGroup", "status"): (("f:spec",), ("f:metadata",)),
    ("ResourceClaim", "status"): (("f:spec",), ("f:metadata",)),
    ("CustomResourceDefinition", "status"): (("f:spec",), ("f:metadata",)),
    ("ValidatingAdmissionPolicy", "status"): (("f:spec",), ("f:metadata",)),
}
_MANY_ENTRIES = 100
_RESET_MAIN = (("f:status",),)
_RESET_STATUS = (("f:spec",),)


@dataclass(frozen=True, slots=True)
class Entry:
    """One manager's fields."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: Trie

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return the identity of an entry: an applier has one entry for all versions."""
        version = self.api_version if self.operation == "Update" else ""
        return (self.manager, self.operation, version, self.subresource)

    def to_json(self) -> Json:
        """Return the entry in the form of managedFields."""
        out: Json = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        if self.time:
            out["time"] = self.time
        out["fieldsType"] = "FieldsV1"
        out["fieldsV1"] = fieldsets.ordered(self.fields)
        if self.subresource:
            out["subresource"] = self.subresource
        return out

    @property
    def shown(self) -> str:
        """Return the manager in the form of conflict messages (transcripts 293, 297)."""
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return text + (f" using {self.api_version}" if self.operation == "Update" else "")


Entries = dict[tuple[str, str, str, str], Entry]


def _decode(stored: Any) -> Entries | None:
    """Return the entries of an object; None if one of them is malformed."""
    out: Entries = {}
    for item in stored if isinstance(stored, list) else ():
        if not isinstance(item, dict):
            return None
        fields = fieldsets.decoded(item.get("fieldsV1", {}))
        operation = item.get("operation")
        if fields is None or operation not in ("Apply", "Update") or item.get("fieldsType", "FieldsV1") != "FieldsV1":
            return None
        texts = [item.get(name, "") for name in ("manager", "apiVersion", "subresource", "time")]
        if not all(isinstance(text, str) for text in texts):
            return None
        entry = Entry(texts[0], operation, texts[1], texts[2], texts[3], fields)
        out[entry.key] = entry
    return out


def _encode(entries: Iterable[Entry]) -> list[Json]:
    """Return entries in upstream's order: Apply first, then by time, manager, version, subresource."""
    nonempty = [entry for entry in entries if entry.fields]
    nonempty.sort(key=lambda e: (e.operation, e.time, e.manager, e.api_version, e.subresource))
    return [entry.to_json() for entry in nonempty]


def _with_entries(obj: Json, entries: list[Json] | None) -> Json:
    """Return the object with these managedFields (without any for None or an empty list)."""
    out = dict(obj)
    meta = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    if entries:
        meta["managedFields"] = entries
    out["metadata"] = meta
    return out


def _ownable(obj: Json) -> Json:
    """Return the object without the fields that no manager can own."""
    out = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    out["metadata"] = {key: v for key, v in obj.get("metadata", {}).items() if key not in _UNOWNED_META}
    return out


@lru_cache(maxsize=256)
def _empty(schema: Schema) -> Json:
    return _ownable(typed.empty_object(schema.root))


def _reset(schema: Schema, subresource: str, fields: Trie) -> Trie:
    """Return the set without fields that this kind of write does not change."""
    default = _RESET_MAIN if subresource == "" else _RESET_STATUS if subresource == "status" else ()
    for path in _RESET.get((schema.kind, subresource), default):
        if path[0] in fields:
            fields = fieldsets.without(fields, path)
    return fields


def timestamp(now: str | datetime) -> str:
    """Return a time in the format of managedFields."""
    if isinstance(now, str):
        return now
    return stamp(now.astimezone(UTC))


def condense(obj: Json) -> None:
    """Reduce the managedFields entries of a body, in place.

    Every step of a write traverses all of them, and no real object has hundreds. Beyond ten, well-formed updates are
    merged into one, as in storage.
    """
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return
    fields = metadata.get("managedFields")
    if not isinstance(fields, list) or len(fields) <= _MANY_ENTRIES:
        return
    entries = _decode(fields)
    if entries is not None:
        metadata["managedFields"] = _encode(_capped(entries).values())


def track_update(
    schema: Schema,
    live: Json | None,
    new: Json,
    *,
    manager: str,
    subresource: str = "",
    now: str | datetime,
    api_version: str,
) -> Json:
    """Return `new` with the managedFields after a create, update or patch by `manager`.

    `live` is the stored object, None for a create. The managedFields of `new` count if they are well-formed; `[{}]`
    clears them, and an object without any is not tracked until its first apply (transcripts 310 to 312). If nothing
    changed, the entries are those of `live`, times included. Inputs are not changed.
    """
    sent = new.get("metadata", {}).get("managedFields")
    if sent == [{}]:
        return _with_entries(new, None)
    entries = _decode(sent)
    stored = live.get("metadata", {}).get("managedFields") if live is not None else None
    if not entries:
        entries = _decode(stored) or {}
    if live is not None and not entries:
        return _with_entries(new, None)
    before = _empty(schema) if live is None else _ownable(live)
    try:
        change = typed.compare(schema.root, before, _ownable(new))
    except PatchError:
        return _with_entries(new, stored)
    if change.same:
        edited = sent and entries and _timeless(entries) != _timeless(_decode(stored) or {})
        return _with_entries(new, sent if edited else stored)
    changed = fieldsets.union(change.added, change.modified)
    entries = _lose(entries, None, changed, change.removed)
    fields = _reset(schema, subresource, changed)
    if fields:
        mine = Entry(manager, "Update", api_version, subresource, timestamp(now), fields)
        previous = entries.get(mine.key)
        if previous is not None:
            mine = replace(mine, fields=fieldsets.union(previous.fields, fields))
        entries[mine.key] = mine
        entries = _capped(entries)
    return _with_entries(new, _encode(entries.values()))


def with_times_kept(new: Json, old: Json) -> Json:
    """Return ``new``, with the managedFields of ``old`` if the two differ only in their times.

    Fields are tracked before admission: a write that admission reverts has a new time in its entry, and the API server
    does not store that (interfaces.md 4.12). Inputs are not changed.
    """
    stored = old["metadata"].get("managedFields")
    new_fields = new["metadata"].get("managedFields")
    if not stored or not new_fields or new_fields == stored or _with_entries(new, stored) != old:
        return new
    entries = _decode(new_fields)
    if entries is None or _timeless(entries) != _timeless(_decode(stored) or {}):
        return new
    return _with_entries(new, stored)


def _holding(entry: Entry, fields: Trie) -> Entry:
    return Entry(entry.manager, entry.operation, entry.api_version, entry.subresource, entry.time, fields)


def _timeless(entries: Entries) -> Entries:
    """Return the entries without their times: a write that changes only times changes nothing, as upstream."""
    return {key: replace(entry, time="") for key, entry in entries.items()}


def _lose(entries: Entries, own: tuple[str, str, str, str] | None, changed: Trie, removed: Trie) -> Entries:
    """Return the entries of other managers after fields were taken and removed; empty entries are dropped."""
    out: Entries = {}
    for key, entry in entries.items():
        fields = entry.fields
        if key != own:
            fields = fieldsets.difference(fieldsets.difference(fields, changed), removed)
        if fields:
            # Not `replace`, which takes as long as everything else here together.
            out[key] = entry if fields is entry.fields else _holding(entry, fields)
    return out


def _capped(entries: Entries) -> Entries:
    """Return at most ten update entries: the oldest ones are merged into one, "ancient-changes"."""
    updates = sorted((e for e in entries.values() if e.operation == "Update"), key=lambda e: (e.time, e.manager))
    surplus = len(updates) - _MAX_UPDATE_ENTRIES
    if surplus <= 0:
        return entries
    out = dict(entries)
    buckets: dict[tuple[str, str, str, str], tuple[Entry, list[Trie]]] = {}
    for old in updates[: surplus + 1]:
        del out[old.key]
        key = (_ANCIENT, old.operation, old.api_version, "")
        _, field_sets = buckets.get(key, (old, []))
        field_sets.append(old.fields)
        buckets[key] = old, field_sets  # the newest one's time stays
    for key, (old, field_sets) in buckets.items():
        ancient = out.get(key)
        fields = _united([*([ancient.fields] if ancient is not None else []), *field_sets])
        out[key] = Entry(_ANCIENT, old.operation, old.api_version, "", old.time, fields)
    return out


def _united(sets: list[Trie]) -> Trie:
    """Return the union of the sets.

    Sets are united in pairs: adding them one by one would traverse the result again for every set, and clients choose
    the number of sets.
    """
    while len(sets) > 1:
        pairs = [fieldsets.union(left, right) for left, right in zip(sets[::2], sets[1::2], strict=False)]
        sets = pairs + ([sets[-1]] if len(sets) % 2 else [])
    return sets[0]


def apply(
    schema: Schema,
    live: Json | None,
    applied: Json,
    *,
    manager: str,
    force: bool,
    subresource: str = "",
    now: str | datetime,
    api_version: str,
) -> Json:
    """Return the object after a server-side apply, managedFields included; not yet defaulted.

    `applied` is the raw body (not pruned: an unknown field is an error, as upstream); `live` the stored object or None.
    If neither values nor owners change, the result equals `live`, times included.

    Raises:
        PatchError: 400 for managedFields in the body, 500 (as upstream) for fields the schema does not have.
        ApplyConflict: other managers own fields that would change, and `force` is not set.
    """
    meta = applied.get("metadata") or {}
    if meta.get("managedFields") is not None:
        raise PatchError(400, "BadRequest", "metadata.managedFields must be nil")
    config = _typed(schema, applied, api_version)
    base: Json = live if live is not None else {"metadata": {}}
    entries = _decode(base.get("metadata", {}).get("managedFields")) or {}
    if live is not None and not entries:
        owned = typed.compare(schema.root, _empty(schema), _ownable(live))
        fields = fieldsets.union(owned.added, owned.modified)
        first = Entry(_BEFORE_APPLY, "Update", api_version, "", timestamp(now), fields)
        entries[first.key] = first
    merged: Json = typed.merge(schema.root, _with_entries(base, None), config)
    claimed = _reset(schema, subresource, _claimed(schema, config))
    mine = Entry(manager, "Apply", api_version, subresource, timestamp(now), claimed)
    last = entries.get(mine.key)
    entries[mine.key] = mine
    if last is not None and last.fields:
        merged = _pruned(schema, merged, entries.values(), last.fields)
    change = typed.compare(schema.root, _ownable(base), _ownable(merged))
    changed = fieldsets.union(change.added, change.modified)
    if not force:
        _refuse_conflicts(entries, mine.key, changed)
    entries = _lose(entries, mine.key, changed, change.removed)
    if change.same and last is not None and last.fields == claimed and last.api_version == api_version:
        entries[mine.key] = last
    return _with_entries(merged, _encode(entries.values()))


def merged_configuration(schema: Schema, live: Json, config: Json, api_version: str) -> Json:
    """Return the live object merged with the configuration of a mutating policy; owners do not change.

    Raises:
        PatchError: a field that the schema does not have, or a list, map or struct that is only replaced as a whole.
    """
    fitting = _typed(schema, config, api_version)
    whole = list(typed.atomic_places(schema.root, fitting))
    if whole:
        text = f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {', '.join(whole)}"
        raise PatchError(422, "Invalid", text)
    merged: Json = typed.merge(schema.root, live, fitting)
    return merged


def _claimed(schema: Schema, config: Json) -> Trie:
    """Return the paths that an applied object sets; metadata without ownable fields is not a path."""
    places = typed.owned(schema.root, _ownable(config)) or {}
    return places if places.get("f:metadata") else {k: v for k, v in places.items() if k != "f:metadata"}


def _typed(schema: Schema, applied: Json, api_version: str) -> Json:
    """Return the applied object with canonical values.

    Raises:
        PatchError: it does not fit the schema.
    """
    if schema.structural is not None:
        cleaned, unknown, problems = schema.structural.decode(applied)
    else:
        walk = PathWalk({})
        cleaned = walk.walk(schema.root, applied, "", "", schema.kind)
        unknown, problems = walk.unknown, walk.problems
    texts = [f".{field.path}: field not declared in schema{field.hint}" for field in unknown]
    texts += [f".{problem.path}: {problem.message}" for problem in problems]
    if texts:
        meta = applied.get("metadata") or {}
        group, _, version = api_version.rpartition("/")
        subject = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {group}/{version}, Kind={schema.kind}"
        message = texts[0] if len(texts) == 1 else "errors:\n" + "\n".join(f"  {text}" for text in texts)
        raise PatchError(500, "", f"failed to create typed patch object ({subject}): {message}")
    return dict(cleaned)


def _pruned(schema: Schema, merged: Json, entries: Iterable[Entry], last: Trie) -> Json:
    """Return the merged object without the fields that the applier claimed before and no manager claims now."""
    root = schema.root
    last_named = typed.with_named_fields(root, last)
    everything = _places(schema, merged)
    without_last = typed.take_away(root, merged, last_named)
    managed = typed.with_named_fields(root, _united([entry.fields for entry in entries]))
    unowned = fieldsets.difference(fieldsets.difference(everything, _places(schema, without_last)), managed)
    owned_back = typed.take_away(root, merged, unowned)
    removed = fieldsets.intersection(fieldsets.difference(everything, _places(schema, owned_back)), last_named)
    result: Json = typed.take_away(root, merged, removed)
    result.setdefault("metadata", merged.get("metadata", {}))
    return result


def _places(schema: Schema, obj: Json) -> Trie:
    return typed.with_named_fields(schema.root, typed.owned(schema.root, _ownable(obj)) or {})


def _refuse_conflicts(entries: Entries, own: tuple[str, str, str, str], changed: Trie) -> None:
    """Raise ApplyConflict if another manager owns a changed field."""
    causes: list[Conflict] = []
    by_manager: dict[str, list[str]] = {}
    for key, entry in sorted(entries.items()):
        if key == own:
            continue
        fields = list(fieldsets.places(fieldsets.intersection(entry.fields, changed)))
        if fields:
            by_manager.setdefault(entry.shown, []).extend(fields)
            causes.extend(Conflict("FieldManagerConflict", f, f"conflict with {entry.shown}") for f in fields)
    if not causes:
        return
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        lines = [
            line
            for shown, fields in by_manager.items()
            for line in (f"conflicts with {shown}:", *(f"- {f}" for f in fields))
        ]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    raise ApplyConflict(causes, message)
