"""`reprieve demo`: the worked example, played on a live cluster on this machine."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from reprieve.cli.outcome import CommandError, Exit, note, show
from reprieve.cli.sections import Section, Tone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_rules.json import Json
    from reprieve.client.transport import ApiClient
    from reprieve.decisions.records import PreemptionRecord
    from reprieve.live.demo_cluster import DemoCluster
    from reprieve.simulation.demo import Act

_GPU = "nvidia.com/gpu"
_WHOLE_SECONDS = 300.0
"""Limit of the whole demo, in seconds; it takes half a minute on an idle machine. Each wait in it has its own deadline.
"""
_STOP_SECONDS = 30.0
"""Seconds for stopping everything after that limit; then the process ends itself and the scheduler."""


def command() -> None:
    """Play a worked example on a small cluster.

    Takes about half a minute, at most five minutes: a gang preempts, another cannot fit, and two gangs are scheduled
    together. The exit code is 0 only if the results are as expected.
    """
    from asyncio import CancelledError
    from tempfile import TemporaryFile

    from kube_standin.command import run_serving
    from reprieve.cli.apiserver import CONSOLE

    CONSOLE.log(False)
    with TemporaryFile() as log, _ended_by_force(_WHOLE_SECONDS + _STOP_SECONDS):
        try:
            differences = run_serving(_play_in_time(log.fileno()), CONSOLE)
        except CancelledError:
            raise typer.Exit(Exit.TERMINATED) from None
        except Exception:
            log.seek(0)
            note("the scheduler's log:", *log.read().decode(errors="replace").splitlines())
            raise
    for difference in differences:
        note(f"unexpected: {difference}")
    raise typer.Exit(Exit.NOT_SO if differences else Exit.DONE)


@contextmanager
def _ended_by_force(seconds: float) -> "Iterator[None]":
    """End this process after so many seconds, whatever it does: an event loop that hangs cannot check a deadline."""
    import os
    from threading import Timer

    def end() -> None:
        note(f"error: the demo did not end after {seconds:g} s and cannot be stopped: ended by force")
        os._exit(Exit.NOT_SO)

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


async def _play_in_time(log: int) -> list[str]:
    """Play the demo (`_play`); stop everything that it started when the time is over."""
    import asyncio
    import signal

    playing = asyncio.current_task()
    assert playing is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)  # what has begun is stopped then, too
    try:
        async with asyncio.timeout(_WHOLE_SECONDS) as whole:
            return await _play(log)
    except TimeoutError:
        if not whole.expired():
            raise
        raise CommandError(f"the demo did not end after {_WHOLE_SECONDS:g} s; stopping it", Exit.NOT_SO) from None


async def _play(log: int) -> list[str]:
    """Play all acts on a cluster of their own; its scheduler logs to a descriptor. Return unexpected outcomes."""
    from kube_standin.kubelet import KubeletOptions
    from kube_standin.server.control_plane import ServeOptions
    from reprieve.cli.terminal import show_sections
    from reprieve.client.errors import ClientError
    from reprieve.client.kubeconfig import connect
    from reprieve.client.transport import ApiClient, Limits
    from reprieve.live.demo_cluster import LateError, demo_cluster
    from reprieve.live.local import LocalOptions, local_cluster
    from reprieve.live.supervisor import ChildRefusedError
    from reprieve.simulation.demo import ACTS, nodes

    fleet = KubeletOptions(manifests=nodes(), start_seconds=0.1, stop_seconds=0.0)
    arguments = ("--scheduler-name=default-scheduler", "--v=0")
    options = LocalOptions(ServeOptions(controllers="*", kubelets=fleet), arguments=arguments, report=note, output=log)
    differences: list[str] = []
    try:
        async with local_cluster(options) as cluster:
            connection = connect(str(cluster.kubeconfig))
            async with ApiClient(connection, limits=Limits(qps=0.0)) as client, demo_cluster(client) as scene:
                show_sections([await _fill(scene)])
                for act in ACTS:
                    show("\n")
                    show_sections([Section(act.title, notes=act.story)])
                    sections, different = await _perform(act, scene, client, cluster.scheduler_url)
                    show("\n")
                    show_sections([*sections, Section("What this shows", notes=act.lesson)])
                    differences += [f"{act.title}: {difference}" for difference in different]
    except ChildRefusedError as error:
        raise CommandError(f"the scheduler {error}", Exit.NOT_SO) from None
    except (LateError, TimeoutError, ClientError) as error:
        raise CommandError(str(error) or "the scheduler does not become ready", Exit.NOT_SO) from None
    show("\n")
    for title, lines in _ways():
        show_sections([Section(title)])
        show("".join(f"  {line}\n" for line in lines))  # lines to copy are not folded
    return differences


def _ways() -> "Iterator[tuple[str, list[str]]]":
    """Yield titles of commands to try, and their lines for a shell, in order."""
    import shlex

    from reprieve.simulation.demo import ACTS, CLUSTER, DIRECTORY

    path = _path_to_program()
    plans = [" ".join(["reprieve plan", *(f"-f {file}" for file in (CLUSTER, *act.after, act.file))]) for act in ACTS]
    yield "Try it yourself", [*([path] if path else []), f"cd {shlex.quote(str(DIRECTORY))}", *plans]
    yield "The same cluster to work with, until Ctrl-C", [f"reprieve up --data-dir :memory: --port 0 -f {CLUSTER}"]
    gang = shlex.quote(str(DIRECTORY / ACTS[0].file))
    yield "In another shell, after the export that it prints", [f"kubectl apply -f {gang}", "kubectl get pods -o wide"]


def _path_to_program() -> str:
    """Return the line after which a shell finds this program by its name; empty if it finds it anyway."""
    import os
    import shlex
    import shutil
    import sys
    from pathlib import Path

    own = Path(sys.argv[0])
    if own.name != "reprieve" or not own.exists():
        own = Path(sys.executable).with_name("reprieve")
    program_on_path = shutil.which("reprieve")
    if program_on_path is not None and own.exists() and os.path.samefile(program_on_path, own):
        return ""
    if own.exists():
        return f'export PATH={shlex.quote(str(own.absolute().parent))}:"$PATH"'
    return f"alias reprieve={shlex.quote(f'{shlex.quote(sys.executable)} -m reprieve')}"


_IN_WORDS = {
    "Insufficient": "Insufficient: no node has as many GPUs free as one of its pods asks for.",
    "no new claims to "
    "deallocate": "no new claims to deallocate: no ResourceClaim holds devices that the gang could use.",
    "not eligible due to workload aware preemption enabled": "not eligible due to workload aware preemption enabled: "
    "its pods do not preempt one by one, the gang does as a whole. Here that does not help: even with all less "
    "important pods evicted, the gang does not fit as a whole.",
}
"""Explanations of parts of kube-scheduler's message."""


async def _fill(scene: "DemoCluster") -> Section:
    """Fill the cluster with pods that the scheduler places and that run."""
    from reprieve.simulation.demo import furniture, nodes, waves

    await scene.create(furniture())
    wanted: list[Json] = []
    for wave in waves():
        await scene.tick_over()
        await scene.create(wave)
        wanted += wave
        await scene.all_running(len(wanted))
    gpus = sum(int(pod.spec.containers[0].resources.requests[_GPU]) for pod in scene.running())
    total = sum(int(node["status"]["allocatable"][_GPU]) for node in nodes())
    notes = (
        f"{len(nodes())} nodes with {total} GPUs, {len(wanted)} pods running on {gpus} of them: every GPU is in use.",
        "It has a Kubernetes API, simulated kubelets, and reprieve as its scheduler.",
    )
    return Section("A cluster on this machine", notes=notes)


async def _perform(
    act: "Act", scene: "DemoCluster", client: "ApiClient", scheduler_url: str
) -> tuple[list[Section], list[str]]:
    """Create the gang of an act, wait for the expected outcome, show it, and return unexpected differences."""
    from reprieve.cli.preemption_text import decision_sections
    from reprieve.decisions.phrases import count
    from reprieve.simulation.demo import differences, objects

    before = {pod.metadata.uid for pod in scene.running()}
    scene.preempted.clear()
    foreseen = await _foreseen(act, client)
    await scene.create(objects(act.file))
    if act.scheduled:
        await scene.until(lambda: len(scene.running(*act.groups)) >= act.scheduled, f"{act.group} running")
        if act.leaves:
            await scene.until(lambda: scene.tree_is_scheduled(act.group), f"{act.group} marked as scheduled")
        victim_uids = {pod.metadata.uid for pod in scene.preempted.values()}
        await scene.until(lambda: not victim_uids & {pod.metadata.uid for pod in scene.pods()}, "the victims deleted")
    else:
        await scene.until(lambda: scene.waits(act.group) is not None, f"{act.group} marked as unschedulable")
    placed, evicted = scene.running(*act.groups), scene.units()
    different = differences(act, scheduled=len(placed), evicted=evicted)
    surviving = {pod.metadata.uid for pod in scene.running()} & before
    if surviving != before - {pod.metadata.uid for pod in scene.preempted.values()}:
        different.append("pods that were not preempted do not run any more")
    preemption = await _recorded(act, scheduler_url) or foreseen
    for named, source in ((foreseen, "the plan for the same cluster"), (preemption, "the scheduler's record")):
        units = named[1].evicted if named is not None else ()
        if {unit.unit for unit in units if unit.outcome == "Evicted"} != evicted:
            different.append(f"{source} names other victims")
    pods = count(len(scene.preempted), "pod")
    now = f"{count(len(before), 'pod')} running before, {len(scene.running())} now."
    if placed:
        title, tone = f"All {len(placed)} pods of {act.group} run.", Tone.GOOD
        notes = [f"{count(len(evicted), 'workload')} ({pods}) evicted to free capacity.", now]
    else:
        title, tone = f"{act.group} is pending: none of its {act.size} pods is placed.", Tone.WAITING
        message = scene.waits(act.group) or ""
        meanings = [meaning for part, meaning in _IN_WORDS.items() if part in message]
        notes = [message, *meanings, "No pods are evicted." if not evicted else f"{pods} evicted.", now]
    sections = [Section(title, notes=tuple(notes), tone=tone)]
    if preemption is not None and evicted:
        sections += decision_sections(f"{act.kind.lower()} {act.group}", *preemption)
    return sections, different


async def _recorded(act: "Act", scheduler_url: str) -> "tuple[int, PreemptionRecord] | None":
    """Return the scheduler's record of its decision; None if it cannot be read, or without preemption."""
    import aiohttp
    import msgspec

    from reprieve.decisions.records import DecisionRecord

    namespace, name = act.group.split("/")
    query = {"kind": act.kind, "namespace": namespace, "name": name}
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{scheduler_url}/explain", params=query) as answer:
            items = msgspec.convert((await answer.json())["items"], list[DecisionRecord])
    except (aiohttp.ClientError, KeyError, ValueError):
        return None
    return next(
        ((record.entity.priority, record.preemption) for record in items if record.preemption is not None), None
    )


async def _foreseen(act: "Act", client: "ApiClient") -> "tuple[int, PreemptionRecord] | None":
    """Return the preemption that `reprieve plan` predicts if the gang arrives; the scheduler must make the same."""
    from reprieve.client.cluster_reader import add_new, known_classes, manifests_of, read_cluster
    from reprieve.inputs.loader import load
    from reprieve.simulation.demo import DIRECTORY
    from reprieve.simulation.plan import PlanOptions, plan

    cluster = manifests_of(await read_cluster(client), client.connection.server)
    add_new(cluster, load([str(DIRECTORY / act.file)], complete=False, classes=known_classes(cluster)))
    preemptions = plan(cluster, PlanOptions(first_decision=True)).account.preemptions
    return (preemptions[0].outcome.preemptor.priority, preemptions[0].record) if preemptions else None
