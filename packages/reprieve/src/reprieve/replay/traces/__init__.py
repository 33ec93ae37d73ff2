"""Public traces of GPU clusters, made into job lists (replay.md 2.6, 2.7).

A format is a module with an `Importer`; `known` has one row for each, and those that other packages name in the entry
point group `reprieve.importers`.  `trace_reader` runs them and reports an invalid row
by file, line and column.
"""
