"""The tables of limits and of what is not served are true of a server."""

from __future__ import annotations

import re

from kube_standin import ApiServer
from tests.calls import MAPS, ask, call, config_map
from tests.docs.test_site import tool


def test_groups_that_are_not_served_are_not_in_discovery(kube_api: ApiServer) -> None:
    served = {group["name"] for group in call(kube_api, "/apis")["groups"]}
    unserved = set(re.findall(r"`([a-z0-9.]+)`", tool("served_limits").NOT_SERVED[0].what))
    assert unserved
    assert not served & unserved
    for group in unserved:
        assert ask(kube_api, f"/apis/{group}")[0] == 404


def test_body_and_an_object_have_their_limits(kube_api: ApiServer) -> None:
    bounds = {limit.what: limit for limit in tool("served_limits").LIMITS}
    assert bounds["a body"].bound.startswith("3 MiB, 200 levels and 200,000 values")
    assert bounds["a stored object"].bound.startswith("1.5 MiB")
    assert ask(kube_api, MAPS, config_map("a", b="x" * 3 * 1024 * 1024))[0] == 413
    code, status, _ = ask(kube_api, MAPS, config_map("a", b="x" * 1536 * 1024))
    assert code >= 400, status
