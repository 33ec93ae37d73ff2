"""A pytest plugin that collects once and judges many mutants, each in a forked process: `pytest -p forked_judge`.

It is started by `mutate.py`, with the numbers of two pipes in the environment: `JUDGE_ASKED` is read, a question as
JSON on each line (`Question`), and `JUDGE_ANSWERS` is written, an answer (`Answer`) for each, after a line with the
number of tests that can judge, which says that everything is imported.  So pytest, the product and the tests are
imported once, and not for each mutant.

A mutant is made in the child by giving every function of the file its changed code: functions that were imported
by name, wrapped or kept in a table change with it.  What is run when a module is imported (constants, default
arguments, decorators) cannot be changed so; the caller judges such mutants by a process of their own.  Answers
that caches of functions hold are forgotten first, as the code as it is gave them.

A child that uses more processor time than the question allows is ended by the system: a mutant that hangs is noticed
after the same work however busy the machine is.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import json
import os
import resource
import select
import signal
import time
from types import CodeType, FunctionType
from typing import TypedDict

import pytest
from hypothesis import Phase, is_hypothesis_test, settings

ASKED, ANSWERS = "JUDGE_ASKED", "JUDGE_ANSWERS"
LIMIT = "the limit of time"


class Question(TypedDict):
    """One mutant, and its judges."""

    file: str
    """The file (absolute) as the tests import it; on disk it may be changed already."""
    before: str
    """Its text as it was imported."""
    after: str
    """Its text with the change."""
    tests: list[str]
    """Node ids, files or folders, in the order in which they are to run."""
    without: list[str]
    """Node ids of tests that are not to judge."""
    processor_seconds: float
    """The child is ended when it has used so much."""
    seconds: float
    """The child is ended when so much has passed by the clock, if it waits for what never happens."""


class Answer(TypedDict):
    """What happened to the mutant."""

    able: bool
    """Whether it can be made in a process that has imported the code as it was."""
    killer: str
    """The first test that failed, or what limit was met; "" if none did."""


def pairs(before: CodeType, after: CodeType) -> dict[CodeType, CodeType] | None:
    """Code of each function before, and what it becomes; None if they do not stand to one another."""
    of_before, of_after = ([part for part in code.co_consts if isinstance(part, CodeType)] for code in (before, after))
    if [part.co_qualname for part in of_before] != [part.co_qualname for part in of_after]:
        return None
    found: dict[CodeType, CodeType] = {}
    for old, new in zip(of_before, of_after, strict=True):
        inner = pairs(old, new)
        if inner is None or old.co_freevars != new.co_freevars:
            return None
        found.update(inner)
        found[old] = new
    return found


class _Plugin:
    """Answers instead of running what was collected."""

    def __init__(self) -> None:
        self.failed = ""
        self.functions: dict[CodeType, list[FunctionType]] = {}
        self.remembering: list[functools._lru_cache_wrapper[object]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            _without_shrinking(item)
        gc.unfreeze()  # what is frozen is not listed
        gc.collect()
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                self.functions.setdefault(found.__code__, []).append(found)
            elif isinstance(found, functools._lru_cache_wrapper):
                self.remembering.append(found)
        gc.freeze()  # a collection in a child does not touch, and so copy, what all share
        asked, answers = (int(os.environ[name]) for name in (ASKED, ANSWERS))
        with os.fdopen(asked, encoding="utf-8") as questions, os.fdopen(answers, "w", encoding="utf-8") as out:
            out.write(f"{len(session.items)}\n")  # everything is imported: sources may be changed from now on
            out.flush()
            for line in questions:
                out.write(f"{json.dumps(self.judged(json.loads(line), session.items))}\n")
                out.flush()
        return True

    def judged(self, question: Question, items: list[pytest.Item]) -> Answer:
        """Fork, and wait for the child to say which test failed."""
        before, after = (
            compile(text, question["file"], "exec", dont_inherit=True)
            for text in (question["before"], question["after"])
        )
        replaced = pairs(before, after)
        wanted = [item for item in asked_for(question["tests"], items) if item.nodeid not in question["without"]]
        if replaced is None:
            return Answer(able=False, killer="")
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.setpgid(0, 0)
                limit_processor(question["processor_seconds"])
                self.become(replaced)
                self.run(wanted)
                os.write(write, f"{self.failed}\n".encode())
            finally:
                os._exit(0)
        os.close(write)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(child, child)  # parent or child, whichever runs first
        try:
            return Answer(able=True, killer=outcome_of(child, read, question["seconds"]))
        finally:
            os.close(read)

    def become(self, replaced: dict[CodeType, CodeType]) -> None:
        """From here on the functions of the file are those of the mutant, and no result of the old ones is kept."""
        for old, new in replaced.items():
            for function in self.functions.get(old, ()):
                if function.__code__.co_filename == old.co_filename:
                    function.__code__ = new
        for cached in self.remembering:
            cached.cache_clear()

    def run(self, items: list[pytest.Item]) -> None:
        """Run until one fails; what tests print is dropped."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        for item, following in itertools.zip_longest(items, items[1:]):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return


def asked_for(tests: list[str], items: list[pytest.Item]) -> list[pytest.Item]:
    """Those with these ids, or in these files and folders, in this order."""
    by_id = {item.nodeid: item for item in items}
    found: dict[str, pytest.Item] = {}
    for test in tests:
        if test in by_id:
            found[test] = by_id[test]
        else:
            below = (f"{test.rstrip('/')}/", f"{test}::", f"{test}[")
            found.update((item.nodeid, item) for item in items if item.nodeid.startswith(below))
    return list(found.values())


def _without_shrinking(item: pytest.Item) -> None:
    """That a property fails is enough: the smallest example is for readers.

    The settings of a property are its function's; of a state machine, which has no function of its own, its class's.
    """
    test = getattr(item, "obj", None)
    if test is not None and is_hypothesis_test(test):
        function = getattr(test, "__func__", test)
        of_machine = hasattr(function, "_hypothesis_state_machine_class")
        holder, name = (item.cls, "settings") if of_machine else (function, "_hypothesis_internal_use_settings")  # type: ignore[attr-defined]
        phases = (Phase.explicit, Phase.reuse, Phase.generate)
        setattr(holder, name, settings(getattr(holder, name), phases=phases))


def limit_processor(seconds: float) -> None:
    """This process is ended by the system when it has used so much more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))


def outcome_of(child: int, read: int, seconds: float) -> str:
    """What a child reported: the test that failed, or "" for none; how it ended, if it reported nothing."""
    received, until = b"", time.monotonic() + seconds
    while not received.endswith(b"\n") and select.select([read], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(read, 65536)
        if not part:
            break
        received += part
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started goes with it
    _, status = os.waitpid(child, 0)
    if received.endswith(b"\n"):
        return received.decode().strip()
    limits = (signal.SIGXCPU, signal.SIGKILL)
    return LIMIT if os.WIFSIGNALED(status) and os.WTERMSIG(status) in limits else "the end of the process"


def pytest_configure(config: pytest.Config) -> None:
    """Where the variables are, this run judges."""
    config.pluginmanager.register(_Plugin(), "forked-judge")
