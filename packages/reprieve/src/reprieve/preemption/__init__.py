"""Preemption: victims, spared units, and why (preemption.md)."""
