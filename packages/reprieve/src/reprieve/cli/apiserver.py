"""`reprieve apiserver`: `kube-standin serve`, with the output of reprieve's other commands."""

from contextlib import AbstractContextManager
from typing import NoReturn

from kube_standin.command import Console, serve_command
from reprieve.cli.outcome import log_to_stderr, note, refuse, show
from reprieve.cli.progress import working


class CommandConsole(Console):
    """Writes as all commands of reprieve do."""

    def note(self, *lines: str) -> None:
        """See `reprieve.cli.outcome.note`."""
        note(*lines)

    def show(self, text: str) -> None:
        """See `reprieve.cli.outcome.show`."""
        show(text)

    def refuse(self, message: str) -> NoReturn:
        """See `reprieve.cli.outcome.refuse`."""
        refuse(message)

    def working(self, what: str) -> AbstractContextManager[None]:
        """See `reprieve.cli.progress.working`."""
        return working(what)

    def log(self, verbose: bool) -> None:
        """See `reprieve.cli.outcome.log_to_stderr`."""
        log_to_stderr(verbose)


CONSOLE = CommandConsole()
command = serve_command(CONSOLE, "reprieve/apiserver")
