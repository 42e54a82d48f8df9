"""Coplace inside a real Kueue, beside the same Kueue alone."""
