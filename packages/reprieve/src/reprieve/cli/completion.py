"""`reprieve completion SHELL`: what makes a shell complete commands, options and their values.

kubectl completes `kubectl reprieve` by the program `kubectl_complete-reprieve`: it is given the words that follow, the
last of them to be completed, and reads a line for each completion, as fish does.  Where there is none, the shell
completes names of files.
"""

import os
import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from reprieve.cli.outcome import show

VARIABLE = "_REPRIEVE_COMPLETE"
"""Set by the shell's function when it asks for completions."""


class Shell(StrEnum):
    """Shells that are known."""

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
    """Let the program answer a shell that asks; called only when one does."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    # A description is one line whatever the width: fish takes what is on the next for something else to complete.
    os.environ["COLUMNS"] = "1000"
    completion_init()


def ask_for_kubectl(words: Sequence[str]) -> None:
    """Have the program answer about these words, of which the last is to be completed, as if fish asked."""
    before, last = words[:-1], words[-1] if words else ""
    line = f"{shlex.join(('reprieve', *before))} {shlex.quote(last) if last else ''}"
    os.environ |= {
        VARIABLE: "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": line,
    }
