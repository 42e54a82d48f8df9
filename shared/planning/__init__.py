"""Searches for plans, which take seconds and a solver: no part of what placement waits for."""
