"""Pods of workloads, as the controllers of Jobs, Deployments, RayClusters and others would create them (whatif.md 1-3).

`table` has a row for every expanded kind; `rows` defines rows and reads those of users; `controllers` has the rules of
kinds for which a row does not suffice; `owners` finds existing pods; `expansion` combines them.
"""
