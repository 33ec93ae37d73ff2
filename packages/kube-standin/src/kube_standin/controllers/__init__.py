"""The controllers scheduling relies on: one table, one switch each, one task each.

``CONTROLLERS`` maps names (those of kube-controller-manager where it has them) to classes.
``ControllerSet`` runs a chosen set over one registry; ``run_controllers`` is the same as a context manager.
Everything is read from the store again at start, so a killed server goes on where it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from kube_standin.controllers.account_tokens import AccountTokens
from kube_standin.controllers.accounts import RootCertificates, ServiceAccounts
from kube_standin.controllers.aggregation import ClusterRoleAggregation
from kube_standin.controllers.autoscalers import HorizontalPodAutoscalers
from kube_standin.controllers.certificates import CertificateApprover, CertificateCleaner, CertificateSigner
from kube_standin.controllers.claims import ResourceClaims
from kube_standin.controllers.cronjobs import CronJobs
from kube_standin.controllers.daemonsets import DaemonSets
from kube_standin.controllers.deployments import Deployments
from kube_standin.controllers.devicetaints import DeviceTaintEviction
from kube_standin.controllers.disruption import Disruption
from kube_standin.controllers.endpoints import EndpointSlicesOfServices, EndpointsOfServices, MirroredEndpoints
from kube_standin.controllers.garbage import GarbageCollector
from kube_standin.controllers.groups import CompositePodGroups, PodGroups
from kube_standin.controllers.jobs import Jobs
from kube_standin.controllers.namespaces import Namespaces
from kube_standin.controllers.nodes import NodeLifecycle
from kube_standin.controllers.podgc import PodCollector
from kube_standin.controllers.policy_types import PolicyTypes
from kube_standin.controllers.provisioner import EphemeralVolumes, Provisioner, StorageProtection
from kube_standin.controllers.quotas import Quotas
from kube_standin.controllers.reconciler import Context, Controller, Times
from kube_standin.controllers.replicas import ReplicaSets, ReplicationControllers
from kube_standin.controllers.service_cidrs import ServiceAddressRepair, ServiceCIDRs
from kube_standin.controllers.sources import Sources
from kube_standin.controllers.statefulsets import StatefulSets
from kube_standin.controllers.taints import TaintEviction
from kube_standin.controllers.timers import ControllerTimers
from kube_standin.controllers.volumes import VolumeBinder
from kube_standin.registry import ObjectRegistry
from kube_standin.security import Tokens
from kube_standin.signers import CertificateAuthority

__all__ = ["CONTROLLERS", "Context", "Controller", "Controllers", "Times", "chosen", "run_controllers"]

log = logging.getLogger("reprieve.controllers")

CONTROLLERS: Mapping[str, type[Controller]] = {
    one.name: one
    for one in (
        ServiceAccounts,
        AccountTokens,
        RootCertificates,
        Namespaces,
        GarbageCollector,
        PodCollector,
        PodGroups,
        CompositePodGroups,
        ResourceClaims,
        Disruption,
        NodeLifecycle,
        TaintEviction,
        DeviceTaintEviction,
        Quotas,
        ReplicationControllers,
        ReplicaSets,
        Deployments,
        StatefulSets,
        DaemonSets,
        Jobs,
        CronJobs,
        VolumeBinder,
        Provisioner,
        EphemeralVolumes,
        StorageProtection,
        PolicyTypes,
        ClusterRoleAggregation,
        HorizontalPodAutoscalers,
        EndpointsOfServices,
        EndpointSlicesOfServices,
        MirroredEndpoints,
        ServiceCIDRs,
        ServiceAddressRepair,
        CertificateApprover,
        CertificateSigner,
        CertificateCleaner,
    )
}


def chosen(switches: str | Iterable[str] = "*") -> tuple[str, ...]:
    """Read switches as kube-controller-manager does: ``*`` all, ``job`` one, ``-job`` all but one.

    ``"-job,disruption"`` alone means all but job. ``"none"`` chooses none. Raises ValueError for unknown names.
    """
    parts = switches.split(",") if isinstance(switches, str) else list(switches)
    parts = [part.strip() for part in parts if part.strip()]
    if parts == ["none"]:
        return ()
    known = set(CONTROLLERS)
    unknown = sorted({part.lstrip("-") for part in parts} - known - {"*"})
    if unknown:
        raise ValueError(f"unknown controller {', '.join(unknown)}; known: {', '.join(CONTROLLERS)}")
    off = {part[1:] for part in parts if part.startswith("-")}
    on = {part for part in parts if not part.startswith("-")}
    every = "*" in on or not on or bool(off and not on)
    return tuple(name for name in CONTROLLERS if name not in off and (every or name in on))


class ControllerSet:
    """A set of controllers over one registry, with the sources and timers they share (also with kubelets)."""

    def __init__(
        self,
        registry: ObjectRegistry,
        names: Iterable[str] | None = None,
        *,
        times: Times | None = None,
        ca_certificate: str = "",
        authority: CertificateAuthority | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        registry.store.flush()
        self.context = Context(
            registry,
            Sources(registry.store),
            ControllerTimers(registry.clock),
            times if times is not None else Times(),
            ca_certificate,
            authority,
            tokens,
        )
        registry.chain.add(self.context.foreign_statuses)
        self.running: dict[str, Controller] = {
            name: CONTROLLERS[name](self.context) for name in (names if names is not None else CONTROLLERS)
        }
        self._tasks: list[asyncio.Task[None]] = []

    def settle(self, most: int = 10_000) -> None:
        """Fire what is due and sync every waiting key until nothing waits; for tests and tools without a loop.

        Raises RuntimeError after ``most`` rounds: something never comes to rest.
        """
        for _ in range(most):
            if not self.step():
                return
        raise RuntimeError("the controllers do not come to rest")

    def step(self) -> bool:
        """Take in changes, fire what is due and sync each waiting key once; whether there was anything to do."""
        self.context.sources.sync()
        fired = self.context.timers.fire()
        waiting = [controller for controller in self.running.values() if not controller.idle]
        return sum(controller.step() for controller in waiting) + fired > 0

    async def start(self) -> None:
        """Begin working."""
        loop = asyncio.get_running_loop()
        self.context.sources.start()
        self._tasks = [loop.create_task(self._guarded(one), name=name) for name, one in self.running.items()]
        self._tasks.append(loop.create_task(self.context.timers.run(), name="timers"))

    @staticmethod
    async def _guarded(controller: Controller) -> None:
        try:
            await controller.run()
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("controller %s ended", controller.name)
            raise

    async def stop(self) -> None:
        """Stop working; nothing is lost, since everything is read again at start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self.context.sources.stop()


@asynccontextmanager
async def run_controllers(
    registry: ObjectRegistry, switches: str = "*", *, times: Times | None = None, ca_certificate: str = ""
) -> AsyncIterator[ControllerSet]:
    """Run the chosen controllers while the context lasts."""
    controllers = ControllerSet(registry, chosen(switches), times=times, ca_certificate=ca_certificate)
    await controllers.start()
    try:
        yield controllers
    finally:
        await controllers.stop()
