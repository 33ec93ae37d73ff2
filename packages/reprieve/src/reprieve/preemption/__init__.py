"""Who must go, who is spared, and why (preemption.md)."""
