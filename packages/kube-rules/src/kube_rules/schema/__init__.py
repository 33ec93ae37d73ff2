"""The types of Kubernetes' own kinds, from the definitions packed with this module."""
