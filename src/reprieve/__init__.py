"""reprieve: a Kubernetes scheduler that thinks in workloads."""
