"""Decision records in a database that outlives the scheduler: PostgreSQL or an SQLite file (history.md)."""
