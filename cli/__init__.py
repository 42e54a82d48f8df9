"""The `coplace` command line."""
