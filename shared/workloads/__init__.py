"""What the outside brings: prices of electricity over time."""
