"""What the distributions install, and that each starts from its wheel."""
