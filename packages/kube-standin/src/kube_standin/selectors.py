"""Selectors of list and watch requests, compiled to one function over stored states.

The grammar is that of ``kube_rules.selectors``, applied to the selectable fields of each kind. Error texts and codes
are those of kube-apiserver 1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kube_rules.selectors import (
    EVERYTHING,
    LabelMatcher,
    SelectorError,
    parse_field_selector,
    parse_label_selector,
)
from kube_standin.errors import StatusError, bad_request
from kube_standin.kinds import ServedKind
from kube_standin.storage.model import StoredObject

Matcher = Callable[[StoredObject], bool]

_ALWAYS = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True)
class Selection:
    """The selection of a list or watch: ``match`` is None for everything, ``name`` is set if only one object can match.

    ``by_fields``: it depends on fields other than name and namespace.
    """

    match: Matcher | None = None
    name: str | None = None
    namespace: str | None = None
    by_fields: bool = False


def select(kind: ServedKind, labels: str, fields: str) -> Selection:
    """Compile the two selector texts; raises 400 for invalid texts and for fields that the kind does not support."""
    try:
        selector = parse_label_selector(labels) if labels else EVERYTHING
        terms = parse_field_selector(fields).requirements if fields else ()
    except SelectorError as error:
        raise bad_request(str(error)) from error
    exact: dict[str, str] = {}
    wanted: dict[str, str] = {}
    unwanted: dict[str, set[str]] = {}
    contradictory = False
    for label, equal, value in terms:
        path = label if label in _ALWAYS else kind.fields.get(label)
        if path is None:
            raise _unknown_field(kind, label)
        if equal:
            exact[label] = value
            contradictory = contradictory or wanted.setdefault(path, value) != value
        else:
            unwanted.setdefault(path, set()).add(value)
    if selector.everything and not terms:
        return Selection()
    labels_match = LabelMatcher(selector)

    def match(state: StoredObject) -> bool:
        if contradictory:
            return False
        for path, value in wanted.items():
            if state.field(path) != value:
                return False
        for path, values in unwanted.items():
            if state.field(path) in values:
                return False
        return selector.everything or labels_match(state.labels)

    by_fields = any(path not in _ALWAYS for path in (*wanted, *unwanted))
    return Selection(match, exact.get("metadata.name"), exact.get("metadata.namespace"), by_fields)


def _unknown_field(kind: ServedKind, label: str) -> StatusError:
    if kind.fields or kind.custom:
        return bad_request(f"field label not supported: {label}")
    return bad_request(f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')
