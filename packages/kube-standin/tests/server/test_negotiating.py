"""The Accept header: what is offered is taken best first, and what cannot be met is refused with what could be."""

from __future__ import annotations

import pytest

from kube_standin.errors import StatusError
from kube_standin.server.discovery import wants_aggregated
from kube_standin.server.negotiation import PROTOBUF, AnswerForm, negotiate, negotiate_custom, parse_accept

META = "g=meta.k8s.io"
ONLY = (
    "only the following media types are accepted: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf"
)
NONE = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
    "application/vnd.kubernetes.protobuf;stream=watch"
)


@pytest.mark.parametrize(
    ("header", "read"),
    [
        ("", []),
        (",;q=1,", []),
        (",a", [("a", ())]),
        ("Text/HTML ; A = b;c", [("text/html", (("A", "b"), ("c", "")))]),
        ("a;q=0.1,b,c;q=0.5", [("b", ()), ("c", (("q", "0.5"),)), ("a", (("q", "0.1"),))]),
        ("b,a,c", [("b", ()), ("a", ()), ("c", ())]),
        ("a;q=x,b;q=0.1", [("b", (("q", "0.1"),)), ("a", (("q", "x"),))]),
    ],
)
def test_best_quality_first_then_as_written(header: str, read: object) -> None:
    """What says no quality has 1, what says nonsense 0."""
    assert list(parse_accept(header)) == read


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ("  ", AnswerForm()),
        *((media, AnswerForm()) for media in ("application/json", "*/*", "application/*", "Application/JSON")),
        ("application/vnd.kubernetes.protobuf", AnswerForm()),
        *((media, AnswerForm(yaml=True)) for media in ("application/yaml", "application/x-yaml", "text/yaml")),
        ("text/html,application/json", AnswerForm()),
        (f"application/json;as=Table;v=v1;{META}", AnswerForm("table")),
        (f"application/json;as=Table;v=v1beta1;{META}", AnswerForm("table", "v1beta1")),
        (f"application/yaml;as=PartialObjectMetadata;v=v1;{META}", AnswerForm("partial", yaml=True)),
        (f"application/json;as=PartialObjectMetadataList;v=v1;{META}", AnswerForm("partial-list")),
        (f"application/json;as=Other;v=v1;{META},application/yaml", AnswerForm(yaml=True)),
        ("application/json;as=Table;v=v1,application/yaml", AnswerForm(yaml=True)),
        (f"application/json;as=Table;{META},application/yaml", AnswerForm(yaml=True)),
        (f"application/vnd.kubernetes.protobuf;as=Table;v=v1;{META},application/yaml", AnswerForm(yaml=True)),
        (f"{PROTOBUF};as=Table;v=v1;{META},application/json;as=Table;v=v1;{META}", AnswerForm("table")),
    ],
)  # fmt: skip
def test_accept_header_chooses_the_form(accept: str, answer: AnswerForm) -> None:
    assert negotiate(accept) == answer


@pytest.mark.parametrize(
    ("accept", "message", "details"),
    [
        ("text/html", NONE, {}),
        (",", NONE, {}),
        (f"application/json;as=Table;v=v9;{META}", ONLY, None),
        (f"application/vnd.kubernetes.protobuf;as=Table;v=v1;{META}", ONLY, None),
        (f"text/html,application/json;as=Table;v=v9;{META}", ONLY, None),
    ],
)
def test_accept_header_that_is_refused(accept: str, message: str, details: object) -> None:
    """A known type in an unknown form is refused in other words than an unknown type."""
    with pytest.raises(StatusError) as refused:
        negotiate(accept)
    error = refused.value
    assert (error.code, error.reason, error.message, error.details) == (406, "NotAcceptable", message, details)


def test_content_type_of_an_answer() -> None:
    assert [AnswerForm(yaml=yaml).content_type for yaml in (False, True)] == ["application/json", "application/yaml"]


FORM = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        ("", None),
        ("text/html", None),
        (FORM.format("v2"), "v2"),
        (FORM.format("v2beta1"), "v2beta1"),
        (FORM.format("v1"), None),
        (f"application/json,{FORM.format('v2')}", None),
        (f"application/json;q=0.5,{FORM.format('v2')}", "v2"),
        (f"text/html,{FORM.format('v2')}", "v2"),
        (f"text/html;as=x,{FORM.format('v2')}", "v2"),
        (FORM.format("v2").replace("/json", "/yaml"), None),
        ("application/json;v=v2;as=APIGroupDiscoveryList", None),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=Table", None),
        (f"application/json;as=Table,{FORM.format('v2beta1')}", "v2beta1"),
        (f"application/yaml,{FORM.format('v2')}", "v2"),
    ],
)
def test_aggregated_form_of_discovery(accept: str, version: str | None) -> None:
    """In the version that is preferred, unless the plain form is preferred to it."""
    assert wants_aggregated(accept) == version


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ("", AnswerForm()),
        (f"{PROTOBUF},application/json", AnswerForm()),
        (f"{PROTOBUF},application/yaml", AnswerForm(yaml=True)),
        (PROTOBUF, None),
        (f"{PROTOBUF},text/html", None),
    ],
)
def test_custom_resources_have_no_protobuf(accept: str, answer: AnswerForm | None) -> None:
    """kube-apiserver 1.36 (recorded 576): a client that reads nothing else is refused."""
    if answer is not None:
        assert negotiate_custom(accept) == answer
        return
    with pytest.raises(StatusError) as refused:
        negotiate_custom(accept)
    offers = "only the following media types are accepted: application/json, application/yaml"
    assert (refused.value.code, refused.value.message) == (406, offers)
