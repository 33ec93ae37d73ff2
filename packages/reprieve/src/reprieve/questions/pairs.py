"""Pairs of changes that help only together (whatif.md 5.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice
from typing import Final, Protocol

from kube_rules.manifests import Manifests
from reprieve.decisions.outcomes import Help
from reprieve.questions.changes import InputChange

MOST_PAIRS: Final = 15
"""The maximum number of pairs to try for one pod or group."""


@dataclass(frozen=True, slots=True)
class ChangePart:
    """One change of a pair: flags, an edit of the pods, or both. `phrase`: its text for a list of names."""

    kind: str
    phrase: Callable[[Sequence[str]], str]
    choices: tuple[tuple[str, InputChange], ...] = ()
    """Names and changes, which are applied together; fewer may suffice."""
    edit: Callable[[Manifests], Manifests] | None = None

    def apply(self, manifests: Manifests) -> Manifests:
        """Return the input with the edit; flags are applied before."""
        return manifests if self.edit is None else self.edit(manifests)


class PairSource(Protocol):
    """A source of changes for one pod or group."""

    def parts(self) -> list[ChangePart]:
        """Return the changes to combine."""

    def works_with(self, changes: Sequence[InputChange], edits: Sequence[Callable[[Manifests], Manifests]]) -> bool:
        """Return whether the pod or group runs after these changes and edits. Raises SpentError as trials do."""


def pairs(finder: PairSource) -> Iterator[Help]:
    """Yield the first pair of changes that works, each as small as possible. Raises SpentError as trials do."""
    suggestions = (_smallest(finder, parts) for parts in islice(combinations(finder.parts(), 2), MOST_PAIRS))
    yield from islice(filter(None, suggestions), 1)


def _smallest(finder: PairSource, parts: tuple[ChangePart, ChangePart]) -> Help | None:
    """Return the pair with the fewest choices of the first part, then of the second; None if it does not work."""
    chosen = [part.choices for part in parts]

    def works(turn: int, number: int) -> bool:
        choices = [choice if at != turn else choice[:number] for at, choice in enumerate(chosen)]
        return finder.works_with([change for choice in choices for _, change in choice], [part.apply for part in parts])

    if not works(0, len(chosen[0])):
        return None
    for turn in range(2):
        chosen[turn] = chosen[turn][: fewest(0, len(chosen[turn]), partial(works, turn))]
    return _help(parts, chosen)


def fewest(low: int, high: int, works: Callable[[int], bool]) -> int:
    """Return the smallest number above `low` that works, by bisection; `high`, above `low`, must work."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def _help(parts: tuple[ChangePart, ChangePart], chosen: Sequence[Sequence[tuple[str, InputChange]]]) -> Help:
    phrases = [part.phrase([name for name, _ in choices]) for part, choices in zip(parts, chosen, strict=True)]
    flags = tuple(_flag(change) for choices in chosen for _, change in choices)
    shown = f" ({' '.join(flags[:3])}{' ...' if len(flags) > 3 else ''})" if flags else ""
    return Help(
        kind="Combination",
        parts=tuple(part.kind for part in parts),
        flags=flags,
        sentence=f"Both {phrases[0]}, and {phrases[1]}{shown}: neither alone is enough.",
    )


def _flag(change: InputChange) -> str:
    """Return the flag as typed on the command line."""
    value = f'"{change.value}"' if " " in change.value else change.value
    return f"--{change.flag} {value}" + (f" --like {change.like}" if change.like else "")
