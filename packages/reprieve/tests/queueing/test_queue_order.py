"""What entities are sorted by, and what is kept for that (cost.md 9.9)."""

from __future__ import annotations

from reprieve.queueing.queue_order import QueueOrder


def test_turns_of_entities_that_are_gone_are_not_kept() -> None:
    """cost.md 9.9: pods of an owner at its limit come and go for months; one that still waits has its turn in time."""
    order = QueueOrder(lambda priority, timestamp, ref: (-priority, timestamp), 0.0)
    order.put_last("pod/waits", 7.0)
    for number in range(10_000):
        order.put_last(f"pod/{number}", 1e6 + number)
        order.forget(f"pod/{number}")
    assert len(order._turns) < 1_000
    assert list(order.pop_changed(6.9)) == []
    assert list(order.pop_changed(7.0)) == ["pod/waits"]
    assert list(order.pop_changed(2e6)) == []
