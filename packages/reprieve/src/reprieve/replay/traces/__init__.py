"""Public traces of GPU clusters, made into job lists (replay.md 2.6, 2.7).

A format is a module with an `Importer`; `known` has one row for each, and those that other packages name in the entry
point group `reprieve.importers`.  `reading` runs them: a row that makes no sense is reported by file, line and column.
"""
