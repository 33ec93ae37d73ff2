"""The end of a command: exit codes (interfaces.md), the one-line error, and writing to a pipe that may close.

Invariants: a command that refuses its input has written nothing to stdout; a line on stderr has at most `LONGEST_LINE`
characters, whatever names and values it quotes. No control character of an object reaches a terminal (interfaces.md
1.13): all output passes `show`, `note` or, where it has colours of our own, `show_drawn`.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from pathlib import Path
from typing import Final, NoReturn, TextIO

from kube_rules.errors import excerpt, first_lines
from kube_rules.errors import reason_of as reason_of
from kube_rules.printable import printable, printable_line

LONGEST_LINE: Final = 2000


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    """The command succeeded."""
    NOT_SO = 1
    """A condition of the command does not hold; `FAILED_WHEN` lists them."""
    BAD_INPUT = 2
    """Bad usage or bad input: a message on stderr, nothing on stdout."""
    UNREACHABLE = 3
    """The API server, or the scheduler with the decision records, cannot be reached or refuses."""
    INTERRUPTED = 130
    """Interrupted with Ctrl-C."""
    BROKEN_PIPE = 141
    """The reader of the output closed the pipe."""
    TERMINATED = 143
    """Terminated with SIGTERM."""


FAILED_WHEN: Final = {
    "plan": "--fail-on-preemption or --fail-on-pending is given, and its condition holds",
    "drain-plan": "--fail-on-preemption or --fail-on-pending is given, and its condition holds",
    "explain": "the object does not exist and no decision record names it",
    "up": "the scheduler does not become ready",
    "scheduler": "the scheduler lost the leader lease; restart it",
    "demo": "the demo ended with a result other than the expected one",
    "bench": "a scenario did not finish",
    "replay": "a policy could not be replayed to the end",
}
"""The conditions of exit code 1, by command."""


class CommandError(Exception):
    """Ends the command with one line `error: ...` on stderr and the given exit code."""

    def __init__(self, message: str, code: Exit = Exit.BAD_INPUT) -> None:
        super().__init__(" ".join(excerpt(message, LONGEST_LINE).split()))
        self.code = code


def refuse(message: str) -> NoReturn:
    """Bad usage or bad input: exit code 2."""
    raise CommandError(message)


def show(text: str) -> None:
    """Write to stdout without control characters, whatever objects contain; otherwise as `show_drawn`."""
    show_drawn(printable(text))


def show_drawn(text: str) -> None:
    """Write to stdout text with control sequences of our own; a closed pipe (`| head`) ends the process.

    Raises CommandError if writing fails, for example on a full disk.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_stdout()
        raise SystemExit(Exit.BROKEN_PIPE) from None
    except OSError as error:
        give_up_stdout()
        raise CommandError(f"the output cannot be written: {reason_of(error)}") from None


apart: Callable[[], AbstractContextManager[None]] = nullcontext
"""Removes the progress line from stderr while another line is written (`reprieve.cli.progress`)."""


def note(*lines: str) -> None:
    """Write lines for people to stderr, so that a program that reads stdout does not see them."""
    try:
        with apart():
            print("\n".join(excerpt(printable_line(line), LONGEST_LINE) for line in lines), file=sys.stderr, flush=True)
    except OSError:
        _hush(sys.stderr.fileno())


def warn(lines: Sequence[str]) -> None:
    """Write warnings of one kind to stderr; many of them are counted."""
    for line in first_lines(lines):
        note(f"warning: {line}")


def write_whole(target: Path, body: bytes, option: str = "") -> None:
    """Write a file that is not there before it is complete; exit code 2, naming the option, if that fails."""
    beside = target.with_name(f".{target.name}.new")
    try:
        beside.write_bytes(body)
        beside.replace(target)
    except OSError as error:
        refuse(f"{option}{reason_of(error)}")


def give_up_stdout() -> None:
    """Stop writing to stdout, and drop what is still buffered."""
    _hush(sys.stdout.fileno())


def _hush(descriptor: int) -> None:
    """Drop what is still buffered, so that the interpreter does not report an error when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def log_to_stderr(verbose: bool) -> None:
    """Log to stderr: warnings, or everything."""
    import logging

    from kube_rules.log_lines import PrintableFormatter

    class _SeparateLines(logging.StreamHandler[TextIO]):
        """Write log lines without mixing them with the progress line."""

        def emit(self, record: logging.LogRecord) -> None:
            with apart():
                super().emit(record)

    handler = _SeparateLines(sys.stderr)
    handler.setFormatter(PrintableFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO if verbose else logging.WARNING)
