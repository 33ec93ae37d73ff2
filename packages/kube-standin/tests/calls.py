"""Requests to an `ApiServer`, without a client library."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from kube_standin import ApiServer
from tests.waiting import DEADLINE

Json = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
CONTROLS = "/debug/kube-standin"


def ask(
    api: ApiServer, path: str, body: Any = None, method: str | None = None, **headers: str
) -> tuple[int, Json, dict[str, str]]:
    """Send a request as the administrator; return the status, the document and the headers."""
    request = urllib.request.Request(
        api.url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {api.token}", "Content-Type": "application/json", **headers},
        method=method,
    )
    context = ssl.create_default_context(cafile=str(api.ca))
    try:
        with urllib.request.urlopen(request, context=context, timeout=DEADLINE) as answer:
            return answer.status, json.load(answer), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {"text": text}, dict(error.headers)


def call(api: ApiServer, path: str, body: Any = None, method: str | None = None) -> Json:
    """Send a request that must succeed, and return the document."""
    code, document, _ = ask(api, path, body, method)
    assert code < 300, document
    return document


def items(api: ApiServer, path: str) -> list[Json]:
    """Return the objects of a list."""
    found: list[Json] = call(api, path)["items"]
    return found


def names(api: ApiServer, path: str) -> list[str]:
    """Return the names of the objects of a list."""
    return [item["metadata"]["name"] for item in items(api, path)]


def config_map(name: str, **data: str) -> Json:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
