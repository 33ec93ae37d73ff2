"""Nominations that come back from the API, as against those of another scheduler (kube-scheduler: UpdatePod)."""

from __future__ import annotations

import pytest

from reprieve.scheduling.nomination_echoes import NominationEchoes

Steps = list[tuple[str, bool]]


@pytest.mark.parametrize(
    ("begun", "decided", "observed"),
    [
        (None, [], [("", False), ("n1", True), ("n1", False), ("", True)]),
        ("n1", [], [("n1", False), ("n2", True), ("n1", True)]),
        (None, ["n1"], [("", False), ("n1", False), ("n1", False), ("", True)]),
        (None, ["n1", "n2"], [("n1", False), ("", True)]),  # it has been seen since, so it is old no longer
        (None, ["n1", "n2"], [("n2", False), ("n1", True)]),
        (None, ["n1", "n1"], [("n1", False), ("n2", True)]),
        ("n1", [""], [("n1", False), ("", False), ("n1", True)]),
        (
            "n1",
            ["n2"],
            [("n3", True), ("n2", True), ("n3", True)],
        ),  # a write that was under way then counts as another scheduler's now
    ],
)
def test_nomination_echoes_and_those_of_others(begun: str | None, decided: list[str], observed: Steps) -> None:
    echoes = NominationEchoes()
    if begun is not None:
        echoes.begin("u", begun)
    for node in decided:
        echoes.record("u", node)
    assert [(node, echoes.observe("u", node)) for node, _ in observed] == observed
    assert not echoes.observe("another", "")


def test_latest_decision_stands() -> None:
    """Also before it is written; nothing is kept of deleted or bound pods."""
    echoes = NominationEchoes()
    assert not echoes.stands("u")
    for node, stands in [("n1", True), ("", False), ("n2", True)]:
        echoes.record("u", node)
        assert echoes.stands("u") is stands
    assert not echoes.stands("another")
    echoes.forget("u")
    echoes.forget("u")
    assert not echoes.stands("u")
    echoes.begin("v", "n1")
    assert echoes.stands("v")


def test_first_and_last_of_many_writes_in_flight_are_known() -> None:
    """Eight of one pod at one time: what the API had before, and what was decided last; older ones are forgotten."""
    known = NominationEchoes()
    for turn in range(7):
        known.record("u", f"n{turn}")
    assert not known.observe("u", "n0")  # seven decisions after what there was: all are known
    many = NominationEchoes()
    for turn in range(8):
        many.record("u", f"n{turn}")
    assert not many.observe("u", "")
    assert not many.observe("u", "n1")
    assert not many.observe("u", "n7")
    many = NominationEchoes()
    for turn in range(8):
        many.record("u", f"n{turn}")
    assert many.observe("u", "n0")


def test_nothing_is_kept_of_a_pod_without_a_nomination() -> None:
    """The invariant of the module: a pod that is not in it has none, and none is on its way."""
    echoes = NominationEchoes()
    echoes.record("u", "n1")
    echoes.record("u", "")
    assert not echoes.observe("u", "n1")
    assert echoes._values == {"u": ["n1", ""]}
    assert not echoes.observe("u", "")
    assert echoes._values == {}
