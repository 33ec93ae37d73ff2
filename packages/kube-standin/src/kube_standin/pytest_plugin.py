"""A pytest plugin: the fixture `kube_api` is a Kubernetes API server in the test's process, a new one for each test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kube_standin.server.serving import ServeOptions

_MARK = "kube_api"
_MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class KubeAPI:
    """A server that runs: its address and the credentials of an administrator."""

    url: str
    kubeconfig: Path
    token: str
    ca: Path


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    text = "kube_api(nodes=0, manifests=(), controllers='*'): what the server of the fixture kube_api starts with"
    config.addinivalue_line("markers", text)


@pytest.fixture
def kube_api(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeAPI]:
    """Run an API server for one test; KUBECONFIG names its kubeconfig meanwhile.

    `@pytest.mark.kube_api(nodes=2, manifests=["crd.yaml"])` says what it starts with.
    """
    from kube_standin.kubelet import KubeletOptions
    from kube_standin.server.serving import ServeOptions

    wanted: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(_MARK))):
        wanted |= mark.kwargs
    unknown = wanted.keys() - {"nodes", "manifests", "controllers"}
    if unknown:
        raise pytest.UsageError(f"pytest.mark.{_MARK}: unknown argument {', '.join(sorted(unknown))}")
    options = ServeOptions(
        controllers=wanted.get("controllers", "*"),
        kubelets=KubeletOptions(nodes=wanted.get("nodes", 0)),
        objects=_objects(wanted.get("manifests", ()), request.path.parent),
    )
    with running(options) as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
        yield api


def _objects(manifests: Sequence[str | Path | Mapping[str, Any]], folder: Path) -> Sequence[Any]:
    """Return objects of files, with names relative to `folder`, and of plain data."""
    from kube_rules.documents import read_plain
    from kube_standin.manifest_files import read_files

    objects = []
    for number, manifest in enumerate(manifests):
        if isinstance(manifest, Mapping):
            objects += read_plain([(f"<manifest {number}>", manifest)], _MOST_BYTES)
        else:
            objects += read_files([folder / manifest], _MOST_BYTES)
    return objects


@contextmanager
def running(options: ServeOptions) -> Iterator[KubeAPI]:
    """Run a server on an event loop in a thread of its own; it is ready, with its nodes, when the block begins."""
    import asyncio
    import threading
    from concurrent.futures import Future

    from kube_standin.server.serving import serving

    ready: Future[KubeAPI] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        try:
            async with serving(options) as server:
                while options.kubelets and server.control_plane.store.count("nodes") < options.kubelets.nodes:
                    await asyncio.sleep(0.002)
                assert server.ca is not None
                ready.set_result(KubeAPI(server.url, server.kubeconfig, server.keys.admin_token, server.ca))
                await stop.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, name="kube-api", daemon=True)
    thread.start()
    try:
        yield ready.result()
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)
        thread.join()
