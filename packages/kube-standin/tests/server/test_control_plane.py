"""A server that is started and stopped: nothing is left open, whenever it is stopped."""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_rules.errors import Origin
from kube_rules.manifests import PlainObject
from kube_standin.bootstrap import ensure_own_objects
from kube_standin.security import Tokens
from kube_standin.server import control_plane as module
from kube_standin.server.control_plane import ControlPlane, ServeOptions, serving
from kube_standin.server.uvicorn_server import ApiUvicorn, ExpectedEnds
from kube_standin.server.watch_streams import WatchTimes
from kube_standin.storage import Store, open_log
from tests.server.inprocess import Plane, VirtualLoop, running
from tests.server.live import config_map
from tests.waiting import DEADLINE


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Every socket that had a port."""
    made: list[socket.socket] = []
    listen: Callable[[str, int], socket.socket] = module._bound

    def noted(host: str, port: int) -> socket.socket:
        made.append(listen(host, port))
        return made[-1]

    monkeypatch.setattr(module, "_bound", noted)
    return made


def test_start_that_is_cancelled_leaves_nothing_open(sockets: list[socket.socket]) -> None:
    """At whatever turn of the event loop that is."""

    async def cancelled_after(turns: int) -> bool:
        served = asyncio.Event()

        async def serve() -> None:
            async with serving(ServeOptions(tls=False)):
                served.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(serve())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return served.is_set()

    async def run() -> None:
        turns = 1
        while not await cancelled_after(turns):
            assert len(sockets) == turns
            assert sockets[-1].fileno() == -1
            turns += 1
        assert turns > 3
        assert sockets[-1].fileno() == -1

    asyncio.run(run())


def test_keys_that_cannot_be_read_leave_nothing_open(sockets: list[socket.socket], tmp_path: Path) -> None:
    (tmp_path / "pki").write_text("a file where a directory should be")

    async def run() -> None:
        with pytest.raises((OSError, ValueError)):
            async with serving(ServeOptions(data_dir=tmp_path)):
                raise AssertionError("it must not serve")

    asyncio.run(run())
    assert all(found.fileno() == -1 for found in sockets)


def test_requests_under_way_are_answered_before_it_stops() -> None:
    """And it stops as soon as they are: an open watch is ended, an idle connection closed."""

    async def run() -> None:
        async with serving(ServeOptions(tls=False)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.keys.admin_token}"
            writer.write(f"{head}\r\n\r\n".encode())
            assert b"200" in await reader.readline()
        rest = await asyncio.wait_for(reader.read(), DEADLINE)
        assert rest.endswith(b"0\r\n\r\n"), "the watch ended as it should"
        writer.close()
        await writer.wait_closed()

    asyncio.run(run())


EVENTS = "/api/v1/namespaces/default/events"


def names(plane: Plane) -> list[str]:
    return [item["metadata"]["name"] for item in plane.ask(f"GET {EVENTS}").json["items"]]


def test_objects_there_at_the_start(tmp_path: Path) -> None:
    with running() as plane:
        assert plane.plane.initial_counts == {}
    path = tmp_path / "state.db"
    with running(store=Store(open_log(path))) as plane:
        plane.ask("POST /api/v1/namespaces/default/configmaps", config_map("m"))
    with running(store=Store(open_log(path))) as plane:
        assert plane.plane.initial_counts["configmaps"] == 1
        assert plane.plane.initial_counts["namespaces"] == 4
        assert "pods" not in plane.plane.initial_counts


def test_server_is_not_ready_once_it_ends() -> None:
    with running() as plane:
        plane.run(plane.plane.start())
        assert not plane.app.stopping
    assert plane.app.stopping


def test_control_plane_needs_no_steps_of_admission() -> None:
    plane = ControlPlane(Store(), Tokens(b"key"))
    assert plane.app.options.times == WatchTimes()
    plane.store.close()


def test_defaults_of_the_options() -> None:
    """Defaults of the options, as docs/apiserver.md names them."""
    options = ServeOptions()
    assert (options.data_dir, options.host, options.port) == (":memory:", "127.0.0.1", 0)
    assert (options.tls, options.anonymous, options.power_safe, options.accept_loss) == (True, False, False, False)
    assert (options.event_ttl, options.controllers, options.kubelets) == (timedelta(hours=1), "none", None)
    assert (options.future_wait, options.lenient, options.objects) == (3.0, False, ())
    times = WatchTimes()
    assert (times.bookmark, times.shortest_default, times.farewell, times.gather) == (60.0, 1800.0, 10.0, 0.01)


def served(options: ServeOptions, look: Any) -> Any:
    """What `look` finds of a server while it serves; nothing is connected, so that no real time goes by."""

    async def run() -> Any:
        async with serving(options) as server:
            return await look(server)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_where_it_is_and_how_it_is_reached(tmp_path: Path, host: str, shown: str) -> None:
    if host == "::1" and not _has_ipv6():
        pytest.skip("this machine has no IPv6")

    async def look(server: Any) -> None:
        assert server.port > 0
        assert server.url == f"http://{shown}:{server.port}"
        assert server.control_plane.app.discovery.address == f"{shown}:{server.port}"
        assert server.kubeconfig == tmp_path / "data" / "kubeconfig"
        config = yaml.safe_load(server.kubeconfig.read_text())
        assert config["clusters"][0]["cluster"] == {"server": server.url}
        assert config["users"][0]["user"] == {"token": server.keys.admin_token}
        assert config["contexts"][0]["context"]["extensions"] == [{"name": "a", "extension": {"b": 1}}]
        assert server.ca is None

    options = ServeOptions(data_dir=tmp_path / "data", host=host, tls=False, context_extensions={"a": {"b": 1}})
    served(options, look)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_kubeconfig_may_be_elsewhere(tmp_path: Path) -> None:
    async def look(server: Any) -> Path:
        assert server.kubeconfig.exists()
        return Path(server.directory)

    where = tmp_path / "some" / "config"
    directory = served(ServeOptions(tls=False, kubeconfig=where), look)
    assert where.exists()
    assert not directory.exists(), "what is kept in memory leaves no files"


def test_certificate_is_in_the_kubeconfig_with_tls(tmp_path: Path) -> None:
    async def look(server: Any) -> None:
        assert server.url.startswith("https://")
        assert server.ca is not None
        config = yaml.safe_load(server.kubeconfig.read_text())
        packed = config["clusters"][0]["cluster"]["certificate-authority-data"]
        assert base64.b64decode(packed) == server.ca.read_bytes()

    served(ServeOptions(), look)


def test_data_directory_has_a_name() -> None:
    with pytest.raises(ValueError, match="the data directory has no name"):
        served(ServeOptions(data_dir="", tls=False), None)


def test_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: "):
            served(ServeOptions(tls=False, port=port), None)


def test_start_that_fails_leaves_a_whole_data_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What it began with is written and the file closed: nothing is staged that would be written into it later."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        served(ServeOptions(data_dir=tmp_path, tls=False, kubeconfig=tmp_path / "file" / "kubeconfig"), None)
    kept = Store(open_log(tmp_path / "state.db"))
    try:
        assert kept.get("namespaces", "", "default") is not None
    finally:
        kept.close()
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


async def idle(_server: object) -> None:
    """Look at nothing."""


@pytest.mark.parametrize("reset", [False, True])
def test_where_the_port_is_taken_nothing_is_stored_and_nothing_removed(tmp_path: Path, reset: bool) -> None:
    """interfaces.md 1.16: no state, no tokens, no certificates; what an earlier run left is there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="cannot listen on"):
            served(ServeOptions(data_dir=tmp_path / "new", port=port, reset=reset), None)
        assert list(tmp_path.iterdir()) == []
        served(ServeOptions(data_dir=tmp_path / "old", tls=False), idle)
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(OSError, match="cannot listen on"):
            served(ServeOptions(data_dir=tmp_path / "old", port=port, reset=reset), None)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_reset_removes_the_state_and_keeps_the_keys(tmp_path: Path) -> None:
    for name in ("state.db", "loaded.json", "tokens.json", "mine"):
        (tmp_path / name).write_text("")
    module._reset(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} - {"state.db-lock"} == {"tokens.json", "mine"}


def test_small_answers_go_out_at_once() -> None:
    """asyncio sets TCP_NODELAY only where the protocol of the socket is named; the address can be taken again."""
    listener = module._bound("127.0.0.1", 0)
    try:
        assert listener.proto == socket.IPPROTO_TCP
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        assert not listener.getblocking()
    finally:
        listener.close()


def test_server_that_ends_before_it_served_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: object, sockets: object) -> None:
        pass

    monkeypatch.setattr(ApiUvicorn, "serve", nothing)
    with pytest.raises(RuntimeError, match="the server ended before it served"):
        served(ServeOptions(tls=False), None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ASGI callable returned without completing response.", False),
        ("Cancel 1 running task(s), timeout graceful shutdown exceeded", False),
        ("Exception in ASGI application", True),
    ],
)
def test_connections_cut_on_purpose_are_not_reported(text: str, shown: bool) -> None:
    record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, text, (), None)
    assert ExpectedEnds().filter(record) is shown
    assert any(isinstance(one, ExpectedEnds) for one in logging.getLogger("uvicorn.error").filters)


def test_requests_that_do_not_end_are_cancelled_after_some_seconds() -> None:
    """And not before: what can end does."""

    async def look(server: Any) -> float:
        state = server._server.server_state
        hanging: asyncio.Task[Any] = asyncio.ensure_future(asyncio.Event().wait())
        state.tasks.add(hanging)
        loop = asyncio.get_running_loop()
        began = loop.time()
        server._server.stop()
        await asyncio.sleep(1)
        assert not server._task.done()
        assert server._socket.fileno() == -1, "no new connections are accepted meanwhile"
        await server._task
        await asyncio.gather(hanging, return_exceptions=True)
        assert hanging.cancelled()
        return loop.time() - began

    assert served(ServeOptions(tls=False), look) == pytest.approx(3.0, abs=0.1)


def test_without_requests_it_stops_at_once() -> None:
    async def look(server: Any) -> float:
        await asyncio.sleep(0.5)
        began = asyncio.get_running_loop().time()
        server._server.stop()
        await server._task
        return asyncio.get_running_loop().time() - began

    assert served(ServeOptions(tls=False), look) < 0.05


@pytest.mark.parametrize("number", [0, 1])
def test_objects_of_an_input_are_there_before_anything_is_served(number: int) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}
    objects = [PlainObject(manifest, Origin("in.yaml", 1))] * number

    async def look(server: Any) -> None:
        assert server.control_plane.loaded.made == number
        found = server.control_plane.store.get("configmaps", "default", "m")
        assert (found is not None) is bool(number)

    served(ServeOptions(tls=False, objects=objects), look)


def test_objects_of_every_server_come_back_when_they_are_deleted() -> None:
    """Rule: interfaces.md 4.17."""
    paths = (
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/catch-all",
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/exempt",
        "/api/v1/namespaces/default/services/kubernetes",
    )
    with running() as plane:

        async def start() -> None:
            plane.plane.base_objects.append(partial(ensure_own_objects, plane.registry, "192.0.2.1", 6443))
            plane.plane.stage_base_objects()
            await plane.plane.start()

        plane.run(start())
        for path in paths:
            assert plane.ask(f"DELETE {path}").status == 200
            assert plane.ask(f"GET {path}").status == 404
        plane.run(asyncio.sleep(11))
        assert [plane.ask(f"GET {path}").status for path in paths] == [200, 200, 200]


def test_server_restores_its_own_service() -> None:
    """A server in front of a socket also has the objects that name its address (interfaces.md 4.17)."""

    async def started_server() -> None:
        async with serving(ServeOptions(tls=False)) as server:
            plane = server.control_plane
            service = plane.registry.kind("v1", "Service")
            state = plane.registry.head(service, "default", "kubernetes")
            assert state is not None
            plane.store.delete(state)
            plane.stage_base_objects()
            assert plane.registry.head(service, "default", "kubernetes") is not None

    asyncio.run(started_server())
