"""Suggested moves of running pods that let a pending pod or group run (moving.md 3)."""

from __future__ import annotations

from collections.abc import Container, Sequence

from kube_rules.errors import names_text
from reprieve.decisions.outcomes import Help, PodMove
from reprieve.preemption.units import PreemptionUnit
from reprieve.questions.changes import InputChange
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.moves import MovePlan, UnitMove, find_moves

MOST_NAMED = 4
"""The maximum number of units and flags in a sentence."""


def move_help(engine: Engine, key: str, fixed: Container[str]) -> Help | None:
    """Return the fewest units to move to help an entity, untried. `fixed`: UIDs of pods that do not run yet."""
    entity = engine.queue.get(key)
    if entity is None or not entity.ready:
        return None

    def may_move(unit: PreemptionUnit) -> bool:
        return not any(pod.uid in fixed for pod in unit.pods)

    plan, _ = find_moves(engine.running, entity, may_move)
    if plan is None:
        return None
    return _help(engine, plan, entity.group.name if entity.group is not None else plan.places[0][0].name)


def moving(moves: Sequence[PodMove]) -> list[InputChange]:
    """Return the changes for moves of pods."""
    return [InputChange("move", f"{move.namespace}/pod/{move.name}={move.to_node}") for move in moves]


def _help(engine: Engine, plan: MovePlan, pending: str) -> Help:
    names = engine.cluster.nodes.names
    namespace = plan.places[0][0].namespace
    moves = tuple(
        PodMove(
            unit=move.unit.name,
            namespace=pod.namespace,
            name=pod.name,
            from_node=names[pod.row],
            to_node=names[row],
        )
        for move in plan.moves
        for pod, row in zip(move.unit.pods, move.rows, strict=True)
        if pod.row != row
    )
    flags = tuple(f"--move {move.namespace}/pod/{move.name}={move.to_node}" for move in moves)
    phrase = names_text([_phrase(move, names, namespace) for move in plan.moves], MOST_NAMED)
    shown = " ".join(flags[:MOST_NAMED]) + (" ..." if len(flags) > MOST_NAMED else "")
    return Help(
        kind="Move",
        amount=str(len(plan.moves)),
        moves=moves,
        flags=flags,
        sentence=f"Move {phrase}: {pending} could start; no workload loses its place ({shown}).",
    )


def _phrase(move: UnitMove, names: Sequence[str], namespace: str) -> str:
    name = move.unit.name.removeprefix(f"{namespace}/")
    before = names_text(list(dict.fromkeys(names[row] for row in move.unit.rows)))
    after = names_text(list(dict.fromkeys(names[row] for row in move.rows)))
    gang = f" ({len(move.rows)} pods)" if len(move.rows) > 1 else ""
    return f"{name}{gang} from {before} to {after}"
