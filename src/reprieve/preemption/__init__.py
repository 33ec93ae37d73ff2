"""Preemption: who must go, who is spared, and why (spec: preemption.md)."""
