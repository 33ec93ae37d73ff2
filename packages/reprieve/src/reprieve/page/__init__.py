"""The page that shows a cluster: its document, what a reader may see of it, and the file or site that shows it."""
