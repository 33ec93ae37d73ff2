"""The fixture `kube_api`: a server for each test, with what its marks ask for."""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.request
from typing import Any

import pytest

from kube_standin.kubelet import KubeletOptions
from kube_standin.pytest_plugin import KubeAPI, running
from kube_standin.server.serving import ServeOptions

Json = dict[str, Any]
MAP: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seeded"}, "data": {"a": "b"}}
MAPS = "/api/v1/namespaces/default/configmaps"


def call(api: KubeAPI, path: str, body: Json | None = None) -> Json:
    request = urllib.request.Request(
        api.url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(api.ca))) as answer:
        return json.load(answer)  # type: ignore[no-any-return]


def names(api: KubeAPI, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in call(api, path)["items"]]


@pytest.mark.parametrize("number", [1, 2])
def test_each_test_has_a_server_without_the_objects_of_others(kube_api: KubeAPI, number: int) -> None:
    assert os.environ["KUBECONFIG"] == str(kube_api.kubeconfig)
    assert "left" not in names(kube_api, MAPS)
    call(kube_api, MAPS, {**MAP, "metadata": {"name": "left"}})
    assert "left" in names(kube_api, MAPS)
    assert not names(kube_api, "/api/v1/nodes")


@pytest.mark.kube_api(nodes=2, manifests=[MAP])
def test_marks_seed_it(kube_api: KubeAPI) -> None:
    assert names(kube_api, "/api/v1/nodes") == ["node-1", "node-2"]
    assert call(kube_api, f"{MAPS}/seeded")["data"] == {"a": "b"}


def test_manifests_in_files_and_wrong_ones(pytester: pytest.Pytester) -> None:
    pytester.makefile(".json", seed=json.dumps(MAP))
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kube_api(manifests=["seed.json"])
        def test_file(kube_api):
            assert kube_api.url.startswith("https://127.0.0.1:")

        @pytest.mark.kube_api(manifests=["no.yaml"])
        def test_missing(kube_api):
            pass

        @pytest.mark.kube_api(node=1)
        def test_unknown(kube_api):
            pass
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines_random(["*no.yaml: No such file or directory*", "*unknown argument node*"])


def test_a_server_that_cannot_start_fails_the_test_at_once() -> None:
    with pytest.raises(ValueError, match="unknown controller"), running(ServeOptions(controllers="nonsense")):
        pass


def test_a_server_is_ready_in_less_than_a_second() -> None:
    """The quickest of three: what else the machine does is no fault of the server."""
    times = []
    for _ in range(3):
        began = time.monotonic()
        with running(ServeOptions(controllers="*", kubelets=KubeletOptions(nodes=3))):
            times.append(time.monotonic() - began)
    assert min(times) < 1
