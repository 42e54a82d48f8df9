"""What follows from a decision, and from how a Job stands: pure."""
