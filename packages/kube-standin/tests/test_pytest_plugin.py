"""The fixture `kube_api`, and `ApiServer`, which it is: a server for each test, with what its marks ask for."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import warnings
from typing import Any

import pytest

import kube_standin
from kube_standin import ApiServer
from tests.calls import MAPS, Json, call, config_map, names

MAP: Json = config_map("seeded", a="b")


@pytest.mark.parametrize("number", [1, 2])
def test_each_test_has_a_server_without_the_objects_of_others(kube_api: ApiServer, number: int) -> None:
    assert os.environ["KUBECONFIG"] == str(kube_api.kubeconfig)
    assert "left" not in names(kube_api, MAPS)
    call(kube_api, MAPS, {**MAP, "metadata": {"name": "left"}})
    assert "left" in names(kube_api, MAPS)
    assert not names(kube_api, "/api/v1/nodes")


@pytest.mark.kube_api(nodes=2, manifests=[MAP])
def test_marks_seed_it(kube_api: ApiServer) -> None:
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


def test_server_that_cannot_start_fails_the_test_at_once() -> None:
    for _ in range(2):
        api = ApiServer(controllers="nonsense")
        with pytest.raises(ValueError, match="unknown controller"), api:
            pass


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"nodes": -1}, "nodes: expected a number of at least 0, found -1"),
        ({"nodes": 1, "kubelets": False}, "nodes: simulated nodes need kubelets"),
        ({"manifests": "crd.yaml"}, "manifests: expected a list of files and objects"),
        ({"clock": "slow"}, 'clock: expected "real", "simulated" or a datetime, found'),
    ],
)
def test_parameters_that_make_no_sense(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ApiServer(**arguments)


def test_api_server_runs_inside_the_block_alone() -> None:
    api = ApiServer(controllers="none")
    for use in (lambda: api.url, lambda: api.faults, api.snapshot):
        with pytest.raises(RuntimeError, match="use it inside `with ApiServer"):
            use()
    for _ in range(2):
        with api:
            assert names(api, "/api/v1/namespaces")
            with pytest.raises(RuntimeError, match="is already running"), api:
                pass
    with pytest.raises(RuntimeError, match="is not running"):
        api.url  # noqa: B018


def test_api_server_runs_beside_an_event_loop() -> None:
    async def use() -> list[str]:
        async with ApiServer(nodes=1) as api:
            return await asyncio.to_thread(names, api, "/api/v1/nodes")

    assert asyncio.run(use()) == ["node-1"]
    with pytest.raises(ValueError, match="unknown controller"):
        asyncio.run(ApiServer(controllers="nonsense").__aenter__())


def test_importing_the_package_is_cheap() -> None:
    """A plugin is imported by every run of pytest, with a server or without."""
    code = "import sys, kube_standin, kube_standin.pytest_plugin as p; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = done.stdout
    assert "'kube_standin.pytest_plugin'" in loaded
    for name in ("kube_standin.registry", "kube_standin.api_server", "uvicorn", "msgspec", "kube_rules"):
        assert f"'{name}'" not in loaded
    with pytest.raises(AttributeError, match="no attribute 'Server'"):
        kube_standin.Server  # noqa: B018


def test_tests_in_four_processes_at_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import json, ssl, urllib.request
        import pytest

        @pytest.mark.parametrize("number", range(8))
        @pytest.mark.kube_api(nodes=1)
        def test_one(kube_api, number):
            body = json.dumps({"metadata": {"name": "only"}}).encode()
            headers = {"Authorization": f"Bearer {kube_api.token}", "Content-Type": "application/json"}
            url = kube_api.url + "/api/v1/namespaces/default/configmaps"
            context = ssl.create_default_context(cafile=str(kube_api.ca))
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), context=context) as answer:
                assert answer.status == 201
        """
    )
    pytester.runpytest_subprocess("-n", "4", "-p", "no:cacheprovider").assert_outcomes(passed=8)


@pytest.mark.timed
def test_server_is_ready_in_less_than_a_second() -> None:
    """The quickest of three: what else the machine does is no fault of the server."""
    times = []
    for _ in range(3):
        began = time.monotonic()
        with ApiServer(nodes=3):
            times.append(time.monotonic() - began)
    assert min(times) < 1


@pytest.mark.timed
@pytest.mark.parametrize("path", ["/version", "/api/v1/configmaps?watch=1"])
def test_end_of_a_server_does_not_wait_for_clients_that_no_longer_run(path: str) -> None:
    """A connection without a client that reads is closed; left open it would be a ResourceWarning of the next test."""
    with ApiServer(controllers="none") as api:
        address = ("127.0.0.1", int(api.url.rpartition(":")[2]))
        context = ssl.create_default_context(cafile=str(api.ca))
        connection = context.wrap_socket(socket.create_connection(address), server_hostname=address[0])
        request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n\r\n"
        connection.sendall(request.encode())
        assert connection.recv(12) == b"HTTP/1.1 200"
        began = time.monotonic()
    took = time.monotonic() - began
    with connection, warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
    assert took < 2.5, "the time that requests under way have is 3 s"
