"""Pods of what makes pods: what controllers would make of Jobs, Deployments, RayClusters and the like (whatif.md 1-3).

`table` has a row for every kind that is expanded, `rows` says what a row is and reads those of users, `controllers` has
the rules of the kinds for which a row is not enough, `owners` finds which pods are there, `expansion` puts it together.
"""
