"""Which nodes take jobs, and how they stand."""
