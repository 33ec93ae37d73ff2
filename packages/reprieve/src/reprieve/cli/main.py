"""Entry points of `reprieve`: what runs before a command, and how the process ends.

Little is imported here, so that Ctrl-C ends the process quietly from the first moment on (interfaces.md 1.14).
"""

import atexit
import gc
import os
import signal
import sys


def kubectl() -> None:
    """Run `kubectl-reprieve`, the program that kubectl starts for `kubectl reprieve`."""
    main("kubectl reprieve")


def complete_kubectl() -> None:
    """Run `kubectl_complete-reprieve`, the program that kubectl starts to complete `kubectl reprieve`."""
    from reprieve.cli.completion import ask_for_kubectl

    ask_for_kubectl(sys.argv[1:])
    main()


def main(program: str = "reprieve") -> None:
    """Run the command; end the process with one of the codes of `reprieve.cli.outcome.Exit`."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    _end_quietly_on_interrupt()
    _open_streams()
    # Decisions are made of integers, which numpy hands to no BLAS: its threads would be started, and spin, for nothing.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from reprieve.cli.commands import call
    from reprieve.cluster.garbage_collection import collect_seldom

    collect_seldom()
    atexit.register(_end)
    signal.signal(signal.SIGINT, on_interrupt)
    sys.exit(call(sys.argv[1:], program))


def _end() -> None:
    """Skip the last garbage collection, which takes a tenth of a second."""
    gc.freeze()
    _end_quietly_on_interrupt()


def _end_quietly_on_interrupt() -> None:
    """Let SIGINT end the process without a traceback, unless it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _open_streams() -> None:
    """Open all three standard streams, in UTF-8 as kubectl writes it.

    A stream that the caller has closed fails when it is used, and no file gets its descriptor; nothing is written to a
    closed stderr.
    """
    for number, name, mode in ((0, "stdin", os.O_WRONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, mode)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
