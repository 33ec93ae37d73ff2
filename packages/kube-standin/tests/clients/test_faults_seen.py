"""What client libraries make of injected faults: errors they raise, retries and watches that go on."""

from __future__ import annotations

import threading
from typing import Any

import kubernetes
import lightkube
import pytest
from lightkube.resources.core_v1 import ConfigMap as LightConfigMap

from kube_standin import ApiServer
from tests.calls import MAPS, call, config_map
from tests.waiting import eventually

pytestmark = pytest.mark.kube_api(controllers="none")
client: Any = kubernetes.client
Watch: Any = kubernetes.watch.Watch


def test_official_client(kube_api: ApiServer) -> None:
    with kubernetes.config.new_client_from_config(str(kube_api.kubeconfig)) as connection:
        core = client.CoreV1Api(connection)
        core.create_namespaced_config_map("default", config_map("a"))
        for code, reason in ((409, "Conflict"), (503, "ServiceUnavailable")):
            with kube_api.faults.answer(code, verb="update", resource="configmaps", times=1):
                with pytest.raises(client.ApiException, match=reason) as raised:
                    core.replace_namespaced_config_map("a", "default", config_map("a"))
                assert raised.value.status == code
        with kube_api.faults.answer(429, verb="update", resource="configmaps", times=1) as fault:
            core.replace_namespaced_config_map("a", "default", config_map("a"))
            assert fault.count == 1, "it tries again after Retry-After"
        watch = Watch()
        with kube_api.faults.gone(times=1), pytest.raises(client.ApiException, match="too old") as raised:
            next(watch.stream(core.list_namespaced_config_map, "default", resource_version="1", timeout_seconds=60))
        assert raised.value.status == 410


def test_watch_of_the_official_client_goes_on_after_a_drop(kube_api: ApiServer) -> None:
    seen: list[str] = []
    with kubernetes.config.new_client_from_config(str(kube_api.kubeconfig)) as connection:
        core, watch = client.CoreV1Api(connection), Watch()

        def follow() -> None:
            for event in watch.stream(core.list_namespaced_config_map, "default"):
                seen.append(event["object"].metadata.name)
                if seen[-1] == "last":
                    return

        follower = threading.Thread(target=follow)
        follower.start()
        call(kube_api, MAPS, config_map("first"))
        eventually(lambda: "first" in seen, "the first event")
        assert kube_api.drop_watches("configmaps") == 1
        call(kube_api, MAPS, config_map("last"))
        follower.join()


def test_lightkube(kube_api: ApiServer) -> None:
    lightkube_client = lightkube.Client()
    call(kube_api, MAPS, config_map("a"))
    with kube_api.faults.answer(429, retry_after=1, verb="get", resource="configmaps", times=1):
        with pytest.raises(lightkube.ApiError) as raised:
            lightkube_client.get(LightConfigMap, name="a", namespace="default")
        assert raised.value.status.code == 429
    reset = kube_api.faults.reset(verb="get", resource="configmaps", times=1)
    with reset, pytest.raises(Exception, match=r"disconnected|EOF|reset"):
        lightkube_client.get(LightConfigMap, name="a", namespace="default")
    assert lightkube_client.get(LightConfigMap, name="a", namespace="default").metadata is not None
