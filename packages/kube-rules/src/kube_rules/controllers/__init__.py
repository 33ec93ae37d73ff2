"""Decisions of controllers as pure functions of an owner, its dependents, and the time if it matters.

The API server's controllers (`kube_standin.controllers`) carry out the decisions as writes, a plan
(`reprieve.simulation`) in simulated time.
"""
