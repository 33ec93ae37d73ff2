"""The search for the cheapest eviction that makes room for a whole group (cost.md 4)."""
