"""The undo log by itself: calls in reverse, nothing recorded while it rewinds, nested scopes."""

from __future__ import annotations

import operator

import pytest

from reprieve.cluster.undo import UndoLog


class Counter:
    """A value for which every change records the call that changes it back, `steps` times (composite changes)."""

    def __init__(self, undo: UndoLog, steps: int = 1) -> None:
        self.undo = undo
        self.steps = steps
        self.value = 0
        self.calls: list[int] = []

    def add(self, number: int) -> None:
        """Change the value, and say how to change it back."""
        self.value += number
        self.calls.append(number)
        self.undo.record(self.add, -number)
        for _ in range(self.steps - 1):
            self.undo.record(lambda: None)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_undo_records_any_number_of_steps(steps: int) -> None:
    """A call that takes back meets `record` itself, once, often or never: the log is as long as before."""
    undo = UndoLog()
    counter = Counter(undo, steps)
    with undo.scope():
        counter.add(1)
        with undo.scope():
            counter.add(10)
            undo.record(counter.calls.append, 77)  # one that records nothing at all
        assert counter.value == 1
        counter.add(100)
    assert counter.value == 0
    assert counter.calls == [1, 10, 77, -10, 100, -100, -1]
    with undo.scope():  # nothing is left over
        pass
    assert counter.calls[-1] == -1


def test_nothing_is_recorded_outside_of_a_scope() -> None:
    """What happens outside stays."""
    undo = UndoLog()
    counter = Counter(undo)
    counter.add(1)
    assert not undo.in_trial
    with undo.scope():
        assert undo.in_trial
    assert counter.value == 1


def test_outside_of_a_scope_the_log_is_empty() -> None:
    """After a scope, and after going back to a mark: what happens then is kept nowhere."""
    undo = UndoLog()
    counter = Counter(undo)
    with undo.scope():
        counter.add(1)
        mark = undo.mark
        counter.add(2)
        assert not undo.rewinding
        undo.rewind(mark)
        assert (counter.value, undo.mark) == (1, mark)
        counter.add(4)
        assert undo.mark == mark + 1
    assert (counter.value, undo.mark, undo.rewinding) == (0, 0, False)
    counter.add(8)
    assert undo.mark == 0
    undo.rewind(0)
    counter.add(8)
    assert (counter.value, undo.mark) == (16, 0)


def test_undo_is_known() -> None:
    """`rewinding` while the calls that take back are made, and only then."""
    undo = UndoLog()
    told: list[bool] = []
    with undo.scope():
        undo.record(lambda: told.append(undo.rewinding))
        told.append(undo.rewinding)
        undo.rewind(0)
        told.append(undo.rewinding)
    assert told == [False, True, False]


def test_scope_ends_though_its_body_or_an_undoing_fails() -> None:
    """An exception leaves the log closed and usable: depth and recording are as before."""
    undo = UndoLog()
    counter = Counter(undo)

    def fail() -> None:
        with undo.scope():
            counter.add(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (counter.value, undo.in_trial) == (0, False)

    def undoing_fails() -> None:
        with undo.scope():
            undo.record(operator.truediv, 1, 0)

    with pytest.raises(ZeroDivisionError):
        undoing_fails()
    assert not undo.in_trial
    counter.add(5)
    with undo.scope():
        pass
    assert counter.value == 5
