"""The scheduler on a live cluster: one engine driven by a Kubernetes API, and what becomes of its decisions."""
