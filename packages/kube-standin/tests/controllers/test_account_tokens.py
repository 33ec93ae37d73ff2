"""Tokens of service accounts in Secrets (interfaces.md 5.16)."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

import pytest

from kube_standin.controllers.account_tokens import NAME, SECRET_TYPE, UID
from kube_standin.security import AUDIENCE, TokenError, Tokens
from kube_standin.tokens import present
from tests.admission.plane import refused
from tests.controllers.world import Json, World


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(b"k" * 32)


@pytest.fixture
def world(tokens: Tokens) -> World:
    made = World(("serviceaccount-token",))
    made.controllers.context.tokens = tokens
    tokens.present = partial(present, made.store)
    made.create(account("robot"))
    return made


def account(name: str, **more: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, **more}


def secret(name: str, of: str | None = "robot", *, uid: str = "", data: Json | None = None) -> Json:
    notes = {} if of is None else {NAME: of, **({UID: uid} if uid else {})}
    head = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "annotations": notes}}
    return {**head, "type": SECRET_TYPE, "data": data or {}}


def data_of(world: World, name: str) -> dict[str, str]:
    found = world.settle().get("v1", "Secret", name)["data"]
    return {key: base64.b64decode(value).decode() for key, value in found.items()}


def test_secret_gets_token_namespace_and_authority(world: World, tokens: Tokens) -> None:
    world.create(secret("s"))
    data = data_of(world, "s")
    assert (data["ca.crt"], data["namespace"]) == ("CA", "default")
    uid = world.get("v1", "ServiceAccount", "robot")["metadata"]["uid"]
    assert world.get("v1", "Secret", "s")["metadata"]["annotations"] == {NAME: "robot", UID: uid}
    user = tokens.verify(data["token"]).user
    assert (user.name, user.uid) == ("system:serviceaccount:default:robot", uid)
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    with pytest.raises(TokenError):
        tokens.verify(data["token"], ["https://vault"])
    assert tokens.verify(data["token"], [AUDIENCE, "https://vault"]).audiences == (AUDIENCE,)


def test_what_a_client_put_in_stays_but_the_authority(world: World, tokens: Tokens) -> None:
    given = {"token": "bWluZQ==", "ca.crt": "b3RoZXI=", "more": "MQ=="}
    world.create(secret("s", data=given))
    assert data_of(world, "s") == {"token": "mine", "ca.crt": "CA", "more": "1", "namespace": "default"}
    assert tokens.user("mine") is None


def test_token_is_valid_while_its_secret_has_it(world: World, tokens: Tokens) -> None:
    world.create(secret("s"))
    token = data_of(world, "s")["token"]
    assert tokens.user(token) is not None
    world.patch("v1", "Secret", "s", {"data": {"token": "bWluZQ=="}})
    assert tokens.user(token) is None
    world.delete("v1", "Secret", "s")
    assert tokens.user(token) is None


def test_secret_is_deleted_with_its_account(world: World, tokens: Tokens) -> None:
    world.create(secret("s"))
    world.create({**secret("other"), "type": "Opaque"})
    token = data_of(world, "s")["token"]
    world.delete("v1", "ServiceAccount", "robot")
    assert tokens.user(token) is None
    world.settle()
    assert not world.has("v1", "Secret", "s")
    assert world.has("v1", "Secret", "other")


@pytest.mark.parametrize(("of", "uid"), [("missing", ""), ("robot", "00000000-0000-4000-8000-000000000000")])
def test_secret_of_an_account_that_is_not_there_is_deleted(world: World, of: str, uid: str) -> None:
    world.create(secret("s", of, uid=uid))
    assert not world.settle().has("v1", "Secret", "s")


def test_deleted_secret_leaves_the_list_of_its_account(world: World) -> None:
    world.create(account("listed", secrets=[{"name": "s"}, {"name": "t"}]))
    world.create(secret("s", "listed"))
    world.settle()
    world.delete("v1", "Secret", "s")
    assert world.settle().get("v1", "ServiceAccount", "listed")["secrets"] == [{"name": "t"}]


def test_secret_has_to_name_its_account(world: World) -> None:
    error = refused(world, secret("s", None))
    assert error.code == 422
    assert f"metadata.annotations[{NAME}]: Required value" in error.message
