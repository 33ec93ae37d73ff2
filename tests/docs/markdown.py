"""Fenced blocks of a markdown page, as examples that can be run.

    ```yaml      with a first line `# NAME.yaml`: a file the other blocks use
    ```console   commands after `$ `, each followed by exactly what it prints; a line `...` stands for any lines
    ```sh        commands that must succeed, whatever they print
    ```python    a program that must succeed
    ```text      not run

`needs=trace` after the language: only where the openb trace is at hand.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.(?:yaml|yml|json))\n")


@dataclass(frozen=True)
class Block:
    language: str
    flags: tuple[str, ...]
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name of the file this block is, from its first line."""
        found = _FILE.match(self.text)
        return found.group(1) if found else None


@dataclass(frozen=True)
class Command:
    typed: str
    printed: str


def blocks(page: Path) -> list[Block]:
    """All fenced blocks, in order."""
    text = page.read_text()
    return [
        Block(found.group(1), tuple(found.group(2).split()), found.group(3), text.count("\n", 0, found.start()) + 1)
        for found in _FENCE.finditer(text)
    ]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        typed, _, printed = part.partition("\n")
        yield Command(typed, printed)


def alike(printed: str, expected: str) -> bool:
    """Whether output is as the page says; a line of three dots stands for any lines."""
    pattern = "".join(
        r"(?:.*\n)*" if line.strip() == "..." else re.escape(line) for line in expected.splitlines(keepends=True)
    )
    return re.fullmatch(pattern, printed) is not None
