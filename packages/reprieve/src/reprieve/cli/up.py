"""`reprieve up`: a cluster on this machine, with everything that scheduling needs and the scheduler itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kube_standin import command as standin
from reprieve.cli.apiserver import CONSOLE
from reprieve.cli.options import CompatibleOption
from reprieve.cli.outcome import CommandError, Exit, note
from reprieve.cli.progress import working

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_standin.features import Features
    from reprieve.framework.gates import FeatureGates
    from reprieve.live.local import LocalOptions


_NAMES_OF_OTHERS = ("volcano", "scheduler-plugins-scheduler")
"""Scheduler names that operators write into pods; this cluster has no other scheduler (workloads.md 3.3)."""


def command(
    data_dir: standin.DataDir = None,
    host: standin.Host = "127.0.0.1",
    port: standin.Port = 6443,
    kubeconfig: standin.Kubeconfig = None,
    read_only_kubeconfig: standin.ReadOnlyKubeconfig = None,
    nodes: standin.Nodes = 0,
    files: standin.Files = None,
    max_input_bytes: standin.MaxBytes = standin.DEFAULT_MAX_BYTES,
    lenient: standin.Lenient = False,
    kubelets: standin.Kubelets = True,
    controllers: standin.Controllers = "*",
    anonymous: standin.Anonymous = False,
    webhook_hosts: standin.WebhookHosts = None,
    webhook_service: standin.WebhookServices = None,
    emulated_version: standin.EmulatedVersion = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="A KubeSchedulerConfiguration for the scheduler.")
    ] = None,
    feature_gates: Annotated[
        str,
        typer.Option(
            metavar="A=true,B=false", help="Feature gates of the scheduler and, where they exist, of the API server."
        ),
    ] = "",
    compatible: CompatibleOption = False,
    metrics_port: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            min=0,
            max=65535,
            help="Port on which the scheduler serves /metrics and health checks; 0 picks a free port.",
        ),
    ] = 0,
    accept_loss: standin.AcceptLoss = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="Start empty: delete the state of earlier runs from the data directory.")
    ] = False,
    verbose: standin.Verbose = False,
) -> None:  # long: one parameter for each option, as typer wants them
    """Run a whole cluster on this machine.

    Runs a Kubernetes API server, simulated nodes, controllers and the scheduler until Ctrl-C or SIGTERM. Prints how to
    use kubectl when everything is ready. No acknowledged write is lost.
    """
    from kube_standin.server.control_plane import ServeOptions
    from reprieve.cli.options import read_options
    from reprieve.live.local import LocalOptions
    from reprieve.python.configuration import read_configuration

    gates = read_options(config=config, feature_gates=feature_gates).gates
    arguments = [f"--v={2 if verbose else 0}", f"--feature-gates={feature_gates}"]
    if config is not None:
        arguments.append(f"--config={config}")
    if compatible:
        arguments.append("--compatible")
    if config is None or not read_configuration(config).profiles:
        arguments.append("--scheduler-name=default-scheduler")
        arguments += [f"--also-known-as={name}" for name in _NAMES_OF_OTHERS]
    objects = standin.read_objects(files or (), max_input_bytes, CONSOLE)
    directory = data_dir if data_dir is not None else standin.default_data_dir("reprieve/up")
    serve = ServeOptions(
        data_dir=directory,
        host=host,
        port=port,
        kubeconfig=kubeconfig,
        anonymous=anonymous,
        accept_loss=accept_loss,
        controllers=controllers,
        kubelets=standin.fleet(nodes) if kubelets or nodes or standin.has_nodes(objects) else None,
        objects=objects,
        lenient=lenient,
        reset=reset,
        features=features_of(gates, standin.read_emulated(emulated_version, CONSOLE)),
        webhooks=standin.read_webhook_reach(webhook_hosts, webhook_service, CONSOLE),
        default_storage_class=True,
    )
    CONSOLE.log(verbose)
    options = LocalOptions(serve=serve, metrics_port=metrics_port, arguments=tuple(arguments), report=note)
    standin.run_serving(_run(options, read_only_kubeconfig), CONSOLE)


def features_of(gates: "FeatureGates", minor: int) -> "Features":
    """Return the features that the API server turns off with these gates of the scheduler, or in an earlier release."""
    from kube_standin.features import Features

    return Features(
        generic_workload=gates.generic_workload,
        composite_pod_group=gates.composite_pod_group,
        pod_group_preemption_policy=gates.pod_group_preemption_policy,
        dra_workload_resource_claims=gates.dra_workload_resource_claims,
        dra_device_taint_rules=gates.dra_device_taint_rules,
        workload_with_job=gates.workload_with_job,
        minor=minor,
    )


_REPORTED = {
    "nodes": "nodes",
    "pods": "pods",
    "scheduling.k8s.io/podgroups": "pod groups",
    "scheduling.k8s.io/compositepodgroups": "trees and subtrees of groups",
    "batch/jobs": "jobs",
    "apps/deployments": "deployments",
}
"""Resources that users create, with their names in a sentence."""


def _found(counts: "Mapping[str, int]") -> str:
    """Return what an earlier run left, in words; empty if users created nothing."""
    return ", ".join(f"{counts[resource]} {word}" for resource, word in _REPORTED.items() if counts.get(resource))


async def _run(options: "LocalOptions", read_only_kubeconfig: "Path | None") -> None:
    """Run until interrupted. A scheduler that refuses to run ends everything; it has reported the reason."""
    import asyncio
    from contextlib import AsyncExitStack

    from reprieve.live.local import local_cluster
    from reprieve.live.supervisor import ChildRefusedError

    async def cluster_runs() -> None:
        async with AsyncExitStack() as stack:
            with working("setting up"):
                cluster = await stack.enter_async_context(local_cluster(options))
            counts_text = _found(cluster.server.control_plane.initial_counts)
            if counts_text:
                note(f"continuing with existing data: {counts_text}; --reset starts empty")
            standin.report_loaded(cluster.server.control_plane.loaded, CONSOLE)
            standin.announce(cluster.server, read_only_kubeconfig, CONSOLE)
            note(f"the scheduler listens on {cluster.scheduler_url}")
            note(f"the page: {cluster.scheduler_url}/ui/")
            await cluster.failed

    running = asyncio.create_task(cluster_runs())
    stop = asyncio.create_task(standin.interrupted().wait())
    await asyncio.wait((stop, running), return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        note("stopping")
        running.cancel()
    stop.cancel()
    try:
        await running
    except asyncio.CancelledError:
        return
    except ChildRefusedError as error:
        raise CommandError(f"the scheduler {error}", Exit.BAD_INPUT) from None
    except TimeoutError:
        raise CommandError("the scheduler does not become ready", Exit.NOT_SO) from None
