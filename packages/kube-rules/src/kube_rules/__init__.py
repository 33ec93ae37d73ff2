"""What Kubernetes objects mean: quantities, selectors, typed objects, versions and conversion, validation.

This package imports neither kube_standin nor reprieve, and does no I/O.
"""
