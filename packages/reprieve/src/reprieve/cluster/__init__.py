"""The cluster cache: columns, records, trial views."""
