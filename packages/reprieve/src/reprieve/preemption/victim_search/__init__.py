"""The search for the cheapest eviction that frees capacity for a whole group (cost.md 4)."""
