"""`reprieve completion SHELL`: print the script by which a shell completes commands, options and their values.

kubectl completes `kubectl reprieve` with the program `kubectl_complete-reprieve`: it passes the words that follow, with
the one to complete last, and reads one completion per line, as fish does. Without such a program, the shell completes
file names.
"""

import os
import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from reprieve.cli.outcome import show

VARIABLE = "_REPRIEVE_COMPLETE"
"""Environment variable that the shell's function sets when it requests completions."""


class Shell(StrEnum):
    """Supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def command(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.", show_default=False)],
) -> None:
    """Print the completion script of a shell.

    To enable it, add `source <(reprieve completion bash)` to ~/.bashrc.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    show(get_completion_script(prog_name="reprieve", complete_var=VARIABLE, shell=shell.value) + "\n")


def answer_shells() -> None:
    """Print completions; called only when a shell requests them."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    # Keep each description on one line regardless of the width: fish reads the next line as another completion.
    os.environ["COLUMNS"] = "1000"
    completion_init()


def ask_for_kubectl(words: Sequence[str]) -> None:
    """Print completions for the last of these words, in the format of fish."""
    before, last = words[:-1], words[-1] if words else ""
    line = f"{shlex.join(('reprieve', *before))} {shlex.quote(last) if last else ''}"
    os.environ |= {
        VARIABLE: "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": line,
    }
