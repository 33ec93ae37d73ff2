"""The scheduler on a live cluster: one engine driven by a Kubernetes API, and the execution of its decisions."""
