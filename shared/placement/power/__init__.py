"""Caps of power, what is drawn under them, and what is asked where that is too much."""
