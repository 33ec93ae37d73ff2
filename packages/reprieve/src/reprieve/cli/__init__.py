"""The commands: thin wrappers that read options, call the library and show the answer."""
