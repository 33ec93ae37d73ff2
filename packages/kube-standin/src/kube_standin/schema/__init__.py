"""The schemas of objects: types, pruning, list types and merge keys of every served kind.

`schema_for` returns the schema of a built-in kind from the packed definitions, `Schema.from_structural` that of a
custom resource. A schema checks an object (`check`), validates and defaults custom resources, and has the tree of nodes
(`root`) that patching walks. Schemas never change once created.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kube_rules.schema import definitions, nodes
from kube_rules.schema.decoding import (
    TypeProblem,
    UnknownBodyField,
    decoded,
)
from kube_rules.schema.nodes import SchemaNode, SchemaType
from kube_standin.schema.required_fields import Complete, completer
from kube_standin.schema.strict_json import parse_json_strict
from kube_standin.schema.structural import Structural, structural_node

__all__ = [
    "Schema",
    "SchemaNode",
    "SchemaType",
    "TypeProblem",
    "UnknownBodyField",
    "parse_json_strict",
    "schema_for",
]

_completers: dict[SchemaNode, Complete | None] = {}


class Schema:
    """The schema of one kind. `structural` is set for custom resources only."""

    __slots__ = ("_complete", "api_version", "kind", "root", "structural")

    def __init__(self, api_version: str, kind: str, root: SchemaNode, structural: Structural | None = None) -> None:
        self.api_version = api_version
        self.kind = kind
        self.root = root
        self.structural = structural
        self._complete = completer(root, _completers) if structural is None else None

    def check(
        self, obj: dict[str, Any], *, collect_unknown: bool
    ) -> tuple[dict[str, Any], list[UnknownBodyField], list[TypeProblem]]:
        """Return an object in its stored form, its unknown fields, and its type problems.

        An unchanged object is returned itself, otherwise a copy of the changed parts; the input is never changed.
        Unknown fields are always pruned, but listed only if `collect_unknown`. With type problems the object is
        invalid; the API server reports the first problem.
        """
        if self.structural is not None:
            pruned, unknown, problems = self.structural.decode(obj)
            return pruned, (unknown if collect_unknown else []), problems
        cleaned, unknown, problems = decoded(self.root, self.kind, obj)
        return cleaned, (unknown if collect_unknown else []), problems

    def complete(self, obj: dict[str, Any]) -> None:
        """Add the required fields that a decoded and defaulted object lacks, in place (see `required_fields`)."""
        if self._complete is not None:
            self._complete(obj)

    @classmethod
    def from_structural(cls, openapi_v3_schema: dict[str, Any], *, api_version: str = "", kind: str = "") -> Schema:
        """Return the schema of a custom resource from the `openAPIV3Schema` of its definition.

        apiVersion, kind and metadata are always included. The schema is not checked here: its errors are reported when
        the definition is created (`rules`).
        """
        structural = Structural(openapi_v3_schema)
        return cls(api_version, kind, structural_node(openapi_v3_schema, root=True), structural)


@cache
def schema_for(api_version: str, kind: str) -> Schema:
    """Return the schema of a built-in kind, e.g. ("apps/v1", "Deployment").

    Raises:
        KeyError: no such kind in the packed definitions.
    """
    name = definitions.definition_names()[api_version, kind]
    return Schema(api_version, kind, nodes.named(name))
