"""Tuning: find the configuration that is best in two objectives on the jobs of a trace, measured on held-out weeks.

`blocks` splits the trace, `objectives` measures a block, `search_space` applies parameters to a configuration,
`study` proposes values with Optuna, `intervals` computes confidence intervals, and `report` is the document.
"""
