"""PrioritySort: higher priority first, then first come, first served."""

from reprieve.framework.plugin import QueueSortPlugin


class PrioritySort(QueueSortPlugin):
    """The order of the active queue (scheduling.md 1): priority descending, then arrival."""

    name = "PrioritySort"

    def sort_key(self, priority: int, timestamp: float, key: str) -> tuple[float, ...]:
        return (-priority, timestamp)
