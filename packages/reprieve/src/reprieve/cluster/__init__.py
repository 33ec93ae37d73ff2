"""The picture of the cluster: columns, records, trial views."""
