"""What people see of the scheduler: metrics, events, log lines, decision records (observability.md)."""
