"""The state of processors: tables of typed rows, and what changed in them."""
