"""What users see of a decision: events, metrics, logs, and the record that tells why."""
