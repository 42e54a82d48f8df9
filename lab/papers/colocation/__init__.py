"""Degradation of pairs, and what pairing by it gains."""
