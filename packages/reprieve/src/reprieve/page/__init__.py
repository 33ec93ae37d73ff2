"""The web page of a cluster: its document, the access rights of readers, and the file or site that shows it."""
