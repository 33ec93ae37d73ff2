"""Extenders of the live scheduler: what they bind, and what happens to the scheduler when they or a plugin hang."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprieve.client.errors import ClientError, UnreachableError
from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.framework.instructions import CallExtender
from reprieve.live.extenders import Bodies, ExtenderCalls
from reprieve.live.watchdog import Watchdog, _Request
from reprieve.plugins.extender import ExtenderError
from reprieve.scheduling.profiles import profiles_of
from reprieve.scheduling.third_party_plugins import ThirdParty
from tests.building import World, node, pod
from tests.client.test_tls import CA_PEM, CLIENT, INNER, pem, server_context
from tests.live.test_app import NAME, PODS, Cluster, cluster, condition
from tests.plugins.extenders import ExtenderServer, extender_server
from tests.scheduling.third_party_plugins import Sleeper
from tests.waiting import DEADLINE

FILE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": NAME}],
}


@pytest.fixture
def server() -> Iterator[ExtenderServer]:
    with extender_server() as found:
        yield found


def calls_of(*extenders: dict[str, Any]) -> ExtenderCalls:
    return ExtenderCalls(configuration_of({**FILE, "extenders": list(extenders)}).extenders, Bodies())


def changes(*extenders: dict[str, Any]) -> dict[str, Any]:
    """Settings with these extenders."""
    calls = calls_of(*extenders)
    [profile] = profiles_of(configuration_of(FILE), FeatureGates(), extenders=calls.plugin)
    return {"profiles": {NAME: profile}, "extenders": calls}


def binder(world: Cluster, loop: asyncio.AbstractEventLoop, *, fails: bool = False) -> Any:
    """What an extender that binds does: it binds by itself, through the API."""

    def bind(body: dict[str, Any]) -> dict[str, Any]:
        if fails:
            return {"Error": "no licence left"}
        name = body["PodName"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "uid": body["PodUID"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": body["Node"]},
        }
        done = world.client.request("POST", f"{PODS}/{name}/binding", body=binding)
        asyncio.run_coroutine_threadsafe(done, loop).result(DEADLINE)
        return {}

    return bind


def test_extender_filters_and_binds(server: ExtenderServer) -> None:
    """The bodies are the API's objects; the bind is the extender's."""

    async def run() -> None:
        async with cluster() as world:
            for number in range(2):
                await world.node(f"n{number}")
            server.answers["filter"] = lambda body: {
                "Nodes": {"items": [n for n in body["Nodes"]["items"] if n["metadata"]["name"] == "n1"]}
            }
            server.answers["bind"] = binder(world, asyncio.get_running_loop())
            extender = {"urlPrefix": server.url, "filterVerb": "filter", "bindVerb": "bind"}
            async with world.scheduling(**changes(extender)):
                await world.pod("p")
                pods = await world.until(lambda found: found["p"]["spec"].get("nodeName"))
            assert pods["p"]["spec"]["nodeName"] == "n1"
            assert server.verbs() == ["filter", "bind"]
            assert server.asked[0][1]["Pod"]["metadata"]["uid"] == pods["p"]["metadata"]["uid"]
            assert server.asked[0][1]["Nodes"]["items"][0]["status"]["allocatable"]["cpu"] == "4"

    asyncio.run(run())


@pytest.mark.parametrize("ignorable", [False, True])
def test_extender_that_does_not_bind(server: ExtenderServer, ignorable: bool) -> None:
    """Its failure fails the binding; of one that may be ignored, the scheduler binds itself, as upstream."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0")
            server.answers["bind"] = binder(world, asyncio.get_running_loop(), fails=True)
            extender = {"urlPrefix": server.url, "bindVerb": "bind", "ignorable": ignorable}
            async with world.scheduling(**changes(extender)):
                await world.pod("p")
                if ignorable:
                    await world.until(lambda found: found["p"]["spec"].get("nodeName"))
                else:
                    pods = await world.until(lambda found: condition(found["p"]).get("reason") == "SchedulerError")
                    assert "no licence left" in condition(pods["p"])["message"]

    asyncio.run(run())


def test_while_an_extender_thinks_the_event_loop_goes_on(server: ExtenderServer) -> None:
    """Cycles that may wait run beside it: what the API says is heard meanwhile."""

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0")
            server.hold = threading.Event()
            server.answers["filter"] = lambda body: {"NodeNames": body["NodeNames"]}
            extender = {"urlPrefix": server.url, "filterVerb": "filter", "nodeCacheCapable": True}
            async with world.scheduling(**changes(extender)):
                await world.pod("p")
                ends = asyncio.get_running_loop().time() + DEADLINE
                while not server.asked:
                    assert asyncio.get_running_loop().time() < ends
                    await asyncio.sleep(0.01)
                pods = await world.pods()  # the API server runs in the same event loop
                assert not pods["p"]["spec"].get("nodeName")
                server.hold.set()
                await world.until(lambda pods: pods["p"]["spec"].get("nodeName"))

    asyncio.run(run())


def test_plugin_that_hangs_takes_no_other_profile_with_it() -> None:
    """scheduling.md 5: its own pods say so; pods of other profiles are bound; it is logged; later all is well."""
    sleeper = Sleeper()
    watch = Watchdog(limit=0.2, budget=0.1)
    third = ThirdParty({"Sleeper": lambda gates, args: sleeper}, watch=watch)
    document = {
        **FILE,
        "profiles": [
            {"schedulerName": "mine", "plugins": {"filter": {"enabled": [{"name": "Sleeper"}]}}},
            {"schedulerName": NAME},
        ],
    }
    profiles = profiles_of(configuration_of(document), FeatureGates(), third)

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0")
            async with world.scheduling(profiles={profile.name: profile for profile in profiles}) as found:
                await world.pod("slow", by="mine")
                pods = await world.until(lambda found: condition(found["slow"]).get("reason") == "SchedulerError")
                assert "plugin 'Sleeper': TimeoutError" in condition(pods["slow"])["message"]
                await world.pod("theirs")
                await world.until(lambda found: found["theirs"]["spec"].get("nodeName"))
                assert found.observer.metrics.trouble.labels("plugin")._value.get() >= 1
                sleeper.let_go.set()
                await world.until(lambda found: found["slow"]["spec"].get("nodeName"))
        watch.close()

    asyncio.run(run())


# -- the bind call --------------------------------------------------------------------------------------------------


def call(url: str, seconds: float = DEADLINE) -> CallExtender:
    return CallExtender(url=f"{url}/bind", body={"PodName": "p"}, seconds=seconds)


def test_bind_answer_means(server: ExtenderServer) -> None:
    """Whether it has bound is unsure only when it was asked and nothing came back that says so."""
    calls = calls_of({"urlPrefix": server.url + "/", "bindVerb": "bind"})
    server.answers["bind"] = lambda _: {}
    asyncio.run(calls.bind(call(server.url)))
    server.answers["bind"] = lambda _: {"error": "no"}
    with pytest.raises(ClientError, match=r"no$") as refused:
        asyncio.run(calls.bind(call(server.url)))
    assert not isinstance(refused.value, UnreachableError)
    server.status = 500
    with pytest.raises(UnreachableError, match="HTTP status 500"):
        asyncio.run(calls.bind(call(server.url)))
    server.status, server.hold = 200, threading.Event()
    with pytest.raises(UnreachableError, match=r"gave no answer within 0\.3 s"):
        asyncio.run(calls.bind(call(server.url, seconds=0.3)))
    calls.close()


def test_bind_that_was_never_sent_is_a_plain_failure() -> None:
    with socket.socket() as taken:  # so that no other process listens there
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ClientError, match="connection refused") as refused:
            asyncio.run(calls_of({"urlPrefix": url, "bindVerb": "bind"}).bind(call(url)))
    assert not isinstance(refused.value, UnreachableError)


# -- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extender", "path", "message"),
    [
        ({"urlPrefix": "ftp://x"}, "extenders[0].urlPrefix", "expected http://HOST"),
        ({"urlPrefix": "http://"}, "extenders[0].urlPrefix", "expected http://HOST"),
        ({"urlPrefix": "http://x:99999"}, "extenders[0].urlPrefix", "Port out of range"),
        (
            {"urlPrefix": "https://x", "tlsConfig": {"certFile": "c.pem"}},
            "extenders[0].tlsConfig",
            "a client certificate and its key go together",
        ),
        ({"urlPrefix": "https://x", "tlsConfig": {"caData": "bm9uZQ=="}}, "", "is not a PEM certificate"),
        ({"urlPrefix": "https://x", "tlsConfig": {"caFile": "/nowhere/ca.pem"}}, "", "/nowhere/ca.pem: No such file"),
    ],
)
def test_settings_that_cannot_be_used(extender: dict[str, Any], path: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        calls_of(extender)
    assert caught.value.path == path


def base64_of(data: bytes) -> str:
    return b64encode(data).decode()


TRUSTED = {"caData": base64_of(CA_PEM), "serverName": INNER}


@pytest.mark.parametrize(
    ("settings", "demand", "works"),
    [
        ({"tlsConfig": TRUSTED}, False, True),
        ({"tlsConfig": TRUSTED, "enableHTTPS": True}, False, True),
        ({"enableHTTPS": True}, False, True),
        ({"tlsConfig": {"insecure": True}}, False, True),
        ({}, False, False),
        ({"tlsConfig": {"caData": base64_of(CA_PEM)}}, False, False),
        ({"tlsConfig": TRUSTED}, True, False),
        (
            {
                "tlsConfig": {
                    **TRUSTED,
                    "certData": base64_of(pem(CLIENT)[0]),
                    "keyData": base64_of(pem(CLIENT)[1]),
                }
            },
            True,
            True,
        ),
    ],
    ids=[
        "authority and name",
        "the same with enableHTTPS",
        "enableHTTPS without an authority trusts any server, as upstream",
        "insecure",
        "an unknown authority",
        "another name",
        "no client certificate",
        "a client certificate",
    ],
)
def test_over_tls(settings: dict[str, Any], demand: bool, works: bool, tmp_path: Path) -> None:
    """tlsConfig, as upstream reads it."""
    with extender_server(server_context(tmp_path, demand=demand)) as server:
        server.answers["bind"] = lambda _: {}
        calls = calls_of({"urlPrefix": server.url, "bindVerb": "bind", "httpTimeout": "180s", **settings})
        told = CallExtender(url=f"{server.url}/bind", body={}, seconds=DEADLINE)
        if works:
            asyncio.run(calls.bind(told))
        else:
            with pytest.raises(ClientError, match=r"SSL|[Cc]ertificate|Connection"):
                asyncio.run(calls.bind(told))
        calls.close()


def test_bodies_are_those_of_what_is_there() -> None:
    """What is gone is no body any more, and takes nothing else along."""
    world = World(node("n"), pod("p"))
    item, machine = pod("p"), node("n")
    bodies = Bodies([item, machine])
    record = world.record("p")
    assert bodies.pod(record)["metadata"]["name"] == "p"
    bodies.gone(machine)
    assert bodies.pod(record)["metadata"]["name"] == "p"
    with pytest.raises(ExtenderError, match="node n"):
        bodies.node("n")
    bodies.seen(machine)
    bodies.gone(item)
    assert bodies.node("n")["metadata"]["name"] == "n"
    with pytest.raises(ExtenderError, match="pod default/p"):
        bodies.pod(record)


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt()], ids=["an error", "a stop of its own"])
def test_call_elsewhere_fails_alone(error: BaseException) -> None:
    """The serving thread goes on, unless it was a person's Ctrl-C, which the callee did not raise."""

    def fails() -> None:
        raise error

    request = _Request(fails)
    request.serve()
    with pytest.raises(type(error)):
        request.outcome.get_nowait()()


def test_call_gets_the_answer_of_its_write() -> None:
    """scheduling.md 5: the serving thread learns nothing of an answer."""
    request = _Request(lambda: 7)
    request.serve()
    assert request.outcome.get_nowait()() == 7


def test_person_s_ctrl_c_ends_the_serving_thread_as_well() -> None:
    """scheduling.md 5: what a signal raised is no plugin's error; the call raises it too."""

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)

    request = _Request(interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            request.serve()
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(KeyboardInterrupt):
        request.outcome.get_nowait()()
