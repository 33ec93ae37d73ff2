"""What-if plans of the cluster in a separate process (page.md 8), which reads the cluster and writes nothing."""

from __future__ import annotations

import asyncio
import resource
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

MOST_BYTES: Final = 1024 * 1024
"""The largest question in bytes."""
MOST_ANSWER: Final = 64 * 1024 * 1024
_MOST_ERRORS: Final = 1024 * 1024
MOST_SECONDS: Final = 60.0
MOST_MEMORY: Final = 4 * 1024**3
"""The address space of the planning process in bytes."""
MOST_CHANGES: Final = 32
MOST_CHARACTERS: Final = 1_000
"""The largest length of a change: splitting a word takes time quadratic in its length."""
MOST_WAITING: Final = 4
PROGRAM: Final = (sys.executable, "-m", "reprieve")
CHANGES: Final = frozenset(
    (
        *("cordon", "uncordon", "drain", "remove-node", "fail", "taint", "label", "add-nodes", "like", "scale"),
        *("set-priority", "move", "without"),
    )
)
"""The options of `plan` that a question may have: changes to the input; none reads files or runs programs."""


class PlanQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request. `changes`: lines of options of `plan`."""

    manifests: str = ""
    changes: tuple[str, ...] = ()


class QuestionError(Exception):
    """Raised for an unacceptable question or response; the text states why. `status` is the HTTP status."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class PagePlans:
    """Answers questions, one at a time. `arguments`: those of `plan` that select the cluster and the configuration."""

    def __init__(
        self, arguments: Sequence[str], *, command: Sequence[str] = (sys.executable, "-m", "reprieve")
    ) -> None:
        self._arguments = tuple(arguments)
        self._command = tuple(command)
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def answer(self, body: bytes) -> bytes:
        """Return the page of the plan as JSON. Raises QuestionError."""
        try:
            question = msgspec.json.decode(body, type=PlanQuestion)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise QuestionError(f"invalid question: {error}") from None
        options = options_of(question.changes)
        if self._waiting >= MOST_WAITING:
            raise QuestionError("other plans are running; try again", 429)
        self._waiting += 1
        try:
            async with self._turn:
                return await self._plan(question, options)
        finally:
            self._waiting -= 1

    async def _plan(self, question: PlanQuestion, options: Sequence[str]) -> bytes:
        reads_files = "-f" in self._arguments
        files = ("-f", "-", *(() if reads_files else ("--live",))) if question.manifests.strip() else ()
        process = await asyncio.create_subprocess_exec(
            *(*self._command, "plan", *self._arguments, *files, *options, "-o", "page"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_set_limits,
        )
        try:
            async with asyncio.timeout(MOST_SECONDS):
                out, error = await _communicate(process, question.manifests.encode())
        except TimeoutError:
            raise QuestionError(f"the plan took longer than {MOST_SECONDS:.0f} s", 504) from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode not in (0, 1) or not out.startswith(b"{"):
            text = error.decode(errors="replace").strip()
            raise QuestionError(text[-2000:] or f"the plan ended with {process.returncode}", 422)
        return out


def options_of(lines: Sequence[str]) -> list[str]:
    """Return the options in the lines as arguments, each `--name=value`. Raises QuestionError for other options."""
    if len(lines) > MOST_CHANGES:
        raise QuestionError(f"expected at most {MOST_CHANGES} changes, found {len(lines)}")
    result: list[str] = []
    for line in lines:
        if len(line) > MOST_CHARACTERS:
            raise QuestionError(f"{line[:40]}...: expected at most {MOST_CHARACTERS} characters, found {len(line)}")
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise QuestionError(f"{line!r}: {error}") from None
        while words:
            name, equals, value = words.pop(0).partition("=")
            if not name.startswith("--") or name.removeprefix("--") not in CHANGES:
                names = ", ".join(f"--{change}" for change in sorted(CHANGES))
                raise QuestionError(f"{name}: not a change; expected one of {names}")
            if not equals:
                if not words:
                    raise QuestionError(f"{name}: a value is needed")
                value = words.pop(0)
            result.append(f"{name}={value}")
    return result


async def _communicate(process: asyncio.subprocess.Process, input_bytes: bytes) -> tuple[bytes, bytes]:
    """Write the input and return the output and errors. Raises QuestionError for an oversized output."""
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None
    assert stdout is not None
    assert stderr is not None

    async def write() -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(input_bytes)
            await stdin.drain()
        stdin.close()

    async def read(stream: asyncio.StreamReader, most: int) -> bytes:
        parts, size = [], 0
        while size <= most and (part := await stream.read(1 << 16)):
            size += len(part)
            parts.append(part)
        if size > most:
            process.kill()  # it writes no more, so the other streams end
        return b"".join(parts)

    out, error, _ = await asyncio.gather(read(stdout, MOST_ANSWER), read(stderr, _MOST_ERRORS), write())
    await process.wait()
    if len(out) > MOST_ANSWER:
        raise QuestionError(f"the answer has more than {MOST_ANSWER} bytes", 422)
    return out, error


def _set_limits() -> None:
    """Set limits in the child: the kernel stops a plan that does not end, whatever happens to this process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    most = int(MOST_SECONDS) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
