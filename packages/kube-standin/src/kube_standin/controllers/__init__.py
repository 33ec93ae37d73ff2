"""The controllers that scheduling relies on: one table, one switch and one task for each.

``CONTROLLERS`` maps names (those of kube-controller-manager where it has them) to classes. ``ControllerSet`` runs
selected controllers over one registry; Controllers read all their
state from the store at start, so a restarted server continues its work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

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

__all__ = ["CONTROLLERS", "Context", "Controller", "Controllers", "Times", "chosen"]

log = logging.getLogger("reprieve.controllers")

CONTROLLERS: Mapping[str, type[Controller]] = {
    controller.name: controller
    for controller in (
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
    """Return the controllers that the switches select: ``*`` all, ``job`` one, ``-job`` all but one.

    The syntax is that of kube-controller-manager. ``"-job,disruption"`` alone selects all but job; ``"none"`` selects
    none. Raises ValueError for unknown names.
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
    """A set of controllers over one registry, and the sources and timers that they share with kubelets."""

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
        """Fire due timers and sync queued keys until none are left; for tests and tools without an event loop.

        Raises RuntimeError if work remains after ``most`` rounds.
        """
        for _ in range(most):
            if not self.step():
                return
        raise RuntimeError("the controllers do not settle")

    def step(self) -> bool:
        """Process changes, fire due timers and sync each queued key once; return whether there was any work."""
        self.context.sources.sync()
        fired = self.context.timers.fire()
        waiting = [controller for controller in self.running.values() if not controller.idle]
        return sum(controller.step() for controller in waiting) + fired > 0

    async def start(self) -> None:
        """Start the controllers."""
        loop = asyncio.get_running_loop()
        self.context.sources.start()
        self._tasks = [loop.create_task(self._guarded(runner), name=name) for name, runner in self.running.items()]
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
        """Stop the controllers; their state is read from the store again at start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self.context.sources.stop()
