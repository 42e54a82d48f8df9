"""CPU time of this checkout and of another one, by turns."""
