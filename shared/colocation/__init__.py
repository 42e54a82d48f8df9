"""What a neighbour on the same node costs, and who should have whom."""
