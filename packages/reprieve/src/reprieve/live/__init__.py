"""The scheduler on a live cluster: one engine driven by a Kubernetes API, and how its decisions are carried out."""
