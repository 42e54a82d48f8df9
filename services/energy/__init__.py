"""Learns how applications behave over the P-states of each node model."""
