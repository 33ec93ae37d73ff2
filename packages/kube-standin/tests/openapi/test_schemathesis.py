"""Requests made up from the published OpenAPI: no answer is a 5xx, and every answer fits what is published.

Half of the bodies name the kind and an object as they should, so that they get past the first checks and are
stored; then everything else in them is still made up. Deterministic. ``REPRIEVE_EXAMPLES=50`` makes more requests
per operation than the few of a normal run; ``REPRIEVE_NEGATIVE=1`` makes requests that the schema forbids.

Watches are left out: their streams are not what the schema of a list says (``test_watching`` has them).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kube_standin.features import EVERY_RELEASE
from kube_standin.kinds import BUILTIN
from kube_standin.openapi.operations import group_version_path
from kube_standin.server.control_plane import ServeOptions
from tests.server.live import live
from tests.waiting import DEADLINE

EXAMPLES = int(os.environ.get("REPRIEVE_EXAMPLES", "2"))
NEGATIVE = os.environ.get("REPRIEVE_NEGATIVE") == "1"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
RECORDED_500 = re.compile(
    "|".join(
        (
            r"strconv\.ParseUint: parsing .*: invalid syntax",  # 226, 233, 599: a resourceVersion that is no number
            r"resourceVersion should not be set on objects to be created",  # 171
            r"target\.name: Required value",  # 316
            r"target\.kind: Unsupported value: ",  # 317
            r"does not contain declared merge key: ",  # 266
            r"unknown patch type: ",  # 267
            r"failed to create typed patch object ",  # 304
            r"This pod has more than one PodDisruptionBudget",  # 407
        )
    ),
    re.DOTALL,
)
"""What a real kube-apiserver 1.36 was recorded to answer with 500 (by number of the recorded answer)."""
PATHS = sorted({group_version_path(kind) for kind in BUILTIN})
Served = tuple[str, requests.Session]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with live(ServeOptions(tls=False, features=EVERY_RELEASE)) as server, requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {server.server.keys.admin_token}"
        yield server.url, session


def settle(case: Any, gvk: dict[str, str]) -> None:
    """Leave out watches; in most cases, name a namespace and objects that exist."""
    case.query = {name: value for name, value in (case.query or {}).items() if name != "watch"}
    path = case.path_parameters or {}
    for name, value in (("namespace", "default"), ("name", "x")):
        if name in path and len(str(path[name])) % 4 != 1:
            path[name] = value
    body = case.body
    if NEGATIVE or not isinstance(body, dict) or len(body) % 5 == 4:
        return
    body["apiVersion"] = f"{gvk['group']}/{gvk['version']}".removeprefix("/")
    body["kind"] = gvk["kind"]
    metadata = body.setdefault("metadata", {})
    if isinstance(metadata, dict):
        for name in ("namespace", "resourceVersion", "uid", "generateName"):
            metadata.pop(name, None)
        metadata["name"] = "x"


def verify(case: Any, served: Served) -> None:
    url, session = served
    answer = case.call(base_url=url, session=session, timeout=DEADLINE)
    if answer.status_code == 500 and RECORDED_500.search(answer.json()["message"]):
        return
    case.validate_response(answer, checks=CHECKS)


def exercise(operation: Any, gvk: dict[str, str], served: Served) -> int:
    """Send the requests of one operation; returns how many there were."""
    mode = schemathesis.GenerationMode.NEGATIVE if NEGATIVE else schemathesis.GenerationMode.POSITIVE
    tried = 0

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def one(case: Any) -> None:
        nonlocal tried
        settle(case, gvk)
        tried += 1
        verify(case, served)

    one()
    return tried


@pytest.mark.parametrize("path", PATHS)
def test_answers_fit_the_published_schema(path: str, served: Served) -> None:
    url, session = served
    answer = session.get(f"{url}/openapi/v3/{path}", timeout=DEADLINE)
    assert answer.status_code == 200
    document = answer.json()
    tried, failures = 0, []
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = found.ok()
        gvk = document["paths"][operation.path][operation.method]["x-kubernetes-group-version-kind"]
        try:
            tried += exercise(operation, gvk, served)
        except BaseExceptionGroup as group:  # all of them are reported, not only the first one
            failures.append(f"{operation.method} {operation.path}: " + "\n".join(map(str, group.exceptions)))
    assert not failures, "\n\n".join(failures)
    assert tried
