"""Effects of a decision, and of the state of a Workload: pure."""
