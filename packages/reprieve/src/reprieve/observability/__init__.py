"""What users see of the scheduler: metrics, events, log lines and decision records (observability.md)."""
