"""The types of Kubernetes' own kinds, from the definitions that are packed beside this module."""
