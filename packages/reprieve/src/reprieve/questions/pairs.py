"""Two obstacles at once: pairs of changes of which neither helps alone (whatif.md 5.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Protocol

from kube_rules.manifests import Manifests
from reprieve.decisions.outcomes import Help
from reprieve.questions.changes import InputChange

MOST_PAIRS: Final = 15
"""Pairs that are tried for one pod or group."""


@dataclass(frozen=True, slots=True)
class ChangePart:
    """One change of a pair: flags, an edit of the pods, or both. `phrase`: in a sentence, from a list of names."""

    kind: str
    phrase: Callable[[Sequence[str]], str]
    choices: tuple[tuple[str, InputChange], ...] = ()
    """Names and changes, all of which are made; fewer may do."""
    edit: Callable[[Manifests], Manifests] | None = None

    def apply(self, manifests: Manifests) -> Manifests:
        """Return the input with the edit; flags are made before."""
        return manifests if self.edit is None else self.edit(manifests)


class PairSource(Protocol):
    """What looks for changes for one pod or group."""

    def parts(self) -> list[ChangePart]:
        """The changes that are combined."""

    def works_with(self, changes: Sequence[InputChange], edits: Sequence[Callable[[Manifests], Manifests]]) -> bool:
        """Return whether it runs after these changes and edits. Raises as trials do."""


def pairs(finder: PairSource) -> Iterator[Help]:
    """The first pair of changes with which it runs, each as small as it can be. Raises as trials do."""
    tried = 0
    for first, second in combinations(finder.parts(), 2):
        if tried == MOST_PAIRS:
            return
        tried += 1
        parts = (first, second)
        chosen = [list(part.choices) for part in parts]

        def works(
            choices: Sequence[Sequence[tuple[str, InputChange]]], parts: tuple[ChangePart, ChangePart] = parts
        ) -> bool:
            changes = [change for choice in choices for _, change in choice]
            return finder.works_with(changes, [part.apply for part in parts])

        if not works(chosen):
            continue
        for turn in range(2):
            chosen[turn] = _fewest(chosen, turn, works)
        yield _help(parts, chosen)
        return


def _fewest(
    chosen: list[list[tuple[str, InputChange]]],
    turn: int,
    works: Callable[[Sequence[Sequence[tuple[str, InputChange]]]], bool],
) -> list[tuple[str, InputChange]]:
    """Return the shortest beginning of the choices of one part with which the pair still works."""
    low, high = 0, len(chosen[turn])
    while high - low > 1:
        middle = (low + high) // 2
        fewer = [each if at != turn else each[:middle] for at, each in enumerate(chosen)]
        low, high = (low, middle) if works(fewer) else (middle, high)
    return chosen[turn][:high]


def _help(parts: tuple[ChangePart, ChangePart], chosen: Sequence[Sequence[tuple[str, InputChange]]]) -> Help:
    phrases = [part.phrase([name for name, _ in each]) for part, each in zip(parts, chosen, strict=True)]
    flags = tuple(_flag(change) for each in chosen for _, change in each)
    shown = f" ({' '.join(flags[:3])}{' ...' if len(flags) > 3 else ''})" if flags else ""
    return Help(
        kind="Combination",
        parts=tuple(part.kind for part in parts),
        flags=flags,
        sentence=f"Both {phrases[0]}, and {phrases[1]}{shown}: neither alone is enough.",
    )


def _flag(change: InputChange) -> str:
    """As it is typed."""
    value = f'"{change.value}"' if " " in change.value else change.value
    return f"--{change.flag} {value}" + (f" --like {change.like}" if change.like else "")
