"""The Python API: load, change and plan a cluster; answers are values and tables.

The module also holds what commands do with a plan apart from printing it, so that both give the same answer.
"""
