"""From a parsed body to an object of the kind in the URL path: types, unknown fields, defaults.

Invalid bodies are refused with the decoder's texts of kube-apiserver 1.36: 400 on create and update, 422 on a patch
under Strict validation or with a wrong type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import msgspec

from kube_rules import field_errors as fe
from kube_rules.defaults import apply_defaults
from kube_rules.json import Json
from kube_standin import errors
from kube_standin.conversion import complete_event
from kube_standin.errors import Cause, StatusError
from kube_standin.kinds import KindTable, ServedKind
from kube_standin.schema import Schema, UnknownBodyField, schema_for
from kube_standin.schema.strict_json import RepeatedFields
from kube_standin.schema.structural import DefaultsTooLargeError

Validation = Literal["Ignore", "Warn", "Strict"]
_NONE_REPEATED = RepeatedFields()
_WANTED = {("scheduling.k8s.io", "PriorityClass"): ("value",)}
"""Required fields that count as zero if missing: clients in typed languages always send them, only manifests lack them.
Strict validation (kubectl's) refuses their absence, otherwise there is a warning.
"""

_NAMING = ("name", "namespace", "uid", "resourceVersion")
"""The metadata fields of an apply that are read before the merge."""
_NO_STRINGS = "kind and apiVersion must be strings"
_MOST_NAMED = 100
"""Maximum number of unknown or repeated fields in a message (as sigs.k8s.io/json)."""
_SHOWN = 4096
"""Maximum length of the object in a 422 for a patch, in characters."""


def missing_fields(kind: ServedKind, obj: Json) -> list[str]:
    """Return the missing required fields of a manifest of this kind, as paths."""
    return [name for name in _WANTED.get((kind.group, kind.kind), ()) if obj.get(name) is None]


class Decoder:
    """Decodes bodies by the schemas of one table of kinds."""

    def __init__(self, kinds: KindTable) -> None:
        self._kinds = kinds
        self._custom: dict[tuple[str, str, str], tuple[ServedKind, Schema]] = {}

    def schema(self, kind: ServedKind) -> Schema:
        """Return the schema of ``kind``; custom ones are compiled once per definition."""
        if not kind.custom:
            return schema_for(kind.api_version, kind.kind)
        cached = self._custom.get(kind.gvk)
        if cached is not None and cached[0].definition is kind.definition:
            return cached[1]
        definition = kind.definition or {}
        openapi = (definition.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        schema = Schema.from_structural(openapi, api_version=kind.api_version, kind=kind.kind)
        # Schemas of deleted definitions are removed when a new one is added.
        row_of = self._kinds.of
        self._custom = {
            gvk: entry for gvk, entry in self._custom.items() if row_of(entry[0].api_version, entry[0].kind)
        }
        self._custom[kind.gvk] = (kind, schema)
        return schema

    def decode(
        self,
        kind: ServedKind,
        obj: Json,
        validation: Validation,
        warnings: list[str],
        repeated: RepeatedFields = _NONE_REPEATED,
    ) -> Json:
        """Return ``obj`` as a defaulted object of ``kind``; raises 400. ``repeated``: repeated fields."""
        self._check_identity(kind, obj)
        return self._fitted(kind, obj, validation, warnings, repeated, partial(self._unfit, kind))

    def patched(
        self,
        kind: ServedKind,
        obj: Json,
        validation: Validation,
        warnings: list[str],
        repeated: RepeatedFields = _NONE_REPEATED,
    ) -> Json:
        """Return the result of a patch as a defaulted object; raises 422 as upstream does for patches.

        ``repeated``: repeated fields of the patch, which precede unknown ones in messages.
        """
        repeated = RepeatedFields(repeated.texts)
        return self._fitted(kind, obj, validation, warnings, repeated, partial(self._unfit_patch, obj))

    def _fitted(
        self,
        kind: ServedKind,
        obj: Json,
        validation: Validation,
        warnings: list[str],
        repeated: RepeatedFields,
        refused: Callable[[str], StatusError],
    ) -> Json:
        schema = self.schema(kind)
        pruned, unknown, problems = schema.check(obj, collect_unknown=validation != "Ignore")
        if problems:
            raise refused(problems[0].message)
        if validation != "Ignore" and (unknown or repeated):
            texts = self._strict_problems(kind, unknown, repeated)[:_MOST_NAMED]
            if validation == "Strict":
                raise refused(f"strict decoding error: {', '.join(texts)}")
            warnings.extend(texts)
        if pruned is obj:
            pruned = dict(obj)
        if kind.resource == "pods" and (obj.get("spec") or {}).get("overhead") == {}:
            # Admission of new pods distinguishes overhead without a resource from none; the stored form does not.
            pruned["spec"] = {**pruned.get("spec", {}), "overhead": {}}
        self._check_wanted(kind, pruned, validation, warnings)
        self._default(kind, schema, pruned)
        return pruned

    @staticmethod
    def _strict_problems(kind: ServedKind, unknown: Sequence[UnknownBodyField], repeated: RepeatedFields) -> list[str]:
        """Return the errors of strict validation: of typed objects in document order, else repeated fields first."""
        if kind.custom:
            return [*repeated.texts, *(field.message for field in unknown)]
        hints = {f'unknown field "{field.path}"': field.message for field in unknown}
        texts = repeated.in_document_order([field.path for field in unknown])
        return [hints.get(text, text) for text in texts]

    @staticmethod
    def _check_wanted(kind: ServedKind, obj: Json, validation: Validation, warnings: list[str]) -> None:
        missing = missing_fields(kind, obj)
        if missing and validation == "Strict":
            name = (obj.get("metadata") or {}).get("name", "")
            raise errors.unfit(kind.kind, kind.group, name, *map(fe.required, missing))
        if validation == "Warn":
            warnings.extend(f"{name}: Required value (it is taken as 0)" for name in missing)

    @staticmethod
    def side_body(api_version: str, kind: str, obj: Json) -> Json:
        """Return a decoded body that is not an object of its own (Binding, Scale, DeleteOptions...); raises 400.

        ``apiVersion`` in the body does not matter: upstream also decodes older versions.
        """
        pruned, _, problems = schema_for(api_version, kind).check(
            {**obj, "apiVersion": api_version, "kind": kind}, collect_unknown=False
        )
        if problems:
            version = api_version.rpartition("/")[2]
            raise errors.bad_request(
                f'{kind} in version "{version}" cannot be handled as a {kind}: {problems[0].message}'
            )
        return pruned

    @staticmethod
    def _default(kind: ServedKind, schema: Schema, obj: Json) -> None:
        if schema.structural is not None:
            try:
                schema.structural.default(obj)
            except DefaultsTooLargeError:
                text = "the object is too large once the defaults of its schema are filled in"
                raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {text}") from None
        else:
            apply_defaults(kind, obj)
            if kind.resource == "events":
                complete_event(obj)
            schema.complete(obj)

    def check_applied(self, kind: ServedKind, obj: Json) -> None:
        """Refuse an apply body without kind and apiVersion, or with invalid metadata; raises 400.

        Afterwards the body has metadata, and the fields that identify the object and its version are strings.
        """
        api_version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
        if not isinstance(api_version, str) or not isinstance(name, str):
            raise errors.bad_request(_NO_STRINGS)
        group, _, version = api_version.rpartition("/")
        if not api_version or not name:
            raise errors.bad_request(f"invalid object type: {group}/{version}, Kind={name}")
        if (api_version, name) != (kind.api_version, kind.kind):
            raise errors.bad_request(
                f"incorrect kind or version: {api_version}, Kind={name}, expected {kind.api_version}, Kind={kind.kind}"
            )
        metadata = obj.get("metadata")
        if metadata is None:
            metadata = {}
        naming = metadata
        if isinstance(metadata, dict):
            metadata = {key: value for key, value in metadata.items() if value is not None or key not in _NAMING}
            naming = {key: value for key, value in metadata.items() if key in _NAMING}
        _, _, problems = self.schema(kind).check(
            {"apiVersion": api_version, "kind": name, "metadata": naming}, collect_unknown=False
        )
        if problems:
            raise self._unfit(kind, problems[0].message)
        obj["metadata"] = metadata

    def _check_identity(self, kind: ServedKind, obj: Json) -> None:
        api_version = obj.get("apiVersion") or kind.api_version
        name = obj.get("kind") or kind.kind
        if not isinstance(api_version, str) or not isinstance(name, str):
            raise errors.bad_request(_NO_STRINGS)
        obj["apiVersion"], obj["kind"] = api_version, name
        if (api_version, name) == (kind.api_version, kind.kind):
            return
        if self._kinds.of(api_version, name) is None and name != kind.kind:
            why = (
                f'no kind "{name}" is registered for version "{api_version}" in scheme '
                '"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'
            )
        else:
            own, requested = kind.group.split(".")[0] or "core", api_version.rpartition("/")[2]
            why = f"converting ({requested}.{name}) to ({own}.{kind.kind}): unknown conversion"
        raise errors.bad_request(
            f'{name} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {kind.kind}: {why}'
        )

    @staticmethod
    def _unfit(kind: ServedKind, why: str) -> StatusError:
        """Return a 400: the body cannot be decoded into the kind."""
        return errors.bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')

    @staticmethod
    def _unfit_patch(obj: Json, why: str) -> StatusError:
        shown = msgspec.json.encode(obj).decode()[:_SHOWN].replace("\\", "\\\\").replace('"', '\\"')
        return errors.invalid("", "", "", [Cause("FieldValueInvalid", f'Invalid value: "{shown}": {why}', "patch")])
