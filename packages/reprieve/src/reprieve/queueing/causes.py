"""Events that open gates or free capacity, and the causes of queue state changes (scheduling.md 1)."""

from typing import Final

from reprieve.framework.events import EventKind

REGATING: Final = frozenset(
    {
        EventKind.POD_ADDED,
        EventKind.POD_PLACED,
        EventKind.POD_TERMINATING,
        EventKind.POD_GONE,
        EventKind.GROUP_ADDED,
        EventKind.GROUP_CHANGED,
        EventKind.GROUP_REMOVED,
        EventKind.GATES_REMOVED,
    }
)
"""Events after which a group may become gated or ungated."""
FREEING: Final = frozenset({EventKind.POD_GONE, EventKind.POD_CHANGED, EventKind.NODE_ADDED, EventKind.NODE_CHANGED})
"""Events that may free capacity."""

Cause = EventKind | str
"""The reason for a state change: an event, or one of the following."""
SCHEDULE_ATTEMPT_FAILURE: Final = "schedule_attempt_failure"
BACKOFF_COMPLETE: Final = "backoff_complete"
POD_UPDATED: Final = "pod_updated"
ALARM: Final = "wait_over"
RESIZE: Final = "assigned_pod_resize"
