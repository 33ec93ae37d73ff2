"""The Python API: a cluster is loaded, changed and planned, and answers are values and tables.

What the commands do with a plan beyond showing it is here as well, so that both give one answer.
"""
