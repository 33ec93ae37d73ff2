"""What controllers decide, as pure functions: of an owner, what it owns, and the time if it matters.

The API server's controllers (`kube_standin.controllers`) carry the decisions out as writes, a plan
(`reprieve.simulation`) in simulated time.
"""
