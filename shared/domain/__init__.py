"""Frozen, pure, unit-suffixed types: the words that every service speaks."""
