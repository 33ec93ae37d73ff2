"""Tuning: which configuration meets two objectives best on the jobs of a trace, measured on weeks that it has not seen.

`blocks` splits the trace, `objectives` measures a block, `search_space` says what is varied and makes a configuration
of it, `study` proposes by Optuna, `intervals` says how sure the figures are, and `report` is the document.
"""
