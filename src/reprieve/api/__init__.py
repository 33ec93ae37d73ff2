"""What things are: quantities, selectors, typed objects, versions and conversion, validation, loading.

This room imports nothing from the rest of reprieve, and only `loading` does I/O.
"""
