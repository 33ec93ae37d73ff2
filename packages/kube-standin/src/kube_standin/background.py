"""What works beside the server in the same process: controllers and simulated kubelets, started together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kube_standin.controllers import ControllerSet, Times, chosen
from kube_standin.kubelet import KubeletOptions, Kubelets
from kube_standin.registry import ObjectRegistry


@asynccontextmanager
async def background(
    registry: ObjectRegistry,
    *,
    controllers: str = "*",
    kubelets: KubeletOptions | None = None,
    times: Times | None = None,
    ca_certificate: str = "",
) -> AsyncIterator[ControllerSet]:
    """Work while the context lasts. ``controllers`` are switches (``controllers.chosen``), no ``kubelets`` is None.

    Raises ValueError for an unknown controller and StatusError for a node manifest that is refused.
    """
    running = ControllerSet(registry, chosen(controllers), times=times, ca_certificate=ca_certificate)
    fleet = Kubelets(running, kubelets) if kubelets is not None else None
    try:
        if fleet is not None:
            fleet.begin()
        await running.start()
        yield running
    finally:
        if fleet is not None:
            fleet.stop()
        await running.stop()
