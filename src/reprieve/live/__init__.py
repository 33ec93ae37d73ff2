"""The acting shell: one engine driven by a Kubernetes API, and what is done there about its decisions."""
