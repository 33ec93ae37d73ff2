"""Service accounts of new pods (kube-apiserver 1.36, plugin ServiceAccount)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.admission.pods import TOKEN_PATH, TOKEN_SOURCES, TOKEN_VOLUME
from tests.admission.plane import Json, Plane, pod, refused


@pytest.fixture
def plane() -> Plane:
    return Plane()


def account(name: str, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, **fields}


def token_volume(made: Json) -> str:
    """The name of the injected volume, "" without one."""
    names = [one["name"] for one in made["spec"].get("volumes", ()) if one.get("projected") == TOKEN_SOURCES]
    return names[0] if names else ""


def test_every_container_mounts_the_token(plane: Plane) -> None:
    initial = [{"name": "i", "image": "i"}]
    own = [{"name": "own", "mountPath": TOKEN_PATH}]
    containers = [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "volumeMounts": own}]
    volumes = [{"name": "own", "emptyDir": {}}]
    made = plane.create(pod(containers=containers, initContainers=initial, volumes=volumes))
    name = token_volume(made)
    assert name.startswith(TOKEN_VOLUME)
    mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
    assert [one["volumeMounts"] for one in made["spec"]["containers"]] == [[mount], own]
    assert made["spec"]["initContainers"][0]["volumeMounts"] == [mount]
    assert (made["spec"]["serviceAccountName"], made["spec"]["serviceAccount"]) == ("default", "default")


def test_pods_of_one_owner_have_equal_specs(plane: Plane) -> None:
    first, second = ({**pod(), "metadata": {"generateName": "web-"}} for _ in range(2))
    assert plane.create(first)["spec"] == plane.create(second)["spec"]


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False), (None, False, False)],
)
def test_pod_decides_before_its_account(
    plane: Plane, of_account: bool | None, of_pod: bool | None, mounted: bool
) -> None:
    plane.create(account("a", **({} if of_account is None else {"automountServiceAccountToken": of_account})))
    spec: Json = {} if of_pod is None else {"automountServiceAccountToken": of_pod}
    made = plane.create(pod(serviceAccountName="a", **spec))
    assert bool(token_volume(made)) is mounted


def test_pull_secrets_of_the_account(plane: Plane) -> None:
    plane.create(account("a", imagePullSecrets=[{"name": "s"}]))
    assert plane.create(pod("p", serviceAccountName="a"))["spec"]["imagePullSecrets"] == [{"name": "s"}]
    own = pod("q", serviceAccountName="a", imagePullSecrets=[{"name": "t"}])
    assert plane.create(own)["spec"]["imagePullSecrets"] == [{"name": "t"}]


def test_unknown_account_is_refused(plane: Plane) -> None:
    error = refused(plane, pod(serviceAccountName="none"))
    why = 'error looking up service account default/none: serviceaccount "none" not found'
    assert (error.code, str(error)) == (403, f'pods "p" is forbidden: {why}')
