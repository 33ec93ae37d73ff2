"""Decision records in a database that outlives a scheduler: PostgreSQL, or SQLite in a file (history.md)."""
