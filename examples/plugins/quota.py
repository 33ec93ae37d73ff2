"""A criterion of its own: what a team has borrowed beyond its quota goes first."""

import reprieve


class Borrowed(reprieve.PreemptionCost):
    """Pods that run within their team's quota; what is borrowed goes first."""

    name = "Borrowed"
    text = "fewest pods within their quota"
    measure = "pods"

    def of_units(self, units):
        """A number for each unit: here a sum over its pods."""
        return units.per_unit([pod.labels.get("example.com/borrowed") != "true" for pod in units.every_pod])
