"""Shutters on simulated streams and on real processes."""
