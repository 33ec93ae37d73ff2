"""A criterion: pods beyond the quota of their team are evicted first."""

import reprieve


class Borrowed(reprieve.PreemptionCost):
    """Count the pods that run within the quota of their team."""

    name = "Borrowed"
    text = "fewest pods within their quota"
    measure = "pods"

    def of_units(self, units):
        """Return a number for each unit: a sum over its pods."""
        return units.per_unit([pod.labels.get("example.com/borrowed") != "true" for pod in units.every_pod])
