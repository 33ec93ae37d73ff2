"""What operators written with kopf and programs written with kr8s make of faults, ended watches and restored states.

kopf repeats requests that are answered with 429 or 5xx after ``settings.networking.error_backoffs``, 1 s at first. A
409 ends the handling of an event; the object is handled again with its next event. kr8s repeats nothing.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kopf
import kr8s
import pytest
from kopf.testing import KopfRunner
from kr8s.objects import ConfigMap

from kube_standin import ApiServer
from tests.calls import MAPS, call, config_map, names
from tests.waiting import eventually

pytestmark = [
    pytest.mark.kube_api(controllers="none"),
    # kr8s warns of versions of Kubernetes that are newer than itself.
    pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning"),
    # kopf leaves the connection of a watch that has ended with 410 to the garbage collector, kr8s all connections.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def no_connections_left() -> Iterator[None]:
    """Let the garbage collector close what a client has left open before the next test."""
    yield
    gc.collect()


class LabellingOperator:
    """A kopf operator that labels new ConfigMaps with data ``wanted``; keeps the names it has handled."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self._registry = kopf.OperatorRegistry()
        kopf.on.login(registry=self._registry)(self._login)
        kopf.on.create("configmaps", field="data.wanted", registry=self._registry)(self._created)

    def _login(self, **arguments: Any) -> Any:
        return kopf.login_with_kubeconfig(**arguments)

    def _created(self, name: str, patch: kopf.Patch, **_: Any) -> None:
        self.handled.append(name)
        patch.metadata.labels["seen"] = "yes"

    @contextmanager
    def running(self) -> Iterator[None]:
        settings = kopf.OperatorSettings()
        settings.networking.error_backoffs = [0.05] * 5
        settings.queueing.error_delays = [0.05]
        settings.posting.enabled = False
        command = ["run", "--namespace", "default", "--standalone"]
        with KopfRunner(command, registry=self._registry, settings=settings):
            yield


def wanted(name: str) -> dict[str, Any]:
    return config_map(name, wanted="yes")


def labelled(api: ApiServer, name: str) -> None:
    eventually(lambda: name in names(api, f"{MAPS}?labelSelector=seen%3Dyes"), f"the label of {name}")


@pytest.mark.parametrize("code", [429, 503])
def test_kopf_repeats_refused_patches(kube_api: ApiServer, code: int) -> None:
    operator = LabellingOperator()
    refusals = kube_api.faults.answer(code, retry_after=0, verb="patch", resource="configmaps", times=2)
    with operator.running(), refusals as fault:
        call(kube_api, MAPS, wanted("a"))
        labelled(kube_api, "a")
        assert fault.count == 2
    assert operator.handled == ["a"], "the handler itself ran once"


def test_kopf_handles_an_object_again_after_a_conflict(kube_api: ApiServer) -> None:
    operator = LabellingOperator()
    with operator.running(), kube_api.faults.answer(409, verb="patch", resource="configmaps", times=1) as fault:
        call(kube_api, MAPS, wanted("a"))
        eventually(lambda: fault.count == 1, "the refused patch")
        call(kube_api, f"{MAPS}/a", config_map("a", wanted="yes", more="yes"), "PUT")
        labelled(kube_api, "a")
    assert operator.handled == ["a", "a"]


def drop(api: ApiServer) -> None:
    eventually(lambda: api.drop_watches("configmaps") == 1, "a watch to drop")


def expire(api: ApiServer) -> None:
    eventually(lambda: api.expire_watches("configmaps") == 1, "a watch to end with 410")


def expire_often(api: ApiServer) -> None:
    with api.faults.gone(resource="configmaps", times=3) as fault:
        expire(api)
        eventually(lambda: fault.count == 3, "watches that begin and end with 410")


@pytest.mark.parametrize("end", [drop, expire, expire_often])
def test_kopf_goes_on_after_its_watch_has_ended(kube_api: ApiServer, end: Callable[[ApiServer], None]) -> None:
    operator = LabellingOperator()
    with operator.running():
        call(kube_api, MAPS, wanted("before"))
        labelled(kube_api, "before")
        end(kube_api)
        call(kube_api, MAPS, wanted("after"))
        labelled(kube_api, "after")
    assert operator.handled == ["before", "after"]


def test_kopf_goes_on_after_a_restore(kube_api: ApiServer) -> None:
    operator = LabellingOperator()
    state = kube_api.snapshot()
    with operator.running():
        for _ in range(2):
            call(kube_api, MAPS, wanted("a"))
            labelled(kube_api, "a")
            kube_api.restore(state)
            assert "a" not in names(kube_api, MAPS)
    assert operator.handled == ["a", "a"]


@pytest.mark.parametrize("end", [drop, expire, expire_often])
def test_program_with_kr8s_goes_on_after_its_watch_has_ended(
    kube_api: ApiServer, end: Callable[[ApiServer], None]
) -> None:
    """A watch of kr8s goes on by itself after 410; it ends when it is dropped, and the program begins another one."""
    received: list[str] = []

    def follow() -> None:
        api: Any = kr8s.api(kubeconfig=str(kube_api.kubeconfig))
        while True:
            for _, found in api.watch(ConfigMap, namespace="default"):
                received.append(found.name)
                if found.name == "after":
                    return

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    call(kube_api, MAPS, config_map("before"))
    eventually(lambda: "before" in received, "the first event")
    end(kube_api)
    call(kube_api, MAPS, config_map("after"))
    eventually(lambda: "after" in received, "the event after the end")
    follower.join()


def test_kr8s_raises_refusals_and_reads_restored_objects(kube_api: ApiServer) -> None:
    api: Any = kr8s.api(kubeconfig=str(kube_api.kubeconfig))
    colours: Any = ConfigMap(
        {"metadata": {"name": "colours", "namespace": "default"}, "data": {"sky": "blue"}}, api=api
    )
    colours.create()
    for code in (409, 429, 503):
        with kube_api.faults.answer(code, verb="patch", resource="configmaps", times=1):
            with pytest.raises(kr8s.ServerError) as raised:
                colours.patch({"data": {"sky": "red"}})
            assert raised.value.response is not None
            assert raised.value.response.status_code == code
    state = kube_api.snapshot()
    colours.patch({"data": {"sky": "red"}})
    kube_api.restore(state)
    colours.refresh()
    assert colours.data["sky"] == "blue"
