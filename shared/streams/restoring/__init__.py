"""What operators do about state after data were replaced or a clock was wrong."""
