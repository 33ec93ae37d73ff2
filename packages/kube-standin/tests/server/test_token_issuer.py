"""OIDC discovery of the issuer of service account tokens (interfaces.md 5.15)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest

from tests.server.inprocess import Plane, running

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def test_issuer_and_keys_are_those_of_tokens(plane: Plane) -> None:
    """service_accounts.go, "should support OIDC discovery of service account issuer", without its pod."""
    plane.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    token = plane.create(f"{ACCOUNTS}/robot/token", {"spec": {}})["status"]["token"]
    head, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    answer = plane.ask(f"GET {CONFIGURATION}")
    assert (answer.header("content-type"), answer.header("cache-control")) == (
        "application/json", "public, max-age=3600"
    )  # fmt: skip
    found = answer.json
    assert found.pop("jwks_uri").endswith(KEYS)
    assert found == {
        "issuer": claims["iss"],
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }
    answer = plane.ask(f"GET {KEYS}")
    assert answer.header("content-type") == "application/jwk-set+json"
    assert [key["kid"] for key in answer.json["keys"]] == [head["kid"]]
    assert "d" not in answer.json["keys"][0], "the private part"


@pytest.mark.parametrize("path", [CONFIGURATION, KEYS])
def test_service_accounts_may_read_them(plane: Plane, path: str) -> None:
    """By the role system:service-account-issuer-discovery; anonymous users may not, and they are read-only."""
    plane.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    token = plane.create(f"{ACCOUNTS}/robot/token", {"spec": {}})["status"]["token"]
    assert plane.ask(f"GET {path}", token=token).status == 200
    assert plane.ask(f"GET {path}", token=None).status == 401
    assert plane.ask(f"POST {path}", {}).status == 405
