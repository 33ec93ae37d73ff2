"""A pytest plugin: the fixture `kube_api` is a Kubernetes API server in the test's process, a new one for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kube_standin.api_server import ApiServer

_MARK = "kube_api"


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    text = "kube_api(...): parameters of kube_standin.ApiServer for the server of the fixture kube_api"
    config.addinivalue_line("markers", text)


@pytest.fixture
def kube_api(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """Run an API server for one test; KUBECONFIG points to its kubeconfig.

    `@pytest.mark.kube_api(nodes=2, manifests=["crd.yaml"])` sets parameters of `ApiServer`; file names are relative to
    the folder of the test. A mark on the test overrides those of its class and module.
    """
    from kube_standin.api_server import PARAMETERS, ApiServer

    wanted: dict[str, Any] = {"folder": request.path.parent}
    for mark in reversed(list(request.node.iter_markers(_MARK))):
        if mark.args:
            raise pytest.UsageError(f"pytest.mark.{_MARK}: name the argument {mark.args[0]!r}")
        wanted |= mark.kwargs
    unknown = wanted.keys() - PARAMETERS
    if unknown:
        raise pytest.UsageError(f"pytest.mark.{_MARK}: unknown argument {', '.join(sorted(unknown))}")
    with ApiServer(**wanted) as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
        yield api
