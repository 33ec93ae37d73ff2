"""The in-tree plugins: one module each, under the names configuration files use."""
