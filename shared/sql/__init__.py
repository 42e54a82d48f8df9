"""Databases of processes that keep rows beside topics."""
