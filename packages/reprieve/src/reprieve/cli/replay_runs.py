"""Reading what a replay is of, and running its policies: one here, several in processes of their own.

A policy's process reads the same files again and sends back what it came to; nothing else is shared.  Ctrl-C is handed
on to all of them: each stops where it is and reports that.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from reprieve.cli.options import read_options, read_seconds
from reprieve.cli.outcome import CommandError, Exit, note, reason_of, refuse, warn

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from kube_rules import objects
    from reprieve.replay.job_list import JobList, Tolerated
    from reprieve.replay.policy_run import PolicyOutcome, Stop
    from reprieve.replay.quotas import JobQuotas
    from reprieve.replay.run_times import RunTimes
    from reprieve.replay.selection import ChosenJobs
    from reprieve.replay.world import Policy, WorldSettings

_EVERY = 0.5
"""Seconds between two reports of progress."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Task:
    """What was typed, read as far as it stands by itself."""

    jobs: Path
    cluster: tuple[str, ...]
    policies: tuple[tuple[str, str | None], ...]
    begin: str
    until: str
    load: float
    sample: int | None
    seed: int | None
    checkpoint: str
    restart: str
    failures: str
    tolerate: tuple[str, ...]
    run_times: str
    skip_bad: bool
    max_jobs: int
    max_bytes: int
    feature_gates: str
    plugins: tuple[str, ...]
    plugin_timeout: str
    timeline: bool


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """The results of the policies in their order, and messages about processes that died."""

    outcomes: "list[PolicyOutcome]"
    setting: Mapping[str, Any]
    interrupted: bool = False
    died: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Given:
    """Everything but the policy."""

    chosen: "ChosenJobs"
    cluster: "list[tuple[objects.KubernetesObject, float]]"
    settings: "WorldSettings"
    start: float
    quota_documents: list[Mapping[str, Any]]
    remarks: list[str] = field(default_factory=list)

    def quotas(self) -> "JobQuotas":
        """Their state is that of one run."""
        from kube_rules import objects
        from reprieve.replay.job_objects import terms_for
        from reprieve.replay.quotas import JobQuotaError, JobQuotas

        terms = terms_for(item for item, _ in self.cluster if isinstance(item, objects.Node))
        try:
            return JobQuotas(self.quota_documents, gpu=terms.gpu, per_gpu=terms.per_gpu)
        except JobQuotaError as error:
            refuse(f"--cluster: {error}")


def answer_of(task: Task) -> ReplayAnswer:
    """Run all policies. Whatever is wrong with the input ends the command with exit code 2."""
    with _interrupts() as interrupt:
        return _answer_of(task, interrupt)


def _answer_of(task: Task, interrupt: "_Interrupt") -> ReplayAnswer:
    began = time.monotonic()
    given = _read(task)
    for remark in given.remarks:
        note(remark)
    policies = [(name, _policy(task, config, warn=True)) for name, config in task.policies]
    _check(given)
    answer = _run_here(given, *policies[0], interrupt) if len(policies) == 1 else _run_apart(task, given, interrupt)
    note(f"simulated in {time.monotonic() - began:.1f} s")
    return answer


# -- reading -----------------------------------------------------------------------------------------------------------


def _read(task: Task) -> _Given:
    from reprieve.decisions.phrases import count
    from reprieve.replay.job_list import JobListError, read_jobs
    from reprieve.replay.selection import JobSelection, chosen

    try:
        jobs = read_jobs(task.jobs, skip_bad=task.skip_bad, max_jobs=task.max_jobs)
    except JobListError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))
    remarks = []
    if jobs.skipped:
        remarks.append(f"{count(jobs.skipped, 'invalid row')} skipped; the first: {jobs.first_problem}")
    begin = _time("--from", task.begin, jobs)
    until = _time("--until", task.until, jobs)
    picked = chosen(jobs, JobSelection(begin or 0, until, task.load, task.sample, task.seed or 0))
    if not picked.jobs:
        left_out = (
            f"; {count(jobs.skipped, 'invalid row')} skipped; the first: {jobs.first_problem}" if jobs.skipped else ""
        )
        refuse(f"{task.jobs}: no jobs to replay" + (" between --from and --until" if jobs.jobs else left_out))
    settings = _settings(task, jobs, picked)
    endless = next((job for job in picked.jobs if job.work is None), None)
    if endless is not None and settings.failures.mean_between and picked.until is None:
        refuse(f'--failures: job "{endless.name}" never ends, so nodes would fail forever: set --until')
    cluster, start, quotas, made = _cluster(task, picked)
    _check_failing_nodes(task, settings, {item.metadata.name for item, _ in cluster if type(item).KIND == "Node"})
    return _Given(picked, cluster, settings, start, quotas, remarks + made)


def _check_failing_nodes(task: Task, settings: "WorldSettings", nodes: set[str]) -> None:
    """A list of failures names nodes of the cluster."""
    from kube_rules.unknown_fields import nearest

    for name in settings.failures.listed:
        if name not in nodes:
            near = nearest(name, nodes)
            refuse(
                f"--failures: {task.failures}: the cluster has no node {name!r}"
                + (f", did you mean {near!r}?" if near else "")
            )


def _time(option: str, text: str, found: "JobList") -> int | None:
    from reprieve.replay.selection import time_of

    if not text:
        return None
    try:
        return time_of(text, found)
    except ValueError as error:
        refuse(f"{option}: {error}")


def _settings(task: Task, found: "JobList", picked: "ChosenJobs") -> "WorldSettings":
    from reprieve.replay.world import WorldSettings

    checkpoint = _long("--checkpoint", task.checkpoint) if task.checkpoint else None
    if checkpoint == 0:
        refuse("--checkpoint: expected more than 0")
    return WorldSettings(
        checkpoint=checkpoint,
        restart=_long("--restart", task.restart),
        failures=_failures(task.failures, picked.begin, dated=found.dated, faster=task.load),
        seed=task.seed,
        timeline=task.timeline,
        tolerations=_tolerations(task.tolerate),
        run_times=_run_times(task.run_times, picked),
    )


def _run_times(text: str, picked: "ChosenJobs") -> "RunTimes":
    from reprieve.replay.run_times import read_run_times

    try:
        return read_run_times(text, picked.jobs)
    except ValueError as error:
        refuse(f"--run-times {text!r}: {error}")


def _tolerations(given: tuple[str, ...]) -> "tuple[Tolerated, ...]":
    from reprieve.replay.job_list import tolerations

    try:
        return tuple(dict.fromkeys(item for text in given for item in tolerations(text)))
    except ValueError as error:
        refuse(f"--tolerate: {error}")


def _long(option: str, text: str) -> int:
    from reprieve.replay.selection import long_duration

    try:
        return long_duration(text)
    except ValueError as error:
        refuse(f"{option}: {error}")


def _failures(text: str, begin: int, *, dated: bool, faster: float) -> Any:
    from reprieve.replay.failures import Failures, read_failures
    from reprieve.replay.job_list import JobListError

    if not text:
        return Failures()
    if "=" not in text:
        try:
            return read_failures(Path(text), begin=begin, dated=dated, faster=faster)
        except JobListError as error:
            refuse(f"--failures: {error}")
        except OSError as error:
            refuse(f"--failures: {reason_of(error)}")
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    if set(parts) != {"mtbf", "repair"}:
        refuse(f"--failures {text!r}: expected mtbf=DURATION,repair=DURATION, or a file")
    between, repair = (_long(f"--failures {name}", parts[name]) for name in ("mtbf", "repair"))
    if between < 60_000:
        refuse("--failures: expected an mtbf of at least 1m")
    return Failures(between, max(1, repair))


def _cluster(
    task: Task, picked: "ChosenJobs"
) -> "tuple[list[tuple[objects.KubernetesObject, float]], float, list[Mapping[str, Any]], list[str]]":
    import msgspec

    from kube_rules import objects
    from kube_rules.errors import InputError
    from reprieve.inputs.loader import read
    from reprieve.python.inputs import Strictness, read_manifests
    from reprieve.replay.cluster_sizing import class_documents, fitting_nodes
    from reprieve.simulation.plan_inputs import starts_at

    remarks = []
    quotas: list[Mapping[str, Any]] = []
    try:
        if task.cluster:
            manifests = read_manifests(task.cluster, Strictness(), warn, max_bytes=task.max_bytes)
            quotas = [msgspec.to_builtins(loaded.object) for loaded in manifests.of(objects.ResourceQuota)]
            pending = sum(1 for pod in manifests.pods if not pod.object.spec.node_name)
            if pending:
                refuse(f"--cluster: {pending} pending pods; a cluster file may only contain running pods")
        else:
            nodes = fitting_nodes(picked.jobs)
            manifests = read([(f"<node {at}>", node) for at, node in enumerate(nodes)])
            shape = nodes[0]["status"]["allocatable"]
            held = ", ".join(f"{name} {amount}" for name, amount in shape.items())
            remarks.append(f"no --cluster: using {len(nodes)} nodes sized for the jobs (the first: {held})")
        known = {loaded.object.metadata.name for loaded in manifests.of(objects.PriorityClass)}
        made = [doc for doc in class_documents(picked.jobs) if doc["metadata"]["name"] not in known]
        classes = read([(f"<class {at}>", doc) for at, doc in enumerate(made)])
    except InputError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))
    loaded = manifests.all()
    limits = (objects.ResourceQuota, objects.LimitRange)  # quotas hold for jobs (replay.md 3.8), not for their pods
    items = [(item.object, item.created) for item in (*loaded, *classes.all()) if not isinstance(item.object, limits)]
    return items, float(round(starts_at(loaded))), quotas, remarks


def _policy(task: Task, config: str | None, *, warn: bool = False) -> "Policy":
    from reprieve.replay.world import Policy

    read_seconds("--plugin-timeout", task.plugin_timeout)
    options = read_options(
        config=config,
        feature_gates=task.feature_gates,
        plugins=task.plugins,
        plugin_timeout=task.plugin_timeout,
    )
    if warn:
        for warning in options.warnings:
            note(f"warning: {config or 'default'}: {warning}")
    timing = options.timing
    return Policy(options.profiles, options.gates, timing.initial_backoff, timing.max_backoff)


def _check(given: _Given) -> None:
    """Refuse jobs that the cluster can make nothing of before any process is started."""
    from kube_rules import objects
    from reprieve.replay.job_objects import terms_for
    from reprieve.replay.world import ReplayError, check

    nodes = [item for item, _ in given.cluster if isinstance(item, objects.Node)]
    if not nodes:
        refuse("--cluster: there are no nodes")
    classes = {i.metadata.name: i.value for i, _ in given.cluster if isinstance(i, objects.PriorityClass)}
    try:
        check(given.chosen.jobs, classes, terms_for(nodes).per_gpu)
    except ReplayError as error:
        refuse(str(error))
    for text in given.quotas().not_applied:
        note(f"warning: --cluster: not applied to jobs: {text}")


def _setting(given: _Given) -> dict[str, Any]:
    from kube_rules import objects

    chosen, settings = given.chosen, given.settings
    return {
        "jobs": len(chosen.jobs),
        "nodes": sum(1 for item, _ in given.cluster if isinstance(item, objects.Node)),
        "origin": chosen.origin,
        "until": None if chosen.until is None else chosen.until / 1000,
        "checkpointSeconds": None if settings.checkpoint is None else settings.checkpoint / 1000,
        "restartSeconds": settings.restart / 1000,
        "seed": settings.seed,
        "runTimes": str(settings.run_times),
    }


# -- running -----------------------------------------------------------------------------------------------------------


class _Interrupt:
    """Whether Ctrl-C was pressed, and what is to be done then."""

    def __init__(self) -> None:
        self.wanted = False
        self._act: Callable[[], None] = lambda: None

    def then(self, act: Callable[[], None]) -> None:
        """Do that; at once if it was pressed before."""
        self._act = act
        if self.wanted:
            act()

    def pressed(self, _signal: int, _frame: FrameType | None) -> None:
        """The handler."""
        self.wanted = True
        self._act()


@contextmanager
def _interrupts() -> Iterator[_Interrupt]:
    """Ctrl-C is a wish to see what there is so far, not an exception somewhere."""
    interrupt = _Interrupt()
    before = signal.signal(signal.SIGINT, interrupt.pressed)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def _outcome(given: _Given, name: str, policy: "Policy", stop: "Stop", progress: Progress) -> "PolicyOutcome":
    from reprieve.replay.policy_run import simulate
    from reprieve.replay.world import ReplayError

    try:
        return simulate(
            name,
            given.chosen,
            given.cluster,
            policy,
            given.settings,
            start=given.start,
            quotas=given.quotas(),
            stop=stop,
            progress=progress,
        )
    except ReplayError as error:
        raise CommandError(str(error), Exit.NOT_SO) from error


def _run_here(given: _Given, name: str, policy: "Policy", interrupt: _Interrupt) -> ReplayAnswer:
    from reprieve.replay.policy_run import Stop

    stop = Stop()
    line = _ReplayLine(1, len(given.chosen.jobs))
    interrupt.then(stop.now)
    outcome = _outcome(given, name, policy, stop, _paced(lambda done, now: line.update(0, done, now)))
    line.clear()
    return ReplayAnswer([outcome], _setting(given), interrupted=stop.wanted)


def _run_apart(task: Task, given: _Given, interrupt: _Interrupt) -> ReplayAnswer:
    """Each policy in a fresh interpreter, as many at a time as there are cores: more would only take more memory."""
    from multiprocessing import get_context, resource_tracker
    from multiprocessing.connection import wait

    context = get_context("spawn")
    # Otherwise the first process to be started starts it, and lets Ctrl-C in when that has to wait.
    resource_tracker.ensure_running()
    running: dict[Any, tuple[int, BaseProcess]] = {}

    def hand_on() -> None:
        for _, process in running.values():
            if process.pid is not None and process.is_alive():
                _hand_on(process.pid)

    outcomes: dict[int, Any] = {}
    died: dict[int, str] = {}
    line = _ReplayLine(len(task.policies), len(given.chosen.jobs))
    waiting = list(enumerate(task.policies))
    most = max(2, len(os.sched_getaffinity(0)))

    def start_next() -> None:
        number, (name, config) = waiting.pop(0)
        ours, theirs = context.Pipe(duplex=False)
        started = context.Process(target=_apart, args=(task, name, config, theirs), name=name)
        with _no_interrupts():  # until the process can make something of them
            started.start()
            running[ours] = (number, started)
        theirs.close()

    interrupt.then(hand_on)
    while running or (waiting and not interrupt.wanted):
        while waiting and len(running) < most and not interrupt.wanted:
            start_next()
        for ready in wait(list(running)):
            number, process = running[ready]
            pipe: Any = ready
            try:
                kind, content = pipe.recv()
            except (EOFError, OSError):  # it ended, or was ended while it reported
                del running[ready]
                process.join()
                if number not in outcomes and number not in died:
                    died[number] = f"policy {process.name}: its process ended {_how(process.exitcode)}"
                continue
            if kind == "progress":
                line.update(number, *content)
            elif kind == "outcome":
                outcomes[number] = content
            else:
                died[number] = f"policy {process.name}: {content}"
    line.clear()
    if waiting:
        note(f"not begun: {', '.join(name for _, (name, _) in waiting)}")
    done = [outcomes[number] for number in sorted(outcomes)]
    deaths = tuple(died[number] for number in sorted(died))
    if not done:
        raise CommandError("; ".join(deaths) or "interrupted before anything was simulated", *_code(interrupt))
    return ReplayAnswer(done, _setting(given), interrupt.wanted, deaths)


def _code(interrupt: _Interrupt) -> tuple[Exit, ...]:
    return (Exit.INTERRUPTED,) if interrupt.wanted else ()


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ctrl-C waits, here and in a process that is started, until it is wanted again."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hand_on(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGINT)
    except ProcessLookupError:
        return


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by signal {-code}"
    return f"with exit code {code}"


def _apart(task: Task, name: str, config: str | None, pipe: "Connection") -> None:
    """One policy, in its process."""
    with _interrupts() as interrupt:
        from reprieve.replay.policy_run import Stop

        stop = Stop()
        interrupt.then(stop.now)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        try:
            given = _read(task)
            report = _paced(lambda done, now: pipe.send(("progress", (done, now))))
            outcome = _outcome(given, name, _policy(task, config), stop, report)
            pipe.send(("outcome", outcome))
        except CommandError as error:
            pipe.send(("error", str(error)))
        except BrokenPipeError:
            pass  # the process that reads the reports has ended
        finally:
            pipe.close()


def _paced(report: Progress) -> Progress:
    last = time.monotonic()

    def progress(done: int, now: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            report(done, now)

    return progress


class _ReplayLine:
    """The progress line on a terminal."""

    def __init__(self, policies: int, jobs: int) -> None:
        self._done = [0] * policies
        self._jobs = jobs * policies
        self._shown = False

    def update(self, policy: int, done: int, now: int) -> None:
        """How many jobs of a policy have ended."""
        self._done[policy] = done
        if sys.stderr.isatty():
            self._shown = True
            days = now / 86_400_000
            sys.stderr.write(f"\r{sum(self._done)} of {self._jobs} jobs, day {days:.1f}\033[K")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
