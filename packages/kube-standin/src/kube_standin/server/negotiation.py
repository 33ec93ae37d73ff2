"""The form of a response: JSON or YAML, the object itself, its metadata only, or a Table.

Rules: kube-apiserver's negotiation with the Accept header. Clients that prefer protobuf and also accept JSON get JSON;
they read the Content-Type of the response. Messages: 1.36.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kube_rules.caching import remembered
from kube_standin.errors import StatusError

Form = Literal["object", "partial", "partial-list", "table"]

_FORMS = {
    "Table": "table",
    "PartialObjectMetadata": "partial",
    "PartialObjectMetadataList": "partial-list",
}
PROTOBUF = "application/vnd.kubernetes.protobuf"
_JSON_LIKE = ("application/json", "*/*", "application/*", PROTOBUF)
_YAML_LIKE = ("application/yaml", "application/x-yaml", "text/yaml")


@dataclass(frozen=True)
class AnswerForm:
    """The form of a response and the version of ``meta.k8s.io`` of its envelope."""

    form: Form = "object"
    version: str = "v1"
    yaml: bool = False

    @property
    def content_type(self) -> str:
        """Return the Content-Type of the response."""
        return "application/yaml" if self.yaml else "application/json"


PLAIN = AnswerForm()


@remembered(512)
def parse_accept(header: str) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Split an Accept header into (type, parameters), best quality first."""
    clauses: list[tuple[float, int, str, tuple[tuple[str, str], ...]]] = []
    for index, clause in enumerate(header.split(",")):
        media, *parameters = (part.strip() for part in clause.split(";"))
        if not media:
            continue
        pairs = tuple((key.strip(), value.strip()) for key, _, value in (p.partition("=") for p in parameters))
        try:
            quality = float(dict(pairs).get("q", "1"))
        except ValueError:
            quality = 0.0
        clauses.append((-quality, index, media.lower(), pairs))
    return tuple((media, pairs) for _, _, media, pairs in sorted(clauses))


@remembered(512)
def takes_only_protobuf(header: str) -> bool:
    """Return whether a client accepts objects as protobuf and in no other supported format."""
    supported = [media for media, _ in parse_accept(header) if media in _JSON_LIKE or media in _YAML_LIKE]
    return bool(supported) and all(media == PROTOBUF for media in supported)


@remembered(512)
def negotiate(header: str) -> AnswerForm:
    """Return the form for an Accept header (empty: JSON); raises 406 if none is acceptable."""
    return _chosen(header, tables=True)


def negotiate_review(header: str) -> AnswerForm:
    """Return the form of a response that cannot be a Table, as those to reviews; raises 406 if none is acceptable."""
    return _chosen(header, tables=False)


def negotiate_custom(header: str) -> AnswerForm:
    """Return the form of custom resources, which have no protobuf form; raises 406 if none is acceptable."""
    return _chosen(header, tables=True, protobuf=False)


def negotiate_watch(header: str, *, custom: bool, lists: bool) -> AnswerForm:
    """Return the form of a watch; with `lists` (and bookmarks) it is no Table. Raises 406 if none is acceptable."""
    return _chosen(header, tables=not lists, protobuf=not custom)


def _chosen(header: str, *, tables: bool, protobuf: bool = True) -> AnswerForm:
    if not header.strip():
        return PLAIN
    known_media = False
    for media, pairs in parse_accept(header):
        yaml = media in _YAML_LIKE
        if not yaml and media not in _JSON_LIKE:
            continue
        known_media = True
        if media == PROTOBUF and not protobuf:
            continue
        parameters = dict(pairs)
        wanted = parameters.get("as")
        if wanted is None:
            return AnswerForm(yaml=yaml)
        version = parameters.get("v", "")
        if wanted in _FORMS and version in ("v1", "v1beta1") and parameters.get("g") == "meta.k8s.io":
            if media == PROTOBUF or (wanted == "Table" and not tables):
                continue  # Tables and partial forms do not exist in protobuf: take the next offer
            return AnswerForm(_FORMS[wanted], version, yaml)  # type: ignore[arg-type]
    if known_media:
        raise StatusError(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/yaml"
            + (f", {PROTOBUF}" if protobuf else ""),
        )
    raise StatusError(
        406,
        "NotAcceptable",
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch",
        {},
    )
