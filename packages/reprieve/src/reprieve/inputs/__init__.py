"""Input readers: files, directories, standard input and objects in memory become typed objects."""
