"""Invariants on random clusters (scheduling.md 7, preemption.md 9)."""
