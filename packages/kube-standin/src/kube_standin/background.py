"""Background work in the server's process: controllers and simulated kubelets, started together."""

from __future__ import annotations

from dataclasses import replace

from kube_standin.controllers import ControllerSet, Times, chosen
from kube_standin.kubelet import KubeletOptions, Kubelets
from kube_standin.registry import ObjectRegistry
from kube_standin.security import Tokens
from kube_standin.signers import CertificateAuthority


class BackgroundWork:
    """The controllers and kubelets of a server. They can be stopped and started again, also on another registry.

    ``controllers`` are switches (``controllers.chosen``); None disables ``kubelets``. Raises ValueError for an unknown
    controller.
    """

    def __init__(
        self,
        *,
        controllers: str = "*",
        kubelets: KubeletOptions | None = None,
        times: Times | None = None,
        ca_certificate: str = "",
        authority: CertificateAuthority | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        self._names = chosen(controllers)
        self._options = kubelets
        self._times = times
        self._ca_certificate = ca_certificate
        self._authority = authority
        self._tokens = tokens
        self._running: ControllerSet | None = None
        self._kubelets: Kubelets | None = None

    @property
    def controllers(self) -> ControllerSet:
        """Return the running controllers. Raises RuntimeError before the start and after the end."""
        if self._running is None:
            raise RuntimeError("the controllers do not run")
        return self._running

    async def start(self, registry: ObjectRegistry) -> None:
        """Start; the first start also creates the nodes. Raises StatusError for a refused node manifest."""
        self._running = ControllerSet(
            registry,
            self._names,
            times=self._times,
            ca_certificate=self._ca_certificate,
            authority=self._authority,
            tokens=self._tokens,
        )
        if self._options is not None:
            self._kubelets = Kubelets(self._running, self._options)
            self._kubelets.begin()
            if self._options.adopt:  # a node that is deleted later is not created again
                self._options = replace(self._options, nodes=0, manifests=())
        await self._running.start()

    async def stop(self) -> None:
        """Stop; no state is lost, because everything is read again at the next start."""
        if self._kubelets is not None:
            self._kubelets.stop()
        if self._running is not None:
            await self._running.stop()
        self._kubelets = self._running = None
