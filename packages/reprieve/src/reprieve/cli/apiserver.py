"""`reprieve apiserver`: `kube-standin serve`, with the output of reprieve's other commands."""

from contextlib import AbstractContextManager
from typing import NoReturn

from kube_standin.command import Console, serve_command
from reprieve.cli.outcome import log_to_stderr, note, refuse, show
from reprieve.cli.progress import working


class CommandConsole(Console):
    """The output of `kube-standin serve`, written as by all commands of reprieve."""

    def note(self, *lines: str) -> None:
        note(*lines)

    def show(self, text: str) -> None:
        show(text)

    def refuse(self, message: str) -> NoReturn:
        refuse(message)

    def working(self, what: str) -> AbstractContextManager[None]:
        return working(what)

    def log(self, verbose: bool) -> None:
        log_to_stderr(verbose)


CONSOLE = CommandConsole()
command = serve_command(CONSOLE, "reprieve/apiserver")
