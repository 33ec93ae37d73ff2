"""The benchmark scenarios of performance.md: definitions, running one, and running many."""
