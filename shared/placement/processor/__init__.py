"""Placement of a region: its layers, the phases of a round, and what drives them."""
