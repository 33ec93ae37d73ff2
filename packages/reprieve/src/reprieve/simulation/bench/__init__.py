"""The speed scenarios of performance.md: what they are, running one, and running many side by side."""
